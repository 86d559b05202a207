/* transform/rewrite.c: the words of rewrite.h. */
#include "transform/rewrite.h"

#include <math.h>
#include <string.h>

bool nc_rewrite_is(const nc_node *n, const char *op) {
    return n != NULL && n->card->domain == NULL && strcmp(n->card->name, op) == 0;
}

nc_node *nc_rewrite_def(const nc_value *v, const char *op) {
    return v != NULL && v->origin == NC_FROM_NODE && nc_rewrite_is(v->def, op) ? v->def : NULL;
}

bool nc_rewrite_unused(const nc_value *v) {
    return v == NULL || (v->uses.n == 0 && v->n_outputs == 0 && v->var == NULL);
}

bool nc_rewrite_only(const nc_value *v) { return v->uses.n == 1 && v->n_outputs == 0 && v->var == NULL; }

bool nc_rewrite_tensor(const nc_value *v) {
    return v != NULL && v->type != NULL && v->type->kind == NC_T_TENSOR && v->type->rank >= 0;
}

bool nc_rewrite_same_type(const nc_value *a, const nc_value *b) {
    return a != NULL && b != NULL && a->type != NULL && b->type != NULL && nc_type_equal(a->type, b->type);
}

bool nc_rewrite_free(const nc_node *n) { return !(n->card->traits & NC_RANDOM) && nc_rewrite_free_draw(n); }

bool nc_rewrite_free_draw(const nc_node *n) {
    if (n->n_subs > 0 || n->recompute || n->n_in < 1 || n->n_out < 1 || n->in[0] == NULL || n->out[0] == NULL)
        return false;
    if (n->card->traits & (NC_IN_PLACE | NC_CONTROL)) return false;
    for (int k = 1; k < n->n_out; k++)
        if (!nc_rewrite_unused(n->out[k])) return false;
    return n->out[0]->var == NULL && !nc_rewrite_unused(n->out[0]);
}

bool nc_rewrite_dead(const nc_node *n) {
    if (n->card->traits & NC_IN_PLACE) return false;
    for (int k = 0; k < n->n_out; k++) {
        const nc_value *v = n->out[k];
        if (v != NULL && (v->uses.n > 0 || v->n_outputs > 0 || v->var != NULL)) return false;
    }
    return true;
}

bool nc_rewrite_fixed(const nc_value *v) {
    if (v == NULL || v->lit == NULL || v->var != NULL) return false;
    return v->graph->model->infers_only || !nc_dtype_is_float(v->lit->dtype);
}

#define READ(T)                                                                \
    do {                                                                       \
        T x_;                                                                  \
        memcpy(&x_, (const char *)l->data + (size_t)i * sizeof x_, sizeof x_); \
        *out = (double)x_;                                                     \
        return true;                                                           \
    } while (0)

bool nc_rewrite_number(const nc_literal *l, int64_t i, double *out) {
    uint16_t h;
    if (i < 0 || i >= l->n) return false;
    switch (l->dtype) {
    case NC_FLOAT: READ(float);
    case NC_DOUBLE: READ(double);
    case NC_INT8: READ(int8_t);
    case NC_UINT8:
    case NC_BOOL: READ(uint8_t);
    case NC_INT16: READ(int16_t);
    case NC_UINT16: READ(uint16_t);
    case NC_INT32: READ(int32_t);
    case NC_UINT32: READ(uint32_t);
    case NC_INT64: READ(int64_t);
    case NC_UINT64: READ(uint64_t);
    case NC_FLOAT16:
    case NC_BFLOAT16:
        memcpy(&h, (const char *)l->data + (size_t)i * sizeof h, sizeof h);
        *out = (double)(l->dtype == NC_FLOAT16 ? nc_f16_to_f32(h) : nc_bf16_to_f32(h));
        return true;
    default: return false;
    }
}

bool nc_rewrite_all(const nc_literal *l, double want, bool negative_zero) {
    double v;
    for (int64_t i = 0; i < l->n; i++) {
        if (!nc_rewrite_number(l, i, &v) || v != want) return false;
        if (want == 0 && nc_dtype_is_float(l->dtype) && !!signbit(v) != negative_zero) return false;
    }
    return true;
}

bool nc_rewrite_ints(const nc_value *v, int64_t *out, int max, int *n) {
    int64_t count;
    if (v == NULL || v->lit == NULL || v->var != NULL || !nc_literal_ints(v->lit, out, max, &count)) return false;
    *n = (int)count;
    return true;
}

/* The version of an opset; of an opset older than the op, with `newer`, the op's first. */
static const nc_op_version *version_of(const nc_card *card, int64_t opset, bool newer) {
    const nc_op_version *v = card->versions, *first = NULL;
    for (; v != NULL && v->since > opset; v++) first = v;
    bool older = v == NULL || v->since == 0 || v->foreign;
    return older && newer ? first : nc_card_version(card, opset);
}

static const nc_card *card_in(const nc_model *m, const char *domain, const char *op, nc_dtype elem, bool newer,
                              const nc_op_version **version) {
    int64_t opset = nc_model_opset(m, domain);
    if (opset == 0 && domain[0] != '\0') opset = 1;
    for (const nc_registry *r = m->registry; r != NULL; r = r->base) {
        const nc_card *card = r->find(r, domain, op);
        if (card == NULL) continue;
        *version = version_of(card, opset, newer);
        bool fits = *version != NULL && !(*version)->foreign && ((*version)->in[0].types & NC_BIT(elem));
        return fits ? card : NULL;
    }
    return NULL;
}

const nc_card *nc_rewrite_card(const nc_model *m, const char *op, nc_dtype elem, const nc_op_version **version) {
    return card_in(m, "", op, elem, false, version);
}

const nc_card *nc_rewrite_card_in(const nc_model *m, const char *domain, const char *op, nc_dtype elem,
                                  const nc_op_version **version) {
    return card_in(m, domain, op, elem, false, version);
}

/* n's name if the model gave it; one made up from the op would mislead on another. */
static const char *given_name(nc_work *w, const nc_node *n) {
    const char *made_up = nc_arena_printf(&w->scratch, "%s_%d", n->card->name, n->id);
    return made_up == NULL || strcmp(made_up, n->name) == 0 ? NULL : n->name;
}

nc_code nc_rewrite(nc_work *w, nc_node *n, const char *op, nc_value *const *in, int n_in, const nc_attr *attrs,
                   int n_attrs, nc_node **out) {
    return nc_rewrite_in(w, n, "", op, in, n_in, attrs, n_attrs, out);
}

static nc_code set_attrs(nc_work *w, nc_node *n, const nc_attr *attrs, int n_attrs) {
    for (int i = 0; i < n_attrs; i++)
        if (nc_edit_set_attr(n, &attrs[i]) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* n's place taken by a node of the card; card NULL: nothing changes. */
static nc_code put_card(nc_work *w, nc_node *n, const nc_card *card, const nc_op_version *version, nc_value *const *in,
                        int n_in, const nc_attr *attrs, int n_attrs, nc_node **out) {
    nc_value *old = n->out[0];
    *out = NULL;
    if (card == NULL) return NC_OK;
    nc_node *made = nc_edit_node(n->graph, n, card, version, given_name(w, n), in, n_in, &old->name, 1);
    NC_NEED(w, made);
    made->stage = n->stage;
    NC_TRY(set_attrs(w, made, attrs, n_attrs));
    nc_value *y = made->out[0];
    y->type = old->type, y->lit = old->lit, y->elems = old->elems, y->n_elems = old->n_elems, y->extra = old->extra;
    nc_rewrite_skip(n, y);
    *out = made;
    return NC_OK;
}

static const nc_card *card_for(const nc_node *n, const char *domain, const char *op, const nc_value *x, bool newer,
                               const nc_op_version **version) {
    *version = NULL;
    return x->type != NULL ? card_in(n->graph->model, domain, op, x->type->elem, newer, version) : NULL;
}

nc_code nc_rewrite_in(nc_work *w, nc_node *n, const char *domain, const char *op, nc_value *const *in, int n_in,
                      const nc_attr *attrs, int n_attrs, nc_node **out) {
    const nc_op_version *version;
    const nc_card *card = card_for(n, domain, op, in[0], false, &version);
    return put_card(w, n, card, version, in, n_in, attrs, n_attrs, out);
}

nc_code nc_rewrite_newer(nc_work *w, nc_node *n, const char *domain, const char *op, nc_value *const *in, int n_in,
                         const nc_attr *attrs, int n_attrs, nc_node **out) {
    const nc_op_version *version;
    const nc_card *card = card_for(n, domain, op, in[0], true, &version);
    return put_card(w, n, card, version, in, n_in, attrs, n_attrs, out);
}

nc_code nc_rewrite_insert(nc_work *w, nc_node *n, const char *op, nc_value *const *in, int n_in, const nc_attr *attrs,
                          int n_attrs, const nc_type *type, nc_value **out) {
    return nc_rewrite_insert_in(w, n, "", op, in, n_in, attrs, n_attrs, type, out);
}

nc_code nc_rewrite_insert_in(nc_work *w, nc_node *n, const char *domain, const char *op, nc_value *const *in, int n_in,
                             const nc_attr *attrs, int n_attrs, const nc_type *type, nc_value **out) {
    const nc_op_version *version;
    const nc_card *card = card_for(n, domain, op, in[0], true, &version);
    *out = NULL;
    if (card == NULL) return NC_OK;
    nc_node *made = nc_edit_node(n->graph, n, card, version, NULL, in, n_in, NULL, 1);
    NC_NEED(w, made);
    made->stage = n->stage;
    NC_TRY(set_attrs(w, made, attrs, n_attrs));
    made->out[0]->type = type;
    *out = made->out[0];
    return NC_OK;
}

bool nc_rewrite_can_skip(const nc_node *n, const nc_value *x) {
    return nc_rewrite_same_type(n->out[0], x) && !(x->var != NULL && n->out[0]->n_outputs > 0);
}

void nc_rewrite_skip(nc_node *n, nc_value *x) {
    nc_edit_replace(n->out[0], x);
    nc_edit_remove(n);
}

void nc_rewrite_drop(nc_value *v) {
    if (v == NULL || v->origin != NC_FROM_NODE || (v->def->card->traits & NC_IN_PLACE)) return;
    for (int k = 0; k < v->def->n_out; k++)
        if (!nc_rewrite_unused(v->def->out[k])) return;
    nc_edit_remove(v->def);
}
