/* ops/search/scores.c: see scores.h. Sums of probabilities are made in double. */
#include "ops/search/scores.h"

#include <float.h>
#include <math.h>
#include <string.h>

static bool in_vocabulary(const nc_search_rules *r, int32_t token) { return token >= 0 && token < r->V; }

static void penalize(const nc_search_rules *r, float *scores, uint8_t *seen) {
    memset(seen, 0, (size_t)r->V);
    for (int64_t i = 0; i < r->length; i++) {
        int32_t t = r->sequence[i];
        if (!in_vocabulary(r, t) || seen[t]) continue;
        seen[t] = 1;
        scores[t] = scores[t] < 0 ? scores[t] * r->repetition : scores[t] / r->repetition;
    }
}

static void forbid_ngrams(const nc_search_rules *r, float *scores) {
    int64_t n = r->ngram - 1; /* the last n tokens are the beginning of what may not come again */
    const int32_t *last = r->sequence + r->length - n;
    for (int64_t i = 0; i + n < r->length; i++) {
        int32_t t = r->sequence[i + n];
        bool again = n == 0 || memcmp(r->sequence + i, last, (size_t)n * sizeof *last) == 0;
        if (again && in_vocabulary(r, t)) scores[t] = -FLT_MAX;
    }
}

static void forbid_masked(const int32_t *mask, int64_t V, float *scores) {
    for (int64_t i = 0; mask != NULL && i < V; i++)
        if (mask[i] == 0) scores[i] = -FLT_MAX;
}

void nc_search_apply(const nc_search_rules *r, float *scores, uint8_t *seen) {
    if (r->repetition < 1 || r->repetition > 1) penalize(r, scores, seen);
    if (r->ngram > 0 && r->ngram <= r->length) forbid_ngrams(r, scores);
    forbid_masked(r->vocabulary, r->V, scores);
    forbid_masked(r->prefix, r->V, scores);
    if (r->length < r->min_length && r->eos >= 0 && r->eos < r->V) scores[r->eos] = -FLT_MAX;
}

static float largest(const float *x, int64_t n) {
    int64_t at = nc_search_largest(x, n);
    return n > 0 ? x[at] : 0;
}

void nc_search_log_softmax(const float *x, int64_t n, float *y) {
    float most = largest(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)most);
    double shift = (double)most + log(sum);
    for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] - shift);
}

int64_t nc_search_largest(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i]))) best = i;
    return best;
}

/* ---- times ---- */

static void forbid(float *scores, int64_t from, int64_t to) {
    for (int64_t i = from < 0 ? 0 : from; i < to; i++) scores[i] = -FLT_MAX;
}

static void forbid_one(float *scores, int64_t V, int64_t token) {
    if (token >= 0 && token < V) scores[token] = -FLT_MAX;
}

/* The logarithm of the sum of probabilities of what is not forbidden. */
static float log_of_all(const float *scores, int64_t n) {
    float most = largest(scores, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (scores[i] > -FLT_MAX) sum += exp((double)scores[i] - (double)most);
    return sum > 0 ? (float)((double)most + log(sum)) : -FLT_MAX;
}

void nc_search_keep_times(const nc_search_times *t, const int32_t *tokens, int64_t length, int64_t V, float *scores) {
    enum { FIRST_TIMES = 50 };
    int64_t first = 0, newest = -1; /* how many tokens the first time ends; the newest time */
    while (first < length && tokens[first++] < t->begin) continue;
    for (int64_t i = 0; i < length; i++)
        if (tokens[i] >= t->begin) newest = tokens[i];
    bool at_time = length > 0 && tokens[length - 1] >= t->begin;
    bool paired = length <= first || tokens[length - 2] >= t->begin;
    forbid_one(scores, V, t->none);
    forbid_one(scores, V, t->lm);
    if (length > first) {
        forbid_one(scores, V, t->start);
        forbid_one(scores, V, t->translate);
        forbid_one(scores, V, t->transcribe);
    }
    if (at_time && paired) forbid(scores, t->begin, V);
    if (at_time && !paired) forbid(scores, 0, t->eos < V ? t->eos : V);
    if (newest >= 0) {
        int64_t least = newest + (at_time && !paired ? 0 : 1);
        forbid(scores, t->begin, least < V ? least : V);
    }
    if (length == first) forbid(scores, t->begin + FIRST_TIMES + 1, V);
    if (log_of_all(scores + t->begin, V - t->begin) > largest(scores, t->begin)) forbid(scores, 0, t->begin);
}

/* ---- sampling ---- */

/* a comes before b in ascending order; equal ones by token. */
static bool before(const nc_search_ranked *a, const nc_search_ranked *b) {
    return a->score < b->score || (a->score <= b->score && a->token < b->token);
}

static void sift(nc_search_ranked *x, int64_t at, int64_t n) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&x[child], &x[child + 1])) child++;
        if (!before(&x[at], &x[child])) return;
        nc_search_ranked t = x[at];
        x[at] = x[child], x[child] = t;
    }
}

/* A heap sort: in place, no recursion, no memory of its own. */
static void rank(nc_search_ranked *x, int64_t n) {
    for (int64_t i = n / 2; i-- > 0;) sift(x, i, n);
    for (int64_t end = n; end-- > 1;) {
        nc_search_ranked t = x[0];
        x[0] = x[end], x[end] = t;
        sift(x, 0, end);
    }
}

static double weight(float score, float most) { return exp((double)score - (double)most); }

void nc_search_keep(const nc_search_filter *f, float *scores, int64_t V, nc_search_ranked *ranked) {
    double sum = 0, so_far = 0;
    for (int64_t i = 0; i < V; i++) ranked[i] = (nc_search_ranked){scores[i], (int32_t)i};
    rank(ranked, V);
    if (V == 0) return;
    float most = ranked[V - 1].score;
    for (int64_t i = 0; i < V; i++) sum += weight(ranked[i].score, most);
    if (f->custom) { /* from the likeliest on: what comes behind the one that passes top_p goes */
        for (int64_t i = V - 1; i > 0; i--) {
            so_far += weight(ranked[i].score, most) / sum;
            if (so_far > (double)f->top_p) scores[ranked[i - 1].token] = f->filter_value;
        }
        return;
    }
    for (int64_t i = 0; i < V; i++) { /* from the least likely on */
        if (i > 0 && i >= V - f->min_keep) break;
        so_far += weight(ranked[i].score, most) / sum;
        if (so_far <= 1 - (double)f->top_p) scores[ranked[i].token] = f->filter_value;
    }
}

int64_t nc_search_draw(const float *scores, int64_t V, float u) {
    float most = largest(scores, V);
    double sum = 0, so_far = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < V; i++) sum += weight(scores[i], most);
    for (int64_t i = 0; i < V; i++) {
        double w = weight(scores[i], most);
        if (!(w > 0)) continue;
        last = i;
        so_far += w;
        if ((double)u * sum < so_far) return i;
    }
    return last;
}
