"""SpaceToDepth from the four Reshapes and three Transposes that early YOLO models have in its place."""
from __future__ import annotations

from typing import Any, List, Optional

from onnx import NodeProto, helper

from nacre.quantization.fusions.fusion import Fusion
from nacre.quantization.onnx_model import ONNXModel
from nacre.quantization.paths import Makers, Readers

_CHAIN = ["Reshape", "Transpose"] * 3 + ["Reshape"]
_TURNS = [[0, 1, 2, 4, 3, 5], [0, 1, 3, 2], [0, 2, 1, 3, 4]]


class FusionSpaceToDepth(Fusion):
    def __init__(self, model: ONNXModel) -> None:
        super().__init__(model, "SpaceToDepth", "Reshape")

    def fuse(self, node: NodeProto, input_name_to_nodes: Readers, output_name_to_node: Makers) -> None:
        chain = self._chain(node, input_name_to_nodes)
        block = self._block(chain) if chain else None
        if block is None:
            return
        self.nodes_to_remove.extend(chain)
        self.nodes_to_add.append(helper.make_node(
            "SpaceToDepth", [node.input[0]], [chain[-1].output[0]], self.create_unique_node_name(), blocksize=block))

    @staticmethod
    def _chain(node: NodeProto, readers: Readers) -> List[NodeProto]:
        """The seven nodes, each the only reader of the one before; nothing if they are not there."""
        found = [node]
        for op in _CHAIN[1:]:
            following = readers.get(found[-1].output[0], [])
            if len(following) != 1 or following[0].op_type != op:
                return []
            found.append(following[0])
        return found

    def _dims(self, name: str) -> List[Any]:
        kind = self.model.get_tensor_type(name)
        return self.tensor_shape_to_list(kind) if kind is not None else []

    def _block(self, chain: List[NodeProto]) -> Optional[int]:
        """The block's side, if dims and turns are those of the operator (N, C, H, W)."""
        shapes = [self._dims(name) for name in (chain[0].input[0], *(n.output[0] for n in chain[::2]))]
        if [len(s) for s in shapes] != [4, 6, 4, 5, 4] or not all(isinstance(d, int) for d in shapes[0]):
            return None
        (n, c, h, w), b = shapes[0], shapes[1][3]
        if not isinstance(b, int) or b < 1 or h % b or w % b:
            return None
        want = [[n, c, h // b, b, w // b, b], [n, c, h // b * (w // b), b * b], [n, c, b * b, h // b, w // b],
                [n, b * b * c, h // b, w // b]]
        turns = [self.get_node_attribute(t, "perm") for t in chain[1::2]]
        return b if shapes[1:] == want and turns == _TURNS else None
