"""Whole models beside onnxruntime, with one thread and with all of them. A model counts only if its outputs agree.

Each engine has a process of its own; they take turns, and the one that comes first changes. A pair of turns gives one
ratio; the figure is the median of those, with the range that holds the true median with 95 %. Right before and after
each turn the worker asks the machine what it can do (multiply-adds of one thread from registers): a pair in which those
answers differ by more than DRIFT is put aside, because the machine was not the same for both.
"""
import math
import statistics

import numpy as np

import flops
import models
import nets
from engines import NAMES, Engine
from figures import Figure
from table import print_table, share

TURN_MS, DRIFT, LEAST, MOST = 250, 0.03, 7, 60
QUICK = ("MobileNetV2",)
TARGETS = {"all": 0.70, "conv": 0.65, "gemm": 0.78}
WORST, CREATE, FIRST, MEMORY = 1.05, 0.2, 0.5, 0.5


def _made(bench, name):
    make, kind = nets.NETS[name]
    stem = name.lower().replace(",", "").replace(" ", "_")
    feeds, path = bench.folder / f"{stem}.npz", bench.folder / f"{stem}.onnx"
    if not (path.exists() and feeds.exists()):
        model, arrays = make()
        models.made(bench.folder, stem, lambda: model)
        np.savez(feeds, **arrays)
    return path, feeds, kind


def interval(values):
    """The median and the order statistics around it that hold the true one with about 95 %."""
    v = sorted(values)
    half = 0.98 * math.sqrt(len(v))
    low, high = max(0, math.floor(len(v) / 2 - half)), min(len(v) - 1, math.ceil(len(v) / 2 + half))
    return statistics.median(v), v[low], v[high]


def _steady(answers):
    peaks = [p for a in answers for p in a["peaks"]]
    return max(peaks) - min(peaks) <= DRIFT * max(peaks)


def _pairs(bench, engines, runs):
    """Pairs of turns until LEAST of them were steady, at most MOST; of all pairs where the machine never is."""
    kept, others = [], []
    for i in range(1 if bench.quick else MOST):
        order = NAMES if i % 2 == 0 else NAMES[::-1]
        answers = {n: engines[n].ask("turn", times=runs[n]) for n in order}
        (kept if _steady(answers.values()) else others).append(answers)
        if len(kept) >= bench.turns + LEAST - 5:
            break
    return (kept, True) if len(kept) >= LEAST else (kept + others, False)


def _agree(bench, name, engines, feeds):
    """Elements, not sums: the largest difference beside the largest element of each output."""
    found = []
    for n in NAMES:
        path = bench.folder / f"outputs_{n}.npz"
        engines[n].ask("outputs", path=str(path))
        with np.load(path) as f:
            found.append([f[k] for k in f.files])
    for i, (a, b) in enumerate(zip(*found, strict=True)):
        off = np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-6) if a.size else 0
        if a.shape != b.shape or not off <= 1e-3:
            bench.disagreed.append(name)
            print(f"\n{name}: output {i} differs by {off:.2g} of its largest element: not counted")
            return False
    return True


def _measure(bench, name, threads):
    path, feeds, kind = _made(bench, name)
    work = flops.count(path, feeds)
    with Engine(NAMES[0], bench.package) as a, Engine(NAMES[1], bench.package) as b:
        engines, took, runs = {a.name: a, b.name: b}, {}, {}
        for n, engine in engines.items():
            load = engine.ask("load", model=str(path), feeds=str(feeds), threads=threads)
            first = engine.ask("run", times=1)
            warm = engine.ask("run", times=2)
            above = {k: warm["memory"][k] - load["base"][k] for k in ("anonymous", "file")}
            took[n] = {"create": load["create"]["wall"], "first": load["create"]["wall"] + first["runs"][0]["wall"],
                       "memory": sum(above.values()) / 1e6}
            runs[n] = max(1, int((1 if bench.quick else TURN_MS) / max(warm["runs"][-1]["wall"], 1e-3)))
        if not _agree(bench, name, engines, feeds):
            return None
        pairs, steady = _pairs(bench, engines, runs)
    ms = {n: [statistics.median(p[n]["ms"]) for p in pairs] for n in NAMES}
    ratios = [x / y for x, y in zip(ms[NAMES[0]], ms[NAMES[1]])]
    peak = statistics.median(q for p in pairs for n in NAMES for q in p[n]["peaks"])
    used = threads or bench.limits.threads
    near = [work / (statistics.median(ms[n]) * 1e6 * peak * used) for n in NAMES]
    return {"name": name, "kind": kind, "ms": [statistics.median(ms[n]) for n in NAMES], "ratio": interval(ratios),
            "near": near, "pairs": len(pairs), "steady": steady,
            **{k: took[NAMES[0]][k] / took[NAMES[1]][k] for k in ("create", "first", "memory")}}


def _mean(rows):
    return math.exp(statistics.fmean(math.log(r["ratio"][0]) for r in rows))


def _figures(rows, word):
    found = [Figure(f"{r['name']}, {word}", r["ratio"][0], WORST) for r in rows]
    for r in rows:
        found += [Figure(f"{r['name']}, {word}: create", r["create"], CREATE),
                  Figure(f"{r['name']}, {word}: create + first run", r["first"], FIRST),
                  Figure(f"{r['name']}, {word}: memory", r["memory"], MEMORY)]
    for kind, target in TARGETS.items():
        some = [r for r in rows if kind in ("all", r["kind"])]
        if some:
            found.append(Figure(f"geometric mean of {kind}, {word}", _mean(some), target))
    return found


def measure(bench):
    found = []
    for threads in (1, 0):
        word = "one thread" if threads else f"{bench.limits.threads} threads"
        rows = []
        for name in QUICK if bench.quick else nets.NETS:
            bench.say(f"{name}, {word}")
            row = _measure(bench, name, threads)
            rows += [row] if row else []
        print_table(f"Whole models, {word}, ms",
                    ["", "nacre", "ORT", "ratio", "95 %", "pairs", "nacre of peak", "ORT of peak", "create",
                     "first run", "memory"],
                    [[r["name"], *r["ms"], r["ratio"][0], f"{r['ratio'][1]:.2f}-{r['ratio'][2]:.2f}",
                      f"{r['pairs']}{'' if r['steady'] else ' unsteady'}", *map(share, r["near"]), r["create"],
                      r["first"], r["memory"]] for r in rows])
        found += _figures(rows, word)
    return found
