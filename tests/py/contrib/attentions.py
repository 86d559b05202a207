"""Cases of attention and rotary embeddings of domain com.microsoft."""
import ml_dtypes
import numpy as np

from . import by_onnxruntime, case, stream
from .layers import BF16, rms, softmax

R, f, i32 = stream(11)
B, S, H, D = 2, 3, 2, 4
N = H * D


def i(*values):
    return np.array(values, np.int32)


def heads(x, n=H):
    return x.reshape(x.shape[0], x.shape[1], n, -1).transpose(0, 2, 1, 3)


def joined(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attend(q, k, v, bias=0, causal=False):
    """q, k, v (B,H,.,D) in double."""
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + bias
    if causal:
        rows, columns = s.shape[-2:]
        s = np.where(np.tril(np.ones((rows, columns), bool), columns - rows), s, -np.inf)
    return softmax(s) @ v


def doubled(*xs):
    return [x.astype(np.float64) for x in xs]


# ---- Attention, QAttention ----

def sees(*shape):
    """Every query sees key 0: scores of -10000 and something have lost the something."""
    return np.where(np.arange(shape[-1]) > 0, R.random(shape) < 0.6, True).astype(np.int32)


MASKS = {"ends": lambda t: i(t, t - 2), "ends_starts": lambda t: i(t, t - 1, 0, 1),
         "lens": lambda t: i(t, 2, 0, 3, 6, 0, 3, 6),
         "keys": lambda t: sees(B, t), "pairs": lambda t: sees(B, S, t)}


def selfs():
    x, w, b = f(B, S, 5), f(5, 3 * N, lo=-1, hi=1), f(3 * N)
    op, base = "Attention", {"num_heads": H}
    past = f(2, B, H, 2, D)
    yield case("plain", op, [x, w, b], **base)

    def bare(x, w):  # onnxruntime crashes
        x, w = doubled(x, w)
        return [joined(attend(*(heads(p) for p in np.split(x @ w, 3, -1)))).astype(np.float32)]
    yield case("no_bias", op, [x, w], reference=bare, **base)
    yield case("held", op, [x, w, b], constants=(1, 2), **base)
    yield case("one_row", op, [x[:, :1], w, b], **base)
    yield case("scale", op, [x, w, b], scale=0.3, **base)
    yield case("causal", op, [x, w, b], unidirectional=1, **base)
    yield case("present", op, [x, w, b], outputs=2, **base)
    for name, mask in MASKS.items():
        for filter in ({}, {"mask_filter_value": -2.5}):
            yield case(f"mask_{name}{len(filter)}", op, [x, w, b, mask(S)], **base, **filter)
        if name != "lens":
            yield case(f"mask_{name}_past", op, [x, w, b, mask(S + 2), past], outputs=2, **base)
    yield case("mask_causal", op, [x, w, b, MASKS["keys"](S)], unidirectional=1, **base)
    yield case("past", op, [x, w, b, None, past], outputs=2, unidirectional=1, **base)
    yield case("bias", op, [x, w, b, None, None, f(B, H, S, S)], **base)
    yield case("bias_spread", op, [x, w, b, None, None, f(1, 1, S, S)], **base)
    yield case("bias_mask", op, [x, w, b, MASKS["keys"](S), None, f(1, H, S, S)], **base)
    yield case("sizes", op, [x, f(5, 2 * N + 6), f(2 * N + 6)], qkv_hidden_sizes=[N, N, 6], **base)
    tall = (R.random((B, 1, 7, 7)) < 0.7).astype(np.int32)

    def megatron(x, w, b, mask):
        x, w, b = doubled(x, w, b)
        q, k, v = (heads(p) for p in np.split(x @ w + b, 3, -1))
        return [joined(attend(q, k, v, np.where(mask[:, :, :S, :S] > 0, 0, -10000))).astype(np.float32)]
    yield case("mask_all_places", op, [x, w, b, tall], reference=megatron, tolerance="long_sum_f32", **base)
    for t in (np.float16, BF16, np.float64):
        def plain(x, w, b, t=t):
            x, w, b = doubled(x, w, b)
            return [joined(attend(*(heads(p) for p in np.split(x @ w + b, 3, -1)))).astype(t)]
        yield case(np.dtype(t).name, op, [(x / 2).astype(t), w.astype(t), b.astype(t)], reference=plain, **base,
                   tolerance={np.float64: "op_f64", np.float16: "device_f16", BF16: "device_bf16"}[t])


def quantized_selfs():
    op, base = "QAttention", {"num_heads": H}
    b = f(3 * N)

    def exact(x, w, b, sx, sw, mask=None, zx=0, zw=0):
        y = (x.astype(np.int64) - zx) @ (w.astype(np.int64) - zw) * (sx.astype(np.float64) * sw) + b
        return [joined(attend(*(heads(p) for p in np.split(y, 3, -1)))).astype(np.float32)]
    for tx, tw in ((np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)):
        base["reference"] = exact if tx is np.int8 else None  # onnxruntime has no such kernel
        x = R.integers(np.iinfo(tx).min, np.iinfo(tx).max, (B, S, 5)).astype(tx)
        # Sums of products of the whole range overflow in onnxruntime where the processor has no VNNI.
        w = R.integers(*((-64, 64) if tw is np.int8 else (0, 256)), (5, 3 * N)).astype(tw)
        sx, sw = np.float32([0.01]), np.float32([0.02])
        zx, zw = np.array([7], tx), np.array([3], tw)
        name = f"{np.dtype(tx).name}_{np.dtype(tw).name}"
        yield case(name, op, [x, w, b, sx, sw, None, zx, zw], **base)
        yield case(f"{name}_bare", op, [x, w, b, sx, sw], **base)
        yield case(f"{name}_columns", op, [x, w, b, sx, R.uniform(0.01, 0.03, 3 * N).astype(np.float32), None, zx,
                                          R.integers(0, 5, 3 * N).astype(tw)], **base)
    yield case("mask_past", op, [x, w, b, sx, sw, MASKS["keys"](S + 2), zx, zw, f(2, B, H, 2, D)], outputs=2,
               unidirectional=1, constants=(1, 3, 4, 6, 7), **base)


# ---- MultiHeadAttention ----

def multis():
    op, base = "MultiHeadAttention", {"num_heads": H}
    T, V = 5, 6
    q, k, v = f(B, S, N), f(B, T, N), f(B, T, V)
    bias = f(2 * N + V)
    yield case("plain", op, [q, k, v], **base)
    yield case("bias", op, [q, k, v, bias], **base)
    yield case("scale", op, [q, k, v], scale=0.2, **base)
    yield case("causal", op, [q, k[:, :S], v[:, :S]], unidirectional=1, **base)
    yield case("one_key", op, [q, k[:, :1], v[:, :1]], **base)
    yield case("present", op, [q, k, v, bias], outputs=3, **base)
    yield case("scores", op, [q, k, v, bias], outputs=4, types={3: np.float32}, **base)

    def packed(x):  # these two are not on onnxruntime's CPU
        return [joined(attend(*(x[:, :, :, p].astype(np.float64).transpose(0, 2, 1, 3) for p in range(3)))
                       ).astype(np.float32)]

    def packed_kv(q, kv):
        k, v = (kv[:, :, :, p].astype(np.float64).transpose(0, 2, 1, 3) for p in range(2))
        return [joined(attend(heads(q.astype(np.float64)), k, v)).astype(np.float32)]
    yield case("packed", op, [f(B, S, H, 3, D)], reference=packed, **base)
    yield case("packed_kv", op, [q, f(B, T, H, 2, D)], reference=packed_kv, **base)
    yield case("heads_first", op, [q, heads(k).copy(), heads(f(B, T, N)).copy()], **base)
    yield case("heads_first_bias", op, [q, heads(k).copy(), heads(f(B, T, N)).copy(), f(3 * N)], **base)
    for name, mask in MASKS.items():
        if name != "ends_starts":
            yield case(f"mask_{name}", op, [q, k, v, None, mask(T)], mask_filter_value=-3.0, **base)
    yield case("mask_default", op, [q, k, v, None, MASKS["keys"](T)], **base)
    yield case("attention_bias", op, [q, k, v, None, None, f(B, H, S, T)], **base)
    yield case("attention_bias_spread", op, [q, k, v, bias, MASKS["keys"](T), f(1, 1, S, T)], **base)
    past, w = [f(B, H, 2, D), f(B, H, 2, D)], f(B, S, N)
    yield case("past", op, [q, k[:, :S], w, None, None, None, *past], outputs=3, **base)
    yield case("past_mask", op, [q, k[:, :S], w, f(3 * N), MASKS["keys"](S + 2), f(B, H, S, S + 2), *past],
               outputs=3, unidirectional=1, **base)
    yield from rooms(op, base)
    for t in (np.float16, BF16, np.float64):
        def plain(q, k, v, t=t):
            return [joined(attend(*(heads(p) for p in doubled(q, k, v)))).astype(t)]
        yield case(np.dtype(t).name, op, [x.astype(t) for x in (q, k, v)], reference=plain, **base,
                   tolerance="op_f64" if t is np.float64 else None)


def rooms(op, base):
    """Caches with room: past_sequence_length says where new rows go; cache_indirection, which beam a single query's
    past rows are of."""
    M, P = 8, 3
    room, base = [f(B, H, M, D), f(B, H, M, D)], {**base, "outputs": 3}
    for rows in (1, S):
        q, k, v = f(B, rows, N), f(B, rows, N), f(B, rows, N)
        for at in (0, P, M - rows):
            yield case(f"room{at}_{rows}", op, [q, k, v, None, None, None, *room, i(at)], **base)
        yield case(f"room_scalar_{rows}", op, [q, k, v, f(3 * N), None, None, *room, np.array(P, np.int32)], **base)
        yield case(f"room_causal_{rows}", op, [q, k, v, None, None, None, *room, i(P)], unidirectional=1, **base)
        yield case(f"room_mask_{rows}", op, [q, k, v, None, MASKS["keys"](P + rows), f(B, 1, rows, P + rows), *room,
                                            i(P)], **base)
        yield case(f"room_scores_{rows}", op, [q, k, v, None, None, None, *room, i(P)], **{**base, "outputs": 4},
                   types={3: np.float32})
        for beams in (1, 2):
            beam = R.integers(0, beams, (B // beams, beams, M)).astype(np.int32)
            yield case(f"room_beams{beams}_{rows}", op, [q, k, v, None, None, None, *room, i(P), beam], **base)
        yield case(f"beams_without_length_{rows}", op, [q, k, v, None, None, None, *room, None, beam], **base)
        yield case(f"length_without_past_{rows}", op, [q, k, v, None, None, None, None, None, i(P)], **base)


# ---- rotary ----

def rotaries():
    op = "RotaryEmbedding"
    cos, sin = f(9, D // 2, lo=-1, hi=1), f(9, D // 2, lo=-1, hi=1)
    ids = R.integers(0, 9, (B, S)).astype(np.int64)
    for name, x in (("rows", f(B, S, N)), ("heads", f(B, H, S, D))):
        for interleaved in (0, 1):
            yield case(f"{name}{interleaved}", op, [x, ids, cos, sin], interleaved=interleaved)
        yield case(f"{name}_offset", op, [x, np.int64([2]), cos, sin])
        yield case(f"{name}_scale", op, [x, ids, cos, sin], scale=2.0)
    yield case("part", op, [f(B, S, N), ids, cos[:, :1].copy(), sin[:, :1].copy()], rotary_embedding_dim=2, num_heads=H)
    yield case("f16", op, [x.astype(np.float16) if x.dtype == np.float32 else x for x in (f(B, S, N), ids, cos, sin)])
    yield case("packed", op, [f(B, S, N), ids, cos, sin], is_packed_batching=1)


# ---- GroupQueryAttention ----

KV, G, E = 2, 4, 16  # heads of keys, heads of queries, size of a head


def fed(c, operands):
    """The case with other operands, which random graphs have."""
    return c._replace(inputs=list(operands))


def keeps(c, P=5):
    """onnxruntime's results, with what the past holds behind the new keys: there onnxruntime has zeros, or, where
    past and present are one buffer, what was there."""
    want = by_onnxruntime(c)
    for b, last in enumerate(c.inputs[5]):
        for k in range(2):
            want[1 + k][b, :, last + 1:] = 0
            want[1 + k][b, :, last + 1:P] = c.inputs[3 + k][b, :, last + 1:]
    return want


def each_batch(c):
    """onnxruntime's results for one batch at a time: for several it reads position_ids of the first."""
    alone = [by_onnxruntime(c._replace(inputs=[x if x is None or x.ndim == 0 or k in (7, 8) else x[b:b + 1]
                                               for k, x in enumerate(c.inputs)])) for b in range(B)]
    return [np.concatenate(parts) for parts in zip(*alone)]


def group_queries():
    op, base = "GroupQueryAttention", {"num_heads": G, "kv_num_heads": KV, "types": {1: np.float32, 2: np.float32}}
    q, k, v = f(B, S, G * E), f(B, S, KV * E), f(B, S, KV * E)
    cos, sin = f(12, E // 2, lo=-1, hi=1), f(12, E // 2, lo=-1, hi=1)

    def prompt(name, qkv=(q, k, v), lens=i(S - 1, S - 1), more=(), outputs=3, types=None, **attributes):
        rows = [*qkv, None, None, lens, np.int32(S), *more]
        return case(name, op, rows, outputs=outputs, **{**base, **attributes, "types": types or base["types"]})
    yield prompt("prompt")
    yield prompt("packed", qkv=(np.concatenate([q, k, v], -1), None, None))
    yield prompt("turned", more=[cos, sin], do_rotary=1)
    yield prompt("interleaved", more=[cos, sin], do_rotary=1, rotary_interleaved=1)
    yield prompt("packed_turned", qkv=(np.concatenate([q, k, v], -1), None, None), more=[cos, sin], do_rotary=1)
    c = prompt("positions", more=[cos, sin, np.int64([[2, 3, 4], [0, 1, 2]])], do_rotary=1)
    yield c._replace(reference=lambda *operands, c=c: each_batch(fed(c, operands)))
    yield prompt("scale", scale=0.2)
    yield prompt("softcap", softcap=0.4)
    for window in (1, 2, 9):
        yield prompt(f"window{window}", local_window_size=window)
    yield prompt("smooth", smooth_softmax=1)
    yield prompt("bias", more=[None, None, None, f(B, 1, S, S)])
    yield prompt("bias_heads", more=[None, None, None, f(1, G, S, S)], softcap=0.7)
    yield prompt("sink", more=[None, None, None, None, f(G)])
    yield prompt("sink_bias", more=[None, None, None, f(B, G, S, S), f(G)], local_window_size=2)

    def normed(q, k, v, *rest):
        q, k, v, wq, wk = doubled(q, k, v, rest[-2], rest[-1])
        q, k, v = heads(q, G), heads(k, KV), np.repeat(heads(v, KV), G // KV, 1)
        k = np.repeat(rms(k, 1e-4) * wk, G // KV, 1)
        return [joined(attend(rms(q, 1e-4) * wq, k, v, causal=True)).astype(np.float32)]
    yield prompt("norms", more=[*[None] * 7, f(E), f(E)], outputs=1, qk_norm_epsilon=1e-4, reference=normed)
    for mode in (1, 2):
        yield prompt(f"scores{mode}", outputs=4, qk_output=mode, more=[None, None, None, f(B, G, S, S)],
                     types={**base["types"], 3: np.float32})
    past = [f(B, KV, 5, E), f(B, KV, 5, E)]
    one = [f(B, 1, G * E), f(B, 1, KV * E), f(B, 1, KV * E)]
    yield case("step", op, [*one, *past, i(5, 5), np.int32(6)], outputs=3, **base)
    yield case("step_turned", op, [*one, *past, i(5, 5), np.int32(6), cos, sin], outputs=3, do_rotary=1, **base)
    yield case("step_window", op, [*one, *past, i(5, 5), np.int32(6)], outputs=3, local_window_size=3, **base)
    yield case("step_sink", op, [*one, *past, i(5, 5), np.int32(6), *[None] * 4, f(G)], outputs=3, **base)
    for name, lens, total, more, how in (("uneven", i(5, 3), 6, [], {}), ("room", i(3, 3), 4, [], {}),
                                         ("room_uneven", i(3, 1), 4, [cos, sin], {"do_rotary": 1})):
        c = case(f"step_{name}", op, [*one, *past, lens, np.int32(total), *more], outputs=3, **how, **base)
        yield c._replace(reference=lambda *operands, c=c: keeps(fed(c, operands)))
    several = [x[:1] for x in (q, k, v, *past)]
    yield case("several", op, [*several, i(7), np.int32(8)], outputs=3, **base)
    for t in (np.float16, BF16):
        def plain(q, k, v, *rest, t=t):
            q, k, v = doubled(q, k, v)
            k, v = (np.repeat(heads(x, KV), G // KV, 1) for x in (k, v))
            return [joined(attend(heads(q, G), k, v, causal=True)).astype(t)]
        yield case(np.dtype(t).name, op, [*(x.astype(t) for x in (q, k, v)), None, None, i(S - 1, S - 1), np.int32(S)],
                   reference=plain, num_heads=G, kv_num_heads=KV)


def long_group_queries():
    """One new key behind pasts of several blocks of keys, in fewer and more heads than go through them together."""
    for name, g, kv, e, P, lens, more in (
            ("one_block", 7, 1, 24, 300, (300, 300), {}), ("blocks", 8, 2, 64, 1100, (1100, 1100), {}),
            ("uneven", 4, 2, 16, 700, (699, 20), {}),
            ("window", 6, 2, 16, 1100, (1100, 1100), {"local_window_size": 40}),
            ("many_heads", 24, 2, 16, 530, (530, 530), {"softcap": 3.0})):
        c = case(f"long_{name}", "GroupQueryAttention", [
            f(B, 1, g * e), f(B, 1, kv * e), f(B, 1, kv * e), f(B, kv, P, e), f(B, kv, P, e), i(*lens),
            np.int32(max(lens) + 1)], outputs=3, num_heads=g, kv_num_heads=kv, types={1: np.float32, 2: np.float32},
            **more)
        yield c if lens[0] == lens[1] else c._replace(
            reference=lambda *operands, c=c, P=P: keeps(fed(c, operands), P))


def coded_group_queries():
    op, how = "GroupQueryAttention", {"num_heads": G, "kv_num_heads": KV}
    one = [f(B, 1, G * E), f(B, 1, KV * E), f(B, 1, KV * E)]
    prompt = [f(B, S, G * E), f(B, S, KV * E), f(B, S, KV * E)]
    cos, sin = f(12, E // 2, lo=-1, hi=1), f(12, E // 2, lo=-1, hi=1)
    for bits, t, width in ((8, np.int8, E), (4, np.uint8, E // 2)):
        big = 1 if bits == 8 else 10
        scales = {"PER_TENSOR": [np.float32([0.03 * big]), np.float32([0.02 * big])],
                  "PER_CHANNEL": [f(1, KV, 1, E, lo=0.02 * big, hi=0.03 * big) for _ in range(2)]}
        for kind, (ks, vs) in scales.items():
            quant = {**how, "k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits,
                     "types": {1: t, 2: t}, "outputs": 3}
            past = [R.integers(0, 256, (B, KV, 5, width)).astype(np.uint8).view(t) for _ in range(2)]
            none = [x[:, :, :0].copy() for x in past]
            name = f"codes{bits}_{kind.lower()}"
            yield case(f"{name}_step", op, [*one, *past, i(5, 5), np.int32(6), *[None] * 5, ks, vs], **quant)
            yield case(f"{name}_prompt", op, [*prompt, *none, i(2, 2), np.int32(3), *[None] * 5, ks, vs], **quant)
            c = case(f"{name}_uneven", op, [*one, *past, i(5, 2), np.int32(6), cos, sin, None, f(B, 1, 1, 6), f(G),
                                            ks, vs], do_rotary=1, local_window_size=4, softcap=3.0, **quant)
            yield c._replace(reference=lambda *operands, c=c: keeps(fed(c, operands)))
            several = [x[:1] for x in (*prompt, *past)]
            yield case(f"{name}_several", op, [*several, i(7), np.int32(8), *[None] * 5, ks, vs], **quant)
    half = [x.astype(np.float16) for x in one]
    yield case("codes8_half", op, [*half, *[R.integers(-128, 128, (B, KV, 5, E)).astype(np.int8) for _ in range(2)],
                                   i(5, 5), np.int32(6), *[None] * 5, np.float32([0.02]), np.float32([0.02])],
               **how, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=8, outputs=3,
               types={1: np.int8, 2: np.int8})


def float8_group_query():
    """What onnxruntime has on CUDA alone: codes of float8."""
    E4 = ml_dtypes.float8_e4m3fn
    q, k, v = f(1, 1, G * E), f(1, 1, KV * E, lo=-900, hi=900), f(1, 1, KV * E)
    past = [f(1, KV, 5, E).astype(E4) for _ in range(2)]
    scales = [np.float32([1.5]), np.float32([0.25])]

    def exact(q, k, v, pk, pv, ends, total, ks, vs):
        def kept(x, scale, past):
            new = np.clip(heads(x, KV) / scale, -448, 448).astype(E4)
            return np.concatenate([past, new], 2)
        present = [kept(k, ks, pk), kept(v, vs, pv)]
        K, V = (np.repeat(x.astype(np.float64) * s, G // KV, 1) for x, s in zip(present, (ks, vs)))
        return [joined(attend(heads(q.astype(np.float64), G), K, V)).astype(np.float32), *present]
    return case("codes_float8", "GroupQueryAttention", [q, k, v, *past, i(5), np.int32(6), *[None] * 5, *scales],
                reference=lambda *x: exact(*x[:7], *x[12:]), outputs=3, num_heads=G, kv_num_heads=KV,
                k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", types={1: E4, 2: E4})


def windowed(c):
    """onnxruntime's results, with zeros in rows of the caches behind those that are held, which mean nothing."""
    want = by_onnxruntime(c)
    C, W = c.inputs[3].shape[2], c.attributes["local_window_size"]
    for b, last in enumerate(c.inputs[5]):
        held = last + 1 if last < C else last + 1 - (C - W + 1) * -(-(last + 1 - C) // (C - W + 1))
        for got in want[1:]:
            got[b, :, held:] = 0
    return want


def windowed_case(c):
    return c._replace(reference=lambda *operands: windowed(fed(c, operands)))


def windowed_group_queries():
    op, base = "GroupQueryAttention", {"num_heads": G, "kv_num_heads": KV, "sliding_window_cache": 1}
    cos, sin = f(32, E // 2, lo=-1, hi=1), f(32, E // 2, lo=-1, hi=1)
    for name, batch, rows, C, W, total, turns in (
            ("first", 1, 1, 4, 4, 3, False), ("full", 1, 1, 4, 4, 9, False), ("slack", 2, 1, 6, 4, 9, True),
            ("slack_next", 2, 1, 6, 4, 10, False), ("several", 1, 3, 6, 4, 9, True), ("prompt", 2, 9, 6, 4, 9, True),
            ("long", 1, 9, 6, 4, 20, False), ("bias", 2, 1, 6, 4, 9, False)):
        more = [cos, sin] if turns else [None, None]
        more += [None, f(batch, 1, rows, total)] if name == "bias" else []
        ends = np.full(batch, total - 1, np.int32)
        yield windowed_case(case(f"windowed_{name}", op, [
            f(batch, rows, G * E), f(batch, rows, KV * E), f(batch, rows, KV * E), f(batch, KV, C, E),
            f(batch, KV, C, E), ends, np.int32(total), *more], outputs=3, local_window_size=W, do_rotary=int(turns),
            types={1: np.float32, 2: np.float32}, **base))
    yield windowed_case(case("windowed_codes", op, [
        f(1, 1, G * E), f(1, 1, KV * E), f(1, 1, KV * E), *[R.integers(-128, 128, (1, KV, 6, E)).astype(np.int8)] * 2,
        i(8), np.int32(9), *[None] * 5, np.float32([0.02]), np.float32([0.03])], outputs=3, local_window_size=4,
        k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=8, types={1: np.int8, 2: np.int8},
        **base))


CASES = [*group_queries(), *long_group_queries(), *coded_group_queries(), *windowed_group_queries(),
         float8_group_query(), *selfs(), *quantized_selfs(), *multis(), *rotaries()]

LENS = [None, None, i(2, 2), np.int32(3)]
Q, K = f(B, S, G * D), f(B, S, KV * D)
GQA = "GroupQueryAttention"
CODED = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
REFUSED = [
    (case("share", GQA, [Q, K, K, *LENS], num_heads=4, kv_num_heads=3), ["num_heads 4", "kv_num_heads 3"]),
    (case("columns", GQA, [f(B, S, 18), K, K, *LENS], num_heads=G, kv_num_heads=KV), ["18 columns", "4 heads"]),
    (case("packed", GQA, [Q, None, None, *LENS], num_heads=3, kv_num_heads=1), ["16 columns", "5 heads"]),
    (case("key", GQA, [Q, f(B, S, 6), f(B, S, 6), *LENS], num_heads=G, kv_num_heads=KV), ["key is 6", "expected 8"]),
    (case("value", GQA, [Q, K, None, *LENS], num_heads=G, kv_num_heads=KV), ["key and value"]),
    (case("lengths", GQA, [Q, K, K, None, None, i(1, 2, 3), np.int32(3)], num_heads=G, kv_num_heads=KV),
     ["seqlens_k is 3", "expected 2"]),
    (case("caches", GQA, [Q, K, K, *LENS], num_heads=G, kv_num_heads=KV, do_rotary=1), ["cos_cache"]),
    (case("quantized", GQA, [Q, K, K, *LENS], num_heads=G, kv_num_heads=KV, k_quant_type="PER_TENSOR"),
     ["k_quant_type is PER_TENSOR", "v_quant_type NONE"]),
    (case("quant_type", GQA, [Q, K, K, *LENS], num_heads=G, kv_num_heads=KV, k_quant_type="PER_ROW"),
     ["k_quant_type is 'PER_ROW'"]),
    (case("scale", GQA, [Q, K, K, *LENS], num_heads=G, kv_num_heads=KV, **CODED), ["k_scale is absent"]),
    (case("width", GQA, [Q, K, K, *[i32(2, B, KV, 5, D).astype(np.uint8)] * 2, *LENS[2:], *[None] * 5, *[f(1)] * 2],
          num_heads=G, kv_num_heads=KV, kv_cache_bit_width=8, **CODED), ["uint8 with kv_cache_bit_width 8"]),
    (case("uncoded", GQA, [Q, K, K, *[i32(2, B, KV, 5, D).astype(np.int8)] * 2, *LENS[2:]], num_heads=G,
          kv_num_heads=KV), ["past_key has elements int8", "expected float"]),
    (case("window", GQA, [Q, K, K, *LENS], num_heads=G, kv_num_heads=KV, sliding_window_cache=1),
     ["local_window_size is -1"]),
    (case("window_rows", GQA, [Q, K, K, *[f(B, KV, 3, D)] * 2, *LENS[2:]], num_heads=G, kv_num_heads=KV,
          sliding_window_cache=1, local_window_size=4), ["past_key has 3 rows", "local_window_size, 4"]),
    (case("past", GQA, [Q, K, K, f(B, KV, 5, 3), f(B, KV, 5, 3), i(2, 2), np.int32(3)], num_heads=G, kv_num_heads=KV),
     ["past_key is 3", "expected 4"]),
    (case("scores", GQA, [Q, K, K, *LENS], num_heads=G, kv_num_heads=KV, qk_output=3), ["qk_output is 3"]),
    (case("heads", "Attention", [f(B, S, 5), f(5, 3 * N)], num_heads=3), ["8 columns", "3 heads"]),
    (case("columns", "Attention", [f(B, S, 5), f(5, 25)], num_heads=1), ["25 columns", "3 do not divide"]),
    (case("rows", "Attention", [f(B, S, 5), f(6, 3 * N)], num_heads=H), ["weights is 6", "expected 5"]),
    (case("rank", "Attention", [f(S, 5), f(5, 3 * N)], num_heads=H), ["input has 2 dims", "expected 3"]),
    (case("mask", "Attention", [f(B, S, 5), f(5, 3 * N), None, i(1, 2, 3)], num_heads=H),
     ["mask_index has 3 elements for a batch of 2"]),
    (case("mask_keys", "Attention", [f(B, S, 5), f(5, 3 * N), None, i32(2, B, 4)], num_heads=H),
     ["mask_index is 4", "expected 3"]),
    (case("past", "Attention", [f(B, S, 5), f(5, 3 * N), None, None, f(2, B, H, 2, 5)], num_heads=H),
     ["past is 5", "expected 4"]),
    (case("rotary", "Attention", [f(B, S, 5), f(5, 3 * N)], num_heads=H, do_rotary=1), ["do_rotary is 1"]),
    (case("share", "Attention", [f(B, S, 5), f(5, 3 * N), None, None, f(2, B, H, 2, D)], num_heads=H,
          past_present_share_buffer=1), ["past_present_share_buffer is 1: past_sequence_length is needed"]),
    (case("length", "Attention", [f(B, S, 5), f(5, 3 * N), None, None, f(2, B, H, 2, D), None, i(2)], num_heads=H),
     ["past_sequence_length is given"]),
    (case("sizes", "Attention", [f(B, S, 5), f(5, 3 * N)], num_heads=H, qkv_hidden_sizes=[8, 8, 4]),
     ["24 columns, expected 20"]),
    (case("bias", "Attention", [f(B, S, 5), f(5, 3 * N), None, None, None, f(B, 3, S, S)], num_heads=H),
     ["attention_bias is 3", "expected 2"]),
    (case("heads", "MultiHeadAttention", [f(B, S, N), f(B, S, N), f(B, S, N)], num_heads=3), ["8 columns", "3 heads"]),
    (case("no_key", "MultiHeadAttention", [f(B, S, N)], num_heads=H), ["key is absent"]),
    (case("no_value", "MultiHeadAttention", [f(B, S, N), f(B, S, N)], num_heads=H), ["value is absent"]),
    (case("packed", "MultiHeadAttention", [f(B, S, H, 2, D)], num_heads=H), ["query is 2", "expected 3"]),
    (case("ranks", "MultiHeadAttention", [f(B, S, N), f(B, H, S, D), f(B, S, N)], num_heads=H), ["key has 4 dims"]),
    (case("length", "MultiHeadAttention", [f(B, S, N), f(B, 4, N), f(B, 5, N)], num_heads=H), ["value is 5"]),
    (case("bias", "MultiHeadAttention", [f(B, S, N), f(B, S, N), f(B, S, N), f(23)], num_heads=H),
     ["bias is 23", "expected 24"]),
    (case("past", "MultiHeadAttention", [f(B, S, N), f(B, S, N), f(B, S, N), None, None, None, f(B, H, 2, D)],
          num_heads=H), ["past_key and past_value"]),
    (case("room", "MultiHeadAttention", [f(B, S, N), f(B, S, N), f(B, S, N), None, None, None, f(B, H, 8, D),
                                         f(B, H, 8, D), i(2, 2)], num_heads=H), ["past_sequence_length is 2"]),
    (case("rank", "RotaryEmbedding", [f(3, 4), np.int64([[0]]), f(5, 2), f(5, 2)]), ["input has 2 dims"]),
    (case("ids", "RotaryEmbedding", [f(B, S, N), np.int64([0, 1]), f(5, 2), f(5, 2)]), ["position_ids is 2"]),
    (case("part", "RotaryEmbedding", [f(B, S, N), np.int64([0]), f(5, 1), f(5, 1)], rotary_embedding_dim=2),
     ["num_heads is needed"]),
]
