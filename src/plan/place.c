/* plan/place.c: decides where every node runs. Place 0 is the host, place 1 the session's device. Comes before all
 * steps that need to know which kernels there are; lower_copy.c then puts the copies in between.
 *
 * On the host stay: strings, sequences, optionals, maps and tapes; dynamic kernels (plugins, control flow itself);
 * integer subgraphs that only feed shapes, axes and conditions; what the device can neither run nor take apart: the
 * last are told by one warning, or refused where the options say so. */
#include "base/log.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

typedef struct placer {
    const nc_plan_options *o;
    bool whole;          /* nothing is taken apart any more: what has no kernel on the device runs on the host */
    bool *shape_math;    /* by node id: integers that only the host wants */
    int n_left;          /* nodes that compute on the host because the device has no kernel for them */
    const nc_node *left; /* the first of them */
    char why[256];       /* it is one of them */
} placer;

bool nc_type_is_host(const nc_type *t) { return !t || t->kind != NC_T_TENSOR || t->elem == NC_STRING; }

static bool is_shape_math(const placer *p, const nc_node *n) {
    bool used = false;
    if (n->card->traits & (NC_CONTROL | NC_RANDOM)) return false;
    for (int k = 0; k < n->n_out; k++) {
        const nc_value *v = n->out[k];
        if (!v) continue;
        char c = v->type && v->type->kind == NC_T_TENSOR ? nc_dtype_class(v->type->elem) : 0;
        if ((c != 'I' && c != 'U' && c != 'B') || v->n_outputs || v->var) return false;
        for (int i = 0; i < v->uses.n; i++) {
            const nc_use *u = &v->uses.v[i];
            if (!nc_wants_host(u->node, u->i) && !nc_wants_dims_only(u->node, u->i) && !p->shape_math[u->node->id])
                return false;
            used = true;
        }
    }
    return used;
}

static bool touches_objects(const nc_node *n) {
    if (n->card->traits & (NC_HOST_OBJECTS | NC_CONTROL)) return true;
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] && nc_type_is_host(n->in[i]->type)) return true;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && nc_type_is_host(n->out[i]->type)) return true;
    return false;
}

static bool looks_at_no_bytes(const nc_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !nc_wants_dims_only(n, i)) return false;
    return n->n_in > 0;
}

/* Its results are numbers about shapes, not tensors. */
static bool is_small(const nc_node *n) {
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->type && n->out[i]->type->rank > 1) return false;
    return true;
}

static int place_of(placer *p, const nc_node *n) {
    if (touches_objects(n) || p->shape_math[n->id]) return 0;
    char why[256];
    const nc_binding *b = nc_binding_find(n, nc_kernels_at(p->o, 1), why, sizeof why);
    if (looks_at_no_bytes(n) && (!b || is_small(n))) return 0;
    if (b && b->kind != NC_K_DYNAMIC) return 1;
    if (!b && n->card->decompose && !p->whole) return 1;
    if (b) snprintf(why, sizeof why, "its kernel is dynamic");
    if (!p->whole) return 0;
    nc_log(NC_LOG_INFO, "%s '%s' runs on the host: %s", n->card->name, n->name, why);
    if (p->n_left++ == 0) p->left = n, memcpy(p->why, why, sizeof why);
    return 0;
}

static void place_graph(placer *p, nc_graph *g) {
    for (nc_node *n = g->last; n; n = n->prev) p->shape_math[n->id] = is_shape_math(p, n);
    for (nc_node *n = g->first; n; n = n->next) {
        n->place = place_of(p, n);
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) place_graph(p, n->subs[i].graph);
    }
}

nc_code nc_lower_place(nc_work *w, nc_model *m, const nc_plan_options *o, bool whole) {
    if (o->device->table->host_memory) return NC_OK;
    placer p = {.o = o, .whole = whole};
    NC_NEED(w, p.shape_math = nc_arena_array(&w->scratch, (size_t)m->next_id, sizeof *p.shape_math));
    place_graph(&p, m->main);
    if (p.n_left == 0) return NC_OK;
    if (o->no_host) {
        w->at_node = p.left->name, w->at_op = p.left->card->name;
        NC_FAIL(w, NC_E_UNSUPPORTED, "it would run on the host, which the option host_nodes refuses: %s: %s",
                o->device->table->name, p.why);
    }
    nc_log(NC_LOG_WARNING, "%d of the model's nodes compute on the host, not on %s, the first is %s '%s': %s", p.n_left,
           o->device->table->name, p.left->card->name, p.left->name, p.why);
    return NC_OK;
}
