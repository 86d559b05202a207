"""Runs what pages show, and checks the pages that are made from code.

Fenced blocks of README.md, python/README.md and the READMEs of examples/: in `sh` a line after "$ " is a command, run
in the root of the tree, and what follows is its output; `c` is compiled against include/ and linked with libnacre.so;
`python` runs with the built package. The output of the last two stands in the `text` block behind them. Three dots
stand for any text, alone on a line for any lines."""
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NACRE_BUILD", ROOT / "build" / "release"))
PAGES = [ROOT / "README.md", ROOT / "python" / "README.md", *sorted((ROOT / "examples").glob("**/README.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
RUN = ("sh", "c", "python")


def blocks():
    for page in PAGES:
        found = [(m[1], m[2], page.read_text()[:m.start()].count("\n") + 1) for m in BLOCK.finditer(page.read_text())]
        for i, (kind, text, line) in enumerate(found):
            output = found[i + 1][1] if kind != "sh" and i + 1 < len(found) and found[i + 1][0] == "text" else None
            yield pytest.param(kind, text, output, id=f"{page.relative_to(ROOT)}:{line}:{kind}")


def looks_like(got, shown):
    """Whether got is the output that a page shows."""
    lines = [".*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
             for line in shown.splitlines()]
    pattern = "".join("(?s:.*)" if line == ".*" else line for line in lines)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in got.splitlines())) is not None


def run(command, **settings):
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "LD_LIBRARY_PATH": str(BUILD)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, **settings)


def run_shell(text, output, folder):
    if BUILD != ROOT / "build" / "release" and "build/release" in text:
        pytest.skip("the page speaks of build/release")
    commands = re.split(r"^\$ ", text, flags=re.M)
    assert not commands[0] and len(commands) > 1, "a block of sh begins with '$ '"
    for part in commands[1:]:
        command, _, shown = part.partition("\n")
        done = run(["sh", "-c", command])
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert looks_like(done.stdout, shown), f"{command} prints\n{done.stdout}\nthe page shows\n{shown}"


def run_c(text, output, folder):
    (folder / "page.c").write_text(text)
    flags = ["-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"-L{BUILD}", f"-Wl,-rpath,{BUILD}"]
    done = run([os.environ.get("CC", "cc"), *flags, folder / "page.c", "-lnacre", "-o", folder / "page"])
    assert done.returncode == 0, done.stderr
    return run([folder / "page"])


def run_python(text, output, folder):
    return run([sys.executable, "-c", text])


@pytest.mark.parametrize("kind, text, output", list(blocks()))
def test_block(kind, text, output, tmp_path):
    if kind == "text":
        return
    assert kind in RUN, f"a block of '{kind}' is run by nobody: call it sh, c, python or text"
    if kind == "c" and not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("no C compiler")
    done = {"sh": run_shell, "c": run_c, "python": run_python}[kind](text, output, tmp_path)
    if done is not None:
        assert done.returncode == 0, done.stdout + done.stderr
        assert output is not None, "no block of text shows what this prints"
        assert looks_like(done.stdout, output), f"prints\n{done.stdout}\nthe page shows\n{output}"


@pytest.mark.parametrize("got, shown, right", [
    ("a\nb\n", "a\nb\n", True), ("a\nb\n", "a\n", False), ("a\n", "a\nb\n", False), ("a 1.5 s\n", "a ... s\n", True),
    ("x\ny\nz\n", "...\nz\n", True), ("x\ny\n", "...\nz\n", False), ("", "...\n", True), ("a.c\n", "abc\n", False)])
def test_output_is_compared(got, shown, right):
    assert looks_like(got, shown) == right


def test_pages_have_an_example_of_each_kind():
    kinds = [m[1] for m in BLOCK.finditer((ROOT / "README.md").read_text())]
    assert all(kind in kinds for kind in RUN)


def test_commands_page_is_current():
    done = run([sys.executable, ROOT / "tools" / "docs" / "commands.py", "--check"])
    assert done.returncode == 0, done.stdout + done.stderr


# ---- docs/training.md: what it shows from Python, on a small model of the names it uses ----

TRAINING_PAGE = ROOT / "docs" / "training.md"
BEFORE = """
import numpy as np, onnx, onnx.parser
text = '''<ir_version: 8, opset_import: ["" : 17]> g (float[n,4] x) => (float[n,3] probabilities)
<float[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[3] b = {0,0,0}>
{ y = MatMul(x, w)  z = Add(y, b)  probabilities = Softmax(z) }'''
onnx.save(onnx.parser.parse_model(text), "model.onnx")
batches = [(np.ones((2, 4), np.float32), np.array([0, 2]))] * 3
"""
AFTER = """
import nacre
first, last = nacre.InferenceSession("model.onnx"), nacre.InferenceSession("trained.onnx")
a, b = (s.run(None, {"x": batches[0][0]})[0] for s in (first, last))
assert a.shape == b.shape and (a != b).any()
from onnx import helper
node = helper.make_node("Swish", ["x"], ["y"], domain="my.domain")
graph = helper.make_graph([node], "g", *([helper.make_tensor_value_info(n, 1, [3])] for n in "xy"))
body = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
swish = helper.make_function("my.domain", "Swish", ["x"], ["y"], body, opsets[:1])
custom = helper.make_model(graph, ir_version=8, functions=[swish], opset_imports=opsets)
from nacre import training
slope = nacre.InferenceSession(training.gradients(custom, "y", ["x"]).SerializeToString())
x = np.float32([-1, 0.5, 2])
s = 1 / (1 + np.exp(-x))
assert np.abs(slope.run(["grad:x"], {"x": x})[0] - (s + x * s * (1 - s))).max() < 1e-6
"""


def test_the_training_page(tmp_path):
    shown = re.findall(r"(?:^    .*\n|^\n(?=    ))+", TRAINING_PAGE.read_text(), re.M)
    code = "\n".join(textwrap.dedent(b) for b in shown if "from nacre.training" in b)
    assert code.count("from nacre.training") == 3
    (tmp_path / "page.py").write_text(BEFORE + code + AFTER)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")}, check=False)
    assert done.returncode == 0, done.stderr
