"""The functions that make weights of few bits, beside onnxruntime's: the same codes, scales and zero points."""
import numpy as np
import package
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

from nacre.capi import onnxruntime_pybind11_state as mine  # noqa: E402


def made(module, bits, weights, block, symmetric):
    (k, n), blocks = weights.shape, -(-weights.shape[0] // block)
    codes, scales = np.zeros((n, blocks, block * bits // 8), np.uint8), np.zeros(n * blocks, weights.dtype)
    zeros = np.zeros(n * -(-blocks * bits // 8), np.uint8)
    getattr(module, f"quantize_matmul_{bits}bits")(codes, weights, scales, zeros, block, n, k, symmetric)
    return codes, scales, zeros


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_the_same_bytes(bits, symmetric, kind):
    draw = np.random.default_rng(bits)
    for n, k, block in ((5, 32, 16), (3, 68, 32), (1, 16, 16), (8, 64, 64), (2, 72, 16)):
        weights = draw.standard_normal((k, n)).astype(kind)
        weights[:block, 0] = 0  # a block of nothing
        for a, b in zip(made(mine, bits, weights, block, symmetric), made(theirs, bits, weights, block, symmetric)):
            assert np.array_equal(a, b), (n, k, block)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("element", [np.float32, np.float16])
def test_the_codes_of_bitsandbytes(kind, element):
    draw = np.random.default_rng(kind)
    for n, k, block in ((5, 7, 16), (3, 68, 64), (1, 16, 16), (1, 1, 32), (2, 48, 16)):
        weights = draw.standard_normal((n, k)).astype(element)
        weights.reshape(-1)[1:5] = np.array([0, -0.0, 1e-7, -1e-7])[:weights.size - 1]
        weights[1:2] = 0  # with k = 48: blocks of nothing
        found = []
        for module in (mine, theirs):
            codes, most = np.zeros((n * k + 1) // 2, np.uint8), np.zeros(-(-n * k // block), element)
            module.quantize_matmul_bnb4(codes, weights, most, block, kind, n, k)
            found.append((codes.tobytes(), most.tobytes()))
        assert found[0] == found[1], (n, k, block)


def test_numbers_around_the_codes():
    """Numbers just below and above those between two codes, and NaN, as fractions of the greatest."""
    for kind, table in ((0, [0, 1 / 192, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1]), (1, np.linspace(-1, 1, 31))):
        numbers = np.float32(table)
        between = (numbers[1:] + numbers[:-1]) / 2
        whole = np.concatenate([numbers, -numbers, between * 0.999, between * 1.001, -between * 0.999,
                                np.float32([np.nan, 1])])
        found = []
        for module in (mine, theirs):
            codes, most = np.zeros((whole.size + 1) // 2, np.uint8), np.zeros(1, np.float32)
            module.quantize_matmul_bnb4(codes, whole.reshape(1, -1), most, 256, kind, 1, whole.size)
            found.append((codes.tobytes(), most.tobytes()))
        assert found[0] == found[1], kind


@pytest.mark.parametrize("module", [mine, theirs], ids=["nacre", "onnxruntime"])
def test_sizes_of_blocks_of_bitsandbytes(module):
    with pytest.raises(RuntimeError, match="only block size"):
        module.quantize_matmul_bnb4(np.zeros(8, np.uint8), np.zeros((1, 16), np.float32), np.zeros(1, np.float32), 48,
                                    1, 1, 16)


# ---- codes that DequantizeLinear reads ----

def plainly(module, bits, weights, block, symmetric):
    (k, n), blocks = weights.shape, -(-weights.shape[0] // block)
    codes, scales = np.zeros(-(-k * n * bits // 8), np.uint8), np.zeros((blocks, n), weights.dtype)
    zeros = np.zeros(-(-blocks * n * bits // 8), np.uint8)
    signed = getattr(module, f"quantize_qdq_matmul_{bits}bits")(codes, weights, scales, zeros, block, n, k, symmetric)
    return signed, codes, scales, zeros


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_the_same_codes_in_the_weights_order(symmetric, kind):
    for n, k, block in ((6, 32, 16), (5, 33, 16), (1, 16, 16), (40, 256, 64), (3, 70, 70), (7, 9, 16), (50, 512, 32)):
        weights = np.random.default_rng(n * k).standard_normal((k, n)).astype(kind)
        weights[:block, 0] = 0
        for a, b in zip(plainly(mine, 4, weights, block, symmetric), plainly(theirs, 4, weights, block, symmetric)):
            assert np.array_equal(a, b), (n, k, block)


@pytest.mark.parametrize("symmetric", [True, False])
def test_two_bits_in_the_weights_order(symmetric):
    """By what they mean: onnxruntime's function of this name writes 4 bits, behind the end of what is made for 2."""
    weights = np.random.default_rng(2).standard_normal((48, 6)).astype(np.float32)
    signed, codes, scales, zeros = plainly(mine, 2, weights, 16, symmetric)
    assert signed == symmetric
    each = (codes[:, None] >> np.uint8([0, 2, 4, 6]) & 3).reshape(48, 6).astype(int)
    zero = (zeros[:, None] >> np.uint8([0, 2, 4, 6]) & 3).reshape(-1)[:18].reshape(3, 6).astype(int)
    each, zero = (np.where(each > 1, each - 4, each), zero * 0) if symmetric else (each, zero)
    back = (each - np.repeat(zero, 16, 0)) * np.repeat(scales, 16, 0)
    reach = np.repeat(np.abs(scales), 16, 0) * (1.01 if symmetric else 0.51)  # the end without a code is a step away
    assert (np.abs(back - weights) <= reach).all() and (np.abs(back - weights) > 0.3 * reach).any()


def test_turned_fp4():
    packed = np.random.default_rng(0).integers(0, 256, (6, 8), dtype=np.uint8)
    a, b = (m.pack_fp4_weights_for_cuda_moe_gemm(packed, 6, 16) for m in (mine, theirs))
    assert a.dtype == b.dtype and np.array_equal(a, b)
