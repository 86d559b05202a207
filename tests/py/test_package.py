"""The Python package beside onnxruntime: the same models and calls, attribute by attribute; and what only it promises:
no copies, other threads run while a run runs, it works after fork, Ctrl-C stops a run."""
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import package
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre import _core  # noqa: E402
from tolerances import close

ort.set_default_logger_severity(4)
BOTH = pytest.mark.parametrize("rt", [nacre, ort], ids=["nacre", "onnxruntime"])
X = np.float32([[1, -2, 3], [0, 5, -1]])


def sessions(data, **kwargs):
    return [rt.InferenceSession(data, **kwargs) for rt in (nacre, ort)]


def address(a):
    return a.__array_interface__["data"][0]


# ---- beside onnxruntime ----

@pytest.mark.parametrize("data", [package.affine(), package.identity(TensorProto.STRING, ()), package.sequences(),
                                  package.identity(TensorProto.INT64, ("a", None, 3)), package.add(TensorProto.DOUBLE)],
                         ids=["affine", "string", "sequences", "dims", "double"])
def test_signatures_are_the_same(data):
    mine, theirs = sessions(data)
    for name in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        a, b = getattr(mine, name)(), getattr(theirs, name)()
        assert [x.name for x in a] == [x.name for x in b], name
        assert [x.type for x in a] == [x.type for x in b], name
        for x, y in zip(a, b):
            assert x.shape == list(y.shape), (name, x.name)
    meta = [s.get_modelmeta() for s in (mine, theirs)]
    for name in ("producer_name", "graph_name", "domain", "description", "graph_description", "version",
                 "custom_metadata_map"):
        assert getattr(meta[0], name) == getattr(meta[1], name), name
    assert mine.get_providers() == theirs.get_providers()
    assert mine.get_provider_options() == theirs.get_provider_options()
    told = [s.InferenceSession(package.affine(), providers=[("CPUExecutionProvider", {"use_arena": "0"})])
            for s in (nacre, ort)]
    assert told[0].get_provider_options() == told[1].get_provider_options()


def test_defaults_of_options_are_the_same():
    for mine, theirs in ((nacre.SessionOptions(), ort.SessionOptions()), (nacre.RunOptions(), ort.RunOptions())):
        fields = [n for n in dir(theirs) if not n.startswith("_") and not callable(getattr(theirs, n))]
        assert len(fields) > 4
        for name in fields:
            a, b = getattr(mine, name), getattr(theirs, name)
            assert getattr(a, "name", a) == getattr(b, "name", b), name


def feeds_of(kind):
    data = np.random.default_rng(3).standard_normal((5, 3)).astype(np.float32)
    odd = np.float32([[np.nan, np.inf, -np.inf], [0, -0.0, 1e-40]])
    return {"plain": X, "wide": data, "empty": X[:0], "odd": odd, "strided": np.repeat(data, 2, 0)[::2],
            "fortran": np.asfortranarray(data), "swapped": data.astype(">f4"),
            "read_only": np.broadcast_to(X[0], (2, 3)), "list": X.tolist(), "reversed": data[::-1]}[kind]


@pytest.mark.parametrize("kind", ["plain", "wide", "empty", "odd", "strided", "fortran", "read_only", "list",
                                  "reversed"])
def test_outputs_are_the_same(kind):
    mine, theirs = sessions(package.affine())
    x = feeds_of(kind)
    for names in (None, [], ["z"], ["z", "y"]):
        got, want = mine.run(names, {"x": x}), theirs.run(names, {"x": x})
        assert len(got) == len(want)
        for g, w in zip(got, want):
            assert g.dtype == w.dtype and g.shape == w.shape
            close(g, w, "ort_f32")


def test_foreign_byte_order_is_converted():
    mine = nacre.InferenceSession(package.affine())
    x = feeds_of("swapped")
    np.testing.assert_array_equal(mine.run(None, {"x": x})[0], mine.run(None, {"x": x.astype("=f4")})[0])


def test_overridable_initializers():
    mine, theirs = sessions(package.affine())
    for b in (None, np.float32([7, 8]), np.float32([0, 0])):
        feeds = {"x": X} if b is None else {"x": X, "b": b}
        close(mine.run(["z"], feeds)[0], theirs.run(["z"], feeds)[0], "ort_f32")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8",
                                   "uint16", "uint32", "uint64", "bool"])
def test_every_numpy_type(dtype):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = np.array([0, 1, 2, 3, 100], dtype=dtype)
    mine, theirs = sessions(package.identity(element))
    for a in (x, x[:0], x[::2], x[:1]):
        got, want = mine.run(None, {"x": a})[0], theirs.run(None, {"x": a})[0]
        assert got.dtype == want.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(got, want)


def test_types_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1.5, -2, np.inf, 3e38, 0], dtype=ml_dtypes.bfloat16)
    session = nacre.InferenceSession(package.identity(TensorProto.BFLOAT16))
    got = session.run(None, {"x": x})[0]
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(session.run(None, {"x": x[::2]})[0], x[::2])
    value = nacre.OrtValue.ortvalue_from_numpy(x)
    assert value.data_type() == "tensor(bfloat16)" and value.data_ptr() == address(x.view(np.uint16))
    bits = nacre.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), TensorProto.BFLOAT16)
    np.testing.assert_array_equal(bits.numpy(), x)


@pytest.mark.parametrize("x", [np.array(["a", "", "αβ"], dtype=object), np.array(["one", "two"]),
                               np.array([], dtype=object), np.array(["x\0y"], dtype=object)],
                         ids=["object", "str_", "empty", "nul"])
def test_strings(x):
    mine, theirs = sessions(package.identity(TensorProto.STRING))
    got, want = mine.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0]
    assert got.dtype == want.dtype == object and got.shape == want.shape
    assert got.tolist() == want.tolist() == x.tolist()


@pytest.mark.parametrize("x", [np.frombuffer(b"abcdef", "V3"), np.frombuffer(b"a\0", "V1").reshape(2, 1),
                               np.array([(65,), (66,)], [("code", "u1")]), np.frombuffer(b"abcdef", "V2")[::2],
                               np.empty((0,), "V4")], ids=["bytes", "nul", "struct", "strided", "empty"])
def test_raw_bytes_are_strings(x):
    mine, theirs = sessions(package.identity(TensorProto.STRING, ["n", "m"][:x.ndim]))
    got, want = mine.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0]
    assert got.dtype == want.dtype == object and got.shape == want.shape and got.tolist() == want.tolist()


@pytest.mark.parametrize("kind, number", [("V1", TensorProto.FLOAT8E4M3FN), ("V1", TensorProto.UINT8),
                                          ("V1", TensorProto.INT4), ("V2", TensorProto.BFLOAT16),
                                          ("V2", TensorProto.FLOAT16), ("V4", TensorProto.FLOAT)])
def test_raw_bytes_of_a_named_type(kind, number):
    x = np.frombuffer(bytes([0, 0x3C, 0, 0x40, 1, 2, 3, 4]), kind)
    mine, theirs = (m.OrtValue.ortvalue_from_numpy_with_onnx_type(x, number) for m in (nacre, ort))
    assert (mine.data_type(), mine.shape()) == (theirs.data_type(), theirs.shape())
    with pytest.raises(RuntimeError):
        nacre.OrtValue.ortvalue_from_numpy_with_onnx_type(x, TensorProto.DOUBLE)


def test_sequences():
    mine, theirs = sessions(package.sequences())
    for s in ([], [np.float32([1, 2])], [np.float32([1, 2]), np.float32([])]):
        feeds = {"s": s, "x": np.float32([5, 6, 7])}
        got, want = mine.run(None, feeds), theirs.run(None, feeds)
        assert isinstance(got[0], list) and len(got[0]) == len(want[0]) == len(s) + 1
        for g, w in zip(got[0], want[0]):
            np.testing.assert_array_equal(g, w)
        assert got[1] == want[1] and got[1].shape == ()
        np.testing.assert_array_equal(got[2], want[2])


def optional_model():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
    return package.model([package.node("OptionalHasElement", "o", "y")], [helper.make_value_info("o", kind)],
                         [package.tensor("y", TensorProto.BOOL, [])], opset=18)


def test_optionals():
    session = nacre.InferenceSession(optional_model())
    assert session.get_inputs()[0].type == "optional(tensor(float))"
    assert not session.run(None, {"o": None})[0]
    assert session.run(None, {"o": np.float32([1, 2])})[0]


def test_maps_and_optionals_as_values():
    keys, values = np.int64([3, 1]), np.float32([0.5, 2])
    value = nacre._types.to_value({3: 0.5, 1: 2.0}, "map(int64,tensor(float))")
    assert value.kind == "map" and nacre._types.to_python(value) == {3: 0.5, 1: 2.0}
    with pytest.raises(nacre.InvalidArgument, match="2 keys has 1 values"):
        _core.map(_core.from_array(keys), _core.from_array(values[:1]))
    assert nacre._types.to_python(_core.optional(1, None)) is None
    assert nacre._types.to_python(_core.optional(1, _core.from_array(values))).tolist() == [0.5, 2]


# ---- errors ----

def outcome(rt, call):
    try:
        return "ok", call(rt)
    except Exception as e:
        return type(e).__name__, str(e)


@pytest.mark.parametrize("call", [
    lambda s: s.run(None, {}), lambda s: s.run(None, {"q": X}), lambda s: s.run(None, {"x": X, "q": X}),
    lambda s: s.run(["q"], {"x": X}), lambda s: s.run(None, {"x": X.astype(np.float64)}),
    lambda s: s.run(None, {"x": X[0]}), lambda s: s.run(None, {"x": X[:, :2]}), lambda s: s.run(None, {"x": 3.0})],
    ids=["nothing", "other", "more", "output", "type", "rank", "dim", "scalar"])
def test_errors_of_runs_have_the_same_class(call):
    mine, theirs = (outcome(s, call) for s in sessions(package.affine()))
    assert mine[0] == theirs[0] != "ok", (mine, theirs)
    assert mine[1]


@pytest.mark.parametrize("source", ["no such file.onnx", b"garbage", 3], ids=["file", "bytes", "int"])
def test_errors_of_loading_have_the_same_class(source):
    mine, theirs = (outcome(rt, lambda r: r.InferenceSession(source)) for rt in (nacre, ort))
    assert mine[0] == theirs[0] != "ok", (mine, theirs)


def test_errors_say_where_and_can_be_pickled():
    session = nacre.InferenceSession(package.affine())
    with pytest.raises(nacre.InvalidArgument, match="INVALID_ARGUMENT : input 'x': expected rank 2, got 1") as caught:
        session.run(None, {"x": X[0]})
    e = caught.value
    assert (e.code, e.node, e.op) == ("SHAPE", "x", "input")
    again = pickle.loads(pickle.dumps(e))
    assert type(again) is nacre.InvalidArgument and str(again) == str(e)
    from nacre.capi.onnxruntime_pybind11_state import InvalidArgument
    assert InvalidArgument is nacre.InvalidArgument


def test_exception_names_of_onnxruntime_are_there():
    theirs = ort.capi.onnxruntime_pybind11_state
    from nacre.capi import onnxruntime_pybind11_state as mine
    types = {n: t for n, t in vars(theirs).items() if isinstance(t, type)}
    names = [n for n, t in types.items() if issubclass(t, Exception)]
    assert len(names) >= 11 and all(issubclass(getattr(mine, n), Exception) for n in names)


def test_an_unknown_operator_is_named():
    data = package.unknown()
    with pytest.raises(nacre.InvalidGraph, match="NoSuchOp"):
        nacre.InferenceSession(data)


# ---- providers ----

@pytest.mark.skipif(bool(nacre.get_available_providers() != ["CPUExecutionProvider"]), reason="there is a GPU")
def test_providers_without_a_gpu():
    data = package.affine()
    with pytest.raises(nacre.EPFail, match="list CPUExecutionProvider after it"):
        nacre.InferenceSession(data, providers=["CUDAExecutionProvider"])
    with pytest.warns(UserWarning, match="cuda"):
        s = nacre.InferenceSession(data, providers=[("CUDAExecutionProvider", {"device_id": 0}),
                                                    "CPUExecutionProvider"])
    assert s.get_providers() == ["CPUExecutionProvider"]
    assert nacre.get_device() == "CPU"


def test_unknown_providers():
    data = package.affine()
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Foo; there are CUDA.*CPU"):
        nacre.InferenceSession(data, providers=["Foo"])
    with pytest.warns(UserWarning, match="Unknown Provider Type: Foo"):
        assert nacre.InferenceSession(data, providers=["Foo", "CPUExecutionProvider"]).run(None, {"x": X})
    with pytest.raises(ValueError):
        nacre.InferenceSession(data, providers=["CPUExecutionProvider"], provider_options=[])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nacre.InferenceSession(data, providers=nacre.get_available_providers()).run(None, {"x": X})


# ---- options ----

@pytest.mark.parametrize("form", ["path", "pathlike", "bytes", "proto"])
def test_ways_to_give_a_model(form, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(package.affine())
    source = {"path": str(path), "pathlike": path, "bytes": path.read_bytes(), "proto": onnx.load(path)}[form]
    assert nacre.InferenceSession(source).run(["y"], {"x": X})[0].shape == (2, 2)


def test_options_that_are_honoured(tmp_path):
    o = nacre.SessionOptions()
    o.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_ENABLE_BASIC
    o.intra_op_num_threads = 1
    o.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    o.add_free_dimension_override_by_name("batch", 2)
    s = nacre.InferenceSession(package.affine(), o)
    assert s.get_inputs()[0].shape == [2, 3] and s.get_outputs()[0].shape == [2, 2]
    assert s.get_session_options() is o
    with pytest.raises(nacre.InvalidArgument, match="expected 2, got 1"):
        s.run(None, {"x": X[:1]})
    saved = ort.InferenceSession(str(tmp_path / "optimized.onnx"))
    close(saved.run(None, {"x": X})[0], s.run(None, {"x": X})[0], "ort_f32")


def test_external_data_of_bytes(tmp_path):
    proto = onnx.load_from_string(package.affine())
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    want = nacre.InferenceSession(package.affine()).run(None, {"x": X})[0]
    np.testing.assert_array_equal(nacre.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": X})[0], want)
    o = nacre.SessionOptions()
    o.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
    data = (tmp_path / "m.onnx").read_bytes()
    np.testing.assert_array_equal(nacre.InferenceSession(data, o).run(None, {"x": X})[0], want)
    with pytest.raises(Exception, match="external|folder"):
        nacre.InferenceSession(data)


@BOTH
def test_option_mistakes(rt):
    o = rt.SessionOptions()
    with pytest.raises(AttributeError):
        o.no_such_option = 1
    with pytest.raises(TypeError):
        o.intra_op_num_threads = "many"
    with pytest.raises(RuntimeError):
        o.add_session_config_entry("", "x")
    with pytest.raises(RuntimeError):
        o.get_session_config_entry("absent")
    o.add_session_config_entry("key", "value")
    assert o.get_session_config_entry("key") == "value"
    with pytest.raises(rt.capi.onnxruntime_pybind11_state.Fail if rt is ort else nacre.Fail):
        o.register_custom_ops_library("no such library.so")


def test_what_cannot_be_honoured_says_so():
    for key, value in (("session.compile_only", "1"), ("ep.context_enable", "1")):
        o = nacre.SessionOptions()
        o.add_session_config_entry(key, value)
        with pytest.raises(nacre.NotImplemented, match=key):
            nacre.InferenceSession(package.affine(), o)
    o = nacre.SessionOptions()
    for key in ("session.intra_op.allow_spinning", "session.no.such.key"):
        o.add_session_config_entry(key, "0")
    o.add_session_config_entry("session.disable_prepacking", "1")
    assert nacre.InferenceSession(package.affine(), o).run(None, {"x": X})
    assert o.get_session_config_entry("session.no.such.key") == "0"
    with pytest.raises(nacre.NotImplemented, match="no memory of 'npu'"):
        nacre.OrtValue.ortvalue_from_numpy(X, "npu", 0)


def test_winograd():
    """Other bits than those of the sums as they are defined, which the entry brings back; both near onnxruntime's."""
    rng = np.random.default_rng(3)
    w, x = (rng.standard_normal(s).astype(np.float32) for s in ((32, 32, 3, 3), (1, 32, 40, 41)))
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", io[:1], io[1:], [numpy_helper.from_array(w, "w")]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    got = []
    for value in ("1", "0"):
        o = nacre.SessionOptions()
        o.add_session_config_entry("nacre.winograd", value)
        got.append(nacre.InferenceSession(model, o).run(None, {"x": x})[0])
    default = nacre.InferenceSession(model).run(None, {"x": x})[0]
    assert np.array_equal(default, got[0]) and not np.array_equal(got[0], got[1])
    want = ort.InferenceSession(model).run(None, {"x": x})[0]
    for y in got:
        close(y, want, "long_sum_f32")
    o = nacre.SessionOptions()
    o.add_session_config_entry("nacre.winograd", "off")
    with pytest.raises(nacre.InvalidArgument, match="nacre.winograd: expected 0 or 1, got 'off'"):
        nacre.InferenceSession(model, o)


def two_branches():
    nodes = [helper.make_node("MatMul", ["x", "x"], ["a"], "left"), helper.make_node("Tanh", ["x"], ["t"], "right"),
             helper.make_node("MatMul", ["t", "x"], ["b"], "right2"), helper.make_node("Sub", ["a", "b"], ["y"])]
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "n"]) for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "g", io[:1], io[1:]),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_streams():
    x = np.random.default_rng(1).standard_normal((40, 40)).astype(np.float32)
    want, = nacre.InferenceSession(two_branches()).run(None, {"x": x})

    def session(parallel=0, **entries):
        o = nacre.SessionOptions()
        if parallel:
            o.execution_mode, o.inter_op_num_threads = nacre.ExecutionMode.ORT_PARALLEL, parallel
        for key, value in entries.items():
            o.add_session_config_entry("nacre." + key.replace("_", "."), value)
        return nacre.InferenceSession(two_branches(), o)

    for s in (session(streams="2"), session(streams="4", stream_left="3", stream_right2="1"),
              session(parallel=3, stream_left="2"), session(parallel=1000)):
        assert s.run(None, {"x": x})[0].tobytes() == want.tobytes()
    for how in (dict(stream_left="1"), dict(streams="2", stream_left="2"), dict(parallel=2, stream_left="2"),
                dict(streams="2", parallel=3, stream_left="2")):
        with pytest.raises(nacre.InvalidArgument, match="'left'.*expected 0 to"):
            session(**how)
    with pytest.raises(nacre.InvalidArgument, match="'lost'.*none of that name"):
        session(streams="2", stream_lost="1")
    for how in (dict(streams="0"), dict(streams="many"), dict(stream_left="first")):
        with pytest.raises(nacre.InvalidArgument, match="option stream"):
            session(**how)


# ---- OrtValue and IOBinding, on both ----

@BOTH
def test_ortvalue(rt):
    x = X.copy()
    v = rt.OrtValue.ortvalue_from_numpy(x)
    assert (v.device_name(), v.shape(), v.data_type(), v.element_type()) == ("cpu", [2, 3], "tensor(float)", 1)
    assert v.has_value() and v.is_tensor() and not v.is_sparse_tensor() and not v.is_tensor_sequence()
    assert v.tensor_size_in_bytes() == 24 and v.data_ptr() == address(x) and v.__dlpack_device__() == (1, 0)
    v.update_inplace(-x)
    np.testing.assert_array_equal(v.numpy(), -X)
    w = rt.OrtValue.ortvalue_from_shape_and_type([4, 0, 2], np.int64)
    assert w.numpy().shape == (4, 0, 2) and w.numpy().dtype == np.int64
    w = rt.OrtValue.ortvalue_from_shape_and_type([2], TensorProto.DOUBLE)
    assert w.data_type() == "tensor(double)"
    np.testing.assert_array_equal(np.asarray(v), -X)


@BOTH
def test_run_with_ort_values(rt):
    s = rt.InferenceSession(package.affine())
    y, = s.run_with_ort_values(["y"], {"x": rt.OrtValue.ortvalue_from_numpy(X)})
    np.testing.assert_array_equal(y.numpy(), s.run(["y"], {"x": X})[0])


@BOTH
def test_iobinding(rt):
    s = rt.InferenceSession(package.affine())
    want = s.run(["y", "z"], {"x": X})
    b = s.io_binding()
    b.bind_cpu_input("x", X)
    b.bind_output("y")
    z = np.zeros((2, 2), np.float32)
    b.bind_output("z", "cpu", 0, np.float32, z.shape, address(z))
    s.run_with_iobinding(b)
    np.testing.assert_array_equal(z, want[1])
    for got in ([o.numpy() for o in b.get_outputs()], b.copy_outputs_to_cpu()):
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: q"):
        b.bind_cpu_input("q", X)
    b.clear_binding_inputs()
    x = np.ascontiguousarray(-X)
    b.bind_input("x", "cpu", 0, np.float32, x.shape, address(x))
    out = rt.OrtValue.ortvalue_from_shape_and_type((2, 2), np.float32)
    b.clear_binding_outputs()
    b.bind_ortvalue_output("y", out)
    s.run_with_iobinding(b)
    np.testing.assert_array_equal(out.numpy(), s.run(["y"], {"x": -X})[0])


@BOTH
def test_run_async(rt):
    s = rt.InferenceSession(package.affine())
    done, got = threading.Event(), []

    def callback(results, user_data, error):
        got.append((results, user_data, error))
        done.set()

    s.run_async(["y"], {"x": X}, callback, "mine")
    assert done.wait(30)
    (results, user, error), = got
    assert user == "mine" and not error
    np.testing.assert_array_equal(results[0], s.run(["y"], {"x": X})[0])


@BOTH
def test_terminate_before_the_run(rt):
    s, options = rt.InferenceSession(package.affine()), rt.RunOptions()
    options.terminate = True
    with pytest.raises(Exception) as caught:
        s.run(None, {"x": X}, options)
    assert type(caught.value).__name__ == "Fail"
    options.terminate = False
    assert s.run(None, {"x": X}, options)


# ---- no copies ----

def test_inputs_and_outputs_are_not_copied():
    x = np.arange(1000, dtype=np.float32)
    v = nacre.OrtValue.ortvalue_from_numpy(x)
    assert v.data_ptr() == address(x) == address(v.numpy())
    y, = nacre.InferenceSession(package.add()).run_with_ort_values(["y"], {"x": v})
    assert address(y.numpy()) == y.data_ptr() == address(np.asarray(y))
    y.numpy()[0] = 7
    assert y.numpy()[0] == 7


def test_buffers_are_taken_as_they_lie():
    import array
    x = array.array("f", [1, 2, 3])
    v = nacre.OrtValue.ortvalue_from_numpy(x)
    assert v.data_ptr() == x.buffer_info()[0] and v.shape() == [3] and v.data_type() == "tensor(float)"
    assert memoryview(v.numpy()).tolist() == [1, 2, 3]
    np.testing.assert_array_equal(nacre.InferenceSession(package.add()).run(None, {"x": memoryview(x)})[0], [2, 4, 6])


def test_an_output_is_written_where_it_is_bound():
    s = nacre.InferenceSession(package.add())
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    b = s.io_binding()
    b.bind_cpu_input("x", x)
    b.bind_ortvalue_output("y", nacre.OrtValue.ortvalue_from_numpy(out))
    for k in range(3):
        x += 1
        s.run_with_iobinding(b)
        np.testing.assert_array_equal(out, 2 * x)
        assert b.get_outputs()[0].data_ptr() == address(out)
    out.flags.writeable = False
    b.bind_ortvalue_output("y", nacre.OrtValue.ortvalue_from_numpy(out))
    with pytest.raises(ValueError, match="read only"):
        s.run_with_iobinding(b)


def test_dlpack_both_ways():
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    v = nacre.OrtValue.from_dlpack(t)
    assert v.data_ptr() == t.data_ptr() and v.shape() == [2, 3]
    back, array = torch.from_dlpack(v), np.from_dlpack(v)
    assert back.data_ptr() == t.data_ptr() and address(array) == t.data_ptr()
    back[0, 0] = 9
    assert t[0, 0] == 9 and v.numpy()[0, 0] == 9
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        x = torch.zeros(4, dtype=dtype)
        assert torch.from_dlpack(nacre.OrtValue.from_dlpack(x)).dtype == dtype
    with pytest.raises(BufferError, match="not dense"):
        nacre.OrtValue.from_dlpack(t.T)
    session = nacre.InferenceSession(package.add())
    np.testing.assert_array_equal(session.run(None, {"x": torch.ones(3)})[0], [2, 2, 2])


def test_memory_lives_as_long_as_it_is_used():
    deleted = []

    class Owner(np.ndarray):
        def __del__(self):
            deleted.append(True)

    x = np.arange(10, dtype=np.float32).view(Owner)
    v = nacre.OrtValue.ortvalue_from_numpy(x)
    v._numpy_obj, x = None, None
    gc.collect()
    assert not deleted
    inner = v.numpy()
    v = None
    gc.collect()
    assert not deleted and inner.tolist() == list(range(10))
    inner = None
    gc.collect()
    assert deleted
    capsule = nacre.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32)).__dlpack__()
    del capsule
    s = nacre.InferenceSession(package.add())
    y = s.run(None, {"x": np.ones(5, np.float32)})[0]
    del s
    gc.collect()
    assert y.tolist() == [2] * 5
    np.testing.assert_array_equal(nacre._types.to_numpy(_core.from_array(np.float32(3))), np.float32(3))


def test_a_run_leaves_no_reference_behind():
    s, x = nacre.InferenceSession(package.add()), np.ones(5, np.float32)
    s.run(None, {"x": x})
    before = sys.getrefcount(x)
    for _ in range(10):
        s.run(None, {"x": x})
    with pytest.raises(nacre.InvalidArgument):
        s.run(["q"], {"x": x})
    assert sys.getrefcount(x) == before


# ---- threads, fork, Ctrl-C ----

def custom_session(op):
    o = nacre.SessionOptions()
    o.register_custom_ops_library(str(package.MEET))
    return nacre.InferenceSession(package.custom(op), o)


def test_two_runs_overlap():
    """Meet returns 2 only when two calls of it are in progress at once, which the GIL would forbid."""
    session, seen = custom_session("Meet"), []
    work = lambda: seen.append(session.run(None, {"x": np.float32([0])})[0][0])  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [2, 2]


def test_terminate_from_another_thread():
    session, options, caught = custom_session("Wait"), nacre.RunOptions(), []

    def work():
        try:
            session.run(None, {"x": np.float32([0])}, options)
        except nacre.Fail as e:
            caught.append(e)

    t = threading.Thread(target=work)
    t.start()
    time.sleep(0.1)
    assert t.is_alive()
    options.terminate = True
    t.join(20)
    assert not t.is_alive() and caught[0].code == "CANCELLED"


def test_the_callers_containers_may_change_while_a_run_runs():
    """Names, feeds and given outputs are borrowed without the GIL: others may empty the lists that held them."""
    done = script(f"""
        import threading, time, nacre, package, numpy as np
        o = nacre.SessionOptions()
        o.register_custom_ops_library({str(package.MEET)!r})
        session = nacre.InferenceSession(package.custom("Meet"), o)
        names, feeds = ["y"], {{"".join(["x"]): nacre.OrtValue.ortvalue_from_numpy(np.float32([0]))._value}}
        outputs = [nacre.OrtValue.ortvalue_from_numpy(np.float32([7]))._value]
        got = []
        t = threading.Thread(target=lambda: got.append(session._session.run(names, feeds, None, outputs)))
        t.start()
        time.sleep(0.3)
        names.clear(), feeds.clear(), outputs.clear()
        junk = [bytes(k) for k in range(1000)]
        session.run(None, {{"x": np.float32([0])}})
        t.join()
        assert np.asarray(nacre.OrtValue(got[0][0]).numpy()).tolist() == [2], nacre.OrtValue(got[0][0]).numpy()
    """)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 0, (done.returncode, err)


def script(text):
    head = f"import sys; sys.path[:0] = {[str(package.FOLDER), os.path.dirname(package.__file__)]!r}\n"
    env = {**os.environ, "NACRE_LIB": str(package.nacre_c.LIBRARY)}
    return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(text)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=env)


def rest(p):
    """What is left of the output; communicate() would lose what readline() read ahead."""
    texts = p.stdout.read(), p.stderr.read()
    p.wait(60)
    return texts


def test_it_works_after_fork():
    p = script("""
        import os, numpy as np, nacre, package
        s = nacre.InferenceSession(package.affine())
        x = np.ones((4000, 3), np.float32)
        want = s.run(None, {"x": x})
        for _ in range(3):
            child = os.fork()
            if child == 0:
                same = all(np.array_equal(a, b) for a, b in zip(s.run(None, {"x": x}), want))
                new = nacre.InferenceSession(package.affine()).run(None, {"x": x})
                os._exit(0 if same and np.array_equal(new[0], want[0]) else 1)
            assert os.waitpid(child, 0)[1] == 0
            s.run(None, {"x": x})
        print("all the same")
        """)
    out, err = p.communicate(timeout=60)
    assert out == "all the same\n", err


INTERRUPT = """
    import signal, numpy as np, nacre, package
    o = nacre.SessionOptions()
    o.register_custom_ops_library(str(package.MEET))
    s = nacre.InferenceSession(package.custom("Wait"), o)
    options = nacre.RunOptions() if {with_options} else None
    for k in range(2):
        try:
            print("waiting", flush=True)
            s.run(None, {{"x": np.float32([0])}}, options)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert options is None or not options.terminate
    print(nacre.InferenceSession(package.affine()).run(["y"], {{"x": np.zeros((1, 3), np.float32)}}, options)[0].shape)
    """


@pytest.mark.parametrize("with_options", [False, True])
def test_ctrl_c_stops_a_run(with_options):
    p = script(INTERRUPT.format(with_options=with_options))
    for _ in range(2):
        assert p.stdout.readline() == "waiting\n", p.stderr.read()
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        assert p.stdout.readline() == "interrupted\n"
    out, err = rest(p)
    assert out == "(1, 2)\n" and p.returncode == 0, err


def test_another_handler_is_not_disturbed():
    p = script("""
        import signal, numpy as np, nacre, package
        seen = []
        signal.signal(signal.SIGINT, lambda *a: seen.append(a))
        o = nacre.SessionOptions()
        o.register_custom_ops_library(str(package.MEET))
        s = nacre.InferenceSession(package.custom("Meet"), o)
        print("waiting", flush=True)
        print(s.run(None, {"x": np.float32([0])})[0], len(seen))
        """)
    assert p.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    out, err = rest(p)
    assert out == "[1.] 1\n", err


# ---- the backend ----

def test_backend():
    from nacre import backend
    rep = backend.prepare(onnx.load_from_string(package.affine()))
    want = nacre.InferenceSession(package.affine()).run(None, {"x": X})
    for inputs in (X, [X], {"x": X}):
        got = rep.run(inputs)
        np.testing.assert_array_equal(got.y, want[0])
        np.testing.assert_array_equal(got[1], want[1])
    np.testing.assert_array_equal(backend.run_model(package.affine(), [X])[0], want[0])
    y, = backend.run_node(package.node("Add", "a b", "c"), [X, X], opset_version=17)
    np.testing.assert_array_equal(y, 2 * X)
    assert backend.supports_device("CPU") and not backend.supports_device("TPU")
    assert not backend.is_compatible(onnx.load_from_string(package.unknown()))


def test_version():
    import re
    text = (package.nacre_c.ROOT / "CMakeLists.txt").read_text()
    assert nacre.__version__ == nacre.get_version_string() == re.search(r"project\(nacre VERSION ([\d.]+)", text)[1]


def test_the_shared_objects_stay_small(tmp_path):
    """Together and stripped, as a wheel has them: below 3 MB, with packed relocations (cmake/relr.cmake)."""
    sizes = {}
    for source in (package.nacre_c.BUILD / "libnacre.so", package.FOLDER / "nacre" / "_core.abi3.so"):
        copy = tmp_path / source.name
        subprocess.run(["strip", "-o", str(copy), str(source.resolve())], check=True)
        sizes[source.name] = copy.stat().st_size
    assert min(sizes.values()) > 50_000 and sum(sizes.values()) < 3_000_000, sizes
