"""The op Gradient (ai.onnx.preview.training) against torch.autograd: any y and xs of its graph, values held (zs), other
points than the graph's own, gradients of gradients, inside functions and graphs, errors and files.
"""
import ctypes as C

import numpy as np
import onnx
import onnx.parser
import pytest
import torch

import nacre_c
from nacre_c import NacreError
from package import MEET
from tolerances import close

HEAD = '<ir_version: 10, opset_import: ["" : 18, "ai.onnx.preview.training" : 1]>'
D = "ai.onnx.preview.training.Gradient"


def parsed(graph, head=HEAD):
    """onnx's text form; `grad` stands for the op with its domain."""
    return onnx.parser.parse_model(head + graph.replace(" grad<", f" {D}<"))


def t(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


def normal(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def check(env, model, feeds, wants, **settings):
    with env.session(model, **settings) as s:
        got = s.run(feeds)
    for name, want in wants.items():
        close(got[name], want, "torch_f64", name)
    return got


@pytest.mark.parametrize("settings", [{}, {"device": "guard"}, {"level": "off", "fusion": False}], ids=str)
def test_y_and_xs_of_the_graph(env, settings):
    model = parsed("""g (double[2,3] x, double[3,4] w, double[4] b) => (double[2,4] y, double[3,4] dw, double[4] db) {
        h = MatMul(x, w)  a = Add(h, b)  y = Tanh(a)
        dw, db = grad<y = "y", xs = ["w", "b"], zs = ["x"]>(w, b, x) }""")
    x, w, b = normal(2, 3), t(normal(3, 4)), t(normal(4))
    y = torch.tanh(torch.tensor(x) @ w + b)
    dw, db = torch.autograd.grad(y.sum(), (w, b))
    check(env, model, {"x": x, "w": w.detach().numpy(), "b": b.detach().numpy()},
          {"y": y.detach().numpy(), "dw": dw.numpy(), "db": db.numpy()}, **settings)


def test_an_intermediate_value_is_independent_of_what_made_it(env):
    """xs and zs are the variables of the function, so h is held while the gradient by x is taken."""
    model = parsed("""g (double[3] x) => (double[3] dx, double[3] dh, double[3] held) {
        h = Exp(x)  p = Mul(h, x)  y = Mul(p, x)
        dx, dh = grad<y = "y", xs = ["x", "h"]>(x, h)
        held = grad<y = "y", xs = ["x"], zs = ["h"]>(x, h) }""")
    x = normal(3)
    check(env, model, {"x": x}, {"dx": 2 * np.exp(x) * x, "dh": x * x, "held": 2 * np.exp(x) * x})


def test_outputs_may_be_absent(env):
    model = parsed("""g (double[3] x, double[3] z) => (double[3] dz) {
        y = Mul(x, z)  unused, dz = grad<y = "y", xs = ["x", "z"]>(x, z) }""")
    model.graph.node[1].output[0] = ""
    check(env, model, {"x": normal(3), "z": normal(3, seed=1)}, {"dz": normal(3)})


def test_at_another_point(env):
    """The inputs say where: the function is taken there, and what it was computed from here is left alone."""
    model = parsed("""g (double[4] x, double[4] z, double[4] x1) => (double[4] y, double[4] dx, double[4] dz) {
        s = Sin(x)  c = Mul(s, z)  k = Exp(z)  y = Mul(c, k)
        two = Constant<value = double[1] {2.0}>()  z1 = Mul(z, two)
        dx, dz = grad<y = "y", xs = ["x", "z"]>(x1, z1) }""")
    x, z, x1 = normal(4), normal(4, seed=1), normal(4, seed=2)
    at, zt = t(x1), t(2 * z)
    dx, dz = torch.autograd.grad((torch.sin(at) * zt * torch.exp(zt)).sum(), (at, zt))
    check(env, model, {"x": x, "z": z, "x1": x1},
          {"y": np.sin(x) * z * np.exp(z), "dx": dx.numpy(), "dz": dz.numpy()})


def test_at_another_point_of_another_size(env):
    model = parsed("""g (double[n] x, double[m] x1) => (double s, double[m] dx) {
        q = Mul(x, x)  s = ReduceSum<keepdims = 0>(q)
        dx = grad<y = "s", xs = ["x"]>(x1) }""")
    check(env, model, {"x": normal(3), "x1": normal(5)}, {"dx": 2 * normal(5)})


def test_a_gradient_of_a_gradient(env):
    model = parsed("""g (double[5] x) => (double[5] d1, double[5] d2, double[5] d3) {
        y = Sin(x)
        d1 = grad<y = "y", xs = ["x"]>(x)
        d2 = grad<y = "d1", xs = ["x"]>(x)
        d3 = grad<y = "d2", xs = ["x"]>(x) }""")
    x = normal(5)
    check(env, model, {"x": x}, {"d1": np.cos(x), "d2": -np.sin(x), "d3": -np.cos(x)})


def test_a_gradient_of_a_gradient_through_a_layer(env):
    """The penalty on the gradient of a small network, by its weights."""
    model = parsed("""g (double[4,3] x, double[3,5] w, double[5,1] v) => (double[3,5] dw) {
        h = MatMul(x, w)  a = Tanh(h)  o = MatMul(a, v)
        dx = grad<y = "o", xs = ["x"], zs = ["w", "v"]>(x, w, v)
        q = Mul(dx, dx)  p = ReduceSum<keepdims = 0>(q)
        dw = grad<y = "p", xs = ["w"], zs = ["x", "v"]>(w, x, v) }""")
    x, w, v = t(normal(4, 3)), t(normal(3, 5)), t(normal(5, 1))
    dx, = torch.autograd.grad((torch.tanh(x @ w) @ v).sum(), x, create_graph=True)
    dw, = torch.autograd.grad((dx * dx).sum(), w)
    check(env, model, {n: a.detach().numpy() for n, a in (("x", x), ("w", w), ("v", v))}, {"dw": dw.numpy()})


def test_in_a_branch(env):
    """y in the branch's own graph, by a value of it and by a captured one."""
    model = parsed("""g (bool c, double[3] x) => (double[3] r) {
        r = If(c) <then_branch = one () => (double[3] p) {
                h = Exp(x)  y = Mul(h, x)  p = grad<y = "y", xs = ["x"]>(x) },
            else_branch = two () => (double[3] q) { k = Mul(x, x)  q = grad<y = "k", xs = ["x"]>(x) }> }""")
    x = normal(3)
    check(env, model, {"c": np.array(True), "x": x}, {"r": np.exp(x) * (1 + x)})
    check(env, model, {"c": np.array(False), "x": x}, {"r": 2 * x})


def test_of_a_value_around_the_branch(env):
    model = parsed("""g (bool c, double[3] x) => (double[3] r, double[3] y) {
        h = Exp(x)  y = Mul(h, x)
        r = If(c) <then_branch = one () => (double[3] p) { p = grad<y = "y", xs = ["x"]>(x) },
            else_branch = two () => (double[3] q) {
                two = Constant<value = double[1] {2.0}>()  at = Mul(x, two)  q = grad<y = "y", xs = ["x"]>(at) }> }""")
    x = normal(3)
    check(env, model, {"c": np.array(True), "x": x}, {"r": np.exp(x) * (1 + x)})
    check(env, model, {"c": np.array(False), "x": x}, {"r": np.exp(2 * x) * (1 + 2 * x)})


def test_descent_in_a_loop(env):
    """Ten steps of Newton's method: the body takes the gradient of its own loss, and its gradient."""
    model = parsed("""g (int64 n, double[3] x0) => (double[3] x) {
        go = Constant<value = bool {1}>()
        x = Loop(n, go, x0) <body = step (int64 i, bool c, double[3] at) => (bool on, double[3] next) {
            e = Exp(at)  three = Constant<value = double {3.0}>()  l = Mul(at, three)  y = Sub(e, l)
            d = grad<y = "y", xs = ["at"]>(at)
            dd = grad<y = "d", xs = ["at"]>(at)
            r = Div(d, dd)  next = Sub(at, r)  on = Identity(c) }> }""")
    check(env, model, {"n": np.int64(10), "x0": np.array([0.8, 1.1, 1.6])}, {"x": np.full(3, np.log(3.0))})


def test_through_a_loop(env):
    """y is what a Loop made."""
    model = parsed("""g (int64 n, double[3] x0) => (double[3] dx) {
        go = Constant<value = bool {1}>()
        x = Loop(n, go, x0) <body = step (int64 i, bool c, double[3] at) => (bool on, double[3] next) {
            next = Sin(at)  on = Identity(c) }>
        dx = grad<y = "x", xs = ["x0"]>(x0) }""")
    x = t(normal(3))
    y = x
    for _ in range(4):
        y = torch.sin(y)
    dx, = torch.autograd.grad(y.sum(), x)
    check(env, model, {"n": np.int64(4), "x0": x.detach().numpy()}, {"dx": dx.numpy()})


FUNCTION = '<ir_version: 10, opset_import: ["" : 18, "f" : 1, "ai.onnx.preview.training" : 1]>'


def test_in_a_function(env):
    """Names in a function's body are the function's own, in every call of it."""
    model = parsed("""g (double[3] x, double[3] y) => (double[3] a, double[3] b) { a = f.slope(x)  b = f.slope(y) }
        <domain: "f", opset_import: ["" : 18, "ai.onnx.preview.training" : 1]>
        slope (x) => (dx) { y = Sin(x)  z = Mul(y, x)  dx = grad<y = "z", xs = ["x"]>(x) }""", FUNCTION)
    x, y = normal(3), normal(3, seed=1)
    check(env, model, {"x": x, "y": y}, {"a": np.cos(x) * x + np.sin(x), "b": np.cos(y) * y + np.sin(y)})


def test_of_a_call_of_a_function(env):
    model = parsed("""g (double[3] x) => (double[3] dx) { y = f.bend(x)  dx = grad<y = "y", xs = ["x"]>(x) }
        <domain: "f", opset_import: ["" : 18]> bend (x) => (y) { s = Sin(x)  y = Mul(s, x) }""", FUNCTION)
    x = normal(3)
    check(env, model, {"x": x}, {"dx": np.cos(x) * x + np.sin(x)})


def test_listed_before_what_it_names(env):
    """The node's inputs are there, so a file may list it before the node that makes y."""
    model = parsed("""g (double[3] x) => (double[3] e) {
        y = Sin(x)  dx = grad<y = "y", xs = ["x"]>(x)  e = Mul(dx, dx) }""")
    nodes = [model.graph.node[i] for i in (2, 1, 0)]
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    check(env, model, {"x": normal(3)}, {"e": np.cos(normal(3)) ** 2})


def test_float16_and_float(env):
    for kind, element, row in (("float", np.float32, "torch_f32"), ("float16", np.float16, "op_f16")):
        model = parsed(f"""g ({kind}[7] x) => ({kind}[7] dx) {{ y = Mul(x, x)  dx = grad<y = "y", xs = ["x"]>(x) }}""")
        x = normal(7).astype(element)
        with env.session(model) as s:
            got = s.run({"x": x})["dx"]
        assert got.dtype == element
        close(got, 2 * x, row)


def test_saved_it_is_the_same(env, tmp_path):
    """A model that is only read and written keeps the op; an optimized one has the gradients in its place."""
    model = parsed("""g (double[3] x) => (double[3] dx, double[3] r) {
        y = Sin(x)  dx = grad<y = "y", xs = ["x"]>(x)
        c = Constant<value = bool {1}>()
        r = If(c) <then_branch = one () => (double[3] p) {
                y2 = Mul(y, y)  p = grad<y = "y2", xs = ["y"], zs = ["x"]>(y, x) },
            else_branch = two () => (double[3] q) { q = Identity(x) }> }""")
    with env.model(model) as m:
        m.save(tmp_path / "kept.onnx")
    kept = onnx.load(tmp_path / "kept.onnx")
    onnx.checker.check_model(kept)
    ops = [n for n in kept.graph.node if n.op_type == "Gradient"]
    assert len(ops) == 1 and list(ops[0].input) == ["x"]
    x = normal(3)
    wants = {"dx": np.cos(x), "r": 2 * np.sin(x)}
    check(env, kept, {"x": x}, wants)
    with env.model(model) as m:
        m.optimize("basic")
        m.save(tmp_path / "gone.onnx")
    gone = onnx.load(tmp_path / "gone.onnx")
    assert not [n for n in gone.graph.node if n.op_type == "Gradient"]
    check(env, gone, {"x": x}, wants)


# ---- what is wrong ----

class Log:
    """What the library says while this is open."""

    def __enter__(self):
        self.lines = []
        self.sink = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_char_p)(lambda _, level, text: self.lines.append(
            text.decode()))
        nacre_c.lib.nacre_log_set_sink(self.sink, None)
        return self.lines

    def __exit__(self, *_):
        nacre_c.lib.nacre_log_set_sink(None, None)


def test_no_influence_is_zeros_and_a_warning(env):
    model = parsed("""g (double[3] x, double[2,2] z) => (double[2,2] dz, double[3] df) {
        y = Mul(x, x)  f = Floor(x)  dz = grad<y = "y", xs = ["z"], zs = ["x"]>(z, x)
        df = grad<y = "f", xs = ["x"]>(x) }""")
    with Log() as lines:
        check(env, model, {"x": normal(3), "z": normal(2, 2)}, {"dz": np.zeros((2, 2)), "df": np.zeros(3)})
    assert [line for line in lines if "gradient of 'y' by 'z' is zeros" in line]
    assert [line for line in lines if "gradient of 'f' by 'x' is zeros" in line]


@pytest.mark.parametrize("graph, code, op, text", [
    ("(double[3] x) => (double[3] d) { loss = Mul(x, x)  d = grad<y = \"lost\", xs = [\"x\"]>(x) }", "BAD_GRAPH",
     "Gradient", "attribute 'y' names 'lost', which is not defined before this node; nearest: 'loss'"),
    ("(double[3] weight) => (double[3] d) { y = Mul(weight, weight)  d = grad<y = \"y\", xs = [\"weights\"]>(weight) }",
     "BAD_GRAPH", "Gradient",
     "attribute 'xs' names 'weights', which is not defined before this node; nearest: 'weight'"),
    ("(int64[3] i, double[3] x) => (double[3] d) { k = Cast<to = 11>(i)  y = Mul(k, x)  d = grad<y = \"y\", "
     "xs = [\"i\"], zs = [\"x\"]>(i, x) }", "TYPE", "Gradient",
     "'i' in attribute 'xs' is int64[3], expected a floating-point tensor"),
    ("(double[3] x) => (double[3] d) { y = Cast<to = 7>(x)  d = grad<y = \"y\", xs = [\"x\"]>(x) }", "TYPE",
     "Gradient", "'y' in attribute 'y' is int64[3], expected a floating-point tensor"),
    ("(double[3] x) => (double[3] d) { y = Mul(x, x)  d = grad<y = \"y\", xs = [\"x\"], zs = [\"y\"]>(x) }",
     "BAD_GRAPH", "Gradient", "has 1 inputs, expected one for each of the 2 names in 'xs' and 'zs'"),
    ("(double[3] x, float[3] f) => (double[3] d) { y = Mul(x, x)  d = grad<y = \"y\", xs = [\"x\"]>(f) }", "TYPE",
     "Gradient", "input 0 is float, but it stands for 'x', which is double"),
], ids=["y", "xs", "x_type", "y_type", "count", "point_type"])
def test_errors(env, graph, code, op, text):
    with pytest.raises(NacreError) as e:
        env.session(parsed("g " + graph))
    assert (e.value.code, e.value.op) == (code, op)
    assert text in e.value.text


def test_an_op_without_gradient_is_named_with_a_way_through_it():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18, "ai.onnx.preview.training" : 1,
        "test.meet" : 1]> g (float[4] x) => (float[4] d) {
        a = Mul(x, x)  b = test.meet.Meet(a)  c = Exp(b)  y = Mul(c, x)
        d = ai.onnx.preview.training.Gradient<y = "y", xs = ["x"]>(x) }""")
    model.graph.node[1].name = "wall"
    with nacre_c.Env(1) as env:
        nacre_c.call("nacre_env_load_plugin", env.handle, str(MEET).encode())
        with pytest.raises(NacreError) as e:
            env.session(model)
    assert (e.value.code, e.value.op, e.value.node) == ("UNSUPPORTED", "Meet", "wall")
    assert "the way 'x' -> 'a' -> 'b' -> 'c' -> 'y' leads through it" in e.value.text
