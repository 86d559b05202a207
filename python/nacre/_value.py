"""OrtValue: a value that stays in the library between runs, over memory that it shares with numpy or DLPack."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from nacre import _core, _types
from nacre._device import OrtDevice, envs, place
from nacre._sparse import SparseTensor, dense


def _under_type(value: _core.Value, name: str) -> _core.Value:
    """The same memory with elements of another type of as many bits."""
    device, number = value.device
    return _core.at(_types.NUMBER_OF[name], value.shape, value.data_ptr, value, envs.get(), place(device, number))


class OrtValue:
    """A tensor, sequence, optional or map. Made by the functions ortvalue_from_*, or given by a run."""

    def __init__(self, ortvalue: Union[_core.Value, "OrtValue"], numpy_obj: Optional[np.ndarray] = None,
                 session: Any = None) -> None:
        self._sparse: Optional[SparseTensor] = None  # what _value is the dense form of
        if isinstance(ortvalue, OrtValue):
            numpy_obj, self._sparse, ortvalue = ortvalue._numpy_obj, ortvalue._sparse, ortvalue._value
        if not isinstance(ortvalue, _core.Value):
            raise ValueError("`Provided ortvalue` needs to be of type `nacre._core.Value`")
        self._value = ortvalue
        self._numpy_obj = numpy_obj

    # ---- making ----

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, /, device_type: Union[str, OrtDevice] = "cpu",
                            device_id: int = 0, vendor_id: int = -1) -> "OrtValue":
        """Over the array's own memory when it is dense, else over a copy. On a device it is always a copy."""
        device, value = place(device_type, device_id), _types.to_value(numpy_obj)
        if device is None:
            return cls(value, numpy_obj)
        there = _core.empty(value.type, value.shape, envs.get(), device)
        there.copy_from(value)
        return cls(there)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> "OrtValue":
        """The array's bits under another of ONNX's element types of the same size, without a copy.

        For types of fewer than 8 bits the array has one byte for each element, so that its shape is the tensor's, and
        its first bytes hold the elements packed, the first one in the lowest bits; an array of ml_dtypes' own type is
        packed into a copy."""
        number = int(onnx_element_type)
        bits, have = _core.type_bits(number), data.dtype.itemsize
        if data.dtype.name in _types.NUMBER_OF and _types.NUMBER_OF[data.dtype.name] == number:
            return cls(_types.to_value(data), data)
        if max(bits, 8) != 8 * have:
            raise RuntimeError(f"element type {number} has {bits} bits, the array's {8 * have}")
        data = np.require(data, requirements=["C", "A"])
        return cls(_core.at(number, data.shape, data.ctypes.data, data), data)

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any,
                                     device_type: Union[str, OrtDevice] = "cpu", device_id: int = 0,
                                     vendor_id: int = -1, memory_info: Any = None) -> "OrtValue":
        """A tensor of zeros. element_type: a numpy type or ONNX's number. memory_info goes before device_type."""
        if memory_info is not None:
            device_type, device_id = "cpu" if memory_info.name.startswith("Cpu") else "cuda", memory_info.device_id
        number, device = _types.type_number(element_type), place(device_type, device_id)
        if number == _types.STRING or not _core.type_bits(number):
            raise RuntimeError(f"tensor type {number} is not supported" if number != _types.STRING else
                               "Creation of OrtValues is currently only supported from non-string numpy arrays")
        if any(d < 0 for d in shape):
            raise RuntimeError(f"a shape of negative dims: {list(shape)}")
        return cls(_core.empty(number, shape, envs.get(), device))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> "OrtValue":
        sparse = sparse_tensor._get_c_tensor()
        made = cls(_types.to_value(dense(sparse)))
        made._sparse = sparse
        return made

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> "OrtValue":
        """Over the memory of an object that speaks DLPack, on the host or on a GPU. is_bool_tensor: its uint8 elements
        are bools, as producers before DLPack 0.6 send them."""
        value = _types.from_dlpack(data)
        if is_bool_tensor and value.type == _types.NUMBER_OF["uint8"]:
            value = _under_type(value, "bool")
        return cls(value)

    # ---- telling ----

    def data_ptr(self) -> int:
        """Address of the first element."""
        if self._sparse is not None:
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")
        return self._value.data_ptr

    def device_name(self) -> str:
        """'cpu' or 'cuda'."""
        return self._value.device[0]

    def shape(self) -> List[int]:
        return list(self._value.shape)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return self._value.type

    def data_type(self) -> str:
        """As ONNX writes it: 'tensor(float)'."""
        if self._sparse is not None:
            return self._sparse.data_type()
        inner = f"tensor({_core.type_name(self._value.type)})"
        around = {"tensor": "{}", "sequence": "seq({})", "optional": "optional({})", "map": "map({})"}
        return around[self._value.kind].format(inner)

    def tensor_size_in_bytes(self) -> int:
        return self._value.nbytes

    def has_value(self) -> bool:
        return self._value.kind != "optional" or bool(self._value.items())

    def is_tensor(self) -> bool:
        return self._value.kind == "tensor" and self._sparse is None

    def is_sparse_tensor(self) -> bool:
        return self._sparse is not None

    def is_tensor_sequence(self) -> bool:
        return self._value.kind == "sequence"

    def as_sparse_tensor(self) -> SparseTensor:
        if self._sparse is None:
            raise RuntimeError("This OrtValue does not contain SparseTensor. Check data_type() value.")
        return self._sparse

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
        """Copies data, of the same size and type, into this tensor's memory, between devices too."""
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        new = data._value if isinstance(data, OrtValue) else _types.to_value(data)
        mine = self._value
        if mine.kind != "tensor" or mine.type == _types.STRING or mine.type != new.type or mine.nbytes != new.nbytes:
            raise RuntimeError(f"update_inplace: expected {self.data_type()} {self.shape()}, got "
                               f"{OrtValue(new).data_type()} {list(new.shape)}")
        mine.copy_from(new)

    # ---- names of onnxruntime's native class ----

    def to_dlpack(self) -> Any:
        """A DLPack capsule in the form before versions."""
        return self._value.__dlpack__()

    @property
    def _ortvalue(self) -> "NativeOrtValue":
        return NativeOrtValue(self)

    def _get_c_value(self) -> "NativeOrtValue":
        return self._ortvalue


class NativeOrtValue(OrtValue):
    """What scripts reach as `value._ortvalue`: onnxruntime's native class writes the names of devices otherwise, and
    gives bools to DLPack as uint8."""

    def device_name(self) -> str:
        """'Cpu' or 'Cuda'."""
        return super().device_name().capitalize()

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        bools = self.is_tensor() and self.element_type() == _types.NUMBER_OF["bool"]
        given = _under_type(self._value, "uint8") if bools else self._value
        return given.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def to_dlpack(self) -> Any:
        return self.__dlpack__()

    @property
    def _ortvalue(self) -> "NativeOrtValue":
        return self


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each of src into the tensor of dst at the same place."""
    if len(src) != len(dst):
        raise RuntimeError(f"copy_tensors: {len(src)} sources and {len(dst)} destinations")
    for a, b in zip(src, dst):
        b.update_inplace(a)


class OrtValueVector(List[NativeOrtValue]):
    """A list of values, with the names of onnxruntime's."""

    def push_back(self, value: OrtValue) -> None:
        self.append(value._ortvalue)

    def push_back_batch(self, torch_tensors: Sequence[Any], data_ptrs: Sequence[int], element_types: Sequence[Any],
                        shapes: Sequence[Sequence[int]], devices: Sequence[OrtDevice]) -> None:
        """Values over the memory of others' tensors, which live as long. element_types: as numpy calls them."""
        if len({len(x) for x in (torch_tensors, data_ptrs, element_types, shapes, devices)}) != 1:
            raise ValueError("push_back_batch: expected as many of each as there are tensors, got "
                             f"{len(torch_tensors)} tensors, {len(data_ptrs)} addresses, {len(element_types)} types, "
                             f"{len(shapes)} shapes and {len(devices)} devices")
        for tensor, address, kind, shape, device in zip(torch_tensors, data_ptrs, element_types, shapes, devices):
            self.append(NativeOrtValue(_core.at(_types.type_number(kind), shape, address, tensor, envs.get(),
                                                place(device))))

    def reserve(self, count: int) -> None:
        """A list grows by itself."""

    def shrink_to_fit(self) -> None:
        """A list shrinks by itself."""

    def element_type_at(self, index: int) -> int:
        return self[index].element_type()

    def bool_tensor_indices(self) -> List[int]:
        return [i for i, v in enumerate(self) if v.element_type() == _types.NUMBER_OF["bool"]]

    def dlpack_at(self, index: int) -> Any:
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Any = None) -> List[Any]:
        """The values as capsules, or as what to_tensor makes of each."""
        return [v.to_dlpack() if to_tensor is None else to_tensor(v.to_dlpack()) for v in self]
