"""get_qnn_qdq_config: a static config whose models Qualcomm's provider takes whole."""
from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from nacre.quantization.calibrate import CalibrationDataReader, CalibrationMethod
from nacre.quantization.execution_providers.qnn.mixed_precision_overrides_utils import (
    MixedPrecisionTensorQuantOverridesFixer)
from nacre.quantization.quant_utils import MODEL_SIZE_THRESHOLD, QuantType, get_opset_version
from nacre.quantization.quantize import StaticQuantConfig
from nacre.quantization.tensor_quant_overrides import TensorQuantOverridesHelper

Q16_TYPES = {QuantType.QInt16, QuantType.QUInt16}
Q8_TYPES = {QuantType.QInt8, QuantType.QUInt8}
Q4_TYPES = {QuantType.QInt4, QuantType.QUInt4}
OP_TYPES_TO_EXCLUDE = {"Cast"}
#: QuantizeLinear of ai.onnx writes 16 and 4 bits from this opset on; before, that of com.microsoft does.
_NARROW_AND_WIDE = 21


def warn_unable_to_override(node: NodeProto, what_str: str, tensor_name: str, io_kind: str) -> None:
    logging.warning("%s '%s': %s of its %s '%s' was given in the overrides and stays; the provider may refuse the node",
                    node.op_type, node.name, what_str, io_kind, tensor_name)


def get_qnn_qdq_config(model_input: Union[str, Path, onnx.ModelProto], calibration_data_reader: CalibrationDataReader,
                       calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
                       activation_type: QuantType = QuantType.QUInt8, weight_type: QuantType = QuantType.QUInt8,
                       per_channel: bool = False, init_overrides: Optional[Dict[str, List[Dict[str, Any]]]] = None,
                       add_qtype_converts: bool = True, activation_symmetric: bool = False,
                       weight_symmetric: Optional[bool] = None, keep_removable_activations: bool = False,
                       stride: Optional[int] = None, calibration_providers: Optional[List[str]] = None,
                       op_types_to_quantize: Optional[List[str]] = None,
                       nodes_to_exclude: Optional[List[str]] = None) -> StaticQuantConfig:
    """A config for quantize(). init_overrides are wishes for single tensors (tensor_quant_overrides.py), of which a
    copy is completed: add_qtype_converts brings the neighbours of tensors of another type to that type; weights of
    MatMul and LayerNormalization get the weight's type; results of Sigmoid and Tanh in 16 bits get the scale that the
    provider demands. weight_symmetric is True by default where weights are signed."""
    if weight_symmetric is None:
        weight_symmetric = weight_type in (QuantType.QInt8, QuantType.QInt16)
    model = model_input if isinstance(model_input, onnx.ModelProto) else onnx.load(str(model_input),
                                                                                   load_external_data=False)
    overrides = TensorQuantOverridesHelper(copy.deepcopy(init_overrides or {}))
    if not overrides.empty() and add_qtype_converts:
        MixedPrecisionTensorQuantOverridesFixer.create_from_model(overrides, model, activation_type).apply(
            activation_type, activation_symmetric)
    weights = {t.name: t for t in model.graph.initializer}
    rules = QnnCompatibilityOverrides(activation_type, weight_type, activation_symmetric, weight_symmetric, per_channel,
                                      overrides, weights)
    nodes = [n for n in model.graph.node if (not op_types_to_quantize or n.op_type in op_types_to_quantize)
             and n.name not in (nodes_to_exclude or [])]
    for node in nodes:
        rules.process_node(node)
    told = {"MinimumRealRange": 0.0001, "DedicatedQDQPair": False,
            "QDQKeepRemovableActivations": keep_removable_activations, "TensorQuantOverrides": overrides.get_dict(),
            "ActivationSymmetric": activation_symmetric, "WeightSymmetric": weight_symmetric,
            "CalibStridedMinMax": stride}
    kinds = {activation_type, weight_type} | overrides.get_quant_types()
    if get_opset_version(model) < _NARROW_AND_WIDE and kinds & (Q16_TYPES | Q4_TYPES):
        told["UseQDQContribOps"] = True
    is_large = model.ByteSize() >= MODEL_SIZE_THRESHOLD or any(
        onnx.external_data_helper.uses_external_data(t) for t in weights.values())
    return StaticQuantConfig(
        calibration_data_reader, calibrate_method=calibrate_method, activation_type=activation_type,
        weight_type=weight_type, op_types_to_quantize=op_types_to_quantize or list(
            {n.op_type for n in nodes} - OP_TYPES_TO_EXCLUDE), nodes_to_exclude=nodes_to_exclude,
        per_channel=per_channel, use_external_data_format=is_large, calibration_providers=calibration_providers,
        extra_options=told)


class QnnCompatibilityOverrides:
    """What the provider demands of single operators, as overrides."""

    def __init__(self, default_activation_qtype: QuantType, default_weight_qtype: QuantType,
                 activation_symmetric: bool, weight_symmetric: bool, per_channel: bool,
                 overrides: TensorQuantOverridesHelper, initializers: Dict[str, TensorProto]) -> None:
        self.default_activation_qtype, self.default_weight_qtype = default_activation_qtype, default_weight_qtype
        self.activation_symmetric, self.weight_symmetric = activation_symmetric, weight_symmetric
        self.per_channel, self.overrides, self.initializers = per_channel, overrides, initializers
        self.process_fns = {"MatMul": self._matmul, "LayerNormalization": self._layer_normalization,
                            "Sigmoid": self._sigmoid, "Tanh": self._tanh}

    def process_node(self, node: NodeProto) -> None:
        if node.op_type in self.process_fns:
            self.process_fns[node.op_type](node)

    def _weight_wish(self) -> Dict[str, Any]:
        return {"quant_type": self.default_weight_qtype, "symmetric": self.weight_symmetric}

    def _matmul(self, node: NodeProto) -> None:
        """Products have no channels there: with per_channel their weights are told to be quantized as one."""
        if not self.per_channel:
            return self._beside_16_bits(node)
        for name in node.input:
            if name in self.initializers and name not in self.overrides:
                self.overrides.update_tensor_overrides(name, self._weight_wish())
        return None

    def _layer_normalization(self, node: NodeProto) -> None:
        if not self.per_channel:
            self._beside_16_bits(node)

    def _beside_16_bits(self, node: NodeProto) -> None:
        """A constant of 8 bits beside an activation of 16: else it would get the activation's type."""
        if self.default_weight_qtype not in Q8_TYPES:
            return
        weight, wide = None, False
        for name in filter(None, node.input[:2]):
            is_weight = name in self.initializers
            kind = self.overrides.get_node_input_qtype_info(name, node.name,
                                                            None if is_weight else self.default_activation_qtype)
            if kind.axis is not None:
                return
            if is_weight and self._weight_wish() == {"quant_type": kind.quant_type, "symmetric": kind.symmetric}:
                return
            weight, wide = (name, wide) if is_weight else (weight, wide or kind.quant_type in Q16_TYPES)
        if weight is not None and wide and not self.overrides.update_tensor_overrides(weight, self._weight_wish(),
                                                                                      overwrite=False):
            warn_unable_to_override(node, "quant_type/symmetric", weight, "input weight")

    def _sigmoid(self, node: NodeProto) -> None:
        self._fixed(node, {QuantType.QUInt16: (1 / 65536, np.uint16(0)), QuantType.QInt16: (1 / 32768, np.int16(0))})

    def _tanh(self, node: NodeProto) -> None:
        self._fixed(node, {QuantType.QUInt16: (1 / 32768, np.uint16(32768)),
                           QuantType.QInt16: (1 / 32768, np.int16(0))})

    def _fixed(self, node: NodeProto, rows: Dict[QuantType, Any]) -> None:
        kind = self.overrides.get_node_output_qtype_info(node.output[0], self.default_activation_qtype).quant_type
        if kind in rows:
            scale, zero = rows[kind]
            self.overrides.update_tensor_overrides(node.output[0], {
                "quant_type": kind, "scale": np.array(scale, np.float32), "zero_point": np.array(zero)})
