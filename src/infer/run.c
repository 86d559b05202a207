/* infer/run.c: the sizes of a node's outputs while running, from actual sizes and contents, by asking the same card
 * with constants in the place of symbols. Reads the graph, changes nothing in it. */
#include "base/mem.h"
#include "infer/check.h"
#include "infer/infer.h"
#include "ops/lane.h"

#include <string.h>

/* Larger integer inputs are data, not shapes. */
enum { MAX_LITERAL = 4096 };

static bool is_integer(nc_dtype t) {
    char k = nc_dtype_class(t);
    return k == 'I' || k == 'U' || k == 'B';
}

/* Elements of t in row-major order, gathered when they are not so already. */
static const void *dense_data(nc_arena *arena, const nc_tensor *t, int64_t n) {
    if (nc_is_dense(t)) return t->data;
    size_t size = nc_dtype_bytes(t->dtype);
    char *copy = nc_arena_array(arena, (size_t)n, size);
    int64_t at[NC_MAX_RANK] = {0};
    for (int64_t i = 0; copy != NULL && i < n; i++) {
        int64_t offset = 0;
        for (int k = 0; k < t->rank; k++) offset += at[k] * t->strides[k];
        memcpy(copy + (size_t)i * size, (const char *)t->data + offset * (int64_t)size, size);
        for (int k = t->rank - 1; k >= 0 && ++at[k] == t->dims[k]; k--) at[k] = 0;
    }
    return copy;
}

static nc_code literal_of(nc_infer *c, const nc_tensor *t, const nc_literal **out) {
    int64_t n;
    if (!nc_numel(t->dims, t->rank, &n) || n > MAX_LITERAL || (t->data == NULL && n > 0)) return NC_OK;
    if (nc_dtype_is_packed(t->dtype) && !nc_is_dense(t)) return NC_OK;
    nc_literal *l = nc_arena_alloc(c->arena, sizeof *l);
    NC_NEED(c->w, l);
    static const char nothing[1];
    *l = (nc_literal){.dtype = t->dtype, .rank = t->rank, .n = n, .dims = t->dims};
    if (t->dtype != NC_STRING && !nc_tensor_bytes(t->dtype, t->dims, t->rank, &l->bytes)) return NC_OK;
    l->data = n > 0 ? dense_data(c->arena, t, n) : nothing;
    NC_NEED(c->w, l->data);
    *out = l;
    return NC_OK;
}

static nc_code read_tensor(nc_infer *c, int i, const nc_tensor *t, bool readable) {
    nc_infer_val *val = &c->in[i];
    const nc_value *v = c->node->in[i];
    if (v == NULL) return NC_OK;
    val->present = true;
    if (v->type != NULL && v->type->kind != NC_T_TENSOR) {
        val->type = v->type;
        return NC_OK;
    }
    const nc_dim *dims[NC_MAX_RANK];
    for (int k = 0; k < t->rank; k++) {
        dims[k] = nc_dim_const(c->dims, t->dims[k]);
        NC_NEED(c->w, dims[k]);
    }
    NC_TRY(nc_infer_check_one(c->w, c->node, i, t->rank, t->dims));
    val->type = nc_type_tensor(c->arena, t->dtype, t->rank, dims);
    NC_NEED(c->w, val->type);
    bool is_argument = i < 32 && (c->node->card->host_in >> i & 1) && t->dtype != NC_STRING;
    return readable && (is_integer(t->dtype) || is_argument) ? literal_of(c, t, &val->lit) : NC_OK;
}

/* The value of d, or its value with every open symbol at its upper bound. */
static bool size_of(nc_infer *c, const nc_dim *d, int64_t *out) {
    if (nc_dim_is_const(d, out)) return true;
    int n = nc_dims_n_syms(c->dims);
    int64_t *values = nc_arena_array(c->arena, (size_t)n, sizeof *values);
    bool *known = nc_arena_array(c->arena, (size_t)n, sizeof *known);
    if (values == NULL || known == NULL) return false;
    for (int i = 0; i < n; i++) {
        const nc_dim *bound = nc_dim_bound(c->dims, i);
        known[i] = bound != NULL && nc_dim_is_const(bound, &values[i]);
    }
    return nc_dim_eval(d, values, known, out);
}

static nc_code write_tensor(nc_infer *c, int i, nc_tensor *out) {
    const nc_type *t = c->out[i].type;
    if (c->node->out[i] == NULL) return NC_OK;
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank < 0)
        NC_FAIL(c->w, NC_E_SHAPE, "the shape of output %d does not follow from the inputs", i);
    for (int k = 0; k < t->rank; k++)
        if (!size_of(c, t->dims[k], &out->dims[k]))
            NC_FAIL(c->w, NC_E_SHAPE, "dim %d of output %d does not follow from the inputs", k, i);
    const nc_type *planned = c->node->out[i]->type; /* lowering may have given it another one than the card does */
    out->dtype = planned != NULL && planned->kind == NC_T_TENSOR ? planned->elem : t->elem;
    out->rank = t->rank;
    return NC_OK;
}

static nc_code ask(nc_infer *c) {
    const nc_node *n = c->node;
    for (int i = 0; i < n->n_out; i++) c->out[i].present = n->out[i] != NULL;
    if (n->card->infer != NULL) return n->card->infer(c);
    if (n->card->lane > 0) return nc_lane_infer(c);
    NC_FAIL(c->w, NC_E_UNSUPPORTED, "the op has no inference");
}

static nc_code make_room(nc_infer *c) {
    c->in = nc_arena_array(c->arena, (size_t)c->node->n_in, sizeof *c->in);
    c->out = nc_arena_array(c->arena, (size_t)c->node->n_out, sizeof *c->out);
    NC_NEED(c->w, c->in);
    NC_NEED(c->w, c->out);
    return NC_OK;
}

static nc_code infer_run(nc_infer *c, const nc_tensor *in, const bool *host_readable, int n_in, nc_tensor *out,
                         int n_out) {
    const nc_node *n = c->node;
    if (n_in < n->n_in || n_out < n->n_out)
        NC_FAIL(c->w, NC_E_ARGUMENT, "%d inputs and %d outputs are too few", n_in, n_out);
    NC_TRY(make_room(c));
    for (int i = 0; i < n->n_in; i++) NC_TRY(read_tensor(c, i, &in[i], host_readable != NULL && host_readable[i]));
    NC_TRY(ask(c));
    for (int i = 0; i < n->n_out; i++) NC_TRY(write_tensor(c, i, &out[i]));
    return NC_OK;
}

static nc_code same_sizes(nc_infer *c, int i, const nc_tensor *out) {
    const nc_type *t = c->out[i].type;
    int64_t size;
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank != out->rank) return NC_OK;
    for (int k = 0; k < t->rank; k++)
        if (nc_dim_is_const(t->dims[k], &size) && size != out->dims[k])
            NC_FAIL(c->w, NC_E_SHAPE, "dim %d of output %d is %lld by its inputs, expected %lld", k, i, (long long)size,
                    (long long)out->dims[k]);
    return NC_OK;
}

nc_code nc_infer_again(nc_work *w, const nc_node *n, nc_dims *scratch, nc_arena *arena, nc_tensor *const *in,
                       uint32_t readable, nc_tensor *const *out) {
    nc_infer c = {.w = w, .dims = scratch, .arena = arena, .node = n};
    NC_TRY(make_room(&c));
    for (int i = 0; i < n->n_in; i++) NC_TRY(read_tensor(&c, i, in[i], i < 32 && readable >> i & 1));
    NC_TRY(ask(&c));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL) NC_TRY(same_sizes(&c, i, out[i]));
    return NC_OK;
}

nc_code nc_infer_run(nc_work *w, const nc_node *n, nc_dims *scratch, nc_arena *arena, const nc_tensor *in,
                     const bool *host_readable, int n_in, nc_tensor *out, int n_out) {
    const char *node = w->at_node, *op = w->at_op;
    w->at_node = n->name;
    w->at_op = n->card->name;
    nc_infer c = {.w = w, .dims = scratch, .arena = arena, .node = n};
    uint64_t failures = nc_mem_failures();
    nc_code code = nc_work_finish(w, infer_run(&c, in, host_readable, n_in, out, n_out), failures);
    w->at_node = node;
    w->at_op = op;
    return code;
}
