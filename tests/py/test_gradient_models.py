"""nacre.training.gradients, nacre_model_gradients and `nacre gradients`: a model with gradients as outputs, saved,
loaded again, and in ONNX's own ops run by onnxruntime; values held, cotangents, errors.
"""
import subprocess

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch

import nacre_c
import package
from tolerances import close

import nacre  # noqa: E402  (package puts it on the path)
from nacre import training  # noqa: E402

assert package.BUILT


def normal(*shape, seed=0, kind=np.float32):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(kind)


def exported(module, inputs, names, opset=18, dynamic=None):
    """The module as torch writes it, its parameters under their own names."""
    program = torch.onnx.export(module.eval(), inputs, input_names=names, output_names=["y"], opset_version=opset,
                                dynamic_shapes=dynamic, dynamo=True, optimize=True, verbose=False)
    return program.model_proto


class Mlp(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 6), torch.nn.ReLU(),
                         torch.nn.Linear(6, 3), torch.nn.LogSoftmax(1))


class Cnn(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Conv2d(2, 4, 3, padding=1, stride=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                         torch.nn.Conv2d(4, 6, 3, padding=1, groups=2, dilation=1), torch.nn.Sigmoid(),
                         torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(6, 3))


class Block(torch.nn.Module):
    """A transformer block over tokens: embedding, attention, layer norms, GELU."""

    def __init__(self):
        super().__init__()
        self.tokens, self.first, self.second = torch.nn.Embedding(11, 8), torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, ids):
        x = self.tokens(ids)
        q, k, v = self.qkv(self.first(x)).reshape(ids.shape[0], ids.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(ids.shape[0], ids.shape[1], 8))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Decoder(torch.nn.Sequential):
    """Borders that repeat the picture, and convolutions that make it larger."""

    def __init__(self):
        super().__init__(torch.nn.ReflectionPad2d((1, 2, 0, 1)), torch.nn.Conv2d(2, 4, 3), torch.nn.Tanh(),
                         torch.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
                         torch.nn.ReplicationPad2d(1), torch.nn.Sigmoid(),
                         torch.nn.ConvTranspose2d(6, 3, 2, dilation=2, bias=False))


MODELS = {"decoder": (Decoder, lambda: (torch.from_numpy(normal(2, 2, 5, 6)),), "x"),
          "mlp": (Mlp, lambda: (torch.from_numpy(normal(4, 5)),), "x"),
          "cnn": (Cnn, lambda: (torch.from_numpy(normal(3, 2, 8, 8)),), "x"),
          "block": (Block, lambda: (torch.tensor([[1, 4, 4, 9, 0], [3, 10, 2, 2, 7]]),), "ids")}


def parameters_of(model, module):
    """{name in the graph: parameter}, by equal contents: exporters rename and transpose."""
    found = {}
    for t in model.graph.initializer:
        a = onnx.numpy_helper.to_array(t)
        for p in module.parameters():
            if a.shape == tuple(p.shape) and np.array_equal(a, p.detach().numpy()):
                found[t.name] = p
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_standard_ops_runs_in_onnxruntime(name, tmp_path):
    torch.manual_seed(3)
    make, inputs, feed = MODELS[name]
    module, given = make(), inputs()
    for p in module.parameters():  # so that each can be told by its contents
        torch.nn.init.normal_(p, 0.1, 0.5)
    model = exported(module, given, [feed])
    params = parameters_of(model, module)
    assert len(params) >= 4
    grads = training.gradients(model, "y", list(params), cotangents=True, standard=True)
    assert "nacre" not in {n.domain for n in grads.graph.node}
    y = module(*given)
    dy = torch.from_numpy(normal(*y.shape, seed=9))
    wants = torch.autograd.grad(y, list(params.values()), dy)
    path = tmp_path / "grad.onnx"
    onnx.save(grads, path)
    feeds = {feed: given[0].numpy(), "d:y": dy.numpy()}
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ours = nacre.InferenceSession(str(path))
    outputs = [f"grad:{p}" for p in params]
    for got in (theirs.run(outputs, feeds), ours.run(outputs, feeds)):
        for n, g, w in zip(outputs, got, wants):
            close(g, w.numpy(), "model_f32", n)
    whole = training.gradients(model, "y", list(params), cotangents=True)
    again = nacre.InferenceSession(whole.SerializeToString()).run(outputs, feeds)
    for n, g, w in zip(outputs, again, wants):
        close(g, w.numpy(), "model_f32", n)


OLDER = """(int64[n,4] ids, float[n,2,4,4] x) => (float[n,3] y) <float[5,8] table = {T}, float[3,2,3,3] k = {K},
    float[8] g = {G}> {
    e = Gather(table, ids)  m = ReduceMean<axes = [-1], keepdims = 1>(e)  d = Sub(e, m)  q = Mul(d, d)
    v = ReduceMean<axes = [-1]>(q)  r = Sqrt(v)  z = Div(d, r)  s = Mul(z, g)
    t = ReduceL2<axes = [1, 2], keepdims = 0>(s)
    c = Conv<pads = [1,1,1,1]>(x, k)  a = Relu(c)  p = MaxPool<kernel_shape = [2,2], strides = [2,2]>(a)
    o = ReduceMax<axes = [2, 3], keepdims = 0>(p)  u1, u2 = Split<axis = 2>(p)  h = Mul(u1, u2)
    l = ReduceSum<keepdims = 0>(h, ax)  w = Unsqueeze(t, one)  ow = Mul(o, w)  y = Add(ow, l) }"""


@pytest.mark.parametrize("opset", [13, 14, 16, 17])
def test_older_models_in_standard_ops_run_in_onnxruntime(opset):
    """What gradients are made of needs a newer opset: the whole model is of that then."""
    rng, params = np.random.default_rng(opset), {"T": (5, 8), "K": (3, 2, 3, 3), "G": (8,)}
    text = OLDER.replace("<float[5,8]", "<int64[2] ax = {2, 3}, int64[1] one = {1}, float[5,8]")
    for mark, shape in params.items():
        text = text.replace("{" + mark + "}", "{" + ", ".join(map(str, rng.standard_normal(shape).ravel())) + "}")
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    feeds = {"ids": rng.integers(0, 5, (3, 4)), "x": rng.standard_normal((3, 2, 4, 4)).astype(np.float32)}
    names = ["table", "k", "g", "x"]
    made = training.gradients(model, "y", names, standard=True)
    assert [o.version for o in made.opset_import if o.domain == ""] == [18]
    onnx.checker.check_model(made)
    outputs = ["y", *(f"grad:{n}" for n in names)]
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    plain = training.gradients(model, "y", names)
    assert [o.version for o in plain.opset_import if o.domain == ""] == [opset]
    for n, got, again, want in zip(outputs, theirs.run(outputs, feeds), run(made, feeds, *outputs),
                                   run(plain, feeds, *outputs)):
        close(got, want, "model_f32", n)
        close(again, want, "model_f32", n)


@pytest.mark.parametrize("body", [
    "ConvTranspose<auto_pad = \"SAME_UPPER\", strides = [2, 3]>(x, w)",
    "ConvTranspose<auto_pad = \"SAME_LOWER\", strides = [3, 2]>(x, w, b)",
    "ConvTranspose<output_shape = [9, 11], strides = [2, 2]>(x, w)",
    "Pad<mode = \"wrap\">(x, p)", "Pad<mode = \"reflect\">(x, p)", "Pad<mode = \"edge\">(x, q, , a)"])
def test_gradients_of_single_ops_in_standard_ops(body):
    """As they are here; the picture's sizes are known, as pads that follow from them need."""
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 19]> g (float[1,2,4,5] x, float[2,3,3,3] w,
        float[3] b) => (float[] y) <int64[8] p = {{0,0,1,2,0,1,3,1}}, int64[2] q = {{2,1}}, int64[1] a = {{-2}}> {{
        y = {body} }}""")
    names = [n for n in ("x", "w", "b") if n in body.partition(">(")[2].strip(")").split(", ")]
    feeds = {"x": normal(1, 2, 4, 5), "w": normal(2, 3, 3, 3), "b": normal(3)}
    plain = training.gradients(model, "y", names, cotangents=True)
    made = training.gradients(model, "y", names, cotangents=True, standard=True)
    assert "nacre" not in {n.domain for n in made.graph.node}
    feeds["d:y"] = normal(*run(model, feeds, "y")[0].shape, seed=9)
    outputs = [f"grad:{n}" for n in names]
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for n, got, want in zip(outputs, theirs.run(outputs, feeds), run(plain, feeds, *outputs)):
        close(got, want, "model_f32", n)


OLD = """(float[2,3,4] x, float[1,2,6,6] z) => (float y)
    <float[4,5] w = {W}, float[2,2,3,3] k = {K}, float[2] s = {S}> {
    h = MatMul(x, w)  c = Clip<min = -0.9, max = 0.8>(h)  p = Softmax<axis = 1>(c)  l = LogSoftmax(h)
    m = Mul(p, l)  e = Unsqueeze<axes = [1]>(m)  q = Squeeze<axes = [1]>(e)
    r = Slice<axes = [2, 0], ends = [4, 2], starts = [1, 0]>(q)  b = ReduceSum<axes = [0, 2], keepdims = 0>(r)
    g = Pad<pads = [0,0,1,0,0,0,0,1], value = 0.5>(z)  v = Conv(g, k)  n = BatchNormalization(v, s, s, s, s)
    f, i = Split<axis = 2, split = [2, 3]>(n)  d = Dropout<ratio = 0.3>(f)  a = Flatten(d)
    o = ReduceMax<axes = [1], keepdims = 0>(a)  u = ReduceSum<keepdims = 0>(b)  y1 = Mul(u, o)
    y = ReduceSum<keepdims = 0>(y1) }"""


@pytest.mark.parametrize("opset", [9, 10, 11, 12])
def test_models_before_opset_13_in_standard_ops_run_in_onnxruntime(opset):
    """Softmax meant rows of several axes then, and much that is an input now was an attribute."""
    rng, text = np.random.default_rng(opset), OLD
    if opset >= 10:
        text = text.replace("Slice<axes = [2, 0], ends = [4, 2], starts = [1, 0]>(q)", "Slice(q, b0, b1, ba)")
    if opset >= 11:
        text = text.replace("Clip<min = -0.9, max = 0.8>(h)", "Clip(h, lo, hi)")
        text = text.replace("Pad<pads = [0,0,1,0,0,0,0,1], value = 0.5>(z)", "Pad(z, pads, half)")
    if opset >= 12:
        text = text.replace("Dropout<ratio = 0.3>(f)", "Dropout(f)")
    text = text.replace("<float[4,5]", "<int64[2] b0 = {0, 1}, int64[2] b1 = {2, 4}, int64[2] ba = {0, 2}, float lo = "
                        "{-0.9}, float hi = {0.8}, int64[8] pads = {0,0,1,0,0,0,0,1}, float half = {0.5}, float[4,5]")
    for mark, shape in {"W": (4, 5), "K": (2, 2, 3, 3), "S": (2,)}.items():
        values = np.abs(rng.standard_normal(shape)) + 0.1 if mark == "S" else rng.standard_normal(shape)
        text = text.replace("{" + mark + "}", "{" + ", ".join(map(str, values.ravel())) + "}")
    model = onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["" : {opset}]> g {text}')
    feeds = {"x": normal(2, 3, 4), "z": normal(1, 2, 6, 6)}
    names = ["w", "k", "s", "x", "z"]
    made = training.gradients(model, "y", names, standard=True)
    onnx.checker.check_model(made)
    outputs = ["y", *(f"grad:{n}" for n in names)]
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    plain = training.gradients(model, "y", names)
    for n, got, again, want in zip(outputs, theirs.run(outputs, feeds), run(made, feeds, *outputs),
                                   run(plain, feeds, *outputs)):
        close(got, want, "model_f32", n)
        close(again, want, "model_f32", n)


# ---- what is asked for ----

def small(kind="double"):
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]>
        g ({kind}[n,3] x, int64[n] i) => ({kind}[n,2] y, {kind} s) <{kind}[3,2] w = {{1, 2, 3, 4, 5, 6}}> {{
        h = MatMul(x, w)  e = Exp(h)  y = Mul(e, h)  s = ReduceSum<keepdims = 0>(h) }}""")


def run(model, feeds, *outputs):
    session = nacre.InferenceSession(model if isinstance(model, bytes) else model.SerializeToString())
    return session.run(list(outputs), feeds)


X = normal(4, 3, kind=np.float64) / 4
W = np.array([[1, 2], [3, 4], [5, 6]], np.float64)
H = X @ W
FEEDS = {"x": X, "i": np.arange(4)}


def test_all_elements_are_summed(tmp_path):
    """The source may be a model, its bytes, or a path, and is not changed."""
    model = small()
    before = model.SerializeToString()
    onnx.save(model, tmp_path / "m.onnx")
    for source in (model, before, str(tmp_path / "m.onnx"), tmp_path / "m.onnx"):
        made = training.gradients(source, "y", ["w", "x"])
        assert isinstance(made, onnx.ModelProto)
        onnx.checker.check_model(made)
        assert [o.name for o in made.graph.output] == ["y", "s", "grad:w", "grad:x"]
        dw, dx = run(made, FEEDS, "grad:w", "grad:x")
        close(dw, X.T @ (np.exp(H) * (1 + H)), "torch_f64")
        close(dx, (np.exp(H) * (1 + H)) @ W.T, "torch_f64")
    assert model.SerializeToString() == before


def test_several_ys_and_values_inside_the_graph():
    made = training.gradients(small(), ["y", "s"], "h")
    dh, = run(made, FEEDS, "grad:h")
    close(dh, np.exp(H) * (1 + H) + 1, "torch_f64")


def test_cotangents():
    made = training.gradients(small(), ["y", "s"], ["h"], cotangents=True)
    assert [i.name for i in made.graph.input] == ["x", "i", "d:y", "d:s"]
    dy = normal(4, 2, kind=np.float64)
    dh, = run(made, {**FEEDS, "d:y": dy, "d:s": np.float64(3)}, "grad:h")
    close(dh, dy * np.exp(H) * (1 + H) + 3, "torch_f64")


def test_values_that_pass_no_gradient():
    dh, dx = run(training.gradients(small(), "y", ["h", "x"], stop="e"), FEEDS, "grad:h", "grad:x")
    close(dh, np.exp(H), "torch_f64")
    close(dx, np.exp(H) @ W.T, "torch_f64")
    dh, dx = run(training.gradients(small(), "y", ["h", "x"], stop=["h"]), FEEDS, "grad:h", "grad:x")
    close(dh, np.exp(H) * (1 + H), "torch_f64")  # h itself is independent, and has its gradient
    close(dx, np.zeros_like(X), "torch_f64")


def test_a_gradient_of_a_gradient():
    once = training.gradients(small(), "y", "h")
    twice = training.gradients(once, "grad:h", "x")
    dx, = run(twice, FEEDS, "grad:x")
    close(dx, (np.exp(H) * (2 + H)) @ W.T, "torch_f64")


def test_a_stopped_identity_stops_in_a_session(env):
    """torch writes detach() as Identity, which a pass takes away: what was stopped stays so."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]> g (double[3] x) => (double s) {
        d = Identity(x)  m = Mul(x, d)  s = ReduceSum<keepdims = 0>(m) }""")
    x = normal(3, kind=np.float64)
    for options, want in ((nacre_c.Options(), 2 * x), (nacre_c.Options(stop_gradient="d"), x)):
        with env.session(model, options.gradients("s", ["x"])) as session:
            close(session.run({"x": x})["grad:x"], want, "torch_f64")


def test_a_stopped_parameter_is_no_parameter(env):
    """Where all parameters are meant, one that no gradient reaches stays what it is."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]> g (double[2] x) => (double s)
        <double[2] v = {1, 2}, double[2] w = {3, 4}> {
        p = Mul(x, v)  q = Mul(p, w)  s = ReduceSum<keepdims = 0>(q) }""")
    options = nacre_c.Options(stop_gradient="v").sgd("s", [], "lr")
    with env.session(model, options) as session:
        session.run({"x": np.array([1.0, 1.0]), "lr": np.float64(1)})
        close(session.get("w"), [2.0, 2.0], "torch_f64")
        with pytest.raises(nacre_c.NacreError):
            session.get("v")


def test_settings_train_only_when_they_are_named(env):
    """Class weights have a gradient, but where all parameters are meant they are none."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]> g (double[4,2] x, int64[4] t) =>
        (double s) <double[2,3] w = {1, 2, 3, 4, 5, 6}, double[3] c = {1, 2, 3}> {
        h = MatMul(x, w)  s = SoftmaxCrossEntropyLoss(h, t, c) }""")
    feeds = {"x": normal(4, 2, kind=np.float64), "t": np.array([0, 2, 1, 2]), "lr": np.float64(1)}
    for names, moves in (([], False), (["w", "c"], True)):
        with env.session(model, nacre_c.Options().sgd("s", names, "lr")) as session:
            session.run(feeds)
            assert not np.array_equal(session.get("w").ravel(), np.arange(1.0, 7))
            if moves:
                assert not np.array_equal(session.get("c"), [1, 2, 3])
            else:
                with pytest.raises(nacre_c.NacreError):
                    session.get("c")


@pytest.mark.parametrize("y, xs, more, kind, text", [
    ("lost", "x", {}, nacre.InvalidArgument, "y: the model has no value 'lost'"),
    ("y", "xx", {}, nacre.InvalidArgument, "x: the model has no value 'xx'; nearest: 'x'"),
    ("y", "x", {"stop": "hh"}, nacre.InvalidArgument, "stop: the model has no value 'hh'; nearest: 'h'"),
    ("y", "i", {}, nacre.InvalidGraph, "'i' is int64[n], no floating-point tensor"),
    ("y", ["x", "x"], {}, nacre.InvalidArgument, "'x' is there twice"),
    ("y", [], {}, nacre.InvalidArgument, "no x to differentiate by"),
    ([], "x", {}, nacre.InvalidArgument, "no y to differentiate"),
    ("y", [3], {}, TypeError, "xs: expected names, got 3"),
], ids=str)
def test_errors(y, xs, more, kind, text):
    with pytest.raises(Exception) as e:
        training.gradients(small(), y, xs, **more)
    assert text in str(e.value)
    assert isinstance(e.value, (kind, nacre.Fail, nacre.InvalidGraph, nacre.InvalidArgument))


def test_an_output_of_that_name_is_refused():
    once = training.gradients(small(), "y", "x")
    with pytest.raises(Exception, match="has an output 'grad:x' already"):
        training.gradients(once, "s", "x")


def test_the_command_line(tmp_path):
    onnx.save(small(), tmp_path / "m.onnx")
    out = tmp_path / "g.onnx"
    done = subprocess.run([nacre_c.PROGRAM, "gradients", tmp_path / "m.onnx", "--of", "y", "--by", "w", "--by", "x",
                           "--stop", "e", "--cotangents", "--standard", "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"saved as {out}" in done.stdout
    made = onnx.load(out)
    assert [o.name for o in made.graph.output] == ["y", "s", "grad:w", "grad:x"]
    assert "d:y" in [i.name for i in made.graph.input]
    dy = normal(4, 2, kind=np.float64)
    close(run(made, {**FEEDS, "d:y": dy}, "grad:x")[0], (dy * np.exp(H)) @ W.T, "torch_f64")
    wrong = subprocess.run([nacre_c.PROGRAM, "gradients", tmp_path / "m.onnx", "--of", "z", "--by", "w", "-o", out],
                           capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "y: the model has no value 'z'" in wrong.stderr


# ---- control flow and layers in standard ops ----

def standard_agrees(model, feeds, names):
    """Gradients in ONNX's own ops: onnxruntime's numbers are those of the ops of one's own."""
    made = training.gradients(model, "y", names, cotangents=True, standard=True)
    onnx.checker.check_model(made)
    assert "nacre" not in {n.domain for n in made.graph.node}
    plain = training.gradients(model, "y", names, cotangents=True)
    y, = run(model, feeds, "y")
    feeds = {**feeds, "d:y": normal(*y.shape, seed=9, kind=y.dtype)}
    outputs = [f"grad:{n}" for n in names]
    wants = run(plain, feeds, *outputs)
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for n, got, again, want in zip(outputs, theirs.run(outputs, feeds), run(made, feeds, *outputs), wants):
        assert np.any(want)
        close(got, want, "model_f32", f"{n} in onnxruntime")
        close(again, want, "model_f32", n)


RESIZES = [(f'mode = "{mode}", coordinate_transformation_mode = "{at}"', "x, , s", "float[2,3,5,4] x")
           for mode in ("linear", "cubic", "nearest")
           for at in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")]
RESIZES += [('mode = "linear"', "x, , , z", "float[2,3,5,n] x"),
            ('mode = "cubic", axes = [3, -2], cubic_coeff_a = -0.5', "x, , , w", "float[2,3,h,4] x"),
            ('mode = "linear", antialias = 1', "x, , t", "float[2,3,9,8] x"),
            ('mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 3.0',
             "x, r, , z", "float[2,3,5,6] x"),
            ('mode = "cubic", exclude_outside = 1', "x, , s", "float[1,1,4,3] x")]


@pytest.mark.parametrize("how, given, x", RESIZES)
def test_gradients_of_resize_in_standard_ops(how, given, x):
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 19]> g ({x}) => (float[] y)
        <float[4] s = {{1, 1, 3, 2}}, float[4] t = {{1, 1, 0.4, 0.5}}, int64[4] z = {{2, 3, 8, 9}},
        int64[2] w = {{8, 9}}, float[8] r = {{0, 0, 0.2, 0.1, 1, 1, 0.8, 1.3}}> {{ y = Resize<{how}>({given}) }}""")
    dims = [int(d) if d.isdigit() else 4 for d in x.partition("[")[2].partition("]")[0].split(",")]
    standard_agrees(model, {"x": normal(*dims)}, ["x"])


def test_a_resize_that_standard_ops_cannot_say_is_refused():
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 19]> g (float[1,1,4,4] x) => (float[] y)
        <int64[4] z = {1, 1, 7, 8}> { y = Resize<mode = "linear", axes = [0, 1, 2, 3],
        keep_aspect_ratio_policy = "not_larger">(x, , , z) }""")
    with pytest.raises(Exception, match="ResizeGrad.*ONNX's ops cannot say it with keep_aspect_ratio_policy"):
        training.gradients(model, "y", "x", standard=True)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("op, attributes, inputs", [
    ("LSTM", "", ""), ("LSTM", 'direction = "bidirectional"', "B, l, h0, c0, p"), ("LSTM", "input_forget = 1", "B"),
    ("GRU", 'direction = "reverse", linear_before_reset = 1', "B, l"), ("GRU", "", "B, , h0"),
    ("RNN", 'activations = ["Relu"], clip = 2.0', "B"), ("RNN", 'direction = "bidirectional"', "B, l")])
def test_gradients_of_recurrent_layers_in_standard_ops(op, attributes, inputs):
    dirs = 2 if "bidirectional" in attributes else 1
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 14]> g (float[t,b,3] x, int32[b] l) =>
        (float[] y, float[] h) {{ y, h = {op}<hidden_size = 4{", " if attributes else ""}{attributes}>(x, W, R{", " if
        inputs else ""}{inputs}) }}""")
    shapes = {"W": (GATES[op] * 4, 3), "R": (GATES[op] * 4, 4), "B": (GATES[op] * 8,), "h0": (2, 4), "c0": (2, 4),
              "p": (12,)}
    names = ["W", "R", *(n for n in inputs.split(", ") if n in shapes)]
    for n in names:
        model.graph.initializer.append(onnx.numpy_helper.from_array(normal(dirs, *shapes[n], seed=len(n)) / 2, n))
    standard_agrees(model, {"x": normal(5, 2, 3), "l": np.int32([5, 3])}, ["x", *names])


FLOW = {
    "a loop": """(int64 n, float[3] x, float[3] w) => (float[3] y) { go = Constant<value = bool {1}>()
        y = Loop(n, go, x) <body = step (int64 i, bool c, float[3] at) => (bool on, float[3] next) {
            s = Sin(at)  next = Mul(s, w)  on = Identity(c) }> }""",
    "a loop that stacks": """(int64 n, float[3] x, float[3] w) => (float[k,3] y) { go = Constant<value = bool {1}>()
        z, y = Loop(n, go, x) <body = step (int64 i, bool c, float[3] at) => (bool on, float[3] next, float[3] seen) {
            s = Sin(at)  next = Mul(s, w)  seen = Mul(next, next)  on = Identity(c) }> }""",
    "a loop that keeps nothing": """(int64 n, float[3] x, float[3] w) => (float[3] y) {
        go = Constant<value = bool {1}>()  q = Mul(x, w)
        y = Loop(n, go, q) <body = step (int64 i, bool c, float[3] at) => (bool on, float[3] next) {
            next = Add(at, w)  on = Identity(c) }> }""",
    "branches": """(int64 n, float[3] x, float[3] w) => (float[3] y) { three = Constant<value_int = 3>()
        c = Greater(n, three)  y = If(c) <then_branch = a () => (float[3] u) { v = Sin(x)  u = Mul(v, w) },
        else_branch = b () => (float[3] t) { e = Exp(x)  q = Tanh(e)  i = Cast<to = 7>(x)  j = Cast<to = 1>(i)
            r = Mul(q, j)  t = Mul(r, w) }> }""",
    "a scan": """(int64 n, float[4,3] x, float[3] w) => (float[4,3] y) {
        z, y = Scan<num_scan_inputs = 1, body = step (float[3] s, float[3] e) => (float[3] t, float[3] o) {
            p = Mul(e, s)  t = Tanh(p)  o = Mul(t, p) }>(w, x) }"""}


@pytest.mark.parametrize("name, n, opset", [
    *((name, n, 17) for name in FLOW for n in (0, 2, 5) if (name, n) != ("a loop that stacks", 0)),
    *((name, 2, 12) for name in FLOW if name != "a scan")])
def test_gradients_of_control_flow_in_standard_ops(name, n, opset):
    """Tapes are sequences then."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {FLOW[name]}')
    feeds = {"n": np.array(n), "x": normal(4, 3) if name == "a scan" else normal(3), "w": normal(3, seed=4)}
    standard_agrees(model, feeds, ["x"] if n == 0 else ["x", "w"])


def test_what_onnx_cannot_say_is_refused():
    """A loop in a loop: a tape of tapes, which would be a sequence of sequences."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (int64 n, double[3] x0) => (double[3] x) { go = Constant<value = bool {1}>()
        x = Loop(n, go, x0) <body = step (int64 i, bool c, double[3] at) => (bool on, double[3] next) {
            next = Loop(n, go, at) <body = inner (int64 j, bool d, double[3] in) => (bool still, double[3] out) {
                out = Sin(in)  still = Identity(d) }>  on = Identity(c) }> }""")
    with pytest.raises(Exception, match="keeps 'tape.*', which is no tensor, .* the model runs here alone"):
        training.gradients(model, "x", "x0", standard=True)
    assert training.gradients(model, "x", "x0")
