"""onnxruntime's other name for the native module."""
from nacre.capi.onnxruntime_pybind11_state import *  # noqa: F401,F403
