/* ops/attention/attention_parts.c: Attention as products, a bias, Softmax and Dropout. Rows that see no key are set to
 * 0 before Softmax and after it, so that no NaN reaches a gradient. */
#include "ops/attention/attention.h"

#include "ops/build.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENS };

nc_value *nc_attn_dims(nc_builder *b, nc_value *x, int64_t lo, int64_t hi) {
    nc_attr attrs[2] = {{.name = "start", .kind = NC_A_INT, .i = lo}, {.name = "end", .kind = NC_A_INT, .i = hi}};
    return nc_build_attr1(b, "", "Shape", &x, 1, attrs, 2);
}

nc_value *nc_attn_join(nc_builder *b, nc_value *const *parts, int n, int64_t axis) {
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return nc_build_attr1(b, "", "Concat", parts, n, &attr, 1);
}

static nc_value *one_int(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

nc_value *nc_attn_repeat_heads(nc_builder *b, nc_value *x, int64_t n) {
    nc_value *wide[3] = {nc_attn_dims(b, x, 0, 2), one_int(b, n), nc_attn_dims(b, x, 2, 4)};
    nc_value *flat[3] = {nc_attn_dims(b, x, 0, 1), one_int(b, -1), wide[2]};
    int64_t heads;
    if (b->code == NC_OK && nc_dim_is_const(x->type->dims[1], &heads)) flat[1] = one_int(b, heads * n);
    nc_value *y = nc_build1(b, "Unsqueeze", 2, x, one_int(b, 2));
    y = nc_build1(b, "Expand", 2, y, nc_attn_join(b, wide, 3, 0));
    return nc_build1(b, "Reshape", 2, y, nc_attn_join(b, flat, 3, 0));
}

nc_value *nc_attn_scale(nc_builder *b, nc_value *x) {
    int64_t size;
    if (b->code != NC_OK) return NULL;
    const nc_type *t = x->type;
    if (nc_dim_is_const(t->dims[t->rank - 1], &size)) return nc_build_scalar(b, t->elem, 1 / sqrt((double)size));
    nc_value *d = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, t->rank - 1));
    return nc_build1(b, "Reciprocal", 1, nc_build1(b, "Sqrt", 1, nc_build_cast(b, d, t->elem)));
}

nc_code nc_attn_group(nc_builder *b, const nc_value *q, const nc_value *k, int64_t *n) {
    int64_t hq, hk;
    *n = 1;
    if (b->code != NC_OK) return b->code;
    const nc_dim *dq = q->type->dims[1], *dk = k->type->dims[1];
    if (dq == dk) return NC_OK;
    if (!nc_dim_is_const(dq, &hq) || !nc_dim_is_const(dk, &hk))
        return b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "the numbers of heads are not known before the run");
    *n = hk > 0 ? hq / hk : 1;
    return NC_OK;
}

nc_value *nc_attn_to_heads(nc_builder *b, nc_value *x, int64_t heads) {
    int64_t size, tail[2] = {heads, -1};
    if (b->code != NC_OK || x->type->rank == 4) return x;
    if (nc_dim_is_const(x->type->dims[2], &size)) tail[1] = size / heads;
    nc_value *shape[2] = {nc_attn_dims(b, x, 0, 2), nc_build_ints(b, tail, 2)};
    x = nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, 2, 0));
    return nc_build_transpose(b, x, (int64_t[]){0, 2, 1, 3}, 4);
}

nc_value *nc_attn_from_heads(nc_builder *b, nc_value *y) {
    int64_t heads, size, tail = -1;
    y = nc_build_transpose(b, y, (int64_t[]){0, 2, 1, 3}, 4);
    if (b->code != NC_OK) return NULL;
    if (nc_dim_is_const(y->type->dims[2], &heads) && nc_dim_is_const(y->type->dims[3], &size)) tail = heads * size;
    nc_value *shape[2] = {nc_attn_dims(b, y, 0, 2), one_int(b, tail)};
    return nc_build1(b, "Reshape", 2, y, nc_attn_join(b, shape, 2, 0));
}

static nc_value *dim_of(nc_builder *b, nc_value *x, int64_t axis) {
    return nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, axis));
}

static nc_value *count(nc_builder *b, nc_value *n) {
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), n, nc_build_int(b, 1));
}

static nc_value *both(nc_builder *b, nc_value *x, nc_value *y) { return x == NULL ? y : nc_build1(b, "And", 2, x, y); }

/* Which keys (T) a query (S) may see, as far as places and lengths say; NULL: all. */
static nc_value *seen(nc_builder *b, nc_value *const *in, const nc_attention *a, nc_value *q, nc_value *k) {
    nc_value *lens = in[LENS], *past = in[PAST_K], *ok = NULL;
    if (!a->causal && a->left < 0 && a->right < 0 && lens == NULL) return NULL;
    if (lens != NULL) lens = nc_build1(b, "Reshape", 2, lens, nc_build_ints(b, (int64_t[]){-1, 1, 1, 1}, 4));
    nc_value *key = count(b, dim_of(b, k, 2)), *rows = dim_of(b, q, 2);
    nc_value *place = nc_build1(b, "Unsqueeze", 2, count(b, rows), one_int(b, 1));
    if (past != NULL)
        place = nc_build1(b, "Add", 2, place, dim_of(b, past, 2));
    else if (lens != NULL)
        place = nc_build1(b, "Add", 2, place, nc_build1(b, "Sub", 2, lens, rows));
    if (a->causal) ok = nc_build1(b, "LessOrEqual", 2, key, place);
    if (a->left >= 0) {
        nc_value *first = nc_build1(b, "Sub", 2, place, nc_build_int(b, a->left));
        ok = both(b, ok, nc_build1(b, "GreaterOrEqual", 2, key, first));
    }
    if (a->right >= 0) {
        nc_value *last = nc_build1(b, "Add", 2, place, nc_build_int(b, a->right));
        ok = both(b, ok, nc_build1(b, "LessOrEqual", 2, key, last));
    }
    return lens == NULL ? ok : both(b, ok, nc_build1(b, "Less", 2, key, lens));
}

/* The mask with as many columns as k has rows; those that it lacks are not seen. */
static nc_value *padded_mask(nc_builder *b, nc_value *mask, nc_value *k) {
    int64_t have, want;
    if (b->code != NC_OK) return NULL;
    int last = mask->type->rank - 1;
    const nc_dim *d = mask->type->dims[last], *T = k->type->dims[2];
    if (d == T || (nc_dim_is_const(d, &have) && nc_dim_is_const(T, &want) && have == want)) return mask;
    nc_value *more = nc_build1(b, "Sub", 2, nc_attn_dims(b, k, 2, 3), nc_attn_dims(b, mask, last, last + 1));
    nc_value *shape[2] = {nc_attn_dims(b, mask, 0, last), more};
    nc_dtype t = mask->type->elem;
    nc_value *fill = nc_build_scalar(b, t, t == NC_BOOL ? 0 : -(double)INFINITY);
    fill = nc_build1(b, "Expand", 2, fill, nc_attn_join(b, shape, 2, 0));
    return nc_attn_join(b, (nc_value *[]){mask, fill}, 2, -1);
}

static nc_value *biased(nc_builder *b, nc_value *mask, nc_value *scores, nc_value *ok, nc_value *k) {
    if (b->code != NC_OK) return NULL;
    nc_dtype t = scores->type->elem;
    if (mask != NULL) {
        bool is_bool = mask->type->elem == NC_BOOL;
        if (!is_bool) mask = nc_build_cast(b, mask, t);
        mask = padded_mask(b, mask, k);
        if (is_bool)
            ok = ok == NULL ? mask : nc_build1(b, "And", 2, ok, mask);
        else
            scores = nc_build1(b, "Add", 2, scores, mask);
    }
    if (ok != NULL) scores = nc_build1(b, "Where", 3, ok, scores, nc_build_scalar(b, t, -(double)INFINITY));
    return scores;
}

static nc_value *softmax(nc_builder *b, const nc_node *n, nc_value *scores, bool may_be_blind) {
    if (b->code != NC_OK) return NULL;
    nc_dtype own = scores->type->elem;
    nc_dtype t = nc_attr_has(n, "softmax_precision") ? (nc_dtype)nc_attr_int(n, "softmax_precision") : own;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    scores = nc_build_cast(b, scores, t);
    if (!may_be_blind) return nc_build_cast(b, nc_build_attr1(b, "", "Softmax", &scores, 1, &axis, 1), own);
    nc_value *top = nc_build1(b, "ReduceMax", 2, scores, one_int(b, -1)), *zero = nc_build_scalar(b, t, 0);
    nc_value *blind = nc_build1(b, "Equal", 2, top, nc_build_scalar(b, t, -(double)INFINITY));
    scores = nc_build1(b, "Where", 3, blind, zero, scores);
    nc_value *p = nc_build_attr1(b, "", "Softmax", &scores, 1, &axis, 1);
    return nc_build_cast(b, nc_build1(b, "Where", 3, blind, zero, p), own);
}

/* What the node's own inputs are, with NULL where it has none. */
static void inputs_of(const nc_node *n, nc_value **in) {
    for (int i = 0; i < NC_ATTN_INPUTS; i++) in[i] = i < n->n_in ? n->in[i] : NULL;
}

nc_code nc_attn_operands_of(nc_builder *b, nc_value *const *in, const nc_attention *a, nc_attn_pieces *p) {
    nc_value *q = nc_attn_to_heads(b, in[Q], a->q_heads), *k = nc_attn_to_heads(b, in[K], a->kv_heads),
             *v = nc_attn_to_heads(b, in[V], a->kv_heads);
    if (in[PAST_K] != NULL) k = nc_attn_join(b, (nc_value *[]){in[PAST_K], k}, 2, 2);
    if (in[PAST_V] != NULL) v = nc_attn_join(b, (nc_value *[]){in[PAST_V], v}, 2, 2);
    *p = (nc_attn_pieces){.q = q, .k = k, .v = v};
    NC_TRY(nc_attn_group(b, q, k, &p->group));
    nc_dtype t = q->type->elem;
    p->scale = a->has_scale ? nc_build_scalar(b, t, a->scale) : nc_attn_scale(b, q);
    p->keys = p->group > 1 ? nc_attn_repeat_heads(b, k, p->group) : k;
    p->values = nc_build_cast(b, p->group > 1 ? nc_attn_repeat_heads(b, v, p->group) : v, t);
    return b->code;
}

nc_code nc_attn_pieces_of(nc_builder *b, const nc_node *n, nc_value *const *in, const nc_attention *a,
                          nc_attn_pieces *p) {
    NC_TRY(nc_attn_operands_of(b, in, a, p));
    nc_value *q = p->q, *k = p->k, *ok = seen(b, in, a, q, k);
    nc_dtype t = q->type->elem;
    nc_value *scaled = nc_build1(b, "Mul", 2, q, p->scale); /* before the other, whatever order arguments have */
    p->stage[0] = nc_build1(b, "MatMul", 2, scaled, nc_build_swap_last(b, p->keys));
    p->stage[1] = p->stage[0];
    if (a->softcap > 0) {
        nc_value *cap = nc_build_scalar(b, t, a->softcap);
        p->stage[1] = nc_build1(b, "Mul", 2, nc_build1(b, "Tanh", 1, nc_build1(b, "Div", 2, p->stage[0], cap)), cap);
    }
    p->stage[2] = biased(b, in[MASK], p->stage[1], ok, k);
    p->stage[3] = softmax(b, n, p->stage[2], p->stage[2] != p->stage[1]);
    return b->code;
}

nc_node *nc_attn_drop(nc_builder *b, const nc_node *n, const nc_attention *a, nc_value *shares) {
    nc_value *state = nc_attention_state(n);
    nc_value *in[4] = {shares, nc_build_scalar(b, NC_FLOAT, a->ratio), nc_build_scalar(b, NC_BOOL, 1), state};
    nc_node *d = state != NULL ? nc_build(b, "nacre", "PhiloxDropout", in, 4, 2, NULL, 0)
                               : nc_build_newest(b, "Dropout", in, 3, NULL, 2, NULL, 0);
    if (d != NULL) d->random_id = n->random_id;
    return d;
}

nc_code nc_attention_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    nc_attention a;
    nc_attn_pieces p;
    NC_TRY(nc_attention_read(b->w, n, &a));
    NC_TRY(nc_attn_pieces_of(b, n, in, &a, &p));
    if (n->n_out > 1) out[1] = p.k;
    if (n->n_out > 2) out[2] = p.v;
    if (n->n_out > 3) out[3] = p.stage[a.mode];
    nc_node *drop = a.ratio > 0 ? nc_attn_drop(b, n, &a, p.stage[3]) : NULL;
    nc_value *y = nc_build1(b, "MatMul", 2, drop != NULL ? drop->out[0] : p.stage[3], p.values);
    out[0] = in[Q]->type->rank == 3 ? nc_attn_from_heads(b, y) : y;
    return b->code;
}

nc_code nc_attention_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[NC_ATTN_INPUTS];
    inputs_of(n, in);
    return nc_attention_parts(b, n, in, out);
}
