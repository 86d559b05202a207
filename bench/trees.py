"""A forest of 1,000 trees of depth 8 over 50 features, as converters of scikit-learn write it: runs of one row and of
many."""
import numpy as np

import models
from engines import looped
from figures import Figure
from table import print_table

RATIO = 0.9  # of onnxruntime's time
FEATURES = 50


def _run(bench, path, rows, times):
    feeds = bench.folder / "trees.npz"
    np.savez(feeds, x=np.random.default_rng(4).standard_normal((rows, FEATURES), np.float32))
    return looped(bench, f"trees, {rows} rows", path, feeds, times)


def measure(bench):
    trees, depth, many = (10, 3, 100) if bench.quick else (1000, 8, 10000)
    path = bench.folder / f"trees{trees}.onnx"
    if not path.exists():
        path.write_bytes(models.forest(trees, depth, FEATURES).SerializeToString())
    found, table = [], []
    for rows, times in ((1, 20 if bench.quick else 200), (many, 2)):
        bench.say(f"{trees} trees, {rows} rows")
        wall, cpu = _run(bench, path, rows, times)
        name = f"{trees} trees of depth {depth}, {rows} rows"
        found.append(Figure(name, wall[0] / wall[1], RATIO, cpu[0] / max(cpu[1], 1e-6)))
        table.append([name, *wall, found[-1].value])
    print_table("Decision trees, ms", ["", "nacre", "ORT", "ratio"], table)
    return found
