/* plan/lower_code_maps.c: codes of 8 bits that are made of codes of 8 bits element by element, whatever formulas are in
 * between, are looked up in a table of 256 (nacre.MapCodes, whose body has the formulas). The CPU's kernels alone.
 *
 * An example, SiLU as quantizers write it: d = DequantizeLinear(x), s = Sigmoid(d), q = QuantizeLinear(s), e =
 * DequantizeLinear(q), m = Mul(d, e), y = QuantizeLinear(m) become y = MapCodes{all six}(x), with scales and zero
 * points of one element.
 *
 * Forwards every value is told by which codes it is a function of, as far back as that goes; then, from the end, each
 * QuantizeLinear that makes such a function becomes a map, and formulas that nobody reads any more go. */
#include "ops/build.h"
#include "ops/lane.h"
#include "plan/plan.h"

extern const nc_card nc_card_quantize_linear, nc_card_dequantize_linear, nc_card_cast, nc_card_map_codes;

enum { MOST = 64, MAX_IN = 4 }; /* formulas of a map, operands of a formula */

/* A value as a function of codes, or of constants of one number alone. */
typedef struct mapped {
    nc_value *of;
    int formulas;
    bool one;
} mapped;

typedef struct maps {
    nc_work *w;
    nc_graph *g;
    const nc_plan_options *o;
    mapped *at; /* by value id */
} maps;

static bool is_one_number(const maps *m, const nc_value *v, const nc_type *y) {
    if (m->at[v->id].one) return v->type->rank <= y->rank;
    return v->origin == NC_FROM_CONST && v->lit && v->lit->n == 1 && v->lit->rank <= y->rank;
}

/* What makes v stands where n does, or makes no formula. */
static bool is_beside(const maps *m, const nc_value *v, const nc_node *n) {
    return !m->at[v->id].formulas || v->def->place == n->place;
}

/* One number of its results follows from one number of each operand. */
static bool is_formula(const maps *m, const nc_node *n) {
    if (n->n_in > MAX_IN || n->n_out != 1 || n->n_subs || n->recompute || n->out[0]->var || !nc_lower_on_cpu(n, m->o))
        return false;
    const nc_type *t = n->out[0]->type;
    if (!t || t->kind != NC_T_TENSOR || !(t->elem == NC_FLOAT || t->elem == NC_BOOL || nc_lower_is_codes(t)))
        return false;
    bool codes = n->card == &nc_card_quantize_linear || n->card == &nc_card_dequantize_linear;
    return codes || n->card == &nc_card_cast || ((n->card->traits & NC_ELEMENTWISE) && nc_lane_number(n) >= 0);
}

static mapped mapped_of(const maps *m, nc_value *v) {
    if (m->at[v->id].of) return m->at[v->id];
    return (mapped){.of = v->origin != NC_FROM_CONST && nc_lower_is_codes(v->type) ? v : NULL};
}

static void note(maps *m, const nc_node *n) {
    mapped y = {.formulas = 1};
    const nc_type *t = n->out[0]->type;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        if (!is_beside(m, n->in[i], n)) return;
        if (is_one_number(m, n->in[i], t)) {
            y.formulas += m->at[n->in[i]->id].formulas;
            continue;
        }
        mapped x = mapped_of(m, n->in[i]);
        if (!x.of || (y.of && y.of != x.of)) return;
        y.of = x.of, y.formulas += x.formulas;
    }
    y.one = !y.of && n->n_in > 0;
    if (y.formulas <= MOST && (y.one || nc_lower_same_dims(t, y.of->type))) m->at[n->out[0]->id] = y;
}

/* ---- the body ---- */

typedef struct body {
    nc_graph *g;
    const nc_value *of;
    nc_map made; /* value -> the body's */
} body;

/* v in the body; at most MOST formulas deep. */
static nc_value *inner_of(body *b, nc_value *v) {
    nc_value *made = nc_map_get_bytes(&b->made, &v->id, sizeof v->id);
    if (made) return made;
    if (v->origin == NC_FROM_CONST) {
        made = nc_edit_const(b->g, v->name, v->lit);
        if (made) made->type = v->type;
    } else {
        nc_value *in[MAX_IN] = {NULL};
        const nc_node *n = v->def;
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && !(in[i] = inner_of(b, n->in[i]))) return NULL;
        nc_node *c = nc_edit_clone(b->g, NULL, n);
        for (int i = 0; c && i < n->n_in; i++) nc_edit_set_in(c, i, in[i]);
        made = c ? c->out[0] : NULL;
        if (made) made->type = v->type;
    }
    return made && nc_map_put_bytes(&b->made, &v->id, sizeof v->id, made) ? made : NULL;
}

/* QuantizeLinear n as a map of codes. */
static nc_code replace(const maps *m, nc_node *n) {
    nc_value *of = m->at[n->out[0]->id].of;
    const char *name = n->out[0]->name;
    const nc_card *card = &nc_card_map_codes;
    nc_node *map = nc_edit_node(m->g, n, card, nc_card_version(card, 1), n->name, &of, 1, &name, 1);
    NC_NEED(m->w, map);
    body b = {.g = nc_edit_subgraph(map, "body"), .of = of};
    NC_NEED(m->w, b.g);
    nc_map_init(&b.made, &m->w->scratch);
    nc_value *x = nc_edit_input(b.g, of->name, of->type), *y = NULL;
    if (x && nc_map_put_bytes(&b.made, &of->id, sizeof of->id, x)) y = inner_of(&b, n->out[0]);
    NC_NEED(m->w, y);
    NC_TRY(nc_edit_output(b.g, y, y->name));
    map->stage = n->stage, map->place = n->place;
    map->out[0]->type = n->out[0]->type;
    nc_edit_replace(n->out[0], map->out[0]);
    nc_edit_remove(n);
    return NC_OK;
}

static nc_code maps_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    maps m = {.w = w, .g = g, .o = o};
    bool any = false;
    for (nc_node *n = g->first; n; n = n->next)
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(maps_of(w, n->subs[i].graph, o));
    for (const nc_node *n = g->first; n && !any; n = n->next) any = n->card == &nc_card_quantize_linear;
    if (!any) return NC_OK;
    NC_NEED(w, m.at = nc_arena_array(&w->scratch, (size_t)g->model->next_id, sizeof *m.at));
    for (const nc_node *n = g->first; n; n = n->next)
        if (is_formula(&m, n)) note(&m, n);
    for (nc_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        nc_value *y = n->n_out == 1 ? n->out[0] : NULL;
        if (!y || n->card == &nc_card_map_codes || !(m.at[y->id].of || m.at[y->id].one)) continue;
        if (!y->uses.n && !y->n_outputs)
            nc_edit_remove(n);
        else if (n->card == &nc_card_quantize_linear && m.at[y->id].of)
            NC_TRY(replace(&m, n));
    }
    return NC_OK;
}

nc_code nc_lower_code_maps(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : maps_of(w, m->main, o);
}
