"""Mistakes, made in both packages: the same class of exception, by name."""
import types

import numpy as np
import onnx
import onnxruntime as ort
import package
import pytest
from onnx import TensorProto, helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

ort.set_default_logger_severity(4)
X = np.float32([[1, -2, 3], [0, 5, -1]])
F, I64 = TensorProto.FLOAT, TensorProto.INT64


def outcome(rt, call):
    """The name of the class of what call raises; ok when nothing is."""
    try:
        call(types.SimpleNamespace(
            rt=rt, s=rt.InferenceSession(package.affine()), o=rt.SessionOptions(), r=rt.RunOptions(),
            value=rt.OrtValue.ortvalue_from_numpy, empty=rt.OrtValue.ortvalue_from_shape_and_type))
        return "ok", ""
    except Exception as e:
        return type(e).__name__, str(e)


def load(data):
    return lambda n: n.rt.InferenceSession(data)


def graph(nodes, inputs=None, outputs=None, inits=(), **kwargs):
    return package.model(nodes, inputs or [package.tensor("x", F, [2, 3])], outputs or [package.tensor("y", F, None)],
                         inits, **kwargs)


def proto(change):
    m = onnx.load_from_string(package.affine())
    change(m)
    return m.SerializeToString()


def bound(call):
    def run(n):
        b = n.s.io_binding()
        call(n, b)
    return run


def opset(version):
    return proto(lambda m: setattr(m.opset_import[0], "version", version))


N = package.node
CYCLE = graph([N("Add", "x b", "a"), N("Neg", "a", "b"), N("Neg", "a", "y")])

CASES = {
    # ---- runs ----
    "run_nothing": lambda n: n.s.run(None, {}),
    "run_other_name": lambda n: n.s.run(None, {"q": X}),
    "run_more_names": lambda n: n.s.run(None, {"x": X, "q": X}),
    "run_no_output": lambda n: n.s.run(["q"], {"x": X}),
    "run_empty_output_name": lambda n: n.s.run([""], {"x": X}),
    "run_float64": lambda n: n.s.run(None, {"x": X.astype(np.float64)}),
    "run_int64": lambda n: n.s.run(None, {"x": X.astype(np.int64)}),
    "run_strings": lambda n: n.s.run(None, {"x": np.array([["a", "b", "c"]])}),
    "run_rank": lambda n: n.s.run(None, {"x": X[0]}),
    "run_dim": lambda n: n.s.run(None, {"x": X[:, :2]}),
    "run_scalar": lambda n: n.s.run(None, {"x": 3.0}),
    "run_none": lambda n: n.s.run(None, {"x": None}),
    "run_str": lambda n: n.s.run(None, {"x": "text"}),
    "run_object": lambda n: n.s.run(None, {"x": object()}),
    "run_dict": lambda n: n.s.run(None, {"x": {"a": 1}}),
    "run_feeds_list": lambda n: n.s.run(None, [X]),
    "run_feeds_none": lambda n: n.s.run(None, None),
    "run_initializer_shape": lambda n: n.s.run(None, {"x": X, "b": np.float32([1, 2, 3])}),
    "run_initializer_type": lambda n: n.s.run(None, {"x": X, "b": np.float64([1, 2])}),
    "run_terminated": lambda n: (setattr(n.r, "terminate", True), n.s.run(None, {"x": X}, n.r)),
    "run_options_wrong": lambda n: n.s.run(None, {"x": X}, 3),
    "run_ort_values_wrong": lambda n: n.s.run_with_ort_values(None, {"x": X}),
    "run_ort_values_missing": lambda n: n.s.run_with_ort_values(["y"], {}),
    "run_ort_values_type": lambda n: n.s.run_with_ort_values(["y"], {"x": n.value(X.astype(np.float64))}),
    "run_async_missing": lambda n: n.s.run_async(["y"], {}, lambda *a: None, None),
    # ---- loading ----
    "load_no_file": load("no such file.onnx"),
    "load_folder": load("/"),
    "load_garbage": load(b"garbage"),
    "load_empty": load(b""),
    "load_int": load(3),
    "load_none": load(None),
    "load_list": load(["a.onnx"]),
    "load_cut": load(package.affine()[:-20]),
    "load_unknown_op": load(package.unknown()),
    "load_unknown_domain": load(package.custom("Meet")),
    "load_cycle": load(CYCLE),
    "load_missing_input": load(graph([N("Add", "x nowhere", "y")])),
    "load_no_output": load(graph([N("Neg", "x", "z")])),
    "load_twice_named": load(graph([N("Neg", "x", "y"), N("Abs", "x", "y")])),
    "load_arity": load(graph([N("Add", "x", "y")])),
    "load_arity_more": load(graph([N("Neg", "x x", "y")])),
    "load_attribute_type": load(graph([N("Softmax", "x", "y", axis="last")])),
    "load_attribute_missing": load(graph([N("Cast", "x", "y")])),
    "load_type_mismatch": load(graph([N("Add", "x i", "y")], inits=[("i", np.int64([1, 2, 3]))])),
    "load_type_not_allowed": load(graph([N("Not", "x", "y")])),
    "load_shape_mismatch": load(graph([N("MatMul", "x w", "y")], inits=[("w", np.zeros((5, 2), np.float32))])),
    "load_output_type": load(graph([N("Neg", "x", "y")], outputs=[package.tensor("y", I64, [2, 3])])),
    "load_ir_version": load(proto(lambda m: setattr(m, "ir_version", 999))),
    "load_no_graph": load(proto(lambda m: m.ClearField("graph"))),
    "load_opset_future": load(opset(999)),
    "load_no_opset": load(proto(lambda m: m.ClearField("opset_import"))),
    "load_options_wrong": lambda n: n.rt.InferenceSession(package.affine(), 3),
    "load_provider_options_length": lambda n: n.rt.InferenceSession(
        package.affine(), providers=["CPUExecutionProvider"], provider_options=[]),
    "load_providers_kind": lambda n: n.rt.InferenceSession(package.affine(), providers=[3]),
    "load_cancelled": lambda n: (n.o.set_load_cancellation_flag(True), n.rt.InferenceSession(package.affine(), n.o)),
    # ---- options ----
    "option_unknown": lambda n: setattr(n.o, "no_such_option", 1),
    "option_threads_text": lambda n: setattr(n.o, "intra_op_num_threads", "many"),
    "option_level_int": lambda n: setattr(n.o, "graph_optimization_level", 1),
    "option_mode_text": lambda n: setattr(n.o, "execution_mode", "fast"),
    "option_logid_int": lambda n: setattr(n.o, "logid", 3),
    "option_profiling_text": lambda n: setattr(n.o, "enable_profiling", "yes"),
    "entry_empty": lambda n: n.o.add_session_config_entry("", "x"),
    "entry_long": lambda n: n.o.add_session_config_entry("k" * 5000, "x"),
    "entry_value_int": lambda n: n.o.add_session_config_entry("k", 3),
    "entry_absent": lambda n: n.o.get_session_config_entry("absent"),
    "run_entry_absent": lambda n: n.r.get_run_config_entry("absent"),
    "run_entry_empty": lambda n: n.r.add_run_config_entry("", "x"),
    "run_option_unknown": lambda n: setattr(n.r, "no_such_option", 1),
    "run_option_level": lambda n: setattr(n.r, "log_severity_level", "loud"),
    "library_absent": lambda n: n.o.register_custom_ops_library("no such library.so"),
    "initializer_no_value": lambda n: n.o.add_initializer("w", 3),
    "external_lengths": lambda n: n.o.add_external_initializers(["w"], []),
    "severity_text": lambda n: n.rt.set_default_logger_severity("loud"),
    "severity_range": lambda n: n.rt.set_default_logger_severity(9),
    # ---- values ----
    "value_none": lambda n: n.rt.OrtValue(None),
    "value_strings_on_device": lambda n: n.empty([2], str),
    "value_type_number": lambda n: n.empty([2], 99),
    "value_negative_dim": lambda n: n.empty([-2], np.float32),
    "value_device": lambda n: n.empty([2], np.float32, "toaster", 0),
    "value_device_kind": lambda n: n.rt.OrtDevice.make("toaster", 0),
    "update_none": lambda n: n.value(X.copy()).update_inplace(None),
    "update_list": lambda n: n.value(X.copy()).update_inplace([1, 2]),
    "update_size": lambda n: n.value(X.copy()).update_inplace(X[:1]),
    "update_type": lambda n: n.value(X.copy()).update_inplace(X.astype(np.float64)),
    "dlpack_no_object": lambda n: n.rt.OrtValue.from_dlpack(3),
    # ---- bindings ----
    "bind_input_name": bound(lambda n, b: b.bind_cpu_input("q", X)),
    "bind_ortvalue_input_name": bound(lambda n, b: b.bind_ortvalue_input("q", n.value(X))),
    "bind_output_buffer": bound(lambda n, b: b.bind_output("y", "cpu", 0, None, None, 1)),
    "bind_output_device": bound(lambda n, b: b.bind_output("y", "toaster")),
    "bind_input_device": bound(lambda n, b: b.bind_input("x", "toaster", 0, np.float32, [2, 3], X.ctypes.data)),
    "bind_run_nothing": bound(lambda n, b: n.s.run_with_iobinding(b)),
    "bind_run_rank": bound(lambda n, b: (b.bind_cpu_input("x", X[0]), b.bind_output("y"), n.s.run_with_iobinding(b))),
    "bind_run_type": bound(lambda n, b: (b.bind_cpu_input("x", X.astype(np.float64)), b.bind_output("y"),
                                         n.s.run_with_iobinding(b))),
}

GRAPH = "InvalidGraph for whatever the graph says wrongly; onnxruntime's class tells which of its checks saw it"
#: Where Nacre differs: (here, there, why).
DIFFERENT = {
    "load_folder": ("NoSuchFile", "InvalidProtobuf", "a folder is no file"),
    "load_no_opset": ("InvalidProtobuf", "Fail", "bytes without an opset are no model"),
    "load_cycle": ("InvalidGraph", "Fail", GRAPH),
    "load_missing_input": ("InvalidGraph", "InvalidArgument", GRAPH),
    "load_no_output": ("InvalidGraph", "Fail", GRAPH),
    "load_twice_named": ("InvalidGraph", "Fail", GRAPH),
    "load_type_mismatch": ("InvalidGraph", "Fail", GRAPH),
    "load_output_type": ("InvalidGraph", "Fail", GRAPH),
    "load_ir_version": ("ok", "Fail", "any IR version is read: new ones add fields"),
    "load_opset_future": ("ok", "Fail", "read as the newest opset that is known"),
    "load_provider_options_length": ("ValueError", "ok", "onnxruntime prints it and goes on with the CPU"),
    "load_providers_kind": ("ValueError", "ok", "onnxruntime prints it and goes on with the CPU"),
    "option_level_int": ("ok", "TypeError", "a number is taken for its level"),
    "update_type": ("RuntimeError", "ok", "onnxruntime copies bytes of another type"),
}


@pytest.mark.parametrize("name", CASES)
def test_misuse_raises_the_same_class(name):
    (mine, text), (theirs, _) = (outcome(rt, CASES[name]) for rt in (nacre, ort))
    if name in DIFFERENT:
        assert (mine, theirs) == DIFFERENT[name][:2], text
    else:
        assert mine == theirs, text
    assert mine == "ok" or text


def test_a_session_works_after_mistakes():
    s = nacre.InferenceSession(package.affine())
    want = s.run(None, {"x": X})
    for name, call in CASES.items():
        if not name.startswith(("run_", "bind_")) or name == "run_terminated":
            continue
        try:
            call(types.SimpleNamespace(rt=nacre, s=s, o=nacre.SessionOptions(), r=nacre.RunOptions(),
                                       value=nacre.OrtValue.ortvalue_from_numpy, empty=None))
        except Exception:
            pass
        for got, w in zip(s.run(None, {"x": X}), want):
            np.testing.assert_array_equal(got, w)
