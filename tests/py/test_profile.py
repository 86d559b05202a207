"""Profiling as onnxruntime's scripts use it, and contents that the caller gives in place of the model's."""
import gc
import json
import time

import numpy as np
import onnx
import onnxruntime as ort
import package
import pytest

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from tolerances import close  # noqa: E402

ort.set_default_logger_severity(4)
X = np.float32([[1, -2, 3], [0, 5, -1]])
BOTH = pytest.mark.parametrize("rt", [nacre, ort], ids=["nacre", "onnxruntime"])


def profiled(rt, tmp_path, data=None, **kwargs):
    o = rt.SessionOptions()
    o.enable_profiling, o.profile_file_prefix = True, str(tmp_path / "prof")
    return rt.InferenceSession(data or package.affine(), o, **kwargs)


@BOTH
def test_a_profile_is_a_list_of_events(rt, tmp_path):
    s = profiled(rt, tmp_path)
    for _ in range(3):
        s.run(None, {"x": X})
    path = s.end_profiling()
    assert path.startswith(str(tmp_path / "prof_")) and path.endswith(".json")
    events = json.load(open(path))
    assert isinstance(events, list) and {e["cat"] for e in events} == {"Session", "Node"}
    for e in events:
        assert {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} <= set(e)
        assert e["ph"] == "X" and e["dur"] >= 0 and e["ts"] >= 0
    assert sum(e["name"] == "model_run" for e in events) == 3
    assert any(e["name"] == "session_initialization" for e in events)
    nodes = [e for e in events if e["cat"] == "Node"]
    assert len(nodes) >= 3 and all(e["name"].endswith("_kernel_time") for e in nodes)
    assert all(e["args"]["op_name"] and e["args"]["provider"] == "CPUExecutionProvider" for e in nodes)
    assert s.end_profiling() == ""
    assert s.run(None, {"x": X})


def test_nodes_lie_within_runs(tmp_path):
    before = time.monotonic_ns()
    s = profiled(nacre, tmp_path)
    begin = time.monotonic_ns()
    assert before <= s.get_profiling_start_time_ns() <= begin
    s.run(None, {"x": X})
    end = time.monotonic_ns()
    events = json.load(open(s.end_profiling()))
    run, = (e for e in events if e["name"] == "model_run")
    low, high = ((t - s.get_profiling_start_time_ns()) / 1000 for t in (begin, end))
    assert low - 1 <= run["ts"] and run["ts"] + run["dur"] <= high + 1
    for e in events:
        if e["cat"] == "Node":
            assert run["ts"] - 2 <= e["ts"] and e["ts"] + e["dur"] <= run["ts"] + run["dur"] + 3


@BOTH
def test_a_session_that_goes_writes_its_profile(rt, tmp_path):
    s = profiled(rt, tmp_path)
    s.run(None, {"x": X})
    del s
    gc.collect()
    file, = tmp_path.glob("prof_*.json")
    assert json.load(open(file))


@BOTH
def test_without_profiling(rt):
    s = rt.InferenceSession(package.affine())
    assert s.end_profiling() == "" and s.get_profiling_start_time_ns() == 0


def test_bindings_and_devices_are_profiled(tmp_path):
    s = profiled(nacre, tmp_path, providers=["GuardExecutionProvider"])
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_output("y")
    s.run_with_iobinding(b)
    events = json.load(open(s.end_profiling()))
    assert sum(e["name"] == "model_run" for e in events) == 1
    assert any(e["args"].get("provider") == "GuardExecutionProvider" for e in events)


# ---- contents that the caller gives ----

W, B = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([10, -20])


def external(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(onnx.load_from_string(package.affine()), path, save_as_external_data=True, location="m.bin",
              size_threshold=0)
    return path


@BOTH
def test_given_initializers(rt, tmp_path):
    o, keep = rt.SessionOptions(), [rt.OrtValue.ortvalue_from_numpy(a) for a in (W, B)]
    o.add_initializer("w", keep[0])
    got, = rt.InferenceSession(package.affine(), o).run(["z"], {"x": X, "b": B})
    close(got, -(X @ W + B), "ort_f32")
    data = external(tmp_path).read_bytes()
    o = rt.SessionOptions()
    o.add_external_initializers(["w", "b"], keep)
    got, = rt.InferenceSession(data, o).run(["z"], {"x": X})
    close(got, -(X @ W + B), "ort_f32")


@BOTH
def test_given_files(rt, tmp_path):
    data, contents = external(tmp_path).read_bytes(), (tmp_path / "m.bin").read_bytes()
    o = rt.SessionOptions()
    o.add_external_initializers_from_files_in_memory(["m.bin"], [contents], [len(contents)])
    got = rt.InferenceSession(data, o).run(None, {"x": X})
    for g, w in zip(got, rt.InferenceSession(package.affine()).run(None, {"x": X})):
        np.testing.assert_array_equal(g, w)


@BOTH
def test_given_initializers_that_do_not_fit(rt, tmp_path):
    path, give, mine = external(tmp_path), rt.OrtValue.ortvalue_from_numpy, rt is nacre
    fail = rt.capi.onnxruntime_pybind11_state.Fail
    for name, value, match in (("q", W, "'q' was given, the model has none" if mine else "initializer with name q"),
                               ("w", W.T.copy(), "'w'.*another type or shape" if mine else "dimensions"),
                               ("w", W.astype(np.float64), "'w'.*another type or shape" if mine else "type")):
        o = rt.SessionOptions()
        o.add_external_initializers([name], [give(value)])
        with pytest.raises(fail, match=match):
            rt.InferenceSession(str(path), o)
    for location in ("m.bin", "other.bin"):
        o = rt.SessionOptions()
        o.add_external_initializers_from_files_in_memory([location], [b"short"], [5])
        with pytest.raises(fail, match="m.bin" if mine and location == "m.bin" else ""):
            rt.InferenceSession(path.read_bytes(), o)
    with pytest.raises(fail):
        rt.InferenceSession(path.read_bytes())
    (tmp_path / "m.bin").unlink()
    with pytest.raises(fail, match="m.bin"):
        rt.InferenceSession(str(path))


def test_given_initializers_on_a_device(tmp_path):
    path = external(tmp_path)
    o = nacre.SessionOptions()
    o.add_initializer("w", nacre.OrtValue.ortvalue_from_numpy(W, "guard"))
    with pytest.raises(Exception, match="host memory"):
        nacre.InferenceSession(str(path), o)


def test_given_memory_is_used_as_it_lies():
    """A model that only looks its initializer up shows what the caller writes there later."""
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    m = package.model([package.node("Gather", "w i", "y")], [package.tensor("i", package.I64, ["n"])],
                      [package.tensor("y", package.F, ["n", 2])], [("w", np.zeros((3, 2), np.float32))])
    o = nacre.SessionOptions()
    o.add_initializer("w", nacre.OrtValue.ortvalue_from_numpy(table))
    s = nacre.InferenceSession(m, o)
    del o
    table[2] = 99
    gc.collect()
    np.testing.assert_array_equal(s.run(None, {"i": np.int64([2, 0])})[0], table[[2, 0]])


# ---- sizes by denotation ----

def denoted(tmp_path):
    m = onnx.load_from_string(package.affine())
    m.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    path = tmp_path / "d.onnx"
    onnx.save(m, path)
    return path


@BOTH
@pytest.mark.parametrize("form", ["path", "bytes"])
def test_dims_by_denotation(rt, form, tmp_path):
    path = denoted(tmp_path)
    for denotation, want in (("DATA_BATCH", 4), ("OTHER", "batch")):
        o = rt.SessionOptions()
        o.add_free_dimension_override_by_denotation(denotation, 4)
        s = rt.InferenceSession(str(path) if form == "path" else path.read_bytes(), o)
        assert s.get_inputs()[0].shape == [want, 3]


def test_libraries_of_onnxruntime_are_named(tmp_path):
    fake = tmp_path / "ops.so"
    fake.write_bytes(b"\x7fELF RegisterCustomOps")
    with pytest.raises(nacre.Fail, match="are for onnxruntime"):
        nacre.SessionOptions().register_custom_ops_library(str(fake))
