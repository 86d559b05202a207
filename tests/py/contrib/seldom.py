"""Cases of attentions that only CUDA has in onnxruntime (written out with torch), of NGramRepeatBlock, and of PyTorch's
operators by their names, which onnxruntime leaves to PyTorch."""
import numpy as np
import torch

from . import case, stream

R, f, _ = stream(41)


def heads_of(x, heads):
    """(B,S,H) as (B,heads,S,size)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def attended(q, k, v, bias):
    """All (B,heads,length,size)."""
    p = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, -1)
    y = p @ v
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def doubles(*arrays):
    return [torch.from_numpy(np.asarray(x)).double() for x in arrays]


# ---- LongformerAttention ----

def longformer(heads, window):
    def run(x, w, bias, mask, global_w, global_bias, marked):
        t = x.dtype
        x, w, bias, mask, global_w, global_bias = doubles(x, w, bias, mask, global_w, global_bias)
        marked = torch.from_numpy(marked) > 0
        local, whole = ([heads_of(part, heads) for part in (x @ a + c).chunk(3, -1)]
                        for a, c in ((w, bias), (global_w, global_bias)))
        at = torch.arange(x.shape[1])
        near = (at[:, None] - at).abs() <= window
        bias = mask[:, None, None, :].expand(-1, 1, x.shape[1], -1)
        seen = torch.where(near | marked[:, None, None, :], bias, -torch.inf)
        y = torch.where(marked[:, :, None], attended(*whole, bias), attended(*local, seen))
        return [y.numpy().astype(t)]
    return run


def long_case(name, marked, masked=None, heads=2, window=2, t=np.float32):
    marked = np.int32(marked)
    B, S, H = *marked.shape, 8
    mask = np.zeros((B, S), t) if masked is None else np.where(masked, -10000, 0).astype(t)
    return case(name, "LongformerAttention",
                [f(B, S, H, t=t), f(H, 3 * H, t=t) / 3, f(3 * H, t=t), mask, f(H, 3 * H, t=t) / 3, f(3 * H, t=t),
                 marked],
                reference=longformer(heads, window), num_heads=heads, window=window,
                tolerance="device_f16" if t is np.float16 else None)


NONE = np.zeros((2, 9))
SOME = NONE.copy()
SOME[0, 0] = SOME[1, 2] = SOME[1, 8] = 1
LONG = [long_case("no token is marked", NONE), long_case("marked", SOME), long_case("one head", SOME, heads=1),
        long_case("padded", SOME, masked=[[0] * 7 + [1] * 2, [0] * 9]), long_case("all near", SOME, window=9),
        long_case("narrow", SOME, t=np.float16), long_case("one token", np.zeros((1, 1)))]


# ---- DecoderAttention ----

def decoder(heads, filter_value):
    def run(query, key, q_w, kv_w, bias, padded, key_cache, value_cache, static, past, state, has_mask):
        t = query.dtype
        query, key, q_w, kv_w, bias = doubles(query, key, q_w, kv_w, bias)
        H = query.shape[2]
        q = heads_of((query @ q_w + bias[:H]).transpose(0, 1), heads)
        old = doubles(key_cache, value_cache) if past and state else [None, None]
        parts = ((key if static else query) @ kv_w + bias[H:]).transpose(0, 1).chunk(2, -1)
        kv = [heads_of(x, heads) for x in parts]
        if past and state:
            kv = old if static else [torch.cat([a, b], 2) for a, b in zip(old, kv)]
        hidden = torch.where(torch.from_numpy(padded)[:, None, None], filter_value, 0.0) if has_mask else 0.0
        y = attended(q, *kv, hidden).transpose(0, 1)
        return [x.numpy().astype(t) for x in (y, *kv)]
    return run


def decoder_case(name, static, past, state, masked, S=3, T=4, P=2, t=np.float32, **more):
    B, H, heads = 2, 8, 2
    keys = P if past and state and static else T if static else S + (P if past and state else 0)
    padded = R.random((B, keys)) < 0.3
    padded[:, 0] = False
    cache = [f(B, heads, P, H // heads, t=t) for _ in range(2)] if past else [None, None]
    flags = [np.array([x]) for x in (static, past, state, masked)]
    return case(name, "DecoderAttention",
                [f(S, B, H, t=t), f(T, B, H, t=t), f(H, H, t=t) / 3, f(H, 2 * H, t=t) / 3, f(3 * H, t=t),
                 padded if masked else None, *cache, *flags], outputs=3, constants=range(8, 12),
                reference=decoder(heads, more.get("mask_filter_value", -10000.0)), num_heads=heads,
                tolerance="device_f16" if t is np.float16 else None, **more)


DECODER = [decoder_case(f"static {static}, past {past}, state {state}, mask {masked}", static, past, state, masked)
           for static in (False, True) for past, state in ((False, False), (True, True), (False, True), (True, False))
           for masked in (False, True)]
DECODER += [decoder_case("narrow", True, False, False, True, t=np.float16),
            decoder_case("filter", False, False, False, True, mask_filter_value=-3.0)]


# ---- NGramRepeatBlock ----

def tokens(*shape):
    return R.integers(0, 5, shape).astype(np.int64)


NGRAMS = [case(f"{shape} {n}", "NGramRepeatBlock", [tokens(*shape), f(shape[0], 7)], ngram_size=n)
          for n in (1, 2, 3, 4) for shape in ((2, 6), (3, 12), (1, n))]
NGRAMS += [case(f"{length} of {n}", "NGramRepeatBlock", [tokens(2, length), f(2, 7)], ngram_size=n,
                reference=lambda ids, scores: [scores]) for length, n in ((0, 1), (0, 2), (1, 3), (2, 3))]
NGRAMS += [case(f"{x} {n}", "NGramRepeatBlock", [tokens(2, 9), np.full((2, 7), x, np.float32)], ngram_size=n)
           for x in (np.nan, np.inf, -np.inf) for n in (1, 2)]  # a token that repeats is hidden whatever it scored

# ---- ATen ----

PYTORCH = "org.pytorch.aten"
ROWS = np.int64([[0, 4, 4], [2, 1, 0]])


def aten(name, inputs, reference, **attributes):
    return case(name, "ATen", inputs, domain=PYTORCH, reference=reference, **attributes)


ATEN = [aten(f"{prefix}embedding {t.__name__}", [f(5, 3, t=t), ROWS, np.int64(pad), np.bool_(False), np.bool_(False)],
             lambda w, at, *_: [w[at]], operator=prefix + "embedding", constants=[2, 3, 4])
        for prefix, pad, t in (("", -1, np.float32), ("aten::", 4, np.float16))]
ATEN += [aten(f"transposed {shape}", [f(*shape)], lambda x: [x.T], operator="numpy_T")
         for shape in ((2, 3), (4,), (2, 3, 4), ())]

CASES = [*LONG, *DECODER, *NGRAMS, *ATEN]
GOOD = LONG[1].inputs
REFUSED = [
    (case("window", "LongformerAttention", GOOD, num_heads=2, window=0), "window is 0"),
    (case("heads", "LongformerAttention", GOOD, num_heads=3, window=1), "3 heads do not divide"),
    (case("mask", "LongformerAttention", [*GOOD[:3], f(2, 8), *GOOD[4:]], num_heads=2, window=1), "mask"),
    (case("weight", "LongformerAttention", [GOOD[0], f(8, 16), *GOOD[2:]], num_heads=2, window=1), "weight"),
    (case("flags", "DecoderAttention", DECODER[0].inputs, num_heads=2), "static_kv must be a constant"),
    (case("no cache", "DecoderAttention", [*DECODER[0].inputs[:9], *[np.array([True])] * 3], num_heads=2,
          constants=range(8, 12)), "a flag says"),
    (aten("other", [f(2, 3)], None, operator="aten::fft"), "operator is 'aten::fft' of 1 inputs"),
    (aten("alone", [f(2, 3)], None, operator="embedding"), "operator is 'embedding' of 1 inputs"),
    (case("size", "NGramRepeatBlock", [tokens(2, 6), f(2, 7)], ngram_size=0), "ngram_size is 0"),
    (case("rows", "NGramRepeatBlock", [tokens(3, 6), f(2, 7)], ngram_size=1), "input_ids"),
]
