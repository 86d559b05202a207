"""Cases of attention and rotary embeddings of domain com.microsoft."""
import ml_dtypes
import numpy as np

from . import case
from .layers import BF16, f, i32, softmax

R = np.random.default_rng(11)
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
    yield case("mask_all_places", op, [x, w, b, tall], reference=megatron, **base)
    for t in (np.float16, BF16, np.float64):
        def plain(x, w, b, t=t):
            x, w, b = doubled(x, w, b)
            return [joined(attend(*(heads(p) for p in np.split(x @ w + b, 3, -1)))).astype(t)]
        yield case(np.dtype(t).name, op, [x.astype(t), w.astype(t), b.astype(t)], reference=plain, **base,
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
    for t in (np.float16, BF16, np.float64):
        def plain(q, k, v, t=t):
            return [joined(attend(*(heads(p) for p in doubled(q, k, v)))).astype(t)]
        yield case(np.dtype(t).name, op, [x.astype(t) for x in (q, k, v)], reference=plain, **base,
                   tolerance="op_f64" if t is np.float64 else None)


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


CASES = [*selfs(), *quantized_selfs(), *multis(), *rotaries()]

REFUSED = [
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
    (case("share", "Attention", [f(B, S, 5), f(5, 3 * N), None, None, f(2, B, H, 2, D), None, i(2)], num_heads=H,
          past_present_share_buffer=1), ["past_present_share_buffer is 1"]),
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
    (case("room", "MultiHeadAttention", [f(B, S, N), f(B, S, N), f(B, S, N), None, None, None, f(B, H, 2, D),
                                         f(B, H, 2, D), i(2)], num_heads=H), ["past_sequence_length"]),
    (case("rank", "RotaryEmbedding", [f(3, 4), np.int64([[0]]), f(5, 2), f(5, 2)]), ["input has 2 dims"]),
    (case("ids", "RotaryEmbedding", [f(B, S, N), np.int64([0, 1]), f(5, 2), f(5, 2)]), ["position_ids is 2"]),
    (case("part", "RotaryEmbedding", [f(B, S, N), np.int64([0]), f(5, 1), f(5, 1)], rotary_embedding_dim=2),
     ["num_heads is needed"]),
]
