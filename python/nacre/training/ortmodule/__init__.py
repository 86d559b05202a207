"""The place where onnxruntime wraps PyTorch modules. That is not done here; its conversions of values are in _utils."""
from __future__ import annotations

from typing import Any

from nacre import _core

__all__ = ["ORTModule"]


class ORTModule:
    """Not supported: export the module and train it with nacre.training.artifacts and nacre.training.api."""

    def __init__(self, module: Any, debug_options: Any = None) -> None:
        raise _core.NotImplemented("ORTModule is not supported; export the module and train it with "
                                   "nacre.training.artifacts and nacre.training.api")
