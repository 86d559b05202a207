"""Real models: those inside the packages rapidocr-onnxruntime (text found, read and turned), silero-vad (one chunk of a
voice) and magika (one file), as the packages feed them. Packages that are not installed say so.
"""
import functools
import importlib.util
import pathlib
import pickle
import subprocess
import sys

import numpy as np

import paired
import small
from engines import NAMES, Engine
from figures import Figure
from table import print_table

MODELS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models"
QUICK, PART = "silero_vad", "Models of packages"
CHUNK = 0.7  # of onnxruntime's time from Python
# by file: what people call it, and whether convolutions are what it does
TEXT = {"ch_PP-OCRv4_det_infer.onnx": ("text found", "conv"), "ch_PP-OCRv4_rec_infer.onnx": ("text read", "conv"),
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": ("text turned?", "conv")}


@functools.lru_cache(maxsize=None)
def _folder(package):
    """Where a package's files are; None: it is not installed."""
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.origin).parent if spec else None


def _fed(bench, task):
    """By model file, what a package fed to it first; kept."""
    file = bench.folder / f"fed_{task}.pickle"
    if not file.exists():
        subprocess.run([sys.executable, str(MODELS / "packages.py"), task, "onnxruntime", str(file),
                        str(bench.package)], check=True, capture_output=True)
    return {name: feeds[0] for name, feeds in pickle.loads(file.read_bytes())[1].items()}


def _model(bench, name, path, feeds, kind="other"):
    file = bench.folder / f"packaged_{path.parent.name}_{path.stem}.npz"
    np.savez(file, **feeds)
    return paired.Model(name, path, file, kind)


def _text(bench, folder):
    fed = _fed(bench, "text")
    return [_model(bench, name, next(folder.rglob(file)), fed[file], kind) for file, (name, kind) in TEXT.items()]


def _files(bench, folder):
    fed = _fed(bench, "files")
    return [_model(bench, "magika, one file", p, {"bytes": np.int32(fed[p.name]["bytes"][:1])})
            for p in sorted(folder.rglob("*.onnx"))[:1]]


def _chunk(bench, folder):
    """One chunk of 32 ms after the 4 ms before it, with an empty state."""
    path = next(folder.rglob("silero_vad.onnx"))
    feeds = {"input": np.random.default_rng(4).standard_normal((1, 576), np.float32) * np.float32(0.1),
             "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000)}
    return [_model(bench, "silero-vad, a chunk", path, feeds)]


PACKAGES = {"rapidocr_onnxruntime": _text, "silero_vad": _chunk, "magika": _files}


def _from_c(bench, model):
    """The chunk from C and from Python, beside onnxruntime from Python."""
    with Engine(NAMES[0], bench.package) as a, Engine(NAMES[1], bench.package) as b:
        took = {}
        for engine in (a, b):
            engine.ask("load", model=str(model.path), feeds=str(model.feeds), threads=1)
            engine.ask("run", times=5)
            loops = [engine.ask("loop", times=20 if bench.quick else 300) for _ in range(bench.turns)]
            took[engine.name] = min(t["wall"] for t in loops)
    c = small.from_c(bench, str(model.path), "--threads", "1", "--input", str(model.feeds))
    rows = [[f"{model.name}, from {where}", 1e3 * t, 1e3 * took[NAMES[1]], t / took[NAMES[1]]]
            for where, t in (("Python", took[NAMES[0]]), ("C", c))]
    print_table("One chunk, the whole call, us (onnxruntime from Python)", ["", "nacre", "ORT", "ratio"], rows)
    return [Figure(r[0], r[3], CHUNK) for r in rows]


def measure(bench):
    made, found = [], []
    for package, make in PACKAGES.items():
        if bench.quick and package != QUICK:
            continue
        if _folder(package) is None:
            bench.say(f"not measured, because it is not installed (see tests/requirements.txt): {package}")
            continue
        made += make(bench, _folder(package))
    found += paired.measure(bench, PART, made, {"all": 0.70})
    for model in made:
        if model.name.startswith("silero"):
            found += _from_c(bench, model)
    return found
