"""Networks of convolutions that train: gradients with channels in blocks and without, by Winograd and not, agree with
each other and with PyTorch's; the same bits for any number of threads."""
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper as h

import nacre_c
import package  # noqa: F401
import tolerances
from nacre import training  # noqa: E402


def _model(layers, size, batch):
    """layers: (channels in, channels out, window, stride, with a bias). Those without are normalized by the batch."""
    rng = np.random.default_rng(3)
    nodes, weights, x = [], {}, "x"
    for i, (c, k, window, stride, biased) in enumerate(layers):
        weights |= {f"w{i}": rng.standard_normal((k, c, window, window)) / np.sqrt(c * window ** 2),
                    f"b{i}": rng.standard_normal(k)}
        weights |= {} if biased else {f"s{i}": rng.uniform(0.5, 1.5, k)}
        nodes += [h.make_node("Conv", [x, f"w{i}", *([f"b{i}"] if biased else [])], [f"conv{i}"],
                              strides=[stride] * 2, pads=[window // 2] * 4)]
        if not biased:
            nodes += [h.make_node("BatchNormalization", [f"conv{i}", f"s{i}", f"b{i}", f"mean{i}", f"var{i}"],
                                  [f"norm{i}", f"next_mean{i}", f"next_var{i}"], training_mode=1)]
        x = f"y{i}"
        nodes += [h.make_node("Relu", [nodes[-1].output[0]], [x])]
    nodes += [h.make_node("Mul", [x, x], ["squares"]), h.make_node("ReduceSum", ["squares"], ["loss"], keepdims=0)]
    weights = {n: v.astype(np.float32) for n, v in weights.items()}
    normal = {i: k for i, (_, k, _, _, biased) in enumerate(layers) if not biased}
    still = {f"{n}{i}": np.full(k, v, np.float32) for i, k in normal.items() for n, v in (("mean", 0), ("var", 1))}
    graph = h.make_graph(nodes, "net", [h.make_tensor_value_info("x", T.FLOAT, (batch, layers[0][0], *size))],
                         [h.make_tensor_value_info("loss", T.FLOAT, ()),
                          *(h.make_tensor_value_info(f"next_mean{i}", T.FLOAT, (k,)) for i, k in normal.items())],
                         [onnx.numpy_helper.from_array(v, n) for n, v in {**weights, **still}.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)
    return model, weights, rng.standard_normal((batch, layers[0][0], *size)).astype(np.float32)


def _of_torch(layers, weights, x):
    p = {n: torch.from_numpy(v).requires_grad_() for n, v in weights.items()}
    y = torch.from_numpy(x)
    for i, (_, _, window, stride, biased) in enumerate(layers):
        y = torch.nn.functional.conv2d(y, p[f"w{i}"], p[f"b{i}"] if biased else None, stride, window // 2)
        if not biased:
            y = torch.nn.functional.batch_norm(y, None, None, p[f"s{i}"], p[f"b{i}"], training=True)
        y = torch.relu(y)
    loss = (y * y).sum()
    loss.backward()
    return {"loss": loss.detach().numpy(), **{f"grad:{n}": v.grad.numpy() for n, v in p.items()}}


def _run(model, x, threads=1, **settings):
    with nacre_c.Env(threads) as env, env.session(model, **settings) as session:
        return session.run({"x": x})


def _agree(got, want, what):
    """By the largest element: sums over all places leave small ones with the roundings of large terms."""
    size = np.abs(want).max()
    tolerances.close(got / size, want / size, "model_gradient_f32", what)


NETS = {"to_the_end": ([(3, 32, 3, 1, False), (32, 64, 3, 2, False), (64, 48, 3, 1, False)], (16, 16), 4),
        "odd": ([(5, 19, 3, 1, False), (19, 35, 5, 2, True), (35, 17, 1, 1, False)], (13, 11), 3),
        "winograd": ([(16, 40, 3, 1, True), (40, 33, 3, 1, False)], (17, 18), 2)}


@pytest.mark.parametrize("name", NETS)
def test_gradients(name):
    layers, size, batch = NETS[name]
    model, weights, x = _model(layers, size, batch)
    with_gradients = training.gradients(model, "loss", list(weights))
    plain = _run(with_gradients, x)
    for settings in ({"layouts": False}, {"winograd": False}):
        other = _run(with_gradients, x, **settings)
        for key, value in plain.items():
            _agree(value, other[key], (key, settings))
    for key, value in _of_torch(layers, weights, x).items():
        _agree(plain[key], value, key)
    for key, value in _run(with_gradients, x, threads=3).items():
        assert value.tobytes() == plain[key].tobytes(), key
