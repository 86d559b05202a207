"""What fusions of one's own derive from. This library's are passes; one that is written in Python finds its nodes in
fuse(), puts what it wants into nodes_to_remove and nodes_to_add, and apply() does the rest."""
from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any, DefaultDict, Dict, List, Optional, Sequence, Union

import numpy as np
from onnx import NodeProto, TensorProto, helper

from nacre.transformers.onnx_model import OnnxModel

logger = logging.getLogger(__name__)


def initializer(name: str, data_type: int, dims: Sequence[int], vals: Any, raw: bool) -> TensorProto:
    """raw: the bytes of numbers, which become the type's if they are no array already."""
    if raw:
        kind = helper.tensor_dtype_to_np_dtype(data_type)
        vals = (vals if isinstance(vals, np.ndarray) else np.array(vals, kind)).tobytes()
    return helper.make_tensor(name, data_type, dims, vals, raw)


class Fusion:
    def __init__(self, model: OnnxModel, fused_op_type: str, search_op_types: Union[str, List[str]],
                 description: str = "") -> None:
        self.model, self.fused_op_type = model, fused_op_type
        self.search_op_types = [search_op_types] if isinstance(search_op_types, str) else search_op_types
        self.description = f"{fused_op_type}({description})" if description else fused_op_type
        self.nodes_to_remove: List[NodeProto] = []
        self.nodes_to_add: List[NodeProto] = []
        self.prune_graph = False
        self.node_name_to_graph_name: Dict[str, str] = {}
        self.this_graph_name: Optional[str] = None
        self.fused_count: DefaultDict[str, int] = defaultdict(int)

    def increase_counter(self, fused_op_name: str) -> None:
        self.fused_count[fused_op_name] += 1

    def fuse(self, node: NodeProto, input_name_to_nodes: Dict[str, List[NodeProto]],
             output_name_to_node: Dict[str, NodeProto]) -> None:
        raise NotImplementedError

    def apply(self) -> None:
        """Calls fuse() for each node of the operators, with who reads and who makes a value, and changes the model."""
        readers, makers = self.model.input_name_to_nodes(), self.model.output_name_to_node()
        for op_type in self.search_op_types:
            for node in self.model.get_nodes_by_op_type(op_type):
                graph = self.model.get_graph_by_node(node)
                self.this_graph_name = None if graph is None else graph.name
                self.fuse(node, readers, makers)
        count = sum(n.op_type == self.fused_op_type for n in self.nodes_to_add)
        for name, number in (self.fused_count or {self.description: count}).items():
            if number:
                logger.info("fused %s: %d", name, number)
        self.model.remove_nodes(self.nodes_to_remove)
        self.model.add_nodes(self.nodes_to_add, self.node_name_to_graph_name)
        if self.prune_graph:
            self.model.prune_graph()
        elif self.nodes_to_remove or self.nodes_to_add:
            self.model.update_graph()

    def add_initializer(self, name: str, data_type: int, dims: Sequence[int], vals: Any,
                        raw: bool = True) -> TensorProto:
        tensor = initializer(name, data_type, dims, vals, raw)
        self.model.add_initializer(tensor, self.this_graph_name)
        return tensor

    def remove_initializer(self, tensor: TensorProto) -> None:
        self.model.remove_initializer(tensor)

    def add_nodes_to_remove(self, nodes: List[NodeProto]) -> None:
        """Each once: paths may share nodes."""
        self.add_nodes_to_remove_with_nodes_to_keep(nodes, [])

    def add_nodes_to_remove_with_nodes_to_keep(self, nodes: List[NodeProto], nodes_to_keep: List[NodeProto]) -> None:
        for node in nodes:
            if node not in self.nodes_to_remove and node not in nodes_to_keep:
                self.nodes_to_remove.append(node)
