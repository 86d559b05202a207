"""Edits of what torch's dynamo exporter writes."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence

import onnx
from onnx import NodeProto, TensorProto

from nacre.transformers.fusion_base import initializer
from nacre.transformers.onnx_model import OnnxModel


class DynamoOnnxHelper:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = OnnxModel(model)

    def update_edges(self, edge_mapping: Dict[str, str]) -> None:
        """Other names for values of the main graph, its inputs and outputs too."""
        graph = self.model.model.graph
        for node in graph.node:
            for names in (node.input, node.output):
                names[:] = [edge_mapping.get(n, n) for n in names]
        for v in [*graph.input, *graph.output]:
            v.name = edge_mapping.get(v.name, v.name)

    def unroll_function(self, func_name: str) -> None:
        """A function's nodes in the place of each of its calls. Values inside of it get the call's name in front,
        except in the first one."""
        graph, functions = self.model.model.graph, self.model.model.functions
        function = next((f for f in functions if f.name == func_name), None)
        if function is None:
            raise ValueError(f"the model has no function '{func_name}'")
        made: List[NodeProto] = []
        calls = 0
        for node in graph.node:
            if node.op_type != func_name:
                made.append(node)
                continue
            names = dict(zip([*function.input, *function.output], [*node.input, *node.output]))
            prefix, calls = "" if calls == 0 else f"{node.name or calls}_", calls + 1
            for inner in function.node:
                copy = onnx.NodeProto.FromString(inner.SerializeToString())
                for part in (copy.input, copy.output):
                    part[:] = [names.get(n, prefix + n if n else n) for n in part]
                copy.name = prefix + copy.name
                made.append(copy)
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in made]
        del graph.node[:]
        graph.node.extend(nodes)
        functions.remove(function)

    def remove_function(self, func_name: str, input_id: int, output_id: int) -> None:
        """Calls of functions with this in their names go: what one gives becomes what it takes."""
        gone = [n for n in self.model.model.graph.node if func_name in n.op_type]
        names = {n.input[input_id]: n.output[output_id] for n in gone}
        for node in gone:
            self.model.model.graph.node.remove(node)
        self.update_edges(names)

    def remove_dropout_layer(self) -> None:
        self.remove_function("Dropout", 0, 0)

    def remove_lm_head_layer(self) -> None:
        self.remove_function("Linear_lm_head", 2, 0)

    def add_initializer(self, name: str, data_type: int, dims: Sequence[int], vals: Any,
                        raw: bool = True) -> TensorProto:
        tensor = initializer(name, data_type, dims, vals, raw)
        self.model.add_initializer(tensor)
        return tensor

    def convert_constants_to_initializers(self, min_size: int = 1) -> None:
        """Constants of so many elements and more."""
        gone = []
        for node in self.model.get_nodes_by_op_type("Constant"):
            value = self.model.get_constant_value(node.output[0])
            if value is not None and value.size >= min_size:
                self.model.add_initializer(onnx.numpy_helper.from_array(value, node.output[0]))
                gone.append(node)
        self.model.remove_nodes(gone)

    def clear_metadata(self) -> None:
        """What the exporter tells of where graphs and nodes come from."""
        for thing in [*self.model.graphs(), *self.model.nodes()]:
            thing.ClearField("metadata_props")

    @staticmethod
    def fold_transpose_initializers(model: Any) -> None:
        """Of a model of onnx_ir: an initializer that a Transpose alone reads is turned, and keeps its name."""
        import onnx_ir as ir
        for name, value in list(model.graph.initializers.items()):
            readers = value.consumers()
            if len(readers) != 1 or readers[0].op_type != "Transpose":
                continue
            perm = readers[0].attributes.get("perm")
            turned = ir.tensor(value.const_value.numpy().transpose(perm.as_ints() if perm is not None else None))
            new = ir.Value(name=name, shape=turned.shape, type=ir.TensorType(turned.dtype), const_value=turned)
            ir.convenience.replace_all_uses_with(readers[0].outputs[0], new)
            model.graph.initializers[name] = new
            readers[0].graph.remove(readers[0], safe=True)
