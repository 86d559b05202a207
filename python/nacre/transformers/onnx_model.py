"""OnnxModel: what optimize_model returns. A proto with questions and edits, by the names that scripts know."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from nacre import _inference
from nacre._files import save_model
from nacre.quantization.onnx_model import ONNXModel, clean_initializers, inputs_of, topologically
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

    def get_graphs_input_names(self) -> List[str]:
        return [i.name for graph in self.graphs() for i in graph.input]

    def get_graphs_output_names(self) -> List[str]:
        return [o.name for graph in self.graphs() for o in graph.output]

    def get_graph_by_node(self, node: NodeProto) -> Optional[GraphProto]:
        return next((g for g in self.graphs() if node in g.node), None)

    def get_graph_by_name(self, graph_name: str) -> Optional[GraphProto]:
        return next((g for g in self.graphs() if g.name == graph_name), None)

    def input_name_to_nodes(self, exclude_subgraphs: bool = False) -> Dict[str, List[NodeProto]]:
        found: Dict[str, List[NodeProto]] = {}
        for node in self.model.graph.node if exclude_subgraphs else self.nodes():
            for name in dict.fromkeys(n for n in node.input if n):
                found.setdefault(name, []).append(node)
        return found

    def output_name_to_node(self, exclude_subgraphs: bool = False) -> Dict[str, NodeProto]:
        nodes = self.model.graph.node if exclude_subgraphs else self.nodes()
        return {o: node for node in nodes for o in node.output if o}

    def get_children(self, node: NodeProto, input_name_to_nodes: Any = None,
                     output_index: Optional[int] = None) -> List[NodeProto]:
        readers = self.input_name_to_nodes() if input_name_to_nodes is None else input_name_to_nodes
        outputs = node.output if output_index is None else node.output[output_index:output_index + 1]
        return [n for o in outputs for n in readers.get(o, [])]

    def get_parent(self, node: NodeProto, i: int, output_name_to_node: Any = None) -> Optional[NodeProto]:
        return super().get_parent(node, i, output_name_to_node)

    def get_topological_insert_id(self, graph: GraphProto, outputs: Any) -> int:
        """Where a node that gives `outputs` may stand: before the first that reads one of them."""
        found = (i for i, node in enumerate(graph.node) if set(node.input) & set(outputs))
        return next(found, len(graph.node))

    def get_graph_inputs(self, current_node: NodeProto, recursive: bool = False) -> List[str]:
        """The graph's inputs that a node reads; recursive: or that reach it through others."""
        nodes = [current_node, *(self.get_parent_subgraph_nodes(current_node, []) if recursive else [])]
        return list(dict.fromkeys(i for n in nodes for i in n.input if self.find_graph_input(i) is not None))

    def use_float16(self) -> bool:
        half = onnx.TensorProto.FLOAT16
        for g in self.graphs():
            if any(v.type.tensor_type.elem_type == half or v.type.sequence_type.elem_type.tensor_type.elem_type == half
                   for part in (g.input, g.output, g.value_info) for v in part):
                return True
            if any(t.data_type == half for t in g.initializer) or any(
                    (a.name == "to" and a.i == half and n.op_type == "Cast") or a.t.data_type == half or any(
                        t.data_type == half for t in a.tensors) for n in g.node for a in n.attribute):
                return True
        return False

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

    def add_initializer(self, tensor: Any, graph_name: Optional[str] = None) -> None:
        next(g for g in self.graphs() if graph_name in (None, g.name)).initializer.append(tensor)

    def add_input(self, input: Any, graph_name: Optional[str] = None) -> None:
        next(g for g in self.graphs() if graph_name in (None, g.name)).input.append(input)

    def rename_graph_output(self, old_name: str, new_name: str) -> None:
        if new_name in self.output_name_to_node():
            raise RuntimeError(f"'{new_name}' is in the graph already")
        for output in self.model.graph.output:
            if output.name == old_name:
                output.name = new_name
                for node in self.nodes():
                    self.replace_node_input(node, old_name, new_name)
                    self.replace_node_output(node, old_name, new_name)

    def add_prefix_to_names(self, prefix: str) -> None:
        """Before the names of values that are neither inputs nor outputs of the main graph; subgraphs keep theirs."""
        graph = self.model.graph
        kept = {""} | {v.name for part in (graph.input, graph.output) for v in part}
        for named in [*graph.initializer, *graph.value_info]:
            named.name = named.name if named.name in kept else prefix + named.name
        for node in graph.node:
            node.input[:] = [n if n in kept else prefix + n for n in node.input]
            node.output[:] = [n if n in kept else prefix + n for n in node.output]

    def _cast(self, source: str, target: str, kind: int, like: Any, inner: str) -> NodeProto:
        """A Cast between a value of the graph's rim and `inner`, which is told to be as the rim's was."""
        told = self.model.graph.value_info.add()
        told.CopyFrom(like)
        told.name = inner
        self.model.graph.node.append(helper.make_node("Cast", [source], [target], self.create_node_name("Cast"),
                                                      to=kind))
        return self.model.graph.node[-1]

    def change_graph_input_type(self, graph_input: Any, new_type: int) -> Any:
        """(the Cast behind it or None, Casts that went): its readers get what they got before."""
        old, name = graph_input.type.tensor_type.elem_type, graph_input.name
        if old == int(new_type):
            return None, []
        readers, gone, cast = self.input_name_to_nodes().get(name, []), [], None
        for node in [n for n in readers if n.op_type == "Cast"]:  # these take any type
            if self.get_node_attribute(node, "to") == int(new_type) and self.find_graph_output(node.output[0]) is None:
                self.replace_input_of_all_nodes(node.output[0], name)
                gone.append(node)
        self.remove_nodes(gone)
        others = [n for n in readers if n.op_type != "Cast"]
        if others:
            inner = f"{self.create_node_name('Cast')}_{name}"
            for node in others:
                self.replace_node_input(node, name, inner)
            cast = self._cast(name, inner, old, graph_input, inner)
        graph_input.type.tensor_type.elem_type = int(new_type)
        return cast, gone

    def change_graph_output_type(self, graph_output: Any, new_type: int) -> Optional[NodeProto]:
        """The Cast in front of it, or None: the nodes give what they gave before."""
        name = graph_output.name
        if graph_output.type.tensor_type.elem_type == int(new_type):
            return None
        inner = f"{self.create_node_name('Cast')}_{name}"
        for node in self.nodes():
            self.replace_node_input(node, name, inner)
            self.replace_node_output(node, name, inner)
        cast = self._cast(inner, name, int(new_type), graph_output, inner)
        graph_output.type.tensor_type.elem_type = int(new_type)
        return cast

    def remove_cascaded_cast_nodes(self) -> None:
        """A Cast of a Cast takes what the first one took, whatever that one lost."""
        makers = self.output_name_to_node()
        for node in self.get_nodes_by_op_type("Cast"):
            first = makers.get(node.input[0])
            if first is not None and first.op_type == "Cast":
                node.input[0] = first.input[0]
        self.prune_graph()

    def remove_useless_cast_nodes(self) -> None:
        """Casts to the type that their input has."""
        types = _inference.types_of(self.model)
        rim = set(self.get_graphs_output_names())
        for node in self.get_nodes_by_op_type("Cast"):
            kind = types.get(node.input[0])
            if kind is not None and kind.tensor_type.elem_type == self.get_node_attribute(node, "to") and \
                    node.output[0] not in rim:
                self.replace_input_of_all_nodes(node.output[0], node.input[0])
                self.remove_node(node)

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

    @staticmethod
    def to_data_hash(tensor: Any, base_dir: str = "") -> int:
        if tensor.data_type == onnx.TensorProto.STRING:
            return hash(tuple(tensor.string_data))
        return hash(numpy_helper.to_array(tensor, base_dir).tobytes())

    @staticmethod
    def has_same_value(tensor1: Any, tensor2: Any, signature_cache1: Optional[Dict[str, int]] = None,
                       signature_cache2: Optional[Dict[str, int]] = None, rtol: float = 1e-05,
                       atol: float = 1e-08) -> bool:
        """Nearly the same numbers of the same type and shape. The caches are filled with hashes by name."""
        for cache, t in ((signature_cache1, tensor1), (signature_cache2, tensor2)):
            if cache is not None:
                cache.setdefault(t.name, OnnxModel.to_data_hash(t))
        if tensor1.data_type != tensor2.data_type or list(tensor1.dims) != list(tensor2.dims):
            return False
        a, b = numpy_helper.to_array(tensor1), numpy_helper.to_array(tensor2)
        return bool((a == b).all() if a.dtype == object else np.allclose(a, b, rtol=rtol, atol=atol))

    def disable_shape_inference(self) -> None:
        """Nothing: types are asked for where they are needed, and never kept."""

    def clean_shape_infer(self) -> None:
        self.model.graph.ClearField("value_info")

    def infer_runtime_shape(self, dynamic_axis_mapping: Dict[str, int] = {},  # noqa: B006
                            update: bool = False) -> Any:
        """A SymbolicShapeInferenceHelper that has inferred this model; None where a shape stays unknown."""
        from nacre.transformers.shape_infer_helper import SymbolicShapeInferenceHelper
        found = SymbolicShapeInferenceHelper(self.model)
        return found if found.infer(dynamic_axis_mapping) else None

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

    @staticmethod
    def graph_topological_sort(graph: GraphProto, is_deterministic: bool = False) -> None:
        """Those that are ready keep their order, so the result is always the same one."""
        ordered = topologically(graph.node, [i.name for i in graph.input] + [t.name for t in graph.initializer])
        del graph.node[:]
        graph.node.extend(ordered)

    def topological_sort(self, is_deterministic: bool = False, dump_model_on_failure: bool = False) -> None:
        super().topological_sort()

    @staticmethod
    def save(model: ModelProto, output_path: Any, save_as_external_data: bool = False,
             all_tensors_to_one_file: bool = True, size_threshold: int = 1024, convert_attribute: bool = False) -> None:
        location = os.path.basename(str(output_path)) + ".data" if all_tensors_to_one_file else None
        save_model(model, output_path, save_as_external_data=save_as_external_data,
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
