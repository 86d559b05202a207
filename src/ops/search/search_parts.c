/* ops/search/search_parts.c: what a search is made of: its bodies inline, a Loop over the tokens to come, and the steps
 * of steps.c. A turn is one run of the decoder and the step behind it; where another graph makes the first token (T5's
 * encoder, init_decoder) that turn stands before the Loop. */
#include "ops/search/search.h"

enum { N_TIMES = 6, SHOWN = 3, NON_SPEECH = 4, SHOWN_HEADS = 12 };

typedef struct parts {
    const nc_search *s;
    nc_value *text_of;      /* int64 (rows): which text; NULL: a row is a text */
    nc_value *start;        /* int64: tokens that were given */
    nc_value *most;         /* int64: max_length */
    nc_value *count, *ones; /* GPT: int32 (rows, 1): tokens that are no padding; ones */
    nc_value **fixed;       /* T5: what every turn sees: mask, hidden states, pasts of the cross attention */
    int n_fixed;
    nc_value **feed; /* what changes: GPT: ids, positions, mask, pasts. T5: ids, pasts, what was shown */
    int n_feed;
    nc_value *state[NC_SEARCH_N_STATE];
    int n_state;
    nc_value *go, *scores; /* of the last turn; scores: what the third output, or Sampling's second, shows */
    nc_value *non_speech; /* WhisperBeamSearch: its last output */
    nc_value *width, *places; /* int32: beams; (texts, beams, max_length): in which beam's buffers a token's row is */
    int64_t times[N_TIMES];
    bool wants_scores;
} parts;

static nc_attr integer(const char *name, int64_t v) { return (nc_attr){.name = name, .kind = NC_A_INT, .i = v}; }

/* v as seen from b's graph. */
static nc_value *seen(nc_builder *b, nc_value *v) {
    if (v == NULL || v->graph == b->graph || b->code != NC_OK) return v;
    nc_value *inner = nc_edit_reach(b->graph, v);
    if (inner == NULL) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    return inner;
}

static nc_value *operand(nc_builder *b, const parts *p, int i) {
    return i >= 0 ? seen(b, nc_contrib_in(p->s->n, i)) : NULL;
}

static nc_value *gathered(nc_builder *b, nc_value *x, nc_value *at, int64_t axis) {
    nc_attr a = integer("axis", axis);
    return at != NULL ? nc_build_attr1(b, "", "Gather", (nc_value *[]){x, at}, 2, &a, 1) : x;
}

/* x, a tensor of one element, as a number of rank 0. */
static nc_value *scalar(nc_builder *b, nc_value *x, nc_dtype t) {
    return nc_build_cast(b, nc_build1(b, "Reshape", 2, x, nc_build_ints(b, NULL, 0)), t);
}

static nc_value *joined(nc_builder *b, nc_value *const *in, int n, int64_t axis) {
    nc_attr a = integer("axis", axis);
    return nc_build_attr1(b, "", "Concat", in, n, &a, 1);
}

/* ---- a step ---- */

/* The logits as the steps take them: float, of the vocabulary that counts. */
static nc_value *plain_logits(nc_builder *b, const parts *p, nc_value *logits) {
    int64_t size = nc_attr_int(p->s->n, "vocab_size"), zero = 0, two = 2;
    if (size > 0)
        logits = nc_build1(b, "Slice", 4, logits, nc_build_ints(b, &zero, 1), nc_build_ints(b, &size, 1),
                           nc_build_ints(b, &two, 1));
    return nc_build_cast(b, logits, NC_FLOAT);
}

static int step_attrs(parts *p, nc_attr *a) {
    const nc_node *n = p->s->n;
    static const char *const floats[] = {"temperature", "top_p", "filter_value", "presence_penalty"};
    int k = 0;
    a[k++] = integer("eos", nc_attr_int(n, "eos_token_id"));
    a[k++] = integer("pad", nc_attr_int(n, "pad_token_id"));
    a[k++] = integer("ngram", nc_attr_int(n, "no_repeat_ngram_size"));
    if (p->s->f->beams >= 0) a[k++] = integer("early_stopping", nc_attr_int(n, "early_stopping"));
    if (p->s->f->forced >= 0) {
        static const char *const times[] = {"beginning_timestamp_token_id", "no_timestamps_token_id",
                                            "start_of_lm_token_id",         "decoder_start_token_id",
                                            "translate_token_id",           "transcribe_token_id"};
        for (int i = 0; i < N_TIMES; i++) p->times[i] = nc_contrib_int(n, times[i], -1);
        a[k++] = (nc_attr){.name = "times", .kind = NC_A_INTS, .ints = p->times, .n = N_TIMES};
    }
    if (!p->s->f->samples) return k;
    a[k++] = integer("samples", 1);
    a[k++] = integer("min_tokens_to_keep", nc_attr_int(n, "min_tokens_to_keep"));
    a[k++] = integer("custom", nc_attr_int(n, "custom"));
    for (int i = 0; i < 4; i++)
        a[k++] = (nc_attr){.name = floats[i], .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, floats[i])};
    return k;
}

/* The step behind `logits`; fills the new state, go and scores. *from: which rows go on (beams). Gives the tokens. */
static nc_value *step(nc_builder *b, parts *p, nc_value *logits, nc_value **from) {
    const nc_search_form *f = p->s->f;
    bool beams = f->beams >= 0, wanted[NC_BEAM_N_OUT];
    nc_attr attrs[16];
    nc_value *in[NC_BEAM_N_IN] = {plain_logits(b, p, logits),
                                  p->state[NC_SEARCH_SEQUENCES],
                                  p->state[NC_SEARCH_DONE],
                                  p->state[NC_SEARCH_LENGTH],
                                  seen(b, p->start),
                                  operand(b, p, f->min_length),
                                  operand(b, p, f->repetition_penalty),
                                  operand(b, p, f->vocab_mask),
                                  operand(b, p, f->prefix_mask)};
    if (in[NC_STEP_REPETITION]) in[NC_STEP_REPETITION] = nc_build_cast(b, in[NC_STEP_REPETITION], NC_FLOAT);
    if (beams) {
        nc_value *penalty = operand(b, p, f->length_penalty);
        in[NC_BEAM_PENALTY] = penalty ? nc_build_cast(b, penalty, NC_FLOAT) : NULL;
        for (int i = 0; i < 3; i++) in[NC_BEAM_SCORES + i] = p->state[NC_SEARCH_SCORES + i];
        nc_value *temperature = operand(b, p, f->temperature);
        in[NC_BEAM_TEMPERATURE] = temperature ? nc_build_cast(b, temperature, NC_FLOAT) : NULL;
        in[NC_BEAM_PROCESSOR] = p->s->hears ? operand(b, p, f->processor) : NULL;
        in[NC_BEAM_FORCED] = operand(b, p, f->forced);
    } else {
        in[NC_GREEDY_PRESENCE] = operand(b, p, f->presence);
        in[NC_GREEDY_SEED] = operand(b, p, f->seed);
    }
    int n_out = beams ? NC_BEAM_N_OUT : NC_GREEDY_N_OUT;
    for (int i = 0; i < n_out; i++) wanted[i] = i != n_out - 1 || p->wants_scores;
    nc_node *n = nc_build_wanted(b, "nacre", beams ? "BeamStep" : "GreedyStep", in,
                                 beams ? NC_BEAM_N_IN : NC_GREEDY_N_IN, wanted, n_out, attrs, step_attrs(p, attrs));
    if (n == NULL) return NULL;
    for (int i = 0; i < NC_SEARCH_N_GREEDY; i++) p->state[i] = n->out[i];
    for (int i = 0; beams && i < 3; i++) p->state[NC_SEARCH_SCORES + i] = n->out[NC_BEAM_OUT_SCORES + i];
    p->go = n->out[NC_STEP_OUT_GO];
    p->scores = n->out[n_out - 1];
    *from = beams ? n->out[NC_BEAM_OUT_FROM] : NULL;
    return n->out[NC_STEP_OUT_NEXT];
}

/* ---- pasts in buffers ---- */

/* beam_width and cache_indirection. Buffers are put in the order of the beams, as other pasts are: each is its own. */
static nc_code begin_buffers(nc_builder *b, parts *p) {
    int64_t one = 1, three[3] = {1, -1, 1};
    if (p->s->extra < 3 && p->s->first_extra < 3) return NC_OK;
    nc_value *rows = nc_contrib_size(b, p->state[NC_SEARCH_SEQUENCES], 0);
    nc_value *texts = nc_contrib_size(b, p->state[NC_SEARCH_DONE], 0), *beams = nc_build1(b, "Div", 2, rows, texts);
    nc_value *dims[3] = {texts, beams, nc_build1(b, "Reshape", 2, p->most, nc_build_ints(b, &one, 1))};
    nc_value *count = nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar(b, beams, NC_INT64), nc_build_int(b, 1));
    count = nc_build1(b, "Reshape", 2, nc_build_cast(b, count, NC_INT32), nc_build_ints(b, three, 3));
    p->width = nc_build_cast(b, beams, NC_INT32);
    p->places = nc_build1(b, "Expand", 2, count, joined(b, dims, 3, 0));
    return b->code;
}

/* Those of a decoder's inputs, the last `n`: the first is how many tokens (int64) the buffers hold. */
static void fill_extra(nc_builder *b, const parts *p, int n, nc_value *tokens, nc_value **in) {
    int64_t one = 1;
    if (n > 0) in[0] = nc_build_cast(b, nc_build1(b, "Reshape", 2, tokens, nc_build_ints(b, &one, 1)), NC_INT32);
    if (n > 1) in[1] = seen(b, p->width), in[2] = seen(b, p->places);
}

/* A present (rows, heads, tokens, size) with room for max_length tokens. */
static nc_value *with_room(nc_builder *b, const parts *p, nc_value *x) {
    int64_t one = 1, none[6] = {0};
    nc_value *missing = nc_build1(b, "Sub", 2, nc_build1(b, "Reshape", 2, p->most, nc_build_ints(b, &one, 1)),
                                  nc_contrib_size(b, x, 2));
    nc_value *pads[3] = {nc_build_ints(b, none, 6), missing, nc_build_ints(b, none, 1)};
    return nc_build1(b, "Pad", 2, x, joined(b, pads, 3, 0));
}

/* ---- turns: `turn` is the number of this one ---- */

static nc_code gpt_turn(nc_builder *b, parts *p, int i_sub, nc_value *turn) {
    int n = 3 + p->s->layers, extra = i_sub == p->s->decoder ? p->s->extra : p->s->first_extra;
    nc_value *from, **out = nc_arena_array(&b->w->scratch, (size_t)p->s->layers + 1, sizeof *out);
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)(n + extra), sizeof *in);
    NC_NEED(b->w, out);
    NC_NEED(b->w, in);
    for (int i = 0; i < n; i++) in[i] = p->feed[i];
    if (extra > 0) { /* all tokens but the one that comes in; before the first turn there are none */
        nc_value *tokens = nc_build1(b, "Sub", 2, p->state[NC_SEARCH_LENGTH], nc_build_int(b, 1));
        tokens = nc_build1(b, "Mul", 2, tokens, nc_build1(b, "Min", 2, turn, nc_build_int(b, 1)));
        fill_extra(b, p, extra, tokens, in + n);
    }
    NC_TRY(b->code);
    NC_TRY(nc_control_inline(b, p->s->n, i_sub, in, out));
    p->feed[0] = step(b, p, out[0], &from);
    NC_TRY(b->code);
    p->feed[1] = nc_build1(b, "Add", 2, seen(b, p->count), nc_build_cast(b, turn, NC_INT32));
    p->feed[2] = joined(b, (nc_value *[]){p->feed[2], seen(b, p->ones)}, 2, 1);
    for (int i = 0; i < p->s->layers; i++) p->feed[3 + i] = gathered(b, out[1 + i], from, 1);
    return b->code;
}

/* The tokens that T5's decoder gets next. */
static nc_value *t5_ids(nc_builder *b, const parts *p, nc_value *next) {
    int64_t zero = 0, one = 1;
    if (!p->s->whole_inputs) return next;
    nc_value *end = nc_build1(b, "Reshape", 2, p->state[NC_SEARCH_LENGTH], nc_build_ints(b, &one, 1));
    return nc_build1(b, "Slice", 4, p->state[NC_SEARCH_SEQUENCES], nc_build_ints(b, &zero, 1), end,
                     nc_build_ints(b, &one, 1));
}

/* The heads of `out`, one (rows, heads, 1, frames) a layer, that the caller wants to see, behind those of the turns
 * before. */
static nc_value *shown(nc_builder *b, const parts *p, nc_value *const *out, nc_value *before) {
    nc_value *pairs = nc_build_cast(b, operand(b, p, SHOWN_HEADS), NC_INT64), *all = joined(b, out, p->s->layers, 1);
    nc_value *layer = gathered(b, pairs, nc_build_int(b, 0), 1), *head = gathered(b, pairs, nc_build_int(b, 1), 1);
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, layer, nc_contrib_size(b, out[0], 1)), head);
    nc_value *both[2] = {before, nc_build_cast(b, gathered(b, all, at, 1), NC_FLOAT)};
    return joined(b, both, 2, 2);
}

static nc_code t5_turn(nc_builder *b, parts *p, int i_sub, nc_value *turn) {
    const nc_search *s = p->s;
    int n = s->i_past + 4 * s->layers, k = 0, self = 2 * s->layers;
    nc_value *from, **in = nc_arena_array(&b->w->scratch, (size_t)(n + s->extra), sizeof *in);
    nc_value **out = nc_arena_array(&b->w->scratch, (size_t)(3 * s->layers) + 1, sizeof *out);
    (void)turn;
    NC_NEED(b->w, in);
    NC_NEED(b->w, out);
    in[k++] = p->feed[0];
    for (int i = 0; i < s->i_past - 1; i++) in[k++] = seen(b, p->fixed[i]);
    for (int i = 0; i < self; i++) in[k++] = p->feed[1 + i];
    for (int i = s->i_past - 1; i < p->n_fixed; i++) in[k++] = seen(b, p->fixed[i]);
    fill_extra(b, p, s->extra, nc_build1(b, "Sub", 2, p->state[NC_SEARCH_LENGTH], nc_build_int(b, 1)), in + k);
    NC_TRY(b->code);
    NC_TRY(nc_control_inline(b, s->n, i_sub, in, out));
    nc_value *next = step(b, p, out[0], &from);
    NC_TRY(b->code);
    p->feed[0] = t5_ids(b, p, next);
    for (int i = 0; i < self; i++) p->feed[1 + i] = gathered(b, out[1 + i], from, 0);
    if (p->n_feed > 1 + self) p->feed[1 + self] = gathered(b, shown(b, p, out + 1 + self, p->feed[1 + self]), from, 0);
    return b->code;
}

/* ---- what the first turn gets ---- */

static nc_value *is_token(nc_builder *b, const parts *p) {
    nc_value *pad = nc_build_scalar(b, NC_INT32, (double)nc_attr_int(p->s->n, "pad_token_id"));
    return nc_build_cast(b, nc_build1(b, "Not", 1, nc_build1(b, "Equal", 2, p->s->n->in[0], pad)), NC_INT32);
}

static nc_value *running_sum(nc_builder *b, nc_value *x, bool exclusive) {
    nc_attr a = integer("exclusive", exclusive);
    return nc_build_attr1(b, "", "CumSum", (nc_value *[]){x, nc_build_int(b, 1)}, 2, &a, 1);
}

/* A past of no tokens, or a buffer of zeros. */
static nc_value *empty_past(nc_builder *b, const parts *p, nc_value *rows) {
    nc_dtype elem;
    int64_t heads, size, zero = 0, one = 1, two = 2;
    if (b->code != NC_OK) return NULL;
    if ((b->code = nc_search_past(b->w, p->s, &elem, &heads, &size)) != NC_OK) return NULL;
    nc_value *room = p->s->extra > 0 ? nc_build1(b, "Reshape", 2, p->most, nc_build_ints(b, &one, 1))
                                     : nc_build_ints(b, &zero, 1);
    nc_value *dims[5] = {nc_build_ints(b, &two, 1), rows, nc_build_ints(b, &heads, 1), room,
                         nc_build_ints(b, &size, 1)};
    nc_value *shape = p->s->encodes ? joined(b, dims + 1, 4, 0) : joined(b, dims, 5, 0);
    return nc_build_cast(b, nc_build1(b, "ConstantOfShape", 1, shape), elem);
}

static nc_code gpt_begin(nc_builder *b, parts *p) {
    nc_value *ids = p->s->n->in[0], *mask = operand(b, p, p->s->f->mask), *token = is_token(b, p);
    int64_t axis = 1;
    if (mask == NULL) mask = token;
    nc_value *at = nc_build1(b, "Mul", 2, running_sum(b, token, true), token); /* whatever the mask says */
    p->count = gathered(b, nc_build_reduce_sum(b, token, &axis, 1, true), p->text_of, 0);
    p->ones = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, p->count, nc_build_scalar(b, NC_INT32, 0)),
                        nc_build_scalar(b, NC_INT32, 1));
    p->feed[0] = gathered(b, ids, p->text_of, 0);
    p->feed[1] = gathered(b, at, p->text_of, 0);
    p->feed[2] = gathered(b, mask, p->text_of, 0);
    nc_value *past = empty_past(b, p, nc_contrib_size(b, p->feed[0], 0));
    for (int i = 0; i < p->s->layers; i++) p->feed[3 + i] = past;
    NC_TRY(b->code);
    return p->s->first >= 0 ? gpt_turn(b, p, p->s->first, nc_build_int(b, 0)) : NC_OK;
}

/* Padding on the left does not count; on the right it may be T5's end of the text. */
static nc_value *t5_mask(nc_builder *b, const parts *p) {
    nc_value *mask = operand(b, p, p->s->f->mask);
    if (mask != NULL) return mask;
    nc_value *so_far = running_sum(b, is_token(b, p), false);
    return nc_build_cast(b, nc_build1(b, "Greater", 2, so_far, nc_build_scalar(b, NC_INT32, 0)), NC_INT32);
}

/* The tokens that each of `like`'s rows begins with: (rows, 1), or as Whisper is told. */
static nc_value *start_tokens(nc_builder *b, const parts *p, nc_value *like) {
    if (p->s->hears && operand(b, p, p->s->f->begin) != NULL) return operand(b, p, p->s->f->begin);
    int64_t one = 1, token = nc_attr_int(p->s->n, "decoder_start_token_id");
    nc_value *dims[2] = {nc_contrib_size(b, like, 0), nc_build_ints(b, &one, 1)};
    return nc_build1(b, "Expand", 2, nc_build_scalar(b, NC_INT32, (double)token), joined(b, dims, 2, 0));
}

/* How likely the first logits (texts, tokens, V) hold the token that says nobody speaks: (texts). */
static nc_value *non_speech(nc_builder *b, const parts *p, nc_value *logits) {
    nc_attr last = integer("axis", -1);
    nc_value *row = gathered(b, plain_logits(b, p, logits), nc_build_int(b, -1), 1);
    nc_value *token = nc_build_int(b, nc_contrib_int(p->s->n, "no_speech_token_id", -1));
    return gathered(b, nc_build_attr1(b, "", "Softmax", &row, 1, &last, 1), token, 1);
}

/* (rows, pairs, 0, frames) */
static nc_value *nothing_shown(nc_builder *b, const parts *p) {
    int64_t zero = 0;
    nc_value *key = p->fixed[p->n_fixed - 1];
    nc_value *dims[4] = {nc_contrib_size(b, key, 0), nc_contrib_size(b, operand(b, p, SHOWN_HEADS), 0),
                         nc_build_ints(b, &zero, 1), nc_contrib_size(b, key, 2)};
    return nc_build1(b, "ConstantOfShape", 1, joined(b, dims, 4, 0));
}

static nc_code t5_begin(nc_builder *b, parts *p, nc_value *mask, nc_value *const *encoded) {
    const nc_search *s = p->s;
    int self = 2 * s->layers, at = s->begun ? 2 : 0;
    if (!s->hears) p->fixed[p->n_fixed++] = gathered(b, mask, p->text_of, 0);
    if (s->i_past == 3 - s->hears) p->fixed[p->n_fixed++] = gathered(b, encoded[1], p->text_of, 0);
    for (int i = 0; s->begun && i < self; i++) {
        nc_value *own = s->extra > 0 ? with_room(b, p, encoded[at++]) : encoded[at++];
        p->feed[1 + i] = gathered(b, own, p->text_of, 0);
    }
    for (int i = 0; i < self; i++) p->fixed[p->n_fixed++] = gathered(b, encoded[at++], p->text_of, 0);
    if (p->n_feed > 1 + self) p->feed[1 + self] = nothing_shown(b, p);
    if (!s->begun) {
        nc_value *past = empty_past(b, p, nc_contrib_size(b, p->fixed[0], 0));
        for (int i = 0; i < self; i++) p->feed[1 + i] = past;
        p->feed[0] = start_tokens(b, p, p->fixed[0]);
        return b->code;
    }
    nc_value *from, *next = step(b, p, gathered(b, encoded[0], p->text_of, 0), &from);
    if (nc_contrib_wants(s->n, NON_SPEECH)) p->non_speech = non_speech(b, p, encoded[0]);
    NC_TRY(b->code);
    p->feed[0] = t5_ids(b, p, next); /* rows of one text have equal pasts still: nothing to gather */
    return b->code;
}

/* The encoder, and what it gives. */
static nc_code encode(nc_builder *b, parts *p, nc_value **mask, nc_value ***out) {
    const nc_search *s = p->s;
    *mask = s->hears ? NULL : t5_mask(b, p);
    *out = nc_arena_array(&b->w->scratch, (size_t)s->n->subs[s->encoder].graph->outputs.n, sizeof **out);
    NC_NEED(b->w, *out);
    nc_value *in[3] = {s->n->in[0], *mask, s->begun ? start_tokens(b, p, s->n->in[0]) : NULL};
    if (s->hears) in[1] = in[2];
    NC_TRY(b->code);
    return nc_control_inline(b, s->n, s->encoder, in, *out);
}

/* ---- the whole ---- */

static nc_code begin_state(nc_builder *b, parts *p, nc_value *ids) {
    const nc_search_form *f = p->s->f;
    nc_attr pad = integer("pad", nc_attr_int(p->s->n, "pad_token_id"));
    nc_value *in[4] = {ids, p->s->n->in[1], operand(b, p, f->beams), operand(b, p, f->returns)};
    nc_node *n = nc_build(b, "nacre", "SearchBegin", in, 4, NC_SEARCH_N_STATE + 1, &pad, 1);
    NC_TRY(b->code);
    p->n_state = f->beams >= 0 ? NC_SEARCH_N_STATE : NC_SEARCH_N_GREEDY;
    for (int i = 0; i < p->n_state; i++) p->state[i] = n->out[i];
    p->start = p->state[NC_SEARCH_LENGTH];
    p->text_of = f->beams >= 0 ? n->out[NC_SEARCH_N_STATE] : NULL;
    p->most = scalar(b, p->s->n->in[1], NC_INT64);
    NC_TRY(b->code);
    return begin_buffers(b, p);
}

/* The tokens to come. Scores of all turns are stacked: *all. */
static nc_code loop(nc_builder *b, parts *p, nc_value **all) {
    int n = p->n_feed + p->n_state;
    nc_control_loop l;
    nc_value **carried = nc_arena_array(&b->w->scratch, (size_t)n + 1, sizeof *carried);
    NC_NEED(b->w, carried);
    for (int i = 0; i < n; i++) carried[i] = i < p->n_feed ? p->feed[i] : p->state[i - p->n_feed];
    nc_value *trips = nc_build1(b, "Sub", 2, p->most, p->state[NC_SEARCH_LENGTH]);
    nc_value *go = p->go;
    NC_TRY(b->code);
    NC_TRY(nc_control_loop_begin(b, trips, carried, n, p->wants_scores, &l));
    if (go != NULL) nc_edit_set_in(l.node, 1, go);
    for (int i = 0; i < n; i++) *(i < p->n_feed ? &p->feed[i] : &p->state[i - p->n_feed]) = l.carried[i];
    nc_value *turn = nc_build1(&l.b, "Sub", 2, p->state[NC_SEARCH_LENGTH], seen(&l.b, p->start));
    NC_TRY(l.b.code);
    NC_TRY((p->s->encodes ? t5_turn : gpt_turn)(&l.b, p, p->s->decoder, turn));
    for (int i = 0; i < n; i++) carried[i] = i < p->n_feed ? p->feed[i] : p->state[i - p->n_feed];
    carried[n] = p->scores;
    l.go = p->go;
    NC_TRY(nc_control_loop_end(b, &l, carried));
    for (int i = 0; i < p->n_state; i++) p->state[i] = l.node->out[p->n_feed + i];
    p->feed[p->n_feed - 1] = l.node->out[p->n_feed - 1];
    *all = p->wants_scores ? l.node->out[n] : NULL;
    return NC_OK;
}

/* Stacked scores of `first` and of the Loop's turns: (max_length - start, texts, beams, vocabulary), zero where the
 * search had ended. */
static nc_value *all_scores(nc_builder *b, const parts *p, nc_value *first, nc_value *rest) {
    int64_t zero = 0, one = 1, six[6] = {0};
    if (first != NULL) {
        first = nc_build1(b, "Unsqueeze", 2, first, nc_build_ints(b, &zero, 1));
        rest = joined(b, (nc_value *[]){first, rest}, 2, 0);
    }
    nc_value *found = p->state[NC_SEARCH_FOUND], *vector = nc_build_ints(b, &one, 1);
    nc_value *dims[4] = {nc_contrib_size(b, rest, 0), nc_contrib_size(b, found, 0), nc_contrib_size(b, found, 1),
                         nc_contrib_size(b, rest, 2)};
    nc_value *steps = nc_build1(b, "Reshape", 2, nc_build1(b, "Sub", 2, p->most, p->start), vector);
    nc_value *missing = nc_build1(b, "Sub", 2, steps, dims[0]);
    nc_value *y = nc_build1(b, "Reshape", 2, rest, joined(b, dims, 4, 0));
    nc_value *pads[3] = {nc_build_ints(b, six, 4), missing, nc_build_ints(b, six, 3)};
    return nc_build1(b, "Pad", 2, y, joined(b, pads, 3, 0));
}

/* What was shown of the first beams of each text: (texts, returns, pairs, tokens, frames). */
static nc_value *all_shown(nc_builder *b, const parts *p) {
    int64_t zero = 0, one = 1;
    nc_value *x = p->feed[p->n_feed - 1], *found = p->state[NC_SEARCH_FOUND], *first = nc_build_ints(b, &zero, 1);
    nc_value *returns = nc_build1(b, "Reshape", 2, operand(b, p, p->s->f->returns), nc_build_ints(b, &one, 1));
    nc_value *dims[5] = {nc_contrib_size(b, found, 0), nc_contrib_size(b, found, 1)};
    for (int i = 1; i < 4; i++) dims[1 + i] = nc_contrib_size(b, x, i);
    return nc_build1(b, "Slice", 4, nc_build1(b, "Reshape", 2, x, joined(b, dims, 5, 0)), first,
                     nc_build_cast(b, returns, NC_INT64), nc_build_ints(b, &one, 1));
}

static nc_code beam_outputs(nc_builder *b, parts *p, nc_value *first, nc_value *all, nc_value **out) {
    const nc_node *n = p->s->n;
    nc_attr pad = integer("pad", nc_attr_int(n, "pad_token_id"));
    nc_value *in[NC_SEARCH_N_STATE + 2], *penalty = operand(b, p, p->s->f->length_penalty);
    for (int i = 0; i < NC_SEARCH_N_STATE; i++) in[i] = p->state[i];
    in[NC_SEARCH_N_STATE] = operand(b, p, p->s->f->returns);
    in[NC_SEARCH_N_STATE + 1] = penalty != NULL ? nc_build_cast(b, penalty, NC_FLOAT) : NULL;
    nc_node *end = nc_build(b, "nacre", "BeamEnd", in, NC_SEARCH_N_STATE + 2, 2, &pad, 1);
    NC_TRY(b->code);
    out[0] = end->out[0];
    if (n->n_out > 1) out[1] = end->out[1];
    if (p->wants_scores) out[2] = all_scores(b, p, first, all);
    if (nc_contrib_wants(n, NON_SPEECH)) out[NON_SPEECH] = p->non_speech;
    if (nc_contrib_wants(n, SHOWN)) out[SHOWN] = all_shown(b, p);
    return b->code;
}

nc_code nc_search_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_search s;
    NC_TRY(nc_search_measure(b->w, n, &s));
    bool shows = s.shows && nc_contrib_wants(n, SHOWN);
    parts p = {.s = &s, .n_feed = s.encodes ? 1 + 2 * s.layers + shows : 3 + s.layers};
    p.wants_scores = nc_contrib_wants(n, s.f->beams >= 0 ? 2 : 1);
    p.feed = nc_arena_array(&b->w->scratch, (size_t)p.n_feed, sizeof *p.feed);
    p.fixed = nc_arena_array(&b->w->scratch, (size_t)(2 + 2 * s.layers), sizeof *p.fixed);
    nc_value *mask = NULL, **encoded = NULL, *all = NULL, *last = NULL;
    NC_NEED(b->w, p.feed);
    NC_NEED(b->w, p.fixed);
    if (s.encodes) NC_TRY(encode(b, &p, &mask, &encoded));
    NC_TRY(begin_state(b, &p, s.encodes ? start_tokens(b, &p, n->in[0]) : n->in[0]));
    NC_TRY(s.encodes ? t5_begin(b, &p, mask, encoded) : gpt_begin(b, &p));
    nc_value *first = p.scores;
    NC_TRY(loop(b, &p, &all));
    if (s.f->beams >= 0) return beam_outputs(b, &p, first, all, out);
    out[0] = p.state[NC_SEARCH_SEQUENCES];
    if (p.wants_scores) { /* of the last turn, which may have been the first */
        nc_value *rows = all;
        if (first != NULL)
            rows = joined(
                b, (nc_value *[]){nc_build1(b, "Unsqueeze", 2, first, nc_build_ints(b, &(int64_t){0}, 1)), all}, 2, 0);
        last = gathered(b, rows, nc_build_int(b, -1), 0);
        out[1] = last;
    }
    return b->code;
}
