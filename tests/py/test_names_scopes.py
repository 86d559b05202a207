"""Names and opsets as files really have them: inner graphs that reuse outer names, nodes in any order at any depth,
imports that are missing, operators that onnxruntime knows before ONNX did, declared shapes that are wrong. Where
onnxruntime runs the model too, both must say the same."""
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from nacre_c import NacreError
from tolerances import close

onnxruntime.set_default_logger_severity(4)
X = np.float32([1, -2])
YES = np.array(True)


def parsed(text, opset=17):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def tensor(name, elem, dims):
    return helper.make_tensor_value_info(name, elem, dims)


def made(nodes, inputs, outputs, initializers=(), imports=(("", 17),)):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(np.asarray(v), k)
                                                            for k, v in dict(initializers).items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid(*i) for i in imports])
    return model


def mine(env, model, feeds):
    with env.session(model) as session:
        return list(session.run(feeds).values())


def same_as_ort(env, model, feeds, row=None):
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    got = mine(env, model, feeds)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.shape == w.shape
        close(g, w, row) if row else np.testing.assert_array_equal(g, w)


def refused_by_ort(model, feeds):
    with pytest.raises(Exception, match="INVALID_GRAPH|FAIL"):
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)


# ---- inner names ----

def loop_with(state, weights):
    """A Loop whose body calls its carried value `state`, and has an initializer `weights`."""
    inner = [numpy_helper.from_array(np.float32([10, 20]), weights)]
    body = helper.make_graph(
        [helper.make_node("Identity", ["more"], ["go_on"]), helper.make_node("Add", [state, weights], ["sum"])], "body",
        [tensor("i", T.INT64, []), tensor("more", T.BOOL, []), tensor(state, T.FLOAT, [2])],
        [tensor("go_on", T.BOOL, []), tensor("sum", T.FLOAT, [2])], inner)
    return made([helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Loop", ["trips", "", "n"], ["r"], body=body),
                 helper.make_node("Add", ["r", "x"], ["s"]), helper.make_node("Add", ["s", "w"], ["y"])],
                [tensor("x", T.FLOAT, [2])], [tensor("y", T.FLOAT, [2]), tensor("n", T.FLOAT, [2])],
                {"trips": np.int64(3), "w": np.float32([1, 1])})


@pytest.mark.parametrize("state, weights", [(s, w) for s in ("x", "n", "w", "r", "own")
                                            for w in ("w", "x", "n", "trips", "own_w") if s != w])
def test_a_loop_body_has_its_own_names(env, state, weights):
    same_as_ort(env, loop_with(state, weights), {"x": X})


def scan_with(state, item):
    body = helper.make_graph(
        [helper.make_node("Add", [state, item], ["sum"]), helper.make_node("Mul", ["sum", "w"], ["part"])], "body",
        [tensor(state, T.FLOAT, []), tensor(item, T.FLOAT, [])],
        [tensor("sum", T.FLOAT, []), tensor("part", T.FLOAT, [])])
    return made([helper.make_node("Scan", ["zero", "x"], ["last", "all"], body=body, num_scan_inputs=1),
                 helper.make_node("Add", ["all", "x"], ["y"])],
                [tensor("x", T.FLOAT, [2])], [tensor("y", T.FLOAT, [2])], {"zero": np.float32(0), "w": np.float32(3)})


@pytest.mark.parametrize("names", [("x", "zero"), ("zero", "x"), ("y", "all"), ("a", "b")])
def test_a_scan_body_has_its_own_names(env, names):
    same_as_ort(env, scan_with(*names), {"x": X})


#: What onnxruntime takes: the outer value of the same name is made after the If.
LATER = """g (float[2] x, bool c) => (float[2] y, float[2] t) {
  y = If(c) <then_branch = a () => (float[2] t) { t = Add(x, x) }, else_branch = b () => (float[2] t) { t = Mul(x, x) }>
  t = Neg(x)
}"""
#: What onnxruntime refuses, and what it can only mean.
EARLIER = {
    "node": ("""g (float[2] x, bool c) => (float[2] y, float[2] t) {
      t = Neg(x)
      y = If(c) <then_branch = a () => (float[2] t) { t = Add(x, x) },
                 else_branch = b () => (float[2] u) { u = Mul(t, t) }>
    }""", lambda x, c: [x + x if c else x * x, -x]),
    "input": ("""g (float[2] x, bool c) => (float[2] y) {
      y = If(c) <then_branch = a () => (float[2] x) { x = Constant<value_floats = [5.0, 6.0]>() },
                 else_branch = b () => (float[2] u) { u = Mul(x, x) }>
    }""", lambda x, c: [np.float32([5, 6]) if c else x * x]),
    "two deep": ("""g (float[2] x, bool c) => (float[2] y) {
      t = Neg(x)
      y = If(c) <then_branch = a () => (float[2] p) {
          t = Add(x, x)
          p = If(c) <then_branch = aa () => (float[2] q) { q = Neg(t) },
                     else_branch = bb () => (float[2] t) { t = Abs(x) }>
        }, else_branch = b () => (float[2] u) { u = Identity(t) }>
    }""", lambda x, c: [-(x + x) if c else -x]),
    "its own, out of order": ("""g (float[2] x, bool c) => (float[2] y) {
      t = Neg(x)
      y = If(c) <then_branch = a () => (float[2] u) { u = Neg(t) t = Add(x, x) },
                 else_branch = b () => (float[2] u) { u = Identity(t) }>
    }""", lambda x, c: [-(x + x) if c else -x]),
}


@pytest.mark.parametrize("c", [True, False])
def test_a_branch_has_its_own_names(env, c):
    same_as_ort(env, parsed(LATER), {"x": X, "c": np.array(c)})


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("kind", EARLIER)
def test_a_branch_hides_what_is_outside(env, kind, c):
    text, want = EARLIER[kind]
    model, feeds = parsed(text), {"x": X, "c": np.array(c)}
    refused_by_ort(model, feeds)
    for g, w in zip(mine(env, model, feeds), want(X, c)):
        np.testing.assert_array_equal(g, w)


def test_saved_again_every_value_has_its_own_name(env, tmp_path):
    for i, (text, want) in enumerate(EARLIER.values()):
        with env.model(parsed(text)) as model:
            model.save(tmp_path / f"{i}.onnx")
        saved, feeds = onnx.load(tmp_path / f"{i}.onnx"), {"x": X, "c": YES}
        onnx.checker.check_model(saved, full_check=True)
        for g, w in zip(onnxruntime.InferenceSession(saved.SerializeToString()).run(None, feeds), want(X, True)):
            np.testing.assert_array_equal(g, w)


def test_a_name_that_a_branch_makes_of_itself_is_refused(env):
    model = parsed("""g (float[2] x, bool c) => (float[2] y) {
      t = Neg(x)
      y = If(c) <then_branch = a () => (float[2] z) { z = Add(t, x) t = Neg(z) },
                 else_branch = b () => (float[2] u) { u = Identity(t) }>
    }""")
    refused_by_ort(model, {"x": X, "c": YES})
    with pytest.raises(NacreError, match="is not defined before this node"):
        env.model(model)


# ---- order ----

DEEP = {
    "captured two deep": """g (float[2] x, bool c) => (float[2] y) {
      y = If(c) <then_branch = a () => (float[2] p) {
          p = If(c) <then_branch = aa () => (float[2] q) { q = Add(x, t) },
                     else_branch = bb () => (float[2] r) { r = Neg(t) }>
        }, else_branch = b () => (float[2] u) { u = Mul(x, x) }>
      t = Neg(s)
      s = Exp(x)
    }""",
    "an inner name is no use of the outer one": """g (float[2] x, bool c) => (float[2] z) {
      t = If(c) <then_branch = a () => (float[2] y) { z = Add(x, x) y = Identity(z) },
                 else_branch = b () => (float[2] u) { u = Mul(x, k) }>
      z = Neg(t)
      k = Abs(x)
    }""",
    "an inner name of a name two deep": """g (float[2] x, bool c) => (float[2] z) {
      t = If(c) <then_branch = a () => (float[2] y) {
          y = If(c) <then_branch = aa () => (float[2] v) { z = Add(x, m) v = Neg(z) },
                     else_branch = bb () => (float[2] w) { w = Abs(m) }>
        }, else_branch = b () => (float[2] u) { u = Mul(x, m) }>
      z = Sub(t, m)
      m = Abs(x)
    }""",
}


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("kind", DEEP)
def test_nodes_in_any_order(env, kind, c):
    same_as_ort(env, parsed(DEEP[kind]), {"x": X, "c": np.array(c)})


# ---- opsets ----

def scaler(*imports):
    return made([helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])],
                [tensor("x", T.FLOAT, [2])], [tensor("y", T.FLOAT, [2])], imports=imports)


@pytest.mark.parametrize("imports", [[("", 17)], [("ai.onnx.ml", 1)], [("", 17), ("ai.onnx.ml", 1), ("some.other", 0)]])
def test_a_domain_need_not_be_imported(env, imports):
    same_as_ort(env, scaler(*imports), {"x": X})


def test_version_0_is_no_version(env, capfd):
    """onnxruntime runs a model that imports an unused domain so, and refuses one that uses it."""
    got, = mine(env, scaler(("", 17), ("ai.onnx.ml", 0), ("some.other", 0)), {"x": X})
    np.testing.assert_array_equal(got, [0, -6])
    assert capfd.readouterr().err.count("has version 0") == 1
    with pytest.raises(NacreError, match="opset_import of domain '' has version 0"):
        env.model(scaler(("", 0), ("ai.onnx.ml", 1)))


TYPES = {np.float32: T.FLOAT, np.float64: T.DOUBLE, np.float16: T.FLOAT16}


def norm(op, x, scale, opset, n_out, **attributes):
    """The model and its inputs; outputs have no declared type."""
    rng = np.random.default_rng(0)
    names = ["x", "s", "b"][:3 if op == "LayerNormalization" else 2]
    feeds = {n: rng.standard_normal((2, 3) if n == "x" else 3).astype(x if n == "x" else scale) for n in names}
    model = made([helper.make_node(op, names, ["y", "m", "i"][:n_out], **attributes)],
                 [tensor(n, TYPES[v.dtype.type], v.shape) for n, v in feeds.items()],
                 [onnx.ValueInfoProto(name=n) for n in ["y", "m", "i"][:n_out]], imports=[("", opset)])
    return model, feeds


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float64, np.float64), (np.float16, np.float16),
                                   (np.float16, np.float32), (np.float32, np.float16)], ids=lambda t: t[0].__name__)
@pytest.mark.parametrize("op, opset, n_out", [("LayerNormalization", 16, 3), ("SimplifiedLayerNormalization", 16, 2),
                                              ("SimplifiedLayerNormalization", 9, 1)])
def test_norms_that_onnxruntime_had_first(env, types, op, opset, n_out):
    half = np.float16 in types
    same_as_ort(env, *norm(op, *types, opset, n_out), row="device_f16" if half else "kernel_f32")


def test_layer_norm_of_an_old_opset(env):
    for opset in (1, 9, 12):
        same_as_ort(env, *norm("LayerNormalization", np.float32, np.float32, opset, 3, axis=1), row="kernel_f32")
    same_as_ort(env, *norm("LayerNormalization", np.float32, np.float32, 12, 1, axis=-1, epsilon=0.5), row="kernel_f32")


def test_thresholded_relu_of_an_old_opset(env):
    node = helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.5)
    model = made([node], [tensor("x", T.FLOAT, [2])], [tensor("y", T.FLOAT, [2])], imports=[("", 9)])
    same_as_ort(env, model, {"x": X})


# ---- what is declared and what is there ----

def numbered(number, condition, given=None, use="i"):
    """A Loop that squeezes its number, or its condition, which the body declares with these dims."""
    nodes = [helper.make_node("Identity", ["c"], ["go_on"]), helper.make_node("Cast", [use], ["j"], to=T.INT64),
             helper.make_node("Squeeze", ["j", "axis"], ["q"]), helper.make_node("Cast", ["q"], ["f"], to=T.FLOAT),
             helper.make_node("Add", ["f", "s"], ["sum"])]
    body = helper.make_graph(
        nodes, "body", [tensor("i", T.INT64, number), tensor("c", T.BOOL, condition), tensor("s", T.FLOAT, [2])],
        [tensor("go_on", T.BOOL, condition), tensor("sum", T.FLOAT, [2]), tensor("q", T.INT64, [])],
        [numpy_helper.from_array(np.int64([0]), "axis")])
    more = {} if given is None else {"more": given}
    return made([helper.make_node("Loop", ["trips", *(more or [""]), "x"], ["y", "z"], body=body)],
                [tensor("x", T.FLOAT, [2])], [tensor("y", T.FLOAT, [2]), tensor("z", T.INT64, [None])],
                {"trips": np.int64(3), **more})


@pytest.mark.parametrize("case", [dict(number=[1], condition=[]),
                                  dict(number=[1], condition=[1], given=np.array([True])),
                                  dict(number=[], condition=[1], use="c"),
                                  dict(number=[], condition=[1], given=np.array([True]), use="c")])
def test_a_loop_number_of_one_dim(env, case):
    same_as_ort(env, numbered(**case), {"x": X})


def test_random_numbers_in_a_loop_whose_number_has_a_dim(env):
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go_on"]), helper.make_node("RandomUniform", [], ["u"], shape=[2])],
        "body", [tensor("i", T.INT64, [1]), tensor("c", T.BOOL, [])],
        [tensor("go_on", T.BOOL, []), tensor("u", T.FLOAT, [2])])
    model = made([helper.make_node("Loop", ["trips", ""], ["y"], body=body)], [tensor("trips", T.INT64, [])],
                 [tensor("y", T.FLOAT, [None, 2])])
    y, = mine(env, model, {"trips": np.array(4)})
    assert y.shape == (4, 2) and len(np.unique(y)) == 8


@pytest.mark.parametrize("declared, fed", [([1], 5), ([], [5]), ([3], [5, 6]), ([2, 2], [5, 6])])
def test_a_carried_value_is_what_is_given(env, declared, fed):
    fed = np.array(fed, np.float32)
    nodes = [helper.make_node("Identity", ["c"], ["go_on"]), helper.make_node("Squeeze", ["s"], ["q"]),
             helper.make_node("Add", ["q", "one"], ["sum"])]
    body = helper.make_graph(
        nodes, "body", [tensor("i", T.INT64, []), tensor("c", T.BOOL, []), tensor("s", T.FLOAT, declared)],
        [tensor("go_on", T.BOOL, []), tensor("sum", T.FLOAT, declared)],
        [numpy_helper.from_array(np.float32(1), "one")])
    model = made([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], [tensor("x", T.FLOAT, fed.shape)],
                 [tensor("y", T.FLOAT, None)], {"trips": np.int64(3)})
    same_as_ort(env, model, {"x": fed})


def test_a_captured_value_changes_its_rank(env):
    """The carried value gets a dim in every iteration; a branch inside captures it."""
    branches = {name: helper.make_graph([helper.make_node(op, ["s"], [name], keepdims=0)], name, [],
                                        [tensor(name, T.FLOAT, None)])
                for name, op in (("then_branch", "ReduceSum"), ("else_branch", "ReduceMax"))}
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go_on"]), helper.make_node("If", ["c"], ["r"], **branches),
         helper.make_node("Unsqueeze", ["s", "axis"], ["t"])], "body",
        [tensor("i", T.INT64, []), tensor("c", T.BOOL, []), tensor("s", T.FLOAT, None)],
        [tensor("go_on", T.BOOL, []), tensor("t", T.FLOAT, None), tensor("r", T.FLOAT, None)],
        [numpy_helper.from_array(np.int64([0]), "axis")])
    model = made([helper.make_node("Loop", ["trips", "yes", "x"], ["y", "z"], body=body)], [tensor("x", T.FLOAT, [2])],
                 [tensor("y", T.FLOAT, None), tensor("z", T.FLOAT, None)], {"trips": np.int64(3), "yes": YES})
    same_as_ort(env, model, {"x": X})


@pytest.mark.parametrize("through", [[], ["Optional"]])
def test_the_element_of_an_optional_of_any_rank(env, through):
    nodes = [helper.make_node(op, ["x"], ["o"]) for op in through]
    nodes += [helper.make_node("OptionalGetElement", ["o" if through else "x"], ["e"]),
              helper.make_node("MatMul", ["e", "e"], ["y"])]
    model = made(nodes, [tensor("x", T.FLOAT, None)], [tensor("y", T.FLOAT, None)], imports=[("", 18)])
    for dims in [(2,), (2, 2), (3, 2, 2)]:
        same_as_ort(env, model, {"x": np.arange(np.prod(dims), dtype=np.float32).reshape(dims)})


@pytest.mark.parametrize("declared", ["dense", "sparse", "open"])
def test_a_sparse_constant_is_an_output(env, declared):
    """onnxruntime can compute with one but not give it out."""
    sparse = helper.make_sparse_tensor(helper.make_tensor("", T.FLOAT, [2], [1.0, 2.0]),
                                       helper.make_tensor("", T.INT64, [2], [1, 3]), [5])
    info = {"dense": tensor("y", T.FLOAT, [5]), "open": onnx.ValueInfoProto(name="y"),
            "sparse": helper.make_value_info("y", helper.make_sparse_tensor_type_proto(T.FLOAT, [5]))}[declared]
    constant = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    got, = mine(env, made([constant], [], [info]), {})
    np.testing.assert_array_equal(got, np.float32([0, 1, 0, 2, 0]))
    got = mine(env, made([constant, helper.make_node("Neg", ["y"], ["z"])], [], [info, tensor("z", T.FLOAT, [5])]), {})
    np.testing.assert_array_equal(got[0], -got[1])


# ---- ranks ----

LONG = [2] + [1] * 69


def one_node(op, inputs, initializers=(), dims=(2,), elem=T.FLOAT, opset=17, outputs=1, **attributes):
    return made([helper.make_node(op, inputs, ["y", "z", "w"][:outputs], name="here", **attributes)],
                [tensor("x", elem, dims)], [onnx.ValueInfoProto(name="y")], initializers, [("", opset)])


def scanned(dims):
    """A Loop that stacks x, which has as many dims as there may be."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go_on"]), helper.make_node("Neg", ["x"], ["n"])], "body",
        [tensor("i", T.INT64, []), tensor("c", T.BOOL, [])],
        [tensor("go_on", T.BOOL, []), onnx.ValueInfoProto(name="n")])
    return made([helper.make_node("Loop", ["trips", ""], ["y"], name="here", body=body)], [tensor("x", T.FLOAT, dims)],
                [onnx.ValueInfoProto(name="y")], {"trips": np.int64(2)})


MOST = 64
FULL = np.zeros([1] * MOST, np.float32)
#: The model, the dims that are too many, what is fed where only the run can tell.
TOO_LONG = {
    "Reshape": (one_node("Reshape", ["x", "s"], {"s": np.int64(LONG)}), 70, None),
    "Unsqueeze": (one_node("Unsqueeze", ["x", "a"], {"a": np.arange(MOST)}), 65, None),
    "Expand": (one_node("Expand", ["x", "s"], {"s": np.int64([1] * 66 + [2])}), 67, None),
    "StringSplit": (one_node("StringSplit", ["x"], dims=[1] * MOST, elem=T.STRING, opset=20, outputs=2), 65, None),
    "Loop": (scanned([1] * MOST), 65, None),
    "Loop, rank open": (scanned(None), 65, {"x": FULL}),
    "ConstantOfShape": (one_node("ConstantOfShape", ["x"], dims=["k"], elem=T.INT64), 70, {"x": np.int64(LONG)}),
    "ConcatFromSequence": (made(
        [helper.make_node("ConcatFromSequence", ["s"], ["y"], name="here", axis=0, new_axis=1)],
        [helper.make_tensor_sequence_value_info("s", T.FLOAT, None)], [onnx.ValueInfoProto(name="y")]),
        65, {"s": [FULL]}),
}


@pytest.mark.parametrize("kind", TOO_LONG)
def test_more_dims_than_there_may_be_are_refused_by_name(env, kind):
    model, n, feeds = TOO_LONG[kind]
    with pytest.raises(NacreError, match=f"has {n} dims, at most {MOST}|: {n} dims, at most {MOST}") as e:
        session = env.session(model)
        assert feeds is not None, "known before the run"
        session.run(feeds)
    assert e.value.node == "here" and e.value.op == kind.partition(",")[0]
