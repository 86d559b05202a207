"""Writes the models of tests/faults: small ones that between them reach every part of load, plan and run.

make.py [FOLDER]   the files are committed; run it again after a change here
"""
import pathlib
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(11)


def floats(name, *shape):
    return numpy_helper.from_array((RNG.standard_normal(shape) * 0.3).astype(np.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def info(name, shape, elem=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, elem, shape)


def model(nodes, inputs, outputs, initializers=(), opset=21, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid(*o) for o in [("", opset)] + more.pop("domains", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def control():
    return onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
steps (float[n,3] x) => (float[n,3] y, float[t,n,3] all)
<int64 n = {3}, bool yes = {1}, float[3] w = {0.5, -0.25, 1.5}, float limit = {0.1}>
{
  r, all = Loop(n, yes, x) <body = b (int64 i, bool go, float[n,3] s) => (bool go_on, float[n,3] s1, float[n,3] o) {
    go_on = Identity(go)
    m = ReduceMean<keepdims = 0>(s)
    big = Less(limit, m)
    s1 = If(big) <then_branch = t () => (float[n,3] p) { p = Mul(s, w) },
                  else_branch = e () => (float[n,3] q) { q = Add(s, w) }>
    o = Neg(s1)
  }>
  y = Tanh(r)
}""")


def sequences():
    return onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
seqs (float[n,4] x) => (float[k,4] y, int64 count, seq(float[m,4]) parts)
<int64 one = {1}, int64 size = {1}>
{
  parts = SplitToSequence<axis = 0>(x, size)
  empty = SequenceEmpty<dtype = 1>()
  first = SequenceAt(parts, one)
  some = SequenceInsert(empty, first)
  more = SequenceInsert(some, x)
  fewer = SequenceErase(parts, one)
  count = SequenceLength(fewer)
  y = ConcatFromSequence<axis = 0>(more)
}""")


def strings():
    n = helper.make_node
    return model(
        [n("StringNormalizer", ["s"], ["u"], case_change_action="UPPER"), n("StringConcat", ["u", "s"], ["c"]),
         n("StringSplit", ["c"], ["y", "count"], delimiter=" "), n("Equal", ["u", "s"], ["same"]),
         n("LabelEncoder", ["s"], ["code"], domain="ai.onnx.ml", keys_strings=["a", "bc"], values_int64s=[7, 9])],
        [info("s", [6], TensorProto.STRING)],
        [info("y", None, TensorProto.STRING), info("count", None, TensorProto.INT64),
         info("same", [6], TensorProto.BOOL), info("code", [6], TensorProto.INT64)],
        domains=[("ai.onnx.ml", 4)])


def functions():
    return onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["": 18, "my": 1]>
main (float[n] x) => (float[n] y, float[n] z) {
  y = my.outer <scale = 0.5> (x)
  z = my.outer (y)
}
<domain: "my", opset_import: ["": 18, "my": 1]>
outer <scale: float = 2.0> (a) => (b) {
  h = my.inner <by: float = @scale> (a)
  b = my.inner (h)
}
<domain: "my", opset_import: ["": 18]>
inner <by: float = 3.0> (a) => (b) {
  c = Constant <value_float: float = @by> ()
  d = Mul (a, c)
  b = Tanh (d)
}""")


def sparse():
    w = np.zeros((6, 4), np.float32)
    w[1, 2], w[5, 0] = 2, -1
    at = np.flatnonzero(w)
    m = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ["n", 6])], [info("y", ["n", 4])])
    m.graph.sparse_initializer.append(helper.make_sparse_tensor(
        helper.make_tensor("w", TensorProto.FLOAT, [len(at)], w.ravel()[at]),
        helper.make_tensor("i", TensorProto.INT64, [len(at)], at), [6, 4]))
    return m


def external(folder):
    m = model([helper.make_node("Gemm", ["x", "W", "b"], ["y"])], [info("x", ["n", 12])], [info("y", ["n", 10])],
              [floats("W", 12, 10), floats("b", 10)])
    w = m.graph.initializer[0]
    (folder / "external.bin").write_bytes(w.raw_data)
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "external.bin"), ("offset", "0"), ("length", "480")):
        w.external_data.add(key=key, value=value)
    return m


def quantized():
    n, u8 = helper.make_node, TensorProto.UINT8
    weights = numpy_helper.from_array(RNG.integers(-9, 9, (8, 6)).astype(np.int8), "w")
    scalars = [numpy_helper.from_array(np.array(v, t), k) for k, v, t in
               (("s", 0.05, np.float32), ("z", 128, np.uint8), ("ws", 0.02, np.float32), ("wz", 0, np.int8))]
    return model(
        [n("QuantizeLinear", ["x", "s", "z"], ["q"]),
         n("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "s", "z"], ["p"]),
         n("DequantizeLinear", ["p", "s", "z"], ["y"]),
         n("DynamicQuantizeLinear", ["x"], ["dq", "ds", "dz"]), n("MatMulInteger", ["dq", "w", "dz", "wz"], ["i"])],
        [info("x", ["n", 8])], [info("y", ["n", 6]), info("p", ["n", 6], u8), info("i", ["n", 6], TensorProto.INT32)],
        [weights] + scalars)


def convolutions():
    n = helper.make_node
    return model(
        [n("Conv", ["x", "k1", "c1"], ["a"], pads=[1, 1, 1, 1]), n("Relu", ["a"], ["b"]),
         n("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
         n("Conv", ["c", "k2"], ["d"], group=16, pads=[1, 1, 1, 1]),
         n("BatchNormalization", ["d", "g", "h", "m", "v"], ["e"]),
         n("Conv", ["e", "k3"], ["f"]), n("GlobalAveragePool", ["f"], ["p"]), n("Flatten", ["p"], ["q"]),
         n("Gemm", ["q", "w", "o"], ["y"])],
        [info("x", ["n", 3, 8, 8])], [info("y", ["n", 5])],
        [floats("k1", 16, 3, 3, 3), floats("c1", 16), floats("k2", 16, 1, 3, 3), floats("k3", 8, 16, 1, 1),
         floats("g", 16), floats("h", 16), floats("m", 16), numpy_helper.from_array(np.ones(16, np.float32), "v"),
         floats("w", 8, 5), floats("o", 5)])


def lstm():
    n = helper.make_node
    return model(
        [n("LSTM", ["x", "w", "r", "b"], ["o", "h", "c"], hidden_size=4, direction="bidirectional"),
         n("GRU", ["x", "gw", "gr"], ["", "gh"], hidden_size=4), n("Squeeze", ["gh", "zero"], ["last"])],
        [info("x", [5, "n", 3])], [info("o", None), info("h", None), info("last", None)],
        [floats("w", 2, 16, 3), floats("r", 2, 16, 4), floats("b", 2, 32), floats("gw", 1, 12, 3),
         floats("gr", 1, 12, 4), ints("zero", 0)])


def attention():
    n = helper.make_node
    qkv = ["q", "k", "v"]
    return model(
        [n("LayerNormalization", ["x", "g", "b"], ["l"])] + [n("MatMul", ["l", "w" + c], [c]) for c in qkv] +
        [n("Attention", qkv, ["a"], q_num_heads=2, kv_num_heads=2), n("Add", ["a", "x"], ["s"]),
         n("Gelu", ["s"], ["e"]), n("Softmax", ["e"], ["y"])],
        [info("x", ["n", "t", 8])], [info("y", ["n", "t", 8])],
        [floats("w" + c, 8, 8) for c in qkv] + [floats("g", 8), floats("b", 8)], opset=23)


def shapes():
    """Sizes found while running: Shape, Range, NonZero, Expand, TopK, Resize, a Scan."""
    return onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
sizes (float[n,4] x) => (int64[2,k] at, float[n,4] y, float[a,b] e, float[n,2] top, float[n,4] sums)
<int64 zero = {0}, int64 one = {1}, int64[1] two = {2}, float[4] start = {0,0,0,0}>
{
  shape = Shape(x)
  n = Gather(shape, zero)
  r = Range(zero, n, one)
  f = Cast<to = 1>(r)
  column = Unsqueeze(f, two_less)
  at = NonZero(x)
  y = Add(x, column)
  e = Expand(f_one, shape)
  top, i = TopK(x, two)
  last, sums = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] v) => (float[4] t, float[4] o) {
    t = Add(s, v)
    o = Identity(t)
  }>(start, x)
}""".replace("float[4] start", "int64[1] two_less = {1}, float[1] f_one = {1}, float[4] start"))


def training():
    n = helper.make_node
    return model(
        [n("MatMul", ["x", "W1"], ["m"]), n("Add", ["m", "b1"], ["h"]), n("Relu", ["h"], ["a"]),
         n("MatMul", ["a", "W2"], ["z"]), n("Sub", ["z", "t"], ["d"]), n("Mul", ["d", "d"], ["s"]),
         n("ReduceMean", ["s"], ["loss"], keepdims=0)],
        [info("x", ["n", 4]), info("t", ["n", 2])], [info("loss", [])],
        [floats("W1", 4, 5), floats("b1", 5), floats("W2", 5, 2)], opset=17)


def plugin():
    n = helper.make_node
    return model([n("Add", ["x", "x"], ["t"]), n("Compact", ["t"], ["c"], domain="test.plugin", above=0.5),
                  n("Neg", ["c"], ["y"])], [info("x", ["n"])], [info("y", ["k"])], domains=[("test.plugin", 1)])


def large():
    """More than 200 nodes, with branches that join again."""
    nodes, last = [], "x"
    for i in range(70):
        a, b, c = f"a{i}", f"b{i}", f"c{i}"
        nodes += [helper.make_node("Tanh" if i % 3 else "Sigmoid", [last], [a]),
                  helper.make_node("MatMul", [a, "w" if i % 2 else "v"], [b]), helper.make_node("Add", [b, last], [c])]
        last = c
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    return model(nodes, [info("x", ["n", 6])], [info("y", ["n", 6])], [floats("w", 6, 6), floats("v", 6, 6)])


def main(folder=pathlib.Path(__file__).parent):
    folder = pathlib.Path(folder)
    made = {f.__name__: f() for f in (control, sequences, strings, functions, sparse, quantized, convolutions, lstm,
                                      attention, shapes, training, plugin, large)}
    made["external"] = external(folder)
    for name, proto in made.items():
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
