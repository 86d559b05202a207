/* autodiff/stop.c: values that are held while something is differentiated. Such a value gets a node behind it that no
 * gradient passes, and whoever used the value uses that node's result; passes leave it alone, so a value can be held
 * from before the passes until the gradients are there. Asked for as x or y, a held value means that result: it counts
 * as independent of what it was made of. */
#include "autodiff/autodiff.h"

#include "base/log.h"
#include "infer/infer.h"
#include "ops/build.h"

static nc_node *stop_of(const nc_value *v) {
    for (int i = 0; i < v->uses.n; i++)
        if (nc_build_is_stop(v->uses.v[i].node)) return v->uses.v[i].node;
    return NULL;
}

nc_value *nc_autodiff_stopped(nc_value *v) {
    nc_node *stop = stop_of(v);
    return stop ? stop->out[0] : v;
}

static bool but_itself(const nc_use *u, void *stop) { return u->node != stop; }

nc_code nc_autodiff_stop(nc_work *w, nc_value *v, nc_node **made) {
    bool from_node = v->origin == NC_FROM_NODE;
    if (made) *made = NULL;
    if (stop_of(v)) return NC_OK;
    nc_builder b = {.w = w,
                    .graph = v->graph,
                    .before = from_node ? v->def->next : v->graph->first,
                    .stage = from_node ? v->def->stage : NC_STAGE_FORWARD,
                    .infer = nc_infer_node};
    nc_value *held = nc_build_stop(&b, v);
    NC_TRY(b.code);
    nc_edit_replace_uses_if(v, held, but_itself, held->def);
    if (made) *made = held->def;
    return NC_OK;
}

void nc_autodiff_unstop(nc_node *stop) {
    nc_edit_replace(stop->out[0], stop->in[0]);
    nc_edit_remove(stop);
}

void nc_autodiff_unstop_all(nc_graph *g) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (nc_build_is_stop(n)) nc_autodiff_unstop(n);
    }
}

void nc_autodiff_warn_zeros(const char *y, const char *x) {
    nc_log(NC_LOG_WARNING, "the gradient of '%s' by '%s' is zeros: no differentiable way leads from '%s' to '%s'", y, x,
           x, y);
}
