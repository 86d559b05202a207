/* ops/pack_source.c: where the numbers of a pack come from: a constant, or constant codes that one node makes numbers
 * of (DequantizeLinear, Cast). Such a node is too large to be folded: the numbers would lie beside the codes and the
 * pack. It is done once, when the pack is filled, and what it made goes again. */
#include "ops/binding.h"
#include "ops/host_eval.h"

#include <string.h>

static bool all_constant(const nc_node *n) {
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] != NULL && (n->in[i]->origin != NC_FROM_CONST || n->in[i]->lit->dtype == NC_STRING)) return false;
    return n->n_operands > 0 && n->n_operands <= NC_HOST_EVAL_MAX && n->in[0] != NULL;
}

/* Element for element, of known sizes. */
static bool decodes(const nc_node *n) {
    if (n->card->traits & (NC_RANDOM | NC_IN_PLACE | NC_CONTROL | NC_HOST_OBJECTS)) return false;
    if (n->n_out != 1 || n->n_subs > 0 || !all_constant(n)) return false;
    const nc_type *t = n->out[0]->type;
    const nc_literal *codes = n->in[0]->lit;
    int64_t d;
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank != codes->rank || t->layout.block) return false;
    for (int i = 0; i < t->rank; i++)
        if (!nc_dim_is_const(t->dims[i], &d) || d != codes->dims[i]) return false;
    return true;
}

const nc_literal *nc_pack_source(const nc_value *v, nc_pack *k) {
    if (v->origin == NC_FROM_CONST) return v->lit;
    if (v->origin != NC_FROM_NODE || !decodes(v->def)) return NULL;
    k->of = v->def->in[0], k->by = v->def;
    return k->of->lit;
}

nc_tensor nc_literal_tensor(const nc_literal *l) {
    nc_tensor t = {.data = (void *)(uintptr_t)l->data, .dtype = l->dtype, .rank = l->rank};
    memcpy(t.dims, l->dims, (size_t)l->rank * sizeof *t.dims);
    nc_dense_strides(t.dims, t.rank, t.strides);
    return t;
}

nc_code nc_pack_decode(nc_work *w, const nc_node *by, nc_tensor *out, nc_buffer **held) {
    nc_tensor *in = nc_arena_array(&w->scratch, (size_t)by->n_operands, sizeof *in);
    bool done;
    NC_NEED(w, in);
    for (int i = 0; i < by->n_operands; i++)
        if (by->in[i] != NULL) in[i] = nc_literal_tensor(by->in[i]->lit);
    *out = nc_literal_tensor(by->in[0]->lit);
    out->data = NULL, out->dtype = by->out[0]->type->elem;
    *held = NULL;
    nc_code code = nc_host_eval(w, by, in, NULL, out, held, &done);
    if (code == NC_OK && done) return NC_OK;
    nc_buffer_unref(*held);
    *held = NULL;
    if (code != NC_OK) return code;
    w->at_node = by->name, w->at_op = by->card->name;
    NC_FAIL(w, NC_E_DATA, "its constant inputs cannot be made numbers of");
}
