"""Training: gradients of models, as models; artifacts and blocks, as onnxruntime.training has them."""
import importlib
from typing import Any

from nacre.training._gradients import gradients

__all__ = ["artifacts", "gradients", "onnxblock"]


def __getattr__(name: str) -> Any:
    if name in ("artifacts", "onnxblock"):
        return importlib.import_module(f"nacre.training.{name}")
    raise AttributeError(f"module 'nacre.training' has no attribute '{name}'")
