/* ops/search/search.h: what the cards, the decomposition and the steps of ONNX Runtime's searches share (GreedySearch,
 * Sampling, BeamSearch and WhisperBeamSearch of com.microsoft). Private to the family.
 *
 * A search is a Loop around its decoder: nacre.SearchBegin makes the state of the search, a step (nacre.GreedyStep or
 * nacre.BeamStep) turns the decoder's logits into tokens and a new state, nacre.BeamEnd picks the best. Rows are texts
 * times beams. */
#ifndef NC_OPS_SEARCH_SEARCH_H
#define NC_OPS_SEARCH_SEARCH_H

#include "ops/build.h"
#include "ops/contrib.h"
#include "ops/control/control.h"

/* Where the operands of an op stand among its inputs; -1: it has none of that kind. */
typedef struct nc_search_form {
    int min_length, beams, returns, length_penalty, repetition_penalty, vocab_mask, prefix_mask, mask, presence, seed;
    int begin, processor; /* begin: the tokens that a decoder with an encoder goes on from */
    int forced, temperature;
    bool samples;
} nc_search_form;

typedef struct nc_search {
    const nc_node *n;
    const nc_search_form *f;
    int decoder, encoder, first; /* subgraphs; first: the decoder of the first step. -1: there is none */
    int layers;
    int extra, first_extra; /* of the decoder and of `first`: int32 inputs behind the pasts; 0: none, else the pasts
                             * are buffers of max_length. 1: past_sequence_length; 3: beam_width, cache_indirection */
    bool shows;             /* the decoder gives the scores of its cross attentions behind the presents, a layer each */
    int i_past;        /* the decoder's first past; before it are ids, T5's mask and maybe hidden states */
    bool encodes;      /* T5, Whisper: an encoder, whose results all steps see */
    bool hears;        /* Whisper: the encoder takes sounds (texts, bins, frames) and nobody a mask */
    bool begun;        /* the encoder gives the logits of the first step and the pasts behind it */
    bool whole_inputs; /* T5: the decoder takes all tokens so far, not the last one alone */
} nc_search;

/* Where the state of a search stands among the outputs of SearchBegin, and among what the Loop carries. */
enum {
    NC_SEARCH_SEQUENCES, /* int32 (rows, max_length), padded */
    NC_SEARCH_DONE,      /* bool (texts) */
    NC_SEARCH_LENGTH,    /* int64: tokens that a row has */
    NC_SEARCH_N_GREEDY,
    NC_SEARCH_SCORES = NC_SEARCH_N_GREEDY, /* float (rows): sums of logarithms */
    NC_SEARCH_FOUND,                       /* int32 (texts, beams, max_length + 1): the best that ended, then lengths */
    NC_SEARCH_FOUND_SCORES,                /* float (texts, beams), best first */
    NC_SEARCH_N_STATE
};

/* Inputs and outputs that both steps have; behind them their own. */
enum {
    NC_STEP_LOGITS,
    NC_STEP_SEQUENCES,
    NC_STEP_DONE,
    NC_STEP_LENGTH,
    NC_STEP_START,
    NC_STEP_MIN_LENGTH,
    NC_STEP_REPETITION,
    NC_STEP_VOCAB,
    NC_STEP_PREFIX,
    NC_STEP_N_IN
};
enum { NC_GREEDY_PRESENCE = NC_STEP_N_IN, NC_GREEDY_SEED, NC_GREEDY_N_IN };
enum {
    NC_BEAM_PENALTY = NC_STEP_N_IN,
    NC_BEAM_SCORES,
    NC_BEAM_FOUND,
    NC_BEAM_FOUND_SCORES,
    NC_BEAM_TEMPERATURE,
    NC_BEAM_PROCESSOR,
    NC_BEAM_FORCED, /* int32 (texts, turns): tokens of the first turns; below 0: none from there on */
    NC_BEAM_N_IN
};
enum { NC_STEP_OUT_NEXT = NC_SEARCH_N_GREEDY, NC_STEP_OUT_GO, NC_STEP_N_OUT }; /* first the state, in its order */
enum { NC_GREEDY_OUT_LOGITS = NC_STEP_N_OUT, NC_GREEDY_N_OUT };
enum {
    NC_BEAM_OUT_SCORES = NC_STEP_N_OUT,
    NC_BEAM_OUT_FOUND,
    NC_BEAM_OUT_FOUND_SCORES,
    NC_BEAM_OUT_FROM,
    NC_BEAM_OUT_ALL,
    NC_BEAM_N_OUT
};

/* What kind of model it is; refuses those that no decomposition serves. */
NC_MUST nc_code nc_search_measure(nc_work *w, const nc_node *n, nc_search *s);
/* The type of a past of no tokens, as the decoder declares it: heads and sizes. */
NC_MUST nc_code nc_search_past(nc_work *w, const nc_search *s, nc_dtype *elem, int64_t *heads, int64_t *size);
NC_MUST nc_code nc_search_decompose(nc_builder *b, const nc_node *n, nc_value **out);

#endif
