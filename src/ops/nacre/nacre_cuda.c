/* ops/nacre/nacre_cuda.c: CUDA bindings of the ops that passes and gradients make: chains, copies within the GPU,
 * assignment to variables, the layout with channels last. The ops nacre.XGrad are lanes and need no row here;
 * nacre.SumTo is in ops/reduce. */
#include "kernels/cuda/move.h"
#include "ops/lane.h"

#include <string.h>

static bool can_move(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    size_t bytes = t != NULL && t->kind == NC_T_TENSOR ? nc_dtype_bytes(t->elem) : 0;
    *why = "elements of this type are not moved by a GPU kernel";
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
}

static nc_code dense_prepare(nc_prep *p) {
    nck_cuda_move *k = nc_arena_alloc(p->arena, sizeof *k);
    NC_NEED(p->w, k);
    p->state = k;
    return nck_cuda_move_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), k, &p->w->diag);
}

static nc_code move_prepare(nc_prep *p) {
    NC_TRY(dense_prepare(p));
    p->strided_in = UINT32_MAX;
    p->strided_out = 1;
    return NC_OK;
}

static nc_code copy_from(const nc_call *c, int i) {
    const nc_tensor *x = c->in[i], *y = c->out[0];
    if (x->rank != y->rank || memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) != 0)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the shapes of both sides differ");
    if (x->data == y->data) return NC_OK;
    return nck_cuda_copy(c->state, nck_cuda_at_call(c), y->rank, y->dims, x->data, x->strides, y->data, y->strides);
}

static nc_code copy_run(const nc_call *c) { return copy_from(c, 0); }
static nc_code assign_run(const nc_call *c) { return copy_from(c, 1); }

/* ---- channels last ---- */

/* The blocked side has all channels in one block. */
static bool one_block(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    const nc_type *blocked = x->rank > y->rank ? x : y;
    int64_t blocks;
    *why = "one block must hold all channels";
    return nc_dim_is_const(blocked->dims[1], &blocks) && blocks == 1;
}

static nc_code turn(const nc_call *c, const nc_tensor *plain, bool pack) {
    int64_t C = plain->dims[1], places = 1;
    for (int i = 2; i < plain->rank; i++) places *= plain->dims[i];
    return nck_cuda_turn(c->state, nck_cuda_at_call(c), plain->dims[0], pack ? C : places, pack ? places : C,
                         c->in[0]->data, c->out[0]->data);
}

static nc_code pack_run(const nc_call *c) { return turn(c, c->in[0], true); }
static nc_code unpack_run(const nc_call *c) { return turn(c, c->out[0], false); }

const nc_binding nc_nacre_cuda[] = {
    {.op = "Chain",
     .domain = "nacre",
     .kind = NC_K_STATIC,
     .fits = nc_lane_cuda_fits,
     .prepare = nc_lane_cuda_prepare,
     .run = nc_lane_cuda_run},
    {.op = "Copy", .domain = "nacre", .fits = can_move, .prepare = move_prepare, .run = copy_run},
    {.op = "Assign", .domain = "nacre", .fits = can_move, .prepare = move_prepare, .run = assign_run},
    {.op = "PackChannels", .domain = "nacre", .fits = one_block, .prepare = dense_prepare, .run = pack_run},
    {.op = "UnpackChannels", .domain = "nacre", .fits = one_block, .prepare = dense_prepare, .run = unpack_run},
    {0}};
