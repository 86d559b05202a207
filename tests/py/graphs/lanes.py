"""Recipes of what works element by element, along an axis, or reduces one."""
import numpy as np
from onnx import TensorProto

from .oracle import Reject

FLOATS = [np.float32] * 8 + [np.float64, np.float16]
INTS = [np.int64, np.int32, np.int64, np.int32, np.uint8, np.int8]

# Where the argument of a function must lie; the others take anything.
DOMAIN = {"Acos": (-0.95, 0.95), "Asin": (-0.95, 0.95), "Atanh": (-0.95, 0.95), "Acosh": (1.1, 30), "Log": (0.05, 50),
          "Sqrt": (0.05, 50), "Reciprocal": (0.2, 50), "Tan": (-1.2, 1.2), "Exp": (-8, 4), "Cosh": (-4, 4),
          "Sinh": (-4, 4)}
UNARY = sorted({*DOMAIN, *"""Abs Asinh Atan Ceil Cos Elu Erf Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Mish
Neg Relu Round Selu Shrink Sigmoid Sign Sin Softplus Softsign Swish Tanh ThresholdedRelu Celu IsInf IsNaN""".split()})
PARAMETERS = {"Elu": {"alpha": 0.7}, "LeakyRelu": {"alpha": 0.2}, "ThresholdedRelu": {"alpha": 0.4},
              "Celu": {"alpha": 1.5}, "Shrink": {"bias": 0.25, "lambd": 0.5}, "HardSigmoid": {"alpha": 0.3},
              "Swish": {"alpha": 0.8}, "Gelu": {"approximate": "tanh"}, "IsInf": {"detect_negative": 0}}
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Mean", "Sum", "PRelu"]
COMPARE = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]
REDUCE = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
          "ReduceProd", "ReduceSum", "ReduceSumSquare"]


def unary(g):
    op = g.choice(UNARY)
    v = g.tensor(g.choice(FLOATS))
    if op in DOMAIN:
        v = g.within(v, *DOMAIN[op])
    given = PARAMETERS.get(op, {}) if g.chance(0.5) else {}
    g.emit(op, [v], **given)


def fits(v, w):
    """Whether two values broadcast at both sizes."""
    try:
        return all(np.broadcast_shapes(a.shape, b.shape) is not None for a, b in zip(v.data, w.data))
    except ValueError:
        return False


def partner(g, v, dtype=None):
    """A value of v's type that broadcasts with it; at times v itself."""
    if g.chance(0.15) and dtype is None:
        return v
    return g.tensor(dtype or v.dtype, lambda w: fits(v, w))


def binary(g):
    op = g.choice(BINARY)
    v = g.tensor(g.choice(FLOATS))
    w = partner(g, v)
    if op == "Div":
        w = g.within(w, 0.2, 50)
    if op == "Pow":
        v, w = g.within(v, 0.1, 5), g.like(w, g.choice(INTS), 0, 3) if g.chance(0.4) else g.within(w, -2, 2)
    if op == "Mod":
        return g.emit(op, [v, g.within(w, 0.3, 9)], fmod=1)
    if op == "PRelu":
        w = g.tensor(v.dtype, lambda w: fits(v, w) and v.shape == np.broadcast_shapes(v.shape, w.shape))
    if op in ("Max", "Min", "Mean", "Sum") and g.chance(0.4):
        return g.emit(op, [v, w, partner(g, v)] if g.chance(0.7) else [v])
    return g.emit(op, [v, w])


def integers(g):
    v = g.like(g.tensor(), g.choice(INTS))
    op = g.choice(["Add", "Sub", "Mul", "Div", "Mod", "Abs", "Neg", "Max", "Min", "Sign", "BitwiseAnd", "BitwiseOr",
                   "Relu", "BitwiseXor", "BitwiseNot", "BitShift", "ReduceSum", "ReduceMax", "Pow", "Clip", "Where"])
    if op in ("Abs", "Neg", "Sign", "BitwiseNot", "ReduceSum", "ReduceMax", "Relu"):
        return g.emit(op, [v], **({"keepdims": 0} if op.startswith("Reduce") else {}))
    if op == "BitShift":
        v, w = (g.like(v, np.uint8, 0, 7) for _ in range(2))
        return g.emit(op, [v, w], direction=g.choice(["LEFT", "RIGHT"]))
    if op == "Clip":
        return g.emit(op, [v, np.asarray(0, v.dtype), np.asarray(3, v.dtype)])
    if op == "Where":
        return g.emit(op, [g.like(v, bool), v, g.like(v, v.dtype)])
    w = g.like(v, v.dtype, *((1, 5) if op in ("Div", "Mod") else (0, 3) if op == "Pow" else (-4, 5)))
    return g.emit(op, [v, w])


def compare(g):
    v = g.tensor(g.choice([np.float32, np.float32, np.int64, np.int32]))
    g.emit(g.choice(COMPARE), [v, partner(g, v)])


def booleans(g):
    v = g.like(g.tensor(), bool)
    op = g.choice(["And", "Or", "Xor", "Not", "Equal", "Where", "Cast"])
    if op == "Not":
        return g.emit(op, [v])
    if op == "Where":
        x = g.like(v, np.float32)
        return g.emit(op, [v, x, g.like(v, np.float32)])
    if op == "Cast":
        return g.emit(op, [v], to=g.choice([TensorProto.FLOAT, TensorProto.INT64]))
    return g.emit(op, [v, g.like(v, bool) if g.chance(0.8) else v])


def where(g):
    a = g.tensor()
    b = partner(g, a)
    test, = g.emit(g.choice(["Less", "Greater"]), [a, b])
    g.emit("Where", [test, a, b] if g.chance(0.6) else [test, partner(g, a), a])


def clip(g):
    v = g.tensor(g.choice(FLOATS))
    low, high = np.asarray(-0.6, v.dtype), np.asarray(0.8, v.dtype)
    g.emit("Clip", [v, low if g.chance(0.7) else None, high])


def cast(g):
    v = g.pick(lambda v: not v.is_sequence and v.dtype.kind in "fiub")
    to = g.choice([np.float32, np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_])
    if g.chance(0.5):
        like = g.tensor(to) if g.chance(0.5) else g.const(np.zeros(1, to))
        return g.emit("CastLike", [v, like])
    return g.emit("Cast", [v], to=TO[np.dtype(to)])


TO = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE,
      np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.int64): TensorProto.INT64,
      np.dtype(np.int32): TensorProto.INT32, np.dtype(bool): TensorProto.BOOL}


def bit_cast(g):
    """Bits of integers as floats would be any number, so only there and back, or to the other sign."""
    v = g.tensor(g.choice([np.float32, np.int32, np.int64]))
    other = {np.dtype(np.float32): TensorProto.INT32, np.dtype(np.int32): TensorProto.UINT32}
    to, back = other.get(v.dtype, TensorProto.UINT64), TO[v.dtype]
    if v.dtype == np.float32:
        v = g.input([g.random(x.shape, v.dtype) for x in v.data])
    bits, = g.emit("BitCast", [v], to=to)
    g.emit("BitCast", [bits], to=back)


def axis_of(g, v):
    if not v.rank:
        raise Reject("a scalar has no axis")
    return int(g.rng.integers(-v.rank, v.rank))


def steep(data, axis):
    """Whether a spread along the axis is small beside its mean."""
    return data.size and bool((data.std(axis) < 0.05 * np.abs(data.mean(axis))).any())


def along(g):
    op = g.choice(["Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "CumSum", "CumProd", "Softmax", "ArgMax",
                   "ArgMin", "MeanVarianceNormalization"])
    v = g.tensor(g.choice(FLOATS), lambda v: v.rank)
    axis = axis_of(g, v)
    if op in ("ArgMax", "ArgMin", "Hardmax") and 0 in v.shape + v.data[1].shape:
        raise Reject("of nothing there is no largest; Nacre refuses, also where Hardmax would give nothing")
    if op in ("ArgMax", "ArgMin", "Hardmax") and any(np.isnan(d).any() for d in v.data):
        raise Reject("no number is the largest for some, and no candidate for others")
    if op == "LpNormalization" and any((np.abs(d).sum(axis) < 1e-3).any() for d in v.data):
        raise Reject("next to nothing is divided by next to nothing")
    if op in ("CumSum", "CumProd"):
        return g.emit(op, [v, np.asarray(axis)], exclusive=int(g.chance(0.3)), reverse=int(g.chance(0.3)))
    if op == "MeanVarianceNormalization":
        if any(steep(d.astype(np.float64), axis) for d in v.data):
            raise Reject("the evaluator takes the variance as a difference of squares, which cancels here")
        return g.emit(op, [v], axes=[axis % v.rank])
    more = {"keepdims": int(g.chance(0.5))} if op.startswith("Arg") else {}
    more |= {"p": g.choice([1, 2])} if op == "LpNormalization" else {}
    return g.emit(op, [v], axis=axis, **more)


def reduce(g):
    op = g.choice(REDUCE)
    v = g.tensor(g.choice(FLOATS))
    if op in ("ReduceLogSum",):
        v = g.within(v, 0.1, 9)
    if op == "ReduceProd" and v.data[0].size > 100:
        raise Reject("the order of a long product decides whether it overflows")
    axes = np.array(sorted(g.rng.permutation(v.rank)[:g.rng.integers(v.rank + 1)]), np.int64)
    axes = np.where(g.rng.random(axes.shape) < 0.5, axes - v.rank, axes).astype(np.int64)
    given = [v, axes] if axes.size or g.chance(0.5) else [v]
    g.emit(op, given, keepdims=int(g.chance(0.6)))


RECIPES = [unary] * 5 + [binary] * 5 + [integers, along, reduce] * 2 + [compare, booleans, where, clip, cast, bit_cast]
