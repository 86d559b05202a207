"""Random graphs of many nodes (broadcasting, views, sizes found while running, If, Loop) against ONNX's reference
evaluator: with passes, fusion, views and layouts on and off, on cpu and guard, at two sets of sizes.

NACRE_GRAPHS=N runs N graphs (default 200), NACRE_GRAPH=SEED one of them alone.
"""
import os

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from nacre_c import Env
from tolerances import close

COUNT = int(os.environ.get("NACRE_GRAPHS", 200))
SEEDS = [int(os.environ["NACRE_GRAPH"])] if "NACRE_GRAPH" in os.environ else range(COUNT)
SETTINGS = [dict(), dict(device="guard"), dict(level="off", fusion="off", views="off", layouts="off", packing="off"),
            dict(device="guard", views="off"), dict(device="guard", capture="on")]
UNARY = ["Tanh", "Relu", "Neg", "Abs", "Sigmoid", "Sin", "Cos", "Floor", "Softplus", "Identity"]
BINARY = ["Add", "Sub", "Mul", "Min", "Max"]


class Graph:
    """Values are (name, shape); a dim is an int or a name whose size is in `sizes`."""

    def __init__(self, rng, sizes, prefix="", outer=()):
        self.rng, self.sizes, self.prefix = rng, sizes, prefix
        self.nodes, self.consts, self.values, self.n = [], [], list(outer), 0

    def name(self):
        self.n += 1
        return f"{self.prefix}v{self.n}"

    def const(self, array):
        name = self.name()
        self.consts.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def emit(self, op, inputs, shape, n_out=1, **attrs):
        outs = [self.name() for _ in range(n_out)]
        self.nodes.append(helper.make_node(op, inputs, outs, **attrs))
        if shape is not None:
            self.values.append((outs[0], tuple(shape)))
        return outs

    def pick(self, want=lambda s: True):
        fit = [v for v in self.values if want(v[1])]
        return fit[self.rng.integers(len(fit))] if fit else None

    def int_of(self, d):
        return self.sizes[d] if isinstance(d, str) else d


def broadcast(a, b):
    out = []
    for i in range(max(len(a), len(b))):
        x = a[len(a) - 1 - i] if i < len(a) else 1
        y = b[len(b) - 1 - i] if i < len(b) else 1
        if x != y and x != 1 and y != 1:
            return None
        out.append(y if x == 1 else x)
    return tuple(reversed(out))


def unary(g):
    x, s = g.pick()
    g.emit(g.rng.choice(UNARY), [x], s)


def binary(g):
    a, b = g.pick(), g.pick()
    s = broadcast(a[1], b[1])
    if s is not None and len(s) <= 4:
        g.emit(g.rng.choice(BINARY), [a[0], b[0]], s)


def scale(g):
    x, s = g.pick()
    g.emit("Mul", [x, g.const(np.float32(g.rng.uniform(-1, 1)))], s)


def matmul(g):
    a = g.pick(lambda s: len(s) == 2)
    b = a and g.pick(lambda s: len(s) == 2 and s[0] == a[1][1])
    if b:
        h, = g.emit("MatMul", [a[0], b[0]], None)
        g.emit("Tanh", [h], (a[1][0], b[1][1]))


def transpose(g):
    x, s = g.pick(lambda s: len(s) >= 1) or (None, None)
    if x:
        perm = [int(p) for p in g.rng.permutation(len(s))]
        g.emit("Transpose", [x], [s[p] for p in perm], perm=perm)


def flatten(g):
    x, s = g.pick()
    if all(isinstance(d, int) for d in s):
        g.emit("Reshape", [x, g.const(np.array([-1]))], [int(np.prod(s, dtype=int))])


def unsqueeze(g):
    x, s = g.pick(lambda s: len(s) < 4)
    axis = int(g.rng.integers(len(s) + 1))
    g.emit("Unsqueeze", [x, g.const(np.array([axis]))], s[:axis] + (1,) + s[axis:])


def slice_(g):
    x, s = g.pick(lambda s: any(isinstance(d, int) and d > 1 for d in s)) or (None, None)
    if x:
        axis = int(g.rng.choice([i for i, d in enumerate(s) if isinstance(d, int) and d > 1]))
        lo = int(g.rng.integers(s[axis]))
        hi = int(g.rng.integers(lo + 1, s[axis] + 1))
        step = int(g.rng.integers(1, 3))
        n = len(range(lo, hi, step))
        args = [g.const(np.array([v])) for v in (lo, hi, axis, step)]
        g.emit("Slice", [x, *args], s[:axis] + (n,) + s[axis + 1:])


def reverse(g):
    x, s = g.pick(lambda s: len(s) >= 1) or (None, None)
    if x:
        axis = int(g.rng.integers(len(s)))
        args = [g.const(np.array([v])) for v in (-1, np.iinfo(np.int64).min, axis, -1)]
        g.emit("Slice", [x, *args], s)


def split(g):
    x, s = g.pick(lambda s: any(isinstance(d, int) and d > 1 for d in s)) or (None, None)
    if x:
        axis = int(g.rng.choice([i for i, d in enumerate(s) if isinstance(d, int) and d > 1]))
        left = int(g.rng.integers(1, s[axis]))
        sizes = [left, s[axis] - left]
        outs = g.emit("Split", [x, g.const(np.array(sizes))], None, n_out=2, axis=axis)
        for o, n in zip(outs, sizes):
            g.values.append((o, s[:axis] + (n,) + s[axis + 1:]))


def concat(g):
    x, s = g.pick(lambda s: len(s) >= 1) or (None, None)
    axis = int(g.rng.integers(len(s))) if x else 0
    y = x and g.pick(lambda t: len(t) == len(s) and all(t[i] == s[i] for i in range(len(s)) if i != axis)
                     and isinstance(t[axis], int))
    if y and isinstance(s[axis], int):
        g.emit("Concat", [x, y[0]], s[:axis] + (s[axis] + y[1][axis],) + s[axis + 1:], axis=axis)


def reduce(g):
    x, s = g.pick(lambda s: len(s) >= 1) or (None, None)
    if x:
        axis, keep = int(g.rng.integers(len(s))), int(g.rng.integers(2))
        op = g.rng.choice(["ReduceSum", "ReduceMean", "ReduceMax"])
        out = s[:axis] + ((1,) if keep else ()) + s[axis + 1:]
        g.emit(op, [x, g.const(np.array([axis - len(s)]))], out, keepdims=keep)


def softmax(g):
    x, s = g.pick(lambda s: len(s) >= 1) or (None, None)
    if x:
        g.emit("Softmax", [x], s, axis=int(g.rng.integers(len(s))))


def where(g):
    a, b = g.pick(), g.pick()
    s = broadcast(a[1], b[1])
    if s is not None and len(s) <= 4:
        c, = g.emit("Less", [a[0], b[0]], None)
        g.emit("Where", [c, a[0], b[0]], s)


def gather(g):
    x, s = g.pick(lambda s: len(s) >= 1 and isinstance(s[0], int) and s[0] > 0) or (None, None)
    if x:
        index = g.rng.integers(-s[0], s[0], size=int(g.rng.integers(1, 4)))
        g.emit("Gather", [x, g.const(index)], (len(index),) + s[1:], axis=0)


def expand(g):
    x, s = g.pick(lambda s: len(s) <= 2)
    g.emit("Expand", [x, g.const(np.array([2] + [1] * len(s)))], (2,) + s)


def shape_reshape(g):
    """A shape computed from another: what exporters write for x.view(x.size(0), -1)."""
    x, s = g.pick(lambda s: len(s) >= 2) or (None, None)
    if x:
        shape, = g.emit("Shape", [x], None)
        first, = g.emit("Gather", [shape, g.const(np.array([0]))], None, axis=0)
        target, = g.emit("Concat", [first, g.const(np.array([-1]))], None, axis=0)
        rest = s[1:]
        if sum(isinstance(d, str) for d in rest) == 0:
            g.emit("Reshape", [x, target], (s[0], int(np.prod(rest, dtype=int))))


def nonzero(g):
    x, s = g.pick(lambda s: len(s) == 1 and isinstance(s[0], int)) or (None, None)
    if x:
        r, = g.emit("Relu", [x], None)
        where_, = g.emit("NonZero", [r], None)
        i, = g.emit("Squeeze", [where_, g.const(np.array([0]))], None)
        rows, = g.emit("Gather", [x, i], None, axis=0)
        g.emit("ReduceSum", [rows], (), keepdims=0)


def body(g, tag, inputs, depth):
    inner = Graph(g.rng, g.sizes, f"{g.prefix}{tag}_", [v for v in g.values if len(v[1]) <= 2] + inputs)
    for _ in range(int(g.rng.integers(1, 4))):
        STEPS[g.rng.integers(len(STEPS))](inner)
    return inner


def result_like(inner, shape):
    """A value of that shape, made inside."""
    fit = [v for v in inner.values if v[1] == shape]
    name, = inner.emit("Neg", [fit[-1][0]], shape)
    return name


def if_(g):
    x, s = g.pick()
    cond, = g.emit("ReduceMax", [x], None, keepdims=0)
    c, = g.emit("Greater", [cond, g.const(np.float32(0.1))], None)
    graphs = []
    for tag in ("t", "e"):
        inner = body(g, f"{tag}{g.n}", [(x, s)], 1)
        out = result_like(inner, s)
        info = helper.make_tensor_value_info(out, TensorProto.FLOAT, None)
        graphs.append(helper.make_graph(inner.nodes, tag, [], [info], inner.consts))
    g.emit("If", [c], s, then_branch=graphs[0], else_branch=graphs[1])


def loop(g):
    x, s = g.pick()
    p = f"{g.prefix}l{g.n}_"
    inner = body(g, f"l{g.n}", [(p + "s", s)], 1)
    inner.nodes.insert(0, helper.make_node("Identity", [p + "c"], [p + "c1"]))
    half, = inner.emit("Mul", [result_like(inner, s), inner.const(np.float32(0.5))], s)
    out, = inner.emit("Add", [half, p + "s"], s)
    flat, = inner.emit("Reshape", [out, inner.const(np.array([-1]))], None)  # the evaluator stacks rank 1 alone right
    scan, = inner.emit("Tanh", [flat], None)
    infos = [helper.make_tensor_value_info(p + "i", TensorProto.INT64, []),
             helper.make_tensor_value_info(p + "c", TensorProto.BOOL, []),
             helper.make_tensor_value_info(p + "s", TensorProto.FLOAT, None)]
    outs = [helper.make_tensor_value_info(p + "c1", TensorProto.BOOL, []),
            helper.make_tensor_value_info(out, TensorProto.FLOAT, None),
            helper.make_tensor_value_info(scan, TensorProto.FLOAT, None)]
    trips = int(g.rng.integers(1, 4))
    graph = helper.make_graph(inner.nodes, "body", infos, outs, inner.consts)
    a, b = g.emit("Loop", [g.const(np.array(trips)), g.const(np.array(True)), x], None, n_out=2, body=graph)
    g.values.append((a, s))
    if all(isinstance(d, int) for d in s):
        g.values.append((b, (trips, int(np.prod(s, dtype=int)))))


STEPS = [unary, unary, binary, binary, binary, scale, matmul, matmul, transpose, transpose, flatten, unsqueeze, slice_,
         reverse, split, concat, reduce, softmax, where, gather, expand, shape_reshape, nonzero]
TOP = STEPS + [if_, loop]


def make_model(seed):
    rng = np.random.default_rng(seed)
    shapes = {"x": ("a", 4), "y": (4, "b"), "z": ("a", 4), "w": (3, 4), "s": (4,)}
    g = Graph(rng, {"a": 0, "b": 0}, "", list(shapes.items()))
    for _ in range(int(rng.integers(6, 25))):
        TOP[rng.integers(len(TOP))](g)
    used = {i for n in g.nodes for i in n.input}
    ends = [v for v in g.values if v[0] not in shapes and (v[0] not in used or rng.random() < 0.2)] or g.values[-1:]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * len(s)) for n, s in ends]
    graph = helper.make_graph(g.nodes, f"g{seed}", inputs, outputs, g.consts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), shapes


def feeds(shapes, sizes, seed):
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal([sizes.get(d, d) for d in s]).astype(np.float32) for n, s in shapes.items()}


def check(got, want, what):
    for i, (p, q) in enumerate(zip(got, want)):
        assert p.shape == q.shape, f"{what}: output {i} has shape {p.shape}, expected {q.shape}"
        close(p, q, "graph_f32", f"{what}: output {i}")


@pytest.mark.parametrize("seed", SEEDS)
def test_graph(seed):
    model, shapes = make_model(seed)
    data = model.SerializeToString()
    reference = ReferenceEvaluator(model)
    batches = [feeds(shapes, s, seed) for s in ({"a": 3, "b": 5}, {"a": 1, "b": 2}, {"a": 3, "b": 5})]
    wants = [reference.run(None, f) for f in batches]
    first = None
    with Env(2) as env:
        for settings in SETTINGS:
            with env.session(data, **settings) as session:
                outs = [[np.asarray(o) for o in session.run(f).values()] for f in batches]
            for got, want in zip(outs, wants):
                check(got, [np.asarray(w) for w in want], f"seed {seed}, {settings}")
            if first is None:
                first = outs
            elif settings == dict(device="guard"):
                assert all(a.tobytes() == b.tobytes() for p, q in zip(first, outs) for a, b in zip(p, q)), \
                    "guard gives other bits"
