"""The command line, as a user calls it: run, info, dumps, .npy in and out, exit codes."""
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nacre_c import PROGRAM, STAGES

TEXT = """<opset: "" 17>
affine (float[batch,3] x) => (float[batch,2] y)
<const float[3,2] W = {1, 2, 3, 4, 5, 6}, const float[2] b = {0.5, -0.5}>
{
  h = MatMul(x, W)
  s = Add(h, b)
  y = Relu(s)
}
"""
W = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
B = np.array([0.5, -0.5], np.float32)


def nacre(*args):
    return subprocess.run([str(PROGRAM), *map(str, args)], capture_output=True, text=True, timeout=60)


def good(*args):
    done = nacre(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def onnx_bytes():
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["h"]), helper.make_node("Add", ["h", "b"], ["s"]),
         helper.make_node("Relu", ["s"], ["y"])], "affine",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(W, "W"), numpy_helper.from_array(B, "b")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()


@pytest.fixture(params=["text", "onnx"])
def model(request, tmp_path):
    path = tmp_path / ("affine.nct" if request.param == "text" else "affine.onnx")
    path.write_bytes(TEXT.encode() if request.param == "text" else onnx_bytes())
    return path


@pytest.mark.parametrize("device", ["cpu", "guard"])
@pytest.mark.parametrize("batch", [1, 5])
def test_run_reads_and_writes_npy(model, tmp_path, device, batch):
    x = np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    out = good("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path, "--device", device)
    assert f"({batch}, 2)" in out
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, np.maximum(x @ W + B, 0), rtol=1e-6, atol=1e-6)
    assert not list(tmp_path.glob("*.tmp"))


def test_random_inputs_repeat_and_follow_dim(model):
    first = good("run", model, "--dim", "batch=4", "--full")
    assert "(4, 2)" in first
    assert first == good("run", model, "--dim", "batch=4", "--full", "--threads", "1")
    assert "(1, 2)" in good("run", model)


def test_repeat_and_time_print_milliseconds(model):
    out = good("run", model, "--repeat", "3", "--time")
    assert out.count("run: ") == 3
    assert "ms after the process started" in out


@pytest.mark.parametrize("stage", STAGES)
def test_dump(model, stage):
    out = good("run", model, "--dump", stage, "--dim", "batch=3")
    if stage == "differentiated":
        return
    assert out.strip(), "the dump is empty"
    if stage in ("graph", "inferred", "transformed", "lowered"):
        assert "MatMul" in out
    if stage == "graph":
        assert "batch" in out and "Relu" in out


def test_settings_reach_the_session(model):
    off = good("run", model, "--dump", "lowered", "--set", "fusion=off")
    assert "Relu" in off
    done = nacre("run", model, "--set", "fusion=maybe")
    assert done.returncode == 1 and "fusion" in done.stderr and "maybe" in done.stderr


@pytest.mark.parametrize("args, part", [
    ([], ""), (["fly"], "fly"), (["run"], "which model"), (["run", "a", "b"], "two models"),
    (["run", "a", "--bogus", "1"], "--bogus"), (["run", "a", "--input"], "--input"), (["info", "x"], "'x'"),
], ids=lambda v: "_".join(v) or "none" if isinstance(v, list) else "")
def test_wrong_usage_is_2(args, part):
    done = nacre(*args)
    assert done.returncode == 2
    assert part in done.stderr


def test_wrong_setting_is_usage(model):
    assert nacre("run", model, "--set", "fusion").returncode == 2


def test_missing_model_is_named(tmp_path):
    for name in ("absent.onnx", "absent.nct"):
        done = nacre("run", tmp_path / name)
        assert done.returncode == 1
        assert str(tmp_path / name)[:90] in done.stderr
        assert done.stdout == ""


def test_missing_input_file_is_named(model, tmp_path):
    done = nacre("run", model, "--input", f"x={tmp_path / 'absent.npy'}")
    assert done.returncode == 1 and "absent.npy" in done.stderr


def test_broken_files_fail_with_a_message(tmp_path, model):
    (tmp_path / "broken.onnx").write_bytes(b"\xff\xff\xff not a model")
    (tmp_path / "broken.nct").write_text("graph without (sense")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
    for args in (["broken.onnx"], ["broken.nct"]):
        done = nacre("run", tmp_path / args[0])
        assert done.returncode == 1 and done.stderr.startswith("nacre: ")
    done = nacre("run", model, "--input", f"x={tmp_path / 'broken.npy'}")
    assert done.returncode == 1 and "broken.npy" in done.stderr


def test_wrong_input_shape_says_expected_and_got(model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    done = nacre("run", model, "--input", f"x={tmp_path / 'x.npy'}")
    assert done.returncode == 1
    assert "'x'" in done.stderr and "3" in done.stderr and "4" in done.stderr and "SHAPE" in done.stderr


def test_info_describes_devices():
    out = good("info")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert {"nacre", "cpu", "guard", "cuda"} <= lines.keys()
    assert "not there" not in lines["cpu"] and "not there" not in lines["guard"]


def test_help_and_version():
    assert "usage" in good("--help") and "usage" in good("run", "--help") and "usage" in good("info", "--help")
    assert good("--version").startswith("nacre ")
