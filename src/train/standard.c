/* train/standard.c: a graph in the words of ONNX: ops of Nacre's own, which gradients make, are taken apart into
 * what their cards say they are made of. Not a pass: it makes a graph slower here, so that others can run it. */
#include "autodiff/autodiff.h"
#include "infer/infer.h"
#include "ops/build.h"
#include "train/train.h"

static nc_code take_apart(nc_work *w, nc_node *n) {
    nc_builder b = {
        .w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node, .grad = nc_autodiff_emit};
    nc_value **out = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *out);
    NC_NEED(w, out);
    if (!n->card->decompose)
        NC_FAIL(w, NC_E_UNSUPPORTED, "an op of Nacre's own that ONNX's ops cannot say: the model runs here alone");
    NC_TRY(n->card->decompose(&b, n, out));
    NC_TRY(b.code);
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        if (!out[i]) NC_FAIL(w, NC_E_FAIL, "its decomposition gives no output %d", i);
        nc_edit_replace(n->out[i], out[i]);
    }
    nc_edit_remove(n);
    return NC_OK;
}

/* The pieces stand where the node stood, and are looked at too. */
static nc_code over_graph(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first, *next; n; n = next) {
        nc_node *before = n->prev;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(over_graph(w, n->subs[i].graph));
        next = n->next;
        if (!nc_build_is_own(n)) continue;
        w->at_node = n->name, w->at_op = n->card->name;
        NC_TRY(take_apart(w, n));
        w->at_node = w->at_op = NULL;
        next = before ? before->next : g->first;
    }
    return NC_OK;
}

nc_code nc_train_standard(nc_work *w, nc_model *m) { return over_graph(w, m->main); }
