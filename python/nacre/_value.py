"""OrtValue: a value that stays in the library between runs, over memory that it shares with numpy or DLPack."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from nacre import _core, _types
from nacre._device import host_only


class OrtValue:
    """A tensor, sequence, optional or map. Made by the functions ortvalue_from_*, or given by a run."""

    def __init__(self, ortvalue: _core.Value, numpy_obj: Optional[np.ndarray] = None, session: Any = None) -> None:
        if not isinstance(ortvalue, _core.Value):
            raise ValueError("`Provided ortvalue` needs to be of type `nacre._core.Value`")
        self._value = ortvalue
        self._numpy_obj = numpy_obj

    # ---- making ----

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0,
                            vendor_id: int = -1) -> "OrtValue":
        """Over the array's own memory when it is dense, else over a copy."""
        host_only(device_type, "an OrtValue")
        return OrtValue(_types.to_value(numpy_obj), numpy_obj)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> "OrtValue":
        """The array's bits under another of ONNX's element types of the same size."""
        want, have = _core.type_bytes(int(onnx_element_type)), data.dtype.itemsize
        if want != have:
            raise RuntimeError(f"element type {onnx_element_type} has {want} bytes, the array's {have}")
        data = np.require(data, requirements=["C", "A"])
        return cls(_core.at(int(onnx_element_type), data.shape, data.ctypes.data, data), data)

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1, memory_info: Any = None) -> "OrtValue":
        """A tensor of zeros. element_type: a numpy type or ONNX's number."""
        host_only(device_type, "an OrtValue")
        return OrtValue(_core.empty(_types.type_number(element_type), shape))

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> "OrtValue":
        raise _core.NotImplemented("sparse tensors are not supported")

    @classmethod
    def from_dlpack(cls, data: Any, /) -> "OrtValue":
        """Over the memory of an object that speaks DLPack."""
        return cls(_types.from_dlpack(data))

    # ---- telling ----

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._value.data_ptr

    def device_name(self) -> str:
        return "cpu"

    def shape(self) -> List[int]:
        return list(self._value.shape)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return self._value.type

    def data_type(self) -> str:
        """As ONNX writes it: 'tensor(float)'."""
        inner = f"tensor({_core.type_name(self._value.type)})"
        around = {"tensor": "{}", "sequence": "seq({})", "optional": "optional({})", "map": "map({})"}
        return around[self._value.kind].format(inner)

    def tensor_size_in_bytes(self) -> int:
        return self._value.nbytes

    def has_value(self) -> bool:
        return self._value.kind != "optional" or bool(self._value.items())

    def is_tensor(self) -> bool:
        return self._value.kind == "tensor"

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return self._value.kind == "sequence"

    def as_sparse_tensor(self) -> Any:
        raise _core.NotImplemented("sparse tensors are not supported")

    # ---- giving ----

    def numpy(self) -> np.ndarray:
        """The tensor as an array over the same memory (strings: a copy)."""
        if not self.is_tensor():
            raise RuntimeError("Only OrtValues that are Tensors/SparseTensors are currently supported")
        return _types.to_numpy(self._value)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != np.dtype(dtype):
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        return self._value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._value.__dlpack_device__()

    def update_inplace(self, data: Any) -> None:
        """Copies data, of the same shape and type, into this tensor's memory."""
        mine, data = self.numpy(), np.asarray(data.numpy() if isinstance(data, OrtValue) else data)
        if mine.dtype.kind == "O" or mine.shape != data.shape or mine.dtype != data.dtype:
            raise RuntimeError(f"update_inplace: expected {mine.dtype} {mine.shape}, got {data.dtype} {data.shape}")
        if not self._value.writable:
            raise RuntimeError("update_inplace: the memory is read only")
        mine[...] = data


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each of src into the tensor of dst at the same place."""
    if len(src) != len(dst):
        raise RuntimeError(f"copy_tensors: {len(src)} sources and {len(dst)} destinations")
    for a, b in zip(src, dst):
        b.update_inplace(a)
