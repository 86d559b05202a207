"""Cases of mixtures of experts beyond those that onnxruntime's CPU has, and of experts whose weights are codes."""
import ml_dtypes
import numpy as np

from . import case, stream
from .layers import softmax

_, f, i32 = stream(51)


def mixed(x, router, w1, b1, w2, b2, w3=None, b3=None, gates=None, k=2, act=None):
    """A mixture in double; what onnxruntime's CPU lacks."""
    chances = softmax(router.astype(np.float64))
    out = np.zeros(x.shape)
    for t, token in enumerate(x.astype(np.float64)):
        best = np.argsort(-router[t], kind="stable")[:k]
        for e, g in zip(best, chances[t][best] if gates is None else gates[t]):
            h, other = w1[e] @ token + b1[e], None if w3 is None else w3[e] @ token + b3[e]
            out[t] += g * (w2[e] @ act(h, other) + b2[e])
    return [out.astype(x.dtype)]


def swish(h, other):
    return h / (1 + np.exp(-1.5 * h)) * (other + 0.5)


def experts_apart():
    """Gates of their own layer, and the sparse mixer, of which onnxruntime's CPU has none."""
    tokens, width, inner, n = 5, 4, 6, 3
    x, router = f(tokens, width), f(tokens, n)
    layers = [f(n, inner, width), f(n, inner), f(n, width, inner), f(n, width), f(n, inner, width), f(n, inner)]
    yield case("swiglu, apart", "MoE", [x, router, *layers], k=2, activation_type="swiglu", activation_alpha=1.5,
               activation_beta=0.5, reference=lambda *o: mixed(*o, act=swish), tolerance="recurrent_f32")
    yield case("third", "MoE", [x, router, *layers], k=2, activation_type="relu", tolerance="recurrent_f32",
               reference=lambda *o: mixed(*o, act=lambda h, other: np.maximum(h, 0) * other))
    near = np.float32([[1, 1.001, -3], [2, 1.99, 1.98], [-1, -1.01, -1.005], [5, 0.1, 0.11], [0.3, 3, 2.99]])

    def sparse(*operands):
        def choice(s):
            at = np.argmax(s)
            near_by = (s[at] - s) / np.maximum(np.abs(s), s[at]) <= 0.02
            return at, 1 / np.sum(np.exp(s[near_by & np.isfinite(s)] - s[at]))
        gates = []
        for row in operands[1].astype(np.float64):
            at, first = choice(row)
            with np.errstate(invalid="ignore"):
                gates.append([first, choice(np.where(np.arange(n) == at, -np.inf, row))[1]])
        return mixed(*operands, gates=gates, act=lambda h, other: np.maximum(h, 0))
    yield case("sparse mixer", "MoE", [x, near, *layers[:4]], k=2, use_sparse_mixer=1, reference=sparse,
               tolerance="recurrent_f32")


def chosen(router):
    """Weights of the two best, of their own softmax."""
    return softmax(-np.sort(-router.astype(np.float64), -1)[:, :2])


def coded_experts():
    tokens, width, inner, n = 5, 32, 48, 3
    x, router = f(tokens, width), f(tokens, n)

    def codes(*shape):
        return i32(256, *shape).astype(np.uint8)

    def layers(bits, block, fused, zeros):
        rows = inner * (2 if fused else 1)
        out = []
        for N, K in ((rows, width), (width, inner)):
            step = f(n, N, *([K // block] if block else []), lo=0.16, hi=0.48) / np.float32(2 ** bits)
            out += [codes(n, N, K * bits // 8), step, f(n, N)]
        points = [codes(n, *((N, -(-(K // block) * bits // 8)) if block else (-(-N * bits // 8),)))
                  for N, K in ((rows, width), (width, inner))]
        return [*out, None, None, None, *points] if zeros else out
    # accuracy_level 0: weights of 8 bits in blocks see activations of 8 bits in onnxruntime, which is not compared
    for bits, block in ((8, 0), (4, 0), (4, 16), (2, 0), (2, 16)):
        for zeros in (False, True):
            yield case(f"{bits} bits, {block}, {zeros}", "QMoE", [x, router, *layers(bits, block, True, zeros)], k=2,
                       activation_type="swiglu", swiglu_fusion=1, expert_weight_bits=bits, tolerance="recurrent_f32",
                       normalize_routing_weights=int(zeros), **({"block_size": block} if block else {}))
    for act in ("relu", "gelu", "silu", "identity"):
        yield case(act, "QMoE", [x, router, *layers(4, 16, False, False)], k=1, activation_type=act, block_size=16,
                   tolerance="recurrent_f32")
    mix = [*layers(4, 0, False, False), *[None] * 6, f(tokens, n, lo=0.1, hi=1)]
    for normal in (0, 1):
        yield case(f"mixing {normal}", "QMoE", [x, router, *mix], k=2, normalize_routing_weights=normal,
                   tolerance="recurrent_f32")
    yield case("batch, held", "QMoE", [f(2, 2, width), f(4, n), *layers(4, 16, False, True)], k=3, block_size=16,
               constants=(2, 3, 5, 6, 11, 12), tolerance="recurrent_f32")
    each = [*layers(8, 0, False, False)[:3], *layers(2, 0, False, False)[3:]]

    def by_rows(codes, scales, bits):
        parts = [(codes >> (bits * k)) & (2 ** bits - 1) for k in range(8 // bits)]
        return (np.stack(parts, -1).reshape(*codes.shape[:2], -1) - 2.0 ** (bits - 1)) * scales[..., None]

    def written_out(first, second, gates):
        """The mixture of decoded weights, of so many bits; gates of the router and the mixing weights."""
        def run(x, router, w1, s1, b1, w2, s2, b2, *more):
            return mixed(x, router, by_rows(w1, s1, first), b1, by_rows(w2, s2, second), b2,
                         gates=gates(router, more[-1] if more else None), act=lambda h, _: np.maximum(h, 0))
        return run
    yield case("bits of each", "QMoE", [x, router, *each], k=2, fc1_expert_weight_bits=8, fc2_expert_weight_bits=2,
               tolerance="recurrent_f32",  # onnxruntime: one width
               reference=written_out(8, 2, lambda router, _: chosen(router)))
    # weights below 0 count; onnxruntime leaves out those up to 1e-8
    yield case("mixing below 0", "QMoE", [x, router, *mix[:-1], f(tokens, n)], k=2, normalize_routing_weights=0,
               tolerance="recurrent_f32", reference=written_out(4, 4, lambda router, mixing: np.take_along_axis(
                   mixing, np.argsort(-router, -1, kind="stable")[:, :2], 1)))
    yield from float_experts(x, router, width, inner, n)


def float_experts(x, router, width, inner, n):
    """Weights of 4 and 8 bits that are floats: CUDA alone has them in onnxruntime."""
    table = np.float64([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    biases = [f(n, inner), f(n, width)]
    sizes = ((inner, width), (width, inner))

    def run(x, router, w1, b1, w2, b2):
        return mixed(x, router, w1, b1, w2, b2, gates=chosen(router), act=lambda h, _: np.maximum(h, 0))

    def in_squares(w, s):
        return w.astype(np.float64) * np.repeat(np.repeat(s, 20, 1), 20, 2)[:, :w.shape[1], :w.shape[2]]

    def times(w, s):
        return w.astype(np.float64) * s[:, None, None]
    E4, E8 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    weights = [f(n, N, K).astype(E4) for N, K in sizes]
    scales = [f(n, -(-N // 20), -(-K // 20), lo=0.1, hi=0.2) for N, K in sizes]
    yield case("fp8 in squares", "QMoE", [x, router, weights[0], scales[0], biases[0], weights[1], scales[1],
                                          biases[1]], k=2, quant_type="fp8", block_size=20, tolerance="recurrent_f32",
               reference=lambda x, router, w1, s1, b1, w2, s2, b2: run(x, router, in_squares(w1, s1), b1,
                                                                       in_squares(w2, s2), b2))
    whole = [f(n, lo=0.1, hi=0.2) for _ in range(2)]
    yield case("fp8", "QMoE", [x, router, weights[0], None, biases[0], weights[1], None, biases[1], *[None] * 7,
                               *whole], k=2, quant_type="fp8", tolerance="recurrent_f32",
               reference=lambda x, router, w1, _, b1, w2, __, b2, *rest: run(x, router, times(w1, rest[-2]), b1,
                                                                             times(w2, rest[-1]), b2))
    packed = [i32(256, n, N, K // 2).astype(np.uint8) for N, K in ((inner, width), (width, 64))]
    wide = [f(n, 64), f(n, width)]
    packed[0] = i32(256, n, 64, width // 2).astype(np.uint8)

    def by_steps(p, s, block):
        numbers = table[np.stack([p & 15, p >> 4], -1).reshape(*p.shape[:2], -1)]
        return numbers * np.repeat(s.astype(np.float64), block, 2)
    for name, t, block in (("fp4", E8, 32), ("nvfp4", E4, 16)):
        steps = [f(n, w.shape[1], 2 * w.shape[2] // block, lo=0.1, hi=0.4).astype(t) for w in packed]
        yield case(name, "QMoE", [x, router, packed[0], steps[0], wide[0], packed[1], steps[1], wide[1], *[None] * 7,
                                  *whole], k=2, quant_type=name, tolerance="recurrent_f32",
                   reference=lambda x, router, w1, s1, b1, w2, s2, b2, *rest, block=block: run(
                       x, router, times(by_steps(w1, s1, block), rest[-2]), b1,
                       times(by_steps(w2, s2, block), rest[-1]), b2))


CASES = [*experts_apart(), *coded_experts()]

CODED = [f(2, 4), f(2, 3), np.zeros((3, 6, 2), np.uint8), f(3, 6), None, np.zeros((3, 4, 3), np.uint8), f(3, 4)]
REFUSED = [
    (case("kind", "QMoE", CODED, quant_type="wfp4afp8"), "quant_type is 'wfp4afp8'"),
    (case("bits", "QMoE", CODED, expert_weight_bits=3), "3 bits, expected 2, 4 or 8"),
    (case("block", "QMoE", CODED, block_size=5), "block_size is 5"),
    (case("ranks", "QMoE", CODED, block_size=16), "fc1_scales has 2 dims, expected 3"),
    (case("packed", "QMoE", CODED, weights_prepacked=1), "weights_prepacked is 1"),
]
