"""Whole networks in f32 beside onnxruntime, OpenVINO and MNN: see paired.py for how, nets.py for which."""
import platform

import numpy as np

import models
import nets
import packaged
import paired

QUICK = ("MobileNetV2",)
PART = "Whole models"
# onnxruntime's products are nearer to the limit on AArch64.
TARGETS = {"all": 0.70, "conv": 0.65, "gemm": 0.95 if platform.machine() == "aarch64" else 0.78}


def _made(bench, name):
    make, kind = nets.NETS[name]
    stem = name.lower().replace(",", "").replace(" ", "_")
    feeds, path = bench.folder / f"{stem}.npz", bench.folder / f"{stem}.onnx"
    if not (path.exists() and feeds.exists()):
        model, arrays = make()
        models.made(bench.folder, stem, lambda: model)
        np.savez(feeds, **arrays)
    return paired.Model(name, path, feeds, kind)


def measure(bench):
    made = [_made(bench, name) for name in (QUICK if bench.quick else nets.NETS)]
    return paired.measure(bench, PART, made, TARGETS, best=True)


def measure_all(bench):
    """The means over all models in f32, those of packages too; both parts were measured before."""
    return paired.joined(bench, (PART, packaged.PART), TARGETS, "All models in f32")
