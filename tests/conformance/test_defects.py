"""What suite.DEFECTS says of ONNX's cases: their own expected values, or numpy's own results, do not pass them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402
from onnx.backend.test.runner import Runner  # noqa: E402

import suite  # noqa: E402

NODES = {c.name: c for c in load_model_tests(kind="node")}
RTOL, ATOL = 1e-3, 1e-7  # the suite's


def operands(name):
    (inputs, outputs), = NODES[name].data_sets
    return inputs, outputs


def test_the_length_of_a_scalar():
    """The runner refuses the very values that the case expects."""
    _, expected = operands("test_loop16_seq_none")
    assert [x.shape for x in expected[0]] == [(), (1,), (2,), (3,), (4,), (5,)]
    with pytest.raises(TypeError, match="Unable to compare expected type"):
        Runner.assert_similar_outputs(expected, expected, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("name", ["test_dft_inverse", "test_dft_inverse_opset19"])
def test_columns_that_differ_by_a_constant_have_one_spectrum(name):
    """Of x[n] + c the value at k = 5 is that of x[n]: sum x[n] (-1)^n / 10 = -5, whose imaginary part is 0. Where
    numpy's rounding in f32, which differs by machine and by what stands beside a column, is not, numpy in f64 fails
    the case."""
    inputs, (expected,) = operands(name)
    x = inputs[0][0, ..., 0]
    assert inputs[0].shape == (1, 10, 10, 2) and not inputs[0][..., 1].any()
    exact = sum(x[n].astype(int) * (-1) ** n for n in range(10))
    assert (exact == -50).all()
    there, precise = expected[0, 5, :, 1], np.fft.ifft(x.astype(np.complex128), axis=0)[5].imag
    assert np.allclose(precise, 0, rtol=RTOL, atol=ATOL)
    if not np.allclose(there, 0, rtol=RTOL, atol=ATOL):
        assert not np.allclose(precise, there, rtol=RTOL, atol=ATOL)


def test_draws_without_a_seed():
    """numpy's own next draw is another."""
    for name in (n.removesuffix("_cpu") for n in suite.DEFECTS if "bernoulli" in n):
        (x, *_), (expected,) = operands(name)
        draws = [np.random.binomial(1, p=x).astype(expected.dtype) for _ in range(40)]
        assert any(not np.array_equal(d, expected) for d in draws)
