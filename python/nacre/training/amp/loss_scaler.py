"""What a loss is multiplied with, so that small gradients do not vanish in half precision. Training sessions of models
that compute in f16 keep a scale of their own (Optimizer.get_loss_scale); these are for loops written by hand."""
from __future__ import annotations

from typing import Any, Optional


class LossScaler:
    """A scale and the name of the input that takes it; how it changes is told by a subclass."""

    def __init__(self, loss_scale: float) -> None:
        assert isinstance(loss_scale, float) and loss_scale > 0, "'loss_scale' must be a positive float"
        self._input_name: Optional[str] = None
        self._loss_scale = loss_scale
        self._initial_loss_scale = loss_scale

    @property
    def input_name(self) -> Optional[str]:
        return self._input_name

    @input_name.setter
    def input_name(self, input_name: Optional[str]) -> None:
        assert input_name is None or (isinstance(input_name, str) and input_name), \
            "'input_name' must be a name that is not empty"
        self._input_name = input_name

    @property
    def loss_scale(self) -> float:
        return self._loss_scale

    @loss_scale.setter
    def loss_scale(self, loss_scale: float) -> None:
        assert isinstance(loss_scale, float) and loss_scale > 0, "'loss_scale' must be a positive float"
        self._loss_scale = loss_scale

    def reset(self) -> None:
        self._loss_scale = self._initial_loss_scale

    def update(self, train_step_info: Any) -> float:
        raise NotImplementedError


class DynamicLossScaler(LossScaler):
    """Halved by a step whose gradients are not all finite, doubled after up_scale_window steps that are."""

    def __init__(self, automatic_update: bool = True, loss_scale: float = float(1 << 16), up_scale_window: int = 2000,
                 min_loss_scale: float = 1.0, max_loss_scale: float = float(1 << 24)) -> None:
        super().__init__(loss_scale)
        self.automatic_update = automatic_update
        self.up_scale_window = up_scale_window
        self.min_loss_scale, self.max_loss_scale = min_loss_scale, max_loss_scale
        self._stable_steps_count = 0

    def reset(self) -> None:
        super().reset()
        self._stable_steps_count = 0

    def update(self, train_step_info: Any) -> float:
        """The scale after a step; train_step_info.all_finite says how that went."""
        if not self.automatic_update:
            return self.loss_scale
        if not train_step_info.all_finite:
            self._stable_steps_count = 0
            self.loss_scale = max(self.min_loss_scale, self.loss_scale / 2)
            return self.loss_scale
        self._stable_steps_count += 1
        if self._stable_steps_count >= self.up_scale_window:
            self._stable_steps_count = 0
            self.loss_scale = min(self.max_loss_scale, self.loss_scale * 2)
        return self.loss_scale
