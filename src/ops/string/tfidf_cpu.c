/* ops/string/tfidf_cpu.c: the host kernel of TfIdfVectorizer. Tokens of the pool get numbers, n-grams of numbers are
 * looked up in a map made once per session; a token outside the pool is in no n-gram. */
#include "ops/string/string_cpu.h"

#include "base/map.h"
#include "base/mem.h"

#include <string.h>

enum { MAX_GRAM = 16 };

typedef struct gram {
    int64_t out;
    float weight;
} gram;

typedef struct tfidf_state {
    nc_map tokens, grams; /* token bytes -> number + 1; {length, numbers} -> gram */
    int64_t min, max, skips, n_out;
    bool counts, weights;
} tfidf_state;

static intptr_t number_of(const nc_map *m, const void *p, size_t n) {
    return (intptr_t)nc_map_get_bytes(m, p != NULL ? p : "", n) - 1;
}

/* The number of pool token i, made at its first use. */
static nc_code number_token(nc_prep *p, tfidf_state *s, int64_t i, int64_t *out) {
    const nc_attr *strings = nc_node_attr(p->node, "pool_strings"), *ints = nc_node_attr(p->node, "pool_int64s");
    const void *key = strings != NULL ? strings->strings[i].p : (const void *)&ints->ints[i];
    size_t n = strings != NULL ? strings->strings[i].n : sizeof(int64_t);
    *out = number_of(&s->tokens, key, n);
    if (*out >= 0) return NC_OK;
    *out = i;
    if (!nc_map_put_bytes(&s->tokens, key != NULL ? key : "", n, (void *)(intptr_t)(i + 1)))
        NC_FAIL(p->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code add_gram(nc_prep *p, tfidf_state *s, int64_t first, int64_t length, const gram *g) {
    int64_t *key = nc_arena_array(p->arena, (size_t)length + 1, sizeof *key);
    gram *kept = nc_arena_copy(p->arena, g, sizeof *g);
    NC_NEED(p->w, key);
    NC_NEED(p->w, kept);
    key[0] = length;
    for (int64_t k = 0; k < length; k++) NC_TRY(number_token(p, s, first + k, &key[1 + k]));
    if (!nc_map_put_bytes(&s->grams, key, (size_t)(length + 1) * sizeof *key, kept))
        NC_FAIL(p->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* The pool holds all 1-grams, then all 2-grams, ...; ngram_counts says where each kind starts. */
static nc_code read_pool(nc_prep *p, tfidf_state *s) {
    const nc_attr *strings = nc_node_attr(p->node, "pool_strings"), *ints = nc_node_attr(p->node, "pool_int64s");
    const nc_attr *weights = nc_node_attr(p->node, "weights");
    int n_counts, n_index, pool = strings != NULL ? strings->n : ints != NULL ? ints->n : 0, i_gram = 0;
    const int64_t *counts = nc_attr_ints(p->node, "ngram_counts", &n_counts);
    const int64_t *index = nc_attr_ints(p->node, "ngram_indexes", &n_index);
    for (int k = 0; k < n_counts; k++) {
        int64_t from = counts[k], to = k + 1 < n_counts ? counts[k + 1] : pool, length = k + 1;
        if (from < 0 || to < from || to > pool || (to - from) % length != 0 || length > MAX_GRAM)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "ngram_counts do not divide the pool of %d tokens", pool);
        for (; from < to; from += length, i_gram++) {
            if (i_gram >= n_index || (weights != NULL && i_gram >= weights->n))
                NC_FAIL(p->w, NC_E_BAD_GRAPH, "the pool has more n-grams than indexes or weights");
            gram g = {.out = index[i_gram], .weight = weights != NULL ? weights->floats[i_gram] : 1};
            NC_TRY(add_gram(p, s, from, length, &g));
        }
    }
    for (int i = 0; i < n_index; i++)
        if (index[i] >= s->n_out) s->n_out = index[i] + 1;
    return NC_OK;
}

nc_code nc_tfidf_prepare(nc_prep *p) {
    tfidf_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const char *mode = nc_attr_str(p->node, "mode");
    *s = (tfidf_state){.min = nc_attr_int(p->node, "min_gram_length"),
                       .max = nc_attr_int(p->node, "max_gram_length"),
                       .skips = nc_attr_int(p->node, "max_skip_count"),
                       .counts = strcmp(mode, "IDF") != 0,
                       .weights = strcmp(mode, "TF") != 0};
    if (strcmp(mode, "TF") != 0 && strcmp(mode, "IDF") != 0 && strcmp(mode, "TFIDF") != 0)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "mode is '%s', expected TF, IDF or TFIDF", mode);
    if (s->min < 1 || s->max < s->min || s->max > MAX_GRAM || s->skips < 0)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "gram lengths %lld to %lld with %lld skips: expected 1 to %d in order",
                (long long)s->min, (long long)s->max, (long long)s->skips, MAX_GRAM);
    nc_map_init(&s->tokens, p->arena);
    nc_map_init(&s->grams, p->arena);
    p->state = s;
    return read_pool(p, s);
}

static int64_t token_at(const tfidf_state *s, const nc_tensor *x, int64_t i) {
    if (x->dtype == NC_STRING) {
        const nc_str *t = (const nc_str *)x->data + i;
        return number_of(&s->tokens, t->p, t->n);
    }
    int64_t v = x->dtype == NC_INT32 ? ((const int32_t *)x->data)[i] : ((const int64_t *)x->data)[i];
    return number_of(&s->tokens, &v, sizeof v);
}

/* Adds the grams of `length` tokens that lie `step` apart. */
static void count_grams(const tfidf_state *s, const int64_t *tokens, int64_t n, int64_t length, int64_t step,
                        float *y) {
    int64_t key[MAX_GRAM + 1];
    key[0] = length;
    for (int64_t i = 0; i + (length - 1) * step < n; i++) {
        for (int64_t k = 0; k < length; k++) key[1 + k] = tokens[i + k * step];
        const gram *g = nc_map_get_bytes(&s->grams, key, (size_t)(length + 1) * sizeof *key);
        if (g == NULL) continue;
        float w = s->weights ? g->weight : 1;
        y[g->out] = s->counts ? y[g->out] + w : w;
    }
}

nc_code nc_tfidf(nc_dyn *d) {
    const tfidf_state *s = d->call->state;
    const nc_tensor *x = nc_strings_of(d, 0);
    int64_t rows = x->rank == 2 ? x->dims[0] : 1, n = x->dims[x->rank - 1], dims[2] = {x->dims[0], s->n_out};
    nc_tensor y;
    if (x->rank == 1) dims[0] = s->n_out;
    NC_TRY(d->alloc(d, 0, NC_FLOAT, x->rank, dims, &y));
    memset(y.data, 0, (size_t)(rows * s->n_out) * sizeof(float));
    int64_t *tokens = nc_alloc((size_t)n * sizeof *tokens + 1);
    if (tokens == NULL) return nc_strings_no_memory(d);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < n; i++) tokens[i] = token_at(s, x, r * n + i);
        for (int64_t length = s->min; length <= s->max; length++)
            for (int64_t skip = 0; skip <= (length == 1 ? 0 : s->skips); skip++)
                count_grams(s, tokens, n, length, skip + 1, (float *)y.data + r * s->n_out);
    }
    nc_free(tokens);
    return NC_OK;
}
