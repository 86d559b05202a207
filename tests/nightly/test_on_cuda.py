"""The CUDA device on stand-ins for NVIDIA's libraries (tests/cuda), beside what `make test` runs there: ONNX's node
cases, most of them without a compute node on the host, random graphs, whole models trained beside PyTorch, and the
script of the GPU's figures with tiny sizes."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "build" / "release" / "cuda"
SHARE = 0.98  # of the numeric cases, at least


def on_standins(*command, **variables):
    if not LIBRARIES.exists():
        pytest.fail(f"{LIBRARIES} is missing: build first")
    env = {**os.environ, "NACRE_CUDA_PATH": str(LIBRARIES), "NACRE_CACHE": "", **variables}
    return subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True)


def test_node_cases_stay_on_the_device():
    done = on_standins("tests/conformance/on_cuda.py")
    print(done.stdout)
    whole, of = map(int, re.search(r"^(\d+) of (\d+) numeric", done.stdout, re.M).groups())
    assert done.returncode == 0, "\n".join(re.findall("^WRONG.*", done.stdout, re.M))
    assert of > 1000, "cases were lost"
    assert whole >= SHARE * of, f"{whole} of {of}"


@pytest.mark.parametrize("files", [["test_random_graphs.py", "-k", "test_graphs"],
                                   ["test_models_torch.py", "-k", "mlp or cnn or gpt2 or loop"],
                                   ["test_gradients_torch.py"], ["test_gradients_differences.py"],
                                   ["test_numerics.py"], ["test_op_forms.py"], ["test_rank.py"]], ids=lambda f: f[0])
def test_graphs_and_models_on_the_device(files, tmp_path):
    done = on_standins("-m", "pytest", "-q", ROOT / "tests" / "py" / files[0], *files[1:], NACRE_TEST_DEVICE="cuda",
                       NACRE_GRAPHS="200", NACRE_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_row_of_the_figures_runs(tmp_path):
    done = on_standins("bench/gpu_rows.py", "--tiny", "--out", tmp_path)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) > 10 and done.returncode == 0, "\n".join(f"{r['name']}: {r.get('failed')}" for r in rows)


def test_operators_beside_pytorch_run():
    done = on_standins("bench/gpu_cards.py", "--tiny", "--alone")
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert done.returncode == 0 and len(rows) > 40, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_failing_row_leaves_the_others(tmp_path):
    broken = ("import sys; sys.path.insert(0, 'bench'); import gpu_rows\n"
              "def bad(tiny): raise RuntimeError('on purpose')\n"
              "gpu_rows.ROWS = {'bad': bad, 'good': lambda t: {'figure': 1.0, 'unit': '', 'target': 1, 'ms': 1.0}}\n"
              f"sys.argv = ['gpu_rows', '--out', {str(tmp_path)!r}]\n"
              "sys.exit(gpu_rows.main())")
    done = on_standins("-c", broken)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert done.returncode == 1 and rows[0]["failed"] == "on purpose" and "failed" not in rows[1]
