"""Bernoulli's statistics, in the place of ONNX's cases, which compare unseeded draws with those of numpy."""
import numpy as np
import package
import pytest
from onnx import TensorProto as T
from onnx import helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

N = 20000
CHANCES = np.repeat(np.float32([0, 0.125, 0.5, 0.875, 1])[:, None], N, axis=1)


def five_deviations(chance):
    """Of the number of ones among N draws: one set of draws in a million is farther off."""
    return 5 * (N * chance * (1 - chance)) ** 0.5


def drawn(given, out, attributes):
    node = helper.make_node("Bernoulli", ["p"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("p", given, [5, N])],
                              [helper.make_tensor_value_info("y", out, [5, N])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = nacre.InferenceSession(model.SerializeToString())
    p = CHANCES.astype(helper.tensor_dtype_to_np_dtype(given))
    return session.run(None, {"p": p})[0], session.run(None, {"p": p})[0]


@pytest.mark.parametrize("given, out, attributes", [
    (T.FLOAT, T.FLOAT, {}), (T.DOUBLE, T.DOUBLE, {}), (T.FLOAT, T.FLOAT, {"seed": 5.0}),
    (T.FLOAT, T.INT32, {"dtype": T.INT32}), (T.FLOAT16, T.BOOL, {"dtype": T.BOOL, "seed": 2.0})])
def test_each_chance_is_met(given, out, attributes):
    y, again = drawn(given, out, attributes)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(out) and set(np.unique(y).tolist()) <= {0, 1}
    for chance, count in zip(CHANCES[:, 0], y.astype(np.int64).sum(axis=1)):
        assert abs(count - N * chance) <= five_deviations(chance)
    assert (y[2] != again[2]).any(), "each run draws anew"
    pairs = y[2, 1:].astype(bool) == y[2, :-1].astype(bool)
    assert abs(pairs.sum() - N / 2) <= five_deviations(0.5), "neighbours are independent"
