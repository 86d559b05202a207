/* ops/attention/attention_put.c: nacre.AttentionPut: Attention over caches into which new keys and values are written
 * first, as TensorScatter does along axis 2, so that a kernel may do all in one go. Lowering makes it: a token of a
 * decoder whose caches stay where they are is this and a few products a layer. */
#include "ops/attention/attention.h"

#include "ir/edit.h"
#include "ops/binding.h"
#include "ops/card.h"

#include <string.h>

extern const nc_card nc_card_attention, nc_card_tensor_scatter, nc_card_attention_put;

enum { Q, NEW_K, NEW_V, MASK, CACHE_K, CACHE_V, LENS, AT, N_IN };
enum { PAST_K = 4, PAST_V }; /* of Attention */

static nc_value *in_of(const nc_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

/* The TensorScatter that makes x for n alone, of the same place, along axis 2 of 4; or NULL. */
static nc_node *scatter_of(const nc_node *n, const nc_value *x) {
    nc_node *s = x->origin == NC_FROM_NODE ? x->def : NULL;
    if (s == NULL || s->card != &nc_card_tensor_scatter || x->uses.n != 1 || s->recompute) return NULL;
    if (s->graph != n->graph || s->place != n->place || s->stage != n->stage || x->type->rank != 4) return NULL;
    int64_t axis = nc_attr_int(s, "axis");
    return axis == 2 || axis == -2 ? s : NULL;
}

static bool alike(const nc_node *a, const nc_node *b) {
    return a != b && in_of(a, 2) == in_of(b, 2) && strcmp(nc_attr_str(a, "mode"), nc_attr_str(b, "mode")) == 0;
}

static bool can_take(const nc_node *n) {
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != NULL) return false;
    const nc_type *q = n->in[Q]->type;
    return in_of(n, PAST_K) == NULL && in_of(n, PAST_V) == NULL && q->rank == 4 && !n->recompute &&
           n->in[1]->type->elem == q->elem && n->in[2]->type->elem == q->elem;
}

static nc_code copy_attrs(nc_node *to, const nc_node *n, bool circular) {
    nc_attr around = {.name = "circular", .kind = NC_A_INT, .i = circular};
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, "qk_matmul_output_mode") && strcmp(n->attrs[i].name, "softmax_precision"))
            NC_TRY(nc_edit_set_attr(to, &n->attrs[i]));
    return nc_edit_set_attr(to, &around);
}

nc_code nc_attention_put(nc_work *w, nc_node *n, const char *kernels) {
    if (n->card != &nc_card_attention || !can_take(n)) return NC_OK;
    const nc_card *card = &nc_card_attention_put;
    nc_node *k = scatter_of(n, n->in[1]), *v = scatter_of(n, n->in[2]);
    if (k == NULL || v == NULL || !alike(k, v) || !nc_binding_exists(card, kernels, n->in[Q]->type->elem)) return NC_OK;
    nc_value *in[N_IN] = {n->in[Q], k->in[1], v->in[1], in_of(n, MASK), k->in[0], v->in[0]};
    in[LENS] = in_of(n, LENS), in[AT] = in_of(k, 2);
    const char *names[3] = {n->out[0]->name, k->out[0]->name, v->out[0]->name};
    nc_node *all = nc_edit_node(n->graph, n, card, nc_card_version(card, 1), n->name, in, N_IN, names, 3);
    NC_NEED(w, all);
    NC_TRY(copy_attrs(all, n, strcmp(nc_attr_str(k, "mode"), "circular") == 0));
    all->stage = n->stage, all->place = n->place, all->open = n->open || k->open || v->open;
    nc_node *old[3] = {n, k, v};
    for (int i = 0; i < 3; i++) {
        all->out[i]->type = old[i]->out[0]->type;
        nc_edit_replace(old[i]->out[0], all->out[i]);
    }
    for (int i = 0; i < 3; i++) nc_edit_remove(old[i]);
    return NC_OK;
}

static nc_code put_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, Q);
    int rank, rank_v;
    if (q == NULL || !nc_in_rank(c, Q, &rank) || !nc_in_rank(c, NEW_V, &rank_v)) return NC_OK;
    if (rank != 4 || rank_v != 4)
        NC_FAIL(c->w, NC_E_SHAPE, "Q and V have %d and %d dims, 4 are expected", rank, rank_v);
    const nc_dim *dims[4] = {q->dims[0], q->dims[1], q->dims[2], nc_in_dim(c, NEW_V, 3)};
    NC_TRY(nc_out(c, 0, q->elem, 4, dims));
    NC_TRY(nc_out_like(c, 1, CACHE_K));
    return nc_out_like(c, 2, CACHE_V);
}

#define T_PUT (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"Q", T_PUT}, {"K", SAME(0)}, {"V", SAME(0)}, {"attn_mask", T_NUMBER_ALL | T_BOOL, OPTIONAL},
        {"past_key", SAME(0)}, {"past_value", SAME(0)}, {"nonpad_kv_seqlen", T_I64, OPTIONAL},
        {"write_indices", T_I64, OPTIONAL}),
     OUT({"Y", SAME(0)}, {"present_key", SAME(0)}, {"present_value", SAME(0)}),
     ATTR(A_INT("is_causal", 0), A_INT_OPT("kv_num_heads"), A_INT_OPT("q_num_heads"), A_FLOAT_OPT("scale"),
          A_FLOAT("softcap", 0), A_INT("left_window_size", -1), A_INT("right_window_size", -1), A_INT("circular", 0))},
    {0}};

const nc_card nc_card_attention_put = {.name = "AttentionPut",
                                       .domain = "nacre",
                                       .no_grad = NC_LOWERED_NO_GRAD,
                                       .doc = "Attention over caches into which new rows are written first.",
                                       .versions = versions,
                                       .infer = put_infer};
