"""Products of one row over large constants, by every device that is there, beside numpy in double: alone and, as
decoders have them, with a norm before them, several over one x, and a gate behind two of them.
`NACRE_CUDA_PATH=build/release/cuda` runs them on the stand-ins of a GPU too."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import nacre

PROVIDERS = ["CPUExecutionProvider"] + (["CUDAExecutionProvider"] if nacre.get_device() == "GPU" else [])


def model(nodes, weights, K, outputs):
    inits = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, K])],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT16, None) for n in outputs], inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def drawn(rng, *dims):
    return rng.standard_normal(dims, np.float32).astype(np.float16)


def run(made, provider, x):
    s = nacre.InferenceSession(made.SerializeToString(), providers=[provider])
    return [y.astype(np.float64) for y in s.run(None, {"x": x})]


def near(got, want):
    assert np.isfinite(got).all()
    assert np.abs(got - want).max() <= 2e-3 * np.abs(want).max()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("K, N", [(1032, 1032), (520, 8456), (4096, 264), (2048, 2048)])
def test_alone(provider, K, N):
    rng = np.random.default_rng(K)
    x, w, c = drawn(rng, 1, K), drawn(rng, K, N), drawn(rng, 1, N)
    made = model([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "c"], ["y"])],
                 {"w": w, "c": c}, K, ["y"])
    near(run(made, provider, x)[0], x.astype(np.float64) @ w.astype(np.float64) + c)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_normed_and_gated(provider):
    """x is so large that its product with the scale is no float16."""
    K, N, M = 1096, 2056, 264
    rng = np.random.default_rng(1)
    x, scale = drawn(rng, 1, K) * np.float16(4000), np.abs(drawn(rng, K)) * np.float16(30)
    w = {n: drawn(rng, K, m) * np.float16(0.05) for n, m in (("q", N), ("k", M), ("v", M), ("gate", N), ("up", N))}
    nodes = [helper.make_node("RMSNormalization", ["x", "scale"], ["n"], axis=-1, epsilon=1e-5)]
    nodes += [helper.make_node("MatMul", ["n", name], [f"y_{name}"]) for name in w]
    nodes += [helper.make_node("Sigmoid", ["y_gate"], ["s"]), helper.make_node("Mul", ["y_gate", "s"], ["g"]),
              helper.make_node("Mul", ["g", "y_up"], ["gated"])]
    got = run(model(nodes, {"scale": scale, **w}, K, ["y_q", "y_k", "y_v", "gated"]), provider, x)
    x = x.astype(np.float64)
    n = x / np.sqrt(np.mean(x * x) + 1e-5) * scale
    q, k, v, gate, up = (n @ m.astype(np.float64) for m in w.values())
    for y, want in zip(got, (q, k, v, gate / (1 + np.exp(-gate)) * up)):
        near(y, want)
