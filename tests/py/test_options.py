"""Every option is honoured, has no effect and says so, or is refused: docs/options.md row by row, and what the honoured
ones do."""
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import package
import pytest

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
import onnxruntime as ort  # noqa: E402
from nacre import _core, _known  # noqa: E402
from tolerances import TOLERANCES  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "options.md").read_text()
ROWS = [tuple(c.strip() for c in line.strip("|").split("|")) for line in PAGE.splitlines()
        if re.match(r"\| [^|]+ \| `[^`]+` \| (honoured|no effect|refused) \|", line)]
ROWS = [(where, name.strip("`"), fate) for where, name, fate, _ in ROWS]
X = np.float32([[1, -2, 3], [0, 5, -1]])


def rows(where, fate=None):
    return {name for w, name, f in ROWS if w == where and fate in (None, f)}


def said(capfd):
    return capfd.readouterr().err


# ---- the page and the tables are one ----

def test_the_page_tells_of_every_option():
    assert rows("SessionOptions") == set(nacre.SessionOptions._FIELDS)
    assert rows("RunOptions") == set(nacre.RunOptions._FIELDS) | {"terminate"}
    assert rows("session entry", "honoured") == _known.ENTRIES_HONOURED
    assert rows("session entry", "no effect") == set(_known.ENTRIES_WITHOUT_EFFECT)
    assert rows("session entry", "refused") == set(_known.ENTRIES_REFUSED)
    assert rows("run entry", "honoured") == _known.RUN_ENTRIES_HONOURED
    assert rows("run entry", "no effect") == set(_known.RUN_ENTRIES_WITHOUT_EFFECT)
    assert rows("run entry", "refused") == set(_known.RUN_ENTRIES_REFUSED)
    for provider in ("CUDAExecutionProvider", "CPUExecutionProvider"):
        assert rows(provider, "honoured") == _known.PROVIDER_HONOURED[provider]
        assert rows(provider, "no effect") == _known.PROVIDER_WITHOUT_EFFECT[provider]
        assert rows(provider, "refused") == set(_known.PROVIDER_REFUSED.get(provider, ()))
    with pytest.raises(nacre.InvalidArgument) as e:
        _core.Session(_core.Env(1), package.affine(), [("no such", "")], [])
    assert rows("nacre_options") == set(str(e.value).split("there are ")[1].rstrip(".").split(", "))
    assert len(ROWS) == len(set(ROWS)) > 120
    optimizers = dict(re.findall(r"^\| `(\w+)` \| `(\w+=\w+)` \|$", PAGE, re.M))
    assert optimizers == {name: "=".join(own) for name, own in _known.OPTIMIZERS.items()}


def test_onnxruntime_has_these_options_and_no_others():
    """Fields of its classes; entries cannot be listed, but a key that is written wrong is not in its binary."""
    for mine, theirs in ((nacre.SessionOptions, ort.SessionOptions), (nacre.RunOptions, ort.RunOptions)):
        fields = {n for n in dir(theirs) if isinstance(getattr(theirs, n), property)}
        assert fields <= set(mine._FIELDS) | {"terminate"}, fields
    binary = next(Path(ort.__file__).parent.glob("capi/onnxruntime_pybind11_state*.so")).read_bytes()
    mine = {"kernel_profile", "nacre.compute", "nacre.cudnn_dropout", "nacre.packed_file", "nacre.patterns",
            "nacre.recompute", "nacre.streams", "nacre.winograd"}
    entries = (rows("session entry") | rows("run entry")) - mine
    missing = sorted(e for e in entries if e[:40].encode() not in binary)
    assert len(missing) <= 6, missing  # builds leave some out


# ---- no effect ----

OTHER = {"enable_cpu_mem_arena": False, "enable_mem_pattern": False, "enable_mem_reuse": False,
         "execution_order": nacre.ExecutionOrder.PRIORITY_BASED, "log_verbosity_level": 2,
         "use_deterministic_compute": True}


@pytest.mark.parametrize("name", sorted(rows("SessionOptions", "no effect")))
def test_a_field_without_effect_says_so(name, capfd):
    o = nacre.SessionOptions()
    o.log_severity_level = 1
    nacre.InferenceSession(package.affine(), o)
    assert name not in said(capfd)
    setattr(o, name, OTHER[name])
    want = nacre.InferenceSession(package.affine()).run(None, {"x": X})
    got = nacre.InferenceSession(package.affine(), o).run(None, {"x": X})
    assert f"SessionOptions.{name}=" in said(capfd)
    np.testing.assert_array_equal(got[0], want[0])


@pytest.mark.parametrize("key", sorted(rows("session entry", "no effect")))
def test_an_entry_without_effect_says_so(key, capfd):
    o = nacre.SessionOptions()
    o.add_session_config_entry(key, "1")
    assert o.get_session_config_entry(key) == "1"
    nacre.InferenceSession(package.affine(), o)
    assert said(capfd) == ""  # below WARNING
    o.log_severity_level = 1
    nacre.InferenceSession(package.affine(), o)
    assert f"nacre: info: {key}=1 is without effect: " in said(capfd)


def test_an_entry_that_nobody_knows_is_named(capfd):
    o = nacre.SessionOptions()
    o.add_session_config_entry("session.set_denormals_as_zero", "1")
    nacre.InferenceSession(package.affine(), o)
    line = said(capfd)
    assert "warning: session.set_denormals_as_zero=1 is not known" in line
    assert "near it: session.set_denormal_as_zero" in line
    nacre.RunOptions().add_run_config_entry("gpu_graf_id", "1")
    assert "near it: gpu_graph_id" in said(capfd)


def test_run_options_without_effect_say_so(capfd):
    r = nacre.RunOptions()
    nacre.set_default_logger_severity(1)
    try:
        for name in rows("RunOptions", "no effect"):
            setattr(r, name, 1 if name == "log_verbosity_level" else True)
            assert f"RunOptions.{name}=" in said(capfd)
        for key in rows("run entry", "no effect"):
            r.add_run_config_entry(key, "1")
            assert f"{key}=1 is without effect" in said(capfd)
    finally:
        nacre.set_default_logger_severity(2)
    assert nacre.InferenceSession(package.affine()).run(None, {"x": X}, r)


# ---- refused ----

@pytest.mark.parametrize("key", sorted(rows("session entry", "refused")))
def test_an_entry_that_is_refused(key):
    asks = _known.ENTRIES_REFUSED[key][0]
    o = nacre.SessionOptions()
    o.add_session_config_entry(key, "x" if asks == "*" else asks)
    with pytest.raises(nacre.NotImplemented, match=re.escape(key)):
        nacre.InferenceSession(package.affine(), o)
    o.add_session_config_entry(key, "" if asks == "*" else "0" if asks == "1" else "ONNX")
    assert nacre.InferenceSession(package.affine(), o).run(None, {"x": X})


@pytest.mark.parametrize("key", sorted(rows("run entry", "refused")))
def test_a_run_entry_that_is_refused(key):
    with pytest.raises(nacre.NotImplemented, match=key):
        nacre.RunOptions().add_run_config_entry(key, "1")


@pytest.mark.parametrize("what, error, part", [
    (lambda o: setattr(o, "intra_op_num_threads", -1), ValueError, "got -1"),
    (lambda o: setattr(o, "inter_op_num_threads", -3), ValueError, "got -3"),
    (lambda o: setattr(o, "log_severity_level", 7), ValueError, "got 7"),
    (lambda o: setattr(nacre.RunOptions(), "log_severity_level", -2), ValueError, "got -2"),
    (lambda o: _core.Env(-1), nacre.InvalidArgument, "got -1"),
    (lambda o: o.add_session_config_entry("session.set_denormal_as_zero", "yes")
     or nacre.InferenceSession(package.affine(), o), nacre.InvalidArgument, "expected 0 or 1, got 'yes'"),
    (lambda o: o.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "-4")
     or nacre.InferenceSession(package.affine(), o), nacre.InvalidArgument, "expected a whole number, got '-4'"),
])
def test_a_value_that_is_refused(what, error, part):
    with pytest.raises(error, match=re.escape(part)):
        what(nacre.SessionOptions())


# ---- optimizers ----

def saved_ops(tmp_path, model, **kwargs):
    o, path = nacre.SessionOptions(), tmp_path / "saved.onnx"
    o.optimized_model_filepath = str(path)
    for key, value in kwargs.pop("entries", {}).items():
        o.add_session_config_entry(key, value)
    nacre.InferenceSession(model, o, **kwargs)
    return [n.op_type for n in onnx.load(path, load_external_data=False).graph.node]


def with_identity():
    return package.model([package.node("Identity", "x", "t"), package.node("Relu", "t", "y")],
                         [package.tensor("x", package.F, [3])], [package.tensor("y", package.F, [3])])


def test_optimizers_are_switched_off_by_either_name(tmp_path, capfd):
    assert saved_ops(tmp_path, with_identity()) == ["Relu"]
    for off in ("identity", "EliminateIdentity"):
        assert saved_ops(tmp_path, with_identity(), disabled_optimizers=[off]) == ["Identity", "Relu"]
        assert saved_ops(tmp_path, with_identity(), entries={"optimization.disable_specified_optimizers":
                                                             f"casts;{off}"}) == ["Identity", "Relu"]
    assert said(capfd) == ""
    assert saved_ops(tmp_path, with_identity(), disabled_optimizers=["AttentionFusion", "BiasGeluFusion"]) == ["Relu"]
    assert said(capfd).count("\n") == 1  # one warning for both
    for name in _known.OPTIMIZERS:
        nacre.InferenceSession(package.affine(), disabled_optimizers=[name])


LEAKY = "leaky: Max(x, Mul(x, $slope)) => LeakyRelu<alpha = $slope>(x)"


def leaky():
    return package.model([package.node("Mul", "x c", "m"), package.node("Max", "m x", "y")],
                         [package.tensor("x", package.F, [3])], [package.tensor("y", package.F, [3])],
                         [("c", np.float32(0.25))])


def test_patterns_of_ones_own(tmp_path):
    assert saved_ops(tmp_path, leaky()) == ["Mul", "Max"]
    assert saved_ops(tmp_path, leaky(), entries={"nacre.patterns": LEAKY}) == ["LeakyRelu"]
    assert saved_ops(tmp_path, leaky(), entries={"nacre.patterns": LEAKY}, disabled_optimizers=["patterns"]) == [
        "Mul", "Max"]
    o = nacre.SessionOptions()
    o.add_session_config_entry("nacre.patterns", LEAKY)
    x = np.array([-2, 0, 3], np.float32)
    assert nacre.InferenceSession(leaky(), o).run(None, {"x": x})[0].tolist() == [-0.5, 0, 3]


@pytest.mark.parametrize("rules, part", [
    ("leaky: Max(x, Mul(x, $c))\n -> LeakyRelu(x)", "patterns: line 2, column 2: expected '=>', got '-> LeakyRelu'"),
    ("leaky: Max(x, m) => LeakyRely(x)", "patterns: rule 'leaky' makes LeakyRely, which is not an op"),
    ("leaky: Max(x, m) => LeakyRelu<slope = 1>(x)", "patterns: rule 'leaky': LeakyRelu has no attribute 'slope'"),
    ("leaky: Max(x, m) => Shape(x)", "y"),
])
def test_patterns_that_are_refused(rules, part):
    o = nacre.SessionOptions()
    o.add_session_config_entry("nacre.patterns", rules)
    with pytest.raises(nacre.InvalidArgument if "patterns" in part else nacre.InvalidGraph, match=re.escape(part)):
        nacre.InferenceSession(leaky(), o)


@pytest.mark.parametrize("name, near", [("identiti", "identity"), ("ConstantFoldin", "ConstantFolding"), ("Qzx", None)])
def test_an_unknown_optimizer_is_an_error(name, near):
    with pytest.raises(nacre.InvalidArgument) as e:
        nacre.InferenceSession(package.affine(), disabled_optimizers=[name])
    assert f"there is no optimizer '{name}'" in str(e.value) and (near or "optimizer") in str(e.value)
    assert (near is None) == ("near it" not in str(e.value))


# ---- providers ----

def test_provider_options(capfd):
    cuda = "CUDAExecutionProvider"
    assert _known.provider_settings(cuda, {"gpu_mem_limit": "1000", "enable_cuda_graph": "1", "device_id": "0"}) == (
        [("memory_limit", "1000"), ("capture", "on")], [])
    assert _known.provider_settings(cuda, {"gpu_mem_limit": str(2**64 - 1)})[0] == []
    assert _known.provider_settings(cuda, {"use_tf32": "1"}) == ([("tf32", "on")], [])
    assert _known.provider_settings(cuda, {"use_tf32": "0"}) == ([("tf32", "off")], [])
    for key in rows(cuda, "no effect"):
        assert key in _known.provider_settings(cuda, {key: "1"})[1][0][1]
    for key in rows(cuda, "refused"):
        with pytest.raises(nacre.NotImplemented, match=key):
            _known.provider_settings(cuda, {key: "1"})
    with pytest.raises(nacre.InvalidArgument, match="near it: use_tf32"):
        _known.provider_settings(cuda, {"use_tf23": "1"})
    with pytest.raises(nacre.InvalidArgument, match="expected a whole number"):
        _known.provider_settings(cuda, {"gpu_mem_limit": "a lot"})
    cpu = "CPUExecutionProvider"
    for key in [*rows(cpu, "no effect"), "no such option"]:
        nacre.InferenceSession(package.affine(), providers=[(cpu, {key: "1"})])
        assert f"warning: {cpu}: without effect here: {key}" in said(capfd)


# ---- what the honoured ones do ----

def chatty(log=None, run_log=None, logid=""):
    """The log of making a session and of its first run, which plans again because the rank was not known."""
    o, r = nacre.SessionOptions(), nacre.RunOptions()
    if log is not None:
        o.log_severity_level = log
    if run_log is not None:
        r.log_severity_level, r.logid = run_log, "the run"
    o.logid = logid
    model = package.model([package.node("Identity", "x", "t"), package.node("Neg", "t", "y"),
                           package.node("Shape", "y", "s"), package.node("Size", "s", "k")],
                          [package.tensor("x", package.F, None)],
                          [package.tensor("y", package.F, None), package.tensor("k", onnx.TensorProto.INT64, [])])
    return nacre.InferenceSession(model, o), r


def test_log_levels_of_sessions_and_runs(capfd):
    for log, run_log, made, ran in ((None, None, False, False), (1, None, True, True), (4, None, False, False),
                                    (None, 1, False, True), (1, 3, True, False)):
        session, r = chatty(log, run_log, "mine")
        text = said(capfd)
        assert bool(text) == made, (log, run_log, text)
        assert all(line.startswith("nacre: info: [mine] ") for line in text.splitlines())
        session.run(None, {"x": X}, r)
        text = said(capfd)
        assert bool(text) == ran, (log, run_log, text)
        name = "the run" if run_log is not None else "mine"
        assert all(line.startswith(f"nacre: info: [{name}] ") for line in text.splitlines())


def test_denormals(capfd):
    model = package.model([package.node("Mul", "x x", "y")], [package.tensor("x", package.F, ["n"])],
                          [package.tensor("y", package.F, ["n"])])
    x = np.full(100_000, 1e-20, np.float32)
    for on in (False, True, False):
        o = nacre.SessionOptions()
        o.add_session_config_entry("session.set_denormal_as_zero", str(int(on)))
        y, = nacre.InferenceSession(model, o).run(None, {"x": x})
        assert (y == 0).all() if on else (y > 0).all()
        assert np.float32(1e-20) * np.float32(1e-20) > 0  # this thread is as it was


def test_the_optimized_model_with_external_data(tmp_path):
    key = "session.optimized_model_external_initializers_"
    saved_ops(tmp_path, package.affine(), entries={key + "file_name": "w.bin", key + "min_size_in_bytes": "20"})
    assert (tmp_path / "w.bin").stat().st_size >= 24
    graph = onnx.load(tmp_path / "saved.onnx", load_external_data=False).graph
    outside = [t.name for t in graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    assert len(outside) == 1
    want = nacre.InferenceSession(package.affine()).run(["y"], {"x": X})[0]
    for rt in (nacre, ort):
        again = rt.InferenceSession(str(tmp_path / "saved.onnx"), providers=["CPUExecutionProvider"])
        got = again.run(["y"], {"x": X})[0]
        assert np.allclose(got, want, *TOLERANCES["ort_f32"])
    assert sorted(os.listdir(tmp_path)) == ["saved.onnx", "w.bin"]


def test_memory_is_given_back_on_request():
    s, r = nacre.InferenceSession(package.affine()), nacre.RunOptions()
    r.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    want = s.run(None, {"x": X})
    calls = []
    s._session = type("Spy", (), {"run": s._session.run, "trim": lambda *_: calls.append(1)})()
    np.testing.assert_array_equal(s.run(None, {"x": X}, r)[0], want[0])
    assert calls == [1]


# ---- libraries of custom operators ----

def test_a_library_is_closed_with_its_last_session():
    text = f"""
        import gc, nacre, package, numpy as np
        def mapped():
            return "/compact.so" in open("/proc/self/maps").read()
        o = nacre.SessionOptions()
        o.register_custom_ops_library({str(package.MEET.parent / "compact.so")!r})
        gc.collect()
        assert not mapped(), "after registering"
        model = package.model([package.helper.make_node("Compact", ["x"], ["y"], domain="test.plugin")],
                              [package.tensor("x", package.F, ["n"])], [package.tensor("y", package.F, ["k"])],
                              domains=("test.plugin",))
        first, second = nacre.InferenceSession(model, o), nacre.InferenceSession(model, o)
        assert mapped()
        del first
        gc.collect()
        assert mapped() and second.run(None, {{"x": np.float32([1, -1])}})[0].tolist() == [1]
        del second
        gc.collect()
        assert not mapped(), "after the last session"
    """
    head = f"import sys; sys.path[:0] = {[str(package.FOLDER), os.path.dirname(package.__file__)]!r}\n"
    env = {**os.environ, "NACRE_LIB": str(package.nacre_c.LIBRARY)}
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(text)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
