/* ops/arrange/arrange_cuda.c: CUDA bindings of the ops that lay elements out anew, over kernels/cuda/move.h and pad.h.
 * Operands are dense. */
#include "kernels/cuda/move.h"
#include "kernels/cuda/pad.h"

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

#define ROW(name, prepare_fn, run_fn) \
    { .op = name, .fits = can_move, .prepare = prepare_fn, .run = run_fn }
const nc_binding nc_arrange_cuda[] = {ROW("Pad", pad_prepare, pad_run),
                                      ROW("Tile", move_prepare, tile_run),
                                      ROW("DepthToSpace", block_prepare, to_space_run),
                                      ROW("SpaceToDepth", block_prepare, to_depth_run),
                                      ROW("CenterCropPad", move_prepare, center_run),
                                      {0}};
