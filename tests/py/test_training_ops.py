"""ONNX Runtime's training operators: values against PyTorch and numpy, with sizes known and unknown before the run; the
optimizers over sequences, as models that onnxruntime.training wrote use them; and what is refused, by which words."""
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import package
import test_schemas
from contrib import DOMAIN, by_nacre, case, compare, model_of, training
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
SEQUENCES = {"AdamWOptimizer", "SGDOptimizerV2", "InplaceClipGradNorm"}


@pytest.mark.parametrize("c", training.CASES, ids=lambda c: c.name)
def test_values(c):
    want = c.reference(*c.inputs)
    compare(by_nacre(c), want, c, "sizes known:")
    compare(by_nacre(c, known=False), want, c, "ranks known:")
    compare(by_nacre(c, opset=23), want, c, "opset 23:")


@pytest.mark.parametrize("c, words", training.REFUSED, ids=lambda x: getattr(x, "name", ""))
def test_refusals(c, words):
    import nacre
    with pytest.raises(Exception) as caught:
        nacre.InferenceSession(model_of(c)[0])
    for word in ("'it'", c.op, *([words] if isinstance(words, str) else words)):
        assert word in str(caught.value), f"'{word}' is not in: {caught.value}"


# Operators of onnxruntime-training for which there is no card, and why.
GIST = "keeps activations compressed between the passes, which its retired trainer did when asked to"
MACHINES = "speaks with other processes; training over several is planned (src/dist)"
BOARD = "writes TensorBoard's records, no numbers"
HANDS_OVER = "hands over to PyTorch's interpreter in the middle of a run (ORTModule)"
LEFT_OUT = {
    **dict.fromkeys(["NcclAllReduce", "NcclAllGather", "NcclReduceScatter", "AdasumAllReduce", "Send", "Recv",
                     "MegatronF", "MegatronG", "RecordEvent", "WaitEvent"], MACHINES),
    **dict.fromkeys([f"Gist{kind}{way}" for kind in ("Binarize", "Pack1", "Pack8", "Pack16", "PackMsfp15")
                     for way in ("Encoder", "Decoder")], GIST),
    **dict.fromkeys(["SummaryScalar", "SummaryHistogram", "SummaryMerge", "SummaryText"], BOARD),
    **dict.fromkeys(["YieldOp", "PythonOp", "PythonOpGrad", "TritonOp"], HANDS_OVER),
    **dict.fromkeys(["BiasSoftmaxDropout", "SoftmaxDropoutGrad"],
                    "made within sessions on GPUs, of what files hold: BiasSoftmax or Softmax, and Dropout"),
    "View": "cuts the one buffer of MixedPrecisionScale's joined outputs, which its retired trainer read",
}
OF_ONNX = {"GatherND", "SoftmaxCrossEntropyLoss"}  # conformance cases and test_op_forms.py have them
ALL_OF_TRAINING = """ReluGrad SoftmaxGrad SoftmaxGrad_13 LogSoftmaxGrad LogSoftmaxGrad_13 AveragePoolGrad MaxPoolGrad
ConvGrad GatherGrad GatherElementsGrad DivGrad SGDOptimizer SGDOptimizerV2 AdamOptimizer AdamWOptimizer
InplaceClipGradNorm InPlaceAccumulator InPlaceAccumulatorV2 ZeroGradient GatherND GatherNDGrad SoftmaxCrossEntropy
SoftmaxCrossEntropyGrad NcclAllReduce NcclAllGather NcclReduceScatter AdasumAllReduce SparseSoftmaxCrossEntropy
SparseSoftmaxCrossEntropyGrad SoftmaxCrossEntropyLossGrad ReduceSumTraining SplitTraining ConcatTraining DropoutGrad
BitmaskDropoutGrad BiasSoftmaxDropout SoftmaxDropoutGrad BroadcastGradientArgs GistBinarizeEncoder GistBinarizeDecoder
GistPack1Encoder GistPack1Decoder GistPack8Encoder GistPack8Decoder GistPack16Encoder GistPack16Decoder
GistPackMsfp15Encoder GistPackMsfp15Decoder SummaryScalar SummaryHistogram SummaryMerge SummaryText GeluGrad
SigmoidGrad QuickGeluGrad TanhGrad LeakyReluGrad LayerNormalizationGrad SimplifiedLayerNormalizationGrad
InvertibleLayerNormalizationGrad BatchNormalizationGrad Group PassThrough IsFinite All MixedPrecisionScale Scale View
BatchNormInternal ReduceAllL2 Send Recv MegatronF MegatronG SliceGrad FastGeluGrad BiasGeluGrad_dX BiasFastGeluGrad_dX
RecordEvent WaitEvent YieldOp PythonOp PythonOpGrad TritonOp SoftmaxCrossEntropyLossInternal
SoftmaxCrossEntropyLossInternalGrad NegativeLogLikelihoodLossInternal NegativeLogLikelihoodLossInternal2 FakeQuant
FakeQuantGrad LSTMTraining ScaledSum BatchScale LSTMGrad PadAndUnflatten FlattenAndUnpad GRUTraining GRUGrad
ConvTransposeGrad ResizeGrad LambOptimizer IsAllFinite SoftmaxCrossEntropyLoss""".split()


def test_every_operator_has_a_card_and_a_case():
    cards = {key[1] for key in test_schemas.every_card() if key[0] in (DOMAIN, "")}
    tested = {c.op for c in training.CASES} | SEQUENCES
    assert tested <= cards, tested - cards
    assert set(ALL_OF_TRAINING) - set(LEFT_OUT) - OF_ONNX - tested == set()
    assert not set(LEFT_OUT) & cards


@pytest.mark.parametrize("op", sorted(LEFT_OUT))
def test_what_is_left_out_is_named(op):
    import nacre
    with pytest.raises(Exception) as caught:
        nacre.InferenceSession(model_of(case("absent", op, [np.zeros(3, np.float32)]))[0])
    for word in ("'it'", op, DOMAIN):
        assert word in str(caught.value)


# ---- every float type ----

#: What stays f32 beside narrower tensors (statistics, ratios), and beside any (scales, rates).
STATISTICS = {"LayerNormalizationGrad": {3, 4}, "SimplifiedLayerNormalizationGrad": {3},
              "InvertibleLayerNormalizationGrad": {4}, "DropoutGrad": {2}, "BitmaskDropoutGrad": {2}}
STAYS = {"ResizeGrad": {3}, "SGDOptimizer": {0}}
NO_BF16 = {"FakeQuant", "ResizeGrad", "MixedPrecisionScale"}
#: onnxruntime has them in f32 alone, or asks for f32 masters; test_gradients_edges.py has LSTM and GRU in 16 bits.
NOT_NARROW = {"LSTMTraining", "LSTMGrad", "GRUTraining", "GRUGrad", "AdamOptimizer", "LambOptimizer"}
#: What they are given, or an attribute of theirs, was rounded to f32 before.
ROUNDED = {"AdamOptimizer", "LambOptimizer", "GRUGrad", "LSTMGrad", "QuickGeluGrad", "SoftmaxCrossEntropyLossGrad",
           "SoftmaxCrossEntropyLossInternalGrad"}


def recast(c, t):
    """The case in another float type, or None."""
    floats = {x.dtype for x in c.inputs if x is not None and x.dtype.kind not in "iub"}
    if floats != {np.dtype(np.float32)} or {"to", "output_type"} & set(c.attributes):
        return None
    stays = STAYS.get(c.op, set()) | (set() if t is np.float64 else STATISTICS.get(c.op, set()))

    def reference(*operands):
        wide = [x if x is None or x.dtype.kind in "iub" else x.astype(np.float64) for x in operands]
        return [x if x.dtype.kind in "iub" else x.astype(t) for x in map(np.asarray, c.reference(*wide))]
    inputs = [x if k in stays or x is None or x.dtype != np.float32 else x.astype(t) for k, x in enumerate(c.inputs)]
    types = {k: (t, v[1]) if isinstance(v, tuple) else t for k, v in c.types.items()}
    return c._replace(inputs=inputs, types=types, reference=reference,
                      tolerance="torch_f64" if t is np.float64 and c.op not in ROUNDED else None)


@pytest.mark.parametrize("op", sorted({c.op for c in training.CASES}))
def test_every_type(op):
    left_out = NOT_NARROW | NO_BF16
    for t in (np.float64, np.float16, training.BF16):
        if t is not np.float64 and (op in NOT_NARROW or (op in left_out and t is training.BF16)):
            continue
        for d in filter(None, (recast(c, t) for c in training.CASES if c.op == op)):
            want = d.reference(*d.inputs)
            compare(by_nacre(d), want, d, f"{d.name} {training.name_of(t)}")
            compare(by_nacre(d, known=False), want, d, f"{d.name} {training.name_of(t)}, ranks known")


# ---- sequences ----

def sequence_session(op, inputs, outputs, domain=DOMAIN, t=np.float32, **attributes):
    """A session of one node over sequences of t, or tensors where a type is told."""
    import nacre
    kinds = {"lr": (TensorProto.FLOAT, [1]), "step": (TensorProto.INT64, [1]), "signal": (TensorProto.BOOL, [1]),
             "flag": (TensorProto.BOOL, [1])}

    def info(name):
        if name in kinds:
            return helper.make_tensor_value_info(name, *kinds[name])
        return helper.make_tensor_sequence_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
    node = helper.make_node(op, inputs, outputs, "it", domain=domain, **attributes)
    graph = helper.make_graph([node], "one", [info(n) for n in inputs], [info(n) for n in outputs])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15),
                                                                 helper.make_opsetid(domain, 1)])
    return nacre.InferenceSession(model.SerializeToString())


def tensors(seed, t=np.float32):
    r = np.random.default_rng(seed)
    return [r.standard_normal(s).astype(t) for s in ((4, 5), (7,), (), (0, 3))]


ADAM = ["lr", "step", "w", "g", "m", "v"]


def test_adamw_over_sequences_is_pytorchs():
    session = sequence_session("AdamWOptimizer", ADAM, ["flag", "w_", "m_", "v_"], weight_decay=0.02, epsilon=1e-7)
    w, m, v = tensors(1), [0 * x for x in tensors(1)], [0 * x for x in tensors(1)]
    peers = [torch.tensor(x).requires_grad_() for x in w]
    optimizer = torch.optim.AdamW(peers, lr=0.01, weight_decay=0.02, eps=1e-7)
    for step in range(1, 5):
        g = tensors(10 + step)
        flag, w, m, v = session.run(None, {"lr": np.float32([0.01]), "step": np.int64([step]), "w": w, "g": g, "m": m,
                                           "v": v})
        for p, x in zip(peers, g):
            p.grad = torch.tensor(x)
        optimizer.step()
        assert flag.tolist() == [True]
    for got, want in zip(w, peers):
        close(got, want.detach().numpy(), "steps_f32", "a weight")


def test_momentum_over_sequences_is_pytorchs():
    session = sequence_session("MomentumOptimizer", ["lr", "step", "w", "g", "m"], ["flag", "w_", "m_"], "nacre",
                               momentum=0.9, weight_decay=0.02, nesterov=1)
    w, m = tensors(1), [0 * x for x in tensors(1)]
    peers = [torch.tensor(x).requires_grad_() for x in w]
    optimizer = torch.optim.SGD(peers, lr=0.1, momentum=0.9, weight_decay=0.02, nesterov=True)
    for step in range(1, 5):
        g = tensors(10 + step)
        flag, w, m = session.run(None, {"lr": np.float32([0.1]), "step": np.int64([step]), "w": w, "g": g, "m": m})
        for p, x in zip(peers, g):
            p.grad = torch.tensor(x)
        optimizer.step()
        assert flag.tolist() == [True]
    for got, want, moment in zip(w, peers, m):
        close(got, want.detach().numpy(), "steps_f32", "a weight")
        close(moment, optimizer.state[want]["momentum_buffer"].numpy(), "steps_f32", "a moment")


def test_nesterov_with_dampening_is_refused():
    with pytest.raises(Exception, match="nesterov needs a momentum above 0 and no dampening"):
        sequence_session("MomentumOptimizer", ["lr", "step", "w", "g", "m"], ["flag", "w_"], "nacre", momentum=0.9,
                         dampening=0.5, nesterov=1)


def test_adamw_in_the_other_form():
    """The weights decay after the step, and epsilon is not corrected."""
    session = sequence_session("AdamWOptimizer", ADAM, ["flag", "w_", "m_", "v_"], weight_decay=0.5, adam_mode=1,
                               epsilon=1e-3, alpha=0.8, beta=0.9)
    w, g, m, v = (tensors(k) for k in range(4))
    v = [np.abs(x) for x in v]
    got = session.run(None, {"lr": np.float32([0.1]), "step": np.int64([2]), "w": w, "g": g, "m": m, "v": v})
    for k, (w_, g_, m_, v_) in enumerate(zip(w, g, m, v)):
        m_, v_ = 0.8 * m_ + 0.2 * g_, 0.9 * v_ + 0.1 * g_ * g_
        x = w_ - 0.1 * np.sqrt(1 - 0.9 ** 2) / (1 - 0.8 ** 2) * m_ / (np.sqrt(v_) + 1e-3)
        for have, want in zip((got[1][k], got[2][k], got[3][k]), (x - 0.1 * 0.5 * x, m_, v_)):
            close(have, want, "ort_f32", f"tensor {k}")


WIDE = {np.dtype(np.float64): "op_f64", np.dtype(np.float32): "ort_f32", np.dtype(np.float16): "op_f16"}


def held_to(got, want, what):
    for a, b in zip(got, want, strict=True):
        close(a.astype(np.float64), b, WIDE.get(a.dtype, "op_bf16"), what)


@pytest.mark.parametrize("t", training.TYPES, ids=training.name_of)
def test_sequences_of_every_type(t):
    w, g, m, v = (tensors(k, t) for k in range(4))
    v, rate = [np.abs(x) for x in v], 0.125
    wide = [[x.astype(np.float64) for x in some] for some in (w, g, m, v)]
    feeds = {"lr": np.float32([rate]), "step": np.int64([1]), "w": w, "g": g, "m": m, "v": v}
    session = sequence_session("AdamWOptimizer", ADAM, ["flag", "w_", "m_", "v_"], t=t, weight_decay=0.5, alpha=0.5,
                               beta=0.75, epsilon=2.0 ** -10)
    _, *got = session.run(None, feeds)
    m_ = [0.5 * a + 0.5 * b for a, b in zip(wide[2], wide[1])]
    v_ = [0.75 * a + 0.25 * b * b for a, b in zip(wide[3], wide[1])]
    w_ = [a * (1 - rate * 0.5) - rate * (b / 0.5) / (np.sqrt(c / 0.25) + 2.0 ** -10)
          for a, b, c in zip(wide[0], m_, v_)]
    for have, want, what in zip(got, (w_, m_, v_), ("weights", "first moments", "second moments")):
        assert have[0].dtype == np.dtype(t)
        held_to(have, want, what)
    session = sequence_session("SGDOptimizerV2", ["lr", "w", "g"], ["flag", "w_"], t=t)
    held_to(session.run(["w_"], {k: feeds[k] for k in ("lr", "w", "g")})[0],
            [a - rate * b for a, b in zip(*wide[:2])], "weights")
    norm = np.sqrt(sum((x ** 2).sum() for x in wide[1]))
    session = sequence_session("InplaceClipGradNorm", ["g"], ["g_"], t=t, max_norm=0.5)
    held_to(session.run(None, {"g": g})[0], [x * 0.5 / (norm + 1e-6) for x in wide[1]], "gradients")


MIXED = [(rate, g, m, half) for rate in (np.float32, np.float16) for g in (np.float32, np.float16, training.BF16)
         for m in (np.float32, np.float16) for half in (None, np.float16, training.BF16)]


@pytest.mark.parametrize("op", ["AdamOptimizer", "LambOptimizer"])
def test_masters_of_narrow_weights(op):
    """f32 weights; rates, gradients and moments narrower; and a narrow copy of the weights, where it is asked for."""
    for rate, g, m, half in MIXED:
        tensors_ = [training.f(3, 5), training.f(3, 5, t=g), training.f(3, 5, t=m), training.f(3, 5, lo=0.5, t=m)]
        copy = [] if half is None else [training.f(3, 5, t=half)]
        types, r = ({} if half is None else {5: half}), np.array(0.125, rate)
        w, dw, m_, v_ = (x.astype(np.float64) for x in tensors_)
        m_, v_ = 0.9 * m_ + 0.1 * dw, 0.999 * v_ + 0.001 * dw * dw
        to = m_ / (1 - 0.9 ** 3) / np.sqrt(v_ / (1 - 0.999 ** 3))
        if op == "AdamOptimizer":
            c = case("it", op, [r, np.int64(3), *tensors_, *copy], 5 + len(copy), types=types)
            _, m1, m2, new, _, *halves = by_nacre(c)
        else:
            c = case("it", op, [None, None, None, r, np.int64(3), *tensors_, *copy],
                     [True, True, False, True, True] + [True] * len(copy), types=types)
            _, new, m1, m2, *halves = by_nacre(c)
            to = to * np.linalg.norm(w) / np.linalg.norm(to)
        what = f"{[training.name_of(t) for t in (rate, g, m)]} {half}"
        assert m1.dtype == m2.dtype == np.dtype(m) and new.dtype == np.float32, what
        close(new, w - 0.125 * to, "model_f32", what)
        for have, want in ((m1, m_), (m2, v_)):
            close(have.astype(np.float64), want, WIDE[have.dtype], what)
        for x in halves:
            assert x.dtype == np.dtype(half), what
            close(x.astype(np.float64), w - 0.125 * to, "op_bf16", what)


def test_optimizers_do_nothing_without_their_signal():
    w, g = tensors(1), tensors(2)
    session = sequence_session("SGDOptimizerV2", ["lr", "w", "g", "signal"], ["flag", "w_"])
    feeds = {"lr": np.float32([0.5]), "w": w, "g": g, "signal": np.array([False])}
    flag, same = session.run(None, feeds)
    assert flag.tolist() == [False] and all(np.array_equal(a, b) for a, b in zip(same, w))
    flag, moved = session.run(None, {**feeds, "signal": np.array([True])})
    assert flag.tolist() == [True]
    for got, a, b in zip(moved, w, g):
        close(got, a - 0.5 * b, "ort_f32", "a weight")


@pytest.mark.parametrize("most", [0.5, 100.0])
def test_gradients_are_clipped_by_their_common_norm(most):
    g = tensors(3)
    session = sequence_session("InplaceClipGradNorm", ["g"], ["g_"], max_norm=most)
    norm = np.sqrt(sum(float((x.astype(np.float64) ** 2).sum()) for x in g))
    for got, x in zip(session.run(None, {"g": g})[0], g):
        close(got, x * min(1, most / (norm + 1e-6)), "ort_f32", "a gradient")


def test_optimizers_say_what_does_not_fit():
    session = sequence_session("SGDOptimizerV2", ["lr", "w", "g"], ["flag"])
    with pytest.raises(Exception, match="SGDOptimizerV2 'it'.*4 weights and 3 of gradients"):
        session.run(None, {"lr": np.float32([1]), "w": tensors(1), "g": tensors(1)[:3]})
    with pytest.raises(Exception, match="tensor 1 of the gradients has another shape"):
        session.run(None, {"lr": np.float32([1]), "w": tensors(1)[:2], "g": tensors(1)[:1] * 2})
