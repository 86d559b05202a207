"""Scripts that reach past onnxruntime's Python classes to the native ones, and what they rely on at the edges: the same
calls on onnxruntime and on nacre."""
import gc
import importlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto as T, helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
import nacre.capi._pybind_state  # noqa: E402

BOTH = pytest.mark.parametrize("rt", [onnxruntime, nacre], ids=["onnxruntime", "nacre"])
X = np.float32([[1, 2], [3, 4], [5, 6]])


def model(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def square():
    value = [helper.make_tensor_value_info(n, T.FLOAT, [3, 2]) for n in ("x", "y")]
    return model([helper.make_node("Mul", ["x", "x"], ["y"])], value[:1], value[1:])


@BOTH
def test_the_native_session(rt):
    state = rt.capi._pybind_state
    native = rt.InferenceSession(square(), providers=["CPUExecutionProvider"])._sess
    assert native.inputs_meta[0].name == "x" and native.outputs_meta[0].shape == [3, 2]
    assert native.model_meta.graph_name == "g" and native.overridable_initializers == []
    assert len(native.input_meminfos) == len(native.output_meminfos) == len(native.input_epdevices) == 1
    np.testing.assert_array_equal(native.run(["y"], {"x": X}, None)[0], X * X)
    value = rt.OrtValue.ortvalue_from_numpy(X)
    out = native.run_with_ort_values({"x": value._get_c_value()}, ["y"], state.RunOptions())
    assert isinstance(out, state.OrtValueVector)
    np.testing.assert_array_equal(out[0].numpy(), X * X)
    assert not hasattr(native, "_nothing")


@BOTH
def test_the_native_binding(rt):
    state = rt.capi._pybind_state
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    assert device.device_type() == 0 and device.device_id() == 0
    native = rt.InferenceSession(square(), providers=["CPUExecutionProvider"])._sess
    y = np.zeros_like(X)
    for give in (lambda b: b.bind_input("x", X), lambda b: b.bind_input("x", device, np.float32, [3, 2], X.ctypes.data),
                 lambda b: b.bind_ortvalue_input("x", state.OrtValue.ortvalue_from_numpy(X, device))):
        for take in (lambda b: b.bind_output("y", device),
                     lambda b: b.bind_output("y", device, np.float32, [3, 2], y.ctypes.data)):
            binding = state.SessionIOBinding(native)
            give(binding)
            take(binding)
            native.run_with_iobinding(binding, None)
            assert isinstance(binding.get_outputs(), state.OrtValueVector)
            np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), X * X)
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X * X)
    np.testing.assert_array_equal(y, X * X)


@BOTH
def test_devices_by_numbers(rt):
    device = rt.capi._pybind_state.OrtDevice
    assert device(1, 0, 0x10DE, 3).device_id() == 3 and device(1, 0, 2).device_type() == 1
    made = rt.capi._pybind_state.OrtValue.ortvalue_from_shape_and_type([2, 0], np.int64, device(0, 0, 0))
    assert made.shape() == [2, 0]


def test_a_kind_of_device_that_is_none():
    with pytest.raises(ValueError, match="got 9"):
        nacre.OrtDevice(9, 0, 0)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.uint8, np.int64])
def test_native_values_and_dlpack(rt, dtype):
    """Bools travel as uint8, which the other side is told."""
    state = rt.capi._pybind_state
    x = np.array([[1, 0], [2, 3]]).astype(dtype)
    value = rt.OrtValue.ortvalue_from_numpy(x)
    native = value._ortvalue
    assert native.device_name() == "Cpu" and value.device_name() == "cpu"
    assert native.__dlpack_device__() == (1, 0) and native.data_ptr() == x.ctypes.data
    for give in (native.to_dlpack, native.__dlpack__):
        capsule = give()
        assert state.is_dlpack_uint8_tensor(capsule) == (dtype in (np.bool_, np.uint8))
        back = state.OrtValue.from_dlpack(capsule, dtype == np.bool_)
        assert isinstance(back, state.OrtValue) and back.data_ptr() == x.ctypes.data
        assert back.numpy().dtype == dtype and np.array_equal(back.numpy(), x)
    again = rt.OrtValue(native)
    assert again.data_ptr() == x.ctypes.data and again.device_name() == "cpu"


@BOTH
def test_native_vectors(rt):
    torch = pytest.importorskip("torch")
    state = rt.capi._pybind_state
    arrays, vector = [X, X > 2, X.astype(np.int64)], state.OrtValueVector()
    vector.reserve(3)
    for x in arrays:
        vector.push_back(rt.OrtValue.ortvalue_from_numpy(x)._ortvalue)
    assert len(vector) == 3 and vector.bool_tensor_indices() == [1]
    assert [vector.element_type_at(i) for i in range(3)] == [v.element_type() for v in vector] == [1, 9, 7]
    tensors = vector.to_dlpacks(torch.utils.dlpack.from_dlpack)
    assert isinstance(tensors, list) and [t.dtype for t in tensors] == [torch.float32, torch.uint8, torch.int64]
    assert [t.data_ptr() for t in tensors] == [x.ctypes.data for x in arrays]
    capsules = vector.to_dlpacks(None)
    assert [state.is_dlpack_uint8_tensor(c) for c in (*capsules, vector.dlpack_at(1))] == [False, True, False, True]
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    theirs = [torch.arange(6.0).reshape(2, 3), torch.tensor([True, False])]
    vector.push_back_batch(theirs, [t.data_ptr() for t in theirs], [np.float32, np.bool_], [[2, 3], [2]], [device] * 2)
    assert len(vector) == 5 and vector.bool_tensor_indices() == [1, 4]
    assert vector[3].data_ptr() == theirs[0].data_ptr() and np.array_equal(vector[3].numpy(), theirs[0].numpy())


def test_a_batch_of_tensors_lives_in_the_vector():
    torch = pytest.importorskip("torch")
    state, device = nacre.capi._pybind_state, nacre.OrtDevice(0, 0, 0)
    vector, tensor = state.OrtValueVector(), torch.arange(1000.0)
    vector.push_back_batch([tensor], [tensor.data_ptr()], [np.float32], [[1000]], [device])
    del tensor
    gc.collect()
    assert np.array_equal(vector[0].numpy(), np.arange(1000, dtype=np.float32))
    with pytest.raises(ValueError, match="got 1 tensors, 2 addresses"):
        vector.push_back_batch([0], [0, 0], [np.float32], [[1]], [device])


@BOTH
@pytest.mark.parametrize("dims", [(1, 8, 0, 4), (0,), (0, 4), (4, 0)])
def test_dlpack_of_nothing(rt, dims):
    whole = np.zeros(dims, np.float32)
    assert list(rt.capi._pybind_state.OrtValue.from_dlpack(whole.__dlpack__(), False).shape()) == list(dims)


def test_dlpack_of_nothing_with_any_strides():
    torch = pytest.importorskip("torch")
    nothing = torch.empty_strided((2, 0, 3), (7, 5, 11))
    assert nacre.OrtValue.from_dlpack(nothing).shape() == [2, 0, 3]


def of_a_map():
    kind = onnx.TypeProto()
    kind.map_type.key_type = T.INT64
    kind.map_type.value_type.tensor_type.elem_type = T.FLOAT
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[0, 1, 2])
    return model([node], [helper.make_value_info("x", kind)], [helper.make_tensor_value_info("y", T.FLOAT, [1, 3])])


@BOTH
def test_a_map_in_the_backend(rt):
    """A dict is the value of an only input that is a map."""
    backend = importlib.import_module(rt.__name__ + ".backend")
    got = backend.prepare(onnx.load_from_string(of_a_map())).run({0: 2.5, 2: 1.0})
    np.testing.assert_array_equal(got[0], np.float32([[2.5, 0, 1]]))


@BOTH
def test_keys_of_another_kind(rt):
    """A map of int64 to float takes whole numbers of any class, and no texts."""
    session = rt.InferenceSession(of_a_map())
    for key in (int, np.int64, np.int32):
        for value in (float, np.float32, np.float64):
            got = session.run(None, {"x": {key(0): value(2.5), key(2): value(1)}})[0]
            np.testing.assert_array_equal(got, np.float32([[2.5, 0, 1]]))
    with pytest.raises(RuntimeError, match="Unexpected key type  <class 'str'>, it cannot be linked to C type int64_t"):
        session.run(None, {"x": {0: 1.0, "a": 2.0}})


@BOTH
def test_a_provider_that_is_none(rt):
    session = rt.InferenceSession(square(), providers=["CPUExecutionProvider"])
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Foo"):
        session.set_providers(["Foo"])


@BOTH
def test_nodes_keep_their_names(rt):
    value = [helper.make_tensor_value_info(n, T.FLOAT, [2]) for n in ("x", "y")]
    nodes = [helper.make_node("Add", ["x", "x"], ["a"], name="first"),
             helper.make_node("Mul", ["a", "x"], ["b"], name="second"),
             helper.make_node("Sub", ["b", "a"], ["y"], name="third")]
    options = rt.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = rt.InferenceSession(model(nodes, value[:1], value[1:]), options, providers=["CPUExecutionProvider"])
    told = [(part.ep_name, n.domain, n.op_type, n.name) for part in session.get_provider_graph_assignment_info()
            for n in part.get_nodes()]
    assert sorted(told, key=lambda t: t[3]) == [("CPUExecutionProvider", "", op, name) for op, name in
                                                (("Add", "first"), ("Mul", "second"), ("Sub", "third"))]


def test_nodes_with_bodies_are_told_once():
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Exp", ["n"], ["e"])], "b", [],
                             [helper.make_tensor_value_info("e", T.FLOAT, [2])])
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=body, else_branch=body)
    value = helper.make_tensor_value_info
    made = model([node], [value("x", T.FLOAT, [2]), value("c", T.BOOL, [])], [value("y", T.FLOAT, [2])])
    options = nacre.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    parts = nacre.InferenceSession(made, options).get_provider_graph_assignment_info()
    assert [n.op_type for part in parts for n in part.get_nodes()] == ["If"]


@BOTH
def test_links_that_leave_the_folder(rt, tmp_path):
    """A model behind a link finds data beside the link or beside the file, and nowhere else."""
    for data in ("files/data.bin", "files/deep/data.bin", "elsewhere/data.bin"):
        top = tmp_path / data.replace("/", "_")
        for folder in ("files/deep", "elsewhere", "links"):
            (top / folder).mkdir(parents=True)
        (top / data).write_bytes(X.tobytes())
        tensor = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=X.shape, data_location=T.EXTERNAL)
        for key, text in (("location", "own.bin"), ("offset", "0"), ("length", str(X.nbytes))):
            tensor.external_data.add(key=key, value=text)
        value = [helper.make_tensor_value_info(n, T.FLOAT, [3, 2]) for n in ("x", "y")]
        nodes = [helper.make_node("Constant", [], ["c"], value=tensor), helper.make_node("Add", ["x", "c"], ["y"])]
        (top / "files/model").write_bytes(model(nodes, value[:1], value[1:]))
        (top / "links/model.onnx").symlink_to(top / "files/model")
        (top / "links/own.bin").symlink_to(top / data)
        if data.startswith("files"):
            got = rt.InferenceSession(str(top / "links/model.onnx")).run(None, {"x": X})[0]
            np.testing.assert_array_equal(got, X + X)
        else:
            with pytest.raises(Exception, match="External data path validation failed"):
                rt.InferenceSession(str(top / "links/model.onnx"))


THREADS = """
import sys
sys.path[:0] = {path!r}
import {name} as rt
def made(shared):
    options = rt.SessionOptions()
    options.use_per_session_threads = not shared
    try:
        rt.InferenceSession("m.onnx", options, providers=["CPUExecutionProvider"])
        return "made"
    except RuntimeError as e:
        assert "threadpool" in str(e) or "thread pool" in str(e), e
        return "refused"
told = [made(False), made(True)]
rt.set_global_thread_pool_sizes(2, 2)
try:
    rt.set_global_thread_pool_sizes(2, 2)
except Exception as e:
    told.append(type(e).__name__)
print("told:", *told, made(False), made(True))
"""


@BOTH
def test_threads_of_sessions_and_of_all(rt, tmp_path):
    (tmp_path / "m.onnx").write_bytes(square())
    text = THREADS.format(path=sys.path, name=rt.__name__)
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "told: made refused Fail refused made" in done.stdout, done.stdout + done.stderr
