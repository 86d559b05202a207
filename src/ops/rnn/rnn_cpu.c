/* ops/rnn/rnn_cpu.c: CPU bindings of RNN, GRU and LSTM, of the forms that keep what a gradient needs, and of their
 * gradients, over kernels/cpu/rnn. Constant weights are packed once. Operands are dense; float16 and bfloat16 go
 * through f32 (ops/widen.h). */
#include "kernels/cpu/isa.h"
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/rnn/rnn.h"
#include "ops/widen.h"

typedef struct layer {
    int n_dirs;
    bool reverse, batch_first;
    nck_rnn_cell cell[2];
    nck_rnn_cell_grad back[2];
    bool packed;     /* call->packed holds W and R */
    size_t bytes[2]; /* of one direction of each */
} layer;

enum { X = NC_RNN_X, W = NC_RNN_W, R = NC_RNN_R, B = NC_RNN_B, LENS = NC_RNN_LENS, H0 = NC_RNN_H0 };

static nc_code rnn_grad_prepare(nc_prep *p) {
    layer *l = nc_arena_alloc(p->arena, sizeof *l);
    nc_rnn_attrs a;
    NC_NEED(p->w, l);
    NC_TRY(nc_rnn_read_attrs(p->w, p->node, &a));
    *l = (layer){.n_dirs = a.n_dirs, .reverse = a.reverse, .batch_first = a.batch_first};
    for (int d = 0; d < a.n_dirs; d++) {
        nck_rnn_cell_init(&l->cell[d], &a.rule[d]);
        nck_rnn_cell_grad_init(&l->back[d], &a.rule[d]);
    }
    p->state = l;
    return NC_OK;
}

static nc_code w_fill(const void *state, const nc_tensor *src, void *dst) {
    const layer *l = state;
    nck_rnn_kind kind = l->cell[0].rule.kind;
    int64_t H = src->dims[1] / nck_rnn_gates(kind), es = (int64_t)nc_dtype_bytes(src->dtype);
    for (int d = 0; d < l->n_dirs; d++)
        nck_rnn_pack_w(kind, src->dtype, src->dims[2], H, (const char *)src->data + d * src->strides[0] * es,
                       (char *)dst + (size_t)d * l->bytes[0]);
    return NC_OK;
}

static nc_code r_fill(const void *state, const nc_tensor *src, void *dst) {
    const layer *l = state;
    int64_t es = (int64_t)nc_dtype_bytes(src->dtype);
    for (int d = 0; d < l->n_dirs; d++)
        nck_rnn_pack_r(l->cell[0].rule.kind, src->dtype, src->dims[2],
                       (const char *)src->data + d * src->strides[0] * es, (char *)dst + (size_t)d * l->bytes[1]);
    return NC_OK;
}

/* The literal behind an operand whose dims are those of weights; NULL: it is none, or not for products. */
static const nc_literal *weights(const nc_node *n, int i, int64_t dirs, int64_t gates) {
    const nc_literal *lit = n->in[i]->origin == NC_FROM_CONST ? n->in[i]->lit : NULL;
    if (lit == NULL || lit->rank != 3 || lit->n == 0 || lit->dims[0] != dirs || lit->dims[1] % gates != 0) return NULL;
    return lit->dtype == NC_FLOAT || lit->dtype == NC_DOUBLE ? lit : NULL;
}

/* W and R as the products read them, where both are constants. */
static nc_code rnn_prepare(nc_prep *p) {
    NC_TRY(rnn_grad_prepare(p));
    layer *l = p->state;
    nck_rnn_kind kind = l->cell[0].rule.kind;
    int64_t G = nck_rnn_gates(kind);
    const nc_literal *w = weights(p->node, W, l->n_dirs, G), *r = weights(p->node, R, l->n_dirs, G);
    if (p->no_packs || w == NULL || r == NULL || r->dims[1] != G * r->dims[2] || w->dims[1] != r->dims[1]) return NC_OK;
    l->packed = true;
    l->bytes[0] = nck_rnn_packed_w_bytes(kind, w->dtype, w->dims[2], r->dims[2]);
    l->bytes[1] = nck_rnn_packed_r_bytes(kind, r->dtype, r->dims[2]);
    for (int i = 0; i < 2; i++) {
        const char *form = nc_arena_printf(p->arena, "rnn_%c/1/%s/%s/%d", "wr"[i], nck_isa_get() -> from.gemm,
                                           nc_dtype_name(w->dtype), (int)G);
        NC_NEED(p->w, form);
        p->pack[p->n_packs++] = (nc_pack){.input = i == 0 ? W : R,
                                          .form = form,
                                          .bytes = (size_t)l->n_dirs * l->bytes[i],
                                          .fill = i == 0 ? w_fill : r_fill};
    }
    return NC_OK;
}

static size_t rnn_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const layer *l = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_rnn_workspace(l->cell[0].rule.kind, in[X].dtype, l->n_dirs, in[X].dims[l->batch_first],
                             in[X].dims[!l->batch_first], in[X].dims[2], in[R].dims[2], l->packed);
}

static size_t rnn_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const layer *l = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_rnn_grad_workspace(l->cell[0].rule.kind, in[X].dtype, in[X].dims[l->batch_first],
                                  in[X].dims[!l->batch_first], in[X].dims[2], in[R].dims[2]);
}

static const nc_tensor *rnn_given(const nc_call *c, int i) {
    return i < c->n_in && c->in[i]->data != NULL ? c->in[i] : NULL;
}

static nc_code check_shape(const nc_call *c, int i, const char *name, int rank, const int64_t *dims) {
    const nc_tensor *t = rnn_given(c, i);
    for (int d = 0; t != NULL && d < rank; d++)
        if (t->rank != rank || t->dims[d] != dims[d])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld at dim %d, expected %lld", name,
                               (long long)t->dims[d], d, (long long)dims[d]);
    return NC_OK;
}

/* Operands of LSTM alone, of whatever op of this family. */
static const nc_tensor *of_cell(const nc_call *c, const layer *l, int i) {
    return l->cell[0].rule.kind == NCK_LSTM ? rnn_given(c, i) : NULL;
}

static nc_code check_shapes(const nc_call *c, const layer *l, const nck_rnn_args *a) {
    int64_t H = a->H, GH = nck_rnn_gates(a->cell->rule.kind) * H, dirs = l->n_dirs;
    int64_t first = a->batch_first ? a->B : dirs, second = a->batch_first ? dirs : a->B;
    NC_TRY(check_shape(c, W, "W", 3, (int64_t[]){dirs, GH, a->I}));
    NC_TRY(check_shape(c, R, "R", 3, (int64_t[]){dirs, GH, H}));
    NC_TRY(check_shape(c, B, "B", 2, (int64_t[]){dirs, 2 * GH}));
    NC_TRY(check_shape(c, LENS, "sequence_lens", 1, (int64_t[]){a->B}));
    NC_TRY(check_shape(c, H0, "initial_h", 3, (int64_t[]){first, second, H}));
    if (of_cell(c, l, NC_RNN_C0)) NC_TRY(check_shape(c, NC_RNN_C0, "initial_c", 3, (int64_t[]){first, second, H}));
    if (of_cell(c, l, NC_RNN_P)) NC_TRY(check_shape(c, NC_RNN_P, "P", 2, (int64_t[]){dirs, 3 * H}));
    for (int64_t b = 0; a->lens != NULL && b < a->B; b++)
        if (a->lens[b] < 0 || a->lens[b] > a->T)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "sequence_lens holds %d, expected 0 to %lld",
                               (int)a->lens[b], (long long)a->T);
    return NC_OK;
}

static void *part(const nc_tensor *t, int64_t elements) {
    return t != NULL && t->data != NULL ? (char *)t->data + elements * (int64_t)nc_dtype_bytes(t->dtype) : NULL;
}

/* The sizes, and what both directions share. */
static nck_rnn_args whole(const nc_call *c, const layer *l) {
    const nc_tensor *x = c->in[X];
    return (nck_rnn_args){.cell = &l->cell[0],
                          .type = x->dtype,
                          .T = x->dims[l->batch_first],
                          .B = x->dims[!l->batch_first],
                          .I = x->dims[2],
                          .H = c->in[R]->dims[2],
                          .batch_first = l->batch_first,
                          .x = x->data,
                          .lens = rnn_given(c, LENS) != NULL ? rnn_given(c, LENS)->data : NULL};
}

static int64_t state_at(const nck_rnn_args *a, int d) { return a->batch_first ? d * a->H : d * a->B * a->H; }

/* Direction d: its weights, states and strides. */
static nck_rnn_args direction(const nc_call *c, const layer *l, int d) {
    nck_rnn_args a = whole(c, l);
    int64_t H = a.H, GH = nck_rnn_gates(l->cell[d].rule.kind) * H, dirs = l->n_dirs;
    a.cell = &l->cell[d];
    a.reverse = d == 1 || l->reverse;
    a.w = part(c->in[W], d * GH * a.I);
    a.r = part(c->in[R], d * GH * H);
    a.w_packed = l->packed ? (const char *)c->packed[0] + (size_t)d * l->bytes[0] : NULL;
    a.r_packed = l->packed ? (const char *)c->packed[1] + (size_t)d * l->bytes[1] : NULL;
    a.b = part(rnn_given(c, B), d * 2 * GH);
    a.p = part(of_cell(c, l, NC_RNN_P), d * 3 * H);
    a.h0 = part(rnn_given(c, H0), state_at(&a, d));
    a.c0 = part(of_cell(c, l, NC_RNN_C0), state_at(&a, d));
    a.state_rs = a.batch_first ? dirs * H : H;
    a.y_t = a.batch_first ? dirs * H : dirs * a.B * H;
    a.y_b = a.batch_first ? a.T * dirs * H : H;
    return a;
}

static int64_t kept_at(const nck_rnn_args *a, int d) {
    return d * a->T * a->B * nck_rnn_kept(a->cell->rule.kind) * a->H;
}

static const nc_tensor *made(const nc_call *c, int i) { return i < c->n_out ? c->out[i] : NULL; }

static nc_code rnn_run(const nc_call *c) {
    const layer *l = c->state;
    int n_out = nc_rnn_n_out(l->cell[0].rule.kind);
    nck_rnn_args shared = whole(c, l), dirs[2];
    NC_TRY(check_shapes(c, l, &shared));
    for (int d = 0; d < l->n_dirs; d++) {
        nck_rnn_args *a = &dirs[d];
        *a = direction(c, l, d);
        int64_t state = state_at(a, d);
        a->y = part(made(c, 0), state);
        a->y_h = part(made(c, 1), state);
        a->y_c = n_out > 2 ? part(made(c, 2), state) : NULL;
        a->kept = part(made(c, n_out), kept_at(a, d));
    }
    nck_rnn(dirs, l->n_dirs, c->workspace, c->pool);
    return NC_OK;
}

static nc_code rnn_grad_run(const nc_call *c) {
    const layer *l = c->state;
    nck_rnn_kind kind = l->cell[0].rule.kind;
    int n_in = nc_rnn_n_in(kind), n_dy = nc_rnn_n_out(kind);
    nck_rnn_args a = whole(c, l);
    NC_TRY(check_shapes(c, l, &a));
    for (int d = 0; d < l->n_dirs; d++) {
        a = direction(c, l, d);
        int64_t state = state_at(&a, d), H = a.H, GH = nck_rnn_gates(kind) * H;
        a.kept = part(c->in[n_in + n_dy], kept_at(&a, d));
        nck_rnn_grad_args g = {.a = &a,
                               .cell = &l->back[d],
                               .dy = part(rnn_given(c, n_in), state),
                               .dy_h = part(rnn_given(c, n_in + 1), state),
                               .dy_c = n_dy > 2 ? part(rnn_given(c, n_in + 2), state) : NULL,
                               .dx = part(made(c, X), 0),
                               .adds = d > 0,
                               .dw = part(made(c, W), d * GH * a.I),
                               .dr = part(made(c, R), d * GH * H),
                               .db = part(made(c, B), d * 2 * GH),
                               .dh0 = part(made(c, H0), state),
                               .dc0 = part(made(c, NC_RNN_C0), state),
                               .dp = part(made(c, NC_RNN_P), d * 3 * H)};
        nck_rnn_grad(&g, c->workspace, c->pool);
    }
    return NC_OK;
}

NC_WIDENED_HALF(rnn, rnn_workspace)
NC_WIDENED_HALF(rnn_grad, rnn_grad_workspace)

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define ROWS(fn, ...)                                                                                        \
    {__VA_ARGS__, .types = T_WIDE, .prepare = fn##_prepare, .workspace = fn##_workspace, .run = fn##_run}, { \
        __VA_ARGS__, .types = NC_WIDEN_HALF, .prepare = fn##_prepare, .workspace = fn##_half_workspace,      \
                     .run = fn##_half_run                                                                    \
    }
#define ALL(name)                                                           \
    ROWS(rnn, .op = name), ROWS(rnn, .op = name "Kept", .domain = "nacre"), \
        ROWS(rnn_grad, .op = name "Grad", .domain = "nacre")
const nc_binding nc_rnn_cpu[] = {ALL("RNN"), ALL("GRU"), ALL("LSTM"), {0}};
