"""Quantization by operators that take codes: static (QLinearConv, QLinearMatMul and their kind, with ranges from
calibration) and dynamic (MatMulInteger, ConvInteger: ranges are found in each run).

Nodes are taken in order. A tensor may exist as numbers, as codes, or as both: codes are made where the first rule asks
for them, numbers where the first node that stayed as it was asks for them.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from nacre.quantization import quant_utils as names
from nacre.quantization.base_quantizer import BaseQuantizer, QuantizationParams
from nacre.quantization.onnx_model import clean_initializers, inputs_of, subgraphs, topologically
from nacre.quantization.operator_rules import IntegerOpsRegistry, QLinearOpsRegistry
from nacre.quantization.quant_utils import QuantizationMode, QuantizedValue, QuantizedValueType


class ONNXQuantizer(BaseQuantizer):
    def __init__(self, model: onnx.ModelProto, per_channel: bool, reduce_range: bool, mode: Any, static: bool,
                 weight_qType: Any, activation_qType: Any, tensors_range: Any, nodes_to_quantize: Any,  # noqa: N803
                 nodes_to_exclude: Any, op_types_to_quantize: Any,
                 extra_options: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(model, per_channel, reduce_range, weight_qType, activation_qType, tensors_range,
                         nodes_to_quantize, nodes_to_exclude, op_types_to_quantize, extra_options)
        if not static:
            self.model.replace_gemm_with_matmul()
            self.weights = {t.name: t for t in self.model.initializer()}
        self.mode, self.static = mode, static
        self.rules = IntegerOpsRegistry if mode == QuantizationMode.IntegerOps else QLinearOpsRegistry
        self.values: Dict[str, QuantizedValue] = {}
        self.params: Dict[str, QuantizationParams] = {}
        self.only_codes: Set[str] = set()
        self.new_nodes: List[NodeProto] = []
        self.target: GraphProto = self.model.graph()

    # ---- the model ----

    def quantize_model(self) -> onnx.ModelProto:
        self._graph(self.model.graph(), nested=False)
        if any(n.domain == names.ms_domain for n in self._every_node(self.model.graph())):
            self.model.set_opset_import(names.ms_domain, 1)
        self.model.model.producer_name, self.model.model.producer_version = names.__producer__, names.__version__
        return self.model.model

    def _every_node(self, graph: GraphProto) -> Any:
        for node in graph.node:
            yield node
            for inner in subgraphs(node):
                yield from self._every_node(inner)

    def _graph(self, graph: GraphProto, nested: bool) -> None:
        """Quantizes one graph; in a subgraph, weights of the graphs around it are known too."""
        outer = (self.new_nodes, self.target, dict(self.values), dict(self.weights), set(self.only_codes))
        self.new_nodes, self.target = [], graph
        if nested:
            self.weights.update((t.name, t) for t in graph.initializer)
        for node in list(graph.node):
            self._node(node)
        for output in graph.output:
            self._numbers(output.name)
        known = [i.name for i in graph.input] + [t.name for t in graph.initializer]
        ordered = topologically(self.new_nodes, known)
        del graph.node[:]
        graph.node.extend(ordered)
        clean_initializers(graph)
        if nested:
            self.new_nodes, self.target, self.values, self.weights, self.only_codes = outer

    def _node(self, node: NodeProto) -> None:
        if self.enable_subgraph_quantization and not self.static:
            for inner in subgraphs(node):
                self._graph(inner, nested=True)
        rule = self.rules.get(node.op_type) if self.should_quantize_node(node) else None
        if rule is not None and self._all_floats(node) and rule(self, node):
            return
        self.emit(onnx.NodeProto.FromString(node.SerializeToString()))

    def _all_floats(self, node: NodeProto) -> bool:
        """Whether what a rule would turn to codes is a tensor of floats, as far as it is known."""
        at = 1 if node.op_type == "Where" else 0
        name = node.input[at] if len(node.input) > at else ""
        if node.op_type == "EmbedLayerNormalization" or name in self.values:
            return True
        return self.is_float(name) or (name in self.weights and self.is_valid_quantize_weight(name)) or \
            (name not in self.types and not self.static)

    def _numbers(self, name: str) -> None:
        """Sees to it that a tensor exists as numbers."""
        if name in self.only_codes:
            v = self.values[name]
            self.only_codes.discard(name)
            self.emit(helper.make_node(names.DEQUANT_OP_NAME, [v.q_name, v.scale_name, v.zp_name], [name],
                                       names.add_dequant_suffix(name)))

    # ---- for the rules ----

    def emit(self, node: NodeProto) -> None:
        """Adds a node; what it takes as numbers becomes some."""
        for name in inputs_of(node):
            self._numbers(name)
        self.new_nodes.append(node)

    def constant(self, name: str, data: Any) -> str:
        if name not in self.weights:
            self.weights[name] = self.target.initializer.add()
            self.weights[name].CopyFrom(onnx.numpy_helper.from_array(np.asarray(data), name))
        return name

    def number_type(self, name: str) -> int:
        return self.types[name].tensor_type.elem_type if self.is_float(name) else TensorProto.FLOAT

    def has_codes(self, name: str) -> bool:
        return name in self.values

    def _remember(self, name: str, q_name: str, scale: str, zero: str, kind: Any = QuantizedValueType.Input,
                  axis: Optional[int] = None) -> QuantizedValue:
        self.values[name] = QuantizedValue(name, q_name, scale, zero, kind, axis)
        return self.values[name]

    def _stored(self, name: str, p: QuantizationParams) -> List[str]:
        self.params[name + "_scale"] = p
        return [self.listed(name + "_scale", p["scale"]), self.listed(name + "_zero_point", p["zero_point"])]

    def codes_of(self, name: str) -> Optional[QuantizedValue]:
        """A tensor's codes, made now if it has none; None: its range is not known, or no codes hold it."""
        if name in self.values:
            return self.values[name]
        if name in self.weights:
            if not np.isfinite(self.array(name)).all():
                return None
            return self._constant_codes(name, name, self.array(name), self.activation_qType,
                                        self.is_activation_symmetric)
        q_name = name + names.TENSOR_NAME_QUANT_SUFFIX
        if not self.static:
            return self._dynamic_codes(name, q_name)
        p = self.activation_params(name)
        if p is None:
            return None
        scale, zero = self._stored(name, p)
        self.emit(helper.make_node(names.QUANT_OP_NAME, [name, scale, zero], [q_name], names.add_quant_suffix(name)))
        return self._remember(name, q_name, scale, zero)

    def _dynamic_codes(self, name: str, q_name: str) -> QuantizedValue:
        if self.activation_qType != TensorProto.UINT8:
            raise ValueError(f"dynamic quantization of '{name}': activations become uint8, asked for was "
                             f"{TensorProto.DataType.Name(self.activation_qType)}")
        self.emit(helper.make_node("DynamicQuantizeLinear", [name], [q_name, name + "_scale", name + "_zero_point"],
                                   names.add_quant_suffix(name)))
        return self._remember(name, q_name, name + "_scale", name + "_zero_point")

    def _constant_codes(self, name: str, base: str, data: np.ndarray, kind: int, symmetric: bool) -> QuantizedValue:
        zero, scale, codes = names.quantize_data(data, kind, symmetric, min_real_range=self.min_real_range)
        stored = self._stored(base, QuantizationParams(zero_point=zero, scale=scale, quant_type=kind))
        return self._remember(name, self.constant(base + names.TENSOR_NAME_QUANT_SUFFIX, codes.reshape(data.shape)),
                              *stored, kind=QuantizedValueType.Initializer)

    def weight(self, name: str, axis: Optional[int], kind: Optional[int] = None) -> QuantizedValue:
        """Codes of a weight, of this type or the weights', as one or along an axis."""
        base = name if name not in self.values or self.values[name].axis == axis else f"{name}_axis{axis}"
        if self.tensor_quant_overrides.has_per_channel_overrides(name):
            axis = self.tensor_quant_overrides[name][0].get("axis", axis)
        if base in self.values and base + "_as_weight" in self.params:
            return self.values[base]
        data = self.array(name)
        p = self.weight_params(data, name, self.weight_qType if kind is None else kind, axis)
        if base in self.values:  # it is an activation elsewhere, of another type perhaps
            base += "_weight"
        self.params[base + "_as_weight"] = p
        stored = self._stored(base, p)
        codes = self.constant(base + names.TENSOR_NAME_QUANT_SUFFIX, self.weight_codes(data, p))
        return self._remember(base, codes, *stored, kind=QuantizedValueType.Initializer, axis=axis)

    def lstm_weight(self, name: str) -> QuantizedValue:
        """(directions, 4 gates, inputs) as int8 (directions, inputs, 4 gates); a scale each direction, or each row."""
        base = name + "_lstm"
        if base in self.values:
            return self.values[base]
        data = self.array(name).transpose(0, 2, 1)
        parts = [self.weight_params(d, name, TensorProto.INT8, 1 if self.per_channel else None) for d in data]
        codes = np.stack([self.weight_codes(d, p) for d, p in zip(data, parts)])
        scale, zero = (np.stack([p[k] for p in parts]) for k in ("scale", "zero_point"))
        return self._remember(base, self.constant(name + names.TENSOR_NAME_QUANT_SUFFIX, codes),
                              self.constant(name + "_scale", scale), self.constant(name + "_zero_point", zero),
                              QuantizedValueType.Initializer)

    def has_bias_codes(self, node: NodeProto, index: int) -> bool:
        """Whether a node has no bias, or one that can be written in codes of 32 bits."""
        if len(node.input) <= index or not node.input[index]:
            return True
        return self.is_valid_quantize_weight(node.input[index])

    def bias(self, name: str, x: QuantizedValue, w: QuantizedValue, beta: float) -> str:
        """Codes of a bias in the product of both scales; the weight's grow if they would not fit."""
        px, pw = self.params[x.scale_name], self.params[w.scale_name]
        data = self.array(name).reshape(-1)
        wide = self.wide_enough(data, px["scale"], pw["scale"])
        if not np.array_equal(wide, pw["scale"]) and w.value_type == QuantizedValueType.Initializer:
            self._change_scale(w, pw, wide)
        codes, _ = self.bias_codes(data, px["scale"], pw["scale"], beta)
        target = name + names.TENSOR_NAME_QUANT_SUFFIX
        if target in self.weights:
            target += f"_{len(self.new_nodes)}"
        return self.constant(target, codes)

    def _change_scale(self, w: QuantizedValue, p: QuantizationParams, scale: np.ndarray) -> None:
        p["scale"] = scale
        self.weights[w.scale_name].CopyFrom(names.listed(scale, w.scale_name))
        source = w.original_name if w.original_name in self.weights else w.original_name.rpartition("_axis")[0]
        codes = self.weight_codes(self.array(source), p)
        self.weights[w.q_name].CopyFrom(onnx.numpy_helper.from_array(codes, w.q_name))

    def from_zero_to_one(self) -> QuantizationParams:
        low, _ = names.get_qmin_qmax_for_qType(self.activation_qType)
        return QuantizationParams(scale=np.float32(1 / 256), zero_point=low, quant_type=self.activation_qType)

    def result(self, name: str, p: Optional[QuantizationParams] = None) -> Optional[QuantizedValue]:
        """Where a rule puts the codes of what it computes; None: the range is not known, and the node stays."""
        p = p or self.activation_params(name)
        if p is None:
            return None
        scale, zero = self._stored(name, p)
        self.only_codes.add(name)
        return self._remember(name, name + names.TENSOR_NAME_QUANT_SUFFIX, scale, zero)

    def share(self, name: str, x: QuantizedValue) -> str:
        """The name for codes of a value that are those of another, moved."""
        self.only_codes.add(name)
        return self._remember(name, name + names.TENSOR_NAME_QUANT_SUFFIX, x.scale_name, x.zp_name).q_name

    def alias(self, name: str, source: str) -> None:
        """A value that is another's codes."""
        v = self.values[source]
        self.only_codes.add(name)
        self._remember(name, v.q_name, v.scale_name, v.zp_name)

    def shares_range(self, x: str, y: str) -> bool:
        """Whether the range of x is what comes out as y."""
        if self.tensors_range is None or x not in self.tensors_range or y not in self.tensors_range:
            return False
        return all(np.array_equal(a, b) for a, b in zip(self.tensors_range[x].range_value,
                                                        self.tensors_range[y].range_value))

    def quantize_with(self, name: str, like: QuantizedValue) -> str:
        """A computed number in the codes of another tensor."""
        y = name + names.TENSOR_NAME_QUANT_SUFFIX + f"_{len(self.new_nodes)}"
        self.emit(helper.make_node(names.QUANT_OP_NAME, [name, like.scale_name, like.zp_name], [y], y))
        return y

    def code_of_constant(self, number: Optional[np.ndarray], like: QuantizedValue, node: NodeProto) -> str:
        if number is None:
            return like.zp_name
        p = self.params[like.scale_name]
        return self.constant(node.output[0] + "_pad_code",
                             names.quantize_nparray(p["quant_type"], number, p["scale"], p["zero_point"]))
