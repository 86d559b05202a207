"""Weights of 2, 4 or 8 bits in blocks, activations as they are: MatMul becomes MatMulNBits, Gather of a table becomes
GatherBlockQuantized, or, in QDQ form, a DequantizeLinear with a block size stands before them.

Ways to find codes: default rounds to nearest; HQQ moves the zero points so that the error, in a norm that forgives few
large ones, becomes small; RTN, k_quant and GPTQ are those of nacre.quantization.neural_compressor; nvidia_awq calls
NVIDIA's ModelOpt.
"""
from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from nacre.capi import _quantize
from nacre.quantization.neural_compressor import gptq_quantize, rtn_quantize
from nacre.quantization.onnx_model import ONNXModel, clean_initializers, subgraphs
from nacre.quantization.quant_utils import QuantFormat, load_model
from nacre.quantization.weight_configs import (Axes, DefaultWeightOnlyQuantConfig, GPTQWeightOnlyQuantConfig,
                                               HQQWeightOnlyQuantConfig, KQuantWeightOnlyQuantConfig,
                                               NVAWQWeightOnlyQuantConfig, RTNWeightOnlyQuantConfig,
                                               WeightOnlyQuantConfig)

logger = logging.getLogger(__name__)
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def is_divisible(val1: int, val2: int) -> bool:
    return val1 % val2 == 0


def transpose_packed_int4_matrix(packed: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Codes (rows, cols), two a byte without gaps, turned."""
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(-1)[:rows * cols]
    return _quantize._packed(codes.reshape(rows, cols).T.reshape(-1), 4, 0)


# ---- nodes ----

def get_initializer(name: str, graph_path: List[GraphProto]) -> Tuple[Optional[TensorProto], Optional[GraphProto]]:
    """An initializer of the innermost graph that has it, and that graph."""
    for graph in reversed(graph_path):
        for tensor in graph.initializer:
            if tensor.name == name:
                return tensor, graph
    return None, None


def _keep(graph: GraphProto, tensor: TensorProto) -> str:
    """Adds an initializer unless the graph has one of the name, which is given back."""
    if all(t.name != tensor.name for t in graph.initializer):
        graph.initializer.append(tensor)
    return tensor.name


def put_initializer(graph: GraphProto, name: str, data: np.ndarray) -> str:
    return _keep(graph, numpy_helper.from_array(data, name))


def _rank(name: str, graph_path: List[GraphProto]) -> Optional[int]:
    for graph in reversed(graph_path):
        for v in [*graph.input, *graph.value_info, *graph.output]:
            if v.name == name:
                return len(v.type.tensor_type.shape.dim) if v.type.tensor_type.HasField("shape") else None
    return None


class _Weight:
    """A MatMul's constant matrix: its floats (K,N), where it is, and what dims of 1 before them add to the result."""

    def __init__(self, node: NodeProto, graph_path: List[GraphProto]) -> None:
        """Raises ValueError with the reason why the node stays as it is."""
        tensor, self.graph = get_initializer(node.input[1], graph_path)
        if tensor is None or tensor.data_type not in _FLOATS:
            raise ValueError("its weight is no constant of floats")
        data, rank = numpy_helper.to_array(tensor), _rank(node.input[0], graph_path)
        if data.ndim < 2 or any(d != 1 for d in data.shape[:-2]):
            raise ValueError(f"its weight is {list(data.shape)}, expected a matrix")
        if data.ndim > 2 and (rank is None or rank < 2):
            raise ValueError(f"its weight has {data.ndim} dims, and how many its input has is not known")
        self.name, self.kind, self.more = tensor.name, data.dtype, max(data.ndim - (rank or data.ndim), 0)
        floats = data.astype(np.float32) if tensor.data_type == TensorProto.BFLOAT16 else data
        self.data = floats.reshape(data.shape[-2:])

    def wrapped(self, product: NodeProto) -> List[NodeProto]:
        """The product's node, with dims of 1 before its result where the weight had them."""
        if not self.more:
            return [product]
        y, inner = product.output[0], product.output[0] + "_pre_reshape"
        product.output[0] = inner
        axes = put_initializer(self.graph, y + "_axes", np.arange(self.more))
        return [product, helper.make_node("Unsqueeze", [inner, axes], [y], y + "_unsqueeze")]


class DefaultWeightOnlyQuantizer:
    """Codes to nearest, for one node after the other."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def quantize(self, node: NodeProto, graph_stack: List[GraphProto]) -> List[NodeProto]:
        """What stands in the place of a node; the node itself, with the reason in the log, where nothing can."""
        try:
            if node.op_type == "MatMul":
                return self.quantize_matmul(node, graph_stack)
            if node.op_type == "Gather":
                return self.quantize_gather(node, graph_stack)
            raise ValueError("MatMul and Gather have weights of few bits")
        except ValueError as e:
            logger.info("%s '%s' stays: %s", node.op_type, node.name, e)
            return [node]

    # ---- MatMul ----

    def qbits_block_quant(self, fp32weight: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(packed codes, scales, packed zero points) of a weight (K,N): (N, blocks, bytes), (N, blocks), (N, bytes) for
        MatMulNBits; in QDQ form K * N codes in a row, (blocks, N), and zero points in a row."""
        if fp32weight.ndim != 2:
            raise ValueError(f"the weight has {fp32weight.ndim} dims, expected 2")
        c, (k, n) = self.config, fp32weight.shape
        bits, kind = c.bits, fp32weight.dtype
        if c.quant_format == QuantFormat.QDQ:
            size = k if c.channel_wised_quantize else c.block_size
            count = -(-k // size)
            codes, scales = np.zeros(-(-k * n * bits // 8), np.uint8), np.zeros((count, n), kind)
            zeros = np.zeros(-(-count * n * bits // 8), np.uint8)
            make = getattr(_quantize, f"quantize_qdq_matmul_{bits}bits")
        else:
            size, count = c.block_size, -(-k // c.block_size)
            codes, scales = np.zeros((n, count, size * bits // 8), np.uint8), np.zeros((n, count), kind)
            zeros = np.zeros((n, -(-count * bits // 8)), np.uint8)
            make = getattr(_quantize, f"quantize_matmul_{bits}bits")
        make(codes, fp32weight, scales, zeros, size, n, k, c.is_symmetric)
        return codes, scales, zeros

    def quantize_matmul(self, node: NodeProto, graph_stack: List[GraphProto]) -> List[NodeProto]:
        weight = _Weight(node, graph_stack)
        if self.config.quant_format != QuantFormat.QDQ:
            return weight.wrapped(self._product(node, weight))
        if self.config.bits != 4:
            raise ValueError(f"in QDQ form weights have 4 bits, asked for were {self.config.bits}")
        *before, product = self._pair(node, weight)
        return [*before, *weight.wrapped(product)]

    def _product(self, node: NodeProto, weight: _Weight) -> NodeProto:
        c = self.config
        codes, scales, zeros = self.qbits_block_quant(weight.data)
        inputs = [node.input[0], put_initializer(weight.graph, f"{weight.name}_Q{c.bits}", codes),
                  put_initializer(weight.graph, weight.name + "_scales", scales.astype(weight.kind))]
        if not c.is_symmetric:
            inputs.append(put_initializer(weight.graph, weight.name + "_zero_points", zeros))
        more = {"accuracy_level": c.accuracy_level} if c.accuracy_level else {}
        k, n = weight.data.shape
        return helper.make_node("MatMulNBits", inputs, list(node.output), f"{node.name}_Q{c.bits}" if node.name else "",
                                domain="com.microsoft", K=k, N=n, bits=c.bits, block_size=c.block_size, **more)

    def _pair(self, node: NodeProto, weight: _Weight) -> Iterator[NodeProto]:
        """DequantizeLinear, unless another node has made it, and MatMul. Symmetric codes with one scale a column are
        turned, (N,K), and turned back behind: accelerators of Intel want them so."""
        c, (k, n), name = self.config, weight.data.shape, weight.name + "_DQ"
        codes, scales, zeros = self.qbits_block_quant(weight.data)
        turned = c.channel_wised_quantize and c.is_symmetric
        if turned:
            codes, scales = transpose_packed_int4_matrix(codes, k, n), scales.reshape(n, 1)
        kind = TensorProto.INT4 if c.is_symmetric else TensorProto.UINT4
        dims = [n, k] if turned else [k, n]
        inputs = [_keep(weight.graph, helper.make_tensor(name + "_Q4", kind, dims, codes.tobytes(), True)),
                  put_initializer(weight.graph, name + "_scales", scales.astype(weight.kind))]
        if not c.is_symmetric:
            inputs.append(_keep(weight.graph, helper.make_tensor(
                name + "_zero_points", kind, scales.shape, zeros.tobytes(), True)))
        y = name + "_Q4_output"
        if y not in self._made(weight.graph):
            self._made(weight.graph).add(y)
            yield helper.make_node("DequantizeLinear", inputs, [y], node.name + "_DQ_Q4" if node.name else "",
                                   axis=int(turned), block_size=k if c.channel_wised_quantize else c.block_size)
            if turned:
                yield helper.make_node("Transpose", [y], [y + "_transposed"], y + "_turn", perm=[1, 0])
        yield helper.make_node("MatMul", [node.input[0], y + "_transposed" * turned], list(node.output),
                               node.name + "_matmul_Q4" if node.name else "")

    def _made(self, graph: GraphProto) -> set:
        """Dequantized weights that a graph has already; two nodes may share one."""
        return self.__dict__.setdefault("_shared", {}).setdefault(graph.name, set())

    # ---- Gather ----

    @staticmethod
    def quant_slice_symmetric(data: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """(codes from -8 to 7, scales) of blocks (M, size, N): what is furthest from 0 gets -8."""
        low, high = data.min(1, keepdims=True), data.max(1, keepdims=True)
        scale = np.where(np.abs(high) > np.abs(low), high, low) / -8
        return _rounded(data, scale, 0, -8, 7).astype(np.int8), scale

    @staticmethod
    def quant_slice_asymmetric(data: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(codes from 0 to 15, scales, zero points) of blocks (M, size, N)."""
        low, high = np.minimum(data.min(1, keepdims=True), 0), np.maximum(data.max(1, keepdims=True), 0)
        scale = (high - low) / 15
        zero = np.where(scale == 0, 8, _rounded(-low, scale, 0, 0, 15)).astype(np.uint8)
        return np.where(scale == 0, 8, _rounded(data, scale, zero, 0, 15)).astype(np.uint8), scale, zero

    @staticmethod
    def pack_int8_to_int4(data: np.ndarray) -> np.ndarray:
        """Codes in a row, two a byte, the first in the low half."""
        return _quantize._packed(data.reshape(-1).astype(np.uint8) & 15, 4, 0)

    @staticmethod
    def quantize_ndarray(data: np.ndarray, quantize_axis: int, block_size: int,
                         is_symmetric: bool) -> Tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
        """(packed codes in the order of data, scales of blocks along an axis, packed zero points or None)."""
        axis, me = quantize_axis % data.ndim, DefaultWeightOnlyQuantizer
        size, shape = data.shape[axis], data.shape
        whole = data.reshape(int(np.prod(shape[:axis])), size, -1)
        parts: List[Any] = [(me.quant_slice_symmetric if is_symmetric else me.quant_slice_asymmetric)(
            whole[:, at:at + block_size]) for at in range(0, size, block_size)]
        codes, scales, *zeros = (np.concatenate(p, axis=1) for p in zip(*parts))
        scales = scales.astype(data.dtype).reshape(*shape[:axis], len(parts), *shape[axis + 1:])
        return me.pack_int8_to_int4(codes), scales, me.pack_int8_to_int4(zeros[0]) if zeros else None

    def quantize_gather(self, node: NodeProto, graph_stack: List[GraphProto]) -> List[NodeProto]:
        c = self.config
        tensor, graph = get_initializer(node.input[0], graph_stack)
        if tensor is None or graph is None or tensor.data_type not in _FLOATS[:2]:
            raise ValueError("its table is no constant of float or float16")
        data, axis = numpy_helper.to_array(tensor), c.quant_axes.get("Gather", 1)
        gather_axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if c.bits != 4 or data.ndim < 2 or not -data.ndim <= axis < data.ndim or (axis - gather_axis) % data.ndim == 0:
            raise ValueError(f"its table has {data.ndim} dims, {c.bits} bits, blocks along axis {axis}; expected 4 "
                             "bits and an axis beside the one that is gathered along")
        kind, axis = TensorProto.INT4 if c.is_symmetric else TensorProto.UINT4, axis % data.ndim
        codes, scales, zeros = self.quantize_ndarray(data, axis, c.block_size, c.is_symmetric)
        inputs = [_keep(graph, helper.make_tensor(tensor.name + "_Q4", kind, data.shape, codes.tobytes(),
                                                            True)),
                  node.input[1], put_initializer(graph, tensor.name + "_scales", scales)]
        if zeros is not None:
            inputs.append(_keep(graph, helper.make_tensor(tensor.name + "_zero_points", kind, scales.shape,
                                                                    zeros.tobytes(), True)))
        return [helper.make_node("GatherBlockQuantized", inputs, list(node.output),
                                 node.name + "_Q4" if node.name else "", domain="com.microsoft",
                                 gather_axis=gather_axis, quantize_axis=axis, block_size=c.block_size)]


def _rounded(data: np.ndarray, scale: np.ndarray, zero: Any, low: int, high: int) -> np.ndarray:
    """Nearest codes; 0 where the scale is."""
    return np.clip(np.round(np.divide(data, scale, out=np.zeros_like(data), where=scale != 0) + zero), low, high)


class HQQWeightOnlyQuantizer(DefaultWeightOnlyQuantizer):
    """Half-quadratic quantization, Badri and Shaji, 2023: zero points are numbers. Tensors may be arrays or torch's."""

    def quantize(self, node: NodeProto, graph_stack: List[GraphProto]) -> List[NodeProto]:
        if node.op_type == "Gather":
            raise NotImplementedError(f"Gather '{node.name}': GatherBlockQuantized has no zero points between codes, "
                                      "as HQQ makes them")
        return super().quantize(node, graph_stack)

    def qbits_block_quant(self, fp32weight: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        c = self.config
        codes, scales, zeros = self.quantize_internal(fp32weight.T, c.bits, group_size=c.block_size)
        blocks = codes.reshape(codes.shape[0], -1, c.block_size).astype(np.uint8)
        return _quantize._packed(blocks, c.bits), scales, zeros

    @staticmethod
    def optimize_weights(tensor: Any, scale: Any, zero: Any, min_max: List[int], axis: int = 0,
                         opt_params: Optional[Dict[str, Any]] = None, verbose: bool = False) -> Tuple[Any, Any]:
        """(scale, zero) with zero moved. scale is the inverse of a step: codes are tensor * scale + zero. Each step
        shrinks the error e to sign(e) max(|e| - |e|^(p-1) / beta, 0), moves zero to the mean that explains the rest,
        and makes beta greater; the first that is no better than the one before is the last."""
        told = {"lp_norm": 0.7, "beta": 10.0, "kappa": 1.01, "iters": 20, **(opt_params or {})}
        w, inverse, zero = (np.asarray(a, np.float32) for a in (tensor, scale, zero))
        beta, best = told["beta"], 1e4
        for i in range(told["iters"]):
            codes = np.clip(np.round(w * inverse + zero), *min_max)
            error = w - (codes - zero) / inverse
            size = np.abs(error)
            shrunk = np.sign(error) * np.maximum(
                size - np.float32(1 / beta) * (size + np.float32(1e-8)) ** np.float32(told["lp_norm"] - 1), 0)
            zero = np.mean(codes - (w - shrunk) * inverse, axis=axis, keepdims=True)
            beta *= told["kappa"]
            if verbose:
                print(i, round(float(size.mean()), 6))
            if size.mean() >= best:
                break
            best = float(size.mean())
        return _as(tensor, inverse), _as(tensor, zero)

    @staticmethod
    def pack_on_row_fast_248bit(pack_tensor: Any, ori_int_tensor: Any, bits: int) -> None:
        """Puts codes (rows, n) into zeros (rows, n * bits / 8), or both turned."""
        if bits not in (2, 4, 8):
            raise NotImplementedError(f"bits is {bits}, expected 2, 4 or 8")
        if pack_tensor.shape[0] == ori_int_tensor.shape[0]:
            pack_tensor, ori_int_tensor = pack_tensor.T, ori_int_tensor.T
        per = 8 * pack_tensor.dtype.itemsize // bits
        for i in range(per):
            pack_tensor |= ori_int_tensor[i::per] << bits * i

    def quantize_internal(self, tensor: Any, bits: int = 4, channel_wise: bool = True, group_size: int = 64,
                          optimize: bool = True, round_zero: bool = True, axis: int = 1) -> Tuple[Any, Any, Any]:
        """(codes, scales, zero points) of a matrix in groups along an axis, zeros added to the last."""
        w = np.asarray(tensor, np.float32)
        room = [(0, 0), (0, 0)]
        room[axis] = 0, -w.shape[axis] % group_size
        w = np.pad(w, room)
        groups = w.reshape((-1, group_size) if axis == 1 else (group_size, -1)) if channel_wise else w
        over = axis if channel_wise else None
        low, high = groups.min(over, keepdims=channel_wise), groups.max(over, keepdims=channel_wise)
        most = (1 << bits) - 1
        inverse = np.minimum(most / np.where(high == low, np.float32(most), high - low), np.float32(2e4))
        zero = np.round(-low * inverse) if round_zero else -low * inverse
        if optimize and channel_wise:
            inverse, zero = self.optimize_weights(groups, inverse, zero, [0, most], axis)
        codes = np.clip(np.round(groups * inverse + zero), 0, most).reshape(w.shape).astype(np.int32)
        shape = (w.shape[0], -1) if axis == 1 else (-1, w.shape[1])
        kind = tensor.dtype if isinstance(tensor, np.ndarray) else np.float32
        return (_as(tensor, codes), *(_as(tensor, np.asarray(a, kind).reshape(shape) if channel_wise else a, True)
                                      for a in (1 / inverse, zero)))


def _as(like: Any, array: np.ndarray, same_type: bool = False) -> Any:
    """An array as torch's tensor, where the one that was given is one."""
    if isinstance(like, np.ndarray):
        return array
    made = like.new_tensor(array) if same_type else type(like)(array)
    return made


class NVAWQWeightOnlyQuantizer:
    def __init__(self, config: NVAWQWeightOnlyQuantConfig) -> None:
        self.config = config

    def quantize_awq(self, model: Any) -> Any:
        try:
            from modelopt.onnx.quantization.int4 import quantize as quantize_int4
        except ImportError as e:
            raise ImportError("nvidia_awq needs NVIDIA's package nvidia_modelopt, which is not installed") from e
        return quantize_int4(model, calibration_method=self.config.calibration_method,
                             calibration_data_reader=self.config.calibration_data_reader)


# ---- the model ----

_OF_NODES = {"DEFAULT": DefaultWeightOnlyQuantizer, "HQQ": HQQWeightOnlyQuantizer,
             "nvidia_awq": NVAWQWeightOnlyQuantizer}
_OF_MODELS = ("RTN", "k_quant", "GPTQ")


class MatMulNBitsQuantizer:
    def __init__(self, model: Any, bits: int = 4, block_size: int = 128, is_symmetric: bool = False,
                 accuracy_level: Optional[int] = None, nodes_to_exclude: Any = None,
                 nodes_to_include: Optional[List[str]] = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Optional[Tuple[str, ...]] = None, quant_axes: Axes = None,
                 channel_wised_quantize: bool = False, algo_config: Optional[WeightOnlyQuantConfig] = None) -> None:
        self.model: Any = ONNXModel(load_model(model))
        self.model_path = str(model) if isinstance(model, (str, Path)) else None
        self.bits, self.block_size, self.is_symmetric, self.accuracy_level = bits, block_size, is_symmetric, \
            accuracy_level
        self.nodes_to_exclude, self.nodes_to_include = set(nodes_to_exclude or []), set(
            nodes_to_include or [])
        self.algo_config: Any = algo_config or DefaultWeightOnlyQuantConfig(
            block_size, is_symmetric, accuracy_level, quant_format, op_types_to_quantize, quant_axes, bits,
            channel_wised_quantize)
        way = self.algo_config.algorithm
        if way not in _OF_NODES and way not in _OF_MODELS:
            raise ValueError(f"algorithm is '{way}', expected one of {', '.join([*_OF_NODES, *_OF_MODELS])}")
        self._check(getattr(self.algo_config, "bits", bits),
                    self.algo_config.block_size if way in ("DEFAULT", "HQQ") else block_size)
        if way == "HQQ" and self.algo_config.quant_format == QuantFormat.QDQ:
            raise ValueError("HQQ's zero points are numbers between codes: quant_format QOperator alone writes them")
        self.node_quantizer: Any = _OF_NODES[way](self.algo_config) if way in _OF_NODES else None

    @staticmethod
    def _check(bits: int, size: int) -> None:
        if bits not in (2, 4, 8):
            raise ValueError(f"bits is {bits}, expected 2, 4 or 8")
        if size < 16 or size & (size - 1):
            raise ValueError(f"block_size is {size}, expected a power of two from 16 on")

    def process(self) -> None:
        """Changes self.model; self.model.save_model_to_file writes it."""
        if self.algo_config.algorithm in _OF_MODELS:
            self.int4_quant_algo()
        elif self.algo_config.algorithm == "nvidia_awq":
            self.model = ONNXModel(self.node_quantizer.quantize_awq(self.model_path or self.model.model))
            self.model.clean_initializers()
        else:
            self._by_nodes()

    def _by_nodes(self) -> None:
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

    def _graph(self, graph: GraphProto, path: List[GraphProto]) -> None:
        made: List[NodeProto] = []
        for node in graph.node:
            for inner in subgraphs(node):
                self._graph(inner, [*path, graph])
            made.extend(self.node_quantizer.quantize(node, [*path, graph]) if self._wanted(node) else [node])
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in made]
        del graph.node[:]
        graph.node.extend(nodes)
        clean_initializers(graph)

    def _wanted(self, node: NodeProto) -> bool:
        """Nodes of the kinds that are asked for and those included whatever their kind, less those excluded."""
        return node.name not in self.nodes_to_exclude and (
            node.name in self.nodes_to_include or node.op_type in self.algo_config.op_types_to_quantize)

    def int4_quant_algo(self) -> None:
        """RTN, k_quant or GPTQ, with the quantizer's bits and blocks, or what the config says of a node."""
        c, base = self.algo_config, {"bits": self.bits, "group_size": self.block_size,
                                     "scheme": "sym" if self.is_symmetric else "asym"}
        told: Dict[str, Any] = {}
        for node in self.model.nodes():
            own = c.customized_weight_config.get(node.name, {})
            told[node.name] = {**base, **{k: v for k, v in own.items() if k in base}}
        told.update(dict.fromkeys(self.nodes_to_exclude, "fp32"))
        level = self.accuracy_level or 0
        if c.algorithm == "GPTQ":
            if c.calibration_data_reader is None:
                raise ValueError("GPTQ needs samples: calibration_data_reader is None")
            samples = [(feed, None) for feed in c.calibration_data_reader]
            self.model = gptq_quantize(self.model.model, samples, told, n_samples=-1, percdamp=c.percdamp,
                                       blocksize=c.block_size, actorder=c.actorder, mse=c.mse, perchannel=c.perchannel,
                                       accuracy_level=level)
        else:
            self.model = rtn_quantize(self.model.model, told, ratios=c.ratios, accuracy_level=level,
                                      algorithm=c.algorithm)


# ---- the command ----

def ort_convert_str_to_bool(value: str) -> bool:
    return value.lower() in ("true", "1")


def parse_key_value_pair(s: str) -> Tuple[str, int]:
    """Gather:1"""
    key, value = s.split(":")
    return key, int(value)


def parse_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes a model whose MatMul weights have few bits.")
    parser.add_argument("--input_model", required=True, help="the model's file")
    parser.add_argument("--output_model", required=True, help="where the new one goes")
    parser.add_argument("--quant_method", default="default",
                        choices=["default", "hqq", "rtn", "k_quant", "nvidia_awq"])
    parser.add_argument("--bits", type=int, default=4, help="2, 4 or 8")
    parser.add_argument("--block_size", type=int, default=32)
    parser.add_argument("--symmetric", type=ort_convert_str_to_bool, nargs="?", const=True, default=True,
                        help="no zero points (true); hqq has them always")
    parser.add_argument("--accuracy_level", type=int, default=None, help="what a kernel may compute in")
    parser.add_argument("--quant_format", default="QOperator", choices=["QOperator", "QDQ"])
    parser.add_argument("--op_types_to_quantize", nargs="+", default=None, choices=["MatMul", "Gather"])
    parser.add_argument("--quant_axes", nargs="+", default=None, type=parse_key_value_pair, help="such as Gather:1")
    parser.add_argument("--nodes_to_exclude", nargs="+", default=[])
    parser.add_argument("--nodes_to_include", nargs="+", default=None)
    parser.add_argument("-v", "--verbose", action="store_true", help="say what becomes of each node")
    parser.add_argument("--calib_dataset_name", default="cnn", help="of nvidia_awq: cnn or pile")
    parser.add_argument("--tokenizer_dir", help="of nvidia_awq")
    parser.add_argument("--calibration_method", choices=["awq", "awq_clip"], default="awq", help="of nvidia_awq")
    parser.add_argument("--cache_dir", default="./cache", help="of nvidia_awq")
    return parser.parse_args(arguments)


def config_of(told: argparse.Namespace) -> WeightOnlyQuantConfig:
    form, ops, axes = QuantFormat[told.quant_format], told.op_types_to_quantize, told.quant_axes
    if told.quant_method == "hqq":
        return HQQWeightOnlyQuantConfig(told.block_size, told.bits, quant_format=form, op_types_to_quantize=ops,
                                        quant_axes=axes)
    if told.quant_method in ("rtn", "k_quant"):
        kind = RTNWeightOnlyQuantConfig if told.quant_method == "rtn" else KQuantWeightOnlyQuantConfig
        return kind(op_types_to_quantize=ops)
    if told.quant_method == "nvidia_awq":
        return NVAWQWeightOnlyQuantConfig(told.tokenizer_dir, told.calib_dataset_name, told.cache_dir,
                                          {"awq": "awq_lite"}.get(told.calibration_method, told.calibration_method))
    return DefaultWeightOnlyQuantConfig(told.block_size, told.symmetric, told.accuracy_level, form, ops, axes,
                                        told.bits)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_args(arguments)
    if told.verbose:
        logging.basicConfig(level=logging.INFO)
    quantizer = MatMulNBitsQuantizer(told.input_model, told.bits, told.block_size, told.symmetric, told.accuracy_level,
                                     told.nodes_to_exclude, told.nodes_to_include, algo_config=config_of(told))
    quantizer.process()
    quantizer.model.save_model_to_file(told.output_model, quantizer.model.model.ByteSize() >= 2**31)


if __name__ == "__main__":
    main()
