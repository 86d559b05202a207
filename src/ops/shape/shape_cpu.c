/* ops/shape/shape_cpu.c: CPU bindings of the shape family: the views that every device has, kernels that move or
 * convert elements (kernels/cpu/move), and host kernels for what are objects: strings, sequences, optionals. */
#include "ops/shape/shape.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/move/move.h"

#include <math.h>
#include <string.h>

/* ---- Shape, Size ---- */

typedef struct span {
    int64_t start, end;
    bool has_end;
} span;

static nc_code shape_prepare(nc_prep *p) {
    span *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->has_end = nc_attr_has(p->node, "end");
    s->start = nc_attr_has(p->node, "start") ? nc_attr_int(p->node, "start") : 0;
    s->end = s->has_end ? nc_attr_int(p->node, "end") : 0;
    p->state = s;
    p->strided_in = 1;
    return NC_OK;
}

static nc_code shape_run(const nc_call *c) {
    const span *s = c->state;
    int64_t rank = c->in[0]->rank, first, n;
    nc_slice_range(rank, s->start, s->has_end ? s->end : rank, 1, &first, &n);
    if (n > 0) memcpy(c->out[0]->data, c->in[0]->dims + first, (size_t)n * sizeof(int64_t));
    return NC_OK;
}

static bool is_packed(const nc_value *v) { return v->type != NULL && nc_dtype_is_packed(v->type->elem); }

static nc_code strided_prepare(nc_prep *p) {
    p->strided_in = UINT32_MAX;
    p->strided_out = is_packed(p->node->out[0]) ? 0 : 1;
    return NC_OK;
}

static nc_code size_run(const nc_call *c) {
    *(int64_t *)c->out[0]->data = nc_tensor_numel(c->in[0]);
    return NC_OK;
}

/* ---- Concat ---- */

static nc_code concat_prepare(nc_prep *p) {
    int64_t *axis = nc_arena_alloc(p->arena, sizeof *axis);
    NC_NEED(p->w, axis);
    *axis = nc_attr_has(p->node, "axis") ? nc_attr_int(p->node, "axis") : 1;
    p->state = axis;
    return strided_prepare(p);
}

static nc_code concat_run(const nc_call *c) {
    const nc_tensor *y = c->out[0];
    nc_concat_piece piece = {0};
    for (int i = 0; i < c->n_in; i++) {
        const nc_tensor *x = c->in[i];
        NC_TRY(nc_concat_next(c, *(const int64_t *)c->state, i, &piece));
        if (piece.moves)
            nck_copy(x->rank, x->dims, nc_dtype_bytes(y->dtype), x->data, x->strides, piece.dst, y->strides, c->pool);
    }
    return NC_OK;
}

/* ---- Cast, SliceGrad, constants ---- */

static bool cast_fits(const nc_node *n, const char **why) {
    const nc_type *y = n->out[0]->type;
    *why = "strings are converted by a host kernel";
    return y != NULL && y->elem != NC_STRING;
}

static nc_code cast_prepare(nc_prep *p) {
    nc_narrowing *how = nc_arena_alloc(p->arena, sizeof *how);
    NC_NEED(p->w, how);
    NC_TRY(nc_cast_read(p->w, p->node, how));
    p->state = how;
    p->strided_in = is_packed(p->node->in[0]) || is_packed(p->node->out[0]) ? 0 : 1;
    p->strided_out = is_packed(p->node->out[0]) ? 0 : 1;
    return NC_OK;
}

static nc_code cast_run(const nc_call *c) {
    const nc_narrowing *how = c->state;
    nc_code code = nck_convert_how(c->in[0], c->out[0], *how, c->pool);
    if (code == NC_OK) return NC_OK;
    return nc_diag_set(c->diag, code, c->node, c->op, "%s cannot become %s", nc_dtype_name(c->in[0]->dtype),
                       nc_dtype_name(c->out[0]->dtype));
}

static nc_code bit_cast_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    if (nc_tensor_numel(x) > 0)
        nck_copy(x->rank, x->dims, nc_dtype_bytes(x->dtype), x->data, x->strides, y->data, y->strides, c->pool);
    return NC_OK;
}

static nc_code slice_grad_prepare(nc_prep *p) {
    NC_TRY(nc_slice_prepare(p));
    p->strided_in = 1;
    p->strided_out = 1;
    return NC_OK;
}

static nc_code slice_grad_run(const nc_call *c) {
    static const char zero[16];
    const nc_tensor *dy = c->in[0], *dx = c->out[0];
    nc_tensor part;
    nc_tensor_copy(&part, dy);
    size_t bytes = nc_dtype_bytes(dx->dtype);
    NC_TRY(nc_slice_view(c, 2, dx, &part));
    if (nc_tensor_numel(dx) > 0) nck_fill(dx->rank, dx->dims, bytes, zero, dx->data, dx->strides, c->pool);
    if (nc_tensor_numel(dy) > 0)
        nck_copy(dy->rank, dy->dims, bytes, dy->data, dy->strides, part.data, part.strides, c->pool);
    return NC_OK;
}

static nc_code filled_prepare(nc_prep *p) {
    static const char zero[16];
    const nc_attr *a = nc_node_attr(p->node, "value");
    p->state = nc_arena_copy(p->arena, a != NULL ? a->tensor->data : zero, a != NULL ? a->tensor->bytes : sizeof zero);
    NC_NEED(p->w, p->state);
    return strided_prepare(p);
}

static nc_code filled_run(const nc_call *c) {
    const nc_tensor *y = c->out[0];
    if (nc_dtype_is_packed(y->dtype))
        nck_fill_packed(y, nc_narrow_load(y->dtype, c->state, 0));
    else if (nc_tensor_numel(y) > 0)
        nck_fill(y->rank, y->dims, nc_dtype_bytes(y->dtype), c->state, y->data, y->strides, c->pool);
    return NC_OK;
}

static bool constant_fits(const nc_node *n, const char **why) {
    *why = "only a constant of bytes";
    return n->out[0]->lit != NULL && n->out[0]->lit->dtype != NC_STRING;
}

static nc_code constant_prepare(nc_prep *p) {
    p->state = nc_arena_copy(p->arena, p->node->out[0]->lit, sizeof(nc_literal));
    NC_NEED(p->w, p->state);
    return NC_OK;
}

static nc_code constant_run(const nc_call *c) {
    const nc_literal *l = c->state;
    if (l->bytes > 0) memcpy(c->out[0]->data, l->data, l->bytes);
    return NC_OK;
}

/* ---- Trilu ---- */

static nc_code trilu_prepare(nc_prep *p) {
    bool *upper = nc_arena_alloc(p->arena, sizeof *upper);
    NC_NEED(p->w, upper);
    *upper = nc_attr_int(p->node, "upper") != 0;
    p->state = upper;
    p->over[0] = 1;
    return NC_OK;
}

typedef struct triangle {
    const nc_tensor *x; /* (..., rows, cols) */
    char *y;
    int64_t n_rows, per_item, k;
    bool upper;
} triangle;

/* What is in front of a column is 0 and the rest kept, or the other way round. */
static void trilu_row(const triangle *t, int64_t i) {
    int64_t cols = t->x->dims[t->x->rank - 1], at = t->k + i % t->x->dims[t->x->rank - 2] + !t->upper;
    size_t bytes = nc_dtype_bytes(t->x->dtype), row = (size_t)cols * bytes, start = (size_t)i * row;
    size_t cut = (size_t)nc_max64(0, nc_min64(at, cols)) * bytes, kept = t->upper ? cut : 0;
    memset(t->y + start + (t->upper ? 0 : cut), 0, t->upper ? cut : row - cut);
    if (t->y != t->x->data)
        memcpy(t->y + start + kept, (const char *)t->x->data + start + kept, t->upper ? row - cut : cut);
}

static void trilu_item(void *ctx, int64_t item) {
    const triangle *t = ctx;
    int64_t i = item * t->per_item, end = nc_min64(t->n_rows, i + t->per_item);
    for (; i < end; i++) trilu_row(t, i);
}

static nc_code trilu_run(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    if (nc_tensor_numel(x) == 0) return NC_OK;
    int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1];
    int64_t k = c->n_in > 1 && c->in[1]->data != NULL ? *(const int64_t *)c->in[1]->data : 0;
    triangle t = {x, c->out[0]->data, nc_tensor_numel(x) / cols, 1 + 16384 / cols, nc_max64(-rows, nc_min64(k, cols)),
                  *(const bool *)c->state};
    nc_parallel(c->pool, nc_ceil_div(t.n_rows, t.per_item), trilu_item, &t);
    return NC_OK;
}

/* ---- Range ---- */

static int64_t int_at(nc_dtype t, const void *data) {
    return t == NC_INT64 ? *(const int64_t *)data : t == NC_INT32 ? *(const int32_t *)data : *(const int16_t *)data;
}

static void range_ints(nc_tensor *const *in, const nc_tensor *y) {
    uint64_t v = (uint64_t)int_at(y->dtype, in[0]->data), delta = (uint64_t)int_at(y->dtype, in[2]->data);
    for (int64_t k = 0; k < y->dims[0]; k++, v += delta) {
        if (y->dtype == NC_INT64)
            ((int64_t *)y->data)[k] = (int64_t)v;
        else if (y->dtype == NC_INT32)
            ((int32_t *)y->data)[k] = (int32_t)v;
        else
            ((int16_t *)y->data)[k] = (int16_t)v;
    }
}

/* Floats step in their own type, narrow ones in float. */
static void range_floats(nc_tensor *const *in, const nc_tensor *y) {
    double start = nc_real_get_any(y->dtype, in[0]->data, 0), delta = nc_real_get_any(y->dtype, in[2]->data, 0);
    for (int64_t k = 0; k < y->dims[0]; k++) {
        float v = (float)start + (float)k * (float)delta;
        if (y->dtype == NC_DOUBLE)
            ((double *)y->data)[k] = start + (double)k * delta;
        else if (y->dtype == NC_FLOAT)
            ((float *)y->data)[k] = v;
        else if (y->dtype == NC_FLOAT16)
            ((uint16_t *)y->data)[k] = nc_f32_to_f16(v);
        else
            ((uint16_t *)y->data)[k] = nc_f32_to_bf16(v);
    }
}

static nc_code range_run(const nc_call *c) {
    if (nc_dtype_is_float(c->out[0]->dtype))
        range_floats(c->in, c->out[0]);
    else
        range_ints(c->in, c->out[0]);
    return NC_OK;
}

/* Sizes follow from integers before the run, from floats only when they are constants. */
static bool range_fits(const nc_node *n, const char **why) {
    const nc_type *y = n->out[0]->type;
    *why = "the size is found while running";
    return y != NULL && (!nc_dtype_is_float(y->elem) || nc_dim_is_const(y->dims[0], NULL));
}

static nc_code range_dynamic(nc_dyn *d) {
    const nc_call *c = d->call;
    nc_dtype t = c->in[0]->dtype;
    nc_tensor y;
    double n = ceil((nc_real_get_any(t, c->in[1]->data, 0) - nc_real_get_any(t, c->in[0]->data, 0)) /
                    nc_real_get_any(t, c->in[2]->data, 0));
    if (!(n < 0x1p40))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "start, limit and delta give no finite count");
    int64_t count = n > 0 ? (int64_t)n : 0;
    NC_TRY(d->alloc(d, 0, t, 1, &count, &y));
    range_floats(c->in, &y);
    return NC_OK;
}

/* ---- objects ---- */

static bool is_object(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "only for strings, sequences and optionals";
    return t != NULL && (t->kind != NC_T_TENSOR || t->elem == NC_STRING);
}

static nc_code pass_object(nc_dyn *d) {
    d->out[0] = d->object(d, 0);
    return d->out[0] != NULL ? NC_OK
                             : nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

typedef struct reshaping {
    bool zero_is_size;
} reshaping;

static nc_code reshape_strings_prepare(nc_prep *p) {
    reshaping *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    r->zero_is_size = nc_attr_has(p->node, "allowzero") && nc_attr_int(p->node, "allowzero") != 0;
    p->state = r;
    return NC_OK;
}

static nc_code reshape_strings(nc_dyn *d) {
    const nc_call *c = d->call;
    const reshaping *r = c->state;
    const nc_tensor *x = d->in[0] != NULL ? &d->in[0]->t : c->in[0]; /* a constant is no object */
    int64_t dims[NC_MAX_RANK], others = 1, n;
    int rank = nc_shape_read(c->in[1], dims, NC_MAX_RANK), open = -1;
    for (int k = 0; k < rank; k++) {
        if (dims[k] == 0 && !r->zero_is_size && k < x->rank) dims[k] = x->dims[k];
        if (dims[k] == -1)
            open = k;
        else if (dims[k] < 0 || !nc_mul_i64(others, dims[k], &others))
            rank = -1;
    }
    if (rank >= 0 && open >= 0 && others > 0) dims[open] = nc_tensor_numel(x) / others;
    if (rank < 0 || !nc_numel(dims, rank, &n) || n != nc_tensor_numel(x))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the new shape holds another number of elements");
    d->out[0] = nc_object_strings(rank, dims, x->data);
    return d->out[0] != NULL ? NC_OK : nc_diag_set(c->diag, NC_E_MEMORY, c->node, c->op, "out of memory");
}

const nc_binding nc_shape_cpu[] = {
    NC_SHAPE_VIEWS,
    {.op = "Identity", .kind = NC_K_DYNAMIC, .fits = is_object, .dynamic = pass_object},
    {.op = "Reshape",
     .since = 5,
     .kind = NC_K_DYNAMIC,
     .types = T_STRING,
     .prepare = reshape_strings_prepare,
     .dynamic = reshape_strings},
    {.op = "Shape", .kind = NC_K_STATIC, .prepare = shape_prepare, .run = shape_run},
    {.op = "Size", .kind = NC_K_STATIC, .prepare = strided_prepare, .run = size_run},
    {.op = "Concat", .kind = NC_K_STATIC, .types = T_WHOLE, .prepare = concat_prepare, .run = concat_run},
    {.op = "Cast",
     .kind = NC_K_STATIC,
     .types = T_MOVABLE,
     .fits = cast_fits,
     .prepare = cast_prepare,
     .run = cast_run},
    {.op = "CastLike",
     .kind = NC_K_STATIC,
     .types = T_MOVABLE,
     .fits = cast_fits,
     .prepare = cast_prepare,
     .run = cast_run},
    {.op = "Trilu", .kind = NC_K_STATIC, .types = T_WHOLE, .prepare = trilu_prepare, .run = trilu_run},
    {.op = "BitCast", .kind = NC_K_STATIC, .types = T_WHOLE, .prepare = strided_prepare, .run = bit_cast_run},
    {.op = "SliceGrad", .domain = "nacre", .kind = NC_K_STATIC, .prepare = slice_grad_prepare, .run = slice_grad_run},
    {.op = "ConstantOfShape", .kind = NC_K_STATIC, .prepare = filled_prepare, .run = filled_run},
    {.op = "Constant", .kind = NC_K_STATIC, .fits = constant_fits, .prepare = constant_prepare, .run = constant_run},
    {.op = "Range", .kind = NC_K_STATIC, .fits = range_fits, .run = range_run},
    {.op = "Range", .kind = NC_K_DYNAMIC, .types = T_FLOAT_ALL, .dynamic = range_dynamic},
    {0}};
