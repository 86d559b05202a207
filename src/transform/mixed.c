/* transform/mixed.c: casts for half precision; see mixed.h.
 *
 * Every value of the model stays f32 and keeps its name. A node that computes narrow is made anew with narrow operands,
 * and its results are cast back under the old names; who wants such a value narrow takes the one before the cast. What
 * nobody uses then goes. */
#include "transform/mixed.h"

#include "base/dtype.h"
#include "ir/card.h"
#include "ir/edit.h"
#include "transform/rewrite.h"

#include <math.h>
#include <string.h>

typedef struct mix {
    nc_work *w;
    nc_model *m;
    nc_graph *g;
    nc_dtype narrow;
    const nc_card *cast;
    const nc_op_version *version;
    int first_id; /* of what is made here */
} mix;

static bool is_f32(const nc_value *v) {
    return v != NULL && v->type != NULL && v->type->kind == NC_T_TENSOR && v->type->elem == NC_FLOAT;
}

/* ---- narrow forms of values ---- */

/* The value that v was cast from; NULL: it was not narrow. */
static nc_value *before_cast(const mix *x, const nc_value *v) {
    if (v->origin != NC_FROM_NODE || v->def->card != x->cast) return NULL;
    nc_value *from = v->def->in[0];
    return from->type != NULL && from->type->elem == x->narrow ? from : NULL;
}

/* No finite number of it becomes infinite. */
static bool fits(const mix *x, const nc_value *v) {
    if (v->origin != NC_FROM_CONST || v->lit == NULL) return false;
    if (x->narrow == NC_BFLOAT16) return true; /* the range of f32, but for its last half step */
    for (size_t i = 0; i < v->lit->bytes / sizeof(float); i++) {
        float f;
        memcpy(&f, (const char *)v->lit->data + i * sizeof f, sizeof f);
        if (isfinite(f) && !isfinite(nc_f16_to_f32(nc_f32_to_f16(f)))) return false;
    }
    return true;
}

static const nc_type *type_as(const mix *x, const nc_value *v, nc_dtype elem) {
    return nc_type_tensor(&x->m->arena, elem, v->type->rank, v->type->dims);
}

static const char *narrow_name(const mix *x, const nc_value *v) {
    return nc_arena_printf(&x->w->scratch, "%s_%s", v->name, nc_dtype_name(x->narrow));
}

static nc_code cast(const mix *x, nc_node *before, nc_value *from, nc_dtype to, const char *name, nc_value **out) {
    const nc_attr attr = {.name = "to", .kind = NC_A_INT, .i = to};
    NC_NEED(x->w, name);
    nc_node *n = nc_edit_node(x->g, before, x->cast, x->version, NULL, &from, 1, &name, 1);
    NC_NEED(x->w, n);
    if (nc_edit_set_attr(n, &attr) != NC_OK) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    NC_NEED(x->w, n->out[0]->type = type_as(x, from, to));
    *out = n->out[0];
    return NC_OK;
}

static bool is_narrow_cast(const nc_node *n, nc_dtype narrow) {
    return n->out[0] != NULL && n->out[0]->type != NULL && n->out[0]->type->elem == narrow;
}

/* The node that shows all elements of its first input, in another order or by other dims: what is cast in front of it
 * lies as a kernel left it, and the view of that costs nothing. NULL: v comes from elsewhere. */
static nc_node *view_of(const nc_value *v) {
    nc_node *n = v->origin == NC_FROM_NODE ? v->def : NULL;
    bool shows = n != NULL && n->n_out == 1 && n->n_subs == 0 && n->n_in > 0 && is_f32(n->in[0]) &&
                 (n->card->permutes != NULL || (n->card->traits & NC_VIEW_DENSE));
    for (int i = 1; shows && i < n->n_in; i++) shows = !is_f32(n->in[i]);
    return shows ? n : NULL;
}

/* The same view of a narrow value, made before; NULL: none. */
static nc_value *made_before(const nc_node *view, const nc_value *narrow) {
    for (int i = 0; i < narrow->uses.n; i++) {
        const nc_node *n = narrow->uses.v[i].node;
        if (n != NULL && n->card == view->card && strcmp(n->name, view->name) == 0) return n->out[0];
    }
    return NULL;
}

static nc_code narrow_copy(const mix *x, nc_node *n, nc_value *const *in, nc_node **out);
static nc_code narrowed(const mix *x, nc_node *before, nc_value *v, nc_value **out);

static nc_code narrowed_view(const mix *x, nc_node *view, nc_value **out) {
    nc_value **in = nc_arena_array(&x->w->scratch, (size_t)view->n_in, sizeof(nc_value *));
    nc_node *made = NULL;
    NC_NEED(x->w, in);
    memcpy(in, view->in, (size_t)view->n_in * sizeof(nc_value *));
    NC_TRY(narrowed(x, view, view->in[0], &in[0]));
    if ((*out = made_before(view, in[0])) != NULL) return NC_OK;
    NC_TRY(narrow_copy(x, view, in, &made));
    *out = made->out[0];
    return NC_OK;
}

/* What v was cast to for somebody else; NULL: nothing. Nodes are visited in order, so a Cast that was made for one
 * stands before the next; one of the model's own may stand anywhere. */
static nc_value *behind_cast(const mix *x, const nc_value *v) {
    for (int i = 0; i < v->uses.n; i++) {
        const nc_node *n = v->uses.v[i].node;
        if (n != NULL && n->id >= x->first_id && n->card == x->cast && is_narrow_cast(n, x->narrow)) return n->out[0];
    }
    return NULL;
}

/* One Cast of a value serves all. */
static nc_code narrowed(const mix *x, nc_node *before, nc_value *v, nc_value **out) {
    if ((*out = before_cast(x, v)) != NULL) return NC_OK;
    if (view_of(v) != NULL) return narrowed_view(x, view_of(v), out);
    if ((*out = behind_cast(x, v)) != NULL) return NC_OK;
    return cast(x, before, v, x->narrow, narrow_name(x, v), out);
}

/* ---- nodes ---- */

static const nc_param *param_of(const nc_param *list, int i) {
    const nc_param *p = list;
    for (int k = 0; k < i && p[1].name != NULL; k++) p++;
    return p;
}

static nc_types types_of(const nc_op_version *v, const nc_param *p) {
    return p->types ? p->types : v->in[p->same].types;
}

/* An argument whose type is its own and that the host reads (Dropout's ratio), or that the card sets apart: it stays as
 * it is. */
static bool is_beside(const nc_node *n, int i) {
    if (i >= 32 || param_of(n->version->in, i)->types == 0) return false;
    return ((n->card->host_in | n->card->apart_in) >> i & 1) != 0;
}

static bool is_wanted(const nc_node *n, int i) { return is_f32(n->in[i]) && !is_beside(n, i); }

/* All its operands of f32 may be narrow in this version of the op, and its results are then too. */
static bool takes_narrow(const mix *x, const nc_node *n) {
    bool any = false;
    for (int i = 0; i < n->n_in; i++) {
        if (!is_wanted(n, i)) continue;
        any = true;
        if (!nc_types_take(types_of(n->version, param_of(n->version->in, i)), NC_BIT(x->narrow))) return false;
    }
    for (int i = 0; i < n->n_out; i++) {
        const nc_param *p = param_of(n->version->out, i);
        if (is_f32(n->out[i]) && (p->types != 0 || !is_f32(n->in[(int)p->same]))) return false;
    }
    return any && n->n_subs == 0;
}

/* A formula, a view or a choice of elements: narrow where that costs no number and at least one operand is narrow. */
static bool follows(const mix *x, const nc_node *n) {
    const unsigned kinds = NC_ELEMENTWISE | NC_VIEW_DENSE | NC_VIEW_STRIDED | NC_IDENTITY | NC_GROWS | NC_PASSES_ON;
    bool any = false;
    if (!(n->card->traits & kinds) || n->card->traits & NC_WIDE) return false;
    for (int i = 0; i < n->n_in; i++) {
        if (!is_wanted(n, i)) continue;
        bool is_narrow = before_cast(x, n->in[i]) != NULL;
        bool has_narrow = x->m->infers_only && behind_cast(x, n->in[i]) != NULL;
        if (!is_narrow && !has_narrow && !fits(x, n->in[i])) return false;
        any |= is_narrow;
    }
    return any;
}

/* n anew on these operands; its results of f32 have the narrow type and names that say so. */
static nc_code narrow_copy(const mix *x, nc_node *n, nc_value *const *in, nc_node **out) {
    const char **names = nc_arena_array(&x->w->scratch, (size_t)n->n_out + 1, sizeof *names);
    NC_NEED(x->w, names);
    for (int i = 0; i < n->n_out; i++) {
        names[i] = n->out[i] == NULL ? "" : n->out[i]->name;
        if (is_f32(n->out[i])) names[i] = narrow_name(x, n->out[i]);
        NC_NEED(x->w, names[i]);
    }
    nc_node *made = nc_edit_node(x->g, n, n->card, n->version, n->name, in, n->n_in, names, n->n_out);
    NC_NEED(x->w, made);
    made->stage = n->stage, made->random_id = n->random_id, made->recompute = n->recompute;
    for (int i = 0; i < n->n_attrs; i++)
        if (nc_edit_set_attr(made, &n->attrs[i]) != NC_OK) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] == NULL) continue;
        made->out[i]->type = is_f32(n->out[i]) ? type_as(x, n->out[i], x->narrow) : n->out[i]->type;
        NC_NEED(x->w, made->out[i]->type);
    }
    *out = made;
    return NC_OK;
}

static nc_code narrow_node(const mix *x, nc_node *n) {
    nc_value **in = nc_arena_array(&x->w->scratch, (size_t)n->n_in + 1, sizeof(nc_value *));
    nc_node *made = NULL;
    NC_NEED(x->w, in);
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (is_wanted(n, i)) NC_TRY(narrowed(x, n, n->in[i], &in[i]));
    }
    NC_TRY(narrow_copy(x, n, in, &made));
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] == NULL) continue;
        nc_value *back = made->out[i];
        if (is_f32(n->out[i])) NC_TRY(cast(x, n, made->out[i], NC_FLOAT, n->out[i]->name, &back));
        nc_edit_replace(n->out[i], back);
    }
    nc_edit_remove(n);
    return NC_OK;
}

/* Casts back, and views of what is now shown narrow, that nobody wants; the last first. */
static void drop_unused(const mix *x) {
    for (nc_node *n = x->g->last, *before; n != NULL; n = before) {
        before = n->prev;
        bool may_go = n->card == x->cast || (n->n_out == 1 && view_of(n->out[0]) != NULL);
        if (may_go && nc_rewrite_unused(n->out[0])) nc_edit_remove(n);
    }
}

/* Products gain by it; norms lose nothing where no gradient is asked for. */
static bool narrows(const mix *x, const nc_node *n) {
    return (n->card->traits & NC_NARROWS) || (x->m->infers_only && n->card->traits & NC_NORMS);
}

nc_code nc_transform_mixed(nc_work *w, nc_model *m, nc_dtype compute) {
    mix x = {.w = w, .m = m, .g = m->main, .narrow = compute, .first_id = m->next_id};
    x.cast = nc_rewrite_card(m, "Cast", compute, &x.version);
    if (x.cast == NULL)
        NC_FAIL(w, NC_E_UNSUPPORTED, "the model's opset %lld has no Cast to %s", (long long)nc_model_opset(m, ""),
                nc_dtype_name(compute));
    for (nc_node *n = m->main->first, *next; n != NULL; n = next) {
        next = n->next;
        if ((narrows(&x, n) || follows(&x, n)) && takes_narrow(&x, n)) NC_TRY(narrow_node(&x, n));
    }
    drop_unused(&x);
    return NC_OK;
}
