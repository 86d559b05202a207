"""Models in onnxruntime's own format: what it writes is read, it reads what is written here, damaged files are told.
Results of both engines on both files are compared by bits, but for floats that a kernel sums."""
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre_c import PROGRAM  # noqa: E402
from tolerances import close  # noqa: E402

onnxruntime.set_default_logger_severity(4)
X = np.float32([[1, -2, 3], [0, 5, -6]])
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'

MODELS = {
    "captures in branches": ("g (float[n, 3] x, bool c) => (float[n, 3] y) { k = Exp(x)  z = Neg(x)  y = If (c) <"
                             "then_branch = a () => (float[n, 3] t) { t = Add(k, z) },"
                             "else_branch = b () => (float[n, 3] e) { s = Sub(z, k)  e = Abs(s) }> }",
                             {"x": X, "c": np.array(True)}),
    "a graph in a graph": ("g (float[n, 3] x, bool c, bool d) => (float[n, 3] y) { k = Neg(x)  y = If (c) <"
                           "then_branch = a () => (float[n, 3] t) { t = If (d) <"
                           "then_branch = a2 () => (float[n, 3] t2) { t2 = Mul(k, x) },"
                           "else_branch = b2 () => (float[n, 3] e2) { e2 = Identity(k) }> },"
                           "else_branch = b () => (float[n, 3] e) { e = Abs(k) }> }",
                           {"x": X, "c": np.array(True), "d": np.array(True)}),
    "absent arguments": ("g (float[n, 3] x, float high) => (float[n, 3] y) { y = Clip(x, , high) }",
                         {"x": X, "high": np.array(2, np.float32)}),
    "defaults written out": ("g (float[4, 2, 3] x, float[1, 5, 3] w, float[1, 5, 5] r) => (float[1, 2, 5] h) {"
                             " , h = RNN <hidden_size = 5> (x, w, r) }",
                             {"x": np.ones((4, 2, 3), np.float32), "w": np.full((1, 5, 3), 0.5, np.float32),
                              "r": np.full((1, 5, 5), 0.25, np.float32)}),
    "attributes of every kind": ("g (float[n, 3] x) => (float[m, 3] y, string[2] s, float[3] v) {"
                                 " a = LeakyRelu <alpha = 0.5> (x)  b = Transpose <perm = [1, 0]> (a)"
                                 " y = Resize <mode = \"nearest\"> (a, , sc)"
                                 " sc = Constant <value_floats = [2.0, 1.0]> ()"
                                 " s = Constant <value_strings = [\"a\", \"\"]> ()"
                                 " v = ReduceSum (b, ax)  ax = Constant <value = int64[1] {1}> () }", {"x": X}),
    "sequences": ("g (float[n, 3] x) => (float[n, 3] y, int64 k) {"
                  " s = SequenceConstruct(x, x)  i = Constant <value_int = 1> ()"
                  " y = SequenceAt(s, i)  k = SequenceLength(s) }", {"x": X}),
    "its own domain": ("g (float[n, 3] x) => (float[n, 3] y) { y = com.microsoft.FastGelu(x) }", {"x": X}),
    "a loop": ("g (float[n, 3] x, int64 k) => (float[n, 3] y) {"
               " yes = Constant <value = bool {1}> ()  y = Loop (k, yes, x) <"
               "body = b (int64 i, bool c, float[n, 3] v) => (bool o, float[n, 3] w) {"
               " o = Identity(c)  w = Add(v, x) }> }",
               {"x": X, "k": np.array(3)}),
}


def written_by_ort(model, path, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
    o = onnxruntime.SessionOptions()
    o.optimized_model_filepath, o.graph_optimization_level = str(path), level
    o.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model, o)
    return path


def written(model, path, entry=None):
    o = nacre.SessionOptions()
    o.optimized_model_filepath, o.graph_optimization_level = str(path), nacre.GraphOptimizationLevel.ORT_DISABLE_ALL
    if entry:
        o.add_session_config_entry("session.save_model_format", entry)
    nacre.InferenceSession(model, o)
    return path


def agree(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        if np.asarray(x).dtype == np.float32:
            close(x, y, "ort_f32")
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", MODELS)
def test_both_engines_on_both_files(name, tmp_path):
    text, feeds = MODELS[name]
    model = parser.parse_model(f"{HEAD} {text}")
    del model.graph.value_info[:]
    model = model.SerializeToString()
    want = onnxruntime.InferenceSession(model).run(None, feeds)
    theirs, own = written_by_ort(model, tmp_path / "theirs.ort"), written(model, tmp_path / "own.ort")
    agree(nacre.InferenceSession(theirs).run(None, feeds), want)
    agree(nacre.InferenceSession(theirs.read_bytes()).run(None, feeds), want)
    agree(nacre.InferenceSession(own).run(None, feeds), want)
    agree(onnxruntime.InferenceSession(str(own)).run(None, feeds), want)
    again = written(str(theirs), tmp_path / "again.ort")  # their file, read and written
    agree(onnxruntime.InferenceSession(str(again)).run(None, feeds), want)


@pytest.mark.parametrize("level", ["ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_what_ort_optimized(level, tmp_path):
    rng = np.random.default_rng(3)
    model = parser.parse_model(
        f"{HEAD} g (float[1, 3, 8, 8] x, float[16, 3, 3, 3] w, float[16] b) => (float[1, 16, 4, 4] y) {{"
        "c = Conv <pads = [1, 1, 1, 1]> (x, w, b)  r = Relu(c)"
        " y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }")
    for name, dims in (("w", (16, 3, 3, 3)), ("b", (16,))):
        model.graph.initializer.append(numpy_helper.from_array(rng.random(dims, np.float32), name))
    for _ in range(2):
        model.graph.input.pop()
    bytes_, feeds = model.SerializeToString(), {"x": rng.random((1, 3, 8, 8), np.float32)}
    path = written_by_ort(bytes_, tmp_path / "m.ort", getattr(onnxruntime.GraphOptimizationLevel, level))
    want = onnxruntime.InferenceSession(str(path)).run(None, feeds)
    close(nacre.InferenceSession(path).run(None, feeds)[0], want[0], "ort_f32")


def initializer_of(kind):
    if kind == TensorProto.STRING:
        return helper.make_tensor("w", kind, [3], [b"one", b"", b"three \xc3\xa9"])
    bits = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}.get(TensorProto.DataType.Name(kind))
    size = 2 if bits else helper.tensor_dtype_to_np_dtype(kind).itemsize * 3
    if kind == TensorProto.BOOL:
        return helper.make_tensor("w", kind, [3], b"\1\0\1", raw=True)
    data = bytes([0x21, 0x03][:(3 * bits + 7) // 8]) if bits else bytes(range(1, size + 1))
    return helper.make_tensor("w", kind, [3], data, raw=True)


@pytest.mark.parametrize("kind", [k for k in TensorProto.DataType.values() if k and TensorProto.DataType.Name(k) in {
    "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE", "UINT32",
    "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
    "UINT4", "INT4", "FLOAT4E2M1"}], ids=TensorProto.DataType.Name)
def test_every_type_of_initializer(kind, tmp_path):
    """Through our file and back the bytes stay; where onnxruntime has the type in files, through its own too."""
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [],
                              [helper.make_tensor_value_info("y", kind, [3])], [initializer_of(kind)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    files = [written(model.SerializeToString(), tmp_path / "own.ort")]
    try:
        files.append(written_by_ort(model.SerializeToString(), tmp_path / "theirs.ort"))
    except Exception as e:  # it has no kernel for this type, or does not write it
        assert "NOT_IMPLEMENTED" in str(e) or "NotImplemented" in str(e) or "supported" in str(e), e
    for file in files:
        back = onnx.load(written(str(file), tmp_path / "back.onnx"))
        tensor = back.graph.initializer[0]
        assert tensor.data_type == kind and list(tensor.dims) == [3]
        want = model.graph.initializer[0]
        assert tensor.raw_data == want.raw_data and list(tensor.string_data) == list(want.string_data)


def test_sparse_initializers(tmp_path):
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [2], [1, 5])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])])
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    want = X + np.float32([[0, 1.5, 0], [0, 0, -2]])
    for file in (written_by_ort(model, tmp_path / "theirs.ort"), written(model, tmp_path / "own.ort")):
        np.testing.assert_array_equal(nacre.InferenceSession(file).run(None, {"x": X})[0], want)
        np.testing.assert_array_equal(onnxruntime.InferenceSession(str(file)).run(None, {"x": X})[0], want)


def relu():
    return parser.parse_model(f"{HEAD} g (float[n, 3] x) => (float[n, 3] y) {{ a = Neg(x)  y = Relu(a) }}")


def test_the_header_stays(tmp_path):
    model = relu()
    model.producer_name, model.producer_version, model.domain, model.model_version = "maker", "1.2", "house", 7
    model.doc_string, model.graph.doc_string = "what it is", "what it does"
    helper.set_model_props(model, {"key": "value", "empty": ""})
    own = written(model.SerializeToString(), tmp_path / "m.ort")
    for session in (nacre.InferenceSession(own), onnxruntime.InferenceSession(str(own))):
        meta = session.get_modelmeta()
        assert (meta.producer_name, meta.domain, meta.version) == ("maker", "house", 7)
        assert meta.description == "what it is" and meta.custom_metadata_map == {"key": "value", "empty": ""}
        assert meta.graph_description == "what it does"


def test_which_format_is_written(tmp_path):
    model = relu().SerializeToString()
    assert written(model, tmp_path / "a.ort").read_bytes()[4:8] == b"ORTM"
    assert written(model, tmp_path / "b.model", "ORT").read_bytes()[4:8] == b"ORTM"
    onnx.checker.check_model(onnx.load_from_string(written(model, tmp_path / "c.ort", "ONNX").read_bytes()))
    onnx.checker.check_model(str(written(model, tmp_path / "d.onnx")))
    with pytest.raises(nacre.InvalidArgument, match="save_model_format: expected ONNX or ORT, got 'TFLITE'"):
        written(model, tmp_path / "e", "TFLITE")


def test_convert_from_the_command_line(tmp_path):
    onnx.save(relu(), tmp_path / "m.onnx")

    def nacre_says(*args):
        return subprocess.run([str(PROGRAM), *map(str, args)], capture_output=True, text=True)

    assert nacre_says("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.ort").returncode == 0
    assert nacre_says("convert", tmp_path / "m.ort", "-o", tmp_path / "back.onnx").returncode == 0
    onnx.checker.check_model(str(tmp_path / "back.onnx"), full_check=True)
    assert [n.op_type for n in onnx.load(tmp_path / "back.onnx").graph.node] == ["Neg", "Relu"]
    want = onnxruntime.InferenceSession(str(tmp_path / "m.ort")).run(None, {"x": X})[0]
    np.testing.assert_array_equal(want, np.maximum(-X, 0))
    assert nacre_says("run", tmp_path / "m.ort").returncode == 0
    assert nacre_says("convert", tmp_path / "m.onnx").returncode == 2
    said = nacre_says("convert", tmp_path / "m.onnx", "-o", tmp_path / "n.ort", "--external-data", "w")
    assert said.returncode == 1 and "has no external data" in said.stderr


def test_what_the_format_cannot_say(tmp_path):
    text = ('g (float[n, 3] x) => (bool y) { o = Optional(x)  y = OptionalHasElement(o) }')
    with pytest.raises(Exception, match="no word for optional and sparse types"):
        written(parser.parse_model(f"{HEAD} {text}").SerializeToString(), tmp_path / "m.ort")
    assert not Path(tmp_path / "m.ort").exists()


def test_damaged_files(tmp_path):
    """Every cut and many changed bytes: a clear error, or a model that says something else; never a crash."""
    text, _ = MODELS["captures in branches"]
    whole = written_by_ort(parser.parse_model(f"{HEAD} {text}").SerializeToString(), tmp_path / "m.ort").read_bytes()
    told = 0
    for at in range(8, len(whole), 7):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xff]) + whole[at + 1:],
                        whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4:]):
            try:
                nacre.InferenceSession(damaged)
            except UnicodeDecodeError:  # the name of an input: Python has no such text, in ONNX files neither
                pass
            except (nacre.InvalidProtobuf, nacre.InvalidGraph, nacre.NotImplemented, nacre.Fail,
                    nacre.InvalidArgument) as e:
                told += 1
                assert str(e).startswith("[NacreError]")
    assert told > len(whole) // 14
