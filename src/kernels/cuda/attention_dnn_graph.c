/* cuda/attention_dnn_graph.c: graphs of attention and its gradient for cuDNN, see attention_dnn_graph.h. cuDNN knows
 * attention as the operations it is made of; it finds a kernel for the whole, and what is virtual stays inside. Who is
 * not seen is told as NVIDIA's library of graphs tells it, step by step: its kernels know these steps again and leave
 * out tiles that nobody sees. */
#include "kernels/cuda/attention_dnn_graph.h"

#include <string.h>

enum { MAX_OPS = 48, VIRTUAL = NCK_ATTN_IDS };

typedef cudnnBackendDescriptor descriptor;

typedef struct drawing {
    nc_cuda_graph *g;
    const nck_attn_key *key;
    int n;
    int64_t next; /* the name of the next tensor that stays inside */
    descriptor ops[MAX_OPS];
    descriptor scale, lowest, n_queries, n_keys, keep, kept_by; /* keep: 1 where a share stays */
} drawing;

static int data_type(int64_t t) {
    return t == NC_FLOAT16 ? CUDNN_DATA_HALF : t == NC_BFLOAT16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static descriptor tensor(drawing *d, int64_t id, int type, const int64_t *dims, const int64_t *strides) {
    nc_cuda_dnn_tensor t = {.id = id, .type = type, .rank = 4, .is_virtual = id >= VIRTUAL};
    int64_t step = 1;
    for (int i = 3; i >= 0; step *= dims[i--]) t.dims[i] = dims[i], t.strides[i] = strides != NULL ? strides[i] : step;
    return nc_cuda_graph_tensor(d->g, &t);
}

static descriptor operand(drawing *d, int64_t id, int64_t heads, int64_t rows, int64_t cols, const int64_t *strides) {
    return tensor(d, id, data_type(d->key->type), (const int64_t[]){d->key->B, heads, rows, cols}, strides);
}

/* The same with rows for columns. */
static descriptor turned(drawing *d, int64_t id, int64_t heads, int64_t rows, int64_t cols, const int64_t *s) {
    return operand(d, id, heads, cols, rows, (const int64_t[]){s[0], s[1], s[3], s[2]});
}

static descriptor scalar(drawing *d, int64_t id, int type) {
    nc_cuda_dnn_tensor t = {
        .id = id, .type = type, .rank = 4, .dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .by_value = true};
    return nc_cuda_graph_tensor(d->g, &t);
}

static descriptor inner(drawing *d, int type, int64_t rows, int64_t cols) {
    const int64_t dims[4] = {d->key->B, d->key->Hq, rows, cols};
    return tensor(d, d->next++, type, dims, NULL);
}
static descriptor scores(drawing *d, int type) { return inner(d, type, d->key->S, d->key->T); }
static descriptor per_query(drawing *d) { return inner(d, CUDNN_DATA_FLOAT, d->key->S, 1); }

static void add(drawing *d, descriptor op) {
    if (d->n < MAX_OPS) d->ops[d->n++] = op;
}

static descriptor put(drawing *d, int mode, descriptor x, descriptor b, descriptor y) {
    add(d, nc_cuda_graph_pointwise(
               d->g, &(nc_cuda_dnn_formula){.mode = mode, .precision = CUDNN_DATA_FLOAT, .x = x, .b = b, .y = y}));
    return y;
}
static descriptor formula(drawing *d, int mode, descriptor x, descriptor b) {
    return put(d, mode, x, b, scores(d, CUDNN_DATA_FLOAT));
}

/* The place of a score along an axis. */
static descriptor place(drawing *d, descriptor like, int64_t axis, int precision) {
    descriptor y = scores(d, CUDNN_DATA_INT32);
    nc_cuda_dnn_formula f = {
        .mode = CUDNN_POINTWISE_GEN_INDEX, .precision = precision, .axis = axis, .x = like, .y = y};
    add(d, nc_cuda_graph_pointwise(d->g, &f));
    return y;
}

/* Places moved by a number of that type. */
static descriptor shift(drawing *d, int mode, descriptor x, descriptor by, int type) {
    descriptor y = scores(d, type);
    add(d, nc_cuda_graph_pointwise(d->g,
                                   &(nc_cuda_dnn_formula){.mode = mode, .precision = type, .x = x, .b = by, .y = y}));
    return y;
}

static descriptor judged(drawing *d, int mode, descriptor x, descriptor b) {
    descriptor y = scores(d, CUDNN_DATA_BOOLEAN);
    add(d, nc_cuda_graph_pointwise(
               d->g, &(nc_cuda_dnn_formula){.mode = mode, .precision = CUDNN_DATA_BOOLEAN, .x = x, .b = b, .y = y}));
    return y;
}

static descriptor where_seen(drawing *d, descriptor seen, descriptor s) {
    descriptor y = scores(d, CUDNN_DATA_FLOAT);
    add(d, nc_cuda_graph_pointwise(d->g, &(nc_cuda_dnn_formula){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                                .precision = CUDNN_DATA_FLOAT,
                                                                .x = s,
                                                                .b = d->lowest,
                                                                .t = seen,
                                                                .y = y}));
    return y;
}

/* Keys and queries behind the ends of their batches. */
static descriptor hide_padding(drawing *d, descriptor s) {
    descriptor row = place(d, s, 2, CUDNN_DATA_INT32), column = place(d, s, 3, CUDNN_DATA_INT32);
    row = judged(d, CUDNN_POINTWISE_CMP_LT, row, d->n_queries);
    column = judged(d, CUDNN_POINTWISE_CMP_LT, column, d->n_keys);
    return where_seen(d, judged(d, CUDNN_POINTWISE_LOGICAL_AND, row, column), s);
}

/* Keys behind a query's own place, or a bound behind that. */
static descriptor hide_later(drawing *d, descriptor s) {
    descriptor row = place(d, s, 2, CUDNN_DATA_FLOAT), column = place(d, s, 3, CUDNN_DATA_FLOAT);
    if (d->key->at_end) {
        row = shift(d, CUDNN_POINTWISE_ADD, row, d->n_keys, CUDNN_DATA_INT32);
        row = shift(d, CUDNN_POINTWISE_SUB, row, d->n_queries, CUDNN_DATA_INT32);
    }
    if (d->key->right == 2)
        row = shift(d, CUDNN_POINTWISE_ADD, row, scalar(d, NCK_ATTN_RIGHT, CUDNN_DATA_INT32), CUDNN_DATA_INT32);
    return where_seen(d, judged(d, CUDNN_POINTWISE_CMP_GE, row, column), s);
}

/* Keys before a bound; where sizes are the same for all batches, the difference of places is part of the bound. */
static descriptor hide_earlier(drawing *d, descriptor s) {
    descriptor row = place(d, s, 2, CUDNN_DATA_FLOAT), column = place(d, s, 3, CUDNN_DATA_FLOAT);
    bool apart = d->key->at_end && d->key->lens;
    int type = apart ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    column = shift(d, CUDNN_POINTWISE_ADD, column, scalar(d, NCK_ATTN_LEFT, type), type);
    if (apart) {
        column = shift(d, CUDNN_POINTWISE_SUB, column, d->n_keys, CUDNN_DATA_INT32);
        column = shift(d, CUDNN_POINTWISE_ADD, column, d->n_queries, CUDNN_DATA_INT32);
    }
    return where_seen(d, judged(d, CUDNN_POINTWISE_CMP_GT, column, row), s);
}

static descriptor hidden(drawing *d, descriptor s) {
    if (d->key->lens) s = hide_padding(d, s);
    if (d->key->right) s = hide_later(d, s);
    return d->key->left ? hide_earlier(d, s) : s;
}

static descriptor capped(drawing *d, descriptor s) {
    descriptor cap = scalar(d, NCK_ATTN_CAP, CUDNN_DATA_FLOAT);
    s = formula(d, CUDNN_POINTWISE_TANH_FWD, formula(d, CUDNN_POINTWISE_DIV, s, cap), NULL);
    return formula(d, CUDNN_POINTWISE_MUL, s, cap);
}

/* The cap of scale * Q K', + mask */
static descriptor scaled_scores(drawing *d, descriptor q, descriptor kt) {
    const nck_attn_key *key = d->key;
    descriptor s = scores(d, CUDNN_DATA_FLOAT);
    nc_cuda_dnn_product p = {.a = q, .b = kt, .c = s};
    if (key->lens) p.m = d->n_queries, p.n = d->n_keys, p.pads = true;
    add(d, nc_cuda_graph_product(d->g, &p));
    s = formula(d, CUDNN_POINTWISE_MUL, s, d->scale);
    if (key->capped) s = capped(d, s);
    if (key->mask != NC_UNDEFINED)
        s = formula(d, CUDNN_POINTWISE_ADD, s,
                    tensor(d, NCK_ATTN_BIAS, data_type(key->mask), key->mask_dims, key->mask_strides));
    return s;
}

static descriptor reduced(drawing *d, int reduction, descriptor x) {
    descriptor y = per_query(d);
    add(d, nc_cuda_graph_reduce(d->g, reduction, x, y));
    return y;
}

/* Who stays, and by what it is multiplied. */
static void begin_drops(drawing *d) {
    const int64_t one[4] = {1, 1, 1, 1}, all[4] = {d->key->B, d->key->Hq, d->key->S, d->key->T};
    d->kept_by = scalar(d, NCK_ATTN_KEPT_BY, CUDNN_DATA_FLOAT);
    if (d->key->drops == 1) {
        d->keep = tensor(d, NCK_ATTN_KEEP, data_type(d->key->type), all, NULL);
        return;
    }
    double ratio;
    memcpy(&ratio, &d->key->ratio, sizeof ratio);
    d->keep = scores(d, CUDNN_DATA_FLOAT);
    add(d, nc_cuda_graph_draw(d->g, 1 - ratio, tensor(d, NCK_ATTN_SEED, CUDNN_DATA_INT64, one, NULL),
                              tensor(d, NCK_ATTN_OFFSET, CUDNN_DATA_INT64, one, NULL), d->keep));
}

/* Shares as values meet them. */
static descriptor dropped(drawing *d, descriptor shares, int type) {
    return put(d, CUDNN_POINTWISE_MUL, formula(d, CUDNN_POINTWISE_MUL, shares, d->keep), d->kept_by, scores(d, type));
}

/* Of all batches, or of each. */
static descriptor count(drawing *d, int64_t id) {
    const int64_t dims[4] = {d->key->B, 1, 1, 1};
    return d->key->lens ? tensor(d, id, CUDNN_DATA_INT32, dims, NULL) : scalar(d, id, CUDNN_DATA_INT32);
}

static drawing begin(nc_cuda_graph *g, const nck_attn_key *key) {
    drawing d = {.g = g, .key = key, .next = VIRTUAL};
    d.scale = scalar(&d, NCK_ATTN_SCALE, CUDNN_DATA_FLOAT);
    if (key->lens || key->right || key->left) d.lowest = scalar(&d, NCK_ATTN_LOWEST, CUDNN_DATA_FLOAT);
    if (key->lens || (key->at_end && key->right))
        d.n_queries = count(&d, NCK_ATTN_N_QUERIES), d.n_keys = count(&d, NCK_ATTN_N_KEYS);
    if (key->drops) begin_drops(&d);
    return d;
}

descriptor nck_attn_describe_forward(nc_cuda_graph *g, const void *bytes) {
    const nck_attn_key *key = bytes;
    const int64_t stats_dims[4] = {key->B, key->Hq, key->S, 1};
    drawing d = begin(g, key);
    descriptor q = operand(&d, NCK_ATTN_Q, key->Hq, key->S, key->D, key->q);
    descriptor kt = turned(&d, NCK_ATTN_K, key->Hkv, key->T, key->D, key->k);
    descriptor s = hidden(&d, scaled_scores(&d, q, kt));
    descriptor top = reduced(&d, CUDNN_REDUCE_MAX, s);
    descriptor powers = formula(&d, CUDNN_POINTWISE_EXP, formula(&d, CUDNN_POINTWISE_SUB, s, top), NULL);
    descriptor sum = reduced(&d, CUDNN_REDUCE_ADD, powers);
    descriptor log = put(&d, CUDNN_POINTWISE_LOG, sum, NULL, per_query(&d));
    put(&d, CUDNN_POINTWISE_ADD, top, log,
        tensor(&d, key->stats ? NCK_ATTN_STATS : d.next++, CUDNN_DATA_FLOAT, stats_dims, NULL));
    int type = data_type(key->type);
    descriptor shares = put(&d, CUDNN_POINTWISE_DIV, powers, sum, scores(&d, key->drops ? CUDNN_DATA_FLOAT : type));
    if (key->drops) shares = dropped(&d, shares, type);
    nc_cuda_dnn_product p = {.a = shares,
                             .b = operand(&d, NCK_ATTN_V, key->Hkv, key->T, key->Dv, key->v),
                             .c = operand(&d, NCK_ATTN_Y, key->Hq, key->S, key->Dv, key->y)};
    if (key->lens) p.m = d.n_queries, p.k = d.n_keys;
    add(&d, nc_cuda_graph_product(g, &p));
    return nc_cuda_graph_of(g, d.ops, d.n);
}

static void product(drawing *d, descriptor a, descriptor b, descriptor c) {
    add(d, nc_cuda_graph_product(d->g, &(nc_cuda_dnn_product){.a = a, .b = b, .c = c}));
}

/* x' y summed over the heads that share one of keys. */
static void of_keys(drawing *d, descriptor x, descriptor y, int64_t id, int64_t cols, const int64_t *strides) {
    const nck_attn_key *key = d->key;
    const int64_t dims[4] = {key->B, key->Hq, key->T, key->S};
    const int64_t back[4] = {key->Hq * key->S * key->T, key->S * key->T, 1, key->T};
    descriptor xt = tensor(d, d->next++, data_type(key->type), dims, back);
    descriptor to = operand(d, id, key->Hkv, key->T, cols, strides);
    add(d, nc_cuda_graph_reshape(d->g, x, xt));
    if (key->Hq == key->Hkv) {
        product(d, xt, y, to);
        return;
    }
    descriptor all = inner(d, data_type(key->type), key->T, cols);
    product(d, xt, y, all);
    add(d, nc_cuda_graph_reduce(d->g, CUDNN_REDUCE_ADD, all, to));
}

/* The sum of dY * Y of each query. */
static descriptor sums_of(drawing *d, descriptor dy) {
    const nck_attn_key *key = d->key;
    const int64_t dims[4] = {key->B, key->Hq, key->S, 1};
    descriptor y = operand(d, NCK_ATTN_Y, key->Hq, key->S, key->Dv, key->y);
    descriptor both = put(d, CUDNN_POINTWISE_MUL, dy, y, inner(d, CUDNN_DATA_FLOAT, key->S, key->Dv));
    return put(d, CUDNN_POINTWISE_MUL, reduced(d, CUDNN_REDUCE_ADD, both), scalar(d, NCK_ATTN_ONE, CUDNN_DATA_FLOAT),
               tensor(d, NCK_ATTN_SUMS, CUDNN_DATA_FLOAT, dims, NULL));
}

/* Of the scores before they were scaled; ds: of what is left of the shares. With dropout in the form that cuDNN is told
 * of by NVIDIA's library of graphs (`left * ds - shares * sums` gave wrong numbers): the sums come multiplied by the
 * part that stays. On an H200 (9.14) that is done for cuDNN's own draws alone; so a mask has what shares are multiplied
 * by, as its type holds it, in the place of 1, the sums stay as they are, and kept_by is what rounding took. */
static descriptor scores_grad(drawing *d, descriptor ds, descriptor shares, descriptor sums) {
    if (d->key->drops) ds = formula(d, CUDNN_POINTWISE_MUL, ds, d->keep);
    ds = formula(d, CUDNN_POINTWISE_MUL, formula(d, CUDNN_POINTWISE_SUB, ds, sums), shares);
    return d->key->drops ? formula(d, CUDNN_POINTWISE_MUL, ds, d->kept_by) : ds;
}

/* The gradient of the scores is written out whole, so that no sum has to be joined in the order of arrival. */
descriptor nck_attn_describe_back(nc_cuda_graph *g, const void *bytes) {
    const nck_attn_key *key = bytes;
    const int64_t stats_dims[4] = {key->B, key->Hq, key->S, 1};
    drawing d = begin(g, key);
    descriptor q = operand(&d, NCK_ATTN_Q, key->Hq, key->S, key->D, key->q),
               dy = operand(&d, NCK_ATTN_DY, key->Hq, key->S, key->Dv, key->dy);
    descriptor kt = turned(&d, NCK_ATTN_K, key->Hkv, key->T, key->D, key->k);
    descriptor vt = turned(&d, NCK_ATTN_V, key->Hkv, key->T, key->Dv, key->v);
    descriptor sums = sums_of(&d, dy);
    descriptor s = scaled_scores(&d, q, kt);
    s = formula(&d, CUDNN_POINTWISE_SUB, s, tensor(&d, NCK_ATTN_STATS, CUDNN_DATA_FLOAT, stats_dims, NULL));
    s = hidden(&d, s);
    descriptor shares = formula(&d, CUDNN_POINTWISE_EXP, s, NULL);
    descriptor left = key->drops ? dropped(&d, shares, CUDNN_DATA_FLOAT) : shares;
    of_keys(&d, left, dy, NCK_ATTN_DV, key->Dv, key->dv);
    descriptor ds = scores(&d, CUDNN_DATA_FLOAT);
    product(&d, dy, vt, ds);
    ds = formula(&d, CUDNN_POINTWISE_MUL, scores_grad(&d, ds, shares, sums), d.scale);
    of_keys(&d, ds, q, NCK_ATTN_DK, key->D, key->dk);
    descriptor k = operand(&d, d.next++, key->Hkv, key->T, key->D, key->k);
    add(&d, nc_cuda_graph_reshape(g, kt, k));
    product(&d, ds, k, operand(&d, NCK_ATTN_DQ, key->Hq, key->S, key->D, key->dq));
    return nc_cuda_graph_of(g, d.ops, d.n);
}
