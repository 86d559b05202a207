"""Gelu of com.microsoft from its parts, as PyTorch, Keras and TensorFlow write it."""
from __future__ import annotations

from typing import List

from nacre.quantization.fusions.fusion import RuleFusion
from nacre.quantization.onnx_model import ONNXModel


class FusionGelu(RuleFusion):
    def __init__(self, model: ONNXModel) -> None:
        super().__init__(model, "Gelu", "Erf")

    def rules(self) -> List[str]:
        shares = [f"Add(Erf({x}), 1)" for x in ("Div(x, 1.41421356)", "Mul(x, 0.70710678)")]
        return [f"{form} => com.microsoft.Gelu(x)" for s in shares for form in (
            f"Mul(Mul(x, 0.5), {s})", f"Mul(Mul(x, {s}), 0.5)", f"Mul(x, Mul({s}, 0.5))")]
