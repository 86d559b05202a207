"""LayerNormalization over the last axis from means, squares and a root."""
from __future__ import annotations

from typing import List

from nacre.quantization.fusions.fusion import RuleFusion
from nacre.quantization.onnx_model import ONNXModel


class FusionLayerNormalization(RuleFusion):
    def __init__(self, model: ONNXModel) -> None:
        super().__init__(model, "LayerNormalization", "ReduceMean")

    def rules(self) -> List[str]:
        made = "LayerNormalization<axis = -1, epsilon = $e>(x, scale, bias)"
        found = []
        for attribute, by_input in (text.split("|") for text in self.last_axes()):
            how = f"ReduceMean<keepdims = 1{', ' + attribute if attribute else ''}>"
            more = ", " + by_input if by_input else ""
            centred = f"Sub(x, {how}(x{more}))"
            for d in ("d", centred):  # older exporters write the difference twice
                for square in (f"Pow({d}, 2)", f"Mul({d}, {d})"):
                    root = f"Sqrt(Add({how}({square}{more}), $e))"
                    found.append(f"Add(Mul(Div(d={centred}, {root}), scale=#w), bias=#b) => {made}")
        return found
