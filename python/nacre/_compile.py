"""ModelCompiler, and what is asked of compiled models. No provider here compiles ahead, so a compiled model is the
model as a session would save it: optimized as far as was asked, its initializers where the caller wants them."""
from __future__ import annotations

import copy
import os
import tempfile
from typing import Any, Callable, Dict, Optional, Sequence, Union

from nacre import _core
from nacre._denotation import props
from nacre._device import OrtEpDevice, OrtExternalInitializerInfo, OrtHardwareDevice, get_all_providers
from nacre._enums import (GraphOptimizationLevel, OrtCompileApiFlags, OrtCompiledModelCompatibility,
                          OrtDeviceEpIncompatibilityReason, OrtHardwareDeviceType)
from nacre._files import write, writing
from nacre._options import SessionOptions
from nacre._session import InferenceSession
from nacre._value import OrtValue

#: (name, value, where the input model has it in a file) -> where the compiled model shall have it; None: inside.
Locate = Callable[[str, OrtValue, Optional[OrtExternalInitializerInfo]], Optional[OrtExternalInitializerInfo]]


def _input(model: Any) -> Union[str, bytes]:
    if isinstance(model, (str, os.PathLike)):
        model = os.fspath(model)
        if not model:
            raise ValueError("Input model path is empty")
        if not os.path.exists(model):
            raise _core.InvalidArgument(f"Input model path does not exist: \"{model}\"")
        return str(model)
    if not isinstance(model, bytes):
        raise TypeError(f"Unable to load from type '{type(model)}'")
    if not model:
        raise ValueError("Input model bytes array is empty")
    return model


class ModelCompiler:
    """Writes a model as a session with these options would run it, optimized to a level."""

    def __init__(self, sess_options: SessionOptions, input_model_path_or_bytes: Union[str, os.PathLike, bytes],
                 embed_compiled_data_into_model: bool = False,
                 external_initializers_file_path: Union[str, os.PathLike, None] = None,
                 external_initializers_size_threshold: int = 1024, flags: int = OrtCompileApiFlags.NONE,
                 graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
                 get_initializer_location_func: Optional[Locate] = None) -> None:
        """external_initializers_file_path: initializers of that many bytes and more go into this file, which is named
        from the compiled model's folder. embed_compiled_data_into_model is without effect: there is no such data."""
        self._model = _input(input_model_path_or_bytes)
        if external_initializers_file_path and get_initializer_location_func:
            raise ValueError("Cannot initialize both `external_initializers_file_path` and "
                             "`get_initializer_location_func`")
        self._options = copy.copy(sess_options)
        self._options.graph_optimization_level = graph_optimization_level
        self._file = os.fspath(external_initializers_file_path or "")
        self._least = int(external_initializers_size_threshold)
        self._flags, self._locate = int(flags), get_initializer_location_func

    def compile_to_file(self, output_model_path: Optional[str] = None) -> None:
        """Without a path: beside the input model, as NAME_ctx.onnx."""
        if output_model_path is None and isinstance(self._model, str):
            output_model_path = os.path.splitext(self._model)[0] + "_ctx.onnx"
        if not output_model_path:
            raise _core.InvalidArgument("Output model path must not be empty.")
        if os.path.isdir(output_model_path):
            raise _core.InvalidArgument("context_file_path should not point to a folder.")
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and os.path.exists(output_model_path):
            raise _core.Fail(f"Failed to generate EP context model since the file '{output_model_path}' exists already."
                             " Please remove the EP context model if you want to re-generate it.")
        made = self._made(os.path.dirname(output_model_path))
        write(output_model_path, made)

    def compile_to_bytes(self) -> bytes:
        return self._made("")

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Hands the compiled model to a function; Fail with what that raises."""
        if not callable(write_function):
            raise TypeError(f"write_function: expected a function, got {type(write_function)}")
        made = self._made("")
        try:
            write_function(made)
        except Exception as e:
            raise _core.Fail(f"{type(e).__name__}: {e}") from e

    def set_ep_context_data_write_func(self, write_func: Callable[..., Any]) -> None:
        """No provider has a context to write."""
        if not callable(write_func):
            raise TypeError(f"write_func: expected a function, got {type(write_func)}")

    def clear_ep_context_data_write_func(self) -> None:
        """No provider has a context to write."""

    # ---- how ----

    def _made(self, folder: str) -> bytes:
        if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED:
            raise _core.Fail("Unable to compile any nodes. Check that the session EPs support compilation and can "
                             "execute at least one subgraph in the model.")
        with tempfile.TemporaryDirectory() as there:
            self._options.optimized_model_filepath = os.path.join(there, "model.onnx")
            InferenceSession(self._model, self._options)
            with open(self._options.optimized_model_filepath, "rb") as f:
                made = f.read()
        if self._locate is not None:
            return _located(made, self._locate, _known_places(self._model))
        if self._file:
            with writing(os.path.join(folder, self._file), "wb") as out:
                return _located(made, self._appending(out), {})
        return made

    def _appending(self, out: Any) -> Locate:
        def locate(name: str, value: OrtValue, known: Any) -> Optional[OrtExternalInitializerInfo]:
            size = value.tensor_size_in_bytes()
            if size < self._least:
                return None
            at = out.tell()
            out.write(value.numpy().tobytes())
            return OrtExternalInitializerInfo(self._file, at, size)
        return locate


def _known_places(model: Union[str, bytes]) -> Dict[str, OrtExternalInitializerInfo]:
    """Where a model's file says that its initializers lie."""
    import onnx
    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    found = {}
    for tensor in proto.graph.initializer:
        told = {e.key: e.value for e in tensor.external_data}
        if "location" in told:
            found[tensor.name] = OrtExternalInitializerInfo(told["location"], int(told.get("offset", 0)),
                                                            int(told.get("length", 0)))
    return found


def _located(model: bytes, locate: Locate, known: Dict[str, OrtExternalInitializerInfo]) -> bytes:
    """The model with each initializer where locate wants it."""
    import onnx
    proto = onnx.load_from_string(model)
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.STRING:
            continue
        value = OrtValue.ortvalue_from_numpy(onnx.numpy_helper.to_array(tensor))
        where = locate(tensor.name, value, known.get(tensor.name))
        if where is None:
            continue
        kept = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims,
                                data_location=onnx.TensorProto.EXTERNAL)
        for key, text in (("location", where.filepath), ("offset", where.file_offset), ("length", where.byte_size)):
            kept.external_data.add(key=key, value=str(text))
        tensor.CopyFrom(kept)
    return bytes(proto.SerializeToString())


# ---- what is asked of compiled models ----

def get_compatibility_info_from_model_bytes(model_data: bytes, ep_type: str) -> Optional[str]:
    """What a provider that compiled the model wrote about itself into it; None: nothing."""
    if not model_data or not ep_type:
        raise RuntimeError("Invalid argument provided to GetCompatibilityInfoFromModelBytes.")
    try:
        return props(memoryview(model_data)).get(f"ep_compatibility_info.{ep_type}")
    except (ValueError, IndexError):
        raise RuntimeError("Protobuf parsing failed.") from None


def get_compatibility_info_from_model(model_path: str, ep_type: str) -> Optional[str]:
    """As get_compatibility_info_from_model_bytes, of a file."""
    if not ep_type:
        raise RuntimeError("Invalid argument provided to GetCompatibilityInfoFromModel.")
    try:
        with open(model_path, "rb") as f:
            return get_compatibility_info_from_model_bytes(f.read(), ep_type)
    except OSError:
        raise RuntimeError(f"Load model {model_path} failed. File doesn't exist") from None


def get_model_compatibility_for_ep_devices(ep_devices: Sequence[OrtEpDevice],
                                           compatibility_info: str) -> OrtCompiledModelCompatibility:
    """Providers here compile nothing that could fit or not."""
    if not isinstance(compatibility_info, str):
        raise TypeError(f"compatibility_info: expected str, got {type(compatibility_info)}")
    if not ep_devices:
        raise RuntimeError("Invalid argument provided to GetModelCompatibilityForEpDevices.")
    return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


def get_hardware_device_ep_incompatibility_details(ep_name: str, hw: OrtHardwareDevice) -> Dict[str, Any]:
    """Whether a provider can use a device: reasons_bitmask of OrtDeviceEpIncompatibilityReason, notes, error_code."""
    if ep_name not in get_all_providers():
        raise _core.InvalidArgument(f"No valid factory found for execution provider '{ep_name}'.")
    mine = OrtHardwareDeviceType.GPU if ep_name.startswith("CUDA") else OrtHardwareDeviceType.CPU
    fits = hw.type == mine
    reason = OrtDeviceEpIncompatibilityReason.NONE if fits else OrtDeviceEpIncompatibilityReason.DEVICE_INCOMPATIBLE
    return {"reasons_bitmask": int(reason), "notes": None if fits else f"{ep_name} works on a {mine.name}",
            "error_code": 0}
