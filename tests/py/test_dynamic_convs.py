"""Convolutional networks as dynamic quantization writes them: they stay with channels last, and onnxruntime agrees; the
same bits for any number of threads."""
import nacre_c
import numpy as np
import onnxruntime
import pytest
import tolerances
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self, signed, seed):
        self.rng, self.nodes, self.weights, self.signed = np.random.default_rng(seed), [], [], signed

    def const(self, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, op, *inputs, n_out=1, **attrs):
        names = [f"v{len(self.nodes)}_{i}" for i in range(n_out)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names if n_out > 1 else names[0]

    def conv(self, x, c_in, c_out, k, group=1, bias=True, **attrs):
        """As onnxruntime.quantization.quantize_dynamic writes a Conv."""
        low, high = (-128, 128) if self.signed else (0, 256)
        w = self.rng.integers(low, high, (c_out, c_in // group, k, k)).astype("i1" if self.signed else "u1")
        zero = self.const(np.int8(0) if self.signed else np.uint8(121))
        codes, scale, x_zero = self.node("DynamicQuantizeLinear", x, n_out=3)
        sums = self.node("ConvInteger", codes, self.const(w), x_zero, zero, group=group, kernel_shape=[k, k], **attrs)
        by = self.node("Mul", scale, self.const(np.float32([0.001])))
        y = self.node("Mul", self.node("Cast", sums, to=TensorProto.FLOAT), by)
        if not bias:
            return y
        return self.node("Add", y, self.const(self.rng.standard_normal((1, c_out, 1, 1)).astype("f4")))

    def model(self, y, channels):
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, "h", "w"])
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network(signed):
    """A residual block, one channel per group, strides, pools of both kinds, a formula of each channel."""
    g = Net(signed, 3)
    a = g.node("Relu", g.conv("x", 3, 20, 3, pads=[1] * 4))
    b = g.node("Clip", g.conv(a, 20, 20, 3, group=20, pads=[1] * 4), g.const(np.float32(0)), g.const(np.float32(6)))
    a = g.node("Add", g.conv(b, 20, 20, 1), a)
    a = g.node("MaxPool", a, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1])
    a = g.node("Mul", a, g.const(g.rng.standard_normal((20, 1, 1)).astype("f4")))
    a = g.node("Relu", g.conv(a, 20, 35, 5, pads=[2] * 4, strides=[2, 1], bias=False))
    a = g.node("AveragePool", a, kernel_shape=[2, 2])
    return g.model(g.conv(a, 35, 6, 1, group=1), 3)


@pytest.mark.parametrize("signed", [False, True])
def test_dynamic_convolutions_beside_onnxruntime(signed):
    model = network(signed).SerializeToString()
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with nacre_c.Env(1) as alone, nacre_c.Env(3) as env:
        session, one = env.session(model, dumps="on"), alone.session(model)
        lowered = session.dump("lowered")
        assert lowered.count("nacre.ConvIntegerToFloat") == 5 and lowered.count("= Transpose") == 2, lowered
        assert " Cast" not in lowered and "ConvInteger(" not in lowered, lowered
        exact = env.session(model, layouts="off")
        for dims in ((1, 3, 17, 22), (2, 3, 12, 9)):
            x = np.random.default_rng(1).standard_normal(dims, np.float32)
            got, want = session.run({"x": x})["y"], exact.run({"x": x})["y"]
            tolerances.close(got / np.abs(want).max(), want / np.abs(want).max(), "model_f32", dims)
            assert np.array_equal(got, one.run({"x": x})["y"])
            if not signed:  # onnxruntime has no ConvInteger of signed weights
                theirs = onnxruntime.InferenceSession(model, plain, providers=["CPUExecutionProvider"])
                want = theirs.run(None, {"x": x})[0]
                tolerances.close(got / np.abs(want).max(), want / np.abs(want).max(), "model_f32", dims)
