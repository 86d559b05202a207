"""Values as PyTorch's tensors and back, over the same memory, with the names that onnxruntime has for it."""
from __future__ import annotations

from typing import Any, Tuple

import torch
from torch.utils.dlpack import from_dlpack

from nacre._value import NativeOrtValue, OrtValue, OrtValueVector


def _tensor(value: OrtValue) -> torch.Tensor:
    tensor = from_dlpack(value._ortvalue.to_dlpack())
    return tensor.view(torch.bool) if value.data_type() == "tensor(bool)" else tensor


def _ortvalue_to_torch_tensor(ortvalue: OrtValue, device: Any = None) -> torch.Tensor:
    """device: where the caller knows it to be; it stays where it is."""
    return _tensor(ortvalue)


def _ortvalues_to_torch_tensor(ortvalues: OrtValueVector, device: Any = None,
                               c_class: bool = False) -> Tuple[torch.Tensor, ...]:
    if not isinstance(ortvalues, OrtValueVector):
        raise TypeError(f"ortvalues must be an OrtValueVector, not {type(ortvalues)!r}.")
    return tuple(map(_tensor, ortvalues))


def _ortvalue_from_torch_tensor(torch_tensor: torch.Tensor) -> NativeOrtValue:
    return NativeOrtValue(OrtValue.from_dlpack(torch_tensor.detach().contiguous()))
