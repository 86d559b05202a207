/* train/export.c: the eval model of a training session as a model for inference: the outputs that are asked for, what
 * they need, and the parameters as initializers. */
#include "infer/infer.h"
#include "ir/edit.h"
#include "onnx/save.h"
#include "train/artifacts.h"
#include "train/training.h"

#include "base/near.h"

#include <string.h>

static nc_code find_output(nc_work *w, const nc_graph *g, const char *name, nc_value **out) {
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->output_names.v[i], name) == 0) return *out = g->outputs.v[i], NC_OK;
    return nc_graph_need(w, g, name, "export", out);
}

static nc_code choose_outputs(nc_work *w, nc_graph *g, const char *const *names, int n) {
    nc_value **v = nc_arena_array(&w->scratch, (size_t)n + 1, sizeof(nc_value *));
    NC_NEED(w, v);
    for (int i = 0; i < n; i++) NC_TRY(find_output(w, g, names[i], &v[i]));
    while (g->outputs.n > 0) nc_edit_remove_output(g, g->outputs.n - 1);
    for (int i = 0; i < n; i++)
        if (nc_edit_output(g, v[i], names[i]) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static bool is_used(const nc_node *n) {
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL && (n->out[i]->uses.n > 0 || n->out[i]->n_outputs > 0)) return true;
    return false;
}

static void drop_unused(nc_graph *g) {
    for (nc_node *n = g->last, *before; n != NULL; n = before) {
        before = n->prev;
        if (!is_used(n)) nc_edit_remove(n);
    }
    nc_edit_drop_consts(g);
    for (int i = g->inputs.n - 1; i >= 0; i--) nc_edit_remove_input(g->inputs.v[i]);
}

static nc_code hold_params(nc_work *w, nc_model *m, const nc_checkpoint *c) {
    nc_graph *g = m->main;
    for (int i = g->inputs.n - 1; i >= 0; i--) {
        const nc_parameter *p = nc_checkpoint_find(c, g->inputs.v[i]->name);
        if (p == NULL) continue;
        const nc_tensor *t = &p->value->t;
        const nc_literal *lit = nc_edit_literal(m, t->dtype, t->rank, t->dims, t->data);
        NC_NEED(w, lit);
        if (nc_edit_set_initial(g->inputs.v[i], lit) != NC_OK || nc_edit_make_variable(g->inputs.v[i]) != NC_OK)
            NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code export_model(nc_work *w, nc_training *t, nc_model *m, const char *path, const char *const *outputs,
                            int n) {
    NC_TRY(choose_outputs(w, m->main, outputs, n));
    drop_unused(m->main);
    NC_TRY(nc_artifacts_quiet(w, m));
    drop_unused(m->main); /* what only training needed */
    NC_TRY(hold_params(w, m, t->checkpoint));
    NC_TRY(nc_infer_model(w, m));
    return nc_onnx_save_file(w, m, path, NULL);
}

nc_code nc_training_export(nc_work *w, nc_training *t, const char *path, const char *const *outputs, int n) {
    nc_model *m;
    if (!t->eval.session) NC_FAIL(w, NC_E_STATE, "the training session has no eval model: there is nothing to export");
    if (n <= 0) NC_FAIL(w, NC_E_ARGUMENT, "export: no output is named, at least one is expected");
    for (int i = 0; i < n; i++)
        if (!outputs[i] || !*outputs[i]) NC_FAIL(w, NC_E_ARGUMENT, "export: the name of output %d is empty", i);
    NC_TRY(nc_training_need_values(w, t));
    NC_TRY(nc_training_sync(w, t));
    NC_TRY(nc_training_load(w, t, &t->eval, &m));
    nc_code code = export_model(w, t, m, path, outputs, n);
    nc_model_destroy(m);
    return code;
}
