"""A graph that grows node by node, with the values that each node gives.

Every value is known at once for two sets of sizes, so a recipe may look at the data it builds upon. Beside each value
stand two shadows: the same computed with noise of about a hundred roundings before and after every inexact node, in
the second with the opposite sign. A node whose result moves too far from a shadow is left out, so what remains may be
compared by one tolerance, however deep it lies. One of the two shadows crosses any threshold that lies nearer than the
noise, whichever side it is on: what is compared, rounded up or counted has a margin.
"""
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .oracle import Oracle, Reject, element, tidy, type_proto

ORACLE = Oracle()
SINCE = {}
for _schema in onnx.defs.get_all_schemas_with_history():
    if _schema.domain == "":
        SINCE[_schema.name] = min(_schema.since_version, SINCE.get(_schema.name, _schema.since_version))
SIZES = 2  # sets of sizes
NOISE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-5, np.dtype(np.float16): 1e-3}
SIGNS = (1, -1)  # of the noise in each shadow
NEAR_ZERO = 0.01  # of the largest element: what should be 0 may come out as the rounding of the others
DRIFT = {False: 1e-3, True: 2e-1}  # how far a shadow may be; True: something before was stored in 16 bits
LARGEST = {"f": 1e4, "i": 1 << 40, "u": 1 << 40}
MOST_ELEMENTS, MOST_STRINGS = 60000, 150

# Operators whose activations have 8 bits on the CPU and are floats on other devices.
COARSE = {"DynamicQuantizeLSTM"}
# What rounds nothing: it moves elements or compares them, or its result is exact.
EXACT = set("""
Abs And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil CenterCropPad Clip Compress
Concat ConcatFromSequence Constant ConstantOfShape DepthToSpace Equal Expand EyeLike Flatten Floor Gather
GatherElements GatherND Greater GreaterOrEqual Hardmax Identity IsInf IsNaN Less LessOrEqual Max MaxPool MaxUnpool Min
Neg NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or Pad Relu ReduceMax ReduceMin Reshape
ReverseSequence Round Scatter ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase
SequenceInsert SequenceLength Shape Sign Size Slice SpaceToDepth Split SplitToSequence Squeeze StringConcat
StringNormalizer StringSplit TensorScatter Tile TopK Transpose Trilu Unique Unsqueeze Where Xor GlobalMaxPool
""".split())

# What tells an exact 0 from the rounding of one, which no shadow becomes.
OF_ZEROS = {"Cast", "CastLike", "Equal", "NonZero"}

# Operands that say how large a result is: not any number will do, and where they are given nothing rounds them.
SETTINGS = {"Resize": (1, 2), "Upsample": (1,), "Range": (0, 1, 2)}


def held(x):
    """Strings as objects, also where numpy made them anything else."""
    if isinstance(x, list):
        return [held(i) for i in x]
    x = np.asarray(x)
    return x.astype(object) if x.dtype.kind in "US" else x


def flushed(x):
    """x with 0 for what is a rounding beside the others, or beside 1: a sum of such may be all that is left."""
    if isinstance(x, list) or x.dtype not in NOISE:
        return x
    least = max(np.abs(x).max(initial=0) * NEAR_ZERO, 0.1) * NOISE[x.dtype]
    return np.where(np.abs(x) < least, 0, x).astype(x.dtype)


class Value:
    """A name, its arrays (or lists of arrays, for a sequence) at both sizes, and as much in each shadow."""

    def __init__(self, name, data, shadows=None, coarse=False):
        self.name, self.coarse = name, coarse
        self.data = [held(x) for x in data]
        self.shadows = [[held(x) for x in s] for s in shadows] if shadows else [self.data] * len(SIGNS)

    @property
    def is_sequence(self):
        return isinstance(self.data[0], list)

    @property
    def dtype(self):
        return None if self.is_sequence else self.data[0].dtype

    @property
    def shape(self):
        return self.data[0].shape

    @property
    def rank(self):
        return self.data[0].ndim

    @property
    def is_static(self):
        """The same shape at both sizes."""
        return self.shape == self.data[1].shape

    def dims_equal(self, other):
        return all(a.shape == b.shape for a, b in zip(self.data, other.data))

    def all(self, test):
        """Whether every element at both sizes, and of the shadows, passes."""
        return all(np.all(test(x)) for x in sum(self.shadows, self.data))


def exact_kind(dtype):
    return dtype.kind not in "fc"


def accept(data, shadow, coarse):
    """Raises Reject where the value is not fit to be compared."""
    if isinstance(data, list):
        if len(data) != len(shadow):
            raise Reject("the number of items hangs on rounding")
        for x, s in zip(data, shadow):
            accept(x, s, coarse)
        return
    if data.shape != shadow.shape:
        raise Reject("the shape hangs on rounding")
    if data.size > MOST_ELEMENTS:
        raise Reject("too large")
    limit = LARGEST.get(data.dtype.kind)
    if limit and not np.all(np.abs(data.astype(np.float64)) < limit):
        raise Reject("too large a number, or none")
    if data.dtype.kind == "O" and not all(isinstance(x, str) for x in data.flat):
        raise Reject("the evaluator has a number where a string should be")
    if exact_kind(data.dtype):
        if not np.array_equal(data, shadow):
            raise Reject("hangs on rounding")
        return
    if data.dtype.kind == "c":
        raise Reject("complex")
    if not np.all(np.abs(data - shadow) <= DRIFT[coarse] * (1 + np.abs(data))):
        raise Reject("drifts")


def asked(by, operands):
    """What a function gives, whatever it raises where it does not know."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [tidy(x) for x in by(*(None if x is None else np.asarray(x) for x in operands))]
    except Exception as e:
        raise Reject(f"{type(e).__name__}: {e}") from None


def moved(x, noise, sign):
    """x with its noise. A shadow of other dims is no good, which accept says."""
    if isinstance(x, list):
        return [moved(i, n, sign) for i, n in zip(x, noise)] if noise and len(noise) == len(x) else x
    return x if noise is None or x.shape != noise.shape else (x + sign * noise).astype(x.dtype)


class Graph:
    """A graph or the body of a node. `outer` is the graph that a body may capture from."""

    def __init__(self, rng, opsets, base=None, outer=None, prefix=""):
        self.rng, self.opsets, self.outer, self.prefix = rng, opsets, outer, prefix
        self.base = base if outer is None else outer.base
        self.wraps = 0.0 if outer is None else outer.wraps
        self.nodes, self.consts, self.inputs, self.all_values = [], [], [], []
        self.values = [] if outer is None else list(outer.values)
        self.n, self.drawn = 0, set() if outer is None else outer.drawn

    # ---- names, inputs, constants ----

    def root(self):
        return self if self.outer is None else self.outer.root()

    def name(self):
        self.n += 1
        return f"{self.prefix}v{self.n}"

    def input(self, data, hidden=False):
        """A new input of the whole graph. A hidden one is used where it is asked for, never picked."""
        if len({x.ndim for x in data if isinstance(x, np.ndarray)}) > 1:
            raise Reject("one declared rank cannot say both sizes")
        root = self.root()
        value = Value(root.name(), data)
        root.inputs.append(value)
        if not hidden:
            for g in self.chain():
                g.values.append(value)
        return value

    def chain(self):
        return [self] + (self.outer.chain() if self.outer else [])

    def const(self, array):
        """An initializer, or the output of a Constant node."""
        array = np.asarray(array)
        name = self.name()
        tensor = numpy_helper.from_array(array, name)
        if self.rng.random() < 0.15:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            self.drawn.add("Constant")
        else:
            self.consts.append(tensor)
        return self.known(Value(name, [array] * SIZES))

    def known(self, value):
        """Keeps a value that is not picked but may be captured by name."""
        self.all_values.append(value)
        return value

    # ---- picking ----

    def chance(self, p):
        return self.rng.random() < p

    def choice(self, items):
        return items[self.rng.integers(len(items))]

    def pick(self, want=lambda v: True):
        """A value that fits; the newest, and those of the graph's own shape, come more often."""
        fit = [v for v in self.values if want(v)]
        if not fit:
            raise Reject("nothing to pick")
        if self.chance(0.7):
            fit = [v for v in fit if not v.is_sequence and v.shape == self.base[0]] or fit
        return fit[max(self.rng.integers(len(fit)), self.rng.integers(len(fit)))]

    def tensor(self, dtype=np.float32, want=lambda v: True):
        return self.pick(lambda v: not v.is_sequence and v.dtype == dtype and want(v))

    def ranked(self, rank, dtype=np.float32, want=lambda v: True):
        """A value of that rank, made by Reshape or Unsqueeze where there is none."""
        fits = [v for v in self.values if not v.is_sequence and v.dtype == dtype and v.rank == rank and want(v)]
        if fits and self.chance(0.8):
            return self.choice(fits)
        shape = tuple(int(d) for d in self.rng.integers(2, 6, rank))
        return self.input([self.rng.standard_normal(shape).astype(dtype) for _ in range(SIZES)])

    def like(self, v, dtype, low=-4, high=5):
        """A value of another type in v's shape: one that is there, or a new input."""
        dtype = np.dtype(dtype)
        if dtype.kind == "O" and v.data[0].size > MOST_STRINGS:
            raise Reject("strings are slow to hand over")
        fits = [w for w in self.values if not w.is_sequence and w.dtype == dtype and w.dims_equal(v)
                and (dtype.kind not in "iuf" or w.all(lambda x: (x >= low) & (x < high)))]
        if fits and self.chance(0.6):
            return self.choice(fits)
        return self.input([self.random(x.shape, dtype, low, high) for x in v.data])

    def random(self, shape, dtype, low=-4, high=5):
        dtype = np.dtype(dtype)
        if dtype == bool:
            return self.rng.random(shape) < 0.5
        if dtype.kind in "iu":
            return self.rng.integers(max(low, 0) if dtype.kind == "u" else low, high, shape).astype(dtype)
        if dtype.kind == "O":
            words = np.array(["a", "b c", "Nacre", "1.5", "x-y"], dtype=object)  # about "" the oracles disagree
            return words[self.rng.integers(len(words), size=shape)]
        return self.rng.uniform(low, high, shape).astype(dtype)

    # ---- nodes ----

    def emit(self, op, inputs, n_out=1, domain="", **attributes):
        """Adds a node; gives its outputs. inputs: values, arrays (which become constants) or None."""
        operands = [self.operand(x) for x in inputs]
        names = ["" if v is None else v.name for v in operands]
        node = helper.make_node(op, names, [self.name() for _ in range(n_out)], domain=domain, **attributes)
        return self.add(node, [v for v in operands if v is not None])

    def operand(self, x):
        """Constants are shapes and axes more often than not; as intermediates they would all be found while running."""
        if x is None:
            return None
        constant = isinstance(x, (np.ndarray, np.generic))
        v = self.const(x) if constant else x
        return self.through(v) if self.chance(self.wraps * (0.1 if constant else 1)) else v

    def add(self, node, operands, captured=(), by=None):
        """Adds a node that is made; operands and captured are its values. by: who knows what it gives for arrays in
        the order of its inputs, where that is none of the oracles."""
        known = {v.name: v for v in (*operands, *captured)}
        coarse = node.op_type in COARSE or any(v.coarse for v in known.values())
        names = [v.name for v in captured]
        exact = {n for i, n in enumerate(node.input) if i in SETTINGS.get(node.op_type, ())}
        exact |= set(known) if node.op_type in EXACT else set()
        data, shadows = [], [[] for _ in SIGNS]

        def answer(values):
            if by is None:
                return ORACLE.run(node, values, self.opsets, names)
            return asked(by, [values.get(n) for n in node.input])
        for k in range(SIZES):
            values = {n: v.data[k] for n, v in known.items()}
            data.append(answer(values))
            noise = {n: self.noise(x) for n, x in values.items() if n not in exact}
            for j, sign in enumerate(SIGNS):
                noisy = {n: moved(v.shadows[j][k], noise.get(n), sign) for n, v in known.items()}
                same = all(noisy[n] is values[n] for n in values)
                shadows[j].append(data[-1] if same else answer(noisy))
            if node.op_type in OF_ZEROS:
                zeros = answer({n: flushed(x) for n, x in values.items()})
                if any(d.dtype.kind not in "fO" and not np.array_equal(d, z) for d, z in zip(data[-1], zeros)):
                    raise Reject("hangs on a rounding of 0")
        outs = []
        for i, name in enumerate(n for n in node.output if n):
            outs.append(self.result(name, [d[i] for d in data], [[s[i] for s in of] for of in shadows], coarse,
                                    node.op_type))
        self.nodes.append(node)
        self.values += outs
        self.drawn.add(node.op_type if not node.domain else f"{node.domain}.{node.op_type}")
        return outs

    def result(self, name, data, shadows, coarse, op):
        coarse = coarse or any(isinstance(d, np.ndarray) and d.dtype == np.float16 for d in data)
        if any(isinstance(d, np.ndarray) and d.dtype.name in ("bfloat16", "float8_e4m3fn") for d in data):
            raise Reject("a type that the oracles see otherwise")
        noise = [None if op in EXACT else self.noise(d) for d in data]
        for j, sign in enumerate(SIGNS):
            shadows[j] = [moved(s, n, sign) for s, n in zip(shadows[j], noise)]
            for d, s in zip(data, shadows[j]):
                accept(d, s, coarse)
        return Value(name, data, shadows, coarse)

    def noise(self, x):
        """What may be added to each element; never much less than its scale. None where rounding changes nothing."""
        if isinstance(x, list):
            return [self.noise(i) for i in x]
        if x.dtype not in NOISE:
            return None
        draw = self.rng.standard_normal(x.shape)
        return np.copysign(1 + np.abs(draw), draw) * NOISE[x.dtype] * (np.abs(x) + np.abs(x).max(initial=0) * NEAR_ZERO)

    def alias(self, op, v, *more):
        """A node that hands v on: the result is known without asking, and is not picked again."""
        self.must_have(op)
        name = self.name()
        self.nodes.append(helper.make_node(op, [v.name, *(m.name for m in more)], [name]))
        self.drawn.add(op)
        return self.known(Value(name, v.data, v.shadows, v.coarse))

    def must_have(self, op):
        if SINCE[op] > self.opsets[""]:
            raise Reject(f"{op} is of a later operator set")

    def certain(self, op, inputs, data, shadows=None, coarse=False, **attributes):
        """A node whose result the recipe knows better than an oracle."""
        self.must_have(op)
        name = self.name()
        self.nodes.append(helper.make_node(op, [self.operand(v).name for v in inputs], [name], **attributes))
        self.drawn.add(op)
        self.values.append(Value(name, data, shadows, coarse))

    def through(self, v):
        """An intermediate with v's elements that nothing else reads."""
        if v.dtype == bool:
            return self.alias("Or", v, self.fed(np.array(False)))
        if v.is_sequence or v.dtype.kind == "O" or (v.dtype.itemsize == 1 and self.opsets[""] < 14):
            return self.alias("Identity", v)
        if v.dtype.kind in "iu":
            return self.alias("Add", v, self.fed(np.array(0, v.dtype)))
        kind = self.rng.integers(4)
        if kind == 0:
            return self.alias("Neg", self.alias("Neg", v))
        if kind == 1 and v.all(lambda x: ~np.signbit(x)):
            return self.alias("Abs", v)
        return self.alias("Mul", v, self.fed(np.array(1, v.dtype)))

    def fed(self, scalar):
        """An input that always has this value, which no pass can know."""
        root = self.root()
        for v in root.inputs:
            if v.name.startswith("fed_") and v.dtype == scalar.dtype and v.data[0] == scalar:
                return v
        value = Value(f"fed_{scalar.dtype.name}_{int(scalar)}", [scalar] * SIZES)
        root.inputs.append(value)
        return value

    # ---- taming ----

    def within(self, v, low, high):
        """v, or what a few nodes make of it, with every element between low and high."""
        if v.all(lambda x: (x > low) & (x < high)):
            return v
        unit, = self.emit("Sigmoid", [v])
        wide, = self.emit("Mul", [unit, np.asarray((high - low) * 0.9, v.dtype)])
        return self.emit("Add", [wide, np.asarray(low + (high - low) * 0.05, v.dtype)])[0]


def value_info(name, value, rng=None):
    """The declared type of an input or output; dims that differ between the sizes get a name, some none."""
    proto = type_proto(value.data[0])
    if value.is_sequence:
        return helper.make_value_info(name, proto)
    if rng is None:
        return helper.make_value_info(name, proto)
    dims = [a if a == b else f"d{a}_{b}" for a, b in zip(value.shape, value.data[1].shape)]
    return helper.make_tensor_value_info(name, element(value.data[0]), dims)


def body_proto(g, name, inputs, outputs):
    """A body as ONNX has it; inputs and outputs are values. onnxruntime asks for the shapes."""
    def info(v):
        dims = [a if a == b else None for a, b in zip(v.shape, v.data[1].shape)]
        return helper.make_tensor_value_info(v.name, element(v.data[0]), dims)
    return helper.make_graph(g.nodes, name, [info(v) for v in inputs], [info(v) for v in outputs], g.consts)
