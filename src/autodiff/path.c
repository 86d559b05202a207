/* autodiff/path.c: says which way leads through a node that has no gradient: the names of the values from something
 * that is asked for, through the node, to something that is differentiated. In the walk of a subgraph that is the part
 * of the way inside it. */
#include "autodiff/walk.h"

#include <string.h>

static bool is_needed(const nc_walk *k, const nc_value *v) {
    const nc_walk_info *i = nc_walk_peek(k, v);
    return i && i->needed;
}

/* The operand by which a gradient would go on towards what is asked for; NULL: v is where it begins. */
static const nc_value *step_back(const nc_walk *k, const nc_value *v) {
    const nc_node *n = v->origin == NC_FROM_NODE ? v->def : NULL;
    for (int i = 0; n && i < n->n_operands; i++)
        if (nc_walk_passes(n, i) && nc_walk_reached(k, n->in[i])) return n->in[i];
    return NULL;
}

/* A result further on, on a way that is needed; NULL: v is an end. */
static const nc_value *step_on(const nc_walk *k, const nc_value *v) {
    for (int i = 0; i < v->uses.n; i++) {
        const nc_node *n = v->uses.v[i].node;
        if (!nc_walk_passes(n, v->uses.v[i].i)) continue;
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o] && is_needed(k, n->out[o])) return n->out[o];
    }
    return NULL;
}

enum { SHOWN = 5 };

/* The first and the last names of a way of n values. */
static void print_way(nc_text *t, const nc_value *const *way, int n) {
    for (int i = 0; i < n; i++) {
        if (i == SHOWN && n > 2 * SHOWN) {
            nc_text_add(t, " -> ...");
            i = n - SHOWN;
        }
        nc_text_addf(t, "%s'%.60s'", i ? " -> " : "", way[i]->name);
    }
}

static const nc_value *first_out(const nc_walk *k, const nc_node *n) {
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && is_needed(k, n->out[i])) return n->out[i];
    return NULL;
}

nc_code nc_walk_refuse(nc_walk *k, const nc_node *n) {
    int n_back = 0, n_way = 0, most = k->graph->n_nodes + 2;
    const nc_value *v = first_out(k, n), **way = nc_arena_array(&k->w->scratch, 2 * (size_t)most, sizeof *way);
    NC_NEED(k->w, way);
    for (const nc_value *at = v; at && n_back < most; at = step_back(k, at)) way[n_back++] = at;
    while (n_way < n_back / 2) {
        const nc_value *t = way[n_way];
        way[n_way] = way[n_back - 1 - n_way], way[n_back - 1 - n_way] = t;
        n_way++;
    }
    n_way = n_back;
    for (const nc_value *at = v ? step_on(k, v) : NULL; at && n_way < 2 * most; at = step_on(k, at)) way[n_way++] = at;
    nc_text t = {0};
    print_way(&t, way, n_way);
    const char *why = n->card->no_grad;
    nc_code code = nc_fail(k->w, NC_E_UNSUPPORTED, "the op has no gradient%s%s, and the way %s leads through it",
                           why ? ": " : "", why ? why : "", t.s ? t.s : "");
    nc_text_release(&t);
    return code;
}
