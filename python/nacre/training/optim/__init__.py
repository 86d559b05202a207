"""Optimizers and rates for loops in PyTorch, with the names of onnxruntime.training.optim. FusedAdam needs torch, and
is imported when it is asked for."""
import importlib
from typing import Any

from nacre.training.optim.config import AdamConfig, LambConfig, SGDConfig, _OptimizerConfig
from nacre.training.optim.fp16_optimizer import FP16_Optimizer
from nacre.training.optim.lr_scheduler import (ConstantWarmupLRScheduler, CosineWarmupLRScheduler,
                                               LinearWarmupLRScheduler, PolyWarmupLRScheduler, _LRScheduler)

__all__ = ["AdamConfig", "AdamWMode", "ConstantWarmupLRScheduler", "CosineWarmupLRScheduler", "FP16_Optimizer",
           "FusedAdam", "LambConfig", "LinearWarmupLRScheduler", "PolyWarmupLRScheduler", "SGDConfig",
           "_LRScheduler", "_OptimizerConfig"]


def __getattr__(name: str) -> Any:
    if name in ("FusedAdam", "AdamWMode"):
        return getattr(importlib.import_module("nacre.training.optim.fused_adam"), name)
    raise AttributeError(f"module 'nacre.training.optim' has no attribute '{name}'")
