"""ModelCompiler and what is asked of compiled models: the same calls on onnxruntime and on nacre, the same answers."""
import os

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto as T, helper, numpy_helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.capi import onnxruntime_pybind11_state as mine_state  # noqa: E402
from onnxruntime.capi import onnxruntime_pybind11_state as their_state  # noqa: E402

BOTH = pytest.mark.parametrize("rt", [onnxruntime, nacre], ids=["onnxruntime", "nacre"])
STATES = pytest.mark.parametrize("state", [their_state, mine_state], ids=["onnxruntime", "nacre"])
X = np.arange(48, dtype=np.float32).reshape(6, 8)


def model():
    """y = (x + w) - 0 + small: an Identity and a constant sum for levels to remove."""
    w, small = np.full(X.shape, 2, np.float32), np.float32([1] * 8)
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Identity", ["a"], ["b"]),
             helper.make_node("Add", ["b", "small"], ["y"])]
    value = [helper.make_tensor_value_info(n, T.FLOAT, X.shape) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], [numpy_helper.from_array(w, "w"),
                                                                numpy_helper.from_array(small, "small")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "m.onnx")
    return "m.onnx"


def computes(rt, source):
    got = rt.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]
    np.testing.assert_array_equal(got, X + 3)


@BOTH
def test_ways_to_write(rt, path):
    options = rt.SessionOptions()
    rt.ModelCompiler(options, path, embed_compiled_data_into_model=True).compile_to_file("out.onnx")
    computes(rt, "out.onnx")
    computes(rt, rt.ModelCompiler(options, model().SerializeToString()).compile_to_bytes())
    parts = []
    rt.ModelCompiler(options, path).compile_to_stream(parts.append)
    computes(rt, b"".join(parts))
    assert not options.optimized_model_filepath
    assert options.graph_optimization_level == rt.GraphOptimizationLevel.ORT_ENABLE_ALL


def test_beside_the_input(path):
    nacre.ModelCompiler(nacre.SessionOptions(), path).compile_to_file()
    computes(nacre, "m_ctx.onnx")


@BOTH
def test_levels(rt, path):
    def ops(**level):
        made = rt.ModelCompiler(rt.SessionOptions(), path, **level).compile_to_bytes()
        return [n.op_type for n in onnx.load_from_string(made).graph.node]
    assert ops() == ["Add", "Identity", "Add"]
    assert "Identity" not in ops(graph_optimization_level=rt.GraphOptimizationLevel.ORT_ENABLE_BASIC)


@BOTH
def test_what_is_refused(rt, path):
    def raises(what, match, *source, to="new.onnx", **more):
        with pytest.raises(what, match=match):
            rt.ModelCompiler(rt.SessionOptions(), *source, **more).compile_to_file(to)
    raises(rt.capi.onnxruntime_pybind11_state.InvalidArgument, "does not exist", "nothing.onnx")
    raises(TypeError, "Unable to load from type", 3)
    raises(ValueError, "empty", b"")
    raises(ValueError, "empty", "")
    raises(rt.capi.onnxruntime_pybind11_state.InvalidArgument, "must not be empty", path, to="")
    os.mkdir("folder")
    raises(rt.capi.onnxruntime_pybind11_state.InvalidArgument, "folder", path, to="folder")
    fail, flags = rt.capi.onnxruntime_pybind11_state.Fail, rt.OrtCompileApiFlags
    raises(fail, "Unable to compile any nodes", path, flags=flags.ERROR_IF_NO_NODES_COMPILED)
    assert not os.path.exists("new.onnx")
    raises(fail, "exists already", path, to="m.onnx", flags=flags.ERROR_IF_OUTPUT_FILE_EXISTS)
    raises(ValueError, "both", path, external_initializers_file_path="w.bin",
           get_initializer_location_func=lambda name, value, known: None)


@BOTH
def test_a_stream_that_fails(rt, path):
    def write(part):
        raise OSError("no room left")
    compiler = rt.ModelCompiler(rt.SessionOptions(), path)
    with pytest.raises(rt.capi.onnxruntime_pybind11_state.Fail, match="no room left"):
        compiler.compile_to_stream(write)
    with pytest.raises(TypeError):
        compiler.compile_to_stream(3)


@BOTH
def test_large_initializers_in_a_file(rt, path):
    rt.ModelCompiler(rt.SessionOptions(), path, external_initializers_file_path="w.bin",
                     external_initializers_size_threshold=100).compile_to_file("out.onnx")
    assert os.path.getsize("w.bin") == X.nbytes
    computes(rt, "out.onnx")


@BOTH
def test_a_function_places_initializers(rt, path):
    seen = {}

    def place(name, value, known):
        seen[name] = (value.shape(), known)
        if value.tensor_size_in_bytes() < 100:
            return None
        with open("own.bin", "wb") as f:
            f.write(bytes(16) + value.numpy().tobytes())
        return rt.OrtExternalInitializerInfo("own.bin", 16, value.tensor_size_in_bytes())
    rt.ModelCompiler(rt.SessionOptions(), path, get_initializer_location_func=place).compile_to_file("out.onnx")
    assert seen == {"w": ([6, 8], None), "small": ([8], None)}
    computes(rt, "out.onnx")

    def keep(name, value, known):
        seen[name] = known and (known.filepath, known.file_offset, known.byte_size)
        return known
    rt.ModelCompiler(rt.SessionOptions(), "out.onnx", get_initializer_location_func=keep).compile_to_file("again.onnx")
    assert seen["w"] and seen["w"][0].endswith("own.bin") and seen["w"][1:] == (16, X.nbytes) and seen["small"] is None
    computes(rt, "again.onnx")


# ---- compatibility ----

@STATES
def test_what_a_provider_wrote_of_itself(state, tmp_path):
    made = model()
    helper.set_model_props(made, {"ep_compatibility_info.Some": "v2", "other": "x"})
    data = made.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    of_bytes, of_file = state.get_compatibility_info_from_model_bytes, state.get_compatibility_info_from_model
    assert of_bytes(data, "Some") == of_file(str(tmp_path / "m.onnx"), "Some") == "v2"
    assert of_bytes(data, "Other") is None and of_bytes(model().SerializeToString(), "Some") is None
    for call in (lambda: of_bytes(b"", "Some"), lambda: of_bytes(data, ""),
                 lambda: of_bytes(b"no model at all", "Some"), lambda: of_bytes(data[:-3], "Some"),
                 lambda: of_file("nothing.onnx", "Some"), lambda: of_file("", "Some"), lambda: of_file("m.onnx", "")):
        with pytest.raises(RuntimeError):
            call()


@STATES
def test_devices_of_providers(state):
    cpu = [d for d in state.get_ep_devices() if d.ep_name == "CPUExecutionProvider"]
    fits = state.get_model_compatibility_for_ep_devices
    assert fits(cpu, "anything") == state.OrtCompiledModelCompatibility.EP_NOT_APPLICABLE
    with pytest.raises(RuntimeError):
        fits([], "anything")
    with pytest.raises(TypeError):
        fits(cpu, None)
    device = next(d for d in state.get_hardware_devices() if d.type.value == 0)
    told = state.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", device)
    assert told == {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    for name in ("", "NoProvider"):
        with pytest.raises(state.InvalidArgument, match="No valid factory"):
            state.get_hardware_device_ep_incompatibility_details(name, device)


def test_a_device_of_another_kind():
    gpu = nacre.OrtHardwareDevice(nacre.OrtHardwareDeviceType.GPU, "", 0, {})
    told = mine_state.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", gpu)
    assert told["reasons_bitmask"] == mine_state.OrtDeviceEpIncompatibilityReason.DEVICE_INCOMPATIBLE
    assert "CPU" in told["notes"]
