"""Nacre under the import name onnxruntime: for one program, for a process, by the second wheel; clients that look for
the name and its version: transformers, skl2onnx, rapidocr, silero-vad and magika; and the example models."""
import os
import shutil
import subprocess
import sys
import textwrap
import tomllib

import numpy as np
import onnxruntime
import onnxruntime.datasets
import package
import pytest

import nacre_c
from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre import as_onnxruntime, datasets  # noqa: E402

SECOND = nacre_c.ROOT / "python" / "as_onnxruntime"
#: Says that what is imported as onnxruntime is nacre.
IS_NACRE = "import onnxruntime, nacre; assert onnxruntime.InferenceSession is nacre.InferenceSession\n"


def python(*arguments, paths=(package.FOLDER,), **kwargs):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=env, **kwargs)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def as_one_program(text):
    return python("-m", "nacre.as_onnxruntime", "-c", IS_NACRE + textwrap.dedent(text))


def test_a_script(tmp_path):
    (tmp_path / "beside.py").write_text("WORD = 'found'\n")
    (tmp_path / "script.py").write_text(IS_NACRE + textwrap.dedent("""
        import sys
        import beside
        import importlib.metadata
        import onnxruntime as ort
        from onnxruntime.capi import _pybind_state as C
        from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
        import onnxruntime.backend, onnxruntime.datasets
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        from onnxruntime.transformers.float16 import convert_float_to_float16
        from onnxruntime.transformers import optimizer
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
        assert quantize_dynamic.__module__ == "nacre.quantization.quantize" and QuantType.QInt8.value == 0
        assert optimizer.optimize_model.__module__ == "nacre.transformers.optimizer"
        assert __name__ == "__main__" and InferenceSession is ort.InferenceSession and C.OrtDevice is ort.OrtDevice
        assert sys.modules["onnxruntime.capi"] is nacre.capi and nacre.capi.__spec__.name == "nacre.capi"
        print(beside.WORD, sys.argv[1:], ort.__version__, importlib.metadata.version("onnxruntime"), ort.version)
    """))
    out = python("-m", "nacre.as_onnxruntime", tmp_path / "script.py", "a", "b")
    assert out.split("\n")[0] == "found ['a', 'b'] " + " ".join([as_onnxruntime.SURFACE] * 3)
    assert "usage" in python("-m", "nacre.as_onnxruntime", "--help")


EVERY = """
    import importlib, os, pathlib
    root = pathlib.Path(nacre.__file__).parent
    files = [pathlib.Path(folder, f) for folder, _, names in os.walk(root, followlinks=True) for f in names]
    for path in sorted(f for f in files if f.suffix == ".py"):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[-1] in ("__init__", "__main__"):
            parts.pop()
        if any(p.startswith("_") for p in parts):
            continue
        name = ".".join(["onnxruntime", *parts])
        assert importlib.import_module(name) is importlib.import_module(name.replace("onnxruntime", "nacre", 1)) or \\
            len(parts) == 0
        print(name)
    import onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Tensor as tensor
    print(tensor.Tensor.__module__)
"""


def test_every_module():
    out = as_one_program(EVERY).split()
    assert len(out) > 120 and out[-1] == "nacre.tools.ort_format_model.ort_flatbuffers_py.fbs.Tensor"
    assert {"onnxruntime.tools.offline_tuning", "onnxruntime.transformers.benchmark_helper",
            "onnxruntime.quantization.neural_compressor.weight_only"} <= set(out)


@pytest.mark.parametrize("module", ["onnxruntime.tools.offline_tuning", "onnxruntime.transformers.optimizer",
                                    "onnxruntime.tools.mobile_helpers.usability_checker",
                                    "onnxruntime.quantization.preprocess"])
def test_a_module_as_a_command(module):
    """By one program, and by the second wheel."""
    assert "usage: " in python("-m", "nacre.as_onnxruntime", "-m", module, "-h")
    assert "usage: " in python("-m", module, "-h", paths=(package.FOLDER, SECOND))


def test_this_process_refuses_a_second_runtime():
    assert sys.modules["onnxruntime"] is onnxruntime
    with pytest.raises(ImportError, match="was imported already"):
        as_onnxruntime.install()


def test_the_second_wheel(tmp_path):
    told = tomllib.loads((SECOND / "pyproject.toml").read_text())["project"]
    assert told["name"] == "onnxruntime" and told["version"] == as_onnxruntime.SURFACE
    python("-c", "import sys; sys.argv[0] = 'setup.py'\n"
                 "from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))", tmp_path,
           cwd=shutil.copytree(SECOND, tmp_path / "source"))
    wheel, = tmp_path.glob("onnxruntime-*.whl")
    text = IS_NACRE + textwrap.dedent("""
        import importlib.metadata
        from onnxruntime.capi.onnxruntime_pybind11_state import OrtValueVector
        import onnxruntime.datasets
        assert onnxruntime.__file__.startswith(__import__('sys').argv[1]), onnxruntime.__file__
        print(onnxruntime.__version__, importlib.metadata.version("onnxruntime"))
    """)
    out = python("-c", text, wheel, paths=(wheel, package.FOLDER))
    assert out.split() == [as_onnxruntime.SURFACE] * 2
    assert wheel.stat().st_size < 10_000


def test_the_version_is_of_a_surface_that_is_compared():
    numbers = [tuple(map(int, v.split(".")[:2])) for v in (as_onnxruntime.SURFACE, onnxruntime.__version__)]
    assert numbers[0] <= numbers[1]


# ---- clients ----

def test_transformers_finds_it():
    as_one_program("""
        from transformers.utils import import_utils
        assert import_utils.is_onnxruntime_available()
        assert import_utils._is_package_available("onnxruntime", return_version=True)[1] == onnxruntime.__version__
    """)


def test_skl2onnx():
    as_one_program("""
        import numpy as np
        from sklearn.datasets import load_iris
        from sklearn.ensemble import RandomForestClassifier
        from skl2onnx import to_onnx
        x, y = load_iris(return_X_y=True)
        forest = RandomForestClassifier(5, random_state=0).fit(x, y)
        session = onnxruntime.InferenceSession(to_onnx(forest, x[:1].astype(np.float32)).SerializeToString())
        labels = session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})[0]
        assert (labels == forest.predict(x)).mean() > 0.99
    """)


@pytest.mark.parametrize("work, wanted", [
    ("from magika import Magika; print(Magika().identify_bytes(b'import os\\nprint(os.name)\\n' * 9).output.label)",
     "python"),
    ("import silero_vad, torch; m = silero_vad.load_silero_vad(onnx=True); print(type(m.session).__module__, "
     "m(torch.zeros(1, 512), 16000).shape)", "nacre._session torch.Size([1, 1])"),
    (f"import sys; sys.path.insert(0, {str(nacre_c.ROOT / 'tests' / 'models')!r}); import inputs; "
     "from rapidocr_onnxruntime import RapidOCR; print(len(RapidOCR()(inputs.text_image())[0]) > 2)", "True")],
                         ids=["magika", "silero-vad", "rapidocr"])
def test_packages_at_work(work, wanted):
    assert as_one_program(work).strip().splitlines()[-1] == wanted


# ---- example models ----

@pytest.mark.parametrize("name", ["mul_1.onnx", "sigmoid.onnx", "logreg_iris.onnx"])
def test_example_models(name):
    sys.path.insert(0, str(nacre_c.ROOT / "tools" / "datasets"))
    try:
        import make
    finally:
        sys.path.pop(0)
    path = datasets.get_example(name)
    assert open(path, "rb").read() == make.models()[name], "tools/datasets/make.py writes another file"
    mine, theirs = nacre.InferenceSession(path), onnxruntime.InferenceSession(path)
    peer = onnxruntime.InferenceSession(onnxruntime.datasets.get_example(name))
    for a, b in ((mine, theirs), (mine, peer)):
        assert [(i.name, i.type, i.shape) for i in a.get_inputs() + a.get_outputs()] == \
               [(i.name, i.type, i.shape) for i in b.get_inputs() + b.get_outputs()]
    x = mine.get_inputs()[0]
    feeds = {x.name: np.random.default_rng(1).standard_normal(x.shape).astype(np.float32) + 3}
    a, b = mine.run(None, feeds), theirs.run(None, feeds)
    close(a[0], b[0], "ort_f32", name)
    assert len(a) == len(b)


def test_an_example_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="nothing.onnx"):
        datasets.get_example("nothing.onnx")
