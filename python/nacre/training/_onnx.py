"""The package onnx, imported when something of it is asked for: artifacts and blocks are written in its protos."""
from __future__ import annotations

import importlib
from typing import Any


class _Lazy:
    """Stands for the package; its modules are imported with it."""

    def __getattr__(self, name: str) -> Any:
        try:
            package = importlib.import_module("onnx")
        except ImportError:
            raise ImportError("nacre.training.artifacts and nacre.training.onnxblock work on ONNX's protos and need "
                              "the package onnx: pip install onnx. The command 'nacre artifacts' needs no "
                              "package.") from None
        for module in ("checker", "helper", "numpy_helper", "shape_inference", "defs", "external_data_helper"):
            importlib.import_module("onnx." + module)
        return getattr(package, name)


onnx: Any = _Lazy()
