/* plan/lower_layout.c: puts ops that have a channel-blocked form at their place into it, between PackChannels and
 * UnpackChannels nodes, then sinks the unpacking through elementwise ops and cancels unpack-pack pairs. An op that does
 * not know the layout keeps its plain input: the two nodes stay around it, for all to see. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

static bool is_pack(const nc_node *n) { return n && (n->card->traits & NC_BLOCKS); }
static bool is_unpack(const nc_node *n) { return n && (n->card->traits & NC_UNBLOCKS); }

static nc_code block(nc_builder *b, nc_node *n) {
    nc_value *in[8] = {NULL};
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i];
    b->before = n, b->stage = n->stage, b->place = n->place;
    in[0] = nc_build_attr1(b, "nacre", "PackChannels", &n->in[0], 1, NULL, 0);
    nc_value *y = nc_build_attr1(b, "nacre", n->card->blocked_form, in, n->n_in, n->attrs, n->n_attrs);
    nc_value *plain = nc_build_attr1(b, "nacre", "UnpackChannels", &y, 1, NULL, 0);
    if (!plain) return b->code;
    y->def->name = n->name;
    nc_edit_replace(n->out[0], plain);
    nc_edit_remove(n);
    return NC_OK;
}

/* All inputs are unpacked values of one blocked type, each used here alone. */
static bool can_sink(const nc_node *n) {
    if (!n->card->lane || n->n_in < 1 || n->n_out != 1) return false;
    for (int i = 0; i < n->n_in; i++) {
        const nc_value *v = n->in[i];
        if (!v || !is_unpack(v->def) || v->def->place != n->place || v->uses.n != 1 || v->n_outputs) return false;
        if (!nc_type_equal(v->def->in[0]->type, n->in[0]->def->in[0]->type)) return false;
    }
    return n->out[0]->type->elem == n->in[0]->type->elem;
}

static nc_code sink(nc_builder *b, nc_node *n) {
    nc_value *in[3];
    if (n->n_in > 3) return NC_OK;
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i]->def->in[0];
    b->before = n, b->stage = n->stage, b->place = n->place;
    nc_value *y = nc_build_card1(b, n->card, in, n->n_in, n->attrs, n->n_attrs);
    nc_value *plain = nc_build_attr1(b, "nacre", "UnpackChannels", &y, 1, NULL, 0);
    if (!plain) return b->code;
    y->def->name = n->name;
    nc_edit_replace(n->out[0], plain);
    nc_edit_remove(n);
    return NC_OK;
}

static void cancel_and_clean(nc_graph *g) {
    for (nc_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (is_pack(n) && is_unpack(n->in[0]->def) && n->in[0]->def->place == n->place &&
            nc_type_equal(n->in[0]->def->in[0]->type, n->out[0]->type))
            nc_edit_replace(n->out[0], n->in[0]->def->in[0]);
        if ((is_pack(n) || is_unpack(n)) && !n->out[0]->uses.n && !n->out[0]->n_outputs) nc_edit_remove(n);
    }
}

static bool has_blocked_form(const nc_node *n, const nc_plan_options *o) {
    const nc_registry *r = n->graph->model->registry;
    const nc_card *form = n->card->blocked_form ? r->find(r, "nacre", n->card->blocked_form) : NULL;
    return form && nc_binding_exists(form, nc_kernels_at(o, n->place)) && n->card->blocked_fits(n);
}

static nc_code layout_graph(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    nc_builder b = {.w = w, .graph = g, .infer = nc_infer_node};
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        w->at_node = n->name, w->at_op = n->card->name;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(layout_graph(w, n->subs[i].graph, o));
        if (has_blocked_form(n, o)) NC_TRY(block(&b, n));
    }
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (can_sink(n)) NC_TRY(sink(&b, n));
    }
    cancel_and_clean(g);
    return NC_OK;
}

nc_code nc_lower_layout(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_layout ? NC_OK : layout_graph(w, m->main, o);
}
