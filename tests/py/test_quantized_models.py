"""Models written by onnxruntime.quantization beside onnxruntime: a transformer block and a convolutional net, dynamic
and static, in QDQ form and by operators, weights per tensor and per channel, signed and unsigned.

Outputs are compared as parts of the largest: every value between two layers is rounded to one of 256 codes, and a
rounding may fall the other way. onnxruntime's integer products saturate where the processor has no VNNI, so they are
compared with weights of 7 bits; models in QDQ form run there without its rewrites, which multiplies numbers and is
exact with 8 bits too. With its rewrites it is several steps away from itself.
"""
import functools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime import quantization as q

import nacre_c
from nacre_c import Env
from tolerances import close

R = np.random.default_rng(7)
HIDDEN, TOKENS, HEADS, WORDS = 32, 9, 2, 50


class Net:
    def __init__(self):
        self.nodes, self.consts, self.n = [], [], 0

    def const(self, x):
        self.n += 1
        self.consts.append(numpy_helper.from_array(np.asarray(x), f"c{self.n}"))
        return f"c{self.n}"

    def weight(self, *shape, scale=0.3):
        return self.const((R.standard_normal(shape) * scale).astype(np.float32))

    def __call__(self, op, *inputs, **attrs):
        self.n += 1
        self.nodes.append(helper.make_node(op, list(inputs), [f"v{self.n}"], name=f"{op}_{self.n}", **attrs))
        return f"v{self.n}"

    def model(self, inputs, y):
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        graph = helper.make_graph(self.nodes, "g", inputs, [helper.make_tensor_value_info("y", T.FLOAT, None)],
                                  self.consts)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def transformer():
    net = Net()
    x = net("Gather", net.weight(WORDS, HIDDEN, scale=1), "ids")

    def norm(v):
        return net("LayerNormalization", v, net.const(np.ones(HIDDEN, np.float32)), net.weight(HIDDEN))

    def linear(v, i, o):
        return net("Add", net("MatMul", v, net.weight(i, o)), net.weight(o))

    def heads(v, perm):
        shape = net.const(np.array([0, TOKENS, HEADS, HIDDEN // HEADS], np.int64))
        return net("Transpose", net("Reshape", v, shape), perm=perm)

    x = norm(x)
    queries, keys = heads(linear(x, HIDDEN, HIDDEN), [0, 2, 1, 3]), heads(linear(x, HIDDEN, HIDDEN), [0, 2, 3, 1])
    values = heads(linear(x, HIDDEN, HIDDEN), [0, 2, 1, 3])
    scores = net("Softmax", net("Mul", net("MatMul", queries, keys), net.const(np.float32(0.25))), axis=-1)
    mixed = net("Transpose", net("MatMul", scores, values), perm=[0, 2, 1, 3])
    mixed = net("Reshape", mixed, net.const(np.array([0, TOKENS, HIDDEN], np.int64)))
    x = norm(net("Add", x, linear(mixed, HIDDEN, HIDDEN)))
    wide = linear(x, HIDDEN, 4 * HIDDEN)
    gelu = net("Mul", wide, net("Sigmoid", net("Mul", wide, net.const(np.float32(1.702)))))
    x = norm(net("Add", x, linear(gelu, 4 * HIDDEN, HIDDEN)))
    return net.model([helper.make_tensor_value_info("ids", T.INT64, ["b", TOKENS])], x)


def convolutions():
    net = Net()
    x = net("Relu", net("Conv", "x", net.weight(16, 3, 3, 3), net.weight(16), pads=[1] * 4, strides=[2, 2]))
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    six = [net.const(np.float32(0)), net.const(np.float32(6))]
    wide = net("Clip", net("Conv", x, net.weight(37, 16, 1, 1), net.weight(37)), *six)
    deep = net("Clip", net("Conv", wide, net.weight(37, 1, 3, 3), net.weight(37), group=37, pads=[1] * 4), *six)
    x = net("Add", x, net("Conv", deep, net.weight(16, 37, 1, 1), net.weight(16)))
    x = net("Concat", x, net("Conv", x, net.weight(8, 4, 3, 1), group=4, pads=[1, 0, 1, 0], dilations=[1, 1]), axis=1)
    x = net("Flatten", net("GlobalAveragePool", x))
    return net.model([helper.make_tensor_value_info("x", T.FLOAT, ["b", 3, 13, 17])],
                     net("Gemm", x, net.weight(10, 24), net.weight(10), transB=1))


def feeds(name, seed):
    r = np.random.default_rng(seed)
    if name == "transformer":
        return {"ids": r.integers(0, WORDS, (3, TOKENS))}
    return {"x": r.standard_normal((2, 3, 13, 17)).astype(np.float32)}


class Feeds(q.CalibrationDataReader):
    def __init__(self, name):
        self.left = iter([feeds(name, seed) for seed in range(4)])

    def get_next(self):
        return next(self.left, None)


@functools.lru_cache(maxsize=None)
def plain(name):
    return {"transformer": transformer, "convolutions": convolutions}[name]()


FORMS = {"dynamic": None, "qdq": q.QuantFormat.QDQ, "operators": q.QuantFormat.QOperator}


@functools.lru_cache(maxsize=None)
def quantized(name, form, per_channel, weights, reduce, folder):
    source, target = folder / f"{name}.onnx", folder / f"{name}-{form}-{per_channel}-{weights}-{reduce}.onnx"
    onnx.save(plain(name), source)
    kinds = {"s8": q.QuantType.QInt8, "u8": q.QuantType.QUInt8}
    if form == "dynamic":
        q.quantize_dynamic(source, target, per_channel=per_channel, weight_type=kinds[weights], reduce_range=reduce)
    else:
        q.quantize_static(source, target, Feeds(name), quant_format=FORMS[form], per_channel=per_channel,
                          activation_type=kinds["u8"], weight_type=kinds[weights], reduce_range=reduce)
    return target


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("quantized")


def by_ort(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, x)[0]


def by_nacre(path, x, **settings):
    with Env(threads=2) as env, env.session(path.read_bytes(), **settings) as session:
        return session.run(x)["y"]


def in_steps(got, want, row, what):
    largest = np.abs(want).max()
    close(got / largest, want / largest, row, what)


CASES = [(name, form, per_channel, weights) for name in ("transformer", "convolutions") for form in FORMS
         for per_channel in (False, True) for weights in ("s8", "u8")
         if not (form == "operators" and per_channel and weights == "u8")]


@pytest.mark.parametrize("name,form,per_channel,weights", CASES)
def test_beside_onnxruntime(name, form, per_channel, weights, folder):
    for seven_bits in (True, False) if form == "qdq" else (True,):
        path, x = quantized(name, form, per_channel, weights, seven_bits, folder), feeds(name, 11)
        want = by_ort(path, x)
        in_steps(by_nacre(path, x), want, "quantized_model", path.name)
        in_steps(by_nacre(path, x, disable="quantized"), want, "quantized_model", f"{path.name}, the pass switched off")


@pytest.mark.parametrize("name,per_channel", [(n, p) for n in ("transformer", "convolutions") for p in (False, True)])
def test_no_float_product_is_left(name, per_channel, folder):
    """What the optimizer saves is read by onnxruntime, and multiplies codes alone."""
    path, x = quantized(name, "qdq", per_channel, "s8", True, folder), feeds(name, 13)
    saved = folder / f"saved-{name}-{per_channel}.onnx"
    with Env() as env, env.model(path.read_bytes()) as model:
        model.optimize("all")
        model.save(str(saved))
    ops = {n.op_type for n in onnx.load(saved).graph.node}
    assert not ops & {"MatMul", "Conv", "Gemm"} and ops & {"QLinearMatMul", "QLinearConv"}
    in_steps(by_ort(saved, x), by_ort(path, x), "quantized_model", path.name)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2,)])
def test_sum_behind_a_convolution_wants_one_scale(shape):
    """The sum is part of the convolution, which gives the codes of both alone and refuses what they refuse."""
    codes = {name: R.integers(0, 256, (1, 5, 6, 4)).astype(np.uint8) for name in "xo"}
    net = Net()
    one, zero = net.const(np.float32(0.02)), net.const(np.uint8(7))
    w = net.const(R.integers(-99, 99, (4, 4, 1, 1), "i1"))
    conv = net("QLinearConv", "x", one, zero, w, one, net.const(np.int8(0)), "s", zero, domain="com.microsoft",
               channels_last=1)
    net.nodes.append(helper.make_node("QLinearAdd", [conv, "s", zero, "o", one, zero, one, zero], ["y"],
                                      domain="com.microsoft"))
    ins = [helper.make_tensor_value_info(n, T.UINT8, [1, 5, 6, 4]) for n in codes]
    graph = helper.make_graph(net.nodes, "g", [*ins, helper.make_tensor_value_info("s", T.FLOAT, None)],
                              [helper.make_tensor_value_info("y", T.UINT8, None)], net.consts)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    feeds_of = {**codes, "s": np.full(shape, 0.5, np.float32)}
    with Env(threads=2) as env, env.session(model.SerializeToString()) as fused, \
            env.session(model.SerializeToString(), fusion="off") as apart:
        if shape in ((), (1,)):
            assert (fused.run(feeds_of)["y"] == apart.run(feeds_of)["y"]).all()
            return
        for session in (fused, apart):
            with pytest.raises(nacre_c.NacreError, match="QLinear.*expected 1"):
                session.run(feeds_of)
