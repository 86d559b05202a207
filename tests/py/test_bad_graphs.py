"""A hundred graphs of one wrong node each: every one is refused when the session is made, and the error names the node,
the operator and what is wrong.

A row is OP | INPUTS | ATTRIBUTES. An input is a letter for its type and its shape, `f2x3` or `f` for a scalar; `[1,2]`
is a constant of int64 and `f[0.5]` one of float."""
import ast
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nacre_c import NacreError

TYPES = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "h": TensorProto.FLOAT16, "i": TensorProto.INT64,
         "j": TensorProto.INT32, "u": TensorProto.UINT8, "c": TensorProto.INT8, "b": TensorProto.BOOL,
         "s": TensorProto.STRING}

ROWS = """
Relu | s2 |
Relu | |
Relu | f2 f2 |
Relu | f2 | alpha=1.0
Add | f2 f3 |
Add | f2 d2 |
Add | f2 |
Add | f2 f2 f2 |
Add | b2 b2 |
Add | f2x3 f3x2 |
Mul | i2 f2 |
Div | s2 s2 |
Pow | b2 f2 |
Mod | f2 f3 |
And | f2 f2 |
Not | i2 |
Where | f2 f2 f2 |
Where | b2 f2 i2 |
Where | b3 f2 f2 |
Equal | f2 i2 |
Less | s2 s2 |
MatMul | f2x3 f2x3 |
MatMul | f f2 |
MatMul | f2x2x3 f3x3x4 |
MatMul | b2x2 b2x2 |
Gemm | f2x3 f2x3 |
Gemm | f2x3x1 f3x2 |
Gemm | f2x3 f3x4 f5 |
Gemm | f2x3 f3x4 i4 |
Gemm | f2x3 f3x4 | transB=1
Conv | f1x3x8x8 f4x2x3x3 |
Conv | f1x3x8x8 f4x3x3 |
Conv | f1x3x8x8 f4x3x3x3 f5 |
Conv | f1x3x8x8 f4x3x3x3 | pads=[1,1]
Conv | f1x3x8x8 f4x3x3x3 | strides=[0,1]
Conv | f1x3x8x8 f4x3x3x3 | group=2
Conv | f1x3x8x8 f4x3x3x3 | kernel_shape=[5,5]
Conv | f1x3x8x8 i4x3x3x3 |
Conv | f3 f4x3x3x3 |
MaxPool | f1x3x8x8 |
MaxPool | f1x3x8x8 | kernel_shape=[2]
MaxPool | f1x3x8x8 | kernel_shape=[2,2]; strides=[1,1,1]
MaxPool | f8 | kernel_shape=[2]
AveragePool | i1x3x8x8 | kernel_shape=[2,2]
ConvTranspose | f1x3x8x8 f4x3x3x3 |
BatchNormalization | f1x3x4x4 f2 f3 f3 f3 |
BatchNormalization | f1x3x4x4 f3 f3 f3 |
LayerNormalization | f2x3 f4 | axis=-1
LayerNormalization | f2x3 f3 | axis=5
InstanceNormalization | f1x3x4 f2 f3 |
Softmax | f2x3 | axis=2
Softmax | i2x3 |
LogSoftmax | f2x3 | axis=-4
Transpose | f2x3 | perm=[0,0]
Transpose | f2x3 | perm=[0]
Transpose | f2x3 | perm=[0,2]
Reshape | f2x3 [-1,-1] |
Reshape | f2x3 [7] |
Reshape | f2x3 [0,0,0] |
Reshape | f2x3 [-2] |
Reshape | f2x3 f[6.0] |
Reshape | f2x3 |
Expand | f2x3 [4,3] |
Expand | f2x3 f[2.0] |
Tile | f2x3 [1] |
Tile | f2x3 [-1,1] |
Concat | f2x3 f2x4 | axis=0
Concat | f2x3 d2x3 | axis=0
Concat | f2x3 f2 | axis=0
Concat | f2x3 | axis=9
Concat | f2x3 f2x3 |
Split | f6 [2,2] | axis=0
Split | f6 [-2,8] | axis=0
Split | f6 | axis=3
Slice | f6 [0] [3] [2] |
Slice | f6 [0] [3] [0] [0] |
Slice | f6 [0,1] [3] |
Gather | f2x3 f[0.0] |
Gather | f2x3 [0] | axis=2
Gather | f i1 |
GatherElements | f2x3 i2 |
GatherND | f2x3 i4x5 |
ScatterElements | f2x3 i2x2 f2x3 |
ScatterND | f2x3 i1x1 f3x3 |
Squeeze | f2x1 [0] |
Squeeze | f2x1 [5] |
Unsqueeze | f2 [0,0] |
Unsqueeze | f2 [9] |
Flatten | f2x3 | axis=5
ReduceSum | f2x3 [4] |
ReduceSum | s2 |
ReduceMean | f2x3 | axes=[7]
ArgMax | f2x3 | axis=2
ArgMax | f | axis=1
ArgMin | i | axis=-2
ArgMax | s2 |
TopK | f2x3 [2] | axis=4
TopK | f2x3 f[2.0] |
CumSum | f2x3 f[0.0] |
Pad | f2x3 [1,1] |
Pad | f2x3 [1,1,1,1] | mode='sideways'
Cast | f2 | to=999
Cast | f2 |
Clip | f2 f3 |
Clip | f2 f f0 |
Clip | f2 d d |
OneHot | i2 [3] f2x2 |
Range | f d f |
ConstantOfShape | f[2.0] |
ConstantOfShape | [-5] |
Resize | f1x1x4x4 |
Einsum | f2x3 f4x5 | equation='ij,jk->ik'
Einsum | f2x3 | equation='ijk->i'
Einsum | f2x3 |
LSTM | f5x2x3 f1x16x3 f1x16x5 | hidden_size=4
LSTM | f5x2 f1x16x3 f1x16x4 | hidden_size=4
GRU | f5x2x3 f1x12x4 f1x12x4 | hidden_size=4
DepthToSpace | f1x3x2x2 | blocksize=2
SpaceToDepth | f1x1x3x3 | blocksize=2
QuantizeLinear | f2x3 f4 u4 | axis=1
DequantizeLinear | f2x3 f |
MatMulInteger | f2x3 c3x4 |
NonMaxSuppression | f1x4x3 f1x1x4 |
Trilu | f3 |
Dropout | i2 |
NoSuchOperator | f2 |
SequenceAt | f2 [0] |
StringNormalizer | f2 |
If | f2 |
""".strip().splitlines()


def typed(text, name):
    """(value info or None, initializer or None) of one input."""
    constant = re.fullmatch(r"(f?)(\[.*\])", text)
    if constant:
        values = np.array(ast.literal_eval(constant[2]), np.float32 if constant[1] else np.int64)
        return None, numpy_helper.from_array(values, name)
    shape = [int(d) for d in text[1:].split("x")] if text[1:] else []
    return helper.make_tensor_value_info(name, TYPES[text[0]], shape), None


def build(row):
    op, inputs, attributes = (part.strip() for part in row.split("|"))
    names = [f"x{i}" for i in range(len(inputs.split()))]
    pairs = [typed(t, n) for t, n in zip(inputs.split(), names)]
    attrs = {k.strip(): ast.literal_eval(v.strip()) for k, v in
             (a.split("=", 1) for a in attributes.split(";") if a.strip())}
    y = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node(op, names, ["y"], name="it", **attrs)], "g",
                              [v for v, _ in pairs if v], [y], [c for _, c in pairs if c])
    return op, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def test_there_are_a_hundred():
    assert len(ROWS) == len(set(ROWS)) >= 100


@pytest.mark.parametrize("row", ROWS)
def test_refused_when_the_session_is_made(env, row):
    op, proto = build(row)
    with pytest.raises(NacreError) as error:
        env.session(proto).close()
    e = error.value
    assert e.node == "it" and e.op == op and len(e.text) > 5, (e.node, e.op, e.text)


@pytest.mark.parametrize("shape", [(0,), (3,), (9,), (2, 3)])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("op", ["Sub", "Max"])
def test_sizes_that_do_not_broadcast_are_refused_in_the_run(op, known, shape):
    """A dim that is open when the session is made is expected to fit; only the run tells that it does not."""
    import package  # noqa: F401  (makes nacre importable)
    import nacre
    dims = [f"d{k}" for k in range(len(shape))] if known else None
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims),
             helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])]
    graph = helper.make_graph([helper.make_node(op, ["x", "y"], ["z"], name="it")], "g", infos,
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    for device in ("CPUExecutionProvider", "GuardExecutionProvider"):
        session = nacre.InferenceSession(model, providers=[device])
        with pytest.raises(Exception, match="where 8 or 1 is expected"):
            session.run(None, {"x": np.zeros(shape, np.float32), "y": np.ones(8, np.float32)})


@pytest.mark.parametrize("takes, given", [(16, 8), (16, 17), (16, 32), (3, 2), (3, 16), (40, 48)])
def test_channels_that_do_not_fit_are_refused_in_the_run(takes, given):
    """Convolutions on blocks of channels: behind their packing a block that is not full looks like one with zeros."""
    import package  # noqa: F401  (makes nacre importable)
    import nacre
    weights = [("a", np.ones((32, takes, 3, 3), np.float32)), ("b", np.ones((32, 32, 3, 3), np.float32))]
    nodes = [helper.make_node("Conv", ["x", "a"], ["y"], name="it", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["y"], ["r"]), helper.make_node("Conv", ["r", "b"], ["z"], pads=[1, 1, 1, 1])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c", 12, 12])],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, n) for n, w in weights])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    for device in ("CPUExecutionProvider", "GuardExecutionProvider"):
        session = nacre.InferenceSession(model, providers=[device])
        for _ in range(2):
            with pytest.raises(Exception, match=f"{takes}"):
                session.run(None, {"x": np.ones((1, given, 12, 12), np.float32)})
            assert session.run(None, {"x": np.ones((1, takes, 12, 12), np.float32)})[0].shape == (1, 32, 12, 12)


# What is known to be wrong only when the run knows the sizes: OP | INPUTS | ATTRIBUTES | WORDS. The session gets every
# dim of an input as a symbol of its own, the run the shape that stands here; [4,3] are numbers, a capital letter is a
# sequence of one such tensor. OP:3 has three outputs.
LATE = """
Range | f0 f f | | input 0 (start): dim 0 is 0, expected one element
Range | f f2 f | | input 1 (limit): dim 0 is 2, expected one element
Range | i i i1x0 | | input 2 (delta): dim 1 is 0, expected one element
SequenceAt | F2 i0 | | input 1 (position): dim 0 is 0, expected one element
SequenceErase | F2 i2 | | input 1 (position): dim 0 is 2, expected one element
SequenceInsert | F2 f2 i0 | | input 2 (position): dim 0 is 0, expected one element
Dropout | f3 f0 b | | input 1 (ratio): dim 0 is 0, expected one element
Dropout | f3 f b0 | | input 2 (training_mode): dim 0 is 0, expected one element
BiasDropout | f3 f3 f3 f0 b | | ratio
BitmaskDropout | f3 f0 b | | ratio
BitmaskBiasDropout | f3 f3 f3 f0 b | | ratio
Trilu | f3x3 i0 | | expected
NonMaxSuppression | f1x2x4 f1x1x2 i0 | | input 2 (max_output_boxes_per_class): dim 0 is 0, expected one element
NonMaxSuppression | f1x2x4 f1x1x2 i f0 | | input 3 (iou_threshold): dim 0 is 0, expected one element
OneHot | i2 i0 f2 | | input 1 (depth): dim 0 is 0, expected one element
TopK:2 | f3 i0 | | input 1 (K): dim 0 is 0, expected one element
Pad | f3 i2 f2 | | input 2 (constant_value): dim 0 is 2, expected one element
CumSum | f3 i0 | | input 1 (axis): dim 0 is 0, expected one element
ComplexMul | f2 f3 | | expected
ComplexMulConj | f3 f2 | | expected
BiasSoftmax | f4x4x1 f5 | axis=2; is_inner_broadcast=0 | expected
BitmaskBiasDropout | f8x1 f2 | | expected
MatMul | f2x3 f4x2 | | A has 3 columns, B has 4 rows
FusedMatMul | f2x3 f4x2 | | A has 3 columns, B has 4 rows
DropoutGrad | f8 b3 | | dim 0 of mask is 3, expected 8
DropoutGrad | f8 b8 f0 | | (ratio): dim 0 is 0, expected one element
GatherGrad | [4,3] i2 f1x3 | | dim 0 of input 2 is 1, expected 2
GatherNDGrad | [4,3] i2x1 f1x3 | | dim 0 of input 2 is 1, expected 2
GatherNDGrad | [4,3] i2x5 f2 | | along 5 dims
SliceGrad | f2x1 [4,3] [0] [2] [0] | | a dim that is not cut
PadAndUnflatten | f1x3 i2 [2,2] | | dim 0 of input 2 is 1, expected 2
SoftmaxCrossEntropyLossGrad | f f2x3 i5 | | is 5, expected 2
SoftmaxCrossEntropyLossGrad | f f2x3 i2 f1 | | dim 0 of weights is 1, expected 3
SoftmaxCrossEntropyLossGrad | f1 f2x3 i2 | reduction='none' | dim 0 of dloss is 1, expected 2
ConvGrad | f1x1x9x9 f1x1x4x4 f1x1x3x3 | | dim 2 of dY is 9, expected 2
BatchNormalizationGrad:3 | f2x3x4 f2x3x1 f3 f3 f3 | epsilon=0.1 | dim 2 of dY is 4, expected 1
SGDOptimizerV2 | f I2 I2 | | is of type int64, expected floats
SGDOptimizerV2 | f0 F2 F2 | | input 0 has 0 elements, expected 1
InplaceClipGradNorm | I2 | | is of type int64, expected floats
""".strip().splitlines()
STANDARD = {"Range", "SequenceAt", "SequenceErase", "SequenceInsert", "Dropout", "Trilu", "NonMaxSuppression", "MatMul",
            "OneHot", "TopK", "Pad", "CumSum"}


def fed(text, name):
    """(value info, value) of one input whose dims the model leaves open."""
    constant = text.startswith("[")
    kind = "i" if constant else text[0]
    shape = [] if constant else [int(d) for d in text[1:].split("x")] if text[1:] else []
    value = np.array(ast.literal_eval(text)) if constant else np.ones(
        shape, helper.tensor_dtype_to_np_dtype(TYPES[kind.lower()]))
    dims = [f"{name}_{k}" for k in range(value.ndim)]
    if kind.isupper():
        return helper.make_tensor_sequence_value_info(name, TYPES[kind.lower()], dims), [value]
    return helper.make_tensor_value_info(name, TYPES[kind], list(value.shape) if constant else dims), value


@pytest.mark.parametrize("row", LATE)
def test_sizes_that_do_not_fit_are_refused_in_the_run(row):
    import package  # noqa: F401  (makes nacre importable)
    import nacre
    op, inputs, attributes, words = (part.strip() for part in row.split("|"))
    attrs = {k.strip(): ast.literal_eval(v.strip())
             for k, v in (a.split("=", 1) for a in attributes.split(";") if a.strip())}
    pairs = [fed(t, f"x{i}") for i, t in enumerate(inputs.split())]
    names = [info.name for info, _ in pairs]
    op, _, n_out = op.partition(":")
    results = [f"y{k}" for k in range(int(n_out or 1))]
    node = helper.make_node(op, names, results, name="it", domain="" if op in STANDARD else "com.microsoft", **attrs)
    graph = helper.make_graph([node], "g", [info for info, _ in pairs],
                              [helper.make_empty_tensor_value_info(name) for name in results])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()
    for device in ("CPUExecutionProvider", "GuardExecutionProvider"):
        session = nacre.InferenceSession(model, providers=[device])
        with pytest.raises(Exception, match=re.escape(words)):
            session.run(None, dict(zip(names, (v for _, v in pairs))))


def test_a_file_with_what_only_planning_makes_is_refused(env):
    body = helper.make_graph([], "b", [], [])
    node = helper.make_node("Deferred", [], [], name="it", domain="nacre", body=body)
    graph = helper.make_graph([node, helper.make_node("Relu", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    proto = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17),
                                                                   helper.make_opsetid("nacre", 1)])
    with pytest.raises(NacreError) as error:
        env.session(proto).close()
    assert error.value.op == "Deferred" and "made while planning" in error.value.text
