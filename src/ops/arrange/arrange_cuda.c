/* ops/arrange/arrange_cuda.c: CUDA bindings of the ops that lay elements out anew, over kernels/cuda: move.h, pad.h,
 * place.h and rows.h. Operands are dense. */
#include "kernels/cpu/move/move.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/pad.h"
#include "kernels/cuda/place.h"
#include "kernels/cuda/rows.h"

#include "ops/arrange/arrange.h"
#include "ops/card.h"

#include <string.h>

typedef struct arranging {
    nc_depth blocks;
    nck_cuda_move move;
} arranging;

static bool can_move(const nc_node *n, const char **why) {
    const nc_type *t = n->out[0]->type != NULL ? n->out[0]->type : n->in[0]->type;
    *why = "elements of this type are not moved by a GPU kernel";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_move_define(nc_dtype_bytes(t->elem)) != NULL;
}

static nc_code move_prepare(nc_prep *p) {
    arranging *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (arranging){0};
    p->state = s;
    return nck_cuda_move_prepare(p->device, nc_dtype_bytes(p->node->out[0]->type->elem), &s->move, &p->w->diag);
}

static nc_code block_prepare(nc_prep *p) {
    NC_TRY(move_prepare(p));
    ((arranging *)p->state)->blocks = nc_depth_read(p->node);
    return NC_OK;
}

static nc_code arranged(const nc_call *c, nc_code code, const nc_arranged *a) {
    static const char zero[8];
    const arranging *s = c->state;
    int64_t bytes = (int64_t)s->move.bytes;
    NC_TRY(code);
    if (a->fills) NC_TRY(nck_cuda_fill(&s->move, nck_cuda_at_call(c), c->out[0], zero));
    return nck_cuda_copy(&s->move, nck_cuda_at_call(c), a->rank, a->dims,
                         (const char *)c->in[0]->data + a->at_from * bytes, a->from,
                         (char *)c->out[0]->data + a->at_to * bytes, a->to);
}

static nc_code tile_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_tile(c, &a), &a);
}

static nc_code to_space_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_depth(&((const arranging *)c->state)->blocks, c, true, &a), &a);
}

static nc_code to_depth_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_depth(&((const arranging *)c->state)->blocks, c, false, &a), &a);
}

static nc_code center_run(const nc_call *c) {
    nc_arranged a;
    return arranged(c, nc_arrange_center(c, &a), &a);
}

/* ---- Pad ---- */

typedef struct padding {
    nc_padding how;
    nck_cuda_pad kernel;
} padding;

static nc_code pad_prepare(nc_prep *p) {
    padding *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_padding_read(p, &s->how));
    p->state = s;
    p->strided_in = 1;
    return nck_cuda_pad_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), &s->kernel, &p->w->diag);
}

static nc_code pad_run(const nc_call *c) {
    const padding *s = c->state;
    int64_t begin[NC_MAX_RANK];
    uint64_t value;
    NC_TRY(nc_padding_begin(&s->how, c, begin));
    memcpy(&value, s->how.value, sizeof value);
    return nck_cuda_pad_run(&s->kernel, nck_cuda_at_call(c), s->how.mode, c->in[0], begin,
                            s->how.by_attr ? NULL : nc_padding_given(c), &value, c->out[0]);
}

/* ---- ReverseSequence ---- */

typedef struct reversal {
    int time_axis;
    nc_function *reverse;
} reversal;

static nc_code reverse_prepare(nc_prep *p) {
    reversal *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (reversal){.time_axis = (int)nc_attr_int(p->node, "time_axis")};
    p->state = s;
    return nck_cuda_rows_prepare(p->device, "reverse", nc_dtype_bytes(p->node->in[0]->type->elem), &s->reverse,
                                 &p->w->diag);
}

static nc_code reverse_run(const nc_call *c) {
    const reversal *s = c->state;
    const nc_tensor *x = c->in[0], *lens = c->in[1];
    int64_t n_time = x->dims[s->time_axis], n_batch = x->dims[1 - s->time_axis], inner = 1;
    for (int k = 2; k < x->rank; k++) inner *= x->dims[k];
    if (nc_tensor_numel(lens) != n_batch)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "sequence_lens has %lld elements, the batch has %lld",
                           (long long)nc_tensor_numel(lens), (long long)n_batch);
    return nck_cuda_reverse_run(s->reverse, c, n_time, n_batch, inner, s->time_axis == 0, lens->data, x->data,
                                c->out[0]->data);
}

/* ---- EyeLike ---- */

typedef struct diagonal {
    int64_t k;
    uint64_t one; /* an element */
    nck_cuda_place kernel;
} diagonal;

static nc_code eye_prepare(nc_prep *p) {
    diagonal *s = nc_arena_alloc(p->arena, sizeof *s);
    nc_dtype t = p->node->out[0]->type->elem;
    int64_t one = 1;
    NC_NEED(p->w, s);
    *s = (diagonal){.k = nc_attr_int(p->node, "k")};
    p->state = s;
    p->strided_in = 1;
    nc_tensor from = {.data = &one, .dtype = NC_INT64}, to = {.data = &s->one, .dtype = t};
    NC_TRY(nck_convert(&from, &to, NULL));
    return nck_cuda_place_prepare(p->device, "eye", NC_INT64, nc_dtype_bytes(t), &s->kernel, &p->w->diag);
}

static nc_code eye_run(const nc_call *c) {
    const diagonal *s = c->state;
    const nc_tensor *y = c->out[0];
    return nck_cuda_eye_run(&s->kernel, nck_cuda_at_call(c), nc_tensor_numel(y), y->dims[1], s->k, s->one, y->data);
}

#define ROW(name, prepare_fn, run_fn) \
    { .op = name, .fits = can_move, .prepare = prepare_fn, .run = run_fn }
const nc_binding nc_arrange_cuda[] = {ROW("Pad", pad_prepare, pad_run),
                                      ROW("Tile", move_prepare, tile_run),
                                      ROW("DepthToSpace", block_prepare, to_space_run),
                                      ROW("SpaceToDepth", block_prepare, to_depth_run),
                                      ROW("CenterCropPad", move_prepare, center_run),
                                      ROW("ReverseSequence", reverse_prepare, reverse_run),
                                      ROW("EyeLike", eye_prepare, eye_run),
                                      {0}};
