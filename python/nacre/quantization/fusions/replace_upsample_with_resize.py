"""Upsample, which opset 10 took out, and the Resize of opset 10 as the Resize of later opsets that does the same."""
from __future__ import annotations

from typing import List

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from nacre.quantization.fusions.fusion import Fusion
from nacre.quantization.onnx_model import ONNXModel
from nacre.quantization.paths import Makers, Readers


class ReplaceUpsampleWithResize(Fusion):
    """Below opset 9 the scales are attributes, which become a constant. The Resize is that of opset 11 and later."""

    def __init__(self, model: ONNXModel, opset: int) -> None:
        super().__init__(model, "Resize", "Resize" if opset == 10 else "Upsample")
        self.opset = opset

    def fuse(self, node: NodeProto, input_name_to_nodes: Readers, output_name_to_node: Makers) -> None:
        scales = node.input[1] if len(node.input) > 1 else self._constant(node, "scales", self._scales(node))
        region = self._constant(node, "roi", [])  # opset 11 wants one, though this mode does not read it
        mode = self.get_node_attribute(node, "mode") or b"nearest"
        self.nodes_to_remove.append(node)
        self.nodes_to_add.append(helper.make_node(
            "Resize", [node.input[0], region, scales], list(node.output), node.name, mode=mode,
            coordinate_transformation_mode="asymmetric", nearest_mode="floor"))

    def _scales(self, node: NodeProto) -> List[float]:
        return self.get_node_attribute(node, "scales") or [
            1, 1, *(self.get_node_attribute(node, name) or 1 for name in ("height_scale", "width_scale"))]

    def _constant(self, node: NodeProto, what: str, numbers: List[float]) -> str:
        name = f"{node.output[0]}_{what}"
        self.nodes_to_add.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(
            np.array(numbers, np.float32), name)))
        return name
