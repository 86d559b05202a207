"""Nacre runs ONNX models. `import nacre as ort` serves scripts that were written for onnxruntime.

    session = nacre.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": array})
"""
from __future__ import annotations

from nacre import _core
from nacre._binding import IOBinding, SessionIOBinding
from nacre._core import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
                         ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
                         NotImplemented, RuntimeException)
from nacre._device import (OrtDevice, OrtMemoryInfo, envs as _envs, get_all_providers, get_available_providers,
                           get_device)
from nacre._enums import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtAllocatorType,
                          OrtDeviceMemoryType, OrtDeviceVendorId, OrtExecutionProviderDevicePolicy,
                          OrtHardwareDeviceType, OrtMemoryInfoDeviceType, OrtMemType, OrtSparseFormat)
from nacre._options import RunOptions, SessionOptions
from nacre._session import InferenceSession, ModelMetadata, NodeArg
from nacre._value import OrtValue, copy_tensors

__version__: str = _core.version()

__all__ = [
    "DeviceReset", "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel",
    "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled",
    "ModelLoaded", "ModelMetadata", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NodeArg", "NotFound",
    "NotImplemented", "OrtAllocatorType", "OrtDevice", "OrtDeviceMemoryType", "OrtDeviceVendorId",
    "OrtExecutionProviderDevicePolicy", "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtValue", "RunOptions", "RuntimeException", "SessionIOBinding",
    "SessionOptions", "__version__", "copy_tensors", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_build_info", "get_device", "get_version_string",
    "has_collective_ops", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed",
]


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    return f"Nacre Build Info: version={__version__}"


def has_collective_ops() -> bool:
    return False


def enable_telemetry_events() -> None:
    """There is no telemetry."""


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def set_default_logger_severity(severity: int) -> None:
    """0 verbose, 1 info, 2 warning, 3 error, 4 nothing."""
    _core.set_log_level(int(severity))


def set_default_logger_verbosity(verbosity: int) -> None:
    """A hint: the verbose level has no steps."""
    int(verbosity)


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Threads of sessions that do not say a number themselves, made from now on. 0: as many as the machine allows."""
    if int(intra_op_num_threads) < 0:
        raise ValueError(f"intra_op_num_threads: expected 0 or more, got {intra_op_num_threads}")
    _envs.default_threads = int(intra_op_num_threads)


def set_seed(seed: int) -> None:
    """The seed of random nodes in sessions that are made from now on."""
    if int(seed) < 0:
        raise ValueError(f"seed: expected 0 or more, got {seed}")
    _envs.seed = int(seed)
