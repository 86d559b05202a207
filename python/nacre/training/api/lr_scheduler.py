"""LinearLRScheduler: a rate that rises, then falls."""
from __future__ import annotations

from nacre.training.api.optimizer import Optimizer


class LinearLRScheduler:
    """The rate rises from 0 to initial_lr over warmup_step_count updates, then falls to 0 at update total_step_count.
    The checkpoint keeps the schedule: after loading one, step() goes on with it."""

    def __init__(self, optimizer: Optimizer, warmup_step_count: int, total_step_count: int, initial_lr: float) -> None:
        self._optimizer = optimizer
        optimizer._module._training.set_schedule(int(warmup_step_count), int(total_step_count), float(initial_lr))

    def step(self) -> None:
        """After each step of the optimizer."""
        self._optimizer._module._training.schedule()
