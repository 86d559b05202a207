/* ops/search/scores.h: what a search does to the scores of one row before it chooses a token. Private to the family. */
#ifndef NC_OPS_SEARCH_SCORES_H
#define NC_OPS_SEARCH_SCORES_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers that forbid or favour tokens; V scores a row. NULL masks: none. */
typedef struct nc_search_rules {
    int64_t V;
    const int32_t *sequence; /* the row's tokens so far */
    int64_t length;
    float repetition;                   /* 1: none */
    int64_t ngram;                      /* 0: any may repeat */
    const int32_t *vocabulary, *prefix; /* (V): 0 is forbidden */
    int64_t min_length, eos;
} nc_search_rules;

/* Changes scores; seen: V bytes of scratch. In the order of ONNX Runtime: tokens that were there lose by the penalty,
 * then what would repeat an n-gram, what the masks exclude and an end that comes too early get the lowest score. */
void nc_search_apply(const nc_search_rules *r, float *scores, uint8_t *seen);

/* Whisper's tokens of times, from `begin` on, and its signs; -1: it has no such. */
typedef struct nc_search_times {
    int64_t begin, none, lm, start, translate, transcribe, eos;
} nc_search_times;
/* Forbids, of V scores behind `length` tokens, what would break the rules: times come in pairs but for the first, never
 * go back, and the first is among 51; signs do not follow a time. Where all times together are likelier than any text,
 * a time comes. */
void nc_search_keep_times(const nc_search_times *t, const int32_t *tokens, int64_t length, int64_t V, float *scores);

void nc_search_log_softmax(const float *x, int64_t n, float *y);
int64_t nc_search_largest(const float *x, int64_t n); /* the first of the largest; NaNs are none */

typedef struct nc_search_ranked {
    float score;
    int32_t token;
} nc_search_ranked;

/* What Sampling keeps: all but the likeliest tokens that together have top_p get filter_value. custom: the token that
 * passes top_p is the last one kept; else at least min_keep stay. ranked: V of scratch. */
typedef struct nc_search_filter {
    float top_p, filter_value;
    int64_t min_keep;
    bool custom;
} nc_search_filter;
void nc_search_keep(const nc_search_filter *f, float *scores, int64_t V, nc_search_ranked *ranked);
/* The token at u, in [0, 1), of the distribution that the scores are logits of. */
int64_t nc_search_draw(const float *scores, int64_t V, float u);

#endif
