"""Helpers around training in PyTorch; what needs torch is imported when it is asked for."""
import importlib
from typing import Any

from nacre.training.utils.ptable import PTable

_PLACES = {"torch_io_helper": ("PrimitiveType", "ORTModelInputOutputType", "ORTModelInputOutputSchemaType",
                               "extract_data_and_schema", "unflatten_data_using_schema"),
           "torch_profile_utils": ("torch_nvtx_range_push", "torch_nvtx_range_pop", "nvtx_function_decorator",
                                   "log_memory_usage"),
           "torch_type_map": ("pytorch_type_to_onnx_dtype", "pytorch_scalar_type_to_pytorch_dtype",
                              "onnx_dtype_to_pytorch_dtype")}
__all__ = ["PTable", *(name for names in _PLACES.values() for name in names)]


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name == place or name in names:
            module = importlib.import_module(f"nacre.training.utils.{place}")
            return module if name == place else getattr(module, name)
    raise AttributeError(f"module 'nacre.training.utils' has no attribute '{name}'")
