"""Element types of PyTorch (as dtypes, and by the names that its graphs use) and of ONNX."""
from __future__ import annotations

from typing import Union

import torch

_ONNX = torch.onnx.TensorProtoDataType
#: Name: (of ONNX, of PyTorch).
_CAST_PYTORCH_TO_ONNX = {
    "Byte": [_ONNX.UINT8, torch.uint8], "Char": [_ONNX.INT8, torch.int8], "Double": [_ONNX.DOUBLE, torch.double],
    "Float": [_ONNX.FLOAT, torch.float], "Half": [_ONNX.FLOAT16, torch.half], "Int": [_ONNX.INT32, torch.int],
    "Long": [_ONNX.INT64, torch.int64], "Short": [_ONNX.INT16, torch.short], "Bool": [_ONNX.BOOL, torch.bool],
    "ComplexFloat": [_ONNX.COMPLEX64, torch.complex64], "ComplexDouble": [_ONNX.COMPLEX128, torch.complex128],
    "BFloat16": [_ONNX.BFLOAT16, torch.bfloat16], "Undefined": [_ONNX.UNDEFINED, None]}
_DTYPE_TO_ONNX = {dtype: number for number, dtype in _CAST_PYTORCH_TO_ONNX.values()}
_ONNX_TO_DTYPE = {number: dtype for number, dtype in _CAST_PYTORCH_TO_ONNX.values()}


def pytorch_type_to_onnx_dtype(dtype_or_scalar_type: Union[torch.dtype, str]) -> torch.onnx.TensorProtoDataType:
    known = _DTYPE_TO_ONNX.get(dtype_or_scalar_type) if isinstance(dtype_or_scalar_type, torch.dtype) else \
        _CAST_PYTORCH_TO_ONNX.get(dtype_or_scalar_type, [None])[0]
    if known is None:
        raise RuntimeError(f"Unsupported dtype {dtype_or_scalar_type}")
    return known


def pytorch_scalar_type_to_pytorch_dtype(dtype: str) -> torch.dtype:
    if dtype not in _CAST_PYTORCH_TO_ONNX:
        raise RuntimeError(f"Unsupported dtype {dtype}")
    return _CAST_PYTORCH_TO_ONNX[dtype][1]


def onnx_dtype_to_pytorch_dtype(dtype: torch.onnx.TensorProtoDataType) -> torch.dtype:
    if dtype not in _ONNX_TO_DTYPE:
        raise RuntimeError(f"Unsupported dtype {dtype}")
    return _ONNX_TO_DTYPE[dtype]
