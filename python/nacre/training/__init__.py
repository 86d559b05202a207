"""Training, laid out as onnxruntime.training is: artifacts and onnxblock make the models, api trains them; gradients
are models of their own. What needs the packages onnx or torch is imported when it is asked for."""
import importlib
from typing import Any

from nacre.training._gradients import gradients
from nacre.training._names import PropagateCastOpsStrategy, TrainingParameters, is_ortmodule_available

_MODULES = ("amp", "api", "artifacts", "experimental", "onnxblock", "optim", "utils")
__all__ = ["PropagateCastOpsStrategy", "TrainingParameters", "gradients", "is_ortmodule_available", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"nacre.training.{name}")
    raise AttributeError(f"module 'nacre.training' has no attribute '{name}'")
