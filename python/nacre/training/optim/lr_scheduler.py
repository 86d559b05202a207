"""Learning rates as functions of the step: a factor that rises over a part of all steps, then stays or falls."""
from __future__ import annotations

import math
from typing import Any, List


class _LRScheduler:
    """Subclasses give get_lr(train_step_info), which has optimization_step and optimizer_config."""

    def __init__(self) -> None:
        self._last_lr: List[float] = []

    def get_lr(self, train_step_info: Any) -> List[float]:
        raise NotImplementedError

    def get_last_lr(self) -> List[float]:
        """The rate of the last step; a list, as of one group."""
        return self._last_lr

    def _step(self, train_step_info: Any) -> None:
        rates = self.get_lr(train_step_info)
        assert isinstance(rates, list), "get_lr must give a list of one rate per group"
        self._last_lr = rates
        train_step_info.optimizer_config.lr = rates[0]


class _Warmup(_LRScheduler):
    """warmup: the part of total_steps over which the rate rises from 0."""

    def __init__(self, total_steps: int, warmup: float) -> None:
        super().__init__()
        assert isinstance(total_steps, int) and total_steps > 0, "total_steps must be a strict positive number"
        assert isinstance(warmup, float) and 0 <= warmup < 1, "warmup must be a float between (0, 1]"
        self.total_steps, self.warmup = total_steps, warmup
        self._num_warmup_steps = warmup * total_steps

    def _fall(self, step: int, rate: float) -> float:
        """The factor behind the warmup."""
        raise NotImplementedError

    def _part(self, step: int) -> float:
        return (step - self._num_warmup_steps) / max(1.0, self.total_steps - self._num_warmup_steps)

    def get_lr(self, train_step_info: Any) -> List[float]:
        step, rate = train_step_info.optimization_step, train_step_info.optimizer_config.lr
        if step < self._num_warmup_steps:
            return [rate * step / max(1.0, self._num_warmup_steps)]
        return [rate * self._fall(step, rate)]


class ConstantWarmupLRScheduler(_Warmup):
    """Stays."""

    def __init__(self, total_steps: int, warmup: float = 0.002) -> None:
        super().__init__(total_steps, warmup)

    def _fall(self, step: int, rate: float) -> float:
        return 1.0


class CosineWarmupLRScheduler(_Warmup):
    """Swings down and up, cycles times; 0.5 is down to 0."""

    def __init__(self, total_steps: int, cycles: float = 0.5, warmup: float = 0.002) -> None:
        assert isinstance(cycles, float) and cycles > 0, "cycles must be a positive float"
        super().__init__(total_steps, warmup)
        self.cycles = cycles

    def _fall(self, step: int, rate: float) -> float:
        return max(0.0, 0.5 * (1 + math.cos(2 * math.pi * self.cycles * self._part(step))))


class LinearWarmupLRScheduler(_Warmup):
    """Falls in a line to 0."""

    def __init__(self, total_steps: int, warmup: float = 0.002) -> None:
        super().__init__(total_steps, warmup)

    def _fall(self, step: int, rate: float) -> float:
        return max(0.0, 1 - self._part(step))


class PolyWarmupLRScheduler(_Warmup):
    """Falls to lr_end as a power of what is left."""

    def __init__(self, total_steps: int, lr_end: float = 1e-7, power: float = 1.0, warmup: float = 0.002) -> None:
        assert isinstance(lr_end, float) and lr_end >= 0, "lr_end must be a positive float"
        assert isinstance(power, float) and power >= 0, "power must be a positive float"
        super().__init__(total_steps, warmup)
        self.lr_end, self.power = lr_end, power

    def _fall(self, step: int, rate: float) -> float:
        assert rate > self.lr_end, f"lr_end ({self.lr_end}) must be smaller than the initial lr ({rate})"
        if step > self.total_steps:
            return self.lr_end / rate
        return ((rate - self.lr_end) * (1 - self._part(step)) ** self.power + self.lr_end) / rate
