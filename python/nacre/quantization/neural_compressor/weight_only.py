"""MatMul becomes MatMulNBits: codes by rounding to nearest (RTN), by a search for the scale of each group (k_quant), or
one row after the other with what was lost made good in the rows that follow (GPTQ, Frantar et al., 2022).

A group is group_size numbers along K with a scale and, with scheme "asym", a zero point. Tensors here have their groups
as rows, (groups, group_size), unless a function says otherwise.
"""
from __future__ import annotations

import logging
import os
import tempfile
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import nacre
from nacre._files import save_model
from nacre.capi import _quantize
from nacre.quantization.neural_compressor.onnx_model import ONNXModel
from nacre.quantization.neural_compressor.util import to_numpy

logger = logging.getLogger("neural_compressor")
Codes = Tuple[np.ndarray, np.ndarray, np.ndarray]
_NORM, _SHRINK = 2.4, np.arange(80) / 100  # GPTQ's search: sizes of errors, and by how much ranges shrink


# ---- codes of groups ----

def _ends(num_bits: int, signed: bool) -> Tuple[int, int]:
    half = 1 << (num_bits - 1)
    return (-half, half - 1) if signed else (0, 2 * half - 1)


def _coded(data: np.ndarray, scale: np.ndarray, zero: np.ndarray, ends: Tuple[int, int]) -> np.ndarray:
    return np.clip(np.round(data / scale + zero), *ends)


def quant_tensor(data: np.ndarray, num_bits: int = 4, group_size: int = 32, scheme: str = "asym", dtype: str = "int",
                 ratio: float = 1.0) -> Codes:
    """(codes, scales, zero points), to nearest. dtype "uint": symmetric codes lie around the middle one. ratio: the
    part of a group's range that has codes."""
    data = np.reshape(data, (-1, group_size))
    symmetric, unsigned = scheme == "sym", dtype == "uint"
    ends = _ends(num_bits, symmetric and not unsigned)
    low, high = data.min(1, keepdims=True) * ratio, data.max(1, keepdims=True) * ratio
    reach = 2.0 * np.maximum(np.abs(low), np.abs(high)) if symmetric else high - low
    scale = np.where(reach > 0, reach.astype(np.float64) / (ends[1] - ends[0]), 1.0)
    if symmetric:
        zero = np.full(scale.shape, 1 << (num_bits - 1), np.uint8) if unsigned else np.zeros(scale.shape)
    else:
        zero = np.round(-low / scale)
        zero = np.clip(zero, *ends).astype(np.uint8) if unsigned else zero
    return _coded(data, scale, zero, ends), scale, zero


def quant_tensor_k_quant_cpu(data: np.ndarray, num_bits: int = 4, group_size: int = 32) -> Codes:
    """(codes, scales, zero points) of the scale and offset that have the least error of 21 tries, where a number counts
    by its size and the group's. As llama.cpp finds them: codes of a try, then the line through them by least squares,
    whose lower end the next try begins at if it is the best so far."""
    x = np.reshape(data, (-1, group_size)).astype(np.float32)
    ends = _ends(num_bits, False)
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    count = np.sqrt((x ** 2).sum(1, keepdims=True) / group_size) + np.abs(x)
    sum_w, sum_x = count.sum(1, keepdims=True), (count * x).sum(1, keepdims=True)
    first = _steps(low, high, np.float32(ends[1]))
    codes = np.clip(np.round(first * (x - low)), *ends)
    scale = 1 / first
    best = (count * (scale * codes + low - x) ** 2).sum(1, keepdims=True)
    for i in range(20):
        codes = np.clip(np.round(_steps(low, high, np.float32(ends[1] - 1 + 0.1 * i)) * (x - low)), *ends)
        sum_c, sum_cc, sum_cx = ((count * codes * y).sum(1, keepdims=True) for y in (1, codes, x))
        with np.errstate(divide="ignore", invalid="ignore"):  # a group of equal numbers: NaN is no better
            under = sum_w * sum_cc - sum_c ** 2
            slope, at = (sum_w * sum_cx - sum_x * sum_c) / under, (sum_cc * sum_x - sum_c * sum_cx) / under
            error = (count * (slope * codes + at - x) ** 2).sum(1, keepdims=True)
        better = error < best
        best, scale, low = (np.where(better, new, old) for new, old in ((error, best), (slope, scale), (at, low)))
    zero = np.clip(np.round(-low / scale), *ends).astype(np.uint8)
    scale = scale.astype(np.float64)
    return _coded(x, scale, zero, ends), scale, zero


def _steps(low: np.ndarray, high: np.ndarray, count: np.float32) -> np.ndarray:
    """How many codes lie in 1; 1 where all numbers of a group are equal."""
    return np.divide(count, high - low, out=np.ones_like(low), where=low != high)


def quant_tensor_k_quant_cuda(data: np.ndarray, num_bits: int = 4, group_size: int = 32) -> Codes:
    """The same; no GPU is needed."""
    return quant_tensor_k_quant_cpu(data, num_bits, group_size)


def qdq_tensor(data: np.ndarray, num_bits: int = 4, group_size: int = 32, scheme: str = "asym", dtype: str = "int",
               ratio: float = 1.0) -> np.ndarray:
    """What codes say of data, in its shape."""
    codes, scale, zero = quant_tensor(data, num_bits, group_size, scheme, dtype, ratio)
    return np.reshape(scale * (codes - zero), data.shape)


def pad_tensor(weight: np.ndarray, group_size: int, k_blocks: int) -> np.ndarray:
    """(K,N) with rows of zeros behind, so that K is k_blocks groups."""
    room = 0 if group_size == -1 else k_blocks * group_size - weight.shape[0]
    return np.pad(weight, ((0, max(room, 0)), (0, 0)))


def get_weight_scale(weight: np.ndarray, group_size: int) -> np.ndarray:
    """The mean over rows of |w| by the greatest |w| of its group."""
    groups = np.abs(weight if group_size == -1 else weight.reshape(-1, group_size))
    return np.mean((groups / groups.max(1, keepdims=True)).reshape(weight.shape), axis=0)


# ---- GPTQ ----

class _Grid:
    """Scales and zero points for the columns of a few rows (K,N)."""

    def __init__(self, num_bits: int, scheme: str, mse: bool, perchannel: bool) -> None:
        self.most, self._symmetric, self._search, self._each = (1 << num_bits) - 1, scheme == "sym", mse, perchannel

    def of(self, rows: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """(scale, zero point), (N) each."""
        seen = rows if self._each else rows.reshape(-1, 1)
        low, high = np.minimum(seen.min(0), 0), np.maximum(seen.max(0), 0)
        if self._symmetric:
            high = np.maximum(-low, high)
            low = -high
        empty = low == high
        low, high = np.where(empty, -1, low), np.where(empty, 1, high)
        scale, zero = self._between(low, high)
        if self._search:
            best = np.full(low.shape, np.inf)
            for part in 1 - _SHRINK:
                tried, at = self._between(part * low, part * high)
                error = (np.abs(self.back(seen, tried, at) - seen) ** _NORM).sum(0)
                better = error < best
                best, scale, zero = (np.where(better, new, old) for new, old in (
                    (error, best), (tried, scale), (at, zero)))
        return np.broadcast_to(scale, rows.shape[1]), np.broadcast_to(zero, rows.shape[1])

    def _between(self, low: np.ndarray, high: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        scale = (high - low) / self.most
        return scale, np.full(scale.shape, (self.most + 1) / 2) if self._symmetric else np.round(-low / scale)

    def back(self, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        return scale * (self.codes(x, scale, zero) - zero)

    def codes(self, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        return np.clip(np.round(x / scale) + zero, 0, self.most)


def _gptq(weight: np.ndarray, hessian: np.ndarray, grid: _Grid, group_size: int, blocksize: int, percdamp: float,
          actorder: bool) -> Codes:
    """(codes (K,N), scales (groups,N), zero points (groups,N)) of a weight (K,N) whose inputs have X'X like hessian.

    With U'U the inverse of the damped hessian, the error e of row i, divided by U[i,i], is taken off the rows behind it
    times U[i,j]: that is what least squares would change there. Rows of a block are kept up to date as it goes, those
    behind the block once it is done. Groups get their scales when their first row comes; in the order of the hessian's
    diagonal (actorder) they get them before."""
    rows, n = weight.shape
    size = rows if group_size == -1 else group_size
    w, h = weight.astype(np.float64), hessian.astype(np.float64)
    dead = np.diag(h) == 0  # inputs that are always 0
    h[dead, dead], w[dead] = 1, 0
    params = [grid.of(w[g:g + size]) for g in range(0, rows, size)] if actorder else [(w[0], w[0])] * -(-rows // size)
    order = np.argsort(-np.diag(h), kind="stable") if actorder else np.arange(rows)
    w, h = w[order], h[order][:, order]
    h[np.arange(rows), np.arange(rows)] += percdamp * np.mean(np.diag(h))
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    codes = np.zeros((rows, n))
    for first in range(0, rows, blocksize):
        last = min(first + blocksize, rows)
        block, errors = w[first:last].copy(), np.zeros((last - first, n))
        for i in range(first, last):
            group = order[i] // size
            if not actorder and i % size == 0:
                ahead = np.concatenate([block[i - first:], w[last:]])[:size]
                params[group] = grid.of(ahead)
            row = block[i - first]
            codes[order[i]] = grid.codes(row, *params[group])
            error = errors[i - first] = (row - grid.back(row, *params[group])) / upper[i, i]
            block[i - first:] -= np.outer(upper[i, i:last], error)
        w[last:] -= upper[first:last, last:].T @ errors
    return codes, np.stack([p[0] for p in params]), np.stack([p[1] for p in params])


def gptq(W: np.ndarray, H: np.ndarray, num_bits: int = 4, group_size: int = 32, scheme: str = "asym",
         blocksize: int = 128, percdamp: float = 0.01, actorder: bool = False, mse: bool = False,
         perchannel: bool = True) -> np.ndarray:
    """What GPTQ's codes say of W (K,N), where H (K,K) is the sum of x x' over inputs x. mse: ranges of groups are
    searched; perchannel False: one scale for all columns of a group."""
    codes, scales, zeros = _gptq(W, H, _Grid(num_bits, scheme, mse, perchannel), group_size, blocksize, percdamp,
                                 actorder)
    size = W.shape[0] if group_size == -1 else group_size
    scales, zeros = (np.repeat(a, size, axis=0)[:W.shape[0]] for a in (scales, zeros))
    return (scales * (codes - zeros)).astype(W.dtype)


# ---- models ----

def make_matmul_weight_only_node(node: NodeProto, weight_shape: Sequence[int], num_bits: int, group_size: int,
                                 k_blocks: int, q_weight: np.ndarray, scale: np.ndarray,
                                 zero_point: Optional[np.ndarray],
                                 accuracy_level: int = 0) -> Tuple[NodeProto, List[TensorProto]]:
    """A MatMulNBits in the place of a MatMul, and its initializers. q_weight: codes (N * k_blocks, group_size)."""
    if num_bits not in (2, 4, 8):
        raise ValueError(f"MatMul '{node.name}': MatMulNBits has weights of 2, 4 or 8 bits, got {num_bits}")
    (k, n), base = weight_shape, node.input[1]
    if np.size(scale) != n * k_blocks or np.size(q_weight) != n * k_blocks * group_size:
        raise ValueError(f"MatMul '{node.name}': {np.size(q_weight)} codes and {np.size(scale)} scales, expected "
                         f"{n * k_blocks * group_size} and {n * k_blocks}")
    packed = _quantize._packed(q_weight.astype(np.uint8).reshape(n, k_blocks, group_size), num_bits)
    made = {f"{base}_Q{num_bits}G{group_size}": packed, base + "_scale": scale.reshape(n, k_blocks)}
    if zero_point is not None:
        made[base + "_zp"] = _quantize._packed(zero_point.astype(np.uint8).reshape(n, k_blocks), num_bits)
    more = {"accuracy_level": accuracy_level} if accuracy_level > 0 else {}
    return (helper.make_node("MatMulNBits", [node.input[0], *made], list(node.output), f"{node.name}_Q{num_bits}",
                             domain="com.microsoft", K=k, N=n, bits=num_bits, block_size=group_size, **more),
            [numpy_helper.from_array(array, name) for name, array in made.items()])


class _Told:
    """What is said of a node: by its name in weight_config, else for all."""

    def __init__(self, weight_config: Dict[str, Any], num_bits: int, group_size: int, scheme: str,
                 algorithm: str) -> None:
        self._config, self._all = weight_config, {"bits": num_bits, "group_size": group_size, "scheme": scheme}
        self._algorithm = algorithm

    def of(self, node: NodeProto, weight: np.ndarray) -> Tuple[int, int, str]:
        told = {**self._all, **self._config.get(node.name, {})}
        size = told["group_size"]
        return told["bits"], size if size != -1 else weight.shape[0], told["scheme"]

    def wants(self, node: NodeProto) -> bool:
        own = self._config.get(node.name, {})
        return node.op_type == "MatMul" and own != "fp32" and own.get("algorithm", self._algorithm) == self._algorithm


def _weight(model: ONNXModel, node: NodeProto) -> Optional[np.ndarray]:
    """A MatMul's weight, if it is a constant matrix of floats."""
    tensor = model.get_initializer(node.input[1])
    if tensor is None or len(tensor.dims) != 2 or tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return None
    return numpy_helper.to_array(tensor, os.path.dirname(model.model_path or ""))


def _replace(model: ONNXModel, node: NodeProto, made: Optional[NodeProto], tensors: Iterable[TensorProto]) -> None:
    """Puts a node in the place of another, or keeps it with a new weight; the old weight goes with its last reader."""
    old = node.input[1]
    model.add_initializers(tensors)
    if made is None:
        node.input[1], = (t.name for t in tensors)
    else:
        node.CopyFrom(made)
    if model.get_initializer_share_num(old) == 0:
        model.remove_initializer(model.get_initializer(old))


def _finished(model: ONNXModel) -> ONNXModel:
    if any(n.domain == "com.microsoft" for n in model.nodes()):
        model.set_opset_import("com.microsoft", 1)
    model.topological_sort()
    model.update()
    return model


def rtn_quantize(model: Any, weight_config: Optional[Dict[str, Any]] = None, num_bits: int = 4, group_size: int = 32,
                 scheme: str = "asym", ratios: Optional[Dict[str, float]] = None, accuracy_level: int = 0,
                 providers: Sequence[str] = ("CPUExecutionProvider",), algorithm: str = "k_quant") -> ONNXModel:
    """The model with its MatMuls' weights rounded, each group by itself. weight_config: by the name of a node "fp32",
    which leaves it alone, or {"bits", "group_size", "scheme"}. algorithm: k_quant, which has zero points always, or
    RTN. ratios: by the name of a weight. 2, 4 and 8 bits become MatMulNBits, others weights as the codes say them."""
    model = ONNXModel(model)
    config = weight_config or {}
    told = _Told(config, num_bits, group_size, scheme, "RTN")
    wanted = [n for n in model.nodes() if n.op_type == "MatMul" and config.get(n.name, {}) != "fp32"]
    for node in wanted:
        weight = _weight(model, node)
        if weight is None:
            logger.info("MatMul '%s' stays: its weight is no constant matrix of floats", node.name)
            continue
        bits, size, how = told.of(node, weight)
        blocks, ratio = -(-weight.shape[0] // size), (ratios or {}).get(node.input[1], 1)
        padded = pad_tensor(weight, size, blocks)
        if bits in (2, 4, 8):
            codes, scale, zero = (quant_tensor_k_quant_cpu(padded.T, bits, size) if algorithm == "k_quant" else
                                  quant_tensor(padded.T, bits, size, how, "uint", ratio))
            _replace(model, node, *make_matmul_weight_only_node(
                node, weight.shape, bits, size, blocks, codes, scale.astype(weight.dtype),
                zero if how == "asym" or algorithm == "k_quant" else None, accuracy_level))
        else:
            back = qdq_tensor(padded.T, bits, size, how, "int", ratio).T[:weight.shape[0]]
            _replace(model, node, None, [numpy_helper.from_array(
                np.ascontiguousarray(back, weight.dtype), f"{node.input[1]}_Q{bits}G{size}")])
    return _finished(model)


def prepare_inputs(model: ONNXModel, n_samples: int, dataloader: Any,
                   providers: Sequence[str]) -> Tuple[List[Dict[str, np.ndarray]], Any]:
    """(feeds, session options) of a loader of pairs (inputs, label): a dictionary, an array, or as many as the model
    has inputs. n_samples: how many at most, by the loader's batch_size; -1: all."""
    names, feeds = [i.name for i in model.graph().input if model.get_initializer(i.name) is None], []
    for i, (data, *_) in enumerate(dataloader):
        if n_samples != -1 and (i + 1) * dataloader.batch_size > n_samples:
            break
        parts = data if isinstance(data, dict) else dict(zip(names, [data] if isinstance(data, np.ndarray) else data))
        if set(parts) != set(names):
            raise ValueError(f"sample {i} has {', '.join(parts) or 'nothing'}, the model wants {', '.join(names)}")
        feeds.append({name: to_numpy(part) for name, part in parts.items()})
    return feeds, nacre.SessionOptions()


def _session(model: ONNXModel, options: Any, providers: Sequence[str]) -> Any:
    if not model.is_large_model:
        return nacre.InferenceSession(model.model.SerializeToString(), options, providers=list(providers))
    with tempfile.TemporaryDirectory(prefix="nacre-quant-") as folder:
        path = os.path.join(folder, "model.onnx")
        save_model(model.model, path, save_as_external_data=True)  # which takes the weights out of the model
        onnx.load_external_data_for_model(model.model, folder)
        return nacre.InferenceSession(path, options, providers=list(providers))


def _hessians(model: ONNXModel, names: Sequence[str], feeds: Sequence[Dict[str, np.ndarray]], options: Any,
              providers: Sequence[str]) -> Dict[str, np.ndarray]:
    """By tensor: 2 X'X over its rows X, by the number of samples."""
    more = [n for n in names if n not in model.output()]
    model.add_tensors_to_outputs(more)
    session = _session(model, options, providers)
    model.remove_tensors_from_outputs(more)
    sums: Dict[str, Any] = dict.fromkeys(names, 0.0)
    samples = dict.fromkeys(names, 0)
    for feed in feeds:
        for name, x in zip(names, session.run(list(names), feed)):
            rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
            sums[name] = sums[name] + 2 * rows.T @ rows
            samples[name] += x.shape[0]
    return {name: sums[name] / samples[name] for name in names if samples[name]}


def gptq_quantize(model: Any, dataloader: Any, weight_config: Optional[Dict[str, Any]] = None, num_bits: int = 4,
                  group_size: int = 32, scheme: str = "asym", n_samples: int = 128, percdamp: float = 0.01,
                  blocksize: int = 128, actorder: bool = False, mse: bool = False, perchannel: bool = True,
                  accuracy_level: int = 0, providers: Sequence[str] = ("CPUExecutionProvider",)) -> ONNXModel:
    """The model with its MatMuls' weights by GPTQ, from what the loader's samples put into them. 2, 4 and 8 bits
    become MatMulNBits, others weights as the codes say them."""
    model = ONNXModel(model)
    feeds, options = prepare_inputs(model, n_samples, dataloader, providers)
    if not feeds:
        raise ValueError("GPTQ needs samples: the loader gave none")
    told = _Told(weight_config or {}, num_bits, group_size, scheme, "GPTQ")
    wanted = [n for n in model.nodes() if told.wants(n) and _weight(model, n) is not None]
    hessians = _hessians(model, list(dict.fromkeys(n.input[0] for n in wanted)), feeds, options, providers)
    for node in wanted:
        logger.info("MatMul '%s' by GPTQ", node.name)
        weight = _weight(model, node)
        assert weight is not None
        bits, size, how = told.of(node, weight)
        blocks = -(-weight.shape[0] // size)
        codes, scales, zeros = _gptq(weight, hessians[node.input[0]], _Grid(bits, how, mse, perchannel), size,
                                     blocksize, percdamp, actorder)
        if bits in (2, 4, 8):
            grouped = pad_tensor(codes, size, blocks).T.reshape(-1, size)
            _replace(model, node, *make_matmul_weight_only_node(
                node, weight.shape, bits, size, blocks, grouped, scales.T.astype(weight.dtype),
                zeros.T if how == "asym" else None, accuracy_level))
        else:
            each = [np.repeat(a, size, axis=0)[:weight.shape[0]] for a in (scales, zeros)]
            _replace(model, node, None, [numpy_helper.from_array(
                (each[0] * (codes - each[1])).astype(weight.dtype), f"{node.input[1]}_Q{bits}G{size}")])
    return _finished(model)
