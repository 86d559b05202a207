"""The stubs say what the extension has, and a script that uses the package passes mypy --strict, where mypy is."""
import ast
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap

import package
import pytest

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

from nacre import _core  # noqa: E402

FOLDER = package.nacre_c.ROOT / "python"
STUBS = ast.parse((FOLDER / "nacre" / "_core.pyi").read_text())


def named(body):
    return {n.name if hasattr(n, "name") else n.target.id: n for n in body
            if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AnnAssign))}


def test_stubs_name_what_is_there():
    stubs = named(STUBS.body)
    assert set(stubs) == {n for n in dir(_core) if not n.startswith("__")}
    for name in ("Value", "Env", "Session", "RunOptions", "State"):
        told = {n for n in named(stubs[name].body) if n != "__new__"}
        have = {n for n, v in vars(getattr(_core, name)).items()
                if not n.startswith("__") or n in ("__array_struct__", "__dlpack__", "__dlpack_device__")}
        assert told == have, name


def test_every_public_thing_is_documented():
    import nacre
    bare = [n for n in nacre.__all__ if isinstance(t := getattr(nacre, n), type) and not issubclass(t, Exception)
            and not t.__doc__]
    assert not bare
    assert (FOLDER / "nacre" / "py.typed").exists()


SCRIPT = """
    import numpy as np

    import nacre as ort


    def main(path: str) -> list[int]:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {session.get_inputs()[0].name: np.zeros((1, 3), np.float32)})
        value = ort.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32), "cpu", 0)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        try:
            session.run(None, {})
        except ort.InvalidArgument as e:
            print(e.node, e.text)
        state = ort.State(session)
        state.lend("w", np.zeros(3, np.float32))
        state["b"] = np.zeros(3, np.float32)
        session.run(None, {}, state=state)
        print(session.get_modelmeta().custom_metadata_map, session.end_profiling(), outputs)
        return value.shape()
    """


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_strict(tmp_path):
    script = pathlib.Path(tmp_path / "script.py")
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(script)], capture_output=True, text=True,
                          env={**os.environ, "MYPYPATH": str(FOLDER)}, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout
