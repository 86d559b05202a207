/* ops/rnn/rnn_args.c: see rnn_args.h. */
#include "ops/rnn/rnn_args.h"

enum { X = NC_RNN_X, W = NC_RNN_W, R = NC_RNN_R, B = NC_RNN_B, LENS = NC_RNN_LENS, H0 = NC_RNN_H0 };

nc_code nc_rnn_layer_read(nc_work *w, const nc_node *n, nc_rnn_layer *out) {
    nc_rnn_attrs a;
    NC_TRY(nc_rnn_read_attrs(w, n, &a));
    *out = (nc_rnn_layer){.n_dirs = a.n_dirs, .reverse = a.reverse, .batch_first = a.batch_first};
    for (int d = 0; d < a.n_dirs; d++) nck_rnn_cell_init(&out->cell[d], &a.rule[d]);
    return NC_OK;
}

static const nc_tensor *given(const nc_call *c, int i) {
    return i < c->n_in && c->in[i]->data != NULL ? c->in[i] : NULL;
}

/* Operands of LSTM alone, of whatever op of this family. */
static const nc_tensor *of_cell(const nc_call *c, const nc_rnn_layer *l, int i) {
    return l->cell[0].rule.kind == NCK_LSTM ? given(c, i) : NULL;
}

static nc_code check_shape(const nc_call *c, int i, const char *name, int rank, const int64_t *dims) {
    const nc_tensor *t = given(c, i);
    for (int d = 0; t != NULL && d < rank; d++)
        if (t->rank != rank || t->dims[d] != dims[d])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld at dim %d, expected %lld", name,
                               (long long)t->dims[d], d, (long long)dims[d]);
    return NC_OK;
}

static void *part(const nc_tensor *t, int64_t elements) {
    return t != NULL && t->data != NULL ? (char *)t->data + elements * (int64_t)nc_dtype_bytes(t->dtype) : NULL;
}

/* The sizes, and what both directions share. */
static nck_rnn_args whole(const nc_call *c, const nc_rnn_layer *l) {
    const nc_tensor *x = c->in[X];
    return (nck_rnn_args){.cell = &l->cell[0],
                          .type = x->dtype,
                          .T = x->dims[l->batch_first],
                          .B = x->dims[!l->batch_first],
                          .I = x->dims[2],
                          .H = c->in[R]->dims[l->turned ? 1 : 2],
                          .batch_first = l->batch_first,
                          .x = x->data,
                          .lens = given(c, LENS) != NULL ? given(c, LENS)->data : NULL};
}

nc_code nc_rnn_check(const nc_call *c, const nc_rnn_layer *l) {
    nck_rnn_args a = whole(c, l);
    int64_t H = a.H, GH = nck_rnn_gates(a.cell->rule.kind) * H, dirs = l->n_dirs;
    int64_t first = a.batch_first ? a.B : dirs, second = a.batch_first ? dirs : a.B;
    NC_TRY(check_shape(c, W, "W", 3, (int64_t[]){dirs, l->turned ? a.I : GH, l->turned ? GH : a.I}));
    NC_TRY(check_shape(c, R, "R", 3, (int64_t[]){dirs, l->turned ? H : GH, l->turned ? GH : H}));
    NC_TRY(check_shape(c, B, "B", 2, (int64_t[]){dirs, 2 * GH}));
    NC_TRY(check_shape(c, LENS, "sequence_lens", 1, (int64_t[]){a.B}));
    NC_TRY(check_shape(c, H0, "initial_h", 3, (int64_t[]){first, second, H}));
    if (of_cell(c, l, NC_RNN_C0)) NC_TRY(check_shape(c, NC_RNN_C0, "initial_c", 3, (int64_t[]){first, second, H}));
    if (of_cell(c, l, NC_RNN_P)) NC_TRY(check_shape(c, NC_RNN_P, "P", 2, (int64_t[]){dirs, 3 * H}));
    return NC_OK;
}

nc_code nc_rnn_check_lengths(const nc_call *c, const nc_rnn_layer *l) {
    const nc_tensor *lens = given(c, LENS);
    int64_t T = c->in[X]->dims[l->batch_first];
    for (int64_t b = 0; lens != NULL && b < nc_tensor_numel(lens); b++) {
        int32_t n = ((const int32_t *)lens->data)[b];
        if (n < 0 || n > T)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "sequence_lens holds %d, expected 0 to %lld", (int)n,
                               (long long)T);
    }
    return NC_OK;
}

static int64_t state_at(const nck_rnn_args *a, int d) { return a->batch_first ? d * a->H : d * a->B * a->H; }

static int64_t kept_at(const nck_rnn_args *a, int d) {
    return d * a->T * a->B * nck_rnn_kept(a->cell->rule.kind) * a->H;
}

static const nc_tensor *made(const nc_call *c, int i) { return i < c->n_out ? c->out[i] : NULL; }

/* Direction d: its weights, states and strides. */
static nck_rnn_args direction(const nc_call *c, const nc_rnn_layer *l, int d) {
    nck_rnn_args a = whole(c, l);
    int64_t H = a.H, GH = nck_rnn_gates(l->cell[d].rule.kind) * H, dirs = l->n_dirs;
    a.cell = &l->cell[d];
    a.reverse = d == 1 || l->reverse;
    a.w = part(c->in[W], d * GH * a.I);
    a.r = part(c->in[R], d * GH * H);
    a.b = part(given(c, B), d * 2 * GH);
    a.p = part(of_cell(c, l, NC_RNN_P), d * 3 * H);
    a.h0 = part(given(c, H0), state_at(&a, d));
    a.c0 = part(of_cell(c, l, NC_RNN_C0), state_at(&a, d));
    a.state_rs = a.batch_first ? dirs * H : H;
    a.y_t = a.batch_first ? dirs * H : dirs * a.B * H;
    a.y_b = a.batch_first ? a.T * dirs * H : H;
    return a;
}

nck_rnn_args nc_rnn_forward(const nc_call *c, const nc_rnn_layer *l, int d) {
    int n_out = nc_rnn_n_out(l->cell[0].rule.kind);
    nck_rnn_args a = direction(c, l, d);
    int64_t state = state_at(&a, d);
    a.y = part(made(c, 0), state);
    a.y_h = part(made(c, 1), state);
    a.y_c = n_out > 2 ? part(made(c, 2), state) : NULL;
    a.kept = part(made(c, n_out), kept_at(&a, d));
    return a;
}

nck_rnn_grad_args nc_rnn_backward(const nc_call *c, const nc_rnn_layer *l, int d, nck_rnn_args *a) {
    nck_rnn_kind kind = l->cell[0].rule.kind;
    int n_in = nc_rnn_n_in(kind), n_dy = nc_rnn_n_out(kind);
    *a = direction(c, l, d);
    int64_t state = state_at(a, d), H = a->H, GH = nck_rnn_gates(kind) * H;
    a->kept = part(c->in[n_in + n_dy], kept_at(a, d));
    return (nck_rnn_grad_args){.a = a,
                               .dy = part(given(c, n_in), state),
                               .dy_h = part(given(c, n_in + 1), state),
                               .dy_c = n_dy > 2 ? part(given(c, n_in + 2), state) : NULL,
                               .dx = part(made(c, X), 0),
                               .adds = d > 0,
                               .dw = part(made(c, W), d * GH * a->I),
                               .dr = part(made(c, R), d * GH * H),
                               .db = part(made(c, B), d * 2 * GH),
                               .dh0 = part(made(c, H0), state),
                               .dc0 = part(made(c, NC_RNN_C0), state),
                               .dp = part(made(c, NC_RNN_P), d * 3 * H)};
}
