"""IOBinding, DLPack and OrtValues in a device's memory. The guard stands for a GPU: its memory cannot be touched by the
host, so what comes back went through the right copies. Where there is a GPU the same tests run on it."""
import gc

import numpy as np
import onnx
import onnxruntime as ort
import package
import pytest
import torch

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre import _core  # noqa: E402
from tolerances import close  # noqa: E402

X = np.float32([[1, -2, 3], [0, 5, -1]])
PROVIDER = {"cpu": "CPUExecutionProvider", "guard": "GuardExecutionProvider", "cuda": "CUDAExecutionProvider"}
DEVICES = ["guard"] + (["cuda"] if nacre.get_device() == "GPU" else [])
BOTH = pytest.mark.parametrize("rt", [nacre, ort], ids=["nacre", "onnxruntime"])
ON = pytest.mark.parametrize("device", DEVICES)


def session(device="cpu", data=None):
    return nacre.InferenceSession(data or package.affine(), providers=[PROVIDER[device]])


WANT = session().run(None, {"x": X})


# ---- binding, on both packages ----

@BOTH
def test_memory_of_torch_is_bound_as_it_lies(rt):
    s = rt.InferenceSession(package.affine())
    x, y = torch.from_numpy(X.copy()), torch.zeros(2, 2)
    b = s.io_binding()
    b.bind_input("x", "cpu", 0, np.float32, tuple(x.shape), x.data_ptr())
    b.bind_output("y", "cpu", 0, np.float32, tuple(y.shape), y.data_ptr())
    b.synchronize_inputs()
    for k in range(3):
        x.copy_(torch.from_numpy(X * k))
        s.run_with_iobinding(b)
        b.synchronize_outputs()
        close(y.numpy(), s.run(["y"], {"x": X * k})[0], "ort_f32")
    assert b.get_outputs()[0].data_ptr() == y.data_ptr()


@BOTH
def test_element_types_as_numbers_and_types(rt):
    s = rt.InferenceSession(package.affine())
    for kind in (np.float32, np.dtype("float32"), 1):
        b = s.io_binding()
        b.bind_input("x", "cpu", 0, kind, [2, 3], X.ctypes.data)
        b.bind_output("z", "cpu")
        s.run_with_iobinding(b)
        close(b.copy_outputs_to_cpu()[0], WANT[1], "ort_f32")


@BOTH
def test_outputs_of_unknown_size(rt):
    s = rt.InferenceSession(package.affine())
    b = s.io_binding()
    for rows in (2, 5, 0, 1):
        if rt is ort or rows == 2:  # onnxruntime keeps the memory of the first run, which does not fit another size
            b.bind_output("z")
            b.bind_output("y", "cpu")
        b.bind_cpu_input("x", np.ones((rows, 3), np.float32))
        s.run_with_iobinding(b)
        outputs = b.get_outputs()
        assert [o.shape() for o in outputs] == [[rows, 2]] * 2
        assert [o.device_name() for o in outputs] == ["cpu", "cpu"]
        assert len(b.get_outputs_as_ortvaluevector()) == 2
    b.clear_binding_outputs()
    assert not b.get_outputs()


@BOTH
def test_values_are_bound(rt):
    s = rt.InferenceSession(package.affine())
    x, y = rt.OrtValue.ortvalue_from_numpy(X.copy()), rt.OrtValue.ortvalue_from_shape_and_type([2, 2], np.float32)
    b = s.io_binding()
    b.bind_ortvalue_input("x", x)
    b.bind_ortvalue_output("y", y)
    s.run_with_iobinding(b)
    close(y.numpy(), WANT[0], "ort_f32")
    x.update_inplace(X * 2)
    s.run_with_iobinding(b)
    close(y.numpy(), s.run(["y"], {"x": X * 2})[0], "ort_f32")
    copied = b.copy_outputs_to_cpu()[0]
    copied[:] = 0
    assert y.numpy().any()


@BOTH
def test_a_binding_belongs_to_its_session(rt):
    a, b = (rt.InferenceSession(package.affine()) for _ in range(2))
    with pytest.raises(ValueError, match="session that created it"):
        a.run_with_iobinding(b.io_binding())


def test_initializers_can_be_bound():
    s = session()
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_cpu_input("b", np.float32([7, 8]))
    b.bind_output("z")
    s.run_with_iobinding(b)
    np.testing.assert_array_equal(b.copy_outputs_to_cpu()[0], s.run(["z"], {"x": X, "b": np.float32([7, 8])})[0])


# ---- values on a device ----

@ON
def test_a_value_on_a_device(device):
    v = nacre.OrtValue.ortvalue_from_numpy(X, device, 0)
    assert (v.device_name(), v.shape(), v.data_type()) == (device, [2, 3], "tensor(float)")
    assert v.data_ptr() != X.ctypes.data and v.tensor_size_in_bytes() == 24
    np.testing.assert_array_equal(v.numpy(), X)
    v.update_inplace(-X)
    np.testing.assert_array_equal(v.numpy(), -X)
    zeros = nacre.OrtValue.ortvalue_from_shape_and_type([3, 0, 2], np.int64, device, 0)
    assert zeros.numpy().shape == (3, 0, 2) and zeros.device_name() == device
    w = nacre.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, device)
    assert not w.numpy().any()
    nacre.copy_tensors([v], [w])
    np.testing.assert_array_equal(w.numpy(), -X)
    host = nacre.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    host.update_inplace(w)
    np.testing.assert_array_equal(host.numpy(), -X)
    with pytest.raises(RuntimeError, match="memory of a device"):
        np.asarray(v._value)
    with pytest.raises(RuntimeError, match="update_inplace: expected"):
        v.update_inplace(X[0])


@ON
@pytest.mark.parametrize("on", ["cpu", "same"])
def test_runs_on_values_of_a_device(device, on):
    s = session(device if on == "same" else "cpu")
    v = nacre.OrtValue.ortvalue_from_numpy(X, device, 0)
    for got, want in zip(s.run(None, {"x": v}), WANT):
        close(got, want, "device_f32")
    for got, want in zip(s.run_with_ort_values(None, {"x": v}), WANT):
        close(got.numpy(), want, "device_f32")


@ON
@pytest.mark.parametrize("on", ["cpu", "same"])
def test_binding_on_a_device(device, on):
    s = session(device if on == "same" else "cpu")
    x = nacre.OrtValue.ortvalue_from_numpy(X, device, 0)
    y = nacre.OrtValue.ortvalue_from_shape_and_type([2, 2], np.float32, device, 0)
    b = s.io_binding()
    b.bind_input("x", device, 0, np.float32, [2, 3], x.data_ptr())
    b.bind_ortvalue_output("y", y)
    b.bind_output("z", device)
    b.synchronize_inputs()
    for k in (1, 2, 3):
        x.update_inplace(X * k)
        s.run_with_iobinding(b)
        want = session().run(None, {"x": X * k})
        outputs = b.get_outputs()
        assert [o.device_name() for o in outputs] == [device, device]
        assert outputs[0].data_ptr() == y.data_ptr()
        for got, w in zip((y.numpy(), outputs[1].numpy()), want):
            close(got, w, "device_f32")
        for got, w in zip(b.copy_outputs_to_cpu(), want):
            close(got, w, "device_f32")


@ON
def test_an_output_is_the_next_input(device):
    s = session(device, package.add())
    b = s.io_binding()
    b.bind_ortvalue_input("x", nacre.OrtValue.ortvalue_from_numpy(np.float32([1, 2, 3]), device))
    for k in range(1, 5):
        b.bind_output("y", device)
        s.run_with_iobinding(b)
        y, = b.get_outputs()
        np.testing.assert_array_equal(y.numpy(), np.float32([1, 2, 3]) * 2 ** k)
        b.bind_ortvalue_input("x", y)


@ON
def test_terminate_reaches_runs_that_keep_outputs(device):
    s, options = session(device), nacre.RunOptions()
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_output("y", device)
    options.terminate = True
    with pytest.raises(RuntimeError, match="cancelled"):
        s.run_with_iobinding(b, options)
    options.terminate = False
    s.run_with_iobinding(b, options)
    close(b.copy_outputs_to_cpu()[0], WANT[0], "device_f32")


@ON
def test_values_outlive_sessions(device):
    s = session(device)
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_output("y", device)
    s.run_with_iobinding(b)
    y, = b.get_outputs()
    del s, b
    gc.collect()
    close(y.numpy(), WANT[0], "device_f32")


def test_a_device_that_is_not_there():
    if nacre.get_device() == "CPU":
        for call in (lambda: nacre.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
                     lambda: session().io_binding().bind_input("x", "cuda", 0, np.float32, [2, 3], 4096)):
            with pytest.raises(nacre.EPFail, match="cuda|CUDA"):
                call()
    b = session().io_binding()
    b.bind_cpu_input("x", X)


# ---- DLPack ----

@ON
def test_results_whose_size_the_run_finds_stay_on_the_device(device):
    node = onnx.helper.make_node("Unique", ["x"], ["y", "", "", "n"])
    kinds = [("x", ["k"]), ("y", ["u"]), ("n", ["u"])]
    x, y, n = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, dims) for name, dims in kinds)
    graph = onnx.helper.make_graph([node], "g", [x], [y, n])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    s = session(device, model.SerializeToString())
    b = s.io_binding()
    b.bind_output("y", device)
    b.bind_output("n", "cpu")
    for k in (7, 3, 50):
        b.bind_ortvalue_input("x", nacre.OrtValue.ortvalue_from_numpy(np.arange(k) // 2 % 9, device, 0))
        s.run_with_iobinding(b)
        y, n = b.get_outputs()
        assert y.device_name() == device and n.device_name() == "cpu"
        assert y.numpy().tolist() == list(range(min(9, k // 2 + k % 2)))
        assert n.numpy().sum() == k


def torch_types():
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16",
             "complex64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    return [getattr(torch, n) for n in names]


@pytest.mark.parametrize("dtype", torch_types(), ids=str)
def test_dlpack_types(dtype):
    t = torch.arange(6).to(torch.float32).to(dtype).reshape(2, 3)
    v = nacre.OrtValue.from_dlpack(t)
    assert v.data_ptr() == t.data_ptr() and v.shape() == [2, 3]
    back = torch.from_dlpack(v)
    assert back.dtype == dtype and back.data_ptr() == t.data_ptr()
    old = torch.utils.dlpack.from_dlpack(v.to_dlpack())
    assert old.data_ptr() == t.data_ptr() and old.dtype == dtype


def test_bools_as_bytes():
    t = torch.tensor([1, 0, 1], dtype=torch.uint8)
    from nacre.capi import onnxruntime_pybind11_state as C
    assert C.is_dlpack_uint8_tensor(t.__dlpack__()) and not C.is_dlpack_uint8_tensor(torch.ones(2).__dlpack__())
    v = nacre.OrtValue.from_dlpack(t, is_bool_tensor=True)
    assert v.data_type() == "tensor(bool)" and v.numpy().tolist() == [True, False, True]
    assert v.data_ptr() == t.data_ptr()
    del t
    gc.collect()
    assert v.numpy().tolist() == [True, False, True]


def test_dlpack_copies_when_asked():
    v = nacre.OrtValue.ortvalue_from_numpy(X)
    a, b = np.from_dlpack(v), np.from_dlpack(v, copy=True)
    assert a.ctypes.data == X.ctypes.data != b.ctypes.data
    np.testing.assert_array_equal(b, X)
    with pytest.raises(BufferError):
        v.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="no type"):
        nacre.OrtValue.ortvalue_from_numpy(np.array(["a"], object)).__dlpack__()
    with pytest.raises(TypeError, match="capsule"):
        nacre.OrtValue.from_dlpack(7)


@ON
def test_dlpack_of_a_device(device):
    v = nacre.OrtValue.ortvalue_from_numpy(X, device, 0)
    assert v.__dlpack_device__() == ((2, 0) if device == "cuda" else (12, 0))
    w = nacre.OrtValue.from_dlpack(v)
    assert w.device_name() == device and w.data_ptr() == v.data_ptr()
    del v
    gc.collect()
    np.testing.assert_array_equal(w.numpy(), X)
    np.testing.assert_array_equal(np.from_dlpack(w, device="cpu", copy=True), X)
    with pytest.raises(BufferError, match="cannot be lent"):
        w.__dlpack__(dl_device=(1, 0), copy=False)
    close(session(device).run(["y"], {"x": w})[0], WANT[0], "device_f32")


@pytest.mark.skipif("cuda" not in DEVICES or not torch.cuda.is_available(), reason="no GPU here that torch has too")
def test_torch_on_a_gpu():
    t = torch.from_numpy(X).cuda()
    v = nacre.OrtValue.from_dlpack(t)
    assert v.data_ptr() == t.data_ptr() and v.device_name() == "cuda"
    s = session("cuda")
    b = s.io_binding()
    y = torch.zeros(2, 2, device="cuda")
    b.bind_input("x", "cuda", 0, np.float32, tuple(t.shape), t.data_ptr())
    b.bind_output("y", "cuda", 0, np.float32, tuple(y.shape), y.data_ptr())
    b.synchronize_inputs()
    s.run_with_iobinding(b)
    close(y.cpu().numpy(), WANT[0], "ort_f32")
    assert torch.from_dlpack(v).data_ptr() == t.data_ptr()


# ---- streams of the caller's ----

def on_stream(handle, more=()):
    return nacre.InferenceSession(package.affine(), providers=[(PROVIDER["cuda"],
                                                                {"user_compute_stream": str(handle), **dict(more)})])


def bound(s, x, y):
    b = s.io_binding()
    b.bind_ortvalue_input("x", x)
    b.bind_ortvalue_output("y", y)
    return b


def unwaited():
    r = nacre.RunOptions()
    r.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return r


def test_the_processor_gives_out_no_streams():
    for rt in (nacre, ort):
        cpu = next(d for d in rt.get_ep_devices() if d.ep_name == PROVIDER["cpu"])
        with pytest.raises(RuntimeError, match="non-CPU device"):
            cpu.create_sync_stream()


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_a_session_on_a_stream_of_the_callers():
    stream = next(d for d in nacre.get_ep_devices() if d.ep_name == PROVIDER["cuda"]).create_sync_stream()
    assert stream.get_handle()
    s = on_stream(stream.get_handle(), {"has_user_compute_stream": "1"})
    for got, want in zip(s.run(None, {"x": X}), WANT):  # arrays in and out: it has ended
        close(got, want, "device_f32")
    x = nacre.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    y = nacre.OrtValue.ortvalue_from_numpy(np.zeros((2, 2), np.float32), "cuda", 0)
    s.run_with_iobinding(bound(s, x, y))
    close(y.numpy(), WANT[0], "device_f32")
    del stream  # the session keeps it
    close(s.run(["y"], {"x": X})[0], WANT[0], "device_f32")
    with pytest.raises(nacre.InvalidArgument, match="user_compute_stream: expected a whole number, got 'first'"):
        on_stream("first")


@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_runs_that_nobody_waits_for():
    stream = next(d for d in nacre.get_ep_devices() if d.ep_name == PROVIDER["cuda"]).create_sync_stream()
    s, r = on_stream(stream.get_handle()), unwaited()
    bindings = []
    for k in range(400):  # more than are held without a wait
        x = nacre.OrtValue.ortvalue_from_numpy(X * k, "cuda", 0)
        y = nacre.OrtValue.ortvalue_from_numpy(np.zeros((2, 2), np.float32), "cuda", 0)
        b = bound(s, x, y)
        s.run_with_iobinding(b, r)
        if k % 100 == 0:
            bindings.append((k, b, y))
        b.clear_binding_inputs()
    assert 0 < len(s._under_way) <= 2 * 256
    bindings[-1][1].synchronize_outputs()
    assert not s._under_way
    for k, _, y in bindings:
        close(y.numpy(), session().run(["y"], {"x": X * k})[0], "device_f32")
    host = s.io_binding()  # arrays of the host are waited for whatever the options say
    host.bind_cpu_input("x", X)
    host.bind_output("y")
    s.run_with_iobinding(host, r)
    assert not s._under_way
    close(host.copy_outputs_to_cpu()[0], WANT[0], "device_f32")


@pytest.mark.skipif("cuda" not in DEVICES or not torch.cuda.is_available(), reason="no GPU here that torch has too")
def test_a_stream_of_torch_orders_its_work_and_ours():
    stream = torch.cuda.Stream()
    s, r = on_stream(stream.cuda_stream), unwaited()
    with torch.cuda.stream(stream):
        x, y = torch.from_numpy(X).cuda(), torch.zeros(2, 2, device="cuda")
        total = torch.zeros_like(y)
        b = s.io_binding()
        b.bind_input("x", "cuda", 0, np.float32, tuple(x.shape), x.data_ptr())
        b.bind_output("y", "cuda", 0, np.float32, tuple(y.shape), y.data_ptr())
        for _ in range(20):  # what torch queues before and behind a run comes before and behind it
            s.run_with_iobinding(b, r)
            total += y
            x.mul_(0.5)
    stream.synchronize()
    want = sum(session().run(["y"], {"x": np.float32(X * 0.5 ** k)})[0] for k in range(20))
    close(total.cpu().numpy(), want, "ort_f32")


# ---- buffers ----

@pytest.mark.parametrize("buffer", [bytearray(b"\x01\x02\x03"), memoryview(b"\x01\x02\x03"), b"\x01\x02\x03"],
                         ids=["bytearray", "memoryview", "bytes"])
def test_the_buffer_protocol(buffer):
    if isinstance(buffer, bytes):
        buffer = memoryview(buffer)
    s = nacre.InferenceSession(package.identity(package.TensorProto.UINT8))
    v = nacre.OrtValue.ortvalue_from_numpy(buffer)
    assert v.data_ptr() == np.frombuffer(buffer, np.uint8).ctypes.data
    assert s.run(None, {"x": buffer})[0].tolist() == [1, 2, 3]
    assert memoryview(s.run(None, {"x": buffer})[0]).tolist() == [1, 2, 3]


def test_read_only_memory_is_not_written():
    v = nacre.OrtValue.ortvalue_from_numpy(np.broadcast_to(np.float32(1), (3,)).copy())
    assert v._value.writable
    fixed = np.frombuffer(b"\0" * 12, np.float32)
    with pytest.raises(RuntimeError, match="read only"):
        nacre.OrtValue.ortvalue_from_numpy(fixed).update_inplace(np.ones(3, np.float32))
    assert isinstance(v._value, _core.Value)
