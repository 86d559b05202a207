/* ir/verify.c: the promises of graph.h, checked. Reads only; the first broken rule is reported with its node.
 *
 * One walk over a graph and its subgraphs in order marks values as they come to exist, so that a use before its
 * definition, a value of another graph and a forgotten one all look the same: not marked. Operands get running
 * numbers; in a second walk every use must claim one that nobody claimed, and a node's operands must all be
 * claimed when it is reached. That a variable is read after its in-place update is allowed here: the planner then
 * makes a copy. */
#include "ir/verify.h"

#include "base/steps.h"
#include "ir/card.h"

#include <string.h>

typedef struct checker {
    nc_work *w;
    const nc_model *m;
    bool *known;              /* by value id: defined so far */
    int *slot;                /* by node id: number of its first operand; -1: not met */
    int *n_outputs;           /* by value id: how many outputs of its graph it is */
    int n_slots;              /* operands met */
    const nc_value **claimed; /* by operand number */
    bool counting;            /* second walk: uses are matched */
} checker;

#define FAIL_AT(c, ...) NC_FAIL((c)->w, NC_E_BAD_GRAPH, __VA_ARGS__)

static nc_code check_graph(checker *c, const nc_graph *g);

/* ---- values ---- */

static nc_code add_value(checker *c, const nc_graph *g, const nc_value *v, nc_origin origin) {
    if (!v) FAIL_AT(c, "graph '%s' lists an absent value", g->name);
    if (v->id < 0 || v->id >= c->m->next_id)
        FAIL_AT(c, "value '%s' has id %d, beyond %d", v->name, v->id, c->m->next_id);
    if (c->known[v->id]) FAIL_AT(c, "value '%s' is defined twice", v->name);
    if (v->graph != g) FAIL_AT(c, "value '%s' belongs to another graph", v->name);
    if (v->origin != origin) FAIL_AT(c, "value '%s' has origin %d, expected %d", v->name, v->origin, origin);
    if ((v->origin == NC_FROM_NODE) != (v->def != NULL)) FAIL_AT(c, "value '%s' has a wrong producer", v->name);
    if (origin == NC_FROM_CONST && !v->lit) FAIL_AT(c, "constant '%s' has no data", v->name);
    if (v->lit && v->type && (v->type->kind != NC_T_TENSOR || v->type->elem != v->lit->dtype))
        FAIL_AT(c, "value '%s' and its data have different element types", v->name);
    if (v->initial && (g->parent || origin != NC_FROM_INPUT))
        FAIL_AT(c, "value '%s' has an initial value but is no input of the main graph", v->name);
    c->known[v->id] = true;
    return NC_OK;
}

static nc_code add_values(checker *c, const nc_graph *g, nc_value *const *v, int n, nc_origin origin) {
    for (int i = 0; i < n; i++) NC_TRY(add_value(c, g, v[i], origin));
    return NC_OK;
}

static nc_code check_uses(checker *c, const nc_value *v) {
    for (int k = 0; k < v->uses.n; k++) {
        nc_use u = v->uses.v[k];
        int first = u.node && u.node->id >= 0 && u.node->id < c->m->next_id ? c->slot[u.node->id] : -1;
        if (first < 0 || u.node->graph != v->graph)
            FAIL_AT(c, "value '%s' is used by a node that is not in its graph", v->name);
        if (u.i < 0 || u.i >= u.node->n_operands || u.node->in[u.i] != v)
            FAIL_AT(c, "value '%s' says that it is operand %d of '%s' (%s), which it is not", v->name, u.i,
                    u.node->name, u.node->card->name);
        if (c->claimed[first + u.i])
            FAIL_AT(c, "value '%s' lists its use in '%s' (%s) twice", v->name, u.node->name, u.node->card->name);
        if (u.node->at_use[u.i] != k)
            FAIL_AT(c, "operand %d of '%s' (%s) looks for its use of '%s' in a wrong place", u.i, u.node->name,
                    u.node->card->name, v->name);
        c->claimed[first + u.i] = v;
    }
    return NC_OK;
}

/* ---- nodes ---- */

static nc_code check_operands(checker *c, const nc_node *n) {
    if (n->n_in < 0 || n->n_operands < n->n_in) FAIL_AT(c, "has %d inputs but %d operands", n->n_in, n->n_operands);
    for (int i = 0; i < n->n_operands; i++) {
        const nc_value *v = n->in[i];
        if (!v && i < n->n_in) continue;
        if (!v) FAIL_AT(c, "capture %d has no value", i - n->n_in);
        if (v->graph != n->graph) FAIL_AT(c, "operand %d ('%s') belongs to another graph", i, v->name);
        if (v->id < 0 || v->id >= c->m->next_id || !c->known[v->id])
            FAIL_AT(c, "operand %d ('%s') is used before it is defined", i, v->name);
    }
    c->slot[n->id] = c->n_slots;
    c->n_slots += n->n_operands;
    return NC_OK;
}

static nc_code check_subs(checker *c, const nc_node *n) {
    int at = n->n_in;
    for (int i = 0; i < n->n_subs; i++) {
        const nc_sub *s = &n->subs[i];
        if (s->graph->owner != n || s->graph->parent != n->graph)
            FAIL_AT(c, "subgraph '%s' belongs to another node", s->attr);
        if (s->first_capture != at || s->n_captures != s->graph->captures.n)
            FAIL_AT(c, "captures of subgraph '%s' and operands do not fit", s->attr);
        at += s->n_captures;
        for (int k = 0; k < s->n_captures; k++) {
            const nc_value *outer = n->in[s->first_capture + k], *inner = s->graph->captures.v[k];
            if (outer->type && inner->type && !nc_type_equal(outer->type, inner->type))
                FAIL_AT(c, "capture '%s' has another type inside than outside", outer->name);
        }
    }
    if (at != n->n_operands) FAIL_AT(c, "has %d operands, inputs and captures are %d", n->n_operands, at);
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].kind == NC_A_GRAPH && (n->attrs[i].sub < 0 || n->attrs[i].sub >= n->n_subs))
            FAIL_AT(c, "attribute '%s' names no subgraph", n->attrs[i].name);
    return NC_OK;
}

/* An in-place output continues the chain of the input whose memory it takes, and nobody else continues that. */
static nc_code check_update(checker *c, const nc_node *n) {
    for (int i = 0; (n->card->traits & NC_IN_PLACE) && i < n->card->n_updates && i < n->n_in && i < n->n_out; i++) {
        const nc_value *in = n->in[i], *out = n->out[i];
        if (!in || !out) continue;
        if (in->var != out->var)
            FAIL_AT(c, "output %d ('%s') must be the next version of the variable that input '%s' is of", i, out->name,
                    in->name);
        if (in->type && out->type && !nc_type_equal(in->type, out->type) && !(n->card->traits & NC_GROWS))
            FAIL_AT(c, "output %d ('%s') takes the memory of '%s' but has another type", i, out->name, in->name);
        for (int k = 0; in->var && k < in->uses.n; k++) {
            nc_use u = in->uses.v[k];
            bool updates = (u.node->card->traits & NC_IN_PLACE) && u.i < u.node->card->n_updates && u.i < u.node->n_out;
            if (updates && (u.node != n || u.i != i))
                FAIL_AT(c, "'%s' is updated here and in '%s': a version has one successor", in->name, u.node->name);
        }
    }
    return NC_OK;
}

static nc_code check_outputs(checker *c, const nc_node *n) {
    for (int i = 0; i < n->n_out; i++) {
        const nc_value *v = n->out[i];
        if (!v) continue;
        if (v->def != n || v->i_def != i) FAIL_AT(c, "output %d ('%s') names another producer", i, v->name);
        NC_TRY(add_value(c, n->graph, v, NC_FROM_NODE));
    }
    return NC_OK;
}

static nc_code check_node(checker *c, const nc_node *n) {
    if (n->id < 0 || n->id >= c->m->next_id) FAIL_AT(c, "has id %d, beyond %d", n->id, c->m->next_id);
    if (c->slot[n->id] >= 0) FAIL_AT(c, "has an id that another node has too, or stands in the list twice");
    if (!n->card || !n->version) FAIL_AT(c, "has no card or version");
    NC_TRY(check_operands(c, n));
    NC_TRY(check_subs(c, n));
    NC_TRY(nc_node_check(c->w, n));
    NC_TRY(nc_node_check_types(c->w, n));
    if ((n->card->traits & NC_RANDOM) && n->random_id <= 0) FAIL_AT(c, "draws numbers but has no random id");
    NC_TRY(check_update(c, n));
    NC_TRY(check_outputs(c, n));
    for (int i = 0; i < n->n_subs; i++) NC_TRY(check_graph(c, n->subs[i].graph));
    return NC_OK;
}

static nc_code check_node_uses(checker *c, const nc_node *n) {
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] && !c->claimed[c->slot[n->id] + i])
            FAIL_AT(c, "operand %d ('%s') does not list this use", i, n->in[i]->name);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) NC_TRY(check_uses(c, n->out[i]));
    for (int i = 0; i < n->n_subs; i++) NC_TRY(check_graph(c, n->subs[i].graph));
    return NC_OK;
}

static nc_code check_nodes(checker *c, const nc_graph *g) {
    int count = 0;
    const nc_node *prev = NULL;
    for (const nc_node *n = g->first; n; prev = n, n = n->next) {
        const char *node = c->w->at_node, *op = c->w->at_op;
        c->w->at_node = n->name;
        c->w->at_op = n->card ? n->card->name : NULL;
        if (n->prev != prev || n->graph != g || ++count > g->n_nodes)
            FAIL_AT(c, "is not linked well into graph '%s'", g->name);
        nc_code code = c->counting ? check_node_uses(c, n) : check_node(c, n);
        c->w->at_node = node;
        c->w->at_op = op;
        if (code != NC_OK) return code;
    }
    if (g->last != prev || count != g->n_nodes)
        FAIL_AT(c, "graph '%s' has %d nodes in its list, says %d", g->name, count, g->n_nodes);
    return NC_OK;
}

/* ---- graphs ---- */

static nc_code check_variables(checker *c, const nc_graph *g) {
    for (int i = 0; i < g->vars.n; i++) {
        const nc_variable *x = g->vars.v[i];
        if (x->id != i) FAIL_AT(c, "variable '%s' has id %d, stands at %d", x->name, x->id, i);
        if (x->first->var != x || x->first->origin != NC_FROM_VARIABLE)
            FAIL_AT(c, "variable '%s' has no version 0", x->name);
        if (!x->last || x->last->var != x || x->last->graph != g || !c->known[x->last->id])
            FAIL_AT(c, "the newest version of variable '%s' is not one of its versions in the main graph", x->name);
        const nc_type *a = x->first->type, *b = x->last->type;
        if (a && b && a->kind == NC_T_TENSOR &&
            (b->kind != a->kind || b->elem != a->elem || (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank)))
            FAIL_AT(c, "the newest version of variable '%s' ('%s') has another type", x->name, x->last->name);
    }
    return NC_OK;
}

static nc_code check_graph_outputs(checker *c, const nc_graph *g) {
    if (g->outputs.n != g->output_names.n)
        FAIL_AT(c, "graph '%s' has %d outputs and %d names for them", g->name, g->outputs.n, g->output_names.n);
    for (int i = 0; i < g->outputs.n; i++) {
        const nc_value *v = g->outputs.v[i];
        if (!v || v->graph != g || v->id < 0 || v->id >= c->m->next_id || !c->known[v->id])
            FAIL_AT(c, "output %d ('%s') of graph '%s' is not a value of it", i, g->output_names.v[i], g->name);
        c->n_outputs[v->id]++;
        nc_steps_add(1);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        const nc_value *v = g->outputs.v[i];
        if (v->n_outputs != c->n_outputs[v->id])
            FAIL_AT(c, "value '%s' is %d outputs, says %d", v->name, c->n_outputs[v->id], v->n_outputs);
    }
    return NC_OK;
}

static nc_code check_definitions(checker *c, const nc_graph *g) {
    if (g->model != c->m || (!g->parent && g != c->m->main)) FAIL_AT(c, "graph '%s' belongs to another model", g->name);
    if (g->parent && g->vars.n) FAIL_AT(c, "subgraph '%s' has variables", g->name);
    NC_TRY(add_values(c, g, g->inputs.v, g->inputs.n, NC_FROM_INPUT));
    NC_TRY(add_values(c, g, g->captures.v, g->captures.n, NC_FROM_CAPTURE));
    NC_TRY(add_values(c, g, g->consts.v, g->consts.n, NC_FROM_CONST));
    for (int i = 0; i < g->vars.n; i++) NC_TRY(add_value(c, g, g->vars.v[i]->first, NC_FROM_VARIABLE));
    NC_TRY(check_nodes(c, g));
    NC_TRY(check_variables(c, g));
    return check_graph_outputs(c, g);
}

static nc_code check_graph(checker *c, const nc_graph *g) {
    if (!c->counting) return check_definitions(c, g);
    for (int i = 0; i < g->inputs.n; i++) NC_TRY(check_uses(c, g->inputs.v[i]));
    for (int i = 0; i < g->captures.n; i++) NC_TRY(check_uses(c, g->captures.v[i]));
    for (int i = 0; i < g->consts.n; i++) NC_TRY(check_uses(c, g->consts.v[i]));
    for (int i = 0; i < g->vars.n; i++) NC_TRY(check_uses(c, g->vars.v[i]->first));
    return check_nodes(c, g);
}

static nc_code check_model(checker *c) {
    NC_TRY(check_graph(c, c->m->main));
    c->claimed = nc_arena_array(&c->w->scratch, (size_t)c->n_slots + 1, sizeof *c->claimed);
    NC_NEED(c->w, c->claimed);
    c->counting = true;
    return check_graph(c, c->m->main);
}

nc_code nc_verify(nc_work *w, const nc_model *m) {
    checker c = {.w = w, .m = m};
    if (m->out_of_memory) NC_FAIL(w, NC_E_MEMORY, "out of memory in an earlier edit");
    c.known = nc_arena_array(&w->scratch, (size_t)m->next_id + 1, sizeof *c.known);
    c.slot = nc_arena_array(&w->scratch, (size_t)m->next_id + 1, sizeof *c.slot);
    c.n_outputs = nc_arena_array(&w->scratch, (size_t)m->next_id + 1, sizeof *c.n_outputs);
    if (!c.known || !c.slot || !c.n_outputs) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i <= m->next_id; i++) c.slot[i] = -1;
    const char *node = w->at_node, *op = w->at_op;
    nc_code code = check_model(&c);
    w->at_node = node;
    w->at_op = op;
    return code;
}
