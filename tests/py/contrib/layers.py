"""Cases of element formulas, normalizations, products and convolutions of domain com.microsoft."""
import ml_dtypes
import numpy as np
import torch

from . import case, stream

R, f, i32 = stream(7)
BF16 = ml_dtypes.bfloat16


def odd(x):
    """x with what is no ordinary number in it."""
    x = x.copy()
    x.ravel()[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return x


def erf_gelu(x):
    return torch.nn.functional.gelu(torch.from_numpy(x.astype(np.float64))).numpy()


def wide(function):
    """A reference in double, rounded to the type of the first operand."""
    def run(*operands):
        results = function(*(None if x is None else x.astype(np.float64) if x.dtype.kind not in "iub" else x
                             for x in operands))
        return [r.astype(operands[0].dtype) for r in (results if isinstance(results, list) else [results])]
    return run


def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def layer(x, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# ---- elements ----

SHAPES = [(3, 5), (1,), (0, 4), (2, 3, 17)]
ELEMENTS = [
    *(case(f"f32{s}", op, [f(*s)]) for op in ("Gelu", "QuickGelu", "FastGelu") for s in SHAPES),
    case("odd", "Gelu", [odd(f(9))]),
    case("odd", "QuickGelu", [odd(f(9))]),
    case("odd", "FastGelu", [odd(f(9))]),
    case("alpha", "QuickGelu", [f(4, 5)], alpha=1.0),
    *(case(f"bias{s}", op, [f(*s), f(s[-1])]) for op in ("BiasGelu", "FastGelu") for s in SHAPES),
    *(case(np.dtype(t).name, "BiasGelu", [f(3, 5, t=t), f(5, t=t)], reference=wide(lambda a, b: erf_gelu(a + b)))
      for t in (np.float16, BF16)),
    case("double", "BiasGelu", [f(3, 5, t=np.float64), f(5, t=np.float64)], tolerance="ort_f32",
         reference=wide(lambda a, b: erf_gelu(a + b))),
    case("double", "Gelu", [f(3, 5, t=np.float64)], reference=wide(erf_gelu), tolerance="op_f64"),
    *(case(np.dtype(t).name, "QuickGelu", [f(3, 5, t=t)], reference=wide(lambda x: x / (1 + np.exp(-1.702 * x))))
      for t in (np.float16, BF16)),
    case("f32", "BiasAdd", [f(2, 3, 8), f(8), f(2, 3, 8)], reference=wide(lambda x, b, s: x + b + s)),
    case("f16", "BiasAdd", [f(2, 3, 8, t=np.float16), f(8, t=np.float16), f(2, 3, 8, t=np.float16)],
         reference=wide(lambda x, b, s: x + b + s)),
    *(case(np.dtype(t).name, "BiasSplitGelu", [f(2, 3, 8, t=t), f(8, t=t)],
           reference=wide(lambda x, b: (x + b)[..., :4] * erf_gelu((x + b)[..., 4:])))
      for t in (np.float32, np.float16)),
    case("f32", "GatedAdd", [f(2, 3, 8), f(2, 3, 8), f(2, 3, 1)]),
    case("empty", "GatedAdd", [f(0, 3, 8), f(0, 3, 8), f(0, 3, 1)], reference=wide(lambda x, y, g: x)),
    case("bf16", "GatedAdd", [f(4, 8, t=BF16), f(4, 8, t=BF16), f(4, 1, t=BF16)],
         reference=wide(lambda x, y, g: x + y * g)),
]

# ---- normalizations ----


def skip_reference(norm, eps, beta):
    def run(x, skip, gamma, *rest):
        b = rest[0] if beta and rest else None
        bias = rest[-1] if len(rest) > beta else None
        s = x + skip + (0 if bias is None else bias)
        return [norm(s, eps) * gamma + (0 if b is None else b), s]
    return wide(run)


def skips():
    for op, beta in (("SkipLayerNormalization", 1), ("SkipSimplifiedLayerNormalization", 0)):
        g = [f(7)]
        b = [f(7)] * beta
        for name, skip in (("same", (2, 3, 7)), ("one", (1, 3, 7)), ("matrix", (3, 7))):
            yield case(name, op, [f(2, 3, 7), f(*skip), *g, *b], epsilon=1e-5)
        yield case("bias", op, [f(2, 3, 7), f(2, 3, 7), *g, *b, f(7)], epsilon=1e-5)
        yield case("sum", op, [f(2, 3, 7), f(2, 3, 7), *g, *b, f(7)], outputs=[True, False, False, True])
        yield case("rank2", op, [f(4, 7), f(4, 7), *g, *b])
        yield case("bare", op, [f(2, 3, 7), f(2, 3, 7), *g])
        yield case("empty", op, [f(0, 3, 7), f(0, 3, 7), *g])
        yield case("f16", op, [f(2, 3, 7, t=np.float16), f(2, 3, 7, t=np.float16), f(7, t=np.float16)], epsilon=1e-5)
        norm = layer if beta else rms
        yield case("bf16", op, [f(2, 3, 7, t=BF16), f(2, 3, 7, t=BF16), f(7, t=BF16), *[f(7, t=BF16)] * beta,
                                f(7, t=BF16)], outputs=[True, False, False, True], epsilon=1e-5,
                   reference=skip_reference(norm, 1e-5, beta))
        yield case("stats", op, [f(2, 3, 7), f(2, 3, 7), *g], outputs=4, epsilon=1e-5, reference=stats(norm))


def stats(norm):
    def run(x, skip, gamma):
        s = x.astype(np.float64) + skip
        spread = s.var(-1, keepdims=True) if norm is layer else (s * s).mean(-1, keepdims=True)
        results = [norm(s, 1e-5) * gamma, s.mean(-1, keepdims=True), 1 / np.sqrt(spread + 1e-5), s]
        return [r.astype(np.float32) for r in results]
    return run


def group_norm(last, groups, act, bias=True):
    def run(x, gamma, beta, skip=None, b=None):
        add = skip if skip is None or skip.ndim == 4 else skip[:, None, None, :] if last else skip[:, :, None, None]
        s = x + (0 if add is None else add) + (0 if b is None else b if last else b[:, None, None])
        t = torch.from_numpy(np.moveaxis(s, -1, 1).copy() if last else s)
        y = torch.nn.functional.group_norm(t, groups, torch.from_numpy(gamma), torch.from_numpy(beta), 1e-5).numpy()
        y = silu(y) if act else y
        return [np.moveaxis(y, 1, -1) if last else y, s]
    return run


def groups():
    for last in (0, 1):
        for act in (0, 1):
            shape = (2, 3, 5, 8) if last else (2, 8, 3, 5)
            for t, u in ((np.float32, np.float32), (np.float16, np.float32)):
                ref = group_norm(last, 4, act)
                yield case(f"{last}{act}{np.dtype(t).name}", "GroupNorm", [f(*shape, t=t), f(8, t=u), f(8, t=u)],
                           reference=wide(lambda *a, ref=ref: ref(*a)[:1]), groups=4, activation=act,
                           channels_last=last)
                for name, skip in (("whole", shape), ("pixel", (2, 8))):
                    yield case(f"{name}{last}{act}{np.dtype(t).name}", "SkipGroupNorm",
                               [f(*shape, t=t), f(8, t=u), f(8, t=u), f(*skip, t=t), f(8, t=t)], outputs=2,
                               reference=wide(ref), groups=4, activation=act, channels_last=last)


def embeds():
    t = [f(11, 7), f(9, 7), f(2, 7), f(7), f(7)]
    ids, seg, mask = i32(11, 2, 5), i32(2, 2, 5), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    at = i32(9, 2, 5)
    op = "EmbedLayerNormalization"
    yield case("whole", op, [ids, seg, *t, mask], outputs=2, epsilon=1e-5)
    yield case("type1", op, [ids, seg, *t, mask], outputs=2, epsilon=1e-5, mask_index_type=1)
    yield case("type0", op, [ids, seg, *t, mask], outputs=2, epsilon=1e-5, mask_index_type=0)
    yield case("no_mask", op, [ids, seg, *t], outputs=2)
    yield case("no_segment", op, [ids, None, t[0], t[1], None, t[3], t[4], mask], outputs=2)
    yield case("positions", op, [ids, seg, *t, mask, at], outputs=3)
    yield case("shared_positions", op, [ids, seg, *t, None, at[:1]], outputs=[True, False, True])
    h = [x.astype(np.float16) for x in t]

    def half(ids, seg, w, p, s, g, b):
        x = w.astype(np.float64)[ids] + p.astype(np.float64)[:5] + s.astype(np.float64)[seg]
        return [(layer(x, 1e-5) * g.astype(np.float64) + b).astype(np.float16)]
    yield case("f16", op, [ids, seg, *h], reference=half, epsilon=1e-5)
    q = [R.integers(0, 255, s).astype(np.uint8) for s in ((11, 7), (9, 7), (2, 7), (7,), (7,))]
    scale, zero = [np.float32(0.01 * (k + 1)) for k in range(5)], [np.uint8(100 + k) for k in range(5)]
    yield case("u8", "QEmbedLayerNormalization", [ids, seg, *q, mask, *scale, *zero], outputs=2, epsilon=1e-5)
    s8 = [(x.astype(int) - 128).astype(np.int8) for x in q]
    z8 = [np.int8(k) for k in range(5)]
    yield case("no_segment_i8", "QEmbedLayerNormalization",
               [ids, None, s8[0], s8[1], None, s8[3], s8[4], None, scale[0], scale[1], None, scale[3], scale[4],
                z8[0], z8[1], None, z8[3], z8[4]], outputs=2, epsilon=1e-5)


NORMS = [
    *skips(),
    *groups(),
    *embeds(),
    case("f32", "GatedRMSNorm", [f(2, 3, 7), f(7), f(2, 3, 7)]),
    case("sigmoid", "GatedRMSNorm", [f(2, 7), f(7), f(2, 7)], activation="sigmoid", epsilon=1e-3,
         reference=wide(lambda x, s, g: rms(x, 1e-3) * s / (1 + np.exp(-g)))),
    case("bf16", "GatedRMSNorm", [f(2, 7, t=BF16), f(7, t=BF16), f(2, 7, t=BF16)],
         reference=wide(lambda x, s, g: rms(x, 1e-5) * s * silu(g))),
]

# ---- products ----


def fused_matmuls():
    op = "FusedMatMul"
    yield case("plain", op, [f(3, 4), f(4, 5)])
    yield case("alpha", op, [f(3, 4), f(4, 5)], alpha=0.5)
    yield case("ta", op, [f(4, 3), f(4, 5)], transA=1)
    yield case("tb", op, [f(3, 4), f(5, 4)], transB=1, alpha=2.0)
    yield case("tab", op, [f(4, 3), f(5, 4)], transA=1, transB=1)
    for held in ((), (1,)):
        yield case(f"batch_tb{held}", op, [f(2, 3, 4), f(5, 4)], transB=1, alpha=0.25, constants=held)
        yield case(f"batch_ta{held}", op, [f(2, 4, 3), f(4, 5)], transA=1, constants=held)
        yield case(f"batches{held}", op, [f(2, 1, 3, 4), f(6, 5, 4)], transB=1, constants=held)
        yield case(f"empty{held}", op, [f(0, 3, 4), f(5, 4)], transB=1, constants=held)
        yield case(f"no_sum{held}", op, [f(2, 3, 0), f(5, 0)], transB=1, constants=held)
    yield case("vector", op, [f(4), f(4, 5)], transA=1, reference=wide(lambda a, b: a @ b))
    yield case("vectors", op, [f(3, 4), f(4)])
    yield case("batch_a", op, [f(3, 2, 4), f(2, 4, 5)], transBatchA=1)
    yield case("batch_b", op, [f(2, 3, 4), f(4, 2, 5)], transBatchB=1)
    yield case("batch_ab", op, [f(4, 2, 6, 3), f(5, 2, 6, 4)], transBatchA=1, transBatchB=1, transA=1, transB=1)
    for t in (np.float64, np.float16, BF16):
        yield case(np.dtype(t).name, op, [f(3, 4, t=t), f(5, 4, t=t)], transB=1, alpha=0.5,
                   tolerance="op_f64" if t is np.float64 else None, reference=wide(lambda a, b: a @ b.T * 0.5))
    yield case("tb", "TransposeMatMul", [f(2, 3, 4), f(2, 5, 4)], transB=1, alpha=0.5)


def gemms():
    op = "FusedGemm"
    acts = [("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("Softplus", {}), ("Softsign", {}),
            ("LeakyRelu", {"activation_alpha": 0.1}), ("Elu", {"activation_alpha": 0.7}),
            ("ThresholdedRelu", {"activation_alpha": 0.4}), ("HardSigmoid", {"activation_alpha": 0.3,
                                                                             "activation_beta": 0.4}),
            ("Selu", {"activation_alpha": 1.2, "activation_gamma": 0.9})]
    for act, numbers in acts:
        yield case(act, op, [f(3, 4), f(4, 5), f(5)], activation=act, **numbers)
    yield case("none", op, [f(4, 3), f(5, 4)], transA=1, transB=1, alpha=0.5, activation="Relu")
    yield case("c", op, [f(3, 4), f(4, 5), f(3, 1)], beta=0.5, activation="Tanh")
    yield case("int", op, [i32(9, 3, 4), i32(9, 4, 5)], reference=lambda a, b: [a @ b])
    yield case("f16", op, [f(3, 4, t=np.float16), f(4, 5, t=np.float16)], activation="Relu",
               reference=wide(lambda a, b: np.maximum(a @ b, 0)))
    tanh = wide(lambda x, w, b=0: torch.nn.functional.gelu(torch.from_numpy(x @ w + b), approximate="tanh").numpy())
    yield case("bias", "GemmFastGelu", [f(2, 3, 4), f(4, 5), f(5)], reference=tanh)
    yield case("bare", "GemmFastGelu", [f(3, 4), f(4, 5)], reference=tanh)


def conv_reference(act, **how):
    def run(x, w, b=None, z=None):
        t = [None if v is None else torch.from_numpy(v) for v in (x, w, b)]
        y = torch.nn.functional.conv2d(*t, **how).numpy()
        return act(y + (0 if z is None else z))
    return run


def convs():
    x, w, b = f(2, 4, 6, 5), f(6, 4, 3, 3), f(6)
    op = "FusedConv"
    acts = [("Relu", []), ("Sigmoid", []), ("Tanh", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.7]),
            ("HardSigmoid", [0.3, 0.4])]
    for act, numbers in acts:
        more = {"activation_params": numbers} if numbers else {}
        yield case(act, op, [x, w, b], activation=act, tolerance="kernel_f32", **more)
    yield case("sum", op, [x, w, b, f(2, 6, 4, 3)], activation="Relu", tolerance="kernel_f32")
    yield case("sum_no_bias", op, [x, w, None, f(2, 6, 4, 3)], activation="Relu", tolerance="kernel_f32")
    yield case("plain", op, [x, w], pads=[1, 1, 1, 1], strides=[2, 1], tolerance="kernel_f32")
    yield case("group", op, [x, f(6, 2, 3, 3), b], group=2, activation="Relu", dilations=[2, 1],
               tolerance="kernel_f32", constants=(1, 2))
    yield case("empty", op, [f(0, 4, 6, 5), w, b], activation="Relu")
    yield case("double", op, [v.astype(np.float64) for v in (x, w, b)], activation="Relu", tolerance="op_f64",
               reference=wide(conv_reference(lambda y: np.maximum(y, 0))))
    h = [v.astype(np.float16) for v in (x, w, b)]
    yield case("f16", op, h, activation="Relu", reference=wide(conv_reference(lambda y: np.maximum(y, 0))))
    last = [np.moveaxis(x, 1, -1).copy(), w, b, f(2, 4, 3, 6)]

    def nhwc(act):
        def run(x, w, b=None, z=None):
            back = conv_reference(lambda y: y)(np.moveaxis(x, -1, 1).copy(), w, b)
            return act(np.moveaxis(back, 1, -1) + (0 if z is None else z))
        return wide(run)
    for name, inputs in (("sum", last), ("bias", last[:3]), ("bare", last[:2])):
        yield case(name, "NhwcFusedConv", inputs, activation="Relu", reference=nhwc(lambda y: np.maximum(y, 0)),
                   tolerance="kernel_f32")
    yield case("f16", "NhwcFusedConv", [v.astype(np.float16) for v in last[:3]], reference=nhwc(lambda y: y))
    yield case("bias", "NhwcConv", last[:3], reference=nhwc(lambda y: y), tolerance="kernel_f32")


def bias_softmaxes():
    op = "BiasSoftmax"

    def flat(axis):
        return wide(lambda x, b: softmax((x + b).reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape))
    for axis, bias, inner in ((3, (2, 1, 1, 5), 1), (2, (1, 3, 4, 5), 0), (1, (3, 4, 5), 0), (3, (5,), 0)):
        yield case(f"{axis}{bias}", op, [f(2, 3, 4, 5), f(*bias)], axis=axis, is_inner_broadcast=inner,
                   reference=flat(axis))
    yield case("negative", op, [f(2, 5), f(5)], axis=-1, is_inner_broadcast=0, reference=flat(1))
    yield case("f16", op, [f(2, 5, t=np.float16), f(2, 5, t=np.float16)], is_inner_broadcast=0, reference=flat(1))
    yield case("double", op, [f(2, 5, t=np.float64), f(2, 5, t=np.float64)], is_inner_broadcast=0, reference=flat(1),
               tolerance="op_f64")


CASES = [*ELEMENTS, *NORMS, *fused_matmuls(), *gemms(), *convs(), *bias_softmaxes()]

REFUSED = [
    (case("bias", "BiasGelu", [f(3, 5), f(4)]), ["B is 4", "expected 5"]),
    (case("bias_rank", "FastGelu", [f(3, 5), f(3, 5)]), ["bias has 2 dims", "expected 1"]),
    (case("skip", "BiasAdd", [f(3, 5), f(5), f(2, 5)]), ["skip is 2", "expected 3"]),
    (case("odd", "BiasSplitGelu", [f(3, 5), f(5)]), ["5 columns", "even"]),
    (case("gate", "GatedAdd", [f(3, 5), f(3, 5), f(3, 5)]), ["gate is 5", "expected 1"]),
    (case("skip", "SkipLayerNormalization", [f(2, 3, 7), f(2, 4, 7), f(7)]), ["skip is 4", "expected 3"]),
    (case("gamma", "SkipLayerNormalization", [f(2, 3, 7), f(2, 3, 7), f(6)]), ["gamma is 6", "expected 7"]),
    (case("bias", "SkipSimplifiedLayerNormalization", [f(2, 7), f(2, 7), f(7), f(3)]), ["bias is 3"]),
    (case("act", "GatedRMSNorm", [f(2, 7), f(7), f(2, 7)], activation="relu"), ["activation is 'relu'"]),
    (case("groups", "GroupNorm", [f(1, 2, 2, 8), f(8), f(8)], groups=3, activation=0), ["8 channels", "3 groups"]),
    (case("rank", "GroupNorm", [f(1, 2, 8), f(8), f(8)], groups=2, activation=0), ["X has 3 dims", "expected 4"]),
    (case("act", "GroupNorm", [f(1, 2, 2, 8), f(8), f(8)], groups=2, activation=2), ["activation is 2"]),
    (case("ids", "EmbedLayerNormalization", [i32(3, 5), None, f(4, 7), f(5, 7), None, f(7), f(7)]),
     ["input_ids has 1 dims", "expected 2"]),
    (case("tables", "EmbedLayerNormalization", [i32(3, 2, 5), None, f(4, 7), f(5, 6), None, f(7), f(7)]),
     ["position_embedding is 6", "expected 7"]),
    (case("inner", "FusedMatMul", [f(3, 4), f(4, 5)], transB=1), ["4 columns", "5 rows"]),
    (case("scalar", "FusedMatMul", [f(), f(4, 5)]), ["scalar"]),
    (case("rank", "FusedGemm", [f(2, 3, 4), f(4, 5)]), ["input 0 has 3 dims"]),
    (case("act", "FusedGemm", [f(3, 4), f(4, 5)], activation="Sinh"), ["activation 'Sinh' is not known"]),
    (case("number", "FusedGemm", [f(3, 4), f(4, 5)], activation="HardSigmoid", activation_alpha=0.5),
     ["HardSigmoid has 1 numbers, expected 2"]),
    (case("clip", "FusedGemm", [f(3, 4), f(4, 5)], activation="Clip"), ["Clip has 0 numbers"]),
    (case("act", "FusedConv", [f(1, 2, 4, 4), f(2, 2, 3, 3)], activation="Nope"), ["activation 'Nope'"]),
    (case("number", "FusedConv", [f(1, 2, 4, 4), f(2, 2, 3, 3)], activation="LeakyRelu"), ["LeakyRelu has 0 numbers"]),
    (case("sum", "FusedConv", [f(1, 2, 4, 4), f(2, 2, 3, 3), None, f(1, 2, 3, 3)]), ["Z is 3", "expected 2"]),
    (case("channels", "FusedConv", [f(1, 3, 4, 4), f(2, 2, 3, 3)]), ["3 channels"]),
    (case("channels", "NhwcFusedConv", [f(1, 4, 4, 3), f(2, 2, 3, 3)]), ["3 channels"]),
    (case("bias", "NhwcConv", [f(1, 4, 4, 2), f(2, 2, 3, 3), f(3)]), ["B is 3", "expected 2"]),
    (case("bias", "BiasSoftmax", [f(2, 5), f(3, 2, 5)], is_inner_broadcast=0), ["bias has 3 dims"]),
    (case("axis", "BiasSoftmax", [f(2, 5), f(5)], axis=2, is_inner_broadcast=0), ["axis"]),
    (case("required", "BiasSoftmax", [f(2, 5), f(5)]), ["is_inner_broadcast"]),
]
