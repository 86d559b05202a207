/* ops/rnn/rnn_cuda.c: CUDA bindings of RNN, GRU and LSTM, of the forms that keep what a gradient needs, and of their
 * gradients, over kernels/cuda/rnn.h. Operands are dense; float16 and bfloat16 go through f32: operands are widened
 * into the workspace, results narrowed behind it. */
#include "kernels/cuda/rnn.h"

#include "ops/card.h"
#include "ops/rnn/rnn_args.h"

#include <string.h>

enum { MAX_IN = 12, MAX_OUT = 8, ALIGN = 256 };

typedef struct layer {
    nc_rnn_layer of;
    bool back, half;
    nck_cuda_gemm_cache cache;
    nck_cuda_rnn kernel;
    nck_cuda_widen widen;
} layer;

/* The row's own says whether it is a gradient. */
static nc_code rnn_prepare(nc_prep *p) {
    layer *l = nc_arena_alloc(p->arena, sizeof *l);
    nc_dtype t = p->node->in[NC_RNN_X]->type->elem;
    NC_NEED(p->w, l);
    memset(l, 0, sizeof *l);
    l->back = *(const bool *)p->own;
    l->half = t == NC_FLOAT16 || t == NC_BFLOAT16;
    NC_TRY(nc_rnn_layer_read(p->w, p->node, &l->of));
    p->state = l;
    if (l->half) NC_TRY(nck_cuda_widen_prepare(p->device, t, &l->widen, &p->w->diag));
    NC_TRY(nck_cuda_rnn_prepare(p->device, l->half ? NC_FLOAT : t, &l->cache, &l->kernel, &p->w->diag));
    l->kernel.gemm.tf32 = p->tf32;
    return NC_OK;
}

static size_t bytes_widened(const nc_tensor *t) {
    if (t->dtype != NC_FLOAT16 && t->dtype != NC_BFLOAT16) return 0;
    return ((size_t)nc_tensor_numel(t) * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t rnn_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const layer *l = state;
    nck_rnn_kind kind = l->of.cell[0].rule.kind;
    const nc_tensor *x = &in[NC_RNN_X];
    int64_t T = x->dims[l->of.batch_first], B = x->dims[!l->of.batch_first], H = in[NC_RNN_R].dims[2];
    nc_dtype t = l->half ? NC_FLOAT : x->dtype;
    size_t bytes = l->back ? nck_cuda_rnn_grad_workspace(kind, t, T, B, H) : nck_cuda_rnn_workspace(kind, t, T, B, H);
    for (int i = 0; i < n_in; i++) bytes += bytes_widened(&in[i]);
    for (int i = 0; i < n_out; i++) bytes += bytes_widened(&out[i]);
    return bytes;
}

static nc_code run_floats(const nc_call *c, void *workspace) {
    const layer *l = c->state;
    NC_TRY(nc_rnn_check(c, &l->of));
    for (int d = 0; d < l->of.n_dirs; d++) {
        if (l->back) {
            nck_rnn_args a;
            nck_rnn_grad_args g = nc_rnn_backward(c, &l->of, d, &a);
            NC_TRY(nck_cuda_rnn_grad_run(&l->kernel, c, &g, workspace));
        } else {
            nck_rnn_args a = nc_rnn_forward(c, &l->of, d);
            NC_TRY(nck_cuda_rnn_run(&l->kernel, c, &a, workspace));
        }
    }
    return NC_OK;
}

/* t with room for its elements as floats; others stay as they are. */
static void as_floats(const nc_tensor *t, nc_tensor *wide, char **at) {
    size_t bytes = t->data != NULL ? bytes_widened(t) : 0;
    nc_tensor_copy(wide, t);
    if (bytes == 0) return;
    wide->dtype = NC_FLOAT;
    wide->data = *at;
    *at += bytes;
}

static nc_code rnn_run(const nc_call *c) {
    const layer *l = c->state;
    nc_tensor wide[MAX_IN + MAX_OUT], *in[MAX_IN], *out[MAX_OUT];
    char *at = c->workspace;
    if (!l->half) return run_floats(c, at);
    for (int i = 0; i < c->n_in; i++) {
        as_floats(c->in[i], in[i] = &wide[i], &at);
        if (in[i]->data != c->in[i]->data)
            NC_TRY(nck_cuda_widen_run(l->widen.widen, nck_cuda_at_call(c), nc_tensor_numel(in[i]), c->in[i]->data,
                                      in[i]->data));
    }
    for (int i = 0; i < c->n_out; i++) as_floats(c->out[i], out[i] = &wide[MAX_IN + i], &at);
    nc_call floats = *c;
    floats.in = in, floats.out = out;
    NC_TRY(run_floats(&floats, at));
    for (int i = 0; i < c->n_out; i++)
        if (out[i]->data != c->out[i]->data)
            NC_TRY(nck_cuda_widen_run(l->widen.narrow, nck_cuda_at_call(c), nc_tensor_numel(out[i]), out[i]->data,
                                      c->out[i]->data));
    return NC_OK;
}

#define ROW(is_back, ...)                                                                         \
    {                                                                                             \
        __VA_ARGS__, .types = T_FLOAT_ALL, .prepare = rnn_prepare, .own = &(const bool){is_back}, \
                     .workspace = rnn_workspace, .run = rnn_run                                   \
    }
#define ALL(name)                                                             \
    ROW(false, .op = name), ROW(false, .op = name "Kept", .domain = "nacre"), \
        ROW(true, .op = name "Grad", .domain = "nacre")
const nc_binding nc_rnn_cuda[] = {ALL("RNN"), ALL("GRU"), ALL("LSTM"), {0}};
