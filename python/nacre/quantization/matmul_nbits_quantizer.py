"""Weights of 2, 4 or 8 bits in blocks, activations as they are: MatMul becomes MatMulNBits, Gather of a table becomes
GatherBlockQuantized, or, in QDQ form, a DequantizeLinear with a block size stands before them.

Ways to find codes: default and RTN round to nearest; k_quant tries scales around that and keeps the one with the least
squared error; HQQ moves the zero points so that the error, in a norm that forgives few large ones, becomes small.
"""
from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from nacre.capi import _quantize
from nacre.quantization.onnx_model import ONNXModel, clean_initializers, subgraphs
from nacre.quantization.quant_utils import QuantFormat, load_model

logger = logging.getLogger(__name__)
Axes = Optional[Tuple[Tuple[str, int], ...]]
Codes = Tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]


# ---- configs ----

class WeightOnlyQuantConfig:
    def __init__(self, algorithm: str, quant_format: QuantFormat,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None,
                 quant_axes: Axes = None, customized_weight_config: Optional[Dict[str, Any]] = None) -> None:
        self.algorithm, self.quant_format = algorithm, quant_format
        self.op_types_to_quantize = set(op_types_to_quantize) if op_types_to_quantize else {"MatMul"}
        self.quant_axes = dict(quant_axes) if quant_axes else {"MatMul": 0, "Gather": 1}
        self.customized_weight_config = customized_weight_config or {}


class RTNWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Round to nearest, in blocks of 32."""

    def __init__(self, ratios: Any = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None,
                 customized_weight_config: Optional[Dict[str, Any]] = None) -> None:
        super().__init__("RTN", quant_format, op_types_to_quantize, None, customized_weight_config)
        self.ratios, self.bits, self.block_size, self.is_symmetric = ratios or {}, 4, 32, False
        self.accuracy_level, self.channel_wised_quantize = None, False


class KQuantWeightOnlyQuantConfig(RTNWeightOnlyQuantConfig):
    """The scale of a block, in blocks of 32, is searched."""

    def __init__(self, ratios: Any = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None,
                 customized_weight_config: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(ratios, quant_format, op_types_to_quantize, customized_weight_config)
        self.algorithm = "k_quant"


class GPTQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    def __init__(self, calibration_data_reader: Any = None, percdamp: float = 0.01, block_size: int = 128,
                 actorder: bool = False, mse: bool = False, perchannel: bool = True,
                 quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None) -> None:
        super().__init__("GPTQ", quant_format, op_types_to_quantize)
        self.calibration_data_reader, self.percdamp, self.block_size = calibration_data_reader, percdamp, block_size
        self.actorder, self.mse, self.perchannel = actorder, mse, perchannel


class HQQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Zero points are numbers between codes, found by half-quadratic steps."""

    def __init__(self, block_size: int = 128, bits: int = 4, axis: int = 1,
                 quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None, quant_axes: Axes = None) -> None:
        super().__init__("HQQ", quant_format, op_types_to_quantize, quant_axes)
        self.block_size, self.bits, self.axis = block_size, bits, axis
        self.is_symmetric, self.accuracy_level, self.channel_wised_quantize = False, None, False


class DefaultWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    def __init__(self, block_size: int = 128, is_symmetric: bool = False, accuracy_level: Optional[int] = None,
                 quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None, quant_axes: Axes = None, bits: int = 4,
                 channel_wised_quantize: bool = False) -> None:
        super().__init__("DEFAULT", quant_format, op_types_to_quantize, quant_axes)
        self.block_size, self.is_symmetric, self.bits = block_size, is_symmetric, bits
        self.accuracy_level, self.channel_wised_quantize = accuracy_level, channel_wised_quantize


# ---- codes ----

def _blocks(weight: np.ndarray, size: int) -> np.ndarray:
    """(K,N) as (N, blocks, size), the last block filled with zeros."""
    k, n = weight.shape
    whole = np.zeros((n, -(-k // size) * size), np.float32)
    whole[:, :k] = weight.T
    return whole.reshape(n, -1, size)


def rounded(weight: np.ndarray, bits: int, size: int, symmetric: bool) -> Codes:
    """(packed codes (N, blocks, bytes), scales (N, blocks), packed zero points or None), to nearest."""
    (k, n), count = weight.shape, -(-weight.shape[0] // size)
    codes, scales = np.zeros((n, count, size * bits // 8), np.uint8), np.zeros(n * count, weight.dtype)
    zeros = np.zeros((n, -(-count * bits // 8)), np.uint8)
    quantize = getattr(_quantize, f"quantize_matmul_{bits}bits")
    quantize(codes, weight, scales, zeros.reshape(-1), size, n, k, symmetric)
    return codes, scales.reshape(n, count), None if symmetric else zeros


def searched(weight: np.ndarray, bits: int, size: int, tries: int = 20) -> Codes:
    """As rounded without symmetry, with the scale of 0.7 to 1.1 of the plain one that has the least squared error."""
    blocks, most = _blocks(weight.astype(np.float32), size), (1 << bits) - 1
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    best = np.full(low.shape, np.inf, np.float32)
    found = [np.zeros(low.shape, np.float32), np.zeros(low.shape, np.float32), np.zeros(blocks.shape, np.uint8)]
    for part in np.concatenate([[1.0], np.linspace(0.7, 1.1, tries)]).astype(np.float32):
        scale = ((high - low) / most * part).astype(weight.dtype).astype(np.float32)
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
        zero = np.clip(np.round(-low * inverse), 0, most)
        codes = np.clip(np.round(blocks * inverse[..., None] + zero[..., None]), 0, most)
        error = (((codes - zero[..., None]) * scale[..., None] - blocks) ** 2).sum(-1)
        better = error < best
        best = np.where(better, error, best)
        for old, new in zip(found, (scale, zero, codes)):
            old[better] = new[better].astype(old.dtype)
    return (_quantize._packed(found[2], bits), found[0].astype(weight.dtype),
            _quantize._packed(found[1].astype(np.uint8), bits))


def half_quadratic(weight: np.ndarray, bits: int, size: int, steps: int = 20) -> Codes:
    """Codes with zero points that are numbers. Each step shrinks the error e to sign(e) max(|e| - |e|^(p-1)/beta, 0)
    and moves the zero point to the mean that explains the rest; beta grows. Badri and Shaji, 2023."""
    blocks, most = _blocks(weight.astype(np.float32), size), (1 << bits) - 1
    low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
    inverse = np.minimum(most / np.maximum(high - low, 1e-8), 2e4).astype(np.float32)
    zero = np.round(-low * inverse)
    power, beta, best, kept = 0.7, 10.0, np.inf, zero
    for _ in range(steps):
        codes = np.clip(np.round(blocks * inverse + zero), 0, most)
        error = blocks - (codes - zero) / inverse
        told = float(np.abs(error).mean())
        if told >= best:
            break
        best, kept = told, zero
        size_of = np.abs(error)
        shrunk = np.sign(error) * np.maximum(size_of - np.power(np.maximum(size_of, 1e-8), power - 1) / beta, 0)
        zero = (codes - (blocks - shrunk) * inverse).mean(-1, keepdims=True)
        beta *= 1.01
    codes = np.clip(np.round(blocks * inverse + kept), 0, most).astype(np.uint8)
    return _quantize._packed(codes, bits), (1 / inverse[..., 0]).astype(weight.dtype), kept[..., 0].astype(weight.dtype)


def along_axis(data: np.ndarray, axis: int, size: int, symmetric: bool) -> Codes:
    """4-bit codes of data in its own shape, with scales and zero points of blocks along axis."""
    turned = np.moveaxis(data.astype(np.float32), axis, -1)
    room = -turned.shape[-1] % size
    padded = np.pad(turned, [(0, 0)] * (turned.ndim - 1) + [(0, room)])
    blocks = padded.reshape(*turned.shape[:-1], -1, size)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    if symmetric:
        scale, zero = np.where(np.abs(high) > np.abs(low), high, low) / -8, np.zeros(low.shape)
        ends, kind = (-8, 7), helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    else:
        scale = (high - low) / 15
        zero = np.round(np.divide(-low, scale, out=np.zeros_like(scale), where=scale != 0))
        ends, kind = (0, 15), helper.tensor_dtype_to_np_dtype(TensorProto.UINT4)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    codes = np.clip(np.round(blocks * inverse[..., None] + zero[..., None]), *ends)
    codes = codes.reshape(*turned.shape[:-1], -1)[..., :turned.shape[-1]]
    back = [np.moveaxis(a, -1, axis) for a in (codes, scale, zero)]
    return (back[0].astype(np.int8).astype(kind), back[1].astype(data.dtype),
            None if symmetric else back[2].astype(np.int8).astype(kind))


# ---- the model ----

def get_initializer(name: str, graph_path: List[GraphProto]) -> Tuple[Optional[TensorProto], Optional[GraphProto]]:
    """An initializer of the innermost graph that has it, and that graph."""
    for graph in reversed(graph_path):
        for tensor in graph.initializer:
            if tensor.name == name:
                return tensor, graph
    return None, None


class MatMulNBitsQuantizer:
    def __init__(self, model: Any, bits: int = 4, block_size: int = 128, is_symmetric: bool = False,
                 accuracy_level: Optional[int] = None, nodes_to_exclude: Any = None,
                 nodes_to_include: Optional[List[str]] = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None, quant_axes: Axes = None,
                 channel_wised_quantize: bool = False, algo_config: Optional[WeightOnlyQuantConfig] = None) -> None:
        self.model = ONNXModel(load_model(model))
        self.model_path = str(model) if isinstance(model, (str, Path)) else None
        self.nodes_to_exclude, self.nodes_to_include = set(nodes_to_exclude or []), set(
            nodes_to_include or [])
        self.algo_config: Any = algo_config or DefaultWeightOnlyQuantConfig(
            block_size, is_symmetric, accuracy_level, quant_format, op_types_to_quantize, quant_axes, bits,
            channel_wised_quantize)
        if self.algo_config.algorithm not in ("DEFAULT", "RTN", "k_quant", "HQQ"):
            raise NotImplementedError(f"{self.algo_config.algorithm} is not supported: weights are quantized by "
                                      "DEFAULT, RTN, k_quant or HQQ")
        if self.algo_config.bits not in (2, 4, 8):
            raise ValueError(f"bits is {self.algo_config.bits}, expected 2, 4 or 8")
        size = self.algo_config.block_size
        if size < 16 or size & (size - 1):
            raise ValueError(f"block_size is {size}, expected a power of two from 16 on")
        if self.algo_config.algorithm == "HQQ" and self.algo_config.quant_format == QuantFormat.QDQ:
            raise ValueError("HQQ's zero points are numbers between codes: quant_format QOperator alone writes them")

    def process(self) -> None:
        """Changes self.model; self.model.save_model_to_file writes it."""
        model = self.model.model
        pairs, narrow = self.algo_config.quant_format == QuantFormat.QDQ, "Gather" in \
            self.algo_config.op_types_to_quantize
        version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        if (pairs or narrow) and version < 21:
            self.model.model = model = onnx.version_converter.convert_version(model, 21)
            model.ir_version = max(model.ir_version, 10)
        self._graph(model.graph, [])
        if not pairs or narrow:
            self.model.set_opset_import("com.microsoft", 1)

    def int4_quant_algo(self) -> None:
        self.process()

    def _graph(self, graph: GraphProto, path: List[GraphProto]) -> None:
        made: List[NodeProto] = []
        for node in graph.node:
            for inner in subgraphs(node):
                self._graph(inner, [*path, graph])
            made.extend(self._node(node, [*path, graph]) if self._wanted(node) else [node])
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in made]
        del graph.node[:]
        graph.node.extend(nodes)
        clean_initializers(graph)

    def _wanted(self, node: NodeProto) -> bool:
        """Nodes of the kinds that are asked for, less those excluded, and those included whatever their kind."""
        if node.name in self.nodes_to_include:
            return True
        return node.op_type in self.algo_config.op_types_to_quantize and node.name not in self.nodes_to_exclude

    def _node(self, node: NodeProto, path: List[GraphProto]) -> List[NodeProto]:
        at = {"MatMul": 1, "Gather": 0}.get(node.op_type)
        tensor, graph = get_initializer(node.input[at], path) if at is not None else (None, None)
        if tensor is None or tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
            logger.info("%s '%s' stays: its weight is no constant of floats", node.op_type, node.name)
            return [node]
        data = numpy_helper.to_array(tensor)
        if node.op_type == "Gather":
            return self._gather(node, tensor, data, graph)
        if data.ndim != 2:
            logger.info("MatMul '%s' stays: its weight has %d dims, expected 2", node.name, data.ndim)
            return [node]
        told = self._told(node)
        if self.algo_config.quant_format == QuantFormat.QDQ:
            return self._pair(node, tensor, data, graph, told)
        return self._product(node, tensor, data, graph, told)

    def _told(self, node: NodeProto) -> Dict[str, Any]:
        """Bits, block size and symmetry of a node: the config's, or the customized one's by the node's name."""
        c, own = self.algo_config, self.algo_config.customized_weight_config.get(node.name, {})
        return {"bits": own.get("bits", c.bits), "size": own.get("group_size", c.block_size),
                "symmetric": own.get("scheme", "sym" if c.is_symmetric else "asym") == "sym"}

    def _codes(self, data: np.ndarray, told: Dict[str, Any]) -> Codes:
        if self.algo_config.algorithm == "HQQ":
            return half_quadratic(data, told["bits"], told["size"])
        if self.algo_config.algorithm == "k_quant" and not told["symmetric"]:
            return searched(data, told["bits"], told["size"])
        return rounded(data, told["bits"], told["size"], told["symmetric"])

    def _product(self, node: NodeProto, tensor: TensorProto, data: np.ndarray, graph: Any,
                 told: Dict[str, Any]) -> List[NodeProto]:
        codes, scales, zeros = self._codes(data, told)
        bits = told["bits"]
        inputs = [node.input[0], put_initializer(graph, f"{tensor.name}_Q{bits}", codes),
                  put_initializer(graph, tensor.name + "_scales", scales)]
        if zeros is not None:
            inputs.append(put_initializer(graph, tensor.name + "_zero_points", zeros))
        level = self.algo_config.accuracy_level
        more = {"accuracy_level": level} if level is not None and level > 0 else {}
        return [helper.make_node("MatMulNBits", inputs, list(node.output), f"{node.name}_Q{bits}" if node.name else "",
                                 domain="com.microsoft", K=data.shape[0], N=data.shape[1], bits=bits,
                                 block_size=told["size"], **more)]

    def _pair(self, node: NodeProto, tensor: TensorProto, data: np.ndarray, graph: Any,
              told: Dict[str, Any]) -> List[NodeProto]:
        if told["bits"] != 4:
            logger.error("MatMul '%s' stays: QDQ form has weights of 4 bits, asked for were %d", node.name,
                         told["bits"])
            return [node]
        size = data.shape[0] if self.algo_config.channel_wised_quantize else told["size"]
        codes, scales, zeros = along_axis(data, 0, size, told["symmetric"])
        base, y = tensor.name + "_DQ", tensor.name + "_DQ_Q4_output"
        inputs = [put_initializer(graph, base + "_Q4", codes), put_initializer(graph, base + "_scales", scales)]
        if zeros is not None:
            inputs.append(put_initializer(graph, base + "_zero_points", zeros))
        product = helper.make_node("MatMul", [node.input[0], y], list(node.output),
                                   node.name + "_matmul_Q4" if node.name else "")
        if any(y in n.output for n in graph.node) or y in self._made(graph):
            return [product]
        self._made(graph).add(y)
        return [helper.make_node("DequantizeLinear", inputs, [y], node.name + "_DQ_Q4" if node.name else "", axis=0,
                                 block_size=size), product]

    def _made(self, graph: GraphProto) -> set:
        """Dequantized weights that a graph has already; two nodes may share one."""
        self.__dict__.setdefault("_shared", {})
        return self._shared.setdefault(graph.name, set())

    def _gather(self, node: NodeProto, tensor: TensorProto, data: np.ndarray, graph: Any) -> List[NodeProto]:
        axis = self.algo_config.quant_axes.get("Gather", 1)
        gather_axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if data.ndim < 2 or self.algo_config.bits != 4 or axis % data.ndim == gather_axis % data.ndim:
            logger.info("Gather '%s' stays: its table has %d dims, %d bits, blocks along axis %d", node.name, data.ndim,
                        self.algo_config.bits, axis)
            return [node]
        codes, scales, zeros = along_axis(data, axis, self.algo_config.block_size, self.algo_config.is_symmetric)
        inputs = [put_initializer(graph, tensor.name + "_Q4", codes), node.input[1],
                  put_initializer(graph, tensor.name + "_scales", scales)]
        if zeros is not None:
            inputs.append(put_initializer(graph, tensor.name + "_zero_points", zeros))
        return [helper.make_node("GatherBlockQuantized", inputs, list(node.output),
                                 node.name + "_Q4" if node.name else "", domain="com.microsoft",
                                 gather_axis=gather_axis, quantize_axis=axis, block_size=self.algo_config.block_size)]


def put_initializer(graph: GraphProto, name: str, data: np.ndarray) -> str:
    """Adds it unless the graph has one of the name, which is given back."""
    if all(t.name != name for t in graph.initializer):
        graph.initializer.append(numpy_helper.from_array(data, name))
    return name


def parse_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes a model whose MatMul weights have few bits.")
    parser.add_argument("--input_model", required=True, help="the model's file")
    parser.add_argument("--output_model", required=True, help="where the new one goes")
    parser.add_argument("--quant_method", default="default", choices=["default", "hqq", "rtn", "k_quant"])
    parser.add_argument("--bits", type=int, default=4, help="2, 4 or 8")
    parser.add_argument("--block_size", type=int, default=128)
    parser.add_argument("--symmetric", action="store_true", help="no zero points")
    parser.add_argument("--accuracy_level", type=int, default=None, help="what a kernel may compute in")
    parser.add_argument("--quant_format", default="QOperator", choices=["QOperator", "QDQ"])
    parser.add_argument("--op_types_to_quantize", nargs="+", default=None, choices=["MatMul", "Gather"])
    parser.add_argument("--nodes_to_exclude", nargs="+", default=[])
    return parser.parse_args(arguments)


def config_of(method: str, told: argparse.Namespace) -> WeightOnlyQuantConfig:
    form, ops = QuantFormat[told.quant_format], told.op_types_to_quantize
    if method == "hqq":
        return HQQWeightOnlyQuantConfig(told.block_size, told.bits, quant_format=form, op_types_to_quantize=ops)
    if method in ("rtn", "k_quant"):
        kind = RTNWeightOnlyQuantConfig if method == "rtn" else KQuantWeightOnlyQuantConfig
        config = kind(quant_format=form, op_types_to_quantize=ops)
        config.bits, config.block_size, config.is_symmetric = told.bits, told.block_size, told.symmetric
        return config
    return DefaultWeightOnlyQuantConfig(told.block_size, told.symmetric, told.accuracy_level, form, ops, bits=told.bits)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_args(arguments)
    quantizer = MatMulNBitsQuantizer(told.input_model, nodes_to_exclude=told.nodes_to_exclude,
                                     algo_config=config_of(told.quant_method, told))
    quantizer.process()
    quantizer.model.save_model_to_file(told.output_model, quantizer.model.model.ByteSize() >= 2**31)


if __name__ == "__main__":
    main()
