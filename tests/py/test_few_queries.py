"""Attention of few queries over caches that stay where they are, as decoders have it, by every device that is there,
beside numpy in double: new rows come out of products and go into the caches on the way, anywhere, also around their
end. `NACRE_CUDA_PATH=build/release/cuda` runs them on the stand-ins of a GPU too."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import nacre

F16, I64 = TensorProto.FLOAT16, TensorProto.INT64
PROVIDERS = ["CPUExecutionProvider"] + (["CUDAExecutionProvider"] if nacre.get_device() == "GPU" else [])
WIDTH = 32  # of what the products take


def tensor(name, kind, *dims):
    return helper.make_tensor_value_info(name, kind, dims)


def model(weights, heads, kv, size, rows, n):
    """x gives the queries of one place, u the keys and values of n new rows."""
    inits = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    inits += [numpy_helper.from_array(np.int64(v), name) for name, v in
              (("q_dims", [1, heads, 1, size]), ("new_dims", [1, n, kv, size]))]
    nodes, inputs, outputs = [helper.make_node("MatMul", ["x", "wq"], ["q2"]),
                              helper.make_node("Reshape", ["q2", "q_dims"], ["q"])], [], []
    for c in "kv":
        nodes += [helper.make_node("MatMul", ["u", f"w{c}"], [f"{c}2"]),
                  helper.make_node("Reshape", [f"{c}2", "new_dims"], [f"{c}4"]),
                  helper.make_node("Transpose", [f"{c}4"], [c], perm=[0, 2, 1, 3]),
                  helper.make_node("TensorScatter", [f"cache_{c}", c, "at"], [f"new_{c}"], axis=2, mode="circular")]
        inputs.append(tensor(f"cache_{c}", F16, 1, kv, rows, size))
        outputs.append(tensor(f"new_{c}", F16, 1, kv, rows, size))
    nodes.append(helper.make_node("Attention", ["q", "new_k", "new_v", "", "", "", "length"], ["y"]))
    inputs += [tensor("x", F16, 1, 1, WIDTH), tensor("u", F16, 1, n, WIDTH), tensor("at", I64, 1),
               tensor("length", I64, 1)]
    graph = helper.make_graph(nodes, "g", inputs, [tensor("y", F16, 1, heads, 1, size)] + outputs, inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def attended(q, caches, length):
    keys, values = (np.repeat(c[:, :length].astype(np.float64), len(q) // len(c), 0) for c in caches)
    scores = np.einsum("hc,hkc->hk", q.astype(np.float64), keys) / np.sqrt(q.shape[1])
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return np.einsum("hk,hkc->hc", shares / shares.sum(1, keepdims=True), values)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("heads, kv, size, rows, n", [
    (8, 2, 64, 1300, 1), (16, 1, 64, 2600, 1), (4, 4, 128, 1050, 1), (3, 3, 80, 300, 1), (2, 1, 256, 700, 1),
    (4, 2, 16, 1100, 1), (8, 2, 64, 1300, 5), (2, 2, 128, 600, 3), (32, 4, 64, 600, 1), (6, 1, 128, 3100, 1)])
def test_caches_in_place(provider, heads, kv, size, rows, n):
    rng = np.random.default_rng(size + n)
    weights = {f"w{c}": (rng.standard_normal((WIDTH, m * size), np.float32) / 4).astype(np.float16)
               for c, m in (("q", heads), ("k", kv), ("v", kv))}
    options = nacre.SessionOptions()
    for c in "kv":
        options.add_tie(f"cache_{c}", f"new_{c}")
    how = (provider, {"enable_cuda_graph": "1"}) if provider.startswith("CUDA") else provider
    s = nacre.InferenceSession(model(weights, heads, kv, size, rows, n).SerializeToString(), options, providers=[how])
    caches = [np.zeros((kv, rows, size), np.float16) for _ in "kv"]
    steps = [(0, n), (130, 140 + n), (rows - 2, rows), (rows + 3, rows), (rows // 2, rows // 2 + n), (290, 291),
             (rows - 1, rows), (rows - 5, 20), (15, rows - 6)]
    for at, length in steps:
        x, u = (rng.standard_normal((1, m, WIDTH), np.float32).astype(np.float16) for m in (1, n))
        if at == rows - 5:  # behind the length, which nobody sees
            u[:] = np.nan
        y, = s.run(["y"], {"x": x, "u": u, "at": np.int64([at]), "length": np.int64([length])})
        q, k, v = ((a[0].astype(np.float32) @ weights[w].astype(np.float32)).astype(np.float16)
                   for a, w in ((x, "wq"), (u, "wk"), (u, "wv")))
        for c, new in zip(caches, (k, v)):
            c[:, (at + np.arange(n)) % rows] = new.reshape(n, kv, size).transpose(1, 0, 2)
        want = attended(q.reshape(heads, size), caches, length)
        assert np.abs(y[0, :, 0].astype(np.float64) - want).max() <= 4e-3 * np.abs(want).max()
