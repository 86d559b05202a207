"""Recipes of products, convolutions, pools, normalizations, recurrent layers and quantization; and of every operator
whose inputs have a form of their own: there the inputs come from a case of ONNX's node suite."""
import collections
import pathlib
import pickle
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

from .builder import SETTINGS
from .moves import ints
from .oracle import Reject

CACHE = pathlib.Path(__file__).resolve().parents[3] / "build" / f"node_cases_{onnx.__version__}.pickle"


def products(g):
    kind = g.rng.integers(5)
    a = g.tensor(g.choice([np.float32] * 5 + [np.float64]), lambda v: v.rank >= 2)
    if kind == 0:
        b = g.tensor(a.dtype, lambda v: v.rank >= 2 and all(x.shape[-1] == y.shape[-2] for x, y in zip(a.data, v.data)))
        return g.emit("MatMul", [a, b])
    n = a.shape[-1]
    if n != a.data[1].shape[-1]:
        raise Reject("no fixed depth")
    if kind == 1:  # square weights: the result is as large as the operand
        return g.emit("MatMul", [a, (g.rng.standard_normal((n, n)) / 2).astype(a.dtype)])
    if kind == 2:
        flat = a if a.rank == 2 else g.emit("Reshape", [a, ints(-1, n)])[0]
        bias = (g.rng.standard_normal(n).astype(a.dtype),) if g.chance(0.7) else ()
        if g.chance(0.3):
            bias = (g.like(flat, a.dtype),)
        return g.emit("Gemm", [flat, (g.rng.standard_normal((n, n)) / 2).astype(a.dtype), *bias], alpha=0.75,
                      transB=int(g.chance(0.5)))
    if kind == 3:
        forms = ["...ij,...ij->...ji", "...ij,...ij->...i", "...ij,...kj->...ik"]
        return g.emit("Einsum", [a, g.like(a, a.dtype)], equation=g.choice(forms))
    squares = [v for v in g.values if not v.is_sequence and v.dtype == np.float32 and v.rank >= 2 and
               all(x.shape[-1] == x.shape[-2] <= 4 for x in v.data)]
    if not squares:
        raise Reject("no square")
    return g.emit("Det", [g.choice(squares)])


def picture(g, rank=4, channels=None):
    """A value of that rank with a fixed number of channels, of some size in space."""
    fits = [v for v in g.values if not v.is_sequence and v.dtype == np.float32 and v.rank == rank and
            v.shape[1] == v.data[1].shape[1] > 0 and min(v.shape[2:] + v.data[1].shape[2:], default=0) >= 3 and
            (channels is None or v.shape[1] % channels == 0)]
    if fits and g.chance(0.8):
        return g.choice(fits)
    shape = (int(g.choice([1, 2])), int(g.choice([2, 4, 8])) * (channels or 1), *[6, 5, 4][:rank - 2])
    return g.input([g.random(shape, np.float32, -2, 2) for _ in range(2)])


def weights(g, *shape):
    return (g.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)


def convolutions(g):
    v = picture(g, int(g.choice([3, 4, 4, 4])))
    c, space = v.shape[1], v.rank - 2
    k = int(g.choice([1, 3]))
    pads = [k // 2] * (2 * space)
    kind = g.rng.integers(5)
    bias = [weights(g, c)] if g.chance(0.5) else []
    if kind <= 1:  # as many channels out as in, and padded: the shape stays
        groups = int(g.choice([1, c]))
        y, = g.emit("Conv", [v, weights(g, c, c // groups, *[k] * space), *bias], pads=pads, group=groups)
        if g.chance(0.5):
            g.emit(g.choice(["Relu", "Sigmoid", "HardSwish"]), [y])
        elif g.chance(0.5):
            g.emit("Add", [y, g.like(v, np.float32)])
        return
    if kind == 2:
        g.emit("ConvTranspose", [v, weights(g, c, c, *[k] * space), *bias], pads=pads)
    elif kind == 3:
        g.emit("Conv", [v, weights(g, 3, c, *[k] * space)], strides=[2] * space, auto_pad="SAME_UPPER")
    elif space == 2 and k == 3:
        offset = g.input([g.random((x.shape[0], 2 * k * k, *x.shape[2:]), np.float32, -1, 1) for x in v.data])
        g.emit("DeformConv", [v, weights(g, c, c, k, k), offset], pads=pads)


def pools(g):
    v = picture(g, int(g.choice([3, 4])))
    space = v.rank - 2
    op = g.choice(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN",
                   "Unpool"])
    if op.startswith("Global"):
        return g.emit(op, [v])
    if op == "LRN":
        return g.emit(op, [v], size=3)
    if op == "Unpool":
        small, index = g.emit("MaxPool", [v], n_out=2, kernel_shape=[2] * space, strides=[2] * space)
        return g.emit("MaxUnpool", [small, index], kernel_shape=[2] * space, strides=[2] * space)
    form = dict(kernel_shape=[3] * space, pads=[1] * (2 * space)) if g.chance(0.5) else dict(
        kernel_shape=[2] * space, strides=[2] * space)
    return g.emit(op, [v], **form)


def normalizations(g):
    op = g.choice(["BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization",
                   "RMSNormalization", "BatchNormalization"])
    if op in ("LayerNormalization", "RMSNormalization"):
        v = g.tensor(want=lambda v: v.rank and v.shape[-1] == v.data[1].shape[-1] > 1)
        n = v.shape[-1]
        given = [weights(g, n), weights(g, n)] if op[0] == "L" else [weights(g, n)]
        return g.emit(op, [v, *given], epsilon=0.05)
    v = picture(g)
    c = v.shape[1]
    given = [g.random((c,), np.float32, 0.5, 1.5), weights(g, c)]
    if op == "InstanceNormalization":
        return g.emit(op, [v, *given], epsilon=0.05)
    if op == "GroupNormalization":
        return g.emit(op, [v, *given], num_groups=int(g.choice([1, 2])), epsilon=0.05)
    given += [weights(g, c), g.random((c,), np.float32, 0.5, 1.5)]
    if g.chance(0.4):
        given = [g.input([x] * 2) for x in given]
        return g.emit(op, [v, *given], n_out=3, training_mode=1, momentum=0.8, epsilon=0.05)
    return g.emit(op, [v, *given], epsilon=0.05)


def recurrent(g):
    v = g.tensor(want=lambda v: v.rank == 3 and v.shape[2] == v.data[1].shape[2] and min(v.shape) > 0) if g.chance(
        0.5) else g.input([g.random((3, 2, 4), np.float32, -1, 1) for _ in range(2)])
    op = g.choice(["LSTM", "GRU", "RNN"])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    directions, hidden, size = int(g.choice([1, 2])), 4, v.shape[2]
    given = [weights(g, directions, gates * hidden, size), weights(g, directions, gates * hidden, hidden),
             weights(g, directions, 2 * gates * hidden)]
    more = {} if directions == 1 else {"direction": "bidirectional"}
    g.emit(op, [v, *given], n_out=3 if op == "LSTM" else 2, hidden_size=hidden, **more)


def resize(g):
    v = picture(g)
    kind = g.rng.integers(3)
    if g.opsets[""] < 10:  # onnxruntime takes constant scales alone, and its sessions here have none
        data, *shadows = [[x.repeat(2, axis=2).repeat(2, axis=3) for x in xs] for xs in (v.data, *v.shadows)]
        return g.certain("Upsample", [v, np.float32([1, 1, 2, 2])], data, shadows, v.coarse, mode="nearest")
    if kind == 0:
        return g.emit("Resize", [v, None, np.float32([1, 1, 2, 2])], mode="nearest", nearest_mode="floor",
                      coordinate_transformation_mode="asymmetric")
    return g.emit("Resize", [v, None, np.float32([1, 1, 1.5, 2])], mode=g.choice(["linear", "cubic"]))


def quantized(g):
    v = g.tensor(want=lambda v: v.rank >= 2)
    scale, zero = np.asarray(0.05, np.float32), np.asarray(128, np.uint8)
    op = g.choice(["QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul", "ConvInteger",
                   "QLinearConv"])
    if op == "DynamicQuantizeLinear":
        q, s, z = g.emit(op, [v], n_out=3)
        return g.emit("DequantizeLinear", [q, s, z])
    if op in ("ConvInteger", "QLinearConv"):
        x, c = g.input([g.random((1, 4, 5, 5), np.uint8, 0, 200) for _ in range(2)]), 4
        w = g.random((4, c, 3, 3), np.int8, -9, 9)
        if op == "ConvInteger":
            return g.emit(op, [x, w.astype(np.uint8) if g.chance(0.5) else w, zero], pads=[1] * 4)
        return g.emit(op, [x, scale, zero, w, scale, np.asarray(0, np.int8), np.float32(0.5), zero], pads=[1] * 4)
    q, = g.emit("QuantizeLinear", [v, scale, zero])
    if op == "QuantizeLinear":
        return g.emit("DequantizeLinear", [q, scale, zero])
    n = v.shape[-1]
    w = g.random((n, n), np.int8, -9, 9)
    if op == "MatMulInteger":
        return g.emit(op, [q, w, zero])
    return g.emit(op, [q, scale, zero, w, scale, np.asarray(0, np.int8), np.asarray(0.5, np.float32), zero])


def spectrum(g):
    """STFT of quiet rows, whose window may be computed. The suite's signal is too loud: what should be 0 comes out as
    the rounding of a hundred."""
    n = int(g.choice([16, 20, 31]))
    v = g.input([g.random((b, n), np.float32, -1, 1) for b in (2, int(g.choice([1, 2])))])
    signal, = g.emit("Unsqueeze", [g.through(v) if g.chance(g.wraps) else v, ints(2)])
    frame = int(g.choice([4, 5, 8]))
    step, length = np.asarray(g.rng.integers(1, 6), np.int64), np.asarray(frame, np.int64)
    kind = g.rng.integers(3)
    if kind == 0:
        return g.emit("STFT", [signal, step, None, length], onesided=int(g.chance(0.5)))
    window, = g.emit("HannWindow", [length]) if kind == 1 else [g.input([g.random((frame,), np.float32, 0, 1)] * 2)]
    return g.emit("STFT", [signal, step, window] + [length] * int(g.chance(0.5)), onesided=int(g.chance(0.5)))


# ---- cases of ONNX's node suite ----

NOT_BORROWED = set("""If Loop Scan SequenceMap Bernoulli RandomNormal RandomUniform RandomNormalLike RandomUniformLike
Multinomial ImageDecoder Gradient Dropout Adagrad Adam Momentum""".split())
TYPES = {np.dtype(t) for t in (np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.int8, bool, object)}
LARGEST_CASE = 4000


def plain(x):
    x = numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x
    if isinstance(x, list):
        return [plain(i) for i in x]
    x = np.asarray(x)
    return x.astype(object) if x.dtype.kind in "US" else x


def collect():
    """{operator: [(node, opset, arrays by name)]} of cases with one node and inputs of types that the graphs have."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    found = collections.defaultdict(list)
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or graph.initializer or not case.data_sets or graph.node[0].op_type in NOT_BORROWED:
            continue
        if not all(v.type.HasField("tensor_type") for v in (*graph.input, *graph.output)):
            continue
        arrays = {v.name: plain(x) for v, x in zip(graph.input, case.data_sets[0][0])}
        if all(x.dtype in TYPES and x.size <= LARGEST_CASE for x in arrays.values()):
            opsets = {o.domain: o.version for o in case.model.opset_import}
            found[graph.node[0].op_type].append((graph.node[0].SerializeToString(), opsets, arrays))
    return dict(found)


def cases():
    """What collect gives, kept in a file of the build folder, for it takes seconds."""
    if cases.found is None:
        if CACHE.exists():
            cases.found = pickle.loads(CACHE.read_bytes())
        else:
            cases.found = collect()
            CACHE.parent.mkdir(exist_ok=True)
            new = CACHE.with_suffix(f".{id(cases.found)}")
            new.write_bytes(pickle.dumps(cases.found))
            new.replace(CACHE)
    return cases.found


cases.found = None

# Operators that no other recipe makes; they come first.
FORMS = """AffineGrid Attention BlackmanWindow CausalConvWithState Col2Im DFT GridSample HammingWindow HannWindow
LinearAttention MelWeightMatrix NegativeLogLikelihoodLoss NonMaxSuppression RoiAlign RotaryEmbedding
SoftmaxCrossEntropyLoss SwiGLU TensorScatter TfIdfVectorizer""".split()


def oldest(op):
    """The operator set from which on there is a case of op."""
    return min(c[1].get("", 1) for c in cases()[op])


def borrowed(g, op=None):
    """A node of the suite on its own inputs, which others may read as well; floats may be values of the graph."""
    found = cases()
    fitting = [c for c in found[op or g.choice(FORMS if g.chance(0.7) else sorted(found))]
               if all(g.opsets.get(d, 0) >= v or d not in g.opsets for d, v in c[1].items())]
    if not fitting:
        raise Reject("the case is of a later operator set")
    raw, opsets, arrays = g.choice(fitting)
    node = onnx.NodeProto.FromString(raw)
    if node.domain and node.domain not in g.opsets:
        raise Reject("another domain")
    place(g, node, arrays)


def place(g, node, arrays, held=(), by=None):
    """A node on arrays by the names of its inputs, or on values of the graph in their place; held: those that are
    constants. by: see Graph.add."""
    known, settings = {}, {n for i, n in enumerate(node.input) if i in SETTINGS.get(node.op_type, ())}
    for name, x in arrays.items():
        same = [v for v in g.values if not v.is_sequence and v.dtype == x.dtype and v.is_static and v.shape == x.shape]
        free = x.dtype == np.float32 and x.size > 1 and name not in settings and same and g.chance(0.4)
        fed = g.chance(0.8) or x.dtype == object
        if name in held or not (free or fed):
            known[name] = g.const(x)
        else:
            known[name] = g.choice(same) if free else g.input([x] * 2)
    operands = [g.through(known[n]) if n and n not in held and g.chance(max(g.wraps, 0.3)) else known.get(n)
                for n in node.input]
    node.input[:] = ["" if v is None else v.name for v in operands]
    node.output[:] = [g.name() if n else "" for n in node.output]
    g.add(node, [v for v in operands if v is not None], by=by)


RECIPES = [products] * 4 + [borrowed] * 3 + [convolutions, normalizations] * 2 + [
    pools, recurrent, resize, quantized, spectrum]
