"""Upsample, which opset 10 took out, as the Resize that computes the same."""
from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from nacre.quantization.fusions.fusion import Fusion
from nacre.quantization.onnx_model import ONNXModel
from nacre.quantization.paths import Makers, Readers


class ReplaceUpsampleWithResize(Fusion):
    """Below opset 9 the scales are attributes, which become a constant. The Resize is that of opset 11 and later."""

    def __init__(self, model: ONNXModel, opset: int) -> None:
        super().__init__(model, "Resize", "Upsample")
        self.opset = opset

    def fuse(self, node: NodeProto, input_name_to_nodes: Readers, output_name_to_node: Makers) -> None:
        scales = node.input[1] if len(node.input) > 1 else self._constant(node)
        mode = self.get_node_attribute(node, "mode") or b"nearest"
        self.nodes_to_remove.append(node)
        self.nodes_to_add.append(helper.make_node(
            "Resize", [node.input[0], "", scales], list(node.output), node.name, mode=mode,
            coordinate_transformation_mode="asymmetric", nearest_mode="floor"))

    def _constant(self, node: NodeProto) -> str:
        scales = self.get_node_attribute(node, "scales") or [
            1, 1, *(self.get_node_attribute(node, name) or 1 for name in ("height_scale", "width_scale"))]
        name = node.output[0] + "_scales"
        self.nodes_to_add.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(
            np.array(scales, np.float32), name)))
        return name
