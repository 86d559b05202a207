"""Forward and backward of four networks beside PyTorch, eager and compiled, and whole steps with AdamW: each in a
process of its own, in turns. The figure is the time beside the best of PyTorch's, paired turn by turn. Counts only
where loss and gradients, or the losses of the first steps, agree.
"""
import contextlib
import math
import statistics
import sys
import time

import numpy as np

from engines import Engine
from figures import Figure
from paired import interval
from table import print_table

TURN_MS = 400
FIRST_LOSSES = 8
START_MS, START_STEPS = 1000, 1.5  # process start to end of first step: so much at most


class Backward:
    """Forward and backward; the gradients leave as results."""
    title, figure, MEAN, WORST, MEMORY = "Forward and backward", "gradients", 0.85, 1.0, 0.7


class Step:
    """Those and AdamW, in a training session."""
    title, figure, MEAN, WORST, MEMORY = "Forward, backward and AdamW", "steps", 0.80, 0.95, 0.7


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


def _artifacts(bench, name):
    """The folder of what a training session of the network takes. AdamW is PyTorch's, with its defaults: those of
    onnxruntime, whose epsilon grows at first, leave tiny gradients behind and BERT on another path."""
    import train_nets
    folder = bench.folder / f"train_{name.lower()}_artifacts_torch"
    if not (folder / "done").exists():
        sys.path.insert(0, str(bench.package))
        from nacre.training import artifacts, onnxblock
        torchs = onnxblock.optim.AdamW(eps=1e-8, weight_decay=0.01, mode=0)
        folder.mkdir(exist_ok=True)
        plain = bench.folder / f"train_{name.lower()}_forward.onnx"
        params = train_nets.export(name, plain)
        artifacts.generate_artifacts(str(plain), requires_grad=params, optimizer=torchs, artifact_directory=folder)
        (folder / "done").touch()
    return folder


def _learn_alike(bench, name, engines):
    """The losses of the first steps from the same parameters."""
    losses = {k: np.array(e.ask("losses", times=FIRST_LOSSES)["losses"]) for k, e in engines.items()}
    off = np.abs(losses["nacre"] - losses["eager"]).max() / np.abs(losses["eager"]).max()
    if not off <= 1e-2:
        bench.disagreed.append(name)
        print(f"\n{name}: losses {losses['nacre']}, of PyTorch {losses['eager']}: not counted")
    return off <= 1e-2


def _measure(bench, name, threads, kinds, what):
    path, feeds = _made(bench, name)
    artifacts = str(_artifacts(bench, name)) if what is Step else None
    with contextlib.ExitStack() as stack:
        engines, first, start = {}, {}, {}
        for k in kinds:
            began = time.perf_counter()
            engines[k] = stack.enter_context(Engine(k, bench.package, "train_worker.py"))
            first[k] = engines[k].ask("load", name=name, model=str(path), feeds=str(feeds), threads=threads,
                                      artifacts=artifacts)["first"]
            start[k] = (time.perf_counter() - began) * 1e3
        if not (_learn_alike if what is Step else _agree)(bench, name, engines):
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
            "start": start, "ratio": interval([a / b for a, b in zip(ms["nacre"], ms[best])]),
            "memory": memory["nacre"] / min(memory[k] for k in kinds[1:])}


def _show(rows, kinds, what, word):
    print_table(f"{what.title}, {word}, ms",
                ["", *kinds, "ratio", "95 %", "memory", *(f"start {k}" for k in kinds)],
                [[r["name"], *(r["ms"][k] for k in kinds), r["ratio"][0],
                  f"{r['ratio'][1]:.2f}-{r['ratio'][2]:.2f}", r["memory"], *(r["start"][k] for k in kinds)]
                 for r in rows])


def _figures(rows, what, word):
    found = []
    for r in rows:
        found += [Figure(f"{what.figure} of {r['name']}, {word}", r["ratio"][0], what.WORST),
                  Figure(f"{what.figure} of {r['name']}, {word}: memory", r["memory"], what.MEMORY)]
        if what is Step:
            most = START_MS + START_STEPS * r["ms"]["nacre"]
            found.append(Figure(f"start to first step of {r['name']}, {word}", r["start"]["nacre"] / most, 1.0))
    if rows:
        mean = math.exp(statistics.fmean(math.log(r["ratio"][0]) for r in rows))
        found.append(Figure(f"{what.figure}, geometric mean, {word}", mean, what.MEAN))
    return found


def measure(bench):
    import train_nets
    found, kinds = [], ("nacre", "eager") if bench.quick else ("nacre", "eager", "compile")
    for what in (Backward, Step):
        for threads in (1, 0):
            word = "one thread" if threads else f"{bench.limits.threads} threads"
            rows = []
            for name in ("MLP",) if bench.quick else train_nets.NETS:
                bench.say(f"{what.title} of {name}, {word}")
                row = _measure(bench, name, threads, kinds, what)
                rows += [row] if row else []
            _show(rows, kinds, what, word)
            found += _figures(rows, what, word)
    return found
