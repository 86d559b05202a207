"""onnxruntime's other name for the native module."""
from nacre.capi.onnxruntime_pybind11_state import *  # noqa: F401,F403


def __getattr__(name: str) -> object:
    """What onnxruntime-training has there and needs the package onnx."""
    if name == "GradientGraphBuilder":
        from nacre.training._gradient_builder import GradientGraphBuilder
        return GradientGraphBuilder
    raise AttributeError(f"module 'nacre.capi._pybind_state' has no attribute '{name}'")
