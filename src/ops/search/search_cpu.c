/* ops/search/search_cpu.c: host kernels of what searches are made of (steps.c). They are quick beside the decoder, so
 * one thread does them. */
#include "kernels/cpu/random/philox_text.h"
#include "ops/binding.h"
#include "ops/search/scores.h"
#include "ops/search/search.h"

#include <float.h>
#include <math.h>
#include <string.h>

extern const nc_binding nc_search_cpu[];

typedef struct step_state {
    int64_t eos, pad, ngram;
    bool early_stopping, samples;
    float temperature, presence_penalty;
    nc_search_filter filter;
    nc_search_times times;
} step_state;

static nc_code prepare(nc_prep *p) {
    const nc_node *n = p->node;
    step_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (step_state){.pad = nc_attr_int(n, "pad")};
    p->state = s;
    return NC_OK;
}

static nc_code step_prepare(nc_prep *p) {
    NC_TRY(prepare(p));
    step_state *s = p->state;
    s->eos = nc_attr_int(p->node, "eos");
    s->ngram = nc_attr_int(p->node, "ngram");
    return NC_OK;
}

static nc_code greedy_prepare(nc_prep *p) {
    NC_TRY(step_prepare(p));
    step_state *s = p->state;
    const nc_node *n = p->node;
    s->samples = nc_attr_int(n, "samples") != 0;
    s->temperature = (float)nc_attr_float(n, "temperature");
    s->presence_penalty = (float)nc_attr_float(n, "presence_penalty");
    s->filter = (nc_search_filter){.top_p = (float)nc_attr_float(n, "top_p"),
                                   .filter_value = (float)nc_attr_float(n, "filter_value"),
                                   .min_keep = nc_attr_int(n, "min_tokens_to_keep"),
                                   .custom = nc_attr_int(n, "custom") != 0};
    return NC_OK;
}

static nc_code beam_prepare(nc_prep *p) {
    NC_TRY(step_prepare(p));
    step_state *s = p->state;
    int n_times;
    const int64_t *t = nc_attr_ints(p->node, "times", &n_times);
    s->early_stopping = nc_attr_int(p->node, "early_stopping") != 0;
    s->times = (nc_search_times){.begin = -1};
    if (t != NULL && n_times == 6) s->times = (nc_search_times){t[0], t[1], t[2], t[3], t[4], t[5], s->eos};
    return NC_OK;
}

static nc_code refuse(const nc_call *c, const char *text) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%s", text);
}

/* The one element of an operand that may be absent. */
static float number(const nc_call *c, int i, float none) {
    return c->in[i]->data != NULL ? *(const float *)c->in[i]->data : none;
}

/* ---- SearchBegin ---- */

static nc_code begin_run(const nc_call *c) {
    const step_state *s = c->state;
    const nc_tensor *ids = c->in[0], *sequences = c->out[NC_SEARCH_SEQUENCES], *found = c->out[NC_SEARCH_FOUND];
    int64_t rows = sequences->dims[0], most = sequences->dims[1], have = ids->dims[1], texts = ids->dims[0];
    int64_t beams = texts > 0 ? rows / texts : 1;
    int32_t *to = sequences->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < most; i++)
            to[r * most + i] = i < have ? ((const int32_t *)ids->data)[r / beams * have + i] : (int32_t)s->pad;
    memset(c->out[NC_SEARCH_DONE]->data, 0, (size_t)texts);
    *(int64_t *)c->out[NC_SEARCH_LENGTH]->data = have;
    memset(found->data, 0, (size_t)nc_tensor_numel(found) * sizeof(int32_t));
    memset(c->out[NC_SEARCH_FOUND_SCORES]->data, 0, (size_t)rows * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        /* beams of one text are alike at first: all but one are kept from being chosen */
        ((float *)c->out[NC_SEARCH_SCORES]->data)[r] = r % beams ? -1e9f : 0;
        ((int64_t *)c->out[NC_SEARCH_N_STATE]->data)[r] = r / beams;
    }
    return NC_OK;
}

/* ---- what both steps do ---- */

/* One row's turn: where its tokens and logits are, and the rules for it. */
typedef struct row {
    nc_search_rules rules;
    const float *logits;
} row;

static row row_at(const nc_call *c, int64_t r) {
    const step_state *s = c->state;
    const nc_tensor *logits = c->in[NC_STEP_LOGITS], *prefix = c->in[NC_STEP_PREFIX];
    int64_t rows = logits->dims[0], S = logits->dims[1], V = logits->dims[2];
    int64_t length = *(const int64_t *)c->in[NC_STEP_LENGTH]->data,
            start = *(const int64_t *)c->in[NC_STEP_START]->data;
    const nc_tensor *min = c->in[NC_STEP_MIN_LENGTH];
    row x = {.logits = (const float *)logits->data + (r * S + S - 1) * V};
    x.rules = (nc_search_rules){.V = V,
                                .sequence = (const int32_t *)c->in[NC_STEP_SEQUENCES]->data +
                                            r * c->in[NC_STEP_SEQUENCES]->dims[1],
                                .length = length,
                                .repetition = number(c, NC_STEP_REPETITION, 1),
                                .ngram = s->ngram,
                                .vocabulary = c->in[NC_STEP_VOCAB]->data,
                                .min_length = min->data != NULL ? *(const int32_t *)min->data : 0,
                                .eos = s->eos};
    if (prefix->data != NULL && length == start && prefix->dims[0] > 0) {
        int64_t each = rows / prefix->dims[0] > 0 ? rows / prefix->dims[0] : 1;
        x.rules.prefix = (const int32_t *)prefix->data + r / each % prefix->dims[0] * V;
    }
    return x;
}

/* A mask of the vocabulary, where there is one, has V columns and rows that fit. */
static bool fits(const nc_tensor *mask, int64_t rows, int64_t V) {
    if (mask->data == NULL) return true;
    bool divides = mask->rank == 1 || (mask->dims[0] > 0 && rows % mask->dims[0] == 0);
    return mask->dims[mask->rank - 1] == V && divides;
}

static nc_code check_step(const nc_call *c) {
    int64_t rows = c->in[NC_STEP_LOGITS]->dims[0], V = c->in[NC_STEP_LOGITS]->dims[2];
    if (rows != c->in[NC_STEP_SEQUENCES]->dims[0])
        return refuse(c, "the decoder gives logits of another number of rows");
    if (!fits(c->in[NC_STEP_VOCAB], rows, V)) return refuse(c, "vocab_mask has another size than the vocabulary");
    if (!fits(c->in[NC_STEP_PREFIX], rows, V)) return refuse(c, "prefix_vocab_mask is not of the texts' vocabularies");
    int64_t length = *(const int64_t *)c->in[NC_STEP_LENGTH]->data;
    if (c->in[NC_STEP_LOGITS]->dims[1] < 1) return refuse(c, "the decoder gives logits of no token");
    if (V < 2) return refuse(c, "the vocabulary has fewer than 2 tokens");
    if (length < 1 || length >= c->in[NC_STEP_SEQUENCES]->dims[1]) return refuse(c, "there is no room for a token");
    if (!(number(c, NC_STEP_REPETITION, 1) > 0)) return refuse(c, "repetition_penalty is not above 0");
    return NC_OK;
}

static void put_length(const nc_call *c, const bool *done, int64_t texts) {
    bool go = false;
    for (int64_t i = 0; i < texts; i++) go |= !done[i];
    *(int64_t *)c->out[NC_SEARCH_LENGTH]->data = *(const int64_t *)c->in[NC_STEP_LENGTH]->data + 1;
    *(bool *)c->out[NC_STEP_OUT_GO]->data = go;
}

/* Row r of the new sequences: row `from` of the old ones, and a token. */
static void extend(const nc_call *c, int64_t r, int64_t from, int32_t token) {
    int64_t most = c->in[NC_STEP_SEQUENCES]->dims[1];
    int32_t *to = (int32_t *)c->out[NC_SEARCH_SEQUENCES]->data + r * most;
    memcpy(to, (const int32_t *)c->in[NC_STEP_SEQUENCES]->data + from * most, (size_t)most * sizeof *to);
    to[*(const int64_t *)c->in[NC_STEP_LENGTH]->data] = token;
    ((int32_t *)c->out[NC_STEP_OUT_NEXT]->data)[r] = token;
}

/* ---- GreedyStep ---- */

/* Scores of a row, ranks for sampling, a byte a token. */
static size_t greedy_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)in[NC_STEP_LOGITS].dims[2] * (sizeof(float) + sizeof(nc_search_ranked) + 1);
}

static int64_t sampled(const nc_call *c, int64_t r, float *scores, int64_t V, nc_search_ranked *ranked) {
    const step_state *s = c->state;
    const nc_tensor *seed = c->in[NC_GREEDY_SEED], *there = c->in[NC_GREEDY_PRESENCE];
    uint32_t words[4];
    for (int64_t i = 0; s->temperature > 0 && i < V; i++) scores[i] /= s->temperature;
    for (int64_t i = 0; there->data != NULL && i < V; i++)
        scores[i] -= (float)((const int32_t *)there->data)[r % there->dims[0] * V + i] * s->presence_penalty;
    nc_search_keep(&s->filter, scores, V, ranked);
    uint64_t key = seed->data != NULL ? (uint64_t)(uint32_t) * (const int32_t *)seed->data : 0;
    nck_philox4(key, 0, (uint32_t) * (const int64_t *)c->in[NC_STEP_LENGTH]->data, (uint64_t)r, words);
    return nc_search_draw(scores, V, nck_philox_uniform(words[0]));
}

static nc_code greedy_run(const nc_call *c) {
    const step_state *s = c->state;
    int64_t rows = c->in[NC_STEP_LOGITS]->dims[0], V = c->in[NC_STEP_LOGITS]->dims[2];
    nc_search_ranked *ranked = c->workspace;
    float *scores = (float *)(ranked + V), *shown = c->out[NC_GREEDY_OUT_LOGITS]->data;
    uint8_t *seen = (uint8_t *)(scores + V);
    bool *done = c->out[NC_SEARCH_DONE]->data;
    NC_TRY(check_step(c));
    if (!fits(c->in[NC_GREEDY_PRESENCE], rows, V)) return refuse(c, "presence_mask is not of the texts' vocabularies");
    for (int64_t r = 0; r < rows; r++) {
        row x = row_at(c, r);
        memcpy(scores, x.logits, (size_t)V * sizeof *scores);
        nc_search_apply(&x.rules, scores, seen);
        int64_t token = s->samples ? sampled(c, r, scores, V, ranked) : nc_search_largest(scores, V);
        if (shown != NULL) memcpy(shown + r * V, scores, (size_t)V * sizeof *scores);
        done[r] = ((const bool *)c->in[NC_STEP_DONE]->data)[r] || token == s->eos;
        extend(c, r, r, done[r] ? (int32_t)s->pad : (int32_t)token);
    }
    put_length(c, done, rows);
    return NC_OK;
}

/* ---- BeamStep ---- */

/* Sequences that ended, best first: `beams` rows of most + 1 numbers, the last of which is the length; 0: no such. */
typedef struct found {
    int32_t *tokens;
    float *scores;
    int64_t beams, most;
} found;

static int64_t length_of(const found *f, int64_t i) { return f->tokens[i * (f->most + 1) + f->most]; }
static bool is_full(const found *f) { return length_of(f, f->beams - 1) > 0; }

static float scaled(float sum, int64_t length, float penalty) { return sum / powf((float)length, penalty); }

static void add_found(const found *f, const int32_t *tokens, int64_t length, float score) {
    size_t bytes = (size_t)(f->most + 1) * sizeof *f->tokens;
    int64_t at = f->beams;
    if (is_full(f)) {
        if (!(score > f->scores[f->beams - 1])) return;
        at = f->beams - 1;
    } else {
        for (at = 0; length_of(f, at) > 0;) at++;
    }
    for (; at > 0 && score > f->scores[at - 1]; at--) {
        memcpy(f->tokens + at * (f->most + 1), f->tokens + (at - 1) * (f->most + 1), bytes);
        f->scores[at] = f->scores[at - 1];
    }
    int32_t *to = f->tokens + at * (f->most + 1);
    memcpy(to, tokens, (size_t)length * sizeof *to);
    to[f->most] = (int32_t)length;
    f->scores[at] = score;
}

static found found_at(const nc_tensor *tokens, const nc_tensor *scores, int64_t text) {
    int64_t beams = tokens->dims[1], most = tokens->dims[2] - 1;
    return (found){.tokens = (int32_t *)tokens->data + text * beams * (most + 1),
                   .scores = (float *)scores->data + text * beams,
                   .beams = beams,
                   .most = most};
}

typedef struct way {
    float score;
    int64_t at; /* beam * V + token */
} way;

/* The scores of a text's beams, then its best ways on, a byte a token. */
static size_t beam_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    size_t beams = (size_t)in[NC_BEAM_FOUND].dims[1], V = (size_t)in[NC_STEP_LOGITS].dims[2];
    return 2 * beams * sizeof(way) + beams * V * sizeof(float) + V;
}

/* The n best of all, best first, equal ones in order. */
static void best_ways(const float *scores, int64_t n_scores, way *ways, int64_t n) {
    int64_t have = 0;
    for (int64_t i = 0; i < n_scores; i++) {
        float v = isnan(scores[i]) ? -FLT_MAX : scores[i];
        if (have == n && !(v > ways[n - 1].score)) continue;
        int64_t at = have < n ? have++ : n - 1;
        for (; at > 0 && v > ways[at - 1].score; at--) ways[at] = ways[at - 1];
        ways[at] = (way){v, i};
    }
}

/* The token that a text's rows must go on with; -1: any. */
static int64_t forced(const nc_call *c, int64_t text, int64_t turn) {
    const nc_tensor *ids = c->in[NC_BEAM_FORCED];
    if (ids->data == NULL || turn >= ids->dims[1]) return -1;
    const int32_t *of = (const int32_t *)ids->data + text * ids->dims[1];
    for (int64_t i = 0; i < turn; i++)
        if (of[i] < 0) return -1;
    return of[turn];
}

/* Whether the rules of times count. */
static bool keeps_times(const nc_call *c) {
    const nc_tensor *processor = c->in[NC_BEAM_PROCESSOR];
    return processor->data != NULL && *(const int32_t *)processor->data == 1;
}

static void beam_scores(const nc_call *c, int64_t text, float *scores, uint8_t *seen) {
    const step_state *s = c->state;
    int64_t beams = c->in[NC_BEAM_FOUND]->dims[1], V = c->in[NC_STEP_LOGITS]->dims[2];
    float *shown = c->out[NC_BEAM_OUT_ALL]->data, temperature = number(c, NC_BEAM_TEMPERATURE, 1);
    for (int64_t k = 0; k < beams; k++) {
        int64_t r = text * beams + k;
        row x = row_at(c, r);
        nc_search_log_softmax(x.logits, V, scores + k * V);
        nc_search_apply(&x.rules, scores + k * V, seen);
        float so_far = ((const float *)c->in[NC_BEAM_SCORES]->data)[r], *of = scores + k * V;
        for (int64_t i = 0; i < V; i++) of[i] /= temperature;
        if (keeps_times(c)) nc_search_keep_times(&s->times, x.rules.sequence, x.rules.length, V, of);
        int64_t must = forced(c, text, x.rules.length - *(const int64_t *)c->in[NC_STEP_START]->data);
        for (int64_t i = 0; must >= 0 && must < V && i < V; i++) of[i] = i == must ? 0 : -FLT_MAX;
        for (int64_t i = 0; i < V; i++) of[i] += so_far;
        if (shown != NULL) memcpy(shown + r * V, scores + k * V, (size_t)V * sizeof *scores);
    }
}

static void go_on(const nc_call *c, int64_t r, int64_t from, int32_t token, float score) {
    extend(c, r, from, token);
    ((float *)c->out[NC_BEAM_OUT_SCORES]->data)[r] = score;
    ((int64_t *)c->out[NC_BEAM_OUT_FROM]->data)[r] = from;
}

/* Takes the best ways on; those that end are found. */
static void choose_ways(const nc_call *c, int64_t text, const found *f, const way *ways, bool *done) {
    const step_state *s = c->state;
    int64_t beams = f->beams, V = c->in[NC_STEP_LOGITS]->dims[2], taken = 0;
    int64_t length = *(const int64_t *)c->in[NC_STEP_LENGTH]->data;
    float penalty = number(c, NC_BEAM_PENALTY, 1);
    for (int64_t j = 0; j < 2 * beams && taken < beams; j++) {
        int64_t from = text * beams + ways[j].at / V, token = ways[j].at % V;
        if (token != s->eos)
            go_on(c, text * beams + taken++, from, (int32_t)token, ways[j].score);
        else if (j < beams)
            add_found(f, (const int32_t *)c->in[NC_STEP_SEQUENCES]->data + from * f->most, length,
                      scaled(ways[j].score, length, penalty));
    }
    if (is_full(f)) *done = s->early_stopping || f->scores[beams - 1] >= scaled(ways[0].score, length, penalty);
}

static nc_code beam_run(const nc_call *c) {
    const step_state *s = c->state;
    const nc_tensor *was = c->in[NC_BEAM_FOUND], *now = c->out[NC_BEAM_OUT_FOUND];
    int64_t texts = was->dims[0], beams = was->dims[1], V = c->in[NC_STEP_LOGITS]->dims[2];
    way *ways = c->workspace;
    float *scores = (float *)(ways + 2 * beams);
    const nc_tensor *processor = c->in[NC_BEAM_PROCESSOR];
    bool *done = c->out[NC_SEARCH_DONE]->data;
    NC_TRY(check_step(c));
    if (processor->data != NULL && (*(const int32_t *)processor->data & ~1) != 0)
        return refuse(c, "logits_processor is neither 0 nor 1");
    if (keeps_times(c) && (s->times.begin < 1 || s->times.begin >= V))
        return refuse(c, "logits_processor is 1, but beginning_timestamp_token_id is no token behind the first");
    if (!(number(c, NC_BEAM_TEMPERATURE, 1) > 0)) return refuse(c, "temperature is not above 0");
    memcpy(now->data, was->data, (size_t)nc_tensor_numel(was) * sizeof(int32_t));
    memcpy(c->out[NC_BEAM_OUT_FOUND_SCORES]->data, c->in[NC_BEAM_FOUND_SCORES]->data,
           (size_t)(texts * beams) * sizeof(float));
    for (int64_t t = 0; t < texts; t++) {
        found f = found_at(now, c->out[NC_BEAM_OUT_FOUND_SCORES], t);
        beam_scores(c, t, scores, (uint8_t *)(scores + beams * V));
        done[t] = ((const bool *)c->in[NC_STEP_DONE]->data)[t];
        for (int64_t k = 0; done[t] && k < beams; k++) go_on(c, t * beams + k, t * beams + k, (int32_t)s->pad, 0);
        if (done[t]) continue;
        best_ways(scores, beams * V, ways, 2 * beams);
        choose_ways(c, t, &f, ways, &done[t]);
    }
    put_length(c, done, texts);
    return NC_OK;
}

/* ---- BeamEnd ---- */

/* The sequences found so far, of one text: they are completed by the beams that are still under way. */
static size_t end_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    const nc_tensor *f = &in[NC_SEARCH_FOUND];
    return (size_t)(f->dims[1] * f->dims[2]) * sizeof(int32_t) + (size_t)f->dims[1] * sizeof(float);
}

static void end_text(const nc_call *c, int64_t text, const found *f) {
    const step_state *s = c->state;
    int64_t returns = c->out[0]->dims[1], most = f->most, length = *(const int64_t *)c->in[NC_SEARCH_LENGTH]->data;
    float penalty = number(c, NC_SEARCH_N_STATE + 1, 1);
    for (int64_t k = 0; !((const bool *)c->in[NC_SEARCH_DONE]->data)[text] && k < f->beams; k++) {
        int64_t r = text * f->beams + k;
        add_found(f, (const int32_t *)c->in[NC_SEARCH_SEQUENCES]->data + r * most, length,
                  scaled(((const float *)c->in[NC_SEARCH_SCORES]->data)[r], length, penalty));
    }
    for (int64_t i = 0; i < returns; i++) {
        int32_t *to = (int32_t *)c->out[0]->data + (text * returns + i) * most;
        int64_t n = length_of(f, i);
        for (int64_t k = 0; k < most; k++) to[k] = k < n ? f->tokens[i * (most + 1) + k] : (int32_t)s->pad;
        if (c->out[1]->data != NULL) ((float *)c->out[1]->data)[text * returns + i] = f->scores[i];
    }
}

static nc_code end_run(const nc_call *c) {
    const nc_tensor *was = c->in[NC_SEARCH_FOUND], *scores = c->in[NC_SEARCH_FOUND_SCORES];
    int64_t texts = was->dims[0], beams = was->dims[1], wide = was->dims[2];
    if (c->out[0]->dims[1] > beams) return refuse(c, "more sequences are asked for than there are beams");
    for (int64_t t = 0; t < texts; t++) {
        found from = found_at(was, scores, t);
        found f = {.tokens = c->workspace,
                   .scores = (float *)((int32_t *)c->workspace + beams * wide),
                   .beams = beams,
                   .most = wide - 1};
        memcpy(f.tokens, from.tokens, (size_t)(beams * wide) * sizeof *f.tokens);
        memcpy(f.scores, from.scores, (size_t)beams * sizeof *f.scores);
        end_text(c, t, &f);
    }
    return NC_OK;
}

#define ROW(name, ...) \
    { .op = name, .domain = "nacre", .kind = NC_K_STATIC, __VA_ARGS__ }
const nc_binding nc_search_cpu[] = {
    ROW("SearchBegin", .prepare = prepare, .run = begin_run),
    ROW("GreedyStep", .prepare = greedy_prepare, .workspace = greedy_workspace, .run = greedy_run),
    ROW("BeamStep", .prepare = beam_prepare, .workspace = beam_workspace, .run = beam_run),
    ROW("BeamEnd", .prepare = prepare, .workspace = end_workspace, .run = end_run),
    {0}};
