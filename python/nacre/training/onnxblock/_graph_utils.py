"""Names, and nodes, inputs and constants added to a base model: what blocks are made of."""
from __future__ import annotations

import itertools
from typing import Any, List, Optional, Sequence

import numpy as np

from nacre.training._onnx import onnx

_numbers = itertools.count(1)


def generate_graph_name(token: str) -> str:
    """A name that no other call gives."""
    return f"onnx::{token}::{next(_numbers)}"


#: Of domains that a block may bring in, where it is not 1.
_VERSIONS = {"ai.onnx.ml": 2}


def _needs_domain(model: Any, domain: str) -> None:
    if domain and all(o.domain != domain for o in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(domain, _VERSIONS.get(domain, 1)))


def add_node(model: Any, op: str, inputs: Sequence[str], outputs: Sequence[str], *, name: Optional[str] = None,
             domain: str = "", **attributes: Any) -> None:
    """Adds a node, and the import of its domain where the model has none."""
    node = onnx.helper.make_node(op, list(inputs), list(outputs), name=generate_graph_name(name or op), domain=domain,
                                 **attributes)
    _needs_domain(model, domain)
    model.graph.node.append(node)


def add_initializer(model: Any, token: str, values: Any) -> str:
    """Adds a constant; gives its name."""
    name = generate_graph_name(token)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return name


def node_arg_exists(model: Any, name: str) -> bool:
    """Whether a value of that name is in the model."""
    graph = model.graph
    return (any(v.name == name for v in itertools.chain(graph.input, graph.output, graph.value_info, graph.initializer))
            or any(name in node.output for node in graph.node))


def _from_initializer(tensor: Any) -> Any:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def find_info(model: Any, name: str) -> Any:
    """What the model says of a value, as a ValueInfoProto; None: it says nothing."""
    graph = model.graph
    for info in itertools.chain(graph.input, graph.output, graph.value_info):
        if info.name == name and info.HasField("type"):
            return info
    for tensor in graph.initializer:
        if tensor.name == name:
            return _from_initializer(tensor)
    return None


def find_inferred(model: Any, name: str) -> Any:
    """The same, after inference where the model itself says nothing."""
    info = find_info(model, name)
    if info is None and node_arg_exists(model, name):
        infer_shapes(model)
        info = find_info(model, name)
    return info


def dtype_of(model: Any, name: str) -> Any:
    """numpy's type for a tensor's elements; float32 where nothing is known."""
    info = find_inferred(model, name)
    number = info.type.tensor_type.elem_type if info is not None else 0
    return onnx.helper.tensor_dtype_to_np_dtype(number) if number else np.dtype(np.float32)


def get_output_from_output_name(model: Any, name: str) -> Any:
    """The ValueInfoProto of a value that is to be an output, or LookupError."""
    info = find_inferred(model, name)
    if info is None and node_arg_exists(model, name):
        return onnx.ValueInfoProto(name=name)  # of an operator that onnx does not know
    if info is None:
        raise LookupError(f"The provided name {name} is not a graph value info or a graph output.")
    return info


def get_input_like(model: Any, name: str) -> Any:
    """The ValueInfoProto of a value that an input is to be like, or LookupError."""
    info = find_inferred(model, name)
    if info is None:
        raise LookupError(f"Could not find input or output with name {name}")
    return info


def infer_shapes(model: Any) -> None:
    """What onnx's inference finds goes into the model's value_info. It only adds: what it cannot see stays unsaid."""
    known = {v.name for v in itertools.chain(model.graph.input, model.graph.output, model.graph.value_info)}
    light = _without_large_data(model)
    for info in onnx.shape_inference.infer_shapes(light).graph.value_info:
        if info.name not in known:
            model.graph.value_info.append(info)


#: Constants of more bytes than this decide no shape, and inference need not copy them.
_LARGE = 1 << 16


def _without_large_data(model: Any) -> Any:
    light = onnx.ModelProto()
    light.CopyFrom(_header(model))
    light.graph.CopyFrom(_graph_without_data(model.graph))
    return light


def _header(model: Any) -> Any:
    head = onnx.ModelProto(ir_version=model.ir_version)
    head.opset_import.extend(model.opset_import)
    head.functions.extend(model.functions)
    return head


def _graph_without_data(graph: Any) -> Any:
    light = onnx.GraphProto(name=graph.name)
    light.node.extend(graph.node)
    light.input.extend(graph.input)
    light.output.extend(graph.output)
    light.value_info.extend(graph.value_info)
    light.sparse_initializer.extend(graph.sparse_initializer)
    inputs = {i.name for i in graph.input}
    for tensor in graph.initializer:
        if tensor.ByteSize() <= _LARGE and not tensor.external_data:
            light.initializer.append(tensor)
        elif tensor.name not in inputs:
            light.input.append(_from_initializer(tensor))
    return light


def register_graph_outputs(model: Any, names: Any) -> None:
    """The model's outputs become those that a block gives: a name, or several."""
    wanted: List[str] = [names] if isinstance(names, str) else list(names)
    infos = []
    for name in wanted:
        info = onnx.ValueInfoProto()
        info.CopyFrom(get_output_from_output_name(model, name))
        infos.append(info)
    del model.graph.output[:]
    model.graph.output.extend(infos)
