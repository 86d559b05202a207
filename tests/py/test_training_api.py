"""nacre.training.api: artifacts of onnxruntime-training 1.19.2 train to its numbers; what a script written for
onnxruntime.training.api expects of states, modules, optimizers and schedules; and the words of errors."""
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import package
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
DATA = Path(__file__).resolve().parents[1] / "data" / "ort_training"


class Run:
    """The objects of a script that trains."""

    def __init__(self, name="mlp", checkpoint="checkpoint", optimizer=True, evaluates=True, as_bytes=False):
        from nacre.training import api
        folder = DATA / name
        self.golden = np.load(folder / "golden.npz")
        self.state = api.CheckpointState.load_checkpoint(checkpoint if os.path.isabs(checkpoint) else
                                                         folder / checkpoint)

        def source(file):
            return (folder / file).read_bytes() if as_bytes else folder / file
        self.module = api.Module(source("training_model.onnx"), self.state,
                                 source("eval_model.onnx") if evaluates else None)
        self.optimizer = api.Optimizer(source("optimizer_model.onnx"), self.module) if optimizer else None

    def batch(self, k):
        return self.golden["x"][k], self.golden["y"][k]

    def train(self, first=0, last=10):
        losses = []
        for k in range(first, last):
            losses.append(float(self.module(*self.batch(k))))
            self.optimizer.step()
            self.module.lazy_reset_grad()
        return losses

    def values(self):
        return {name: p.data.copy() for name, p in self.state.parameters}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# ---- numbers ----

@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_artifacts_of_onnxruntime_train_to_its_numbers(name, as_bytes):
    run = Run(name, as_bytes=as_bytes)
    close(np.array(run.train()), run.golden["losses"], "ort_training_losses", "losses")
    for name, value in run.values().items():
        close(value, run.golden[f"after10:{name}"], "ort_training_parameters", name)


def test_running_statistics_move_as_onnxruntime_moves_them():
    """Its eval model of BatchNormalization that trains is no valid one, so it has none here."""
    run = Run("bn", evaluates=False)
    run.optimizer.set_learning_rate(1e-2)
    before = run.values()
    close(np.array(run.train()), run.golden["losses"], "ort_training_losses", "losses")
    for name, value in run.values().items():
        assert not np.array_equal(value, before[name])
        close(value, run.golden[f"after10:{name}"], "ort_training_parameters", name)


def test_a_checkpoint_of_onnxruntime_with_its_optimizer_goes_on():
    """After ten steps here and there, the eleventh gives the same."""
    ours, theirs = Run(), Run(checkpoint="checkpoint_after10")
    ours.train()
    for run in (ours, theirs):
        run.train(0, 1)
    for name, value in theirs.values().items():
        close(ours.values()[name], value, "ort_training_parameters", name)


def test_a_saved_run_goes_on_to_the_bit(tmp_path):
    from nacre.training import api
    whole, half = Run("cnn"), Run("cnn")
    for run in (whole, half):
        api.LinearLRScheduler(run.optimizer, 2, 20, 0.01)
    losses = whole.train()
    first = half.train(0, 5)
    api.CheckpointState.save_checkpoint(half.state, tmp_path / "c.safetensors", include_optimizer_state=True)
    resumed = Run("cnn", str(tmp_path / "c.safetensors"))
    assert resumed.optimizer.get_learning_rate() == half.optimizer.get_learning_rate()
    assert first + resumed.train(5, 10) == losses
    assert same(resumed.values(), whole.values())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads):
    import nacre
    from nacre.training import api
    options = nacre.SessionOptions()
    options.intra_op_num_threads = threads
    run = Run("cnn")
    run.state = api.CheckpointState.load_checkpoint(DATA / "cnn" / "checkpoint")
    run.module = api.Module(DATA / "cnn" / "training_model.onnx", run.state, session_options=options)
    run.optimizer = api.Optimizer(DATA / "cnn" / "optimizer_model.onnx", run.module)
    peer = Run("cnn")
    assert run.train(0, 3) == peer.train(0, 3)
    assert same(run.values(), peer.values())


# ---- steps ----

def grads(run):
    return {name: p.grad.copy() for name, p in run.state.parameters}


def test_gradients_add_up_until_they_are_reset():
    run = Run()
    assert all(not g.any() for g in grads(run).values())
    run.module(*run.batch(0))
    once = grads(run)
    run.module(*run.batch(0))
    for name, g in grads(run).items():
        close(g, 2 * once[name], "ort_f32", name)
    run.module.lazy_reset_grad()
    run.module.lazy_reset_grad()
    run.module.eval()
    run.module(*run.batch(3))  # keeps the flag for the next step
    run.module.train()
    run.module(*run.batch(0))
    assert same(grads(run), once)


def test_gradients_of_a_table_that_is_read_and_multiplied(tmp_path):
    """A product's gradient and that of rows that were picked, one of them twice, are added to one sum."""
    from nacre.training import api, artifacts
    rng = np.random.default_rng(3)
    w, target = rng.standard_normal((7, 3), np.float32), rng.standard_normal((4, 7), np.float32)
    ids = np.array([5, 0, 5, 2])
    model = onnx.parser.parse_model('''<ir_version: 9, opset_import: ["" : 17]> g (int64[4] ids) => (float[4,7] y)
        { h = Gather (w, ids)  y = Gemm <transB = 1> (h, w) }''')
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    artifacts.generate_artifacts(model, requires_grad=["w"], loss=artifacts.LossType.MSELoss,
                                 artifact_directory=tmp_path)
    state = api.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = api.Module(tmp_path / "training_model.onnx", state)
    dy = 2 / 28 * (w[ids] @ w.T - target)
    want = dy.T @ w[ids]
    np.add.at(want, ids, dy @ w)
    for times in (1, 2, 1):
        module(ids, target)
        close(state.parameters["w"].grad, times * want, "ort_f32", f"after {times}")
        if times == 2:
            module.lazy_reset_grad()


def test_optimizers_of_one_module_share_its_state(tmp_path):
    """Two of the same kind taking turns are one; another kind goes on with the same parameters, rate and step."""
    from nacre.training import api, onnxblock
    alone, turns = Run(), Run()
    alone.train()
    second = api.Optimizer(DATA / "mlp" / "optimizer_model.onnx", turns.module)
    for k in range(10):
        turns.module(*turns.batch(k))
        (second if k % 3 else turns.optimizer).step()
        turns.module.lazy_reset_grad()
    assert same(alone.values(), turns.values())
    second.set_learning_rate(0.5)
    assert turns.optimizer.get_learning_rate() == 0.5
    trained = [onnx.numpy_helper.from_array(p.data, n) for n, p in turns.state.parameters]
    plain = onnxblock.optim.SGD()
    with onnxblock.empty_base() as accessor:
        plain((trained, []))
        third = api.Optimizer(accessor.model.SerializeToString(), turns.module)
    before = turns.values()
    turns.module(*turns.batch(0))
    third.step()
    for name, p in turns.state.parameters:
        close(p.data, before[name] - 0.5 * p.grad, "torch_f32", name)


def test_an_optimizer_with_more_moments_may_come_later(tmp_path):
    from nacre.training import api
    run = Run(optimizer=False)
    names = [n for n, _ in run.state.parameters]
    from nacre.training import onnxblock
    blocks = [onnxblock.optim.SGD(momentum=0.9), onnxblock.optim.AdamW()]
    trained = [onnx.numpy_helper.from_array(p.data, n) for n, p in run.state.parameters]
    made = []
    for block in blocks:
        with onnxblock.empty_base() as accessor:
            block((trained, []))
            made.append(api.Optimizer(accessor.model.SerializeToString(), run.module))
    for optimizer in (*made, *made):
        before = run.values()
        run.module(*run.batch(0))
        optimizer.step()
        assert not any(np.array_equal(before[n], run.state.parameters[n].data) for n in names)
    api.CheckpointState.save_checkpoint(run.state, tmp_path / "both", include_optimizer_state=True)
    assert Run(checkpoint=str(tmp_path / "both")).optimizer.get_learning_rate() == pytest.approx(1e-3)


def test_eval_changes_nothing_and_gives_the_loss():
    run = Run()
    before = run.values()
    trained = run.module(*run.batch(0))
    sums = grads(run)
    assert run.module.eval() is run.module and not run.module.training
    close(run.module(*run.batch(0)), trained, "ort_f32", "the loss")
    assert same(run.values(), before) and same(grads(run), sums)
    assert run.module.input_names() == ["x", "labels"] and len(run.module.output_names()) == 1
    assert run.module.train().training


def test_ort_values_in_give_ort_values_out():
    import nacre
    run = Run()
    x, y = run.batch(0)
    loss = run.module(*(nacre.OrtValue.ortvalue_from_numpy(v) for v in (x, y)))
    assert isinstance(loss, nacre.OrtValue)
    assert isinstance(run.module(x, nacre.OrtValue.ortvalue_from_numpy(y)), np.ndarray)
    assert isinstance(run.module(x, y.tolist()), np.ndarray)
    with pytest.raises(ValueError, match="numpy arrays or OrtValues"):
        run.module(x.tolist(), y.tolist())


def test_tensors_of_others_are_read_where_they_lie():
    import nacre
    import torch
    from nacre.training.api import module
    run, other = Run(), Run()
    x, y = run.batch(0)
    given = torch.from_numpy(x.copy()), torch.from_numpy(y.copy())
    loss = run.module(*given)
    assert isinstance(loss, nacre.OrtValue) and torch.from_dlpack(loss).dtype == torch.float32
    assert np.array_equal(loss.numpy(), other.module(x, y))
    assert isinstance(run.module(given[0], y), np.ndarray)
    for tensor, at in ((given[0], given[0].data_ptr()), (x, x.ctypes.data)):
        assert nacre.OrtValue(module._value_of(tensor)).data_ptr() == at
    run.optimizer.step(), other.module(x, y), other.optimizer.step()
    assert same(run.values(), other.values())


def test_what_a_dump_shows():
    """Sums of gradients, parameters and moments are variables, and the optimizer is one node."""
    run = Run()
    train = run.module._training.dump("train", "inferred")
    assert 'var float[10] "2.bias_grad.accumulation.buffer" -> ' in train
    assert 'var float[10] "2.bias"' in train
    step = run.module._training.dump("optimizer", "lowered")
    assert step.count("OptimizerStep<") == 1 and 'var float[10] "momentum1:2.bias" -> ' in step
    assert "SequenceConstruct" not in step and "AdamWOptimizer" not in step


# ---- parameters ----

def test_parameters_by_name():
    run = Run(optimizer=False)
    parameters = run.state.parameters
    assert len(parameters) == 4 and "0.bias" in parameters and "bias" not in parameters
    assert [name for name, _ in parameters] == ["0.bias", "0.weight", "2.bias", "2.weight"]
    p = parameters["0.bias"]
    assert p.name == "0.bias" and p.requires_grad and p.data.shape == (128,) and p.data.dtype == np.float32
    before = run.module(*run.batch(0))
    p.data = p.data + 1
    after = run.module(*run.batch(0))
    assert before != after
    p.data[...] -= 1  # the memory that trains
    close(run.module(*run.batch(0)), before, "ort_f32", "the loss")
    assert "0.bias" in repr(p) and "0.bias" in repr(parameters)
    with pytest.raises(KeyError, match="Parameter none not found."):
        parameters["none"]
    with pytest.raises(ValueError, match=r"0.bias: expected float32 of shape \(128,\), got float32 of shape \(3,\)"):
        parameters["0.bias"] = np.zeros(3, np.float32)


def test_parameters_without_a_module():
    from nacre.training import api
    state = api.CheckpointState.load_checkpoint(str(DATA / "mlp" / "checkpoint"))
    assert state.parameters["2.bias"].grad is None
    state.parameters["2.bias"] = np.arange(10, dtype=np.float32)
    module = api.Module(DATA / "mlp" / "training_model.onnx", state)
    assert np.array_equal(state.parameters["2.bias"].data, np.arange(10))
    assert np.array_equal(state.parameters["2.bias"].grad, np.zeros(10))
    del module


def test_parameters_as_one_buffer():
    import nacre
    run = Run()
    size = run.module.get_parameters_size()
    assert size == sum(v.size for v in run.values().values()) == run.module.get_parameters_size(False)
    start, at_start = run.module.get_contiguous_parameters().numpy().copy(), run.values()
    assert start.shape == (size,)
    order = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert np.array_equal(start, np.concatenate([at_start[name].ravel() for name in order]))
    run.train(0, 2)
    trained = run.module.get_contiguous_parameters(trainable_only=True)
    assert trained.device_name() == "Cpu"  # onnxruntime's native class, which says it so
    assert not np.array_equal(trained.numpy(), start)
    run.module.copy_buffer_to_parameters(start, trainable_only=False)
    assert same(run.values(), at_start)
    run.module.copy_buffer_to_parameters(trained)
    run.module.copy_buffer_to_parameters(nacre.OrtValue(trained))
    assert np.array_equal(run.module.get_contiguous_parameters().numpy(), trained.numpy())
    with pytest.raises(Exception, match=f"7 elements, the trainable parameters have {size}"):
        run.module.copy_buffer_to_parameters(np.zeros(7, np.float32))
    with pytest.raises(Exception, match="tensor of float, got double"):
        run.module.copy_buffer_to_parameters(np.zeros(size))


def test_properties(tmp_path):
    from nacre.training import api
    state = api.CheckpointState.load_checkpoint(DATA / "mlp" / "checkpoint")
    p = state.properties
    assert len(p) == 0 and "epoch" not in p
    p["epoch"], p["rate"], p["who"], p["on"] = 3, 0.25, "me", True
    assert list(p) == [("epoch", 3), ("on", 1), ("rate", 0.25), ("who", "me")]
    p["epoch"] = "last"
    for kind in ("safetensors", "ort"):
        api.CheckpointState.save_checkpoint(state, tmp_path / kind, format=kind)
        again = api.CheckpointState.load_checkpoint(tmp_path / kind)
        assert list(again.properties) == [("epoch", "last"), ("on", 1), ("rate", 0.25), ("who", "me")]
        assert same({n: q.data for n, q in again.parameters}, {n: q.data for n, q in state.parameters})
    with pytest.raises(KeyError, match="Property none not found."):
        p["none"]
    with pytest.raises(TypeError, match="expected an int, a float or a str"):
        p["list"] = [1]


# ---- rate ----

@pytest.mark.parametrize("warmup", [0, 3, 7, 20])
def test_schedules(warmup):
    from nacre.training import api
    run = Run()
    assert run.optimizer.get_learning_rate() == np.float32(1e-3)
    run.optimizer.set_learning_rate(0.5)
    assert run.optimizer.get_learning_rate() == 0.5
    scheduler, total = api.LinearLRScheduler(run.optimizer, warmup, 10, 0.2), 10
    run.module(*run.batch(0))
    for step in range(13):
        want = step / max(1, warmup) if step < warmup else max(0, (total - step) / max(1, total - warmup))
        close(np.float32(run.optimizer.get_learning_rate()), np.float32(0.2 * want), "ort_f32", f"step {step}")
        run.optimizer.step()
        scheduler.step()


# ---- export ----

@pytest.mark.parametrize("name, as_bytes", [("mlp", False), ("cnn", True)])
def test_what_is_exported_runs_in_onnxruntime(name, as_bytes, tmp_path):
    import nacre
    run = Run(name, as_bytes=as_bytes)
    run.train(0, 2)
    path = tmp_path / "inference.onnx"
    run.module.export_model_for_inferencing(path, ["y"])
    model = onnx.load(path)
    onnx.checker.check_model(model)
    assert [i.name for i in model.graph.input] == ["x"] and [o.name for o in model.graph.output] == ["y"]
    assert {i.name for i in model.graph.initializer} >= set(run.values())
    x = run.batch(3)[0]
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    close(nacre.InferenceSession(str(path)).run(None, {"x": x})[0], theirs, "model_f32", "y")
    for names, words in (([], "no output is named"), ([""], "is empty"), (["z"], "'z'")):
        with pytest.raises(Exception, match=words):
            run.module.export_model_for_inferencing(path, names)


# ---- a checkpoint without contents ----

@pytest.fixture
def nominal(tmp_path):
    """A nominal checkpoint of the mlp, as safetensors know none: through onnxruntime's own format."""
    from nacre.training import api
    made = DATA / "mlp" / "nominal_checkpoint"
    return api.CheckpointState.load_checkpoint(made)


def test_a_nominal_checkpoint_waits_for_its_contents(nominal, tmp_path):
    from nacre.training import api
    run = Run()
    module = api.Module(DATA / "mlp" / "training_model.onnx", nominal, DATA / "mlp" / "eval_model.onnx")
    optimizer = api.Optimizer(DATA / "mlp" / "optimizer_model.onnx", module)
    assert "0.bias" in nominal.parameters and module.get_parameters_size() == run.module.get_parameters_size()
    assert optimizer.get_learning_rate() == np.float32(1e-3)
    with pytest.raises(Exception, match="Please load the parameter states first"):
        nominal.parameters["0.bias"]
    with pytest.raises(Exception, match="Please load all the parameter states first"):
        nominal.parameters["0.bias"] = np.zeros(128, np.float32)
    for call in (lambda: module(*run.batch(0)), lambda: module.eval()(*run.batch(0)), optimizer.step,
                 module.get_contiguous_parameters, lambda: module.export_model_for_inferencing(tmp_path / "m", ["y"])):
        with pytest.raises(Exception, match="Please load the model parameters first."):
            call()
        module.train()
    buffer = run.module.get_contiguous_parameters()
    with pytest.raises(Exception, match="all the parameter states"):
        module.copy_buffer_to_parameters(buffer, trainable_only=True)
    module.copy_buffer_to_parameters(buffer, trainable_only=False)
    for k in range(2):
        module(*run.batch(k))
        optimizer.step()
        module.lazy_reset_grad()
    run.train(0, 2)
    assert same({n: p.data for n, p in nominal.parameters}, run.values())


# ---- errors ----

def test_a_checkpoint_of_another_model_is_refused():
    from nacre.training import api
    state = api.CheckpointState.load_checkpoint(DATA / "cnn" / "checkpoint")
    with pytest.raises(Exception, match=r"parameter '0.(weight|bias)': the model expects .*, the checkpoint has float"):
        api.Module(DATA / "mlp" / "training_model.onnx", state)


def test_an_eval_model_is_no_training_model():
    from nacre.training import api
    state = api.CheckpointState.load_checkpoint(DATA / "mlp" / "checkpoint")
    with pytest.raises(Exception, match="expected a training model, got one for evaluation"):
        api.Module(DATA / "mlp" / "eval_model.onnx", state)


def test_what_is_not_there_is_told():
    run = Run(optimizer=False, evaluates=False)
    with pytest.raises(Exception, match="no eval model"):
        run.module.eval()(*run.batch(0))
    run.module.train()
    with pytest.raises(Exception, match="no eval model"):
        run.module.export_model_for_inferencing("none.onnx", ["y"])
    for call in (run.module._training.update, run.module._training.rate, lambda: run.module._training.set_rate(1.0),
                 run.module._training.schedule):
        with pytest.raises(Exception, match="no optimizer"):
            call()
    with pytest.raises(Exception, match="1 inputs are given, expected 2: x, labels"):
        run.module(run.batch(0)[0])
    with pytest.raises(Exception, match="no schedule"):
        Run().module._training.schedule()


def test_a_rate_that_is_no_number_changes_nothing():
    run = Run()
    before = run.optimizer.get_learning_rate()
    for call in (lambda: run.optimizer.set_learning_rate(float("nan")),
                 lambda: run.module._training.set_schedule(1, 4, float("inf"))):
        with pytest.raises(Exception, match="a learning rate of (nan|inf): expected a finite number"):
            call()
    assert run.optimizer.get_learning_rate() == before
    with pytest.raises(Exception, match="no schedule"):
        run.module._training.schedule()


def test_labels_out_of_range_change_nothing():
    run = Run()
    x, y = run.batch(0)
    before = run.module(x, y)
    with pytest.raises(Exception, match="(?i)label.*99"):
        run.module(x, np.where(y == y[0], 99, y))
    run.module.lazy_reset_grad()
    assert run.module(x, y) == before


def test_a_loss_that_is_no_number_is_told_once_by_the_first_bad_tensor():
    script = f"""
        import sys
        sys.path[:0] = [{str(Path(package.__file__).parent)!r}]
        import numpy as np
        import test_training_api as t
        run = t.Run("mlp")
        x, y = run.batch(0)
        big = np.full_like(x, 3e38)
        for _ in range(3):
            run.module(big, y)
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stderr.count("the loss is not a finite number") == 1, done.stderr
    assert "'/0/Gemm_output_0'" in done.stderr


@pytest.mark.parametrize("value", ["0", "1", "yes"])
def test_less_memory_by_taking_anew(value):
    import nacre
    from nacre.training import api
    options = nacre.SessionOptions()
    options.add_session_config_entry("nacre.recompute", value)
    state = api.CheckpointState.load_checkpoint(DATA / "mlp" / "checkpoint")
    if value == "yes":
        with pytest.raises(nacre.InvalidArgument, match="nacre.recompute: expected 0 or 1, got 'yes'"):
            api.Module(DATA / "mlp" / "training_model.onnx", state, session_options=options)
        return
    peer = Run()
    module = api.Module(DATA / "mlp" / "training_model.onnx", state, session_options=options)
    assert float(module(*peer.batch(0))) == float(peer.module(*peer.batch(0)))


def test_prepacking_is_refused():
    import nacre
    from nacre.training import api
    state = api.CheckpointState.load_checkpoint(DATA / "mlp" / "checkpoint")
    options = nacre.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "0")
    with pytest.raises(RuntimeError, match="Prepacking is not supported for training scenarios."):
        api.Module(DATA / "mlp" / "training_model.onnx", state, session_options=options)


# ---- the models in a plain session, as onnxruntime's own tests run them ----

def test_a_training_model_in_a_plain_session():
    import nacre
    run = Run(optimizer=False)
    x, y = run.batch(0)
    session = nacre.InferenceSession(str(DATA / "mlp" / "training_model.onnx"))
    values = run.values()
    feeds = {"x": x, "labels": y, "lazy_reset_grad": np.array([True]), **values,
             **{f"{n}_grad.accumulation.buffer": np.zeros_like(v) for n, v in values.items()}}
    names = [o.name for o in session.get_outputs()]
    out = dict(zip(names, session.run(names, feeds)))
    close(out["onnx::loss::2"], run.module(x, y), "ort_f32", "the loss")
    assert all(out[f"{n}_grad.accumulation.out"].tolist() == [True] for n in values)


def test_an_optimizer_model_in_a_plain_session():
    import nacre
    session = nacre.InferenceSession(str(DATA / "mlp" / "optimizer_model.onnx"))
    w = [np.ones((2, 3), np.float32), np.ones(4, np.float32)]
    feeds = {"learning_rate": np.float32([0.1]), "step": np.int64([1]), "params": w, "gradients": w,
             "first_order_moments": w, "second_order_moments": w}
    assert session.run(None, feeds)[0].tolist() == [True]
