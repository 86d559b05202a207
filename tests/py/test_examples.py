"""The examples that train: from the digits' file to a model that reads the test digits."""
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import nacre_c
import package

DIGITS = nacre_c.ROOT / "examples" / "digits"


def run(*command):
    env = {**os.environ, "PYTHONPATH": str(package.FOLDER)}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(model):
    """The share of the test digits that onnxruntime reads rightly with a model."""
    data = (DIGITS / "digits.bin").read_bytes()
    n, n_test = np.frombuffer(data, "<u4", 2, 8).astype(int)
    labels = np.frombuffer(data, np.uint8, n, 16)[-n_test:]
    pixels = np.frombuffer(data, np.uint8, n * 64, 16 + n).reshape(n, 1, 8, 8)[-n_test:].astype(np.float32)
    got, = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"pixels": pixels})
    return (got.argmax(1) == labels).mean()


@pytest.mark.skipif(not package.BUILT, reason="the Python extension was not built")
def test_train_in_python(tmp_path):
    out = run(sys.executable, nacre_c.ROOT / "examples" / "train.py", tmp_path)
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", out)]
    assert len(losses) == 6 and losses[-1] < 0.2 * losses[0]
    right = float(re.search(r"([0-9.]+)% of the test digits", out)[1]) / 100
    assert right > 0.85 and abs(read(tmp_path / "trained.onnx") - right) < 0.005


def test_train_in_c(tmp_path):
    out = run(nacre_c.BUILD / "examples" / "train", DIGITS / "digits.onnx", DIGITS / "digits.bin", tmp_path)
    assert len(re.findall(r"epoch \d: loss ([0-9.]+)", out)) == 4
    assert read(tmp_path / "trained.onnx") > 0.85
    bad = subprocess.run([nacre_c.BUILD / "examples" / "train", "no.onnx", DIGITS / "digits.bin", tmp_path],
                         capture_output=True, text=True)
    assert bad.returncode == 1 and "no.onnx" in bad.stderr


@pytest.mark.skipif(not package.BUILT, reason="the Python extension was not built")
def test_fine_tune_the_last_layer(tmp_path):
    pytest.importorskip("rapidocr_onnxruntime")
    out = run(sys.executable, nacre_c.ROOT / "examples" / "finetune.py", tmp_path)
    before, after = (int(re.search(rf"{word}: (\d+)%", out)[1]) for word in ("before", "after"))
    assert after > 90 and after > before
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", out)]
    assert len(losses) == 12 and losses[-1] < 0.7 * losses[0]
    got = onnx.load(tmp_path / "finetuned.onnx")
    assert "fc_0.w_0" in {t.name for t in got.graph.initializer} and [i.name for i in got.graph.input] == ["x"]


@pytest.mark.skipif(not package.BUILT, reason="the Python extension was not built")
def test_federated_averaging(tmp_path):
    out = run(sys.executable, nacre_c.ROOT / "examples" / "federated.py", tmp_path)
    shares = [float(x) for x in re.findall(r"clients reads ([0-9.]+)%", out)]
    assert len(shares) == 6 and shares[-1] > 80 and shares[-1] > shares[0]
    assert abs(100 * read(tmp_path / "averaged.onnx") - shares[-1]) < 0.5


def test_federated_averaging_in_c(tmp_path):
    out = run(nacre_c.BUILD / "examples" / "federated", DIGITS / "digits.onnx", DIGITS / "digits.bin", tmp_path)
    losses = [float(x) for x in re.findall(r"3 clients has the loss ([0-9.]+)", out)]
    assert len(losses) == 4 and losses[-1] < 0.7 * losses[0]
    assert read(tmp_path / "averaged.onnx") > 0.85
    bad = subprocess.run([nacre_c.BUILD / "examples" / "federated", "no.onnx", DIGITS / "digits.bin", tmp_path],
                         capture_output=True, text=True)
    assert bad.returncode == 1 and "no.onnx" in bad.stderr
