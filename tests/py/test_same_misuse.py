"""The same misuse raises an exception of the same name here and in onnxruntime, and what it takes is taken here."""
import importlib

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto as T
from onnx import helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

X = np.float32([[1, 2]])


def model():
    graph = helper.make_graph([helper.make_node("Neg", ["X"], ["Y"])], "g",
                              [helper.make_tensor_value_info("X", T.FLOAT, ["None", 2])],
                              [helper.make_tensor_value_info("Y", T.FLOAT, ["None", 2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def run(feeds, outputs=None):
    return lambda rt: rt.InferenceSession(model(), providers=["CPUExecutionProvider"]).run(outputs, feeds)


def op(domain, name, *imports):
    """Loads a model of one node, of opset 17 and these further imports."""
    graph = helper.make_graph([helper.make_node(name, ["X"], ["Y"], domain=domain, name="n")], "g",
                              [helper.make_tensor_value_info("X", T.FLOAT, [2])],
                              [helper.make_tensor_value_info("Y", T.FLOAT, [2])])
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, v) for d, v in imports)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return lambda rt: rt.InferenceSession(data, providers=["CPUExecutionProvider"])


def backend(**options):
    return lambda rt: importlib.import_module(rt.__name__ + ".backend").prepare(model(), "CPU", **options)


def backend_run(**options):
    return lambda rt: importlib.import_module(rt.__name__ + ".backend").prepare(model(), "CPU").run([X], **options)


def entry(rt):
    rt.SessionOptions().get_session_config_entry("no.such")


def provider(rt):
    rt.InferenceSession(model(), providers=["CPUExecutionProvider"]).set_providers(["NoProvider"])


CASES = {
    "input of another type": run({"X": X.astype(np.float64)}),
    "input of another rank": run({"X": X[0]}),
    "input of another size": run({"X": X[:, :1]}),
    "input that is not there": run({"X": X, "Z": X}),
    "input that is missing": run({}),
    "input that is None": run({"X": None}),
    "input that is a text": run({"X": "text"}),
    "input that is a list of texts": run({"X": [["a", "b"]]}),
    "output that is not there": run({"X": X}, ["Z"]),
    "outputs that are a text": run({"X": X}, "Y"),
    "outputs that are numbers": run({"X": X}, [1]),
    "model that is no model": lambda rt: rt.InferenceSession(b"junk", providers=["CPUExecutionProvider"]),
    "model that is not there": lambda rt: rt.InferenceSession("no.onnx", providers=["CPUExecutionProvider"]),
    "model that is a number": lambda rt: rt.InferenceSession(3, providers=["CPUExecutionProvider"]),
    "backend that writes a model": backend(optimized_model_filepath="x.onnx"),
    "backend that profiles": backend(enable_profiling=True),
    "backend with a prefix of files": backend(profile_file_prefix="x"),
    "backend that loads a library": backend(register_custom_ops_library="x.so"),
    "backend run that ends at once": backend_run(terminate=True),
    "entry that is not there": entry,
    "op that ai.onnx does not have": op("", "NoSuch"),
    "op that ai.onnx has later": op("", "Gelu"),
    "op that ai.onnx has no more": op("", "Upsample"),
    "op that ai.onnx.ml does not have": op("ai.onnx.ml", "NoSuch", ("ai.onnx.ml", 3)),
    "op that ai.onnx.ml has later": op("ai.onnx.ml", "TreeEnsemble", ("ai.onnx.ml", 3)),
    "op of ai.onnx.ml, not imported": op("ai.onnx.ml", "NoSuch"),
    "op of ai.onnx.training": op("ai.onnx.training", "NoSuch", ("ai.onnx.training", 1)),
    "op of ai.onnx.preview": op("ai.onnx.preview", "NoSuch", ("ai.onnx.preview", 1)),
    "op that com.microsoft does not have": op("com.microsoft", "NoSuch", ("com.microsoft", 1)),
    "op of com.microsoft, not imported": op("com.microsoft", "NoSuch"),
    "op of a domain of one's own": op("my.domain", "NoSuch", ("my.domain", 1)),
    "op of a domain of one's own, not imported": op("my.domain", "NoSuch"),
    "provider that is not there": provider,
}
TAKEN = {
    "list": run({"X": X.tolist()}), "no outputs": run({"X": X}, []), "backend threads": backend(intra_op_num_threads=1),
    "backend of other words": backend(no_such_word=1), "backend run that logs": backend_run(logid="x"),
}


def raised(case, rt):
    with pytest.raises(Exception) as caught:
        case(rt)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_raises_the_same(name):
    want, got = (raised(CASES[name], rt) for rt in (onnxruntime, nacre))
    assert type(got).__name__ == type(want).__name__, f"{got!r} where onnxruntime raises {want!r}"


def wrong_type(rt):
    graph = helper.make_graph([helper.make_node("Add", ["X", "X"], ["Y"], name="n")], "g",
                              [helper.make_tensor_value_info("X", T.COMPLEX64, [2])],
                              [helper.make_tensor_value_info("Y", T.COMPLEX64, [2])])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    rt.InferenceSession(data, providers=["CPUExecutionProvider"])


def wrong_attribute(rt):
    node = helper.make_node("CDist", ["X", "X"], ["Y"], domain="com.microsoft", name="n", p=3.0)
    graph = helper.make_graph([node], "g",
                              [helper.make_tensor_value_info("X", T.FLOAT, [2, 2])],
                              [helper.make_tensor_value_info("Y", T.FLOAT, [2, 2])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    rt.InferenceSession(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(),
                        providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("case, words", [
    (op("", "NoSuch"), "No Op registered for NoSuch with domain_version of 17"),
    (op("my.domain", "NoSuch", ("my.domain", 1)), "is not a registered function/op"),
    (wrong_type, "Type Error: Type 'tensor(complex64)'"),
    (wrong_attribute, "Unrecognized attribute: p for operator CDist")])
def test_says_the_words_that_programs_look_for(case, words):
    want, got = (raised(case, rt) for rt in (onnxruntime, nacre))
    assert words in str(want) and words in str(got) and type(got).__name__ == type(want).__name__


@pytest.mark.parametrize("name", TAKEN)
def test_takes_the_same(name):
    for rt in (onnxruntime, nacre):
        TAKEN[name](rt)


def test_the_backend_says_what_may_be_set():
    want, got = (raised(CASES["backend that profiles"], rt) for rt in (onnxruntime, nacre))
    assert str(got) == str(want)


def test_dims_keep_their_names():
    for rt in (onnxruntime, nacre):
        session = rt.InferenceSession(model(), providers=["CPUExecutionProvider"])
        assert session.get_inputs()[0].shape == ["None", 2] == session.get_outputs()[0].shape
    assert onnx.load_from_string(model()).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "None"
