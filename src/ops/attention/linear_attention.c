/* ops/attention/linear_attention.c: the card of LinearAttention: a matrix per head that each token decays, writes to
 * and reads from. The kernel is in linear_attention_cpu.c. */
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code check_rule(nc_infer *c) {
    const char *rule = nc_attr_str(c->node, "update_rule");
    bool gated = strcmp(rule, "gated") == 0 || strcmp(rule, "gated_delta") == 0;
    bool delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    if (!gated && !delta && strcmp(rule, "linear") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "update_rule is '%s', expected linear, gated, delta or gated_delta", rule);
    bool decay = c->node->n_in > 4 && c->node->in[4] != NULL, beta = c->node->n_in > 5 && c->node->in[5] != NULL;
    if (decay != gated)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "update_rule '%s' %s decay", rule, gated ? "needs" : "does not take");
    if (beta != delta)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "update_rule '%s' %s beta", rule, delta ? "needs" : "does not take");
    int64_t hq = nc_attr_int(c->node, "q_num_heads"), hk = nc_attr_int(c->node, "kv_num_heads");
    if (hk < 1 || hq < 1 || hq % hk != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%lld query heads do not share %lld key heads evenly", (long long)hq,
                (long long)hk);
    return NC_OK;
}

static nc_code linear_attention_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, 0), *past = nc_in(c, 3);
    int rank;
    NC_TRY(check_rule(c));
    if (q == NULL) return NC_OK;
    for (int i = 0; i < 6; i++)
        if (nc_in_rank(c, i, &rank) && rank != (i == 3 ? 4 : 3))
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, expected %d", i, rank, i == 3 ? 4 : 3);
    nc_dtype state = past != NULL ? past->elem : q->elem;
    const nc_dim *hq = nc_dim_const(c->dims, nc_attr_int(c->node, "q_num_heads")),
                 *hk = nc_dim_const(c->dims, nc_attr_int(c->node, "kv_num_heads"));
    const nc_dim *columns = nc_in_dim(c, 0, 2), *values = nc_in_dim(c, 2, 2);
    if (columns == NULL || values == NULL) {
        NC_TRY(nc_out_unknown(c, 0, q->elem, 3));
        return nc_out_unknown(c, 1, state, 4);
    }
    const nc_dim *dv = nc_dim_floordiv(c->dims, values, hk), *dk = nc_dim_floordiv(c->dims, columns, hq);
    const nc_dim *B = nc_in_dim(c, 0, 0), *T = nc_in_dim(c, 0, 1);
    NC_TRY(nc_out(c, 0, q->elem, 3, (const nc_dim *[]){B, T, nc_dim_mul(c->dims, hq, dv)}));
    return nc_out(c, 1, state, 4, (const nc_dim *[]){B, hk, dk, dv});
}

static nc_code linear_attention_grad(nc_grad *g) { return nc_grad_by_parts(g, nc_linear_attention_parts); }

#define T_NARROW (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version versions[] = {
    {.since = 27,
     IN({"query", T_NARROW}, {"key", SAME(0)}, {"value", SAME(0)}, {"past_state", T_NARROW, OPTIONAL},
        {"decay", SAME(0), OPTIONAL}, {"beta", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_state", T_NARROW}),
     ATTR(A_INT("chunk_size", 64), A_INT_REQ("kv_num_heads"), A_INT_REQ("q_num_heads"), A_FLOAT("scale", 0),
          A_STR("update_rule", "gated_delta"))},
    {0}};

const nc_card nc_card_linear_attention = {.name = "LinearAttention",
                                          .doc = "Attention through a recurrent matrix per head.",
                                          .versions = versions,
                                          .infer = linear_attention_infer,
                                          .grad = linear_attention_grad};
