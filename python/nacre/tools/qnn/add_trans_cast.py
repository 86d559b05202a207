"""A model with the inputs and outputs that Qualcomm's converter gave to its own form of it: Casts to its types,
Transposes to channels last.

    python -m nacre.tools.qnn.add_trans_cast -m MODEL.onnx -q model_net.json     writes MODEL_add_trans.onnx
"""
from __future__ import annotations

import argparse
from typing import Any, Dict, List, Optional, Sequence

import onnx
from onnx import NodeProto, TensorProto, helper

from nacre._files import save_model
from nacre.quantization.onnx_model import topologically
from nacre.tools.qnn import _tensors


class QnnTensorStruct:
    def __init__(self) -> None:
        self.name = ""
        self.onnx_data_type: int = TensorProto.FLOAT
        self.dim: List[int] = []


def graph_topological_sort(graph: onnx.GraphProto) -> None:
    ordered = topologically(graph.node, [v.name for part in (graph.input, graph.initializer) for v in part])
    nodes = [NodeProto.FromString(n.SerializeToString()) for n in ordered]
    del graph.node[:]
    graph.node.extend(nodes)


def qnn_data_type_to_onnx_data_type(qnn_data_type: int) -> int:
    return _tensors.onnx_type(qnn_data_type)


def parse_qnn_json_file(qnn_json_file_path: str, qnn_input_output_tensor_dic: Dict[str, QnnTensorStruct]) -> None:
    """Adds the inputs (type 0) and outputs (type 1) by name."""
    told = _tensors.read(qnn_json_file_path)
    _tensors.need(told, "graph")
    _tensors.need(told["graph"], "tensors")
    for name, tensor in told["graph"]["tensors"].items():
        _tensors.need(tensor, "type", "data_type", "dims")
        if tensor["type"] in (0, 1):
            found = qnn_input_output_tensor_dic[name] = QnnTensorStruct()
            found.name, found.dim = name, tensor["dims"]
            found.onnx_data_type = _tensors.onnx_type(tensor["data_type"])
    if len(qnn_input_output_tensor_dic) < 2:
        raise ValueError(f"{qnn_json_file_path} tells of {len(qnn_input_output_tensor_dic)} inputs and outputs, "
                         "expected one of each at least")


def compare_onnx_shape_with_qnn_shape(onnx_dims: Sequence[Any], qnn_dims: Sequence[int]) -> bool:
    """Whether they are the same numbers."""
    if len(onnx_dims) != len(qnn_dims):
        raise ValueError(f"the model has {len(onnx_dims)} dims, Qualcomm's file {len(qnn_dims)}")
    return all(d.dim_value == q for d, q in zip(onnx_dims, qnn_dims))


def gen_to_channel_first_perm(rank: int) -> List[int]:
    return [0, rank - 1, *range(1, _moved(rank) - 1)]


def gen_to_channel_last_perm(rank: int) -> List[int]:
    return [0, *range(2, _moved(rank)), 1]


def _moved(rank: int) -> int:
    if rank < 3:
        raise ValueError(f"a tensor of {rank} dims has no channels to move, expected 3 at least")
    return rank


def _fit(value: Any, wanted: QnnTensorStruct, output: bool) -> List[NodeProto]:
    """Nodes between the value as it becomes and as the model's nodes know it, outermost first."""
    kind, nodes, name = value.type.tensor_type, [], value.name

    def put(op: str, suffix: str, **attributes: Any) -> None:
        nonlocal name
        inner = name + suffix
        ends = ([inner], [name]) if output else ([name], [inner])
        nodes.append(helper.make_node(op, *ends, inner, **attributes))
        name = inner
    if kind.elem_type != wanted.onnx_data_type:
        put("Cast", "_qnn_cast", to=wanted.onnx_data_type if output else kind.elem_type)
        kind.elem_type = wanted.onnx_data_type
    dims = kind.shape.dim
    if not compare_onnx_shape_with_qnn_shape(dims, wanted.dim):
        perm = gen_to_channel_last_perm if output else gen_to_channel_first_perm
        put("Transpose", "_qnn_trans", perm=perm(len(dims)))
        for d, q in zip(dims, wanted.dim):
            d.dim_value = q
    return nodes


def add_trans_cast(model: onnx.ModelProto, tensors: Dict[str, QnnTensorStruct]) -> None:
    """Changes the model."""
    graph, names, made = model.graph, {}, []
    weights = {t.name for t in graph.initializer}
    for output, values in ((False, graph.input), (True, graph.output)):
        for value in values:
            if value.name in weights:
                continue
            if value.name not in tensors:
                raise ValueError(f"{'output' if output else 'input'} '{value.name}' is not in Qualcomm's file, which "
                                 f"has {', '.join(tensors)}")
            nodes = _fit(value, tensors[value.name], output)
            if nodes:
                names[value.name] = nodes[-1].name
                made += nodes
    for node in graph.node:
        for part in (node.input, node.output):
            part[:] = [names.get(n, n) for n in part]
    graph.node.extend(made)
    graph_topological_sort(graph)


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Fits a model's inputs and outputs to what Qualcomm's converter made.")
    parser.add_argument("-m", "--onnx_model", required=True, help="the model's file")
    parser.add_argument("-q", "--qnn_json", required=True, help="model_net.json of Qualcomm's converter")
    told = parser.parse_args(arguments)
    tensors: Dict[str, QnnTensorStruct] = {}
    parse_qnn_json_file(told.qnn_json, tensors)
    model = onnx.load(told.onnx_model)
    add_trans_cast(model, tensors)
    save_model(model, told.onnx_model.replace(".onnx", "_add_trans.onnx"))


if __name__ == "__main__":
    main()
