/* kernels/cpu/rnn/rnn.c: runs a recurrent layer in one direction; see rnn.h. The inputs' part of all gates is one
 * product over all steps; a step then adds the product of the state with the packed recurrent weights and runs the
 * cell's tile program. New states are written beside the old ones and taken over by the rows that are not over. */
#include "kernels/cpu/rnn/rnn.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"

#include <string.h>

typedef struct layer {
    const nck_rnn_args *a;
    int64_t G, es;
    char *xw;    /* (T*B, G*H): rows as in x */
    char *gates; /* (B, G*H) */
    char *bias;  /* (G*H) */
    char *h, *c; /* (B,H) */
    char *h_new, *c_new;
    char *rec;       /* (B,H): r * H, or the recurrent part of GRU's hidden gate */
    char *r_pack[2]; /* weights of all gates; GRU: of z and r, of h */
    void *gemm;
    nc_pool *pool;
} layer;

int nck_rnn_gates(nck_rnn_kind kind) { return kind == NCK_RNN ? 1 : kind == NCK_GRU ? 3 : 4; }

int nck_rnn_kept(nck_rnn_kind kind) { return nck_rnn_gates(kind) + (kind == NCK_RNN ? 1 : 2); }

static char *take(char **at, size_t bytes) {
    char *p = *at;
    *at += nc_align64(bytes);
    return p;
}

/* Columns of the two packed parts of the recurrent weights. */
static void pack_columns(nck_rnn_kind kind, int64_t H, int64_t *n) {
    n[0] = kind == NCK_GRU ? 2 * H : nck_rnn_gates(kind) * H;
    n[1] = kind == NCK_GRU ? H : 0;
}

/* Lays out the workspace from `at` on; returns its bytes. at may be NULL. */
static size_t lay_out(layer *l, nck_rnn_kind kind, nc_dtype type, int64_t T, int64_t B, int64_t I, int64_t H,
                      char *at) {
    char *start = at;
    int64_t n[2];
    l->G = nck_rnn_gates(kind);
    l->es = (int64_t)nc_dtype_bytes(type);
    size_t gate_row = (size_t)(l->G * H * l->es), state = (size_t)(B * H * l->es);
    l->xw = take(&at, (size_t)(T * B) * gate_row);
    l->gates = take(&at, (size_t)B * gate_row);
    l->bias = take(&at, gate_row);
    l->h = take(&at, state);
    l->c = take(&at, state);
    l->h_new = take(&at, state);
    l->c_new = take(&at, state);
    l->rec = take(&at, state);
    pack_columns(kind, H, n);
    for (int i = 0; i < 2; i++) l->r_pack[i] = take(&at, nck_gemm_packed_b_bytes(type, H, n[i]));
    size_t once = nck_gemm_workspace(type, T * B, l->G * H, I, false),
           step = nck_gemm_workspace(type, B, n[0], H, true);
    l->gemm = take(&at, nc_max_size(once, step));
    return (size_t)(at - start);
}

size_t nck_rnn_workspace(nck_rnn_kind kind, nc_dtype type, int64_t T, int64_t B, int64_t I, int64_t H) {
    layer l;
    static char origin;
    return lay_out(&l, kind, type, T, B, I, H, &origin);
}

/* Wb + Rb; GRU's hidden gate keeps Rb apart where it is scaled by r. */
static void join_biases(layer *l) {
    const nck_rnn_args *a = l->a;
    int64_t n = l->G * a->H, joined = a->cell->rule.linear_before_reset && l->G == 3 ? 2 * a->H : n;
    memset(l->bias, 0, (size_t)(n * l->es));
    if (a->b == NULL) return;
    for (int64_t i = 0; i < n; i++) {
        if (a->type == NC_FLOAT) {
            const float *b = a->b;
            ((float *)(void *)l->bias)[i] = i < joined ? b[i] + b[n + i] : b[i];
        } else {
            const double *b = a->b;
            ((double *)(void *)l->bias)[i] = i < joined ? b[i] + b[n + i] : b[i];
        }
    }
}

static void rnn_start(layer *l) {
    const nck_rnn_args *a = l->a;
    int64_t n[2], GH = l->G * a->H;
    size_t row = (size_t)(a->H * l->es);
    join_biases(l);
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = a->T * a->B,
                              .N = GH,
                              .K = a->I,
                              .alpha = 1,
                              .a = a->x,
                              .a_rs = a->I,
                              .a_cs = 1,
                              .b = a->w,
                              .b_rs = 1,
                              .b_cs = a->I,
                              .c = l->xw,
                              .c_rs = GH,
                              .c_cs = 1,
                              .bias = l->bias,
                              .bias_cs = 1},
             l->gemm, l->pool);
    pack_columns(a->cell->rule.kind, a->H, n);
    for (int i = 0; i < 2; i++) {
        const char *r = (const char *)a->r + (i ? n[0] * a->H * l->es : 0);
        nck_gemm_pack_b(a->type, a->H, n[i], r, 1, a->H, l->r_pack[i]);
    }
    for (int64_t b = 0; b < a->B; b++) {
        char *h = l->h + b * (int64_t)row, *c = l->c + b * (int64_t)row;
        if (a->h0)
            memcpy(h, (const char *)a->h0 + b * a->state_rs * l->es, row);
        else
            memset(h, 0, row);
        if (a->c0)
            memcpy(c, (const char *)a->c0 + b * a->state_rs * l->es, row);
        else
            memset(c, 0, row);
    }
}

/* The time that row b works on in step s; -1: the row is over. */
static int64_t time_of(const nck_rnn_args *a, int64_t s, int64_t b) {
    int64_t n = a->lens ? a->lens[b] : a->T;
    if (s >= n) return -1;
    return a->reverse ? n - 1 - s : s;
}

static void load_gates(layer *l, int64_t s) {
    const nck_rnn_args *a = l->a;
    size_t row = (size_t)(l->G * a->H * l->es);
    for (int64_t b = 0; b < a->B; b++) {
        int64_t t = time_of(a, s, b), from = a->batch_first ? b * a->T + t : t * a->B + b;
        if (t >= 0)
            memcpy(l->gates + b * (int64_t)row, l->xw + from * (int64_t)row, row);
        else
            memset(l->gates + b * (int64_t)row, 0, row);
    }
}

/* gates[first .. first+n) += s (B,H) times packed weights */
static void add_product(layer *l, const void *s, int i_pack, int64_t n, int64_t first) {
    const nck_rnn_args *a = l->a;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = a->B,
                              .N = n,
                              .K = a->H,
                              .alpha = 1,
                              .beta = 1,
                              .a = s,
                              .a_rs = a->H,
                              .a_cs = 1,
                              .b_packed = l->r_pack[i_pack],
                              .c = l->gates + first * l->es,
                              .c_rs = l->G * a->H,
                              .c_cs = 1},
             l->gemm, l->pool);
}

static void view(const layer *l, const void *p, int64_t row_stride, nc_tensor *t) {
    nc_tensor_set(t, (void *)(uintptr_t)p, l->a->type, 2);
    t->dims[0] = l->a->B;
    t->dims[1] = l->a->H;
    t->strides[0] = row_stride;
    t->strides[1] = 1;
}

static void gate(const layer *l, int i, nc_tensor *t) { view(l, l->gates + i * l->a->H * l->es, l->G * l->a->H, t); }

static void gru_step(layer *l) {
    const nck_rnn_args *a = l->a;
    const nck_rnn_cell *cell = a->cell;
    int64_t H = a->H;
    nc_tensor g[3], h, rec, out;
    for (int i = 0; i < 3; i++) gate(l, i, &g[i]);
    view(l, l->h, H, &h);
    view(l, l->rec, H, &rec);
    view(l, l->h_new, H, &out);
    add_product(l, l->h, 0, 2 * H, 0);
    if (cell->rule.linear_before_reset) {
        nck_gemm(&(nck_gemm_args){.type = a->type,
                                  .M = a->B,
                                  .N = H,
                                  .K = H,
                                  .alpha = 1,
                                  .a = l->h,
                                  .a_rs = H,
                                  .a_cs = 1,
                                  .b_packed = l->r_pack[1],
                                  .c = l->rec,
                                  .c_rs = H,
                                  .c_cs = 1,
                                  .bias = a->b ? (const char *)a->b + 5 * H * l->es : NULL,
                                  .bias_cs = 1},
                 l->gemm, l->pool);
    } else {
        nck_rnn_prog_run(&cell->reset, (const nc_tensor *[]){&g[1], &h}, &rec, l->pool);
        add_product(l, l->rec, 1, H, 2 * H);
    }
    nck_rnn_prog_run(&cell->step, (const nc_tensor *[]){&g[0], &g[2], &h, &g[1], &rec}, &out, l->pool);
}

static void rnn_step(layer *l) {
    const nck_rnn_args *a = l->a;
    int64_t H = a->H;
    const char *p = a->p;
    nc_tensor in[NCK_RNN_MAX_IN], out[2];
    const nc_tensor *p_in[NCK_RNN_MAX_IN];
    if (a->cell->rule.kind == NCK_GRU) {
        gru_step(l);
        return;
    }
    add_product(l, l->h, 0, l->G * H, 0);
    view(l, l->h_new, H, &out[0]);
    view(l, l->c_new, H, &out[1]);
    gate(l, 0, &in[0]);
    if (a->cell->rule.kind == NCK_LSTM) {
        for (int i = 1; i < 4; i++) gate(l, i, &in[i]);
        view(l, l->c, H, &in[4]);
        for (int i = 0; p && i < 3; i++) view(l, p + i * H * l->es, 0, &in[5 + i]);
    }
    for (int i = 0; i < NCK_RNN_MAX_IN; i++) p_in[i] = &in[i];
    nck_rnn_prog_run(&a->cell->step, p_in, out, l->pool);
}

/* Takes the new states over, and writes them to y. */
static void keep(layer *l, int64_t s) {
    const nck_rnn_args *a = l->a;
    size_t row = (size_t)(a->H * l->es);
    for (int64_t b = 0; b < a->B; b++) {
        int64_t t = time_of(a, s, b), at = b * (int64_t)row;
        if (t < 0) {
            if (a->y) memset((char *)a->y + (s * a->y_t + b * a->y_b) * l->es, 0, row);
            continue;
        }
        memcpy(l->h + at, l->h_new + at, row);
        if (l->G == 4) memcpy(l->c + at, l->c_new + at, row);
        if (a->y) memcpy((char *)a->y + (t * a->y_t + b * a->y_b) * l->es, l->h_new + at, row);
    }
}

/* What step s was made of, for nck_rnn_grad: the cell's programs leave the gates' sums as they are. */
static void keep_for_gradient(const layer *l, int64_t s) {
    const nck_rnn_args *a = l->a;
    int64_t K = nck_rnn_kept(a->cell->rule.kind);
    size_t row = (size_t)(a->H * l->es), gates = (size_t)l->G * row;
    for (int64_t b = 0; a->kept != NULL && b < a->B; b++) {
        char *to = (char *)a->kept + (s * a->B + b) * K * (int64_t)row;
        memcpy(to, l->gates + b * (int64_t)gates, gates);
        if (l->G > 1) memcpy(to + gates, (l->G == 3 ? l->rec : l->c) + b * (int64_t)row, row);
        memcpy(to + (K - 1) * (int64_t)row, l->h + b * (int64_t)row, row);
    }
}

void nck_rnn(const nck_rnn_args *a, void *workspace, nc_pool *pool) {
    layer l = {.a = a, .pool = pool};
    lay_out(&l, a->cell->rule.kind, a->type, a->T, a->B, a->I, a->H, workspace);
    if (a->B == 0 || a->H == 0) return;
    rnn_start(&l);
    for (int64_t s = 0; s < a->T; s++) {
        load_gates(&l, s);
        rnn_step(&l);
        keep(&l, s);
        keep_for_gradient(&l, s);
    }
    size_t row = (size_t)(a->H * l.es);
    for (int64_t b = 0; b < a->B; b++) {
        if (a->y_h) memcpy((char *)a->y_h + b * a->state_rs * l.es, l.h + b * (int64_t)row, row);
        if (a->y_c) memcpy((char *)a->y_c + b * a->state_rs * l.es, l.c + b * (int64_t)row, row);
    }
}
