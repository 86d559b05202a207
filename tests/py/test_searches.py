"""GreedySearch, Sampling, BeamSearch and WhisperBeamSearch of com.microsoft against onnxruntime, on small random
decoders in the shapes of GPT-2, T5 and Whisper; what is drawn by its statistics; and what is refused, by which
words."""
import numpy as np
import onnxruntime
import pytest

import package
import searches
from searches import VOCABULARY
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
onnxruntime.set_default_logger_severity(4)
EOS, PAD = 3, 0


def one(x, kind=np.int32):
    return np.array([x], kind)


def texts(n=2, length=5, padded=True, seed=0):
    ids = np.random.default_rng(seed).integers(4, VOCABULARY, (n, length)).astype(np.int32)
    if padded and n > 1 and length > 2:
        ids[1, :2] = PAD
    return ids


def masks(n, seed=5):
    """A mask of the vocabulary and one for the first token of each text."""
    draw = np.random.default_rng(seed)
    both = (draw.random((n + 1, VOCABULARY)) < 0.7).astype(np.int32)
    both[:, [EOS, 7]] = 1
    return both[0], both[1:]


ORDER = {"GreedySearch": "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask "
                         "attention_mask",
         "Sampling": "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask "
                     "presence_mask seed",
         "BeamSearch": "input_ids max_length min_length num_beams num_return_sequences length_penalty "
                       "repetition_penalty vocab_mask prefix_vocab_mask attention_mask decoder_input_ids "
                       "logits_processor"}
ORDER["WhisperBeamSearch"] = ORDER["BeamSearch"] + " cross_qk_layer_head extra_decoding_ids temperature"
KINDS = {"repetition_penalty": np.float32, "length_penalty": np.float32, "temperature": np.float32}


def model_of(op, given, outputs=("sequences",), decoder=None, **attributes):
    """given: operands by name; numbers become tensors of one element."""
    if "Beam" in op:
        given = {"min_length": 0, "length_penalty": 1.0} | given  # onnxruntime does not run without
    given = {n: x if isinstance(x, np.ndarray) else one(x, KINDS.get(n, np.int32)) for n, x in given.items()}
    names = ORDER[op].split()
    inputs = [(n if n in given else "", given.get(n)) for n in names]
    while "Beam" not in op and not inputs[-1][0]:  # onnxruntime looks at all of BeamSearch's without asking
        inputs.pop()
    graphs = {"decoder": decoder or searches.gpt(attributes.pop("seed", 1))}
    tokens = {"eos_token_id": EOS, "pad_token_id": PAD}
    model = searches.search(op, inputs, list(outputs), **tokens | graphs | attributes)
    return model, {n: x for n, x in inputs if n}


def written(sequences):
    """How many tokens onnxruntime's GreedySearch writes: behind the end of all texts it leaves memory as it was."""
    still = np.flatnonzero((sequences != PAD).any(0))
    return still[-1] + 2 if still.size else 1


def both(op, given, outputs=("sequences",), **attributes):
    import nacre
    model, feeds = model_of(op, given, outputs, **attributes)
    want = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    for device in ("CPUExecutionProvider", "GuardExecutionProvider"):
        got = nacre.InferenceSession(model, providers=[device]).run(None, feeds)
        for name, g, w in zip(outputs, got, want):
            assert g.dtype == w.dtype and g.shape == w.shape, f"{name}: {g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
            if g.dtype == np.int32:
                n = written(g) if op == "GreedySearch" else g.shape[-1]
                assert np.array_equal(g[..., :n], w[..., :n]), f"{name} {device}:\n{g}\nexpected\n{w}"
            else:
                close(g, w, "model_f32", f"{name} {device}")
    return want


def forms(n):
    words, first = masks(n)
    yield "plain", {}, {}
    yield "min_length", {"min_length": 12}, {}
    yield "repetition", {"repetition_penalty": 2.5}, {}
    yield "ngrams", {}, {"no_repeat_ngram_size": 2}
    yield "single tokens", {}, {"no_repeat_ngram_size": 1}
    yield "vocabulary", {"vocab_mask": words}, {}
    yield "first", {"vocab_mask": words, "prefix_vocab_mask": first}, {}
    yield "all", {"min_length": 8, "repetition_penalty": 1.3, "vocab_mask": words, "prefix_vocab_mask": first}, {
        "no_repeat_ngram_size": 3}


FORMS = list(forms(2))


@pytest.mark.parametrize("name, given, attributes", FORMS, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("seed", [1, 2])
def test_greedy(seed, name, given, attributes):
    both("GreedySearch", {"input_ids": texts(), "max_length": 14} | given, seed=seed, **attributes)


@pytest.mark.parametrize("n, length, most", [(1, 1, 2), (1, 3, 4), (3, 4, 20), (1, 6, 7)])
def test_greedy_sizes(n, length, most):
    both("GreedySearch", {"input_ids": texts(n, length, padded=False), "max_length": most})


def test_greedy_with_a_mask():
    ids = texts(2, 4, padded=False)
    both("GreedySearch", {"input_ids": ids, "max_length": 10, "attention_mask": np.int32([[1, 1, 1, 1], [0, 1, 1, 1]])})


@pytest.mark.parametrize("name, given, attributes", FORMS, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("n", [1, 2])
def test_beams(n, name, given, attributes):
    given = dict(given)
    if "prefix_vocab_mask" in given:
        given["prefix_vocab_mask"] = given["prefix_vocab_mask"][:n]
    for seed, beams, returns, penalty, early in ((1, 3, 2, 1.0, 0), (2, 4, 4, 0.5, 1), (3, 1, 1, 2.0, 0)):
        both("BeamSearch", {"input_ids": texts(n), "max_length": 12, "num_beams": beams,
                            "num_return_sequences": returns, "length_penalty": penalty} | given,
             ("sequences", "sequences_scores"), seed=seed, early_stopping=early, **attributes)


def test_beams_of_long_texts_end():
    """Where the end is likely, searches stop before max_length."""
    decoder = searches.gpt(4)
    head = next(t for t in decoder.initializer if t.name == "head")
    w = np.frombuffer(head.raw_data, np.float32).reshape(-1, VOCABULARY).copy()
    w[:, EOS] *= 2.5
    head.raw_data = w.tobytes()
    for early in (0, 1):
        got = both("BeamSearch", {"input_ids": texts(1), "max_length": 40, "num_beams": 3, "num_return_sequences": 3},
                   ("sequences", "sequences_scores"), decoder=decoder, early_stopping=early)
        assert (got[0][..., -1] == PAD).all()
    both("GreedySearch", {"input_ids": texts(1), "max_length": 40}, decoder=decoder)


def test_all_scores_of_beams():
    both("BeamSearch", {"input_ids": texts(1, padded=False), "max_length": 9, "num_beams": 2,
                        "num_return_sequences": 1, "min_length": 8}, ("sequences", "sequences_scores", "scores"))


def test_another_decoder_of_the_first_token():
    both("BeamSearch", {"input_ids": texts(1, padded=False), "max_length": 10, "num_beams": 2,
                        "num_return_sequences": 2}, ("sequences", "sequences_scores"),
         init_decoder=searches.gpt(9, prefix="f_"))


@pytest.mark.parametrize("begins, hidden", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("n, beams", [(1, 1), (1, 3), (2, 2)])
def test_t5(n, beams, begins, hidden):
    ids = texts(n, 6)
    ids[0, -1] = PAD  # on the right it counts
    for seed in (1, 2):
        both("BeamSearch", {"input_ids": ids, "max_length": 10, "num_beams": beams, "num_return_sequences": 1},
             ("sequences", "sequences_scores"), decoder=searches.t5_decoder(seed, hidden=hidden),
             encoder=searches.t5_encoder(seed, begins=begins), model_type=1, decoder_start_token_id=2)


SAID = {"decoder_input_ids": np.int32([[2, 5, 6], [2, 5, 7]])}
SOUND = np.random.default_rng(3).standard_normal((2, 3, 6)).astype(np.float32)


def whisper(op, seed, given, hidden=False, **attributes):
    return dict(op=op, given={"input_ids": SOUND, "max_length": 11, "num_beams": 3, "num_return_sequences": 2} | given,
                decoder=searches.whisper_decoder(seed, hidden=hidden), encoder=searches.whisper_encoder(seed),
                model_type=2, **attributes)


@pytest.mark.parametrize("given", [{}, SAID, {"logits_processor": 0}, {"min_length": 9, "repetition_penalty": 1.5},
                                   SAID | {"num_beams": 1, "num_return_sequences": 1}], ids=str)
@pytest.mark.parametrize("op", ["BeamSearch", "WhisperBeamSearch"])
def test_whisper(op, given):
    for seed in (1, 2):
        both(**whisper(op, seed, given, decoder_start_token_id=2), outputs=("sequences", "sequences_scores"))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_temperature_of_whisper(temperature):
    for seed in (1, 2):
        both(**whisper("WhisperBeamSearch", seed, SAID | {"temperature": temperature}),
             outputs=("sequences", "sequences_scores"))


def test_whisper_whose_decoder_takes_hidden_states():
    """They change nothing; onnxruntime reads past them."""
    import nacre
    results = []
    for hidden in (False, True):
        model, feeds = model_of(**whisper("WhisperBeamSearch", 1, SAID, hidden=hidden),
                                outputs=("sequences", "sequences_scores"))
        results.append(nacre.InferenceSession(model).run(None, feeds))
    for a, b in zip(*results):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("given, outputs, words", [
    ({"extra_decoding_ids": np.zeros(2, np.int32)}, 1, "extra_decoding_ids has 1 dims, expected 2"),
    ({"extra_decoding_ids": np.zeros((3, 1), np.int32)}, 1, "dim 0 of extra_decoding_ids is 3, expected 2"),
    ({}, 4, "decoder_output_cross_qk is 0"),
    ({}, 5, "without a no_speech_token_id"), ({"logits_processor": 2}, 1, "logits_processor is neither 0 nor 1"),
    ({"logits_processor": 1}, 1, "beginning_timestamp_token_id is no token"),
    ({"temperature": 0.0}, 1, "temperature is not above 0"),
    ({"input_ids": texts()}, 1, "input_ids are int32, expected float")])
def test_what_whisper_refuses(given, outputs, words):
    import nacre
    names = ("sequences", "", "", "" if outputs == 5 else "cross_qk", "non_speech_probs")[:outputs]
    with pytest.raises(Exception) as caught:
        model, feeds = model_of(**whisper("WhisperBeamSearch", 1, SAID | given), outputs=names)
        nacre.InferenceSession(model).run(None, feeds)
    assert words in str(caught.value)


# Of 23 tokens the last eleven are times, before them stand the signs.
TIMES = {"eos_token_id": 5, "decoder_start_token_id": 6, "translate_token_id": 7, "transcribe_token_id": 8,
         "start_of_lm_token_id": 9, "no_speech_token_id": 10, "no_timestamps_token_id": 11,
         "beginning_timestamp_token_id": 12}
SIGNS = {"decoder_input_ids": np.int32([[6, 8], [6, 7]])}


@pytest.mark.parametrize("said", [(6, 8), (6, 8, 13, 2, 15), (6, 7, 14, 14, 1), (6, 7, 22)], ids=str)
@pytest.mark.parametrize("beams, temperature", [(1, 1.0), (3, 2.0)])
def test_times_of_whisper(said, beams, temperature):
    """One text at a time: whether another one has ended, onnxruntime looks up in the scores of its neighbour."""
    same = []
    for seed in range(1, 5):
        given = {"input_ids": SOUND[:1], "decoder_input_ids": np.int32([said]), "num_beams": beams, "max_length": 14,
                 "num_return_sequences": 1, "temperature": temperature}
        results = [both(**whisper("WhisperBeamSearch", seed, given | {"logits_processor": k}, **TIMES),
                        outputs=("sequences", "sequences_scores"))[0] for k in (0, 1)]
        same.append(np.array_equal(*results))
    assert not all(same), "the rules changed nothing"


def test_silence_of_whisper():
    """The share of the sign for it among what the first logits say; the CPU of onnxruntime leaves it open."""
    import nacre
    names = ("sequences", "", "scores", "", "non_speech_probs")
    for seed in (1, 2):
        model, feeds = model_of(**whisper("WhisperBeamSearch", seed, SIGNS, **TIMES), outputs=names)
        for device in ("CPUExecutionProvider", "GuardExecutionProvider"):
            _, scores, found = nacre.InferenceSession(model, providers=[device]).run(None, feeds)
            assert found.dtype == np.float32 and found.shape == (2,)
            close(found, np.exp(scores[0, :, 0, TIMES["no_speech_token_id"]]), "ort_f32", "of the first token")


@pytest.mark.parametrize("beams", [1, 3])
def test_tokens_that_whisper_must_write(beams):
    """Until a text's first one below 0. What would have been written anyway changes nothing but its score."""
    import nacre

    def run(extra=None):
        given = {"num_beams": beams, "num_return_sequences": 1} | SAID
        given |= {} if extra is None else {"extra_decoding_ids": np.int32(extra)}
        model, feeds = model_of(**whisper("WhisperBeamSearch", 1, given), outputs=("sequences", "sequences_scores"))
        return nacre.InferenceSession(model).run(None, feeds)
    plain, scores = run()
    for n in (1, 2):
        other = (plain[:, 0, 3:3 + n] + 1) % EOS + EOS + 1
        assert np.array_equal(run(other)[0][:, 0, 3:3 + n], other)
    if beams == 1:
        got, sums = run(plain[:, 0, 3:5])
        assert np.array_equal(got, plain) and (sums > scores).all()
    one = [run([[9, 9], row])[0][1] for row in ([-1, 9], [-1, -1])]
    assert np.array_equal(one[0], plain[1]) and np.array_equal(one[1], plain[1])


# ---- pasts in buffers, which no CPU of onnxruntime runs: beside the same decoder with pasts of their own length ----

def same_with_buffers(op, given, plain, buffered, outputs=("sequences", "sequences_scores"), **attributes):
    import nacre
    results = []
    for told in (plain, buffered):
        model, feeds = model_of(op, given, outputs, **told, **attributes)
        results.append(nacre.InferenceSession(model).run(None, feeds))
    for name, a, b in zip(outputs, *results):
        assert a.shape == b.shape and np.array_equal(a, b) if a.dtype == np.int32 else close(
            b, a, "model_f32", name) is None, f"{name}:\n{b}\nexpected\n{a}"


@pytest.mark.parametrize("filled", [0, 1, 4])
def test_attention_over_a_buffer(filled):
    """The rows that are filled are the past; the new ones stand behind them, and what is behind those stays."""
    import nacre
    from onnx import helper
    r = np.random.default_rng(filled)
    x, w, b, past = (r.standard_normal(s).astype(np.float32) for s in ((2, 3, 5), (5, 24), (24,), (2, 2, 2, 8, 4)))
    mask = np.ones((2, filled + 3), np.int32)
    mask[1, 0] = 0

    def model(**how):
        names = ["x", "w", "b", "mask", "past"] + (["", "filled"] if how else [])
        node = helper.make_node("Attention", names, ["y", "present"], domain="com.microsoft", num_heads=2,
                                unidirectional=1, **how)
        kinds = dict.fromkeys(["x", "w", "b", "past"], searches.FLOAT)
        ranks = {"x": 3, "w": 2, "b": 1, "mask": 2, "past": 5, "filled": 1}
        value = helper.make_tensor_value_info
        graph = helper.make_graph([node], "g", [value(n, kinds.get(n, searches.INT), [None] * ranks[n]) for n in names
                                                if n], [value(n, searches.FLOAT, None) for n in ("y", "present")])
        return helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]).SerializeToString()
    feeds = {"x": x, "w": w, "b": b, "mask": mask}
    want = onnxruntime.InferenceSession(model(), providers=["CPUExecutionProvider"]).run(
        None, {**feeds, "past": past[:, :, :, :filled]})
    for device in ("CPUExecutionProvider", "GuardExecutionProvider"):
        session = nacre.InferenceSession(model(past_present_share_buffer=1), providers=[device])
        y, present = session.run(None, {**feeds, "past": past, "filled": np.int32([filled])})
        close(y, want[0], "ort_f32", device)
        close(present[:, :, :, :filled + 3], want[1], "ort_f32", device)
        assert np.array_equal(present[:, :, :, filled + 3:], past[:, :, :, filled + 3:])
        for wrong, words in ((6, "3 rows at 6 do not fit into 8"), (9, "Split"), (-1, "Split")):
            with pytest.raises(Exception, match=words):
                session.run(None, {**feeds, "past": past, "filled": np.int32([wrong])})


@pytest.mark.parametrize("op", ["GreedySearch", "Sampling", "BeamSearch"])
@pytest.mark.parametrize("extra", [1, 3])
def test_gpt_with_buffers(op, extra):
    beams = {"num_beams": 3, "num_return_sequences": 2} if op == "BeamSearch" else {}
    outputs = ("sequences", "sequences_scores") if beams else ("sequences",)
    for seed, most in ((1, 14), (2, 6)):
        given = {"input_ids": texts(), "max_length": most, **beams, **({"seed": 5} if op == "Sampling" else {})}
        buffered = {"decoder": searches.gpt(seed, extra=extra)}
        if extra == 3:  # its decoder takes one token
            if op != "BeamSearch":
                continue
            buffered["init_decoder"] = searches.gpt(seed, prefix="f_", extra=1)
        same_with_buffers(op, given, {"decoder": searches.gpt(seed)}, buffered, outputs,
                          **({"top_p": 1.0} if op == "Sampling" else {}))


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
def test_t5_with_buffers(begins, beams):
    for seed in (1, 2):
        given = {"input_ids": texts(2, 6), "max_length": 10, "num_beams": beams, "num_return_sequences": 1}
        same_with_buffers("BeamSearch", given, {"decoder": searches.t5_decoder(seed, hidden=False)},
                          {"decoder": searches.t5_decoder(seed, hidden=False, extra=3)},
                          encoder=searches.t5_encoder(seed, begins=begins), model_type=1, decoder_start_token_id=2)


def whisper_shown(seed, beams, pairs, extra=3, **given):
    """Sequences and cross_qk, and the model's encoder and decoder."""
    import nacre
    told = whisper("WhisperBeamSearch", seed, SAID | {"num_beams": beams, "num_return_sequences": 1} | given | {
        "cross_qk_layer_head": np.int32(pairs)}, decoder_output_cross_qk=1)
    told["decoder"] = searches.whisper_decoder(seed, extra=extra, shows=True)
    model, feeds = model_of(**told, outputs=("sequences", "", "", "cross_qk"))
    return nacre.InferenceSession(model).run(None, feeds)


def session_of(graph):
    from onnx import helper
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def scores_by_steps(seed, tokens, said):
    """What the decoder shows for each of `tokens` (texts, n) behind the first `said`, one by one in onnxruntime:
    (texts, layers * heads, n - said, frames)."""
    encoder = session_of(searches.whisper_encoder(seed))
    decoder = session_of(searches.whisper_decoder(seed, shows=True))
    names = [o.name for o in encoder.get_outputs()]
    first = dict(zip(names, encoder.run(None, {"encoder_input_ids": SOUND, "decoder_input_ids": tokens[:, :said]})))
    pasts, shown = {n.replace("present", "past"): x for n, x in first.items() if "present" in n}, []
    for k in range(said, tokens.shape[1]):
        out = dict(zip([o.name for o in decoder.get_outputs()], decoder.run(None, {
            "input_ids": tokens[:, k:k + 1], **pasts})))
        pasts.update((n.replace("present", "past"), x) for n, x in out.items() if "present" in n)
        shown.append(np.concatenate([x for n, x in out.items() if "cross_qk" in n], 1))
    return np.concatenate(shown, 2)


@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_scores_of_cross_attention_are_shown(extra, seed):
    pairs = [[1, 0], [0, 1], [1, 1]]
    sequences, shown = whisper_shown(seed, 1, pairs, extra, min_length=11)
    n = shown.shape[3]
    assert n == 11 - 3 - 1 and shown.dtype == np.float32
    heads = [layer * searches.HEADS + head for layer, head in pairs]
    close(shown[:, 0], scores_by_steps(seed, sequences[:, 0, :3 + n], 3)[:, heads], "model_f32")


def test_scores_of_cross_attention_follow_their_beam():
    """With several beams: those of the best one, whatever the buffers are."""
    (a, x), (b, y) = (whisper_shown(1, 3, [[0, 0], [1, 1]], e, min_length=11) for e in (0, 3))
    assert np.array_equal(a, b)
    close(y, x, "model_f32")
    close(x[:, 0], scores_by_steps(1, a[:, 0, :-1], 3)[:, [0, searches.HEADS + 1]], "model_f32")


# ---- sampling ----

def sampled(given, outputs=("sequences",), **attributes):
    import nacre
    model, feeds = model_of("Sampling", given, outputs, **attributes)
    return nacre.InferenceSession(model).run(None, feeds)


def first_probabilities(ids, temperature=1.0):
    """What the decoder says of the token behind ids."""
    model, feeds = model_of("BeamSearch", {"input_ids": ids, "max_length": ids.shape[1] + 1, "num_beams": 1,
                                           "num_return_sequences": 1}, ("sequences", "sequences_scores", "scores"))
    scores = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[2]
    p = np.exp(scores.reshape(-1).astype(np.float64) / temperature)
    return p / p.sum()


def drawn_shares(n=4000, **attributes):
    ids = np.repeat(texts(1, 4, padded=False), n, axis=0)
    got = sampled({"input_ids": ids, "max_length": 5, "seed": 17}, top_p=attributes.pop("top_p", 1.0), **attributes)
    tokens = np.where(got[0][:, -1] == PAD, EOS, got[0][:, -1])
    return ids[:1], np.bincount(tokens, minlength=VOCABULARY) / n


def chi_square(shares, p, n):
    """Of classes that are expected five times and more."""
    some = p * n >= 5
    return (n * (shares[some] - p[some]) ** 2 / p[some]).sum(), some.sum()


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_what_is_drawn_has_the_decoders_distribution(temperature):
    ids, shares = drawn_shares(temperature=temperature)
    p = first_probabilities(ids, temperature)
    p[EOS] += p[PAD]  # both are shown as padding
    p[PAD] = 0
    value, classes = chi_square(shares, p, 4000)
    assert value < classes + 5 * np.sqrt(2 * classes), f"chi-square {value} of {classes} classes"
    assert shares[p == 0].sum() == 0


@pytest.mark.parametrize("custom", [0, 1])
@pytest.mark.parametrize("top_p", [0.3, 0.8])
def test_only_the_likeliest_are_drawn(custom, top_p):
    ids, shares = drawn_shares(top_p=top_p, custom=custom)
    p = first_probabilities(ids)
    order = np.argsort(-p)
    kept = order[:np.searchsorted(np.cumsum(p[order]), top_p) + 1]
    might = set(kept.tolist()) | ({EOS} if PAD in kept else set())
    assert set(np.flatnonzero(shares).tolist()) <= might


def test_seeds():
    given = {"input_ids": texts(), "max_length": 20}
    runs = [sampled(given | {"seed": s}, top_p=1.0)[0] for s in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])
    assert np.array_equal(sampled(given, top_p=1.0)[0], sampled(given | {"seed": 0}, top_p=1.0)[0])


def test_sampling_with_rules():
    words, first = masks(2)
    given = {"input_ids": texts(), "max_length": 14, "vocab_mask": words, "prefix_vocab_mask": first,
             "presence_mask": np.ones((2, VOCABULARY), np.int32), "min_length": 13}
    out, logits = sampled(given, ("sequences", "filtered_logits"), top_p=0.9, presence_penalty=0.5,
                          min_tokens_to_keep=1)
    new = out[:, 5:]
    assert words[new].all() and first[[0, 1], new[:, 0]].all() and (new[:, :-1] != PAD).all()
    assert logits.shape == (2, VOCABULARY) and np.float32(-1e20) in logits


# ---- refusals ----

@pytest.mark.parametrize("op, given, attributes, words", [
    ("GreedySearch", {"max_length": 5}, {}, "max_length is 5, expected more than the 5 tokens"),
    ("GreedySearch", {"max_length": 8, "repetition_penalty": 0.0}, {}, "repetition_penalty is not above 0"),
    ("GreedySearch", {"max_length": 8}, {"model_type": 1}, "model_type is 1"),
    ("BeamSearch", {"max_length": 8, "num_beams": 2, "num_return_sequences": 3}, {}, "num_return_sequences is 3"),
    ("BeamSearch", {"max_length": 8, "num_beams": 0, "num_return_sequences": 1}, {}, "num_beams is 0"),
    ("BeamSearch", {"max_length": 8, "num_beams": 2, "num_return_sequences": 1}, {"model_type": 3}, "model_type is 3"),
    ("BeamSearch", {"max_length": 8, "num_beams": 2, "num_return_sequences": 1}, {"model_type": 1}, "needs an encoder"),
    ("GreedySearch", {"max_length": 8, "vocab_mask": np.ones(4, np.int32)}, {}, "of vocab_mask is 4, expected 23"),
])
def test_refusals(op, given, attributes, words):
    import nacre
    with pytest.raises(Exception) as caught:
        model, feeds = model_of(op, {"input_ids": texts()} | given, **attributes)
        nacre.InferenceSession(model).run(None, feeds)
    assert words in str(caught.value)


def test_a_decoder_of_another_form():
    import nacre
    decoder = searches.gpt(1)
    del decoder.output[-1]
    with pytest.raises(Exception, match="takes 5 values and gives 2"):
        nacre.InferenceSession(model_of("GreedySearch", {"input_ids": texts(), "max_length": 8}, decoder=decoder)[0])
