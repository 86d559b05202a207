/* ops/arrange/arrange_cpu.c: CPU bindings of the ops that lay elements out anew, over kernels/cpu/move. */
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/widen.h"

#include "kernels/cpu/move/move.h"
#include "kernels/cpu/move/pad.h"

#include <string.h>

static nc_code arrange_wrong(const nc_call *c, const char *text) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%s", text);
}

/* ---- Pad ---- */

typedef struct padding {
    nck_pad_mode mode;
    bool by_attr;
    int64_t pads[2 * NC_MAX_RANK];
    int n;
    char value[8]; /* of the attribute, in data's type */
} padding;

static nc_code read_mode(nc_prep *p, nck_pad_mode *mode) {
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char *name = nc_attr_str(p->node, "mode");
    for (int k = 0; k < 4; k++) {
        if (strcmp(name, names[k]) != 0) continue;
        *mode = (nck_pad_mode)k;
        return NC_OK;
    }
    NC_FAIL(p->w, NC_E_BAD_GRAPH, "mode is '%s', expected constant, reflect, edge or wrap", name);
}

static void read_value(const nc_node *n, padding *s) {
    float f = (float)nc_attr_float(n, "value");
    double d = (double)f;
    uint16_t h = nc_f32_to_f16(f);
    nc_dtype t = n->in[0]->type->elem;
    if (t == NC_FLOAT)
        memcpy(s->value, &f, 4);
    else if (t == NC_DOUBLE)
        memcpy(s->value, &d, 8);
    else
        memcpy(s->value, &h, 2);
}

static nc_code pad_prepare(nc_prep *p) {
    padding *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(read_mode(p, &s->mode));
    const char *name = nc_attr_has(p->node, "paddings") ? "paddings" : "pads";
    s->by_attr = nc_attr_has(p->node, name);
    if (s->by_attr) {
        const int64_t *v = nc_attr_ints(p->node, name, &s->n);
        if (s->n > 2 * NC_MAX_RANK) NC_FAIL(p->w, NC_E_BAD_GRAPH, "%s has %d elements", name, s->n);
        memcpy(s->pads, v, (size_t)s->n * sizeof *v);
        read_value(p->node, s);
    }
    p->state = s;
    return NC_OK;
}

static int64_t int_at(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* How much is put before every axis. */
static nc_code read_begin(const nc_call *c, int i_pads, int i_axes, int rank, int64_t *begin) {
    const padding *s = c->state;
    const nc_tensor *pads = s->by_attr ? NULL : c->in[i_pads];
    const nc_tensor *axes = i_axes < c->n_in && c->in[i_axes]->data != NULL ? c->in[i_axes] : NULL;
    int64_t n = axes != NULL ? nc_tensor_numel(axes) : rank;
    if ((pads != NULL ? nc_tensor_numel(pads) : s->n) != 2 * n)
        return arrange_wrong(c, "pads has another length than axes ask");
    memset(begin, 0, NC_MAX_RANK * sizeof *begin);
    for (int64_t k = 0; k < n; k++) {
        int64_t axis = axes != NULL ? int_at(axes, k) : k;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank) return arrange_wrong(c, "an axis is out of range");
        begin[axis] = pads != NULL ? int_at(pads, k) : s->pads[k];
    }
    return NC_OK;
}

static size_t pad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)n_out;
    return nck_pad_workspace(&out[0]);
}

static nc_code pad_run(const nc_call *c) {
    const padding *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t begin[NC_MAX_RANK];
    NC_TRY(read_begin(c, 1, 3, x->rank, begin));
    if (s->mode != NCK_PAD_CONSTANT && nc_tensor_numel(x) == 0 && nc_tensor_numel(y) > 0)
        return arrange_wrong(c, "an empty axis has nothing to repeat");
    bool given = c->n_in > 2 && c->in[2]->data != NULL && nc_tensor_numel(c->in[2]) == 1;
    const void *value = s->by_attr ? s->value : given ? c->in[2]->data : NULL;
    nck_pad(s->mode, x, begin, value, y, c->workspace, c->pool);
    return NC_OK;
}

static size_t pad_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_pad_workspace(&in[0]);
}

static nc_code pad_grad_run(const nc_call *c) {
    const padding *s = c->state;
    int64_t begin[NC_MAX_RANK];
    NC_TRY(read_begin(c, 2, 3, c->in[0]->rank, begin));
    nck_pad_grad(s->mode, c->in[0], begin, c->out[0], c->workspace);
    return NC_OK;
}

NC_WIDENED_HALF(pad_grad, pad_grad_workspace)

/* ---- Tile ---- */

static nc_code tile_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t dims[2 * NC_MAX_RANK], from[2 * NC_MAX_RANK], to[2 * NC_MAX_RANK], sx[NC_MAX_RANK], sy[NC_MAX_RANK];
    int n = 0;
    if (nc_tensor_numel(y) == 0) return NC_OK;
    nc_dense_strides(x->dims, x->rank, sx);
    nc_dense_strides(y->dims, y->rank, sy);
    for (int k = 0; k < x->rank; k++) {
        int64_t repeats = y->dims[k] / x->dims[k];
        if (repeats != 1) dims[n] = repeats, from[n] = 0, to[n++] = x->dims[k] * sy[k];
        if (x->dims[k] != 1) dims[n] = x->dims[k], from[n] = sx[k], to[n++] = sy[k];
    }
    if (n > NC_MAX_RANK) return arrange_wrong(c, "too many dims are tiled");
    nck_copy(n, dims, nc_dtype_bytes(x->dtype), x->data, from, y->data, to, c->pool);
    return NC_OK;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

typedef struct block {
    int64_t size;
    bool crd;
} block;

static nc_code block_prepare(nc_prep *p) {
    block *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->size = nc_attr_int(p->node, "blocksize");
    s->crd = nc_attr_has(p->node, "mode") && strcmp(nc_attr_str(p->node, "mode"), "CRD") == 0;
    p->state = s;
    return NC_OK;
}

/* Copies between `deep` (N, C*b*b, H, W) and `wide` (N, C, H*b, W*b): strides of both over (n, c, h, i, w, j). */
static nc_code block_run(const nc_call *c, const nc_tensor *deep, const nc_tensor *wide, bool widens) {
    const block *s = c->state;
    int64_t b = s->size, n_c = wide->dims[1], h = deep->dims[2], w = deep->dims[3], plane = h * w;
    if (deep->dims[1] != n_c * b * b || wide->dims[2] != h * b || wide->dims[3] != w * b)
        return arrange_wrong(c, "a dim is no multiple of the block");
    int64_t dims[6] = {deep->dims[0], n_c, h, b, w, b}, of_c = s->crd ? b * b : 1, of_i = s->crd ? 1 : n_c;
    int64_t in_deep[6] = {n_c * b * b * plane, of_c * plane, w, b * of_i * plane, 1, of_i * plane};
    int64_t in_wide[6] = {n_c * b * b * plane, b * b * plane, b * w * b, w * b, b, 1};
    if (nc_tensor_numel(deep) == 0) return NC_OK;
    nck_copy(6, dims, nc_dtype_bytes(deep->dtype), c->in[0]->data, widens ? in_deep : in_wide, c->out[0]->data,
             widens ? in_wide : in_deep, c->pool);
    return NC_OK;
}

static nc_code to_space_run(const nc_call *c) { return block_run(c, c->in[0], c->out[0], true); }
static nc_code to_depth_run(const nc_call *c) { return block_run(c, c->out[0], c->in[0], false); }

/* ---- CenterCropPad ---- */

static nc_code center_run(const nc_call *c) {
    static const char zero[16];
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t dims[NC_MAX_RANK], sx[NC_MAX_RANK], sy[NC_MAX_RANK], from = 0, to = 0, n = 1;
    size_t bytes = nc_dtype_bytes(x->dtype);
    nc_dense_strides(x->dims, x->rank, sx);
    nc_dense_strides(y->dims, y->rank, sy);
    for (int k = 0; k < x->rank; k++) {
        bool crops = x->dims[k] > y->dims[k];
        dims[k] = crops ? y->dims[k] : x->dims[k];
        from += crops ? (x->dims[k] - y->dims[k]) / 2 * sx[k] : 0;
        to += crops ? 0 : (y->dims[k] - x->dims[k]) / 2 * sy[k];
        n *= dims[k];
    }
    if (nc_tensor_numel(y) > n) nck_fill(y->rank, y->dims, bytes, zero, y->data, sy, c->pool);
    if (n > 0)
        nck_copy(x->rank, dims, bytes, (const char *)x->data + from * (int64_t)bytes, sx,
                 (char *)y->data + to * (int64_t)bytes, sy, c->pool);
    return NC_OK;
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
    if (nc_tensor_numel(lens) != n_batch) return arrange_wrong(c, "sequence_lens has another length than the batch");
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
