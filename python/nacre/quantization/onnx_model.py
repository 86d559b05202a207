"""A model's proto with the questions and edits that quantizers need, by the names that onnxruntime's helpers have."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nacre._files import save_model


def subgraphs(node: NodeProto) -> List[GraphProto]:
    """The graphs that a node holds in its attributes."""
    return [g for a in node.attribute for g in ([a.g] if a.type == a.GRAPH else a.graphs)]


def captured(graph: GraphProto) -> List[str]:
    """What a subgraph reads of the graphs around it."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer} | {
        o for n in graph.node for o in n.output}
    read = [name for node in graph.node for name in inputs_of(node)] + [o.name for o in graph.output]
    return [name for name in read if name and name not in own]


def inputs_of(node: NodeProto) -> List[str]:
    """What a node reads, through its subgraphs too."""
    return [*node.input, *(name for g in subgraphs(node) for name in captured(g))]


def topologically(nodes: Iterable[NodeProto], known: Iterable[str]) -> List[NodeProto]:
    """Nodes so that each stands behind what it reads; those that are ready keep their order."""
    left, done, result = list(nodes), set(known) | {""}, []
    made = {o for n in left for o in n.output if o}
    while left:
        waiting = []
        for node in left:
            if all(i in done or i not in made for i in inputs_of(node)):
                done.update(node.output)
                result.append(node)
            else:
                waiting.append(node)
        if len(waiting) == len(left):
            raise RuntimeError(f"the graph has a cycle at node '{left[0].name}' ({left[0].op_type})")
        left = waiting
    return result


class ONNXModel:
    def __init__(self, model: ModelProto) -> None:
        self.model = model

    # ---- parts ----

    def nodes(self) -> Any:
        return self.model.graph.node

    def initializer(self) -> Any:
        return self.model.graph.initializer

    def initializer_extend(self, inits: Iterable[TensorProto]) -> None:
        self.model.graph.initializer.extend(inits)

    def graph(self) -> GraphProto:
        return self.model.graph

    def ir_version(self) -> int:
        return self.model.ir_version

    def opset_import(self) -> Any:
        return self.model.opset_import

    def set_opset_import(self, domain: str, version: int) -> None:
        for o in self.model.opset_import:
            if o.domain == domain:
                o.version = version
                return
        self.model.opset_import.append(helper.make_opsetid(domain, version))

    # ---- questions ----

    def get_initializer(self, name: str) -> Optional[TensorProto]:
        return next((t for t in self.model.graph.initializer if t.name == name), None)

    def get_initializer_name_set(self) -> set:
        return {t.name for t in self.model.graph.initializer}

    def find_graph_input(self, input_name: str) -> Any:
        return next((i for i in self.model.graph.input if i.name == input_name), None)

    def find_graph_output(self, output_name: str) -> Any:
        return next((o for o in self.model.graph.output if o.name == output_name), None)

    def is_graph_input(self, tensor_name: str) -> bool:
        return self.find_graph_input(tensor_name) is not None

    def is_graph_output(self, output_name: str) -> bool:
        return self.find_graph_output(output_name) is not None

    def get_tensor_type(self, tensor_name: str) -> Any:
        graph = self.model.graph
        for part in (graph.value_info, graph.input, graph.output):
            for v in part:
                if v.name == tensor_name and v.type.HasField("tensor_type"):
                    return v.type.tensor_type
        tensor = self.get_initializer(tensor_name)
        return tensor and helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)).tensor_type

    def get_constant_value(self, output_name: str) -> Optional[np.ndarray]:
        tensor = self.get_initializer(output_name)
        if tensor is not None:
            return numpy_helper.to_array(tensor)
        for node in self.model.graph.node:
            if node.op_type == "Constant" and output_name in node.output:
                found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
                (kind, value), = found.items()
                return numpy_helper.to_array(value) if kind == "value" else np.array(value)
        return None

    def get_non_initializer_inputs(self) -> set:
        return {i.name for i in self.model.graph.input} - self.get_initializer_name_set()

    def input_name_to_nodes(self) -> Dict[str, List[NodeProto]]:
        found: Dict[str, List[NodeProto]] = {}
        for node in self.model.graph.node:
            for name in dict.fromkeys(n for n in node.input if n):
                found.setdefault(name, []).append(node)
        return found

    def output_name_to_node(self) -> Dict[str, NodeProto]:
        return {o: node for node in self.model.graph.node for o in node.output if o}

    def get_children(self, node: NodeProto, input_name_to_nodes: Any = None) -> List[NodeProto]:
        readers = self.input_name_to_nodes() if input_name_to_nodes is None else input_name_to_nodes
        return [n for o in node.output for n in readers.get(o, [])]

    def get_parents(self, node: NodeProto, output_name_to_node: Any = None) -> List[NodeProto]:
        writers = self.output_name_to_node() if output_name_to_node is None else output_name_to_node
        return [writers[i] for i in node.input if i in writers]

    def get_parent(self, node: NodeProto, idx: int, output_name_to_node: Any = None) -> Optional[NodeProto]:
        writers = self.output_name_to_node() if output_name_to_node is None else output_name_to_node
        return writers.get(node.input[idx]) if idx < len(node.input) else None

    def find_node_by_name(self, node_name: str, new_nodes_list: List[NodeProto], graph: GraphProto) -> Any:
        return next((n for n in [*graph.node, *new_nodes_list] if n.name == node_name), None)

    def find_nodes_by_initializer(self, graph: GraphProto, initializer: TensorProto) -> List[NodeProto]:
        return [n for n in graph.node if initializer.name in n.input]

    @staticmethod
    def _largest_suffix(names: Iterable[str], prefix: str) -> int:
        numbers = [n[len(prefix):] for n in names if n.startswith(prefix)]
        return max((int(n) for n in numbers if n.isdigit()), default=-1)

    def get_largest_node_name_suffix(self, node_name_prefix: str) -> int:
        return self._largest_suffix((n.name for n in self.model.graph.node), node_name_prefix)

    def get_largest_initializer_name_suffix(self, initializer_name_prefix: str) -> int:
        return self._largest_suffix(self.get_initializer_name_set(), initializer_name_prefix)

    # ---- edits ----

    def add_node(self, node: NodeProto) -> None:
        self.model.graph.node.append(node)

    def add_nodes(self, nodes_to_add: Iterable[NodeProto]) -> None:
        self.model.graph.node.extend(nodes_to_add)

    def remove_node(self, node: NodeProto) -> None:
        if node in self.model.graph.node:
            self.model.graph.node.remove(node)

    def remove_nodes(self, nodes_to_remove: Iterable[NodeProto]) -> None:
        for node in nodes_to_remove:
            self.remove_node(node)

    def add_initializer(self, tensor: TensorProto) -> None:
        if self.get_initializer(tensor.name) is None:
            self.model.graph.initializer.append(tensor)

    def remove_initializer(self, tensor: TensorProto) -> None:
        for part in (self.model.graph.initializer, self.model.graph.input):
            for found in [t for t in part if t.name == tensor.name]:
                part.remove(found)

    def remove_initializers(self, init_to_remove: Iterable[TensorProto]) -> None:
        for tensor in init_to_remove:
            self.remove_initializer(tensor)

    @staticmethod
    def replace_node_input(node: NodeProto, old_input_name: str, new_input_name: str) -> None:
        for i, name in enumerate(node.input):
            if name == old_input_name:
                node.input[i] = new_input_name

    @staticmethod
    def replace_node_output(node: NodeProto, old_output_name: str, new_output_name: str) -> None:
        for i, name in enumerate(node.output):
            if name == old_output_name:
                node.output[i] = new_output_name

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str) -> None:
        for node in self.model.graph.node:
            self.replace_node_input(node, old_input_name, new_input_name)

    def replace_input_of_nodes(self, old_input_name: str, new_input_name: str, node_names_set: Any) -> None:
        for node in self.model.graph.node:
            if node.name in node_names_set:
                self.replace_node_input(node, old_input_name, new_input_name)

    def replace_output_of_all_nodes(self, old_output_name: str, new_output_name: str) -> None:
        for node in self.model.graph.node:
            self.replace_node_output(node, old_output_name, new_output_name)

    def replace_output_of_nodes(self, old_output_name: str, new_output_name: str, node_names_set: Any) -> None:
        for node in self.model.graph.node:
            if node.name in node_names_set:
                self.replace_node_output(node, old_output_name, new_output_name)

    def replace_gemm_with_matmul(self) -> None:
        """Gemm of factors 1 whose A is not turned becomes MatMul and Add; a constant B that is turned is turned now."""
        replace_gemm(self.model.graph)

    def remove_unused_constant(self) -> None:
        """Constant nodes that nobody reads."""
        read = {i for n in self.model.graph.node for i in inputs_of(n)} | {o.name for o in self.model.graph.output}
        self.remove_nodes([n for n in self.model.graph.node if n.op_type == "Constant" and not set(n.output) & read])

    def clean_initializers(self) -> None:
        """Initializers that nobody reads go, with the inputs of their names."""
        clean_initializers(self.model.graph)

    def topological_sort(self) -> None:
        graph = self.model.graph
        ordered = topologically(graph.node, [i.name for i in graph.input] + [t.name for t in graph.initializer])
        del graph.node[:]
        graph.node.extend(ordered)

    def save_model_to_file(self, output_path: Any, use_external_data_format: bool = False) -> None:
        self.topological_sort()
        if use_external_data_format:
            onnx.external_data_helper.convert_model_to_external_data(self.model, location=_data_file(output_path))
        save_model(self.model, output_path)


def _data_file(path: Any) -> str:
    import os
    location = os.path.basename(str(path)) + ".data"
    old = os.path.join(os.path.dirname(str(path)), location)
    if os.path.exists(old):  # onnx writes behind what is there
        os.remove(old)
    return location


def clean_initializers(graph: GraphProto) -> None:
    read = {i for n in graph.node for i in inputs_of(n)} | {o.name for o in graph.output}
    unread = {t.name for t in graph.initializer} - read
    kept = [t for t in graph.initializer if t.name not in unread]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for i in [i for i in graph.input if i.name in unread]:
        graph.input.remove(i)


def replace_gemm(graph: GraphProto) -> None:
    constants, made = {t.name: t for t in graph.initializer}, []
    for node in graph.node:
        for inner in subgraphs(node):
            replace_gemm(inner)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = node.op_type == "Gemm" and all(attributes.get(n, d) == d for n, d in
                                               (("alpha", 1.0), ("beta", 1.0), ("transA", 0)))
        made.extend(_as_matmul(graph, node, attributes, constants) if plain else [node])
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in made]
    del graph.node[:]
    graph.node.extend(nodes)


def _as_matmul(graph: GraphProto, node: NodeProto, attributes: Dict[str, Any],
               constants: Dict[str, TensorProto]) -> List[NodeProto]:
    b, nodes = node.input[1], []
    if attributes.get("transB", 0):
        turned = b + "_Transposed"
        if b not in constants:
            nodes.append(helper.make_node("Transpose", [b], [turned], (node.name or node.output[0]) + "_Transpose",
                                          perm=[1, 0]))
        elif turned not in constants:
            constants[turned] = numpy_helper.from_array(numpy_helper.to_array(constants[b]).T.copy(), turned)
            graph.initializer.append(constants[turned])
        b = turned
    bias = len(node.input) > 2 and node.input[2]
    product, name = node.output[0] + "_MatMul" if bias else node.output[0], node.name or node.output[0]
    nodes.append(helper.make_node("MatMul", [node.input[0], b], [product], name + "_MatMul"))
    if bias:
        nodes.append(helper.make_node("Add", [product, bias], list(node.output), name + "_Add"))
    return nodes
