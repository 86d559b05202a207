/* train/artifacts_loss.c: losses behind a model: a node or a few, an input for what is wanted, the loss as the first
 * output. Python's onnxblock has the same formulas as blocks. */
#include "infer/infer.h"
#include "ir/card.h"
#include "ops/build.h"
#include "train/artifacts.h"

#include <string.h>

static nc_code find_value(nc_work *w, const nc_graph *g, const char *name, nc_value **out) {
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->output_names.v[i], name) == 0) return *out = g->outputs.v[i], NC_OK;
    return nc_graph_need(w, g, name, "for the loss", out);
}

static nc_code check_one_number(nc_work *w, const nc_value *v, const char *name) {
    nc_text text = {0};
    bool fine = !v->type || v->type->rank < 1;
    int64_t n;
    for (int d = 0; v->type && v->type->rank > 0 && d < v->type->rank; d++)
        fine = (d == 0 || fine) && nc_dim_is_const(v->type->dims[d], &n) && n == 1;
    if (fine) return NC_OK;
    nc_type_print(&text, v->type);
    nc_code code =
        nc_fail(w, NC_E_SHAPE, "without a loss the first output is it, and must be one number: '%.100s' is %s", name,
                text.s ? text.s : "larger");
    nc_text_release(&text);
    return code;
}

/* An input that is there, or a new one of the type. */
static nc_code target_input(nc_work *w, nc_graph *g, const char *name, const nc_type *type, nc_value **out) {
    *out = nc_graph_find(g, name);
    if (!*out) *out = nc_edit_input(g, name, type);
    NC_NEED(w, *out);
    return NC_OK;
}

/* int64, of the scores' shape without the classes, axis 1. */
static nc_code labels_type(nc_work *w, nc_model *m, const nc_value *scores, const nc_type **out) {
    const nc_type *t = scores->type;
    const nc_dim *dims[NC_MAX_RANK];
    if (!t || t->kind != NC_T_TENSOR || t->rank < 2)
        NC_FAIL(w, NC_E_SHAPE, "cross entropy: '%.100s' must have at least 2 dims, samples and classes", scores->name);
    for (int d = 0, k = 0; d < t->rank; d++)
        if (d != 1) dims[k++] = t->dims[d];
    NC_NEED(w, *out = nc_type_tensor(&m->arena, NC_INT64, t->rank - 1, dims));
    return NC_OK;
}

/* In the version that the model's opset means, so that it stays a plain node of the file. Errors stick. */
static nc_value *node(nc_builder *b, const char *op, nc_value *const *in, int n_in, int n_out, const nc_attr *attr) {
    nc_model *m = b->graph->model;
    const nc_card *card = NULL;
    for (const nc_registry *r = m->registry; r && !card; r = r->base) card = r->find(r, "", op);
    const nc_op_version *version = card ? nc_card_version(card, nc_model_opset(m, "")) : NULL;
    if (b->code != NC_OK) return NULL;
    if (!version)
        b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "the loss needs %s, which the model's opset %lld does not have", op,
                          (long long)nc_model_opset(m, ""));
    nc_node *n = version ? nc_edit_node(b->graph, NULL, card, version, NULL, in, n_in, NULL, n_out) : NULL;
    if (version && (!n || (attr && nc_edit_set_attr(n, attr) != NC_OK)))
        b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    if (b->code == NC_OK) b->code = nc_infer_node(b->w, n);
    return b->code == NC_OK ? n->out[0] : NULL;
}

static nc_value *one(nc_builder *b, const char *op, nc_value *x) { return node(b, op, &x, 1, 1, NULL); }

static nc_value *two(nc_builder *b, const char *op, nc_value *x, nc_value *y) {
    return node(b, op, (nc_value *[]){x, y}, 2, 1, NULL);
}

static nc_value *reduced(nc_builder *b, nc_value *x, bool sum) {
    const nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    return node(b, sum ? "ReduceSum" : "ReduceMean", &x, 1, 1, &keep);
}

static nc_value *cross_entropy(nc_builder *b, nc_value *x, nc_value *labels, bool sum) {
    nc_attr how = {.name = "reduction", .kind = NC_A_STRING};
    how.s = sum ? (nc_str){(char *)(uintptr_t) "sum", 3} : (nc_str){(char *)(uintptr_t) "mean", 4};
    return node(b, "SoftmaxCrossEntropyLoss", (nc_value *[]){x, labels}, 2, 2, &how);
}

/* t * softplus(-x) + (1 - t) * softplus(x): finite for any finite x. */
static nc_value *bce(nc_builder *b, nc_value *x, nc_value *t) {
    nc_value *missed = two(b, "Mul", t, one(b, "Softplus", one(b, "Neg", x)));
    nc_value *rest = two(b, "Sub", nc_build_scalar(b, x->type->elem, 1), t);
    return two(b, "Add", missed, two(b, "Mul", rest, one(b, "Softplus", x)));
}

static nc_value *formula(nc_builder *b, const nc_artifacts_loss *l, nc_value *x, nc_value *target) {
    if (l->kind == NC_LOSS_CROSS_ENTROPY) return cross_entropy(b, x, target, l->sum);
    if (l->kind == NC_LOSS_BCE_WITH_LOGITS) return reduced(b, bce(b, x, target), l->sum);
    nc_value *off = two(b, "Sub", x, target);
    return reduced(b, l->kind == NC_LOSS_MSE ? two(b, "Mul", off, off) : one(b, "Abs", off), l->sum);
}

static nc_code set_outputs(nc_work *w, nc_graph *g, nc_value *loss, const char *name, const nc_artifacts_loss *l) {
    nc_value **more = nc_arena_array(&w->scratch, (size_t)l->n_more + 1, sizeof *more);
    NC_NEED(w, more);
    for (int i = 0; i < l->n_more; i++) NC_TRY(find_value(w, g, l->more[i], &more[i]));
    while (g->outputs.n) nc_edit_remove_output(g, g->outputs.n - 1);
    nc_code code = nc_edit_output(g, loss, name);
    for (int i = 0; i < l->n_more && code == NC_OK; i++)
        if (more[i] != loss) code = nc_edit_output(g, more[i], l->more[i]);
    return code == NC_OK ? NC_OK : nc_fail(w, NC_E_MEMORY, "out of memory");
}

nc_code nc_artifacts_add_loss(nc_work *w, nc_model *m, const nc_artifacts_loss *l) {
    nc_graph *g = m->main;
    nc_value *x, *target;
    if (g->outputs.n < 1) NC_FAIL(w, NC_E_ARGUMENT, "the model has no output, so it has no loss");
    NC_TRY(nc_infer_model(w, m));
    const char *name = l->input ? l->input : g->output_names.v[0];
    NC_TRY(find_value(w, g, name, &x));
    if (l->kind == NC_LOSS_NONE) {
        NC_TRY(check_one_number(w, x, name));
        return set_outputs(w, g, x, name, l);
    }
    const nc_type *type = x->type;
    if (!type || type->kind != NC_T_TENSOR || !nc_dtype_is_float(type->elem))
        NC_FAIL(w, NC_E_TYPE, "'%.100s' is no tensor of floats, so no loss can be made of it", name);
    bool labels = l->kind == NC_LOSS_CROSS_ENTROPY;
    if (labels) NC_TRY(labels_type(w, m, x, &type));
    NC_TRY(target_input(w, g, l->target ? l->target : labels ? "labels" : "target", type, &target));
    nc_builder b = {.w = w, .graph = g, .infer = nc_infer_node};
    nc_value *loss = formula(&b, l, x, target);
    NC_TRY(b.code);
    return set_outputs(w, g, loss, nc_graph_find(g, "loss") ? "training_loss" : "loss", l);
}
