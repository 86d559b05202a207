/* ops/shape/shape_cuda.c: CUDA bindings of the shape family. Views are the same on every device; Concat, SliceGrad and
 * ConstantOfShape are copies and fills; Cast is a chain of one formula between two storage types. Casts that a chain
 * would do otherwise than the CPU have a kernel of their own: a float beyond a narrow integer stops at its ends, and
 * would wrap in a chain. */
#include "kernels/cuda/chain.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/place.h"
#include "ops/lane.h"
#include "ops/shape/shape.h"

#include <string.h>

static bool cast_fits(const nc_node *n, const char **why) {
    nc_dtype x = n->in[0]->type->elem, y = n->out[0]->type != NULL ? n->out[0]->type->elem : NC_UNDEFINED;
    *why = "a type that GPU kernels cannot hold";
    if (nck_tile_compute(x) == NC_UNDEFINED || nck_tile_compute(y) == NC_UNDEFINED) return false;
    *why = "floats become int64 or bool only, the ends of other integers are the CPU's";
    return !nc_dtype_is_float(x) || nc_dtype_is_float(y) || y == NC_INT64 || y == NC_BOOL;
}

static nc_code cast_prepare(nc_prep *p) {
    static const nck_tile_op identity = {.lane = NCK_LANE_identity, .dst = 1};
    static const uint16_t out_reg[] = {1};
    const nc_type *x = p->node->in[0]->type, *y = p->node->out[0]->type;
    nck_cuda_chain *chain = nc_arena_alloc(p->arena, sizeof *chain);
    NC_NEED(p->w, chain);
    nck_tile_prog prog = {.compute = nck_tile_compute(x->elem),
                          .n_in = 1,
                          .n_out = 1,
                          .n_reg = 2,
                          .n_op = 1,
                          .op = &identity,
                          .out_reg = out_reg};
    nc_dtype types[] = {x->elem, y->elem};
    NC_TRY(nck_cuda_chain_prepare(p->device, &prog, types, nc_lane_cuda_rank(y), chain, &p->w->diag));
    p->state = chain;
    p->strided_in = p->strided_out = 1;
    return NC_OK;
}

static nc_code cast_run(const nc_call *c) { return nck_cuda_chain_run(c->state, nck_cuda_at_call(c), c->in, c->out); }

static bool convert_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return x != NULL && y != NULL && nck_cuda_convert_takes(x->elem, y->elem);
}

static nc_code convert_prepare(nc_prep *p) {
    nck_cuda_convert *k = nc_arena_alloc(p->arena, sizeof *k);
    nc_narrowing how;
    NC_NEED(p->w, k);
    NC_TRY(nc_cast_read(p->w, p->node, &how));
    p->state = k;
    return nck_cuda_convert_prepare(p->device, p->node->in[0]->type->elem, p->node->out[0]->type->elem, how, k,
                                    &p->w->diag);
}

static nc_code convert_run(const nc_call *c) {
    return nck_cuda_convert_run(c->state, nck_cuda_at_call(c), nc_tensor_numel(c->in[0]), c->in[0]->data,
                                c->out[0]->data);
}

/* ---- copies and fills ---- */

typedef struct moving {
    int64_t axis;
    char value[8]; /* ConstantOfShape */
    nck_cuda_move move;
} moving;

static bool can_move(const nc_node *n, const char **why) {
    const nc_type *t = n->out[0]->type;
    *why = "elements of this type are not moved by a GPU kernel";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_move_define(nc_dtype_bytes(t->elem)) != NULL;
}

static nc_code move_prepare(nc_prep *p, moving **out) {
    moving *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (moving){0};
    p->state = *out = s;
    p->strided_in = UINT32_MAX;
    p->strided_out = 1;
    return nck_cuda_move_prepare(p->device, nc_dtype_bytes(p->node->out[0]->type->elem), &s->move, &p->w->diag);
}

static nc_code concat_prepare(nc_prep *p) {
    moving *s;
    NC_TRY(move_prepare(p, &s));
    s->axis = nc_attr_has(p->node, "axis") ? nc_attr_int(p->node, "axis") : 1;
    return NC_OK;
}

static nc_code concat_run(const nc_call *c) {
    const moving *s = c->state;
    const nc_tensor *y = c->out[0];
    nc_concat_piece piece = {0};
    for (int i = 0; i < c->n_in; i++) {
        const nc_tensor *x = c->in[i];
        NC_TRY(nc_concat_next(c, s->axis, i, &piece));
        if (piece.moves)
            NC_TRY(nck_cuda_copy(&s->move, nck_cuda_at_call(c), x->rank, x->dims, x->data, x->strides, piece.dst,
                                 y->strides));
    }
    return NC_OK;
}

static nc_code bit_cast_prepare(nc_prep *p) {
    moving *s;
    return move_prepare(p, &s);
}

static nc_code bit_cast_run(const nc_call *c) {
    const moving *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    return nck_cuda_copy(&s->move, nck_cuda_at_call(c), x->rank, x->dims, x->data, x->strides, y->data, y->strides);
}

static nc_code filled_prepare(nc_prep *p) {
    moving *s;
    NC_TRY(move_prepare(p, &s));
    const nc_attr *a = nc_node_attr(p->node, "value");
    if (a != NULL) memcpy(s->value, a->tensor->data, a->tensor->bytes < 8 ? a->tensor->bytes : 8);
    return NC_OK;
}

static nc_code filled_run(const nc_call *c) {
    const moving *s = c->state;
    return nck_cuda_fill(&s->move, nck_cuda_at_call(c), c->out[0], s->value);
}

typedef struct slice_grad {
    const void *slices; /* nc_slice_prepare's */
    nck_cuda_move move;
} slice_grad;

static nc_code slice_grad_prepare(nc_prep *p) {
    slice_grad *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_slice_prepare(p));
    s->slices = p->state;
    p->state = s;
    p->strided_in = p->strided_out = 1;
    return nck_cuda_move_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), &s->move, &p->w->diag);
}

static nc_code slice_grad_run(const nc_call *c) {
    static const char zero[8];
    const slice_grad *s = c->state;
    const nc_tensor *dy = c->in[0], *dx = c->out[0];
    nc_call slicing = *c;
    nc_tensor part;
    slicing.state = s->slices;
    nc_tensor_copy(&part, dy);
    NC_TRY(nc_slice_view(&slicing, 2, dx, &part));
    NC_TRY(nck_cuda_fill(&s->move, nck_cuda_at_call(c), dx, zero));
    return nck_cuda_copy(&s->move, nck_cuda_at_call(c), dy->rank, dy->dims, dy->data, dy->strides, part.data,
                         part.strides);
}

/* ---- what follows from where it stands ---- */

typedef struct placing {
    bool upper;
    nck_cuda_place kernel;
} placing;

static nc_code trilu_prepare(nc_prep *p) {
    placing *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (placing){.upper = nc_attr_int(p->node, "upper") != 0};
    p->state = s;
    p->over[0] = 1;
    return nck_cuda_place_prepare(p->device, "trilu", NC_INT64, nc_dtype_bytes(p->node->in[0]->type->elem), &s->kernel,
                                  &p->w->diag);
}

static nc_code trilu_run(const nc_call *c) {
    const placing *s = c->state;
    const nc_tensor *x = c->in[0];
    return nck_cuda_trilu_run(&s->kernel, nck_cuda_at_call(c), nc_tensor_numel(x), x->dims[x->rank - 2],
                              x->dims[x->rank - 1], s->upper, c->n_in > 1 ? c->in[1]->data : NULL, x->data,
                              c->out[0]->data);
}

static bool range_fits(const nc_node *n, const char **why) {
    const nc_type *y = n->out[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return y != NULL && nck_cuda_type_name(y->elem) != NULL;
}

static nc_code range_prepare(nc_prep *p) {
    placing *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (placing){0};
    p->state = s;
    nc_dtype t = p->node->out[0]->type->elem;
    return nck_cuda_place_prepare(p->device, "range", t, nc_dtype_bytes(t), &s->kernel, &p->w->diag);
}

static nc_code range_run(const nc_call *c) {
    const placing *s = c->state;
    return nck_cuda_range_run(&s->kernel, nck_cuda_at_call(c), c->out[0]->dims[0], c->in[0]->data, c->in[2]->data,
                              c->out[0]->data);
}

const nc_binding nc_shape_cuda[] = {
    NC_SHAPE_VIEWS,
    {.op = "Trilu", .fits = can_move, .prepare = trilu_prepare, .run = trilu_run},
    {.op = "Range", .fits = range_fits, .prepare = range_prepare, .run = range_run},
    {.op = "Concat", .fits = can_move, .prepare = concat_prepare, .run = concat_run},
    {.op = "SliceGrad", .domain = "nacre", .fits = can_move, .prepare = slice_grad_prepare, .run = slice_grad_run},
    {.op = "ConstantOfShape", .fits = can_move, .prepare = filled_prepare, .run = filled_run},
    {.op = "Cast", .types = T_WHOLE, .fits = cast_fits, .prepare = cast_prepare, .run = cast_run},
    {.op = "CastLike", .types = T_WHOLE, .fits = cast_fits, .prepare = cast_prepare, .run = cast_run},
    {.op = "Cast", .fits = convert_fits, .prepare = convert_prepare, .run = convert_run},
    {.op = "CastLike", .fits = convert_fits, .prepare = convert_prepare, .run = convert_run},
    {.op = "BitCast", .fits = can_move, .prepare = bit_cast_prepare, .run = bit_cast_run},
    {0}};
