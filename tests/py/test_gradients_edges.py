"""Gradients where the formulas are easily wrong: second derivatives far from 0, no repeats, control flow within control
flow differentiated twice, control flow older than its gradient, batch dims said in ONNX's own ops."""
import warnings

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import package
import pytest
import torch
import torch.nn.functional as F
from onnx import helper
from tolerances import close

import nacre  # noqa: E402  (package puts it on the path)
from nacre import training  # noqa: E402

assert package.BUILT

FAR = [-1e4, -800.0, -100.0, -30.0, -0.5, 0.5, 3.0, 30.0, 100.0, 800.0, 1e4]
CURVES = {"Softplus": F.softplus, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Mish": F.mish, "Swish": F.silu,
          "Gelu": F.gelu, 'Gelu<approximate="tanh">': lambda x: F.gelu(x, approximate="tanh"), "Elu": F.elu,
          "Celu": F.celu, "Selu": F.selu, "Softsign": F.softsign, "Erf": torch.erf}


def parse(text, opset):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')


def run(model, feeds):
    session = nacre.InferenceSession(model.SerializeToString())
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def again(model, xs, rename="once"):
    """The gradients of a model as values y: a model to differentiate again, with random cotangents."""
    made = training.gradients(model, [o.name for o in model.graph.output], xs, cotangents=True)
    del made.graph.output[:]
    for x in xs:
        made.graph.node.append(helper.make_node("Identity", [f"grad:{x}"], [f"{rename}:{x}"]))
        made.graph.output.append(helper.make_tensor_value_info(f"{rename}:{x}", 11, None))
    return made


def check_slopes(model, feeds, seed=5):
    """All outputs by all inputs of doubles, along random directions."""
    rng = np.random.default_rng(seed)
    xs, ys = [k for k, x in feeds.items() if x.dtype == np.float64], [o.name for o in model.graph.output]
    dys = {y: rng.standard_normal(v.shape) for y, v in run(model, feeds).items()}
    made = training.gradients(model, ys, xs, cotangents=True)
    got = run(made, {**feeds, **{f"d:{y}": np.asarray(dy) for y, dy in dys.items()}})
    for x in xs:
        way, ends = rng.standard_normal(feeds[x].shape), []
        for step in (1e-6, -1e-6):
            moved = run(model, {**feeds, x: feeds[x] + step * way})
            ends.append(sum(float((moved[y] * dy).sum()) for y, dy in dys.items()))
        close(float((got[f"grad:{x}"] * way).sum()), (ends[0] - ends[1]) / 2e-6, "difference_graph_f64", f"d{x}")


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("op", CURVES)
def test_second_derivatives_are_finite_far_from_zero(op, kind):
    opset = 28 if op == "Celu" else 24  # the first that takes doubles
    model = parse(f"({kind}[n] x) => ({kind}[] y) {{ y = {op}(x) }}", opset)
    once = training.gradients(model, "y", "x")
    once.graph.node.append(helper.make_node("Identity", ["grad:x"], ["slope"]))
    del once.graph.output[:]
    once.graph.output.append(helper.make_tensor_value_info("slope", model.graph.input[0].type.tensor_type.elem_type,
                                                           None))
    x = np.array(FAR, np.float32 if kind == "float" else np.float64)
    got = run(training.gradients(once, "slope", "x"), {"x": x})["grad:x"]
    assert np.isfinite(got).all(), got
    t = torch.tensor(x, requires_grad=True)
    first, = torch.autograd.grad(CURVES[op](t).sum(), t, create_graph=True)
    second = torch.autograd.grad(first.sum(), t)[0].numpy() if first.requires_grad else np.zeros_like(x)
    there = np.isfinite(second)  # torch's Mish is not, from 100 on
    close(got[there], second[there], "torch_f32")


@pytest.mark.parametrize("repeats", [[0, 1, 2], [1, 0, 0]])
def test_what_is_repeated_no_times_has_zeros(repeats):
    model = parse("(double[2,a,3] x, int64[3] r) => (double[] y) { y = Tile(x, r) }", 13)
    made = training.gradients(model, "y", "x")
    got = run(made, {"x": np.ones((2, 4, 3)), "r": np.array(repeats)})["grad:x"]
    assert got.shape == (2, 4, 3) and not got.any()


NESTED = {
    "loop_in_if": ("""(double[3] v, double[3] w) => (double[] y) <int64 trips = {2}, double half = {0.5}> {
        s = ReduceSum<keepdims = 0>(v)
        c = Greater(s, half)
        y = If (c) <then_branch = t () => (double[3] a) { a = Mul(v, w) },
                    else_branch = e () => (double[3] b) {
            b = Loop (trips, , v) <body = l (int64 i, bool ci, double[3] u) => (bool co, double[3] n) {
                co = Identity(ci)  q = Cos(u)  n = Mul(q, w) }> }> }""", 16),
    "if_in_scan": ("""(double[4,3] x, double[3] w, double[3] v) => (double[] f, double[] y) <double half = {0.1}> {
        f, y = Scan (v, x) <num_scan_inputs = 1, scan_input_directions = [1],
                body = b (double[3] s, double[3] r) => (double[3] o, double[3] z) {
            m = Mul(s, r)  o = Tanh(m)  t = ReduceSum<keepdims = 0>(r)  c = Less(t, half)
            z = If (c) <then_branch = t () => (double[3] p) { p = Mul(m, w) },
                        else_branch = e () => (double[3] q) { q = Exp(r) }> }> }""", 19),
    "old_scan": ("""(double[4,3] x, double[3] w, double[3] v) => (double[] f, double[] y) {
        f, y = Scan (v, x) <num_scan_inputs = 1, scan_output_axes = [1],
                body = b (double[3] s, double[3] r) => (double[3] o, double[3] z) {
            m = Mul(s, r)  a = Add(m, w)  o = Tanh(a)  z = Sin(m) }> }""", 11),
}


@pytest.mark.parametrize("name", NESTED)
def test_control_flow_twice_through_files(name):
    text, opset = NESTED[name]
    model, rng = parse(text, opset), np.random.default_rng(3)
    feeds = {i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim])
             for i in model.graph.input}
    check_slopes(model, feeds)
    once = again(model, list(feeds))
    ys = run(model, feeds)
    check_slopes(once, {**feeds, **{f"d:{y}": rng.standard_normal(v.shape) for y, v in ys.items()}})


STANDARD = {
    "Gelu": ("(float[2,3] x) => (float[] y) { y = Gelu(x) }", 20),
    "Gelu_tanh": ('(float[2,3] x) => (float[] y) { y = Gelu<approximate = "tanh">(x) }', 20),
    "GatherND": ("(float[4,3] x, int64[5,1] i) => (float[] y) { y = GatherND(x, i) }", 13),
    "GatherND_in_batches": ("(float[2,3,4] x, int64[2,3,2,1] i) => (float[] y) {"
                            "y = GatherND<batch_dims = 2>(x, i) }", 13),
    "GridSample": ("(float[2,1,4,5] x, float[2,3,3,2] i) => (float[] y) { y = GridSample(x, i) }", 16),
}


@pytest.mark.parametrize("name", STANDARD)
def test_gradients_in_onnx_own_operators(name):
    model, rng = parse(*STANDARD[name]), np.random.default_rng(3)
    feeds = {}
    for i in model.graph.input:
        shape, is_float = [d.dim_value for d in i.type.tensor_type.shape.dim], i.type.tensor_type.elem_type == 1
        feeds[i.name] = rng.uniform(-1, 1, shape).astype(np.float32) if is_float else rng.integers(-3, 3, shape)
    xs = [x for x in feeds if feeds[x].dtype == np.float32]
    own, said = (training.gradients(model, "y", xs, standard=s) for s in (False, True))
    assert not [n.op_type for n in said.graph.node if n.domain]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = onnxruntime.InferenceSession(said.SerializeToString(), providers=["CPUExecutionProvider"])
    want, mine = run(own, feeds), run(said, feeds)
    for name, got in zip([o.name for o in theirs.get_outputs()], theirs.run(None, feeds)):
        close(got, want[name], "torch_f32", name)
        close(mine[name], want[name], "torch_f32", name)


def test_a_transposed_convolution_beyond_its_stride_says_so():
    model = parse("(float[1,1,5] x, float[1,1,3] w) => (float[] y) { y = ConvTranspose<output_shape = [8]>(x, w) }", 11)
    with pytest.raises(nacre.NotImplemented, match="ConvTransposeGrad .*output_shape is a stride or more beyond X"):
        training.gradients(model, "y", ["x", "w"], standard=True)


@pytest.mark.parametrize("kind, row", [("float16", "device_f16"), ("bfloat16", "device_bf16")])
@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_16_bits(op, gates, kind, row):
    """As in double on the same numbers, rounded where kept values are."""
    def model(kind):
        shapes = f"{kind}[3,2,5] x, {kind}[1,{4 * gates},5] w, {kind}[1,{4 * gates},4] r, {kind}[1,{8 * gates}] b"
        return parse(f"({shapes}) => ({kind}[3,1,2,4] y) {{ y = {op}<hidden_size = 4>(x, w, r, b) }}", 22)
    rng, t = np.random.default_rng(1), helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper()))
    feeds = {n: rng.uniform(-0.5, 0.5, s).astype(t) for n, s in (("x", (3, 2, 5)), ("w", (1, 4 * gates, 5)),
                                                                 ("r", (1, 4 * gates, 4)), ("b", (1, 8 * gates)))}
    got = run(training.gradients(model(kind), "y", list(feeds)), feeds)
    want = run(training.gradients(model("double"), "y", list(feeds)),
               {n: x.astype(np.float64) for n, x in feeds.items()})
    for n, x in want.items():
        assert got[n].dtype == t
        close(got[n].astype(np.float64), x, row, n)
