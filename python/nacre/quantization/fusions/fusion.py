"""What fusions are made from: Fusion calls fuse() for every node of one operator, as scripts that derive from it want;
RuleFusion says in the words of docs/patterns.md what it looks for, and the library finds it."""
from __future__ import annotations

import os
from typing import Dict, List

import numpy as np
import onnx
from onnx import NodeProto

import nacre
from nacre import _inference
from nacre.quantization.onnx_model import ONNXModel, clean_initializers
from nacre.quantization.paths import Makers, Paths, Readers
from nacre.quantization.quant_utils import temporary_folder


class Fusion(Paths):
    def __init__(self, model: ONNXModel, fused_op_type: str, search_op_type: str) -> None:
        self.model, self.fused_op_type, self.search_op_type = model, fused_op_type, search_op_type
        self.nodes_to_remove: List[NodeProto] = []
        self.nodes_to_add: List[NodeProto] = []

    def whole(self) -> ONNXModel:
        return self.model

    def fuse(self, node: NodeProto, input_name_to_nodes: Readers, output_name_to_node: Makers) -> None:
        """Of a derived class: puts what it wants into nodes_to_remove and nodes_to_add."""
        raise NotImplementedError

    def apply(self) -> bool:
        """Whether the model was changed."""
        readers, makers = self.model.input_name_to_nodes(), self.model.output_name_to_node()
        for node in self.model.nodes():
            if node.op_type == self.search_op_type:
                self.fuse(node, readers, makers)
        changed = bool(self.nodes_to_remove or self.nodes_to_add)
        if changed:
            self.model.remove_nodes(self.nodes_to_remove)
            self.model.add_nodes(self.nodes_to_add)
            self.model.remove_unused_constant()
            self.model.topological_sort()
        return changed

    def create_unique_node_name(self) -> str:
        prefix = f"{self.fused_op_type}_fused_{self.search_op_type}_"
        taken = {n.name for n in self.nodes_to_add}
        return next(name for i in range(self.model.get_largest_node_name_suffix(prefix) + 1, 2**31)
                    if (name := f"{prefix}{i}") not in taken)


class RuleFusion(Fusion):
    """A fusion that is a list of rules. The library looks for them in the model without its large weights, after it has
    folded what is constant; a model in which nothing is found stays as it was."""

    def rules(self) -> List[str]:
        """'what is found => what is made', each."""
        raise NotImplementedError

    def last_axes(self) -> List[str]:
        """How the reductions of this model write the last axis: 'attribute|further input', as a rule has them. A number
        counts only if it means the last axis wherever this model uses it."""
        types = _inference.types_of(self.model.model)
        found: Dict[str, bool] = {}
        for node in self.model.nodes():
            if node.op_type != self.search_op_type or node.input[0] not in types:
                continue
            axes, by_input = self.get_node_attribute(node, "axes"), len(node.input) > 1
            if by_input:
                value = self.model.get_constant_value(node.input[1])
                axes = None if value is None else np.ravel(value).tolist()
            if axes is None or len(axes) != 1:
                continue
            text = f"|{axes[0]}" if by_input else f"axes = [{axes[0]}]|"
            rank = len(types[node.input[0]].tensor_type.shape.dim)
            found[text] = found.get(text, True) and axes[0] in (-1, rank - 1)
        return [text for text, is_last in found.items() if is_last]

    def apply(self) -> bool:
        rules = self.rules()
        if not rules or not any(n.op_type == self.search_op_type for n in self.model.nodes()):
            return False
        result = self._found(rules)
        if self._count(result.graph) <= self._count(self.model.graph()):
            return False
        self._take(result)
        return True

    def _count(self, graph: onnx.GraphProto) -> int:
        return sum(n.op_type == self.fused_op_type for n in graph.node)

    def _found(self, rules: List[str]) -> onnx.ModelProto:
        with temporary_folder() as folder:
            options = nacre.SessionOptions()
            options.optimized_model_filepath = path = os.path.join(folder, "fused.onnx")
            options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.add_session_config_entry("nacre.patterns", "\n".join(f"r{i}: {r}" for i, r in enumerate(rules)))
            nacre.InferenceSession(_inference.skeleton(self.model.model).SerializeToString(), options)
            return onnx.load(path)

    def _take(self, result: onnx.ModelProto) -> None:
        """Nodes, small constants and types of the result; the large weights are still those of the model."""
        graph, known = self.model.graph(), {n.name for n in self.model.nodes()}
        for node in result.graph.node:
            if node.op_type == self.fused_op_type and node.name not in known:
                node.name = self.create_unique_node_name()
                self.nodes_to_add.append(node)
        small = {t.name for t in result.graph.initializer}
        large = [t for t in graph.initializer if t.name not in small]
        for part, new in ((graph.node, result.graph.node), (graph.value_info, result.graph.value_info),
                          (graph.initializer, [*large, *result.graph.initializer])):
            new = [type(x).FromString(x.SerializeToString()) for x in new]
            del part[:]
            part.extend(new)
        for opset in result.opset_import:
            if opset.domain not in {o.domain for o in self.model.opset_import()}:
                self.model.set_opset_import(opset.domain, opset.version)
        clean_initializers(graph)
