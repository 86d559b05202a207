"""Models beside onnxruntime and other peers, in pairs of turns. A model counts only if its outputs agree.

Each engine has a process of its own; they take turns, and the one that comes first changes. A round of turns gives one
ratio; the figure is the median of those, with the range that holds the true median with 95 %. Right before and after
each turn the worker asks the machine what it can do (multiply-adds of one thread from registers; where reading is the
limit, that too): a round in which those multiply-adds differ by more than DRIFT is put aside, because the machine was
not the same for all.
"""
import contextlib
import dataclasses
import math
import os
import pathlib
import statistics

import numpy as np

import flops
import peers
from engines import NAMES, Engine, turns
from figures import Figure
from table import print_table, share

TURN_MS, DRIFT, LEAST, MOST = 250, 0.03, 7, 60
STARTS = 3  # processes of each engine of which creation and first run are the medians
CREATE, FIRST, MEMORY = 0.2, 0.5, 0.5
READ = 0.8  # of the read bandwidth, where reading is the limit
EXACT = 1e-3  # of an output's largest element


@dataclasses.dataclass
class Model:
    """What is measured: a file, what it is fed, and how far its outputs may be from onnxruntime's."""
    name: str
    path: pathlib.Path
    feeds: pathlib.Path
    kind: str = "other"
    target: float = 1.05
    within: float = EXACT
    bytes: int = 0  # that a run reads at least, where that is its limit
    onto: dict = dataclasses.field(default_factory=dict)  # outputs that are written onto inputs, by names


def interval(values):
    """The median and the order statistics around it that hold the true one with about 95 %."""
    v = sorted(values)
    half = 0.98 * math.sqrt(len(v))
    low, high = max(0, math.floor(len(v) / 2 - half)), min(len(v) - 1, math.ceil(len(v) / 2 + half))
    return statistics.median(v), v[low], v[high]


def _steady(answers):
    peaks = [p for a in answers for p in a["peaks"]]
    return max(peaks) - min(peaks) <= DRIFT * max(peaks)


def rounds_of(bench, engines, runs, reads=0):
    """Rounds of turns until LEAST of them were steady, at most MOST; all of them where the machine never is. reads:
    threads whose reading is measured around each turn."""
    kept, others = [], []
    for i in range(1 if bench.quick else MOST):
        order = list(engines) if i % 2 == 0 else list(engines)[::-1]
        answers = {n: engines[n].ask("turn", times=runs[n], reads=reads) for n in order}
        (kept if _steady(answers.values()) else others).append(answers)
        if len(kept) >= bench.turns + LEAST - 5:
            break
    return (kept, True) if len(kept) >= LEAST else (kept + others, False)


def outputs_of(bench, engine):
    path = bench.folder / f"outputs_{engine.name}.npz"
    engine.ask("outputs", path=str(path))
    with np.load(path) as f:
        return [f[k] for k in f.files]


def farthest(found, expected):
    """The largest difference beside the largest element, of all outputs: elements, not sums."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return math.inf
        off = np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-6) if a.size else 0
        worst = max(worst, off if off == off else math.inf)
    return worst


def _agree(bench, model, engines):
    """Leaves out peers that differ from onnxruntime; False where nacre does."""
    expected = outputs_of(bench, engines[NAMES[1]])
    for n in [n for n in engines if n != NAMES[1]]:
        off = farthest(outputs_of(bench, engines[n]), expected)
        if off <= model.within:
            continue
        print(f"\n{model.name}: {n} differs by {off:.2g} of the largest element: not counted")
        if n == NAMES[0]:
            bench.disagreed.append(model.name)
            return False
        del engines[n]
    return True


def _load(bench, model, engine, threads):
    """Creation, first run and memory; how many runs make a turn."""
    load = engine.ask("load", model=str(model.path), feeds=str(model.feeds), threads=threads,
                      names=flops.outputs(model.path), onto=model.onto)
    first = engine.ask("run", times=1)
    warm = engine.ask("run", times=2)
    above = {k: warm["memory"][k] - load["base"][k] for k in ("anonymous", "file")}
    took = {"create": load["create"]["wall"], "first": load["create"]["wall"] + first["runs"][0]["wall"],
            "memory": sum(above.values()) / 1e6}
    return took, max(1, int((1 if bench.quick else TURN_MS) / max(warm["runs"][-1]["wall"], 1e-3)))


def _start(bench, model, threads, stack):
    """Those engines that can do the model, with their figures; a peer that cannot says why and is left out."""
    engines, took, runs = {}, {}, {}
    others = [] if bench.quick or model.onto else peers.there()  # which have no such words
    for n in [*NAMES, *others]:
        engine = stack.enter_context(Engine(n, bench.package, *peers.worker(n)))
        try:
            took[n], runs[n] = _load(bench, model, engine, threads)
            engines[n] = engine
        except RuntimeError as e:
            if n in NAMES:
                raise
            bench.say(f"{model.name}: {e}")
    return engines, took, runs


def _start_again(bench, model, threads, took):
    """Creation and first run become medians: those of one process tell of the moment as much as of the engine."""
    all_took = {n: [took[n]] for n in NAMES}
    for n in turns(0 if bench.quick else STARTS - 1):
        with Engine(n, bench.package, *peers.worker(n)) as engine:
            all_took[n].append(_load(bench, model, engine, threads)[0])
    for n in NAMES:
        took[n] |= {k: statistics.median(t[k] for t in all_took[n]) for k in ("create", "first")}


def _measure(bench, model, threads):
    work, used = flops.count(model.path, model.feeds), threads or bench.limits.threads
    with contextlib.ExitStack() as stack:
        engines, took, runs = _start(bench, model, threads, stack)
        if not _agree(bench, model, engines):
            return None
        rounds, steady = rounds_of(bench, engines, runs, used if model.bytes else 0)
    _start_again(bench, model, threads, took)
    ms = {n: [statistics.median(p[n]["ms"]) for p in rounds] for n in engines}
    peak = statistics.median(q for p in rounds for n in NAMES for q in p[n]["peaks"])
    reads = statistics.median([q for p in rounds for n in NAMES for q in p[n]["reads"]] or [math.inf])
    times = {n: statistics.median(ms[n]) for n in engines}
    least = max(work / (peak * used), model.bytes / reads) * 1e-6
    best = [min(t) for t in zip(*(ms[n] for n in engines if n != NAMES[0]))]
    return {"model": model, "ms": times, "ratio": interval([x / y for x, y in zip(ms[NAMES[0]], ms[NAMES[1]])]),
            "best": statistics.median(x / y for x, y in zip(ms[NAMES[0]], best)),
            "near": [least / times[n] if least else None for n in NAMES], "rounds": len(rounds), "steady": steady,
            **{k: took[NAMES[0]][k] / took[NAMES[1]][k] for k in ("create", "first", "memory")}}


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def means(rows, targets, what, word):
    """Geometric means of the rows' ratios, by kind; a kind without rows has none."""
    some = {kind: [r["ratio"][0] for r in rows if kind in ("all", r["model"].kind)] for kind in targets}
    return [Figure(f"{what}, {word}: geometric mean of {kind}", mean(values), targets[kind])
            for kind, values in some.items() if values]


def _figures(rows, targets, what, word):
    found = [Figure(f"{r['model'].name}, {word}", r["ratio"][0], r["model"].target) for r in rows]
    for r in rows:
        name = f"{r['model'].name}, {word}"
        found += [Figure(f"{name}: create", r["create"], CREATE),
                  Figure(f"{name}: create + first run", r["first"], FIRST),
                  Figure(f"{name}: memory", r["memory"], MEMORY)]
        if r["model"].bytes:
            found.append(Figure(f"{name}: time beside reading alone", 1 / r["near"][0], 1 / READ))
    return found + means(rows, targets, what, word)


def _best(rows, what, word):
    """Beside the fastest of all peers, where all of them are there: without one the figure is unmet."""
    missing = peers.missing()
    value = math.inf if missing else mean(r["best"] for r in rows)
    return [Figure(f"geometric mean of {what} beside the best of {', '.join((NAMES[1], *peers.PEERS))}, {word}", value,
                   1.0)] if rows else []


def joined(bench, parts, targets, what):
    """The geometric means over the models of several parts, by count of threads; none where a part is missing."""
    words = dict.fromkeys(word for _, word in bench.rows)
    return [f for word in words if all(bench.rows.get((part, word)) for part in parts)
            for f in means([r for part in parts for r in bench.rows[part, word]], targets, what, word)]


def own_choice():
    """The count of threads that says "all": 0, an engine's own choice, but where the process may not use all
    processors: onnxruntime's choice is theirs whatever it may use, so both are told."""
    mine = len(os.sched_getaffinity(0))
    return 0 if mine == os.cpu_count() else mine


def measure(bench, what, models, targets, best=False):
    """The figures of `models`, with one thread and with all; targets: of geometric means by kind."""
    found = []
    for n, why in peers.missing().items():
        bench.say(f"{n} is not measured: {why}")
    for threads in dict.fromkeys((1, own_choice())):
        word = "one thread" if threads == 1 else f"{bench.limits.threads} threads"
        rows = []
        for model in models:
            bench.say(f"{model.name}, {word}")
            row = _measure(bench, model, threads)
            rows += [row] if row else []
        print_table(f"{what}, {word}, ms",
                    ["", "nacre", "ORT", *peers.PEERS, "ratio", "95 %", "of best", "rounds", "nacre of limit",
                     "ORT of limit", "create", "first run", "memory"],
                    [[r["model"].name, *(r["ms"].get(n) for n in (*NAMES, *peers.PEERS)), r["ratio"][0],
                      f"{r['ratio'][1]:.2f}-{r['ratio'][2]:.2f}", r["best"],
                      f"{r['rounds']}{'' if r['steady'] else ' unsteady'}", *map(share, r["near"]), r["create"],
                      r["first"], r["memory"]] for r in rows])
        bench.rows.setdefault((what, word), []).extend(rows)
        found += _figures(rows, targets, what, word) + (_best(rows, what, word) if best else [])
    return found
