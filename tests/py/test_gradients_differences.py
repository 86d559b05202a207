"""Gradients of operators against central differences of their own outputs, in double precision, element by element.

A case is an ONNX text graph; all its outputs get random gradients from outside, and every input of doubles is moved.
What torch cannot say, or says otherwise, is checked here; what it can say stands in test_gradients_torch.py too."""
import dataclasses

import numpy as np
import onnx.parser
import pytest

from nacre_c import Options
from tolerances import close

STEP = 1e-6


@dataclasses.dataclass
class Case:
    signature: str  # inputs and initializers of the graph
    body: str
    inputs: dict
    outputs: str  # of the graph, as "double[] y, double[] z"
    opset: int
    wrt: list


CASES = {}


def case(name, signature, body, opset=18, outputs="double[] y", wrt=None, **inputs):
    assert name not in CASES, name
    floats = [n for n, x in inputs.items() if np.asarray(x).dtype == np.float64]
    CASES[name] = Case(signature, body, inputs, outputs, opset, floats if wrt is None else wrt)


def normal(*shape, seed=1):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def apart(*shape, seed=1):
    """Numbers no two of which are close to each other or to 0: no maximum changes its place within a step."""
    n = int(np.prod(shape, dtype=int))
    values = (np.arange(n) - n / 2 + 0.25) * (4 / max(n, 1))
    return np.random.default_rng(seed + n).permutation(values).reshape(shape)


def positive(*shape, seed=1):
    return np.random.default_rng(seed + sum(shape)).uniform(0.3, 2.5, shape)


def ints(*values):
    return np.array(values, np.int64)


def parsed(c):
    inputs, _, rest = c.signature.partition("<")
    opsets = f'"" : {c.opset}, "nacre" : 1' if "nacre." in c.body else f'"" : {c.opset}'
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]>\n"
                                   f"g ({inputs}) => ({c.outputs}) {'<' + rest if rest else ''} {{\n{c.body}\n}}")


def slopes(session, inputs, name, dys):
    """Of the weighted sum of all outputs, by every element of an input."""
    x = np.array(inputs[name], np.float64)
    out = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = x.copy()
            moved[at] += step
            got = session.run({**inputs, name: moved}, list(dys))
            ends.append(sum(float((got[y] * dy).sum()) for y, dy in dys.items()))
        out[at] = (ends[0] - ends[1]) / (2 * STEP)
    return out


def check(env, c, **settings):
    model, rng = parsed(c), np.random.default_rng(7)
    names = [o.name for o in model.graph.output]
    with env.session(model) as forward:
        ys = forward.run(c.inputs, names)
        dys = {n: np.asarray(rng.standard_normal(y.shape)) for n, y in ys.items()}
        with env.session(parsed(c), Options(**settings).backward(names, c.wrt)) as session:
            got = session.run({**c.inputs, **{f"d:{n}": dy for n, dy in dys.items()}})
        for n in c.wrt:
            close(got[f"grad:{n}"], slopes(forward, c.inputs, n, dys), "difference_f64", f"d{n}")


# ---- matrices ----

case("Det", "double[3,4,4] x", "y = Det(x)", opset=22, x=normal(3, 4, 4))
case("Det_one", "double[1,1] x", "y = Det(x)", opset=22, x=normal(1, 1))
SINGULAR = np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 2.0])
SINGULAR[2] += [0, 0, 1]
case("Det_singular", "double[3,3] x", "y = Det(x)", opset=22, x=SINGULAR)
for name, equation, shapes in [
    ("diagonal", "ii->i", [(4, 4)]), ("trace", "ii->", [(4, 4)]), ("batch_diagonal", "bii->bi", [(2, 3, 3)]),
    ("ellipsis", "...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
    ("ellipsis_broadcast", "...ij,...jk", [(2, 3, 4), (4, 5)]),
    ("three", "ab,bc,cd->ad", [(2, 3), (3, 4), (4, 2)]), ("outer", "i,j->ij", [(3,), (4,)]),
    ("summed", "ij->", [(3, 4)]), ("dropped", "ij,jk->k", [(2, 3), (3, 4)]), ("implicit", "ba", [(2, 3)]),
    ("repeated", "iij,j->i", [(3, 3, 2), (2,)]), ("both_diagonals", "iijj->ij", [(2, 2, 3, 3)]),
    ("bilinear", "bi,kij,bj->bk", [(2, 3), (4, 3, 2), (2, 2)]),
]:
    names = "abcd"[:len(shapes)]
    case(f"Einsum_{name}", ", ".join(f"double[{','.join(map(str, s))}] {n}" for n, s in zip(names, shapes)),
         f'y = Einsum<equation = "{equation}">({", ".join(names)})',
         **{n: normal(*s, seed=i) for i, (n, s) in enumerate(zip(names, shapes))})

# ---- layout ----

for mode in ("constant", "reflect", "edge", "wrap"):
    case(f"Pad_{mode}", "double[3,4] x <int64[4] p = {1,2,0,1}>", f'y = Pad<mode = "{mode}">(x, p)', opset=19,
         x=normal(3, 4))
    case(f"Pad_{mode}_negative", "double[4,5] x <int64[4] p = {-1,2,1,-2}>", f'y = Pad<mode = "{mode}">(x, p)',
         opset=19, x=normal(4, 5))
case("Pad_value", "double[3] x, double v <int64[2] p = {2,1}>", "y = Pad(x, p, v)", opset=19, x=normal(3),
     v=np.array(0.5))
case("Pad_axes", "double[2,3,4] x <int64[2] p = {1,2}, int64[1] a = {-2}>", "y = Pad(x, p, , a)", opset=19,
     x=normal(2, 3, 4))
for upper in (0, 1):
    case(f"Trilu_{upper}", "double[2,4,5] x <int64 k = {1}>", f"y = Trilu<upper = {upper}>(x, k)", x=normal(2, 4, 5))
    case(f"Trilu_{upper}_down", "double[4,3] x <int64 k = {-1}>", f"y = Trilu<upper = {upper}>(x, k)", x=normal(4, 3))
case("Where", "bool[3,1] c, double[4] a, double[3,4] b", "y = Where(c, a, b)", c=np.array([[1], [0], [1]], bool),
     a=normal(4), b=normal(3, 4))

# ---- images ----

for mode in ("nearest", "linear", "cubic"):
    for coords in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                   "tf_crop_and_resize"):
        case(f"Resize_{mode}_{coords}", "double[1,1,4,5] x <float[8] r = {0,0,0.1,0.2,1,1,0.9,0.8}, "
             "float[4] s = {1,1,1.6,0.7}>",
             f'y = Resize<mode = "{mode}", coordinate_transformation_mode = "{coords}">(x, r, s)', opset=19,
             x=normal(1, 1, 4, 5))
    case(f"Resize_{mode}_antialias", "double[1,1,6,7] x <float[4] s = {1,1,0.6,0.5}>",
         f'y = Resize<mode = "{mode}", antialias = {int(mode != "nearest")}>(x, , s)', opset=19, x=normal(1, 1, 6, 7))
    case(f"Resize_{mode}_sizes", "double[1,2,3,4] x <int64[2] n = {5,7}>",
         f'y = Resize<mode = "{mode}", axes = [2,3], exclude_outside = {int(mode == "cubic")}>(x, , , n)', opset=19,
         x=normal(1, 2, 3, 4))
case("Upsample", "double[1,1,2,3] x <float[4] s = {1,1,2,2}>", 'y = Upsample<mode = "linear">(x, s)', opset=9,
     x=normal(1, 1, 2, 3))
for corners in (0, 1):
    case(f"AffineGrid_{corners}", "double[2,2,3] t <int64[4] n = {2,3,4,5}>",
         f"y = AffineGrid<align_corners = {corners}>(t, n)", opset=20, t=normal(2, 2, 3))
    case(f"AffineGrid_3d_{corners}", "double[1,3,4] t <int64[5] n = {1,1,2,3,2}>",
         f"y = AffineGrid<align_corners = {corners}>(t, n)", opset=20, t=normal(1, 3, 4))

def grid(*shape, seed=1):
    """Places on both sides of the edges, none of them where the value of a pixel, or its choice, has a kink."""
    g = np.random.default_rng(seed + sum(shape)).uniform(-1.7, 1.7, shape)
    return g + 0.011 * (np.abs(g * 60 - np.round(g * 60)) < 0.05)


for mode in ("linear", "nearest", "cubic"):
    for padding in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            attrs = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {corners}'
            key = f"GridSample_{mode}_{padding}_{corners}"
            case(key, "double[2,2,4,5] x, double[2,3,2,2] g", f"y = GridSample<{attrs}>(x, g)", opset=22,
                 x=normal(2, 2, 4, 5), g=grid(2, 3, 2, 2))
            case(f"{key}_twice", "double[1,2,3,4] x, double[1,2,2,2] g, double[1,2,2,2] d",
                 f"gx, gg = nacre.GridSampleGrad<{attrs}>(x, g, d)", opset=22, outputs="double[] gx, double[] gg",
                 x=normal(1, 2, 3, 4), g=grid(1, 2, 2, 2), d=normal(1, 2, 2, 2, seed=3))
    case(f"GridSample_3d_{mode}", "double[1,2,3,2,3] x, double[1,1,2,2,3] g", f'y = GridSample<mode = "{mode}">(x, g)',
         opset=22, x=normal(1, 2, 3, 2, 3), g=grid(1, 1, 2, 2, 3))
case("GridSample_1d", "double[1,2,5] x, double[1,3,1] g", "y = GridSample(x, g)", opset=22, x=normal(1, 2, 5),
     g=grid(1, 3, 1))
case("GridSample_16", "double[1,2,3,4] x, double[1,2,2,2] g", 'y = GridSample<mode = "bicubic">(x, g)', opset=16,
     x=normal(1, 2, 3, 4), g=grid(1, 2, 2, 2))
case("GridSample_one_pixel", "double[1,1,1,1] x, double[1,2,2,2] g",
     'y = GridSample<padding_mode = "reflection", align_corners = 1>(x, g)', opset=22, x=normal(1, 1, 1, 1),
     g=grid(1, 2, 2, 2))

def deformable(name, attrs, x, w, o, biased=True, masked=True):
    """x, w: dims; o: dims of the offsets."""
    feeds = {"x": normal(*x), "w": normal(*w, seed=2), "o": normal(*o, seed=3) * 0.7}
    feeds.update({"b": normal(w[0], seed=4)} if biased else {})
    feeds.update({"m": normal(o[0], o[1] // 2, *o[2:], seed=5)} if masked else {})
    signature = ", ".join(f"double[{','.join(map(str, f.shape))}] {n}" for n, f in feeds.items())
    operands = f"x, w, o, {'b' if biased else ''}, {'m' if masked else ''}"
    case(name, signature, f"y = DeformConv{attrs}({operands})", opset=22, **feeds)
    y = (x[0], w[0], *o[2:])
    made = ["gx", "gw", "go", "gb" if biased else "", "gm" if masked else ""]
    case(f"{name}_twice", f"{signature}, double[{','.join(map(str, y))}] d",
         f"{', '.join(made)} = nacre.DeformConvGrad{attrs}({operands}, d)", opset=22,
         outputs=", ".join(f"double[] {m}" for m in made if m), **feeds, d=normal(*y, seed=6))


deformable("DeformConv", "", (1, 1, 3, 4), (2, 1, 2, 2), (1, 8, 2, 3))
deformable("DeformConv_plain", "<strides = [2,1], pads = [1,0,1,0]>", (2, 1, 3, 3), (1, 1, 2, 2), (2, 8, 2, 2), False,
           False)
deformable("DeformConv_groups", "<group = 2, offset_group = 2, dilations = [2,1]>", (1, 4, 4, 3), (2, 2, 2, 2),
           (1, 16, 2, 2), False)

# Two regions of one image, one of another; the second reaches beyond the edges, the last is smaller than a pixel.
REGIONS = np.array([[0.53, 1.07, 4.11, 5.02], [-1.63, 0.04, 9.01, 3.23], [2.13, 2.31, 2.51, 2.83]])
for mode in ("avg", "max"):
    for name, attrs, opset in [
        ("", "output_height = 2, output_width = 3, sampling_ratio = 2", 22),
        ("_adaptive", "output_height = 2, output_width = 2, spatial_scale = 0.9", 16),
        ("_output", 'output_height = 3, coordinate_transformation_mode = "output_half_pixel"', 16),
        ("_old", "output_height = 2, output_width = 2, sampling_ratio = 1", 10),
    ]:
        case(f"RoiAlign_{mode}{name}", "double[2,2,5,6] x, double[3,4] r <int64[3] b = {1,0,1}>",
             f'y = RoiAlign<mode = "{mode}", {attrs}>(x, r, b)', opset=opset, x=normal(2, 2, 5, 6), r=REGIONS)
    attrs = f'mode = "{mode}", output_height = 2, output_width = 2, sampling_ratio = 2'
    case(f"RoiAlign_{mode}_twice", "double[2,1,4,5] x, double[3,1,2,2] d <double[3,4] r = "
         "{0.53,1.07,3.11,3.02,-1.63,0.04,6.01,3.23,2.13,2.31,2.51,2.83}, int64[3] b = {1,0,1}>",
         f"y = nacre.RoiAlignGrad<{attrs}>(x, r, b, d)", opset=22, wrt=["d"], x=normal(2, 1, 4, 5),
         d=normal(3, 1, 2, 2))
    case(f"RoiAlign_{mode}_along", "double[2,1,4,5] x, double[2,1,4,5] u <double[3,4] r = "
         "{0.53,1.07,3.11,3.02,-1.63,0.04,6.01,3.23,2.13,2.31,2.51,2.83}, int64[3] b = {1,0,1}>",
         f"y = nacre.RoiAlignAlong<{attrs}>(x, r, b, u)", opset=22, wrt=["u"], x=normal(2, 1, 4, 5),
         u=normal(2, 1, 4, 5, seed=3))

# ---- pools ----

for name, attrs in [("plain", "kernel_shape = [2,3]"), ("strides", "kernel_shape = [3,2], strides = [2,1]"),
                    ("pads", "kernel_shape = [3,3], pads = [1,1,1,1]"),
                    ("same", 'kernel_shape = [2,2], auto_pad = "SAME_UPPER"'),
                    ("ceil", "kernel_shape = [3,3], strides = [2,2], ceil_mode = 1"),
                    ("dilated", "kernel_shape = [2,2], dilations = [2,2]")]:
    for op, more in [("MaxPool", ""), ("AveragePool", ""), ("AveragePool", ", count_include_pad = 1"), ("LpPool", ""),
                     ("LpPool", ", p = 3")]:
        key = f"{op}_{name}{'_more' if more else ''}"
        case(key, "double[1,2,5,6] x", f"y = {op}<{attrs}{more}>(x)", opset=22,
             x=apart(1, 2, 5, 6) if op != "LpPool" else positive(1, 2, 5, 6))
case("MaxPool_indices", "double[1,1,4,4] x", "y, i = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x)", opset=22,
     x=apart(1, 1, 4, 4))
case("MaxPool_column_major", "double[1,1,4,5] x", "y, i = MaxPool<kernel_shape = [2,2], storage_order = 1>(x)",
     opset=22, x=apart(1, 1, 4, 5))
case("MaxPool_1d", "double[2,2,7] x", "y = MaxPool<kernel_shape = [3], strides = [2]>(x)", opset=22, x=apart(2, 2, 7))
case("AveragePool_3d", "double[1,1,3,4,3] x", "y = AveragePool<kernel_shape = [2,2,2], pads = [1,0,0,0,1,0]>(x)",
     opset=22, x=normal(1, 1, 3, 4, 3))
case("GlobalLpPool", "double[2,2,3,3] x", "y = GlobalLpPool<p = 3>(x)", x=positive(2, 2, 3, 3))
case("GlobalMaxPool", "double[2,2,3,3] x", "y = GlobalMaxPool(x)", x=apart(2, 2, 3, 3))
case("GlobalAveragePool", "double[2,2,3,3] x", "y = GlobalAveragePool(x)", x=normal(2, 2, 3, 3))
case("MaxUnpool", "double[1,1,2,2] x, int64[1,1,2,2] i", "y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(x, i)",
     opset=22, x=normal(1, 1, 2, 2), i=ints(1, 7, 8, 14).reshape(1, 1, 2, 2))
case("MaxUnpool_shape", "double[1,1,2,2] x, int64[1,1,2,2] i <int64[4] n = {1,1,5,5}>",
     "y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(x, i, n)", opset=22, x=normal(1, 1, 2, 2),
     i=ints(1, 7, 8, 14).reshape(1, 1, 2, 2))

# ---- normalizations ----

case("LRN", "double[2,5,2,2] x", "y = LRN<size = 3, alpha = 0.3, beta = 0.75, bias = 1.5>(x)", x=normal(2, 5, 2, 2))
case("LRN_even", "double[1,4,3] x", "y = LRN<size = 2, alpha = 0.3>(x)", x=normal(1, 4, 3))
case("MeanVarianceNormalization", "double[2,3,2,2] x", "y = MeanVarianceNormalization(x)", x=normal(2, 3, 2, 2))
case("MeanVarianceNormalization_axes", "double[3,4] x", "y = MeanVarianceNormalization<axes = [1]>(x)", x=normal(3, 4))
case("InstanceNormalization", "double[2,3,4] x, double[3] s, double[3] b", "y = InstanceNormalization(x, s, b)",
     opset=22, x=normal(2, 3, 4), s=normal(3), b=normal(3, seed=2))
case("GroupNormalization", "double[2,4,3] x, double[4] s, double[4] b",
     "y = GroupNormalization<num_groups = 2>(x, s, b)", opset=21, x=normal(2, 4, 3), s=normal(4), b=normal(4, seed=2))
case("GroupNormalization_18", "double[2,4,3] x, double[2] s, double[2] b",
     "y = GroupNormalization<num_groups = 2>(x, s, b)", opset=18, x=normal(2, 4, 3), s=normal(2), b=normal(2, seed=2))
case("RMSNormalization", "double[2,3,4] x, double[3,4] s", "y = RMSNormalization<axis = 1>(x, s)", opset=23,
     x=normal(2, 3, 4), s=normal(3, 4))
case("LayerNormalization", "double[2,3,4] x, double[4] s, double[4] b", "y, m, d = LayerNormalization(x, s, b)",
     opset=17, x=normal(2, 3, 4), s=normal(4), b=normal(4, seed=2))
for p in (1, 2):
    case(f"LpNormalization_{p}", "double[3,4] x", f"y = LpNormalization<axis = 0, p = {p}>(x)", opset=22, x=apart(3, 4))
case("BatchNormalization", "double[3,2,4] x, double[2] s, double[2] b, double[2] m, double[2] v",
     "y = BatchNormalization(x, s, b, m, v)", opset=15, x=normal(3, 2, 4), s=normal(2), b=normal(2, seed=2),
     m=normal(2, seed=3), v=positive(2))
case("BatchNormalization_training", "double[3,2,4] x, double[2] s, double[2] b, double[2] m, double[2] v",
     "y, rm, rv = BatchNormalization<training_mode = 1, momentum = 0.8>(x, s, b, m, v)", opset=15,
     outputs="double[] y, double[] rm, double[] rv", x=normal(3, 2, 4), s=normal(2), b=normal(2, seed=2),
     m=normal(2, seed=3), v=positive(2))

# ---- reductions ----

for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
           "ReduceLogSum", "ReduceLogSumExp"):
    make = positive if op == "ReduceLogSum" else apart
    for keep in (0, 1):
        case(f"{op}_{keep}", "double[2,3,4] x <int64[2] a = {0,-1}>", f"y = {op}<keepdims = {keep}>(x, a)",
             x=make(2, 3, 4))
    case(f"{op}_all", "double[2,3] x", f"y = {op}<keepdims = 0>(x)", x=make(2, 3))
    case(f"{op}_old", "double[2,3] x", f"y = {op}<axes = [1]>(x)", opset=11, x=make(2, 3))
for n in (1, 2, 3):
    zeros = normal(2, 4)
    zeros[0, :n] = 0
    case(f"ReduceProd_zeros_{n}", "double[2,4] x <int64[1] a = {1}>", "y = ReduceProd(x, a)", x=zeros)
for exclusive in (0, 1):
    for reverse in (0, 1):
        case(f"CumSum_{exclusive}{reverse}", "double[3,4] x <int64 a = {1}>",
             f"y = CumSum<exclusive = {exclusive}, reverse = {reverse}>(x, a)", x=normal(3, 4))
        case(f"CumProd_{exclusive}{reverse}", "double[3,4] x <int64 a = {1}>",
             f"y = CumProd<exclusive = {exclusive}, reverse = {reverse}>(x, a)", opset=26, x=normal(3, 4))
WITH_ZEROS = normal(3, 5)
WITH_ZEROS[0, 2] = WITH_ZEROS[1, 1] = WITH_ZEROS[1, 3] = 0
case("CumProd_zeros", "double[3,5] x <int64 a = {1}>", "y = CumProd(x, a)", opset=26, x=WITH_ZEROS)
for largest in (0, 1):
    case(f"TopK_{largest}", "double[3,5] x <int64[1] k = {2}>", f"y, i = TopK<largest = {largest}>(x, k)",
         x=apart(3, 5))
    case(f"TopK_{largest}_unsorted", "double[4,2] x <int64[1] k = {3}>",
         f"y, i = TopK<largest = {largest}, sorted = 0, axis = 0>(x, k)", x=apart(4, 2))

# ---- elements by indices ----

REDUCTIONS = ("none", "add", "mul", "max", "min")
for how in REDUCTIONS:
    case(f"ScatterElements_{how}", "double[3,4] x, double[2,3] u <int64[2,3] i = {0,2,1,2,0,2}>",
         f'y = ScatterElements<axis = 0, reduction = "{how}">(x, i, u)', x=apart(3, 4), u=apart(2, 3, seed=5) + 0.013)
    case(f"ScatterND_{how}", "double[4,3] x, double[2,3] u <int64[2,1] i = {2,0}>",
         f'y = ScatterND<reduction = "{how}">(x, i, u)', x=apart(4, 3), u=apart(2, 3, seed=5) + 0.013)
    if how != "none":
        case(f"ScatterElements_{how}_again", "double[4] x, double[5] u <int64[5] i = {1,-1,1,1,3}>",
             f'y = ScatterElements<reduction = "{how}">(x, i, u)', x=apart(4), u=apart(5, seed=5) + 0.013)
        case(f"ScatterND_{how}_again", "double[3,2] x, double[4] u <int64[4,2] i = {1,0,0,1,1,0,2,1}>",
             f'y = ScatterND<reduction = "{how}">(x, i, u)', x=apart(3, 2), u=apart(4, seed=5) + 0.013)
case("ScatterElements_mul_zero", "double[4] x, double[3] u <int64[3] i = {1,1,3}>",
     'y = ScatterElements<reduction = "mul">(x, i, u)', x=np.array([1.5, 0, 2, -1]), u=np.array([0, 0.5, 0.0]))
case("ScatterElements_mul_zeros", "double[3] x, double[4] u <int64[4] i = {1,1,1,0}>",
     'y = ScatterElements<reduction = "mul">(x, i, u)', x=np.array([1.5, 2, -1]), u=np.array([0, 0.5, 0.0, 0]))
case("GatherND_batch", "double[2,3,4] x <int64[2,2,1] i = {2,0,1,1}>", "y = GatherND<batch_dims = 1>(x, i)",
     x=normal(2, 3, 4))
case("GatherND_negative", "double[3,4] x <int64[3,2] i = {-1,2,0,-4,-1,2}>", "y = GatherND(x, i)", x=normal(3, 4))

case("Compress", "double[3,4] x, bool[3] c", "y = Compress<axis = 0>(x, c)", x=normal(3, 4),
     c=np.array([1, 0, 1], bool))
case("Compress_short", "double[2,4] x, bool[3] c", "y = Compress<axis = -1>(x, c)", x=normal(2, 4),
     c=np.array([0, 1, 1], bool))
case("Compress_flat", "double[n,4] x, bool[5] c", "y = Compress(x, c)", x=normal(2, 4),
     c=np.array([0, 1, 1, 0, 1], bool))
case("Compress_none", "double[n,4] x, bool[2] c", "y = Compress<axis = 0>(x, c)", x=normal(2, 4),
     c=np.array([0, 0], bool))
for axis in (-1, 0, 1):
    case(f"OneHot_{axis}", "int64[2,3] i, double[2] v <int64 d = {4}>", f"y = OneHot<axis = {axis}>(i, d, v)",
         i=ints(0, 3, -1, 7, 2, -9).reshape(2, 3), v=normal(2))
case("OneHot_depth", "int64[n] i, int64[1] d, double[2] v", "y = OneHot(i, d, v)", i=ints(0, 3, -1), d=ints(5),
     v=normal(2))
case("TensorScatter", "double[2,3,4,2] x, double[2,3,2,2] u, int64[2] i", "y = TensorScatter(x, u, i)", opset=24,
     x=normal(2, 3, 4, 2), u=normal(2, 3, 2, 2), i=ints(2, 0))
case("TensorScatter_circular", "double[b,5,2] x, double[b,3,2] u, int64[b] i",
     'y = TensorScatter<axis = 1, mode = "circular">(x, u, i)', opset=24, x=normal(2, 5, 2), u=normal(2, 3, 2),
     i=ints(4, 13))
case("TensorScatter_start", "double[b,2,5] x, double[b,2,n] u", "y = TensorScatter<axis = 2>(x, u)", opset=24,
     x=normal(2, 2, 5), u=normal(2, 2, 3))
case("Col2Im", "double[1,8,6] x <int64[2] n = {3,4}, int64[2] k = {2,2}>", "y = Col2Im(x, n, k)", x=normal(1, 8, 6))
case("Col2Im_attributes", "double[2,6,8] x <int64[2] n = {5,4}, int64[2] k = {2,3}>",
     "y = Col2Im<strides = [2,1], pads = [1,0,0,2], dilations = [2,1]>(x, n, k)", x=normal(2, 6, 8))
case("Col2Im_1d", "double[2,6,n] x, int64[1] n, int64[1] k", "y = Col2Im<strides = [2]>(x, n, k)", x=normal(2, 6, 3),
     n=ints(7), k=ints(3))
case("Col2Im_3d", "double[1,8,4] x <int64[3] n = {2,3,3}, int64[3] k = {2,2,2}>", "y = Col2Im(x, n, k)",
     x=normal(1, 8, 4))

# ---- sequences ----

for name, build in [
    ("end", "t = SequenceInsert(s, c)"), ("front", "i = Constant<value_int = 0>()\nt = SequenceInsert(s, c, i)"),
    ("middle", "i = Constant<value_int = -1>()\nt = SequenceInsert(s, c, i)"),
    ("erased", "i = Constant<value_int = -2>()\nt0 = SequenceInsert(s, c)\nt = SequenceErase(t0, i)"),
    ("last_erased", "t0 = SequenceInsert(s, c)\nt1 = SequenceErase(t0)\nt = SequenceInsert(t1, a)"),
]:
    case(f"Sequence_{name}", "double[2,3] a, double[1,3] b, double[2,3] c",
         f"s = SequenceConstruct(a, b)\n{build}\nj = Constant<value_int = -1>()\nk = Constant<value_int = 0>()\n"
         "p = SequenceAt(t, j)\nq = SequenceAt(t, k)\np2 = Mul(p, p)\nr = ConcatFromSequence<axis = 0>(t)\n"
         "z = Concat<axis = 0>(p2, q, r)\nz2 = Mul(z, z)\ny = ReduceSum<keepdims = 0>(z2)",
         a=normal(2, 3), b=normal(1, 3), c=normal(2, 3, seed=4))
case("Sequence_stacked", "double[2,3] a, double[2,3] b",
     "s = SequenceConstruct(a, b, a)\nr = ConcatFromSequence<axis = -1, new_axis = 1>(s)\ny = Mul(r, r)",
     a=normal(2, 3), b=normal(2, 3, seed=2))
for name, split, attrs, feed in [("each", "", "", {}), ("dropped", "", "<keepdims = 0>", {}),
                                 ("size", ", n", "<axis = 0>", {"n": np.array(2)}),
                                 ("sizes", ", n", "<axis = -2>", {"n": ints(1, 0, 3, 1)})]:
    signature = "double[m,3] x" + (f", int64{'[4]' if feed['n'].ndim else ''} n" if feed else "")
    for rows in (5, 0) if not feed else (5,):
        case(f"SplitToSequence_{name}_{rows}", signature,
             f"s = SplitToSequence{attrs}(x{split})\nl = SequenceLength(s)\n"
             "f = CastLike(l, x)\ny0 = ReduceSum<keepdims = 0>(x)\ne = SequenceInsert(s, y0)\n"
             "i = Constant<value_int = -1>()\nk = Constant<value_int = 0>()\np = SequenceAt(e, i)\n"
             "q = SequenceAt(e, k)\nq2 = Mul(q, q)\nr = ReduceSum<keepdims = 0>(q2)\nt = Mul(p, r)\ny = Add(t, f)",
             x=normal(rows, 3), **feed)
case("SequenceMap", "double[m,3] x, double[3] w", """s = SplitToSequence<keepdims = 0>(x)
t, u = SequenceMap(s, w) <body = b (double[3] e, double[3] v) => (double[3] p, double[3] q) {
  p = Mul(e, v)
  q = Sin(p)
}>
a = ConcatFromSequence<axis = 0, new_axis = 1>(t)
b = ConcatFromSequence<axis = 0, new_axis = 1>(u)
y = Mul(a, b)""", x=normal(4, 3), w=normal(3))
case("Optional", "double[3] x", "o = Optional(x)\ne = OptionalGetElement(o)\nf = OptionalGetElement(o)\n"
     "g = OptionalGetElement(x)\nt = Mul(e, f)\ny = Mul(t, g)", x=normal(3))
case("Optional_sequence", "double[3] x", "s = SequenceConstruct(x, x)\no = Optional(s)\ne = OptionalGetElement(o)\n"
     "r = ConcatFromSequence<axis = 0>(e)\ny = Mul(r, r)", x=normal(3))

# ---- elements ----

case("Pow_negative", "double[4] x <double[4] e = {2,3,-1,0}>", "y = Pow(x, e)", x=np.array([-1.5, -0.7, -2.0, -0.3]))
case("Pow_both", "double[3,1] x, double[4] e", "y = Pow(x, e)", x=positive(3, 1), e=normal(4))
case("Mod_fmod", "double[6] x, double[6] m", "y = Mod<fmod = 1>(x, m)", x=np.array([5.3, -5.3, 5.3, -5.3, 0.4, 7.9]),
     m=np.array([2.1, 2.1, -2.1, -2.1, 3.0, 1.1]))
for op, attrs, opset in [("Celu", "<alpha = 0.7>", 28), ("Elu", "<alpha = 0.7>", 22), ("Selu", "", 22),
                         ("Mish", "", 22), ("Swish", "<alpha = 0.7>", 24), ("HardSwish", "", 22),
                         ("HardSigmoid", "<alpha = 0.3>", 22),
                         ("Softsign", "", 22), ("ThresholdedRelu", "<alpha = 0.5>", 22), ("Shrink", "<lambd = 0.5>", 9),
                         ("Gelu", "", 20), ("Gelu", '<approximate = "tanh">', 20), ("LeakyRelu", "", 16)]:
    case(f"{op}{'_' + attrs[-6:-2] if 'tanh' in attrs else ''}", "double[3,5] x", f"y = {op}{attrs}(x)", opset=opset,
         x=apart(3, 5) * 2)
case("PRelu", "double[2,3,4] x, double[3,1] s", "y = PRelu(x, s)", x=apart(2, 3, 4), s=normal(3, 1))
case("Clip", "double[3,5] x <double lo = {-0.61}, double hi = {0.71}>", "y = Clip(x, lo, hi)", x=apart(3, 5))
case("Clip_bounds", "double[3,5] x, double lo, double hi", "y = Clip(x, lo, hi)", x=apart(3, 5), lo=np.array(-0.61),
     hi=np.array(0.71))

# ---- losses ----

LOGITS = normal(5, 4, 3)
LABELS = ints(0, 3, -1, 1, 2, 3, 0, -1, 2, 1, 1, 0, 3, 2, 0).reshape(5, 3)
for how in ("none", "mean", "sum"):
    for weights in ("", ", w"):
        attrs = f'<reduction = "{how}", ignore_index = -1>'
        signature = "double[5,4,3] x, int64[5,3] t" + (", double[4] w" if weights else "")
        more = {"w": positive(4)} if weights else {}
        case(f"SoftmaxCrossEntropyLoss_{how}{weights[2:]}", signature,
             f"y, l = SoftmaxCrossEntropyLoss{attrs}(x, t{weights})", outputs="double[] y, double[] l", x=LOGITS,
             t=LABELS, **more)
        case(f"NegativeLogLikelihoodLoss_{how}{weights[2:]}", signature,
             f"y = NegativeLogLikelihoodLoss{attrs}(x, t{weights})", x=LOGITS, t=LABELS, **more)

# ---- Fourier transforms ----

for inverse in (0, 1):
    case(f"DFT_{inverse}", "double[2,5,2] x <int64 a = {1}>", f"y = DFT<inverse = {inverse}>(x, , a)", opset=20,
         x=normal(2, 5, 2))
    for length in (3, 8):
        case(f"DFT_{inverse}_{length}", f"double[2,5,2] x <int64 n = {{{length}}}, int64 a = {{-2}}>",
             f"y = DFT<inverse = {inverse}>(x, n, a)", opset=20, x=normal(2, 5, 2))
case("DFT_real", "double[2,6,1] x <int64 a = {1}>", "y = DFT(x, , a)", opset=20, x=normal(2, 6, 1))
for length in (None, 1, 4, 7, 8, 13):  # bins of the input: 5
    case(f"DFT_half_inverse_{length}", f"double[2,5,2] x <int64 n = {{{length or 8}}}, int64 a = {{1}}>",
         f"y = DFT<inverse = 1, onesided = 1>(x, {'n' if length else ''}, a)", opset=20, x=normal(2, 5, 2))
case("DFT_half_inverse_real", "double[2,4,1] x", "y = DFT<inverse = 1, onesided = 1, axis = 1>(x)", opset=17,
     x=normal(2, 4, 1))
case("DFT_real_inverse", "double[2,6,1] x <int64 a = {1}>", "y = DFT<inverse = 1>(x, , a)", opset=20, x=normal(2, 6, 1))
case("DFT_onesided", "double[2,6,1] x <int64 a = {1}>", "y = DFT<onesided = 1>(x, , a)", opset=20, x=normal(2, 6, 1))
case("DFT_onesided_odd", "double[2,5,1] x <int64 a = {1}>", "y = DFT<onesided = 1>(x, , a)", opset=20,
     x=normal(2, 5, 1))
case("DFT_17", "double[2,5,1] x", "y = DFT<axis = 1>(x)", opset=17, x=normal(2, 5, 1))
for sided in (0, 1):
    case(f"STFT_{sided}", "double[2,12,1] x, double[4] w <int64 s = {3}, int64 n = {4}>",
         f"y = STFT<onesided = {sided}>(x, s, w, n)", opset=17, x=normal(2, 12, 1), w=normal(4))
case("STFT_complex", "double[1,9,2] x <int64 s = {2}, int64 n = {4}>", "y = STFT<onesided = 0>(x, s, , n)", opset=17,
     x=normal(1, 9, 2))

# ---- forms of old opsets ----

for name, signature, body, opset, feeds in [
    ("Pad_2", "double[3,4] x", 'y = Pad<mode = "reflect", pads = [1,0,0,2]>(x)', 2, {"x": normal(3, 4)}),
    ("Slice_1", "double[3,4] x", "y = Slice<axes = [1], starts = [1], ends = [-1]>(x)", 1, {"x": normal(3, 4)}),
    ("Split_2", "double[4,3] x", "y, z = Split<split = [1,3]>(x)", 2, {"x": normal(4, 3)}),
    ("Squeeze_1", "double[1,3] x", "y = Squeeze<axes = [0]>(x)", 1, {"x": normal(1, 3)}),
    ("Unsqueeze_1", "double[3] x", "y = Unsqueeze<axes = [1]>(x)", 1, {"x": normal(3)}),
    ("TopK_1", "double[3,4] x", "y, i = TopK<k = 2>(x)", 1, {"x": apart(3, 4)}),
    ("TopK_10", "double[3,4] x <int64[1] k = {2}>", "y, i = TopK<axis = 0>(x, k)", 10, {"x": apart(3, 4)}),
    ("Clip_6", "double[3,4] x", "y = Clip<min = -0.61, max = 0.71>(x)", 6, {"x": apart(3, 4)}),
    ("Softmax_1", "double[2,3,4] x", "y = Softmax<axis = 1>(x)", 1, {"x": normal(2, 3, 4)}),
    ("LogSoftmax_11", "double[2,3,4] x", "y = LogSoftmax<axis = 1>(x)", 11, {"x": normal(2, 3, 4)}),
    ("Add_6", "double[2,3,4] a, double[3] b", "y = Add<axis = 1, broadcast = 1>(a, b)", 6,
     {"a": normal(2, 3, 4), "b": normal(3)}),
    ("Pow_1", "double[2,3] a, double[3] b", "y = Pow<axis = 1, broadcast = 1>(a, b)", 1,
     {"a": positive(2, 3), "b": normal(3)}),
    ("Gemm_6", "double[2,3] a, double[3,4] b, double[4] c", "y = Gemm<broadcast = 1, beta = 0.5>(a, b, c)", 6,
     {"a": normal(2, 3), "b": normal(3, 4), "c": normal(4)}),
    ("Sum_1", "double[3] a, double[3] b", "y = Sum(a, b, a)", 1, {"a": normal(3), "b": normal(3, seed=2)}),
    ("Mean_8", "double[2,3] a, double[3] b", "y = Mean(a, b)", 8, {"a": normal(2, 3), "b": normal(3)}),
    ("Max_6", "double[4] a, double[4] b", "y = Max(a, b)", 6, {"a": apart(4), "b": apart(4, seed=3) + 0.013}),
    ("PRelu_6", "double[2,3,2] x, double[3] s", "y = PRelu(x, s)", 6, {"x": apart(2, 3, 2), "s": normal(3)}),
    ("BatchNormalization_7", "double[2,3,2] x, double[3] s, double[3] b <double[3] m = {0.1,0.2,0.3}, "
     "double[3] v = {1,2,3}>", "y = BatchNormalization(x, s, b, m, v)", 7,
     {"x": normal(2, 3, 2), "s": normal(3), "b": normal(3, seed=2)}),
    ("Upsample_7", "double[1,1,2,3] x", 'y = Upsample<mode = "linear", scales = [1.0,1.0,2.0,1.5]>(x)', 7,
     {"x": normal(1, 1, 2, 3)}),
    ("Resize_10", "double[1,1,3,4] x <float[4] s = {1,1,0.7,2}>", 'y = Resize<mode = "linear">(x, s)', 10,
     {"x": normal(1, 1, 3, 4)}),
    ("AveragePool_1", "double[1,1,3,4] x", "y = AveragePool<kernel_shape = [2,2], pads = [1,0,0,1]>(x)", 1,
     {"x": normal(1, 1, 3, 4)}),
    ("MaxPool_1", "double[1,1,3,4] x", "y = MaxPool<kernel_shape = [2,2]>(x)", 1, {"x": apart(1, 1, 3, 4)}),
    ("LpPool_1", "double[1,1,3,4] x", "y = LpPool<kernel_shape = [2,2], p = 2.0>(x)", 1, {"x": positive(1, 1, 3, 4)}),
    ("GlobalLpPool_1", "double[1,2,3] x", "y = GlobalLpPool<p = 2.0>(x)", 1, {"x": positive(1, 2, 3)}),
    ("Dropout_7", "double[3] x", "y = Dropout(x)", 7, {"x": normal(3)}),
    ("Cast_1", "double[3] x", 'y = Cast<to = "DOUBLE">(x)', 1, {"x": normal(3)}),
    ("Reshape_1", "double[2,3] x", "y = Reshape<shape = [3,2]>(x)", 1, {"x": normal(2, 3)}),
    ("Tile_6", "double[2,1] x <int64[2] r = {2,3}>", "y = Tile(x, r)", 6, {"x": normal(2, 1)}),
    ("Scatter_9", "double[3] x, double[2] u <int64[2] i = {2,0}>", "y = Scatter(x, i, u)", 9,
     {"x": normal(3), "u": normal(2)}),
    ("Conv_1", "double[1,2,4] x, double[2,2,2] w", "y = Conv(x, w)", 1, {"x": normal(1, 2, 4), "w": normal(2, 2, 2)}),
    ("Selu_1", "double[5] x", "y = Selu(x)", 1, {"x": apart(5)}),
    ("Elu_1", "double[5] x", "y = Elu<alpha = 0.7>(x)", 1, {"x": apart(5)}),
    ("HardSigmoid_1", "double[5] x", "y = HardSigmoid(x)", 1, {"x": apart(5)}),
    ("ReduceLogSumExp_1", "double[2,3] x", "y = ReduceLogSumExp<axes = [0], keepdims = 0>(x)", 1, {"x": normal(2, 3)}),
    ("ReduceMax_1", "double[2,3] x", "y = ReduceMax<axes = [1]>(x)", 1, {"x": apart(2, 3)}),
]:
    case(f"old_{name}", signature, body, opset=opset, **feeds)

# ---- recurrent layers ----

KINDS = {"RNN": (1, 2, 1), "GRU": (3, 2, 2), "LSTM": (4, 3, 3)}  # gates, outputs, activations


def layer(name, op, attrs="", dirs=1, lens=None, layout=0, biased=True, states=True, peepholes=False, given="all",
          opset=22, T=3, B=2, I=2, H=3):
    """Outputs beyond `given` are left out of the graph's outputs, or of the node."""
    gates, n_out, _ = KINDS[op]
    front = (B, dirs) if layout else (dirs, B)
    feeds = {"x": normal(*((B, T) if layout else (T, B)), I), "w": normal(dirs, gates * H, I, seed=2),
             "r": normal(dirs, gates * H, H, seed=3) * 0.5}
    operands = ["x", "w", "r", "b" if biased else "", "n" if lens else "", "h0" if states else ""]
    if biased:
        feeds["b"] = normal(dirs, 2 * gates * H, seed=4)
    if lens:
        feeds["n"] = np.array(lens, np.int32)
    if states:
        feeds["h0"] = normal(*front, H, seed=5)
    if op == "LSTM":
        operands += ["c0" if states else "", "p" if peepholes else ""]
        if states:
            feeds["c0"] = normal(*front, H, seed=6)
        if peepholes:
            feeds["p"] = normal(dirs, 3 * H, seed=7)
    outs = {"all": ["y", "yh", "yc"][:n_out], "y": ["y"], "last": ["", "yh"], "cell": ["", "", "yc"]}[given]
    signature = ", ".join(f"{'int32' if n == 'n' else 'double'}[{','.join(map(str, f.shape))}] {n}"
                          for n, f in feeds.items())
    attrs = ", ".join(filter(None, [attrs, "layout = 1" if layout else "",
                                    'direction = "bidirectional"' if dirs == 2 else ""]))
    case(name, signature, f"{', '.join(outs)} = {op}<{attrs}>({', '.join(operands)})" if attrs else
         f"{', '.join(outs)} = {op}({', '.join(operands)})", opset=opset,
         outputs=", ".join(f"double[] {o}" for o in outs if o), **feeds)


for op in KINDS:
    layer(op, op)
    layer(f"{op}_plain", op, biased=False, states=False)
    layer(f"{op}_reverse", op, 'direction = "reverse"', given="y")
    layer(f"{op}_both", op, dirs=2, lens=(3, 1), layout=1)
    layer(f"{op}_lengths", op, 'direction = "reverse"', lens=(0, 2), given="last")
    layer(f"{op}_clip", op, "clip = 0.6", states=False)
    layer(f"{op}_no_steps", op, T=0)
    layer(f"{op}_one", op, T=1, B=1, I=1, H=1)
    layer(f"{op}_old", op, "output_sequence = 1", opset=3 if op == "GRU" else 1)
    names = ["HardSigmoid", "ScaledTanh", "Elu"][:KINDS[op][2]]
    layer(f"{op}_activations", op, f"activations = [{', '.join(f'{chr(34)}{n}{chr(34)}' for n in names)}], "
          "activation_alpha = [0.3, 1.2, 0.7], activation_beta = [0.45, 0.8]")
layer("GRU_before_reset", "GRU", "linear_before_reset = 1", dirs=2, lens=(2, 3))
layer("GRU_before_reset_plain", "GRU", "linear_before_reset = 1", biased=False, given="last")
layer("LSTM_cell", "LSTM", given="cell", peepholes=True)
layer("LSTM_forget", "LSTM", "input_forget = 1", peepholes=True, dirs=2)
layer("LSTM_peepholes", "LSTM", "clip = 0.9", peepholes=True, lens=(3, 2), layout=1)


def of_gradient(name, op, n_in, n_out, **more):
    """The gradient op of layer `name` as an op of its own: its inputs are the layer's, gradients of its outputs, and
    what the layer kept, which follows from the others."""
    c = CASES[name]
    signature, feeds = c.signature, dict(c.inputs)
    operands = c.body.partition("(")[2].rstrip(")").split(", ")
    operands += [""] * (n_in - len(operands))
    kept_body = c.body.replace(f"= {op}", f"= nacre.{op}Kept", 1)
    outs = [o.strip() for o in c.body.partition("=")[0].split(",")]
    kept_outs = ", ".join(outs + [""] * (n_out - len(outs)) + ["kept"])
    ys = more.pop("dys")
    for y, shape in ys.items():
        feeds[f"d{y}"] = normal(*shape, seed=9)
        signature += f", double[{','.join(map(str, shape))}] d{y}"
    given = [f"d{o}" if o in ys else "" for o in ["y", "yh", "yc"][:n_out]]
    attrs = c.body.partition("=")[2].strip()[len(op):].partition("(")[0]
    made = [f"g{o}" if o and o != "n" else "" for o in operands]
    body = (f"{kept_outs} = {kept_body.partition('=')[2]}\n"
            f"{', '.join(made)} = nacre.{op}Grad{attrs}({', '.join(operands + given + ['kept'])})")
    case(f"{name}_twice", signature, body, opset=c.opset, outputs=", ".join(f"double[] {m}" for m in made if m),
         **feeds)


of_gradient("RNN", "RNN", 6, 2, dys={"y": (3, 1, 2, 3), "yh": (1, 2, 3)})
of_gradient("RNN_both", "RNN", 6, 2, dys={"y": (2, 3, 2, 3)})
of_gradient("GRU", "GRU", 6, 2, dys={"y": (3, 1, 2, 3), "yh": (1, 2, 3)})
of_gradient("GRU_before_reset", "GRU", 6, 2, dys={"y": (3, 2, 2, 3)})
of_gradient("LSTM", "LSTM", 8, 3, dys={"y": (3, 1, 2, 3), "yc": (1, 2, 3)})
of_gradient("LSTM_plain", "LSTM", 8, 3, dys={"yh": (1, 2, 3)})
of_gradient("LSTM_peepholes", "LSTM", 8, 3, dys={"y": (2, 3, 1, 3)})
of_gradient("LSTM_forget", "LSTM", 8, 3, dys={"y": (3, 2, 2, 3), "yh": (2, 2, 3), "yc": (2, 2, 3)})


@pytest.mark.parametrize("name", CASES)
def test_gradient_as_differences(env, name):
    check(env, CASES[name])
