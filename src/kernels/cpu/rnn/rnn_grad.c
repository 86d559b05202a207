/* kernels/cpu/rnn/rnn_grad.c: a recurrent layer backwards in one direction; see rnn.h. From the last step to the first
 * the cell's tile program gives the gradients of the gates' sums, and one product with the recurrent weights the
 * gradient of the state before. Gradients of sums are laid out as the rows of x, those of rows that were over as 0, so
 * that dx, dw and dr are one product each over all steps. Biases and peepholes are summed in double, row after row. */
#include "kernels/cpu/rnn/rnn.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/gemm/gemm.h"

#include <string.h>

typedef struct back {
    const nck_rnn_grad_args *g;
    const nck_rnn_args *a;
    int64_t G, K, es;
    bool before; /* GRU with linear_before_reset */
    char *dg;    /* (T*B, G*H): of the gates' sums */
    char *dgr;   /* the same, as the recurrent weights see it; dg itself but for `before` */
    char *hp;    /* (T*B, H): the states that the products saw */
    char *rh;    /* the same times r, for GRU's hidden gate; hp with `before` */
    char *step;  /* (B, G*H): one step's dg, dgr */
    char *step_r;
    char *dh, *dc, *dh_new, *dc_new, *drh; /* (B,H) */
    char *zeros;                           /* (B,H) */
    char *r_pack[2];                       /* recurrent weights of all gates; GRU: of z and r, of h */
    double *sums;                          /* (2*G*H + 3*H) */
    void *gemm;
    nc_pool *pool;
} back;

static char *rnn_grad_take(char **at, size_t bytes) {
    char *p = *at;
    *at += nc_align64(bytes);
    return p;
}

/* Rows of the two packed parts of the recurrent weights. */
static void pack_rows(nck_rnn_kind kind, int64_t H, int64_t *n) {
    n[0] = kind == NCK_GRU ? 2 * H : nck_rnn_gates(kind) * H;
    n[1] = kind == NCK_GRU ? H : 0;
}

static size_t most_gemm(const back *k, nc_dtype type, int64_t T, int64_t B, int64_t I, int64_t H) {
    int64_t GH = k->G * H;
    size_t dx = nck_gemm_workspace(type, T * B, I, GH, false), dw = nck_gemm_workspace(type, GH, I, T * B, false);
    size_t dr = nck_gemm_workspace(type, GH, H, T * B, false), step = nck_gemm_workspace(type, B, H, GH, true);
    return nc_max_size(nc_max_size(dx, dw), nc_max_size(dr, step));
}

/* Lays out the workspace from `at` on; returns its bytes. */
static size_t rnn_grad_lay_out(back *k, nck_rnn_kind kind, nc_dtype type, int64_t T, int64_t B, int64_t I, int64_t H,
                               char *at) {
    char *start = at;
    int64_t n[2];
    k->G = nck_rnn_gates(kind);
    k->K = nck_rnn_kept(kind);
    k->es = (int64_t)nc_dtype_bytes(type);
    size_t row = (size_t)(H * k->es), gates = (size_t)k->G * row, states = (size_t)B * row, rows = (size_t)(T * B);
    bool gru = kind == NCK_GRU;
    k->dg = rnn_grad_take(&at, rows * gates);
    k->hp = rnn_grad_take(&at, rows * row);
    k->step = rnn_grad_take(&at, (size_t)B * gates);
    k->dgr = gru ? rnn_grad_take(&at, rows * gates) : k->dg;
    k->rh = gru ? rnn_grad_take(&at, rows * row) : k->hp;
    k->step_r = gru ? rnn_grad_take(&at, (size_t)B * gates) : k->step;
    char **state[] = {&k->dh, &k->dc, &k->dh_new, &k->dc_new, &k->drh, &k->zeros};
    for (size_t i = 0; i < sizeof state / sizeof state[0]; i++) *state[i] = rnn_grad_take(&at, states);
    pack_rows(kind, H, n);
    for (int i = 0; i < 2; i++) k->r_pack[i] = rnn_grad_take(&at, nck_gemm_packed_b_bytes(type, n[i], H));
    k->sums = (double *)(void *)rnn_grad_take(&at, (size_t)(2 * k->G * H + 3 * H) * sizeof(double));
    k->gemm = rnn_grad_take(&at, most_gemm(k, type, T, B, I, H));
    return (size_t)(at - start);
}

size_t nck_rnn_grad_workspace(nck_rnn_kind kind, nc_dtype type, int64_t T, int64_t B, int64_t I, int64_t H) {
    back k;
    static char origin;
    return rnn_grad_lay_out(&k, kind, type, T, B, I, H, &origin);
}

/* ---- one step ---- */

static int64_t rnn_grad_time(const nck_rnn_args *a, int64_t s, int64_t b) {
    int64_t n = a->lens ? a->lens[b] : a->T;
    return s >= n ? -1 : a->reverse ? n - 1 - s : s;
}

static int64_t x_row(const nck_rnn_args *a, int64_t t, int64_t b) {
    return a->batch_first ? b * a->T + t : t * a->B + b;
}

/* An operand of a cell's program: (B,H), its rows so far apart. */
typedef struct cell_rows {
    const char *data;
    int64_t stride;
} cell_rows;

static cell_rows part(const void *p, int64_t row_stride) { return (cell_rows){p, row_stride}; }

static void back_run(const back *k, const nck_rnn_prog *p, const cell_rows *in, const cell_rows *out) {
    nc_tensor t[NCK_RNN_MAX_IN + NCK_RNN_MAX_OUT];
    const nc_tensor *p_in[NCK_RNN_MAX_IN];
    for (int i = 0; i < p->n_tensors + p->n_out; i++) {
        const cell_rows *o = i < p->n_tensors ? &in[i] : &out[i - p->n_tensors];
        nc_tensor_set(&t[i], (void *)(uintptr_t)o->data, k->a->type, 2);
        t[i].dims[0] = k->a->B, t[i].dims[1] = k->a->H;
        t[i].strides[0] = o->stride, t[i].strides[1] = 1;
        if (i < p->n_tensors) p_in[i] = &t[i];
    }
    nck_rnn_prog_run(p, p_in, t + p->n_tensors, k->pool);
}

static cell_rows kept(const back *k, int64_t s, int64_t i) {
    int64_t H = k->a->H;
    return part((const char *)k->a->kept + (s * k->a->B * k->K + i) * H * k->es, k->K * H);
}

/* Value i of the step before s, or what was there at the start. */
static cell_rows kept_before(const back *k, int64_t s, int64_t i, const void *start) {
    if (s > 0) return kept(k, s - 1, i);
    return start != NULL ? part(start, k->a->state_rs) : part(k->zeros, k->a->H);
}

static cell_rows gate_grad(const back *k, char *step, int64_t i) {
    return part(step + i * k->a->H * k->es, k->G * k->a->H);
}

/* c (B,H) = beta * c + rows [first, ...) of a step's gradients times packed weights */
static void back_product(const back *k, const char *step, int64_t first, int i_pack, char *c, double beta) {
    int64_t n[2], H = k->a->H;
    pack_rows(k->a->cell->rule.kind, H, n);
    nck_gemm(&(nck_gemm_args){.type = k->a->type,
                              .M = k->a->B,
                              .N = H,
                              .K = n[i_pack],
                              .alpha = 1,
                              .beta = beta,
                              .a = step + first * H * k->es,
                              .a_rs = k->G * H,
                              .a_cs = 1,
                              .b_packed = k->r_pack[i_pack],
                              .c = c,
                              .c_rs = H,
                              .c_cs = 1},
             k->gemm, k->pool);
}

static void back_gru(const back *k, int64_t s, cell_rows h) {
    const nck_rnn_cell_grad *cell = k->g->cell;
    cell_rows dh = part(k->dh, k->a->H), next = part(k->dh_new, k->a->H), drh = part(k->drh, k->a->H);
    cell_rows z = gate_grad(k, k->step, 0), r = gate_grad(k, k->step, 1), n = gate_grad(k, k->step, 2);
    if (k->before) {
        cell_rows rec = gate_grad(k, k->step_r, 2);
        back_run(k, &cell->step, (cell_rows[]){kept(k, s, 0), kept(k, s, 2), h, dh, kept(k, s, 1), kept(k, s, 3)},
                 (cell_rows[]){z, n, next, r, rec});
        for (int64_t b = 0; b < k->a->B; b++) {
            int64_t at = b * k->G * k->a->H * k->es;
            memcpy(k->step_r + at, k->step + at, (size_t)(2 * k->a->H * k->es));
        }
        back_product(k, k->step_r, 2, 1, k->dh_new, 1);
    } else {
        back_run(k, &cell->first, (cell_rows[]){kept(k, s, 0), kept(k, s, 2), h, dh}, (cell_rows[]){z, n, next});
        back_product(k, k->step, 2, 1, k->drh, 0);
        back_run(k, &cell->step, (cell_rows[]){kept(k, s, 1), h, drh, next}, (cell_rows[]){r, next});
    }
    back_product(k, k->before ? k->step_r : k->step, 0, 0, k->dh_new, 1);
}

static void back_step(const back *k, int64_t s) {
    const nck_rnn_args *a = k->a;
    int64_t H = a->H;
    cell_rows h = kept_before(k, s, k->K - 1, a->h0), dh = part(k->dh, H);
    if (a->cell->rule.kind == NCK_GRU) {
        back_gru(k, s, h);
        return;
    }
    cell_rows in[NCK_RNN_MAX_IN] = {kept(k, s, 0), dh}, out[NCK_RNN_MAX_OUT];
    for (int i = 0; i < k->G; i++) out[i] = gate_grad(k, k->step, i);
    if (a->cell->rule.kind == NCK_LSTM) {
        for (int i = 0; i < 4; i++) in[i] = kept(k, s, i);
        in[4] = kept_before(k, s, 4, a->c0);
        in[5] = kept(k, s, 4);
        in[6] = dh;
        in[7] = part(k->dc, H);
        for (int i = 0; a->cell->rule.peepholes && i < 3; i++)
            in[8 + i] = part((const char *)a->p + i * H * k->es, 0);
        out[4] = part(k->dc_new, H);
    }
    back_run(k, &k->g->cell->step, in, out);
    back_product(k, k->step, 0, 0, k->dh_new, 0);
}

/* Adds what arrives at the outputs of step s. */
static void add_dy(const back *k, int64_t s) {
    const nck_rnn_args *a = k->a;
    for (int64_t b = 0; k->g->dy != NULL && b < a->B; b++) {
        int64_t t = rnn_grad_time(a, s, b), from = t * a->y_t + b * a->y_b, to = b * a->H;
        for (int64_t j = 0; t >= 0 && j < a->H; j++)
            if (a->type == NC_FLOAT)
                ((float *)(void *)k->dh)[to + j] += ((const float *)k->g->dy)[from + j];
            else
                ((double *)(void *)k->dh)[to + j] += ((const double *)k->g->dy)[from + j];
    }
}

static void put_row(char *to, int64_t row, const char *from, size_t bytes) {
    if (from != NULL)
        memcpy(to + row * (int64_t)bytes, from, bytes);
    else
        memset(to + row * (int64_t)bytes, 0, bytes);
}

/* Takes the step over: rows that were over keep their gradients and have none of sums. */
static void take_over(const back *k, int64_t s) {
    const nck_rnn_args *a = k->a;
    size_t row = (size_t)(a->H * k->es), gates = (size_t)k->G * row;
    cell_rows h = kept_before(k, s, k->K - 1, a->h0), rec = kept(k, s, 3);
    for (int64_t b = 0; b < a->B; b++) {
        int64_t t = rnn_grad_time(a, s, b), to = x_row(a, t < 0 ? s : t, b), at = b * (int64_t)gates;
        bool runs = t >= 0;
        put_row(k->dg, to, runs ? k->step + at : NULL, gates);
        put_row(k->hp, to, runs ? h.data + b * h.stride * k->es : NULL, row);
        if (k->before) put_row(k->dgr, to, runs ? k->step_r + at : NULL, gates);
        if (k->rh != k->hp) put_row(k->rh, to, runs ? rec.data + b * rec.stride * k->es : NULL, row);
        if (!runs) continue;
        put_row(k->dh, b, k->dh_new + b * (int64_t)row, row);
        if (k->G == 4) put_row(k->dc, b, k->dc_new + b * (int64_t)row, row);
    }
}

/* ---- all steps ---- */

static void load_state(const back *k, char *to, const void *from) {
    size_t row = (size_t)(k->a->H * k->es);
    for (int64_t b = 0; b < k->a->B; b++)
        put_row(to, b, from != NULL ? (const char *)from + b * k->a->state_rs * k->es : NULL, row);
}

static void store_state(const back *k, void *to, const char *from) {
    size_t row = (size_t)(k->a->H * k->es);
    for (int64_t b = 0; to != NULL && b < k->a->B; b++)
        memcpy((char *)to + b * k->a->state_rs * k->es, from + b * (int64_t)row, row);
}

/* out (M,N) = columns [first, first + M) of d, transposed, times rows (T*B, N) */
static void weight_product(const back *k, const char *d, int64_t first, int64_t M, const void *rows, int64_t N,
                           void *out) {
    int64_t GH = k->G * k->a->H;
    if (out == NULL) return;
    nck_gemm(&(nck_gemm_args){.type = k->a->type,
                              .M = M,
                              .N = N,
                              .K = k->a->T * k->a->B,
                              .alpha = 1,
                              .a = d + first * k->es,
                              .a_rs = 1,
                              .a_cs = GH,
                              .b = rows,
                              .b_rs = N,
                              .b_cs = 1,
                              .c = (char *)out + first * N * k->es,
                              .c_rs = N,
                              .c_cs = 1},
             k->gemm, k->pool);
}

static void weight_grads(const back *k) {
    const nck_rnn_args *a = k->a;
    const nck_rnn_grad_args *g = k->g;
    int64_t H = a->H, GH = k->G * H;
    weight_product(k, k->dg, 0, GH, a->x, a->I, g->dw);
    weight_product(k, k->dgr, 0, k->G == 3 ? 2 * H : GH, k->hp, H, g->dr);
    if (k->G == 3) weight_product(k, k->dgr, 2 * H, H, k->rh, H, g->dr);
    if (g->dx == NULL) return;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = a->T * a->B,
                              .N = a->I,
                              .K = GH,
                              .alpha = 1,
                              .beta = g->adds,
                              .a = k->dg,
                              .a_rs = GH,
                              .a_cs = 1,
                              .b = a->w,
                              .b_rs = a->I,
                              .b_cs = 1,
                              .c = g->dx,
                              .c_rs = a->I,
                              .c_cs = 1},
             k->gemm, k->pool);
}

static void bias_grads(const back *k) {
    const nck_rnn_args *a = k->a;
    int64_t GH = k->G * a->H, rows = a->T * a->B;
    if (k->g->db == NULL) return;
    memset(k->sums, 0, (size_t)(2 * GH) * sizeof *k->sums);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < GH; j++) {
            k->sums[j] += nc_real_get(a->type, k->dg, i * GH + j);
            k->sums[GH + j] += nc_real_get(a->type, k->dgr, i * GH + j);
        }
    for (int64_t j = 0; j < 2 * GH; j++) nc_real_put(a->type, k->g->db, j, k->sums[j]);
}

/* dP of i and f by the cell before the step, of o by that behind it. */
static void peephole_grads(const back *k) {
    const nck_rnn_args *a = k->a;
    int64_t H = a->H;
    double *sums = k->sums + 2 * k->G * H;
    if (k->g->dp == NULL) return;
    memset(sums, 0, (size_t)(3 * H) * sizeof *sums);
    for (int64_t s = 0; s < a->T; s++) {
        cell_rows before = kept_before(k, s, 4, a->c0), behind = kept(k, s, 4);
        for (int64_t b = 0; b < a->B; b++) {
            int64_t t = rnn_grad_time(a, s, b), row = t < 0 ? 0 : x_row(a, t, b) * k->G * H;
            for (int64_t j = 0; t >= 0 && j < H; j++)
                for (int64_t i = 0; i < 3; i++) {
                    const cell_rows *c = i == 1 ? &behind : &before;
                    sums[i * H + j] += nc_real_get(a->type, k->dg, row + i * H + j) *
                                       nc_real_get(a->type, c->data, b * c->stride + j);
                }
        }
    }
    for (int64_t j = 0; j < 3 * H; j++) nc_real_put(a->type, k->g->dp, j, sums[j]);
}

static void pack_weights(const back *k) {
    const nck_rnn_args *a = k->a;
    int64_t n[2];
    pack_rows(a->cell->rule.kind, a->H, n);
    for (int i = 0; i < 2; i++) {
        const char *r = (const char *)a->r + (i ? n[0] * a->H * k->es : 0);
        nck_gemm_pack_b(a->type, n[i], a->H, r, a->H, 1, k->r_pack[i]);
    }
}

void nck_rnn_grad(const nck_rnn_grad_args *g, void *workspace, nc_pool *pool) {
    const nck_rnn_args *a = g->a;
    back k = {.g = g, .a = a, .pool = pool};
    rnn_grad_lay_out(&k, a->cell->rule.kind, a->type, a->T, a->B, a->I, a->H, workspace);
    k.before = k.G == 3 && a->cell->rule.linear_before_reset;
    if (!k.before) k.dgr = k.dg, k.step_r = k.step;
    if (k.before) k.rh = k.hp;
    load_state(&k, k.zeros, NULL);
    load_state(&k, k.dh, g->dy_h);
    load_state(&k, k.dc, g->dy_c);
    pack_weights(&k);
    for (int64_t s = a->T - 1; s >= 0 && a->B > 0 && a->H > 0; s--) {
        add_dy(&k, s);
        back_step(&k, s);
        take_over(&k, s);
    }
    weight_grads(&k);
    bias_grads(&k);
    peephole_grads(&k);
    store_state(&k, g->dh0, k.dh);
    store_state(&k, g->dc0, k.dc);
}
