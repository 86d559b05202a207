"""Models that ask for more than there is: huge results while running, with a cap and without; loops that never end;
data files and sparse tensors that promise too much; memory that runs out under the Python package. Each is an error
that says how many bytes were wanted, within bounded memory, and the session lives on."""
import os
import pathlib
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import package
from nacre_c import NacreError

ROOT = pathlib.Path(__file__).resolve().parents[2]
F, I = TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, initializers=(), elem=F):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                              [helper.make_tensor_value_info("y", elem, None)],
                              [numpy_helper.from_array(np.array(x), n) for n, x in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), name="it", **attributes)


one = ("one", np.float32([1]))
# Sizes come as inputs, so that nothing is known before the run: (model, feeds for so many elements).
BOMBS = {
    "Expand": (model([node("Expand", ["one", "n"])], [("n", I, [1])], [one]), lambda n: {"n": np.int64([n])}),
    "ConstantOfShape": (model([node("ConstantOfShape", ["n"])], [("n", I, [1])]), lambda n: {"n": np.int64([n])}),
    "Range": (model([node("Range", ["zero", "n", "step"])], [("n", I, [])],
                    [("zero", np.int64(0)), ("step", np.int64(1))], I), lambda n: {"n": np.int64(n)}),
    "Tile": (model([node("Tile", ["one", "n"])], [("n", I, [1])], [one]), lambda n: {"n": np.int64([n])}),
    "OneHot": (model([node("OneHot", ["at", "n", "values"])], [("n", I, [])],
                     [("at", np.int64([1])), ("values", np.float32([0, 1]))]), lambda n: {"n": np.int64(n)}),
    "Pad": (model([node("Pad", ["one", "n"])], [("n", I, [2])], [one]), lambda n: {"n": np.int64([0, n])}),
}


@pytest.mark.parametrize("elements", [2**38, 2**45, 2**61, 2**63 - 1])
@pytest.mark.parametrize("op", BOMBS)
def test_huge_results_at_run(env, op, elements):
    """Without a cap: what no machine has is refused before it is asked for, and the next run is well."""
    proto, feeds = BOMBS[op]
    with env.session(proto) as session:
        with pytest.raises(NacreError) as error:
            session.run(feeds(elements))
        assert error.value.code in ("MEMORY", "LIMIT", "SHAPE", "DATA"), error.value
        assert error.value.text
        if error.value.code == "MEMORY":
            assert "bytes" in error.value.text
        assert session.run(feeds(5))["y"].size in (5, 6)


@pytest.mark.parametrize("op", BOMBS)
def test_huge_results_under_a_cap(env, op):
    proto, feeds = BOMBS[op]
    with env.session(proto, memory_limit=1 << 20) as session:
        with pytest.raises(NacreError, match=r"limit is 1048576 bytes: \d+ wanted, \d+ in use, \d+ left"):
            session.run(feeds(10**6))
        assert session.run(feeds(1000))["y"].size in (1000, 1001)
        assert session.stats.bytes_session_peak <= 1 << 20


def test_sessions_of_one_environment_have_caps_of_their_own(env):
    proto, feeds = BOMBS["Expand"]
    with env.session(proto, memory_limit=10000) as small, env.session(proto, memory_limit=10**7) as large, \
            env.session(proto) as free:
        for _ in range(2):
            with pytest.raises(NacreError, match="LIMIT"):
                small.run(feeds(10**5))
            assert large.run(feeds(10**5))["y"].size == 10**5
            with pytest.raises(NacreError, match="LIMIT"):
                large.run(feeds(10**7))
            assert free.run(feeds(10**7))["y"].size == 10**7


def sparse_bomb(elements):
    m = model([node("Identity", ["w"])], [])
    m.graph.sparse_initializer.append(helper.make_sparse_tensor(
        helper.make_tensor("w", F, [1], [1.0]), helper.make_tensor("i", I, [1], [0]), [elements]))
    return m


def test_sparse_bombs(env):
    for elements in (2**31, 2**40, 2**62):
        with pytest.raises(NacreError) as error:
            env.session(sparse_bomb(elements)).close()
        assert error.value.text


@pytest.mark.parametrize("offset, length", [(0, 10**9), (8, 20), (2**62, 20), (0, 2**63 - 1), (30, 20)])
def test_external_data_beyond_its_file(env, tmp_path, offset, length):
    m = model([node("Add", ["x", "w"])], [("x", F, [5])], [("w", np.zeros(5, np.float32))])
    w = m.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", str(length))):
        w.external_data.add(key=key, value=value)
    (tmp_path / "w.bin").write_bytes(bytes(24))
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    with pytest.raises(NacreError) as error:
        env.session(tmp_path / "m.onnx").close()
    assert "w" in error.value.node + error.value.text


def endless():
    """A Loop of 2^62 steps."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["s", "s"], ["t"])], "b",
        [helper.make_tensor_value_info("i", I, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", F, [2])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("t", F, [2])])
    return model([node("Loop", ["n", "yes", "x"], body=body)], [("x", F, [2])],
                 [("n", np.int64(2**62)), ("yes", np.bool_(True))])


@pytest.mark.skipif(not package.BUILT, reason="the Python extension is not built")
def test_an_endless_loop_is_cancelled():
    import nacre
    session = nacre.InferenceSession(endless().SerializeToString())
    options = nacre.RunOptions()
    timer = threading.Timer(0.3, lambda: setattr(options, "terminate", True))
    timer.start()
    with pytest.raises(Exception, match="(?i)cancel|terminat"):
        session.run(None, {"x": np.zeros(2, np.float32)}, options)
    timer.join()


SHORT_OF_MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import nacre
data, x = open(sys.argv[2], "rb").read(), np.ones((64, 256), np.float32)
def life():
    session = nacre.InferenceSession(data)
    return session.run(None, {"x": x})[0]
want, outcomes = life(), []
pages = int(open("/proc/self/statm").read().split()[0])
for spare in range(0, 3 << 20, 1 << 16):
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + spare, resource.RLIM_INFINITY))
    try:
        outcomes.append(bool(np.array_equal(life(), want)))
    except MemoryError:
        outcomes.append(None)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert np.array_equal(life(), want)
print(outcomes.count(None), outcomes.count(True), outcomes.count(False))
"""


@pytest.mark.skipif(not package.BUILT, reason="the Python extension is not built")
def test_memory_that_runs_out_is_a_memory_error(tmp_path):
    """The address space of a process ends at many places of a life: each gives MemoryError or the right result."""
    nodes, last = [], "x"
    for i in range(6):
        nodes += [helper.make_node("MatMul", [last, "w"], [f"m{i}"]), helper.make_node("Tanh", [f"m{i}"], [f"t{i}"])]
        last = f"t{i}"
    nodes.append(helper.make_node("Concat", [f"t{i}" for i in range(6)], ["y"], axis=0))
    proto = model(nodes, [("x", F, ["n", 256])], [("w", np.ones((256, 256), np.float32) / 256)])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    done = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY, str(package.FOLDER), str(tmp_path / "m.onnx")],
                          capture_output=True, text=True, timeout=120, cwd=ROOT,
                          env=os.environ | {"NACRE_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"})
    assert done.returncode == 0, done.stderr
    short, well, wrong = map(int, done.stdout.split())
    assert short > 0 and well > 0 and wrong == 0


@pytest.mark.skipif(not package.BUILT, reason="the Python extension is not built")
def test_out_of_memory_is_both_exceptions():
    import nacre
    proto, feeds = BOMBS["ConstantOfShape"]
    session = nacre.InferenceSession(proto.SerializeToString())
    with pytest.raises(MemoryError, match="bytes") as error:
        session.run(None, feeds(2**45))
    from nacre.capi import onnxruntime_pybind11_state as state
    assert isinstance(error.value, state.RuntimeException)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 << 20
