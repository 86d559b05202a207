"""Cases of attentions of decoders and of packed sequences (com.microsoft), of biases by position, of what stands around
linear attention, and of dropouts with a bias or a mask of bits."""
import numpy as np
import onnxruntime

from . import case, model_of, stream
from .attentions import attend, doubled, heads, joined
from .layers import rms

_, f, i32 = stream(71)

B, H, D = 2, 2, 8
N = H * D


def i(*values):
    return np.array(values, np.int32)


# ---- one new token ----

def masked():
    op, M, P = "DecoderMaskedMultiHeadAttention", 8, 3
    q, k, v, room = f(B, 1, N), f(B, 1, N), f(B, 1, N), [f(B, H, M, D), f(B, H, M, D)]
    base = {"num_heads": H, "outputs": 3, "past_present_share_buffer": 1}
    past = [*room, i(P)]
    yield case("room", op, [q, k, v, None, None, *past], **base)

    def put(q, k, v, *rest):  # onnxruntime before 1.31 is wrong where the past is empty
        room, at = [p.copy() for p in rest[2:4]], int(rest[4][0])
        for p, x in zip(room, (k, v)):
            p[:, :, at] = heads(x, H)[:, :, 0]
        kept = (p[:, :, :at + 1] for p in room)
        return [joined(attend(*doubled(heads(q, H), *kept))).astype(np.float32), *room]
    yield case("first", op, [q, k, v, None, None, *room, i(0)], reference=put, **base)
    yield case("put", op, [q, k, v, None, None, *past], reference=put, **base)
    yield case("scale", op, [q, k, v, None, None, *past], scale=0.3, **base)
    yield case("full", op, [q, k, v, None, None, *room, i(M - 1)], **base)
    yield case("bias", op, [q, k, v, None, None, *past, None, None, f(3 * N)], **base)
    yield case("mask", op, [q, k, v, i(1, 1, 0, 1, 1, 0, 1, 1).reshape(2, 4), None, *past], **base)
    yield case("attention_bias", op, [q, k, v, None, f(1, 1, 1, P + 1), *past], **base)
    yield case("scores", op, [q, k, v, None, None, *past], **{**base, "outputs": 4}, types={3: np.float32}, output_qk=1)
    for beams in (1, 2):
        yield case(f"beams{beams}", op, [q, k, v, None, None, *past, i(beams), i32(beams, B // beams, beams, M)],
                   **base)
    yield case("given_keys", op, [q, *room], num_heads=H)

    def grown(q, k, v, *rest):
        pk, pv = rest[2:4]
        K, V = (np.concatenate([p, heads(x, H)], 2) for p, x in ((pk, k), (pv, v)))
        return [joined(attend(*doubled(heads(q, H), K, V))).astype(np.float32), K, V]
    yield case("grown", op, [q, k, v, None, None, f(B, H, P, D), f(B, H, P, D)], num_heads=H, outputs=3,
               reference=grown)

    def packed(x, *rest):
        q, k, v = np.split(x, 3, -1)
        return grown(q, k, v, *rest[2:])
    yield case("packed", op, [f(B, 1, 3 * N), None, None, None, None, f(B, H, P, D), f(B, H, P, D)], num_heads=H,
               outputs=3, reference=packed)
    yield from masked_selfs(room, P)


def masked_selfs(room, P):
    x, w, b = f(B, 1, 5), f(5, 3 * N), f(3 * N)

    def parts(x, w, b, mask, past, bias, length, *beams):
        q, k, v = np.split(x @ w + b, 3, -1)
        both = past.copy()
        both[0][:, :, P], both[1][:, :, P] = heads(k, H)[:, :, 0], heads(v, H)[:, :, 0]
        more = 0 if mask is None else np.where(mask > 0, 0, -10000.0)[:, None, None]
        y = attend(*doubled(heads(q, H), both[0][:, :, :P + 1], both[1][:, :, :P + 1]), more)
        return [joined(y).astype(np.float32), both]
    op, base = "DecoderMaskedSelfAttention", {"num_heads": H, "outputs": 2, "reference": parts}
    past = np.stack(room)
    yield case("room", op, [x, w, b, None, past, None, i(P)], past_present_share_buffer=1, **base)
    yield case("mask", op, [x, w, b, i(1, 0, 1, 1, 1, 1, 0, 1).reshape(2, 4), past, None, i(P)],
               past_present_share_buffer=1, **base)


# ---- blocks of keys ----

def sparse():
    op, size, cache, D, G, KV = "SparseAttention", 16, 64, 16, 4, 2
    rows = np.int32([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]])
    columns = np.int32([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]])
    base = {"num_heads": G, "kv_num_heads": KV, "sparse_block_size": size, "outputs": 3}
    past = [f(B, KV, cache, D), f(B, KV, cache, D)]
    cos, sin = f(cache, D // 2, lo=-1, hi=1), f(cache, D // 2, lo=-1, hi=1)

    def prompt(S, layouts=(rows, columns), ends=None, more=(), packed=False, past=past, **how):
        qkv = [f(B, S, G * D), f(B, S, KV * D), f(B, S, KV * D)]
        qkv = [np.concatenate(qkv, -1), None, None] if packed else qkv
        ends = np.full(B, S, np.int32) if ends is None else ends
        return [*qkv, *past, *layouts, np.int32([S]), ends, *more]
    for S in (1, 17, 50):
        yield kept(case(f"prompt{S}", op, prompt(S), **base))
    yield kept(case("one_layout", op, prompt(40, (rows[1:], columns[1:])), **base))
    yield kept(case("turned", op, prompt(33, more=[cos, sin]), do_rotary=1, **base))
    yield kept(case("packed", op, prompt(20, packed=True, more=[cos, sin]), do_rotary=1, rotary_interleaved=1, **base))
    for total, ends in ((40, i(40, 40)), (50, i(50, 35))):
        step = prompt(1)
        step[7], step[8] = np.int32([total]), ends
        yield kept(case(f"step{total}", op, step, scale=0.2, **base))
    yield kept(case("step_turned", op, [*step[:9], cos, sin], do_rotary=1, **base))


def in_place(c):
    """onnxruntime's results, whose caches must be the same memory before and after."""
    model, feeds = model_of(c)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x.copy()) for name, x in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("o0")
    for k in range(2):
        binding.bind_ortvalue_output(f"o{1 + k}", values[f"i{3 + k}"])
    session.run_with_iobinding(binding)
    return [x.numpy().copy() for x in binding.get_outputs()]


def kept(c):
    """Each batch by itself where it has its own length: of several, onnxruntime takes the longest for all."""
    ends = c.inputs[8]

    def alone(b):
        return c._replace(inputs=[ends[b:b + 1] if k == 7 else x if x is None or k in (5, 6, 9, 10) else x[b:b + 1]
                                  for k, x in enumerate(c.inputs)])

    def reference(*operands):
        if len(set(ends)) == 1:
            return in_place(c)
        return [np.concatenate(parts) for parts in zip(*(in_place(alone(b)) for b in range(len(ends))))]
    return c._replace(reference=reference)


# ---- sequences without what fills them up ----

LENGTHS = (1, 3, 2)
OFFSETS = i(0, 4, 5, 6, 8, 9, 1, 2, 3, 7, 10, 11).reshape(3, 4)
ENDS = i(0, 1, 4, 6)


def each_sequence(qkv, bias=None):
    out = []
    for s, (lo, hi) in enumerate(zip(ENDS[:-1], ENDS[1:])):
        q, k, v = (heads(x[None, lo:hi].astype(np.float64), H) for x in qkv)
        n = hi - lo
        more = 0 if bias is None else bias[min(s, bias.shape[0] - 1), :, :n, :n]
        out.append(joined(attend(q, k, v, more))[0])
    return [np.concatenate(out).astype(np.float32)]


def packed():
    T, V = sum(LENGTHS), 6
    x, w, b = f(T, 5), f(5, 3 * N), f(3 * N)

    def project(x, w, b, offsets, ends, bias=None, cut=(N, 2 * N)):
        return each_sequence(np.split(x.astype(np.float64) @ w + b, cut, -1), bias)
    # Scores of products of normal numbers: the softmax enlarges what they were rounded by.
    op, base = "PackedAttention", {"num_heads": H, "reference": project, "tolerance": "recurrent_f32"}
    yield case("plain", op, [x, w, b, OFFSETS, ENDS], **base)
    yield case("bias", op, [x, w, b, OFFSETS, ENDS, f(1, H, 4, 4)], **base)
    yield case("bias_each", op, [x, w, b, OFFSETS, ENDS, f(3, 1, 4, 4)], **base)
    yield case("sizes", op, [x, f(5, 2 * N + V), f(2 * N + V), OFFSETS, ENDS], qkv_hidden_sizes=[N, N, V], **base)
    op, base = "PackedMultiHeadAttention", {"num_heads": H}
    q, k, v, bias = f(T, N), f(T, N), f(T, V), f(2 * N + V)

    def apart(q, k, v, bias, offsets, ends, more=None):
        parts = [0] * 3 if bias is None else np.split(bias, (N, 2 * N))
        return each_sequence([x + p for x, p in zip((q, k, v), parts)], more)

    def together(x, *rest):
        return each_sequence([x[:, :, p].reshape(T, -1) for p in range(3)])
    yield case("plain", op, [q, k, v, None, OFFSETS, ENDS], reference=apart, **base)
    yield case("bias", op, [q, k, v, bias, OFFSETS, ENDS, f(3, H, 4, 4)], reference=apart, **base)
    yield case("together", op, [f(T, H, 3, D), None, None, None, OFFSETS, ENDS], reference=together, **base)


# ---- caches in blocks ----

TOKENS, PAGES, PAGE, G, KV = (3, 1, 2), 9, 4, 4, 2
PAGED = {"ends": i(0, 3, 4, 6), "past": i(5, 7, 0), "table": i(3, 1, 8, 0, 5, 2, 7, 4, 6).reshape(3, 3)}


def by_token(q, k, v, caches, ends, past, table, slots=None, sink=None, window=-1, causal=True, cap=0):
    """Each sequence by itself, in double."""
    caches = [c.copy() for c in caches]
    out = np.zeros((len(q), G * D))
    for s in range(len(past)):
        lo, hi = ends[s], ends[s + 1]
        for t in range(lo, hi):
            at = past[s] + t - lo
            slot = table[s, at // PAGE] * PAGE + at % PAGE if slots is None else slots[t]
            for cache, x in zip(caches, (k, v)):
                if slot >= 0:
                    cache.reshape(-1, KV, D)[slot] = x[t].reshape(KV, D)
        n = past[s] + hi - lo
        K, V = (c[table[s]].reshape(-1, KV, D)[:n].astype(np.float64) for c in caches)
        for t in range(lo, hi):
            at = past[s] + t - lo
            for h in range(G):
                scores = K[:, h * KV // G] @ q[t].reshape(G, D)[h].astype(np.float64) / np.sqrt(D)
                scores = np.tanh(scores / cap) * cap if cap else scores
                key = np.arange(n)
                scores[(causal & (key > at)) | ((window > 0) & (key < at - window + 1))] = -np.inf
                e = np.exp(scores - scores.max())
                rest = 0 if sink is None else np.exp(sink[h] - scores.max())
                out[t, h * D:(h + 1) * D] = e @ V[:, h * KV // G] / (e.sum() + rest)
    return [out.astype(q.dtype), *caches]


def rotated(x, n, ids, cos, sin):
    x = x.reshape(len(x), n, D)
    a, b = x[..., :D // 2], x[..., D // 2:]
    c, s = cos[ids][:, None], sin[ids][:, None]
    return np.concatenate([a * c - b * s, a * s + b * c], -1).reshape(len(x), -1)


def paged():
    op, T = "PagedAttention", sum(TOKENS)
    q, k, v = f(T, G * D), f(T, KV * D), f(T, KV * D)
    caches = [f(PAGES, PAGE, KV, D), f(PAGES, PAGE, KV, D)]
    base = {"num_heads": G, "kv_num_heads": KV, "outputs": 3}
    where = list(PAGED.values())

    def reference(q, k, v, kc, vc, ends, past, table, cos=None, sin=None, slots=None, sink=None, qn=None, kn=None,
                  **how):
        if k is None:
            q, k, v = np.split(q, [G * D, (G + KV) * D], -1)
        if qn is not None:
            q, k = ((rms(x.reshape(T, -1, D).astype(np.float64), 1e-6) * w).reshape(T, -1).astype(np.float32)
                    for x, w in ((q, qn), (k, kn)))
        if cos is not None:
            ids = np.concatenate([past[s] + np.arange(n) for s, n in enumerate(TOKENS)])
            q, k = rotated(q, G, ids, cos, sin), rotated(k, KV, ids, cos, sin)
        return by_token(q, k, v, (kc, vc), ends, past, table, slots, sink, **how)
    yield case("plain", op, [q, k, v, *caches, *where], reference=reference, **base)
    yield case("packed", op, [np.concatenate([q, k, v], -1), None, None, *caches, *where], reference=reference, **base)
    cos, sin = f(12, D // 2, lo=-1, hi=1), f(12, D // 2, lo=-1, hi=1)
    yield case("turned", op, [q, k, v, *caches, *where, cos, sin], do_rotary=1, reference=reference, **base)
    slots = i(13, -1, 15, 3, 28, -1)
    yield case("slots", op, [q, k, v, *caches, *where, None, None, slots], **base, reference=reference)
    yield case("sink", op, [q, k, v, *caches, *where, None, None, None, f(G)], reference=reference, **base)
    yield case("norms", op, [q, k, v, *caches, *where, *[None] * 4, f(D), f(D)], reference=reference, **base)
    for name, mine, how in (("window", {"local_window_size": 3}, {"window": 3}),
                            ("cap", {"softcap": 0.7}, {"cap": 0.7}),
                            ("both_ways", {"is_causal": 0}, {"causal": False})):
        yield case(name, op, [q, k, v, *caches, *where], **mine, **base,
                   reference=lambda *o, how=how: reference(*o, **how))


# ---- biases by position ----

def buckets(d, n, far, two):
    """As T5's own code has it, of distances d = key - query."""
    base = np.zeros_like(d)
    if two:
        n //= 2
        base, d = (d > 0) * n, np.abs(d)
    else:
        d = -np.minimum(d, 0)
    exact = n // 2
    with np.errstate(divide="ignore"):
        big = exact + (np.log(d / exact) / np.log(far / exact) * (n - exact)).astype(np.int64)
    return base + np.where(d < exact, d, np.minimum(big, n - 1))


def positions():
    op = "RelativePositionBias"
    for two in (0, 1):
        for n, queries, keys, far in ((32, 40, 40, 128), (8, 7, 7, 20), (8, 1, 1, 20)):
            def table(t, queries, keys, n=n, far=far, two=two):
                d = np.arange(keys)[None] - np.arange(queries)[:, None]
                return [t[buckets(d, n, far, two)].transpose(2, 0, 1)[None]]
            yield case(f"{two} {n} {queries}", op, [f(n, 3), np.int64(queries), np.int64(keys)], is_bidirectional=two,
                       max_distance=far, reference=table, constants=(1, 2))
    S, W = 5, 6
    operands = [f(B, S, N), f(N), f(1, H, S, S), f(D, W), f(W), f(1, H, 1, 1)]

    def gated(x, xb, rel, w, b, a, offsets=None):
        q = heads((x + xb).astype(np.float64), H) @ w + b
        u, r = (1 / (1 + np.exp(-g.sum(-1, keepdims=True))) for g in np.split(q, 2, -1))
        return [((u * (r * a - 1) + 2) * rel).astype(np.float32)]
    yield case("plain", "GatedRelativePositionBias", operands, num_heads=H, reference=gated)

    def filled(x, xb, rel, w, b, a, offsets):
        whole = np.zeros((12, N), np.float32)
        whole[offsets.ravel()[:len(x)]] = x
        return gated(whole.reshape(3, 4, N), xb, rel, w, b, a)
    yield case("packed", "GatedRelativePositionBias", [f(6, N), f(N), f(1, H, 4, 4), *operands[3:], OFFSETS],
               num_heads=H, reference=filled)


# ---- recurrent ----

def recurrent():
    op, T, K, dk, dv = "LinearAttention", 5, 2, 4, 6
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for q_heads, kv in ((K, K), (2 * K, K), (K, 2 * K)):
            decay = f(B, T, kv, lo=-1, hi=0) if "gated" in rule else None
            beta = f(B, T, kv, lo=0, hi=1) if "delta" in rule else None
            rows = [f(B, T, q_heads * dk, lo=-1, hi=1), f(B, T, kv * dk, lo=-0.5, hi=0.5), f(B, T, kv * dv)]
            yield case(f"{rule} {q_heads} {kv}", op, [*rows, f(B, kv, dk, dv), decay, beta], outputs=2,
                       q_num_heads=q_heads, kv_num_heads=kv, update_rule=rule, scale=0.5, tolerance="recurrent_f32")
    yield case("one beta", op, [*rows, None, decay, f(B, T, 1, lo=0, hi=1)], outputs=2, q_num_heads=q_heads,
               kv_num_heads=kv, tolerance="recurrent_f32")
    yield case("keys", op, [*rows, None, f(B, T, kv * dk, lo=-1, hi=0), beta], outputs=2, q_num_heads=q_heads,
               kv_num_heads=kv, tolerance="recurrent_f32")
    a, dt, scale, b = f(B, T, 4), f(4), f(4, lo=-2, hi=0), f(B, T, 4)
    yield case("both", "LinearAttentionGate", [a, dt, scale, b], outputs=2)
    yield case("decay", "LinearAttentionGate", [np.where(a > 1, 90, a), dt, scale])
    yield case("f16", "LinearAttentionGate", [a.astype(np.float16), dt, scale, b.astype(np.float16)], outputs=2)
    op = "CausalConvWithState"
    x, w, b = f(B, 6, 5), f(6, 1, 3), f(6)
    for act in ("none", "silu", "swish"):
        yield case(act, op, [x, w, b, f(B, 6, 2)], outputs=2, activation=act, constants=(1, 2))
    yield case("bare", op, [x, w], outputs=2, constants=(1,))
    yield case("apart", op, [x, w, b, f(B, 6, 6)], outputs=2, dilation=3, constants=(1,))
    yield case("short", op, [x[:, :, :1].copy(), w, b, f(B, 6, 2)], outputs=2, constants=(1,))
    last = x.transpose(0, 2, 1).copy()
    yield case("last", op, [last, w, b, f(B, 4, 6)], outputs=2, channels_last=1, dilation=2, constants=(1,))
    yield case("last_parts", op, [last.reshape(B, 5, 2, 3), w, b], outputs=2, channels_last=1, constants=(1,))


def turned():
    op, S, rows = "MRotaryEmbedding", 3, 12
    cos, sin = f(rows, D // 2, lo=-1, hi=1), f(rows, D // 2, lo=-1, hi=1)
    ids = i32(rows, 3, B, S).astype(np.int64)
    for layout, sections in ((0, [1, 2, 1]), (1, [2, 1, 1]), (0, [4, 0, 0])):
        for in_turn in (0, 1):
            yield case(f"rows {layout} {sections} {in_turn}", op, [f(B, S, N), ids, cos, sin], mrope_section=sections,
                       mrope_layout=layout, interleaved=in_turn, num_heads=H)
    yield case("heads", op, [f(B, H, S, D), ids, cos, sin], mrope_section=[1, 1, 2])
    part = [x[:, :2].copy() for x in (cos, sin)]
    yield case("part", op, [f(B, S, N), ids, *part], mrope_section=[1, 0, 1], rotary_embedding_dim=4, num_heads=H)
    half = [x.astype(np.float16) for x in (f(B, S, N), cos, sin)]
    yield case("f16", op, [half[0], ids, *half[1:]], mrope_section=[1, 2, 1], num_heads=H)
    rows = [f(B, H, S, D).astype(np.float16) for _ in range(4)]

    def gemma(angles, q, q_rot, k, k_rot):
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        return [(q * cos + q_rot * sin).astype(np.float16), (k * cos + k_rot * sin).astype(np.float16)]
    yield case("plain", "GemmaRotaryEmbedding", [f(B, S, D), *rows], outputs=2, reference=gemma)


# ---- dropouts that do not draw ----

def packed_bits(n):
    bits = np.zeros(-(-n // 32) * 32, np.uint32)
    bits[:n] = 1
    return np.bitwise_or.reduce(bits.reshape(-1, 32) << np.arange(32, dtype=np.uint32), 1)


def dropouts():
    for shape in ((3, 5), (2, 40), (0, 5), (1, 1)):
        x, b, r = f(*shape), f(shape[-1]), f(*shape)
        name = "x".join(map(str, shape))
        yield case(name, "BiasDropout", [x, b, r], outputs=2,
                   reference=lambda x, b, r: [x + b + r, np.ones(x.shape, bool)])
        yield case(name, "BitmaskDropout", [x], outputs=2, reference=lambda x: [x, packed_bits(x.size)])
        yield case(name, "BitmaskBiasDropout", [x, b, r], outputs=2,
                   reference=lambda x, b, r: [x + b + r, packed_bits(x.size)])
    yield case("no_residual", "BiasDropout", [x, x, None, np.float32(0.3), np.bool_(False)],
               reference=lambda x, b, *_: [x + b])


CASES = [*masked(), *sparse(), *paged(), *packed(), *positions(), *recurrent(), *turned(), *dropouts()]

DM, SPARSE = "DecoderMaskedMultiHeadAttention", "SparseAttention"
X = f(B, 1, N)
LAYOUT = [i(0, 1).reshape(1, 2), i(0).reshape(1, 1), i(1), i(1, 1)]
CACHE = [f(B, 2, 4, D)] * 2
REFUSED = [
    (case("rows", DM, [f(B, 2, N), f(B, 2, N), f(B, 2, N)], num_heads=H), ["query is 2", "expected 1"]),
    (case("length", DM, [X, X, X, None, None, *CACHE], num_heads=H, past_present_share_buffer=1),
     ["past_sequence_length is needed"]),
    (case("beams", DM, [X, X, X, None, None, *CACHE, i(1), i(2)], num_heads=H), ["cache_indirection"]),
    (case("both", DM, [X, *CACHE, None, None, *CACHE], num_heads=H), ["past_key is given"]),
    (case("share", SPARSE, [X, X, X, *CACHE, *LAYOUT], num_heads=3, kv_num_heads=2, sparse_block_size=16,
          outputs=3),
     ["num_heads 3", "kv_num_heads 2"]),
    (case("codes", "PagedAttention", [f(6, G * D), *[f(6, KV * D)] * 2, *[f(9, 4, KV, D)] * 2, *PAGED.values()],
          num_heads=G, kv_num_heads=KV, k_quant_type="PER_TENSOR"), ["k_quant_type is PER_TENSOR"]),
    (case("layouts", SPARSE, [X, X, X, *CACHE, i(0, 1, 0, 1, 0, 1).reshape(3, 2), i(0, 0, 0).reshape(3, 1),
                              *LAYOUT[2:]], num_heads=2, kv_num_heads=2, sparse_block_size=16, outputs=3),
     ["3 layouts"]),
    (case("ends", "PackedAttention", [f(6, 5), f(5, 3 * N), f(3 * N), OFFSETS, i(0, 6)], num_heads=H),
     ["2 elements, expected 4"]),
    (case("rank", "PackedMultiHeadAttention", [f(6, 2, N), None, None, None, OFFSETS, ENDS], num_heads=H),
     ["3 dims, expected 2 or 4"]),
    (case("buckets", "RelativePositionBias", [f(1, 2), np.int64(3), np.int64(3)], max_distance=8), ["1 buckets"]),
    (case("window", "LinearAttention", [f(B, 2, N)] * 3, q_num_heads=H, kv_num_heads=H, update_rule="linear",
          state_window=2, outputs=2), ["state_window is 2"]),
    (case("ndim", "CausalConvWithState", [f(B, 2, 3, 4), f(2, 1, 2)], ndim=2, outputs=2), ["ndim is 2"]),
    (case("sections", "MRotaryEmbedding", [f(B, 3, N), np.zeros((3, B, 3), np.int64), f(5, 4), f(5, 4)],
          mrope_section=[1, 1, 1]), ["cos_cache is 4", "expected 3"]),
]
