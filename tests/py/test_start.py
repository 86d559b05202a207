"""How long from process start to the first output of an MLP: printed with -s, never judged.

Beside it: a C program that does nothing, and onnxruntime from import to first output. All are whole processes, timed
from outside.
"""
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nacre_c import PROGRAM

RUNS, ORT_RUNS = 20, 5
ORT = """import sys, numpy, onnxruntime
s = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
s.run(None, {"x": numpy.zeros((1, 784), numpy.float32)})"""


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    rng = np.random.default_rng(0)
    weights = {"W1": (784, 32), "b1": (32,), "W2": (32, 10), "b2": (10,)}
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "W1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["a"]),
         helper.make_node("Gemm", ["a", "W2", "b2"], ["y"])], "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 784])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) * 0.1, n) for n, s in weights.items()])
    path = tmp_path_factory.mktemp("start") / "mlp.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                       ir_version=10).SerializeToString())
    return path


@pytest.fixture(scope="module")
def empty_program(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "empty"
    built = subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", path], input=b"int main(void) { return 0; }",
                           capture_output=True)
    if built.returncode:
        pytest.skip("no C compiler called cc")
    return path


def milliseconds(command, runs):
    """Each run's time, sorted; one run before them warms the file cache."""
    times = []
    for i in range(runs + 1):
        start = time.perf_counter()
        done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        times.append((time.perf_counter() - start) * 1e3)
        assert done.returncode == 0, done.stderr.decode()
    return sorted(times[1:])


def test_print_the_time_to_the_first_output(mlp, empty_program):
    print()
    for title, command, runs in [("empty C program", [empty_program], RUNS),
                                 ("nacre run mlp.onnx", [PROGRAM, "run", mlp], RUNS),
                                 ("onnxruntime, import to output", [sys.executable, "-c", ORT, mlp], ORT_RUNS)]:
        t = milliseconds(command, runs)
        print(f"  {title:32s} median {statistics.median(t):8.2f} ms   min {t[0]:8.2f}   max {t[-1]:8.2f}   of {runs}")
