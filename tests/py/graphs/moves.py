"""Recipes of what moves elements: views, gathers, scatters, what makes shapes and indices, sequences, strings."""
import numpy as np
from onnx import TensorProto, numpy_helper

from .lanes import FLOATS, axis_of, fits
from .oracle import Reject

ANY = [np.float32] * 6 + [np.float64, np.float16, np.int64, np.int32, np.uint8, bool, object]


def ints(*values):
    return np.array(values, np.int64)


def any_tensor(g, want=lambda v: True):
    dtype = np.dtype(g.choice(ANY))
    if not any(not v.is_sequence and v.dtype == dtype for v in g.values):
        g.like(g.tensor(), dtype)
    return g.tensor(dtype, want)


def transpose(g):
    v = any_tensor(g, lambda v: v.rank)
    g.emit("Transpose", [v], perm=[int(p) for p in g.rng.permutation(v.rank)])


def reshape(g):
    """To a constant shape, with 0 and -1 for what is not known, or to the shape of another value."""
    v = any_tensor(g)
    kind = g.rng.integers(4)
    if kind == 0:
        return g.emit("Reshape", [v, ints(-1)])
    if kind == 1 and v.rank >= 2:
        return g.emit("Reshape", [v, ints(0, -1)])
    same = [w for w in g.values if not w.is_sequence and all(a.size == b.size for a, b in zip(v.data, w.data))]
    w = g.choice(same)
    if kind == 2 and w.is_static:
        return g.emit("Reshape", [v, ints(*w.shape)])
    shape, = g.emit("Shape", [w])
    return g.emit("Reshape", [v, shape])


def flatten(g):
    v = any_tensor(g)
    g.emit("Flatten", [v], axis=int(g.rng.integers(-v.rank, v.rank + 1)))


def squeeze(g):
    v = any_tensor(g, lambda v: v.rank < 5)
    axis = int(g.rng.integers(v.rank + 1))
    wide, = g.emit("Unsqueeze", [v, ints(axis)])
    if g.chance(0.5):
        g.emit("Squeeze", [wide, ints(axis - wide.rank)])


def slices(g):
    v = any_tensor(g, lambda v: v.rank and min(v.shape) > 0)
    axis = axis_of(g, v)
    n = min(x.shape[axis] for x in v.data)
    step = int(g.choice([1, 1, 2, -1]))
    low, high = sorted(int(i) for i in g.rng.integers(0, n + 1, 2))
    ends = (high - 1, low - n - 1) if step < 0 else (low, high)
    if not g.chance(0.3):
        ends = (-1, -(2 ** 62)) if step < 0 else (0, 2 ** 62) if g.chance(0.3) else ends
    g.emit("Slice", [v, ints(ends[0]), ints(ends[1]), ints(axis), ints(step)])


def split(g):
    v = any_tensor(g, lambda v: v.rank)
    axis = axis_of(g, v)
    n = v.shape[axis]
    if n != v.data[1].shape[axis] or n < 2:
        raise Reject("no fixed axis to split")
    left = int(g.rng.integers(0, n + 1))
    if n % 2 == 0 and g.opsets[""] >= 18 and g.chance(0.5):
        return g.emit("Split", [v], n_out=2, axis=axis, num_outputs=2)
    return g.emit("Split", [v, ints(left, n - left)], n_out=2, axis=axis)


def concat(g):
    v = any_tensor(g, lambda v: v.rank)
    axis = axis_of(g, v)

    def joins(w):
        return not w.is_sequence and w.dtype == v.dtype and w.rank == v.rank and all(
            a.shape[i] == b.shape[i] for a, b in zip(v.data, w.data) for i in range(v.rank) if i != axis % v.rank)
    parts = [v] + [g.pick(joins) for _ in range(g.rng.integers(0, 3))]
    g.emit("Concat", parts, axis=axis)


def expand(g):
    v = any_tensor(g, lambda v: v.rank <= 3)
    kind = g.rng.integers(3)
    if kind == 0:
        return g.emit("Expand", [v, ints(2, *[1] * v.rank)])
    if kind == 1:
        return g.emit("Tile", [v, ints(*g.rng.integers(1, 3, v.rank))])
    w = g.pick(lambda w: not w.is_sequence and fits(v, w) and np.broadcast_shapes(v.shape, w.shape) == w.shape)
    shape, = g.emit("Shape", [w])
    return g.emit("Expand", [v, shape])


def pad(g):
    v = any_tensor(g, lambda v: v.rank)
    pads = g.rng.integers(0, 3, 2 * v.rank)
    mode = g.choice(["constant", "constant", "edge", "reflect", "wrap"])
    if mode in ("reflect", "wrap") and (min(v.shape) < 3 or min(v.data[1].shape) < 3):
        raise Reject("too short to reflect")
    g.emit("Pad", [v, pads.astype(np.int64)], mode=mode)


def gather(g):
    v = any_tensor(g, lambda v: v.rank and min(v.shape) > 0 and min(v.data[1].shape) > 0)
    axis = axis_of(g, v)
    n = min(x.shape[axis] for x in v.data)
    kind = g.rng.integers(4)
    if kind == 0:
        index = g.rng.integers(-n, n, g.choice([(), (1,), (3,), (2, 2), (n,)]))
        return g.emit("Gather", [v, np.asarray(index, g.choice([np.int64, np.int32]))], axis=axis)
    if kind == 1:
        index = g.like(v, np.int64, 0, n)
        return g.emit("GatherElements", [v, index], axis=axis)
    if kind == 2:
        index = g.rng.integers(0, min(v.shape[0], v.data[1].shape[0]), (3, 1))
        return g.emit("GatherND", [v, np.asarray(index, np.int64)])
    return g.emit("Gather", [v, g.like(g.tensor(), np.int64, 0, n)], axis=axis)


def scatter(g):
    """Data and updates of one shape: the case in which a result may lie over either."""
    dtype = g.choice([np.float32, np.float32, np.float64, np.int64, np.int32])
    v = g.tensor(dtype, lambda v: v.rank and min(v.shape) > 0)
    axis = axis_of(g, v)
    updates = g.like(v, v.dtype)
    if g.chance(0.5) or g.opsets[""] < 11:
        more = {"reduction": g.choice(["none", "add", "mul", "min", "max"])} if g.opsets[""] >= 18 else {}
        order = [np.argsort(g.rng.random(x.shape), axis=axis).astype(np.int64) for x in v.data]
        index = g.input(order)
        op = "Scatter" if g.opsets[""] < 11 else "ScatterElements"
        return g.emit(op, [v, index, updates], axis=axis, **(more if op != "Scatter" else {}))
    order = [g.rng.permutation(x.shape[0])[:, None].astype(np.int64) for x in v.data]
    return g.emit("ScatterND", [v, g.input(order), updates])


def shapes(g):
    v = any_tensor(g)
    kind = g.rng.integers(6)
    if kind == 0:
        return g.emit("Size", [v])
    if kind == 1:
        shape, = g.emit("Shape", [v])
        return g.emit("ConstantOfShape", [shape], value=numpy_helper.from_array(np.float32([g.rng.uniform(-1, 1)])))
    if kind == 2:
        n, = g.emit("Size", [v])
        if n.data[0] > 200:
            raise Reject("a long range")
        return g.emit("Range", [np.asarray(0, np.int64), n, np.asarray(int(g.choice([1, 2])), np.int64)])
    if kind == 3:
        w = g.ranked(2)
        return g.emit("EyeLike", [w], k=int(g.rng.integers(-1, 2)), dtype=TensorProto.FLOAT)
    if kind == 4:
        w = g.tensor(want=lambda w: w.rank >= 2)
        return g.emit("Trilu", [w, np.asarray(g.rng.integers(-1, 2), np.int64)], upper=int(g.chance(0.5)))
    return g.emit("Shape", [v])


def one_hot(g):
    index = g.like(g.tensor(want=lambda v: v.rank <= 3), np.int64, 0, 5)
    g.emit("OneHot", [index, np.asarray(5, np.int64), np.float32([g.rng.uniform(-1, 0), 1])],
           axis=int(g.rng.integers(-1, index.rank + 1)))


def several(g):
    """Results whose number is found while running, and ops with many results."""
    kind = g.rng.integers(5)
    if kind == 0:
        v = g.tensor(want=lambda v: v.rank)
        axis = axis_of(g, v)
        k = int(g.rng.integers(1, max(2, min(x.shape[axis] for x in v.data) + 1)))
        return g.emit("TopK", [v, ints(k)], n_out=2, axis=axis, largest=int(g.chance(0.7)))
    if kind == 1:
        v = g.like(g.tensor(), np.int64, 0, 4)
        return g.emit("Unique", [v], n_out=4)
    if kind == 2:
        v, = g.emit("Relu", [g.tensor(want=lambda v: v.rank)])  # of a scalar onnxruntime makes a row too many
        return g.emit("NonZero", [v])
    if kind == 3:
        v = g.tensor(want=lambda v: v.rank)
        axis = axis_of(g, v)
        keep = g.rng.random(min(x.shape[axis] for x in v.data)) < 0.6
        return g.emit("Compress", [v, g.input([keep] * 2)], axis=axis)
    v = g.tensor(want=lambda v: v.rank == 1)
    bigger, = g.emit("Greater", [v, np.float32(0)])
    return g.emit("Compress", [v, bigger])


def blocks(g):
    v = g.tensor(want=lambda v: v.rank == 4 and v.shape[1] % 4 == 0) if g.chance(0.5) else g.input(
        [g.random((2, 4, 4, 6), np.float32) for _ in range(2)])
    op = g.choice(["DepthToSpace", "SpaceToDepth", "CenterCropPad", "ReverseSequence"])
    if op == "CenterCropPad":
        return g.emit(op, [v, ints(3, 7)], axes=[1, 2])
    if op == "ReverseSequence":
        lens = [g.rng.integers(1, x.shape[0] + 1, x.shape[1]) for x in v.data]
        return g.emit(op, [v, lens[0] if v.is_static and g.chance(0.5) else g.input(lens)], batch_axis=1, time_axis=0)
    more = {"mode": g.choice(["DCR", "CRD"])} if op == "DepthToSpace" else {}
    return g.emit(op, [v], blocksize=2, **more)


def sequences(g):
    """A sequence is made, changed and read; what is put in may be read afterwards too."""
    v = g.tensor()
    items = [v] + [g.tensor(want=lambda w: w.rank == v.rank) for _ in range(g.rng.integers(1, 3))]
    have = [w for w in g.values if w.is_sequence and w.data[0] and w.data[0][0].dtype == np.float32]
    if have and g.chance(0.6):
        s = g.choice(have)
    elif g.chance(0.2):
        empty, = g.emit("SequenceEmpty", [], dtype=TensorProto.FLOAT)
        s, = g.emit("SequenceInsert", [empty, v])
    elif g.chance(0.3) and v.rank:
        s, = g.emit("SplitToSequence", [v], axis=0, keepdims=int(g.chance(0.5)))
    else:
        s, = g.emit("SequenceConstruct", items)
    n = min(len(x) for x in s.data)
    if not n:
        raise Reject("nothing in it")
    op = g.choice(["SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength", "ConcatFromSequence", "Identity"])
    if op == "SequenceAt":
        return g.emit(op, [s, np.asarray(g.rng.integers(-n, n), np.int64)])
    if op == "SequenceInsert":
        return g.emit(op, [s, v] if g.chance(0.5) else [s, v, np.asarray(g.rng.integers(-n, n), np.int64)])
    if op == "SequenceErase" and n > 1:
        return g.emit(op, [s, np.asarray(g.rng.integers(n), np.int64)])
    if op == "ConcatFromSequence":
        if any(len({i.shape for i in items}) > 1 for items in s.data):
            raise Reject("onnxruntime leaves out what is empty")
        return g.emit(op, [s], axis=0, new_axis=int(g.chance(0.5)))
    return g.emit(op if op != "SequenceErase" else "SequenceLength", [s])


def optionals(g):
    """The evaluators hand out what an optional holds, so it is read at once."""
    v = g.tensor() if g.chance(0.7) else g.pick(lambda v: v.is_sequence)
    box = g.alias("Optional", v)
    if g.chance(0.3):
        full = g.alias("OptionalHasElement", box)
        full.data, full.shadows = [np.array(True)] * 2, [[np.array(True)] * 2] * len(full.shadows)
        g.values.append(full)
    g.values.append(g.alias("OptionalGetElement", box))


def strings(g):
    v = g.like(g.tensor(want=lambda v: v.is_static), object)
    op = g.choice(["StringConcat", "Equal", "RegexFullMatch", "StringNormalizer", "Identity", "Where", "StringSplit"])
    if op in ("StringConcat", "Equal"):
        return g.emit(op, [v, g.like(v, object)])
    if op == "RegexFullMatch":
        return g.emit(op, [v], pattern=r"[a-z ]+")
    if op == "StringNormalizer":
        words = [w for run in v.data for w in np.ravel(run)]
        if any(not w or not w.isascii() or (" " in w and "A" in w.upper().split()) for w in words):
            raise Reject("ONNX's evaluator drops empty strings, accents and words of a string")
        flat, = g.emit("Reshape", [v, ints(-1)])
        return g.emit(op, [flat], case_change_action="UPPER", stopwords=["A"], is_case_sensitive=0)
    if op == "Where":
        return g.emit(op, [g.like(v, bool), v, g.like(v, object)])
    if op == "StringSplit":
        return g.emit(op, [v], n_out=2, delimiter=" ")
    return g.emit(op, [v])


def drawn(g):
    """Random ops whose draw is certain: probability 0 or 1, no spread, one class that takes all."""
    if g.outer is not None:
        raise Reject("no random numbers inside of a body")
    v = g.tensor(want=lambda v: v.rank)
    op = g.choice(["Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "Multinomial",
                   "Dropout", "Dropout"])
    wide = [x.shape for x in v.data]
    if op == "Bernoulli":
        coin, = g.emit("Cast", [g.like(v, bool)], to=TensorProto.FLOAT)
        return g.certain(op, [coin], coin.data)
    if op == "RandomUniformLike":
        return g.certain(op, [v], [np.full(s, 0.75, np.float32) for s in wide], low=0.75, high=0.75)
    if op == "RandomNormalLike":
        return g.certain(op, [v], [np.full(s, -0.5, np.float32) for s in wide], mean=-0.5, scale=0.0)
    if op == "RandomUniform":
        return g.certain(op, [], [np.full(wide[0], 0.25, np.float32)] * 2, low=0.25, high=0.25, shape=list(wide[0]))
    if op == "RandomNormal":
        return g.certain(op, [], [np.full(wide[0], 0.5, np.float32)] * 2, mean=0.5, scale=0.0, shape=list(wide[0]))
    if op == "Multinomial":
        odds, k = np.full((3, 4), -1000, np.float32), g.rng.integers(4)
        odds[:, k] = 0
        return g.certain(op, [g.input([odds] * 2)], [np.full((3, 5), k, np.int32)] * 2, sample_size=5)
    ratio, training = np.float32(g.choice([0.0, 0.5])), bool(g.chance(0.5))
    ratio = np.float32(0) if training else ratio
    return g.emit(op, [v, np.asarray(ratio), np.asarray(training)], n_out=int(g.choice([1, 2])))


def identity(g):
    g.emit("Identity", [g.tensor(g.choice(FLOATS))])


RECIPES = [transpose, reshape, slices, concat, expand, gather, scatter, several, sequences] * 2 + [
    flatten, squeeze, split, pad, shapes, one_hot, blocks, optionals, strings, drawn, identity]
