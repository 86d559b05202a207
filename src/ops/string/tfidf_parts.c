/* ops/string/tfidf_parts.c: TfIdfVectorizer of integers in simple ops, for devices without a kernel for it. For each
 * length and step of n-grams the tokens that stand so apart are met with all n-grams of the pool at once (rows, places,
 * n-grams); how often each is found goes through a matrix of weights to the columns of the result. Large pools, and
 * such in which n-grams share a column, are left to the host. */
#include "ops/string/tfidf.h"

#include <math.h>
#include <string.h>

enum { MAX_GRAMS = 1024, MAX_COLUMNS = 4096, MAX_GRAM = 16 };

typedef struct pool {
    nc_value *x; /* (rows, tokens) int64 */
    const int64_t *tokens, *counts, *columns;
    const nc_attr *weights; /* NULL: 1 each */
    int n_tokens, n_counts, n_columns;
    int64_t width; /* of the result */
} pool;

/* N-grams of that length: the first token of the first of them, and how many n-grams stand before it. */
typedef struct section {
    int64_t length, first, n, before;
} section;

static nc_code find_section(nc_builder *b, const pool *p, int64_t length, section *s) {
    *s = (section){.length = length};
    for (int64_t k = 1; k <= length && k <= p->n_counts; k++) {
        int64_t from = p->counts[k - 1], to = k < p->n_counts ? p->counts[k] : p->n_tokens;
        s->before += s->n;
        if (from < 0 || to < from || to > p->n_tokens || (to - from) % k != 0)
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "ngram_counts do not divide the pool");
        s->first = from, s->n = (to - from) / k;
    }
    if (length > p->n_counts) s->n = 0;
    if (s->before + s->n > p->n_columns || (p->weights != NULL && s->before + s->n > p->weights->n))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "the pool has more n-grams than indexes or weights");
    return NC_OK;
}

/* Token k of every n-gram. */
static nc_value *tokens_at(nc_builder *b, const pool *p, const section *s, int64_t k) {
    int64_t v[MAX_GRAMS];
    for (int64_t g = 0; g < s->n; g++) v[g] = p->tokens[s->first + g * s->length + k];
    return nc_build_ints(b, v, (int)s->n);
}

/* (rows, n-grams): how often each is found with its tokens `step` apart. */
static nc_value *found(nc_builder *b, const pool *p, const section *s, int64_t step) {
    const int64_t places = 1, last = 2;
    nc_value *axis = nc_build_ints(b, &places, 1), *along = nc_build_ints(b, &last, 1), *all = NULL;
    for (int64_t k = 0; k < s->length; k++) {
        int64_t from = k * step, to = k + 1 < s->length ? (k + 1 - s->length) * step : INT64_MAX;
        nc_value *at = nc_build1(b, "Slice", 4, p->x, nc_build_ints(b, &from, 1), nc_build_ints(b, &to, 1), axis);
        nc_value *is = nc_build1(b, "Equal", 2, nc_build1(b, "Unsqueeze", 2, at, along), tokens_at(b, p, s, k));
        all = all != NULL ? nc_build1(b, "And", 2, all, is) : is;
    }
    return nc_build_reduce_sum(b, nc_build_cast(b, all, NC_FLOAT), &places, 1, false);
}

/* (n-grams, width): the weight of each n-gram at its column. */
static nc_value *weights_of(nc_builder *b, const pool *p, const section *s) {
    int64_t dims[2] = {s->n, p->width};
    float *w = nc_arena_array(&b->w->scratch, (size_t)(s->n * p->width) + 1, sizeof *w);
    if (w == NULL) return NULL;
    memset(w, 0, (size_t)(s->n * p->width) * sizeof *w);
    for (int64_t g = 0; g < s->n; g++)
        w[g * p->width + p->columns[s->before + g]] = p->weights != NULL ? p->weights->floats[s->before + g] : 1;
    const nc_literal *l = nc_edit_literal(b->graph->model, NC_FLOAT, 2, dims, w);
    return l != NULL ? nc_edit_const(b->graph, NULL, l) : NULL;
}

/* Every n-gram has a column of its own, so also none is there twice, and a finite weight. */
static nc_code check_columns(nc_builder *b, const pool *p) {
    bool taken[MAX_COLUMNS] = {false};
    if (p->n_columns > MAX_GRAMS || p->width > MAX_COLUMNS)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "a pool of %d n-grams for %lld columns", p->n_columns, (long long)p->width);
    for (int i = 0; i < p->n_columns; i++) {
        if (taken[p->columns[i]]) NC_FAIL(b->w, NC_E_UNSUPPORTED, "n-grams share a column");
        taken[p->columns[i]] = true;
        if (p->weights != NULL && i < p->weights->n && !isfinite(p->weights->floats[i]))
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "a weight is not finite");
    }
    return NC_OK;
}

static bool same_gram(const pool *p, const section *s, int64_t g, int64_t h) {
    return memcmp(p->tokens + s->first + g * s->length, p->tokens + s->first + h * s->length,
                  (size_t)s->length * sizeof *p->tokens) == 0;
}

/* Of two n-grams that are one the last counts, as on the host. */
static nc_code check_grams(nc_builder *b, const pool *p, const section *s) {
    for (int64_t g = 0; g < s->n; g++)
        for (int64_t h = 0; h < g; h++)
            if (same_gram(p, s, g, h)) NC_FAIL(b->w, NC_E_UNSUPPORTED, "an n-gram is twice in the pool");
    return NC_OK;
}

static nc_code read_pool(nc_builder *b, const nc_node *n, pool *p) {
    const nc_attr *tokens = nc_node_attr(n, "pool_int64s");
    const nc_type *x = n->in[0]->type;
    if (tokens == NULL || x == NULL || (x->rank != 1 && x->rank != 2) || (x->elem != NC_INT32 && x->elem != NC_INT64))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need integers of known rank");
    *p = (pool){.tokens = tokens->ints, .n_tokens = tokens->n};
    p->counts = nc_attr_ints(n, "ngram_counts", &p->n_counts);
    p->columns = nc_attr_ints(n, "ngram_indexes", &p->n_columns);
    if (strcmp(nc_attr_str(n, "mode"), "TF") != 0) p->weights = nc_node_attr(n, "weights");
    for (int i = 0; i < p->n_columns; i++)
        if (p->columns[i] >= p->width) p->width = p->columns[i] + 1;
    p->x = nc_build_cast(b, n->in[0], NC_INT64);
    if (x->rank == 1) p->x = nc_build1(b, "Unsqueeze", 2, p->x, nc_build_ints(b, &(int64_t){0}, 1));
    return check_columns(b, p);
}

nc_code nc_tfidf_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    pool p;
    nc_value *y = NULL;
    int64_t skips = nc_attr_int(n, "max_skip_count"), most = nc_attr_int(n, "max_gram_length");
    int64_t least = nc_attr_int(n, "min_gram_length");
    if (least < 1 || most > MAX_GRAM) NC_FAIL(b->w, NC_E_UNSUPPORTED, "n-grams of that length");
    NC_TRY(read_pool(b, n, &p));
    for (int64_t length = least; length <= most; length++) {
        section s;
        nc_value *count = NULL;
        NC_TRY(find_section(b, &p, length, &s));
        NC_TRY(check_grams(b, &p, &s));
        for (int64_t step = 1; s.n > 0 && step <= (length == 1 ? 1 : skips + 1); step++) {
            nc_value *more = found(b, &p, &s, step);
            count = count != NULL ? nc_build1(b, "Add", 2, count, more) : more;
        }
        if (s.n == 0) continue;
        if (strcmp(nc_attr_str(n, "mode"), "IDF") == 0)
            count = nc_build1(b, "Min", 2, count, nc_build_scalar(b, NC_FLOAT, 1));
        nc_value *w = weights_of(b, &p, &s);
        NC_NEED(b->w, w);
        count = nc_build1(b, "MatMul", 2, count, w);
        y = y != NULL ? nc_build1(b, "Add", 2, y, count) : count;
    }
    if (y == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "a pool without n-grams of that length");
    out[0] = n->in[0]->type->rank == 1 ? nc_build1(b, "Squeeze", 2, y, nc_build_ints(b, &(int64_t){0}, 1)) : y;
    return b->code;
}
