"""Weights that DequantizeLinear makes of constant codes in front of float products and convolutions: decoded once, into
the packed form. The bits are those of the same weights as floats; who else reads them gets them as before."""
import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from nacre_c import Env, Options

K, N = 130, 135  # larger than what is folded when a session is made
RNG = np.random.default_rng(11)
CODES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-3000, 3000)}
HEAD = '<ir_version: 10, opset_import: ["" : 21]> g (float[m,{k}] x) => (float[m,{n}] y) {{ {body} }}'


def weights(kind, shape, axis, block=0, zeros=True):
    """Codes, scales, zero points, and the numbers that they are."""
    low, high = CODES[kind]
    codes = RNG.integers(low, high + 1, shape).astype(kind)
    dims = [] if axis is None else [-(-d // block) if block and i == axis else d if block or i == axis else 1
                                    for i, d in enumerate(shape)]
    scale = RNG.uniform(0.001, 0.01, dims).astype(np.float32)
    zero = RNG.integers(low, high + 1, dims).astype(kind) if zeros else np.zeros(dims, kind)

    def wide(a):
        return np.repeat(a, block, axis).take(range(shape[axis]), axis) if block else a
    numbers = (codes.astype(np.int32) - wide(zero).astype(np.int32)).astype(np.float32) * wide(scale)
    flat = (lambda a: a) if block else (lambda a: a.reshape(-1) if a.ndim else a)
    return codes, flat(scale), flat(zero), numbers.astype(np.float32)


def made(text, **constants):
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in constants.items())
    return model.SerializeToString()


def both(body, codes, scale, zero, numbers, dims, axis=1, block=0, **more):
    """The model with codes and the one with numbers."""
    attrs = f"<axis = {axis}, block_size = {block}>" if block else f"<axis = {axis}>"
    coded = made(HEAD.format(**dims, body=f"w = DequantizeLinear{attrs}(q, s, z) {body}"), q=codes, s=scale, z=zero,
                 **more)
    return coded, made(HEAD.format(**dims, body=body), w=numbers, **more)


def ran(model, feeds, threads=2, **options):
    with Env(threads) as env:
        session = env.session(model, Options(dumps="on", **options))
        first = session.run(feeds)["y"]
        np.testing.assert_array_equal(session.run(feeds)["y"], first)
        return first, session.dump("program")


def is_packed(program):
    return " view " in next(line for line in program.splitlines() if "DequantizeLinear" in line)


def compare(coded, plain, feeds, packed=True, **options):
    got, program = ran(coded, feeds, **options)
    assert is_packed(program) == packed
    np.testing.assert_array_equal(got, ran(plain, feeds, **options)[0])
    np.testing.assert_array_equal(got, ran(coded, feeds, 1, **options)[0])


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("axis, block", [(None, 0), (0, 0), (1, 0), (0, 32), (1, 16)])
@pytest.mark.parametrize("body", ["y = MatMul(x, w)", "p = MatMul(x, w) y = Relu(p)"])
def test_products(kind, axis, block, body):
    parts = weights(kind, (K, N), axis, block)
    coded, plain = both(body, *parts, {"k": K, "n": N}, 1 if axis is None else axis, block)
    for m in (0, 1, 7):
        compare(coded, plain, {"x": RNG.standard_normal((m, K), np.float32)})


@pytest.mark.parametrize("body", ["y = Gemm<transB = 1>(x, w, b)", "t = Transpose(w) p = MatMul(x, t) y = Add(p, b)"])
def test_turned_products(body):
    parts = weights("int8", (N, K), 0)
    coded, plain = both(body, *parts, {"k": K, "n": N}, 0, b=RNG.standard_normal(N, np.float32))
    compare(coded, plain, {"x": RNG.standard_normal((5, K), np.float32)})


def test_convolutions():
    codes, scale, zero, numbers = weights("int8", (48, 40, 3, 3), 0)
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[1,40,9,11] x) => (float[1,48,9,11] y) {{ {} }}'
    body = "y = Conv<pads = [1, 1, 1, 1]>(x, w)"
    feeds = {"x": RNG.standard_normal((1, 40, 9, 11), np.float32)}
    compare(made(text.format(f"w = DequantizeLinear<axis = 0>(q, s, z) {body}"), q=codes, s=scale, z=zero),
            made(text.format(body), w=numbers), feeds)


@pytest.mark.parametrize("body", ["p = MatMul(x, w) r = ReduceSum<keepdims = 0>(w, first) y = Add(p, r)",
                                  "h = MatMul(x, w) v = Slice(w, first, one) y = Add(h, v)"])
def test_others_read_them_too(body):
    parts = weights("uint8", (K, N), 1)
    coded, plain = both(body, *parts, {"k": K, "n": N}, first=np.array([0]), one=np.array([1]))
    compare(coded, plain, {"x": RNG.standard_normal((3, K), np.float32)}, packed=False)


@pytest.mark.parametrize("options", [{"packing": "off"}, {"views": "off"}])
def test_switched_off(options):
    parts = weights("int8", (K, N), 1)
    coded, plain = both("y = MatMul(x, w)", *parts, {"k": K, "n": N})
    compare(coded, plain, {"x": RNG.standard_normal((3, K), np.float32)}, packed=False, **options)


def test_two_products_share_them():
    parts = weights("int8", (K, K), 1)
    coded, plain = both("h = MatMul(x, w) y = MatMul(h, w)", *parts, {"k": K, "n": K})
    compare(coded, plain, {"x": RNG.standard_normal((3, K), np.float32)})


def test_a_kept_file_knows_the_scales(tmp_path):
    """Equal codes with other scales are other weights."""
    codes, scale, zero, _ = weights("int8", (K, N), 1)
    feeds = {"x": RNG.standard_normal((3, K), np.float32)}
    for s in (scale, scale, scale * 2, scale):
        numbers = (codes.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * s
        coded, plain = both("y = MatMul(x, w)", codes, s, zero, numbers, {"k": K, "n": N})
        got = ran(coded, feeds, packed_file=str(tmp_path / "packed"))[0]
        np.testing.assert_array_equal(got, ran(plain, feeds)[0])
