/* kernels/cpu/rnn/rnn.c: runs a recurrent layer; see rnn.h. The inputs' part of all gates is one product over all
 * steps, on all threads; a step then adds the product of the state with the packed recurrent weights and runs the
 * cell's tile program. New states are written beside the old ones and taken over by the rows that are not over.
 *
 * Directions need nothing of each other, nor do rows: an item is some rows of one direction from the first step to the
 * last, so that threads never wait for each other and a direction's weights stay in the cache of the core that works on
 * it. Only weights too large for that cache, with too few rows to go round, are shared out between threads in each
 * step. The bits are the same, since a product's do not depend on how it is cut. */
#include "kernels/cpu/rnn/rnn.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"

#include <string.h>

enum {
    MAX_DIRS = 2,
    ITEM_ROWS = 4,      /* fewest rows that are worth a thread of their own */
    MAX_BLOCKS = 16,    /* items of one direction */
    OWN_CACHE = 1 << 20 /* recurrent weights that one core keeps */
};

typedef struct layer {
    const nck_rnn_args *a;
    int64_t G, es;
    int64_t b0, rows; /* the rows at hand */
    char *xw;         /* (T*B, G*H): rows as in x */
    char *gates;      /* (B, G*H) */
    char *bias;       /* (G*H) */
    char *h, *c;      /* (B,H) */
    char *h_new, *c_new;
    char *rec;             /* (B,H): r * H, or the recurrent part of GRU's hidden gate */
    const char *r_pack[2]; /* weights of all gates; GRU: of z and r, of h */
    char *r_room;          /* where they are packed if they came plain */
    void *gemm;
    nc_pool *pool;
} layer;

typedef struct rnn_job {
    layer dir[MAX_DIRS];
    int64_t n_blocks;
    char *gemm; /* one piece for each item of the steps; the input's product has all of it */
    size_t bytes_item;
} rnn_job;

int nck_rnn_gates(nck_rnn_kind kind) { return kind == NCK_RNN ? 1 : kind == NCK_GRU ? 3 : 4; }

int nck_rnn_kept(nck_rnn_kind kind) { return nck_rnn_gates(kind) + (kind == NCK_RNN ? 1 : 2); }

static char *take(char **at, size_t bytes) {
    char *p = *at;
    *at += nc_align64(bytes);
    return p;
}

/* ---- packed weights ---- */

/* Columns of the two packed parts of the recurrent weights. */
static void pack_columns(nck_rnn_kind kind, int64_t H, int64_t *n) {
    n[0] = kind == NCK_GRU ? 2 * H : nck_rnn_gates(kind) * H;
    n[1] = kind == NCK_GRU ? H : 0;
}

size_t nck_rnn_packed_w_bytes(nck_rnn_kind kind, nc_dtype type, int64_t I, int64_t H) {
    return nck_gemm_packed_b_bytes(type, I, nck_rnn_gates(kind) * H);
}

size_t nck_rnn_packed_r_bytes(nck_rnn_kind kind, nc_dtype type, int64_t H) {
    int64_t n[2];
    pack_columns(kind, H, n);
    return nck_gemm_packed_b_bytes(type, H, n[0]) + nck_gemm_packed_b_bytes(type, H, n[1]);
}

void nck_rnn_pack_w(nck_rnn_kind kind, nc_dtype type, int64_t I, int64_t H, const void *w, void *dst) {
    nck_gemm_pack_b(type, I, nck_rnn_gates(kind) * H, w, 1, I, dst);
}

void nck_rnn_pack_r(nck_rnn_kind kind, nc_dtype type, int64_t H, const void *r, void *dst) {
    int64_t n[2], es = (int64_t)nc_dtype_bytes(type);
    pack_columns(kind, H, n);
    nck_gemm_pack_b(type, H, n[0], r, 1, H, dst);
    nck_gemm_pack_b(type, H, n[1], (const char *)r + n[0] * H * es, 1, H,
                    (char *)dst + nck_gemm_packed_b_bytes(type, H, n[0]));
}

/* ---- workspace ---- */

/* For the products of the steps of one direction, in whatever number of items. */
static size_t step_bytes(nck_rnn_kind kind, nc_dtype type, int64_t B, int64_t H) {
    size_t most = 0;
    for (int64_t n = 1; n <= MAX_BLOCKS && (n - 1) * ITEM_ROWS < nc_max64(B, 1); n++)
        most = nc_max_size(most,
                           (size_t)n * nck_gemm_workspace(type, nc_ceil_div(B, n), nck_rnn_gates(kind) * H, H, true));
    return most;
}

/* Lays out the workspace from `at` on; returns its bytes. */
static size_t lay_out(rnn_job *j, nck_rnn_kind kind, nc_dtype type, int n_dirs, int64_t T, int64_t B, int64_t I,
                      int64_t H, bool packed, char *at) {
    char *start = at;
    int64_t G = nck_rnn_gates(kind), es = (int64_t)nc_dtype_bytes(type);
    size_t gate_row = (size_t)(G * H * es), state = (size_t)(B * H * es);
    for (int d = 0; d < n_dirs; d++) {
        layer *l = &j->dir[d];
        l->G = G, l->es = es;
        l->xw = take(&at, (size_t)(T * B) * gate_row);
        l->gates = take(&at, (size_t)B * gate_row);
        l->bias = take(&at, gate_row);
        l->h = take(&at, state);
        l->c = take(&at, state);
        l->h_new = take(&at, state);
        l->c_new = take(&at, state);
        l->rec = take(&at, state);
    }
    j->gemm = take(&at, nc_max_size(nck_gemm_workspace(type, T * B, G * H, I, packed),
                                    (size_t)n_dirs * step_bytes(kind, type, B, H)));
    for (int d = 0; d < n_dirs && !packed; d++) j->dir[d].r_room = take(&at, nck_rnn_packed_r_bytes(kind, type, H));
    return (size_t)(at - start);
}

size_t nck_rnn_workspace(nck_rnn_kind kind, nc_dtype type, int n_dirs, int64_t T, int64_t B, int64_t I, int64_t H,
                         bool packed) {
    rnn_job j;
    static char origin;
    return lay_out(&j, kind, type, n_dirs, T, B, I, H, packed, &origin);
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

/* The weights, and the inputs' part of the gates. */
static void rnn_project(layer *l) {
    const nck_rnn_args *a = l->a;
    int64_t n[2], GH = l->G * a->H;
    nck_rnn_kind kind = a->cell->rule.kind;
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
                              .b_packed = a->w_packed,
                              .c = l->xw,
                              .c_rs = GH,
                              .c_cs = 1,
                              .bias = l->bias,
                              .bias_cs = 1},
             l->gemm, l->pool);
    if (a->r_packed == NULL) nck_rnn_pack_r(kind, a->type, a->H, a->r, l->r_room);
    pack_columns(kind, a->H, n);
    l->r_pack[0] = a->r_packed != NULL ? a->r_packed : l->r_room;
    l->r_pack[1] = l->r_pack[0] + nck_gemm_packed_b_bytes(a->type, a->H, n[0]);
}

/* Row b of a given state; NULL: zeros. */
static void first_state(const layer *l, const void *given, int64_t b, char *to) {
    size_t row = (size_t)(l->a->H * l->es);
    if (given != NULL)
        memcpy(to + b * (int64_t)row, (const char *)given + b * l->a->state_rs * l->es, row);
    else
        memset(to + b * (int64_t)row, 0, row);
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
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        int64_t t = time_of(a, s, b), from = a->batch_first ? b * a->T + t : t * a->B + b;
        if (t >= 0)
            memcpy(l->gates + b * (int64_t)row, l->xw + from * (int64_t)row, row);
        else
            memset(l->gates + b * (int64_t)row, 0, row);
    }
}

/* The rows at hand of a state (B,H). */
static char *rows_of(const layer *l, char *state) { return state + l->b0 * l->a->H * l->es; }

/* gates[first .. first+n) += s (B,H) times packed weights */
static void add_product(layer *l, char *s, int i_pack, int64_t n, int64_t first) {
    const nck_rnn_args *a = l->a;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = l->rows,
                              .N = n,
                              .K = a->H,
                              .alpha = 1,
                              .beta = 1,
                              .a = rows_of(l, s),
                              .a_rs = a->H,
                              .a_cs = 1,
                              .b_packed = l->r_pack[i_pack],
                              .c = l->gates + (l->b0 * l->G * a->H + first) * l->es,
                              .c_rs = l->G * a->H,
                              .c_cs = 1},
             l->gemm, l->pool);
}

/* The rows at hand, row_stride apart; 0: one for all. */
static void view(const layer *l, const char *p, int64_t row_stride, nc_tensor *t) {
    nc_tensor_set(t, (void *)(uintptr_t)(p + l->b0 * row_stride * l->es), l->a->type, 2);
    t->dims[0] = l->rows;
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
                                  .M = l->rows,
                                  .N = H,
                                  .K = H,
                                  .alpha = 1,
                                  .a = rows_of(l, l->h),
                                  .a_rs = H,
                                  .a_cs = 1,
                                  .b_packed = l->r_pack[1],
                                  .c = rows_of(l, l->rec),
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
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
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
    for (int64_t b = l->b0; a->kept != NULL && b < l->b0 + l->rows; b++) {
        char *to = (char *)a->kept + (s * a->B + b) * K * (int64_t)row;
        memcpy(to, l->gates + b * (int64_t)gates, gates);
        if (l->G > 1) memcpy(to + gates, (l->G == 3 ? l->rec : l->c) + b * (int64_t)row, row);
        memcpy(to + (K - 1) * (int64_t)row, l->h + b * (int64_t)row, row);
    }
}

/* The rows at hand, from the first step to the last. */
static void rnn_steps(layer *l) {
    const nck_rnn_args *a = l->a;
    size_t row = (size_t)(a->H * l->es);
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        first_state(l, a->h0, b, l->h);
        first_state(l, a->c0, b, l->c);
    }
    for (int64_t s = 0; s < a->T; s++) {
        load_gates(l, s);
        rnn_step(l);
        keep(l, s);
        keep_for_gradient(l, s);
    }
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        if (a->y_h) memcpy((char *)a->y_h + b * a->state_rs * l->es, l->h + b * (int64_t)row, row);
        if (a->y_c) memcpy((char *)a->y_c + b * a->state_rs * l->es, l->c + b * (int64_t)row, row);
    }
}

static void rnn_item(void *ctx, int64_t item) {
    const rnn_job *j = ctx;
    layer l = j->dir[item / j->n_blocks];
    int64_t block = item % j->n_blocks;
    l.b0 = l.a->B * block / j->n_blocks;
    l.rows = l.a->B * (block + 1) / j->n_blocks - l.b0;
    l.gemm = j->gemm + (size_t)item * j->bytes_item;
    rnn_steps(&l);
}

void nck_rnn(const nck_rnn_args *dirs, int n_dirs, void *workspace, nc_pool *pool) {
    const nck_rnn_args *a = dirs;
    rnn_job j = {.n_blocks = 1};
    if (a->B == 0 || a->H == 0) return;
    bool packed = a->w_packed != NULL && a->r_packed != NULL;
    lay_out(&j, a->cell->rule.kind, a->type, n_dirs, a->T, a->B, a->I, a->H, packed, workspace);
    for (int d = 0; d < n_dirs; d++) {
        layer *l = &j.dir[d];
        l->a = &dirs[d], l->rows = a->B, l->gemm = j.gemm, l->pool = pool;
        rnn_project(l);
    }
    int64_t weights = j.dir[0].G * a->H * a->H, threads = nc_pool_threads(pool);
    j.n_blocks = nc_max64(1, nc_min64(nc_min64(threads / n_dirs, MAX_BLOCKS), nc_ceil_div(a->B, ITEM_ROWS)));
    if (weights > OWN_CACHE && threads > 2 * n_dirs * j.n_blocks) {
        for (int d = 0; d < n_dirs; d++) rnn_steps(&j.dir[d]);
        return;
    }
    for (int d = 0; d < n_dirs; d++) j.dir[d].pool = NULL;
    j.bytes_item = nck_gemm_workspace(a->type, nc_ceil_div(a->B, j.n_blocks), j.dir[0].G * a->H, a->H, true);
    nc_parallel(nc_pool_for(pool, nc_min64(a->T * a->B, NC_ALONE) * weights), n_dirs * j.n_blocks, rnn_item, &j);
}
