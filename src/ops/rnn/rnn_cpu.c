/* ops/rnn/rnn_cpu.c: CPU bindings of RNN, GRU and LSTM, of the forms that keep what a gradient needs, and of their
 * gradients, over kernels/cpu/rnn. Constant weights are packed once. Operands are dense; float16 and bfloat16 go
 * through f32 (ops/widen.h). */
#include "kernels/cpu/isa.h"
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/contrib.h"
#include "ops/rnn/lstm_codes.h"
#include "ops/rnn/rnn_args.h"
#include "ops/widen.h"

typedef struct layer {
    nc_rnn_layer of;
    nck_rnn_cell_grad back[2];
    bool packed;     /* call->packed holds W and R */
    size_t bytes[2]; /* of one direction of each */
} layer;

enum { X = NC_RNN_X, W = NC_RNN_W, R = NC_RNN_R };

static nc_code rnn_grad_prepare(nc_prep *p) {
    layer *l = nc_arena_alloc(p->arena, sizeof *l);
    NC_NEED(p->w, l);
    *l = (layer){.packed = false};
    NC_TRY(nc_rnn_layer_read(p->w, p->node, &l->of));
    for (int d = 0; d < l->of.n_dirs; d++) nck_rnn_cell_grad_init(&l->back[d], &l->of.cell[d].rule);
    p->state = l;
    return NC_OK;
}

static nc_code w_fill(const void *state, const nc_tensor *src, void *dst) {
    const layer *l = state;
    nck_rnn_kind kind = l->of.cell[0].rule.kind;
    int64_t H = src->dims[1] / nck_rnn_gates(kind), es = (int64_t)nc_dtype_bytes(src->dtype);
    for (int d = 0; d < l->of.n_dirs; d++)
        nck_rnn_pack_w(kind, src->dtype, src->dims[2], H, (const char *)src->data + d * src->strides[0] * es,
                       (char *)dst + (size_t)d * l->bytes[0]);
    return NC_OK;
}

static nc_code r_fill(const void *state, const nc_tensor *src, void *dst) {
    const layer *l = state;
    int64_t es = (int64_t)nc_dtype_bytes(src->dtype);
    for (int d = 0; d < l->of.n_dirs; d++)
        nck_rnn_pack_r(l->of.cell[0].rule.kind, src->dtype, src->dims[2],
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
    nck_rnn_kind kind = l->of.cell[0].rule.kind;
    int64_t G = nck_rnn_gates(kind);
    const nc_literal *w = weights(p->node, W, l->of.n_dirs, G), *r = weights(p->node, R, l->of.n_dirs, G);
    if (p->no_packs || w == NULL || r == NULL || r->dims[1] != G * r->dims[2] || w->dims[1] != r->dims[1]) return NC_OK;
    l->packed = true;
    l->bytes[0] = nck_rnn_packed_w_bytes(kind, w->dtype, w->dims[2], r->dims[2]);
    l->bytes[1] = nck_rnn_packed_r_bytes(kind, r->dtype, r->dims[2]);
    for (int i = 0; i < 2; i++) {
        const char *form = nc_arena_printf(p->arena, "rnn_%c/2/%s/%s/%d", "wr"[i], nck_isa_get() -> from.gemm,
                                           nc_dtype_name(w->dtype), (int)G);
        NC_NEED(p->w, form);
        p->pack[p->n_packs++] = (nc_pack){.input = i == 0 ? W : R,
                                          .form = form,
                                          .bytes = (size_t)l->of.n_dirs * l->bytes[i],
                                          .fill = i == 0 ? w_fill : r_fill};
    }
    return NC_OK;
}

static size_t rnn_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const layer *l = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_rnn_workspace(l->of.cell[0].rule.kind, in[X].dtype, l->of.n_dirs, in[X].dims[l->of.batch_first],
                             in[X].dims[!l->of.batch_first], in[X].dims[2], in[R].dims[2],
                             l->packed ? NCK_RNN_PACKED : NCK_RNN_PLAIN);
}

static size_t rnn_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const layer *l = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_rnn_grad_workspace(l->of.cell[0].rule.kind, in[X].dtype, in[X].dims[l->of.batch_first],
                                  in[X].dims[!l->of.batch_first], in[X].dims[2], in[R].dims[2]);
}

static void use_packed(const nc_call *c, const layer *l, int d, nck_rnn_args *a) {
    a->w_packed = l->packed ? (const char *)c->packed[0] + (size_t)d * l->bytes[0] : NULL;
    a->r_packed = l->packed ? (const char *)c->packed[1] + (size_t)d * l->bytes[1] : NULL;
}

static nc_code rnn_run(const nc_call *c) {
    const layer *l = c->state;
    nck_rnn_args dirs[2];
    NC_TRY(nc_rnn_check(c, &l->of));
    NC_TRY(nc_rnn_check_lengths(c, &l->of));
    for (int d = 0; d < l->of.n_dirs; d++) {
        dirs[d] = nc_rnn_forward(c, &l->of, d);
        use_packed(c, l, d, &dirs[d]);
    }
    nck_rnn(dirs, l->of.n_dirs, c->workspace, c->pool);
    return NC_OK;
}

static nc_code rnn_grad_run(const nc_call *c) {
    const layer *l = c->state;
    NC_TRY(nc_rnn_check(c, &l->of));
    NC_TRY(nc_rnn_check_lengths(c, &l->of));
    for (int d = 0; d < l->of.n_dirs; d++) {
        nck_rnn_args a;
        nck_rnn_grad_args g = nc_rnn_backward(c, &l->of, d, &a);
        use_packed(c, l, d, &a);
        g.cell = &l->back[d];
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
const nc_binding nc_rnn_cpu[] = {ALL("RNN"),
                                 ALL("GRU"),
                                 ALL("LSTM"),
                                 {.op = "DynamicQuantizeLSTM",
                                  .domain = NC_MICROSOFT,
                                  .prepare = nc_lstm_codes_prepare,
                                  .workspace = nc_lstm_codes_workspace,
                                  .run = nc_lstm_codes_run},
                                 {0}};
