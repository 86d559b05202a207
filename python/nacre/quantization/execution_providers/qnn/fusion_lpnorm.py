"""LpNormalization of order 2 over the last axis, as PyTorch writes torch.nn.functional.normalize."""
from __future__ import annotations

from typing import List

from nacre.quantization.fusions.fusion import RuleFusion
from nacre.quantization.onnx_model import ONNXModel


class FusionLpNormalization(RuleFusion):
    def __init__(self, model: ONNXModel, epsilon: float = 1e-12) -> None:
        super().__init__(model, "LpNormalization", "ReduceL2")
        self.epsilon = epsilon

    def rules(self) -> List[str]:
        found = []
        for attribute, by_input in (text.split("|") for text in self.last_axes()):
            norm = "ReduceL2<keepdims = 1{}>(x{})".format(", " + attribute if attribute else "",
                                                          ", " + by_input if by_input else "")
            found.append(f"Div(x, Expand(Clip({norm}, {self.epsilon!r}), ..)) => LpNormalization<p = 2, axis = -1>(x)")
        return found
