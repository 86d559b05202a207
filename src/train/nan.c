/* train/nan.c: a loss that is no number: which tensor went bad first. The training model is run once more with all its
 * tensors of floats as outputs, on the same inputs and parameters; nothing is updated. Told once in a session. */
#include "base/log.h"
#include "ir/edit.h"
#include "train/training.h"

#include <math.h>
#include <string.h>

static bool has_bad(const nc_object *o) {
    if (!o || o->kind != NC_OBJ_TENSOR) return false;
    const void *p = o->t.data;
    int64_t n = nc_tensor_numel(&o->t);
    for (int64_t i = 0; i < n; i++) {
        double x = 0;
        switch (o->t.dtype) {
        case NC_FLOAT: x = (double)((const float *)p)[i]; break;
        case NC_DOUBLE: x = ((const double *)p)[i]; break;
        case NC_FLOAT16: x = (double)nc_f16_to_f32(((const uint16_t *)p)[i]); break;
        case NC_BFLOAT16: x = (double)nc_bf16_to_f32(((const uint16_t *)p)[i]); break;
        default: return false;
        }
        if (!isfinite(x)) return true;
    }
    return false;
}

/* Everything that forward computes, in order, as outputs; the sums of gradients are left out. */
static nc_code show_all(nc_work *w, nc_graph *g) {
    while (g->outputs.n > 0) nc_edit_remove_output(g, g->outputs.n - 1);
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        if (n->stage == NC_STAGE_UPDATE) continue;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] != NULL && nc_edit_output(g, n->out[i], n->out[i]->name) != NC_OK)
                NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    for (int i = 0; i < g->vars.n; i++) g->vars.v[i]->last = g->vars.v[i]->first;
    for (nc_node *n = g->last, *before; n != NULL; n = before) {
        before = n->prev;
        if (n->stage == NC_STAGE_UPDATE) nc_edit_remove(n);
    }
    return NC_OK;
}

static nc_code make_witness(nc_work *w, nc_training *t, nc_session **out) {
    nc_bound_model bound = {
        .params = nc_arena_array(&w->scratch, (size_t)t->checkpoint->params.n + 1, sizeof(nc_bound_param))};
    nc_model *m;
    NC_NEED(w, bound.params);
    NC_TRY(nc_training_load(w, t, &t->train, &m));
    nc_code code = nc_bind_training(w, m, t->checkpoint, &bound);
    if (code == NC_OK) code = show_all(w, m->main);
    if (code != NC_OK) {
        nc_model_destroy(m);
        return code;
    }
    return nc_training_make(w, t, m, out);
}

static nc_code run_witness(nc_work *w, nc_training *t, nc_session *s, nc_object *const *in, int n_in,
                           const char **name) {
    const nc_program *p = s->program;
    nc_object **out = nc_arena_array(&w->scratch, (size_t)p->n_outputs + 1, sizeof(nc_object *));
    nc_feed *feeds = nc_arena_array(&w->scratch, (size_t)n_in + 1, sizeof *feeds);
    NC_NEED(w, out);
    NC_NEED(w, feeds);
    memset(out, 0, (size_t)p->n_outputs * sizeof(nc_object *));
    int n = 0;
    for (int i = 0; i < p->n_inputs; i++)
        for (int k = 0; k < n_in; k++)
            if (strcmp(p->slots[p->inputs[i]].value->name, t->train.inputs[k]) == 0) feeds[n++] = (nc_feed){i, in[k]};
    nc_code code = nc_training_run(w, t, s, feeds, n, out, p->n_outputs);
    for (int i = 0; i < p->n_outputs; i++) {
        if (!*name && has_bad(out[i])) *name = nc_arena_str(&w->scratch, p->graph->output_names.v[i]);
        nc_object_unref(out[i]);
    }
    return code;
}

static const char *among_given(const nc_training *t, nc_object *const *in, int n_in, const char **kind) {
    for (int i = 0; i < n_in; i++)
        if (has_bad(in[i])) return *kind = "input", t->train.inputs[i];
    for (int i = 0; i < t->checkpoint->params.n; i++)
        if (has_bad(t->checkpoint->params.v[i].value)) return *kind = "parameter", t->checkpoint->params.v[i].name;
    return NULL;
}

void nc_training_tell_nan(nc_training *t, nc_object *const *in, int n_in) {
    nc_work w;
    nc_session *s = NULL;
    const char *kind = "tensor", *name = NULL;
    t->told_of_nan = true;
    nc_work_init(&w);
    nc_code code = nc_training_sync(&w, t);
    if (code == NC_OK) name = among_given(t, in, n_in, &kind);
    if (code == NC_OK && !name) code = make_witness(&w, t, &s);
    if (code == NC_OK && !name) code = run_witness(&w, t, s, in, n_in, &name);
    if (name)
        nc_log(NC_LOG_WARNING,
               "the loss is not a finite number: the %s '%s' is the first that has a NaN or an infinity", kind, name);
    else
        nc_log(NC_LOG_WARNING, "the loss is not a finite number, and no tensor before it has a NaN or an infinity");
    nc_session_destroy(s);
    nc_work_release(&w);
}
