"""Odd and bad models through the public API: functions, defaults of inputs, sparse tensors and fields of every kind
against onnx and onnxruntime; damaged, ill-typed, cyclic, huge and escaping ones, which must fail with a message."""
import os
import resource
import subprocess
import sys

import numpy as np
import onnx
import onnx.defs
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from nacre_c import ROOT, NacreError
from tolerances import close


def reference(proto, feeds):
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def agrees(env, proto, feeds):
    want = reference(proto, feeds)
    with env.session(proto) as session:
        got = session.run(feeds)
    for name, x in want.items():
        close(got[name], x, "ort_f32")


FAULTS = ROOT / "tests" / "faults"
X = np.array([1.5, -2, 0, 3, -0.25], np.float32)


# ---- functions ----

def test_functions_as_onnxruntime(env, tmp_path):
    proto = onnx.load(FAULTS / "functions.onnx")  # nested, with defaults and references of attributes
    onnx.checker.check_model(proto)
    agrees(env, proto, {"x": X})
    with env.model(proto) as m:
        m.save(tmp_path / "flat.onnx")
    flat = onnx.load(tmp_path / "flat.onnx")
    onnx.checker.check_model(flat, full_check=True)
    assert not flat.functions and [n.op_type for n in flat.graph.node] == ["Mul", "Tanh"] * 4
    agrees(env, flat, {"x": X})


def test_functions_keep_their_opset(env, tmp_path):
    """Softmax at opset 11 sees [2, 6], at 13 the last axis: the file's function says 11."""
    fn = helper.make_function("my", "Old", ["a"], ["b"], [helper.make_node("Softmax", ["a"], ["b"])],
                              [helper.make_opsetid("", 11)])
    graph = helper.make_graph([helper.make_node("Old", ["x"], ["y"], domain="my"),
                               helper.make_node("Softmax", ["x"], ["z"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2, 3])],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2, 3]) for n in "yz"])
    proto = helper.make_model(graph, functions=[fn], ir_version=10,
                              opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("my", 1)])
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 7
    e = np.exp(x - x.max(axis=(1, 2), keepdims=True))
    with env.session(proto) as session:
        got = session.run({"x": x})
    close(got["y"], e / e.sum(axis=(1, 2), keepdims=True), "ort_f32")
    close(got["z"].sum(axis=-1), np.ones((2, 2)), "ort_f32")
    with env.model(proto) as m:
        m.save(tmp_path / "again.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "again.onnx"), skip_opset_compatibility_check=True)
    with env.session(tmp_path / "again.onnx") as session:
        again = session.run({"x": x})
    assert all(np.array_equal(again[n], got[n]) for n in "yz")


# ---- defaults of inputs, sparse tensors, every version ----

def scale_model(ir_version, sparse=False, as_input=True):
    w = np.array([0, 2, 0, -1, 0], np.float32)
    at = np.nonzero(w)[0]
    initializers = [] if sparse else [numpy_helper.from_array(w, "w")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])]
    if as_input:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [5]))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", inputs,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])], initializers)
    if sparse:
        graph.sparse_initializer.append(helper.make_sparse_tensor(
            helper.make_tensor("w", TensorProto.FLOAT, [len(at)], w[at]),
            helper.make_tensor("i", TensorProto.INT64, [len(at)], at), [5]))
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("ir_version", [3, 4, 10])
def test_initializer_as_input(env, ir_version):
    proto = scale_model(ir_version)
    agrees(env, proto, {"x": X})
    with env.session(proto) as session:
        if ir_version < 4:
            assert session.inputs == ["x"]
            return
        assert np.array_equal(session.run({"x": X, "w": X})["y"], X * X)
        assert np.array_equal(session.run({"x": X})["y"], reference(proto, {"x": X})["y"])
        with pytest.raises(NacreError, match="was not given"):
            session.run({"w": X})


def test_sparse_initializer(env):
    agrees(env, scale_model(10, sparse=True, as_input=False), {"x": X})


def test_every_ir_and_opset_version(env):
    for ir_version in range(1, onnx.IR_VERSION + 1):
        for opset in range(1, onnx.defs.onnx_opset_version() + 1):
            graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                                      [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
                                      [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])])
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
            if ir_version < 3:
                del proto.opset_import[:]
            with env.session(proto) as session:
                assert np.array_equal(session.run({"x": X})["y"], X)


# ---- saving ----

def test_saving_keeps_what_it_does_not_know(env, tmp_path):
    proto = scale_model(10, as_input=False)
    proto.doc_string, proto.domain, proto.model_version = "about the model", "org.example", 7
    helper.set_model_props(proto, {"author": "me"})
    graph = proto.graph
    graph.doc_string = "about the graph"
    graph.metadata_props.add(key="g", value="graph prop")
    graph.node[0].doc_string = "about the node"
    graph.node[0].metadata_props.add(key="n", value="node prop")
    graph.input[0].doc_string = "about x"
    graph.output[0].doc_string = "about y"
    graph.initializer[0].doc_string = "about w"
    note = graph.quantization_annotation.add(tensor_name="w")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    info = proto.training_info.add()
    info.algorithm.name = "step"
    with env.model(proto) as m:
        m.save(tmp_path / "kept.onnx")
    kept = onnx.load(tmp_path / "kept.onnx")
    for a, b in [(proto, kept), (graph, kept.graph), (graph.node[0], kept.graph.node[0]),
                 (graph.input[0], kept.graph.input[0]), (graph.output[0], kept.graph.output[0]),
                 (graph.initializer[0], kept.graph.initializer[0])]:
        assert a.doc_string == b.doc_string != ""
    for part in ("domain", "model_version", "metadata_props", "training_info"):
        assert getattr(kept, part) == getattr(proto, part)
    assert kept.graph.metadata_props == graph.metadata_props
    assert kept.graph.node[0].metadata_props == graph.node[0].metadata_props
    assert kept.graph.quantization_annotation == graph.quantization_annotation


def test_external_data_is_written(env, tmp_path):
    rng = np.random.default_rng(3)
    big, small = rng.standard_normal((50, 40)).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "W", "b"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 50])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 40])],
                              [numpy_helper.from_array(big, "W"), numpy_helper.from_array(small, "b")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = tmp_path / "m.onnx"
    with env.model(proto) as m:
        m.save_external(path, "m.bin", 1000)
        with pytest.raises(NacreError, match="not a plain file name"):
            m.save_external(path, "../m.bin", 1000)
    assert os.path.getsize(tmp_path / "m.bin") == big.nbytes and os.path.getsize(path) < 2000
    onnx.checker.check_model(str(path), full_check=True)
    x = rng.standard_normal((3, 50)).astype(np.float32)
    want = reference(proto, {"x": x})["y"]
    peer = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(peer.run(None, {"x": x})[0], want)
    with env.session(path) as session:
        close(session.run({"x": x})["y"], want, "ort_f32")


# ---- bad models ----

def one_node(op, inputs, elem=TensorProto.FLOAT, shape=(2, 3), initializers=(), **attributes):
    names = [n for n in inputs if n not in [i.name for i in initializers]]
    graph = helper.make_graph([helper.make_node(op, inputs, ["y"], name="it", **attributes)], "g",
                              [helper.make_tensor_value_info(n, elem, shape) for n in names],
                              [helper.make_tensor_value_info("y", elem, None)], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def ints(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


@pytest.mark.parametrize("proto", [
    one_node("Relu", ["a"], TensorProto.STRING),
    one_node("MatMul", ["a", "b"], shape=(2, 3)),
    one_node("Add", ["a", "b", "c"]),
    one_node("Relu", ["a"], alpha=1.0),
    one_node("Transpose", ["a"], perm=[0, 0]),
    one_node("Transpose", ["a"], perm=[0, 7]),
    one_node("Concat", ["a"], axis=9),
    one_node("Softmax", ["a"], axis=-3),
    one_node("Reshape", ["a", "s"], initializers=[ints("s", [-1, -1])]),
    one_node("Reshape", ["a", "s"], initializers=[ints("s", [7])]),
    one_node("Cast", ["a"], to=999),
], ids=lambda p: p.graph.node[0].op_type)
def test_ill_typed_nodes_are_named(env, proto):
    with pytest.raises(NacreError) as error:
        env.session(proto)
    assert error.value.node == "it" and error.value.op == proto.graph.node[0].op_type and error.value.text


@pytest.mark.parametrize("sizes", [[2**31, 2**31], [2**62, 4], [-5], [2**40]])
def test_huge_results_fail_cleanly(env, sizes):
    proto = one_node("ConstantOfShape", ["s"], initializers=[ints("s", sizes)])
    with pytest.raises(NacreError):
        with env.session(proto) as session:
            session.run({})


def test_cycles_and_missing_files(env, tmp_path):
    proto = one_node("Relu", ["a"])
    proto.graph.node[0].input[0] = "y"
    with pytest.raises(NacreError, match="'y' is not defined"):
        env.model(proto)
    with pytest.raises(NacreError, match="NO_FILE"):
        env.model(tmp_path / "none.onnx")
    with pytest.raises(NacreError):
        env.model(tmp_path)
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(NacreError, match="ir_version is missing|graph is missing"):
        env.model(tmp_path / "empty.onnx")


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "link", "sub/../../secret", "folder/secret"])
def test_external_data_that_leads_out(env, tmp_path, location):
    (tmp_path / "secret").write_bytes(b"x" * 20)
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to("../secret")
    (home / "folder").symlink_to("..")
    proto = scale_model(10, as_input=False)
    w = proto.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value=location)
    (home / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(NacreError, match="leaves the model's folder"):
        env.model(home / "m.onnx")


DAMAGE = """
import resource, sys
import numpy as np
sys.path.insert(0, "tests/py")
from nacre_c import Env, NacreError
data = bytearray(open(sys.argv[1], "rb").read())
rng = np.random.default_rng(int(sys.argv[2]))
ok = bad = 0
with Env(1) as env:
    for i in range(300):
        broken = bytearray(data)
        if i % 4 == 0:
            broken = broken[:rng.integers(len(data))]
        for k in range(i % 4):
            at = rng.integers(len(data) if i % 3 else min(len(data), 600))
            broken[at] ^= 1 << rng.integers(8)
        try:
            with env.session(bytes(broken)):
                ok += 1
        except NacreError as e:
            assert e.text
            bad += 1
print(ok, bad)
"""


def test_damaged_model_takes_bounded_memory(tmp_path):
    """A process of its own under a limit of 4 GiB of addresses: a damaged model neither crashes it nor fills it."""
    rng = np.random.default_rng(1)
    shapes = {"W1": (600, 800), "b1": (800,), "W2": (800, 1000), "b2": (1000,)}
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "W1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["a"]),
         helper.make_node("Reshape", ["a", "s"], ["r"]), helper.make_node("Gemm", ["r", "W2", "b2"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 600])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1000])],
        [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()] +
        [ints("s", [-1, 800])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert path.stat().st_size > 5e6
    limit = (4 << 30, 4 << 30)
    done = subprocess.run([sys.executable, "-c", DAMAGE, str(path), "5"], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
                          cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    assert done.returncode == 0, done.stderr
    ok, bad = map(int, done.stdout.split())
    assert ok > 0 and bad > 50
