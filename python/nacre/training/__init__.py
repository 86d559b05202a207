"""Training: gradients of models, as models; artifacts, blocks and the API of training, as onnxruntime.training has."""
import importlib
from typing import Any

from nacre.training._gradients import gradients

__all__ = ["api", "artifacts", "gradients", "onnxblock"]


def __getattr__(name: str) -> Any:
    if name in ("api", "artifacts", "onnxblock"):
        return importlib.import_module(f"nacre.training.{name}")
    raise AttributeError(f"module 'nacre.training' has no attribute '{name}'")
