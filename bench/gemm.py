"""Large f32 products of two matrices that both come from memory, beside OpenBLAS as numpy's package brings it: each in
a process of its own, in turns. A product counts only if its results agree.
"""
import contextlib
import os
import platform

import numpy as np
from onnx import TensorProto, helper

import models
from engines import Engine
from figures import Figure
from paired import farthest, interval, outputs_of, rounds_of
from table import print_table, share

NEAR = 0.90 if platform.machine() == "aarch64" else 0.85  # of the peak
NAMES = ("nacre", "numpy")
TURN_MS = 250
SIZES = {False: ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (1000, 999, 1001), (256, 4096, 1024)),
         True: ((16, 8, 24),)}


def product(m, k, n):
    f = TensorProto.FLOAT
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "product",
                              [helper.make_tensor_value_info(name, f, dims)
                               for name, dims in (("a", (m, k)), ("b", (k, n)))],
                              [helper.make_tensor_value_info("y", f, (m, n))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@contextlib.contextmanager
def blas_threads(n):
    """numpy's processes that start inside have n threads; 0: as many as they like."""
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    if n:
        os.environ["OPENBLAS_NUM_THREADS"] = str(n)
    try:
        yield
    finally:
        os.environ.pop("OPENBLAS_NUM_THREADS", None)
        if before is not None:
            os.environ["OPENBLAS_NUM_THREADS"] = before


def _made(bench, m, k, n):
    stem = f"product_{m}_{k}_{n}"
    path, feeds = bench.folder / f"{stem}.onnx", bench.folder / f"{stem}.npz"
    models.made(bench.folder, stem, lambda: product(m, k, n))
    rng = np.random.default_rng(31)
    np.savez(feeds, a=rng.standard_normal((m, k), np.float32), b=rng.standard_normal((k, n), np.float32))
    return str(path), str(feeds)


def _measure(bench, size, threads, limits):
    """Medians in ms, the ratio with its interval, shares of the peak; None where the results differ."""
    model, feeds = _made(bench, *size)
    with contextlib.ExitStack() as stack:
        stack.enter_context(blas_threads(threads))
        engines = {n: stack.enter_context(Engine(n, bench.package)) for n in NAMES}
        for e in engines.values():
            e.ask("load", model=model, feeds=feeds, threads=threads)
        off = farthest(*(outputs_of(bench, e) for e in engines.values()))
        if not off <= 1e-4:
            bench.disagreed.append(f"product {size}")
            print(f"\nproduct {size}: the results differ by {off:.2g} of the largest element: not counted")
            return None
        runs = {n: max(1, int(TURN_MS / e.ask("turn", times=1)["ms"][0])) for n, e in engines.items()}
        rounds, _ = rounds_of(bench, engines, runs)
    ms = {n: [float(np.median(r[n]["ms"])) for r in rounds] for n in NAMES}
    middle = [float(np.median(ms[n])) for n in NAMES]
    near = [limits.share(2.0 * np.prod(size, dtype=np.float64), 0, t) for t in middle]
    return {"ms": middle, "ratio": interval([a / b for a, b in zip(ms["nacre"], ms["numpy"])]), "near": near}


def measure(bench):
    found = []
    for threads, limits in ((1, bench.one), (0, bench.limits)):
        word, table = "one thread" if threads else f"{bench.limits.threads} threads", []
        for size in SIZES[bench.quick]:
            name = f"product {'x'.join(map(str, size))}, {word}"
            bench.say(name)
            row = _measure(bench, size, threads, limits)
            if row is None:
                continue
            table.append([name, *row["ms"], row["ratio"][0], f"{row['ratio'][1]:.2f}-{row['ratio'][2]:.2f}",
                          *map(share, row["near"])])
            found += [Figure(f"{name}: beside OpenBLAS", row["ratio"][0], 1.0),
                      Figure(f"{name}: time beside the peak alone", 1 / row["near"][0], 1 / NEAR)]
        print_table(f"Large products, {word}, ms", ["", "nacre", "OpenBLAS", "ratio", "95 %", "nacre of peak",
                                                    "OpenBLAS of peak"], table)
    return found
