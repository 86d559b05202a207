"""FusedAdam: an optimizer of PyTorch whose step goes over all parameters of a kind at once."""
from __future__ import annotations

import enum
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch


class AdamWMode(enum.IntEnum):
    """How weights decay, and where the bias of the moments is corrected."""

    ADAM_L2_REGULARIZATION = 0  # decay is added to the gradient
    ADAMW_TRANSFORMERS = 1  # weights decay after the update; the correction is in the rate
    ADAMW_TORCH = 2  # weights decay before the update; the correction is in the moments


class FusedAdam(torch.optim.Optimizer):
    """Adam in the form of adam_w_mode, with a few operations per device and type of parameter."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, bias_correction: bool = True,
                 betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
                 adam_w_mode: AdamWMode = AdamWMode.ADAMW_TRANSFORMERS, weight_decay: float = 0.0,
                 set_grad_none: bool = True) -> None:
        super().__init__(params, dict(lr=lr, bias_correction=bias_correction, betas=betas, eps=eps,
                                      weight_decay=weight_decay))
        self._adam_w_mode = AdamWMode(adam_w_mode)
        self._set_grad_none = set_grad_none

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none=self._set_grad_none or set_to_none)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for params in self._kinds(group):
                self._update(group, params)
        return loss

    def _kinds(self, group: Dict[str, Any]) -> List[List[torch.Tensor]]:
        """Parameters that have a gradient, by device and type; their moments are made."""
        kinds: Dict[Any, List[torch.Tensor]] = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse:
                raise RuntimeError("FusedAdam does not support sparse gradients: expected dense ones")
            if not self.state[p]:
                self.state[p] = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            kinds.setdefault((p.device, p.dtype), []).append(p)
        return list(kinds.values())

    def _update(self, group: Dict[str, Any], params: List[torch.Tensor]) -> None:
        (alpha, beta), rate, decay, mode = group["betas"], group["lr"], group["weight_decay"], self._adam_w_mode
        first = 1 - alpha ** group["step"] if group["bias_correction"] else 1.0
        second = 1 - beta ** group["step"] if group["bias_correction"] else 1.0
        grads = [p.grad for p in params]
        m, v = ([self.state[p][key] for p in params] for key in ("exp_avg", "exp_avg_sq"))
        if mode == AdamWMode.ADAM_L2_REGULARIZATION and decay:
            grads = torch._foreach_add(grads, params, alpha=decay)
        torch._foreach_mul_(m, alpha)
        torch._foreach_add_(m, grads, alpha=1 - alpha)
        torch._foreach_mul_(v, beta)
        torch._foreach_addcmul_(v, grads, grads, value=1 - beta)
        if mode == AdamWMode.ADAMW_TORCH and decay:
            torch._foreach_mul_(params, 1 - rate * decay)
        down = torch._foreach_sqrt(v)
        if mode != AdamWMode.ADAMW_TRANSFORMERS:
            torch._foreach_div_(down, second ** 0.5)
        torch._foreach_add_(down, group["eps"])
        size = rate / first * (second ** 0.5 if mode == AdamWMode.ADAMW_TRANSFORMERS else 1)
        torch._foreach_addcdiv_(params, m, down, value=-size)
        if mode == AdamWMode.ADAMW_TRANSFORMERS and decay:
            torch._foreach_mul_(params, 1 - rate * decay)
