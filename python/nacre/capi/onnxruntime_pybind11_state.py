"""The names of onnxruntime's native module: exceptions, options, enumerations."""
from nacre import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, NodeArg, OrtAllocatorType,
                   OrtDevice, OrtDeviceMemoryType, OrtMemoryInfo, OrtMemoryInfoDeviceType, OrtMemType, OrtSparseFormat,
                   OrtValue, RunOptions, SessionIOBinding, SessionOptions, get_all_providers, get_available_providers,
                   get_build_info, get_device, get_version_string, set_default_logger_severity,
                   set_default_logger_verbosity)
from nacre._core import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf,
                         ModelLoadCanceled, ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound,
                         NotImplemented, RuntimeException)
