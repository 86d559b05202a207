"""Optimizers as blocks: called with the parameters, they make the model whose run is one step."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from nacre.training._onnx import onnx
from nacre.training.onnxblock import _graph_utils, blocks
from nacre.training.onnxblock.onnxblock import ForwardBlock


class ClipGradNorm(blocks.Block):
    """All gradients scaled by one factor, so that their common L2 norm is at most max_norm."""

    def __init__(self, max_norm: float) -> None:
        self._max_norm = max_norm

    def build(self, gradients_name: str) -> str:
        return self._add("InplaceClipGradNorm", [gradients_name], "clip_grad_norm_output", domain="com.microsoft",
                         max_norm=float(self._max_norm))


def _trainable(parameters: Any) -> List[Any]:
    """Of what TrainingBlock.parameters() gives, or of a list of tensors."""
    if isinstance(parameters, tuple) and len(parameters) == 2 and not hasattr(parameters[0], "data_type"):
        parameters = parameters[0]
    return list(parameters)


class _Optimizer(ForwardBlock):
    """What optimizers share: their inputs, and clipping."""

    _moments: Tuple[str, ...] = ()

    def __init__(self, clip_grad: Optional[blocks.Block] = None) -> None:
        super().__init__()
        self._clip_grad = clip_grad

    def _input(self, name: str, type_proto: Any) -> str:
        added = self.base.graph.input.add()
        added.name = name
        added.type.CopyFrom(type_proto)
        return name

    def _element_type(self, trainable: Sequence[Any]) -> int:
        types = {t.data_type for t in trainable}
        if not types:
            raise ValueError(f"{type(self).__name__}: no parameter is trainable, so there is nothing to optimize. Name "
                             "some with requires_grad, or generate artifacts without an optimizer.")
        if len(types) > 1:
            kinds = ", ".join(sorted(onnx.TensorProto.DataType.Name(t) for t in types))
            raise ValueError(f"{type(self).__name__}: expected trainable parameters of one type, got {kinds}")
        return int(types.pop())

    def build(self, parameters: Any) -> str:
        make = onnx.helper.make_tensor_type_proto
        element = self._element_type(_trainable(parameters))
        sequence = onnx.helper.make_sequence_type_proto(make(element, None))
        rate = self._input("learning_rate", make(onnx.TensorProto.FLOAT, [1]))
        step = self._input("step", make(onnx.TensorProto.INT64, [1]))
        params, gradients = self._input("params", sequence), self._input("gradients", sequence)
        moments = [self._input(name, sequence) for name in self._moments]
        if self._clip_grad is not None:
            gradients = self._clip_grad(gradients)
        updated = self._update(rate, step, params, gradients, moments)
        self.base.graph.value_info.append(
            onnx.helper.make_tensor_value_info(updated, onnx.TensorProto.BOOL, [1]))
        return updated

    def _update(self, rate: str, step: str, params: str, gradients: str, moments: List[str]) -> str:
        raise NotImplementedError


class AdamW(_Optimizer):
    """Adam with decoupled weight decay. mode: 0 as PyTorch's AdamW does it, 1 as Hugging Face's did (weights decay
    after the update, and bias correction is in the rate)."""

    _moments = ("first_order_moments", "second_order_moments")

    def __init__(self, bias_correction: bool = True, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
                 weight_decay: float = 0.0, clip_grad: Optional[blocks.Block] = None, *, mode: int = 1) -> None:
        super().__init__(clip_grad)
        if mode not in (0, 1):
            raise ValueError(f"AdamW: mode is 0 (PyTorch) or 1 (Hugging Face), got {mode!r}")
        self._attributes = dict(alpha=float(betas[0]), beta=float(betas[1]), correct_bias=int(bool(bias_correction)),
                                epsilon=float(eps), weight_decay=float(weight_decay), adam_mode=mode)

    def _update(self, rate: str, step: str, params: str, gradients: str, moments: List[str]) -> str:
        return self._add("AdamWOptimizer", [rate, step, params, gradients, *moments], "adamw.updated_flag",
                         domain="com.microsoft", **self._attributes)


class SGD(_Optimizer):
    """weights - rate * gradients, or with momentum and weight decay as torch.optim.SGD. Without these the model is in
    onnxruntime's operator, whose input for moments is not used."""

    _moments = ("first_order_moments",)

    def __init__(self, clip_grad: Optional[blocks.Block] = None, momentum: float = 0.0, dampening: float = 0.0,
                 nesterov: bool = False, weight_decay: float = 0.0) -> None:
        super().__init__(clip_grad)
        if momentum < 0 or weight_decay < 0:
            raise ValueError(f"SGD: momentum {momentum!r} and weight_decay {weight_decay!r} must not be negative")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and no dampening")
        self._attributes = dict(momentum=float(momentum), dampening=float(dampening), nesterov=int(nesterov),
                                weight_decay=float(weight_decay))

    def _update(self, rate: str, step: str, params: str, gradients: str, moments: List[str]) -> str:
        if self._attributes["momentum"] or self._attributes["weight_decay"]:
            return self._add("MomentumOptimizer", [rate, step, params, gradients, *moments], "update_completed",
                             domain="nacre", **self._attributes)
        return self._add("SGDOptimizerV2", [rate, params, gradients], "update_completed", domain="com.microsoft")
