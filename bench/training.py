"""Forward and backward of four networks beside PyTorch, eager and compiled: each in a process of its own, in turns. The
figure is the time beside the best of PyTorch's, paired turn by turn. Counts only where loss and gradients agree.
"""
import contextlib
import math
import statistics
import sys

import numpy as np

from engines import Engine
from figures import Figure
from table import print_table
from whole import interval

MEAN, WORST, MEMORY = 0.85, 1.0, 0.7
TURN_MS = 400


def _made(bench, name):
    """The model with the gradients of its loss, and its batch."""
    import onnx

    import train_nets
    stem = f"train_{name.lower()}"
    path, feeds = bench.folder / f"{stem}.onnx", bench.folder / f"{stem}.npz"
    if not (path.exists() and feeds.exists()):
        sys.path.insert(0, str(bench.package))
        from nacre import training
        plain = bench.folder / f"{stem}_forward.onnx"
        params = train_nets.export(name, plain)
        part = path.with_suffix(".part")
        onnx.save(training.gradients(str(plain), "loss", params), part)
        part.rename(path)
        np.savez(feeds, **train_nets.make(name)[1])
    return path, feeds


def _agree(bench, name, engines):
    """The loss and every gradient: the largest difference beside the largest element."""
    found = {}
    for n, engine in engines.items():
        path = bench.folder / f"gradients_{n}.npz"
        engine.ask("results", path=str(path))
        with np.load(path) as f:
            found[n] = dict(f)
    for key, a in found["nacre"].items():
        b = found["eager"][key]
        off = np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-6)
        if a.shape != b.shape or not off <= 1e-2:
            bench.disagreed.append(name)
            print(f"\n{name}: '{key}' differs by {off:.2g} of its largest element: not counted")
            return False
    return len(found["nacre"]) > 1


def _measure(bench, name, threads, kinds):
    path, feeds = _made(bench, name)
    with contextlib.ExitStack() as stack:
        engines = {k: stack.enter_context(Engine(k, bench.package, "train_worker.py")) for k in kinds}
        first = {k: e.ask("load", name=name, model=str(path), feeds=str(feeds), threads=threads)["first"]
                 for k, e in engines.items()}
        if not _agree(bench, name, engines):
            return None
        runs = {k: max(1, int(TURN_MS / e.ask("turn", times=1)["ms"][0])) for k, e in engines.items()}
        rounds = []
        for i in range(1 if bench.quick else bench.turns + 4):
            order = list(engines)[i % len(engines):] + list(engines)[:i % len(engines)]
            rounds.append({k: engines[k].ask("turn", times=1 if bench.quick else runs[k]) for k in order})
    ms = {k: [statistics.median(r[k]["ms"]) for r in rounds] for k in kinds}
    best = min(kinds[1:], key=lambda k: statistics.median(ms[k]))
    memory = {k: rounds[-1][k]["memory"] for k in kinds}
    return {"name": name, "ms": {k: statistics.median(v) for k, v in ms.items()}, "first": first, "best": best,
            "ratio": interval([a / b for a, b in zip(ms["nacre"], ms[best])]),
            "memory": memory["nacre"] / min(memory[k] for k in kinds[1:])}


def measure(bench):
    import train_nets
    found, kinds = [], ("nacre", "eager") if bench.quick else ("nacre", "eager", "compile")
    for threads in (1, 0):
        word = "one thread" if threads else f"{bench.limits.threads} threads"
        rows = []
        for name in ("MLP",) if bench.quick else train_nets.NETS:
            bench.say(f"forward and backward of {name}, {word}")
            row = _measure(bench, name, threads, kinds)
            rows += [row] if row else []
        print_table(f"Forward and backward, {word}, ms",
                    ["", *kinds, "ratio", "95 %", "memory", *(f"first {k}" for k in kinds)],
                    [[r["name"], *(r["ms"][k] for k in kinds), r["ratio"][0],
                      f"{r['ratio'][1]:.2f}-{r['ratio'][2]:.2f}", r["memory"], *(r["first"][k] for k in kinds)]
                     for r in rows])
        for r in rows:
            found += [Figure(f"gradients of {r['name']}, {word}", r["ratio"][0], WORST),
                      Figure(f"gradients of {r['name']}, {word}: memory", r["memory"], MEMORY)]
        if rows:
            mean = math.exp(statistics.fmean(math.log(r["ratio"][0]) for r in rows))
            found.append(Figure(f"gradients, geometric mean, {word}", mean, MEAN))
    return found
