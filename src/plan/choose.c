/* plan/choose.c: picks a kernel for every node, lets it prepare, and gives it the strides it can take: where a view is
 * not dense and the kernel wants dense, a Copy node is put in between. Graph outputs must be written by a kernel of
 * their own, so views, inputs, constants, variables and bounded results that are outputs get a Copy too. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

#include <string.h>

const nc_binding nc_transfer_binding = {.op = "Copy", .domain = "nacre", .kind = NC_K_STATIC};

bool nc_value_is_dense(const nc_value *v) {
    if (v->var && v->var->grow_axis > 0) return false; /* rows are apart by the capacity, not the length */
    if (!nc_is_view(v)) return true;
    unsigned traits = v->def->card->traits;
    if ((traits & NC_VIEW_STRIDED) && !(traits & NC_VIEW_DENSE)) return false;
    return nc_value_is_dense(v->def->in[0]);
}

static bool packs(const nc_node *n, int i) {
    const nc_prep *prep = &nc_choice_of(n)->prep;
    for (int k = 0; k < prep->n_packs; k++)
        if (prep->pack[k].input == i) return true;
    return false;
}

/* What n makes is there for its geometry: who reads it has its bytes packed. */
static bool is_read_packed(const nc_node *n) {
    for (int k = 0; k < n->n_out; k++) {
        const nc_value *v = n->out[k];
        if (v && (v->n_outputs || v->var)) return false;
        for (int i = 0; v && i < v->uses.n; i++)
            if (!nc_reads_packed(v->uses.v[i].node, v->uses.v[i].i)) return false;
    }
    return true;
}

bool nc_reads_packed(const nc_node *n, int i) {
    return packs(n, i) || (i == 0 && nc_choice_of(n)->view && is_read_packed(n));
}

static nc_code same_dims(const nc_call *c) {
    nc_tensor *y = c->out[0];
    y->data = c->in[0]->data; /* of another type, and never read */
    nc_dense_strides(y->dims, y->rank, y->strides);
    return NC_OK;
}

/* Of a node whose work is done where its result is packed. */
static const nc_binding packed_binding = {.op = "packed", .domain = "nacre", .kind = NC_K_VIEW, .view = same_dims};

/* Numbers that a node makes of codes for packs alone are made there, once. */
static void leave_to_packs(const nc_node *n) {
    const nc_prep *prep = &nc_choice_of(n)->prep;
    for (int k = 0; k < prep->n_packs; k++) {
        const nc_node *by = prep->pack[k].by;
        nc_choice *c = by ? nc_choice_of(by) : NULL;
        if (!c || c->view || !is_read_packed(by)) continue;
        c->binding = &packed_binding, c->view = true;
        c->n_variants = 0;
        c->prep = (nc_prep){.w = c->prep.w, .arena = c->prep.arena, .node = by, .device = c->prep.device};
    }
}

static bool is_transfer(const nc_node *n) {
    return (n->card->traits & NC_COPIES) && n->in[0]->place != n->out[0]->place;
}

static nc_code prepare(const nc_binding *b, const nc_plan_options *o, nc_prep *p) {
    NC_TRY(nc_binding_prepare(b, p));
    if (o->no_packing) p->n_packs = 0;
    return NC_OK;
}

static bool same_packs(const nc_prep *a, const nc_prep *b) {
    if (a->n_packs != b->n_packs) return false;
    for (int i = 0; i < a->n_packs; i++)
        if (a->pack[i].input != b->pack[i].input || a->pack[i].bytes != b->pack[i].bytes ||
            strcmp(a->pack[i].form, b->pack[i].form) != 0)
            return false;
    return true;
}

/* What a variant must share with the kernel that it takes calls from, so that memory and copies planned for the one
 * serve the other; NULL: all of it. */
static const char *differs_in(const nc_choice *c, const nc_binding *b, const nc_prep *p) {
    if (b->kind != c->binding->kind || (b->kind != NC_K_STATIC && b->kind != NC_K_BOUNDED)) return "kind";
    if (b->workspace && !c->binding->workspace) return "workspace";
    if (p->strided_in != c->prep.strided_in || p->strided_out != c->prep.strided_out) return "strides";
    if (p->unaligned_in != c->prep.unaligned_in) return "alignment";
    if (memcmp(p->over, c->prep.over, sizeof p->over) != 0) return "aliases";
    return same_packs(p, &c->prep) ? NULL : "packs";
}

static nc_code add_variants(nc_work *w, nc_node *n, nc_choice *c, const nc_prep *site, const nc_plan_options *o) {
    const nc_binding *rows[NC_MAX_VARIANTS];
    int n_rows = nc_binding_find_guarded(n, nc_kernels_at(o, n->place), rows, NC_MAX_VARIANTS);
    for (int i = 0; i < n_rows; i++) {
        nc_prep p = *site;
        NC_TRY(prepare(rows[i], o, &p));
        const char *what = differs_in(c, rows[i], &p);
        if (what)
            NC_FAIL(w, NC_E_FAIL, "its kernel for '%s' has other %s than the one for all calls", rows[i]->when, what);
        c->variants[c->n_variants++] = (nc_guarded){.binding = rows[i], .state = p.state};
    }
    return NC_OK;
}

nc_code nc_choose_node(nc_work *w, nc_node *n, const nc_plan_options *o) {
    nc_model *m = n->graph->model;
    nc_choice *c = nc_arena_alloc(&m->arena, sizeof *c);
    NC_NEED(w, c);
    nc_device *dev = nc_device_at(o, n->place);
    w->at_node = n->name, w->at_op = n->card->name;
    char why[256] = "";
    c->binding = is_transfer(n) ? &nc_transfer_binding : nc_binding_find(n, dev->table->kernels, why, sizeof why);
    if (!c->binding) NC_FAIL(w, NC_E_UNSUPPORTED, "no kernel on %s: %s", dev->table->name, why);
    const nc_prep site = {.w = w,
                          .arena = &m->arena,
                          .node = n,
                          .device = dev,
                          .no_packs = o->no_packing,
                          .no_winograd = o->no_winograd,
                          .tf32 = o->tf32,
                          .tune = o->tune,
                          .dnn_draws = o->dnn_draws};
    c->prep = site;
    NC_TRY(prepare(c->binding, o, &c->prep));
    if (c->binding != &nc_transfer_binding) NC_TRY(add_variants(w, n, c, &site, o));
    c->view = c->binding->kind == NC_K_VIEW;
    n->lowered = c;
    return NC_OK;
}

/* A dense copy of v, at its place, before `before`. */
static nc_value *dense_copy(nc_work *w, nc_value *v, nc_node *before, const nc_plan_options *o) {
    nc_builder b = {.w = w, .graph = v->graph, .before = before, .infer = nc_infer_node};
    b.stage = before ? before->stage : v->def ? v->def->stage : NC_STAGE_FORWARD;
    nc_value *c = nc_build_attr1(&b, "nacre", "Copy", &v, 1, NULL, 0);
    if (!c) return NULL;
    c->place = c->def->place = v->place;
    return nc_choose_node(w, c->def, o) == NC_OK ? c : NULL;
}

static nc_code put_copy(nc_work *w, nc_node *n, int i, const nc_plan_options *o) {
    nc_value *c = dense_copy(w, n->in[i], n, o);
    if (!c) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(n, i, c);
    return NC_OK;
}

static nc_code fit_strides(nc_work *w, nc_node *n, const nc_plan_options *o) {
    const nc_choice *c = nc_choice_of(n);
    for (int i = 0; i < n->n_operands; i++) {
        nc_value *v = n->in[i];
        if (!v || nc_type_is_host(v->type) || nc_value_is_dense(v)) continue;
        if (i < 32 && i < n->n_in && (n->card->dims_only_in >> i & 1)) continue;
        bool takes = nc_reads_packed(n, i) || (i < 32 && (c->prep.strided_in >> i & 1));
        if (c->view && i == 0 && (n->card->traits & NC_VIEW_STRIDED)) takes = true;
        if (!takes) NC_TRY(put_copy(w, n, i, o));
    }
    return NC_OK;
}

static bool written_by_kernel(const nc_graph *g, int i) {
    const nc_value *v = g->outputs.v[i];
    if (v->origin != NC_FROM_NODE || v->var) return false;
    const nc_choice *c = nc_choice_of(v->def);
    if (c->view || c->binding->kind == NC_K_BOUNDED) return false;
    for (int k = 0; v->n_outputs > 1 && k < i; k++)
        if (g->outputs.v[k] == v) return false;
    return true;
}

/* Objects may be handed out as they are; tensors must have been written for the caller. */
static nc_code own_outputs(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (int i = 0; i < g->outputs.n; i++) {
        nc_value *v = g->outputs.v[i];
        if (written_by_kernel(g, i) || (nc_type_is_host(v->type) && v->origin != NC_FROM_CONST)) continue;
        nc_value *c = dense_copy(w, v, NULL, o);
        if (!c) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
        nc_edit_set_output(g, i, c);
    }
    return NC_OK;
}

/* With views switched off every view is copied at once: the differential tests compare both. */
static nc_code unview(nc_work *w, nc_node *n, const nc_plan_options *o) {
    for (int k = 0; k < n->n_out; k++) {
        if (!n->out[k] || (!n->out[k]->uses.n && !n->out[k]->n_outputs)) continue;
        nc_value *v = n->out[k], *c = dense_copy(w, v, n->next, o);
        if (!c) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
        nc_edit_replace(v, c);
        nc_edit_set_in(c->def, 0, v);
    }
    return NC_OK;
}

nc_code nc_lower_choose(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first; n; n = n->next) {
        NC_TRY(nc_choose_node(w, n, o));
        if (!(n->card->traits & NC_CONTROL)) continue;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(nc_lower_choose(w, n->subs[i].graph, o));
    }
    for (nc_node *n = g->first; n && !o->no_views; n = n->next) leave_to_packs(n);
    for (nc_node *n = g->first; n; n = n->next) {
        NC_TRY(fit_strides(w, n, o));
        if (o->no_views && nc_choice_of(n)->view) NC_TRY(unview(w, n, o));
    }
    return own_outputs(w, g, o);
}
