"""The size of the package's shared objects, stripped, beside onnxruntime's as they are installed; and the time from
process start to the first output of a small network, for the command line and for both packages from Python.
"""
import pathlib
import shutil
import subprocess
import sys
import time

import onnxruntime

from engines import median
from figures import Figure
from models import F, Build, helper, made, tensor
from table import print_table

MB = 1e6
LARGEST = 3.0
FIRST = """import sys, numpy, {engine}
s = {engine}.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
s.run(None, {{"x": numpy.zeros((1, 784), numpy.float32)}})"""


def _stripped(path, folder):
    copy = pathlib.Path(folder) / path.name
    shutil.copy(path.resolve(), copy)
    subprocess.run(["strip", str(copy)], check=True)
    return copy.stat().st_size / MB


def sizes(bench):
    ours = [bench.build / "libnacre.so", bench.package / "nacre" / "_core.abi3.so"]
    theirs = [p for p in pathlib.Path(onnxruntime.__file__).parent.rglob("*.so*") if not p.is_symlink()]
    table = [[p.name, _stripped(p, bench.folder), None] for p in ours]
    total = sum(row[1] for row in table)
    beside = sum(p.stat().st_size for p in theirs) / MB
    figure = Figure("shared objects, MB", total, LARGEST)
    table.append(["together", total, beside, figure.target])
    print_table("Shared objects of the package, MB stripped", ["", "nacre", "ORT", "target"],
                [row + [None] * (4 - len(row)) for row in table])
    return [figure]


def _mlp():
    b = Build()
    h = b.node("Relu", b.node("Gemm", "x", b.weight(784, 32), b.weight(32)))
    b.nodes.append(helper.make_node("Gemm", [h, b.weight(32, 10), b.weight(10)], ["y"]))
    return b.model([tensor("x", F, "batch", 784)], [tensor("y", F, "batch", 10)])


def _milliseconds(command, env):
    start = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, env=env)
    return (time.perf_counter() - start) * 1e3


def start(bench):
    """Whole processes, timed from outside, in turn; the first round warms the page cache and is not counted."""
    model = made(bench.folder, "mlp", _mlp)
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(bench.package)}
    commands = {"true(1), for comparison": ["true"], "nacre run": [bench.build / "nacre", "run", model],
                "Python, numpy alone": [sys.executable, "-c", "import numpy"],
                "Python, nacre": [sys.executable, "-c", FIRST.format(engine="nacre"), model],
                "Python, onnxruntime": [sys.executable, "-c", FIRST.format(engine="onnxruntime"), model]}
    rounds = []
    for i in range(bench.starts + 1):
        bench.say(f"process start {i} of {bench.starts}")
        rounds.append({name: _milliseconds(command, env) for name, command in commands.items()})
    times = {name: median(rounds[1:], name) for name in commands}
    print_table(f"Process start to the first output of an MLP, ms (medians of {bench.starts})", ["", "ms"],
                list(times.items()))
    return [Figure("start to first output from Python", times["Python, nacre"] / times["Python, onnxruntime"])]


def measure(bench):
    return sizes(bench) + start(bench)
