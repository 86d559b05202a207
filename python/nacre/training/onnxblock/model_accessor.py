"""The model that blocks add to: one at a time, made by a context manager."""
from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, Optional, Union

from nacre.training._onnx import onnx

_GLOBAL_ACCESSOR: Optional["ModelAccessor"] = None
_GLOBAL_CUSTOM_OP_LIBRARY: Optional[str] = None


class ModelAccessor:
    """Holds the model that is built upon, and the path it came from, if any."""

    def __init__(self, model: Any, model_path: Optional[str] = None) -> None:
        self._model = model
        self._path = model_path

    @property
    def model(self) -> Any:
        """The ModelProto; blocks change it, and so may others."""
        if self._model is None:
            raise RuntimeError("The base onnx model was not set")
        return self._model

    @property
    def path(self) -> str:
        """Where the model was loaded from: its external data lie beside it."""
        if self._path is None:
            raise RuntimeError("The path to the onnx model was not set")
        return self._path

    @property
    def has_path(self) -> bool:
        return self._path is not None


def current() -> ModelAccessor:
    """The accessor that blocks work on now."""
    if _GLOBAL_ACCESSOR is None:
        raise RuntimeError("No base onnx model is set: call blocks inside 'with onnxblock.base(model):' or "
                           "'with onnxblock.empty_base():'")
    return _GLOBAL_ACCESSOR


@contextlib.contextmanager
def _as_base(accessor: ModelAccessor) -> Iterator[ModelAccessor]:
    global _GLOBAL_ACCESSOR
    if _GLOBAL_ACCESSOR is not None:
        raise RuntimeError("Base onnx model already exists. Cannot create multiple ModelAccessors.")
    _GLOBAL_ACCESSOR = accessor
    try:
        yield accessor
    finally:
        _GLOBAL_ACCESSOR = None


@contextlib.contextmanager
def base(model: Any, model_path: Optional[Union[str, "os.PathLike[str]"]] = None) -> Iterator[ModelAccessor]:
    """Blocks that are called inside add to a copy of the model. model_path: where it was loaded from, if parts of it
    lie in other files beside it."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    with _as_base(ModelAccessor(copied, None if model_path is None else os.fspath(model_path))) as accessor:
        yield accessor


@contextlib.contextmanager
def empty_base(opset_version: Optional[int] = None) -> Iterator[ModelAccessor]:
    """Blocks that are called inside add to a new model without nodes. opset_version: that of ai.onnx; None: the newest
    that the package onnx knows."""
    opset = onnx.defs.onnx_opset_version() if opset_version is None else opset_version
    model = onnx.helper.make_model(onnx.helper.make_graph([], "graph", [], []), producer_name="nacre",
                                   opset_imports=[onnx.helper.make_opsetid("com.microsoft", 1),
                                                  onnx.helper.make_opsetid("", opset)])
    with _as_base(ModelAccessor(model)) as accessor:
        yield accessor


@contextlib.contextmanager
def custom_op_library(custom_op_library_path: Union[str, "os.PathLike[str]"]) -> Iterator[str]:
    """Models that are built inside may use the operators of this library (one for nacre: nacre_plugin.h)."""
    global _GLOBAL_CUSTOM_OP_LIBRARY
    if _GLOBAL_CUSTOM_OP_LIBRARY is not None:
        raise RuntimeError("CustomOp library already set. Cannot set multiple custom op libraries.")
    path = os.fspath(custom_op_library_path)
    if not os.path.exists(path):
        raise RuntimeError(f"Custom op library path {path} does not exist.")
    _GLOBAL_CUSTOM_OP_LIBRARY = path
    try:
        yield path
    finally:
        _GLOBAL_CUSTOM_OP_LIBRARY = None
