/* ops/nacre/nacre_cpu.c: CPU bindings of the ops that passes and gradients make. The ops nacre.XGrad of element
 * formulas are lanes and need no row here; SumTo's kernel is with the reductions. */
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/move/move.h"
#include "ops/card.h"
#include "ops/lane.h"
#include "ops/nacre/rows_cpu.h"
#include "ops/reduce/reduce.h"
#include "ops/widen.h"

#include <string.h>

/* ---- Copy, Assign ---- */

static bool is_plain_tensor(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "strings and objects are copied by reference";
    return t != NULL && t->kind == NC_T_TENSOR && t->elem != NC_STRING;
}

static nc_code any_strides(nc_prep *p) {
    p->strided_in = UINT32_MAX;
    p->strided_out = p->node->out[0]->type != NULL && nc_dtype_is_packed(p->node->out[0]->type->elem) ? 0 : 1;
    return NC_OK;
}

static bool same_dims(const nc_tensor *a, const nc_tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static nc_code copy_into(const nc_call *c, const nc_tensor *from) {
    const nc_tensor *to = c->out[0];
    if (!same_dims(from, to))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the shapes of both sides differ");
    if (from->data == to->data || nc_tensor_numel(from) == 0) return NC_OK;
    if (nc_dtype_is_packed(from->dtype)) {
        nck_copy_packed(from, to, c->pool);
        return NC_OK;
    }
    nck_copy(from->rank, from->dims, nc_dtype_bytes(from->dtype), from->data, from->strides, to->data, to->strides,
             c->pool);
    return NC_OK;
}

static nc_code copy_run(const nc_call *c) { return copy_into(c, c->in[0]); }
static nc_code assign_run(const nc_call *c) { return copy_into(c, c->in[1]); }

static nc_code copy_object(nc_dyn *d) {
    d->out[0] = d->object(d, 0);
    return d->out[0] != NULL ? NC_OK
                             : nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

/* ---- channel blocks ---- */

static nc_code read_last(nc_prep *p) {
    bool *last = nc_arena_alloc(p->arena, sizeof *last);
    NC_NEED(p->w, last);
    *last = nc_attr_int(p->node, "last") != 0;
    p->state = last;
    return NC_OK;
}

static nck_channels channels_of(const nc_call *c, const nc_tensor *blocks, const nc_tensor *plain) {
    bool last = *(const bool *)c->state;
    nck_channels k = {.last = last, .block = blocks->dims[plain->rank], .N = plain->dims[0], .spatial = 1};
    k.C = plain->dims[last ? plain->rank - 1 : 1];
    for (int i = 2; i < plain->rank; i++) k.spatial *= blocks->dims[i];
    return k;
}

static nc_code pack_channels_run(const nc_call *c) {
    nck_channels k = channels_of(c, c->out[0], c->in[0]);
    nck_pack_channels(&k, c->in[0]->data, c->out[0]->data, c->pool);
    return NC_OK;
}

static nc_code unpack_channels_run(const nc_call *c) {
    nck_channels k = channels_of(c, c->in[0], c->out[0]);
    nck_unpack_channels(&k, c->in[0]->data, c->out[0]->data, c->pool);
    return NC_OK;
}

const nc_binding nc_nacre_cpu[] = {
    {.op = "Chain",
     .domain = "nacre",
     .kind = NC_K_STATIC,
     .fits = nc_lane_cpu_fits,
     .prepare = nc_lane_cpu_prepare,
     .run = nc_lane_cpu_run},
    {.op = "ChainRows",
     .domain = "nacre",
     .fits = nc_rows_fits,
     .prepare = nc_rows_prepare,
     .workspace = nc_rows_workspace,
     .run = nc_rows_run},
    {.op = "SumTo",
     .domain = "nacre",
     .types = NC_WIDEN_HALF | NC_WIDEN_INTS,
     .prepare = nc_reduce_sum_to_prepare,
     .workspace = nc_reduce_narrow_workspace,
     .run = nc_reduce_sum_to_narrow_run},
    {.op = "SumTo",
     .domain = "nacre",
     .prepare = nc_reduce_sum_to_prepare,
     .workspace = nc_reduce_workspace,
     .run = nc_reduce_sum_to_run},
    {.op = "Copy", .domain = "nacre", .fits = is_plain_tensor, .prepare = any_strides, .run = copy_run},
    {.op = "Copy", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = copy_object},
    {.op = "Assign", .domain = "nacre", .prepare = any_strides, .run = assign_run},
    {.op = "PackChannels",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT),
     .prepare = read_last,
     .run = pack_channels_run},
    {.op = "UnpackChannels",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT),
     .prepare = read_last,
     .run = unpack_channels_run},
    {0}};
