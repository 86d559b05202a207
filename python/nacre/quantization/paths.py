"""Questions about a graph's neighbours that scripts ask of models and of fusions alike."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
from onnx import NodeProto, helper

Readers = Dict[str, List[NodeProto]]
Makers = Dict[str, NodeProto]


class Paths:
    def whole(self) -> Any:
        """The model that is asked about."""
        raise NotImplementedError

    # ---- questions ----

    @staticmethod
    def is_safe_to_fuse_nodes(nodes_to_remove: List[NodeProto], keep_outputs: Sequence[str],
                              input_name_to_nodes: Readers, output_name_to_node: Makers) -> bool:
        """Nobody else reads what goes."""
        gone = {o for n in nodes_to_remove for o in n.output} - set(keep_outputs)
        return all(reader in nodes_to_remove for o in gone for reader in input_name_to_nodes.get(o, []))

    @staticmethod
    def get_node_attribute(node: NodeProto, attribute_name: str) -> Any:
        return next((helper.get_attribute_value(a) for a in node.attribute if a.name == attribute_name), None)

    @staticmethod
    def input_index(node_output: str, child_node: NodeProto) -> int:
        return next((i for i, name in enumerate(child_node.input) if name == node_output), -1)

    @staticmethod
    def tensor_shape_to_list(tensor_type: Any) -> List[Any]:
        return [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor_type.shape.dim]

    def get_constant_input(self, node: NodeProto) -> Tuple[Optional[int], Any]:
        found = ((i, self.whole().get_constant_value(name)) for i, name in enumerate(node.input))
        return next(((i, value) for i, value in found if value is not None), (None, None))

    def find_constant_input(self, node: NodeProto, expected_value: float, delta: float = 1e-6) -> int:
        i, value = self.get_constant_input(node)
        fits = i is not None and np.size(value) == 1 and abs(np.asarray(value).item() - expected_value) < delta
        return i if i is not None and fits else -1

    def has_constant_input(self, node: NodeProto, expected_value: float, delta: float = 1e-6) -> bool:
        return self.find_constant_input(node, expected_value, delta) >= 0

    def is_constant_with_specified_rank(self, output_name: str, rank: int) -> bool:
        value = self.whole().get_constant_value(output_name)
        return value is not None and value.ndim == rank

    # ---- neighbours ----

    def match_first_parent(self, node: NodeProto, parent_op_type: str, output_name_to_node: Optional[Makers] = None,
                           exclude: Sequence[NodeProto] = ()) -> Tuple[Optional[NodeProto], Optional[int]]:
        makers = self.whole().output_name_to_node() if output_name_to_node is None else output_name_to_node
        for i, name in enumerate(node.input):
            parent = makers.get(name)
            if parent is not None and parent.op_type == parent_op_type and parent not in exclude:
                return parent, i
        return None, None

    def match_parent(self, node: NodeProto, parent_op_type: str, input_index: Optional[int] = None,
                     output_name_to_node: Optional[Makers] = None, exclude: Sequence[NodeProto] = (),
                     return_indice: Optional[List[Any]] = None) -> Optional[NodeProto]:
        """What makes that input, or the first that fits; then return_indice gets which."""
        if input_index is None:
            parent, i = self.match_first_parent(node, parent_op_type, output_name_to_node, exclude)
            if return_indice is not None:
                return_indice.append(i)
            return parent
        if input_index >= len(node.input):
            return None
        parent = self.whole().get_parent(node, input_index, output_name_to_node)
        fits = parent is not None and parent.op_type == parent_op_type and parent not in exclude
        return parent if fits else None

    def match_parent_path(self, node: NodeProto, parent_op_types: List[str],
                          parent_input_index: Optional[List[Any]] = None,
                          output_name_to_node: Optional[Makers] = None,
                          return_indice: Optional[List[Any]] = None) -> Optional[List[NodeProto]]:
        """Maker of maker of ..., one for each of these operators; None where the chain breaks."""
        makers = self.whole().output_name_to_node() if output_name_to_node is None else output_name_to_node
        places = parent_input_index or [None] * len(parent_op_types)
        if len(places) != len(parent_op_types):
            raise ValueError(f"{len(parent_op_types)} operators and {len(places)} places of inputs")
        found: List[NodeProto] = []
        for op, place in zip(parent_op_types, places):
            parent = self.match_parent(found[-1] if found else node, op, place, makers, (), return_indice)
            if parent is None:
                return None
            found.append(parent)
        return found

    def match_parent_paths(self, node: NodeProto, paths: List[Tuple[List[str], List[int]]],
                           output_name_to_node: Makers) -> Tuple[int, Optional[List[NodeProto]], Optional[List[int]]]:
        for i, (ops, places) in enumerate(paths):
            told: List[int] = []
            found = self.match_parent_path(node, ops, places, output_name_to_node, told)
            if found:
                return i, found, told
        return -1, None, None

    def match_parent_paths_all(self, node: NodeProto, paths: List[Tuple[List[str], List[int]]],
                               output_name_to_node: Makers) -> Tuple[List[int], List[List[NodeProto]], List[List[int]]]:
        """Every path that fits: which, its nodes, its places."""
        every = [(i, self.match_parent_paths(node, [path], output_name_to_node)) for i, path in enumerate(paths)]
        found = [(i, nodes, told) for i, (at, nodes, told) in every if at >= 0]
        return ([i for i, _, _ in found], [n for _, n, _ in found if n], [t for _, _, t in found if t is not None])

    def match_child_path(self, node: NodeProto, child_op_types: List[str],
                         edges: Optional[List[Tuple[int, int]]] = None, input_name_to_nodes: Optional[Readers] = None,
                         exclude: Sequence[NodeProto] = ()) -> Optional[List[NodeProto]]:
        """Reader of reader of ..., the first of each operator; edges: from which output to which input."""
        readers = self.whole().input_name_to_nodes() if input_name_to_nodes is None else input_name_to_nodes
        found: List[NodeProto] = []
        for k, op in enumerate(child_op_types):
            last = found[-1] if found else node
            outputs = last.output if edges is None else last.output[edges[k][0]:edges[k][0] + 1]
            fits = (n for o in outputs for n in readers.get(o, []) if n.op_type == op and n not in exclude
                    and (edges is None or list(n.input)[edges[k][1]:edges[k][1] + 1] == [o]))
            child = next(fits, None)
            if child is None:
                return None
            found.append(child)
        return found

    def find_first_parent_by_type(self, node: NodeProto, parent_type: str, output_name_to_node: Optional[Makers] = None,
                                  recursive: bool = True) -> Optional[NodeProto]:
        """The nearest maker of this operator; recursive: or maker of a maker."""
        near = [] if recursive else self.whole().get_parents(node, output_name_to_node)
        nodes = self.get_parent_subgraph_nodes(node, [], output_name_to_node) if recursive else near
        return next((n for n in nodes if n.op_type == parent_type), None)

    def get_parent_subgraph_nodes(self, node: NodeProto, stop_nodes: Sequence[NodeProto],
                                  output_name_to_node: Optional[Makers] = None) -> List[NodeProto]:
        """All that a node needs, nearest first, without what stands before stop_nodes."""
        makers = self.whole().output_name_to_node() if output_name_to_node is None else output_name_to_node
        return _reached(node, stop_nodes, lambda n: [makers[i] for i in n.input if i in makers])

    def get_children_subgraph_nodes(self, root_node: NodeProto, stop_nodes: Sequence[NodeProto],
                                    input_name_to_nodes: Optional[Readers] = None) -> List[NodeProto]:
        """All that needs a node's first output, nearest first, without what stands behind stop_nodes."""
        readers = self.whole().input_name_to_nodes() if input_name_to_nodes is None else input_name_to_nodes
        return _reached(root_node, stop_nodes, lambda n: [r for o in (n.output[:1] if n is root_node else n.output)
                                                          for r in readers.get(o, [])])

    def is_constant_with_specified_dimension(self, output_name: str, dimensions: int, description: str) -> bool:
        return self.is_constant_with_specified_rank(output_name, dimensions)

    def find_first_child_by_type(self, node: NodeProto, child_type: str, input_name_to_nodes: Optional[Readers] = None,
                                 recursive: bool = True) -> Optional[NodeProto]:
        """The nearest reader of this operator; recursive: or reader of a reader."""
        waiting = list(self.whole().get_children(node, input_name_to_nodes))
        for child in waiting:  # it grows meanwhile
            if child.op_type == child_type:
                return child
            if recursive:
                waiting.extend(n for n in self.whole().get_children(child, input_name_to_nodes) if n not in waiting)
        return None


def _reached(start: NodeProto, stop: Sequence[NodeProto], neighbours: Callable[[NodeProto], List[NodeProto]],
             ) -> List[NodeProto]:
    """Nodes in the order of their distance from the first, which is not among them."""
    found: List[NodeProto] = []
    waiting = neighbours(start)
    while waiting:
        node = waiting.pop(0)
        if node not in stop and node not in found:
            found.append(node)
            waiting += neighbours(node)
    return found
