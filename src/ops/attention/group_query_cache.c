/* ops/attention/group_query_cache.c: how GroupQueryAttention keeps its caches, over nacre.CachedAttention.
 *
 * Coded caches: new rows become codes, which are written behind those of the past; attention sees what the codes say,
 * of the new rows too. Codes of float8, which few ops of ai.onnx move, are made again of those numbers, which gives the
 * same codes. Windowed caches: their C rows are the last positions, oldest first. Of T positions they hold
 * L(T) = T up to C, then T - G ceil((T - C) / G) with G = C - W + 1, so that the window of W is always there. New rows
 * go behind those that are held, into room of C + S + 1 rows, and the held ones of afterwards are taken out of it. */
#include "ops/attention/group_query.h"

#include <string.h>

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static bool is_none(const nc_node *n, const char *attr) { return strcmp(nc_attr_str(n, attr), "NONE") == 0; }

bool nc_gq_is_coded(const nc_node *n) { return !is_none(n, "k_quant_type"); }

bool nc_gq_is_windowed(const nc_node *n) { return nc_attr_int(n, "sliding_window_cache") != 0; }

nc_dtype nc_gq_cache_type(const nc_node *n, nc_dtype query) {
    const nc_value *past = nc_contrib_in(n, NC_GQ_PAST_K);
    if (past != NULL && past->type != NULL && past->type->elem != NC_UNDEFINED) return past->type->elem;
    if (!nc_gq_is_coded(n)) return query;
    return nc_contrib_int(n, "kv_cache_bit_width", 8) == 4 ? NC_UINT8 : NC_INT8;
}

int64_t nc_gq_cache_part(const nc_node *n, nc_dtype cache) { return nc_gq_is_coded(n) && cache == NC_UINT8 ? 2 : 1; }

/* ---- checks ---- */

static nc_code check_codes(nc_infer *c) {
    static const char *const attrs[2] = {"k_quant_type", "v_quant_type"};
    const nc_node *n = c->node;
    for (int i = 0; i < 2; i++) {
        const char *how = nc_attr_str(n, attrs[i]);
        if (strcmp(how, "NONE") != 0 && strcmp(how, "PER_TENSOR") != 0 && strcmp(how, "PER_CHANNEL") != 0)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s is '%.20s', expected NONE, PER_TENSOR or PER_CHANNEL", attrs[i], how);
    }
    if (is_none(n, attrs[0]) != is_none(n, attrs[1]))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "k_quant_type is %s and v_quant_type %s, expected both or neither",
                nc_attr_str(n, attrs[0]), nc_attr_str(n, attrs[1]));
    for (int i = NC_GQ_K_SCALE; i <= NC_GQ_V_SCALE; i++) {
        int rank;
        const char *name = n->version->in[i].name;
        if ((nc_contrib_in(n, i) != NULL) != nc_gq_is_coded(n))
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s is %s, with k_quant_type %s", name,
                    nc_gq_is_coded(n) ? "absent" : "given", nc_attr_str(n, attrs[0]));
        if (nc_in_rank(c, i, &rank) && rank > 4)
            NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected at most 4", name, rank);
    }
    return NC_OK;
}

static nc_code check_types(nc_infer *c) {
    const nc_type *q = nc_in(c, NC_GQ_QUERY);
    if (q == NULL) return NC_OK;
    nc_dtype t = nc_gq_cache_type(c->node, q->elem);
    int64_t bits = nc_contrib_int(c->node, "kv_cache_bit_width", t == NC_UINT8 ? 4 : 8);
    bool whole = t == NC_INT8 || t == NC_FLOAT8E4M3FN;
    if (!nc_gq_is_coded(c->node)) {
        if (t != q->elem)
            NC_FAIL(c->w, NC_E_TYPE, "past_key has elements %s, expected %s: k_quant_type is NONE", nc_dtype_name(t),
                    nc_dtype_name(q->elem));
        return NC_OK;
    }
    if (!(whole && bits == 8) && !(t == NC_UINT8 && bits == 4))
        NC_FAIL(c->w, NC_E_TYPE,
                "past_key has elements %s with kv_cache_bit_width %lld, expected int8 or float8e4m3fn with 8, uint8 "
                "with 4",
                nc_dtype_name(t), (long long)bits);
    return NC_OK;
}

static nc_code check_window(nc_infer *c) {
    const nc_node *n = c->node;
    int64_t window = nc_attr_int(n, "local_window_size"), rows;
    const nc_dim *have = nc_in_dim(c, NC_GQ_PAST_K, 2);
    if (!nc_gq_is_windowed(n)) return NC_OK;
    if (window < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "local_window_size is %lld, expected at least 1: sliding_window_cache is 1",
                (long long)window);
    if (nc_contrib_in(n, NC_GQ_PAST_K) == NULL)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_key is absent, expected one: sliding_window_cache is 1");
    if (have != NULL && nc_dim_is_const(have, &rows) && rows < window)
        NC_FAIL(c->w, NC_E_SHAPE, "past_key has %lld rows, expected at least local_window_size, %lld", (long long)rows,
                (long long)window);
    if (nc_attr_int(n, "qk_output") != 0 || nc_contrib_wants(n, 3))
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "qk_output is wanted, expected none: sliding_window_cache is 1");
    return NC_OK;
}

nc_code nc_gq_check_cache(nc_infer *c) {
    NC_TRY(check_codes(c));
    NC_TRY(check_types(c));
    return check_window(c);
}

/* ---- codes ---- */

/* A Cast that knows float8, whatever the model's opset. */
static nc_value *cast(nc_builder *b, nc_value *x, nc_dtype to) {
    nc_attr attr = {.name = "to", .kind = NC_A_INT, .i = to};
    return nc_build_newest1(b, "Cast", &x, 1, &attr, 1);
}

/* x (...,D) as (...,D/2,2), or y (...,D/2,2) as (...,D). */
static nc_value *paired(nc_builder *b, nc_value *x, bool apart) {
    int rank = x->type->rank;
    nc_value *last = nc_contrib_size(b, x, apart ? rank - 1 : rank - 2), *two = one(b, 2);
    nc_value *half = nc_build1(b, "Div", 2, last, two), *both = nc_build1(b, "Mul", 2, last, two);
    nc_value *shape[3] = {nc_attn_dims(b, x, 0, apart ? rank - 1 : rank - 2), apart ? half : both, two};
    return nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, apart ? 3 : 2, 0));
}

/* Codes of 0 to 15 (...,D), two in a byte, the first in its low bits. */
static nc_value *packed(nc_builder *b, nc_value *x) {
    nc_attr how[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    nc_value *pairs = paired(b, x, true);
    nc_node *parts = nc_build(b, "", "Split", &pairs, 1, 2, how, 2);
    if (parts == NULL) return NULL;
    nc_value *high = nc_build1(b, "Mul", 2, parts->out[1], nc_build_scalar(b, NC_FLOAT, 16));
    return nc_build1(b, "Squeeze", 2, nc_build1(b, "Add", 2, parts->out[0], high), one(b, -1));
}

/* Bytes (...,D/2) as numbers -8 to 7 (...,D). */
static nc_value *unpacked(nc_builder *b, nc_value *codes) {
    nc_value *bytes = nc_build1(b, "Unsqueeze", 2, nc_build_cast(b, codes, NC_INT32), one(b, -1));
    nc_value *base = nc_build_scalar(b, NC_INT32, 16), *high = nc_build1(b, "Div", 2, bytes, base);
    nc_value *low = nc_build1(b, "Sub", 2, bytes, nc_build1(b, "Mul", 2, high, base));
    nc_value *all = nc_attn_join(b, (nc_value *[]){low, high}, 2, -1);
    if (b->code != NC_OK) return NULL;
    all = nc_build1(b, "Sub", 2, paired(b, all, false), nc_build_scalar(b, NC_INT32, 8));
    return nc_build_cast(b, all, NC_FLOAT);
}

/* x (B,heads,S,D) as elements of type t. */
static nc_value *coded(nc_builder *b, nc_value *x, nc_value *scale, nc_dtype t) {
    if (b->code != NC_OK) return NULL;
    nc_value *y = nc_build1(b, "Div", 2, nc_build_cast(b, x, NC_FLOAT), scale);
    if (t == NC_FLOAT8E4M3FN) {
        nc_value *most = nc_build_scalar(b, NC_FLOAT, 448), *least = nc_build_scalar(b, NC_FLOAT, -448);
        return cast(b, nc_build1(b, "Clip", 3, y, least, most), t);
    }
    bool small = t == NC_UINT8;
    y = nc_build1(b, "Clip", 3, nc_build1(b, "Round", 1, y), nc_build_scalar(b, NC_FLOAT, small ? -8 : -128),
                  nc_build_scalar(b, NC_FLOAT, small ? 7 : 127));
    if (small && b->code == NC_OK) y = packed(b, nc_build1(b, "Add", 2, y, nc_build_scalar(b, NC_FLOAT, 8)));
    return nc_build_cast(b, y, t);
}

static nc_value *decoded(nc_builder *b, nc_value *codes, nc_value *scale, nc_dtype to) {
    if (codes == NULL || b->code != NC_OK) return NULL;
    nc_value *x = codes->type->elem == NC_UINT8 ? unpacked(b, codes) : cast(b, codes, NC_FLOAT);
    return nc_build_cast(b, nc_build1(b, "Mul", 2, x, scale), to);
}

/* ---- windows ---- */

typedef struct window {
    nc_value *held;   /* (B): rows of the past that are held */
    nc_value *before; /* (B): positions before those */
    nc_value *rows;   /* (B,C): which rows of the room are held afterwards, then the last one, which is zeros */
    nc_value *room;   /* rank 1: rows in all, C + S + 1 */
} window;

/* L(T), for T (B). */
static nc_value *held_of(nc_builder *b, nc_value *T, nc_value *C, nc_value *G) {
    nc_value *over = nc_build1(b, "Max", 2, nc_build1(b, "Sub", 2, T, C), nc_build_int(b, 0));
    nc_value *up = nc_build1(b, "Add", 2, over, nc_build1(b, "Sub", 2, G, nc_build_int(b, 1)));
    return nc_build1(b, "Sub", 2, T, nc_build1(b, "Mul", 2, G, nc_build1(b, "Div", 2, up, G)));
}

static nc_value *counted(nc_builder *b, nc_value *n) {
    nc_value *scalar = nc_build1(b, "Squeeze", 2, n, one(b, 0));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

/* first (B) + 0, 1, ..., n - 1: (B,n). */
static nc_value *row_numbers(nc_builder *b, nc_value *first, nc_value *n) {
    return nc_build1(b, "Add", 2, nc_build1(b, "Unsqueeze", 2, first, one(b, 1)), counted(b, n));
}

static window window_of(nc_builder *b, const nc_node *n, const nc_gq_rows *r) {
    nc_value *C = nc_contrib_size(b, n->in[NC_GQ_PAST_K], 2), *S = nc_contrib_size(b, n->in[NC_GQ_QUERY], 1);
    nc_value *G = nc_build1(b, "Sub", 2, C, nc_build_int(b, nc_attr_int(n, "local_window_size") - 1));
    nc_value *lengths = nc_build1(b, "Reshape", 2, n->in[NC_GQ_LENGTHS], one(b, -1)),
             *last = nc_build1(b, "Add", 2, C, S);
    nc_value *end = nc_build1(b, "Add", 2, nc_build_cast(b, lengths, NC_INT64), nc_build_int(b, 1));
    window w = {.held = held_of(b, r->starts, C, G), .room = nc_build1(b, "Add", 2, last, nc_build_int(b, 1))};
    w.before = nc_build1(b, "Sub", 2, r->starts, w.held);
    nc_value *stay = held_of(b, end, C, G), *first = nc_build1(b, "Sub", 2, end, stay);
    w.rows = row_numbers(b, nc_build1(b, "Sub", 2, first, w.before), C);
    nc_value *some = nc_build1(b, "Less", 2, counted(b, C), nc_build1(b, "Unsqueeze", 2, stay, one(b, 1)));
    w.rows = nc_build1(b, "Where", 3, some, w.rows, last);
    return w;
}

/* Along `axis`, 2 or 3, of x (B,h,..,..) the places `at` (B,m) of each batch. */
static nc_value *taken(nc_builder *b, nc_value *x, nc_value *at, int64_t axis) {
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    const int64_t spread[2][2] = {{1, 3}, {1, 2}};
    nc_value *m = nc_contrib_size(b, at, 1);
    nc_value *shape[3] = {nc_attn_dims(b, x, 0, axis), m, axis == 2 ? nc_attn_dims(b, x, 3, 4) : NULL};
    nc_value *index = nc_build1(b, "Unsqueeze", 2, at, nc_build_ints(b, spread[axis - 2], 2));
    index = nc_build1(b, "Expand", 2, index, nc_attn_join(b, shape, axis == 2 ? 3 : 2, 0));
    nc_value *in[2] = {x, index};
    return nc_build_attr1(b, "", "GatherElements", in, 2, &attr, 1);
}

/* The bias (B or 1, H or 1, S, positions), for the rows of the room. */
static nc_value *windowed_bias(nc_builder *b, const nc_node *n, const window *w) {
    nc_value *bias = nc_contrib_in(n, NC_GQ_BIAS);
    if (bias == NULL || b->code != NC_OK) return bias;
    nc_value *shape[2] = {nc_contrib_size(b, w->held, 0), nc_build_ints(b, (int64_t[]){1, 1, 1}, 3)};
    bias = nc_build1(b, "Expand", 2, bias, nc_attn_join(b, shape, 2, 0));
    nc_value *last = nc_build1(b, "Sub", 2, nc_contrib_size(b, bias, 3), one(b, 1));
    return taken(b, bias, nc_build1(b, "Min", 2, row_numbers(b, w->before, w->room), last), 3);
}

/* ---- attention ---- */

static nc_value *sink_of(nc_builder *b, const nc_node *n, nc_dtype t) {
    int64_t heads = nc_attr_int(n, "num_heads");
    nc_value *given = nc_contrib_in(n, NC_GQ_SINK);
    if (given != NULL || nc_attr_int(n, "smooth_softmax") != 1) return given;
    return nc_build1(b, "Expand", 2, nc_build_scalar(b, t, 0), nc_build_ints(b, &heads, 1));
}

/* in: as nacre.CachedAttention has them. */
static nc_node *cached(nc_builder *b, const nc_node *n, nc_value *const *in) {
    int64_t size = nc_attr_int(n, "local_window_size");
    bool wanted[4] = {true, true, true, nc_contrib_wants(n, 3)};
    nc_attr attrs[7] = {{.name = "q_num_heads", .kind = NC_A_INT, .i = nc_attr_int(n, "num_heads")},
                        {.name = "kv_num_heads", .kind = NC_A_INT, .i = nc_attr_int(n, "kv_num_heads")},
                        {.name = "left_window_size", .kind = NC_A_INT, .i = size > 0 ? size - 1 : -1},
                        {.name = "is_causal", .kind = NC_A_INT, .i = nc_attr_int(n, "causal") != 0},
                        {.name = "scale", .kind = NC_A_FLOAT, .f = (float)nc_contrib_float(n, "scale", 0)},
                        {.name = "softcap", .kind = NC_A_FLOAT, .f = (float)nc_contrib_float(n, "softcap", 0)},
                        {.name = "mode", .kind = NC_A_INT, .i = nc_attr_int(n, "qk_output")}};
    return nc_build_wanted(b, "nacre", "CachedAttention", in, 9, wanted, 4, attrs, 7);
}

/* The codes of a cache: of the past, then of new rows, from row starts (B) on. total: rank 1. */
static nc_value *written(nc_builder *b, nc_value *past, nc_value *codes, nc_value *starts, nc_value *total) {
    nc_value *more = total, *room = past;
    if (past != NULL)
        more = nc_build1(b, "Max", 2, nc_build1(b, "Sub", 2, total, nc_contrib_size(b, past, 2)), nc_build_int(b, 0));
    if (b->code != NC_OK) return NULL;
    nc_value *shape[3] = {nc_attn_dims(b, codes, 0, 2), more, nc_attn_dims(b, codes, 3, 4)};
    nc_value *none = nc_build_scalar(b, codes->type->elem, 0);
    nc_value *zeros = nc_build1(b, "Expand", 2, none, nc_attn_join(b, shape, 3, 0));
    room = past != NULL ? nc_attn_join(b, (nc_value *[]){past, zeros}, 2, 2) : zeros;
    nc_value *in[3] = {room, codes, starts};
    return nc_build_newest1(b, "TensorScatter", in, 3, NULL, 0);
}

nc_code nc_gq_attend(nc_builder *b, const nc_node *n, nc_value *const *qkv, const nc_gq_rows *r, nc_value **out) {
    bool windowed = nc_gq_is_windowed(n), is_coded = nc_gq_is_coded(n);
    nc_dtype t = qkv[0]->type->elem, t_cache = nc_gq_cache_type(n, t);
    window w = {0};
    if (windowed) w = window_of(b, n, r);
    nc_value *starts = windowed ? w.held : r->starts, *codes[2] = {NULL, NULL};
    nc_value *total = windowed ? w.room : nc_build1(b, "Reshape", 2, r->total, one(b, 1));
    nc_value *in[9] = {qkv[0], qkv[1], qkv[2], starts, nc_build1(b, "Squeeze", 2, total, one(b, 0))};
    in[7] = windowed ? windowed_bias(b, n, &w) : nc_contrib_in(n, NC_GQ_BIAS);
    in[8] = sink_of(b, n, t);
    for (int i = 0; i < 2; i++) {
        nc_value *past = nc_contrib_in(n, NC_GQ_PAST_K + i), *scale = nc_contrib_in(n, NC_GQ_K_SCALE + i);
        in[5 + i] = is_coded ? decoded(b, past, scale, t) : past;
        if (!is_coded) continue;
        nc_value *rows = coded(b, nc_attn_to_heads(b, qkv[1 + i], nc_attr_int(n, "kv_num_heads")), scale, t_cache);
        in[1 + i] = nc_attn_from_heads(b, decoded(b, rows, scale, t));
        if (t_cache != NC_FLOAT8E4M3FN) codes[i] = written(b, past, rows, starts, total);
    }
    nc_node *done = cached(b, n, in);
    if (done == NULL) return b->code;
    for (int i = 0; i < n->n_out; i++) {
        if (!nc_contrib_wants(n, i)) continue;
        bool cache = i == 1 || i == 2;
        out[i] = cache && codes[i - 1] != NULL ? codes[i - 1] : done->out[i];
        if (cache && windowed) out[i] = taken(b, out[i], w.rows, 2);
        if (cache && is_coded && codes[i - 1] == NULL) out[i] = coded(b, out[i], n->in[NC_GQ_K_SCALE + i - 1], t_cache);
    }
    return b->code;
}
