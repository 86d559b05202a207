"""Adapter files: what onnxruntime writes is read, what is written onnxruntime reads; damaged ones are refused; runs are
fed an active adapter's tensors. And options that a model's metadata brings."""
import random

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

TENSORS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.int64([5]), "half": np.float16([[1], [2]]),
           "none": np.zeros((0, 4), np.int8), "a longer name é": np.uint8([1, 2, 3])}


def written(ort, path, tensors=TENSORS):
    made = ort.AdapterFormat()
    made.set_adapter_version(3)
    made.set_model_version(7)
    made.set_parameters({k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in tensors.items()})
    made.export_adapter(str(path))
    return path


def read(ort, path):
    made = ort.AdapterFormat.read_adapter(str(path))
    return ((made.get_format_version(), made.get_adapter_version(), made.get_model_version()),
            {k: v.numpy() for k, v in made.get_parameters().items()})


@pytest.mark.parametrize("writer, reader", [(nacre, onnxruntime), (onnxruntime, nacre), (nacre, nacre)])
@pytest.mark.parametrize("tensors", [TENSORS, {}])
def test_files_are_the_same(writer, reader, tensors, tmp_path):
    versions, found = read(reader, written(writer, tmp_path / "a", tensors))
    assert versions == (1, 3, 7) and found.keys() == tensors.keys()
    for name, want in tensors.items():
        assert found[name].dtype == want.dtype and found[name].shape == want.shape
        assert np.array_equal(found[name], want)


def test_damaged_files(tmp_path):
    """Every cut, and bytes changed at random: an error that says so, or tensors of some kind, never anything else."""
    whole = written(onnxruntime, tmp_path / "a").read_bytes()
    draw, refused = random.Random(1), 0
    damaged = [whole[:n] for n in range(0, len(whole), 5)]
    for _ in range(300):
        one = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            one[draw.randrange(len(one))] = draw.randrange(256)
        damaged.append(bytes(one))
    for data in damaged:
        (tmp_path / "bad").write_bytes(data)
        try:
            nacre.AdapterFormat.read_adapter(tmp_path / "bad")
        except RuntimeError as e:
            refused += "valid lora parameter format" in str(e)
    assert refused > len(damaged) // 3


def test_an_active_adapter(tmp_path):
    feeds = {"x": np.float32([[5, 1, 2]])}
    results = []
    for ort in (nacre, onnxruntime):
        session = ort.InferenceSession(package.affine(), providers=["CPUExecutionProvider"])
        adapter, options = ort.LoraAdapter(), ort.RunOptions()
        adapter.Load(str(written(ort, tmp_path / "b", {"b": np.float32([100, 200])})))
        options.add_active_adapter(adapter)
        results.append([session.run(None, feeds)[0], session.run(None, feeds, options)[0],
                        session.run(None, {**feeds, "b": np.float32([0, 0])}, options)[0]])
        other, options = ort.LoraAdapter(), ort.RunOptions()
        other.Load(str(written(ort, tmp_path / "c", {"nothing": np.float32([1])})))
        options.add_active_adapter(other)
        with pytest.raises(Exception) as caught:
            session.run(None, feeds, options)
        assert type(caught.value).__name__ == "InvalidArgument"
    assert np.array_equal(results[0], results[1]) and not np.array_equal(results[0][0], results[0][1])
    with pytest.raises(TypeError):
        nacre.RunOptions().add_active_adapter(3)


# ---- options from a model's metadata ----

def told(ort, path, **kwargs):
    try:
        o = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"], **kwargs).get_session_options()
    except Exception as e:
        return type(e).__name__
    return (o.intra_op_num_threads, o.inter_op_num_threads, int(o.execution_mode), int(o.graph_optimization_level),
            o.enable_profiling)


@pytest.mark.parametrize("config", [
    '{"session_options": {"intra_op_num_threads": 3, "inter_op_num_threads": 5, "execution_mode": 1, '
    '"graph_optimization_level": 1, "enable_profiling": 0}}', '{"session_options": {"nonsense": 3}}', '{"x": 1}', "bad",
    '{"session_options": {"intra_op_num_threads": "a"}}', '{"session_options": {"graph_optimization_level": 57}}',
    '{"session_options": {"execution_mode": 9}}', '{"session_options": {"enable_profiling": 5}}',
    '{"session_options": []}'])
def test_options_of_a_model(config, tmp_path, monkeypatch):
    model = onnx.load_from_string(package.affine())
    helper.set_model_props(model, {"ort_config": config})
    onnx.save(model, tmp_path / "m.onnx")
    own = nacre.SessionOptions()
    own.intra_op_num_threads = 2
    assert told(nacre, tmp_path / "m.onnx", sess_options=own)[0] == 2
    asked = told(nacre, tmp_path / "m.onnx", sess_options=own, read_config_from_model=1)
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    assert asked == told(nacre, tmp_path / "m.onnx") == told(onnxruntime, tmp_path / "m.onnx")


# ---- who runs what; arguments that name providers ----

def test_which_provider_runs_which_node():
    options = nacre.SessionOptions()
    with pytest.raises(nacre.Fail, match="must be set to"):
        nacre.InferenceSession(package.affine(), options).get_provider_graph_assignment_info()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for provider in ("CPUExecutionProvider", "GuardExecutionProvider"):
        session = nacre.InferenceSession(package.affine(), options, providers=[provider])
        found = [(part.ep_name, n.op_type) for part in session.get_provider_graph_assignment_info()
                 for n in part.get_nodes()]
        assert [op for ep, op in found if ep == provider and op != "Copy"] == ["Gemm", "Relu", "Neg"]


@pytest.mark.parametrize("arguments", [
    (None, None), ([], None), (["A"], None), ([("B", {"k": 1})], None), (["A", "B"], [{}, {1: 2}]), (["A", "A"], None),
    ("A", None), (3, None), (["A"], 3), (["A"], []), ([("A", {})], [{}]), (["A"], ["x"]), ([3], None),
    ([("A",)], None)])
@pytest.mark.filterwarnings("ignore")
def test_provider_arguments(arguments):
    from nacre.capi import onnxruntime_inference_collection as mine
    from onnxruntime.capi import onnxruntime_inference_collection as theirs

    def result(module):
        try:
            return module.check_and_normalize_provider_args(*arguments, ["A"])
        except Exception as e:
            return type(e).__name__, str(e)
    assert result(mine) == result(theirs)


def test_kinds_of_devices():
    from nacre.capi import onnxruntime_inference_collection as mine
    from onnxruntime.capi import onnxruntime_inference_collection as theirs
    for kind in ("cpu", "cuda", "gpu", "npu", "dml", "webgpu", "cann"):
        a, b = (o.OrtDevice.make(kind, 1) for o in (nacre, onnxruntime))
        assert [a.device_type(), a.device_vendor_id(), a.device_mem_type(), a.device_id()] == \
               [b.device_type(), b.device_vendor_id(), b.device_mem_type(), b.device_id()], kind
        assert mine.get_ort_device_type(kind) == theirs.get_ort_device_type(kind)
        assert mine.get_vendor_id_for_device_type(kind) == theirs.get_vendor_id_for_device_type(kind)
