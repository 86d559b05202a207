"""Tables of FlatBuffers, .ort files by them, lists of operators and types for small builds, beside onnxruntime's."""
import importlib
import json

import flatbuffers
import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime.quantization.CalTableFlatBuffers import KeyValue as TheirPair, TrtTable as TheirTable
from onnxruntime.tools import ort_format_model as their_format, reduced_build_config_parser as their_parser

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.quantization.CalTableFlatBuffers import KeyValue, TrtTable, table_of  # noqa: E402
from nacre.tools import convert_onnx_models_to_ort, ort_format_model, reduced_build_config_parser  # noqa: E402
from nacre.tools.ort_format_model.ort_flatbuffers_py import fbs  # noqa: E402

THEIRS = "onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs"


def model():
    """Branches, a sequence, constants of several types, attributes of many kinds."""
    def value(name, kind=T.FLOAT, dims=("n", 3)):
        return helper.make_tensor_value_info(name, kind, dims)
    then = helper.make_graph([helper.make_node("Mul", ["h", "h"], ["t"], "mul")], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("OneHot", ["i", "depth", "ends"], ["e0"], "hot", axis=-1),
                               helper.make_node("Cast", ["e0"], ["e"], "cast", to=T.FLOAT)], "else", [], [value("e")])
    nodes = [helper.make_node("Add", ["x", "w"], ["h"], "add"), helper.make_node("Cast", ["x"], ["c"], "c", to=T.BOOL),
             helper.make_node("If", ["yes"], ["f"], "if", then_branch=then, else_branch=other),
             helper.make_node("SplitToSequence", ["f"], ["s"], "split", axis=1, keepdims=1),
             helper.make_node("SequenceLength", ["s"], ["k"], "count"),
             helper.make_node("Clip", ["f", "", "six"], ["q"], "clip"),
             helper.make_node("LabelEncoder", ["i"], ["y"], "labels", domain="ai.onnx.ml", keys_int64s=[1, 2],
                              values_floats=[0.5, 1.5])]
    i = {"w": np.float32([[1, 2, 3]]), "six": np.float32(6), "depth": np.int64(3), "ends": np.float32([0, 1])}
    graph = helper.make_graph(nodes, "g", [value("x"), value("yes", T.BOOL, []), value("i", T.INT64, ["n"])],
                              [value("q"), value("y", T.FLOAT, ["n"]), value("c", T.BOOL), value("k", T.INT64, [])],
                              [numpy_helper.from_array(a, n) for n, a in i.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)],
                             ir_version=8, producer_name="test")
    helper.set_model_props(made, {"a": "b"})
    return made


@pytest.fixture(params=["nacre", "onnxruntime"])
def ort_file(request, tmp_path):
    path = tmp_path / "m.ort"
    runtime = {"nacre": nacre, "onnxruntime": onnxruntime}[request.param]
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    runtime.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return path


def told(table, depth=0):
    """Everything that a reader says, by the names of its methods; unions by place."""
    kind, said = type(table), {}
    assert depth < 30
    for name in (n for n in dir(kind) if n[0].isupper() and not n.startswith("GetRootAs")):
        if name in ("Init", "SizeOf") or name.endswith(("BufferHasIdentifier", "IsNone", "AsNumpy", "Length")):
            continue
        if hasattr(kind, name + "Length"):
            count = getattr(table, name + "Length")()
            value = [getattr(table, name)(j) for j in range(count)]
            assert getattr(table, name + "IsNone")() == (count == 0 and not _there(table, name))
            if hasattr(kind, name + "AsNumpy") and count:
                assert list(getattr(table, name + "AsNumpy")()) == value
        else:
            value = getattr(table, name)()
        said[name] = [_one(v, depth) for v in value] if isinstance(value, list) else _one(value, depth)
    return said


def _there(table, name):
    return not getattr(table, name + "IsNone")()


def _one(value, depth):
    if hasattr(value, "Bytes"):
        return value.Pos
    return told(value, depth + 1) if hasattr(value, "_tab") else value


def test_the_same_is_read(ort_file):
    data = ort_file.read_bytes()
    their_session = importlib.import_module(THEIRS + ".InferenceSession").InferenceSession
    mine, theirs = fbs.InferenceSession.InferenceSession, their_session
    assert mine.InferenceSessionBufferHasIdentifier(data, 0) and not mine.InferenceSessionBufferHasIdentifier(data, 4)
    got, want = mine.GetRootAsInferenceSession(data, 0), theirs.GetRootAsInferenceSession(bytearray(data), 0)
    assert told(got) == told(want)
    graph = got.Model().Graph()
    assert graph.NodesLength() >= 7 and told(graph.NodeEdges(0)) is not None


def edges(module, edge, builder):
    module.NodeEdgeStartInputEdgesVector(builder, 2)
    edge.CreateEdgeEnd(builder, 3, -1, 2)
    edge.CreateEdgeEnd(builder, 4, dstArgIndex=5, srcArgIndex=1)
    inputs = builder.EndVector()
    module.Start(builder)
    module.AddNodeIndex(builder, nodeIndex=9)
    module.AddInputEdges(builder, inputs)
    return module.NodeEdgeEnd(builder)


def tensor(module, _, builder):
    name = builder.CreateString("t")
    module.StartDimsVector(builder, 2)
    for n in (5, 7):
        builder.PrependInt64(n)
    dims = builder.EndVector()
    raw = builder.CreateByteVector(b"abc")
    module.TensorStart(builder)
    for put, value in ((module.TensorAddName, name), (module.AddDims, dims), (module.AddRawData, raw),
                       (module.AddDataType, 1), (module.AddExternalDataOffset, 8)):
        put(builder, value)
    return module.End(builder)


@pytest.mark.parametrize("name,write", [("NodeEdge", edges), ("Tensor", tensor)])
def test_the_same_is_written(name, write):
    written = []
    for package_name in (fbs.__name__, THEIRS):
        builder = flatbuffers.Builder(0)
        builder.Finish(write(*(importlib.import_module(f"{package_name}.{n}") for n in (name, "EdgeEnd")), builder))
        written.append(bytes(builder.Output()))
    assert written[0] == written[1]
    readers = [getattr(importlib.import_module(f"{p}.{name}"), name).GetRootAs(bytearray(written[0]), 0)
               for p in (fbs.__name__, THEIRS)]
    assert told(readers[0]) == told(readers[1])


def test_numbers_of_enumerations():
    for name in ("AttributeType", "TensorDataType", "TypeInfoValue", "NodeType", "ArgType", "DimensionValueType"):
        mine, theirs = ({n: v for n, v in vars(getattr(importlib.import_module(f"{p}.{name}"), name)).items()
                         if n[0] != "_"} for p in (fbs.__name__, THEIRS))
        assert mine == theirs


# ---- TensorRT's table ----

def pairs(module, data):
    table = module.TrtTable.GetRootAs(bytearray(data), 0)
    return [(table.Dict(i).Key(), table.Dict(i).Value()) for i in range(table.DictLength())]


@pytest.mark.parametrize("texts", [{}, {"x": "1.5"}, {f"name{'y' * i}": str(i) * i for i in range(9)}], ids=len)
def test_tables_of_ranges(texts):
    want = [(k.encode(), v.encode()) for k, v in texts.items()]
    assert pairs(TrtTable, table_of(texts)) == pairs(TheirTable, table_of(texts)) == want
    written = []
    for table, pair in ((TrtTable, KeyValue), (TheirTable, TheirPair)):
        builder = flatbuffers.Builder(64)
        made = []
        for k, v in texts.items():
            flat = builder.CreateString(k), builder.CreateString(v)
            pair.KeyValueStart(builder)
            pair.KeyValueAddKey(builder, flat[0])
            pair.AddValue(builder, flat[1])
            made.append(pair.KeyValueEnd(builder))
        table.TrtTableStartDictVector(builder, len(made))
        for offset in reversed(made):
            builder.PrependUOffsetTRelative(offset)
        vector = builder.EndVector()
        table.Start(builder)
        table.AddDict(builder, vector)
        builder.Finish(table.TrtTableEnd(builder))
        written.append(bytes(builder.Output()))
    assert written[0] == written[1] and pairs(TrtTable, written[0]) == want


def test_ranges_in_files(tmp_path):
    from nacre.quantization import CalibrationMethod, TensorData, TensorsData, write_calibration_table
    data = {n: TensorData(lowest=np.float32(a), highest=np.float32(b)) for n, a, b in (("b", -3, 1), ("a", 0, 2))}
    write_calibration_table(TensorsData(CalibrationMethod.MinMax, data), str(tmp_path))
    assert pairs(TheirTable, (tmp_path / "calibration.flatbuffers").read_bytes()) == [(b"a", b"2.0"), (b"b", b"3.0")]


# ---- operators and types ----

@pytest.mark.parametrize("types", [True, False])
def test_lists_of_operators(ort_file, tmp_path, types):
    made = []
    for module in (ort_format_model, their_format):
        module.create_config_from_models([ort_file], tmp_path / "in" / "c.config", types)
        made.append((tmp_path / "in" / "c.config").read_text())
    assert made[0] == made[1] and "SplitToSequence" in made[0] and ('"custom"' in made[0]) == types
    read = []
    for module in (reduced_build_config_parser, their_parser):
        ops, wanted = module.parse_config(str(tmp_path / "in" / "c.config"), types)
        read.append((ops, wanted and [wanted.is_typed_registration_needed(*q) for q in ASKED], wanted and
                     wanted.get_cpp_entries()))
    assert read[0] == read[1] and (read[0][1] is not None) == types


ASKED = [("ai.onnx", "Add", "float"), ("ai.onnx", "Add", "int64_t"), ("ai.onnx", "Add", "double"),
         ("ai.onnx", "OneHot", "int64_t_float_int64_t"), ("ai.onnx", "OneHot", "float_string_int64_t"),
         ("ai.onnx", "Where", "string"), ("ai.onnx", "Nobody", "float"), ("ai.onnx", "Cast", "float"),
         ("ai.onnx", "Clip", "int8_t")]


@pytest.mark.parametrize("text", [
    'ai.onnx;11,12;Add, Cast{"inputs": {"0": ["float"]}, "outputs": {"0": ["bool"]}},Concat\n# x\n\n'
    'ai.onnx;13;Where{"inputs": {"1": ["std::string"]}},OneHot{"custom": [["float", "std::string", "int64_t"]]}\n'
    'com.microsoft;1;QLinearAdd{"inputs": {"0": ["uint8_t"]}},Gelu',
    "!globally_allowed_types;float,int64_t, std::string\nai.onnx;1;Add", "!no_ops_specified_means_all_ops_are_required",
    "", "ai.onnx;7;QuantizeLinear{\"outputs\": {\"0\": [\"int8_t\"]}},DequantizeLinear,Range"])
@pytest.mark.parametrize("types", [True, False])
def test_lists_are_read(text, types, tmp_path):
    path, read = tmp_path / "c.config", []
    path.write_text(text)
    for module in (reduced_build_config_parser, their_parser):
        ops, wanted = module.parse_config(str(path), types)
        read.append((ops, wanted and [wanted.is_typed_registration_needed(*q) for q in ASKED], wanted and
                     wanted.get_cpp_entries()))
    assert read[0] == read[1]


def test_wrong_lists(tmp_path):
    for text, match in (("ai.onnx;1;Add{\"inputs\"", "no JSON"), ("!globally_allowed_types;quaternion", "quaternion"),
                        ("!globally_allowed_types;float\n!globally_allowed_types;float", "twice"),
                        ("!globally_allowed_types;float\nai.onnx;1;Add{\"inputs\": {\"0\": [\"float\"]}}", "single")):
        (tmp_path / "c").write_text(text)
        with pytest.raises((RuntimeError, ValueError), match=match):
            reduced_build_config_parser.parse_config(str(tmp_path / "c"), True)
    with pytest.raises(ValueError, match="no file"):
        reduced_build_config_parser.parse_config(str(tmp_path / "none"))
    (tmp_path / "m.ort").write_bytes(b"x" * 40)
    with pytest.raises(RuntimeError, match="is no .ort file"):
        ort_format_model.create_config_from_models([tmp_path / "m.ort"], tmp_path / "c", True)


def test_converted_with_types(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    fixed = convert_onnx_models_to_ort.OptimizationStyle.Fixed
    convert_onnx_models_to_ort.convert_onnx_models_to_ort(tmp_path / "m.onnx", tmp_path / "out", [fixed],
                                                          enable_type_reduction=True)
    text = (tmp_path / "out" / "m.required_operators_and_types.config").read_text()
    line = next(t for t in text.splitlines() if "Clip{" in t)
    assert json.loads(line[line.index("Clip{") + 4:line.index("}}", line.index("Clip{")) + 2]) == {
        "inputs": {"0": ["float"]}}
