"""The command line, as a user calls it: every command, files in and out, wrong usage, exit codes."""
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from nacre_c import PROGRAM, ROOT, STAGES
from tolerances import close

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
    close(y, np.maximum(x @ W + B, 0), "ort_f32")
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
        assert ("MatMul" if stage in ("graph", "inferred") else "Gemm") in out  # the pass `gemms` took the Add in
    if stage == "graph":
        assert "batch" in out and "Relu" in out


def test_settings_reach_the_session(model):
    off = good("run", model, "--dump", "lowered", "--set", "fusion=off")
    assert "Relu" in off


@pytest.mark.parametrize("args, part", [
    ([], ""), (["fly"], "fly"), (["run"], "which model"), (["run", "a", "b"], "'b'"),
    (["run", "a", "--bogus", "1"], "--bogus"), (["run", "a", "--input"], "--input"), (["info", "x"], "'x'"),
], ids=lambda v: "_".join(v) or "none" if isinstance(v, list) else "")
def test_wrong_usage_is_2(args, part):
    done = nacre(*args)
    assert done.returncode == 2
    assert part in done.stderr


def test_a_dim_that_no_input_has_is_usage(model):
    done = nacre("run", model, "--dim", "bath=4")
    assert done.returncode == 2 and "'bath'" in done.stderr and "batch" in done.stderr


@pytest.mark.parametrize("pair, part", [
    ("fusion", "KEY=VALUE"), ("fusion=maybe", "on or off"), ("level=zzz", "off, basic, extended or all"),
    ("memory_limit=much", "a whole number"), ("seed=-1", "a whole number"), ("disable=zzz", "fold_constants"),
    ("colour=red", "level"),
])
def test_wrong_setting_is_usage(model, pair, part):
    for command in ("run", "check", "plan", "bench"):
        done = nacre(command, model, "--set", pair)
        assert done.returncode == 2 and part in done.stderr, f"{command}: {done.stderr}"


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


def tensor_model(nodes, inputs, outputs, path, opset=17, consts=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(consts))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def info(name, shape, type_=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type_, shape)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "deflated"])
@pytest.mark.parametrize("named", [True, False], ids=["by_name", "whole"])
def test_npz_inputs(model, tmp_path, save, named):
    x = np.arange(9000, dtype=np.float32).reshape(3000, 3) % 17
    save(tmp_path / "x.npz", other=np.zeros(3), x=x)
    given = f"x={tmp_path / 'x.npz'}" if named else tmp_path / "x.npz"
    good("run", model, "--input", given, "--output", tmp_path)
    close(np.load(tmp_path / "y.npy"), np.maximum(x @ W + B, 0), "ort_f32")


@pytest.mark.parametrize("level", [0, 1, 6, 9])
@pytest.mark.parametrize("kind", ["zeros", "noise", "text", "one"])
def test_inflate_reads_what_zlib_writes(tmp_path, level, kind):
    """Stored, fixed and dynamic blocks, long runs and long distances, through an archive made by hand."""
    path = tensor_model([helper.make_node("Identity", ["x"], ["y"])], [info("x", ["n"], TensorProto.UINT8)],
                        [info("y", ["n"], TensorProto.UINT8)], tmp_path / "m.onnx")
    x = {"zeros": np.zeros(100000, np.uint8), "noise": np.random.default_rng(1).integers(0, 256, 70001, np.uint8),
         "text": np.frombuffer(b"the same words again and again " * 3000, np.uint8),
         "one": np.array([7], np.uint8)}[kind]
    raw = io.BytesIO()
    np.save(raw, x)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        archive.writestr("x.npy", raw.getvalue())
    good("run", path, "--input", tmp_path / "x.npz", "--output", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x)


def test_broken_npz_never_crashes(model, tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(300, dtype=np.float32).reshape(100, 3))
    whole = (tmp_path / "x.npz").read_bytes()
    rng = np.random.default_rng(2)
    for k in range(60):
        broken = bytearray(whole)
        if k < 10:
            broken = broken[:len(whole) * k // 10]
        else:
            broken[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        (tmp_path / "b.npz").write_bytes(bytes(broken))
        assert nacre("run", model, "--input", f"x={tmp_path / 'b.npz'}").returncode in (0, 1)
    done = nacre("run", model, "--input", f"z={tmp_path / 'x.npz'}")
    assert done.returncode == 2 and "'z'" in done.stderr
    np.savez(tmp_path / "other.npz", q=np.zeros(3))
    done = nacre("run", model, "--input", f"x={tmp_path / 'other.npz'}")
    assert done.returncode == 1 and "q.npy" in done.stderr


def test_pb_and_raw_inputs(model, tmp_path):
    x = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (tmp_path / "x.raw").write_bytes(x.tobytes())
    first = good("run", model, "--input", f"x={tmp_path / 'x.pb'}", "--full")
    assert first == good("run", model, "--input", f"x={tmp_path / 'x.raw'}", "--dim", "batch=2", "--full")
    done = nacre("run", model, "--input", f"x={tmp_path / 'x.raw'}")
    assert done.returncode == 1 and "expected 12" in done.stderr and "got 24" in done.stderr
    (tmp_path / "x.pb").write_bytes(b"\xff\xff\xff")
    done = nacre("run", model, "--input", f"x={tmp_path / 'x.pb'}")
    assert done.returncode == 1 and "x.pb" in done.stderr


def test_sequences_and_optionals_are_shown_and_read(tmp_path):
    seq = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["n"])
    path = tensor_model([helper.make_node("SequenceInsert", ["s", "x"], ["t"]),
                         helper.make_node("Optional", ["x"], ["o"])],
                        [seq, info("x", ["n"])],
                        [helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, ["n"]),
                         helper.make_value_info("o", helper.make_optional_type_proto(
                             helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])))], tmp_path / "m.onnx")
    items = [np.full(2, k, np.float32) for k in range(3)]
    (tmp_path / "s.pb").write_bytes(numpy_helper.from_list(items, "s").SerializeToString())
    out = good("run", path, "--input", f"s={tmp_path / 's.pb'}", "--dim", "n=2")
    assert "sequence of 4" in out and "[3]" in out and "optional, holds" in out
    done = nacre("run", path)
    assert done.returncode == 2 and "'s'" in done.stderr


def test_nan_and_inf_are_shown(tmp_path):
    path = tensor_model([helper.make_node("Sqrt", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])],
                        tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array([4, -1, np.inf], np.float32))
    out = good("run", path, "--input", f"x={tmp_path / 'x.npy'}")
    assert "NaN 1" in out and "Inf 1" in out and "mean 2" in out


def test_profile_is_a_trace_and_a_table(model, tmp_path):
    out = good("run", model, "--profile", tmp_path / "t.json", "--repeat", 2)
    assert "operator" in out and "Gemm" in out
    trace = json.loads((tmp_path / "t.json").read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert sum("Gemm" in e["name"] for e in events) == 2
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and "bytes" in e["args"] for e in events)


def test_ctrl_c_cancels(tmp_path):
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["c1"]), helper.make_node("Add", ["s", "s"], ["s1"])],
                             "body", [info("i", [], TensorProto.INT64), info("c", [], TensorProto.BOOL),
                                      info("s", [2])],
                             [info("c1", [], TensorProto.BOOL), info("s1", [2])])
    path = tensor_model([helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)],
                        [info("x", [2])], [info("y", [2])], tmp_path / "m.onnx",
                        consts=[numpy_helper.from_array(np.array(1 << 40), "n"),
                                numpy_helper.from_array(np.array(True), "yes")])
    with subprocess.Popen([str(PROGRAM), "run", str(path)], stderr=subprocess.PIPE, text=True) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "CANCELLED" in err


def test_bench(model):
    out = good("bench", model, "--repeat", 5, "--warmup", 1, "--dim", "batch=8", "--b", "fusion=off", "--per-op")
    lines = out.splitlines()
    assert "median" in lines[0] and "p90" in lines[0] and "items/s" in lines[0]
    assert lines[1].split()[:2] == ["A", "5"] and lines[2].split()[:2] == ["B", "5"]
    assert len(lines[0]) == len(lines[1]) == len(lines[2]), "the columns line up"
    assert "of A's time" in out and "Gemm" in out
    assert " 8 " in lines[1], "items of a run: the batch"
    assert good("bench", model, "--repeat", 5, "--b", "threads=1", "--b", "device=guard", "--items", 3)


def test_inspect_shows_gradients(model):
    plain, out = good("inspect", model, "--nodes"), good("inspect", model, "--grad", "y", "--nodes")
    assert "grad:W" not in plain and "grad:W" in out and "grad:b" in out
    data = json.loads(good("inspect", model, "--grad", "y", "--by", "W", "--json"))
    assert [v["name"] for v in data["outputs"]][1:] == ["grad:W"]
    for args, code, told in ((["--grad", "nope"], 1, "'nope'"), (["--by", "W"], 2, "--grad")):
        done = nacre("inspect", model, *args)
        assert done.returncode == code and told in done.stderr


def test_inspect(model):
    out = good("inspect", model, "--nodes", "--tensors")
    assert "3 nodes" in out and "float[batch,3]" in out and "32 B" in out and "MatMul" in out
    data = json.loads(good("inspect", model, "--json"))
    assert data["operators"] == {"Add": 1, "MatMul": 1, "Relu": 1}
    assert data["n_parameters"] == 8 and data["bytes_parameters"] == 32
    assert data["inputs"][0]["type"] == "float[batch,3]" and data["outputs"][0]["name"] == "y"
    assert data["nodes"][0]["inputs"] == ["x", "W"] and data["opsets"] == {"": 17}


def write_set(folder, x, y):
    folder.mkdir(parents=True)
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (folder / "output_0.pb").write_bytes(numpy_helper.from_array(y).SerializeToString())


@pytest.mark.parametrize("dtype, got, want, error", [
    (np.int64, 2 ** 62 + 1, 2 ** 62, "1"), (np.uint64, 2 ** 64 - 1, 2 ** 64 - 4, "3"),
    (np.int64, -2 ** 63, 2 ** 63 - 1, "1.84e+19"), (np.int32, 2 ** 31 - 1, 2 ** 31 - 2, "1"),
    (np.uint32, 5, 7, "2"), (np.int16, -5, 5, "10"), (np.uint16, 5, 6, "1"), (np.int8, -128, 127, "255"),
    (np.uint8, 0, 255, "255"), (np.bool_, True, False, "1"),
])
def test_check_tells_how_far_whole_numbers_are_apart(tmp_path, dtype, got, want, error):
    for name, value in (("got", got), ("want", want)):
        np.save(tmp_path / f"{name}.npy", np.array([1, value, 0], dtype))
    done = nacre("check", tmp_path / "got.npy", tmp_path / "want.npy")
    assert done.returncode == 3 and f"max abs error {error}," in done.stdout and "worst at 1" in done.stdout
    assert "max abs error 0," in good("check", tmp_path / "got.npy", tmp_path / "got.npy")


@pytest.mark.parametrize("name, got, want, error", [
    ("INT4", [-8, 7, 1], [-8, 5, 1], "2"), ("UINT4", [15, 0, 1], [15, 9, 1], "9"),
    ("INT2", [-2, 1, 0], [-2, -1, 0], "2"),
    ("FLOAT8E4M3FN", [448, 0.5, -1], [448, 0.25, -1], "0.25"), ("FLOAT8E5M2", [57344, 2, 1], [57344, 1, 1], "1"),
    ("FLOAT4E2M1", [6, 0.5, -1], [6, 1.5, -1], "1"), ("FLOAT8E4M3FNUZ", [240, 1, 0], [240, 0.5, 0], "0.5"),
])
def test_check_reads_narrow_numbers(tmp_path, name, got, want, error):
    for file, values in (("got", got), ("want", want)):
        tensor = helper.make_tensor("x", getattr(TensorProto, name), [3], values)
        (tmp_path / f"{file}.pb").write_bytes(tensor.SerializeToString())
    done = nacre("check", tmp_path / "got.pb", tmp_path / "want.pb")
    assert done.returncode == 3 and f"max abs error {error}," in done.stdout and "worst at 1" in done.stdout
    good("check", tmp_path / "got.pb", tmp_path / "got.pb")


def test_check_against_data(model, tmp_path):
    x = np.random.default_rng(4).standard_normal((2, 3)).astype(np.float32)
    y = np.maximum(x @ W + B, 0)
    assert "valid" in good("check", model)
    write_set(tmp_path / "sets" / "test_data_set_0", x, y)
    write_set(tmp_path / "sets" / "test_data_set_1", x + 1, np.maximum((x + 1) @ W + B, 0))
    assert good("check", model, tmp_path / "sets").count("equal") == 2
    assert good("check", model, tmp_path / "sets" / "test_data_set_0").count("equal") == 1
    bad = y.copy()
    bad[1, 0] += 0.5
    write_set(tmp_path / "bad", x, bad)
    done = nacre("check", model, tmp_path / "bad")
    assert done.returncode == 3 and "DIFFERS" in done.stdout and "max abs error 0.5" in done.stdout
    assert nacre("check", model, tmp_path / "bad", "--atol", "0.6").returncode == 0
    bad[1, 0] = np.nan
    write_set(tmp_path / "nan", x, bad)
    done = nacre("check", model, tmp_path / "nan", "--atol", "1e9")
    assert done.returncode == 3 and "nan" in done.stdout
    write_set(tmp_path / "shape", x, y[:1])
    done = nacre("check", model, tmp_path / "shape")
    assert done.returncode == 3 and "(1, 2)" in done.stdout
    (tmp_path / "empty").mkdir()
    done = nacre("check", model, tmp_path / "empty")
    assert done.returncode == 1 and "input_0.pb" in done.stderr
    assert nacre("check", model, tmp_path / "absent").returncode == 1


def test_check_leaves_out_inputs_that_have_a_default(tmp_path):
    """As in ONNX's own test_sequence_model7, whose data hold no file for an input that is an initializer too."""
    path = tensor_model([helper.make_node("Add", ["x", "b"], ["y"])], [info("x", [2]), info("b", [2])],
                        [info("y", [2])], tmp_path / "m.onnx",
                        consts=[numpy_helper.from_array(np.float32([10, 20]), "b")])
    x = np.float32([1, 2])
    write_set(tmp_path / "default", x, np.float32([11, 22]))
    assert "equal" in good("check", path, tmp_path / "default")
    write_set(tmp_path / "given", x, np.float32([4, 6]))
    (tmp_path / "given" / "input_1.pb").write_bytes(numpy_helper.from_array(np.float32([3, 4])).SerializeToString())
    assert "equal" in good("check", path, tmp_path / "given")


def test_check_nan_equals_nan(tmp_path):
    path = tensor_model([helper.make_node("Sqrt", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])],
                        tmp_path / "m.onnx")
    x = np.array([4, -1, np.inf], np.float32)
    write_set(tmp_path / "d", x, np.array([2, np.nan, np.inf], np.float32))
    assert "equal" in good("check", path, tmp_path / "d")
    write_set(tmp_path / "e", x, np.array([2, np.nan, -np.inf], np.float32))
    done = nacre("check", path, tmp_path / "e")
    assert done.returncode == 3 and "got inf, expected -inf" in done.stdout


@pytest.mark.parametrize("level", ["off", "basic", "extended", "all"])
def test_check_against_level(model, level):
    assert "equal: 3 tensors" in good("check", model, "--against", level, "--dim", "batch=3")


def test_check_against_ort(model, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("NACRE_PYTHON", sys.executable)
    assert "equal: 3 tensors against ort" in good("check", model, "--against", "ort", "--dim", "batch=3")
    monkeypatch.setenv("NACRE_PYTHON", "no-such-python")
    done = nacre("check", model, "--against", "ort")
    assert done.returncode == 1 and "no-such-python" in done.stderr


def test_check_names_the_first_that_differs(model, tmp_path, monkeypatch):
    """A fake onnxruntime answers with a wrong second tensor."""
    (tmp_path / "onnxruntime.py").write_text("""
import numpy, onnx
from onnx.reference import ReferenceEvaluator
class GraphOptimizationLevel: ORT_DISABLE_ALL = 0
class SessionOptions: pass
class InferenceSession:
    def __init__(self, path, options, providers):
        self.s = ReferenceEvaluator(path)
        self.m = onnx.load(path)
    def get_inputs(self): return self.m.graph.input
    def run(self, names, feed):
        out = self.s.run(None, feed)
        at = [o.name for o in self.m.graph.output].index('s')
        out[at] = out[at] + numpy.float32(0.25)
        return out
""")
    monkeypatch.setenv("NACRE_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = nacre("check", model, "--against", "ort", "--dim", "batch=2")
    assert done.returncode == 3
    assert "the first tensor that differs is 's'" in done.stdout and "max abs error 0.25" in done.stdout


def test_check_reports_an_invalid_model(tmp_path):
    path = tensor_model([helper.make_node("MatMul", ["x", "x"], ["y"], "mm")], [info("x", [2, 3])],
                        [info("y", [2, 3])], tmp_path / "m.onnx")
    done = nacre("check", path)
    assert done.returncode == 1 and "MatMul 'mm'" in done.stderr


def test_optimize(tmp_path):
    path = tensor_model([helper.make_node("Identity", ["x"], ["i"]), helper.make_node("Exp", ["i"], ["y"])],
                        [info("x", ["n"])], [info("y", ["n"])], tmp_path / "m.onnx")
    out = good("optimize", path, "-o", tmp_path / "o.onnx")
    assert "2 nodes before, 1 after" in out
    saved = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(saved, full_check=True)
    assert [n.op_type for n in saved.graph.node] == ["Exp"]
    assert "2 nodes before, 2 after" in good("optimize", path, "-o", tmp_path / "o.onnx", "--disable", "identity")
    assert "2 nodes before, 2 after" in good("optimize", path, "-o", tmp_path / "o.onnx", "--level", "off")
    done = nacre("optimize", path, "-o", tmp_path / "o.onnx", "--disable", "nothing")
    assert done.returncode == 1 and "identity" in done.stderr
    assert nacre("optimize", path, "-o", tmp_path / "no" / "folder.onnx").returncode == 1


def test_optimize_with_patterns(tmp_path):
    path = tensor_model([helper.make_node("Neg", ["x"], ["i"]), helper.make_node("Relu", ["i"], ["y"])],
                        [info("x", ["n"])], [info("y", ["n"])], tmp_path / "m.onnx")
    rules, out = tmp_path / "rules.txt", tmp_path / "o.onnx"
    rules.write_text("// nothing of the sort\nr: Relu(Neg(x))\n => Elu<alpha = 0.5>(x)\n")
    assert "2 nodes before, 1 after" in good("optimize", path, "-o", out, "--patterns", rules)
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Elu"]
    rules.write_text("r: Relu(Neg(x)) = Elu(x)")
    done = nacre("optimize", path, "-o", out, "--patterns", rules)
    assert done.returncode == 1 and f"{rules}: patterns: line 1, column 17: expected '=>'" in done.stderr
    done = nacre("optimize", path, "-o", out, "--patterns", tmp_path / "none.txt")
    assert done.returncode == 1 and "none.txt" in done.stderr


def test_optimize_with_external_data(tmp_path):
    weights = numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    path = tensor_model([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x", ["n", 600])], [info("y", ["n", 600])],
                        tmp_path / "m.onnx", consts=[weights])
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "o.onnx"
    for extra, files in (((), ["o.onnx"]), (("--external-data", "w.bin"), ["o.onnx", "w.bin"]),
                         (("--external-data", "w.bin", "--external-bytes", "3000"), ["o.onnx", "w.bin"])):
        good("optimize", path, "-o", out, *extra)
        assert sorted(p.name for p in out.parent.iterdir()) == files
        outside = onnx.load(out, load_external_data=False).graph.initializer[0].data_location
        assert (outside == onnx.TensorProto.EXTERNAL) == (len(extra) == 2)
        np.testing.assert_array_equal(numpy_helper.to_array(onnx.load(out).graph.initializer[0]), np.arange(600))
    done = nacre("optimize", path, "-o", out, "--external-data", "../w.bin")
    assert done.returncode == 1 and "not a plain file name" in done.stderr
    assert nacre("optimize", path, "-o", out, "--external-data", "w", "--external-bytes", "0").returncode == 2


def test_optimize_help_and_the_page_name_all_passes():
    listed = re.findall(r'^PASS\((\w+), (\d), \w+, "(.*)"\)', (ROOT / "src/transform/passes.list").read_text(), re.M)
    out, page = good("optimize", "--help"), (ROOT / "docs/passes.md").read_text()
    assert len(listed) > 10
    for name, level, doc in listed:
        level = ("off", "basic", "extended", "all")[int(level)]
        assert re.search(rf"^  {name} +{level} +{re.escape(doc)}$", out, re.M), name
        assert re.search(rf"^\| `{name}` \| {level} \| [^|]+ \| {re.escape(doc)} \|$", page, re.M), name


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_plan(model, device):
    out = good("plan", model, "--dim", "batch=64", "--device", device)
    assert "peak of one run" in out and "#" in out
    assert out != good("plan", model, "--dim", "batch=6400", "--device", device)
    done = nacre("plan", model, "--dim", "bach=2")
    assert done.returncode == 1 and "batch" in done.stderr


def test_plan_lists_what_backward_keeps(tmp_path):
    """Of tanh, a sigmoid and exp the result, of a product both sides; nothing of what only went through."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
    net (float[6,8] x, float[8,16] w, float[16,4] v) => (float[] loss) {
        product = MatMul(x, w)
        bent = Tanh(product)
        moved = Add(bent, bent)
        gate = Sigmoid(moved)
        scores = MatMul(gate, v)
        grown = Exp(scores)
        loss = ReduceSum <keepdims = 0> (grown)
    }"""
    plain, path = tmp_path / "plain.onnx", tmp_path / "grad.onnx"
    onnx.save(onnx.parser.parse_model(text), plain)
    good("gradients", plain, "--of", "loss", "--by", "w", "--by", "v", "-o", path)
    rows = {}
    for line in good("plan", path, "--rows", "0", "--set", "fusion=off").splitlines():
        found = re.match(r"  (\w+) +(\w+) +([\w-]+) +host +\S+ \S+ +([.#]+)$", line)
        if found:
            rows[found[1]] = found[2], found[3], found[4].index("#"), found[4].rindex("#")
    forward = ["product", "bent", "moved", "gate", "scores", "grown"]
    assert set(forward) <= set(rows) and rows["bent"][0] == "Tanh" and rows["bent"][1] == "TanhGrad"
    begins = rows["grown"][2] + 1  # with the sum of what grew
    assert {n for n in forward if rows[n][3] > begins} == {"bent", "gate", "grown"}


def test_explain(model):
    assert "is gone" in good("explain", model, "h")
    out = good("explain", model, "h", "y", "--set", "disable=gemms")
    assert "MatMul" in out and "kernel:" in out and "packed" in out and "fused into" in out
    done = nacre("explain", model, "nowhere")
    assert done.returncode == 1 and "nowhere" in done.stderr


def test_info_tells_the_machine():
    out = good("info")
    assert "isa " in out and "threads" in out and "l2" in out
    forced = subprocess.run([str(PROGRAM), "info"], capture_output=True, text=True, timeout=60,
                            env={**os.environ, "NACRE_ISA": "portable"}).stdout
    assert any(line.split() == ["isa", "portable"] for line in forced.splitlines())


COMMANDS = ["run", "bench", "info", "inspect", "check", "optimize", "quantize", "gradients", "artifacts", "train",
            "plan", "explain"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command):
    out = good(command, "--help")
    assert out.startswith(f"usage: nacre {command}") and "example: nacre" in out and "exit codes: 0" in out
    assert max(map(len, out.splitlines())) <= 120
    assert command in good("--help")
    done = nacre(command, "--bogus", "1")
    assert done.returncode == 2 and "--bogus" in done.stderr and f"nacre {command} --help" in done.stderr


@pytest.mark.parametrize("args, part", [
    (["bench"], "which model"), (["bench", "m", "--repeat", "0"], "--repeat"), (["bench", "m", "--repeat", "x"], "'x'"),
    (["gradients"], "which model"), (["gradients", "a"], "--of Y"), (["gradients", "a", "--of", "y"], "--by X"),
    (["gradients", "a", "--of", "y", "--by", "x"], "-o OUT.onnx"),
    (["inspect"], "which model"), (["inspect", "a", "b"], "'b'"), (["check"], "which model"),
    (["check", "m", "--against", "me"], "'me'"), (["check", "m", "--rtol", "-1"], "--rtol"),
    (["optimize", "m"], "-o"), (["optimize"], "which model"), (["plan"], "which model"),
    (["plan", "m", "--dim", "batch"], "'batch'"), (["plan", "m", "--dim", "batch=x"], "batch=x"),
    (["explain", "m"], "which node"), (["explain"], "which model"), (["run", "m", "--threads", "-1"], "--threads"),
], ids=lambda v: "_".join(v) if isinstance(v, list) else "")
def test_wrong_usage_of_each_is_2(args, part):
    done = nacre(*args)
    assert done.returncode == 2 and part in done.stderr and done.stdout == ""


@pytest.mark.parametrize("command", ["run", "bench", "inspect", "check", "plan"])
def test_missing_model_of_each_is_1(command, tmp_path):
    done = nacre(command, tmp_path / "absent.onnx")
    assert done.returncode == 1 and "absent.onnx" in done.stderr


def test_free_input_arguments_are_checked(model, tmp_path):
    done = nacre("run", model, "--dim", "batch=many")
    assert done.returncode == 2 and "'many'" in done.stderr
    done = nacre("run", model, "--input", "x.npy")
    assert done.returncode == 2 and "NAME=FILE" in done.stderr
    (tmp_path / "t.json").mkdir()
    assert nacre("run", model, "--profile", tmp_path / "t.json").returncode == 1


# ---- two results compared ----


def compare(tmp_path, got, want, *args):
    np.save(tmp_path / "got.npy", got)
    np.save(tmp_path / "want.npy", want)
    return nacre("check", tmp_path / "got.npy", tmp_path / "want.npy", *args)


def test_results_of_different_types_are_compared_by_worth(tmp_path):
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    x[5], x[77] = np.nan, -np.inf
    assert compare(tmp_path, x.astype(np.float16), x, "--rtol", "1e-3").returncode == 0
    done = compare(tmp_path, x.astype(np.float16), x, "--rtol", "1e-5", "--atol", "0")
    assert done.returncode == 3 and "DIFFERS" in done.stdout
    assert compare(tmp_path, np.arange(9, dtype=np.int8), np.arange(9, dtype=np.int64)).returncode == 0


@pytest.mark.parametrize("at", [0, 1023, 1024, 150_000, 299_999])
@pytest.mark.parametrize("got, want", [(np.nan, 1), (1, np.nan), (np.inf, -np.inf), (np.inf, 3e38), (2, 1)])
def test_one_wrong_element_is_found(tmp_path, at, got, want):
    x = np.ones(300_000, np.float32)
    y = x.copy()
    x[at], y[at] = got, want
    done = compare(tmp_path, x, y)
    assert done.returncode == 3 and f"1 elements, worst at {at}" in done.stdout, done.stdout


def test_long_integers_are_compared_exactly(tmp_path):
    x = np.array([2**62, 5], np.int64)
    done = compare(tmp_path, x + np.array([1, 0]), x)
    assert done.returncode == 3 and "1 elements, worst at 0" in done.stdout, done.stdout


def test_other_shapes_differ_and_one_file_is_usage(tmp_path):
    assert compare(tmp_path, np.ones((2, 3)), np.ones((3, 2))).returncode == 3
    assert nacre("check", tmp_path / "got.npy").returncode == 2


def test_inputs_rounded_to_half(tmp_path):
    """A model that passes its input through shows what it was fed."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = np.concatenate([np.random.default_rng(1).standard_normal(500).astype(np.float32) * 10.0 ** e
                        for e in range(-9, 7)] + [np.array([np.nan, np.inf, 65519, 65520, 0, -0.0], np.float32)])
    with np.errstate(over="ignore"):
        half = x.astype(np.float16).astype(np.float32)
    folder = tmp_path / "set"
    folder.mkdir()
    np.save(tmp_path / "x.npy", x)
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (folder / "output_0.pb").write_bytes(numpy_helper.from_array(half).SerializeToString())
    assert nacre("check", tmp_path / "m.onnx", folder, "--rtol", "0", "--atol", "0").returncode == 3
    assert nacre("check", tmp_path / "m.onnx", folder, "--rtol", "0", "--atol", "0", "--half").returncode == 0


# ---- quantize ----

@pytest.fixture
def quantizer(monkeypatch):
    """python3 with the packages of this build."""
    package = pytest.importorskip("package")
    if not package.BUILT:
        pytest.skip("the Python extension was not built")
    monkeypatch.setenv("NACRE_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(package.FOLDER))


def wide_model(path):
    r = np.random.default_rng(3)
    w, v = r.standard_normal((32, 24)).astype(np.float32), r.standard_normal((24, 4)).astype(np.float32)
    tensor_model([helper.make_node("MatMul", ["x", "w"], ["h"], "first"), helper.make_node("Relu", ["h"], ["r"]),
                  helper.make_node("MatMul", ["r", "v"], ["y"], "second")], [info("x", ["n", 32])],
                 [info("y", ["n", 4])], path, consts=[numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")])
    return r.standard_normal((6, 32)).astype(np.float32)


@pytest.mark.parametrize("options, op", [
    ([], "MatMulInteger"), (["--per-channel", "--weights", "uint8"], "MatMulInteger"),
    (["--data", "DATA", "--batch", "2"], "QuantizeLinear"),
    (["--data", "DATA", "--form", "operators", "--method", "entropy", "--prepare"], "QLinearMatMul"),
    (["--bits", "4"], "MatMulNBits"), (["--bits", "8", "--search", "k_quant", "--block", "16"], "MatMulNBits"),
    (["--bits", "4", "--search", "gptq", "--block", "16", "--data", "DATA", "--symmetric"], "MatMulNBits"),
    (["--exclude", "first", "--op", "MatMul"], "MatMulInteger")])
def test_quantize(quantizer, tmp_path, options, op):
    path, out = tmp_path / "m.onnx", tmp_path / "q.onnx"
    x = wide_model(path)
    np.savez(tmp_path / "d.npz", x=x)
    said = good("quantize", path, "-o", out, *[tmp_path / "d.npz" if o == "DATA" else o for o in options])
    assert "q.onnx: " in said and " MB" in said
    nodes = onnx.load(out).graph.node
    assert op in {n.op_type for n in nodes}
    assert ("first" in {n.name for n in nodes if n.op_type == "MatMul"}) == ("--exclude" in options or op ==
                                                                            "QuantizeLinear")
    np.save(tmp_path / "x.npy", x)
    for name in ("m", "q"):
        (tmp_path / name).mkdir()
        good("run", tmp_path / f"{name}.onnx", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / name)
    want, got = (np.load(tmp_path / name / "y.npy").reshape(-1) for name in ("m", "q"))
    assert np.corrcoef(got, want)[0, 1] > 0.9


def test_quantize_a_model_of_fixed_sizes(quantizer, tmp_path):
    """Runs of calibration take as many examples as the inputs are fixed to; a number is the same in all of them."""
    w = np.random.default_rng(4).standard_normal((8, 3)).astype(np.float32)
    tensor_model([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "s"], ["y"])],
                 [info("x", [4, 8]), info("s", [])], [info("y", [4, 3])], tmp_path / "m.onnx",
                 consts=[numpy_helper.from_array(w, "w")])
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(5).standard_normal((8, 8)).astype(np.float32), s=np.float32(2))
    good("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--data", tmp_path / "d.npz")
    assert "QuantizeLinear" in {n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node}


def test_quantize_fails_with_a_message(quantizer, tmp_path, monkeypatch):
    path, out = tmp_path / "m.onnx", tmp_path / "q.onnx"
    wide_model(path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 32), np.float32), z=np.zeros((4, 2), np.float32))
    for args, code, part in [(["quantize"], 2, "which model"), (["quantize", path], 2, "-o OUT.onnx"),
                             (["quantize", path, "-o", out, "--bits", "4", "--data", "d"], 2, "about weights alone"),
                             (["quantize", path, "-o", out, "--data", tmp_path / "none.npz"], 1, "none.npz"),
                             (["quantize", path, "-o", out, "--data", tmp_path / "one.npy"], 1, "one array"),
                             (["quantize", path, "-o", out, "--data", tmp_path / "d.npz"], 1, "other numbers"),
                             (["quantize", tmp_path / "none.onnx", "-o", out], 1, "none.onnx"),
                             (["quantize", path, "-o", out, "--bits", "4", "--search", "gptq"], 1, "needs --data"),
                             (["quantize", path, "-o", out, "--bits", "4", "--block", "24"], 1, "block_size is 24")]:
        done = nacre(*args)
        assert done.returncode == code and part in done.stderr, (args, done.stderr)
    assert not out.exists()
    monkeypatch.setenv("NACRE_PYTHON", "no-such-python")
    done = nacre("quantize", path, "-o", out)
    assert done.returncode == 1 and "no-such-python" in done.stderr


@pytest.mark.parametrize("op", ["MatMul(x, w)", "Gemm(x, w, w0)", "Gemm<transB = 1>(x, w, w0)"])
def test_weights_in_half_precision_are_widened_once(tmp_path, op):
    """Into the packed store: a run needs no room for them."""
    made = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float16[3,512] x) => (float16[3,512] y) '
                                   f'{{ y = {op} }}')
    made.graph.initializer.extend(numpy_helper.from_array(np.ones(dims, np.float16), name)
                                  for name, dims in (("w", (512, 512)), ("w0", (512,))))
    path = tmp_path / "half.onnx"
    onnx.save(made, path)
    host = good("plan", path).splitlines()[1].split()
    assert host[0] == "host" and host[2] == "KiB" and float(host[1]) < 64, host  # the frame
    assert host[6] == "MiB" and 1 <= float(host[5]) < 1.1, host  # packed
