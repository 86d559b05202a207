"""Nacre runs ONNX models. `import nacre as ort` serves scripts that were written for onnxruntime.

    session = nacre.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": array})
"""
from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Optional

import numpy as np

from nacre import _core
from nacre._absent import (OrtEpContextData, OrtEpContextDataBuffer, register_execution_provider_library,
                           unregister_execution_provider_library)
from nacre._adapter import AdapterFormat, LoraAdapter
from nacre._binding import IOBinding, SessionIOBinding
from nacre._compile import ModelCompiler
from nacre._core import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
                         ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
                         NotImplemented, RuntimeException)
from nacre._device import (OrtArenaCfg, OrtDevice, OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtEpDevice,
                           OrtExternalInitializerInfo, OrtHardwareDevice, OrtMemoryInfo, OrtSyncStream,
                           create_and_register_allocator, create_and_register_allocator_v2, envs as _envs,
                           get_all_providers, get_available_providers, get_device, get_ep_devices)
from nacre._enums import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtAllocatorType,
                          OrtCompileApiFlags, OrtDeviceMemoryType, OrtDeviceVendorId, OrtExecutionProviderDevicePolicy,
                          OrtHardwareDeviceType, OrtMemoryInfoDeviceType, OrtMemType, OrtSparseFormat)
from nacre._options import RunOptions, SessionOptions
from nacre._session import InferenceSession, ModelMetadata, NodeArg
from nacre._sparse import SparseTensor
from nacre._state import State
from nacre._value import OrtValue, copy_tensors

__version__: str = _core.version()
version, package_name = __version__, "nacre"
cuda_version = ""  #: CUDA is found at run time, not built in
import_capi_exception: Optional[BaseException] = None

__all__ = [
    "AdapterFormat", "DeviceReset", "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail",
    "GraphOptimizationLevel", "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
    "LoraAdapter", "ModelCompiler", "ModelLoadCanceled", "ModelLoaded", "ModelMetadata", "ModelRequiresCompilation",
    "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented", "OrtAllocatorType", "OrtArenaCfg",
    "OrtCompileApiFlags", "OrtDevice", "OrtDeviceMemoryType", "OrtDeviceVendorId", "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph", "OrtEpContextData", "OrtEpContextDataBuffer", "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy", "OrtExternalInitializerInfo", "OrtHardwareDevice", "OrtHardwareDeviceType",
    "OrtMemType", "OrtMemoryInfo", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtSyncStream", "OrtValue",
    "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions", "SparseTensor", "State", "__version__",
    "copy_tensors", "create_and_register_allocator", "create_and_register_allocator_v2", "cuda_version",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers",
    "get_build_info", "get_device", "get_ep_devices", "get_version_string", "has_collective_ops",
    "import_capi_exception", "package_name", "preload_dlls", "print_debug_info",
    "register_execution_provider_library", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed", "unregister_execution_provider_library", "version",
]


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    return f"Nacre Build Info: version={__version__}"


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Optional[str] = None) -> None:
    """Loads the CUDA libraries of a folder, for those that the system does not find by itself. Without a folder there
    is nothing to do: they are looked for when a GPU is asked for."""
    wanted = [n for n, yes in (("libcublasLt.so.", cuda), ("libnvrtc.so.", cuda), ("libcudnn.so.", cudnn)) if yes]
    for name in sorted(os.listdir(directory)) if directory else ():
        if any(name.startswith(w) for w in wanted):
            ctypes.CDLL(os.path.join(str(directory), name), mode=ctypes.RTLD_GLOBAL)


def print_debug_info() -> None:
    """What to say when something goes wrong: versions, machine, devices."""
    print(f"nacre {__version__}, Python {sys.version.split()[0]}, numpy {np.__version__}, {platform.platform()}")
    for device in get_ep_devices():
        print(f"{device.ep_name}: {device.device.metadata['Description']}")


def has_collective_ops() -> bool:
    return False


def enable_telemetry_events() -> None:
    """There is no telemetry."""


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def set_default_logger_severity(severity: int) -> None:
    """0 verbose, 1 info, 2 warning, 3 error, 4 nothing."""
    if not isinstance(severity, int):
        raise TypeError(f"severity: expected int, got {severity!r}")
    if not 0 <= severity <= 4:
        raise RuntimeError(f"severity: expected 0 to 4, got {severity}")
    _core.set_log_level(severity)


def set_default_logger_verbosity(verbosity: int) -> None:
    """A hint: the verbose level has no steps."""
    int(verbosity)


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Threads of sessions that do not say a number themselves, made from now on; their options must say
    use_per_session_threads=False. 0: as many as the machine allows."""
    if int(intra_op_num_threads) < 0:
        raise ValueError(f"intra_op_num_threads: expected 0 or more, got {intra_op_num_threads}")
    if _envs.shared:
        raise Fail("Global thread pools have already been created, cannot replace them")
    _envs.default_threads, _envs.shared = int(intra_op_num_threads), True


def set_seed(seed: int) -> None:
    """The seed of random nodes in sessions that are made from now on."""
    if int(seed) < 0:
        raise ValueError(f"seed: expected 0 or more, got {seed}")
    _envs.seed = int(seed)


from nacre import capi  # noqa: E402
