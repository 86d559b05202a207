"""Steady speed of operators and small models. For each, both engines load the model in a process of their own and take
turns; a turn is as many runs as fill a few hundredths of a second, after runs that only warm up.
"""
import dataclasses
import pathlib
import statistics
import typing

import numpy as np

import models
from engines import NAMES, Engine, turns
from figures import Figure
from table import print_table, share

TURN_MS, MAX_RUNS = 40, 200
ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Case:
    name: str
    make: typing.Callable  # a model, or a path
    x: tuple               # dims of the input
    flops: float = 0       # of one run
    data: float = 0        # bytes that must be read and written
    feed: str = "x"
    dtype: type = np.float32


def _conv(channels, out, kernel, size, group=1):
    return Case(f"conv {kernel}x{kernel}, {channels}->{out}, {size}x{size}" + (", depthwise" if group > 1 else ""),
                lambda: models.conv(channels, out, kernel, size, group), (1, channels, size, size),
                2 * out * channels // group * kernel ** 2 * size ** 2, 4 * size ** 2 * (channels + out))


def _matmul(m, k, n):
    return Case(f"matmul {m}x{k}x{n}", lambda: models.matmul(m, k, n), (m, k), 2 * m * k * n,
                4 * (m * k + k * n + m * n))


def _rows(name, make, rows, width):
    return Case(f"{name} {rows}x{width}", lambda: make(rows, width), (rows, width), 0, 8 * rows * width)


def _unary(op):
    return lambda rows, width: models.unary(op, rows, width)


def cases(quick):
    """Small ones in a quick run: it shows that the scripts work, not what is fast."""
    digits = Case("digits CNN, batch 64", lambda: ROOT / "examples/digits/digits.onnx", (64, 1, 8, 8), feed="pixels")
    if quick:
        return [_matmul(8, 16, 8), _conv(4, 4, 3, 8), _rows("softmax", _unary("Softmax"), 4, 16), digits]
    steps, batch, width, hidden = 64, 8, 256, 256
    return [
        _matmul(512, 512, 512), _matmul(128, 768, 3072), _matmul(1, 1024, 4096),
        _conv(64, 64, 3, 56), _conv(256, 64, 1, 56), _conv(96, 96, 3, 56, 96), _conv(3, 32, 7, 112),
        _rows("softmax", _unary("Softmax"), 1536, 128), _rows("layer norm", models.layer_norm, 1024, 768),
        _rows("gelu of Erf", models.gelu, 512, 3072), _rows("relu", _unary("Relu"), 2048, 2048),
        Case(f"LSTM {steps} steps, batch {batch}, {width}", lambda: models.lstm(steps, batch, width, hidden),
             (steps, batch, width), 2 * steps * batch * 4 * hidden * (width + hidden), 0), digits]


def _prepared(bench, case):
    model = case.make()
    if not isinstance(model, pathlib.Path):
        path = bench.folder / "speed.onnx"
        path.write_bytes(model.SerializeToString())
        model = path
    feeds = bench.folder / "speed.npz"
    x = np.random.default_rng(2).standard_normal(case.x, np.float32)
    if case.dtype is not np.float32:
        x = np.abs(50 * x).astype(case.dtype)
    np.savez(feeds, **{case.feed: x})
    return str(model), str(feeds)


def measure_case(bench, case, threads=0):
    """Median milliseconds, wall and CPU, of both; threads: 0 is all."""
    model, feeds = _prepared(bench, case)
    with Engine(NAMES[0], bench.package) as a, Engine(NAMES[1], bench.package) as b:
        engines, per_turn, sums = {a.name: a, b.name: b}, {}, {}
        for name, engine in engines.items():
            engine.ask("load", model=model, feeds=feeds, threads=threads)
            warm = engine.ask("run", times=3)
            per_turn[name] = max(1, min(MAX_RUNS, int(TURN_MS / warm["runs"][-1]["wall"])))
            sums[name] = warm["sums"]
        bench.agree(case.name, *(sums[n] for n in NAMES))
        runs = {n: [] for n in NAMES}
        for name in turns(bench.turns):
            runs[name] += engines[name].ask("run", times=per_turn[name])["runs"]
    return [[statistics.median(r[clock] for r in runs[n]) for n in NAMES] for clock in ("wall", "cpu")]


def measure(bench):
    found, table = [], []
    for case in cases(bench.quick):
        bench.say(case.name)
        wall, cpu = measure_case(bench, case)
        figure = Figure(case.name, wall[0] / wall[1], cpu=cpu[0] / max(cpu[1], 1e-6))
        found.append(figure)
        near = [share(bench.limits.share(case.flops, case.data, t)) for t in wall]
        table.append([case.name, *wall, figure.value, figure.cpu, *near])
    print_table(f"Speed, ms (medians of {bench.turns} turns of up to {TURN_MS} ms each, after 3 runs to warm up)",
                ["", "nacre", "ORT", "ratio", "CPU ratio", "nacre of limit", "ORT of limit"], table)
    return found
