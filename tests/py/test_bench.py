"""The scripts of bench/ still work: a quick run of all parts, and how figures are compared and accepted."""
import importlib
import pathlib
import subprocess
import sys

import package
import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)


@pytest.fixture(scope="module")
def figures():
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module("figures")
    sys.path.remove(str(BENCH))


def run(*arguments):
    return subprocess.run([sys.executable, str(BENCH / "bench.py"), "--build", str(package.FOLDER.parent), *arguments],
                          capture_output=True, text=True)


def test_quick_run_prints_every_table():
    done = run("--quick", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    for title in ("governor ", "limits:", "Shared objects of the package", "Process start to the first output",
                  "BERT, embedded, ms",
                  "BERT, embedded, MB", "BERT, external data, ms", "BERT, external data, MB",
                  "Sessions created, ms", "by torch", "Speed, ms", "Large products, one thread, ms",
                  "Operators beside the speed of memory, ms",
                  "Models of packages, one thread, ms",
                  "One chunk, the whole call", "Models of 8-bit integers, one thread, ms",
                  "Decoding token by token, one thread, ms"):
        assert title in done.stdout, title
    assert "disagree" not in done.stdout and "[bench] " in done.stderr


def test_unknown_part_is_refused():
    done = run("--only", "bert,nonsense")
    assert done.returncode == 2 and "nonsense" in done.stderr


def test_worse_is_more_than_a_tenth(figures):
    found = [figures.Figure("a", 1.0), figures.Figure("b", 1.2), figures.Figure("new", 9.0)]
    known = {"figures": {"a": {"ratio": 0.95}, "b": {"ratio": 1.0}, "gone": {"ratio": 1.0}}}
    assert figures.worse(found, known, 0.5) == [("b", 1.2, 1.0)]
    assert figures.worse(found, known, 5) == [("b", 1.2, 1.0)]
    assert figures.worse(found, {}, 0) == []


@pytest.mark.parametrize("load,accepted_load,cpu,named", [(0, 0, 1.0, True), (3, 0, 1.0, False), (0, 3, 1.0, False),
                                                          (3, 3, 1.2, True)])
def test_times_of_a_busy_machine_need_cpu_time_too(figures, load, accepted_load, cpu, named):
    known = {"load": accepted_load, "figures": {"t": {"ratio": 1.0, "cpu": 1.0}}}
    assert bool(figures.worse([figures.Figure("t", 1.5, cpu=cpu)], known, load)) == named


def test_targets(figures):
    assert figures.Figure("a", 0.2, 0.2).met and figures.Figure("a", 5.0).met
    assert not figures.Figure("a", 0.21, 0.2).met


def test_accepting_keeps_other_machines_and_figures(figures, tmp_path, monkeypatch):
    path = tmp_path / "accepted.json"
    monkeypatch.setattr(figures, "machine", lambda: "one")
    figures.accept([figures.Figure("a", 0.123456), figures.Figure("b", 2.0)], {"commit": "c1"}, path)
    monkeypatch.setattr(figures, "machine", lambda: "two")
    figures.accept([figures.Figure("a", 7.0)], {"commit": "c2"}, path)
    monkeypatch.setattr(figures, "machine", lambda: "one")
    figures.accept([figures.Figure("b", 3.0, cpu=2.00049)], {"commit": "c3"}, path)
    assert figures.accepted(path) == {"one": {"commit": "c3", "figures": {"a": {"ratio": 0.123},
                                                                          "b": {"ratio": 3.0, "cpu": 2.0}}},
                                      "two": {"commit": "c2", "figures": {"a": {"ratio": 7.0}}}}
    assert figures.accepted(tmp_path / "absent.json") == {}


def test_means_are_over_the_models_of_both_parts(figures):
    paired = importlib.import_module("paired")
    model = {kind: paired.Model(kind, pathlib.Path(), pathlib.Path(), kind) for kind in ("conv", "other")}
    rows = {("a", "one thread"): [{"model": model["conv"], "ratio": (0.5, 0, 0)}],
            ("b", "one thread"): [{"model": model["other"], "ratio": (2.0, 0, 0)}],
            ("a", "2 threads"): [{"model": model["conv"], "ratio": (0.5, 0, 0)}]}
    bench = type("Bench", (), {"rows": rows})
    found = paired.joined(bench, ("a", "b"), {"all": 0.7, "conv": 0.65, "gemm": 0.95}, "both")
    assert [(f.name, round(f.value, 6), f.met) for f in found] == [
        ("both, one thread: geometric mean of all", 1.0, False),
        ("both, one thread: geometric mean of conv", 0.5, True)]
