"""Ten steps of gradient descent on a small MLP, beside torch.optim.SGD in the same process.

Both start from the torch module's own initial weights and see the same random batches. Nothing is compared with stored
numbers.
"""
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from nacre_c import Env, Options
from tolerances import TOLERANCES, close

INPUTS, HIDDEN, CLASSES, STEPS = 59, 32, 10, 10
ONE_SIZE, MANY_SIZES = [16] * STEPS, [8, 3, 8, 1, 17, 5, 8, 2, 33, 7]
TYPES = {"f64": (torch.float64, TensorProto.DOUBLE, np.float64, "steps_f64"),
         "f32": (torch.float32, TensorProto.FLOAT, np.float32, "steps_f32")}
ACTIVATIONS = {"Relu": torch.nn.ReLU, "Tanh": torch.nn.Tanh}


def torch_mlp(kind, activation):
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), ACTIVATIONS[activation](),
                               torch.nn.Linear(HIDDEN, CLASSES)).to(TYPES[kind][0])


def layers(form, activation):
    """Nodes from x to logits. The MatMul form holds each weight as (inputs, outputs), Gemm as torch does."""
    if form == "gemm":
        return [helper.make_node("Gemm", ["x", "W1", "b1"], ["h"], "fc1", transB=1),
                helper.make_node(activation, ["h"], ["a"], "act"),
                helper.make_node("Gemm", ["a", "W2", "b2"], ["logits"], "fc2", transB=1)]
    return [helper.make_node("MatMul", ["x", "W1"], ["xw"], "mm1"),
            helper.make_node("Add", ["xw", "b1"], ["h"], "add1"),
            helper.make_node(activation, ["h"], ["a"], "act"),
            helper.make_node("MatMul", ["a", "W2"], ["aw"], "mm2"),
            helper.make_node("Add", ["aw", "b2"], ["logits"], "add2")]


def parameters(module, form):
    """The module's parameters under the names and in the layout of the graph."""
    turn = (lambda w: w) if form == "gemm" else (lambda w: np.ascontiguousarray(w.T))
    first, last = module[0], module[2]
    return {"W1": turn(first.weight.detach().numpy()), "b1": first.bias.detach().numpy(),
            "W2": turn(last.weight.detach().numpy()), "b2": last.bias.detach().numpy()}


def onnx_mlp(module, kind, form, activation):
    element = TYPES[kind][1]
    nodes = layers(form, activation) + [helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "y"], ["loss"], "loss")]
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("x", element, ["batch", INPUTS]),
         helper.make_tensor_value_info("y", TensorProto.INT64, ["batch"])],
        [helper.make_tensor_value_info("loss", element, [])],
        [numpy_helper.from_array(w.copy(), name) for name, w in parameters(module, form).items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def batches(kind, sizes):
    rng = np.random.default_rng(11)
    return [(rng.standard_normal((n, INPUTS)).astype(TYPES[kind][2]), rng.integers(0, CLASSES, n)) for n in sizes]


def rates():
    return [0.5 / (1 + step) for step in range(STEPS)]


def torch_steps(module, kind, sizes):
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    losses = []
    for (x, y), lr in zip(batches(kind, sizes), rates()):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def nacre_steps(env, model, kind, sizes, **settings):
    """Losses and final parameters."""
    options = Options(**settings).sgd("loss", [], "lr")
    with env.session(model, options) as session:
        losses = []
        for (x, y), lr in zip(batches(kind, sizes), rates()):
            out = session.run({"x": x, "y": y, "lr": np.asarray(lr, TYPES[kind][2])}, ["loss"])
            losses.append(out["loss"].item())
        assert session.stats.plans == 1
        assert session.stats.runs == STEPS
        return losses, {name: session.get(name) for name in ("W1", "b1", "W2", "b2")}


def compare(env, kind, form, activation, sizes, **settings):
    module = torch_mlp(kind, activation)
    model = onnx_mlp(module, kind, form, activation)
    start = {name: w.copy() for name, w in parameters(module, form).items()}
    losses, got = nacre_steps(env, model, kind, sizes, **settings)
    want_losses = torch_steps(module, kind, sizes)
    row = TYPES[kind][3]
    close(losses, want_losses, row)
    for name, want in parameters(module, form).items():
        close(got[name], want, row, name)
        moved = np.abs(want - start[name]).max()
        assert moved > 100 * TOLERANCES[row][1], f"{name} hardly moved: the test would prove nothing"


@pytest.mark.parametrize("sizes", [ONE_SIZE, MANY_SIZES], ids=["one_size", "many_sizes"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("form", ["matmul", "gemm"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_ten_steps_as_torch(env, device, kind, form, activation, sizes):
    compare(env, kind, form, activation, sizes, device=device)


@pytest.mark.parametrize("off", [["fusion"], ["views"], ["packing"], ["fusion", "views", "packing", "layouts"]],
                         ids="_".join)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_ten_steps_with_switches_off(env, device, kind, off):
    compare(env, kind, "matmul", "Tanh", MANY_SIZES, device=device, **{key: False for key in off})


def test_ten_steps_without_passes(env):
    compare(env, "f64", "gemm", "Relu", MANY_SIZES, level="off")


@pytest.mark.parametrize("form", ["matmul", "gemm"])
@pytest.mark.parametrize("kind", TYPES)
def test_any_thread_count_and_device_give_equal_bits(kind, form):
    module = torch_mlp(kind, "Tanh")
    model = onnx_mlp(module, kind, form, "Tanh")
    seen = {}
    for threads in (1, 2, 5):
        for device in ("cpu", "guard"):
            with Env(threads) as e:
                losses, got = nacre_steps(e, model, kind, MANY_SIZES, device=device)
            seen[threads, device] = [np.asarray(losses).tobytes()] + [w.tobytes() for w in got.values()]
    first = seen[1, "cpu"]
    different = [key for key, bits in seen.items() if bits != first]
    assert not different


def test_reset_starts_again(env):
    model = onnx_mlp(torch_mlp("f64", "Relu"), "f64", "matmul", "Relu")
    with env.session(model, Options().sgd("loss", ["W1", "W2"], "lr")) as session:
        start = session.get("W1")
        (x, y), *_ = batches("f64", ONE_SIZE)
        feeds = {"x": x, "y": y, "lr": np.float64(0.1)}
        first = session.run(feeds)["loss"]
        assert session.run(feeds)["loss"] < first
        assert not np.array_equal(session.get("W1"), start)
        session.reset()
        np.testing.assert_array_equal(session.get("W1"), start)
        np.testing.assert_array_equal(session.run(feeds)["loss"], first)
        session.set("W1", np.zeros_like(start))
        np.testing.assert_array_equal(session.get("W1"), np.zeros_like(start))
