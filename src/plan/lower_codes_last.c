/* plan/lower_codes_last.c: convolutions of codes work with channels last, and their codes are turned around them. What
 * is done to codes element by element is done before they are turned back, so that two Transposes meet, and go:
 *
 *   MapCodes(turn(x))                    becomes   turn(MapCodes(x))
 *   QLinearAdd(turn(a), .., turn(b))     becomes   turn(QLinearAdd(a, .., b))
 *   back(turn(x))                        becomes   x
 *
 * turn being any Transpose. One sweep in the order of the graph; then Transposes that nobody uses go. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

#include <string.h>

extern const nc_card nc_card_map_codes, nc_card_qlinear_add;

/* The Transpose that makes v for n, and its perm; NULL: there is none. */
static nc_node *turn_of(const nc_value *v, const nc_node *n, int64_t *perm) {
    nc_node *t = v && v->origin == NC_FROM_NODE ? v->def : NULL;
    const nc_type *x = t && t->card->permutes && t->n_in > 0 && t->in[0] ? t->in[0]->type : NULL;
    if (!x || x->rank < 1 || t->recompute || t->place != n->place || t->stage != n->stage || t->graph != n->graph)
        return NULL;
    return t->card->permutes(t, x->rank, perm) ? t : NULL;
}

/* Where n turns what was turned: is it what it was? */
static void turn_back(nc_node *n) {
    int64_t first[NC_MAX_RANK], then[NC_MAX_RANK];
    const nc_node *t = n->card->permutes ? turn_of(n->in[0], n, first) : NULL;
    int rank = t ? n->in[0]->type->rank : 0;
    if (!t || n->recompute || n->out[0]->var || n->out[0]->n_outputs || !n->card->permutes(n, rank, then)) return;
    for (int i = 0; i < rank; i++)
        if (first[then[i]] != i) return;
    nc_edit_replace(n->out[0], t->in[0]);
}

/* n, whose operands at `at` are turned codes, does its work before they are. */
static nc_code turn_behind(nc_work *w, nc_node *n, const int *at, int n_at) {
    int64_t perm[NC_MAX_RANK], other[NC_MAX_RANK];
    nc_value *from[2] = {NULL};
    for (int i = 0; i < n_at; i++) {
        const nc_value *v = n->in[at[i]];
        const nc_node *t = v && nc_lower_is_codes(v->type) ? turn_of(v, n, i == 0 ? perm : other) : NULL;
        if (!t || !nc_type_equal(v->type, n->in[at[0]]->type)) return NC_OK;
        from[i] = t->in[0];
        if (i > 0 && memcmp(perm, other, (size_t)from[0]->type->rank * sizeof *perm) != 0) return NC_OK;
    }
    const nc_type *x = from[0]->type;
    nc_value *y = n->out[0];
    nc_builder b = {.w = w, .graph = n->graph, .before = n->next, .stage = n->stage, .place = n->place};
    b.infer = nc_infer_node;
    for (int i = 0; i < n_at; i++) nc_edit_set_in(n, at[i], from[i]);
    const nc_type *old = y->type;
    NC_NEED(w, y->type = nc_type_tensor(&n->graph->model->arena, old->elem, x->rank, x->dims));
    nc_value *turned = nc_build_transpose(&b, y, perm, x->rank);
    if (!turned) return b.code ? b.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    turned->type = old;
    nc_edit_replace(y, turned);
    nc_edit_set_in(turned->def, 0, y);
    return NC_OK;
}

nc_code nc_lower_codes_last(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nc_graph *g = m->main;
    if (o->no_fusion) return NC_OK;
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (n->n_out != 1 || n->recompute || n->out[0]->var || !nc_lower_on_cpu(n, o)) continue;
        turn_back(n);
        if (n->card == &nc_card_map_codes) NC_TRY(turn_behind(w, n, (const int[]){0}, 1));
        if (n->card == &nc_card_qlinear_add && n->n_in > 3) NC_TRY(turn_behind(w, n, (const int[]){0, 3}, 2));
        next = n->next;
    }
    for (nc_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        bool turns = n->card->permutes && n->n_out == 1 && !n->recompute && !n->out[0]->var;
        if (turns && !n->out[0]->uses.n && !n->out[0]->n_outputs) nc_edit_remove(n);
    }
    return NC_OK;
}
