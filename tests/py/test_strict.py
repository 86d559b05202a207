"""What is assumed of files that are wrong or say too little: run with one WARNING of each kind, refused by `strict`
(ir/assumptions.list, docs/exporters.md)."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper

import package  # noqa: F401  puts the package of the build on the path
import nacre
from nacre_c import PROGRAM
from tolerances import close

HOME = pathlib.Path(__file__).parents[2]
TEXTS = dict(re.findall(r'^A\((\w+), "(.*)"\)$', (HOME / "src/ir/assumptions.list").read_text(), re.M))
X = np.float32([[1, -2, 3]])


def tensor(name, dims, elem=T.FLOAT):
    return helper.make_tensor_value_info(name, elem, dims)


def model(nodes, dims=(1, 3), out=None, imports=(("", 17),), ir_version=8, values=()):
    graph = helper.make_graph(nodes, "g", [tensor("x", dims)], [tensor("y", out)], value_info=values)
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid(*i) for i in imports])


def neg(source="x", to="y"):
    return helper.make_node("Neg", [source], [to], name=f"make_{to}")


def scaler():
    return helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])


def untyped():
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    node.attribute[0].ClearField("type")
    return node


def gru():
    weights = [helper.make_node("Constant", [], [name], value=helper.make_tensor(name, T.FLOAT, dims, [0.5] * 3 * size))
               for name, dims, size in (("w", [1, 3, 3], 3), ("r", [1, 3, 1], 1))]
    return weights + [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=1,
                                       activations=["Sigmoid", "Tanh", "Sigmoid", "Tanh"])]


def stft():
    ints = [helper.make_node("Constant", [], [name], value_int=value) for name, value in (("step", 1), ("length", 2))]
    return ints + [helper.make_node("STFT", ["x", "step", "", "length"], ["y"])]


def squeezed():
    return [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Slice", ["at", "one", "two"], ["row"]),
            helper.make_node("Transpose", ["row"], ["column"]), helper.make_node("Squeeze", ["column"], ["y"])]


def wrong_rank():
    m = model(squeezed())
    m.graph.output[0].CopyFrom(tensor("y", ["k"], T.INT64))
    m.graph.initializer.extend(helper.make_tensor(n, T.INT64, [1], [v]) for n, v in (("one", 1), ("two", 2)))
    return m


CASES = {
    "IR_NEWER": lambda: model([neg()], ir_version=onnx.IR_VERSION + 1),
    "OPSET_NEWER": lambda: model([neg()], imports=[("", onnx.defs.onnx_opset_version() + 1)]),
    "OPSET_ZERO": lambda: model([neg()], imports=[("", 17), ("other", 0), ("more", 0)]),
    "OPSET_TWICE": lambda: model([neg()], imports=[("", 17), ("other", 1), ("other", 2)]),
    "OPSET_MISSING": lambda: model([scaler()]),
    "ORDER": lambda: model([neg("h"), neg(to="h")]),
    "ATTRIBUTE_TYPE": lambda: model([untyped()]),
    "SHAPE": lambda: model([neg(to="h"), neg("h")], out=[7, 7], values=[tensor("h", [5, 3])]),
    "RANK": wrong_rank,
    "SYMBOL": lambda: model([neg()], dims=["n", "n"]),
    "ACTIVATIONS": lambda: model(gru(), dims=(1, 1, 3)),
    "SIGNAL": lambda: model(stft(), dims=(1, 3)),
}


def feed(name):
    x = {"RANK": np.float32([[0, 5, 0]]), "ACTIVATIONS": X[None]}.get(name, X)
    return {"x": x}


def options(*entries):
    made = nacre.SessionOptions()
    for key in entries:
        made.add_session_config_entry(key, "1")
    return made


def run(name, *entries):
    return nacre.InferenceSession(CASES[name]().SerializeToString(), options(*entries)).run(None, feed(name))


def test_every_assumption_has_a_case_and_a_row():
    rows = re.findall(r"^\|[^|]*\| (.*) \|$", (HOME / "docs/exporters.md").read_text(), re.M)
    assert CASES.keys() == TEXTS.keys() and not set(TEXTS.values()) - set(rows)


def test_the_newest_versions_are_those_of_onnx():
    text = (HOME / "src/onnx/proto.h").read_text()
    assert f"#define NC_ONNX_NEWEST_IR {onnx.IR_VERSION}\n" in text
    assert f"#define NC_ONNX_NEWEST_OPSET {onnx.defs.onnx_opset_version()}\n" in text


@pytest.mark.parametrize("name", CASES)
def test_assumed_with_one_warning(name, capfd):
    run(name)
    err = capfd.readouterr().err
    told = "this run gave rank 0" if name == "RANK" else TEXTS[name]
    assert err.count(told) == 1 and err.count("warning") == 1, err


@pytest.mark.parametrize("name", CASES)
def test_refused_when_strict(name, capfd):
    with pytest.raises(Exception, match="this run gave rank 0" if name == "RANK" else re.escape(TEXTS[name])):
        run(name, "nacre.strict")


@pytest.mark.parametrize("name", CASES)
def test_strict_shapes_are_shapes_alone(name, capfd):
    if name in ("SHAPE", "RANK"):
        with pytest.raises(Exception, match="the model declares"):
            run(name, "session.strict_shape_type_inference")
    else:
        run(name, "session.strict_shape_type_inference")


def test_what_is_right_is_not_refused():
    good = nacre.InferenceSession(model([neg()], out=[1, 3]).SerializeToString(), options("nacre.strict"))
    np.testing.assert_array_equal(good.run(None, {"x": X})[0], -X)


def test_on_the_command_line(tmp_path):
    onnx.save(CASES["ORDER"](), tmp_path / "m.onnx")
    command = [str(PROGRAM), "run", str(tmp_path / "m.onnx")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    refused = subprocess.run(command + ["--strict"], capture_output=True, text=True)
    assert refused.returncode == 1 and "only without 'strict' " + TEXTS["ORDER"] in refused.stderr


@pytest.mark.parametrize("imports", [[11, 14], [14, 11]])
def test_the_last_import_counts_as_in_onnxruntime(imports):
    """Softmax changed its meaning in between."""
    m = model([helper.make_node("Softmax", ["x"], ["y"])], imports=[("", k) for k in imports], dims=(2, 3, 2))
    x = {"x": np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 7}
    got, wanted = (rt.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, x)[0]
                   for rt in (nacre, onnxruntime))
    close(got, wanted, "ort_f32", "y")


def two_inputs():
    """Both dims of both inputs bear the same names, as exporters write them that get one table of names for all."""
    inputs = [tensor("x", ["n", "k"]), tensor("z", ["n", "k"])]
    graph = helper.make_graph([helper.make_node("Concat", ["x", "z"], ["y"], axis=1)], "g", inputs, [tensor("y", None)])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def by_arrays(session, feeds):
    return session.run(None, feeds)[0]


def by_values(session, feeds):
    values = {n: nacre.OrtValue.ortvalue_from_numpy(v) for n, v in feeds.items()}
    return session.run_with_ort_values(None, values)[0].numpy()


def by_binding(session, feeds):
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0]


@pytest.mark.parametrize("how", [by_arrays, by_values, by_binding])
def test_inputs_that_contradict_the_names_of_their_dims(how):
    session = nacre.InferenceSession(two_inputs())
    for k in (3, 5, 2):
        feeds = {"x": np.full((2, 3), k, np.float32), "z": np.zeros((2, k), np.float32)}
        np.testing.assert_array_equal(how(session, feeds), np.concatenate([feeds["x"], feeds["z"]], axis=1))
    assert [a.shape for a in session.get_inputs()] == [["n", "k"]] * 2


def test_inputs_that_contradict_their_operators():
    session = nacre.InferenceSession(two_inputs())
    with pytest.raises(nacre.capi.onnxruntime_pybind11_state.InvalidArgument, match="(?i)concat.*expected"):
        session.run(None, {"x": np.zeros((2, 3), np.float32), "z": np.zeros((4, 3), np.float32)})
