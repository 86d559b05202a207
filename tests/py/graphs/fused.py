"""Recipes of com.microsoft's operators that have a gradient. Drawn for gradients (smooth.py) alone."""
import numpy as np

from .oracle import Reject

MS = "com.microsoft"


def row(g, n):
    return g.input([g.random((n,), np.float32, -1, 1)] * 2)


def last(v):
    """The size of the last axis, which has to be the same in both sets of sizes."""
    if not v.rank or v.shape[-1] != v.data[1].shape[-1] or v.shape[-1] < 2:
        raise Reject("no row to work on")
    return v.shape[-1]


def activation(g):
    v = g.tensor()
    op = g.choice(["Gelu", "QuickGelu", "FastGelu", "BiasGelu"])
    given = [v, row(g, last(v))] if op == "BiasGelu" or (op == "FastGelu" and g.chance(0.5)) else [v]
    g.emit(op, given, domain=MS, **({"alpha": 1.3} if op == "QuickGelu" else {}))


def product(g):
    v = g.tensor(want=lambda v: v.rank >= 2)
    other = g.input([g.random((last(v), int(g.rng.integers(1, 5))), np.float32, -1, 1)] * 2)
    turned = g.chance(0.5)
    if turned:
        other, = g.emit("Transpose", [other], perm=[1, 0])
    g.emit("FusedMatMul", [v, other], domain=MS, transB=int(turned), alpha=0.75)


def skipped(g):
    v = g.tensor(want=lambda v: v.rank == 3)
    other = g.tensor(want=lambda w: w.dims_equal(v))
    n = last(v)
    if g.chance(0.5):
        g.emit("SkipLayerNormalization", [v, other, row(g, n), row(g, n), row(g, n) if g.chance(0.5) else None],
               domain=MS, epsilon=1e-3)
    else:
        g.emit("SkipSimplifiedLayerNormalization", [v, other, row(g, n)], domain=MS, epsilon=1e-3)


def attention(g):
    """Heads of whole columns, each on its own queries and keys."""
    v = g.tensor(want=lambda v: v.rank == 3)
    n = last(v)
    if n % 2:
        raise Reject("columns that two heads do not divide")
    keys, values = (g.tensor(want=lambda w: w.dims_equal(v)) for _ in range(2))
    g.emit("MultiHeadAttention", [v, keys, values], domain=MS, num_heads=2,
           **({"unidirectional": 1} if g.chance(0.5) else {}))


RECIPES = [activation, activation, product, skipped, attention]
