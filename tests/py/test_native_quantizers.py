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
