"""What both quantizers share: which nodes are taken, the parameters of activations and weights, codes of weights and
biases, and the caller's wishes for single tensors."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from nacre import _inference
from nacre.quantization.onnx_model import ONNXModel
from nacre.quantization.quant_utils import (QuantType, compute_data_quant_params, compute_scale_zp,
                                            compute_scale_zp_blocked, compute_scale_zp_float8, get_qmin_qmax_for_qType,
                                            listed, quantize_nparray, spread, tensor_proto_to_array)
from nacre.quantization.tensor_quant_overrides import TensorQuantOverridesHelper

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_INT32 = np.iinfo(np.int32)


class QuantizationParams:
    """zero_point, scale, quant_type; axis and block_size where there are several of them."""

    def __init__(self, **data: Any) -> None:
        self.data: Dict[str, Any] = {"axis": None, "block_size": 0}
        for name, value in data.items():
            if name == "scale" and np.asarray(value).dtype not in (np.float32, np.float16):
                raise ValueError(f"scale: expected float32 or float16, got {np.asarray(value).dtype}")
            self.data[name] = np.asarray(value) if name in ("scale", "zero_point") else value

    def get(self, key: str, default_value: Any = None) -> Any:
        return self.data.get(key, default_value)

    def __iter__(self) -> Any:
        return iter(self.data)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __len__(self) -> int:
        return len(self.data)


def tensor_type(kind: Any) -> int:
    """A QuantType, or a type of TensorProto, as the latter."""
    return kind.tensor_type if isinstance(kind, QuantType) else int(kind)


class BaseQuantizer:
    def __init__(self, model: onnx.ModelProto, per_channel: bool, reduce_range: bool, weight_qType: Any,  # noqa: N803
                 activation_qType: Any, tensors_range: Any, nodes_to_quantize: Any, nodes_to_exclude: Any,
                 op_types_to_quantize: Any, extra_options: Optional[Dict[str, Any]] = None) -> None:
        self.extra_options = extra_options or {}
        self.model = ONNXModel(model)
        self.per_channel, self.reduce_range = per_channel, reduce_range
        self.weight_qType, self.activation_qType = tensor_type(weight_qType), tensor_type(activation_qType)
        self.tensors_range = tensors_range
        self.nodes_to_quantize, self.nodes_to_exclude = set(nodes_to_quantize or []), set(nodes_to_exclude or [])
        self.op_types_to_quantize = list(op_types_to_quantize or [])
        option = self.extra_options.get
        self.enable_subgraph_quantization = bool(option("EnableSubgraph"))
        self.force_quantize_no_input_check = bool(option("ForceQuantizeNoInputCheck"))
        self.is_activation_symmetric = bool(option("ActivationSymmetric", False))
        self.min_real_range = option("MinimumRealRange")
        self.tensor_quant_overrides = TensorQuantOverridesHelper(option("TensorQuantOverrides", {}))
        self.weights = {t.name: t for t in model.graph.initializer}
        self.types = _inference.types_of(model)
        for output in self.model.graph().output:  # ONNX's checker asks for a shape
            if not output.type.tensor_type.HasField("shape") and output.name in self.types:
                output.type.CopyFrom(self.types[output.name])
        self.opset_version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        self._check_overrides()
        if tensors_range is not None:
            self.adjust_tensor_ranges()

    def _check_overrides(self) -> None:
        activations = {o for n in self.model.nodes() for o in n.output} | self.model.get_non_initializer_inputs()
        ok, why = self.tensor_quant_overrides.is_valid(self.weights, activations, self.activation_qType)
        if not ok:
            raise ValueError(why)

    # ---- questions ----

    def is_weight_symmetric(self, weight_quant_type: int) -> bool:
        """Signed codes have 0 in the middle, unless the caller says otherwise."""
        signed = weight_quant_type in (TensorProto.INT4, TensorProto.INT8, TensorProto.INT16, TensorProto.FLOAT8E4M3FN)
        return bool(self.extra_options.get("WeightSymmetric", signed))

    def is_input_a_initializer(self, input_name: str) -> bool:
        return input_name in self.weights

    def is_per_channel(self) -> bool:
        return self.per_channel

    def is_valid_quantize_weight(self, weight_name: str) -> bool:
        return weight_name in self.weights and self.weights[weight_name].data_type in _FLOATS

    def is_float(self, name: str) -> bool:
        kind = self.types.get(name)
        return kind is not None and kind.tensor_type.elem_type in _FLOATS

    def should_quantize_node(self, node: NodeProto) -> bool:
        if self.nodes_to_quantize and node.name not in self.nodes_to_quantize:
            return False
        return node.op_type in self.op_types_to_quantize and node.name not in self.nodes_to_exclude and \
            node.domain in ("", "ai.onnx", "com.microsoft")

    def quantize_model(self) -> Any:
        raise NotImplementedError

    # ---- ranges ----

    def adjust_tensor_ranges(self) -> None:
        """What only a Relu or a Clip reads needs no more range than comes out of it; a Softmax gives 0 to 1."""
        readers = self.model.input_name_to_nodes()
        for node in self.model.nodes():
            if node.op_type in ("Clip", "Relu"):
                x, y = node.input[0], node.output[0]
                if self.should_quantize_node(node) and len(readers.get(x, [])) == 1 and x in self.tensors_range and \
                        y in self.tensors_range and not self.model.is_graph_output(x):
                    self.tensors_range.data[x] = self.tensors_range[y]
            elif node.op_type == "Softmax" and self.should_quantize_node(node) and node.output[0] in self.tensors_range:
                from nacre.quantization.calibrate import TensorData
                kind = np.asarray(self.tensors_range[node.output[0]].range_value[0]).dtype
                self.tensors_range.data[node.output[0]] = TensorData(lowest=np.array(0, kind),
                                                                     highest=np.array(1, kind))

    # ---- parameters ----

    def activation_params(self, name: str, overrides: Optional[Dict[str, Any]] = None) -> Optional[QuantizationParams]:
        """Of a tensor that calibration saw, or whose parameters the caller gave; None for any other, and for one that
        is infinite somewhere, as masks are: no codes hold that beside other numbers."""
        wish = overrides if overrides is not None else self.tensor_quant_overrides.get_per_tensor_overrides(name, {})
        kind = tensor_type(wish.get("quant_type", self.activation_qType))
        if "scale" in wish and "zero_point" in wish:
            codes = helper.tensor_dtype_to_np_dtype(kind)
            return QuantizationParams(scale=np.asarray(wish["scale"], np.float32).reshape(()), quant_type=kind,
                                      zero_point=np.asarray(wish["zero_point"]).astype(codes).reshape(()))
        if self.tensors_range is None or name not in self.tensors_range:
            return None
        if kind == TensorProto.FLOAT8E4M3FN:
            zero, scale = compute_scale_zp_float8(kind, self.tensors_range[name].avg_std[1])
            return QuantizationParams(zero_point=zero, scale=scale, quant_type=kind)
        low, high = (np.asarray(e) for e in self.tensors_range[name].range_value)
        low, high = (np.asarray(wish.get(k, e), e.dtype) for k, e in (("rmin", low.min()), ("rmax", high.max())))
        if not (np.isfinite(low) and np.isfinite(high)):
            return None
        symmetric = bool(wish.get("symmetric", self.is_activation_symmetric))
        ends = get_qmin_qmax_for_qType(kind, bool(wish.get("reduce_range", False)), symmetric)
        zero, scale = compute_scale_zp(low, high, *ends, symmetric, self.min_real_range)
        return QuantizationParams(zero_point=zero, scale=scale, quant_type=kind)

    def weight_params(self, data: np.ndarray, name: str, kind: int, axis: Optional[int],
                      symmetric: Optional[bool] = None) -> QuantizationParams:
        """Of a weight as a whole, or of each of its channels along axis; symmetric: where no wish was told."""
        told = self.extra_options.get("WeightSymmetric", symmetric)
        default = {} if told is None else {"symmetric": told}
        if axis is None:
            wish = self.tensor_quant_overrides.get_per_tensor_overrides(name, {})
            return self._part_params(data, {**default, **wish}, kind)
        wishes = self.tensor_quant_overrides.get_per_channel_overrides(name, [{}])
        block = int(wishes[0].get("block_size", 0))
        if block:
            kind = tensor_type(wishes[0].get("quant_type", kind))
            symmetric = bool(wishes[0].get("symmetric", self.is_weight_symmetric(kind)))
            zeros, scales = compute_scale_zp_blocked(data, kind, axis, block, symmetric)
            return QuantizationParams(zero_point=zeros, scale=scales, quant_type=kind, axis=axis, block_size=block)
        count = data.shape[axis]
        if len(wishes) not in (1, count):
            raise ValueError(f"initializer '{name}': {len(wishes)} overrides, expected 1 or {count}, one a channel")
        parts = [self._part_params(np.take(data, i, axis), {**default, **wishes[i % len(wishes)]}, kind)
                 for i in range(count)]
        return QuantizationParams(zero_point=np.array([p["zero_point"] for p in parts]), axis=axis,
                                  scale=np.array([p["scale"] for p in parts]),
                                  quant_type=parts[0]["quant_type"] if parts else kind)

    def _part_params(self, data: np.ndarray, wish: Dict[str, Any], kind: int) -> QuantizationParams:
        kind = tensor_type(wish.get("quant_type", kind))
        if "scale" in wish and "zero_point" in wish:
            zero = np.asarray(wish["zero_point"]).astype(helper.tensor_dtype_to_np_dtype(kind)).reshape(())
            return QuantizationParams(scale=np.asarray(wish["scale"], data.dtype).reshape(()), zero_point=zero,
                                      quant_type=kind)
        symmetric = bool(wish.get("symmetric", self.is_weight_symmetric(kind)))
        reduced = bool(wish.get("reduce_range", self.reduce_range and kind != TensorProto.FLOAT8E4M3FN))
        zero, scale = compute_data_quant_params(data, kind, symmetric, reduced, self.min_real_range,
                                                wish.get("rmin"), wish.get("rmax"))
        return QuantizationParams(zero_point=zero, scale=scale, quant_type=kind)

    # ---- codes ----

    def weight_codes(self, data: np.ndarray, p: QuantizationParams) -> np.ndarray:
        shape = data.shape
        return quantize_nparray(p["quant_type"], data, spread(p["scale"], shape, p["axis"], p["block_size"]),
                                spread(p["zero_point"], shape, p["axis"], p["block_size"])).reshape(shape)

    @staticmethod
    def bias_codes(bias: np.ndarray, input_scale: np.ndarray, weight_scale: np.ndarray, beta: float) -> Any:
        """(codes of 32 bits, their scale): a bias is added to sums whose step is the product of both scales."""
        scale = np.atleast_1d(np.asarray(input_scale * weight_scale * beta)).astype(np.asarray(weight_scale).dtype)
        codes = np.round(np.asarray(bias, np.float64) / scale.astype(np.float64))
        return np.clip(codes, _INT32.min, _INT32.max).astype(np.int32), scale

    @staticmethod
    def wide_enough(bias: np.ndarray, input_scale: np.ndarray, weight_scale: np.ndarray) -> np.ndarray:
        """The weight's scales, greater where the bias would not fit into 32 bits otherwise."""
        most = np.abs(np.asarray(bias, np.float64)).reshape(-1)
        most = most if np.ndim(weight_scale) and most.size == np.size(weight_scale) else most.max(initial=0)
        need = most / (float(np.asarray(input_scale)) * (_INT32.max - 1))
        return np.maximum(weight_scale, need.astype(np.float64) * (1 + 1e-4)).astype(np.asarray(weight_scale).dtype)

    def array(self, name: str) -> np.ndarray:
        return tensor_proto_to_array(self.weights[name])

    def constant(self, name: str, data: Any) -> str:
        """An initializer of this name; one that is there stays."""
        if name not in self.weights:
            self.weights[name] = self.model.graph().initializer.add()
            self.weights[name].CopyFrom(numpy_helper.from_array(np.asarray(data), name))
        return name

    def listed(self, name: str, data: Any) -> str:
        """A constant whose numbers stand in the field of their type, where scripts read scales and zero points."""
        if name not in self.weights:
            self.weights[self.constant(name, data)].CopyFrom(listed(data, name))
        return name

    def users(self, name: str, nodes: Optional[Sequence[NodeProto]] = None) -> List[NodeProto]:
        return [n for n in (self.model.nodes() if nodes is None else nodes) if name in n.input]

    def excluded_outputs(self) -> Set[str]:
        return set(self.extra_options.get("OpTypesToExcludeOutputQuantization", []))
