"""A BERT of 400 MB, embedded and with external data: creation, first run, steady runs, and the memory of it all, above
what the process had after its imports. Every repetition is a process of its own; the file is in the page cache.
"""
import numpy as np

import models
from engines import NAMES, Engine, median, turns
from figures import Figure
from table import print_table, share

MB = 1e6
SIZES = {False: dict(layers=12, hidden=768, heads=12, vocabulary=30522), True: dict(layers=2, hidden=64, heads=2,
                                                                                   vocabulary=300)}
TARGETS = {"create": 0.2, "create + first run": 1.0}
MEMORY = 0.8  # of the embedded model; with external data the matrices alone are more than that of onnxruntime's memory


def _made(bench, external):
    """The model's path and its feeds."""
    size = SIZES[bench.quick]
    name = "bert_external" if external else "bert"
    path = models.made(bench.folder, name, lambda: models.bert(**size), external)
    feeds = bench.folder / "bert.npz"
    rng = np.random.default_rng(1)
    np.savez(feeds, input_ids=rng.integers(0, size["vocabulary"], (1, bench.length)),
             attention_mask=np.ones((1, bench.length), np.int64))
    return path, feeds


def _warm(path):
    for file in (path, path.with_suffix(".data")):
        if file.exists():
            with open(file, "rb") as f:
                while f.read(1 << 24):
                    pass


def _once(bench, name, path, feeds):
    with Engine(name, bench.package) as engine:
        load = engine.ask("load", model=str(path), feeds=str(feeds))
        first = engine.ask("run", times=1)
        steady = engine.ask("run", times=bench.steady)
    above = {when: {k: (m[k] - load["base"][k]) / MB for k in m}
             for when, m in (("load", load["memory"]), ("run", steady["memory"]))}
    runs = sorted(r["wall"] for r in steady["runs"]), sorted(r["cpu"] for r in steady["runs"])
    took = {"create": load["create"], "first run": first["runs"][0],
            "steady run": {"wall": runs[0][len(runs[0]) // 2], "cpu": runs[1][len(runs[1]) // 2]}}
    took["create + first run"] = {k: took["create"][k] + took["first run"][k] for k in ("wall", "cpu")}
    return {"took": took, "above": above, "sums": first["sums"]}


def _times(bench, title, rows, flops):
    found, table = [], []
    for what in ("create", "create + first run", "first run", "steady run"):
        wall = [median(rows[n], "took", what, "wall") for n in NAMES]
        cpu = [median(rows[n], "took", what, "cpu") for n in NAMES]
        figure = Figure(f"{title}: {what}", wall[0] / wall[1], TARGETS.get(what), cpu[0] / max(cpu[1], 1e-6))
        found.append(figure)
        near = bench.limits.share(flops, 0, wall[0]) if what == "steady run" else None
        table.append([what, *wall, figure.value, figure.cpu, figure.target, share(near)])
    print_table(f"{title}, ms (medians of {bench.repeat} processes each)",
                ["", "nacre", "ORT", "ratio", "CPU ratio", "target", "of limit"], table)
    return found


def _memory(bench, title, rows, least, judged):
    found, table = [], []
    for when in ("load", "run"):
        for kind in ("anonymous", "file", "together", "peak"):
            def value(n):
                keys = ("anonymous", "file") if kind == "together" else (kind,)
                return sum(median(rows[n], "above", when, k) for k in keys)
            nacre, ort = value("nacre"), value("onnxruntime")
            figure = Figure(f"{title}: memory after {when}" + ("" if kind == "together" else f", {kind}"),
                            nacre / max(ort, 1e-6), MEMORY if judged and kind == "together" else None)
            if kind in ("together", "peak"):
                found.append(figure)
            table.append([f"after {when}: {kind}", nacre, ort, figure.value, figure.target,
                          share(least / nacre) if when == "run" and kind == "together" else None])
    print_table(f"{title}, MB above the process after its imports (weights of the products alone: {least:.0f} MB)",
                ["", "nacre", "ORT", "ratio", "target", "of limit"], table)
    return found


def measure(bench):
    size = SIZES[bench.quick]
    products = size["layers"] * 12 * size["hidden"] ** 2 + size["hidden"] ** 2
    found = []
    for external in (False, True):
        title = "BERT, external data" if external else "BERT, embedded"
        bench.say(f"{title}: making the model")
        path, feeds = _made(bench, external)
        _warm(path)
        rows = {n: [] for n in NAMES}
        for name in turns(bench.repeat):
            bench.say(f"{title}: {name} {len(rows[name]) + 1} of {bench.repeat}")
            rows[name].append(_once(bench, name, path, feeds))
        bench.agree(title, *(rows[n][0]["sums"] for n in NAMES))
        flops = models.bert_flops(bench.length, size["layers"], size["hidden"])
        found += _times(bench, title, rows, flops) + _memory(bench, title, rows, products * 4 / MB, not external)
    return found
