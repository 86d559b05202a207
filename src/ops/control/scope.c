/* ops/control/scope.c: types that leave a subgraph. A symbol that a body made up has another value in each iteration,
 * or none in the branch not taken, so outside it must not be mentioned. */
#include "ops/control/control.h"

#include <string.h>

static void note_type(const nc_scope *s, const nc_type *t) {
    for (; t; t = t->of)
        for (int k = 0; (t->kind == NC_T_TENSOR || t->kind == NC_T_SPARSE) && k < t->rank; k++)
            nc_dim_mark(t->dims[k], s->known);
}

nc_code nc_scope_init(nc_scope *s, nc_infer *c) {
    const nc_node *n = c->node;
    *s = (nc_scope){.c = c, .n_known = nc_dims_n_syms(c->dims)};
    s->known = nc_arena_array(&c->w->scratch, (size_t)s->n_known + 1, sizeof *s->known);
    NC_NEED(c->w, s->known);
    for (int i = 0; i < n->n_operands; i++) {
        if (!n->in[i]) continue;
        note_type(s, n->in[i]->type);
        for (int k = 0; k < n->in[i]->n_elems; k++)
            if (n->in[i]->elems[k]) nc_dim_mark(n->in[i]->elems[k], s->known);
    }
    return NC_OK;
}

nc_code nc_scope_holds(const nc_scope *s, const nc_dim *d, bool *out) {
    *out = true;
    if (nc_dim_is_const(d, NULL)) return NC_OK;
    int n = nc_dims_n_syms(s->c->dims);
    bool *used = nc_arena_array(&s->c->w->scratch, (size_t)n + 1, sizeof *used);
    NC_NEED(s->c->w, used);
    nc_dim_mark(d, used);
    for (int i = 0; i < n && *out; i++) *out = !used[i] || (i < s->n_known && s->known[i]);
    return NC_OK;
}

static nc_code join_tensors(const nc_scope *s, const nc_type *a, const nc_type *b, const nc_type **out) {
    const nc_dim *dims[NC_MAX_RANK];
    int rank = a->rank == b->rank ? a->rank : -1;
    for (int k = 0; k < rank; k++) {
        bool holds;
        NC_TRY(nc_scope_holds(s, a->dims[k], &holds));
        dims[k] = holds && a->dims[k] == b->dims[k] ? a->dims[k] : nc_fresh(s->c, "d");
        NC_NEED(s->c->w, dims[k]);
    }
    *out = nc_type_tensor(s->c->arena, a->elem, rank, dims);
    NC_NEED(s->c->w, *out);
    return NC_OK;
}

static nc_code scope_refuse(const nc_scope *s, const nc_type *a, const nc_type *b, const char *what) {
    nc_text ta = {0}, tb = {0};
    nc_type_print(&ta, a);
    nc_type_print(&tb, b);
    nc_code code = nc_fail(s->c->w, NC_E_TYPE, "%s is %s in one place and %s in another", what, ta.s ? ta.s : "?",
                           tb.s ? tb.s : "?");
    nc_text_release(&ta);
    nc_text_release(&tb);
    return code;
}

nc_code nc_scope_join(const nc_scope *s, const nc_type *a, const nc_type *b, const char *what, const nc_type **out) {
    *out = NULL;
    if (!a || !b) return NC_OK;
    if (a->kind != b->kind) return scope_refuse(s, a, b, what);
    if (a->kind == NC_T_TAPE) {
        *out = a;
        return NC_OK;
    }
    if (a->elem != b->elem) return scope_refuse(s, a, b, what);
    if (a->kind == NC_T_TENSOR || a->kind == NC_T_SPARSE) return join_tensors(s, a, b, out);
    const nc_type *of;
    NC_TRY(nc_scope_join(s, a->of, b->of, what, &of));
    nc_type *t = nc_arena_copy(s->c->arena, a, sizeof *a);
    NC_NEED(s->c->w, t);
    t->of = of;
    *out = t;
    return NC_OK;
}
