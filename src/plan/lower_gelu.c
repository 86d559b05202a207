/* plan/lower_gelu.c: GELU of a product with a bias becomes the product's second result where others, of the backward
 * pass, read the product too, and its place has a kernel for both (nacre.MatMulGelu): the product need not be read
 * again. Comes after lower_epilogue.c, which has taken the bias in, and GELU too where nobody else reads the product.
 *
 * Example: x = nacre.MatMulChain{Add}(a, b, v), y = nacre.GeluTanh(x) become y, x = nacre.MatMulGelu(a, b, v). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "ops/matmul/matmul.h"
#include "plan/plan.h"

/* A product of rows with one matrix, plus one number for each column, and nothing else. */
static bool is_biased(const nc_node *k) {
    if (k->card != &nc_card_matmul_chain || k->n_in != 3 || k->recompute || k->out[0]->var) return false;
    const nc_type *b = k->in[1]->type, *v = k->in[2]->type;
    const nc_graph *body = k->subs[0].graph;
    const nc_node *sum = body->first;
    bool adds = sum && !sum->next && nc_lane_number(sum) == NCK_LANE_add && sum->in[0] != sum->in[1];
    return adds && k->in[0]->type->rank > 1 && b->rank == 2 && v->rank == 1 && v->dims[0] == b->dims[1];
}

static bool takes(const nc_node *n, const nc_plan_options *o) {
    nc_node *k = n->n_in == 1 && n->in[0] && n->in[0]->origin == NC_FROM_NODE ? n->in[0]->def : NULL;
    if (!k || nc_lane_number(n) != NCK_LANE_gelu_tanh || n->n_out != 1 || n->recompute || !n->out[0]) return false;
    if (n->out[0]->var || !is_biased(k)) return false;
    if (k->place != n->place || k->graph != n->graph || k->stage != n->stage) return false;
    return nc_binding_exists(&nc_card_matmul_gelu, nc_kernels_at(o, n->place), n->in[0]->type->elem);
}

static nc_code join(nc_work *w, nc_node *n) {
    nc_node *k = n->in[0]->def;
    nc_builder b = {
        .w = w, .graph = n->graph, .before = k, .stage = k->stage, .place = k->place, .infer = nc_infer_node};
    nc_node *both = nc_build_card(&b, &nc_card_matmul_gelu, k->in, 3, NULL, 2, NULL, 0);
    if (!both) return b.code;
    nc_value *old[2] = {n->out[0], k->out[0]};
    for (int i = 0; i < 2; i++) {
        both->out[i]->type = old[i]->type, both->out[i]->name = old[i]->name;
        nc_edit_replace(old[i], both->out[i]);
    }
    nc_edit_remove(n);
    nc_edit_remove(k);
    return NC_OK;
}

static nc_code gelus_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(gelus_of(w, n->subs[i].graph, o));
        if (takes(n, o)) NC_TRY(join(w, n));
    }
    return NC_OK;
}

nc_code nc_lower_gelu(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : gelus_of(w, m->main, o);
}
