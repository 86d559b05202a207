/* ops/nn/conv_last_cuda.c: nacre.ConvBlocked on the GPU, where one block holds all channels, and the turns into and out
 * of that layout. Weights are packed once with their channels last, or turned into the workspace of each run where a
 * session packs nothing. A body that adds a tensor, takes Relu, or both may go into the convolution's kernel; any
 * other, and what the kernel leaves, is a generated kernel over the result. */
#include "base/intmath.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/conv_last.h"
#include "kernels/cuda/move.h"
#include "ops/card.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "ops/nn/conv.h"
#include "ops/nn/nn_cpu.h"
#include "ops/nn/nn_cuda.h"

#include <string.h>

enum { FIRST_MORE = 3, MAX_MORE = 12 }; /* inputs from FIRST_MORE on belong to the body */

typedef struct last {
    nc_conv_attrs attrs;
    nck_cuda_gemm_cache cache;
    nck_cuda_conv_last kernel;
    nck_cuda_move move;
    nck_cuda_chain body;
    bool has_body, packed;
    bool simple, relu; /* the body adds input `add` (0: none) and takes Relu or not */
    int add;
} last;

bool nc_conv_last_fits(const nc_node *n, const char **why) {
    const nc_type *w = n->in[1]->type, *y = n->out[0]->type;
    int64_t C, K;
    *why = "one or two spatial dims are supported";
    if (w == NULL || (w->rank != 3 && w->rank != 4)) return false;
    *why = "one block must hold all channels, in and out";
    if (nc_attr_int(n, "planes") != 0 || y == NULL || !nc_dim_is_const(w->dims[0], &K)) return false;
    return nc_dim_is_const(w->dims[1], &C) && nc_attr_int(n, "block") == K;
}

/* ---- the body ---- */

/* y = relu(sum + add), each part optional. */
static void read_simple(const nc_node *n, const nc_lane_prog *p, last *s) {
    int r = 0, i = 0;
    if (i < p->n_op && p->op[i].lane == NCK_LANE_add) {
        int a = p->op[i].src[0], b = p->op[i].src[1], other = a == r ? b : a;
        if ((a == r) == (b == r) || other >= p->n_in) return;
        if (!nc_type_equal(n->in[FIRST_MORE + other - 1]->type, n->out[0]->type)) return;
        s->add = other, r = p->op[i++].dst;
    }
    if (i < p->n_op && p->op[i].lane == NCK_LANE_relu && p->op[i].src[0] == r) s->relu = true, r = p->op[i++].dst;
    s->simple = i == p->n_op && p->out_reg[0] == r;
    if (!s->simple) s->add = 0, s->relu = false;
}

static nc_code read_body(nc_prep *p, last *s) {
    const nc_node *n = p->node;
    nc_lane_prog prog;
    nc_dtype types[NCK_CUDA_CHAIN_MAX_ARGS];
    if (n->n_subs == 0) return NC_OK;
    if (!nc_lane_prog_body(&prog, n->subs[0].graph)) NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", prog.why);
    if (prog.n_out != 1 || prog.n_in != n->n_in - FIRST_MORE + 1 || prog.n_in > MAX_MORE)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "the body needs one output and an input per input of the node from %d on",
                FIRST_MORE);
    types[0] = types[prog.n_in] = n->out[0]->type->elem;
    for (int i = 1; i < prog.n_in; i++) types[i] = n->in[FIRST_MORE + i - 1]->type->elem;
    read_simple(n, &prog, s);
    s->has_body = true;
    nck_tile_prog tile = nc_lane_prog_tile(&prog);
    return nck_cuda_chain_prepare(p->device, &tile, types, nc_lane_cuda_rank(n->out[0]->type), &s->body, &p->w->diag);
}

static nc_code run_body(const last *s, const nc_call *c) {
    nc_tensor *in[MAX_MORE];
    in[0] = c->out[0];
    for (int i = FIRST_MORE; i < c->n_in; i++) in[i - FIRST_MORE + 1] = c->in[i];
    return nck_cuda_chain_run(&s->body, nck_cuda_at_call(c), in, c->out);
}

/* ---- weights ---- */

/* (K, C/group, k...) to (K, k..., C/group); src may be unaligned. */
static nc_code fill_weights(const void *state, const nc_tensor *src, void *dst) {
    size_t elem = nc_dtype_bytes(src->dtype);
    int64_t K = src->dims[0], C = src->dims[1], T = 1;
    (void)state;
    for (int i = 2; i < src->rank; i++) T *= src->dims[i];
    for (int64_t i = 0; i < K * C * T; i++) {
        int64_t c = i % C, t = i / C % T, k = i / C / T;
        memcpy((char *)dst + (size_t)i * elem, (const char *)src->data + (size_t)((k * C + c) * T + t) * elem, elem);
    }
    return NC_OK;
}

static size_t weight_bytes(const nc_tensor *w) {
    return nc_align64((size_t)nc_tensor_numel(w) * nc_dtype_bytes(w->dtype));
}

static nc_code ask_for_weights(nc_prep *p) {
    const nc_literal *lit = p->node->in[1]->lit;
    if (lit == NULL) NC_FAIL(p->w, NC_E_UNSUPPORTED, "the weight is no constant");
    nc_pack *pack = &p->pack[p->n_packs++];
    nc_dtype t = p->node->in[1]->type->elem;
    pack->input = 1;
    pack->form = t == NC_FLOAT16 ? "conv_last/1/f16" : t == NC_BFLOAT16 ? "conv_last/1/bf16" : "conv_last/1/f32";
    pack->bytes = (size_t)lit->n * nc_dtype_bytes(t);
    pack->fill = fill_weights;
    return NC_OK;
}

nc_code nc_conv_last_prepare(nc_prep *p) {
    last *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    nc_dtype t = p->node->in[0]->type->elem;
    *s = (last){.packed = !p->no_packs};
    p->state = s;
    NC_TRY(nc_conv_read_attrs(p->w, p->node, p->node->in[1]->type->rank - 2, &s->attrs));
    NC_TRY(read_body(p, s));
    NC_TRY(nck_cuda_conv_last_prepare(p->device, t, &s->cache, &s->kernel, &p->w->diag));
    NC_TRY(nck_cuda_move_prepare(p->device, nc_dtype_bytes(t), &s->move, &p->w->diag));
    return s->packed ? ask_for_weights(p) : NC_OK;
}

/* ---- the run ---- */

/* x (N, 1, in..., C) */
static nck_conv_shape shape_of(const last *s, const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    return (nck_conv_shape){.type = x->dtype,
                            .N = x->dims[0],
                            .C = w->dims[1] * s->attrs.group,
                            .K = w->dims[0],
                            .group = s->attrs.group,
                            .w = nc_window_kernel(&s->attrs, x->dims + 2, w->dims + 2, y->dims + 2)};
}

size_t nc_conv_last_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const last *s = state;
    nck_conv_shape shape = shape_of(s, &in[0], &in[1], &out[0]);
    (void)n_in, (void)n_out;
    return nck_cuda_conv_last_workspace(&shape) + (s->packed ? 0 : weight_bytes(&in[1]));
}

nc_code nc_conv_last_run(const nc_call *c) {
    const last *s = c->state;
    const nc_tensor *x = c->in[0], *w = c->in[1];
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_cuda_conv_last_args a = {.shape = shape_of(s, x, w, c->out[0]),
                                 .x = x->data,
                                 .bias = c->n_in > 2 ? c->in[2]->data : NULL,
                                 .add = s->add > 0 ? c->in[FIRST_MORE + s->add - 1]->data : NULL,
                                 .relu = s->relu,
                                 .y = c->out[0]->data};
    bool whole;
    NC_TRY(nc_conv_check(c, &a.shape, x->dims[x->rank - 1]));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    a.w = s->packed ? c->packed[0] : c->workspace;
    if (!s->packed)
        NC_TRY(nck_cuda_turn(&s->move, at, a.shape.K, w->dims[1], nck_window_n_k(&a.shape.w), w->data, c->workspace));
    NC_TRY(
        nck_cuda_conv_last_run(&s->kernel, at, &a, (char *)c->workspace + (s->packed ? 0 : weight_bytes(w)), &whole));
    return s->has_body && !(s->simple && whole) ? run_body(s, c) : NC_OK;
}
