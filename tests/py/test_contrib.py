"""Operators of domains com.microsoft, com.microsoft.nchwc, com.ms.internal.nhwc and org.pytorch.aten: values against
onnxruntime or numpy, with sizes known and unknown before the run; what their cards say against onnxruntime's schemas;
and what is refused, by which words."""
import ast
import re
import types

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as peer

import package
import test_schemas
import test_training_ops
from contrib import (DOMAIN, attentions, blocked, by_nacre, by_onnxruntime, case, compare, compositions, decoders,
                     experts, layers, layouts, model_of, pools, quantized, seldom,
                     training)
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
CASES = [*layers.CASES, *attentions.CASES, *quantized.CASES, *blocked.CASES, *layouts.CASES, *experts.CASES,
         *decoders.CASES, *compositions.CASES, *pools.CASES, *seldom.CASES]
REFUSED = [*layers.REFUSED, *attentions.REFUSED, *quantized.REFUSED, *blocked.REFUSED, *layouts.REFUSED,
           *layouts.LEGACY_REFUSED, *experts.REFUSED, *decoders.REFUSED,
           *compositions.REFUSED, *pools.REFUSED, *seldom.REFUSED]
DOMAINS = (DOMAIN, blocked.DOMAIN, pools.DOMAIN, seldom.PYTORCH)
TRAINING = {c.op for c in training.CASES} | test_training_ops.SEQUENCES  # of onnxruntime-training: test_training_ops.py
CARDS = {key: card for key, card in test_schemas.every_card().items() if key[0] in DOMAINS and key[1] not in TRAINING}


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_values(c):
    want = c.reference(*c.inputs) if c.reference else by_onnxruntime(c)
    compare(by_nacre(c), want, c, "sizes known:")
    if c.needs_sizes:
        with pytest.raises(Exception, match="must be known"):
            by_nacre(c, known=False)
    else:
        compare(by_nacre(c, known=False), want, c, "ranks known:")
    compare(by_nacre(c, opset=23), want, c, "opset 23:")


def test_a_cache_that_is_an_operand_can_be_reshaped():
    """DecoderAttention gives its caches as they came where static_kv and use_past are set; readers of the results know
    their sizes by other names."""
    c = next(c for c in seldom.DECODER if c.name.endswith("static True, past True, state True, mask False"))
    model = onnx.load_from_string(model_of(c)[0])
    model.graph.node.append(helper.make_node("Reshape", ["o1", "shape"], ["flat"]))
    model.graph.initializer.append(numpy_helper.from_array(np.int64([0, -1]), "shape"))
    model.graph.output.append(helper.make_tensor_value_info("flat", TensorProto.FLOAT, None))
    import nacre
    got = nacre.InferenceSession(model.SerializeToString()).run(["flat"], model_of(c)[1])[0]
    assert np.array_equal(got, c.inputs[6].reshape(2, -1))


@pytest.mark.parametrize("c", layouts.LEGACY, ids=lambda c: c.name)
def test_experiments_of_old(c):
    """Ops that ai.onnx no longer has; onnxruntime has them below opset 10."""
    want = by_onnxruntime(c, opset=7)
    for how in ({"opset": 7}, {"opset": 7, "known": False}, {"opset": 17}):
        compare(by_nacre(c, **how), want, c, str(how))


@pytest.mark.parametrize("c", layouts.REGIONS, ids=lambda c: c.name)
def test_regions(c):
    """MaxRoiPool of ai.onnx, of which onnx has neither a reference nor cases."""
    want = by_onnxruntime(c)
    for how in ({}, {"known": False}, {"opset": 23}):
        compare(by_nacre(c, **how), want, c, str(how))


@pytest.mark.parametrize("c, words", REFUSED, ids=lambda x: getattr(x, "name", ""))
def test_refusals(c, words):
    import nacre
    with pytest.raises(Exception) as caught:
        nacre.InferenceSession(model_of(c)[0])
    for word in ("'it'", c.op, *([words] if isinstance(words, str) else words)):
        assert word in str(caught.value), f"'{word}' is not in: {caught.value}"


@pytest.mark.parametrize("place, dims, words", [(4, (1, 2, 5, 3), ["values have 3 at dim 3", "expected 4"]),
                                                (3, (1, 3, 5, 4), ["keys have 3 at dim 1", "expected 2"]),
                                                (4, (1, 2, 3, 4), ["values have 3 at dim 2", "expected 5"]),
                                                (2, (2, 1, 8), ["do not fit"])])
def test_a_past_that_does_not_fit_is_refused_where_dims_are_symbols(place, dims, words):
    import nacre
    names = ["q", "k", "v", "past_k", "past_v", "last", "total"]
    shapes = [(1, 1, 16), (1, 1, 8), (1, 1, 8), (1, 2, 5, 4), (1, 2, 5, 4)]
    feeds = {n: np.ones(dims if i == place else s, np.float32) for i, (n, s) in enumerate(zip(names, shapes))}
    feeds |= {"last": np.array([5], np.int32), "total": np.array(6, np.int32)}
    ins = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype),
                                              [f"{n}_{i}" for i in range(x.ndim)]) for n, x in feeds.items()]
    node = onnx.helper.make_node("GroupQueryAttention", names, ["y", "keys", "values"], domain="com.microsoft",
                                 name="it", num_heads=4, kv_num_heads=2)
    outs = [onnx.helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in node.output]
    graph = onnx.helper.make_graph([node], "g", ins, outs)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = nacre.InferenceSession(model.SerializeToString())
    with pytest.raises(Exception) as caught:
        session.run(None, feeds)
    for word in words:
        assert word in str(caught.value), f"'{word}' is not in: {caught.value}"


# ---- cards against onnxruntime's schemas ----

def option_of(p):
    return getattr(test_schemas.Option, str(p.option).rpartition(".")[2])


def parameters(formal):
    return [types.SimpleNamespace(name=p.name, option=option_of(p), types=p.types, type_str=p.typeStr, min_arity=1,
                                  is_homogeneous=p.isHomogeneous) for p in formal]


def attributes(formal):
    out = {}
    for name, a in formal.items():
        value = onnx.AttributeProto()
        value.ParseFromString(a._default_value)
        out[name] = types.SimpleNamespace(type=types.SimpleNamespace(name=str(a.type).rpartition(".")[2]),
                                          required=a.required, default_value=value)
    return out


SCHEMAS = {(s.domain, s.name): types.SimpleNamespace(inputs=parameters(s.inputs), outputs=parameters(s.outputs),
                                                     deprecated=False, attributes=attributes(s.attributes))
           for s in peer.get_all_operator_schema() if s.domain in DOMAINS}


def is_wider(text):
    """Float types beyond onnxruntime's."""
    takes = re.fullmatch(r".*: takes (\[.*\]), which onnx has not", text)
    return takes and set(ast.literal_eval(takes[1])) <= {"double", "float", "bfloat16", "float16"}


# Nodes see the dense form of a sparse tensor, and so does the card: test_sparse_values.py.
SPARSE = {(DOMAIN, "SparseToDenseMatMul")}
SEARCHES = {(DOMAIN, op) for op in ("GreedySearch", "Sampling", "BeamSearch", "WhisperBeamSearch")}  # test_searches.py


# Of com.ms.internal.nhwc onnxruntime has every version of ONNX's operators: the card is the newest.
THEIRS = (n for n in set(CARDS) - SPARSE if n[0] == DOMAIN or (n[0] == blocked.DOMAIN and blocked.THEIRS))


@pytest.mark.parametrize("name", sorted(THEIRS), ids=".".join)
def test_card_says_what_onnxruntime_says(name):
    assert name in SCHEMAS, "onnxruntime has no such operator"
    found = [text for text in test_schemas.differences(CARDS[name], {1: SCHEMAS[name]}) if not is_wider(text)]
    assert not found, "\n".join(found)


def test_every_operator_has_a_case():
    assert {(c.domain, c.op) for c in CASES} | SEARCHES | SPARSE == set(CARDS)


# ---- what is not carried ----

ABSENT = {
    "AttnLSTM", "BifurcationDetector", "DequantizeBFP",
    "DequantizeWithOrder", "DynamicSparseAttention", "DynamicTimeWarping", "EPContext", "EngramGate",
    "GatedDeltaNet", "GemmFloat8", "HyperConnectionPostMix", "HyperConnectionPreMix",
    "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulFpQ4",
    "MaxpoolWithMask", "NGramHashMapping", "PackedSparseAttentionIndexer",
    "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul",
    "QuantizeBFP", "QuantizeWithOrder", "Snpe", "SparseAttentionIndexer",
    "SparsePagedAttention", "VarlenCausalConvWithState", "VarlenNGramHashMapping",
    "WordConvEmbedding"}
CARRIED = {op for domain, op in CARDS if domain == DOMAIN}


def test_what_is_not_carried():
    """Of onnxruntime's operators, none is missing but these: those of other devices and formats, and a few helpers."""
    theirs = {op for domain, op in SCHEMAS if domain == DOMAIN}
    assert theirs - CARRIED - TRAINING == ABSENT


@pytest.mark.parametrize("op", sorted(ABSENT))
def test_an_operator_that_is_not_carried_is_named(op):
    import nacre
    with pytest.raises(Exception) as caught:
        nacre.InferenceSession(model_of(case("absent", op, [np.zeros(3, np.float32)]))[0])
    for word in ("'it'", op, DOMAIN):
        assert word in str(caught.value)


# ---- tables with a row of padding ----

@pytest.mark.parametrize("op, domain", [("TorchEmbedding", DOMAIN), ("ATen", seldom.PYTORCH)])
@pytest.mark.parametrize("pad", [-1, 0, 4])
def test_no_gradient_reaches_the_row_of_padding(op, domain, pad):
    import nacre
    import torch
    from nacre import training as made_of
    w, at = np.random.default_rng(3).standard_normal((5, 3)).astype(np.float32), seldom.ROWS
    named = {"operator": "aten::embedding"} if op == "ATen" else {}
    model, _ = model_of(case("pad", op, [w, at, np.int64(pad)], domain=domain, constants=[1, 2], **named))
    made = made_of.gradients(model, "o0", ["i0"]).SerializeToString()
    got = nacre.InferenceSession(made).run(["grad:i0"], {"i0": w})[0]
    table = torch.from_numpy(w).requires_grad_()
    torch.nn.functional.embedding(torch.from_numpy(at), table, None if pad < 0 else pad).sum().backward()
    assert np.array_equal(got, table.grad.numpy())


# ---- dropouts that draw ----

@pytest.mark.parametrize("op", ["BiasDropout", "BitmaskDropout", "BitmaskBiasDropout"])
@pytest.mark.parametrize("ratio", [0.25, 0.9])
def test_dropouts_say_what_they_dropped(op, ratio):
    """Of a known size and of an odd one; two runs draw anew, and about as much as is asked for."""
    import nacre
    x, bias, residual = (np.random.default_rng(1).uniform(1, 2, s).astype(np.float32) for s in ((61, 71), 71, (61, 71)))
    biased = "Bias" in op
    operands = [x, bias, residual] if biased else [x]
    model, feeds = model_of(case("draws", op, [*operands, np.float32(ratio), np.bool_(True)], outputs=2))
    session = nacre.InferenceSession(model)
    masks = []
    for _ in range(2):
        y, mask = session.run(None, feeds)
        if "Bitmask" in op:
            assert mask.dtype == np.uint32 and mask.shape == (-(-x.size // 32),)
            bits = (mask[:, None] >> np.arange(32, dtype=np.uint32)) & 1
            assert not bits.ravel()[x.size:].any()
            mask = bits.ravel()[:x.size].reshape(x.shape).astype(bool)
        want = np.where(mask, (x + (bias if biased else 0)) / np.float32(1 - ratio), 0) + (residual if biased else 0)
        close(y, want, "ort_f32", op)
        close(mask.mean(), 1 - ratio, "draws", f"{op}: what stays")
        masks.append(mask)
    assert not np.array_equal(*masks)


@pytest.mark.parametrize("op", ["BiasDropout", "BitmaskDropout", "BitmaskBiasDropout"])
def test_gradients_of_dropouts_follow_their_masks(op):
    """d sum(y) / dx is 1 / (1 - ratio) where x stayed, else 0, as y of the same run tells."""
    import nacre
    from nacre import training as made_of
    x = np.random.default_rng(2).uniform(1, 2, (5, 40)).astype(np.float32)
    operands = [x, np.zeros(40, np.float32), None] if "Bias" in op else [x]
    model, _ = model_of(case("draws", op, [*operands, np.float32(0.5), np.bool_(True)], outputs=2,
                             constants=range(1, 5)))
    made = made_of.gradients(model, "o0", ["i0"]).SerializeToString()
    names = ["o0", "grad:i0"]
    y, dx = nacre.InferenceSession(made).run(names, {"i0": x})
    assert 0 < np.count_nonzero(y) < y.size
    close(dx, np.where(y != 0, np.float32(2), np.float32(0)), "ort_f32", op)
