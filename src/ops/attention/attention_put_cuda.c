/* ops/attention/attention_put_cuda.c: AttentionPut on CUDA: Attention over caches (attention_run_cuda.c), whose new
 * rows the kernel for few queries puts down on its way, and a launch of their own before others. */
#include "kernels/cuda/move.h"
#include "kernels/cuda/rows.h"

#include "ops/attention/attention_cuda.h"

enum { Q, NEW_K, NEW_V, MASK, CACHE_K, CACHE_V, LENS, AT }; /* inputs */
enum { Y, K, V };                                           /* outputs */
enum { ATTENTION_INPUTS = 7 };

typedef struct putting {
    const void *attend; /* state of attention */
    nck_cuda_move move;
    nc_function *put;
    bool circular, ahead;
} putting;

/* Does a kernel of this run come before this node? */
static bool follows_kernel(const nc_node *n) {
    const nc_value *v = n->in[NEW_V];
    const unsigned same = NC_VIEW_DENSE | NC_VIEW_STRIDED | NC_IDENTITY;
    while (v->origin == NC_FROM_NODE && v->def->card->traits & same) v = v->def->in[0];
    return v->origin == NC_FROM_NODE && v->def->card->traits & (NC_NARROWS | NC_LOWERED);
}

/* Is what the node's kernel comes right behind no writer of the caches? Only kernels side by side overlap
 * (common.cuh): where one of this run is between, writers of earlier runs are done, and in this run nobody writes an
 * input but this node. */
static bool reads_ahead(const nc_node *n) {
    for (int i = CACHE_K; i <= CACHE_V; i++)
        if (n->in[i]->origin == NC_FROM_NODE || n->in[i]->origin == NC_FROM_CAPTURE) return false;
    return follows_kernel(n);
}

bool nc_attention_put_cuda_fits(const nc_node *n, const char **why) { return nc_attention_cuda_fits(n, why); }

nc_code nc_attention_put_cuda_prepare(nc_prep *p) {
    size_t bytes = nc_dtype_bytes(p->node->in[Q]->type->elem);
    putting *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_attention_cuda_prepare(p));
    *s =
        (putting){.attend = p->state, .circular = nc_attr_int(p->node, "circular") != 0, .ahead = reads_ahead(p->node)};
    p->state = s;
    p->strided_in = 1u << Q;
    p->over[K] = 1u << CACHE_K, p->over[V] = 1u << CACHE_V;
    NC_TRY(nck_cuda_move_prepare(p->device, bytes, &s->move, &p->w->diag));
    return nck_cuda_rows_prepare(p->device, "put_rows", bytes, &s->put, &p->w->diag);
}

size_t nc_attention_put_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                       int n_out) {
    const putting *s = state;
    nc_tensor of[4];
    nc_tensor_copy(&of[0], &in[Q]);
    nc_tensor_copy(&of[1], &in[CACHE_K]);
    nc_tensor_copy(&of[2], &in[CACHE_V]);
    if (n_in > MASK) nc_tensor_copy(&of[3], &in[MASK]);
    return nc_attention_cuda_workspace(s->attend, of, n_in > MASK ? 4 : 3, out, n_out);
}

static nc_code check(const nc_call *c) {
    const nc_tensor *at = c->n_in > AT && c->in[AT]->data != NULL ? c->in[AT] : NULL;
    for (int i = 0; i < 2; i++) {
        const nc_tensor *u = c->in[NEW_K + i], *y = c->out[K + i];
        bool fits = u->rank == 4 && y->rank == 4 && u->dims[2] <= y->dims[2] && u->dims[2] == c->in[NEW_K]->dims[2];
        for (int d = 0; fits && d < 4; d++) fits = d == 2 || u->dims[d] == y->dims[d];
        if (!fits)
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "new rows do not fit a cache of %lld rows",
                               (long long)y->dims[2]);
    }
    if (at != NULL && nc_tensor_numel(at) != c->out[K]->dims[0])
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "write_indices has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(at), (long long)c->out[K]->dims[0]);
    return NC_OK;
}

static nc_code take_cache(const nc_call *c, int i) {
    const putting *s = c->state;
    const nc_tensor *x = c->in[CACHE_K + i], *y = c->out[K + i];
    if (x->data == y->data) return NC_OK;
    return nck_cuda_copy(&s->move, nck_cuda_at_call(c), y->rank, y->dims, x->data, x->strides, y->data, y->strides);
}

nc_code nc_attention_put_cuda_run(const nc_call *c) {
    const putting *s = c->state;
    nc_tensor none = {.data = NULL};
    nc_tensor *in[ATTENTION_INPUTS] = {c->in[Q], c->out[K], c->out[V], c->in[MASK], &none, &none};
    in[LENS] = c->n_in > LENS ? c->in[LENS] : &none;
    nc_call attend = *c;
    attend.state = s->attend;
    attend.in = in, attend.n_in = ATTENTION_INPUTS, attend.n_out = 1;
    NC_TRY(check(c));
    for (int i = 0; i < 2; i++) NC_TRY(take_cache(c, i));
    nc_attention_new fresh = {.rows = {.k = c->in[NEW_K]->data,
                                       .v = c->in[NEW_V]->data,
                                       .at = c->n_in > AT ? c->in[AT]->data : NULL,
                                       .n = c->in[NEW_K]->dims[2],
                                       .rows = c->out[K]->dims[2],
                                       .circular = s->circular},
                              .put = s->put,
                              .ahead = s->ahead && c->in[CACHE_K]->data == c->out[K]->data &&
                                       c->in[CACHE_V]->data == c->out[V]->data};
    return nc_attention_cuda_run_new(&attend, fresh.rows.n > 0 ? &fresh : NULL);
}

void nc_attention_put_cuda_tell(const void *state, char *text, size_t bytes) {
    nc_attention_cuda_tell(((const putting *)state)->attend, text, bytes);
}
