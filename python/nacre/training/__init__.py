"""Training, laid out as onnxruntime.training is: artifacts and onnxblock make the models, api trains them; gradients
are models of their own. What needs the packages onnx or torch is imported when it is asked for."""
import importlib
from typing import Any

from nacre.training._gradients import gradients
from nacre.training._names import PropagateCastOpsStrategy, TrainingParameters, is_ortmodule_available

_CUSTOM = ("register_custom_stop_gradient_edges", "register_gradient")
_MODULES = ("amp", "api", "artifacts", "experimental", "onnxblock", "optim", "utils")
__all__ = ["PropagateCastOpsStrategy", "TrainingParameters", "gradients", "is_ortmodule_available", *_CUSTOM,
           *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"nacre.training.{name}")
    if name in _CUSTOM:
        return getattr(importlib.import_module("nacre.training._custom_gradients"), name)
    raise AttributeError(f"module 'nacre.training' has no attribute '{name}'")
