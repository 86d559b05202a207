"""Small models for examples: mul_1.onnx, sigmoid.onnx, logreg_iris.onnx (tools/datasets/make.py makes them)."""
from __future__ import annotations

import os


def get_example(name: str) -> str:
    """The path of an example model."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"Unable to find example '{name}'")
    return path
