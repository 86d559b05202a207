"""Nested inputs and outputs of modules as a flat list of tensors, and back: a schema is the same nest with stubs where
the tensors were."""
from __future__ import annotations

import warnings
from collections import abc
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import torch


class PrimitiveType:
    """Numbers of Python, which can stand for tensors of rank 0."""

    _primitive_types = {int, bool, float}

    @staticmethod
    def is_primitive_type(value: Any) -> bool:
        return type(value) in PrimitiveType._primitive_types

    @staticmethod
    def get_tensor(value: Any, device: Any) -> torch.Tensor:
        return torch.tensor(value, device=device)

    @staticmethod
    def get_primitive_dtype(value: Any) -> str:
        """The type; of a bool its value too, because models branch on it."""
        return f"{type(value)!s}_{value}" if isinstance(value, bool) else str(type(value))


ORTModelInputOutputType = Union[None, str, int, bool, float, torch.Tensor, Sequence["ORTModelInputOutputType"],
                                Mapping[str, "ORTModelInputOutputType"]]


class _TensorStub:
    """The place of a tensor in the flat list, and what is known of it."""

    __slots__ = ["tensor_idx", "name", "dtype", "shape", "shape_dims"]

    def __init__(self, tensor_idx: int, name: Optional[str] = None, dtype: Optional[str] = None, shape: Any = None,
                 shape_dims: Optional[int] = None) -> None:
        self.tensor_idx = tensor_idx
        self.name, self.dtype, self.shape, self.shape_dims = name, dtype, shape, shape_dims

    def __repr__(self) -> str:
        known = [(key, getattr(self, key)) for key in self.__slots__]
        return "_TensorStub(" + ",".join(f"{key}={value}" for key, value in known if value is not None) + ")"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _TensorStub):
            raise NotImplementedError("_TensorStub must only be compared to another _TensorStub instance!")
        return all(getattr(self, key) == getattr(other, key) for key in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


ORTModelInputOutputSchemaType = Union[None, str, _TensorStub, Sequence["ORTModelInputOutputSchemaType"],
                                      Mapping[str, "ORTModelInputOutputSchemaType"]]


def _is_named_tuple(data: Any) -> bool:
    return isinstance(data, tuple) and hasattr(data, "_fields")


def _rebuilt(like: Any, items: List[Any]) -> Any:
    """A sequence of like's type."""
    return type(like)(*items) if _is_named_tuple(like) else type(like)(items)


class _Flattener:
    def __init__(self, constant_as_tensor: bool, device: Optional[torch.device]) -> None:
        self.tensors: List[torch.Tensor] = []
        self.constant_as_tensor, self.device = constant_as_tensor, device

    def _stub(self, tensor: torch.Tensor, name: str, dtype: str) -> _TensorStub:
        self.tensors.append(tensor)
        return _TensorStub(len(self.tensors) - 1, name, dtype, shape_dims=tensor.dim())

    def schema(self, data: Any, name: str) -> Any:
        inner = f"{name}_" if name else ""
        if data is None or isinstance(data, str):
            return data
        if isinstance(data, torch.Tensor):
            return self._stub(data, name, str(data.dtype))
        if PrimitiveType.is_primitive_type(data):
            if not self.constant_as_tensor:
                warnings.warn(f"the value {data!r} of type {type(data)} is taken as a constant: a tensor would be an "
                              "input")
                return data
            return self._stub(PrimitiveType.get_tensor(data, self.device), name,
                              PrimitiveType.get_primitive_dtype(data))
        if isinstance(data, abc.Mapping):
            items = [(key, self.schema(value, f"{inner}{key}")) for key, value in data.items()]
            return type(data)(items)
        if isinstance(data, abc.Sequence):
            return _rebuilt(data, [self.schema(value, f"{inner}{i}") for i, value in enumerate(data)])
        raise TypeError(f"Unsupported flatten data type: {type(data)}")


def extract_data_and_schema(data: Any, constant_as_tensor: bool = False,
                            device: Optional[torch.device] = None) -> Tuple[List[torch.Tensor], Any]:
    """All tensors in data, and data with stubs in their places. constant_as_tensor: numbers become tensors too, on
    device."""
    flattener = _Flattener(constant_as_tensor, device)
    schema = flattener.schema(data, "")
    return flattener.tensors, schema


def unflatten_data_using_schema(data: List[torch.Tensor], schema: Any) -> Any:
    """What extract_data_and_schema took apart."""
    if isinstance(schema, _TensorStub):
        return data[schema.tensor_idx]
    if schema is None or isinstance(schema, str) or PrimitiveType.is_primitive_type(schema):
        return schema
    if isinstance(schema, abc.Mapping):
        return type(schema)([(key, unflatten_data_using_schema(data, value)) for key, value in schema.items()])
    if isinstance(schema, abc.Sequence):
        return _rebuilt(schema, [unflatten_data_using_schema(data, value) for value in schema])
    raise TypeError(f"Unsupported schema type: {type(schema)}")
