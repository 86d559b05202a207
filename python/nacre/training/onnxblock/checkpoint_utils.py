"""Checkpoints from and to ONNX's tensors; the library reads and writes the files."""
from __future__ import annotations

import ctypes
import os
from typing import Any, List, Optional, Tuple, Union

import numpy as np

from nacre import _core
from nacre.training._onnx import onnx

Path = Union[str, "os.PathLike[str]"]


def _mapped(proto: Any, folder: str) -> Optional[_core.Value]:
    """Data of another file where they lie, however large; None: a case for onnx's own reader, and for its errors."""
    info = onnx.external_data_helper.ExternalDataInfo(proto)
    path = os.path.join(folder, info.location)
    plain = info.location == os.path.basename(info.location) and os.path.isfile(path) and not os.path.islink(path)
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(proto.data_type))
    size = int(np.prod(proto.dims, dtype=np.int64)) * kind.itemsize
    if not plain or kind.kind not in "fiub" or kind.name == "bfloat16" or not size or kind.isbuiltin != 1:
        return None
    offset = int(info.offset or 0)
    if (info.length and int(info.length) != size) or offset + size > os.path.getsize(path):
        return None
    return _core.from_array(np.memmap(path, kind, "r", offset, tuple(proto.dims)))


def _contents(proto: Any, folder: str) -> Union[bytes, _core.Value]:
    mapped = _mapped(proto, folder) if proto.external_data else None
    return mapped if mapped is not None else bytes(_tensor(proto, folder).SerializeToString())


def _tensor(proto: Any, folder: str) -> Any:
    """A TensorProto with its data inside."""
    if not proto.external_data:
        return proto
    whole = onnx.TensorProto()
    whole.CopyFrom(proto)
    onnx.external_data_helper.load_external_data_for_tensor(whole, folder)
    whole.ClearField("data_location")
    del whole.external_data[:]
    return whole


def save_checkpoint(parameters: Tuple[List[Any], List[Any]], path_to_checkpoint: Path,
                    nominal_checkpoint: bool = False, *, folder: Path = "", format: str = "ort") -> None:
    """Writes trainable and frozen parameters, lists of TensorProto, as a checkpoint. nominal_checkpoint: names and
    types alone. folder: where data outside the protos lie. format: "ort", onnxruntime's own, or "safetensors"."""
    trainable, frozen = parameters
    rows = []
    for tensors, trains in ((trainable, True), (frozen, False)):
        for proto in tensors:
            whole = b"" if nominal_checkpoint else _contents(proto, os.fspath(folder))
            rows.append((proto.name, int(proto.data_type), bool(trains), whole))
    _core.save_parameters(os.fspath(path_to_checkpoint), rows, format)


def load_checkpoint_to_model(path_to_checkpoint: Path, model: Any) -> None:
    """Initializers of the model that the checkpoint holds take its values."""
    path = os.fspath(path_to_checkpoint)
    checkpoint = _core.Checkpoint(path)
    values = {name: checkpoint.value(i) for i, (name, *_) in enumerate(checkpoint.parameters())}
    if values and all(value is None for value in values.values()):
        raise RuntimeError(f"{path} is a nominal checkpoint: it has the names of parameters, but not their values. "
                           "Please load a checkpoint with values.")
    for tensor in model.graph.initializer:
        if tensor.name in values:
            _replace(tensor, values[tensor.name])


def _replace(tensor: Any, value: Any) -> None:
    got = f"{_type(value.type)} {list(value.shape)}"
    if list(value.shape) != list(tensor.dims) or value.type != tensor.data_type:
        raise ValueError(f"parameter {tensor.name}: expected {_type(tensor.data_type)} {list(tensor.dims)}, the "
                         f"checkpoint has {got}")
    name, dims, data_type = tensor.name, list(tensor.dims), tensor.data_type
    tensor.Clear()
    tensor.name, tensor.data_type = name, data_type
    tensor.dims.extend(dims)
    if data_type == onnx.TensorProto.STRING:
        tensor.string_data.extend(s.encode() for s in value.strings())
    else:
        tensor.raw_data = ctypes.string_at(value.data_ptr, value.nbytes)


def _type(number: int) -> str:
    return str(onnx.TensorProto.DataType.Name(number))
