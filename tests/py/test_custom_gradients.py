"""register_gradient: gradients of one's own, for custom operators and in the place of those that are there; from Python
and from C. Rules hold for a whole process, so each test has one for itself.
"""
import multiprocessing

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

import nacre_c
import package
from tolerances import close

import nacre  # noqa: E402  (package puts it on the path)
from nacre import training  # noqa: E402
from nacre.training import api, artifacts  # noqa: E402

assert package.BUILT
LIBRARY = str(nacre_c.BUILD / "plugins" / "compact.so")
X = np.float32([0.5, -2, 3, -0.25, 4])
COMPACT = [  # what is kept goes back to where it was
    ("Constant", [], ["none"], {"value": {"value": 0, "dtype": "IElemType(0)", "is_tensor": True}}),
    ("Greater", ["I(0)", "none"], ["kept"]),
    ("NonZero", ["kept"], ["places"]),
    ("Constant", [], ["first"], {"value": {"value": [0], "dtype": "int", "is_tensor": True}}),
    ("Squeeze", ["places", "first"], ["at"]),
    ("Mul", ["I(0)", "none"], ["zeros"]),
    ("ScatterElements", ["zeros", "at", "GO(0)"], ["GI(0)"], {"axis": {"value": 0, "dtype": "int"}}),
]


def plugged(opset=17):
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : {opset}, "test.plugin" : 1]>
        g (float[n] x) => (float loss) <float[1] w = {{3}}> {{ h = Mul(x, w)  c = test.plugin.Compact(h)
        s = Mul(c, c)  loss = ReduceSum<keepdims = 0>(s) }}""")


def in_a_process(work):
    """Rules stay for as long as the process lives: work runs in one of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run():
        try:
            work()
            theirs.send(None)
        except BaseException as e:  # noqa: B036  (an assertion must reach the test)
            theirs.send(f"{type(e).__name__}: {e}")
    child = context.Process(target=run)
    child.start()
    theirs.close()
    said = ours.recv()
    child.join()
    assert said is None, said


@pytest.mark.parametrize("opset", [15, 17, 22])
def test_a_custom_operator_trains(opset, tmp_path):
    def work():
        make = dict(requires_grad=["w"], optimizer=artifacts.OptimType.SGD, artifact_directory=tmp_path,
                    custom_op_library=LIBRARY)
        with pytest.raises(Exception, match="Compact.*has no gradient"):
            artifacts.generate_artifacts(plugged(opset), **make)
        assert training.register_gradient("test.plugin", "Compact")(lambda: COMPACT)() is COMPACT
        artifacts.generate_artifacts(plugged(opset), **make)
        options = nacre.SessionOptions()
        options.register_custom_ops_library(LIBRARY)
        state = api.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
        module = api.Module(tmp_path / "training_model.onnx", state, session_options=options)
        kept = X[X > 0].astype(np.float64)
        close(module(X), 9 * (kept ** 2).sum(), "torch_f32")
        close(state.parameters["w"].grad, [6 * (kept ** 2).sum()], "torch_f32")
    in_a_process(work)


def test_the_newest_rule_takes_the_place_of_the_cards():
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (double[3] x) => (double[3] y) {
        f = Floor(x)  r = Relu(f)  y = Mul(r, x) }""")
    x = np.array([1.5, -2.5, 3.25])

    def gradient():
        made = training.gradients(model, "y", "x")
        return nacre.InferenceSession(made.SerializeToString()).run(["grad:x"], {"x": x})[0]

    def work():
        before = np.maximum(np.floor(x), 0)
        close(gradient(), before, "torch_f64")
        straight = [("Identity", ["GO(0)"], ["GI(0)"])]  # rounding as if it were not there
        training.register_gradient("", "Floor")(lambda: straight)
        close(gradient(), before + np.where(np.floor(x) > 0, x, 0), "torch_f64")
        leaky = [("Constant", [], ["two"], {"value": {"value": 2, "dtype": "OElemType(0)", "is_tensor": True}}),
                 ("Mul", ["GO(0)", "two"], ["GI(0)"])]
        training.register_gradient("", "Relu")(lambda: leaky)
        close(gradient(), before + 2 * x, "torch_f64")
        training.register_custom_stop_gradient_edges([0], "", "Floor")
        close(gradient(), before, "torch_f64")
    in_a_process(work)


def test_stops_of_an_operator_without_gradient(tmp_path):
    def work():
        training.register_custom_stop_gradient_edges([0], "test.plugin", "Compact")
        model = plugged()
        model.graph.node[3].CopyFrom(helper.make_node("ReduceSum", ["t"], ["loss"], keepdims=0))
        model.graph.node.insert(3, helper.make_node("Mul", ["s", "w"], ["t"]))
        artifacts.generate_artifacts(model, requires_grad=["w"], artifact_directory=tmp_path,
                                     custom_op_library=LIBRARY)
        options = nacre.SessionOptions()
        options.register_custom_ops_library(LIBRARY)
        state = api.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
        module = api.Module(tmp_path / "training_model.onnx", state, session_options=options)
        module(X)
        close(state.parameters["w"].grad, [9 * (X[X > 0].astype(np.float64) ** 2).sum()], "torch_f32")
    in_a_process(work)


@pytest.mark.parametrize("rule, words", [
    ([("Identity", ["GO(0)"], ["GI(0)"]), ("Identity", ["other"], ["more"])], "other"),
    ([("Identity", ["GO(7)"], ["GI(0)"])], r"asks for 'GO\(7\)', but there are 1 outputs"),
    ([("Nothing", ["GO(0)"], ["GI(0)"])], "Nothing"),
    ([("Cast", ["GO(0)"], ["GI(0)"], {"to": {"value": 1, "dtype": "int"}})], "another type"),
], ids=["input", "index", "op", "type"])
def test_a_rule_that_is_wrong_is_told_where_it_is_used(rule, words):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (double[3] x) => (double[3] y) {
        y = Sin(x) }""")

    def work():
        training.register_gradient("", "Sin")(lambda: rule)
        with pytest.raises(Exception, match=words):
            training.gradients(model, "y", "x")
    in_a_process(work)


@pytest.mark.parametrize("rule, words", [
    ([("Identity", ["GO(0)"], ["dx"])], r"makes no GI\(i\)"),
    ([("Identity", ["GO(0)"])], "a node is"),
    ([("Cast", ["GO(0)"], ["GI(0)"], {"to": {"value": 1, "dtype": "complex"}})], "dtype 'complex'"),
], ids=["nothing", "short", "dtype"])
def test_a_definition_that_is_none_is_refused_at_once(rule, words):
    with pytest.raises(ValueError, match=words):
        training.register_gradient("", "Sin")(lambda: rule)


def test_operators_of_pytorch_are_refused():
    with pytest.raises(ValueError, match="which are not run here"):
        training.register_gradient("org.pytorch.aten", "ATen", "aten::embedding", "")(lambda: COMPACT)
