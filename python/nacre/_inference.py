"""Types and shapes of every value of an ONNX model, as this library infers them: with symbols, through subgraphs, for
the operators of other domains too. Works on the protos of the package onnx."""
from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, Iterator

import onnx

import nacre

#: Initializers of at most so many elements may say a shape; larger ones are told by their type alone.
_SMALL = 1024


def _elements(tensor: onnx.TensorProto) -> int:
    count = 1
    for d in tensor.dims:
        count *= d
    return count


def skeleton(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its large initializers as inputs: what inference needs, without the weights."""
    bare = onnx.ModelProto()
    bare.CopyFrom(_without_weights(model))
    given = {i.name for i in bare.graph.input}
    for t in model.graph.initializer:
        if _elements(t) <= _SMALL and t.data_location != onnx.TensorProto.EXTERNAL:
            bare.graph.initializer.add().CopyFrom(t)
        elif t.name not in given:
            bare.graph.input.append(onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)))
    bare.ir_version = max(bare.ir_version, 4)  # from then on an initializer need not be an input
    return bare


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    bare = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name == "graph":
            continue
        copy(bare, field, value)
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            copy(bare.graph, field, value)
    return bare


def copy(target: Any, field: Any, value: Any) -> None:
    """One field of a proto into another proto of the same kind."""
    if field.type == field.TYPE_MESSAGE:
        own = getattr(target, field.name)
        own.extend(value) if _repeats(field) else own.CopyFrom(value)
    elif _repeats(field):
        getattr(target, field.name).extend(value)
    else:
        setattr(target, field.name, value)


def _repeats(field: Any) -> bool:
    told = getattr(field, "is_repeated", None)
    return told if isinstance(told, bool) else field.label == field.LABEL_REPEATED


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model's skeleton with a value_info for each value whose type is known, in its subgraphs too. Raises what
    making a session raises."""
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        options = nacre.SessionOptions()
        options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = path = os.path.join(folder, "inferred.onnx")
        nacre.InferenceSession(skeleton(model).SerializeToString(), options)
        return onnx.load(path)


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for inner in [a.g] if a.type == a.GRAPH else a.graphs:
                yield from graphs(inner)


def types_of(model: onnx.ModelProto) -> Dict[str, onnx.TypeProto]:
    """The type of each value, by name, of subgraphs and initializers too. What both say the main graph tells."""
    found: Dict[str, onnx.TypeProto] = {}
    for graph in reversed(list(graphs(inferred(model).graph))):
        found.update((v.name, v.type) for part in (graph.value_info, graph.input, graph.output) for v in part)
        found.update((t.name, onnx.helper.make_tensor_type_proto(t.data_type, list(t.dims))) for t in graph.initializer)
    for part in (model.graph.value_info, model.graph.input, model.graph.output):
        for v in part:
            if not found.setdefault(v.name, v.type).WhichOneof("value"):
                found[v.name] = v.type
    for t in model.graph.initializer:
        found[t.name] = onnx.helper.make_tensor_type_proto(t.data_type, list(t.dims))
    return found
