"""Recipes of ONNX Runtime's own operators (com.microsoft) that it has kernels for: elements with biases, products,
normalizations of sums, convolutions with an activation, and older forms of what ONNX has."""
import numpy as np

from .layers import picture, weights
from .oracle import Reject

DOMAIN = "com.microsoft"


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


RECIPES = [elements, elements, products, norms, convolutions, moves]
