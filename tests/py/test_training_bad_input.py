"""What gradients and training refuse: each kind of bad input from C, from Python and from the command line, with the
words that are said, and with nothing lost by it."""
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest

import nacre_c
import package

from nacre import training  # noqa: E402  (package puts it on the path)
from nacre.training import api, artifacts  # noqa: E402

assert package.BUILT
RNG = np.random.default_rng(7)
X = RNG.standard_normal((8, 4)).astype(np.float32)
IDS = RNG.integers(0, 6, (8, 4))
LABELS = RNG.integers(0, 3, 8)


class Refused(Exception):
    """Someone said no; the text is what was said."""


# ---- the three ways to ask ----

class FromC:
    error = nacre_c.NacreError

    def make(self, model, folder, loss="cross_entropy", loss_input=None, train=(), freeze=()):
        with nacre_c.Env(1) as env:
            folder.mkdir(exist_ok=True)
            env.model(model).artifacts(folder, train, freeze, loss=loss, loss_input=loss_input, optimizer="adamw",
                                       format="safetensors")

    def train(self, folder, x, labels, steps=1, save=None):
        with nacre_c.Env(1) as env, nacre_c.Checkpoint(folder / "checkpoint") as checkpoint:
            with nacre_c.Training(env, checkpoint, folder) as t:
                for _ in range(steps):
                    t.step(x, labels)
                    t.update()
                if save:
                    t.save(save)

    def gradients(self, model, of, by):
        with nacre_c.Env(1) as env:
            env.model(model).differentiate([of], [by])


class FromPython:
    error = Exception

    def make(self, model, folder, loss="cross_entropy", loss_input=None, train=(), freeze=()):
        folder.mkdir(exist_ok=True)
        kind = {"cross_entropy": artifacts.LossType.CrossEntropyLoss, "mse": artifacts.LossType.MSELoss}[loss]
        proto = onnx.load(model)
        trains = train or [t.name for t in proto.graph.initializer if t.name not in freeze]
        artifacts.generate_artifacts(proto, requires_grad=list(trains), frozen_params=list(freeze), loss=kind,
                                     optimizer=artifacts.OptimType.AdamW, artifact_directory=folder,
                                     loss_input_names=[loss_input] if loss_input else None)

    def train(self, folder, x, labels, steps=1, save=None):
        state = api.CheckpointState.load_checkpoint(folder / "checkpoint")
        module = api.Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
        optimizer = api.Optimizer(folder / "optimizer_model.onnx", module)
        for _ in range(steps):
            module(x, labels)
            optimizer.step()
            module.lazy_reset_grad()
        if save:
            api.CheckpointState.save_checkpoint(state, save, include_optimizer_state=True)

    def gradients(self, model, of, by):
        training.gradients(model, of, by)


class FromCommand:
    error = Refused

    def run(self, *args):
        done = subprocess.run([str(nacre_c.PROGRAM), *map(str, args)], capture_output=True, text=True,
                              restore_signals=False)
        if done.returncode:
            raise Refused(done.stderr)
        print(done.stderr, file=sys.stderr)

    def make(self, model, folder, loss="cross_entropy", loss_input=None, train=(), freeze=()):
        more = [*(a for t in train for a in ("--train", t)), *(a for t in freeze for a in ("--freeze", t)),
                *(["--loss-input", loss_input] if loss_input else [])]
        self.run("artifacts", model, "--loss", loss, "--optimizer", "adamw", "-o", folder, *more)

    def train(self, folder, x, labels, steps=1, save=None):
        names = [i.name for i in onnx.load(folder / "training_model.onnx").graph.input]
        np.savez(folder / "data.npz", **{names[0]: x, "labels": labels})
        self.run("train", folder, "--data", folder / "data.npz", "--epochs", steps, "--batch", len(x), "--quiet",
                 *(["--resume"] if save and save.exists() else []))

    def gradients(self, model, of, by):
        self.run("gradients", model, "--of", of, "--by", by, "-o", model.with_suffix(".grad.onnx"))


WAYS = [FromC(), FromPython(), FromCommand()]
each_way = pytest.mark.parametrize("way", WAYS, ids=["C", "Python", "command"])


def refusal(way, call, *args, **more):
    """What is said when the call is refused."""
    with pytest.raises(way.error) as e:
        call(*args, **more)
    return str(e.value)


# ---- models ----

def saved(path, text):
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), path)
    return path


def numbers(*shape):
    return ", ".join(f"{v:.4f}" for v in np.random.default_rng(len(shape)).standard_normal(shape).ravel())


def mlp(path, hidden=5):
    return saved(path, f"""(float[n,4] x) => (float[n,3] y) <float[4,{hidden}] w1 = {{{numbers(4, hidden)}}},
        float[{hidden},3] w2 = {{{numbers(hidden, 3)}}}> {{ h = MatMul(x, w1)  a = Relu(h)  y = MatMul(a, w2) }}""")


def embedding(path):
    return saved(path, f"""(int64[n,4] ids) => (float[n,3] y) <float[6,3] table = {{{numbers(6, 3)}}}> {{
        e = Gather(table, ids)  y = ReduceMean<axes = [1], keepdims = 0>(e) }}""")


@pytest.fixture
def folder(tmp_path):
    """Artifacts that train."""
    FromC().make(mlp(tmp_path / "mlp.onnx"), tmp_path / "made")
    return tmp_path / "made"


# ---- training ----

@each_way
def test_good_input_trains(way, folder, tmp_path):
    way.make(mlp(tmp_path / "m.onnx"), tmp_path / "own")
    for made in (folder, tmp_path / "own"):
        way.train(made, X, LABELS)


@each_way
def test_labels_out_of_range(way, folder):
    before = (folder / "checkpoint").read_bytes()
    for wrong in (3, -4):
        said = refusal(way, way.train, folder, X, np.where(np.arange(8) == 5, wrong, LABELS))
        assert re.search(rf"SoftmaxCrossEntropyLoss '.*': label {wrong} is outside 0 to 2", said), said
    assert (folder / "checkpoint").read_bytes() == before


@each_way
def test_indices_out_of_range(way, tmp_path):
    way.make(embedding(tmp_path / "e.onnx"), tmp_path / "made")
    said = refusal(way, way.train, tmp_path / "made", np.where(IDS == IDS[0, 0], 6, IDS), LABELS)
    assert re.search(r"Gather.*index 6\b.*\b6\b", said), said


@each_way
def test_a_loss_that_is_no_number_is_told_once_with_the_first_bad_tensor(way, folder, capfd):
    huge, nan = X.copy(), X.copy()
    huge[3] = [3e38, -3e38, 3e38, -3e38]  # finite, but sums of its products are not
    nan[2, 1] = np.nan
    for x, first in ((huge, "tensor 'h'"), (nan, "input 'x'")):
        try:
            way.train(folder, x, LABELS, steps=3)
            said = capfd.readouterr().err
        except Refused as e:  # the command stops there
            said = str(e)
            assert "training stops" in said
        assert said.count("the loss is not a finite number") == 1, said
        assert f"the {first} is the first that has a NaN or an infinity" in said, said


@each_way
def test_a_checkpoint_of_another_model(way, folder, tmp_path):
    FromC().make(mlp(tmp_path / "other.onnx", hidden=6), tmp_path / "other")
    (folder / "checkpoint").write_bytes((tmp_path / "other" / "checkpoint").read_bytes())
    said = refusal(way, way.train, folder, X, LABELS)
    assert re.search(r"parameter 'w1': the model expects float\[4,5\], the checkpoint has float\[4,6\]|"
                     r"parameter 'w2': the model expects float\[5,3\], the checkpoint has float\[6,3\]", said), said
    FromC().make(embedding(tmp_path / "e.onnx"), tmp_path / "third")
    (folder / "checkpoint").write_bytes((tmp_path / "third" / "checkpoint").read_bytes())
    said = refusal(way, way.train, folder, X, LABELS)
    assert "parameter 'table' of the checkpoint is no input of the training model" in said, said


@each_way
def test_a_checkpoint_that_is_cut_or_damaged(way, folder):
    whole = (folder / "checkpoint").read_bytes()
    (folder / "checkpoint").write_bytes(whole[:-5])
    said = refusal(way, way.train, folder, X, LABELS)
    assert re.search(r"'w2' ends at byte \d+ of the data, of which the file has \d+", said), said
    (folder / "checkpoint").write_bytes(whole[:-5] + bytes([whole[-5] ^ 4]) + whole[-4:])
    said = refusal(way, way.train, folder, X, LABELS)
    assert "the bytes of 'w2' are not those that were saved" in said, said
    (folder / "checkpoint").write_bytes(b"")
    assert "got an empty file" in refusal(way, way.train, folder, X, LABELS)


@each_way
def test_a_full_disk_while_saving_leaves_the_old_file(way, folder):
    file = folder / "last.safetensors"
    way.train(folder, X, LABELS, steps=1, save=file)
    before, names = file.read_bytes(), sorted(p.name for p in folder.iterdir())
    small, was = 600, resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        if way is WAYS[2]:
            np.savez(folder / "data.npz", x=X, labels=LABELS)
        resource.setrlimit(resource.RLIMIT_FSIZE, (small, was[1]))
        if way is WAYS[2]:
            said = refusal(way, way.run, "train", folder, "--data", folder / "data.npz", "--epochs", 2, "--resume",
                           "--batch", len(X), "--quiet")
        else:
            said = refusal(way, way.train, folder, X, LABELS, steps=2, save=file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
        signal.signal(signal.SIGXFSZ, handler)
    assert "last.safetensors" in said and re.search("(?i)file too large|no space", said), said
    assert file.read_bytes() == before and sorted(p.name for p in folder.iterdir()) == names


@each_way
def test_a_frozen_or_missing_parameter_that_is_to_train(way, tmp_path):
    model, made = mlp(tmp_path / "m.onnx"), tmp_path / "made"
    said = refusal(way, way.make, model, made, train=["w3"])
    assert "'w3'" in said and "no initializer" in said, said
    said = refusal(way, way.make, model, made, train=["w1", "w2"], freeze=["w1"])
    assert "w1" in said and "frozen" in said, said
    assert not made.exists() or not list(made.iterdir())


@each_way
def test_a_loss_that_depends_on_no_trainable_parameter(way, tmp_path):
    model, made = mlp(tmp_path / "m.onnx"), tmp_path / "made"
    said = refusal(way, way.make, model, made, loss="mse", loss_input="x")
    assert re.search("the loss '.*' does not depend on any trainable parameter", said), said
    assert not made.exists() or not list(made.iterdir())


# ---- gradients ----

def graph(path):
    return saved(path, """(float[3] x, float[2] z, int64[3] i) => (float[] y, float[3] s) {
        s = Mul(x, x)  a = Exp(s)  b = Unique(a)  c = Sin(b)  y = Mul(c, c) }""")


@each_way
def test_a_y_that_does_not_depend_on_x_is_zeros_and_told(way, tmp_path, capfd):
    way.gradients(graph(tmp_path / "g.onnx"), "s", "z")
    assert "gradient of 's' by 'z' is zeros" in capfd.readouterr().err


@each_way
def test_an_x_of_whole_numbers(way, tmp_path):
    said = refusal(way, way.gradients, graph(tmp_path / "g.onnx"), "s", "i")
    assert "'i' is int64[3], no floating-point tensor" in said, said


@each_way
def test_an_op_without_gradient_on_the_way(way, tmp_path):
    path = graph(tmp_path / "g.onnx")
    model = onnx.load(path)
    model.graph.node[2].name = "wall"
    onnx.save(model, path)
    said = refusal(way, way.gradients, path, "y", "x")
    for words in ("Unique", "'wall'", "the op has no gradient", "the size of the result jumps",
                  "the way 'x' -> 's' -> 'a' -> 'b' -> 'c' -> 'y' leads through it"):
        assert words in said, said
