"""Cases of quantized operators of domain com.microsoft."""
import ml_dtypes
import numpy as np

from . import case, stream
from .layers import rms, softmax

R, f, i32 = stream(13)


def codes(t, *shape, lo=None, hi=None):
    info = ml_dtypes.iinfo(t) if np.dtype(t).name in ("int4", "uint4") else np.iinfo(t)
    return R.integers(info.min if lo is None else lo, (info.max if hi is None else hi) + 1, shape).astype(t)


def s(x):
    return np.float32(x)


def z(t, x):
    return np.array(x, t)


def number(x, scale, zero=0):
    return (x.astype(np.float64) - np.float64(zero)) * np.float64(scale)


def coded(y, scale, zero):
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(y / np.float64(scale)) + np.float64(zero), info.min, info.max).astype(zero.dtype)


# ---- elements ----

def elements():
    for t in (np.uint8, np.int8):
        n, shift = np.dtype(t).name, 128 if t is np.uint8 else 3
        for op in ("QLinearAdd", "QLinearMul"):
            for name, a, b in (("same", (3, 5), (3, 5)), ("row", (2, 3, 5), (5,)), ("both", (3, 1), (1, 5)),
                               ("scalar", (4,), ()), ("empty", (0, 3), (3,))):
                tail = [codes(t, *b), s(0.03), z(t, shift - 1), s(0.05), z(t, shift + 1)]
                yield case(f"{name}_{n}", op, [codes(t, *a), s(0.02), z(t, shift), *tail], tolerance="step")
            def plain(a, sa, za, b, sb, zb, sc, zc=None, do=np.add if op == "QLinearAdd" else np.multiply):
                return [coded(do(number(a, sa), number(b, sb)), sc, np.zeros((), a.dtype))]
            yield case(f"no_zeros_{n}", op, [codes(t, 9), s(0.02), None, codes(t, 9), s(0.03), None, s(0.05), None],
                       reference=plain, tolerance="step")  # onnxruntime wants its zero points after all
        yield case(f"alpha_{n}", "QLinearLeakyRelu", [codes(t, 4, 70), s(0.02), z(t, shift), s(0.03), z(t, shift)],
                   alpha=0.1, tolerance="step")
        yield case(f"default_{n}", "QLinearLeakyRelu", [codes(t, 257), s(0.02), None, s(0.03), None], tolerance="step")
        yield case(n, "QLinearSigmoid", [codes(t, 4, 70), s(0.03), z(t, shift), s(1 / 256), z(t, 0)], tolerance="step")
        for axis, opset in ((-1, 13), (1, 13), (1, 12), (2, 11)):
            yield case(f"{n}_{axis}_{opset}", "QLinearSoftmax", [codes(t, 2, 3, 7), s(0.03), z(t, shift), s(1 / 256),
                                                                z(t, 0 if t is np.uint8 else -128)],
                       axis=axis, opset=opset, tolerance="step")
        yield case(n, "QLinearWhere", [R.random((3, 1)) < 0.5, codes(t, 3, 5), s(0.02), z(t, shift), codes(t, 5),
                                       s(0.03), z(t, shift - 2), s(0.04), z(t, shift + 2)], tolerance="step")
        yield case(n, "QLinearConcat", [s(0.03), z(t, shift), codes(t, 2, 3), s(0.02), z(t, shift - 1), codes(t, 2, 4),
                                        s(0.03), z(t, shift), codes(t, 2, 1), s(0.05), z(t, shift + 1)], axis=1,
                   tolerance="step")
        for keep in (0, 1):
            def mean(x, sx, zx, sy, zy, keep=keep):
                return [coded(number(x, sx, zx).mean((1, 3), keepdims=bool(keep)), sy, zy)]
            yield case(f"{n}{keep}", "QLinearReduceMean", [codes(t, 2, 3, 4, 5), s(0.02), z(t, shift), s(0.01),
                                                           z(t, shift)], axes=[1, -1], keepdims=keep, reference=mean,
                       tolerance="step")


# ---- pools ----

def pools():
    for t in (np.uint8, np.int8):
        n, zero = np.dtype(t).name, 128 if t is np.uint8 else 0
        for last in (0, 1):
            x = codes(t, 2, 6, 7, 3) if last else codes(t, 2, 3, 6, 7)
            yield case(f"{n}{last}", "QLinearGlobalAveragePool", [x, s(0.02), z(t, zero), s(0.015), z(t, zero + 1)],
                       channels_last=last, tolerance="step")
            for name, how in (("plain", {}), ("pads", {"pads": [1, 0, 1, 1], "strides": [2, 1]}),
                              ("counts", {"pads": [1, 1, 1, 1], "count_include_pad": 1}),
                              ("ceil", {"strides": [2, 2], "ceil_mode": 1})):
                yield case(f"{name}_{n}{last}", "QLinearAveragePool", [x, s(0.02), z(t, zero), s(0.0173), z(t, zero)],
                           kernel_shape=[3, 2], channels_last=last, tolerance="step", **how)
        for name, how in (("plain", {}), ("pads", {"pads": [1, 0, 1, 1], "strides": [2, 1]}),
                          ("dilated", {"dilations": [2, 2]}), ("same", {"auto_pad": "SAME_UPPER", "strides": [2, 2]})):
            yield case(f"{name}_{n}", "NhwcMaxPool", [codes(t, 2, 6, 7, 3)], kernel_shape=[3, 2], **how)


# ---- sums ----

def products():
    for ta, tb in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
        name = f"{np.dtype(ta).name}_{np.dtype(tb).name}"
        lo, hi = (-64, 63) if tb is np.int8 else (None, None)  # see attentions.py
        A, B = codes(ta, 3, 5), codes(tb, 5, 4, lo=lo, hi=hi)
        za, zb, row = z(ta, 7), z(tb, 3), R.uniform(0.01, 0.03, 4).astype(np.float32)
        op = "MatMulIntegerToFloat"
        yield case(f"{name}", op, [A, B, s(0.02), s(0.03), za, zb, f(4)])
        yield case(f"{name}_bare", op, [A, B, s(0.02), s(0.03)])
        yield case(f"{name}_rows", op, [A, B, s(0.02), row, za, codes(tb, 4, lo=0, hi=9), f(4)], constants=(1,))
        yield case(f"{name}_batch", op, [codes(ta, 2, 3, 5), B, s(0.02), row, None, None, f(4)])
        op = "QGemm"
        C = i32(1000, 4) - 500
        yield case(f"{name}", op, [A, s(0.02), za, B, s(0.03), zb, C, s(0.1), z(ta, 9)], tolerance="step")
        yield case(f"{name}_float", op, [A, s(0.02), za, B, s(0.03), zb, C], alpha=0.5)
        yield case(f"{name}_no_c", op, [A, s(0.02), za, B, row, np.full(4, zb), None, s(0.1), z(ta, 9)],
                   tolerance="step")
        yield case(f"{name}_turned", op, [A.T.copy(), s(0.02), za, B.T.copy(), row, codes(tb, 4, lo=0, hi=9), C],
                   transA=1, transB=1, constants=(3,))
    h = [x.astype(np.float16) for x in (s(0.02), s(0.03), f(4))]

    def half(A, B, sa, sb, za, zb, bias):
        y = (A.astype(int) - int(za)) @ (B.astype(int) - int(zb)) * (np.float64(sa) * np.float64(sb)) + bias
        return [y.astype(np.float16)]
    yield case("f16", "MatMulIntegerToFloat", [A, B, h[0], h[1], za, zb, h[2]], reference=half)
    for tb in (np.int8, np.uint8):
        B = codes(tb, 5, 4, lo=-64 if tb is np.int8 else 0, hi=63)
        op, n = "DynamicQuantizeMatMul", np.dtype(tb).name
        yield case(n, op, [f(3, 5), B, s(0.03)])
        yield case(f"{n}_whole", op, [f(2, 3, 5), B, row, codes(tb, 4, lo=0, hi=9), f(4)], constants=(1, 2, 3))
        yield case(f"{n}_zero", op, [f(3, 5), B, s(0.03), z(tb, 5)])


def convs():
    op = "QLinearConv"
    for tx, tw in ((np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)):
        name = f"{np.dtype(tx).name}_{np.dtype(tw).name}"
        x, w = codes(tx, 2, 4, 6, 5), codes(tw, 6, 4, 3, 3, lo=-64 if tw is np.int8 else 0, hi=63)
        tail = [s(0.02), z(tx, 5), w, s(0.01), z(tw, 2 if tw is np.uint8 else 0), s(0.3), z(tx, 7), i32(1000, 6)]
        last = np.moveaxis(x, 1, -1).copy()
        yield case(f"{name}_first", op, [x, *tail], tolerance="step")
        yield case(f"{name}_last", op, [last, *tail], channels_last=1, tolerance="step")
        yield case(f"{name}_bare", op, [last, *tail[:-1]], channels_last=1, pads=[1, 1, 1, 1], strides=[2, 1],
                   constants=(3,), tolerance="step")
        grouped = [*tail[:2], w[:, :2].copy(), R.uniform(0.01, 0.02, 6).astype(np.float32), np.zeros(6, tw), *tail[5:]]
        yield case(f"{name}_groups", op, [last, *grouped], channels_last=1, group=2, tolerance="step",
                   constants=(3, 4, 5))


# ---- LSTM: onnxruntime quantizes the states of all rows together, or of those of a thread; nacre each for itself ----

def by_range(x):
    """The numbers that codes 0 to 255 stand for, which reach over the range of each row of x and 0."""
    low, high = np.minimum(0, x.min(-1, keepdims=True)), np.maximum(0, x.max(-1, keepdims=True))
    scale = np.where(low == high, np.float32(1), (high - low) / np.float32(255))
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return (np.clip(np.rint(np.float32(x) / scale) + zero, 0, 255) - zero) * scale.astype(np.float64)


def one_direction(x, w, r, b, lens, h, c):
    """x (T,B,I), w and r as numbers of rows by gates i o f c; the states behind every step, and the last ones."""
    T, H = len(x), h.shape[1]
    sums, ys = by_range(x.reshape(1, -1)).reshape(x.shape) @ w + b[:4 * H] + b[4 * H:], np.zeros((T, *h.shape))
    sigmoid = (lambda v: 1 / (1 + np.exp(-v)))
    for t in range(T):
        i, o, g, new = np.split(sums[t] + by_range(np.float32(h)) @ r, 4, -1)
        next_c = sigmoid(g) * c + sigmoid(i) * np.tanh(new)
        live = (t < lens)[:, None]
        c, h = np.where(live, next_c, c), np.where(live, sigmoid(o) * np.tanh(next_c), h)
        ys[t] = np.where(live, h, 0)
    return ys, h, c


def backwards(x, lens):
    """The steps of each row in turned order; those behind its end stay."""
    at = np.arange(len(x))[:, None]
    return np.take_along_axis(x, np.where(at < lens, lens - 1 - at, at)[..., None], 0)


def dynamic_lstm(direction, wanted):
    def run(x, w, r, b, lens, h, c, p, sw, zw, sr, zr):
        D, H, (T, B, _) = len(w), r.shape[1], x.shape
        column = (lambda q: q[:, None, None] if q.ndim == 1 else q[:, None, :])
        W, R_ = number(w, column(sw), column(zw)), number(r, column(sr), column(zr))
        lens = np.full(B, T) if lens is None else lens
        b, h, c = (np.zeros(s) if v is None else v for v, s in ((b, (D, 8 * H)), (h, (D, B, H)), (c, (D, B, H))))
        outs = []
        for d in range(D):
            back = d == 1 or direction == "reverse"
            ys, yh, yc = one_direction(backwards(x, lens) if back else x, W[d], R_[d], b[d], lens, h[d], c[d])
            outs.append((backwards(ys, lens) if back else ys, yh, yc))
        found = [np.stack([o[k] for o in outs], 1 if k == 0 else 0).astype(np.float32) for k in range(3)]
        return [v for v, want in zip(found, wanted) if want]
    return run


def lstms():
    T, B, I, H = 4, 2, 3, 5
    for t in (np.int8, np.uint8):
        for direction, D in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            for per in ((D,), (D, 4 * H)):
                zero = codes(t, *per, lo=0, hi=3)
                scale = R.uniform(0.005, 0.01, per).astype(np.float32)
                how = {"hidden_size": H, "direction": direction}
                inputs = [f(T, B, I), codes(t, D, I, 4 * H), codes(t, D, H, 4 * H), f(D, 8 * H), np.int32([4, 3]),
                          f(D, B, H), f(D, B, H), None, scale, zero, scale, zero]
                for kind, constants in (("", ()), ("_packed", (1, 2))):
                    yield case(f"{np.dtype(t).name}_{direction}_{len(per)}{kind}", "DynamicQuantizeLSTM", inputs,
                               outputs=3, reference=dynamic_lstm(direction, [True] * 3), constants=constants,
                               tolerance="recurrent_f32", **how)
        # One row, codes of 7 bits: onnxruntime's own numbers, on every processor, but for states between two codes.
        seven = [codes(t, D, n, 4 * H, lo=-64 if t is np.int8 else 0, hi=63) for n in (I, H)]
        yield case(f"{np.dtype(t).name}_one_row", "DynamicQuantizeLSTM",
                   [f(T, 1, I), *seven, f(D, 8 * H), None, f(D, 1, H), f(D, 1, H), None, scale[:, 0].copy(),
                    zero[:, 0].copy(), scale[:, 1].copy(), zero[:, 1].copy()], outputs=3,
                   constants=(1, 2, 8, 9, 10, 11), tolerance="quantized_model", **how)
    bare = [*inputs[:3], *[None] * 5, *inputs[8:]]
    yield case("bare", "DynamicQuantizeLSTM", bare, outputs=[True], reference=dynamic_lstm(direction, [True]),
               tolerance="recurrent_f32", **how)


# ---- numbers to codes and back ----

def linears():
    row = R.uniform(0.02, 0.05, 4).astype(np.float32)
    for t in (np.uint8, np.int8, np.uint16, np.int16):
        n = np.dtype(t).name
        yield case(n, "QuantizeLinear", [f(3, 4), s(0.03), z(t, 5)])
        yield case(f"{n}_row", "QuantizeLinear", [f(3, 4), row, codes(t, 4, lo=0, hi=9)], axis=1)
        yield case(f"{n}_column", "QuantizeLinear", [f(4, 3), row, codes(t, 4, lo=0, hi=9)], axis=0)
        yield case(n, "DequantizeLinear", [codes(t, 3, 4), s(0.03), z(t, 5)])
        yield case(f"{n}_row", "DequantizeLinear", [codes(t, 3, 4), row, codes(t, 4, lo=0, hi=9)], axis=1)
        yield case(f"{n}_no_zero", "DequantizeLinear", [codes(t, 3, 4), s(0.03)])
        yield case(f"{n}_f16", "DequantizeLinear", [codes(t, 3, 4), np.float16(0.5), z(t, 5)],
                   reference=lambda x, k, q: [number(x, k, q).astype(np.float16)])
        yield case(f"{n}_f16", "QuantizeLinear", [f(3, 4, t=np.float16), np.float16(0.5), z(t, 5)],
                   reference=lambda x, k, q: [coded(x.astype(np.float64), k, q)])
    yield case("default", "QuantizeLinear", [f(3, 4, lo=0), s(0.03)])
    yield case("int32", "DequantizeLinear", [i32(1000, 3, 4), s(0.03)])
    for t in (ml_dtypes.int4, ml_dtypes.uint4):
        yield case(np.dtype(t).name, "DequantizeLinear", [codes(t, 3, 5), s(0.3), z(t, 1)], constants=(0, 2),
                   reference=lambda x, k, q: [number(x.astype(int), k, int(q)).astype(np.float32)])


# ---- blocks of few bits ----

def packed(q, bits):
    """Codes (..., n) in bytes (..., ceil(n * bits / 8)), low bits first."""
    per = 8 // bits
    q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % per)]).astype(np.int64)
    parts = q.reshape(*q.shape[:-1], -1, per)
    return (parts << (np.arange(per) * bits)).sum(-1).astype(np.uint8)


def unpacked(bytes_, bits, rows):
    return (bytes_.reshape(rows, -1, 1) >> (np.arange(8 // bits) * bits) & 2 ** bits - 1).reshape(rows, -1)


def few_bits(M, N, K, block, bits, zeros="none", groups=False, bias=False, t=np.float32):
    blocks = -(-K // block)
    q = R.integers(0, 2 ** bits, (N, blocks, block))
    scales = R.uniform(0.01, 0.05, (N, blocks)).astype(t)
    z = R.integers(0, 2 ** bits, (N, blocks))
    g = (R.permutation(K) % blocks).astype(np.int32) if groups else None
    a = f(*M, K, t=t)
    b = f(N, t=t) if bias else None
    given = {"none": None, "packed": packed(z, bits), "float": (z + 0.5).astype(t)}[zeros]

    def run(a, codes, scales, zeros=None, at=None, bias=None):
        at = np.arange(K) // block if at is None else at
        zero = np.full((N, blocks), 2 ** (bits - 1)) if zeros is None else (
            unpacked(zeros, bits, N) if zeros.dtype == np.uint8 else zeros.reshape(N, blocks).astype(np.float64))
        w = (unpacked(codes, bits, N)[:, :K] - zero[:, at]) * scales.reshape(N, blocks).astype(np.float64)[:, at]
        return [(a.astype(np.float64) @ w.T + (0 if bias is None else bias.astype(np.float64))).astype(t)]
    inputs = [a, packed(q, bits), scales, given, g, b]
    while inputs[-1] is None:
        inputs.pop()
    return inputs, run


def nbits():
    op = "MatMulNBits"
    for bits in (2, 4, 8):
        for zeros in ("none", "packed", "float"):
            for name, M, N, K, block in (("one", (1,), 5, 32, 32), ("some", (3,), 40, 50, 16),
                                         ("batch", (2, 3), 7, 96, 32)):
                inputs, run = few_bits(M, N, K, block, bits, zeros, bias=name == "some")
                # onnxruntime's CPU has no float zero points of 2 bits, and with fewer columns than blocks hold none
                peer = bits == 4 and zeros != "float" and K % block == 0
                yield case(f"{name}_{bits}_{zeros}", op, inputs, constants=(1, 2, 3), K=K, N=N, bits=bits,
                           block_size=block, tolerance="long_sum_f32" if peer else "model_f32",
                           reference=None if peer else run)
        inputs, run = few_bits((3,), 6, 64, 16, bits, "packed", groups=True, bias=True)
        yield case(f"groups_{bits}", op, inputs, K=64, N=6, bits=bits, block_size=16, tolerance="model_f32",
                   reference=run)
    for t in (np.float16, ml_dtypes.bfloat16):
        inputs, run = few_bits((3,), 6, 64, 16, 4, "packed", bias=True, t=t)
        yield case(np.dtype(t).name, op, inputs, K=64, N=6, block_size=16, reference=run)
    inputs, run = few_bits((3,), 6, 64, 16, 4, "packed", bias=True, t=np.float64)
    yield case("double", op, inputs, K=64, N=6, block_size=16, reference=run, tolerance="op_f64")
    inputs, run = few_bits((0,), 6, 64, 16, 4)
    yield case("empty", op, inputs, K=64, N=6, block_size=16, reference=run)


def bnb4(M, N, K, block, kind, t=np.float32, turned=True):
    """Weights as bitsandbytes packs them: high half first, blocks over ends of rows."""
    fp4 = [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
    nf4 = [-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302,
           0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1]
    table = np.array([fp4 + [-x for x in fp4], nf4][kind])
    q, most = R.integers(0, 16, -(-N * K // 2) * 2), R.uniform(0.5, 2, -(-N * K // block)).astype(t)

    def run(a, codes, most):
        values = table[np.stack([codes >> 4, codes & 15], -1).ravel()[:N * K]]
        w = (values * np.repeat(most.ravel().astype(np.float64), block)[:N * K]).reshape(N, K)
        return [(a.astype(np.float64) @ (w.T if turned else w)).astype(t)]
    a = f(*M, K if turned else N, t=t)
    inputs = [a, (q[::2] << 4 | q[1::2]).astype(np.uint8), most]
    return inputs, run


def bnb4s():
    for kind in (0, 1):
        for name, M, N, K, block in (("one", (1,), 1, 16, 16), ("odd", (3,), 5, 7, 16), ("some", (2, 3), 24, 48, 64)):
            inputs, run = bnb4(M, N, K, block, kind)
            how = {"K": K, "N": N, "block_size": block, "quant_type": kind}
            yield case(f"{name}_{kind}", "MatMulBnb4", inputs, constants=(1, 2), tolerance="long_sum_f32", **how)
            yield case(f"{name}_{kind}_fed", "MatMulBnb4", inputs, tolerance="model_f32", reference=run, **how)
        inputs, run = bnb4((3,), 6, 32, 32, kind, np.float16)
        yield case(f"half_{kind}", "MatMulBnb4", inputs, K=32, N=6, block_size=32, quant_type=kind, reference=run)
    inputs, run = bnb4((3,), 6, 32, 32, 1, turned=False)
    yield case("as_it_lies", "MatMulBnb4", inputs, K=32, N=6, block_size=32, quant_type=1, transB=0, reference=run,
               tolerance="model_f32")
    inputs, run = bnb4((0,), 6, 32, 32, 1)
    yield case("no_rows", "MatMulBnb4", inputs, K=32, N=6, block_size=32, quant_type=1, reference=run)


def gathers():
    op = "GatherBlockQuantized"
    at = np.int64([[3, 0, 2]])
    for t, bits in ((ml_dtypes.uint4, 4), (ml_dtypes.int4, 4), (np.uint8, 4), (np.uint8, 8)):
        low, n = (-8 if t is ml_dtypes.int4 else 0), np.dtype(t).name
        q, zero = R.integers(low, low + 2 ** bits, (5, 64)), R.integers(low, low + 2 ** bits, (5, 4))
        scales = R.uniform(0.01, 0.05, (5, 4)).astype(np.float32)
        store = (lambda v: v.astype(t)) if t is not np.uint8 else (lambda v: packed(v, bits))
        how = {} if t is not np.uint8 else {"bits": bits}
        whole = [store(q), at, scales, store(zero)]
        held = (0, 3) if t is not np.uint8 else ()
        yield case(f"{n}_{bits}", op, whole, block_size=16, constants=held, **how)
        yield case(f"{n}_{bits}_int32", op, [whole[0], at.astype(np.int32)[0], *whole[2:]], block_size=16,
                   constants=held, **how)
        yield case(f"{n}_{bits}_no_zeros", op, whole[:3], block_size=16, constants=held[:1], **how)
        yield case(f"{n}_{bits}_f16", op, [whole[0], at, scales.astype(np.float16), whole[3]], block_size=16,
                   constants=held, **how)
        if t is not np.uint8:
            other = [store(q.T.copy()), at, scales.T.copy(), store(zero.T.copy())]
            yield case(f"{n}_axes", op, other, gather_axis=1, quantize_axis=0, block_size=16, constants=held)


def fused_nbits():
    """Several MatMulNBits of one input; WebGPU alone has these in onnxruntime."""
    K, block = 32, 16
    how = {"K": K, "block_size": block, "tolerance": "recurrent_f32"}

    def layer(N, biased=True):
        steps = f(N * K // block, lo=0.01, hi=0.03)
        return [codes(np.uint8, N, K // block, block // 2), steps, f(N) if biased else None]

    def product(x, packed, scales, bias):
        w = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1, block) - 8.0
        y = x @ (w * scales.reshape(len(packed), -1, 1)).reshape(len(packed), K).T
        return y if bias is None else y + bias

    def normed(a, skip, scale, eps):
        total = a.astype(np.float64) + (0 if skip is None else skip)
        return total, total if scale is None else rms(total, eps) * scale

    def qkv(a, skip, scale, *layers):
        total, x = normed(a, skip, scale, 1e-6)
        out = [product(x, *layers[3 * k:3 * k + 3]) for k in range(3)]
        return [y.astype(np.float32) for y in (out if skip is None else [*out, total])]

    def mlp(a, skip, scale, *layers):
        total, x = normed(a, skip, scale, 1e-5)
        gate, up = (product(x, *(*layers, None)[3 * k:3 * k + 3]) for k in range(2))
        y = gate / (1 + np.exp(-gate)) * up
        return [y.astype(np.float32) for y in ([y] if skip is None else [y, total])]
    a, skip, scale = f(2, 3, K), f(2, 3, K), f(K)
    layers = [*layer(6), *layer(4), *layer(4, biased=False)[:2]]
    yield case("plain", "MatMulNBitsQkv", [a, None, scale, *layers, f(4)], outputs=3, Nq=6, Nkv=4, reference=qkv, **how)
    yield case("skip", "MatMulNBitsQkv", [a, skip, scale, *layers, None], outputs=4, Nq=6, Nkv=4, reference=qkv, **how)
    pair = [*layer(5), *layer(5)]
    for name, more, n in (("bare", [None, None], 1), ("norm", [None, scale], 1), ("skip", [skip, scale], 2)):
        yield case(name, "MatMulNBitsMlp", [a, *more, *pair], outputs=n, N=5, activation="silu", reference=mlp, **how)


def branches():
    def branchwise(x, scale=None, n=0, eps=1e-5):
        parts = x.astype(np.float64).reshape(*x.shape[:-1], n, -1) if n else x.astype(np.float64)
        y = rms(parts, eps)
        if scale is not None:
            y = y * (scale.reshape(-1, parts.shape[-1]) if scale.ndim == 1 else scale)
        return [y.reshape(x.shape).astype(x.dtype)]
    for name, scale in (("all", f(12)), ("grid", f(3, 4)), ("one", f(4)), ("none", None)):
        yield case(name, "BranchwiseRMSNorm", [f(2, 3, 4), scale] if scale is not None else [f(2, 3, 4)],
                   reference=branchwise)
        yield case(f"flat {name}", "BranchwiseRMSNorm", [f(2, 12), scale] if scale is not None else [f(2, 12)],
                   num_branches=3, epsilon=1e-3, reference=lambda *o: branchwise(*o, n=3, eps=1e-3))

    def silu(x, scale=None, alpha=1.0):
        z = x.astype(np.float64) * (alpha if scale is None else scale)
        return [(z / (1 + np.exp(-z))).astype(x.dtype)]
    yield case("plain", "ScaledSiLU", [f(3, 7)], reference=silu)
    yield case("alpha", "ScaledSiLU", [f(3, 7)], alpha=1.7, reference=lambda x: silu(x, alpha=1.7))
    yield case("scale", "ScaledSiLU", [f(3, 7), np.float32(-0.6)], reference=silu)
    yield case("f16", "ScaledSiLU", [f(3, 7).astype(np.float16), np.float32(2)], reference=silu)


CASES = [*nbits(), *bnb4s(), *gathers(), *elements(), *pools(), *products(), *convs(), *lstms(), *linears(),
         *fused_nbits(), *branches()]

U = np.uint8
NB = {"K": 32, "N": 4, "block_size": 16}
REFUSED = [
    (case("skip", "MatMulNBitsMlp", [f(2, 32), f(2, 32), None, codes(U, 4, 2, 8), f(8), None, codes(U, 4, 2, 8), f(8)],
          activation="silu", **NB), ["norm_scale is absent"]),
    (case("act", "MatMulNBitsMlp", [f(2, 32), None, None, codes(U, 4, 2, 8), f(8), None, codes(U, 4, 2, 8), f(8)],
          activation="tanh", **NB), ["activation is 'tanh'"]),
    (case("branches", "BranchwiseRMSNorm", [f(2, 10)], num_branches=3), ["10 columns", "3 branches"]),
    (case("scale", "ScaledSiLU", [f(2, 10), f(2, 1)]), ["scale has 2 dims"]),
    (case("bits", "MatMulNBits", few_bits((2,), 4, 32, 16, 4)[0], bits=3, **NB), ["bits is 3"]),
    (case("block", "MatMulNBits", few_bits((2,), 4, 32, 16, 4)[0], K=32, N=4, block_size=24), ["block_size is 24"]),
    (case("packed", "MatMulNBits", few_bits((2,), 5, 32, 16, 4)[0], **NB), ["B has 80 elements, expected 64"]),
    (case("columns", "MatMulNBits", [f(2, 31), *few_bits((2,), 4, 32, 16, 4)[0][1:]], **NB),
     ["A is 31", "expected 32"]),
    (case("scales", "MatMulNBits", [f(2, 32), codes(U, 4, 2, 8), f(7)], **NB), ["scales has 7 elements, expected 8"]),
    (case("zeros", "MatMulNBits", [f(2, 32), codes(U, 4, 2, 8), f(8), codes(U, 3)], **NB),
     ["zero_points has 3 elements, expected 4"]),
    (case("prepacked", "MatMulNBits", few_bits((2,), 4, 32, 16, 4)[0], weight_prepacked=1, **NB),
     ["weight_prepacked is 1"]),
    (case("kind", "MatMulBnb4", bnb4((2,), 4, 32, 16, 0)[0], quant_type=2, **NB), ["quant_type is 2"]),
    (case("bytes", "MatMulBnb4", bnb4((2,), 5, 32, 16, 0)[0], quant_type=0, **NB), ["B has 80 elements, expected 64"]),
    (case("axes", "GatherBlockQuantized", [codes(U, 5, 32), np.int64([1]), f(5, 4)], quantize_axis=0, block_size=16),
     ["gather_axis and quantize_axis are both 0"]),
    (case("scales", "GatherBlockQuantized", [codes(U, 5, 32), np.int64([1]), f(5, 3)], block_size=16),
     ["scales is 3", "expected 4"]),
    (case("spread", "QLinearAdd", [codes(U, 3), s(1), z(U, 0), codes(U, 4), s(1), z(U, 0), s(1), z(U, 0)]), ["3", "4"]),
    (case("scale", "QLinearMul", [codes(U, 3), np.float32([1, 2]), z(U, 0), codes(U, 3), s(1), z(U, 0), s(1), z(U, 0)]),
     ["A_scale is 2", "expected 1"]),
    (case("triples", "QLinearConcat", [s(1), z(U, 0), codes(U, 3), s(1)], axis=0), ["2 inputs behind Y_zero_point"]),
    (case("dims", "QLinearConcat", [s(1), z(U, 0), codes(U, 3, 2), s(1), z(U, 0), codes(U, 3, 4), s(1), z(U, 0)],
          axis=0), ["is 4", "expected 2"]),
    (case("axis", "QLinearSoftmax", [codes(U, 3), s(1), z(U, 0), s(1), z(U, 0)], axis=1, opset=13), ["axis"]),
    (case("rank", "QLinearGlobalAveragePool", [codes(U, 3, 4), s(1), z(U, 0), s(1), z(U, 0)]), ["2 dims"]),
    (case("kernel", "NhwcMaxPool", [codes(U, 1, 5, 5, 2)], kernel_shape=[3]), ["kernel_shape"]),
    (case("inner", "MatMulIntegerToFloat", [codes(U, 3, 5), codes(U, 4, 2), s(1), s(1)]), ["5 columns", "4 rows"]),
    (case("scale", "MatMulIntegerToFloat", [codes(U, 3, 5), codes(U, 5, 2), s(1), f(3)]), ["b_scale is 3"]),
    (case("bias", "DynamicQuantizeMatMul", [f(3, 5), codes(U, 5, 2), s(1), None, f(3)]), ["bias is 3", "expected 2"]),
    (case("pair", "QGemm", [codes(U, 3, 5), s(1), z(U, 0), codes(U, 5, 2), s(1), z(U, 0), None, s(1)]),
     ["y_scale and y_zero_point"]),
    (case("inner", "QGemm", [codes(U, 3, 5), s(1), z(U, 0), codes(U, 4, 2), s(1), z(U, 0)]), ["5 columns", "4 rows"]),
    (case("channels", "QLinearConv", [codes(U, 1, 5, 5, 3), s(1), z(U, 0), codes(U, 2, 4, 3, 3), s(1), z(U, 0), s(1),
                                      z(U, 0)], channels_last=1), ["3 channels"]),
    (case("directions", "DynamicQuantizeLSTM", [f(2, 1, 3), codes(U, 1, 3, 8), codes(U, 1, 2, 8), *[None] * 5, f(1),
                                                codes(U, 1), f(1), codes(U, 1)], direction="bidirectional",
          hidden_size=2), ["W is 1", "expected 2"]),
    (case("scale", "QuantizeLinear", [f(3, 4), f(3), codes(U, 3)], axis=1), ["is 3", "expected 4"]),
]
