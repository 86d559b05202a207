"""SparseTensor: the elements of a tensor that are there, and where: by coordinates (COO), by rows (CSR) or by blocks.

It is a description that scripts pass around; runs compute on dense tensors. Where a model's input or output is a sparse
tensor, `dense` and `from_dense` stand at the edge.
"""
from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from nacre import _core
from nacre._device import OrtDevice
from nacre._enums import OrtSparseFormat
from nacre._types import type_number

_COO, _CSR, _BLOCK = (OrtSparseFormat.ORT_SPARSE_COO, OrtSparseFormat.ORT_SPARSE_CSRC,
                      OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE)


class SparseCooView:
    """Where the elements of a COO tensor are."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices

    def indices(self) -> np.ndarray:
        """(n,) places in the dense tensor laid out in a row, or (n, 2) pairs of coordinates."""
        return self._indices


class SparseCsrView:
    """Where the elements of a CSR tensor are."""

    def __init__(self, inner: np.ndarray, outer: np.ndarray) -> None:
        self._inner, self._outer = inner, outer

    def inner(self) -> np.ndarray:
        """The column of each element."""
        return self._inner

    def outer(self) -> np.ndarray:
        """Where each row begins among the elements, and where the last one ends."""
        return self._outer


class SparseBlockSparseView:
    """Where the blocks of a tensor of blocks are."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices

    def indices(self) -> np.ndarray:
        """(2, blocks): the row and the column of each block, counted in blocks."""
        return self._indices


class SparseTensor:
    """A sparse tensor. Made by sparse_coo_from_numpy, sparse_csr_from_numpy, blocksparse_from_numpy, or by a run."""

    def __init__(self, sparse_tensor: "SparseTensor") -> None:
        if not isinstance(sparse_tensor, SparseTensor):
            raise ValueError("`Provided object` needs to be of type `SparseTensor`")
        self.__dict__.update(sparse_tensor.__dict__)

    _format: OrtSparseFormat
    _shape: Tuple[int, ...]
    _values: np.ndarray
    _places: Tuple[np.ndarray, ...]

    @classmethod
    def _made(cls, kind: OrtSparseFormat, shape: Sequence[int], values: np.ndarray,
              *places: np.ndarray) -> "SparseTensor":
        made = object.__new__(cls)
        made._format, made._shape = kind, tuple(int(d) for d in shape)
        made._values, made._places = _elements(values), tuple(_read_only(p) for p in places)
        if any(d < 0 for d in made._shape):
            raise RuntimeError(f"a sparse tensor of negative dims: {list(made._shape)}")
        return made

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, coo_indices: np.ndarray,
                              ort_device: OrtDevice) -> "SparseTensor":
        """coo_indices: one place in the dense tensor for each value, or a pair of coordinates for each."""
        values, at = _flat(values, ort_device), _integers(coo_indices, np.int64)
        if at.size not in (values.size, 2 * values.size) or at.ndim > 2:
            raise RuntimeError(f"COO: {values.size} values need {values.size} indices or as many pairs, got {at.shape}")
        pairs = values.size > 0 and at.size == 2 * values.size
        return cls._made(_COO, dense_shape, values, at.reshape(-1, 2) if pairs else at.reshape(-1))

    @classmethod
    def sparse_csr_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, inner_indices: np.ndarray,
                              outer_indices: np.ndarray, ort_device: OrtDevice) -> "SparseTensor":
        """inner_indices: the column of each value; outer_indices: where each row begins, and the end."""
        values = _flat(values, ort_device)
        inner, outer = _integers(inner_indices, np.int64), _integers(outer_indices, np.int64)
        if len(dense_shape) != 2:
            raise RuntimeError(f"CSR: expected a shape of two dims, got {list(dense_shape)}")
        if values.size == 0 and outer.size == 0:  # onnxruntime's way to say that no row has an element
            outer = np.zeros(max(int(dense_shape[0]), 0) + 1, np.int64)
        if inner.shape != values.shape or outer.shape != (int(dense_shape[0]) + 1,):
            raise RuntimeError(f"CSR: {values.size} values in {dense_shape[0]} rows need {values.size} inner and "
                               f"{int(dense_shape[0]) + 1} outer indices, got {inner.shape} and {outer.shape}")
        return cls._made(_CSR, dense_shape, values, inner, outer)

    @classmethod
    def blocksparse_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, block_indices: np.ndarray,
                               ort_device: OrtDevice) -> "SparseTensor":
        """values: (blocks, height, width); block_indices: (2, blocks), counted in blocks."""
        _on_host(ort_device)
        values, at = np.asarray(values), _integers(block_indices, np.int32)
        if values.ndim < 3 or at.shape != (2, values.shape[0]):
            raise RuntimeError("blocks: expected values (blocks, height, width) and indices (2, blocks), got "
                               f"{values.shape} and {at.shape}")
        return cls._made(_BLOCK, dense_shape, values, at)

    # ---- telling ----

    def values(self) -> np.ndarray:
        """The elements, not to be written to; of strings a copy."""
        return self._values.copy() if self._values.dtype.kind == "O" else _read_only(self._values)

    def _view(self, kind: OrtSparseFormat) -> Tuple[np.ndarray, ...]:
        if self._format != kind:
            raise RuntimeError(f"This sparse tensor does not contain {kind.name}, it is {self._format.name}")
        return self._places

    def as_coo_view(self) -> SparseCooView:
        return SparseCooView(*self._view(_COO))

    def as_csrc_view(self) -> SparseCsrView:
        return SparseCsrView(*self._view(_CSR))

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        return SparseBlockSparseView(*self._view(_BLOCK))

    get_coo_data, get_csrc_data, get_blocksparse_data = as_coo_view, as_csrc_view, as_blocksparse_view

    def to_cuda(self, ort_device: OrtDevice) -> "SparseTensor":
        raise RuntimeError("a sparse tensor stays on the host: its dense form can be moved to a device")

    def format(self) -> OrtSparseFormat:
        return self._format

    def dense_shape(self) -> List[int]:
        return list(self._shape)

    def data_type(self) -> str:
        return f"sparse_tensor({_core.type_name(type_number(self._values.dtype))})"

    def device_name(self) -> str:
        return "cpu"

    def _get_c_tensor(self) -> "SparseTensor":
        return self

    def _dense(self) -> np.ndarray:
        return dense(self)


# ---- between sparse and dense ----

def dense(sparse: SparseTensor) -> np.ndarray:
    """The whole tensor, zeros (empty strings) where no element is."""
    kind = sparse._values.dtype
    out = np.full(sparse._shape, "" if kind.kind == "O" else 0, dtype=kind)
    try:
        if sparse._format == _COO:
            at = sparse._places[0]
            out[tuple(at.T) if at.ndim == 2 else np.unravel_index(at, sparse._shape)] = sparse._values
        elif sparse._format == _CSR:
            inner, outer = sparse._places
            out[np.repeat(np.arange(len(outer) - 1), np.diff(outer)), inner] = sparse._values
        else:
            height, width = sparse._values.shape[1:3]
            for row, column, block in zip(*sparse._places[0], sparse._values):
                out[row * height:(row + 1) * height, column * width:(column + 1) * width] = block
    except (IndexError, ValueError) as e:
        raise _core.InvalidArgument(f"a sparse tensor of shape {list(sparse._shape)}: {e}") from None
    return out


def from_dense(whole: np.ndarray) -> SparseTensor:
    """The elements that are not zero, by their places in the tensor laid out in a row. A zero below 0 is there, as in
    onnxruntime."""
    flat = np.ascontiguousarray(whole).reshape(-1)
    there = flat != "" if whole.dtype.kind == "O" else flat.view(np.uint8).reshape(flat.size, flat.itemsize).any(1)
    at = np.flatnonzero(there).astype(np.int64)
    return SparseTensor._made(_COO, whole.shape, flat[at], at)


def _on_host(device: Any) -> None:
    if device.device_type() != 0:
        raise RuntimeError("sparse tensors are made over memory of the host alone")


def _flat(values: Any, device: Any) -> np.ndarray:
    _on_host(device)
    values = np.asarray(values)
    if values.ndim != 1:
        raise RuntimeError(f"values of a sparse tensor: expected one dim, got {values.shape}")
    return values


def _read_only(x: np.ndarray) -> np.ndarray:
    """The same memory, through which it cannot be changed."""
    x = x.view()
    x.flags.writeable = False
    return x


def _elements(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "US":
        return values.astype(object)
    type_number(values.dtype)
    return np.ascontiguousarray(values)


def _integers(x: Any, kind: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.size and x.dtype.kind not in "iu":
        raise TypeError(f"indices of a sparse tensor: expected integers, got {x.dtype}")
    return np.ascontiguousarray(x, dtype=kind)
