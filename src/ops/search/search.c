/* ops/search/search.c: cards of GreedySearch, Sampling, BeamSearch and WhisperBeamSearch (com.microsoft): which models
 * they take, and what their subgraphs get and give. How they run is in search_parts.c. */
#include "ops/search/search.h"

static nc_code whole_number(nc_infer *c, int i, const char *name, const nc_dim **out) {
    int64_t v = 0;
    bool known = false;
    NC_TRY(nc_in_number(c, i, &v, &known));
    if (known && v < 1) NC_FAIL(c->w, NC_E_DATA, "%s is %lld, expected at least 1", name, (long long)v);
    *out = known ? nc_dim_const(c->dims, v) : nc_fresh(c, name);
    NC_NEED(c->w, *out);
    return NC_OK;
}

/* ---- measuring ---- */

static int sub_of(const nc_node *n, const char *name) {
    const nc_attr *a = nc_node_attr(n, name);
    return a != NULL ? a->sub : -1;
}

/* Whole numbers behind the pasts: what a decoder takes whose pasts and presents are one buffer. */
static int extra_inputs(const nc_graph *g, int i_past) {
    int n = g->inputs.n;
    for (; n > i_past; n--) {
        const nc_type *t = g->inputs.v[n - 1]->type;
        if (t == NULL || t->kind != NC_T_TENSOR || t->elem != NC_INT32) break;
    }
    return g->inputs.n - n;
}

static nc_code measure_gpt(nc_work *w, nc_search *s) {
    int subs[2] = {s->decoder, s->first}, *extra[2] = {&s->extra, &s->first_extra};
    s->i_past = 3;
    s->layers = s->n->subs[s->decoder].graph->outputs.n - 1;
    for (int i = 0; i < 2; i++) {
        if (subs[i] < 0) continue;
        const nc_graph *g = s->n->subs[subs[i]].graph;
        int n = *extra[i] = extra_inputs(g, s->i_past);
        if (s->layers < 1 || g->outputs.n != 1 + s->layers || g->inputs.n != 3 + s->layers + n || n == 2 || n > 3)
            NC_FAIL(w, NC_E_UNSUPPORTED,
                    "%s takes %d values and gives %d, expected input_ids, position_ids, attention_mask, pasts and, if "
                    "these are buffers, past_sequence_length, or that and beam_width and cache_indirection, and "
                    "logits and as many presents",
                    s->n->subs[subs[i]].attr, g->inputs.n, g->outputs.n);
    }
    if (s->first >= 0 && (s->extra > 0) != (s->first_extra > 0))
        NC_FAIL(w, NC_E_BAD_GRAPH, "the pasts of one of decoder and init_decoder are buffers, expected both or none");
    return NC_OK;
}

/* Whisper's subgraphs are T5's without a mask; its encoder always gives the first logits. */
static nc_code measure_t5(nc_work *w, nc_search *s) {
    if (s->encoder < 0) NC_FAIL(w, NC_E_BAD_GRAPH, "model_type is %d, which needs an encoder", s->hears ? 2 : 1);
    int masks = !s->hears;
    const nc_graph *d = s->n->subs[s->decoder].graph, *e = s->n->subs[s->encoder].graph;
    s->encodes = true;
    s->shows = s->hears && nc_contrib_int(s->n, "decoder_output_cross_qk", 0) != 0;
    int each = s->shows ? 3 : 2;
    s->layers = (d->outputs.n - 1) / each;
    s->extra = extra_inputs(d, 1 + masks);
    s->i_past = d->inputs.n - s->extra - 4 * s->layers;
    s->begun = s->hears || e->inputs.n == 3;
    int gives = s->begun ? 2 + 4 * s->layers : 2 * s->layers;
    if (s->layers < 1 || d->outputs.n != 1 + each * s->layers || s->extra == 2 || s->extra > 3 ||
        (s->i_past != 1 + masks && s->i_past != 2 + masks))
        NC_FAIL(w, NC_E_UNSUPPORTED,
                "the decoder takes %d values and gives %d, expected %d or %d and 4 pasts a layer, if these are buffers "
                "past_sequence_length or that and beam_width and cache_indirection, and 1 and %d results a layer",
                d->inputs.n, d->outputs.n, 1 + masks, 2 + masks, each);
    if ((e->inputs.n != 2 && e->inputs.n != 2 + masks) || e->outputs.n != gives)
        NC_FAIL(w, NC_E_UNSUPPORTED, "the encoder takes %d values and gives %d, expected %d for %d layers", e->inputs.n,
                e->outputs.n, gives, s->layers);
    if (s->i_past == 2 + masks && !s->begun)
        NC_FAIL(w, NC_E_UNSUPPORTED, "the decoder takes hidden states, which the encoder does not give");
    const nc_type *ids = d->inputs.v[0]->type;
    int64_t one = 0;
    bool single = ids != NULL && ids->rank == 2 && nc_dim_is_const(ids->dims[1], &one) && one == 1;
    s->whole_inputs = !single;
    bool told = s->hears && nc_contrib_in(s->n, s->f->begin) != NULL;
    if (s->begun && !told && nc_attr_int(s->n, "decoder_start_token_id") < 0)
        NC_FAIL(w, NC_E_BAD_GRAPH, "decoder_start_token_id is needed");
    return NC_OK;
}

nc_code nc_search_measure(nc_work *w, const nc_node *n, nc_search *s) {
    int64_t model = nc_attr_int(n, "model_type");
    *s = (nc_search){.n = n,
                     .f = n->card->own,
                     .decoder = sub_of(n, "decoder"),
                     .encoder = sub_of(n, "encoder"),
                     .first = sub_of(n, "init_decoder")};
    if (s->decoder < 0) NC_FAIL(w, NC_E_BAD_GRAPH, "has no decoder");
    if (model == 0) return measure_gpt(w, s);
    s->hears = model == 2;
    if ((model == 1 || model == 2) && s->f->beams >= 0) return measure_t5(w, s);
    NC_FAIL(w, NC_E_UNSUPPORTED, "model_type is %lld, expected 0 (GPT-2)%s", (long long)model,
            s->f->beams >= 0 ? ", 1 (T5) or 2 (Whisper)" : "");
}

nc_code nc_search_past(nc_work *w, const nc_search *s, nc_dtype *elem, int64_t *heads, int64_t *size) {
    const nc_type *t = s->n->subs[s->decoder].graph->inputs.v[s->i_past]->type;
    int rank = s->encodes ? 4 : 5;
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank != rank || !nc_dim_is_const(t->dims[rank - 3], heads) ||
        !nc_dim_is_const(t->dims[rank - 1], size))
        NC_FAIL(w, NC_E_SHAPE,
                "the decoder's first past needs %d dims, with known numbers of heads and of a head's "
                "elements",
                rank);
    *elem = t->elem;
    return NC_OK;
}

/* ---- inference of the bodies ---- */

enum { MAX_BODY_IN = 3 + 4 * 512 };

typedef struct body {
    nc_infer *c;
    const nc_graph *g;
    nc_infer_val *in;
    int n;
} body;

/* The next input: of the type the body declares, else `elem`; dims NULL: as declared where constant, else unknown. */
static nc_code body_input(body *b, nc_dtype elem, int rank, const nc_dim *const *dims) {
    const nc_type *t = b->g->inputs.v[b->n]->type;
    const nc_dim *all[5];
    for (int k = 0; k < rank; k++) {
        bool constant = t != NULL && t->rank == rank && nc_dim_is_const(t->dims[k], NULL);
        all[k] = dims[k] != NULL ? dims[k] : constant ? t->dims[k] : nc_fresh(b->c, "d");
        NC_NEED(b->c->w, all[k]);
    }
    if (elem == NC_UNDEFINED) elem = t != NULL && t->kind == NC_T_TENSOR ? t->elem : NC_FLOAT;
    b->in[b->n] = (nc_infer_val){.type = nc_type_tensor(b->c->arena, elem, rank, all), .present = true};
    NC_NEED(b->c->w, b->in[b->n].type);
    b->n++;
    return NC_OK;
}

static nc_code begin_body(nc_infer *c, int i_sub, body *b) {
    *b = (body){.c = c, .g = c->node->subs[i_sub].graph};
    if (b->g->inputs.n > MAX_BODY_IN) NC_FAIL(c->w, NC_E_LIMIT, "a subgraph takes %d values", b->g->inputs.n);
    b->in = nc_arena_array(&c->w->scratch, (size_t)b->g->inputs.n + 1, sizeof *b->in);
    NC_NEED(c->w, b->in);
    return NC_OK;
}

/* past_sequence_length; beam_width and cache_indirection (texts, beams, room). */
static nc_code extra_bodies(body *b, int n) {
    const nc_dim *one = nc_dim_const(b->c->dims, 1);
    const nc_dim *places[3] = {nc_fresh(b->c, "texts"), nc_fresh(b->c, "beams"), nc_fresh(b->c, "room")};
    if (!one || !places[0] || !places[1] || !places[2]) NC_FAIL(b->c->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) NC_TRY(body_input(b, NC_INT32, i < 2 ? 1 : 3, i < 2 ? &one : places));
    return NC_OK;
}

static nc_code infer_gpt(nc_infer *c, const nc_search *s, int i_sub) {
    body b;
    NC_TRY(begin_body(c, i_sub, &b));
    const nc_dim *rows = nc_fresh(c, "rows"), *past = nc_fresh(c, "past"), *two = nc_dim_const(c->dims, 2);
    const nc_dim *ids[2] = {rows, nc_fresh(c, "tokens")}, *mask[2] = {rows, nc_fresh(c, "total")};
    const nc_dim *pasts[5] = {two, rows, NULL, past, NULL};
    if (!rows || !past || !two || !ids[1] || !mask[1]) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    NC_TRY(body_input(&b, NC_INT32, 2, ids));
    NC_TRY(body_input(&b, NC_INT32, 2, ids));
    NC_TRY(body_input(&b, NC_INT32, 2, mask));
    for (int i = 0; i < s->layers; i++) NC_TRY(body_input(&b, NC_UNDEFINED, 5, pasts));
    NC_TRY(extra_bodies(&b, i_sub == s->decoder ? s->extra : s->first_extra));
    return c->infer_sub(c, i_sub, b.in, b.n);
}

static nc_code infer_t5(nc_infer *c, const nc_search *s) {
    body b;
    const nc_dim *texts = nc_fresh(c, "texts"), *tokens = nc_fresh(c, "tokens"), *one = nc_dim_const(c->dims, 1);
    const nc_dim *rows = nc_fresh(c, "rows"), *past = nc_fresh(c, "past");
    if (!texts || !tokens || !one || !rows || !past) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    const nc_dim *said = s->hears ? nc_fresh(c, "said") : one;
    NC_NEED(c->w, said);
    const nc_dim *ids[2] = {texts, tokens}, *start[2] = {texts, said}, *sound[3] = {texts, NULL, NULL};
    NC_TRY(begin_body(c, s->encoder, &b));
    NC_TRY(s->hears ? body_input(&b, NC_UNDEFINED, 3, sound) : body_input(&b, NC_INT32, 2, ids));
    if (!s->hears) NC_TRY(body_input(&b, NC_INT32, 2, ids));
    if (s->begun) NC_TRY(body_input(&b, NC_INT32, 2, start));
    NC_TRY(c->infer_sub(c, s->encoder, b.in, b.n));
    const nc_dim *next[2] = {rows, s->whole_inputs ? nc_fresh(c, "so_far") : one}, *mask[2] = {rows, tokens};
    const nc_dim *hidden[3] = {rows, tokens, NULL}, *self[4] = {rows, NULL, past, NULL};
    const nc_dim *cross[4] = {rows, NULL, tokens, NULL};
    NC_NEED(c->w, next[1]);
    NC_TRY(begin_body(c, s->decoder, &b));
    NC_TRY(body_input(&b, NC_INT32, 2, next));
    if (!s->hears) NC_TRY(body_input(&b, NC_INT32, 2, mask));
    if (s->i_past == 3 - s->hears) NC_TRY(body_input(&b, NC_UNDEFINED, 3, hidden));
    for (int i = 0; i < 4 * s->layers; i++) NC_TRY(body_input(&b, NC_UNDEFINED, 4, i < 2 * s->layers ? self : cross));
    NC_TRY(extra_bodies(&b, s->extra));
    return c->infer_sub(c, s->decoder, b.in, b.n);
}

/* ---- the cards ---- */

static nc_code check_ids(nc_infer *c, bool hears, const nc_dim **texts) {
    const nc_type *t = nc_in(c, 0);
    if (t != NULL && (t->elem == NC_INT32) == hears)
        NC_FAIL(c->w, NC_E_TYPE, "input_ids are %s, expected %s", nc_dtype_name(t->elem), hears ? "float" : "int32");
    NC_TRY(nc_contrib_rank(c, 0, hears ? 3 : 2));
    *texts = t != NULL && t->rank >= 2 ? t->dims[0] : nc_fresh(c, "texts");
    NC_NEED(c->w, *texts);
    return NC_OK;
}

/* cross_qk: scores of the cross attentions' heads that cross_qk_layer_head (pairs, 2) names, for each token. */
static nc_code infer_shown(nc_infer *c, const nc_search *s, const nc_dim *texts) {
    const nc_dim *returns, *tokens = nc_fresh(c, "tokens"), *frames = nc_fresh(c, "frames");
    if (!s->shows)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "cross_qk is asked for, but decoder_output_cross_qk is 0: no decoder gives it");
    if (!nc_contrib_in(c->node, 12)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "cross_qk is asked for without cross_qk_layer_head");
    NC_TRY(nc_contrib_rank(c, 12, 2));
    NC_TRY(nc_in_expect(c, 12, 1, nc_dim_const(c->dims, 2)));
    NC_TRY(whole_number(c, s->f->returns, "num_return_sequences", &returns));
    const nc_dim *pairs = nc_in_dim(c, 12, 0);
    if (pairs == NULL) pairs = nc_fresh(c, "pairs");
    if (!tokens || !frames || !pairs) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    return nc_out(c, 3, NC_FLOAT, 5, (const nc_dim *[]){texts, returns, pairs, tokens, frames});
}

/* What WhisperBeamSearch alone has. */
static nc_code infer_extras(nc_infer *c, const nc_search *s, const nc_dim *texts) {
    if (nc_contrib_wants(c->node, 3)) NC_TRY(infer_shown(c, s, texts));
    if (nc_contrib_in(c->node, 13)) {
        NC_TRY(nc_contrib_rank(c, 13, 2));
        NC_TRY(nc_in_expect(c, 13, 0, texts));
    }
    if (!nc_contrib_wants(c->node, 4)) return NC_OK;
    if (!nc_attr_has(c->node, "no_speech_token_id") || nc_attr_int(c->node, "no_speech_token_id") < 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "non_speech_probs is asked for without a no_speech_token_id");
    if (!s->begun) NC_FAIL(c->w, NC_E_UNSUPPORTED, "non_speech_probs need an encoder that gives the first logits");
    return nc_out(c, 4, NC_FLOAT, 1, &texts);
}

static nc_code search_infer(nc_infer *c) {
    nc_search s;
    const nc_dim *texts, *most, *vocabulary = NULL;
    NC_TRY(nc_search_measure(c->w, c->node, &s));
    NC_TRY(check_ids(c, s.hears, &texts));
    if (s.f->forced >= 0) NC_TRY(infer_extras(c, &s, texts));
    NC_TRY(whole_number(c, 1, "max_length", &most));
    NC_TRY(s.encodes ? infer_t5(c, &s) : infer_gpt(c, &s, s.decoder));
    if (!s.encodes && s.first >= 0) NC_TRY(infer_gpt(c, &s, s.first));
    const nc_type *logits = c->node->subs[s.decoder].graph->outputs.v[0]->type;
    if (logits != NULL && logits->kind == NC_T_TENSOR && logits->rank >= 0 && logits->rank != 3)
        NC_FAIL(c->w, NC_E_SHAPE, "the decoder's logits have %d dims, expected 3", logits->rank);
    if (logits != NULL && logits->rank == 3 && nc_dim_is_const(logits->dims[2], NULL)) vocabulary = logits->dims[2];
    int64_t size = nc_attr_int(c->node, "vocab_size");
    if (size > 0) vocabulary = nc_dim_const(c->dims, size);
    if (vocabulary == NULL) NC_NEED(c->w, vocabulary = nc_fresh(c, "vocabulary"));
    if (s.f->beams < 0) {
        const nc_dim *dims[2] = {texts, most}, *last[2] = {texts, vocabulary};
        NC_TRY(nc_out(c, 0, NC_INT32, 2, dims));
        return nc_contrib_wants(c->node, 1) ? nc_out(c, 1, NC_FLOAT, 2, last) : NC_OK;
    }
    const nc_dim *beams, *returns, *steps = nc_fresh(c, "steps");
    NC_NEED(c->w, steps);
    NC_TRY(whole_number(c, s.f->beams, "num_beams", &beams));
    NC_TRY(whole_number(c, s.f->returns, "num_return_sequences", &returns));
    const nc_dim *dims[3] = {texts, returns, most}, *all[4] = {steps, texts, beams, vocabulary};
    NC_TRY(nc_out(c, 0, NC_INT32, 3, dims));
    if (nc_contrib_wants(c->node, 1)) NC_TRY(nc_out(c, 1, NC_FLOAT, 2, dims));
    return nc_contrib_wants(c->node, 2) ? nc_out(c, 2, NC_FLOAT, 4, all) : NC_OK;
}

#define A_GRAPH_OPT(n) \
    { .name = n, .kind = NC_A_GRAPH }
#define TOKENS                                                                                 \
    A_INT_REQ("eos_token_id"), A_INT_REQ("pad_token_id"), A_INT("decoder_start_token_id", -1), \
        A_INT("no_repeat_ngram_size", 0)
#define GRAPHS(model)                                                                                        \
    A_INT("model_type", model), A_GRAPH_OPT("encoder"), A_GRAPH_OPT("init_decoder"), A_GRAPH_REQ("decoder"), \
        A_INT("vocab_size", -1)
#define OPT(name, types) \
    { name, types, OPTIONAL }
#define WHY "it chooses tokens, which are no function of numbers that can be differentiated"

static const nc_op_version greedy_versions[] = {
    {.since = 1,
     IN({"input_ids", T_I32}, {"max_length", T_I32}, OPT("min_length", T_I32), OPT("repetition_penalty", T_F32),
        OPT("vocab_mask", T_I32), OPT("prefix_vocab_mask", T_I32), OPT("attention_mask", T_I32)),
     OUT({"sequences", T_I32}),
     ATTR(TOKENS, GRAPHS(0))},
    {0}};
static const nc_search_form greedy_form = {.min_length = 2,
                                           .beams = -1,
                                           .returns = -1,
                                           .length_penalty = -1,
                                           .repetition_penalty = 3,
                                           .vocab_mask = 4,
                                           .prefix_mask = 5,
                                           .mask = 6,
                                           .presence = -1,
                                           .seed = -1,
                                           .begin = -1,
                                           .processor = -1,
                                           .forced = -1,
                                           .temperature = -1};
const nc_card nc_card_greedy_search = {.name = "GreedySearch",
                                       .domain = NC_MICROSOFT,
                                       .doc = "Texts continued by the likeliest token of a decoder, again and again.",
                                       .versions = greedy_versions,
                                       .traits = NC_CONTROL,
                                       .own = &greedy_form,
                                       .host_in = 0x6,
                                       .infer = search_infer,
                                       .no_grad = WHY,
                                       .decompose = nc_search_decompose};

static const nc_op_version sampling_versions[] = {
    {.since = 1,
     IN({"input_ids", T_I32}, {"max_length", T_I32}, OPT("min_length", T_I32), OPT("repetition_penalty", T_F32),
        OPT("vocab_mask", T_I32), OPT("prefix_vocab_mask", T_I32), OPT("attention_mask", T_I32),
        OPT("presence_mask", T_I32), OPT("seed", T_I32)),
     OUT({"sequences", T_I32}, OPT("filtered_logits", T_F32)),
     ATTR(TOKENS, A_FLOAT("temperature", 1), A_FLOAT("top_p", 0), A_FLOAT("filter_value", -1e20f),
          A_INT("min_tokens_to_keep", 0), A_FLOAT("presence_penalty", 0), A_INT("custom", 0), GRAPHS(0))},
    {0}};
static const nc_search_form sampling_form = {.min_length = 2,
                                             .beams = -1,
                                             .returns = -1,
                                             .length_penalty = -1,
                                             .repetition_penalty = 3,
                                             .vocab_mask = 4,
                                             .prefix_mask = 5,
                                             .mask = 6,
                                             .presence = 7,
                                             .seed = 8,
                                             .begin = -1,
                                             .processor = -1,
                                             .forced = -1,
                                             .temperature = -1,
                                             .samples = true};
const nc_card nc_card_sampling = {.name = "Sampling",
                                  .domain = NC_MICROSOFT,
                                  .doc = "Texts continued by tokens drawn from a decoder's likeliest ones.",
                                  .versions = sampling_versions,
                                  .traits = NC_CONTROL,
                                  .own = &sampling_form,
                                  .host_in = 0x6,
                                  .infer = search_infer,
                                  .no_grad = WHY,
                                  .decompose = nc_search_decompose};

#define T_SCORES (T_F32 | NC_BIT(NC_FLOAT16))
#define BEAM_IN                                                                                                \
    {"input_ids", T_I32 | T_SCORES}, {"max_length", T_I32}, OPT("min_length", T_I32), {"num_beams", T_I32},    \
        {"num_return_sequences", T_I32}, OPT("length_penalty", T_SCORES), OPT("repetition_penalty", T_SCORES), \
        OPT("vocab_mask", T_I32), OPT("prefix_vocab_mask", T_I32), OPT("attention_mask", T_I32),               \
        OPT("decoder_input_ids", T_I32), OPT("logits_processor", T_I32)
#define BEAM_OUT {"sequences", T_I32}, OPT("sequences_scores", T_SCORES), OPT("scores", T_SCORES)
static const nc_op_version beam_versions[] = {
    {.since = 1, IN(BEAM_IN), OUT(BEAM_OUT), ATTR(TOKENS, A_INT("early_stopping", 0), GRAPHS(0))}, {0}};
static const nc_op_version whisper_versions[] = {
    {.since = 1,
     IN(BEAM_IN, OPT("cross_qk_layer_head", T_I32), OPT("extra_decoding_ids", T_I32), OPT("temperature", T_SCORES)),
     OUT(BEAM_OUT, OPT("cross_qk", T_F32), OPT("non_speech_probs", T_SCORES)),
     ATTR(TOKENS, A_INT("early_stopping", 0), GRAPHS(2), A_INT_OPT("translate_token_id"),
          A_INT_OPT("transcribe_token_id"), A_INT_OPT("start_of_lm_token_id"), A_INT_OPT("no_speech_token_id"),
          A_INT_OPT("no_timestamps_token_id"), A_INT_OPT("beginning_timestamp_token_id"),
          A_INT_OPT("decoder_output_cross_qk"))},
    {0}};
#define BEAMS                                                                                                 \
    .min_length = 2, .beams = 3, .returns = 4, .length_penalty = 5, .repetition_penalty = 6, .vocab_mask = 7, \
    .prefix_mask = 8, .mask = 9, .presence = -1, .seed = -1, .begin = 10, .processor = 11
static const nc_search_form beam_form = {BEAMS, .forced = -1, .temperature = -1},
                            whisper_form = {BEAMS, .forced = 13, .temperature = 14};
const nc_card nc_card_beam_search = {.name = "BeamSearch",
                                     .domain = NC_MICROSOFT,
                                     .doc = "Texts continued by a decoder, or translated, along the likeliest ways.",
                                     .versions = beam_versions,
                                     .traits = NC_CONTROL,
                                     .own = &beam_form,
                                     .host_in = 0x1e,
                                     .infer = search_infer,
                                     .no_grad = WHY,
                                     .decompose = nc_search_decompose};
const nc_card nc_card_whisper_beam_search = {.name = "WhisperBeamSearch",
                                             .domain = NC_MICROSOFT,
                                             .doc = "Sounds written down along the likeliest ways.",
                                             .versions = whisper_versions,
                                             .traits = NC_CONTROL,
                                             .own = &whisper_form,
                                             .host_in = 0x1e,
                                             .infer = search_infer,
                                             .no_grad = WHY,
                                             .decompose = nc_search_decompose};
