/* cuda/attention_dnn.c: attention and its gradient through cuDNN, see attention_dnn.h: whether it is asked, what its
 * plans are kept by, and their calls; the graphs are attention_dnn_graph.c's. */
#include "kernels/cuda/attention_dnn.h"

#include "base/intmath.h"
#include "kernels/cuda/attention_dnn_graph.h"
#include "kernels/cuda/attention_seen.h"

#include <math.h>
#include <string.h>

enum { LEAST_SCORES = 1 << 16, STEP = 128, ALIGNMENT = 256, THREADS = 256, LEAST_SHARING = 4, MOST_BY = 1000 };
static const int64_t most_scores = (int64_t)5 << 28; /* elements of a workspace that holds gradients of scores */
static const int64_t slack = 16 << 20;               /* of cuDNN's own workspaces */

/* What is asked of cuDNN. */
typedef struct asked {
    const nck_cuda_attn *kernel;
    nck_cuda_attn_seen seen;
    nck_cuda_attn_drop drop;
    bool back;
    bool draws;  /* who stays has to be drawn first */
    double keep; /* what a mask has for who stays: what it is multiplied by, as its type holds it */
} asked;

/* ---- the key ---- */

/* Rows of 16 bytes, side by side; false: cuDNN cannot take it. */
static bool strides_of(const nck_cuda_attn_operand *o, int64_t *out) {
    out[0] = o->batch, out[1] = o->head, out[2] = o->row, out[3] = o->column;
    return o->column == 1 && (o->batch | o->head | o->row) % 8 == 0 && o->row > 0 &&
           (uintptr_t)o->data % NC_CUDA_DNN_ALIGNMENT == 0;
}

/* Masks of bools are added as numbers that are made of them, unless those were nearly as many as the scores. */
static bool pays(const nck_cuda_attn_args *a) {
    const int64_t dims[3] = {a->n_batch, a->q_heads, a->n_queries};
    int64_t shared = 1;
    for (int i = 0; i < 3; i++) shared *= a->mask_strides[i] == 0 ? dims[i] : 1;
    return shared >= LEAST_SHARING;
}

/* cuDNN's gradient reads a dim of 1 for queries wrongly, one of stride 0 as it is meant. */
static const char *mask_of(const asked *c, nck_attn_key *key) {
    const nck_cuda_attn_args *a = &c->seen.a;
    const int64_t dims[4] = {a->n_batch, a->q_heads, a->n_queries, a->n_keys};
    nc_dtype t = c->kernel->type, mask = c->kernel->mask;
    bool made = c->seen.bias != NULL;
    if (a->mask == NULL) return NULL;
    if (mask == NC_BOOL && !pays(a)) return "a mask of bools for each head";
    if (mask != NC_BOOL && ((mask != t && mask != NC_FLOAT) || a->mask_cols != a->n_keys || a->mask_strides[3] != 1 ||
                            (uintptr_t)a->mask % NC_CUDA_DNN_ALIGNMENT != 0))
        return "a mask of another type or of fewer columns";
    key->mask = mask == NC_BOOL ? t : mask;
    int64_t step = 1;
    for (int i = 3; i >= 0; i--) {
        key->mask_dims[i] = i == 3 ? dims[3] : made ? c->seen.dims[i] : a->mask_strides[i] != 0 ? dims[i] : 1;
        key->mask_strides[i] = !made && a->mask_strides[i] != 0 ? a->mask_strides[i] : step;
        step = key->mask_strides[i] * key->mask_dims[i];
        if (c->back && i == 2 && key->mask_dims[2] == 1) key->mask_dims[2] = dims[2], key->mask_strides[2] = 0;
    }
    return NULL;
}

/* Bounds of what is seen. */
static const char *bounds_of(const nck_cuda_attn_args *a, nck_attn_key *key) {
    key->lens = a->kv_lens != NULL;
    key->left = a->left >= 0;
    key->right = a->causal ? 1 : a->right >= 0 ? 2 : 0;
    if (!key->left && !key->right) return NULL;
    if (!a->offset_by_lens && a->offset != 0 && (a->offset != key->T - key->S || a->offset < 0))
        return "queries that end before the keys do";
    key->at_end = a->offset_by_lens || a->offset != 0;
    if (key->left && a->mask != NULL) return "a window beside a mask"; /* who sees nobody would not be found */
    return NULL;
}

static int64_t rounded(int64_t n) { return nc_ceil_div(n, STEP) * STEP; }
static int64_t n_scores(const nck_cuda_attn_args *a) {
    return a->n_batch * a->q_heads * rounded(a->n_queries) * rounded(a->n_keys);
}

/* The numbers of keys and scores are such that there is a gradient. */
static bool fits_back(const nck_cuda_attn_args *a) { return a->n_keys % STEP == 0 && n_scores(a) <= most_scores; }
static const char no_way_back[] = "a number of keys that is no multiple of 128, many scores, or few results wanted";

static const char *drops_of(const asked *c, nck_attn_key *key) {
    const nck_cuda_attn_drop *d = &c->drop;
    if (d->state == NULL) return NULL;
    key->drops = d->keep != NULL ? 1 : d->pair != NULL ? 2 : 0;
    if (!key->drops || !(d->ratio < 1) || d->by > MOST_BY) return "dropout of many scores, or of nearly all";
    if (key->drops == 2) memcpy(&key->ratio, &d->ratio, sizeof key->ratio);
    return key->drops == 2 && !fits_back(&c->seen.a) ? no_way_back : NULL; /* what it draws nobody else knows */
}

/* NULL, or why cuDNN is not asked. */
static const char *key_of(const asked *c, nck_attn_key *key) {
    const nck_cuda_attn_args *a = &c->seen.a;
    const char *why;
    nc_dtype t = c->kernel->type;
    memset(key, 0, sizeof *key);
    key->type = t, key->stats = a->stats != NULL, key->capped = a->softcap > 0;
    key->B = a->n_batch, key->Hq = a->q_heads, key->Hkv = a->kv_heads;
    key->S = a->n_queries, key->T = a->n_keys, key->D = a->cols, key->Dv = a->cols_v;
    if (t != NC_FLOAT16 && t != NC_BFLOAT16) return "it computes float16 and bfloat16 alone";
    if ((why = drops_of(c, key)) != NULL) return why;
    if (key->D < 8 || key->Dv < 8 || key->D % 8 != 0 || key->Dv % 8 != 0) return "columns that are no multiple of 8";
    if (key->B < 1 || key->S < 2 || key->T < 2 || key->S * key->T < LEAST_SCORES) return "few scores";
    if ((why = bounds_of(a, key)) != NULL) return why;
    if (!strides_of(&a->q, key->q) || !strides_of(&a->k, key->k) || !strides_of(&a->v, key->v) ||
        !strides_of(&a->y, key->y))
        return "rows that do not lie on 16 bytes";
    return mask_of(c, key);
}

/* ---- the run ---- */

/* What plans read from the host while they are queued. */
typedef struct numbers {
    float scale, cap, lowest, one, kept_by;         /* one: with cuDNN\'s draws the part that stays */
    float left;                                     /* how many keys before its own place a query sees, and that one, */
    int32_t n_queries, n_keys, left_of_lens, right; /* or before its place among those of its batch */
} numbers;

static numbers numbers_of(const asked *c) {
    const nck_cuda_attn_args *a = &c->seen.a;
    return (numbers){.scale = (float)a->scale,
                     .cap = (float)a->softcap,
                     .lowest = -INFINITY,
                     .one = c->drop.pair != NULL ? (float)(1 - c->drop.ratio) : 1,
                     .kept_by = (float)(c->drop.by / c->keep),
                     .left = (float)(a->left + 1 - a->offset),
                     .n_queries = (int32_t)a->n_queries,
                     .n_keys = (int32_t)a->n_keys,
                     .left_of_lens = (int32_t)nc_min64(a->left + 1, INT32_MAX / 2),
                     .right = (int32_t)nc_min64(a->right, INT32_MAX / 2)};
}

static void give(nc_cuda_dnn_call *c, int64_t id, const void *p) {
    c->id[c->n] = id;
    c->data[c->n++] = (void *)(uintptr_t)p;
}

static void give_bounds(nc_cuda_dnn_call *c, const nck_attn_key *key, const nck_cuda_attn_seen *s, const numbers *n) {
    if (key->lens || key->left || key->right) give(c, NCK_ATTN_LOWEST, &n->lowest);
    if (key->lens)
        give(c, NCK_ATTN_N_QUERIES, s->n_queries), give(c, NCK_ATTN_N_KEYS, s->n_keys);
    else if (key->at_end && key->right)
        give(c, NCK_ATTN_N_QUERIES, &n->n_queries), give(c, NCK_ATTN_N_KEYS, &n->n_keys);
    if (key->left)
        give(c, NCK_ATTN_LEFT, key->lens && key->at_end ? (const void *)&n->left_of_lens : (const void *)&n->left);
    if (key->right == 2) give(c, NCK_ATTN_RIGHT, &n->right);
}

static nc_cuda_dnn_call call_of(const nck_attn_key *key, const asked *from, const numbers *n) {
    const nck_cuda_attn_args *a = &from->seen.a;
    nc_cuda_dnn_call c = {.key = key,
                          .bytes_key = sizeof *key,
                          .what = key->back ? "attention's gradient" : "attention",
                          .describe = key->back ? nck_attn_describe_back : nck_attn_describe_forward,
                          .any_engine = true};
    give(&c, NCK_ATTN_Q, a->q.data), give(&c, NCK_ATTN_K, a->k.data);
    give(&c, NCK_ATTN_V, a->v.data), give(&c, NCK_ATTN_Y, a->y.data);
    give(&c, NCK_ATTN_SCALE, &n->scale);
    if (key->capped) give(&c, NCK_ATTN_CAP, &n->cap);
    if (key->mask != NC_UNDEFINED) give(&c, NCK_ATTN_BIAS, from->seen.bias != NULL ? from->seen.bias : a->mask);
    if (key->stats) give(&c, NCK_ATTN_STATS, a->stats);
    give_bounds(&c, key, &from->seen, n);
    if (key->drops) give(&c, NCK_ATTN_KEPT_BY, &n->kept_by);
    if (key->drops == 1) give(&c, NCK_ATTN_KEEP, from->drop.keep);
    if (key->drops == 2) give(&c, NCK_ATTN_SEED, from->drop.pair), give(&c, NCK_ATTN_OFFSET, from->drop.pair + 2);
    return c;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

const char nck_cuda_attn_dnn_drew[] = "cuDNN dropped shares, and has no gradient of that for these results";
static const char no_dnn[] = "it is not there", no_plan[] = "it has no engine for this, or failed";

/* A number for each share, where they are not too many, or a pair. */
static size_t bytes_draws(const nck_cuda_attn *k, const nck_cuda_attn_args *a) {
    int64_t n = a->n_batch * a->q_heads * a->n_queries * a->n_keys;
    bool wanted = k->draw != NULL && a->n_queries * a->n_keys >= LEAST_SCORES && n <= most_scores && n % 8 == 0;
    return !wanted ? 0 : k->dnn_draws ? ALIGNMENT : aligned((size_t)n * 2);
}

size_t nck_cuda_attn_dnn_room(const nck_cuda_attn *k, const nck_cuda_attn_args *a, int64_t mask_rows) {
    if (a->n_queries * a->n_keys < LEAST_SCORES) return 0;
    return bytes_draws(k, a) + nck_cuda_attn_seen_room(k, a, mask_rows);
}

/* room: see above. back: for the gradient. */
static asked ask(const nck_cuda_attn *k, const nck_cuda_attn_args *a, bool back, char *room) {
    size_t drawn = a->drop.state != NULL ? bytes_draws(k, a) : 0;
    asked c = {.kernel = k, .back = back, .drop = a->drop, .draws = drawn > 0, .keep = 1};
    float by = (float)a->drop.by;
    if (c.draws && k->dnn_draws) c.drop.pair = (const int64_t *)(const void *)room;
    if (c.draws && !k->dnn_draws) {
        c.drop.keep = room;
        c.keep =
            (double)(k->type == NC_FLOAT16 ? nc_f16_to_f32(nc_f32_to_f16(by)) : nc_bf16_to_f32(nc_f32_to_bf16(by)));
    }
    c.seen = nck_cuda_attn_seen_of(k, a, room + bytes_draws(k, a));
    return c;
}

static nc_code draw(nck_cuda_at at, const asked *c) {
    const nck_cuda_attn_args *a = &c->seen.a;
    nck_cuda_attn_drop d = c->drop;
    int64_t n = a->n_batch * a->q_heads * a->n_queries * a->n_keys;
    double keep = c->keep;
    void *args[] = {&n, &d.state, &d.node, &d.limit, &keep, &d.keep}, *of_pair[] = {&d.state, &d.node, &d.pair};
    if (c->kernel->dnn_draws) return nck_cuda_launch(at, c->kernel->draw, 1, 1, of_pair);
    return nck_cuda_launch(at, c->kernel->draw, nck_cuda_blocks(at.device, n / 8, THREADS), THREADS, args);
}

/* What graphs read besides the operands; false: a launch failed. */
static bool fill(nck_cuda_at at, const asked *c) {
    return (!c->draws || draw(at, c) == NC_OK) && nck_cuda_attn_seen_fill(c->kernel, at, &c->seen) == NC_OK;
}

static const char *run_forward(nck_cuda_at at, const asked *c) {
    nc_cuda *cuda = nc_device_cuda(at.device);
    nck_attn_key key;
    const char *why = key_of(c, &key);
    if (why != NULL || cuda == NULL || cuda->dnn == NULL) return why != NULL ? why : no_dnn;
    if (!fill(at, c)) return no_plan;
    numbers n = numbers_of(c);
    nc_cuda_dnn_call call = call_of(&key, c, &n);
    call.most = NC_CUDA_WORKSPACE;
    bool done = nc_cuda_dnn_run(at.device, &call, at.stream);
    return done && nck_cuda_attn_seen_mend(c->kernel, at, &c->seen) == NC_OK ? NULL : no_plan;
}

const char *nck_cuda_attn_dnn_run(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_args *args, void *room) {
    asked c = ask(k, args, false, room);
    return run_forward(at, &c);
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

size_t nck_cuda_attn_dnn_grad_workspace(const nck_cuda_attn *k, const nck_cuda_attn_args *a, int64_t mask_rows) {
    bool is_half = k->type == NC_FLOAT16 || k->type == NC_BFLOAT16;
    if (!is_half || a->n_queries * a->n_keys < LEAST_SCORES) return 0;
    return bytes_before_room(a) + nck_cuda_attn_dnn_room(k, a, mask_rows);
}

static bool takes_back(const nck_cuda_attn_grad_args *g, nck_attn_key *key) {
    key->back = 1;
    return fits_back(&g->a) && g->dq.data != NULL && g->dk.data != NULL && g->dv.data != NULL &&
           strides_of(&g->dy, key->dy) && strides_of(&g->dq, key->dq) && strides_of(&g->dk, key->dk) &&
           strides_of(&g->dv, key->dv);
}

/* Y and the statistics are there as cuDNN's forward pass left them. */
static bool is_kept(nc_cuda_dnn *dnn, const asked *from, const numbers *n) {
    nck_attn_key key;
    if (from->seen.a.y.data == NULL || from->seen.a.stats == NULL || key_of(from, &key) != NULL) return false;
    nc_cuda_dnn_call c = call_of(&key, from, n);
    return nc_cuda_dnn_knows(dnn, &c);
}

const char *nck_cuda_attn_dnn_grad_run(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_grad_args *g,
                                       void *workspace) {
    nc_cuda *cuda = nc_device_cuda(at.device);
    int64_t S = g->a.n_queries, H = g->a.q_heads;
    nck_attn_key key;
    if (cuda == NULL || cuda->dnn == NULL) return no_dnn;
    char *room = (char *)workspace + bytes_before_room(&g->a);
    asked c = ask(k, &g->a, true, room), before = ask(k, &g->a, false, room);
    nck_cuda_attn_args *a = &c.seen.a;
    numbers n = numbers_of(&c);
    bool kept = is_kept(cuda->dnn, &before, &n);
    char *at_stats = (char *)workspace + bytes_result(a), *sums = at_stats + bytes_numbers(a);
    if (!kept) {
        a->y = (nck_cuda_attn_operand){workspace, H * S * a->cols_v, S * a->cols_v, a->cols_v, 1};
        a->stats = at_stats;
    }
    const char *why = key_of(&c, &key);
    if (why != NULL) return why;
    if (key.lens || key.capped) return "the gradient of lengths or of a cap";
    const char *no_other = key.drops == 2 ? nck_cuda_attn_dnn_drew : NULL;
    if (!takes_back(g, &key)) return no_other != NULL ? no_other : no_way_back;
    nc_cuda_dnn_call call = call_of(&key, &c, &n);
    give(&call, NCK_ATTN_DY, g->dy.data), give(&call, NCK_ATTN_DQ, g->dq.data);
    give(&call, NCK_ATTN_DK, g->dk.data), give(&call, NCK_ATTN_DV, g->dv.data);
    give(&call, NCK_ATTN_SUMS, sums), give(&call, NCK_ATTN_ONE, &n.one);
    if (kept && !fill(at, &c)) return no_plan;
    if (!kept && (why = run_forward(at, &c)) != NULL) return why;
    call.room = sums + bytes_numbers(a), call.bytes_room = call.most = bytes_plan(a);
    bool done = nc_cuda_dnn_run(at.device, &call, at.stream);
    return done ? NULL : no_other != NULL ? no_other : no_plan;
}
