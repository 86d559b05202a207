"""quantize_static, quantize_dynamic, and both by a config: from a model of floats to one of codes."""
from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Union

import onnx
from onnx import ModelProto

from nacre.quantization.calibrate import (CalibrationDataReader, CalibrationMethod, TensorsData, calibrated,
                                          load_tensors_data, save_tensors_data)
from nacre.quantization.onnx_model import ONNXModel, subgraphs
from nacre.quantization.onnx_quantizer import ONNXQuantizer
from nacre.quantization.qdq_quantizer import QDQQuantizer
from nacre.quantization.quant_utils import (MODEL_SIZE_THRESHOLD, QuantFormat, QuantizationMode, QuantType, load_model,
                                            update_opset_version)
from nacre.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry

Model = Union[str, Path, ModelProto]
_BITS_16 = (QuantType.QInt16, QuantType.QUInt16)
_BITS_4 = (QuantType.QInt4, QuantType.QUInt4)
#: extra_options that calibration reads, and its names for them.
_CALIBRATION = {"CalibTensorRangeSymmetric": "symmetric", "CalibMovingAverage": "moving_average",
                "CalibMovingAverageConstant": "averaging_constant", "CalibMaxIntermediateOutputs":
                "max_intermediate_outputs", "CalibPercentile": "percentile", "CalibNumBins": "num_bins",
                "CalibNumQuantizedBins": "num_quantized_bins", "CalibPerChannel": "per_channel",
                "CalibStridedMinMax": "stride"}


class QuantConfig:
    """What both kinds of quantization are told."""

    def __init__(self, activation_type: QuantType = QuantType.QUInt8, weight_type: QuantType = QuantType.QInt8,
                 op_types_to_quantize: Optional[List[str]] = None, nodes_to_quantize: Optional[List[str]] = None,
                 nodes_to_exclude: Optional[List[str]] = None, per_channel: bool = False, reduce_range: bool = False,
                 use_external_data_format: bool = False) -> None:
        self.activation_type, self.weight_type = activation_type, weight_type
        self.op_types_to_quantize = op_types_to_quantize or []
        self.nodes_to_quantize, self.nodes_to_exclude = nodes_to_quantize or [], nodes_to_exclude or []
        self.per_channel, self.reduce_range = per_channel, reduce_range
        self.use_external_data_format = use_external_data_format


class StaticQuantConfig(QuantConfig):
    """With ranges that calibration finds before."""

    def __init__(self, calibration_data_reader: CalibrationDataReader,
                 calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
                 quant_format: QuantFormat = QuantFormat.QDQ, activation_type: QuantType = QuantType.QInt8,
                 weight_type: QuantType = QuantType.QInt8, op_types_to_quantize: Optional[List[str]] = None,
                 nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None,
                 per_channel: bool = False, reduce_range: bool = False, use_external_data_format: bool = False,
                 calibration_providers: Optional[List[str]] = None,
                 extra_options: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(activation_type, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude,
                         per_channel, reduce_range, use_external_data_format)
        self.calibration_data_reader, self.calibrate_method = calibration_data_reader, calibrate_method
        self.quant_format, self.calibration_providers = quant_format, calibration_providers
        self.extra_options = extra_options or {}


class DynamicQuantConfig(QuantConfig):
    """With ranges that each run finds for itself."""

    def __init__(self, weight_type: QuantType = QuantType.QInt8, op_types_to_quantize: Optional[List[str]] = None,
                 nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None,
                 per_channel: bool = False, reduce_range: bool = False, use_external_data_format: bool = False,
                 extra_options: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(weight_type=weight_type, op_types_to_quantize=op_types_to_quantize,
                         nodes_to_quantize=nodes_to_quantize, nodes_to_exclude=nodes_to_exclude,
                         per_channel=per_channel, reduce_range=reduce_range,
                         use_external_data_format=use_external_data_format)
        self.extra_options = extra_options or {}


def check_static_quant_arguments(quant_format: QuantFormat, activation_type: QuantType,
                                 weight_type: QuantType) -> None:
    """Raises ValueError where no operator takes these types."""
    if activation_type == QuantType.QInt8 and weight_type == QuantType.QUInt8:
        raise ValueError("weights of QUInt8 with activations of QInt8: no operator multiplies these; use QInt8")
    if QuantType.QFLOAT8E4M3FN in (activation_type, weight_type) and activation_type != weight_type:
        raise ValueError(f"float 8 is for both or for neither, got activations of {activation_type} and weights of "
                         f"{weight_type}")
    if activation_type in _BITS_4:
        raise ValueError(f"activations of {activation_type}: 4 bits are for weights")
    if quant_format != QuantFormat.QDQ:
        for what, kind in (("activations", activation_type), ("weights", weight_type)):
            if kind in _BITS_16 + _BITS_4 + (QuantType.QFLOAT8E4M3FN,):
                raise ValueError(f"{what} of {kind} need quant_format QDQ: operators of codes take 8 bits")


def _prepared(model: Model) -> ModelProto:
    """A copy whose nodes have names and whose constants are initializers."""
    proto = load_model(model)
    if not proto.graph.node:
        raise ValueError("the model has no nodes")
    _lift_constants(proto.graph)
    taken = {n.name for n in proto.graph.node}
    for i, node in enumerate(proto.graph.node):
        if not node.name:
            tries = (f"{node.op_type}_{i}{'_' * k}" for k in range(len(taken) + 1))
            node.name = next(name for name in tries if name not in taken)
            taken.add(node.name)
    proto.ir_version = max(proto.ir_version, 4)
    return proto


def _lift_constants(graph: onnx.GraphProto) -> None:
    kept = []
    for node in graph.node:
        for inner in subgraphs(node):
            _lift_constants(inner)
        value = next((a for a in node.attribute if a.name == "value"), None)
        if node.op_type == "Constant" and value is not None and node.domain in ("", "ai.onnx"):
            tensor = graph.initializer.add()
            tensor.CopyFrom(value.t)
            tensor.name = node.output[0]
        else:
            kept.append(node)
    if len(kept) < len(graph.node):
        kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in kept]
        del graph.node[:]
        graph.node.extend(kept)


def _save(proto: ModelProto, path: Any, external: bool) -> None:
    if not external and proto.ByteSize() >= MODEL_SIZE_THRESHOLD:
        raise ValueError(f"{path}: the model has {proto.ByteSize()} bytes and a file at most {MODEL_SIZE_THRESHOLD}; "
                         "use_external_data_format=True puts weights beside it")
    ONNXModel(proto).save_model_to_file(path, external)


# ---- static ----

def quantize_static(model_input: Model, model_output: Union[str, Path],
                    calibration_data_reader: Optional[CalibrationDataReader] = None,
                    quant_format: QuantFormat = QuantFormat.QDQ, op_types_to_quantize: Optional[List[str]] = None,
                    per_channel: bool = False, reduce_range: bool = False,
                    activation_type: QuantType = QuantType.QInt8, weight_type: QuantType = QuantType.QInt8,
                    nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None,
                    use_external_data_format: bool = False,
                    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
                    calibration_providers: Optional[List[str]] = None, extra_options: Optional[Dict[str, Any]] = None,
                    calibration_cache_path: Union[str, Path, None] = None) -> None:
    """Writes model_output: weights and activations as codes, whose ranges come from the reader's examples or from the
    file calibration_cache_path, which is written if it is not there."""
    has_cache = calibration_cache_path is not None and Path(calibration_cache_path).exists()
    if calibration_data_reader is None and not has_cache:
        raise ValueError("quantize_static needs a calibration_data_reader, or a calibration_cache_path that exists")
    if QuantType.QFLOAT8E4M3FN in (activation_type, weight_type) and calibrate_method != CalibrationMethod.Distribution:
        raise ValueError("float 8 needs calibrate_method Distribution: it is scaled by the deviation")
    extra_options = extra_options or {}
    if extra_options.get("SmoothQuant"):
        raise NotImplementedError("SmoothQuant is not supported; per_channel=True keeps more of the weights")
    check_static_quant_arguments(quant_format, activation_type, weight_type)
    op_types = op_types_to_quantize or list({**QLinearOpsRegistry, **QDQRegistry})
    model = update_opset_version(_prepared(model_input), weight_type, activation_type,
                                 extra_options.get("TensorQuantOverrides"))
    ranges = _ranges(model, calibration_data_reader, op_types, calibrate_method, calibration_providers,
                     use_external_data_format, extra_options, calibration_cache_path)
    arguments = (weight_type, activation_type, ranges, nodes_to_quantize or [], nodes_to_exclude or [], op_types,
                 extra_options)
    if quant_format is QuantFormat.QOperator:
        quantizer: Any = ONNXQuantizer(model, per_channel, reduce_range, QuantizationMode.QLinearOps, True, *arguments)
    else:
        quantizer = QDQQuantizer(model, per_channel, reduce_range, *arguments)
    _save(quantizer.quantize_model(), model_output, use_external_data_format)


def _ranges(model: ModelProto, reader: Any, op_types: List[str], method: CalibrationMethod, providers: Any,
            external: bool, extra_options: Dict[str, Any], cache: Any) -> TensorsData:
    if cache is not None and Path(cache).exists():
        return load_tensors_data(cache)
    told = {mine: extra_options[theirs] for theirs, mine in _CALIBRATION.items() if theirs in extra_options}
    found = calibrated(model, reader, op_types, method, providers, external, told)
    if cache is not None:
        save_tensors_data(found, cache)
    return found


# ---- dynamic ----

def quantize_dynamic(model_input: Model, model_output: Union[str, Path],
                     op_types_to_quantize: Optional[List[str]] = None, per_channel: bool = False,
                     reduce_range: bool = False, weight_type: QuantType = QuantType.QInt8,
                     nodes_to_quantize: Optional[List[str]] = None, nodes_to_exclude: Optional[List[str]] = None,
                     use_external_data_format: bool = False, extra_options: Optional[Dict[str, Any]] = None) -> None:
    """Writes model_output: weights as codes; activations become codes in each run, by the range they have there."""
    if weight_type not in (QuantType.QInt8, QuantType.QUInt8):
        raise ValueError(f"weight_type is {weight_type}: dynamic quantization takes QInt8 and QUInt8")
    extra_options = {"MatMulConstBOnly": True, **(extra_options or {})}
    op_types = op_types_to_quantize or list(IntegerOpsRegistry)
    model = update_opset_version(_prepared(model_input), weight_type)
    quantizer = ONNXQuantizer(model, per_channel, reduce_range, QuantizationMode.IntegerOps, False, weight_type,
                              QuantType.QUInt8, None, nodes_to_quantize or [], nodes_to_exclude or [], op_types,
                              extra_options)
    _save(quantizer.quantize_model(), model_output, use_external_data_format)


# ---- by a config ----

def quantize(model_input: Model, model_output: Union[str, Path], quant_config: QuantConfig) -> None:
    """quantize_static or quantize_dynamic, as the config says."""
    c: Any = quant_config
    common = dict(op_types_to_quantize=c.op_types_to_quantize, nodes_to_quantize=c.nodes_to_quantize,
                  nodes_to_exclude=c.nodes_to_exclude, per_channel=c.per_channel, reduce_range=c.reduce_range,
                  weight_type=c.weight_type, use_external_data_format=c.use_external_data_format) if isinstance(
                      c, QuantConfig) else {}
    if isinstance(c, StaticQuantConfig):
        quantize_static(model_input, model_output, c.calibration_data_reader, calibrate_method=c.calibrate_method,
                        quant_format=c.quant_format, activation_type=c.activation_type,
                        calibration_providers=c.calibration_providers, extra_options=c.extra_options, **common)
    elif isinstance(c, DynamicQuantConfig):
        quantize_dynamic(model_input, model_output, extra_options=c.extra_options, **common)
    else:
        raise TypeError(f"quant_config is a {type(c).__name__}, expected StaticQuantConfig or DynamicQuantConfig")


def get_qdq_config(model_input: Model, calibration_data_reader: CalibrationDataReader,
                   calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
                   calibrate_args: Optional[Dict[str, Any]] = None, activation_type: QuantType = QuantType.QUInt8,
                   weight_type: QuantType = QuantType.QInt8, activation_symmetric: bool = False,
                   weight_symmetric: Optional[bool] = None, per_channel: bool = False, reduce_range: bool = False,
                   keep_removable_activations: bool = False, min_real_range: Optional[float] = None,
                   tensor_quant_overrides: Optional[Dict[str, List[Dict[str, Any]]]] = None,
                   calibration_providers: Optional[List[str]] = None,
                   op_types_to_quantize: Optional[List[str]] = None,
                   nodes_to_exclude: Union[List[str], Callable[[ModelProto, onnx.NodeProto], bool], None] = None,
                   extra_options: Optional[Dict[str, Any]] = None) -> StaticQuantConfig:
    """A config for every operator that a model has, in QDQ form: each but those that move nothing but shapes."""
    model = model_input if isinstance(model_input, ModelProto) else onnx.load(str(model_input),
                                                                             load_external_data=False)
    found = [n for n in model.graph.node if not op_types_to_quantize or n.op_type in op_types_to_quantize]
    excluded = [n.name for n in found if nodes_to_exclude(model, n)] if callable(nodes_to_exclude) else list(
        nodes_to_exclude or [])
    told = {"MinimumRealRange": 0.0001 if min_real_range is None and _has_16_bits(
        activation_type, tensor_quant_overrides) else min_real_range,
            "QDQKeepRemovableActivations": keep_removable_activations, "ActivationSymmetric": activation_symmetric,
            "ForceQuantizeNoInputCheck": True, "TensorQuantOverrides": copy.deepcopy(tensor_quant_overrides or {}),
            **({} if weight_symmetric is None else {"WeightSymmetric": weight_symmetric})}
    mine = {v: k for k, v in _CALIBRATION.items()}
    told.update((mine.get(k, k), v) for k, v in (calibrate_args or {}).items())
    kinds = list(op_types_to_quantize or dict.fromkeys(
        n.op_type for n in found if n.name not in excluded and n.op_type not in ("Cast", "DequantizeLinear",
                                                                                "QuantizeLinear")))
    beside = any(t.data_location == onnx.TensorProto.EXTERNAL for t in model.graph.initializer)
    return StaticQuantConfig(
        calibration_data_reader, calibrate_method=calibrate_method, quant_format=QuantFormat.QDQ,
        activation_type=activation_type, weight_type=weight_type, op_types_to_quantize=kinds,
        nodes_to_exclude=excluded, per_channel=per_channel, reduce_range=reduce_range,
        use_external_data_format=beside or model.ByteSize() >= MODEL_SIZE_THRESHOLD,
        calibration_providers=calibration_providers, extra_options={**told, **(extra_options or {})})


def _has_16_bits(activation_type: QuantType, overrides: Any) -> bool:
    rows = [row for rows in (overrides or {}).values() for row in rows]
    return activation_type in _BITS_16 or any(row.get("quant_type") in _BITS_16 for row in rows)
