"""Optimizer: updates the parameters of a Module from the gradients it has added up."""
from __future__ import annotations

import os
from typing import Union

from nacre.training.api.module import Module, source_of


class Optimizer:
    """optimizer_uri: the path or the bytes of an optimizer model. Rate, step and moments are the checkpoint's: several
    optimizers of one module share them."""

    def __init__(self, optimizer_uri: Union[str, os.PathLike, bytes], module: Module) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"expected a Module, got {type(module)}")
        self._module = module
        module._training.add_optimizer(source_of(optimizer_uri))
        self._index = module._n_optimizers
        module._n_optimizers += 1

    def step(self) -> None:
        self._module._training.use_optimizer(self._index)
        self._module._training.update()

    def set_learning_rate(self, learning_rate: float) -> None:
        self._module._training.set_rate(float(learning_rate))

    def get_learning_rate(self) -> float:
        return self._module._training.rate()

    def get_loss_scale(self) -> float:
        """Of models that compute in f16: what their gradients are multiplied with while they are narrow; 0: none."""
        return self._module._training.loss_scale()

    def set_loss_scale(self, scale: float, growth_interval: int = 2000) -> None:
        """A step that finds a gradient that is no finite number is skipped and halves the scale; growth_interval steps
        in a row without one double it. growth_interval=0: it stays as it is."""
        self._module._training.set_loss_scale(float(scale), int(growth_interval))
