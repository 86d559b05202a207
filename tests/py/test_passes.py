"""Chains of what the passes rewrite (casts, reshapes, transposes, nested Concats, no-ops, decided control flow, written
out activations and normalizations, Conv and Gemm with what stands behind them): all passes on and off against ONNX's
reference evaluator, and the optimized model, saved, through onnx.checker and the evaluator again.

NACRE_GRAPHS=N runs N graphs (default 200), NACRE_GRAPH=SEED one of them alone.
"""
import os

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import nacre_c
from nacre_c import Env, Options, call
from tolerances import close

COUNT = int(os.environ.get("NACRE_GRAPHS", 200))
nacre_c.lib.nacre_model_optimize.argtypes = [nacre_c.P, nacre_c.S, nacre_c.P, nacre_c.N, nacre_c.C.POINTER(
    nacre_c.ErrorStruct)]
SEEDS = [int(os.environ["NACRE_GRAPH"])] if "NACRE_GRAPH" in os.environ else range(COUNT)
OPSETS = [13, 17, 20, 23, 24]
NUMPY = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.FLOAT16: np.float16, T.INT32: np.int32, T.INT64: np.int64,
         T.INT16: np.int16, T.INT8: np.int8, T.UINT8: np.uint8, T.BOOL: np.bool_}


class Chain:
    """One value at a time: `at` is its name, its shape (ints and names of sizes) and its type."""

    def __init__(self, rng, opset):
        self.rng, self.opset, self.nodes, self.consts, self.n = rng, opset, [], [], 0
        self.start("x", ("a", 4, 1, 3))
        self.outputs = []

    def start(self, name, shape, type_=T.FLOAT):
        self.at, self.shape, self.type = name, tuple(shape), type_

    def const(self, array):
        self.n += 1
        self.consts.append(numpy_helper.from_array(np.asarray(array), f"c{self.n}"))
        return f"c{self.n}"

    def number(self, v, shape=()):
        return self.const(np.full(shape, v, NUMPY[self.type]))

    def op(self, op, inputs, **attrs):
        self.n += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.n}"], **attrs))
        return f"v{self.n}"

    def step(self, op, *more, shape=None, type_=None, **attrs):
        if self.rng.random() < 0.1:
            self.outputs.append((self.at, (self.type, len(self.shape))))
        self.at = self.op(op, [self.at, *more], **attrs)
        self.shape = self.shape if shape is None else tuple(shape)
        self.type = type_ or self.type

    @property
    def fixed(self):
        return all(isinstance(d, int) for d in self.shape)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]


def cast(g):
    whole = [T.INT32, T.INT64, T.INT16, T.INT8, T.UINT8]
    if g.type == T.BOOL or g.type in whole:
        to = g.pick(*whole, T.FLOAT, T.DOUBLE)
    else:
        to = g.pick(T.FLOAT, T.DOUBLE, T.FLOAT16, T.DOUBLE)
    if g.opset >= 15 and g.rng.random() < 0.3:
        g.step("CastLike", g.const(np.zeros(2, NUMPY[to])), type_=to)
    else:
        g.step("Cast", to=to, type_=to)


def to_ints(g):
    if g.type == T.FLOAT:
        g.step("Mul", g.number(20))
        g.step("Floor")
        g.step("Cast", to=T.INT32, type_=T.INT32)


def back_to_float(g):
    if g.type != T.FLOAT:
        g.step("Cast", to=T.FLOAT, type_=T.FLOAT)


def reshape(g):
    names = [d for d in g.shape if isinstance(d, str)]
    size = int(np.prod([d for d in g.shape if isinstance(d, int)]))
    if len(names) > 1 or size == 0:
        return
    first = int(g.rng.choice([d for d in range(1, size + 1) if size % d == 0]))
    rest = [size // first] if g.rng.random() < 0.7 else [1, size // first]
    if not names:
        shape = [first, *rest]
        literal = list(shape)
        if g.rng.random() < 0.5:
            literal[g.rng.integers(len(shape))] = -1
        elif g.shape and g.shape[0] == shape[0]:
            literal[0] = 0
        g.step("Reshape", g.const(np.array(literal, np.int64)), shape=shape)
    elif g.shape[0] == names[0]:
        literal = g.pick([0, first, *rest], [-1, first, *rest], [0, -1, *rest])
        g.step("Reshape", g.const(np.array(literal, np.int64)), shape=[names[0], first, *rest])


def computed_reshape(g):
    """x.view(x.size(0), -1), as exporters write it."""
    if len(g.shape) >= 2 and isinstance(g.shape[0], str) and all(isinstance(d, int) for d in g.shape[1:]):
        sizes = g.op("Shape", [g.at])
        first = g.op("Gather", [sizes, g.const(np.array([0]))], axis=0)
        target = g.op("Concat", [first, g.const(np.array([-1]))], axis=0)
        g.step("Reshape", target, shape=[g.shape[0], int(np.prod(g.shape[1:]))])


def flatten(g):
    names = [i for i, d in enumerate(g.shape) if isinstance(d, str)]
    axis = int(g.rng.integers(len(g.shape) + 1))
    if names and names != [0]:
        return
    ints = [int(np.prod([d for d in part if isinstance(d, int)])) for part in (g.shape[:axis], g.shape[axis:])]
    if names and (ints[0] != 1 if axis > 0 else ints[1] != 1):
        return
    shape = (g.shape[0], ints[1]) if names and axis > 0 else (1, g.shape[0]) if names else tuple(ints)
    g.step("Flatten", axis=axis, shape=shape)


def unsqueeze(g):
    if len(g.shape) < 5:
        axis = int(g.rng.integers(len(g.shape) + 1))
        g.step("Unsqueeze", g.const(np.array([axis])), shape=g.shape[:axis] + (1,) + g.shape[axis:])


def squeeze(g):
    ones = [i for i, d in enumerate(g.shape) if d == 1]
    if ones:
        axis = int(g.rng.choice(ones))
        g.step("Squeeze", g.const(np.array([axis])), shape=g.shape[:axis] + g.shape[axis + 1:])


def transpose(g):
    perm = [int(p) for p in g.rng.permutation(len(g.shape))]
    g.step("Transpose", perm=perm, shape=[g.shape[p] for p in perm])


def no_op(g):
    rank = len(g.shape)
    what = int(g.rng.integers(8))
    if what == 0:
        g.step("Slice", g.const(np.array([0])), g.const(np.array([np.iinfo(np.int64).max])), g.const(np.array([0]))) \
            if rank else None
    elif what == 1 and g.type in (T.FLOAT, T.DOUBLE):
        g.step("Pad", g.const(np.zeros(2 * rank, np.int64)))
    elif what == 2:
        g.step("Tile", g.const(np.ones(rank, np.int64)))
    elif what == 3:
        g.step("Concat", axis=0) if rank else None
    elif what == 4 and g.type in (T.FLOAT, T.DOUBLE):
        g.step(g.pick("Sum", "Max", "Min", "Mean"))
    elif what == 5:
        g.step("Expand", g.const(np.ones(rank, np.int64)))
    elif what == 6 and g.type == T.FLOAT:
        g.step("Dropout", g.const(np.float32(0.5)), g.const(np.array(False)))
    else:
        g.step("Identity")


def neutral(g):
    if g.type in (T.BOOL, T.INT16, T.INT8, T.UINT8):
        return
    op, v = g.pick(("Mul", 1), ("Div", 1), ("Sub", 0), ("Add", -0.0), ("Add", 0), ("Mul", 2))
    shape = g.pick((), (1,), (1,) * (len(g.shape) + 1))
    more = (1,) * (len(shape) - len(g.shape))
    if len(g.shape) + len(more) > 5:
        return
    c = g.number(v, shape)
    if op in ("Mul", "Add") and g.rng.random() < 0.5:
        g.at, c = c, g.at
    g.step(op, c, shape=more + g.shape)


def twice(g):
    if g.type == T.FLOAT:
        op = g.pick("Neg", "Abs", "Relu", "Floor", "Ceil", "Neg")
        for _ in range(int(g.rng.integers(2, 4))):
            g.step(op)
    elif g.type == T.BOOL:
        g.step("Not"), g.step("Not")


def concat(g):
    axes = [i for i, d in enumerate(g.shape) if isinstance(d, int)]
    if axes and max((d for d in g.shape if isinstance(d, int)), default=0) <= 16:
        axis = int(g.rng.choice(axes))
        for _ in range(int(g.rng.integers(1, 3))):
            other = g.at if g.rng.random() < 0.5 or not g.fixed else g.number(3, g.shape)
            g.step("Concat", other, axis=axis - g.pick(0, len(g.shape)),
                   shape=g.shape[:axis] + (2 * g.shape[axis],) + g.shape[axis + 1:])


def decided(g):
    if g.type != T.FLOAT:
        return
    graphs = []
    for tag, op in (("t", "Abs"), ("e", "Neg")):
        out = helper.make_tensor_value_info(f"{tag}{g.n}", T.FLOAT, None)
        graphs.append(helper.make_graph([helper.make_node(op, [g.at], [f"{tag}{g.n}"])], tag, [], [out]))
    cond = g.const(np.array(bool(g.rng.integers(2))))
    g.at = g.op("If", [cond], then_branch=graphs[0], else_branch=graphs[1])


def never(g):
    if g.type != T.FLOAT:
        return
    p = f"l{g.n}_"
    infos = [helper.make_tensor_value_info(p + "i", T.INT64, []), helper.make_tensor_value_info(p + "c", T.BOOL, []),
             helper.make_tensor_value_info(p + "s", T.FLOAT, None)]
    outs = [helper.make_tensor_value_info(p + "d", T.BOOL, []), helper.make_tensor_value_info(p + "o", T.FLOAT, None)]
    body = helper.make_graph([helper.make_node("Identity", [p + "c"], [p + "d"]),
                              helper.make_node("Neg", [p + "s"], [p + "o"])], "body", infos, outs)
    trips, cond = g.pick((0, True), (3, False), (2, True))
    g.at = g.op("Loop", [g.const(np.array(trips)), g.const(np.array(cond)), g.at], body=body)


def activation(g):
    if g.type != T.FLOAT:
        return
    x, c = g.at, g.number
    what = int(g.rng.integers(7))
    if what == 0:
        e = g.op("Erf", [g.op("Div", [x, c(2 ** 0.5)]) if g.rng.random() < 0.5 else g.op("Mul", [c(0.5 ** 0.5), x])])
        e = g.op("Add", [e, c(1)])
        g.at = g.pick(lambda: g.op("Mul", [g.op("Mul", [x, c(0.5)]), e]),
                      lambda: g.op("Mul", [g.op("Mul", [e, x]), c(0.5)]),
                      lambda: g.op("Mul", [x, g.op("Mul", [c(0.5), e])]))()
    elif what == 1:
        cube = g.op("Pow", [x, c(3)]) if g.rng.random() < 0.5 else g.op("Mul", [x, g.op("Mul", [x, x])])
        t = g.op("Mul", [g.op("Add", [x, g.op("Mul", [cube, c(0.044715)])]), c((2 / np.pi) ** 0.5)])
        t = g.op("Add", [g.op("Tanh", [t]), c(1)])
        g.at = g.op("Mul", [g.op("Mul", [c(0.5), x]), t])
    elif what == 2:
        s = g.op("Sigmoid", [x if g.rng.random() < 0.5 else g.op("Mul", [x, c(1.5)])])
        g.at = g.op("Mul", g.pick([s, x], [x, s]))
    elif what == 3:
        r = g.op("Clip", [g.op("Add", [x, c(3)]), c(0), c(6)])
        g.at = g.pick(lambda: g.op("Div", [g.op("Mul", [x, r]), c(6)]),
                      lambda: g.op("Mul", [x, g.op("Div", [r, c(6)])]))()
    elif what == 4:
        alpha = g.pick(1 / 6, 0.2)
        g.at = g.op("Mul", [x, g.op("HardSigmoid", [x], alpha=alpha, beta=0.5)])
    elif what == 5:
        g.at = g.op("Mul", [x, g.op("Tanh", [g.op("Softplus", [x])])])
    else:
        lo, hi = g.pick((c(-1), c(1)), (c(1, (1,)), c(-1)), (c(0), c(6, (1,))))
        g.at = g.pick(lambda: g.op("Min", [g.op("Max", [x, lo]), hi]), lambda: g.op("Max", [g.op("Min", [hi, x]), lo]),
                      lambda: g.op("Min", [g.op("Relu", [x]), hi]))()
        g.shape = g.shape or (1,)


def normalization(g):
    if g.type != T.FLOAT or not g.shape or not isinstance(g.shape[-1], int):
        return
    def mean(v, keep=1):
        if g.opset >= 18:
            return g.op("ReduceMean", [v, g.const(np.array([-1]))], keepdims=keep)
        return g.op("ReduceMean", [v], axes=[-1], keepdims=keep)
    x = g.at
    d = g.op("Sub", [x, mean(x)]) if g.rng.random() < 0.6 else x
    square = g.op("Pow", [d, g.number(2)]) if g.rng.random() < 0.5 else g.op("Mul", [d, d])
    root = g.op("Sqrt", [g.op("Add", [mean(square), g.number(1e-3)])])
    y = g.op("Div", [d, root]) if g.rng.random() < 0.5 else g.op("Mul", [d, g.op("Reciprocal", [root])])
    g.at = g.op("Mul", [y, g.const(g.rng.standard_normal(g.shape[-1]).astype(np.float32))])
    if g.rng.random() < 0.7:
        g.step("Add", g.const(g.rng.standard_normal(g.shape[-1]).astype(np.float32)))


def conv(g):
    if g.type != T.FLOAT or len(g.shape) != 4 or not isinstance(g.shape[1], int) or g.shape[1] > 16:
        return
    def random(*shape):
        return g.const((g.rng.standard_normal(shape) * 0.5).astype(np.float32))
    m = 5
    g.step("Conv", random(m, g.shape[1], 1, 1), *([random(m)] if g.rng.random() < 0.5 else []),
           shape=(g.shape[0], m) + g.shape[2:])
    for _ in range(int(g.rng.integers(0, 4))):
        if g.opset >= 14 and g.rng.random() < 0.4:  # before, the evaluator takes the batch's statistics
            var = g.const((g.rng.random(m) + 0.5).astype(np.float32))
            g.step("BatchNormalization", random(m), random(m), random(m), var)
        else:
            shape = g.pick((m, 1, 1), (1, m, 1, 1), ())
            g.step(g.pick("Mul", "Add", "Sub"), random(*shape))


def gemm(g):
    if g.type != T.FLOAT or len(g.shape) != 2:
        return
    def random(*shape):
        return g.const((g.rng.standard_normal(shape) * 0.5).astype(np.float32))
    k, n = g.shape[1], 3
    if not isinstance(k, int) or k > 64:
        return
    if g.rng.random() < 0.5:
        g.step("MatMul", random(k, n), shape=(g.shape[0], n))
    else:
        x = g.op("Transpose", [g.op("Transpose", [g.at], perm=[1, 0])])
        w = g.op("Transpose", [random(n, k)]) if g.rng.random() < 0.5 else random(k, n)
        g.at, g.shape = g.op(g.pick("Gemm", "MatMul"), [x, w]), (g.shape[0], n)
    for _ in range(int(g.rng.integers(0, 3))):
        g.step(g.pick("Add", "Mul", "Sub"), g.pick(lambda: random(n), lambda: random(1, n), lambda: random(1))())


STEPS = [cast, cast, to_ints, back_to_float, reshape, reshape, computed_reshape, flatten, unsqueeze, unsqueeze, squeeze,
         transpose, transpose, no_op, no_op, neutral, twice, concat, decided, never, activation, activation,
         normalization, conv, gemm]


def make_model(seed):
    rng = np.random.default_rng(seed)
    opset = OPSETS[seed % len(OPSETS)]
    g = Chain(rng, opset)
    if seed % 3 == 0:
        g.start("x", (2, 4, 1, 3))
    shape = g.shape
    for _ in range(int(rng.integers(4, 22))):
        g.pick(*STEPS)(g)
    g.outputs.append((g.at, (g.type, len(g.shape))))
    ends = dict(o for o in g.outputs if o[0] != "x" and not o[0].startswith("c")) or None
    if ends is None:
        g.step("Neg")
        ends = {g.at: (g.type, len(g.shape))}
    outputs = [helper.make_tensor_value_info(n, t, [None] * rank) for n, (t, rank) in ends.items()]
    inputs = [helper.make_tensor_value_info("x", T.FLOAT, shape)]
    graph = helper.make_graph(g.nodes, f"g{seed}", inputs, outputs, g.consts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), shape


def same(got, want, what, row):
    for i, (p, q) in enumerate(zip(got, want)):
        p, q = np.asarray(p), np.asarray(q)
        assert p.shape == q.shape, f"{what}: output {i} has shape {p.shape}, expected {q.shape}"
        assert p.dtype == q.dtype, f"{what}: output {i} is of {p.dtype}, expected {q.dtype}"
        close(p.astype(np.float64), q.astype(np.float64), row, f"{what}: output {i}")


@pytest.mark.parametrize("seed", SEEDS)
def test_chain(seed, tmp_path):
    model, shape = make_model(seed)
    onnx.checker.check_model(model)
    halves = any(a.i == T.FLOAT16 for n in model.graph.node for a in n.attribute if a.name == "to") or any(
        c.data_type == T.FLOAT16 for c in model.graph.initializer)
    row = "device_f16" if halves else "graph_f32"  # a rounding to half precision may fall the other way
    reference = ReferenceEvaluator(model)
    rng = np.random.default_rng(seed)
    feeds = [{"x": rng.standard_normal([{"a": a}.get(d, d) for d in shape]).astype(np.float32)} for a in (3, 1)]
    with np.errstate(all="ignore"):
        wants = [reference.run(None, f) for f in feeds]
    path = tmp_path / "saved.onnx"
    data = model.SerializeToString()
    with Env(2) as env:
        for settings in (dict(save=path), dict(level="off"), dict(level="basic"), dict(device="guard")):
            save = settings.pop("save", None)
            with env.session(data, **settings, **({"save": str(save)} if save else {})) as session:
                for f, want in zip(feeds, wants):
                    same(list(session.run(f).values()), want, f"seed {seed}, {settings}", row)
    saved = onnx.load(path)
    onnx.checker.check_model(saved, full_check=True)
    domains = {n.domain for n in saved.graph.node}
    assert domains <= {"", "com.microsoft"}, "the saved model has ops that neither ONNX nor onnxruntime has"
    assert saved.opset_import[0].version == model.opset_import[0].version
    again = ReferenceEvaluator(saved) if domains == {""} else onnxruntime.InferenceSession(
        saved.SerializeToString(), providers=["CPUExecutionProvider"])
    with np.errstate(all="ignore"):
        for f, want in zip(feeds, wants):
            same(again.run(None, f), want, f"seed {seed}, saved", row)


CHAINS = {
    "reshape": lambda i: helper.make_node("Reshape", [f"v{i}", f"s{i % 2}"], [f"v{i + 1}"]),
    "transpose": lambda i: helper.make_node("Transpose", [f"v{i}"], [f"v{i + 1}"], perm=[1, 0]),
    "cast": lambda i: helper.make_node("Cast", [f"v{i}"], [f"v{i + 1}"], to=(T.DOUBLE, T.FLOAT)[i % 2]),
    "concat": lambda i: helper.make_node("Concat", [f"v{i}", "one"], [f"v{i + 1}"], axis=1),
    "identity": lambda i: helper.make_node("Identity", [f"v{i}"], [f"v{i + 1}"]),
    "neg": lambda i: helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]),
    "ones": lambda i: helper.make_node(("Unsqueeze", "Squeeze")[i % 2], [f"v{i}", "zero"], [f"v{i + 1}"]),
    "mul": lambda i: helper.make_node("Mul", [f"v{i}", "unit"], [f"v{i + 1}"]),
}


def long_chain(kind, n):
    nodes = [CHAINS[kind](i) for i in range(n)]
    consts = {"s0": np.array([3, 2]), "s1": np.array([-1, 3]), "one": np.ones((2, 1), np.float32),
              "zero": np.array([0]), "unit": np.float32(1)}
    graph = helper.make_graph(nodes, kind, [helper.make_tensor_value_info("v0", T.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info(f"v{n}", T.FLOAT, [None, None])],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in consts.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.mark.parametrize("kind", CHAINS)
def test_long_chains_are_cleaned(env, kind):
    n = 10000
    data = long_chain(kind, n)
    with env.model(data) as model:
        call("nacre_model_optimize", model.handle, b"all", None, 0)
    with env.session(data) as session:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        got, = session.run({"v0": x}).values()
    if kind == "concat":
        assert got.shape == (2, 3 + n)
    else:
        np.testing.assert_array_equal(got.ravel(), x.ravel())


TRAINED = """<opset: "" 20>
g (float[n,4] x) => (loss)
<const float[4] scale = {1, 1, 1, 1}, const float[4] shift = {0, 0, 0, 0}, const float[4,4] w = {1, 0, 0, 0, 0, 1, 0, 0,
 0, 0, 1, 0, 0, 0, 0, 1}, const float[4] b = {1, 2, 3, 4}, const float[] half = {0.5}, const float[] one = {1},
 const float[] root = {1.4142135}>
{
  a = Mul(x, scale)
  c = Sub(a, shift)
  t = Transpose(w)
  m = MatMul(c, t)
  nb = Neg(b)
  s = Add(m, nb)
  h = Mul(s, half)
  d = Div(s, root)
  e = Erf(d)
  f = Add(e, one)
  y = Mul(h, f)
  z = Reshape<allowzero = 0>(y, minus)
  loss = ReduceSum<keepdims = 0>(z)
}
"""


def test_gradients_are_those_of_the_model_as_it_was(env):
    """Parameters that start as neutral operands, feed constants or stand in a pattern keep their gradients."""
    wrt = ["scale", "shift", "w", "b", "half"]
    text = TRAINED.replace("const float[] root", "const int64[1] minus = {-1}, const float[] root")
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    got = {}
    for level in ("off", "all"):
        with env.session(text, Options(level=level).gradients("loss", wrt)) as session:
            got[level] = session.run({"x": x})
    for name in wrt:
        assert np.abs(got["off"][f"grad:{name}"]).max() > 0, name
        close(got["all"][f"grad:{name}"], got["off"][f"grad:{name}"], "device_f32", name)


@pytest.mark.parametrize("n, m", [(1, 3), (3, 1), (3, 3), (1, 1)])
@pytest.mark.parametrize("first", [True, False])
def test_a_decided_where_may_still_widen(first, n, m):
    """Which sizes its operands have, only the run tells."""
    import package
    import nacre
    model = package.model([package.node("Where", "c x y", "w"), package.node("Neg", "w", "z")],
                          [package.tensor("x", T.FLOAT, ["n"]), package.tensor("y", T.FLOAT, ["m"])],
                          [package.tensor("z", T.FLOAT, None)], [("c", np.array([first]))])
    x, y = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32) + 5
    got = nacre.InferenceSession(model).run(None, {"x": x, "y": y})[0]
    assert np.array_equal(got, -np.where(first, x, y))


def test_a_decided_where_still_refuses_sizes_that_do_not_fit():
    import package
    import nacre
    model = package.model([package.node("Where", "c x y", "w"), package.node("Neg", "w", "z")],
                          [package.tensor("x", T.FLOAT, [3]), package.tensor("y", T.FLOAT, ["m"])],
                          [package.tensor("z", T.FLOAT, None)], [("c", np.array([True]))])
    session = nacre.InferenceSession(model)
    with pytest.raises(Exception, match="a dim of 2 where 3 or 1 is expected"):
        session.run(None, {"x": np.zeros(3, np.float32), "y": np.zeros(2, np.float32)})


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_weights_that_a_loop_carries(tmp_path, trips):
    """As tf2onnx writes a while loop: weights go around unchanged. Captured instead, here and in the saved model."""
    model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 15]>
        g (float[2,3] x, int64 m) => (float[2,3] y, float[3,3] u, float[k,2,3] s) {
            y, u, s = Loop<body = b (int64 i, bool c, float[2,3] h, float[3,3] v)
                => (bool d, float[2,3] o, float[3,3] v, float[2,3] t) {
                    d = Identity(c) p = MatMul(h, v) o = Tanh(p) t = Neg(o) }>(m, , x, w) }''')
    rng = np.random.default_rng(5)
    model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((3, 3), np.float32), "w"))
    feeds = {"x": rng.standard_normal((2, 3), np.float32), "m": np.array(trips, np.int64)}
    model, saved = model.SerializeToString(), tmp_path / "saved.onnx"
    want = onnxruntime.InferenceSession(model).run(None, feeds)
    with Env(2) as env:
        session = env.session(model, dumps="on", save=str(saved))
        assert "(m, , x, w)" not in session.dump("transformed")
        got = [session.run(feeds)[n] for n in ("y", "u", "s")]
    onnx.checker.check_model(str(saved), full_check=True)
    for found in (got, onnxruntime.InferenceSession(str(saved)).run(None, feeds)):
        for a, b in zip(found, want):
            assert a.shape == b.shape
            close(a, b, "model_f32", trips)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("rows", [(4,), (2, 3), (0, 5)])
def test_rows_chosen_by_a_product(kind, rows):
    """Rows that hold a single 1: x that is no row's number gives zeros."""
    rng = np.random.default_rng(7)
    table, ends = rng.standard_normal((5, 3), np.float32), [np.iinfo(kind).min, np.iinfo(kind).max, -1, 5, -6]
    dims, type_ = ",".join(map(str, rows)), np.dtype(kind).name
    model = onnx.parser.parse_model(f'''<ir_version: 8, opset_import: ["" : 15]>
        g ({type_}[{dims},1] x) => (float[{dims},3] y) {{
            e = Equal(x, k) c = Cast<to = 1>(e) y = MatMul(c, w) }}''')
    model.graph.initializer.extend([numpy_helper.from_array(np.arange(5, dtype=kind), "k"),
                                    numpy_helper.from_array(table, "w")])
    x = rng.choice(np.array([0, 1, 2, 3, 4, *ends], kind), (*rows, 1))
    for level in ("off", "all"):
        with Env(2) as env:
            session = env.session(model.SerializeToString(), level=level, dumps="on")
            assert ("Gather" in session.dump("transformed")) == (level == "all")
            got = session.run({"x": x})["y"]
        np.testing.assert_array_equal(got, (x == np.arange(5)).astype(np.float32) @ table)
