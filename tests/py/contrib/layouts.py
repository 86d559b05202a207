"""Cases of ops that lay elements out anew and of products of another kind (com.microsoft), and of experiments that left
ai.onnx."""
import numpy as np

from contrib import by_onnxruntime, case

draw = np.random.default_rng(21)


def f(*shape, kind=np.float32):
    return draw.standard_normal(shape).astype(kind)


def i(*values, kind=np.int64):
    return np.array(values, kind)


def unfolded(x, dim, size, step):
    dim %= x.ndim
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=dim)
    return [windows[(slice(None),) * dim + (slice(None, None, step),)]]


def without_padding(x, count):
    there = np.arange(x.shape[1])[None] < count[:, None]
    at = [np.flatnonzero(m) for m in (there.ravel(), ~there.ravel())]
    return [x.reshape(-1, x.shape[2])[at[0]], np.concatenate(at).reshape(there.shape).astype(np.int32),
            np.concatenate([[0], np.cumsum(count)]).astype(np.int32), np.array([count.max()], np.int32)]


def with_padding(x, at):
    out = np.zeros((at.size, x.shape[1]), x.dtype)
    out[at.ravel()[:len(x)]] = x
    return [out.reshape(*at.shape, -1)]


def complex_product(a, b, conjugate=False):
    a, b = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    c = a * (b.conj() if conjugate else b)
    return [np.stack([c.real, c.imag], -1).astype(np.float32)]


ODD = f(3, 5)
ODD[0, 1], ODD[2, 4] = np.nan, -np.inf
TOKENS, COUNTS = f(3, 4, 2), np.int32([2, 4, 1])
OFFSETS = without_padding(TOKENS, COUNTS)[1]
BOXES = np.float32([[0, 0, 1, 1], [0.1, 0.2, 0.9, 0.6], [-0.2, 0.3, 0.5, 1.4], [0.8, 0.7, 0.2, 0.1]])
IMAGES, WHICH = f(2, 3, 7, 6), np.int32([0, 1, 1, 0])


def triangles():
    for kind in (np.float32, np.float64, np.float16, np.int64, np.int8, np.uint8, np.bool_):
        x = (f(2, 4, 5) > 0) if kind is np.bool_ else (f(2, 4, 5) * 9).astype(kind)
        peer = {} if kind in (np.float32, np.float64, np.int64) else {"reference": lambda v: [np.triu(v)]}
        yield case(np.dtype(kind).name, "Trilu", [x], **peer)
    yield case("lower, above", "Trilu", [f(4, 5), np.int64(1)], upper=0)
    yield case("upper, below", "Trilu", [f(4, 5), np.int64(-2)])
    yield case("empty", "Trilu", [f(0, 3)])


def rearranged():
    yield from triangles()
    for mode in ("constant", "reflect", "edge"):
        yield case(mode, "Pad", [f(3, 4), i(1, 0, 2, 1)], mode=mode)
    yield case("value", "Pad", [f(3, 4), i(0, 2, 1, 0), np.float32(7)])
    yield case("double", "Pad", [f(3, kind=np.float64), i(1, 2)], constants=[1],
               reference=lambda x, _: [np.pad(x, (1, 2))])
    for axis in (0, 1, -1, -3):
        yield case(f"axis {axis}", "ExpandDims", [f(2, 3), np.int32(axis)], constants=[1])
    yield case("as a vector", "ExpandDims", [f(2, 3), np.int32([1])], constants=[1])
    yield case("elements", "GatherND", [f(3, 4), i([0, 1], [2, 3])])
    yield case("rows, int32", "GatherND", [f(3, 4), np.int32([[1], [0], [-1]])])
    yield case("ints", "Range", [np.int64(1), np.int64(9), np.int64(3)])
    yield case("no step", "Range", [np.float32(0.5), np.float32(4)])
    yield case("down", "Range", [np.int32(5), np.int32(0), np.int32(-2)])
    yield case("none", "Range", [np.int16(5), np.int16(5)])
    yield case("floats", "Unique", [np.float32([2, 1, 1, 3, 2, 2])], outputs=3)
    yield case("one", "Unique", [np.float32([4])], outputs=3)


def windows():
    for name, shape, dim, size, step in (("last", (2, 7), -1, 3, 1), ("step", (2, 8, 3), 1, 2, 3),
                                         ("first", (5, 2), 0, 5, 2), ("ones", (4,), 0, 1, 1)):
        yield case(name, "UnfoldTensor", [f(*shape)], dim=dim, size=size, step=step,
                   reference=lambda x, d=dim, z=size, s=step: unfolded(x, d, z, s))
    yield case("onnxruntime", "UnfoldTensor", [f(2, 7)], size=3, step=2)
    table = f(5, 3)
    yield case("rows", "TorchEmbedding", [table, i([0, 4], [2, 2])], reference=lambda w, at: [w[at]])
    yield case("padding", "TorchEmbedding", [table, i(1), np.int64(1), np.bool_(False)],
               reference=lambda w, at, *_: [w[at]])
    yield case("rows", "RemovePadding", [TOKENS, COUNTS], outputs=4, reference=without_padding,
               types={1: np.int32, 2: np.int32, 3: np.int32})
    yield case("whole", "RemovePadding", [TOKENS, np.int32([4, 4, 4])], outputs=4, reference=without_padding,
               types={1: np.int32, 2: np.int32, 3: np.int32})
    yield case("rows", "RestorePadding", [f(7, 2), OFFSETS], reference=with_padding)


def products():
    a, b = f(4, 3), f(5, 3)
    for metric in ("sqeuclidean", "euclidean"):
        yield case(metric, "CDist", [a, b], metric=metric)
        yield case(f"{metric}, double", "CDist", [a.astype(np.float64), b.astype(np.float64)], metric=metric)
    yield case("default", "CDist", [f(1, 1), f(2, 1)])
    yield case("no rows", "CDist", [f(0, 3), b], reference=lambda x, y: [np.zeros((0, 5), np.float32)])
    yield case("plain", "ComplexMul", [f(3, 4, 2), f(3, 4, 2)], reference=complex_product)
    yield case("broadcast", "ComplexMul", [f(3, 4, 2), f(1, 4, 2)], reference=complex_product)
    yield case("plain", "ComplexMulConj", [f(3, 4, 2), f(3, 4, 2)], reference=lambda x, y: complex_product(x, y, True))
    for name, x in (("one", f(1, 1) + 2), ("some", f(2, 3, 4, 4) + 4 * np.eye(4, dtype=np.float32)), ("plain", f(5, 5)),
                    ("double", f(3, 3).astype(np.float64)), ("pivots", np.float32([[0, 2], [3, 0]]))):
        yield case(name, "Inverse", [x], tolerance="model_f32")
    yield case("half", "Inverse", [(f(3, 3) + 3 * np.eye(3)).astype(np.float16)],
               reference=lambda x: [np.linalg.inv(x.astype(np.float64)).astype(np.float16)])
    yield case("none", "Inverse", [f(2, 0, 0)], reference=lambda x: [x])
    yield case("no rows", "Inverse", [f(0, 3, 3)], reference=lambda x: [x])
    numbers = np.random.default_rng(4).integers(-2**31, 2**31, (3, 5))
    for t in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64):
        for positive in (0, 1):
            yield case(f"{np.dtype(t).name}, {positive}", "MurmurHash3", [numbers.astype(t)], positive=positive, seed=7,
                       types={0: np.uint32 if positive else np.int32})
    words = np.array([["", "a", "ab", "abc"], ["abcd", "abcde", "\u00e9t\u00e9", "a longer text of words"]], object)
    yield case("words", "MurmurHash3", [words], types={0: np.uint32})
    yield case("words, signed", "MurmurHash3", [words], types={0: np.int32}, positive=0, seed=2**31 - 1)
    yield case("no words", "MurmurHash3", [words[:0]], types={0: np.uint32},
               reference=lambda x: [np.zeros((0, 4), np.uint32)])
    whole = [(f(2, 3, 4) * 9000).astype(np.int16), (f(4, 5) * 9000).astype(np.int16)]
    yield case("signed", "MatMulInteger16", whole, types={0: np.int32})
    yield case("unsigned", "MatMulInteger16", [np.abs(w).astype(np.uint16) for w in whole], types={0: np.uint32},
               reference=lambda x, y: [x.astype(np.uint32) @ y.astype(np.uint32)])


def tokens():
    """Tokenizer: at separators, which are expressions and cut one after the other, by characters, by an expression."""
    texts = np.array(["a b  cd", "", "\u00e9t\u00e9 12x7", "...", "aab ab", "x"], object)
    for mark, pad in ((0, "#"), (1, ""), (1, "pad")):
        def cut(name, fewest=1, x=texts, mark=mark, pad=pad, **how):
            return case(f"{name}, {mark}{pad}", "Tokenizer", [x], mark=mark, pad_value=pad, mincharnum=fewest, **how)
        yield cut("characters", separators=[""])
        for k, by in enumerate(([" "], ["b", " "], [" +", "[0-9]"], ["."], ["x*"], ["a", "ab"], ["ab", "a"], ["", "a"],
                                ["^a"], ["a$", "\\b"], ["nowhere"], ["\u00e9"])):
            yield cut(f"separators {k}", separators=by)
            yield cut(f"separators {k}, long", 2, separators=by)
        for k, which in enumerate(("[a-z]+", "a*", "^a+", "a+?b", "ab|aab", "[^ ]+", "t|\u00e9t", "\\d", "z")):
            yield cut(f"expression {k}", tokenexp=which)
            yield cut(f"expression {k}, long", 2, tokenexp=which)
        yield cut("both", separators=[" "], tokenexp="a")
        yield cut("a table", x=texts.reshape(2, 3), separators=[" "])
        yield cut("one", x=texts[:1], separators=[" "])
        yield cut("nothing but separators", x=texts[3:4], separators=["[.]"])
    yield case("no texts", "Tokenizer", [texts[:0]], mark=1, pad_value="", mincharnum=1, separators=[" "],
               reference=lambda x: [np.zeros((0, 0), object)])


def images():
    grid = np.clip(f(2, 4, 3, 2), -1.2, 1.2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            yield case(f"{mode}, {padding}", "GridSample", [IMAGES, grid], mode=mode, padding_mode=padding)
    yield case("corners", "GridSample", [IMAGES, grid], align_corners=1)
    for mode in ("bilinear", "nearest"):
        for size in ((4, 5), (1, 1), (1, 3)):
            yield case(f"{mode} {size}", "CropAndResize", [IMAGES, BOXES, WHICH, np.int32(size)], mode=mode,
                       extrapolation_value=-3.0, constants=[3])
    yield case("a line", "CropAndResize", [f(1, 2, 1, 5), BOXES[:1], WHICH[:1], np.int32([2, 3])])
    yield case("no regions", "CropAndResize", [IMAGES, BOXES[:0], WHICH[:0], np.int32([2, 3])],
               reference=lambda *_: [np.zeros((0, 3, 2, 3), np.float32)])


def experts():
    tokens, width, inner, n = 5, 4, 6, 3
    x, router = f(tokens, width), f(tokens, n)
    layers = [f(n, inner, width), f(n, inner), f(n, width, inner), f(n, width)]
    for k in (1, 2, 3):
        for act in ("relu", "gelu", "silu", "identity"):
            yield case(f"{act} {k}", "MoE", [x, router, *layers], k=k, activation_type=act,
                       normalize_routing_weights=k % 2, tolerance="recurrent_f32")
    yield case("no biases", "MoE", [x, router, layers[0], None, layers[2]], k=2, tolerance="recurrent_f32")
    yield case("batch", "MoE", [f(2, 3, width), f(6, n), *layers], k=2, tolerance="recurrent_f32")
    paired = [f(n, 2 * inner, width), f(n, 2 * inner), *layers[2:]]
    more = dict(activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, k=2,
                tolerance="recurrent_f32")
    yield case("swiglu", "MoE", [x, router, *paired], **more)
    yield case("swiglu, limit", "MoE", [x, router, *paired], swiglu_limit=0.7, **more)
    turned = [np.concatenate([w[:, 0::2], w[:, 1::2]], 1) for w in paired[:2]]

    def in_turn(x, router, w, b, *rest):
        w, b = (np.stack([a[:, :inner], a[:, inner:]], 2).reshape(a.shape) for a in (w, b))
        return by_onnxruntime(case("in turn", "MoE", [x, router, w, b, *rest], **more))
    yield case("swiglu, halves", "MoE", [x, router, *turned, *paired[2:]], **{**more, "swiglu_fusion": 2},
               reference=in_turn)


CASES = [*rearranged(), *windows(), *products(), *tokens(), *images(), *experts()]
REFUSED = [
    (case("size", "UnfoldTensor", [f(2, 3)], size=4), "expected at least size"),
    (case("step", "UnfoldTensor", [f(2, 3)], size=2, step=0), "step 0"),
    (case("activation", "MoE", [f(2, 4), f(2, 3), f(3, 6, 4), None, f(3, 4, 6)], activation_type="none"), "'none'"),
    (case("k", "MoE", [f(2, 4), f(2, 3), f(3, 6, 4), None, f(3, 4, 6)], k=4), "k is 4 of 3 experts"),
    (case("width", "MoE", [f(2, 4), f(2, 3), f(3, 6, 5), None, f(3, 4, 6)]), "expected 4"),
    (case("mixer", "MoE", [f(2, 4), f(2, 3), f(3, 6, 4), None, f(3, 4, 6)], use_sparse_mixer=1),
     "k is 1, expected 2"),
    (case("fusion", "MoE", [f(2, 4), f(2, 3), f(3, 6, 4), None, f(3, 4, 6)], activation_type="swiglu"),
     "fc3_experts_weights are absent"),
    (case("metric", "CDist", [f(2, 3), f(2, 3)], metric="cosine"), "metric is 'cosine'"),
    (case("square", "Inverse", [f(2, 3)]), "2 rows and 3 columns are not square"),
    (case("rank", "Inverse", [f(3)]), "1 dims, at least 2"),
    (case("positive", "MurmurHash3", [np.int32([3])], positive=2, types={0: np.uint32}), "positive is 2"),
    (case("nothing to cut by", "Tokenizer", [np.array(["a"], object)], mark=0, pad_value="", mincharnum=1),
     "separators"),
    (case("fewest", "Tokenizer", [np.array(["a"], object)], mark=0, pad_value="", mincharnum=0, separators=[" "]),
     "mincharnum is 0"),
    (case("characters", "Tokenizer", [np.array(["a"], object)], mark=0, pad_value="", mincharnum=2, separators=[""]),
     "mincharnum is 2"),
    (case("expression", "Tokenizer", [np.array(["a"], object)], mark=0, pad_value="", mincharnum=1, tokenexp="("), "("),
    (case("rank", "Tokenizer", [np.array([[["a"]]], object)], mark=0, pad_value="", mincharnum=1, separators=[" "]),
     "3 dims, expected [C] or [N, C]"),
    (case("width", "CDist", [f(2, 3), f(2, 4)]), "expected 3"),
    (case("parts", "ComplexMul", [f(2, 3), f(2, 3)]), "expected 2"),
    (case("mode", "CropAndResize", [IMAGES, BOXES, WHICH, np.int32([2, 2])], mode="area"), "mode is 'area'"),
    (case("axis", "ExpandDims", [f(2, 3), np.int32(4)], constants=[1]), "axis"),
    (case("depth", "GatherND", [f(3), i([0, 1])]), "expected 1 to 1"),
    (case("rank", "Unique", [f(2, 3)], outputs=3), "2 dims, expected 1"),
]


def old(name, op, inputs, **more):
    return case(name, op, inputs, domain="", **more)


LEGACY = [
    old("plain", "Affine", [ODD], alpha=2.0, beta=-1.0), old("default", "Affine", [f(0, 3)]),
    old("plain", "ParametricSoftplus", [ODD], alpha=2.0, beta=0.5),
    old("plain", "ScaledTanh", [ODD], alpha=2.0, beta=0.5),
    old("plain", "Scale", [ODD], scale=3.0), old("default", "Scale", [f(1)]),
    old("plain", "ImageScaler", [f(2, 3, 4, 5)], scale=2.0, bias=[1.0, 2.0, 3.0]),
    old("borders", "Crop", [f(1, 2, 6, 7)], border=[1, 2, 3, 1]),
    old("size", "Crop", [f(1, 2, 6, 7)], border=[1, 2, 3, 1], scale=[3, 2]),
    old("plain", "DynamicSlice", [f(4, 5), i(1, 0), i(3, 4)]),
    old("axes", "DynamicSlice", [f(4, 5), np.int32([1]), np.int32([-1]), np.int32([1])]),
]
LEGACY_REFUSED = [
    (old("border", "Crop", [f(1, 2, 6, 7)], border=[1, 2]), "border has 2 numbers"),
    (old("cut", "Crop", [f(1, 2, 3, 7)], border=[1, 2, 3, 2]), "less than what is cut"),
    (old("bias", "ImageScaler", [f(1, 2, 3, 3)], bias=[1.0]), "bias has 1 numbers"),
]

ROIS = np.float32([[0, 0, 0, 6, 5], [1, 1.5, 2.4, 4, 3], [0, 5, 5, 9, 9], [1, 20, 20, 30, 30], [0, 4, 3, 1, 2],
                   [1, -3, -2, 2, 8]])
REGIONS = [old(f"{shape} {scale}", "MaxRoiPool", [f(2, 3, 6, 7), ROIS], pooled_shape=shape, spatial_scale=scale)
           for shape in ([2, 3], [1, 1], [7, 5]) for scale in (1.0, 0.5)]
REGIONS += [old("none", "MaxRoiPool", [f(1, 2, 3, 3), ROIS[:0]], pooled_shape=[2, 2])]
LEGACY_REFUSED += [
    (old("shape", "MaxRoiPool", [f(1, 2, 3, 3), ROIS], pooled_shape=[0, 2]), "pooled_shape: expected"),
    (old("numbers", "MaxRoiPool", [f(1, 2, 3, 3), ROIS[:, :4]], pooled_shape=[2, 2]), "expected 5"),
]
