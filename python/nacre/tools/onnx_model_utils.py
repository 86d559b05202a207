"""Fixed shapes, opsets and optimization of ONNX models, by the names of onnxruntime.tools.onnx_model_utils."""
from __future__ import annotations

import logging
import pathlib
from typing import Any, Dict, Optional, Sequence, Set, Tuple

import onnx

import nacre
from nacre import _inference
from nacre._files import save_model

_LEVELS = {"disable": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED",
           "layout": "ORT_ENABLE_LAYOUT", "all": "ORT_ENABLE_ALL"}


def iterate_graph_per_node_func(graph: onnx.GraphProto, per_node_func: Any, **func_args: Any) -> None:
    """Calls it for each node, those of subgraphs too."""
    for inner in _inference.graphs(graph):
        for node in inner.node:
            per_node_func(node, **func_args)


def iterate_graph_per_graph_func(graph: onnx.GraphProto, per_graph_func: Any, **func_args: Any) -> None:
    """Calls it for the graph and each of its subgraphs."""
    for inner in list(_inference.graphs(graph)):
        per_graph_func(inner, **func_args)


def get_opsets_imported(model: onnx.ModelProto) -> Dict[str, int]:
    return {o.domain or "ai.onnx": o.version for o in model.opset_import}


def update_onnx_opset(model_path: pathlib.Path, opset: int, out_path: Optional[pathlib.Path] = None,
                      logger: Optional[logging.Logger] = None) -> onnx.ModelProto:
    """The model in another opset, by onnx's converter; written if out_path is given."""
    model = onnx.version_converter.convert_version(onnx.load(str(model_path)), opset)
    if logger:
        logger.info("%s is in opset %d", model_path, opset)
    if out_path is not None:
        save_model(model, out_path)
    return model


def get_optimization_level(level: str) -> Any:
    if level not in _LEVELS:
        raise ValueError(f"level is '{level}', expected one of {', '.join(_LEVELS)}")
    return getattr(nacre.GraphOptimizationLevel, _LEVELS[level])


def optimize_model(model_path: pathlib.Path, output_path: pathlib.Path,
                   level: Any = nacre.GraphOptimizationLevel.ORT_ENABLE_BASIC, log_level: int = 3,
                   use_external_initializers: bool = False) -> None:
    """Writes the model as the passes of this level leave it."""
    options = nacre.SessionOptions()
    options.optimized_model_filepath = str(output_path)
    options.graph_optimization_level = level
    options.log_severity_level = log_level
    if use_external_initializers:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name",
                                         pathlib.Path(output_path).name + ".data")
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    nacre.InferenceSession(str(model_path), options)


# ---- shapes ----

def _dims(value: onnx.ValueInfoProto) -> Any:
    return value.type.tensor_type.shape.dim


def make_dim_param_fixed(graph: onnx.GraphProto, param_name: str, value: int) -> None:
    """Every dim of this symbol becomes a number."""
    if value <= 0:
        raise ValueError(f"dim '{param_name}': expected a positive number, got {value}")
    for inner in list(_inference.graphs(graph)):
        for part in (inner.input, inner.output, inner.value_info):
            for v in part:
                for d in _dims(v):
                    if d.dim_param == param_name:
                        d.dim_value = value


def remove_invalid_dim_values(graph: onnx.GraphProto) -> None:
    """A dim below 1 in a file means that it is not known."""
    for inner in list(_inference.graphs(graph)):
        for part in (inner.input, inner.output, inner.value_info):
            for v in part:
                for d in _dims(v):
                    if d.HasField("dim_value") and d.dim_value < 1:
                        d.Clear()


def make_input_shape_fixed(graph: onnx.GraphProto, input_name: str, fixed_shape: Sequence[int]) -> None:
    """An input's open dims become these numbers, and so does every dim of the same symbols."""
    found = next((i for i in graph.input if i.name == input_name), None)
    if found is None:
        raise ValueError(f"the graph has no input '{input_name}'; it has {', '.join(i.name for i in graph.input)}")
    if not found.type.tensor_type.HasField("shape"):
        for number in fixed_shape:
            found.type.tensor_type.shape.dim.add().dim_value = number
        return
    dims = _dims(found)
    if len(dims) != len(fixed_shape):
        raise ValueError(f"input '{input_name}' has {len(dims)} dims, the shape {len(fixed_shape)}")
    for i, (d, number) in enumerate(zip(dims, fixed_shape)):
        if d.HasField("dim_value") and d.dim_value != number:
            raise ValueError(f"input '{input_name}': dim {i} is {d.dim_value}, asked for was {number}")
    for d, number in zip(dims, fixed_shape):
        if d.dim_param:
            make_dim_param_fixed(graph, d.dim_param, number)
        else:
            d.dim_value = number


def fix_output_shapes(model: onnx.ModelProto) -> None:
    """Outputs get the dims that follow from the inputs', where those are numbers."""
    told = {o.name: o.type for o in _inference.inferred(model).graph.output}
    for output in model.graph.output:
        if not is_fixed_size_tensor(output) and output.name in told:
            candidate = onnx.ValueInfoProto(name=output.name, type=told[output.name])
            if is_fixed_size_tensor(candidate):
                output.type.CopyFrom(told[output.name])


def is_fixed_size_tensor(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is a tensor whose dims are all positive numbers."""
    kind = value.type.tensor_type
    return value.type.HasField("tensor_type") and kind.HasField("shape") and all(
        d.HasField("dim_value") and d.dim_value > 0 for d in kind.shape.dim)


# ---- who makes, who reads ----

Links = Dict[onnx.NodeProto, Set[onnx.NodeProto]]


def get_producer_consumer_maps(graph: onnx.GraphProto) -> Tuple[Links, Links]:
    """By node: those that make what it reads, and those that read what it makes, in each subgraph too; a subgraph reads
    for the node that holds it. Nodes are told apart as objects: onnx leaves them without a hash, and gets one here."""
    from nacre.quantization.onnx_model import inputs_of
    onnx.NodeProto.__hash__ = lambda self: id(self)  # type: ignore[method-assign]
    makers: Links = {}
    readers: Links = {}
    for inner in _inference.graphs(graph):
        nodes = list(inner.node)
        maker = {o: node for node in nodes for o in node.output if o}
        for node in nodes:
            for name in inputs_of(node):
                if name in maker:
                    makers.setdefault(node, set()).add(maker[name])
                    readers.setdefault(maker[name], set()).add(node)
    known = {v.name for part in (graph.input, graph.initializer) for v in part} | {
        o for node in graph.node for o in node.output}
    missing = sorted({i for node in graph.node for i in inputs_of(node) if i and i not in known})
    if missing:
        raise ValueError(f"the graph reads {', '.join(missing)}, which nothing gives")
    return makers, readers


class ModelProtoWithShapeInfo:
    """A model's file, with the types of all values written into model_with_shape_info."""

    def __init__(self, model_path: pathlib.Path) -> None:
        from nacre.quantization.quant_utils import save_and_reload_model_with_shape_infer
        self.model_path = model_path
        self.model_with_shape_info = save_and_reload_model_with_shape_infer(onnx.load(str(model_path)))
