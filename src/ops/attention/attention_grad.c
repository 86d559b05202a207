/* ops/attention/attention_grad.c: the gradient of Attention and its cards nacre.AttentionGrad and, where shares are
 * dropped, nacre.AttentionDropoutGrad: by query, key and value,
 * from those, the mask and dY, with a kernel that computes the shares once more (attention_run_cpu.c). Where more is
 * asked for (a gradient of the mask or of a past) or arrives (at the other outputs), the parts of Attention are
 * differentiated instead. Its last inputs, what the forward pass left, are given by lowering (attention_kept.c). */
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

extern const nc_card nc_card_philox_dropout;

enum { Q, K, V, MASK, PAST_K, PAST_V, LENS, DY, N_IN, STATE = N_IN + 2 };

static bool has(const nc_node *n, int i) { return n->n_in > i && n->in[i] != NULL; }

static bool by_query_key_value(nc_grad *g) {
    const nc_node *n = g->node;
    for (int i = 1; i < n->n_out; i++)
        if (nc_grad_dy(g, i) != NULL) return false;
    if (has(n, PAST_K) || has(n, PAST_V) || (has(n, MASK) && g->wants[MASK])) return false;
    const nc_type *q = n->in[Q]->type, *v = n->in[V]->type;
    return q != NULL && v != NULL && q->elem == v->elem;
}

/* Those of the node that say how shares are made. */
static int attrs_of(const nc_node *n, nc_attr *out) {
    int count = 0;
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, "qk_matmul_output_mode") != 0) out[count++] = n->attrs[i];
    return count;
}

nc_code nc_attention_grad(nc_grad *g) {
    const nc_node *n = g->node;
    nc_value *in[STATE + 1] = {NULL};
    bool wanted[3], any = false, drops = (n->card->traits & NC_RANDOM) != 0;
    if (!by_query_key_value(g)) return nc_grad_by_parts(g, nc_attention_parts);
    for (int i = 0; i < 3; i++) any |= wanted[i] = g->wants[i];
    if ((in[DY] = nc_grad_dy(g, 0)) == NULL || !any) return NC_OK;
    for (int i = 0; i < DY; i++)
        if (has(n, i)) in[i] = nc_grad_x(g, i);
    if (drops && has(n, DY)) in[STATE] = nc_grad_x(g, DY);
    nc_attr *attrs = nc_arena_array(&g->b->w->scratch, (size_t)n->n_attrs + 1, sizeof *attrs);
    NC_NEED(g->b->w, attrs);
    nc_node *d = nc_build_wanted(g->b, "nacre", drops ? "AttentionDropoutGrad" : "AttentionGrad", in,
                                 in[STATE] != NULL ? STATE + 1 : N_IN, wanted, 3, attrs, attrs_of(n, attrs));
    if (d != NULL) d->random_id = n->random_id; /* it draws what the forward pass drew */
    for (int i = 0; d != NULL && i < 3; i++)
        if (wanted[i]) nc_grad_set(g, i, d->out[i]);
    return nc_grad_end(g);
}

/* ---- nacre.AttentionGrad ---- */

static nc_code back_infer(nc_infer *c) {
    nc_attention a;
    NC_TRY(nc_attention_read(c->w, c->node, &a));
    if (has(c->node, PAST_K) || has(c->node, PAST_V))
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "a past is given, expected none: keys and values are expected joined with it");
    for (int i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] != NULL) NC_TRY(nc_out_like(c, i, i));
    return NC_OK;
}

/* x (B,H*n,T,D), the n heads that share one summed: (B,H,T,D) */
static nc_value *sum_heads(nc_builder *b, nc_value *x, const nc_attn_pieces *p) {
    if (p->group == 1 || b->code != NC_OK) return x;
    int64_t tail[2] = {-1, p->group};
    nc_value *shape[3] = {nc_attn_dims(b, x, 0, 1), NULL, nc_attn_dims(b, x, 2, 4)};
    nc_dim_is_const(p->k->type->dims[1], &tail[0]);
    shape[1] = nc_build_ints(b, tail, 2);
    x = nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, 3, 0));
    return nc_build_reduce_sum(b, x, (int64_t[]){2}, 1, false);
}

/* The gradient of the products, from that of the shares; drop: NULL: none are dropped. */
static nc_value *products_grad(nc_builder *b, const nc_attention *a, const nc_attn_pieces *p, const nc_node *drop,
                               nc_value *dy) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *in[2] = {nc_build1(b, "MatMul", 2, dy, nc_build_swap_last(b, p->values)), p->stage[3]};
    if (drop != NULL) {
        nc_value *of_drop[4] = {in[0], drop->out[1], drop->in[1], drop->in[2]};
        in[0] = nc_build_attr1(b, "nacre", "DropoutGrad", of_drop, 4, NULL, 0);
    }
    nc_value *d = nc_build_attr1(b, "nacre", "SoftmaxGrad", in, 2, &axis, 1);
    if (!(a->softcap > 0) || b->code != NC_OK) return d;
    nc_dtype t = p->q->type->elem;
    nc_value *part = nc_build1(b, "Div", 2, p->stage[1], nc_build_scalar(b, t, a->softcap));
    part = nc_build1(b, "Sub", 2, nc_build_scalar(b, t, 1), nc_build1(b, "Mul", 2, part, part));
    return nc_build1(b, "Mul", 2, d, part);
}

static nc_value *as_given(nc_builder *b, const nc_node *n, nc_value *d) {
    return n->in[Q]->type->rank == 3 ? nc_attn_from_heads(b, d) : d;
}

/* What the forward pass drew, where that was taken apart before: its shares and its mask are read again. */
static nc_node *drawn_before(const nc_node *n) {
    nc_node *at = n->prev;
    while (at != NULL && (at->random_id != n->random_id || at->card != &nc_card_philox_dropout)) at = at->prev;
    return at;
}

static nc_code pieces_of(nc_builder *b, const nc_node *n, const nc_attention *a, nc_attn_pieces *p, nc_node **drop) {
    *drop = a->ratio > 0 && !(a->softcap > 0) ? drawn_before(n) : NULL;
    if (*drop == NULL) {
        NC_TRY(nc_attn_pieces_of(b, n, n->in, a, p));
        if (a->ratio > 0) *drop = nc_attn_drop(b, n, a, p->stage[3]);
        return b->code;
    }
    NC_TRY(nc_attn_operands_of(b, n->in, a, p));
    p->stage[3] = (*drop)->in[0];
    return NC_OK;
}

static nc_code back_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attention a;
    nc_attn_pieces p;
    nc_node *drop;
    NC_TRY(nc_attention_read(b->w, n, &a));
    NC_TRY(pieces_of(b, n, &a, &p, &drop));
    nc_value *dy = nc_attn_to_heads(b, n->in[DY], a.q_heads), *d = products_grad(b, &a, &p, drop, dy), *turned;
    if (n->out[Q] != NULL)
        out[Q] = as_given(b, n, nc_build1(b, "Mul", 2, nc_build1(b, "MatMul", 2, d, p.keys), p.scale));
    if (n->n_out > K && n->out[K] != NULL) {
        turned = nc_build1(b, "MatMul", 2, nc_build_swap_last(b, d), nc_build1(b, "Mul", 2, p.q, p.scale));
        out[K] = as_given(b, n, sum_heads(b, turned, &p));
    }
    if (n->n_out > V && n->out[V] != NULL) {
        nc_value *shares = drop != NULL ? drop->out[0] : p.stage[3];
        turned = nc_build1(b, "MatMul", 2, nc_build_swap_last(b, shares), dy);
        out[V] = as_given(b, n, sum_heads(b, turned, &p));
    }
    return b->code;
}

#define GRADIENT(name) \
    { name, SAME(0), OPTIONAL }
const nc_attr_spec nc_attention_attrs[] = {A_INT("is_causal", 0),         A_INT_OPT("kv_num_heads"),
                                           A_INT_OPT("q_num_heads"),      A_FLOAT_OPT("scale"),
                                           A_FLOAT("softcap", 0),         A_INT_OPT("softmax_precision"),
                                           A_INT("left_window_size", -1), A_INT("right_window_size", -1),
                                           A_FLOAT("ratio", 0),           {0}};
/* Of both; the state and the ratio are of the one that drops. */
static const nc_op_version back_versions[] = {
    {.since = 1,
     IN({"Q", T_FLOAT_ALL}, {"K", SAME(0)}, {"V", SAME(0)}, {"attn_mask", T_NUMBER_ALL | T_BOOL, OPTIONAL},
        {"past_key", SAME(0), OPTIONAL}, {"past_value", SAME(0), OPTIONAL}, {"nonpad_kv_seqlen", T_I64, OPTIONAL},
        {"dY", SAME(0)}, {"Y", SAME(0), OPTIONAL}, {"stats", NC_BIT(NC_FLOAT), OPTIONAL}, {"state", T_I64, OPTIONAL}),
     OUT(GRADIENT("dQ"), GRADIENT("dK"), GRADIENT("dV")),
     .attr = nc_attention_attrs},
    {0}};

const nc_card nc_card_attention_grad = {.name = "AttentionGrad",
                                        .domain = "nacre",
                                        .doc = "Gradients of Attention by query, key and value; a past is not taken.",
                                        .versions = back_versions,
                                        .no_grad_in = 1u << LENS | 7u << N_IN,
                                        .infer = back_infer,
                                        .decompose = back_decompose};

const nc_card nc_card_attention_dropout_grad = {
    .name = "AttentionDropoutGrad",
    .domain = "nacre",
    .doc = "Gradients of AttentionDropout by query, key and value; a past is not taken.",
    .versions = back_versions,
    .traits = NC_RANDOM,
    .no_grad_in = 1u << LENS | 7u << N_IN,
    .infer = back_infer,
    .decompose = back_decompose,
    .is_random = nc_attention_draws,
    .random_form = "AttentionDropoutGrad"};
