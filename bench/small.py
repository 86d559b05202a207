"""What a node costs beside its arithmetic: models of tiny nodes, run from Python and from C (`nacre bench`) beside
onnxruntime from Python; and sessions of many nodes, created.
"""
import functools
import re
import statistics
import subprocess

import numpy as np

import exported
import models
from engines import NAMES, Engine, looped, turns
from figures import Figure
from table import print_table

FROM_PYTHON, FROM_C, CREATE = 0.4, 0.25, 0.2  # of onnxruntime's time
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def _file(bench, name, model):
    path = bench.folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


def from_c(bench, path, *more):
    """Median milliseconds of a run, as `nacre bench` prints it."""
    command = [str(bench.build / "nacre"), "bench", path, "--seconds", "0.2" if bench.quick else "1", *more]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    median = re.search(r"^\s*A\s+\d+\s+([\d.]+) (ns|us|ms|s)\b", text, re.M)
    return float(median[1]) * UNITS[median[2]]


def _run(bench, n):
    """Milliseconds: nacre and onnxruntime from Python, nacre from C."""
    path, feeds = _file(bench, f"tiny{n}", models.tiny(n)), bench.folder / "small.npz"
    np.savez(feeds, x=np.random.default_rng(2).standard_normal((4, 8), np.float32))
    return looped(bench, f"{n} tiny nodes", path, feeds, 20 if bench.quick else 300), from_c(bench, path)


def _create(bench, path):
    with Engine(NAMES[0], bench.package) as a, Engine(NAMES[1], bench.package) as b:
        engines, took = {a.name: a, b.name: b}, {n: [] for n in NAMES}
        for name in turns(bench.turns):
            took[name].append(engines[name].ask("create", model=path))
    return [[statistics.median(t[clock] for t in took[n]) for n in NAMES] for clock in ("wall", "cpu")]


def measure(bench):
    found, table = [], []
    for n in (20, 300):
        bench.say(f"{n} tiny nodes")
        (wall, cpu), c = _run(bench, n)
        found.append(Figure(f"{n} tiny nodes, from Python", wall[0] / wall[1], FROM_PYTHON, cpu[0] / cpu[1]))
        found.append(Figure(f"{n} tiny nodes, from C", c / wall[1], FROM_C))
        table.append([f"{n} tiny nodes, from Python", *(1e3 * t for t in wall), found[-2].value])
        table.append([f"{n} tiny nodes, from C", 1e3 * c, 1e3 * wall[1], found[-1].value])
    print_table("Runs of tiny nodes, us (onnxruntime from Python)", ["", "nacre", "ORT", "ratio"], table)
    return found + _created(bench)


def _created(bench):
    found, table = [], []
    some = 200 if bench.quick else 2000
    files = {f"{some} function calls": lambda: _file(bench, "create", models.calls(some)),
             "300 tiny nodes": lambda: _file(bench, "create", models.tiny(300)),
             "an LSTM of sliced weights": lambda: _file(bench, "create",
                                                        models.sliced_lstm(64 if bench.quick else 512))}
    if exported.missing():
        bench.say(f"not measured, for lack of {', '.join(exported.missing())}: {', '.join(exported.NAMES.values())}")
    else:
        files |= {said: functools.partial(exported.path, bench.folder, name, bench.quick)
                  for name, said in exported.NAMES.items()}
    for name, make in files.items():
        bench.say(f"creation: {name}")
        wall, cpu = _create(bench, make())
        found.append(Figure(f"create {name}", wall[0] / wall[1], CREATE, cpu[0] / max(cpu[1], 1e-6)))
        table.append([f"create {name}", *wall, found[-1].value])
    print_table("Sessions created, ms", ["", "nacre", "ORT", "ratio"], table)
    return found
