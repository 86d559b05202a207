/* ops/attention/cached.c: the card of nacre.CachedAttention: new keys and values are written into caches, each batch at
 * a row of its own, and queries attend to what the caches then hold up to there. GroupQueryAttention is made of it. Its
 * kernel is in cached_cpu.c; elsewhere it is TensorScatter and Attention, or plain products where there is a sink. */
#include "ops/attention/cached.h"

#include "ops/attention/contrib.h"

#include <math.h>

enum { Q = NC_CACHED_Q, K, V, STARTS, TOTAL, PAST_K, PAST_V, BIAS, SINK };

nc_cached nc_cached_read(const nc_node *n) {
    return (nc_cached){.q_heads = nc_attr_int(n, "q_num_heads"),
                       .kv_heads = nc_attr_int(n, "kv_num_heads"),
                       .left = nc_attr_int(n, "left_window_size"),
                       .causal = nc_attr_int(n, "is_causal") != 0,
                       .scale = nc_attr_float(n, "scale"),
                       .softcap = nc_attr_float(n, "softcap"),
                       .mode = nc_attr_int(n, "mode")};
}

static nc_code cached_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, Q);
    nc_cached a = nc_cached_read(c->node);
    int n;
    if (q == NULL || q->rank != 3 || nc_in_dim(c, K, 2) == NULL)
        NC_FAIL(c->w, NC_E_SHAPE, "3 dims of Q and K are expected");
    const nc_dim *heads = nc_dim_const(c->dims, a.kv_heads);
    const nc_dim *const *total = nc_in_elems(c, TOTAL, &n);
    bool known = total != NULL && n == 1 && total[0] != NULL;
    const nc_dim *T = known ? total[0] : nc_fresh(c, "keys"); /* a symbol inside a formula could not be bound */
    if (known && nc_in_dim(c, PAST_K, 2) != NULL) T = nc_dim_max(c->dims, nc_in_dim(c, PAST_K, 2), T);
    NC_TRY(nc_out_like(c, 0, Q));
    for (int i = 0; i < 2; i++) {
        const nc_dim *D = nc_dim_floordiv(c->dims, nc_in_dim(c, K + i, 2), heads);
        NC_TRY(nc_out(c, 1 + i, q->elem, 4, (const nc_dim *[]){q->dims[0], heads, T, D}));
    }
    const nc_dim *q_heads = nc_dim_const(c->dims, a.q_heads);
    return nc_out(c, 3, q->elem, 4, (const nc_dim *[]){q->dims[0], q_heads, q->dims[1], T});
}

/* ---- decomposition ---- */

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

/* past with room for `total` rows, zeros where it has none. x: new rows by heads. */
static nc_value *with_room(nc_builder *b, nc_value *past, nc_value *x, nc_value *total) {
    nc_value *more = total;
    if (past != NULL) {
        more = nc_build1(b, "Sub", 2, total, nc_contrib_size(b, past, 2));
        more = nc_build1(b, "Max", 2, more, nc_build_int(b, 0));
    }
    if (b->code != NC_OK) return NULL;
    nc_value *shape[3] = {nc_attn_dims(b, x, 0, 2), more, nc_attn_dims(b, x, 3, 4)};
    nc_value *zeros = nc_build1(b, "Expand", 2, nc_build_scalar(b, x->type->elem, 0), nc_attn_join(b, shape, 3, 0));
    return past != NULL ? nc_attn_join(b, (nc_value *[]){past, zeros}, 2, 2) : zeros;
}

static nc_value *written(nc_builder *b, const nc_node *n, int i, int64_t heads, nc_value *total) {
    nc_value *x = nc_attn_to_heads(b, n->in[K + i], heads);
    nc_value *in[3] = {with_room(b, nc_contrib_in(n, PAST_K + i), x, total), x, n->in[STARTS]};
    return nc_build_newest1(b, "TensorScatter", in, 3, NULL, 0);
}

/* Which keys (B,1,S,T) a query may see. */
static nc_value *seen(nc_builder *b, const nc_node *n, const nc_cached *a, nc_value *k) {
    nc_value *S = nc_contrib_size(b, n->in[Q], 1), *zero = one(b, 0), *none = nc_build_int(b, 0),
             *step = nc_build_int(b, 1);
    nc_value *key = nc_build1(b, "Range", 3, none, nc_build1(b, "Squeeze", 2, nc_contrib_size(b, k, 2), zero), step);
    nc_value *row = nc_build1(b, "Range", 3, none, nc_build1(b, "Squeeze", 2, S, zero), step);
    nc_value *starts = nc_build1(b, "Reshape", 2, n->in[STARTS], nc_build_ints(b, (int64_t[]){-1, 1, 1, 1}, 4));
    nc_value *place = nc_build1(b, "Add", 2, starts, nc_build1(b, "Unsqueeze", 2, row, one(b, 1)));
    nc_value *ok = nc_build1(b, "Less", 2, key, nc_build1(b, "Add", 2, starts, S));
    if (a->causal) ok = nc_build1(b, "And", 2, ok, nc_build1(b, "LessOrEqual", 2, key, place));
    if (a->left < 0) return ok;
    nc_value *first = nc_build1(b, "Sub", 2, place, nc_build_int(b, a->left));
    return nc_build1(b, "And", 2, ok, nc_build1(b, "GreaterOrEqual", 2, key, first));
}

/* Scores with a column of sinks, their softmax without it, times values. */
static nc_code with_sink(nc_builder *b, const nc_node *n, const nc_cached *a, nc_value *k, nc_value *v,
                         nc_value **out) {
    nc_value *q = nc_attn_to_heads(b, n->in[Q], a->q_heads), *bias = nc_contrib_in(n, BIAS);
    int64_t group = a->q_heads / a->kv_heads;
    if (b->code != NC_OK) return b->code;
    nc_dtype t = q->type->elem;
    nc_value *ok = seen(b, n, a, k), *scale = a->scale != 0 ? nc_build_scalar(b, t, a->scale) : nc_attn_scale(b, q);
    if (group > 1) k = nc_attn_repeat_heads(b, k, group), v = nc_attn_repeat_heads(b, v, group);
    nc_value *s = nc_build1(b, "MatMul", 2, nc_build1(b, "Mul", 2, q, scale), nc_build_swap_last(b, k));
    nc_value *cap = nc_build_scalar(b, t, a->softcap);
    if (a->softcap > 0) s = nc_build1(b, "Mul", 2, nc_build1(b, "Tanh", 1, nc_build1(b, "Div", 2, s, cap)), cap);
    s = nc_build1(b, "Where", 3, ok, nc_contrib_add(b, s, bias), nc_build_scalar(b, t, -(double)INFINITY));
    nc_value *column = nc_build1(b, "Reshape", 2, n->in[SINK], nc_build_ints(b, (int64_t[]){1, -1, 1, 1}, 4));
    nc_value *shape[2] = {nc_attn_dims(b, s, 0, 3), one(b, 1)};
    column = nc_build1(b, "Expand", 2, column, nc_attn_join(b, shape, 2, 0));
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *wide = nc_attn_join(b, (nc_value *[]){s, column}, 2, 3);
    nc_value *p = nc_build_attr1(b, "", "Softmax", &wide, 1, &axis, 1);
    p = nc_build1(b, "Slice", 4, p, one(b, 0), nc_contrib_size(b, k, 2), one(b, 3));
    out[0] = nc_attn_from_heads(b, nc_build1(b, "MatMul", 2, p, v));
    if (nc_contrib_wants(n, 3)) out[3] = a->mode == 2 ? p : s;
    return b->code;
}

static nc_code without_sink(nc_builder *b, const nc_node *n, const nc_cached *a, nc_value *k, nc_value *v,
                            nc_value **out) {
    nc_value *q = nc_attn_to_heads(b, n->in[Q], a->q_heads);
    nc_value *lens = nc_build1(b, "Add", 2, n->in[STARTS], nc_contrib_size(b, n->in[Q], 1));
    nc_value *in[7] = {q, k, v, nc_contrib_in(n, BIAS), NULL, NULL, lens};
    bool wanted[4] = {true, false, false, nc_contrib_wants(n, 3)};
    nc_attr attrs[5] = {{.name = "is_causal", .kind = NC_A_INT, .i = a->causal},
                        {.name = "softcap", .kind = NC_A_FLOAT, .f = (float)a->softcap},
                        {.name = "left_window_size", .kind = NC_A_INT, .i = a->left},
                        {.name = "qk_matmul_output_mode", .kind = NC_A_INT, .i = a->mode == 2 ? 3 : 2},
                        {.name = "scale", .kind = NC_A_FLOAT, .f = (float)a->scale}};
    nc_node *attention = nc_build_newest(b, "Attention", in, 7, wanted, 4, attrs, a->scale != 0 ? 5 : 4);
    if (attention == NULL) return b->code;
    out[0] = nc_attn_from_heads(b, attention->out[0]);
    if (wanted[3]) out[3] = attention->out[3];
    return b->code;
}

static nc_code cached_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_cached a = nc_cached_read(n);
    nc_value *total = nc_build1(b, "Reshape", 2, n->in[TOTAL], one(b, 1));
    nc_value *k = written(b, n, 0, a.kv_heads, total), *v = written(b, n, 1, a.kv_heads, total);
    out[1] = k, out[2] = v;
    if (nc_contrib_in(n, SINK) != NULL)
        NC_TRY(with_sink(b, n, &a, k, v, out));
    else
        NC_TRY(without_sink(b, n, &a, k, v, out));
    if (!nc_contrib_wants(n, 3) || a.mode != 1 || b->code != NC_OK) return b->code;
    nc_dtype t = out[3]->type->elem;
    nc_value *blind = nc_build1(b, "Equal", 2, out[3], nc_build_scalar(b, t, -(double)INFINITY));
    out[3] = nc_build1(b, "Where", 3, blind, nc_build_scalar(b, t, 0), out[3]);
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"Q", T_FLOAT_ALL}, {"K", SAME(0)}, {"V", SAME(0)}, {"starts", T_I64}, {"total", T_I64},
        {"past_key", SAME(0), OPTIONAL}, {"past_value", SAME(0), OPTIONAL}, {"bias", SAME(0), OPTIONAL},
        {"sink", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}, {"present_key", SAME(0)}, {"present_value", SAME(0)}, {"scores", SAME(0), OPTIONAL}),
     ATTR(A_INT_REQ("q_num_heads"), A_INT_REQ("kv_num_heads"), A_INT("left_window_size", -1), A_INT("is_causal", 1),
          A_FLOAT("scale", 0), A_FLOAT("softcap", 0), A_INT("mode", 0))},
    {0}};

const nc_card nc_card_cached_attention = {.name = "CachedAttention",
                                          .domain = "nacre",
                                          .doc = "Writes keys and values into caches and attends to them.",
                                          .versions = versions,
                                          .host_in = 1u << TOTAL,
                                          .no_grad_in = 1u << STARTS | 1u << TOTAL,
                                          .infer = cached_infer,
                                          .decompose = cached_decompose};
