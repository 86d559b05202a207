/* ops/attention/attention.c: the card of Attention: scaled dot-product attention over 4-D or packed 3-D operands with
 * grouped heads, masks and a growing past; and of nacre.AttentionDropout, which drops some of its shares, those that a
 * Dropout of its random id would. Gradients are in attention_grad.c, the kernel in attention_cpu.c. */
#include "ops/attention/attention.h"

#include "ops/build.h"
#include "ops/card.h"

nc_code nc_attention_read(nc_work *w, const nc_node *n, nc_attention *a) {
    bool own = nc_build_is_own(n), windows = own || n->version->since >= 25;
    *a = (nc_attention){.causal = nc_attr_int(n, "is_causal") != 0,
                        .has_scale = nc_attr_has(n, "scale"),
                        .softcap = nc_attr_float(n, "softcap"),
                        .left = windows ? nc_attr_int(n, "left_window_size") : -1,
                        .right = windows ? nc_attr_int(n, "right_window_size") : -1,
                        .mode = own ? 0 : nc_attr_int(n, "qk_matmul_output_mode"),
                        .ratio = (n->card->traits & NC_RANDOM) ? nc_attr_float(n, "ratio") : 0};
    if (a->has_scale) a->scale = nc_attr_float(n, "scale");
    if (nc_attr_has(n, "q_num_heads")) a->q_heads = nc_attr_int(n, "q_num_heads");
    if (nc_attr_has(n, "kv_num_heads")) a->kv_heads = nc_attr_int(n, "kv_num_heads");
    if (a->mode < 0 || a->mode > 3)
        NC_FAIL(w, NC_E_BAD_GRAPH, "qk_matmul_output_mode is %lld, expected 0 to 3", (long long)a->mode);
    if (!(a->ratio >= 0 && a->ratio <= 1)) NC_FAIL(w, NC_E_BAD_GRAPH, "ratio is %g, expected 0 to 1", a->ratio);
    if (a->left < -1 || a->right < -1)
        NC_FAIL(w, NC_E_BAD_GRAPH, "windows are %lld and %lld, at least -1 is expected", (long long)a->left,
                (long long)a->right);
    return NC_OK;
}

/* ---- inference ---- */

/* Batch, heads, rows and columns of input i, from 4-D or, with `heads` of them, from packed 3-D. */
static nc_code head_dims(nc_infer *c, int i, int64_t heads, const nc_dim **d) {
    int rank;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    if (rank != 3 && rank != 4) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, expected 3 or 4", i, rank);
    d[0] = nc_in_dim(c, i, 0);
    d[2] = nc_in_dim(c, i, rank - 2);
    d[1] = rank == 4 ? nc_in_dim(c, i, 1) : nc_dim_const(c->dims, heads);
    d[3] = nc_in_dim(c, i, rank - 1);
    if (rank == 4) return NC_OK;
    if (heads < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "input %d has 3 dims: q_num_heads and kv_num_heads are needed", i);
    int64_t size;
    if (nc_dim_is_const(d[3], &size) && size % heads != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "input %d has %lld columns, which %lld heads do not divide", i, (long long)size,
                (long long)heads);
    d[3] = nc_dim_floordiv(c->dims, d[3], d[1]);
    return NC_OK;
}

static nc_code check_equal(nc_infer *c, const nc_dim *a, const nc_dim *b, const char *what) {
    int64_t x, y;
    if (nc_dim_is_const(a, &x) && nc_dim_is_const(b, &y) && x != y)
        NC_FAIL(c->w, NC_E_SHAPE, "%s: %lld and %lld differ", what, (long long)x, (long long)y);
    return NC_OK;
}

static nc_code attention_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, 0), *v = nc_in(c, 2);
    const nc_dim *dq[4] = {NULL}, *dk[4] = {NULL}, *dv[4] = {NULL};
    nc_attention a;
    int rank, rank_k, rank_v;
    if (q == NULL || v == NULL) return NC_OK;
    NC_TRY(nc_attention_read(c->w, c->node, &a));
    NC_TRY(head_dims(c, 0, a.q_heads, dq));
    NC_TRY(head_dims(c, 1, a.kv_heads, dk));
    NC_TRY(head_dims(c, 2, a.kv_heads, dv));
    if (!nc_in_rank(c, 0, &rank) || !nc_in_rank(c, 1, &rank_k) || !nc_in_rank(c, 2, &rank_v)) {
        for (int i = 0; i < 4; i++) NC_TRY(nc_out_unknown(c, i, i == 2 ? v->elem : q->elem, i == 0 ? -1 : 4));
        return NC_OK;
    }
    if (rank != rank_k || rank != rank_v)
        NC_FAIL(c->w, NC_E_SHAPE, "Q, K and V have %d, %d and %d dims", rank, rank_k, rank_v);
    NC_TRY(check_equal(c, dq[3], dk[3], "head sizes of Q and K"));
    NC_TRY(check_equal(c, dk[1], dv[1], "heads of K and V"));
    NC_TRY(check_equal(c, dk[2], dv[2], "lengths of K and V"));
    int64_t hq, hk;
    if (nc_dim_is_const(dq[1], &hq) && nc_dim_is_const(dk[1], &hk) && (hk < 1 || hq % hk != 0))
        NC_FAIL(c->w, NC_E_SHAPE, "%lld query heads do not share %lld key heads evenly", (long long)hq, (long long)hk);
    bool past = c->node->n_in > 4 && c->node->in[4] != NULL;
    const nc_dim *T = past ? nc_in_dim(c, 4, 2) : nc_dim_const(c->dims, 0);
    T = T != NULL ? nc_dim_add(c->dims, T, dk[2]) : nc_fresh(c, "keys");
    const nc_dim *packed[3] = {dq[0], dq[2], nc_dim_mul(c->dims, dq[1], dv[3])};
    NC_TRY(nc_out(c, 0, q->elem, rank, rank == 4 ? (const nc_dim *[]){dq[0], dq[1], dq[2], dv[3]} : packed));
    NC_TRY(nc_out(c, 1, q->elem, 4, (const nc_dim *[]){dk[0], dk[1], T, dk[3]}));
    NC_TRY(nc_out(c, 2, v->elem, 4, (const nc_dim *[]){dv[0], dv[1], T, dv[3]}));
    NC_TRY(nc_out(c, 3, q->elem, 4, (const nc_dim *[]){dq[0], dq[1], dq[2], T}));
    return nc_out(c, 4, NC_FLOAT, 3,
                  (const nc_dim *[]){dq[0], dq[1], dq[2]}); /* what lowering adds: attention_kept.c */
}

#define OPERANDS                                                                                            \
    {"Q", T_FLOAT_ALL}, {"K", SAME(0)}, {"V", T_FLOAT_ALL}, {"attn_mask", T_NUMBER_ALL | T_BOOL, OPTIONAL}, \
        {"past_key", SAME(0), OPTIONAL}, {                                                                  \
        "past_value", SAME(2), OPTIONAL                                                                     \
    }
#define RESULTS                                                                                   \
    OUT({"Y", SAME(0)}, {"present_key", SAME(0), OPTIONAL}, {"present_value", SAME(2), OPTIONAL}, \
        {"qk_matmul_output", SAME(0), OPTIONAL})
#define ATTRS                                                                                                      \
    A_INT("is_causal", 0), A_INT_OPT("kv_num_heads"), A_INT_OPT("q_num_heads"), A_INT("qk_matmul_output_mode", 0), \
        A_FLOAT_OPT("scale"), A_FLOAT("softcap", 0), A_INT_OPT("softmax_precision")
#define LENGTHS \
    { "nonpad_kv_seqlen", T_I64, OPTIONAL }
static const nc_op_version versions[] = {{.since = 25,
                                          IN(OPERANDS, LENGTHS),
                                          RESULTS,
                                          ATTR(ATTRS, A_INT("left_window_size", -1), A_INT("right_window_size", -1))},
                                         {.since = 24, IN(OPERANDS, LENGTHS), RESULTS, ATTR(ATTRS)},
                                         {.since = 23, IN(OPERANDS), RESULTS, ATTR(ATTRS)},
                                         {0}};

const nc_card nc_card_attention = {.name = "Attention",
                                   .doc = "Scaled dot-product attention with grouped heads, masks and a past.",
                                   .versions = versions,
                                   .traits = NC_NARROWS,
                                   .apart_in = 1u << 3,
                                   .no_grad_in = 1u << 6,
                                   .infer = attention_infer,
                                   .grad = nc_attention_grad,
                                   .decompose = nc_attention_decompose,
                                   .with_body = &nc_card_attention_chain};

/* ---- nacre.AttentionChain: plan/lower_epilogue.c makes it ---- */

static const nc_op_version chain_versions[] = {
    {.since = 1,
     IN(OPERANDS, LENGTHS, {"more", SAME(0), OPTIONAL | NC_P_VARIADIC}),
     OUT({"Y", SAME(0)}),
     ATTR(ATTRS, A_INT("left_window_size", -1), A_INT("right_window_size", -1), A_GRAPH_REQ("body"))},
    {0}};

const nc_card nc_card_attention_chain = {.name = "AttentionChain",
                                         .domain = "nacre",
                                         .no_grad = NC_LOWERED_NO_GRAD,
                                         .doc = "Attention, and element formulas done to its result.",
                                         .versions = chain_versions,
                                         .infer = attention_infer,
                                         .epilogue_in = NC_ATTN_INPUTS};

/* ---- nacre.AttentionDropout ---- */

nc_value *nc_attention_state(const nc_node *n) {
    int last = 0;
    while (n->version->in[last + 1].name != NULL) last++;
    return n->n_in > last ? n->in[last] : NULL;
}

bool nc_attention_draws(const nc_node *n) { return nc_attention_state(n) == NULL; }

static const nc_op_version dropout_versions[] = {
    {.since = 1,
     IN(OPERANDS, LENGTHS, {"state", T_I64, OPTIONAL}),
     OUT({"Y", SAME(0)}, {"present_key", SAME(0), OPTIONAL}, {"present_value", SAME(2), OPTIONAL},
         {"qk_matmul_output", SAME(0), OPTIONAL}, {"stats", NC_BIT(NC_FLOAT), OPTIONAL}),
     .attr = nc_attention_attrs},
    {0}};

const nc_card nc_card_attention_dropout = {.name = "AttentionDropout",
                                           .domain = "nacre",
                                           .doc = "Attention whose shares are dropped at random before they meet V.",
                                           .versions = dropout_versions,
                                           .traits = NC_NARROWS | NC_RANDOM,
                                           .apart_in = 1u << 3,
                                           .no_grad_in = 3u << 6,
                                           .infer = attention_infer,
                                           .grad = nc_attention_grad,
                                           .decompose = nc_attention_decompose,
                                           .is_random = nc_attention_draws,
                                           .random_form = "AttentionDropout"};
