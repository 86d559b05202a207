"""Networks that go to and fro between images and rows of channels, and decoders that join scales, beside onnxruntime,
with blocked layouts and without, with the passes and without; the same bits for any number of threads."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import nacre_c
import onnxruntime
from tolerances import close


class Graph:
    def __init__(self, shape, seed):
        self.rng, self.nodes, self.weights, self.shape = np.random.default_rng(seed), [], [], shape

    def const(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape):
        return self.const(self.rng.standard_normal(shape, np.float32) / np.float32(max(1, np.prod(shape[1:])) ** 0.5))

    def node(self, op, *inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def model(self, y):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        out = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conv(g, x, c_in, c_out, kernel, group=1, dilation=1):
    return g.node("Conv", x, g.weight(c_out, c_in // group, kernel, kernel), g.weight(c_out), group=group,
                  pads=[kernel // 2 * dilation] * 4, kernel_shape=[kernel] * 2, dilations=[dilation] * 2)


def turned(c, h, w):
    """Blocks with a residual, normalized with the channels last."""
    g = Graph((2, c, h, w), 1)
    x = conv(g, "x", c, c, 3)
    for _ in range(2):
        y = g.node("Transpose", conv(g, x, c, c, 7, c), perm=[0, 2, 3, 1])
        y = g.node("LayerNormalization", y, g.weight(c), g.weight(c), axis=-1)
        y = g.node("MatMul", y, g.weight(c, c))
        x = g.node("Add", g.node("Transpose", y, perm=[0, 3, 1, 2]), x)
    return g.model(g.node("Transpose", x, perm=[0, 2, 3, 1]))


def rows(c, h, w):
    """Rows of channels that are an image for one convolution, with formulas behind it."""
    g = Graph((2, h * w, c), 2)
    image, flat = g.const(np.int64([2, c, h, w])), g.const(np.int64([2, c, h * w]))
    x = "x"
    for _ in range(2):
        y = g.node("MatMul", x, g.weight(c, c))
        y = conv(g, g.node("Reshape", g.node("Transpose", y, perm=[0, 2, 1]), image), c, c, 3, c)
        y = g.node("Transpose", g.node("Reshape", y, flat), perm=[0, 2, 1])
        y = g.node("Mul", g.node("Sigmoid", y), g.const(np.float32(3)))
        x = g.node("Add", g.node("Tanh", y), x)
    return g.model(x)


def scales(c, h, w):
    """Three scales, two of them enlarged, joined by a convolution of one tap; and one enlarged scale alone."""
    g = Graph((2, c, h, w), 3)
    parts = [conv(g, "x", c, 64, 3)]
    for mode, by in (("linear", 2), ("nearest", 3)):
        small = g.node("MaxPool", conv(g, "x", c, 72, 1), kernel_shape=[min(by, h), min(by, w)], strides=[by] * 2)
        sizes = g.const(np.int64([2, 72, h, w]))
        parts.insert(1, g.node("Resize", small, "", "", sizes, mode=mode))
    y = g.node("Relu", conv(g, g.node("Concat", *parts, axis=1), 64 + 2 * 72, 40, 1))
    grown = g.node("Resize", conv(g, y, 40, 96, 1), "", g.const(np.float32([1, 1, 2, 3])), mode="linear",
                   coordinate_transformation_mode="align_corners")
    return g.model(conv(g, grown, 96, 17, 1))


def projected(c, h, w):
    """Rows of channels, projected and mixed as an image, in both ways to write it."""
    g = Graph((2, h * w, c), 4)
    y = g.node("Add", g.node("MatMul", "x", g.weight(c, 40)), g.weight(40))
    y = g.node("Reshape", g.node("Transpose", y, perm=[0, 2, 1]), g.const(np.int64([0, 40, h, w])))
    y = g.node("Relu", conv(g, y, 40, 24, 1))
    y = g.node("MatMul", g.node("Transpose", y, perm=[0, 2, 3, 1]), g.weight(24, 33))
    return g.model(conv(g, g.node("Transpose", y, perm=[0, 3, 1, 2]), 33, 9, 1))


def dilated(c, h, w):
    """Windows that reach far, with a formula behind them, then reductions that keep no dims."""
    g = Graph((2, c, h, w), 5)
    parts = []
    for dilation in (2, 3, 6, 18):
        y = conv(g, "x", c, 24, 3, dilation=dilation)
        parts.append(g.node("Mul", y, g.node("Sigmoid", y)))
    y = g.node("Relu", conv(g, g.node("Concat", *parts, axis=1), 96, 40, 3, dilation=2))
    few = [g.node("ReduceMax", y, axes=[2, 3], keepdims=0), g.node("ReduceMean", y, axes=[-1, -2], keepdims=0)]
    line = g.node("ReduceSum", g.node("ReduceMean", y, axes=[3], keepdims=0), g.const(np.int64([2])), keepdims=0)
    return g.model(g.node("Concat", *few, line, axis=1))


@pytest.mark.parametrize("make", [turned, rows, scales, projected, dilated], ids=lambda f: f.__name__)
@pytest.mark.parametrize("sizes", [(32, 9, 7), (20, 5, 11), (16, 1, 1), (3, 8, 8), (48, 14, 14)], ids=str)
def test_both_ways(make, sizes):
    model = make(*sizes)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = reference.get_inputs()[0].shape
    x = {"x": np.random.default_rng(7).standard_normal(shape, np.float32)}
    want = reference.run(None, x)[0]
    name = reference.get_outputs()[0].name
    got = []
    for threads, settings in ((1, {}), (3, {}), (1, {"layouts": False}), (1, {"disable": "resizes"}),
                              (1, {"disable": "products"})):
        with nacre_c.Env(threads) as env, env.session(model, **settings) as session:
            got.append(session.run(x)[name])
            close(got[-1], want, "model_f32", settings)
    assert np.array_equal(got[0], got[1])
