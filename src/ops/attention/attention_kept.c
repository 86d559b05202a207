/* ops/attention/attention_kept.c: what Attention leaves for its gradient, so that its forward pass is not done twice;
 * see attention.h. CUDA's kernels of half types take it, where cuDNN did the forward pass. */
#include "ops/attention/attention.h"

#include "ir/edit.h"

#include <string.h>

extern const nc_card nc_card_attention, nc_card_attention_grad, nc_card_attention_dropout,
    nc_card_attention_dropout_grad;

enum { Q, K, V, MASK, PAST_K, PAST_V, LENS, DY, N_IN };
enum { STATS = 4 };

static nc_value *in_of(const nc_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

static bool says_the_same(nc_work *w, const nc_node *a, const nc_node *b) {
    nc_attention x, y;
    if (nc_attention_read(w, a, &x) != NC_OK || nc_attention_read(w, b, &y) != NC_OK) return false;
    return x.causal == y.causal && x.has_scale == y.has_scale && x.scale == y.scale && x.softcap == y.softcap &&
           x.left == y.left && x.right == y.right && x.q_heads == y.q_heads && x.kv_heads == y.kv_heads &&
           x.ratio == y.ratio;
}

/* Is f the Attention that n is the gradient of? */
static bool is_forward(nc_work *w, const nc_node *f, const nc_node *n) {
    bool drops = n->card == &nc_card_attention_dropout_grad;
    if (f == NULL || f->card != (drops ? &nc_card_attention_dropout : &nc_card_attention)) return false;
    if (f->graph != n->graph || f->place != n->place || (drops && f->random_id != n->random_id)) return false;
    for (int i = 0; i < DY; i++)
        if (in_of(f, i) != n->in[i]) return false;
    for (int i = 1; i < f->n_out; i++)
        if (i != STATS && f->out[i] != NULL) return false;
    return !f->recompute && says_the_same(w, f, n);
}

static nc_node *forward_of(nc_work *w, const nc_node *n) {
    const nc_value *q = n->in[Q];
    for (int i = 0; i < q->uses.n; i++)
        if (is_forward(w, q->uses.v[i].node, n)) return q->uses.v[i].node;
    return NULL;
}

/* The version of f with one output more, unless it has that. */
static const nc_op_version *with_stats(nc_arena *arena, const nc_op_version *of) {
    if (of->out[STATS].name != NULL) return of;
    nc_op_version *v = nc_arena_alloc(arena, sizeof *v);
    nc_param *out = nc_arena_array(arena, STATS + 2, sizeof *out);
    if (v == NULL || out == NULL) return NULL;
    memcpy(out, of->out, STATS * sizeof *out);
    out[STATS] = (nc_param){.name = "stats", .types = NC_BIT(NC_FLOAT), .flags = NC_P_OPTIONAL};
    *v = *of;
    v->out = out;
    return v;
}

static const nc_type *stats_type(nc_model *m, const nc_node *f) {
    const nc_type *q = f->in[Q]->type;
    int64_t heads = nc_attr_has(f, "q_num_heads") ? nc_attr_int(f, "q_num_heads") : 0;
    const nc_dim *dims[3] = {q->dims[0], q->dims[1], q->dims[q->rank - 2]};
    if (q->rank == 3) dims[1] = nc_dim_const(m->dims, heads);
    return dims[1] != NULL ? nc_type_tensor(&m->arena, NC_FLOAT, 3, dims) : NULL;
}

/* f anew, with the statistics. */
static nc_code keep_stats(nc_work *w, nc_node *f, nc_node **out) {
    nc_model *m = f->graph->model;
    const char *names[STATS + 1] = {f->out[0]->name, "", "", "", NULL};
    const nc_op_version *version = with_stats(&m->arena, f->version);
    NC_NEED(w, version);
    nc_node *more = nc_edit_node(f->graph, f, f->card, version, f->name, f->in, f->n_in, names, STATS + 1);
    NC_NEED(w, more);
    for (int i = 0; i < f->n_attrs; i++)
        if (nc_edit_set_attr(more, &f->attrs[i]) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    more->stage = f->stage, more->place = f->place, more->open = f->open, more->random_id = f->random_id;
    more->out[0]->type = f->out[0]->type;
    NC_NEED(w, more->out[STATS]->type = stats_type(m, f));
    nc_edit_replace(f->out[0], more->out[0]);
    nc_edit_remove(f);
    *out = more;
    return NC_OK;
}

nc_code nc_attention_keep(nc_work *w, nc_node *n, const char *kernels) {
    bool drops = n->card == &nc_card_attention_dropout_grad;
    if ((!drops && n->card != &nc_card_attention_grad) || in_of(n, N_IN) != NULL || n->recompute) return NC_OK;
    if (strcmp(kernels, "cuda") != 0) return NC_OK;
    nc_dtype t = n->in[Q]->type->elem;
    if ((t != NC_FLOAT16 && t != NC_BFLOAT16) || n->in[PAST_K] != NULL || n->in[LENS] != NULL) return NC_OK;
    nc_node *f = forward_of(w, n);
    if (f == NULL) return NC_OK;
    if (f->n_out <= STATS) NC_TRY(keep_stats(w, f, &f));
    if (!drops) {
        NC_TRY(nc_edit_add_in(n, NULL));
        NC_TRY(nc_edit_add_in(n, NULL));
    }
    nc_edit_set_in(n, N_IN, f->out[0]);
    nc_edit_set_in(n, N_IN + 1, f->out[STATS]);
    return NC_OK;
}
