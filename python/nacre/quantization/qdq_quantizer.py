"""Static quantization in QDQ form: the model's own operators, with a QuantizeLinear and DequantizeLinear pair on each
tensor that has codes. What runs it joins the pairs to integer kernels.

Rules (qdq_rules.py) mark tensors, node by node; then parameters are found, pairs made, biases written in the products
of their scales, and removed activations taken out.
"""
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from nacre.quantization import quant_utils as names
from nacre.quantization.base_quantizer import BaseQuantizer, QuantizationParams, tensor_type
from nacre.quantization.qdq_rules import QDQRegistry, attribute, every_tensor

#: ai.onnx 21 is the first whose pairs have these types.
_NEW_TYPES = (TensorProto.INT16, TensorProto.UINT16, TensorProto.INT4, TensorProto.UINT4)


class QDQQuantTensorType(Enum):
    ACTIVATION = 0
    WEIGHT = 1
    BIAS = 2


@dataclass
class Mark:
    """Why a tensor gets a pair: as what, along which axis, and whose parameters it shares."""
    kind: QDQQuantTensorType
    axis: Optional[int] = None
    like: Optional[str] = None


@dataclass
class QDQBiasQuantInfo:
    node_name: str
    input_name: str
    weight_name: str
    beta: float


@dataclass
class Stored:
    """Parameters as initializers."""
    params: QuantizationParams
    scale: str
    zero_point: str


class QDQQuantizer(BaseQuantizer):
    def __init__(self, model: onnx.ModelProto, per_channel: bool, reduce_range: bool, weight_qType: Any,  # noqa: N803
                 activation_qType: Any, tensors_range: Any, nodes_to_quantize: Any, nodes_to_exclude: Any,
                 op_types_to_quantize: Any, extra_options: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(model, per_channel, reduce_range, weight_qType, activation_qType, tensors_range,
                         nodes_to_quantize, nodes_to_exclude, op_types_to_quantize, extra_options)
        option = self.extra_options.get
        self.add_qdq_pair_to_weight = bool(option("AddQDQPairToWeight"))
        self.dedicated_qdq_pair = bool(option("DedicatedQDQPair"))
        self.quantize_bias = bool(option("QuantizeBias", True))
        self.adjust_for_bias = not option("QDQDisableWeightAdjustForInt32Bias")
        self.axis_of_op: Dict[str, Any] = option("QDQOpTypePerChannelSupportToAxis", {})
        wide = {self.weight_qType, self.activation_qType} | {t.tensor_type for t in
                                                             self.tensor_quant_overrides.get_quant_types()}
        contrib = bool(option("UseQDQContribOps")) or (self.opset_version < 21 and any(t in _NEW_TYPES for t in wide))
        self.qdq_op_domain = names.ms_domain if contrib else ""
        self.dequantized = {n.output[0]: n for n in self.model.nodes() if n.op_type == names.DEQUANT_OP_NAME and all(
            i in self.weights for i in n.input if i)}  # codes already
        self.marks: Dict[str, Mark] = {}
        self.biases: List[Tuple[str, QDQBiasQuantInfo]] = []
        self.stored: Dict[str, Optional[Stored]] = {}
        self.nodes_to_remove: List[NodeProto] = []
        self.new_nodes: List[NodeProto] = []

    # ---- marking, for the rules ----

    def quantize_activation_tensor(self, tensor_name: str) -> None:
        self._mark(tensor_name, Mark(QDQQuantTensorType.ACTIVATION))

    def quantize_output_same_as_input(self, output_name: str, input_name: str, node_name: str) -> None:
        self._mark(output_name, Mark(QDQQuantTensorType.ACTIVATION, like=input_name))

    def quantize_weight_tensor(self, tensor_name: str) -> None:
        self._mark(tensor_name, Mark(QDQQuantTensorType.WEIGHT))

    def quantize_weight_tensor_per_channel(self, tensor_name: str, axis: int) -> None:
        self._mark(tensor_name, Mark(QDQQuantTensorType.WEIGHT, axis))

    def quantize_bias_tensor(self, node_name: str, bias_name: str, input_name: str, weight_name: str,
                             beta: float = 1.0) -> None:
        if bias_name in self.tensor_quant_overrides:  # what the caller says of a bias makes it a weight
            by_channel, axis = self.is_tensor_per_channel(bias_name, 0)
            self._mark(bias_name, Mark(QDQQuantTensorType.WEIGHT, axis if by_channel else None))
        elif self.quantize_bias and self.is_float(bias_name):
            self.biases.append((bias_name, QDQBiasQuantInfo(node_name, input_name, weight_name, beta)))

    def _mark(self, name: str, mark: Mark) -> None:
        if name and self.is_float(name):
            if self._has_own_wish(name):
                mark.like = None  # the caller's parameters come before those of a neighbour
            if name not in self.dequantized:
                self.marks.setdefault(name, mark)

    def _has_own_wish(self, name: str) -> bool:
        """Whether the caller asked for other codes of a tensor than it would get."""
        wish = {k: v for k, v in (self.tensor_quant_overrides.get(name) or [{}])[0].items() if k != "convert"}
        return bool(wish) and (set(wish) != {"quant_type"} or tensor_type(wish["quant_type"]) != self.activation_qType)

    def is_tensor_quantized(self, tensor_name: str) -> bool:
        return tensor_name in self.marks or any(tensor_name == b for b, _ in self.biases)

    def is_tensor_per_channel(self, tensor_name: str, default_axis: int,
                              op_type: Optional[str] = None) -> Tuple[bool, Optional[int]]:
        """Whether a weight gets a scale for each channel, and along which axis."""
        rank = len(self.weights[tensor_name].dims) if tensor_name in self.weights else 0
        if tensor_name in self.tensor_quant_overrides:
            if not self.tensor_quant_overrides.has_per_channel_overrides(tensor_name):
                return False, None
            axis = self.tensor_quant_overrides.get_per_channel_overrides(tensor_name)[0].get("axis", default_axis)
        elif not self.per_channel:
            return False, None
        else:
            axis = self.axis_of_op.get(op_type, default_axis)
        exists, axis = names.normalize_axis(axis, rank)
        return (True, axis) if exists else (False, None)

    def remove_node(self, node: NodeProto) -> None:
        self.nodes_to_remove.append(node)

    def try_replacing_upstream_output(self, upstream_output_name: str, output_name: str) -> bool:
        """Lets what wrote one value write the other: for a node between them that does nothing any more."""
        readers = self.users(upstream_output_name)
        if len(readers) != 1 or upstream_output_name not in self.marks or \
                self.model.is_graph_output(upstream_output_name) or self.model.is_graph_input(upstream_output_name) or \
                self.marks[upstream_output_name].like or not self._same_wish(upstream_output_name, output_name):
            return False
        self.model.replace_output_of_all_nodes(upstream_output_name, output_name)
        self.marks[output_name] = self.marks.pop(upstream_output_name)
        return True

    def _same_wish(self, a: str, b: str) -> bool:
        wish = self.tensor_quant_overrides.get(a)
        return wish is None or (wish == self.tensor_quant_overrides.get(b) and "convert" not in wish[0])

    # ---- the model ----

    def quantize_model(self) -> onnx.ModelProto:
        for node in list(self.model.nodes()):
            if self.should_quantize_node(node):
                QDQRegistry.get(node.op_type, every_tensor)(self, node)
        self._widen_weights_for_biases()
        for name, mark in self.marks.items():
            if self._stored(name) is not None:
                self._add_pairs(name, mark)
        for name, info in self.biases:
            self._add_bias(name, info)
        self.model.remove_nodes(self.nodes_to_remove)
        self.model.add_nodes(self.new_nodes)
        self.model.clean_initializers()
        self.model.topological_sort()
        if self.qdq_op_domain:
            self.model.set_opset_import(self.qdq_op_domain, 1)
        self.model.model.producer_name, self.model.model.producer_version = names.__producer__, names.__version__
        return self.model.model

    def calc_graph_quant_params(self) -> Dict[str, QuantizationParams]:
        """By name, the parameters of each tensor that is marked."""
        return {name: s.params for name in self.marks if (s := self._stored(name)) is not None}

    def calc_quant_params(self, tensor_data: Any, quant_overrides: Dict[str, Any]) -> QuantizationParams:
        """Of an activation with this range and these wishes."""
        kept, self.tensors_range = self.tensors_range, {"it": tensor_data}
        try:
            return self.activation_params("it", quant_overrides)
        finally:
            self.tensors_range = kept

    # ---- parameters ----

    def _stored(self, name: str) -> Optional[Stored]:
        """A marked tensor's parameters, as initializers; None: nothing is known of its range."""
        if name not in self.stored:
            mark = self.marks[name]
            if mark.like is not None and mark.like in self.marks:
                self.stored[name] = self._stored(mark.like)
            else:
                params = self._weight_params(name, mark) if name in self.weights else self.activation_params(name)
                self.stored[name] = params and self._store(name, params)
        return self.stored[name]

    def _weight_params(self, name: str, mark: Mark) -> Optional[QuantizationParams]:
        kind = self.weight_qType if mark.kind == QDQQuantTensorType.WEIGHT else self.activation_qType
        data = self.array(name)
        if not np.isfinite(data).all():
            return None
        if mark.kind == QDQQuantTensorType.ACTIVATION and name not in self.tensor_quant_overrides:
            zero, scale = names.compute_data_quant_params(
                data, kind, self.is_activation_symmetric, self.reduce_range and kind != TensorProto.FLOAT8E4M3FN,
                self.min_real_range)
            return QuantizationParams(zero_point=zero, scale=scale, quant_type=kind)
        return self.weight_params(data, name, kind, mark.axis, symmetric=None if mark.axis is None else True)

    def _store(self, name: str, params: QuantizationParams, suffix: str = "") -> Stored:
        return Stored(params, self.listed(f"{name}_scale{suffix}", params["scale"]),
                      self.listed(f"{name}_zero_point{suffix}", params["zero_point"]))

    def _widen_weights_for_biases(self) -> None:
        if not self.adjust_for_bias:
            return
        for name, info in self.biases:
            x, w = (self._stored(n) if n in self.marks else None for n in (info.input_name, info.weight_name))
            if x is None or w is None or info.weight_name not in self.weights or w.params["block_size"]:
                continue
            if w.params["quant_type"] == TensorProto.FLOAT8E4M3FN:
                continue
            scale = self.wide_enough(self.array(name), x.params["scale"], w.params["scale"])
            if not np.array_equal(scale, w.params["scale"]):
                w.params["scale"] = scale
                self.weights[w.scale].CopyFrom(names.listed(scale, w.scale))

    # ---- pairs ----

    def _quantize_node(self, x: str, y: str, s: Stored, suffix: str = "") -> NodeProto:
        name = (x[:-len(names.QUANT_INPUT_SUFFIX)] if x.endswith(names.QUANT_INPUT_SUFFIX) else x)
        return helper.make_node(names.QUANT_OP_NAME, [x, s.scale, s.zero_point], [y],
                                names.add_quant_suffix(name) + suffix, domain=self.qdq_op_domain,
                                **self._axis(s.params))

    def _dequantize_node(self, x: str, y: str, s: Stored, name: str) -> NodeProto:
        return helper.make_node(names.DEQUANT_OP_NAME, [x, s.scale, s.zero_point], [y], name,
                                domain=self.qdq_op_domain, **self._axis(s.params))

    @staticmethod
    def _axis(params: QuantizationParams) -> Dict[str, int]:
        if params["axis"] is None:
            return {}
        return {"axis": params["axis"], **({"block_size": params["block_size"]} if params["block_size"] else {})}

    def _add_pairs(self, name: str, mark: Mark) -> None:
        s = self._stored(name)
        if name in self.weights and not self.add_qdq_pair_to_weight:
            self._add_weight(name, s)
            return
        convert = (self.tensor_quant_overrides.get(name) or [{}])[0].get("convert")
        if name in self.weights or self.model.is_graph_output(name) or not self.dedicated_qdq_pair or convert:
            self._add_pair(name, s, convert)
            return
        readers = [n for n in self.users(name) if n not in self.nodes_to_remove]
        for i, node in enumerate(readers):
            self._add_dedicated(name, s, node, f"_{i + 1}" if len(readers) > 1 else "")

    def _add_weight(self, name: str, s: Stored) -> None:
        codes = self.constant(name + names.TENSOR_NAME_QUANT_SUFFIX, self.weight_codes(self.array(name), s.params))
        y = names.add_dequant_output_suffix(name)
        self.model.replace_input_of_all_nodes(name, y)
        self.new_nodes.append(self._dequantize_node(codes, y, s, names.add_dequant_suffix(name)))

    def _add_dedicated(self, name: str, s: Stored, node: NodeProto, suffix: str) -> None:
        codes, y = names.add_quant_output_suffix(name) + suffix, names.add_dequant_output_suffix(name) + suffix
        self.model.replace_node_input(node, name, y)
        self.new_nodes += [self._quantize_node(name, codes, s, suffix),
                           self._dequantize_node(codes, y, s, names.add_dequant_suffix(name) + suffix)]

    def _add_pair(self, name: str, s: Stored, convert: Optional[Dict[str, Any]]) -> None:
        """x -> Q -> DQ -> readers; of a graph output, the last keeps the name."""
        x, y = name, names.add_dequant_output_suffix(name)
        is_output = self.model.is_graph_output(name) and not self.model.is_graph_input(name)
        if is_output:
            x, y = names.add_quant_input_suffix(name), name
            self.model.replace_output_of_all_nodes(name, x)
        codes = names.add_quant_output_suffix(name)
        self.new_nodes.append(self._quantize_node(x, codes, s))
        if convert:
            every = {n.name for n in self.users(name)}
            receivers = set(convert.get("recv_nodes") or every)
            whole = receivers >= every
            self._add_converted(name, s, y if whole else y + "_convert", receivers, convert)
            if whole:
                return
        if not is_output:
            self.model.replace_input_of_all_nodes(name, y)
        self.new_nodes.append(self._dequantize_node(codes, y, s, names.add_dequant_suffix(name)))

    def _add_converted(self, name: str, s: Stored, y: str, receivers: Set[str], convert: Dict[str, Any]) -> None:
        """codes -> DQ -> Q -> DQ -> y, which these nodes read: the same tensor in another type."""
        params = self.activation_params(name, {k: v for k, v in convert.items() if k != "recv_nodes"})
        other = self._store(name, params, "_convert")
        self.model.replace_input_of_nodes(name, y, receivers)
        numbers, codes = name + "_convert_numbers", names.add_quant_output_suffix(name) + "_convert"
        self.new_nodes += [
            self._dequantize_node(names.add_quant_output_suffix(name), numbers, s,
                                  names.add_dequant_suffix(name) + "_before_convert"),
            helper.make_node(names.QUANT_OP_NAME, [numbers, other.scale, other.zero_point], [codes],
                             names.add_quant_suffix(name) + "_convert", domain=self.qdq_op_domain),
            self._dequantize_node(codes, y, other, names.add_dequant_suffix(name) + "_convert")]

    # ---- biases ----

    def _scale_of(self, name: str, reader: str) -> Optional[np.ndarray]:
        """The scale with which a node reads a tensor."""
        if name in self.dequantized:
            return None if attribute(self.dequantized[name], "block_size", 0) else self.array(
                self.dequantized[name].input[1])
        s = self._stored(name) if name in self.marks else None
        if s is None or s.params["quant_type"] == TensorProto.FLOAT8E4M3FN or s.params["block_size"]:
            return None
        convert = (self.tensor_quant_overrides.get(name) or [{}])[0].get("convert")
        if convert and (not convert.get("recv_nodes") or reader in convert["recv_nodes"]):
            return self.activation_params(name, {k: v for k, v in convert.items() if k != "recv_nodes"})["scale"]
        return s.params["scale"]

    def quantize_bias_static(self, bias_name: str, bias_info: QDQBiasQuantInfo) -> str:
        """The name of the bias's codes, whose scale is beside them; empty if a scale is not known."""
        x, w = (self._scale_of(n, bias_info.node_name) for n in (bias_info.input_name, bias_info.weight_name))
        if x is None or w is None:
            return ""
        name = bias_name + names.TENSOR_NAME_QUANT_SUFFIX
        if name in self.weights:  # another node has the same bias, and other scales
            name += f"_{len(self.new_nodes)}"
        codes, scale = self.bias_codes(self.array(bias_name), x, w, bias_info.beta)
        self.constant(name + "_scale", scale)
        zeros = np.zeros(scale.shape if scale.size > 1 else (), np.int32)
        (self.constant if zeros.ndim else self.listed)(name + "_zero_point", zeros)
        return self.constant(name, codes)

    def _add_bias(self, name: str, info: QDQBiasQuantInfo) -> None:
        node = next((n for n in self.model.nodes() if n.name == info.node_name and name in n.input), None)
        codes = self.quantize_bias_static(name, info) if node is not None else ""
        if not codes:
            return
        number = codes[len(name + names.TENSOR_NAME_QUANT_SUFFIX):]
        y = names.add_dequant_output_suffix(name) + number
        self.model.replace_node_input(node, name, y)
        by_channel = {"axis": 0} if len(self.weights[codes + "_scale"].dims) and \
            self.weights[codes + "_scale"].dims[0] > 1 else {}
        self.new_nodes.append(helper.make_node(names.DEQUANT_OP_NAME,
                                               [codes, codes + "_scale", codes + "_zero_point"], [y],
                                               names.add_dequant_suffix(name) + number,
                                               domain=self.qdq_op_domain, **by_channel))
