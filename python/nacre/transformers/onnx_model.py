"""OnnxModel: what optimize_model returns. A proto with questions and edits, by the names that scripts know."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from nacre import _inference
from nacre.quantization.onnx_model import ONNXModel, clean_initializers, inputs_of
from nacre.quantization.paths import Paths


class OnnxModel(ONNXModel, Paths):
    def __init__(self, model: ModelProto) -> None:
        self.initialize(model)

    def initialize(self, model: ModelProto) -> None:
        self.model: ModelProto = model
        self.fused: Dict[str, int] = {}

    def whole(self) -> "OnnxModel":
        return self

    # ---- parts ----

    def nodes(self) -> List[NodeProto]:
        return [node for graph in self.graphs() for node in graph.node]

    def graphs(self) -> List[GraphProto]:
        return list(_inference.graphs(self.model.graph))

    def functions(self) -> Any:
        return self.model.functions

    def get_opset_version(self) -> int:
        for o in self.model.opset_import:
            if o.domain in ("", "ai.onnx"):
                return o.version
        raise RuntimeError("the model imports no opset of ai.onnx")

    def get_nodes_by_op_type(self, op_type: str) -> List[NodeProto]:
        return [n for n in self.nodes() if n.op_type == op_type]

    def get_graph_inputs_excluding_initializers(self) -> List[Any]:
        weights = self.get_initializer_name_set()
        return [i for i in self.model.graph.input if i.name not in weights]

    def get_operator_statistics(self, include_domain: bool = False) -> Dict[str, int]:
        """How many nodes each operator has."""
        found: Dict[str, int] = {}
        for node in self.nodes():
            name = f"{node.domain}:{node.op_type}" if include_domain and node.domain else node.op_type
            found[name] = found.get(name, 0) + 1
        return found

    def get_fused_operator_statistics(self) -> Dict[str, int]:
        """How many nodes of each operator the optimizer has put in the place of several."""
        return dict(self.fused)

    def is_fully_optimized(self, fused_op_count: Optional[Dict[str, int]] = None) -> bool:
        """Whether normalizations and attention, or Gelu, were found."""
        found = fused_op_count or self.get_operator_statistics()
        attention = any(found.get(n, 0) for n in ("Attention", "MultiHeadAttention", "GroupQueryAttention"))
        norms = any(found.get(n, 0) for n in ("LayerNormalization", "SkipLayerNormalization", "RMSNormalization"))
        return bool(attention and norms)

    # ---- edits ----

    def remove_nodes(self, nodes_to_remove: Any) -> None:
        for node in nodes_to_remove:
            for graph in self.graphs():
                if node in graph.node:
                    graph.node.remove(node)
                    break

    def remove_node(self, node: NodeProto) -> None:
        self.remove_nodes([node])

    def add_node(self, node: NodeProto, graph_name: Optional[str] = None) -> None:
        next(g for g in self.graphs() if graph_name in (None, g.name)).node.append(node)

    def add_nodes(self, nodes_to_add: Any, node_name_to_graph_name: Optional[Dict[str, str]] = None) -> None:
        for node in nodes_to_add:
            self.add_node(node, (node_name_to_graph_name or {}).get(node.name))

    def create_node_name(self, op_type: str, name_prefix: Optional[str] = None) -> str:
        prefix = name_prefix if name_prefix and name_prefix.endswith("_") else f"{name_prefix or op_type}_"
        return f"{prefix}{self._largest_suffix((n.name for n in self.nodes()), prefix) + 1}"

    def change_graph_inputs_to_int32(self) -> None:
        """Inputs of int64 become int32, with a Cast behind them."""
        for v in self.model.graph.input:
            if v.type.tensor_type.elem_type == onnx.TensorProto.INT64:
                v.type.tensor_type.elem_type = onnx.TensorProto.INT32
                wide = v.name + "_int64"
                for node in self.nodes():
                    self.replace_node_input(node, v.name, wide)
                self.model.graph.node.insert(0, helper.make_node("Cast", [v.name], [wide], wide + "_cast",
                                                                 to=onnx.TensorProto.INT64))

    def use_dynamic_axes(self, dynamic_batch_dim: str = "batch_size", dynamic_seq_len: str = "max_seq_len") -> None:
        """The first dim of every input and output becomes a symbol; of inputs of two dims the second too."""
        for v in [*self.model.graph.input, *self.model.graph.output]:
            dims = v.type.tensor_type.shape.dim
            if len(dims):
                dims[0].dim_param = dynamic_batch_dim
        for v in self.model.graph.input:
            dims = v.type.tensor_type.shape.dim
            if len(dims) == 2 and dynamic_seq_len is not None:
                dims[1].dim_param = dynamic_seq_len

    def prune_graph(self, outputs: Optional[List[str]] = None, allow_remove_graph_inputs: bool = True) -> None:
        """What no output needs goes; outputs: only these stay."""
        graph = self.model.graph
        if outputs is not None:
            for o in [o for o in graph.output if o.name not in outputs]:
                graph.output.remove(o)
        needed, kept = {o.name for o in graph.output}, []
        makers = {o: n for n in graph.node for o in n.output if o}
        stack = list(needed)
        while stack:
            node = makers.get(stack.pop())
            if node is not None and not any(node is k for k in kept):
                kept.append(node)
                fresh = [i for i in inputs_of(node) if i not in needed]
                needed.update(fresh)
                stack.extend(fresh)
        dead = [n for n in graph.node if not any(n is k for k in kept)]
        for node in dead:
            graph.node.remove(node)
        if allow_remove_graph_inputs:
            for i in [i for i in graph.input if i.name not in needed]:
                graph.input.remove(i)
        clean_initializers(graph)

    def update_graph(self, verbose: bool = False, allow_remove_graph_inputs: bool = False) -> None:
        self.prune_graph(None, allow_remove_graph_inputs)

    def remove_duplicated_initializer(self, cache: Optional[Dict[str, Any]] = None) -> None:
        """Initializers with the same numbers become one."""
        seen: Dict[Any, str] = {}
        for t in list(self.model.graph.initializer):
            key = (t.data_type, tuple(t.dims), numpy_helper.to_array(t).tobytes())
            first = seen.setdefault(key, t.name)
            if first != t.name:
                for node in self.nodes():
                    self.replace_node_input(node, t.name, first)
        clean_initializers(self.model.graph)

    def get_dtype(self, name: str, symbolic_shape_helper: Any = None) -> Optional[int]:
        kind = _inference.types_of(self.model).get(name)
        return kind.tensor_type.elem_type if kind is not None else None

    def get_shape(self, name: str, symbolic_shape_helper: Any = None) -> Optional[List[Any]]:
        kind = _inference.types_of(self.model).get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.tensor_type.shape.dim]

    # ---- float16 ----

    def convert_float_to_float16(self, use_symbolic_shape_infer: bool = True, **kwargs: Any) -> None:
        from nacre.transformers import float16
        known = {"keep_io_types", "disable_shape_infer", "op_block_list", "node_block_list", "force_fp16_initializers",
                 "force_fp16_inputs", "min_positive_val", "max_finite_val", "use_bfloat16_as_blocked_nodes_dtype"}
        told = {"keep_io_types": True, **{k: v for k, v in kwargs.items() if k in known}}
        fused = self.fused
        self.initialize(float16.convert_float_to_float16(self.model, **told))
        self.fused = fused

    def convert_model_float32_to_float16(self, cast_input_output: bool = True) -> None:
        self.convert_float_to_float16(keep_io_types=cast_input_output)

    # ---- order and files ----

    def topological_sort(self, is_deterministic: bool = False, dump_model_on_failure: bool = False) -> None:
        super().topological_sort()

    @staticmethod
    def save(model: ModelProto, output_path: Any, save_as_external_data: bool = False,
             all_tensors_to_one_file: bool = True, size_threshold: int = 1024, convert_attribute: bool = False) -> None:
        location = os.path.basename(str(output_path)) + ".data" if all_tensors_to_one_file else None
        if save_as_external_data and location:
            old = os.path.join(os.path.dirname(str(output_path)), location)
            if os.path.exists(old):  # onnx writes behind what is there
                os.remove(old)
        onnx.save(model, str(output_path), save_as_external_data=save_as_external_data,
                  all_tensors_to_one_file=all_tensors_to_one_file, location=location, size_threshold=size_threshold,
                  convert_attribute=convert_attribute)

    def save_model_to_file(self, output_path: Any, use_external_data_format: bool = False,
                           all_tensors_to_one_file: bool = True, size_threshold: int = 1024,
                           convert_attribute: bool = False) -> None:
        OnnxModel.save(self.model, output_path, use_external_data_format, all_tensors_to_one_file, size_threshold,
                       convert_attribute)


def fused_between(before: ModelProto, after: ModelProto) -> Dict[str, int]:
    """Operators of which there are more nodes than before although there are fewer in all: what fusion has made."""
    counts = [OnnxModel(m).get_operator_statistics() for m in (before, after)]
    more = {op: n - counts[0].get(op, 0) for op, n in counts[1].items()}
    return {op: n for op, n in more.items() if n > 0}
