"""Recipes of ONNX Runtime's own operators (com.microsoft): elements with biases, products, normalizations of sums,
convolutions with an activation, older forms of what ONNX has; and every operator of which test_contrib.py and
test_training_ops.py have a case, on that case's inputs and judged as it is there."""
import collections
import functools

import numpy as np
from onnx import helper

import contrib
from contrib import (attentions, blocked, compositions, decoders, experts, layers, layouts, pools, quantized, seldom,
                     training)
from tolerances import TOLERANCES

from .layers import LARGEST_CASE, TYPES, picture, place, weights
from .oracle import Reject

DOMAIN = contrib.DOMAIN
OLDEST = 17  # the operator set that the cases are of
#: What they are given belongs together: kept states, probabilities that sum to 1.
COUPLED = {"LSTMGrad", "GRUGrad", "SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad"}
#: Its operand of mixing weights: onnxruntime leaves out experts whose weight is not above 1e-8.
MIXED = {"QMoE": 14}
SOURCES = (layers, attentions, quantized, blocked, layouts, experts, decoders, compositions, pools, seldom, training)


def row(g, want=lambda v: True):
    """A value whose last dim is the same at both sizes."""
    return g.tensor(np.float32, lambda v: v.rank >= 1 and v.shape[-1] == v.data[1].shape[-1] > 0 and want(v))


def elements(g):
    kind = g.rng.integers(4)
    if kind == 0:
        return g.emit("Gelu", [g.tensor(np.float32)], domain=DOMAIN)
    if kind == 1:
        return g.emit("QuickGelu", [g.tensor(np.float32)], domain=DOMAIN, alpha=float(g.choice([1.0, 1.702, 0.5])))
    v = row(g)
    bias = g.random((v.shape[-1],), np.float32, -2, 2)
    if kind == 2:
        return g.emit("BiasGelu", [v, bias], domain=DOMAIN)
    return g.emit("FastGelu", [v, bias] if g.chance(0.5) else [v], domain=DOMAIN)


def products(g):
    v = row(g, lambda v: v.rank >= 2)
    n, square = v.shape[-1], weights(g, v.shape[-1], v.shape[-1])
    if g.chance(0.6):
        return g.emit("FusedMatMul", [v, square], domain=DOMAIN, alpha=float(g.choice([1.0, 0.5])),
                      transB=int(g.chance(0.5)))
    if v.rank != 2:
        raise Reject("no matrix")
    return g.emit("FusedGemm", [v, square, weights(g, n)], domain=DOMAIN, transB=int(g.chance(0.5)),
                  activation=str(g.choice(["Relu", "Tanh", "Sigmoid"])))


def norms(g):
    v = row(g, lambda v: v.rank == 3)
    operands = [v, g.like(v, np.float32), 1 + weights(g, v.shape[-1])]
    if g.chance(0.5):
        return g.emit("SkipSimplifiedLayerNormalization", operands, domain=DOMAIN, epsilon=0.01)
    return g.emit("SkipLayerNormalization", [*operands, weights(g, v.shape[-1])], domain=DOMAIN, epsilon=0.01)


def convolutions(g):
    v = picture(g)
    c = v.shape[1]
    return g.emit("FusedConv", [v, weights(g, c, c, 3, 3), weights(g, c)], domain=DOMAIN, pads=[1, 1, 1, 1],
                  activation=str(g.choice(["Relu", "Tanh", "Sigmoid"])))


def moves(g):
    if g.chance(0.5):
        return g.emit("ExpandDims", [g.tensor(np.float32, lambda v: v.rank < 5), np.array(0, np.int32)], domain=DOMAIN)
    return g.emit("Trilu", [g.tensor(np.float32, lambda v: v.rank >= 2)], domain=DOMAIN, upper=int(g.chance(0.5)))


# ---- cases of other tests ----

def fits(c):
    """A case that can be part of a graph: its results have types of their own, and numbers that graphs have."""
    arrays = [x for x in c.inputs if x is not None]
    sharp = c.tolerance in (None, "step") or max(TOLERANCES[c.tolerance]) <= max(TOLERANCES["graph_f32"])
    return (c.domain == DOMAIN and c.op not in COUPLED and not c.types and sharp and arrays
            and len(c.inputs) <= MIXED.get(c.op, len(c.inputs))
            and all(x.dtype in TYPES and x.size <= LARGEST_CASE and np.all(np.isfinite(x) if x.dtype.kind == "f" else 1)
                    for x in arrays))


@functools.cache
def cases():
    """{operator: cases} of those that fit."""
    found = collections.defaultdict(list)
    for c in (c for source in SOURCES for c in source.CASES if fits(c)):
        found[c.op].append(c)
    return dict(found)


def judge_of(c):
    """What the case's own judge gives for other operands."""
    if c.reference:
        return c.reference
    return lambda *operands: contrib.by_onnxruntime(c._replace(inputs=list(operands)))


def borrowed(g, op=None):
    c = g.choice(cases()[op or g.choice(sorted(cases()))])
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(c.inputs)]
    node = helper.make_node(c.op, names, [f"o{k}" if w else "" for k, w in enumerate(c.outputs)], domain=c.domain,
                            **c.attributes)
    held = {n for k, n in enumerate(names) if n and k in c.constants}
    place(g, node, {n: x for n, x in zip(names, c.inputs) if n}, held, judge_of(c))


RECIPES = [elements, elements, products, norms, convolutions, moves, borrowed, borrowed, borrowed]
