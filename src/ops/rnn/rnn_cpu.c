/* ops/rnn/rnn_cpu.c: CPU bindings of RNN, GRU and LSTM over kernels/cpu/rnn: one call per direction. Operands are
 * dense; float16 and bfloat16 go through f32 (ops/widen.h). */
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/rnn/rnn.h"
#include "ops/widen.h"

typedef struct layer {
    int n_dirs;
    bool reverse, batch_first;
    nck_rnn_cell cell[2];
} layer;

enum { X, W, R, B, LENS, H0, C0, P };

static nc_code rnn_prepare(nc_prep *p) {
    layer *l = nc_arena_alloc(p->arena, sizeof *l);
    nc_rnn_attrs a;
    NC_NEED(p->w, l);
    NC_TRY(nc_rnn_read_attrs(p->w, p->node, &a));
    *l = (layer){.n_dirs = a.n_dirs, .reverse = a.reverse, .batch_first = a.batch_first};
    for (int d = 0; d < a.n_dirs; d++) nck_rnn_cell_init(&l->cell[d], &a.rule[d]);
    p->state = l;
    return NC_OK;
}

static size_t rnn_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const layer *l = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_rnn_workspace(l->cell[0].rule.kind, in[X].dtype, in[X].dims[l->batch_first], in[X].dims[!l->batch_first],
                             in[X].dims[2], in[R].dims[2]);
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

static nc_code check_shapes(const nc_call *c, const nck_rnn_args *a, int64_t dirs) {
    int64_t H = a->H, GH = nck_rnn_gates(a->cell->rule.kind) * H;
    int64_t first = a->batch_first ? a->B : dirs, second = a->batch_first ? dirs : a->B;
    NC_TRY(check_shape(c, W, "W", 3, (int64_t[]){dirs, GH, a->I}));
    NC_TRY(check_shape(c, R, "R", 3, (int64_t[]){dirs, GH, H}));
    NC_TRY(check_shape(c, B, "B", 2, (int64_t[]){dirs, 2 * GH}));
    NC_TRY(check_shape(c, LENS, "sequence_lens", 1, (int64_t[]){a->B}));
    NC_TRY(check_shape(c, H0, "initial_h", 3, (int64_t[]){first, second, H}));
    NC_TRY(check_shape(c, C0, "initial_c", 3, (int64_t[]){first, second, H}));
    NC_TRY(check_shape(c, P, "P", 2, (int64_t[]){dirs, 3 * H}));
    for (int64_t b = 0; a->lens != NULL && b < a->B; b++)
        if (a->lens[b] < 0 || a->lens[b] > a->T)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "sequence_lens holds %d, expected 0 to %lld",
                               (int)a->lens[b], (long long)a->T);
    return NC_OK;
}

static void *part(const nc_tensor *t, int64_t elements) {
    return t != NULL && t->data != NULL ? (char *)t->data + elements * (int64_t)nc_dtype_bytes(t->dtype) : NULL;
}

/* Direction d of `a`, which has the sizes. */
static void run_direction(const nc_call *c, const layer *l, nck_rnn_args a, int d) {
    int64_t H = a.H, GH = nck_rnn_gates(l->cell[d].rule.kind) * H, dirs = l->n_dirs;
    int64_t state = a.batch_first ? d * H : d * a.B * H;
    a.cell = &l->cell[d];
    a.reverse = d == 1 || l->reverse;
    a.w = part(c->in[W], d * GH * a.I);
    a.r = part(c->in[R], d * GH * H);
    a.b = part(rnn_given(c, B), d * 2 * GH);
    a.p = part(rnn_given(c, P), d * 3 * H);
    a.h0 = part(rnn_given(c, H0), state);
    a.c0 = part(rnn_given(c, C0), state);
    a.state_rs = a.batch_first ? dirs * H : H;
    a.y = part(c->out[0], state);
    a.y_t = a.batch_first ? dirs * H : dirs * a.B * H;
    a.y_b = a.batch_first ? a.T * dirs * H : H;
    a.y_h = c->n_out > 1 ? part(c->out[1], state) : NULL;
    a.y_c = c->n_out > 2 ? part(c->out[2], state) : NULL;
    nck_rnn(&a, c->workspace, c->pool);
}

static nc_code rnn_run(const nc_call *c) {
    const layer *l = c->state;
    const nc_tensor *x = c->in[X];
    nck_rnn_args a = {.cell = &l->cell[0],
                      .type = x->dtype,
                      .T = x->dims[l->batch_first],
                      .B = x->dims[!l->batch_first],
                      .I = x->dims[2],
                      .H = c->in[R]->dims[2],
                      .batch_first = l->batch_first,
                      .x = x->data,
                      .lens = rnn_given(c, LENS) != NULL ? rnn_given(c, LENS)->data : NULL};
    NC_TRY(check_shapes(c, &a, l->n_dirs));
    for (int d = 0; d < l->n_dirs; d++) run_direction(c, l, a, d);
    return NC_OK;
}

NC_WIDENED_HALF(rnn, rnn_workspace)

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define ROWS(name)                                                                                       \
    {.op = name, .types = T_WIDE, .prepare = rnn_prepare, .workspace = rnn_workspace, .run = rnn_run}, { \
        .op = name, .types = NC_WIDEN_HALF, .prepare = rnn_prepare, .workspace = rnn_half_workspace,     \
        .run = rnn_half_run                                                                              \
    }
const nc_binding nc_rnn_cpu[] = {ROWS("RNN"), ROWS("GRU"), ROWS("LSTM"), {0}};
