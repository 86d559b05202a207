"""Training in half precision: parameters and losses stay f32, the numbers are near torch's autocast, gradients that f16
cannot hold survive by the loss scale, and a step that overflows changes nothing but the scale."""
import subprocess

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import nacre_c
import package
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
RNG = np.random.default_rng(2)
X = RNG.standard_normal((8, 16, 6)).astype(np.float32)
LABELS = RNG.integers(0, 3, (8, 16))
VALUES = {"w1": RNG.standard_normal((6, 32)) * 0.4, "b1": RNG.standard_normal(32) * 0.1,
          "w2": RNG.standard_normal((32, 3)) * 0.2, "b2": np.zeros(3)}
VALUES = {name: v.astype(np.float32) for name, v in VALUES.items()}
HALF = {"f16": torch.float16, "bf16": torch.bfloat16}
NEAR = {"f16": "mixed_f16", "bf16": "mixed_bf16"}


def mlp(factor=1.0):
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("Add", ["h", "b1"], ["s"]),
             helper.make_node("Relu", ["s"], ["a"]), helper.make_node("MatMul", ["a", "w2"], ["o"]),
             helper.make_node("Add", ["o", "b2"], ["y"]),
             helper.make_node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["plain"]),
             helper.make_node("Mul", ["plain", "factor"], ["loss"])]
    graph = helper.make_graph(
        nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6]),
                       helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch"])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(v, k) for k, v in VALUES.items()] +
        [numpy_helper.from_array(np.float32(factor), "factor")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Run:
    def __init__(self, folder, compute, factor=1.0, **more):
        from nacre.training import api, artifacts, onnxblock
        artifacts.generate_artifacts(mlp(factor), requires_grad=list(VALUES), optimizer=onnxblock.optim.SGD(),
                                     artifact_directory=folder, compute=compute, **more)
        self.open(folder)

    def open(self, folder, checkpoint="checkpoint"):
        from nacre.training import api
        self.state = api.CheckpointState.load_checkpoint(folder / checkpoint)
        self.module = api.Module(folder / "training_model.onnx", self.state, folder / "eval_model.onnx")
        self.optimizer = api.Optimizer(folder / "optimizer_model.onnx", self.module)
        self.optimizer.set_learning_rate(0.2)

    def step(self, k):
        loss = self.module(X[k], LABELS[k])
        self.optimizer.step()
        self.module.lazy_reset_grad()
        return loss

    def values(self):
        return {name: p.data.copy() for name, p in self.state.parameters}


def by_torch(dtype):
    """Losses and parameters after eight steps."""
    t = {k: torch.tensor(v, requires_grad=True) for k, v in VALUES.items()}
    optimizer, losses = torch.optim.SGD(t.values(), lr=0.2), []
    for x, labels in zip(X, LABELS):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            y = torch.relu(torch.tensor(x) @ t["w1"] + t["b1"]) @ t["w2"] + t["b2"]
        loss = torch.nn.functional.cross_entropy(y.float(), torch.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {k: v.detach().numpy() for k, v in t.items()}


@pytest.mark.parametrize("compute", HALF)
def test_steps_are_near_those_of_autocast(compute, tmp_path):
    run = Run(tmp_path, compute)
    losses = [run.step(k) for k in range(8)]
    assert all(np.asarray(loss).dtype == np.float32 for loss in losses)
    want, params = by_torch(HALF[compute])
    close(np.array(losses), np.array(want), NEAR[compute], "losses")
    exact = by_torch(torch.float32)[1]
    for name, value in run.values().items():
        assert value.dtype == np.float32
        close(value, params[name], NEAR[compute], name)
        assert not np.array_equal(value, exact[name]), "nothing was narrow"


def test_the_training_model_is_mixed_and_the_eval_model_is_not(tmp_path):
    Run(tmp_path, "f16")
    model = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "training_model.onnx"))
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.value_info, *model.graph.input)}
    products = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm")]
    assert len(products) >= 4
    for node in products:
        assert node.input[0].split("_")[-1].startswith("float16") or types.get(node.input[0]) == TensorProto.FLOAT16
    assert all(types[name] == TensorProto.FLOAT for name in VALUES)
    assert not any(n.op_type == "Cast" for n in onnx.load(tmp_path / "eval_model.onnx").graph.node)


def gradient(run, name="w1"):
    run.module(X[0], LABELS[0])
    return dict(run.state.parameters)[name].grad.copy()


def test_small_gradients_survive_by_the_scale(tmp_path):
    exact = gradient(Run(tmp_path / "f32", None, factor=1e-6))
    run = Run(tmp_path / "f16", "f16", factor=1e-6)
    got = gradient(run)
    assert np.abs(got - exact).max() < 0.01 * np.abs(exact).max()
    run.module.lazy_reset_grad()
    run.optimizer.set_loss_scale(1.0, 0)
    lost = gradient(run)
    assert np.abs(lost - exact).max() > 0.1 * np.abs(exact).max()


def test_an_overflow_skips_the_step_and_halves_the_scale(tmp_path):
    run = Run(tmp_path, "f16")
    assert run.optimizer.get_loss_scale() == 65536
    run.step(0)
    assert run.optimizer.get_loss_scale() == 65536, "a scale of 65536 overflows"
    run.optimizer.set_loss_scale(2.0 ** 30)
    before = run.values()
    run.step(1)
    assert run.optimizer.get_loss_scale() == 2.0 ** 29
    assert all(np.array_equal(before[k], v) for k, v in run.values().items())
    for _ in range(20):
        run.step(2)
    after = run.values()
    assert run.optimizer.get_loss_scale() < 2.0 ** 25
    assert all(np.isfinite(v).all() and not np.array_equal(before[k], v) for k, v in after.items())


def test_the_scale_grows_and_is_part_of_checkpoints(tmp_path):
    from nacre.training import api
    run = Run(tmp_path, "f16")
    run.optimizer.set_loss_scale(8.0, growth_interval=2)
    scales = []
    for k in range(5):
        run.step(k)
        scales.append(run.optimizer.get_loss_scale())
    assert scales == [8, 16, 16, 32, 32]
    for name, how in (("ort", {"format": "ort"}), ("st", {})):
        api.CheckpointState.save_checkpoint(run.state, tmp_path / name, include_optimizer_state=True, **how)
        other = Run.__new__(Run)
        other.open(tmp_path, name)
        assert other.optimizer.get_loss_scale() == 32
        run.step(5), other.step(5)
        assert all(np.array_equal(a, b) for a, b in zip(run.values().values(), other.values().values()))
        run.open(tmp_path, name)


def test_what_has_no_scale_says_so(tmp_path):
    for compute in ("bf16", None):
        run = Run(tmp_path / str(compute), compute)
        assert run.optimizer.get_loss_scale() == 0
        with pytest.raises(Exception, match="no loss scale: make its artifacts with compute f16"):
            run.optimizer.set_loss_scale(2.0)
    with pytest.raises(Exception, match="expected 0 < scale"):
        Run(tmp_path / "f16", "f16").optimizer.set_loss_scale(-1.0)
    with pytest.raises(Exception, match="compute: expected one of f32, f16, bf16, got 'f8'"):
        Run(tmp_path / "f8", "f8")


@pytest.mark.parametrize("compute", HALF)
def test_the_command_line_trains_in_half_precision(compute, tmp_path):
    onnx.save(mlp(), tmp_path / "m.onnx")
    labels = (X.reshape(-1, 6)[:, 0] > 0).astype(np.int64)
    np.savez(tmp_path / "d.npz", x=X.reshape(-1, 6), labels=labels)
    done = subprocess.run([nacre_c.PROGRAM, "train", tmp_path / "m.onnx", "--data", tmp_path / "d.npz", "--compute",
                           compute, *(["--loss-scale", "1024"] if compute == "f16" else []), "--epochs", "10", "--lr",
                           "0.01", "--train", "w?", "--train", "b?", "-o", tmp_path / "run"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split("loss ")[1].split(";")[0]) for line in done.stdout.splitlines() if "epoch" in line]
    assert losses[-1] < 0.5 * losses[0]
    bad = subprocess.run([nacre_c.PROGRAM, "artifacts", tmp_path / "m.onnx", "--compute", "f8", "-o", tmp_path / "a"],
                         capture_output=True, text=True)
    assert bad.returncode == 1 and "expected one of f32, f16, bf16" in bad.stderr


# ---- sessions that infer ----

def cnn():
    rng = np.random.default_rng(4)
    nodes = [helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "w", "b"], ["g"], transB=1),
             helper.make_node("Softmax", ["g"], ["y"])]
    values = {"k": rng.standard_normal((4, 3, 3, 3)), "w": rng.standard_normal((5, 64)) * 0.2,
              "b": rng.standard_normal(5)}
    graph = helper.make_graph(nodes, "cnn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
                              [numpy_helper.from_array(v.astype(np.float32), k) for k, v in values.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return model, {k: torch.tensor(v.astype(np.float32)) for k, v in values.items()}


@pytest.mark.parametrize("compute", HALF)
def test_a_session_computes_in_half_precision(compute, tmp_path):
    import nacre
    model, t = cnn()
    x = np.random.default_rng(5).standard_normal((6, 3, 8, 8)).astype(np.float32)
    with torch.no_grad(), torch.autocast("cpu", dtype=HALF[compute]):
        h = torch.nn.functional.max_pool2d(torch.relu(torch.conv2d(torch.tensor(x), t["k"], padding=1)), 2)
        want = torch.softmax(torch.nn.functional.linear(h.flatten(1), t["w"], t["b"]).float(), 1).numpy()
    options = nacre.SessionOptions()
    options.add_session_config_entry("nacre.compute", compute)
    options.optimized_model_filepath = str(tmp_path / "mixed.onnx")
    got, = nacre.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    exact, = nacre.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert got.dtype == np.float32 and not np.array_equal(got, exact)
    close(got, want, NEAR[compute])
    saved = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "mixed.onnx"))
    narrow = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[compute]
    types = {v.name: v.type.tensor_type.elem_type for v in saved.graph.value_info}
    types.update({v.name: v.data_type for v in saved.graph.initializer})
    places = [n for n in saved.graph.node if n.op_type in ("Conv", "MaxPool", "Gemm")]
    assert len(places) == 3 and all(types[n.input[0]] == narrow for n in places)
    np.save(tmp_path / "x.npy", x)
    onnx.save(model, tmp_path / "cnn.onnx")
    done = subprocess.run([nacre_c.PROGRAM, "run", tmp_path / "cnn.onnx", "--set", f"compute={compute}", "--input",
                           f"x={tmp_path / 'x.npy'}", "--output", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), got)


def test_what_a_session_cannot_compute_in():
    import nacre
    options = nacre.SessionOptions()
    options.add_session_config_entry("nacre.compute", "int8")
    with pytest.raises(nacre.InvalidArgument, match="option compute: expected f32, tf32, f16 or bf16, got 'int8'"):
        nacre.InferenceSession(cnn()[0].SerializeToString(), options)
    options.add_session_config_entry("nacre.compute", "bf16")
    old = cnn()[0]
    old.opset_import[0].version = 11
    with pytest.raises(nacre.NotImplemented, match="opset 11 has no Cast to bfloat16"):
        nacre.InferenceSession(old.SerializeToString(), options)
