/* ops/select/select_cpu.c: CPU bindings of TopK, OneHot, Compress and Unique, over kernels/cpu/index. */
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/widen.h"

#include "kernels/cpu/index/index.h"
#include "kernels/cpu/move/move.h"

#include <string.h>

#define T_ORDERED (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT64))
#define T_NARROW (NC_WIDEN_HALF | NC_WIDEN_INTS)

typedef struct settings {
    int64_t axis;
    bool has_axis, largest, sorted;
} settings;

static nc_code select_prepare(nc_prep *p) {
    settings *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *largest = nc_node_attr(p->node, "largest"), *sorted = nc_node_attr(p->node, "sorted");
    const nc_attr *axis = nc_node_attr(p->node, "axis");
    *s = (settings){.axis = axis != NULL ? axis->i : -1,
                    .has_axis = axis != NULL,
                    .largest = largest == NULL || largest->i != 0,
                    .sorted = sorted == NULL || sorted->i != 0};
    p->state = s;
    return NC_OK;
}

static int64_t product(const int64_t *dims, int lo, int hi) {
    int64_t p = 1;
    for (int k = lo; k < hi; k++) p *= dims[k];
    return p;
}

/* ---- TopK ---- */

static size_t topk_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)n_out;
    return nck_topk_workspace(nc_tensor_numel(&out[0]), 1, 1);
}

static nc_code topk_run(const nc_call *c) {
    const settings *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int axis = (int)(s->axis < 0 ? s->axis + x->rank : s->axis);
    nck_topk t = {.type = x->dtype,
                  .outer = product(x->dims, 0, axis),
                  .axis = x->dims[axis],
                  .inner = product(x->dims, axis + 1, x->rank),
                  .k = y->dims[axis],
                  .largest = s->largest,
                  .x = x->data,
                  .values = y->data,
                  .indices = c->n_out > 1 ? c->out[1]->data : NULL};
    if (t.k > t.axis)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "K is %lld, the axis has %lld elements", (long long)t.k,
                           (long long)t.axis);
    nck_topk_run(&t, c->workspace, c->pool);
    return NC_OK;
}

NC_WIDENED(topk_narrow, T_NARROW, topk_run, topk_workspace)

/* ---- OneHot ---- */

/* Cut to an integer; what int64 does not hold is no index, from either end. */
static int64_t cut(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }

static int64_t index_of(const nc_tensor *t, int64_t i) {
    const void *p = t->data;
    switch (t->dtype) {
    case NC_INT64: return ((const int64_t *)p)[i];
    case NC_INT32: return ((const int32_t *)p)[i];
    case NC_INT16: return ((const int16_t *)p)[i];
    case NC_INT8: return ((const int8_t *)p)[i];
    case NC_UINT64: return ((const uint64_t *)p)[i] > INT64_MAX ? INT64_MIN : (int64_t)((const uint64_t *)p)[i];
    case NC_UINT32: return ((const uint32_t *)p)[i];
    case NC_UINT16: return ((const uint16_t *)p)[i];
    case NC_UINT8: return ((const uint8_t *)p)[i];
    case NC_FLOAT: return cut((double)((const float *)p)[i]);
    case NC_DOUBLE: return cut(((const double *)p)[i]);
    default: return cut((double)nc_f16_to_f32(((const uint16_t *)p)[i]));
    }
}

static nc_code onehot_run(const nc_call *c) {
    const settings *s = c->state;
    const nc_tensor *at = c->in[0], *y = c->out[0];
    int axis = (int)(s->axis < 0 ? s->axis + y->rank : s->axis);
    int64_t depth = y->dims[axis], inner = product(y->dims, axis + 1, y->rank), n = nc_tensor_numel(at);
    size_t bytes = nc_dtype_bytes(y->dtype);
    const char *values = c->in[2]->data;
    if (nc_tensor_numel(c->in[2]) != 2)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "values has %lld elements, expected off and on",
                           (long long)nc_tensor_numel(c->in[2]));
    if (nc_tensor_numel(y) == 0) return NC_OK;
    nck_fill(y->rank, y->dims, bytes, values, y->data, y->strides, c->pool);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = index_of(at, i);
        if (k < 0) k += depth;
        if (k < 0 || k >= depth) continue;
        int64_t to = (i / inner * depth + k) * inner + i % inner;
        memcpy((char *)y->data + to * (int64_t)bytes, values + bytes, bytes);
    }
    return NC_OK;
}

/* ---- Compress ---- */

static nc_code compress_run(const nc_call *c) {
    const settings *s = c->state;
    const nc_tensor *x = c->in[0], *keep = c->in[1];
    const bool *flags = keep->data;
    int axis = !s->has_axis ? 0 : (int)(s->axis < 0 ? s->axis + x->rank : s->axis);
    int64_t size = s->has_axis ? x->dims[axis] : nc_tensor_numel(x), n = 0, n_flags = nc_tensor_numel(keep);
    int64_t outer = s->has_axis ? product(x->dims, 0, axis) : 1;
    size_t bytes = nc_dtype_bytes(x->dtype) * (size_t)(s->has_axis ? product(x->dims, axis + 1, x->rank) : 1);
    for (int64_t k = size; k < n_flags; k++)
        if (flags[k])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "condition %lld is true, there are %lld elements",
                               (long long)k, (long long)size);
    char *to = c->out[0]->data;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < size && k < n_flags; k++) {
            if (!flags[k]) continue;
            if (bytes > 0) memcpy(to, (const char *)x->data + (size_t)(o * size + k) * bytes, bytes);
            to += bytes;
        }
    for (int64_t k = 0; k < size && k < n_flags; k++) n += flags[k];
    for (int k = 0; k < c->out[0]->rank; k++) c->sizes[k] = s->has_axis && k != axis ? x->dims[k] : n;
    return NC_OK;
}

/* ---- Unique ---- */

static int64_t n_rows(const settings *s, const nc_tensor *x) {
    return s->has_axis ? x->dims[s->axis < 0 ? s->axis + x->rank : s->axis] : nc_tensor_numel(x);
}

static size_t unique_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)out, (void)n_out;
    return 5 * (size_t)n_rows(state, &in[0]) * sizeof(int64_t);
}

static void unique_rows(const nc_call *c, const nck_unique *u, int64_t n) {
    size_t bytes = nc_dtype_bytes(u->type), row = bytes * (size_t)u->inners;
    for (int64_t o = 0; o < u->outers; o++)
        for (int64_t k = 0; k < n; k++)
            if (row > 0)
                memcpy((char *)c->out[0]->data + (size_t)(o * n + k) * row,
                       (const char *)u->x + (size_t)(o * u->outer_stride + u->first[k] * u->row_stride) * bytes, row);
}

static nc_code unique_run(const nc_call *c) {
    const settings *s = c->state;
    const nc_tensor *x = c->in[0];
    int axis = s->has_axis ? (int)(s->axis < 0 ? s->axis + x->rank : s->axis) : 0;
    int64_t n = n_rows(s, x), *w = c->workspace;
    nck_unique u = {.type = x->dtype,
                    .x = x->data,
                    .n = n,
                    .row_stride = 1,
                    .outers = 1,
                    .inners = 1,
                    .sorted = s->sorted,
                    .first = w,
                    .count = w + n,
                    .inverse = w + 2 * n,
                    .order = w + 3 * n,
                    .scratch = w + 4 * n};
    if (s->has_axis) {
        u.outers = product(x->dims, 0, axis);
        u.row_stride = u.inners = product(x->dims, axis + 1, x->rank);
        u.outer_stride = n * u.inners;
    }
    int64_t found = nck_unique_run(&u);
    unique_rows(c, &u, found);
    for (int k = 0; k < c->out[0]->rank; k++) c->sizes[k] = s->has_axis && k != axis ? x->dims[k] : found;
    const int64_t *from[4] = {NULL, u.first, u.inverse, u.count};
    for (int i = 1; i < c->n_out; i++) {
        int64_t len = i == 2 ? n : found;
        c->sizes[i * NC_MAX_RANK] = len;
        if (c->out[i]->data != NULL && len > 0) memcpy(c->out[i]->data, from[i], (size_t)len * sizeof(int64_t));
    }
    return NC_OK;
}

const nc_binding nc_select_cpu[] = {
    {.op = "TopK", .types = T_ORDERED, .prepare = select_prepare, .workspace = topk_workspace, .run = topk_run},
    {.op = "TopK",
     .types = T_NARROW,
     .prepare = select_prepare,
     .workspace = topk_narrow_workspace,
     .run = topk_narrow_run},
    {.op = "OneHot", .types = T_NUMBER, .prepare = select_prepare, .run = onehot_run},
    {.op = "Compress", .kind = NC_K_BOUNDED, .types = T_WHOLE, .prepare = select_prepare, .run = compress_run},
    {.op = "Unique",
     .kind = NC_K_BOUNDED,
     .types = T_NUMBER_ALL | T_BOOL,
     .prepare = select_prepare,
     .workspace = unique_workspace,
     .run = unique_run},
    {0}};
