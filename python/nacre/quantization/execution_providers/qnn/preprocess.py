"""qnn_preprocess_model: a float model made ready to be quantized for Qualcomm's provider."""
from __future__ import annotations

import logging
from pathlib import Path
from typing import Dict, List, Optional, Tuple, Union

import onnx
from onnx import helper

from nacre._files import save_model
from nacre.quantization.execution_providers.qnn.fusion_lpnorm import FusionLpNormalization
from nacre.quantization.execution_providers.qnn.fusion_spacetodepth import FusionSpaceToDepth
from nacre.quantization.fusions import FusionGelu, FusionLayerNormalization
from nacre.quantization.onnx_model import ONNXModel
from nacre.quantization.quant_utils import (get_opset_version, load_model, optimize_model,
                                            save_and_reload_model_with_shape_infer, temporary_folder)
from nacre.tools.onnx_model_utils import fix_output_shapes, make_input_shape_fixed
from nacre.tools.remove_initializer_from_input import remove_initializer_from_input

_LAYER_NORMALIZATION_SINCE = 17


def qnn_preprocess_model(model_input: Union[str, Path, onnx.ModelProto], model_output: Union[str, Path],
                         exclude_initializer_from_input: bool = False, fuse_layernorm: bool = False,
                         save_as_external_data: bool = False, all_tensors_to_one_file: bool = False,
                         external_data_location: Optional[str] = None, external_data_size_threshold: int = 1024,
                         external_data_convert_attribute: bool = False,
                         inputs_to_make_channel_last: Optional[List[str]] = None,
                         outputs_to_make_channel_last: Optional[List[str]] = None,
                         dynamic_input_shapes: Optional[List[Tuple[str, str]]] = None) -> bool:
    """Writes model_output if there was something to do, and says whether: Gelu, LpNormalization, SpaceToDepth and, if
    asked for, LayerNormalization from their parts; inputs of fixed shapes ([("x", "1,3,224,224")]); inputs and outputs
    with channels last, behind and in front of a Transpose; a name for every node."""
    model = ONNXModel(save_and_reload_optimize_model(load_model(model_input), shape_infer=True))
    changed = bool(dynamic_input_shapes)
    for name, dims in dynamic_input_shapes or []:
        make_input_shape_fixed(model.graph(), name, [int(d) for d in dims.split(",")])
    if changed:
        fix_output_shapes(model.model)
    if exclude_initializer_from_input:
        changed |= remove_initializer_from_input(model.model)
    for fusion in (FusionGelu(model), FusionLpNormalization(model), FusionSpaceToDepth(model)):
        changed |= fusion.apply()
    changed |= fuse_layernorm and _fuse_layer_normalization(model)
    if inputs_to_make_channel_last or outputs_to_make_channel_last:
        start = model.get_largest_node_name_suffix("Transpose_channel_") + 1
        update_io_to_channel_last(model.model, inputs_to_make_channel_last, outputs_to_make_channel_last,
                                  transpose_node_name_start_suffix=start)
        changed = True
    changed |= _name_nodes(model)
    if changed:
        model.clean_initializers()
        model.topological_sort()
        save_model(model.model, model_output, save_as_external_data=save_as_external_data,
                   all_tensors_to_one_file=all_tensors_to_one_file, location=external_data_location,
                   size_threshold=external_data_size_threshold, convert_attribute=external_data_convert_attribute)
    return changed


def save_and_reload_optimize_model(model: onnx.ModelProto, shape_infer: bool) -> onnx.ModelProto:
    """The model with constants folded, and with the types of all values if shape_infer."""
    with temporary_folder() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        save_model(model, before, save_as_external_data=True)
        optimize_model(before, after)
        model = onnx.load(str(after))
    return save_and_reload_model_with_shape_infer(model) if shape_infer else model


def _fuse_layer_normalization(model: ONNXModel) -> bool:
    opset = get_opset_version(model.model)
    if opset < _LAYER_NORMALIZATION_SINCE:
        logging.warning("fuse_layernorm: LayerNormalization needs opset %d, the model has %d; "
                        "onnx.version_converter raises it", _LAYER_NORMALIZATION_SINCE, opset)
        return False
    return FusionLayerNormalization(model).apply()


def _name_nodes(model: ONNXModel) -> bool:
    prefix = "qnn_preproc_node_"
    unnamed = [n for n in model.nodes() if n.op_type != "Constant" and not n.name]
    for i, node in enumerate(unnamed, model.get_largest_node_name_suffix(prefix) + 1):
        node.name = f"{prefix}{i}"
    return bool(unnamed)


# ---- channels last ----

class InputOutputNameMap:
    """Names inside of the graph for inputs and outputs whose own names now stand for another layout."""

    def __init__(self, orig_tensor_names: set, orig_graph_inputs: Dict[str, onnx.ValueInfoProto],
                 orig_graph_outputs: Dict[str, onnx.ValueInfoProto]) -> None:
        self.orig_tensor_names = orig_tensor_names
        self.orig_graph_inputs, self.orig_graph_outputs = orig_graph_inputs, orig_graph_outputs
        self.updated_io_names: Dict[str, str] = {}
        self.new_value_infos: List[onnx.ValueInfoProto] = []

    def get_new_name(self, orig_name: str) -> str:
        if orig_name not in self.updated_io_names:
            tries = (f"{orig_name}_channel_first_{i}" for i in range(len(self.orig_tensor_names) + 1))
            name = next(n for n in tries if n not in self.orig_tensor_names)
            value = onnx.ValueInfoProto()
            value.CopyFrom(self.orig_graph_inputs.get(orig_name) or self.orig_graph_outputs[orig_name])
            value.name = name
            self.new_value_infos.append(value)
            self.updated_io_names[orig_name] = name
        return self.updated_io_names[orig_name]


def update_io_to_channel_last(model: onnx.ModelProto, inputs_to_update: Optional[List[str]],
                              outputs_to_update: Optional[List[str]],
                              transpose_node_name_prefix: str = "Transpose_channel_",
                              transpose_node_name_start_suffix: int = 0) -> None:
    """(N, C, ...) becomes (N, ..., C) at these inputs and outputs; the graph between them stays as it was."""
    graph = model.graph
    inputs, outputs = ({v.name: v for v in part} for part in (graph.input, graph.output))
    asked = {name: _with_channels(name, there, what) for names, there, what in (
        (inputs_to_update, inputs, "input"), (outputs_to_update, outputs, "output")) for name in names or []}
    inner = InputOutputNameMap({*inputs, *outputs, *(i for n in graph.node for i in n.input)}, inputs, outputs)
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = inner.get_new_name(name) if name in asked else name
        for i, name in enumerate(node.output):
            node.output[i] = inner.get_new_name(name) if name in asked else name
    for i, (name, value) in enumerate(asked.items(), transpose_node_name_start_suffix):
        rank, new = len(value.type.tensor_type.shape.dim), inner.get_new_name(name)
        if name in inputs:
            ends, perm = ([name], [new]), [0, rank - 1, *range(1, rank - 1)]
        else:
            ends, perm = ([new], [name]), [0, *range(2, rank), 1]
        graph.node.append(helper.make_node("Transpose", *ends, f"{transpose_node_name_prefix}{i}", perm=perm))
        _turn(value)
    graph.value_info.extend(inner.new_value_infos)


def _turn(value: onnx.ValueInfoProto) -> None:
    """The dims that it is told to have, with the channels at the end."""
    dims = value.type.tensor_type.shape.dim
    channels = onnx.TensorShapeProto.Dimension()
    channels.CopyFrom(dims[1])
    del dims[1]
    dims.append(channels)


def _with_channels(name: str, there: Dict[str, onnx.ValueInfoProto], what: str) -> onnx.ValueInfoProto:
    if name not in there:
        raise ValueError(f"the graph has no {what} '{name}'; it has {', '.join(there)}")
    kind = there[name].type.tensor_type
    if not there[name].type.HasField("tensor_type") or not kind.HasField("shape") or len(kind.shape.dim) < 3:
        raise ValueError(f"{what} '{name}' has no channels to move: expected a tensor of known rank, 3 or more")
    return there[name]
