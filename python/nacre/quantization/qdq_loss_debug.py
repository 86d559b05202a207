"""Where a quantized model loses: activations and weights of a model and of its QDQ form, side by side, and how far they
are apart."""
from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import numpy as np
import onnx
from onnx import helper, numpy_helper

import nacre
from nacre import _inference
from nacre._files import save_model
from nacre.quantization.calibrate import CalibrationDataReader
from nacre.quantization.quant_utils import (DEQUANT_OP_NAME, DEQUANT_OUTPUT_SUFFIX, QUANT_INPUT_SUFFIX,
                                            TENSOR_NAME_QUANT_SUFFIX, spread)

_TENSOR_SAVE_POSTFIX = "_ReshapedSavedOutput"
_TENSOR_SAVE_POSTFIX_LEN = len(_TENSOR_SAVE_POSTFIX)
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
Arrays = Union[Sequence[np.ndarray], np.ndarray]


def modify_model_output_intermediate_tensors(input_model_path: Union[str, Path], output_model_path: Union[str, Path],
                                             op_types_for_saving: Optional[Sequence[str]] = None,
                                             save_as_external_data: bool = False) -> None:
    """Writes the model with what its nodes (of these kinds) read and write as further outputs, each as one row."""
    model = onnx.load(str(input_model_path))
    types, weights, graph = _inference.types_of(model), {t.name for t in model.graph.initializer}, model.graph
    wanted: Dict[str, None] = {}
    for node in graph.node:
        if not op_types_for_saving or node.op_type in op_types_for_saving:
            wanted.update((n, None) for n in [*node.input, *node.output] if n and n not in weights and n in types
                          and types[n].tensor_type.elem_type in _FLOATS)
    shape = numpy_helper.from_array(np.array([-1], np.int64), "nacre_saved_output_shape")
    graph.initializer.append(shape)
    for name in wanted:
        graph.node.append(helper.make_node("Reshape", [name, shape.name], [name + _TENSOR_SAVE_POSTFIX],
                                           name + _TENSOR_SAVE_POSTFIX))
        graph.output.append(helper.make_tensor_value_info(name + _TENSOR_SAVE_POSTFIX,
                                                          types[name].tensor_type.elem_type, [None]))
    save_model(model, output_model_path, save_as_external_data=save_as_external_data)


def collect_activations(augmented_model: Any, input_reader: CalibrationDataReader, session_options: Any = None,
                        execution_providers: Optional[Sequence[str]] = None) -> Dict[str, List[np.ndarray]]:
    """By name, what the further outputs were in each run."""
    if session_options is None:
        session_options = nacre.SessionOptions()
        session_options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = nacre.InferenceSession(str(augmented_model), session_options,
                                     providers=list(execution_providers or ["CPUExecutionProvider"]))
    saved = [o.name for o in session.get_outputs() if o.name.endswith(_TENSOR_SAVE_POSTFIX)]
    found: Dict[str, List[np.ndarray]] = {}
    while (feeds := input_reader.get_next()) is not None:
        for name, array in zip(saved, session.run(saved, feeds)):
            found.setdefault(name[:-_TENSOR_SAVE_POSTFIX_LEN], []).append(array)
    return found


def create_activation_matching(qdq_activations: Dict[str, Sequence[np.ndarray]],
                               float_activations: Optional[Dict[str, Sequence[np.ndarray]]] = None
                               ) -> Dict[str, Dict[str, Sequence[np.ndarray]]]:
    """By name of the tensor: before its pair ("pre_qdq"), behind it ("post_qdq"), and in the other model ("float")."""
    found = {}
    for name, behind in qdq_activations.items():
        tensor = name[:-len(DEQUANT_OUTPUT_SUFFIX)] if name.endswith(DEQUANT_OUTPUT_SUFFIX) else name
        if tensor != name:
            before = qdq_activations.get(tensor)
        else:  # of a graph output the pair's last node has the name
            before = qdq_activations.get(tensor + QUANT_INPUT_SUFFIX)
        if before is None or len(before) != len(behind):
            continue
        found[tensor] = {"pre_qdq": before, "post_qdq": behind}
        if float_activations and tensor in float_activations:
            found[tensor]["float"] = float_activations[tensor]
    return found


def create_weight_matching(float_model_path: Any, qdq_model_path: Any) -> Dict[str, Dict[str, np.ndarray]]:
    """By name of the weight: its numbers ("float") and those that its codes stand for ("dequantized")."""
    plain = {t.name: t for t in onnx.load(str(float_model_path)).graph.initializer}
    model = onnx.load(str(qdq_model_path))
    codes, found = {t.name: t for t in model.graph.initializer}, {}
    for node in model.graph.node:
        if node.op_type != DEQUANT_OP_NAME or not node.input[0].endswith(TENSOR_NAME_QUANT_SUFFIX) or \
                any(i not in codes for i in node.input):
            continue
        name = node.input[0][:-len(TENSOR_NAME_QUANT_SUFFIX)]
        if name in plain:
            found[name] = {"float": numpy_helper.to_array(plain[name]), "dequantized": _dequantized(node, codes)}
    return found


def _dequantized(node: onnx.NodeProto, codes: Dict[str, onnx.TensorProto]) -> np.ndarray:
    told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    data, scale, *zero = (numpy_helper.to_array(codes[i]) for i in node.input)
    axis = told.get("axis", 1) if scale.ndim and scale.size > 1 else None
    scale = spread(scale, data.shape, axis, told.get("block_size", 0)).astype(np.float32)
    if not zero:
        return data.astype(np.float32) * scale
    zeros = spread(zero[0], data.shape, axis, told.get("block_size", 0)).astype(np.float32)
    return (data.astype(np.float32) - zeros) * scale


def compute_signal_to_quantization_noice_ratio(x: Arrays, y: Arrays) -> float:
    """In decibel: how much greater x is than its difference from y. Equal ones give infinity or very much."""
    one, other = (np.concatenate([np.asarray(a, np.float64).reshape(-1) for a in ([v] if isinstance(v, np.ndarray)
                                                                                  else v)]) for v in (x, y))
    if one.shape != other.shape:
        raise RuntimeError(f"{one.size} numbers against {other.size}")
    tiny = float(np.finfo(np.float64).eps)
    return 20 * math.log10(max(float(np.linalg.norm(one)), tiny) / max(float(np.linalg.norm(one - other)), tiny))


def compute_weight_error(weights_match: Dict[str, Dict[str, np.ndarray]],
                         err_func: Callable[[np.ndarray, np.ndarray], float] =
                         compute_signal_to_quantization_noice_ratio) -> Dict[str, float]:
    return {name: err_func(pair["float"], pair["dequantized"]) for name, pair in weights_match.items()}


def compute_activation_error(activations_match: Dict[str, Dict[str, Sequence[np.ndarray]]],
                             err_func: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], float] =
                             compute_signal_to_quantization_noice_ratio) -> Dict[str, Dict[str, float]]:
    """By name: "qdq_err" across the pair, and "xmodel_err" against the other model, where it is there."""
    found = {}
    for name, match in activations_match.items():
        found[name] = {"qdq_err": err_func(match["pre_qdq"], match["post_qdq"])}
        if "float" in match:
            found[name]["xmodel_err"] = err_func(match["float"], match["post_qdq"])
    return found
