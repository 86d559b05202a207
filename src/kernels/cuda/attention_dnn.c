/* cuda/attention_dnn.c: graphs of attention and its gradient for cuDNN, see attention_dnn.h. cuDNN knows attention as
 * the operations it is made of; it finds a kernel for the whole, and what is virtual stays inside. */
#include "kernels/cuda/attention_dnn.h"

#include "base/intmath.h"
#include "device/cuda_dnn.h"

#include <math.h>
#include <string.h>

enum {
    Q = 1,
    K,
    V,
    Y,
    STATS,
    BIAS,
    SCALE,
    LOWEST,
    N_QUERIES,
    N_KEYS,
    DY,
    DQ,
    DK,
    DV,
    SUMS,
    ONE,
    KEEP,
    KEPT_BY,
    SEED,
    OFFSET,
    VIRTUAL
};
enum { MAX_OPS = 40, LEAST_SCORES = 1 << 16, STEP = 128, ALIGNMENT = 256, THREADS = 256 };
static const int64_t most_scores = (int64_t)5 << 28; /* elements of a workspace that holds gradients of scores */
static const int64_t slack = 16 << 20;               /* of cuDNN's own workspaces */

/* What a plan is kept by: whole numbers only, so that its bytes can be compared. Strides: batch, head, row, column. */
typedef struct attn_key {
    int64_t back, type, mask, stats, causal, at_end; /* at_end: the last query sees the last key */
    int64_t drops, ratio; /* 1: by a mask that is given, 2: by cuDNN's own; the bits of a double */
    int64_t B, Hq, Hkv, S, T, D, Dv;
    int64_t q[4], k[4], v[4], y[4], dy[4], dq[4], dk[4], dv[4], mask_dims[4], mask_strides[4];
} attn_key;

/* ---- the key ---- */

/* Rows of 16 bytes, side by side; false: cuDNN cannot take it. */
static bool strides_of(const nck_cuda_attn_operand *o, int64_t *out) {
    out[0] = o->batch, out[1] = o->head, out[2] = o->row, out[3] = o->column;
    return o->column == 1 && (o->batch | o->head | o->row) % 8 == 0 && o->row > 0 &&
           (uintptr_t)o->data % NC_CUDA_DNN_ALIGNMENT == 0;
}

static bool mask_of(nc_dtype mask, nc_dtype t, const nck_cuda_attn_args *a, attn_key *key) {
    const int64_t dims[4] = {a->n_batch, a->q_heads, a->n_queries, a->n_keys};
    if (a->mask == NULL) return true;
    if ((mask != t && mask != NC_FLOAT) || a->mask_cols != a->n_keys || a->mask_strides[3] != 1) return false;
    if ((uintptr_t)a->mask % NC_CUDA_DNN_ALIGNMENT != 0) return false;
    key->mask = mask;
    int64_t step = 1;
    for (int i = 3; i >= 0; i--) {
        key->mask_dims[i] = a->mask_strides[i] != 0 ? dims[i] : 1;
        key->mask_strides[i] = a->mask_strides[i] != 0 ? a->mask_strides[i] : step;
        step = key->mask_strides[i] * key->mask_dims[i];
    }
    return true;
}

static int64_t rounded(int64_t n) { return nc_ceil_div(n, STEP) * STEP; }
static int64_t n_scores(const nck_cuda_attn_args *a) {
    return a->n_batch * a->q_heads * rounded(a->n_queries) * rounded(a->n_keys);
}

/* The numbers of keys and scores are such that there is a gradient. */
static bool fits_back(const nck_cuda_attn_args *a) { return a->n_keys % STEP == 0 && n_scores(a) <= most_scores; }
static const char no_way_back[] = "a number of keys that is no multiple of 128, many scores, or few results wanted";

/* NULL, or why cuDNN is not asked. */
static const char *key_of(nc_dtype t, nc_dtype mask, const nck_cuda_attn_args *a, attn_key *key) {
    memset(key, 0, sizeof *key);
    key->type = t, key->stats = a->stats != NULL, key->causal = a->causal;
    key->B = a->n_batch, key->Hq = a->q_heads, key->Hkv = a->kv_heads;
    key->S = a->n_queries, key->T = a->n_keys, key->D = a->cols, key->Dv = a->cols_v;
    if (t != NC_FLOAT16 && t != NC_BFLOAT16) return "it computes float16 and bfloat16 alone";
    if (a->drop.state != NULL) {
        key->drops = a->drop.keep != NULL ? 1 : a->drop.pair != NULL ? 2 : 0;
        if (!key->drops || !(a->drop.ratio < 1)) return "dropout of many scores, or of all";
        if (key->drops == 2) memcpy(&key->ratio, &a->drop.ratio, sizeof key->ratio);
        if (key->drops == 2 && !fits_back(a)) return no_way_back; /* what it draws nobody else knows */
    }
    if (a->softcap > 0) return "the scores have a cap";
    if (a->left >= 0 || a->right >= 0) return "a window";
    if (a->kv_lens != NULL) return "lengths of the keys";
    if (key->D < 8 || key->Dv < 8 || key->D % 8 != 0 || key->Dv % 8 != 0) return "columns that are no multiple of 8";
    if (key->B < 1 || key->S < 2 || key->T < 2 || key->S * key->T < LEAST_SCORES) return "few scores";
    if (key->causal && a->offset != 0) {
        if (a->offset != key->T - key->S || a->offset < 0) return "causal queries that end before the keys do";
        key->at_end = 1;
    }
    if (!strides_of(&a->q, key->q) || !strides_of(&a->k, key->k) || !strides_of(&a->v, key->v) ||
        !strides_of(&a->y, key->y))
        return "rows that do not lie on 16 bytes";
    return mask_of(mask, t, a, key) ? NULL : "a mask of bools, of another type or of fewer columns";
}

/* ---- the graph ---- */

typedef cudnnBackendDescriptor descriptor;

typedef struct drawing {
    nc_cuda_graph *g;
    const attn_key *key;
    int n;
    int64_t next; /* the name of the next tensor that stays inside */
    descriptor ops[MAX_OPS];
    descriptor scale, lowest, keep, kept_by; /* keep: 1 where a share stays */
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

static descriptor place(drawing *d, descriptor like, int64_t axis) {
    descriptor y = scores(d, CUDNN_DATA_INT32);
    add(d, nc_cuda_graph_pointwise(
               d->g,
               &(nc_cuda_dnn_formula){
                   .mode = CUDNN_POINTWISE_GEN_INDEX, .precision = CUDNN_DATA_FLOAT, .axis = axis, .x = like, .y = y}));
    return y;
}

static descriptor shift(drawing *d, int mode, descriptor x, int64_t id) {
    descriptor y = scores(d, CUDNN_DATA_INT32), by = scalar(d, id, CUDNN_DATA_INT32);
    add(d, nc_cuda_graph_pointwise(
               d->g, &(nc_cuda_dnn_formula){.mode = mode, .precision = CUDNN_DATA_INT32, .x = x, .b = by, .y = y}));
    return y;
}

/* Keys behind a query's own place are not seen. */
static descriptor hide_later(drawing *d, descriptor s) {
    descriptor row = place(d, s, 2), column = place(d, s, 3);
    if (d->key->at_end) {
        row = shift(d, CUDNN_POINTWISE_ADD, row, N_KEYS);
        row = shift(d, CUDNN_POINTWISE_SUB, row, N_QUERIES);
    }
    descriptor seen = scores(d, CUDNN_DATA_BOOLEAN), y = scores(d, CUDNN_DATA_FLOAT);
    add(d, nc_cuda_graph_pointwise(
               d->g,
               &(nc_cuda_dnn_formula){
                   .mode = CUDNN_POINTWISE_CMP_GE, .precision = CUDNN_DATA_BOOLEAN, .x = row, .b = column, .y = seen}));
    add(d, nc_cuda_graph_pointwise(d->g, &(nc_cuda_dnn_formula){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                                .precision = CUDNN_DATA_FLOAT,
                                                                .x = s,
                                                                .b = d->lowest,
                                                                .t = seen,
                                                                .y = y}));
    return y;
}

/* scale * Q K' + mask */
static descriptor scaled_scores(drawing *d, descriptor q, descriptor kt) {
    const attn_key *key = d->key;
    descriptor s = scores(d, CUDNN_DATA_FLOAT);
    add(d, nc_cuda_graph_product(d->g, q, kt, s));
    s = formula(d, CUDNN_POINTWISE_MUL, s, d->scale);
    if (key->mask != NC_UNDEFINED)
        s = formula(d, CUDNN_POINTWISE_ADD, s,
                    tensor(d, BIAS, data_type(key->mask), key->mask_dims, key->mask_strides));
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
    d->kept_by = scalar(d, KEPT_BY, CUDNN_DATA_FLOAT);
    if (d->key->drops == 1) {
        d->keep = tensor(d, KEEP, data_type(d->key->type), all, NULL);
        return;
    }
    double ratio;
    memcpy(&ratio, &d->key->ratio, sizeof ratio);
    d->keep = scores(d, CUDNN_DATA_FLOAT);
    add(d, nc_cuda_graph_draw(d->g, 1 - ratio, tensor(d, SEED, CUDNN_DATA_INT64, one, NULL),
                              tensor(d, OFFSET, CUDNN_DATA_INT64, one, NULL), d->keep));
}

/* Shares as values meet them. */
static descriptor dropped(drawing *d, descriptor shares, int type) {
    return put(d, CUDNN_POINTWISE_MUL, formula(d, CUDNN_POINTWISE_MUL, shares, d->keep), d->kept_by, scores(d, type));
}

static drawing begin(nc_cuda_graph *g, const attn_key *key) {
    drawing d = {.g = g, .key = key, .next = VIRTUAL};
    d.scale = scalar(&d, SCALE, CUDNN_DATA_FLOAT);
    if (key->causal) d.lowest = scalar(&d, LOWEST, CUDNN_DATA_FLOAT);
    if (key->drops) begin_drops(&d);
    return d;
}

static descriptor describe_forward(nc_cuda_graph *g, const void *bytes) {
    const attn_key *key = bytes;
    const int64_t stats_dims[4] = {key->B, key->Hq, key->S, 1};
    drawing d = begin(g, key);
    descriptor q = operand(&d, Q, key->Hq, key->S, key->D, key->q);
    descriptor kt = turned(&d, K, key->Hkv, key->T, key->D, key->k);
    descriptor s = scaled_scores(&d, q, kt);
    if (key->causal) s = hide_later(&d, s);
    descriptor top = reduced(&d, CUDNN_REDUCE_MAX, s);
    descriptor powers = formula(&d, CUDNN_POINTWISE_EXP, formula(&d, CUDNN_POINTWISE_SUB, s, top), NULL);
    descriptor sum = reduced(&d, CUDNN_REDUCE_ADD, powers);
    descriptor log = put(&d, CUDNN_POINTWISE_LOG, sum, NULL, per_query(&d));
    put(&d, CUDNN_POINTWISE_ADD, top, log,
        tensor(&d, key->stats ? STATS : d.next++, CUDNN_DATA_FLOAT, stats_dims, NULL));
    int type = data_type(key->type);
    descriptor shares = put(&d, CUDNN_POINTWISE_DIV, powers, sum, scores(&d, key->drops ? CUDNN_DATA_FLOAT : type));
    if (key->drops) shares = dropped(&d, shares, type);
    add(&d, nc_cuda_graph_product(g, shares, operand(&d, V, key->Hkv, key->T, key->Dv, key->v),
                                  operand(&d, Y, key->Hq, key->S, key->Dv, key->y)));
    return nc_cuda_graph_of(g, d.ops, d.n);
}

/* x' y summed over the heads that share one of keys. */
static void of_keys(drawing *d, descriptor x, descriptor y, int64_t id, int64_t cols, const int64_t *strides) {
    const attn_key *key = d->key;
    const int64_t dims[4] = {key->B, key->Hq, key->T, key->S};
    const int64_t back[4] = {key->Hq * key->S * key->T, key->S * key->T, 1, key->T};
    descriptor xt = tensor(d, d->next++, data_type(key->type), dims, back);
    descriptor to = operand(d, id, key->Hkv, key->T, cols, strides);
    add(d, nc_cuda_graph_reshape(d->g, x, xt));
    if (key->Hq == key->Hkv) {
        add(d, nc_cuda_graph_product(d->g, xt, y, to));
        return;
    }
    descriptor all = inner(d, data_type(key->type), key->T, cols);
    add(d, nc_cuda_graph_product(d->g, xt, y, all));
    add(d, nc_cuda_graph_reduce(d->g, CUDNN_REDUCE_ADD, all, to));
}

/* The sum of dY * Y of each query. */
static descriptor sums_of(drawing *d, descriptor dy) {
    const attn_key *key = d->key;
    const int64_t dims[4] = {key->B, key->Hq, key->S, 1};
    descriptor y = operand(d, Y, key->Hq, key->S, key->Dv, key->y);
    descriptor both = put(d, CUDNN_POINTWISE_MUL, dy, y, inner(d, CUDNN_DATA_FLOAT, key->S, key->Dv));
    return put(d, CUDNN_POINTWISE_MUL, reduced(d, CUDNN_REDUCE_ADD, both), scalar(d, ONE, CUDNN_DATA_FLOAT),
               tensor(d, SUMS, CUDNN_DATA_FLOAT, dims, NULL));
}

/* Of the scores before they were scaled; ds: of what is left of the shares. cuDNN's own draws in the form that it is
 * told of by NVIDIA's library of graphs, where the sums come multiplied by the part that stays. */
static descriptor scores_grad(drawing *d, descriptor ds, descriptor shares, descriptor sums) {
    if (d->key->drops == 2) ds = formula(d, CUDNN_POINTWISE_MUL, ds, d->keep);
    ds = formula(d, CUDNN_POINTWISE_MUL, formula(d, CUDNN_POINTWISE_SUB, ds, sums), shares);
    return d->key->drops == 2 ? formula(d, CUDNN_POINTWISE_MUL, ds, d->kept_by) : ds;
}

/* The gradient of the scores is written out whole, so that no sum has to be joined in the order of arrival. */
static descriptor describe_back(nc_cuda_graph *g, const void *bytes) {
    const attn_key *key = bytes;
    const int64_t stats_dims[4] = {key->B, key->Hq, key->S, 1};
    drawing d = begin(g, key);
    descriptor q = operand(&d, Q, key->Hq, key->S, key->D, key->q),
               dy = operand(&d, DY, key->Hq, key->S, key->Dv, key->dy);
    descriptor kt = turned(&d, K, key->Hkv, key->T, key->D, key->k);
    descriptor vt = turned(&d, V, key->Hkv, key->T, key->Dv, key->v);
    descriptor sums = sums_of(&d, dy);
    descriptor s = scaled_scores(&d, q, kt);
    s = formula(&d, CUDNN_POINTWISE_SUB, s, tensor(&d, STATS, CUDNN_DATA_FLOAT, stats_dims, NULL));
    if (key->causal) s = hide_later(&d, s);
    descriptor shares = formula(&d, CUDNN_POINTWISE_EXP, s, NULL);
    descriptor left = key->drops ? dropped(&d, shares, CUDNN_DATA_FLOAT) : shares;
    of_keys(&d, left, dy, DV, key->Dv, key->dv);
    descriptor ds = scores(&d, CUDNN_DATA_FLOAT);
    add(&d, nc_cuda_graph_product(g, dy, vt, ds));
    ds = formula(&d, CUDNN_POINTWISE_MUL, scores_grad(&d, ds, shares, sums), d.scale);
    of_keys(&d, ds, q, DK, key->D, key->dk);
    descriptor k = operand(&d, d.next++, key->Hkv, key->T, key->D, key->k);
    add(&d, nc_cuda_graph_reshape(g, kt, k));
    add(&d, nc_cuda_graph_product(g, ds, k, operand(&d, DQ, key->Hq, key->S, key->D, key->dq)));
    return nc_cuda_graph_of(g, d.ops, d.n);
}

/* ---- the run ---- */

/* What plans read from the host while they are queued. */
typedef struct numbers {
    float scale, lowest, one, kept_by; /* one: with cuDNN's own draws the part of shares that stays */
    int32_t n_queries, n_keys;
} numbers;

static numbers numbers_of(const nck_cuda_attn_args *a) {
    return (numbers){.scale = (float)a->scale,
                     .lowest = -INFINITY,
                     .one = a->drop.pair != NULL ? (float)(1 - a->drop.ratio) : 1,
                     .kept_by = (float)a->drop.by,
                     .n_queries = (int32_t)a->n_queries,
                     .n_keys = (int32_t)a->n_keys};
}

static void give(nc_cuda_dnn_call *c, int64_t id, const void *p) {
    c->id[c->n] = id;
    c->data[c->n++] = (void *)(uintptr_t)p;
}

static nc_cuda_dnn_call call_of(const attn_key *key, const nck_cuda_attn_args *a, const numbers *n) {
    nc_cuda_dnn_call c = {.key = key,
                          .bytes_key = sizeof *key,
                          .what = key->back ? "attention's gradient" : "attention",
                          .describe = key->back ? describe_back : describe_forward,
                          .any_engine = true};
    give(&c, Q, a->q.data), give(&c, K, a->k.data), give(&c, V, a->v.data), give(&c, Y, a->y.data);
    give(&c, SCALE, &n->scale);
    if (key->mask != NC_UNDEFINED) give(&c, BIAS, a->mask);
    if (key->stats) give(&c, STATS, a->stats);
    if (key->causal) give(&c, LOWEST, &n->lowest);
    if (key->drops) give(&c, KEPT_BY, &n->kept_by);
    if (key->drops == 1) give(&c, KEEP, a->drop.keep);
    if (key->drops == 2) give(&c, SEED, a->drop.pair), give(&c, OFFSET, a->drop.pair + 2);
    if (key->at_end) give(&c, N_QUERIES, &n->n_queries), give(&c, N_KEYS, &n->n_keys);
    return c;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

const char nck_cuda_attn_dnn_drew[] = "cuDNN dropped shares, and has no gradient of that for these results";
static const char no_dnn[] = "it is not there", no_plan[] = "it has no engine for this, or failed";

/* A number for each share, where they are not too many, or a pair. */
size_t nck_cuda_attn_dnn_room(const nck_cuda_attn *k, const nck_cuda_attn_args *a) {
    int64_t n = a->n_batch * a->q_heads * a->n_queries * a->n_keys;
    bool asked = k->draw != NULL && a->n_queries * a->n_keys >= LEAST_SCORES && n <= most_scores && n % 8 == 0;
    return !asked ? 0 : k->dnn_draws ? ALIGNMENT : aligned((size_t)n * 2);
}

/* `room` is where it will be told who stays. */
static void expect_draw(const nck_cuda_attn *k, void *room, nck_cuda_attn_drop *d) {
    if (k->dnn_draws)
        d->pair = room;
    else
        d->keep = room;
}

/* false: the launch failed. */
static bool draw(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_args *a, void *room) {
    nck_cuda_attn_drop d = a->drop;
    int64_t n = a->n_batch * a->q_heads * a->n_queries * a->n_keys;
    void *args[] = {&n, &d.state, &d.node, &d.limit, &room}, *of_pair[] = {&d.state, &d.node, &room};
    nc_code code = k->dnn_draws
                       ? nck_cuda_launch(at, k->draw, 1, 1, of_pair)
                       : nck_cuda_launch(at, k->draw, nck_cuda_blocks(at.device, n / 8, THREADS), THREADS, args);
    return code == NC_OK;
}

const char *nck_cuda_attn_dnn_run(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_args *args, void *room) {
    nc_cuda *cuda = nc_device_cuda(at.device);
    nck_cuda_attn_args a = *args;
    attn_key key;
    bool draws = room != NULL && a.drop.state != NULL && nck_cuda_attn_dnn_room(k, &a) > 0;
    if (draws) expect_draw(k, room, &a.drop);
    const char *why = key_of(k->type, k->mask, &a, &key);
    if (why != NULL || cuda == NULL || cuda->dnn == NULL) return why != NULL ? why : no_dnn;
    if (draws && !draw(at, k, &a, room)) return no_plan;
    numbers n = numbers_of(&a);
    nc_cuda_dnn_call c = call_of(&key, &a, &n);
    bool done = nc_cuda_dnn_run(cuda->dnn, &c, nc_cuda_workspace(at.device, at.stream), NC_CUDA_WORKSPACE,
                                nc_cuda_stream(at.stream));
    return done ? NULL : no_plan;
}

/* Y, a number per query twice, and cuDNN's own: gradients of scores, and of keys and values for every head. */
static size_t bytes_result(const nck_cuda_attn_args *a) {
    return aligned((size_t)(a->n_batch * a->q_heads * a->n_queries * a->cols_v) * 2);
}
static size_t bytes_numbers(const nck_cuda_attn_args *a) {
    return aligned((size_t)(a->n_batch * a->q_heads * a->n_queries) * sizeof(float));
}
static size_t bytes_plan(const nck_cuda_attn_args *a) {
    int64_t heads = a->n_batch * a->q_heads * rounded(a->n_keys) * (a->cols + a->cols_v);
    return (size_t)(2 * nc_min64(n_scores(a), most_scores) + 4 * heads + slack);
}

static size_t bytes_before_room(const nck_cuda_attn_args *a) {
    return bytes_result(a) + 2 * bytes_numbers(a) + aligned(bytes_plan(a));
}

size_t nck_cuda_attn_dnn_grad_workspace(const nck_cuda_attn *k, const nck_cuda_attn_args *a) {
    bool is_half = k->type == NC_FLOAT16 || k->type == NC_BFLOAT16;
    if (!is_half || a->n_queries * a->n_keys < LEAST_SCORES) return 0;
    return bytes_before_room(a) + nck_cuda_attn_dnn_room(k, a);
}

static bool takes_back(const nck_cuda_attn_grad_args *g, attn_key *key) {
    key->back = 1;
    return fits_back(&g->a) && g->dq.data != NULL && g->dk.data != NULL && g->dv.data != NULL &&
           strides_of(&g->dy, key->dy) && strides_of(&g->dq, key->dq) && strides_of(&g->dk, key->dk) &&
           strides_of(&g->dv, key->dv);
}

/* Y and the statistics are there as cuDNN's forward pass left them. */
static bool is_kept(nc_cuda_dnn *dnn, const nck_cuda_attn *k, const nck_cuda_attn_args *a, const numbers *n) {
    attn_key key;
    if (a->y.data == NULL || a->stats == NULL || key_of(k->type, k->mask, a, &key) != NULL) return false;
    nc_cuda_dnn_call c = call_of(&key, a, n);
    return nc_cuda_dnn_knows(dnn, &c);
}

const char *nck_cuda_attn_dnn_grad_run(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_grad_args *g,
                                       void *workspace) {
    nc_cuda *cuda = nc_device_cuda(at.device);
    nck_cuda_attn_args a = g->a;
    int64_t S = a.n_queries, H = a.q_heads;
    attn_key key;
    if (cuda == NULL || cuda->dnn == NULL) return no_dnn;
    bool draws = a.drop.state != NULL && nck_cuda_attn_dnn_room(k, &a) > 0;
    char *room = (char *)workspace + bytes_before_room(&a);
    if (draws) expect_draw(k, room, &a.drop);
    numbers n = numbers_of(&a);
    bool kept = is_kept(cuda->dnn, k, &a, &n);
    char *at_stats = (char *)workspace + bytes_result(&a), *sums = at_stats + bytes_numbers(&a);
    if (!kept) {
        a.y = (nck_cuda_attn_operand){workspace, H * S * a.cols_v, S * a.cols_v, a.cols_v, 1};
        a.stats = at_stats;
    }
    const char *why = key_of(k->type, k->mask, &a, &key);
    if (why != NULL) return why;
    if (key.drops == 1) return "the gradient of dropout by a mask of our own"; /* it gave wrong numbers on an H200 */
    const char *no_other = key.drops == 2 ? nck_cuda_attn_dnn_drew : NULL;
    if (!takes_back(g, &key)) return no_other != NULL ? no_other : no_way_back;
    nc_cuda_dnn_call c = call_of(&key, &a, &n);
    give(&c, DY, g->dy.data), give(&c, DQ, g->dq.data), give(&c, DK, g->dk.data), give(&c, DV, g->dv.data);
    give(&c, SUMS, sums), give(&c, ONE, &n.one);
    if (draws && !draw(at, k, &a, room)) return no_plan;
    if (!kept && (why = nck_cuda_attn_dnn_run(at, k, &a, NULL)) != NULL) return why;
    bool done = nc_cuda_dnn_run(cuda->dnn, &c, sums + bytes_numbers(&a), bytes_plan(&a), nc_cuda_stream(at.stream));
    return done ? NULL : no_other != NULL ? no_other : no_plan;
}
