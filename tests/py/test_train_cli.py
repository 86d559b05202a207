"""nacre train, as a user calls it: data in every kind of file, the numbers of torch, the same bits again after a stop,
a trained model that onnxruntime runs, and the words of errors."""
import gzip
import re
import resource
import shutil
import signal
import struct
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
import torch
from onnx import TensorProto, helper, numpy_helper

from nacre_c import PROGRAM, ROOT
from tolerances import close

RNG = np.random.default_rng(5)
X = RNG.standard_normal((90, 4)).astype(np.float32)
LABELS = (X @ RNG.standard_normal((4, 3))).argmax(1)
TARGET = (X @ RNG.standard_normal((4, 2))).astype(np.float32)
VALUES = {"w1": RNG.standard_normal((4, 8)), "b1": np.zeros(8), "w2": RNG.standard_normal((8, 3)), "b2": np.zeros(3)}
VALUES = {name: v.astype(np.float32) for name, v in VALUES.items()}


def train(*args, **how):
    return subprocess.run([str(PROGRAM), "train", *map(str, args)], capture_output=True, text=True, timeout=120, **how)


def good(*args):
    done = train(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mlp(path, outputs=3, dropout=False):
    """x (batch, 4) to y (batch, outputs), with or without Dropout that trains."""
    values = {**VALUES, "w2": VALUES["w2"][:, :outputs].copy(), "b2": VALUES["b2"][:outputs].copy()}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("Add", ["h", "b1"], ["s"]),
             helper.make_node("Tanh", ["s"], ["a"])]
    more = []
    if dropout:
        nodes.append(helper.make_node("Dropout", ["a", "ratio", "mode"], ["d"]))
        more = [numpy_helper.from_array(np.float32(0.3), "ratio"), numpy_helper.from_array(np.array(True), "mode")]
    nodes += [helper.make_node("MatMul", ["d" if dropout else "a", "w2"], ["o"]),
              helper.make_node("Add", ["o", "b2"], ["y"])]
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", outputs])],
                              [numpy_helper.from_array(v, k) for k, v in values.items()] + more)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return values


@pytest.fixture
def model(tmp_path):
    mlp(tmp_path / "mlp.onnx")
    np.savez(tmp_path / "data.npz", x=X, labels=LABELS)
    return tmp_path / "mlp.onnx"


def classes(model, *more, folder="run"):
    return (model, "--loss", "cross_entropy", "--data", model.parent / "data.npz", "-o", model.parent / folder, *more)


def last(folder):
    return (folder / "last.safetensors").read_bytes()


# ---- numbers ----

def test_a_regression_from_csv_trains_as_torch_trains_it(tmp_path):
    values = mlp(tmp_path / "m.onnx", outputs=2)
    table = np.hstack([X, TARGET])
    np.savetxt(tmp_path / "data.csv", table, delimiter=",", fmt="%.9g", header="a,b,c,d,t0,t1", comments="")
    good(tmp_path / "m.onnx", "--loss", "mse", "--data", tmp_path / "data.csv", "--optimizer", "sgd", "--momentum", 0.9,
         "--nesterov", "--weight-decay", 0.01, "--lr", 0.02, "--clip", 1, "--no-shuffle", "--epochs", 3, "--batch", 20,
         "--schedule", "linear", "-o", tmp_path / "run")
    t = {k: torch.tensor(v, requires_grad=True) for k, v in values.items()}
    optimizer = torch.optim.SGD(t.values(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01)
    for step, k in enumerate([0, 20, 40, 60, 80] * 3):
        y = torch.tanh(torch.tensor(X[k:k + 20]) @ t["w1"] + t["b1"]) @ t["w2"] + t["b2"]
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / 15)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(y, torch.tensor(TARGET[k:k + 20])).backward()
        torch.nn.utils.clip_grad_norm_(t.values(), 1)
        optimizer.step()
    got = safetensors.numpy.load_file(tmp_path / "run" / "last.safetensors")
    for name, want in t.items():
        close(got[name], want.detach().numpy(), "steps_f32", name)


def test_the_export_is_what_was_measured(model, tmp_path):
    out = good(*classes(model, "--lr", 0.02, "--epochs", 20, "--validation", tmp_path / "data.npz", "--export",
                        tmp_path / "t.onnx"))
    loss, share = re.findall(r"validation loss ([0-9.]+), accuracy ([0-9.]+)%", out)[-1]
    y, = onnxruntime.InferenceSession(str(tmp_path / "t.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": X})
    want = torch.nn.functional.cross_entropy(torch.tensor(y), torch.tensor(LABELS)).item()
    assert abs(float(loss) - want) < 1e-3 and abs(float(share) / 100 - (y.argmax(1) == LABELS).mean()) < 1e-3
    first, final = (float(x) for x in (re.findall(r": loss ([0-9.]+)", out)[k] for k in (0, -1)))
    assert final < 0.5 * first
    assert len([line for line in out.splitlines() if " |" in line]) == 12 and "60 updates" in out


def idx(array, kind):
    return struct.pack(">BBBB", 0, 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + \
        array.astype(array.dtype.newbyteorder(">")).tobytes()


def test_all_kinds_of_files_say_the_same(model, tmp_path):
    good(*classes(model, "--epochs", 2))
    want = last(tmp_path / "run")
    np.save(tmp_path / "x.npy", X.astype(np.float64))
    np.savez_compressed(tmp_path / "other.npz", a=X, b=LABELS.astype(np.int32))
    (tmp_path / "x.gz").write_bytes(gzip.compress(idx(X, 13)))
    (tmp_path / "l.idx").write_bytes(idx(LABELS.astype(np.uint8), 8))
    np.savetxt(tmp_path / "both.tsv", np.column_stack([X, LABELS]), delimiter="\t", fmt="%.9g")
    rows = [",".join([str(label), *(f"{v:.9g}" for v in x)]) for x, label in zip(X, LABELS)]
    text = "\n".join(['"labels", a,b,c,d', *rows, ""]).replace("\n", "\r\n")
    (tmp_path / "first.csv.gz").write_bytes(gzip.compress(text.encode()))
    ways = [["x=x.npy", "labels=l.idx"], ["x=x.gz", "labels=other.npz:b"], ["both.tsv"], ["first.csv.gz"],
            ["x=other.npz:a", "labels=l.idx"]]
    for k, way in enumerate(ways):
        files = [w for f in way for w in ("--data", "=".join([*f.split("=")[:-1], str(tmp_path / f.split("=")[-1])]))]
        good(model, "--loss", "cross_entropy", *files, "-o", tmp_path / f"way{k}", "--epochs", 2)
        assert last(tmp_path / f"way{k}") == want, way


def test_the_same_bits_again_for_any_number_of_threads(model, tmp_path):
    runs = [good(*classes(model, "--seed", 3, "--threads", n, "--split", 0.2, folder=f"t{n}")) for n in (1, 3)]
    assert last(tmp_path / "t1") == last(tmp_path / "t3")
    other = good(*classes(model, "--seed", 4, "--split", 0.2, folder="other"))
    assert last(tmp_path / "other") != last(tmp_path / "t1")
    losses = [re.findall(r"loss [0-9.]+", out) for out in (*runs, other)]
    assert losses[0] == losses[1] != losses[2] and "72 samples and validation" in other


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path):
    mlp(tmp_path / "mlp.onnx", dropout=True)
    np.savez(tmp_path / "data.npz", x=np.tile(X, (40, 1)), labels=np.tile(LABELS, 40))
    how = ("--epochs", 8, "--batch", 4, "--schedule", "cosine", "--warmup", 7, "--seed", 9)
    model = tmp_path / "mlp.onnx"
    good(*classes(model, *how, folder="whole"))
    stopped = subprocess.Popen([str(PROGRAM), "train", *map(str, classes(model, *how))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    for line in stopped.stdout:
        if line.startswith("epoch 2 "):
            stopped.send_signal(signal.SIGINT)
    assert stopped.wait() == 130 and "--resume goes on after epoch" in stopped.stderr.read()
    stopped.stdout.close(), stopped.stderr.close()
    out = good(*classes(model, *how, "--resume"))
    assert "going on after epoch" in out and "epoch 8 of 8" in out and "epoch 2 of" not in out
    assert last(tmp_path / "run") == last(tmp_path / "whole")


def test_artifacts_that_are_there_train(model, tmp_path):
    done = subprocess.run([str(PROGRAM), "artifacts", model, "--loss", "cross_entropy", "--output", "y", "-o",
                           tmp_path / "made"], capture_output=True, text=True)
    assert done.returncode == 0
    out = good(tmp_path / "made", "--data", tmp_path / "data.npz", "--epochs", 1, "--export", tmp_path / "t.onnx",
               "--quiet")
    assert "accuracy" in out and "|" not in out
    assert [o.name for o in onnx.load(tmp_path / "t.onnx").graph.output] == ["y"]


def test_only_what_is_asked_for_trains_and_fresh_parameters_are_new(model, tmp_path):
    good(*classes(model, "--train", "w2", "--freeze", "b*", "--epochs", 1))
    got = safetensors.numpy.load_file(tmp_path / "run" / "last.safetensors")
    assert np.array_equal(got["b1"], VALUES["b1"]) and not np.array_equal(got["w2"], VALUES["w2"])
    good(*classes(model, "--fresh", "--epochs", 1, "--lr", 0, folder="fresh"))
    got = safetensors.numpy.load_file(tmp_path / "fresh" / "last.safetensors")
    assert not got["b1"].any() and abs(got["w1"].std() - np.sqrt(2 / 12)) < 0.15
    assert not np.isclose(got["w1"], VALUES["w1"]).any()


def test_two_classes_by_logits(tmp_path):
    mlp(tmp_path / "m.onnx", outputs=2)
    np.savez(tmp_path / "d.npz", x=X, target=(TARGET > 0).astype(np.float32))
    out = good(tmp_path / "m.onnx", "--loss", "bce_with_logits", "--data", tmp_path / "d.npz", "--lr", 0.05, "--epochs",
               30, "-o", tmp_path / "run")
    shares = [float(x) for x in re.findall(r"accuracy ([0-9.]+)%", out)]
    assert shares[-1] > 90 and shares[-1] > shares[0]


# ---- what is refused ----

def lines(*rows):
    return "\n".join(rows).encode()


BAD_DATA = {
    "labels out of range": ("d.npz", {"x": X, "labels": LABELS + 1}, "'labels': label .* is 3, expected 0 to 2"),
    "labels that are no whole numbers": ("d.npz", {"x": X, "labels": LABELS + 0.5}, "expected a whole number"),
    "no labels": ("d.npz", {"x": X}, "no data for the input 'labels': give it with --data labels=FILE"),
    "no array of any input": ("d.npz", {"z": X}, "no member .* there are: z.npy"),
    "other counts": ("d.npz", {"x": X, "labels": LABELS[:-1]}, "'x' has 90 samples, 'labels' has 89"),
    "another shape": ("d.npz", {"x": X[:, :3], "labels": LABELS}, r"expected the shape \(samples, 4\), got \(90, 3\)"),
    "no samples": ("d.npz", {"x": X[:0], "labels": LABELS[:0]}, "no samples"),
    "columns": ("d.csv", lines("1,2,3", "4,5,6"), "need 5 columns, the file has 3"),
    "a short row": ("d.csv", lines("a,b,c,d,labels", "1,2,3,4,1", "1,2,3,4"), "line 3: expected 5 columns, got 4"),
    "a long row": ("d.csv", lines("1,2,3,4,1", "1,2,3,4,1,7"), "line 2: expected 5 columns, got more than 5"),
    "a word": ("d.csv", lines("1,2,3,4,1", "1,x,3,4,1"), "line 2: column 2: expected a number, got 'x'"),
    "no rows": ("d.csv", lines("a,b,c,d,labels"), "no rows"),
    "binary": ("d.csv", b"\1\2\0\3" * 9, "no .npy, .npz, idx or .csv"),
    "a cut idx": ("x=d.idx", idx(X, 13)[:-1], "cut short"),
    "a cut gzip": ("x=d.gz", gzip.compress(idx(X, 13))[:-9], "gzip file is broken or cut short"),
    "a cut archive": ("d.npz", b"PK\3\4" + b"x" * 40, "not a .npz archive"),
    "an unknown input": ("z=d.npz", {"x": X}, "no such input; it has x, labels"),
    "a missing file": ("none.npz", None, "none.npz"),
}


@pytest.mark.parametrize("name, contents, words", BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data(model, tmp_path, name, contents, words):
    path = tmp_path / name.split("=")[-1]
    if isinstance(contents, dict):
        np.savez(path, **contents)
    elif contents is not None:
        path.write_bytes(contents)
    given = "=".join([*name.split("=")[:-1], str(path)])
    done = train(model, "--loss", "cross_entropy", "--data", given, "-o", tmp_path / "run")
    assert done.returncode == 1 and re.search(words, done.stderr), done.stderr


@pytest.mark.parametrize("more, words", [
    (["--schedule", "square"], "expected constant, linear or cosine"), (["--scale", "x"], "INPUT=NUMBER"),
    (["--split", 0.1, "--validation", "a"], "give one of them"), (["--batch", 0], "whole number from 1"),
    (["--colour", 1], "no option --colour")])
def test_wrong_usage(model, more, words):
    done = train(*classes(model, *more))
    assert done.returncode == 2 and words in done.stderr
    assert train(model).returncode == 2 and train().returncode == 2


def test_a_file_that_is_not_there(model, tmp_path):
    for given in ("nothing.npz", "nothing"):
        done = train(model, "--loss", "cross_entropy", "--data", given, "-o", tmp_path / "run")
        assert done.returncode == 1 and "cannot open 'nothing" in done.stderr, done.stderr


def test_a_loss_that_is_no_number_names_the_tensor(model, tmp_path):
    x = X.copy()
    x[50, 1] = np.nan
    np.savez(tmp_path / "data.npz", x=x, labels=LABELS)
    done = train(*classes(model, "--no-shuffle", "--batch", 10))
    assert done.returncode == 1 and "epoch 1, update 6: training stops" in done.stderr
    assert done.stderr.count("the input 'x' is the first that has a NaN or an infinity") == 1


def test_a_split_of_nothing_and_another_seed_are_refused(model, tmp_path):
    done = train(*classes(model, "--split", 0.001))
    assert done.returncode == 1 and "sets 0 aside" in done.stderr
    good(*classes(model, "--epochs", 1))
    done = train(*classes(model, "--resume", "--seed", 5))
    assert done.returncode == 1 and "--resume: the run had --seed 0 and --batch 32, got 5 and 32" in done.stderr
    (tmp_path / "run" / "last.safetensors").write_bytes(last(tmp_path / "run")[:-5])
    assert train(*classes(model, "--resume")).returncode == 1


def test_a_full_disk_leaves_the_old_checkpoint(model, tmp_path):
    good(*classes(model, "--epochs", 1))
    shutil.copytree(tmp_path / "run", tmp_path / "kept")

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
    done = train(tmp_path / "run", "--data", tmp_path / "data.npz", "--epochs", 2, "--resume", preexec_fn=small_disk)
    assert done.returncode == 1 and "last.safetensors" in done.stderr
    assert last(tmp_path / "run") == last(tmp_path / "kept")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == sorted(p.name for p in (tmp_path / "kept").iterdir())


# ---- the demo's way ----

def test_digits_from_scratch(tmp_path):
    done = subprocess.run(["bash", str(ROOT / "tools" / "demo" / "train_digits.sh"), str(PROGRAM), str(tmp_path)],
                          capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    shares = [float(x) for x in re.findall(r"validation loss [0-9.]+, accuracy ([0-9.]+)%", done.stdout)]
    assert shares[-1] > 85 and "updates" in done.stdout and (tmp_path / "digits.onnx").exists()
