/* ops/attention/linear_attention_parts.c: LinearAttention as a Loop over its tokens, for its gradient. Time comes first
 * here, heads are (B, Hkv, group): query heads beside the key head that they share. float16 and bfloat16 compute in
 * float. */
#include "ops/attention/attention.h"
#include "ops/control/control.h"

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, N_INPUTS };

typedef struct linear {
    nc_builder *b;
    int64_t hq, hk;
    nc_value *in[N_INPUTS]; /* (T, B, Hkv, rows, columns), but PAST (B, Hkv, dk, dv) */
    nc_value *scale;
} linear;

static nc_value *op2(nc_builder *b, const char *op, nc_value *x, nc_value *y) { return nc_build1(b, op, 2, x, y); }

/* (B, T, n) as (T, B, heads, rows, columns); 0 in dims: the size of that axis. */
static nc_value *by_time(nc_builder *b, nc_value *x, const int64_t *dims) {
    static const int64_t perm[5] = {1, 0, 2, 3, 4};
    return x != NULL ? nc_build_transpose(b, op2(b, "Reshape", x, nc_build_ints(b, dims, 5)), perm, 5) : NULL;
}

static void arrange(linear *l, nc_value *const *in, int n_in) {
    nc_builder *b = l->b;
    nc_value **v = l->in;
    for (int i = 0; i < N_INPUTS; i++) v[i] = i < n_in && in[i] != NULL ? nc_build_cast(b, in[i], NC_FLOAT) : NULL;
    v[QUERY] = by_time(b, v[QUERY], (const int64_t[]){0, 0, l->hk, l->hq / l->hk, -1});
    v[KEY] = by_time(b, v[KEY], (const int64_t[]){0, 0, l->hk, 1, -1});
    v[VALUE] = by_time(b, v[VALUE], (const int64_t[]){0, 0, l->hk, 1, -1});
    v[DECAY] = by_time(b, v[DECAY], (const int64_t[]){0, 0, l->hk, -1, 1}); /* per head, or per row of the state */
    v[BETA] = by_time(b, v[BETA], (const int64_t[]){0, 0, -1, 1, 1});
    if (v[PAST] != NULL) return;
    const int64_t heads = l->hk;
    nc_value *parts[4] = {nc_attn_dims(b, v[QUERY], 1, 2), nc_build_ints(b, &heads, 1), nc_attn_dims(b, v[KEY], 4, 5),
                          nc_attn_dims(b, v[VALUE], 4, 5)};
    v[PAST] = op2(b, "Expand", nc_build_scalar(b, NC_FLOAT, 0), nc_attn_join(b, parts, 4, 0));
}

/* The slice of a token, in the body. */
static nc_value *token(const linear *l, nc_control_loop *loop, int i) {
    if (l->in[i] == NULL) return NULL;
    return op2(&loop->b, "Gather", nc_edit_reach(loop->b.graph, l->in[i]), loop->iter);
}

/* out: the state behind the token, what its queries read. */
static void step(const linear *l, nc_control_loop *loop, nc_value **out) {
    nc_builder *b = &loop->b;
    nc_value *s = loop->carried[0], *k = token(l, loop, KEY), *v = token(l, loop, VALUE);
    nc_value *decay = token(l, loop, DECAY), *beta = token(l, loop, BETA);
    if (decay != NULL) s = op2(b, "Mul", s, nc_build1(b, "Exp", 1, decay));
    if (beta != NULL) v = op2(b, "Mul", beta, op2(b, "Sub", v, op2(b, "MatMul", k, s)));
    out[0] = op2(b, "Add", s, op2(b, "MatMul", nc_build_swap_last(b, k), v));
    out[1] = op2(b, "Mul", op2(b, "MatMul", token(l, loop, QUERY), out[0]), nc_edit_reach(b->graph, l->scale));
}

nc_code nc_linear_attention_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    static const int64_t perm[5] = {1, 0, 2, 3, 4}, flat[3] = {0, 0, -1};
    linear l = {.b = b, .hq = nc_attr_int(n, "q_num_heads"), .hk = nc_attr_int(n, "kv_num_heads")};
    nc_control_loop loop;
    nc_value *made[2];
    arrange(&l, in, n->n_in);
    double scale = nc_attr_float(n, "scale");
    l.scale = scale != 0 ? nc_build_scalar(b, NC_FLOAT, scale) : nc_attn_scale(b, l.in[QUERY]);
    nc_value *steps = op2(b, "Gather", nc_build_shape(b, l.in[QUERY]), nc_build_int(b, 0));
    NC_TRY(b->code);
    NC_TRY(nc_control_loop_begin(b, steps, &l.in[PAST], 1, 1, &loop));
    step(&l, &loop, made);
    NC_TRY(loop.b.code);
    NC_TRY(nc_control_loop_end(b, &loop, made));
    nc_value *y = op2(b, "Reshape", nc_build_transpose(b, loop.node->out[1], perm, 5), nc_build_ints(b, flat, 3));
    nc_dtype type = in[QUERY]->type->elem, state = in[PAST] != NULL ? in[PAST]->type->elem : type;
    out[0] = nc_build_cast(b, y, type);
    out[1] = nc_build_cast(b, loop.node->out[0], state);
    return b->code;
}
