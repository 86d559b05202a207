"""nacre.training.artifacts, `nacre artifacts` and checkpoints: the files that training needs, made from models of torch
and trained beside it; what is refused, with words."""
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import safetensors.numpy
import torch
from onnx import TensorProto, helper, numpy_helper

import nacre_c
import package
from test_gradient_models import exported
from tolerances import close

import nacre  # noqa: E402  (package puts it on the path)
from nacre import _core  # noqa: E402
from nacre.training import api, artifacts, onnxblock  # noqa: E402

assert package.BUILT
LOSS, OPTIM = artifacts.LossType, artifacts.OptimType


class Trained:
    """A module, its artifacts in a folder, and steps of both."""

    def __init__(self, folder, module=None):
        self.module = module
        self.state = api.CheckpointState.load_checkpoint(folder / "checkpoint")
        self.training = api.Module(folder / "training_model.onnx", self.state, folder / "eval_model.onnx")
        self.optimizer = api.Optimizer(folder / "optimizer_model.onnx", self.training)

    def step(self, *inputs, rate=1e-2):
        self.training.train()
        self.optimizer.set_learning_rate(rate)
        loss = self.training(*inputs)
        self.optimizer.step()
        self.training.lazy_reset_grad()
        return float(loss)

    def values(self):
        return {name: parameter.data.copy() for name, parameter in self.state.parameters}


def floats(model):
    return [t.name for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and t.dims]


def layers(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


MLP_MODEL = exported(layers(0), (torch.zeros(4, 6),), ["x"])


def mlp(seed=0):
    """A module, and a model with its parameters; exporting each anew would take long."""
    module, model = layers(seed), onnx.ModelProto()
    model.CopyFrom(MLP_MODEL)
    for tensor in model.graph.initializer:
        if tensor.name in module.state_dict():
            tensor.CopyFrom(numpy_helper.from_array(module.state_dict()[tensor.name].numpy(), tensor.name))
    return module, model


X = [np.random.default_rng(k).standard_normal((4, 6)).astype(np.float32) for k in range(6)]
LABELS = [np.random.default_rng(k).integers(0, 3, 4) for k in range(6)]


def command(*args):
    return subprocess.run([nacre_c.PROGRAM, "artifacts", *map(str, args)], capture_output=True, text=True)


# ---- numbers ----


@pytest.mark.parametrize("maker", ["python", "command", "command safetensors", "standard"])
def test_an_mlp_trains_as_torch_trains_it(maker, tmp_path):
    module, model = mlp()
    if maker.startswith("command"):
        onnx.save(model, tmp_path / "model.onnx")
        done = command(tmp_path / "model.onnx", "--loss", "cross_entropy", "--weight-decay", 0.1, "-o", tmp_path, *(
            ["--format", "safetensors"] if "safetensors" in maker else []))
        assert done.returncode == 0 and "optimizer_model.onnx" in done.stdout, done.stderr
    else:
        artifacts.generate_artifacts(model, requires_grad=floats(model), loss=LOSS.CrossEntropyLoss,
                                     optimizer=onnxblock.optim.AdamW(weight_decay=0.1, mode=0),
                                     artifact_directory=tmp_path, standard=maker == "standard")
    ours, theirs = Trained(tmp_path), torch.optim.AdamW(module.parameters(), lr=1e-2, eps=1e-6, weight_decay=0.1)
    for x, labels in zip(X, LABELS):
        theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(labels))
        loss.backward()
        theirs.step()
        close(ours.step(x, labels), loss.item(), "steps_f32")
    for name, value in ours.values().items():
        close(value, module.state_dict()[name].numpy(), "steps_f32", name)


MOMENTA = [{"momentum": 0.9}, {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05},
           {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, {"weight_decay": 0.1}]


@pytest.mark.parametrize("maker", ["python", "command"])
@pytest.mark.parametrize("how", MOMENTA, ids=[" ".join(how) for how in MOMENTA])
def test_sgd_with_momentum_is_torchs_and_goes_on_from_a_checkpoint(how, maker, tmp_path):
    module, model = mlp()
    if maker == "python":
        artifacts.generate_artifacts(model, requires_grad=floats(model), loss=LOSS.CrossEntropyLoss,
                                     optimizer=onnxblock.optim.SGD(**how), artifact_directory=tmp_path)
    else:
        onnx.save(model, tmp_path / "model.onnx")
        words = [w for k, v in how.items() for w in (f"--{k.replace('_', '-')}", v)[:1 if v is True else 2]]
        done = command(tmp_path / "model.onnx", "--loss", "cross_entropy", "--optimizer", "sgd", "-o", tmp_path, *words)
        assert done.returncode == 0, done.stderr
    ours, theirs = Trained(tmp_path), torch.optim.SGD(module.parameters(), lr=0.3, **how)
    for k, (x, labels) in enumerate(zip(X, LABELS)):
        theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(labels))
        loss.backward()
        theirs.step()
        close(ours.step(x, labels, rate=0.3), loss.item(), "steps_f32")
        if k == 2:  # the moments are part of a checkpoint
            api.CheckpointState.save_checkpoint(ours.state, tmp_path / "checkpoint", include_optimizer_state=True)
            ours = Trained(tmp_path)
    for name, value in ours.values().items():
        close(value, module.state_dict()[name].numpy(), "steps_f32", name)


def test_gradients_are_clipped_as_torch_clips_them(tmp_path):
    module, model = mlp()
    artifacts.generate_artifacts(model, requires_grad=floats(model), loss=LOSS.CrossEntropyLoss,
                                 optimizer=onnxblock.optim.SGD(clip_grad=onnxblock.optim.ClipGradNorm(0.1)),
                                 artifact_directory=tmp_path)
    ours, theirs = Trained(tmp_path), torch.optim.SGD(module.parameters(), lr=1.0)
    for x, labels in zip(X, LABELS):
        theirs.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(labels)).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        theirs.step()
        ours.step(x, labels, rate=1.0)
    for name, value in ours.values().items():
        close(value, module.state_dict()[name].numpy(), "steps_f32", name)


def normalized_cnn():
    """Conv, BatchNormalization that trains, Relu, mean, Gemm."""
    rng = np.random.default_rng(3)
    shapes = {"conv": (4, 2, 3, 3), "scale": (4,), "shift": (4,), "mean": (4,), "var": (4,), "w": (3, 4), "b": (3,)}
    values = {k: rng.random(s).astype(np.float32) for k, s in shapes.items()}
    nodes = [helper.make_node("Conv", ["x", "conv"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n", "m2", "v2"],
                              training_mode=1),
             helper.make_node("Relu", ["n"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["g"]),
             helper.make_node("Flatten", ["g"], ["f"]), helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=1)]
    graph = helper.make_graph(nodes, "cnn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 5, 5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
                              [numpy_helper.from_array(v, k) for k, v in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), values


def test_a_cnn_with_batch_norm(tmp_path):
    model, values = normalized_cnn()
    trainable = ["conv", "scale", "shift", "w", "b"]
    artifacts.generate_artifacts(model, requires_grad=trainable, frozen_params=["mean", "var"], loss=LOSS.MSELoss,
                                 optimizer=OPTIM.SGD, artifact_directory=tmp_path, additional_output_names=["y"])
    rng = np.random.default_rng(4)
    x, target = rng.standard_normal((6, 2, 5, 5)).astype(np.float32), rng.random((6, 3)).astype(np.float32)
    t = {k: torch.tensor(v, requires_grad=k in trainable) for k, v in values.items()}

    def forward(training):
        c = torch.nn.functional.conv2d(torch.tensor(x), t["conv"], padding=1)
        mean, var = t["mean"].clone(), t["var"].clone()
        n = torch.nn.functional.batch_norm(c, mean, var, t["scale"], t["shift"], training)
        if training:  # the running statistics move, the variance by that of all elements, as ONNX says
            values = c.detach().transpose(0, 1).flatten(1)
            t["mean"] = 0.9 * t["mean"] + 0.1 * values.mean(1)
            t["var"] = 0.9 * t["var"] + 0.1 * values.var(1, unbiased=False)
        return torch.relu(n).mean((2, 3)) @ t["w"].T + t["b"]

    ours = Trained(tmp_path)
    ours.training.train()
    got = ours.training(x, target)
    loss = torch.nn.functional.mse_loss(forward(True), torch.tensor(target))
    loss.backward()
    close(got[0], loss.item(), "torch_f32")
    for name in trainable:
        close(ours.state.parameters[name].grad, t[name].grad.numpy(), "model_f32", name)
    ours.training.eval()
    for _ in range(2):
        close(ours.training(x, target)[1], forward(False).detach().numpy(), "model_f32")
    for name in ("mean", "var"):
        assert ours.state.parameters[name].grad is None
        close(ours.state.parameters[name].data, t[name].numpy(), "model_f32", name)
    ours.training.export_model_for_inferencing(tmp_path / "trained.onnx", ["y"])
    theirs = onnxruntime.InferenceSession(str(tmp_path / "trained.onnx"), providers=["CPUExecutionProvider"])
    close(theirs.run(None, {"x": x})[0], forward(False).detach().numpy(), "model_f32")


def test_running_statistics_that_two_layers_share_take_turns(tmp_path):
    """One step moves them twice; as constants, without a place in the checkpoint, they stay."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 15]> g (float[4,2] x) => (float y)
        <float[2] s = {1, 1}, float[2] m = {0, 0}, float[2] v = {1, 1}> {
        a, m1, v1 = BatchNormalization<training_mode = 1, momentum = 0.5>(x, s, s, m, v)
        b, m2, v2 = BatchNormalization<training_mode = 1, momentum = 0.5, epsilon = 0.1>(x, s, s, m, v)
        c = Mul(a, b)  y = ReduceSum<keepdims = 0>(c) }""")
    x = X[0][:, :2].copy()
    for frozen in (["m", "v"], []):
        artifacts.generate_artifacts(model, requires_grad=["s"], frozen_params=frozen, optimizer=OPTIM.SGD,
                                     artifact_directory=tmp_path)
        ours = Trained(tmp_path)
        ours.training.train()
        first = ours.training(x)
        if frozen:
            close(ours.state.parameters["m"].data, 0.75 * x.mean(0), "model_f32")
            close(ours.state.parameters["v"].data, 0.25 + 0.75 * x.var(0), "model_f32")
        assert ours.training(x) == first


class Tiny(torch.nn.Module):
    """What BERT is made of: embeddings, attention, layer norm, gelu; classes from the first token."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(20, 8)
        self.places = torch.nn.Parameter(torch.randn(6, 8))
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(8) for _ in range(3)])
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
        self.up, self.down, self.head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8), torch.nn.Linear(8, 3)

    def forward(self, ids):
        x = self.norms[0](self.words(ids) + self.places)
        q, k, v = (part.reshape(*x.shape[:2], 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = torch.softmax(q @ k.transpose(2, 3) / 2, -1)
        x = self.norms[1](x + self.out((scores @ v).transpose(1, 2).reshape(x.shape)))
        x = self.norms[2](x + self.down(torch.nn.functional.gelu(self.up(x))))
        return self.head(x[:, 0])


def test_a_small_bert(tmp_path):
    torch.manual_seed(1)
    module = Tiny()
    ids, labels = torch.randint(0, 20, (5, 6)), torch.randint(0, 3, (5,))
    program = torch.onnx.export(module.eval(), (ids,), input_names=["ids"], opset_version=18, dynamo=True,
                                optimize=False, verbose=False)  # so that no weight is turned round
    model = program.model_proto
    names = [name for name, _ in module.named_parameters()]
    assert set(names) <= {t.name for t in model.graph.initializer}
    artifacts.generate_artifacts(model, requires_grad=names, loss=LOSS.CrossEntropyLoss, optimizer=OPTIM.AdamW,
                                 artifact_directory=tmp_path)
    ours = Trained(tmp_path)
    ours.training.train()
    got = ours.training(ids.numpy(), labels.numpy())
    loss = torch.nn.functional.cross_entropy(module(ids), labels)
    loss.backward()
    close(got, loss.item(), "torch_f32")
    for name, parameter in module.named_parameters():
        close(ours.state.parameters[name].grad, parameter.grad.numpy(), "model_gradient_f32", name)


# ---- files ----


def names_in(folder):
    return sorted(p.name for p in folder.iterdir())


def test_which_files_are_written(tmp_path):
    common = dict(requires_grad=floats(MLP_MODEL), loss=LOSS.CrossEntropyLoss, artifact_directory=tmp_path)
    artifacts.generate_artifacts(MLP_MODEL, **common)
    assert names_in(tmp_path) == ["checkpoint", "eval_model.onnx", "training_model.onnx"]
    artifacts.generate_artifacts(MLP_MODEL, optimizer=OPTIM.AdamW, prefix="p_", nominal_checkpoint=True, **common)
    assert names_in(tmp_path)[2:7] == ["p_checkpoint", "p_eval_model.onnx", "p_nominal_checkpoint",
                                       "p_optimizer_model.onnx", "p_training_model.onnx"]
    for name in ("training_model", "eval_model", "optimizer_model"):
        proto = onnx.load(tmp_path / f"p_{name}.onnx")
        assert [o.version for o in proto.opset_import if o.domain == ""] == [18]
    assert all(value is None for *_, value in parameters(tmp_path / "p_nominal_checkpoint"))


@pytest.mark.parametrize("maker", ["python", "command"])
def test_ort_files_train_as_the_onnx_files_do(maker, tmp_path):
    if maker == "python":
        artifacts.generate_artifacts(MLP_MODEL, requires_grad=floats(MLP_MODEL), loss=LOSS.CrossEntropyLoss,
                                     optimizer=OPTIM.AdamW, artifact_directory=tmp_path, prefix="p_", ort_format=True)
    else:
        onnx.save(MLP_MODEL, tmp_path / "model.onnx")
        done = command(tmp_path / "model.onnx", "--loss", "cross_entropy", "-o", tmp_path, "--prefix", "p_", "--ort")
        assert done.returncode == 0, done.stderr
        (tmp_path / "model.onnx").unlink()
    models = ("eval_model", "optimizer_model", "training_model")
    assert names_in(tmp_path) == ["p_checkpoint", *(f"p_{m}.{end}" for m in models for end in ("onnx", "ort"))]
    assert all((tmp_path / f"p_{m}.ort").read_bytes()[4:8] == b"ORTM" for m in models)
    found = []
    for end in ("onnx", "ort"):
        state = api.CheckpointState.load_checkpoint(tmp_path / "p_checkpoint")
        module = api.Module(tmp_path / f"p_training_model.{end}", state, tmp_path / f"p_eval_model.{end}")
        optimizer = api.Optimizer(tmp_path / f"p_optimizer_model.{end}", module)
        losses = []
        for x, labels in zip(X, LABELS):
            module.train()
            losses.append(module(x, labels))
            optimizer.step()
            module.lazy_reset_grad()
        module.eval()
        found.append([*losses, module(X[0], LABELS[0]), *(p.data.copy() for _, p in state.parameters)])
        module.export_model_for_inferencing(tmp_path / f"{end}.onnx", [MLP_MODEL.graph.output[0].name])
        found[-1] += nacre.InferenceSession(tmp_path / f"{end}.onnx").run(None, {"x": X[0]})
    assert all(np.array_equal(a, b) for a, b in zip(*found)) and found[0][0] != found[0][1]


def test_custom_operators_before_what_trains(tmp_path):
    """The library is given when artifacts are made, and by the session options of the module."""
    library = str(nacre_c.BUILD / "plugins" / "compact.so")
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "test.plugin" : 1]>
        g (float[n] x) => (float loss) <float[1] w = {3}> { c = test.plugin.Compact<above = 1.0>(x)  p = Mul(c, w)
        loss = ReduceSum<keepdims = 0>(p) }""")
    artifacts.generate_artifacts(model, requires_grad=["w"], optimizer=OPTIM.SGD, artifact_directory=tmp_path,
                                 custom_op_library=library, ort_format=True)
    options = nacre.SessionOptions()
    options.register_custom_ops_library(library)
    for end in ("onnx", "ort"):
        state = api.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
        sources = (tmp_path / f"training_model.{end}", state, tmp_path / f"eval_model.{end}")
        with pytest.raises(Exception, match="Compact"):
            api.Module(*sources)
        module = api.Module(*sources, session_options=options)
        assert module(np.float32([0, 2, -5, 4])) == 18 and state.parameters["w"].grad.tolist() == [6]
        assert module.eval()(np.float32([2, 0])) == 6


def test_an_opset_that_a_block_imports_again_counts(tmp_path):
    """As scripts do that put trainable layers behind a model of an older opset."""
    old = onnx.parser.parse_model("""<ir_version: 6, opset_import: ["" : 11]>
        g (float[3, 5] x, float[3, 5] y) => (float[3, 5] s) { s = Add(x, y) }""")

    class Behind(onnxblock.ForwardBlock):
        def __init__(self):
            super().__init__()
            self.linear = onnxblock.blocks.Linear(5, 4)

        def build(self, name):
            return self.linear(name)
    block = Behind()
    with onnxblock.base(old) as accessor:
        accessor.model.opset_import.append(onnx.helper.make_opsetid("", 14))
        accessor.model.ir_version = 7
        block("s")
    model = block.to_model_proto()
    artifacts.generate_artifacts(model, requires_grad=[t.name for t in model.graph.initializer], optimizer=OPTIM.AdamW,
                                 loss=artifacts.LossType.CrossEntropyLoss, artifact_directory=tmp_path)
    for name in ("training_model", "eval_model", "optimizer_model"):
        assert [o.version for o in onnx.load(tmp_path / f"{name}.onnx").opset_import if o.domain == ""] == [14]
    state = api.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = api.Module(tmp_path / "training_model.onnx", state)
    assert module.input_names() == ["x", "y", "labels"]
    assert np.isfinite(module(np.ones((3, 5), np.float32), np.ones((3, 5), np.float32), np.int64([0, 3, 1])))


def parameters(path):
    checkpoint = _core.Checkpoint(str(path))
    return [(*row, checkpoint.value(i)) for i, row in enumerate(checkpoint.parameters())]


def test_the_current_folder_is_where_files_go_without_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    artifacts.generate_artifacts(MLP_MODEL, requires_grad=floats(MLP_MODEL), loss=LOSS.CrossEntropyLoss)
    assert names_in(tmp_path) == ["checkpoint", "eval_model.onnx", "training_model.onnx"]


def test_models_by_path_with_data_outside(tmp_path):
    module, model = mlp()
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    artifacts.generate_artifacts(tmp_path / "model.onnx", requires_grad=["0.weight"], frozen_params=["0.bias"],
                                 loss=LOSS.CrossEntropyLoss, optimizer=OPTIM.AdamW, artifact_directory=tmp_path)
    (tmp_path / "weights").unlink()
    ours = Trained(tmp_path)
    loss = torch.nn.functional.cross_entropy(module(torch.tensor(X[0])), torch.tensor(LABELS[0]))
    close(ours.step(X[0], LABELS[0]), loss.item(), "torch_f32")
    assert sorted(ours.values()) == ["0.bias", "0.weight"]


def test_loss_inputs_and_a_loss_inside_the_model(tmp_path):
    module, model = mlp()
    hidden = next(n.output[0] for n in model.graph.node if n.op_type == "Tanh")
    artifacts.generate_artifacts(model, requires_grad=["0.weight"], loss=LOSS.L1Loss, artifact_directory=tmp_path,
                                 loss_input_names=[hidden])
    target = onnx.load(tmp_path / "training_model.onnx").graph.input[1]
    assert [d.dim_value for d in target.type.tensor_type.shape.dim][1:] == [8]
    with pytest.raises(ValueError, match="loss=None: the model's first output is then the loss"):
        artifacts.generate_artifacts(model, requires_grad=["0.weight"], artifact_directory=tmp_path)

    class Mean(onnxblock.ForwardBlock):
        def build(self):
            return onnxblock.blocks.ReduceMean(keepdims=False)(model.graph.output[0].name)

    mean = Mean()
    with onnxblock.base(model):
        mean()
    artifacts.generate_artifacts(mean.to_model_proto(), requires_grad=["0.weight"], artifact_directory=tmp_path)
    assert len(onnx.load(tmp_path / "training_model.onnx").graph.output) == 2


@pytest.mark.parametrize("arguments, error, words", [
    (dict(requires_grad=["0.weight"], frozen_params=["0.weight"]), RuntimeError, "frozen and require gradient"),
    (dict(requires_grad=["zz"]), ValueError, "no initializer or input 'zz'"),
    (dict(requires_grad=["0.weight"], frozen_params=["zz"]), ValueError, "no initializer 'zz'"),
    (dict(requires_grad=["0.weight"], loss="mse"), RuntimeError, "Unknown loss"),
    (dict(requires_grad=["0.weight"], optimizer="adam"), TypeError, "Unknown optimizer"),
    (dict(requires_grad=["0.weight"], additional_output_names="y"), RuntimeError, "list of strings"),
    (dict(requires_grad=["0.weight"], additional_output_names=["zz"]), LookupError, "zz"),
    (dict(requires_grad=["0.weight"], loss_input_names=["zz"]), LookupError, "zz"),
    (dict(requires_grad=[], optimizer=OPTIM.AdamW), ValueError, "no parameter is trainable"),
    (dict(requires_grad=["0.weight"], custom_op_library="/nowhere.so"), RuntimeError, "does not exist"),
    (dict(model=7), TypeError, "expected an onnx.ModelProto or a path"),
])
def test_refusals_leave_no_files(arguments, error, words, tmp_path):
    given = {"model": MLP_MODEL, "loss": LOSS.MSELoss, "artifact_directory": tmp_path, **arguments}
    with pytest.raises(error, match=words):
        artifacts.generate_artifacts(**given)
    assert names_in(tmp_path) == []


def test_nothing_trains_but_the_files_are_there(tmp_path):
    artifacts.generate_artifacts(MLP_MODEL, loss=LOSS.MSELoss, artifact_directory=tmp_path)
    assert names_in(tmp_path) == ["checkpoint", "eval_model.onnx", "training_model.onnx"]
    assert parameters(tmp_path / "checkpoint") == []


def test_without_the_package_onnx_an_import_says_so(tmp_path):
    (tmp_path / "onnx.py").write_text("raise ImportError('not here')")
    script = (f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(package.FOLDER)!r}]\n"
              "from nacre.training import artifacts\nartifacts.generate_artifacts('model.onnx')")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "need the package onnx: pip install onnx" in done.stderr


# ---- the command ----


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "which model?"),
    (["MODEL", "--loss", "hinge"], 1, "loss: expected one of mse, cross_entropy, bce_with_logits, l1, got 'hinge'"),
    (["MODEL", "--optimizer", "lamb"], 1, "optimizer: expected one of adamw, adamw_hf, sgd"),
    (["MODEL", "--betas", "0.9"], 2, "two numbers"),
    (["MODEL", "--clip-norm", "-1"], 2, "--clip-norm wants a number"),
    (["MODEL"], 1, "must be one number"),
    (["MODEL", "--loss", "mse", "--train", "zz*"], 1, "no initializer 'zz*'"),
    (["MODEL", "--loss", "mse", "--train", "*", "--freeze", "0.*"], 1, "cannot be trainable and frozen"),
    (["MODEL", "--loss", "mse", "--format", "zip"], 1, "expected one of ort, safetensors"),
    (["MODEL", "--loss", "mse", "-o", "/nowhere/at/all"], 1, "cannot make the folder"),
])
def test_the_command_refuses(arguments, code, words, tmp_path):
    onnx.save(MLP_MODEL, tmp_path / "model.onnx")
    done = command(*[tmp_path / "model.onnx" if a == "MODEL" else a for a in arguments])
    assert done.returncode == code and words in done.stderr, done.stderr


def test_running_statistics_do_not_train_where_nothing_is_said(tmp_path):
    model, _ = normalized_cnn()
    onnx.save(model, tmp_path / "m.onnx")
    done = command(tmp_path / "m.onnx", "--loss", "mse", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {n: t for n, _, t, *_ in parameters(tmp_path / "checkpoint")} == {
        "conv": True, "scale": True, "shift": True, "w": True, "b": True, "mean": False, "var": False}


def test_the_command_freezes_by_pattern(tmp_path):
    onnx.save(MLP_MODEL, tmp_path / "model.onnx")
    done = command(tmp_path / "model.onnx", "--loss", "mse", "--freeze", "0.*", "--optimizer", "none", "-o",
                   tmp_path / "made", "--output", MLP_MODEL.graph.output[0].name, "--nominal")
    assert done.returncode == 0, done.stderr
    assert names_in(tmp_path / "made") == ["checkpoint", "eval_model.onnx", "nominal_checkpoint", "training_model.onnx"]
    trains = {name: trainable for name, _, trainable, _ in parameters(tmp_path / "made" / "checkpoint")}
    assert trains == {"0.weight": False, "0.bias": False, "2.weight": True, "2.bias": True}


# ---- checkpoints ----


def tensors():
    rng = np.random.default_rng(5)
    kinds = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    arrays = {kind: (rng.standard_normal((3, 2)) * 3).astype(kind) for kind in kinds}
    arrays.update(empty=np.zeros((0, 4), np.float32), number=np.array(2.5, np.float32))
    return [numpy_helper.from_array(v, k) for k, v in arrays.items()], arrays


def test_safetensors_reads_what_was_saved(tmp_path):
    protos, arrays = tensors()
    onnxblock.save_checkpoint((protos[:4], protos[4:]), tmp_path / "c.safetensors", format="safetensors")
    read = safetensors.numpy.load_file(tmp_path / "c.safetensors")
    assert read.keys() == arrays.keys()
    for name, value in arrays.items():
        assert read[name].dtype == value.dtype and np.array_equal(read[name], value), name
    with safetensors.safe_open(tmp_path / "c.safetensors", "numpy") as file:
        assert file.metadata()["format"] == "pt"


def test_what_safetensors_saved_is_read(tmp_path):
    _, arrays = tensors()
    safetensors.numpy.save_file(arrays, tmp_path / "c")
    rows = {name: (trainable, value) for name, _, trainable, value in parameters(tmp_path / "c")}
    assert rows.keys() == arrays.keys()
    for name, (trainable, value) in rows.items():
        assert np.array_equal(np.asarray(value), arrays[name]) and trainable == (arrays[name].dtype.kind == "f")


def test_moments_and_properties_are_in_a_safetensors_file(tmp_path):
    _, model = mlp()
    artifacts.generate_artifacts(model, requires_grad=floats(model), loss=LOSS.CrossEntropyLoss, optimizer=OPTIM.AdamW,
                                 artifact_directory=tmp_path)
    ours = Trained(tmp_path)
    ours.step(X[0], LABELS[0])
    ours.state.properties["epoch"] = 3
    ours.state._checkpoint.save(str(tmp_path / "c"), "safetensors", True)
    read = safetensors.numpy.load_file(tmp_path / "c")
    assert sorted(read) == sorted(k for n in floats(model) for k in
                                  (n, f"optimizer.momentum0.{n}", f"optimizer.momentum1.{n}"))
    assert np.array_equal(read["0.weight"], ours.values()["0.weight"])
    again = api.CheckpointState.load_checkpoint(tmp_path / "c")
    assert again.properties["epoch"] == 3


@pytest.mark.parametrize("kind", ["ort", "safetensors"])
def test_checkpoints_go_into_models(kind, tmp_path):
    _, model = mlp()
    _, other = mlp(seed=9)
    mine = [t for t in other.graph.initializer if t.name in floats(other)]
    onnxblock.save_checkpoint((mine, []), tmp_path / "c", format=kind)
    onnxblock.load_checkpoint_to_model(tmp_path / "c", model)
    for tensor in model.graph.initializer:
        if tensor.name in floats(other):
            want = next(t for t in mine if t.name == tensor.name)
            assert np.array_equal(numpy_helper.to_array(tensor), numpy_helper.to_array(want))
    onnxblock.save_checkpoint((mine, []), tmp_path / "n", nominal_checkpoint=True, format=kind)
    with pytest.raises(RuntimeError, match="nominal checkpoint"):
        onnxblock.load_checkpoint_to_model(tmp_path / "n", model)
    wrong = numpy_helper.from_array(np.zeros((1, 2), np.float32), "0.weight")
    onnxblock.save_checkpoint(([wrong], []), tmp_path / "c", format=kind)
    with pytest.raises(ValueError, match=r"0.weight: expected FLOAT \[8, 6\], the checkpoint has FLOAT \[1, 2\]"):
        onnxblock.load_checkpoint_to_model(tmp_path / "c", model)
    with pytest.raises(nacre.InvalidArgument, match="expected the format 'safetensors' or 'ort', got 'zip'"):
        onnxblock.save_checkpoint(([wrong], []), tmp_path / "c", format="zip")
