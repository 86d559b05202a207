/* ops/arrange/arrange_cpu.c: CPU bindings of the ops that lay elements out anew, over kernels/cpu/move. */
#include "ops/arrange/arrange.h"
#include "ops/card.h"
#include "ops/widen.h"

#include "kernels/cpu/move/move.h"

#include <string.h>

/* ---- Pad ---- */

static nc_code pad_prepare(nc_prep *p) {
    nc_padding *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_padding_read(p, s));
    p->state = s;
    return NC_OK;
}

static size_t pad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)n_out;
    return nck_pad_workspace(&out[0]);
}

static nc_code pad_run(const nc_call *c) {
    const nc_padding *s = c->state;
    int64_t begin[NC_MAX_RANK];
    NC_TRY(nc_padding_begin(s, c, begin));
    const void *value = s->by_attr ? s->value : nc_padding_given(c);
    nck_pad(s->mode, c->in[0], begin, value, c->out[0], c->workspace, c->pool);
    return NC_OK;
}

static size_t pad_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_pad_workspace(&in[0]);
}

static nc_code pad_grad_run(const nc_call *c) {
    const nc_padding *s = c->state;
    int64_t begin[NC_MAX_RANK];
    NC_TRY(nc_padding_begin_at(s, c, 2, begin));
    nck_pad_grad(s->mode, c->in[0], begin, c->out[0], c->workspace);
    return NC_OK;
}

NC_WIDENED_HALF(pad_grad, pad_grad_workspace)

/* ---- Tile, DepthToSpace, SpaceToDepth, CenterCropPad ---- */

static nc_code arranged(const nc_call *c, nc_code code, const nc_arranged *a) {
    static const char zero[16];
    const nc_tensor *y = c->out[0];
    int64_t bytes = (int64_t)nc_dtype_bytes(y->dtype), n = 1;
    NC_TRY(code);
    for (int k = 0; k < a->rank; k++) n *= a->dims[k];
    if (nc_tensor_numel(y) > 0 && a->fills)
        nck_fill(y->rank, y->dims, (size_t)bytes, zero, y->data, y->strides, c->pool);
    if (n > 0)
        nck_copy(a->rank, a->dims, (size_t)bytes, (const char *)c->in[0]->data + a->at_from * bytes, a->from,
                 (char *)y->data + a->at_to * bytes, a->to, c->pool);
    return NC_OK;
}

static nc_code tile_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_tile(c, &a), &a);
}

static nc_code block_prepare(nc_prep *p) {
    nc_depth *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = nc_depth_read(p->node);
    p->state = s;
    return NC_OK;
}

static nc_code to_space_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_depth(c->state, c, true, &a), &a);
}

static nc_code to_depth_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_depth(c->state, c, false, &a), &a);
}

static nc_code center_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_center(c, &a), &a);
}

/* ---- ReverseSequence ---- */

static nc_code reverse_prepare(nc_prep *p) {
    int64_t *time = nc_arena_alloc(p->arena, sizeof *time);
    NC_NEED(p->w, time);
    *time = nc_attr_int(p->node, "time_axis");
    p->state = time;
    return NC_OK;
}

static nc_code reverse_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *lens = c->in[1];
    int time = (int)*(const int64_t *)c->state, batch = 1 - time;
    size_t row = nc_dtype_bytes(x->dtype);
    int64_t n_time = x->dims[time], n_batch = x->dims[batch];
    for (int k = 2; k < x->rank; k++) row *= (size_t)x->dims[k];
    if (nc_tensor_numel(lens) != n_batch) return nc_arrange_wrong(c, "sequence_lens has another length than the batch");
    for (int64_t b = 0; b < n_batch; b++) {
        int64_t len = ((const int64_t *)lens->data)[b];
        if (len < 0 || len > n_time)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "sequence_lens[%lld] is %lld, there are %lld steps",
                               (long long)b, (long long)len, (long long)n_time);
        for (int64_t t = 0; row > 0 && t < n_time; t++) {
            int64_t from = t < len ? len - 1 - t : t;
            int64_t src = time == 0 ? from * n_batch + b : b * n_time + from;
            int64_t dst = time == 0 ? t * n_batch + b : b * n_time + t;
            memcpy((char *)c->out[0]->data + (size_t)dst * row, (const char *)x->data + (size_t)src * row, row);
        }
    }
    return NC_OK;
}

/* ---- EyeLike ---- */

static nc_code eye_prepare(nc_prep *p) {
    int64_t *k = nc_arena_alloc(p->arena, sizeof *k);
    NC_NEED(p->w, k);
    *k = nc_attr_int(p->node, "k");
    p->state = k;
    p->strided_in = 1;
    return NC_OK;
}

static nc_code eye_run(const nc_call *c) {
    nc_tensor *y = c->out[0];
    int64_t k = *(const int64_t *)c->state, one = 1;
    size_t bytes = nc_dtype_bytes(y->dtype);
    char value[16];
    nc_tensor from = {.data = &one, .dtype = NC_INT64}, to = {.data = value, .dtype = y->dtype};
    NC_TRY(nck_convert(&from, &to, NULL));
    if (nc_tensor_numel(y) > 0) memset(y->data, 0, (size_t)nc_tensor_numel(y) * bytes);
    for (int64_t i = 0; i < y->dims[0]; i++)
        if (i + k >= 0 && i + k < y->dims[1])
            memcpy((char *)y->data + (size_t)(i * y->dims[1] + i + k) * bytes, value, bytes);
    return NC_OK;
}

const nc_binding nc_arrange_cpu[] = {
    {.op = "Pad", .types = T_WHOLE, .prepare = pad_prepare, .workspace = pad_workspace, .run = pad_run},
    {.op = "PadGrad",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),
     .prepare = pad_prepare,
     .workspace = pad_grad_workspace,
     .run = pad_grad_run},
    {.op = "PadGrad",
     .domain = "nacre",
     .types = NC_WIDEN_HALF,
     .prepare = pad_prepare,
     .workspace = pad_grad_half_workspace,
     .run = pad_grad_half_run},
    {.op = "Tile", .types = T_WHOLE, .run = tile_run},
    {.op = "DepthToSpace", .types = T_WHOLE, .prepare = block_prepare, .run = to_space_run},
    {.op = "SpaceToDepth", .types = T_WHOLE, .prepare = block_prepare, .run = to_depth_run},
    {.op = "CenterCropPad", .types = T_WHOLE, .run = center_run},
    {.op = "ReverseSequence", .types = T_WHOLE, .prepare = reverse_prepare, .run = reverse_run},
    {.op = "EyeLike", .prepare = eye_prepare, .run = eye_run},
    {0}};
