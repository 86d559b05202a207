"""Operators of com.microsoft for torch.onnx.export's script exporter: between register() and unregister() it writes
them for what has one there (Gelu, Inverse, GridSample, Trilu), and knows those that PyTorch has not, of the namespace
onnxruntime (DynamicTimeWarping, UnfoldTensor).

The exporter finds a symbolic by name and by the latest opset up to the one written, so that opset 1 means all that has
nothing newer; Gelu has something newer in torch and is put before each of those.
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Set, Tuple

try:
    import torch
except ModuleNotFoundError as e:
    raise ModuleNotFoundError("operators for torch.onnx.export need PyTorch, which is not installed") from e
from torch.onnx import symbolic_helper

_ANY, _GELU = 1, range(9, 21)
_registered: Set[Tuple[str, int]] = set()


def _put(name: str, symbolic: Callable[..., Any], *opsets: int) -> None:
    for opset in opsets or (_ANY,):
        torch.onnx.register_custom_op_symbolic(name, symbolic, opset)
        _registered.add((name, opset))


def _constant(value: Any, kind: str) -> Any:
    return symbolic_helper._maybe_get_const(value, kind)


def _grid_sampler(g: Any, x: Any, grid: Any, mode: Any, padding_mode: Any, align_corners: Any) -> Any:
    return g.op("com.microsoft::GridSample", x, grid,
                mode_s=("bilinear", "nearest", "bicubic")[_constant(mode, "i")],
                padding_mode_s=("zeros", "border", "reflection")[_constant(padding_mode, "i")],
                align_corners_i=int(_constant(align_corners, "b")))


def _inverse(g: Any, x: Any) -> Any:
    return g.op("com.microsoft::Inverse", x).setType(x.type())


def _gelu(g: Any, x: Any, approximate: Any = "none") -> Any:
    how = approximate if isinstance(approximate, str) else _constant(approximate, "s")
    if how != "none":  # the operator has the exact formula alone
        return torch.onnx.symbolic_opset9.gelu(g, x, how)
    return g.op("com.microsoft::Gelu", x).setType(x.type())


def _trilu(upper: int) -> Callable[..., Any]:
    return lambda g, x, diagonal: g.op("com.microsoft::Trilu", x, diagonal, upper_i=upper).setType(x.type())


@symbolic_helper.parse_args("v")
def _dynamic_time_warping(g: Any, x: Any) -> Any:
    return g.op("com.microsoft::DynamicTimeWarping", x)


def _unfold(g: Any, x: Any, dim: Any, size: Any, step: Any) -> Any:
    told = {f"{n}_i": int(_constant(v, "i")) for n, v in (("dim", dim), ("size", size), ("step", step))}
    made = g.op("com.microsoft::UnfoldTensor", x, **told)
    rank = symbolic_helper._get_tensor_rank(x)
    return made if rank is None else made.setType(x.type().with_sizes([None] * rank + [told["size_i"]]))


def register() -> None:
    """Before torch.onnx.export(..., dynamo=False, custom_opsets={"com.microsoft": 1})."""
    _put("aten::grid_sampler", _grid_sampler)
    _put("aten::inverse", _inverse)
    _put("aten::linalg_inv", _inverse)
    _put("aten::gelu", _gelu, _ANY, *_GELU)
    _put("aten::triu", _trilu(1))
    _put("aten::tril", _trilu(0))
    _put("onnxruntime::DynamicTimeWarping", _dynamic_time_warping)
    _put("onnxruntime::UnfoldTensor", _unfold)


def unregister() -> None:
    """The exporter writes the standard's operators again."""
    for name, opset in _registered:
        with contextlib.suppress(Exception):  # somebody else took it away
            torch.onnx.unregister_custom_op_symbolic(name, opset)
    _registered.clear()
