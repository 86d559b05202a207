"""The examples that train: from the digits' file to a model that reads the test digits."""
import os
import re
import subprocess
import sys

import numpy as np
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
