/* kernels/cpu/rnn/rnn.c: runs a recurrent layer; see rnn.h. The inputs' part of all gates is one product over all
 * steps, on all threads; a step then adds the product of the state with the packed recurrent weights and runs the
 * cell's tile program. New states and cells are written beside the old ones, and the two change places with every step.
 *
 * Directions need nothing of each other, nor do rows: an item is some rows of one direction from the first step to the
 * last, so that threads never wait for each other and a direction's weights stay in the cache of the core that works on
 * it. Where rows and directions are few and a step is long enough to be waited for, an item is some hidden units of one
 * direction in one step: all gates of them, so that only the state passes between threads, and each core keeps its part
 * of the weights. The bits are the same, since a product's do not depend on how it is cut.
 */
#include "kernels/cpu/rnn/rnn.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/rnn/rnn_codes.h"

#include <string.h>

enum {
    MAX_DIRS = 2,
    MAX_GATES = 4,
    ITEM_ROWS = 2,       /* fewest rows that are worth a thread of their own */
    MAX_BLOCKS = 16,     /* items of one direction */
    SHARED_ROWS = 64,    /* most rows of steps that threads share */
    ITEM_WORK = 1 << 14, /* multiply-adds of the shortest item of a shared step */
    STEP_END = 17000,    /* those of one row while threads wait for each other, */
    STEP_THREAD = 1500,  /* and more of them for each thread */
    FAR = 3 << 18,       /* bytes of recurrent weights that a second cache may not hold beside the rest, */
    FEW = 2,             /* rows that wait for them, */
    PARTS = 4,           /* and the parts whose order turns then */
    GAP = 16 /* elements between rows of gates and of states: those of whole pages push each other out of the cache */
};

typedef struct layer {
    const nck_rnn_args *a;
    int64_t G, es;
    bool apart;        /* gates are packed one by one */
    bool late_bias;    /* biases are added with the state's product: of one row it goes through the gates anyway */
    bool backwards;    /* this step reads weights from the last on, see add_product */
    int64_t b0, rows;  /* the rows at hand */
    int64_t u0, units; /* and the hidden units */
    int64_t gates_rs;  /* elements from a row of gates to the next */
    int64_t state_rs;  /* and of states, cells, rec */
    char *xw;          /* (T*B, G*H): rows as in x */
    char *gates;       /* (B, G*H) of the step at hand: rows of xw themselves where they lie side by side, or copies */
    char *bias;        /* (G*H) */
    char *state[2];    /* (B,H): before and after a step, in turns */
    char *cell[2];     /* likewise */
    char *h, *h_new;   /* at this step */
    char *c, *c_new;
    char *rec;     /* (B,H): r * H, or the recurrent part of GRU's hidden gate */
    const char *r; /* packed recurrent weights */
    char *r_room;  /* where they are packed if they came plain */
    void *gemm;
} layer;

typedef struct rnn_job {
    layer dir[MAX_DIRS];
    int64_t n_blocks, n_pieces;
    char *gemm; /* one piece for each item of the steps; the input's product has all of it */
    size_t bytes_item;
    int64_t step;
    bool resets; /* GRU's first half of a step */
} rnn_job;

int nck_rnn_gates(nck_rnn_kind kind) { return kind == NCK_RNN ? 1 : kind == NCK_GRU ? 3 : 4; }

int nck_rnn_kept(nck_rnn_kind kind) { return nck_rnn_gates(kind) + (kind == NCK_RNN ? 1 : 2); }

static char *take(char **at, size_t bytes) {
    char *p = *at;
    *at += nc_align64(bytes);
    return p;
}

/* ---- packed weights ---- */

/* Gates are packed one by one, so that some units of each can be multiplied, unless their last panels would be too
 * empty: a step reads all of them from the cache. */
static bool gates_apart(nc_dtype type, int64_t H) { return nc_round_up(H, nck_gemm_columns(type)) - H <= H / 64; }

/* The recurrent weights as matrices of n[i] columns each: all gates; GRU: z and r, then h. */
static int pack_columns(nck_rnn_kind kind, nc_dtype type, int64_t H, int64_t *n) {
    int G = nck_rnn_gates(kind), parts = gates_apart(type, H) ? G : kind == NCK_GRU ? 2 : 1;
    for (int i = 0; i < parts; i++) n[i] = parts == G ? H : parts == 1 ? G * H : (2 - i) * H;
    return parts;
}

size_t nck_rnn_packed_w_bytes(nck_rnn_kind kind, nc_dtype type, int64_t I, int64_t H) {
    return nck_gemm_packed_b_bytes(type, I, nck_rnn_gates(kind) * H);
}

size_t nck_rnn_packed_r_bytes(nck_rnn_kind kind, nc_dtype type, int64_t H) {
    int64_t n[MAX_GATES];
    size_t bytes = 0;
    for (int i = 0, parts = pack_columns(kind, type, H, n); i < parts; i++)
        bytes += nck_gemm_packed_b_bytes(type, H, n[i]);
    return bytes;
}

void nck_rnn_pack_w(nck_rnn_kind kind, nc_dtype type, int64_t I, int64_t H, const void *w, void *dst) {
    nck_gemm_pack_b(type, I, nck_rnn_gates(kind) * H, w, 1, I, dst);
}

void nck_rnn_pack_r(nck_rnn_kind kind, nc_dtype type, int64_t H, const void *r, void *dst) {
    int64_t n[MAX_GATES], es = (int64_t)nc_dtype_bytes(type);
    const char *from = r;
    char *to = dst;
    for (int i = 0, parts = pack_columns(kind, type, H, n); i < parts; i++) {
        nck_gemm_pack_b(type, H, n[i], from, 1, H, to);
        from += n[i] * H * es;
        to += nck_gemm_packed_b_bytes(type, H, n[i]);
    }
}

/* ---- workspace ---- */

/* For M rows times K rows of weights, GH columns of packed ones or codes. */
static size_t product_bytes(nc_dtype type, nck_rnn_form form, int64_t M, int64_t GH, int64_t K) {
    if (form == NCK_RNN_CODES) return nck_rnn_codes_room(M, GH, K);
    return nck_gemm_workspace(type, M, GH, K, true);
}

/* For the products of the steps of one direction, in whatever number of items: rows, or pieces of shared steps. */
static size_t step_bytes(nck_rnn_kind kind, nc_dtype type, nck_rnn_form form, int64_t B, int64_t H) {
    size_t most = MAX_BLOCKS * nck_gemm_workspace(type, nc_min64(B, SHARED_ROWS), H, H, true);
    for (int64_t n = 1; n <= MAX_BLOCKS && (n - 1) * ITEM_ROWS < nc_max64(B, 1); n++)
        most = nc_max_size(most, (size_t)n * product_bytes(type, form, nc_ceil_div(B, n), nck_rnn_gates(kind) * H, H));
    return most;
}

static size_t input_bytes(nck_rnn_kind kind, nc_dtype type, nck_rnn_form form, int64_t M, int64_t I, int64_t H) {
    int64_t GH = nck_rnn_gates(kind) * H;
    return form == NCK_RNN_PLAIN ? nck_gemm_workspace(type, M, GH, I, false) : product_bytes(type, form, M, GH, I);
}

/* Lays out the workspace from `at` on; returns its bytes. */
static size_t lay_out(rnn_job *j, nck_rnn_kind kind, nc_dtype type, int n_dirs, int64_t T, int64_t B, int64_t I,
                      int64_t H, nck_rnn_form form, char *at) {
    char *start = at;
    int64_t G = nck_rnn_gates(kind), es = (int64_t)nc_dtype_bytes(type);
    int64_t gates_rs = G * H + GAP, state_rs = form == NCK_RNN_CODES ? H : H + GAP; /* codes: dense */
    size_t gate_row = (size_t)(gates_rs * es), state = (size_t)(B * state_rs * es);
    for (int d = 0; d < n_dirs; d++) {
        layer *l = &j->dir[d];
        l->G = G, l->es = es, l->gates_rs = gates_rs, l->state_rs = state_rs;
        l->apart = form != NCK_RNN_CODES && gates_apart(type, H);
        l->xw = take(&at, (size_t)(T * B) * gate_row);
        l->gates = take(&at, (size_t)B * gate_row);
        l->bias = take(&at, gate_row);
        for (int i = 0; i < 2; i++) l->state[i] = take(&at, state), l->cell[i] = take(&at, state);
        l->rec = take(&at, state);
    }
    j->gemm = take(&at, nc_max_size(input_bytes(kind, type, form, T * B, I, H),
                                    (size_t)n_dirs * step_bytes(kind, type, form, B, H)));
    for (int d = 0; d < n_dirs && form == NCK_RNN_PLAIN; d++)
        j->dir[d].r_room = take(&at, nck_rnn_packed_r_bytes(kind, type, H));
    return (size_t)(at - start);
}

size_t nck_rnn_workspace(nck_rnn_kind kind, nc_dtype type, int n_dirs, int64_t T, int64_t B, int64_t I, int64_t H,
                         nck_rnn_form form) {
    rnn_job j;
    static char origin;
    return lay_out(&j, kind, type, n_dirs, T, B, I, H, form, &origin);
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
static void rnn_project(layer *l, nc_pool *pool) {
    const nck_rnn_args *a = l->a;
    int64_t GH = l->G * a->H;
    join_biases(l);
    if (a->codes != NULL) {
        nck_rnn_codes_multiply(&a->codes[0],
                               &(nck_rnn_product){.M = a->T * a->B,
                                                  .N = GH,
                                                  .K = a->I,
                                                  .x = a->x,
                                                  .bias = (const float *)(const void *)l->bias,
                                                  .c = (float *)(void *)l->xw,
                                                  .c_rs = l->gates_rs},
                               l->gemm, pool);
        return;
    }
    l->late_bias = a->B == 1 && !(l->G == 3 && a->cell->rule.linear_before_reset);
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
                              .c_rs = l->gates_rs,
                              .c_cs = 1,
                              .bias = l->late_bias ? NULL : l->bias,
                              .bias_cs = 1},
             l->gemm, pool);
    if (a->r_packed == NULL) nck_rnn_pack_r(a->cell->rule.kind, a->type, a->H, a->r, l->r_room);
    l->r = a->r_packed != NULL ? a->r_packed : l->r_room;
}

/* Row b of a given state; NULL: zeros. */
static void first_state(const layer *l, const void *given, int64_t b, char *to) {
    size_t row = (size_t)(l->a->H * l->es);
    if (given != NULL)
        memcpy(to + b * l->state_rs * l->es, (const char *)given + b * l->a->state_rs * l->es, row);
    else
        memset(to + b * l->state_rs * l->es, 0, row);
}

/* The time that row b works on in step s; -1: the row is over. */
static int64_t time_of(const nck_rnn_args *a, int64_t s, int64_t b) {
    int64_t n = a->lens ? a->lens[b] : a->T;
    if (s >= n) return -1;
    return a->reverse ? n - 1 - s : s;
}

static void load_gates(layer *l, int64_t s) {
    const nck_rnn_args *a = l->a;
    size_t bytes = (size_t)(l->units * l->es);
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        int64_t t = time_of(a, s, b), from = a->batch_first ? b * a->T + t : t * a->B + b;
        for (int64_t g = 0; g < l->G; g++) {
            int64_t unit = g * a->H + l->u0;
            char *to = l->gates + (b * l->gates_rs + unit) * l->es;
            if (t >= 0)
                memcpy(to, l->xw + (from * l->gates_rs + unit) * l->es, bytes);
            else
                memset(to, 0, bytes);
        }
    }
}

/* Do the rows of a step lie side by side in xw? */
static bool gates_lie_there(const nck_rnn_args *a) { return a->lens == NULL && (!a->batch_first || a->B == 1); }

/* c (B, n of c_rs columns) = beta * c + bias + s (B,H) times n packed columns; c: its column 0, bias: of the columns */
static void multiply(layer *l, const char *s, const char *packed, int64_t n, char *c, int64_t c_rs, double beta,
                     const char *bias) {
    const nck_rnn_args *a = l->a;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = l->rows,
                              .N = n,
                              .K = a->H,
                              .alpha = 1,
                              .beta = beta,
                              .a = s + l->b0 * l->state_rs * l->es,
                              .a_rs = l->state_rs,
                              .a_cs = 1,
                              .b_packed = packed,
                              .c = c + l->b0 * c_rs * l->es,
                              .c_rs = c_rs,
                              .c_cs = 1,
                              .bias = bias,
                              .bias_cs = 1},
             l->gemm, NULL);
}

/* The packed weights of gate g; only those that begin a packed matrix where gates are not apart. */
static const char *packed_gate(const layer *l, int64_t g) {
    const nck_rnn_args *a = l->a;
    if (l->apart) return l->r + (size_t)g * nck_gemm_packed_b_bytes(a->type, a->H, a->H);
    return l->r + nck_gemm_packed_b_bytes(a->type, a->H, g * a->H);
}

/* Gates that are packed one by one lie as one matrix if neither their last panels nor their ends are padded. */
static bool nothing_between(const layer *l) {
    int64_t H = l->a->H;
    return nck_gemm_packed_b_bytes(l->a->type, H, H) == (size_t)(H * H * l->es);
}

/* All gates of the rows at hand += their state times the codes. */
static void add_codes(const layer *l) {
    const nck_rnn_args *a = l->a;
    nck_rnn_codes_multiply(&a->codes[1],
                           &(nck_rnn_product){.M = l->rows,
                                              .N = l->G * a->H,
                                              .K = a->H,
                                              .x = (const float *)(const void *)l->h + l->b0 * l->state_rs,
                                              .by_rows = true,
                                              .adds = true,
                                              .c = (float *)(void *)l->gates + l->b0 * l->gates_rs,
                                              .c_rs = l->gates_rs},
                           l->gemm, NULL);
}

/* n columns of the gates, from column `from` on, += s (B,H) times their weights, and the biases. */
static void add_columns(layer *l, const char *s, const char *packed, int64_t from, int64_t n) {
    multiply(l, s, packed, n, l->gates + from * l->es, l->gates_rs, 1, l->late_bias ? l->bias + from * l->es : NULL);
}

/* Where part i of n columns begins. */
static int64_t part_at(const layer *l, int64_t n, int i) {
    int64_t whole = NCK_GEMM_SIDE * nck_gemm_columns(l->a->type);
    return i == PARTS ? n : n * i / PARTS / whole * whole;
}

/* The units at hand of gates [first, first + n) += s (B,H) times their weights, and the biases. Every other step begins
 * with the weights that the step before ended with, which are nearest: were they read in the same order in every step,
 * a cache that is a little too small would hold none of them until they are needed. */
static void add_product(layer *l, const char *s, int64_t first, int64_t n) {
    int64_t H = l->a->H;
    bool joined = !l->apart || (l->units == H && nothing_between(l));
    if (joined && !l->backwards) {
        add_columns(l, s, packed_gate(l, first), first * H, n * H);
    } else if (joined) {
        for (int i = PARTS - 1; i >= 0; i--) {
            int64_t from = part_at(l, n * H, i), end = part_at(l, n * H, i + 1);
            add_columns(l, s, packed_gate(l, first) + from * H * l->es, first * H + from, end - from);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            int64_t g = l->backwards ? first + n - 1 - i : first + i;
            add_columns(l, s, packed_gate(l, g) + l->u0 * H * l->es, g * H + l->u0, l->units);
        }
    }
}

/* The rows and units at hand, rows row_stride apart; 0: one for all. */
static void view(const layer *l, const char *p, int64_t row_stride, nc_tensor *t) {
    nc_tensor_set(t, (void *)(uintptr_t)(p + (l->b0 * row_stride + l->u0) * l->es), l->a->type, 2);
    t->dims[0] = l->rows;
    t->dims[1] = l->units;
    t->strides[0] = row_stride;
    t->strides[1] = 1;
}

static void gate(const layer *l, int i, nc_tensor *t) { view(l, l->gates + i * l->a->H * l->es, l->gates_rs, t); }

/* The first half of a step of GRU: z and r, and r * H for the product of the hidden gate, where that is the rule. */
static void gru_reset(layer *l) {
    const nck_rnn_cell *cell = l->a->cell;
    nc_tensor r, h, rec;
    gate(l, 1, &r);
    view(l, l->h, l->state_rs, &h);
    view(l, l->rec, l->state_rs, &rec);
    add_product(l, l->h, 0, 2);
    if (!cell->rule.linear_before_reset) nck_rnn_prog_run(&cell->reset, (const nc_tensor *[]){&r, &h}, &rec, NULL);
}

static void gru_step(layer *l) {
    const nck_rnn_args *a = l->a;
    int64_t H = a->H, es = l->es;
    nc_tensor g[3], h, rec, out;
    for (int i = 0; i < 3; i++) gate(l, i, &g[i]);
    view(l, l->h, l->state_rs, &h);
    view(l, l->rec, l->state_rs, &rec);
    view(l, l->h_new, l->state_rs, &out);
    if (a->cell->rule.linear_before_reset)
        multiply(l, l->h, packed_gate(l, 2) + l->u0 * H * es, l->units, l->rec + l->u0 * es, l->state_rs, 0,
                 a->b ? (const char *)a->b + (5 * H + l->u0) * es : NULL);
    else
        add_product(l, l->rec, 2, 1);
    nck_rnn_prog_run(&a->cell->step, (const nc_tensor *[]){&g[0], &g[2], &h, &g[1], &rec}, &out, NULL);
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
    if (a->codes != NULL)
        add_codes(l);
    else
        add_product(l, l->h, 0, l->G);
    view(l, l->h_new, l->state_rs, &out[0]);
    view(l, l->c_new, l->state_rs, &out[1]);
    gate(l, 0, &in[0]);
    if (a->cell->rule.kind == NCK_LSTM) {
        for (int i = 1; i < 4; i++) gate(l, i, &in[i]);
        view(l, l->c, l->state_rs, &in[4]);
        for (int i = 0; p && i < 3; i++) view(l, p + i * H * l->es, 0, &in[5 + i]);
    }
    for (int i = 0; i < NCK_RNN_MAX_IN; i++) p_in[i] = &in[i];
    nck_rnn_prog_run(&a->cell->step, p_in, out, NULL);
}

/* Writes the new states to y; rows that are over keep theirs, and their cells. */
static void keep(layer *l, int64_t s) {
    const nck_rnn_args *a = l->a;
    size_t bytes = (size_t)(l->units * l->es);
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        int64_t t = time_of(a, s, b), at = (b * l->state_rs + l->u0) * l->es;
        char *y = a->y ? (char *)a->y + ((t < 0 ? s : t) * a->y_t + b * a->y_b + l->u0) * l->es : NULL;
        if (t < 0) {
            memcpy(l->h_new + at, l->h + at, bytes);
            if (l->G == 4) memcpy(l->c_new + at, l->c + at, bytes);
            if (y) memset(y, 0, bytes);
        } else if (y) {
            memcpy(y, l->h_new + at, bytes);
        }
    }
}

/* What step s was made of, for nck_rnn_grad: the cell's programs leave the gates' sums as they are. */
static void keep_for_gradient(const layer *l, int64_t s) {
    const nck_rnn_args *a = l->a;
    int64_t K = nck_rnn_kept(a->cell->rule.kind), row = a->H * l->es;
    size_t bytes = (size_t)(l->units * l->es);
    for (int64_t b = l->b0; a->kept != NULL && b < l->b0 + l->rows; b++) {
        char *to = (char *)a->kept + (s * a->B + b) * K * row + l->u0 * l->es;
        int64_t at = (b * l->state_rs + l->u0) * l->es;
        for (int64_t g = 0; g < l->G; g++)
            memcpy(to + g * row, l->gates + (b * l->gates_rs + g * a->H + l->u0) * l->es, bytes);
        if (l->G > 1) memcpy(to + l->G * row, (l->G == 3 ? l->rec : l->c_new) + at, bytes);
        memcpy(to + (K - 1) * row, l->h_new + at, bytes);
    }
}

static void first_states(layer *l) {
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        first_state(l, l->a->h0, b, l->state[0]);
        first_state(l, l->a->c0, b, l->cell[0]);
    }
}

static void last_states(layer *l) {
    const nck_rnn_args *a = l->a;
    size_t row = (size_t)(a->H * l->es);
    for (int64_t b = l->b0; b < l->b0 + l->rows; b++) {
        int64_t to = b * a->state_rs * l->es, from = b * l->state_rs * l->es;
        if (a->y_h) memcpy((char *)a->y_h + to, l->state[a->T % 2] + from, row);
        if (a->y_c) memcpy((char *)a->y_c + to, l->cell[a->T % 2] + from, row);
    }
}

/* ---- items ---- */

/* Where step s reads and writes, and in which order. */
static void turn_to(layer *l, int64_t s) {
    l->backwards = s % 2 != 0 && l->rows <= FEW && l->G * l->a->H * l->a->H * l->es > FAR;
    l->h = l->state[s % 2], l->h_new = l->state[(s + 1) % 2];
    l->c = l->cell[s % 2], l->c_new = l->cell[(s + 1) % 2];
    if (gates_lie_there(l->a)) l->gates = l->xw + time_of(l->a, s, 0) * l->a->B * l->gates_rs * l->es;
}

/* The first part of step s, of GRU alone: what the rest needs of all units. */
static void begin_step(layer *l, int64_t s) {
    turn_to(l, s);
    if (!gates_lie_there(l->a)) load_gates(l, s);
    if (l->G == 3) gru_reset(l);
}

static void end_step(layer *l, int64_t s) {
    turn_to(l, s);
    rnn_step(l);
    keep(l, s);
    keep_for_gradient(l, s);
}

/* Some rows from the first step to the last. */
static void rows_item(void *ctx, int64_t item) {
    const rnn_job *j = ctx;
    layer l = j->dir[item / j->n_blocks];
    int64_t block = item % j->n_blocks;
    l.b0 = l.a->B * block / j->n_blocks;
    l.rows = l.a->B * (block + 1) / j->n_blocks - l.b0;
    l.gemm = j->gemm + (size_t)item * j->bytes_item;
    first_states(&l);
    for (int64_t s = 0; s < l.a->T; s++) {
        begin_step(&l, s);
        end_step(&l, s);
    }
    last_states(&l);
}

/* Some units in one step, or in GRU's first half of it. */
static void units_item(void *ctx, int64_t item) {
    const rnn_job *j = ctx;
    layer l = j->dir[item / j->n_pieces];
    int64_t piece = item % j->n_pieces, wide = nck_gemm_columns(l.a->type), panels = nc_ceil_div(l.a->H, wide);
    l.u0 = panels * piece / j->n_pieces * wide;
    l.units = nc_min64(l.a->H, panels * (piece + 1) / j->n_pieces * wide) - l.u0;
    l.gemm = j->gemm + (size_t)item * j->bytes_item;
    bool halves = l.G == 3;
    if (!halves || j->resets) begin_step(&l, j->step);
    if (halves && j->resets) return;
    end_step(&l, j->step);
}

/* A step of some rows, in multiply-adds of one row: those wait for the weights, so that two rows take no longer. */
static int64_t step_cost(const layer *l, int64_t rows) { return l->G * l->a->H * l->a->H * nc_max64(5, 2 * rows) / 5; }

/* Into how many pieces a step is cut; 1: it is not, since it would take longer than threads with rows of their own. */
static int64_t pieces_of(const rnn_job *j, int n_dirs, int64_t threads) {
    const layer *l = &j->dir[0];
    const nck_rnn_args *a = l->a;
    int64_t work = a->B * l->G * a->H * a->H, panels = nc_ceil_div(a->H, nck_gemm_columns(a->type));
    if (!l->apart || a->B > SHARED_ROWS) return 1;
    int64_t pieces = nc_min64(nc_min64(threads / n_dirs, MAX_BLOCKS), nc_min64(panels, work / ITEM_WORK));
    if (pieces <= 1) return 1;
    int64_t own = step_cost(l, nc_ceil_div(a->B, j->n_blocks));
    return step_cost(l, a->B) / pieces + STEP_END + n_dirs * pieces * STEP_THREAD < own ? pieces : 1;
}

static void run_shared(rnn_job *j, int n_dirs, nc_pool *pool) {
    const nck_rnn_args *a = j->dir[0].a;
    j->bytes_item = nck_gemm_workspace(a->type, a->B, a->H, a->H, true);
    for (int d = 0; d < n_dirs; d++) first_states(&j->dir[d]);
    for (j->step = 0; j->step < a->T; j->step++)
        for (int half = j->dir[0].G == 3 ? 0 : 1; half < 2; half++) {
            j->resets = half == 0;
            nc_parallel(pool, n_dirs * j->n_pieces, units_item, j);
        }
    for (int d = 0; d < n_dirs; d++) last_states(&j->dir[d]);
}

void nck_rnn(const nck_rnn_args *dirs, int n_dirs, void *workspace, nc_pool *pool) {
    const nck_rnn_args *a = dirs;
    rnn_job j = {.n_blocks = 1};
    if (a->B == 0 || a->H == 0) return;
    nck_rnn_form form = a->codes != NULL                             ? NCK_RNN_CODES
                        : a->w_packed != NULL && a->r_packed != NULL ? NCK_RNN_PACKED
                                                                     : NCK_RNN_PLAIN;
    lay_out(&j, a->cell->rule.kind, a->type, n_dirs, a->T, a->B, a->I, a->H, form, workspace);
    for (int d = 0; d < n_dirs; d++) {
        layer *l = &j.dir[d];
        l->a = &dirs[d], l->rows = a->B, l->units = a->H, l->gemm = j.gemm;
        rnn_project(l, pool);
    }
    int64_t weights = j.dir[0].G * a->H * a->H, threads = nc_pool_threads(pool);
    j.n_blocks = nc_max64(1, nc_min64(nc_min64(threads / n_dirs, MAX_BLOCKS), nc_ceil_div(a->B, ITEM_ROWS)));
    j.n_pieces = pieces_of(&j, n_dirs, threads);
    if (j.n_pieces > 1) {
        run_shared(&j, n_dirs, pool);
        return;
    }
    j.bytes_item = product_bytes(a->type, form, nc_ceil_div(a->B, j.n_blocks), j.dir[0].G * a->H, a->H);
    nc_parallel(nc_pool_for(pool, nc_min64(a->T * a->B, NC_ALONE) * weights), n_dirs * j.n_blocks, rows_item, &j);
}
