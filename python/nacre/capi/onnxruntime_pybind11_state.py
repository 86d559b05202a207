"""The names of onnxruntime's native module: exceptions, options, enumerations, and values as lists of them."""
from __future__ import annotations

from typing import Any

from nacre import (AdapterFormat, ExecutionMode, ExecutionOrder, GraphOptimizationLevel, InferenceSession, LoraAdapter,
                   ModelCompiler, ModelMetadata, NodeArg, OrtAllocatorType, OrtArenaCfg, OrtCompileApiFlags, OrtDevice,
                   OrtDeviceMemoryType, OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtEpContextData,
                   OrtEpContextDataBuffer, OrtEpDevice, OrtExecutionProviderDevicePolicy, OrtExternalInitializerInfo,
                   OrtHardwareDevice, OrtHardwareDeviceType, OrtMemoryInfo, OrtMemoryInfoDeviceType, OrtMemType,
                   OrtSparseFormat, OrtSyncStream, RunOptions, SessionIOBinding, SessionOptions, SparseTensor,
                   copy_tensors, create_and_register_allocator, create_and_register_allocator_v2,
                   disable_telemetry_events, enable_telemetry_events, get_all_providers, get_available_providers,
                   get_build_info, get_device, get_ep_devices, get_version_string, has_collective_ops,
                   register_execution_provider_library, set_default_logger_severity, set_default_logger_verbosity,
                   set_global_thread_pool_sizes, set_seed, unregister_execution_provider_library)
from nacre import _core
from nacre._device import get_hardware_devices
from nacre._enums import ArenaExtendStrategy, OrtCompiledModelCompatibility, OrtDeviceEpIncompatibilityReason
from nacre.capi._quantize import (pack_fp4_weights_for_cuda_moe_gemm, quantize_matmul_2bits, quantize_matmul_4bits,
                                  quantize_matmul_8bits, quantize_matmul_bnb4, quantize_qdq_matmul_2bits,
                                  quantize_qdq_matmul_4bits)
from nacre.capi._schemas import (get_all_operator_schema, get_all_opkernel_def, get_registered_ep_kernel_defs, opkernel,
                                 schemadef)
from nacre._compile import (get_compatibility_info_from_model, get_compatibility_info_from_model_bytes,
                            get_hardware_device_ep_incompatibility_details, get_model_compatibility_for_ep_devices)
from nacre._sparse import SparseBlockSparseView, SparseCooView, SparseCsrView
from nacre._value import NativeOrtValue as OrtValue, OrtValueVector
from nacre._core import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
                         ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
                         NotImplemented, RuntimeException)

kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested
_DL_UINT = 1


def is_dlpack_uint8_tensor(capsule: Any) -> bool:
    """Whether a DLPack capsule holds uint8, which is how old producers send bools."""
    return _core.dlpack_type(capsule)[:2] == (_DL_UINT, 8)


def get_default_session_options() -> SessionOptions:
    return SessionOptions()
