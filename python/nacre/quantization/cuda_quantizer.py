"""Weights of 4 and 8 bits for MatMulNBits and QMoE, plain or in the order in which onnxruntime's kernels on CUDA read
them (node attribute weight_prepacked). A weight is (N,K), torch's tensors go in and come out; no GPU is needed.
"""
from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Tuple

import numpy as np

from nacre.capi import _quantize

#: Rows of a tile in the order in which a tensor core's registers take them, by the bits of a code.
_ROWS = {8: np.arange(16).reshape(2, 4, 2).swapaxes(0, 1).reshape(-1),
         4: np.arange(32).reshape(4, 4, 2).swapaxes(0, 1).reshape(-1)}
#: Codes of a register, in the order in which they are made floats two at a time.
_REGISTER = {8: [0, 2, 1, 3], 4: [0, 2, 4, 6, 1, 3, 5, 7]}
_AMPERE, _HOPPER = 80, 90


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as e:
        raise ImportError("CudaQuantizer takes and gives tensors of torch, which is not installed") from e


def has_cuda_weight_prepacking() -> bool:
    """Whether weights can be put in the kernels' order: torch is all that it needs."""
    return importlib.util.find_spec("torch") is not None


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    return packed if bits == 8 else np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


def _mixed_gemm(codes: np.ndarray, bits: int, arch: int) -> np.ndarray:
    """Unsigned codes (N,K) as packed bytes in the kernels' order. Rows of each tile along K are permuted, columns of
    codes lie together, in the older order 64 of one and 64 of the next by turns, and in a register codes that are
    converted together are neighbours. Codes stay unsigned: the kernels take the middle one off."""
    n, k = codes.shape
    tile, columns = 8 * 16 // bits, 8 * 8 // bits
    if k % tile or n % columns:
        raise ValueError(f"the weight is {n} x {k}; in the kernels' order K is a multiple of {tile} and N of {columns}")
    rows = codes[:, (np.arange(0, k, tile)[:, None] + _ROWS[bits]).reshape(-1)]
    if arch < _HOPPER:
        if k % 64:
            raise ValueError(f"K is {k}; in the order of architecture {arch} it is a multiple of 64")
        turns = 16 // bits
        rows = rows.reshape(n // turns, turns, k // 64, 64).swapaxes(1, 2)
    order = _REGISTER[bits]
    return _quantize._packed(rows.reshape(-1, len(order))[:, order].reshape(-1), bits)


def _prepacked(packed: np.ndarray, n: int, k: int, bits: int, arch: int) -> np.ndarray:
    """Packed codes (N, K * bits / 8) in the kernels' order, in a row."""
    if arch not in (_AMPERE, _HOPPER):
        raise ValueError(f"force_arch is {arch}, expected {_AMPERE} or {_HOPPER}")
    return _mixed_gemm(_unpacked(packed.reshape(n, -1), bits), bits, arch)


def _scaled(groups: np.ndarray, bits: int, full: bool, least: float) -> Tuple[np.ndarray, np.ndarray]:
    """(signed codes, scales) of groups (..., size) by their greatest magnitude; full: the lowest code is used too."""
    half = 1 << (bits - 1)
    most = half if full else half - 1
    scales = np.maximum(np.abs(groups).max(-1) / np.float32(most), np.float32(least))
    return np.clip(np.rint(groups / scales[..., None]), -most, half - 1), scales


def _check_bits(bits: int) -> int:
    if int(bits) not in (4, 8):
        raise ValueError(f"bits is {bits}, expected 4 or 8")
    return int(bits)


class CudaQuantizer:
    """Functions; there is nothing to construct."""

    @staticmethod
    def qmoe_symmetric_per_channel_quantize(weights: Any, bits: int, *,
                                            unsigned_full_range: bool = True) -> Tuple[Any, Any]:
        """(codes (N, K * bits / 8), scales (N)): a scale a row, codes around the middle one."""
        bits, w = _check_bits(bits), _floats(weights)
        if w.shape[1] * bits % 8:
            raise ValueError(f"K is {w.shape[1]}, expected a multiple of {8 // bits}")
        codes, scales = _scaled(w, bits, unsigned_full_range, np.finfo(np.float32).eps)
        return _tensors(_quantize._packed((codes + (1 << (bits - 1))).astype(np.uint8), bits), scales)

    @staticmethod
    def qmoe_per_channel_quantize(weights: Any, bits: int, prepack: bool, force_arch: int = _AMPERE, *,
                                  unsigned_full_range: bool = True) -> Tuple[Any, Any]:
        """The same; with prepack in the kernels' order, (K, N * bits / 8)."""
        codes, scales = CudaQuantizer.qmoe_symmetric_per_channel_quantize(weights, bits,
                                                                          unsigned_full_range=unsigned_full_range)
        if not prepack:
            return codes, scales
        n, k = weights.shape
        packed, = _tensors(_prepacked(codes.numpy(), n, k, int(bits), int(force_arch)).reshape(k, -1))
        return packed, scales

    @staticmethod
    def matmulnbits_blockwise_quantize(weights: Any, bits: int, block_size: int, *, symmetric: bool = True,
                                       return_zero_points: bool = False, abs_scales: bool = True,
                                       flatten_qweight: bool = True,
                                       unsigned_full_range: bool = True) -> Tuple[Any, ...]:
        """(codes (N, blocks * bytes), scales (N, blocks)), and packed zero points where they are asked for; without
        flatten_qweight codes are (N, blocks, bytes)."""
        codes, *rest = _blockwise(weights, bits, block_size, symmetric, abs_scales, unsigned_full_range)
        codes = codes.reshape(codes.shape[0], -1) if flatten_qweight else codes
        return _tensors(codes, *rest[:1 + return_zero_points])

    @staticmethod
    def matmulnbits_prepacked_blockwise_quantize(weights: Any, bits: int, block_size: int, force_arch: int = _AMPERE, *,
                                                 symmetric: bool = True, return_zero_points: bool = False,
                                                 abs_scales: bool = True,
                                                 unsigned_full_range: bool = True) -> Tuple[Any, ...]:
        """The same in the kernels' order, (N, blocks, bytes). force_arch 80 is weight_prepacked=1, 90 is 2."""
        allowed = (32, 64, 128) if int(force_arch) == _AMPERE else (64, 128)
        if int(block_size) not in allowed:
            raise ValueError(f"block_size is {block_size}, expected one of {allowed} for architecture {force_arch}")
        (n, k), codes, *rest = _whole_blocks(weights, bits, block_size, symmetric, abs_scales, unsigned_full_range)
        packed = _prepacked(codes, n, k, int(bits), int(force_arch)).reshape(codes.shape)
        return _tensors(packed, *rest[:1 + return_zero_points])

    @staticmethod
    def qmoe_prepacked_blockwise_quantize(weights: Any, bits: int, block_size: int, force_arch: int = _AMPERE, *,
                                          symmetric: bool = True, return_zero_points: bool = False,
                                          abs_scales: bool = False,
                                          unsigned_full_range: bool = True) -> Tuple[Any, ...]:
        """The same for an expert of QMoE, (K, N * bits / 8)."""
        (n, k), codes, *rest = _whole_blocks(weights, bits, block_size, symmetric, abs_scales, unsigned_full_range)
        packed = _prepacked(codes, n, k, int(bits), int(force_arch)).reshape(k, -1)
        return _tensors(packed, *rest[:1 + return_zero_points])

    @staticmethod
    def symmetric_blockwise_quantize(weights: Any, bits: int, block_size: int, *,
                                     unsigned_full_range: bool = True) -> Tuple[Any, Any]:
        """(codes, scales) of blocks along the last dim, whatever dims stand before it: 8 bits as they are, signed;
        4, around 8, two a byte."""
        bits, w = _check_bits(bits), _floats(weights)
        size, last = int(block_size), w.shape[-1]
        padded = np.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, -last % size)])
        codes, scales = _scaled(padded.reshape(*w.shape[:-1], -1, size), bits, unsigned_full_range, 1e-8)
        codes = codes.reshape(padded.shape)[..., :last].astype(np.int8)
        if bits == 8:
            return _tensors(codes, scales)
        return _tensors(_quantize._packed((codes + 8).astype(np.uint8), 4, 0), scales)


def _floats(weights: Any) -> np.ndarray:
    return np.ascontiguousarray(weights.detach().cpu().float().numpy())


def _tensors(*arrays: np.ndarray) -> Tuple[Any, ...]:
    return tuple(_torch().from_numpy(np.ascontiguousarray(a)) for a in arrays)


def _blockwise(weights: Any, bits: int, block_size: int, symmetric: bool, abs_scales: bool,
               full: bool) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(codes (N, blocks, bytes), scales (N, blocks), packed zero points (N, bytes))."""
    bits, size, w = _check_bits(bits), int(block_size), _floats(weights)
    if size <= 0:
        raise ValueError(f"block_size is {block_size}, expected a positive number")
    (n, k), count = w.shape, -(-w.shape[1] // size)
    zeros = np.zeros((n, -(-count * bits // 8)), np.uint8)
    if symmetric:
        blocks = np.pad(w, ((0, 0), (0, count * size - k))).reshape(n, count, size)
        codes, scales = _scaled(blocks, bits, full, np.finfo(np.float32).eps)
        return _quantize._packed((codes + (1 << (bits - 1))).astype(np.uint8), bits, 0), scales, zeros
    packed, scales = np.zeros((n, count, -(-size * bits // 8)), np.uint8), np.zeros((n, count), np.float32)
    make = getattr(_quantize, f"quantize_matmul_{bits}bits")
    make(packed, np.ascontiguousarray(w.T), scales, zeros, size, n, k, False)
    return packed, np.abs(scales) if abs_scales else scales, zeros


def _whole_blocks(weights: Any, bits: int, block_size: int, symmetric: bool, abs_scales: bool, full: bool) -> Any:
    """((N, K), codes, scales, zero points) of a weight that blocks divide."""
    n, k = weights.shape
    if k % int(block_size) or n * int(bits) % 8:
        raise ValueError(f"the weight is {n} x {k}; in the kernels' order K is a multiple of block_size, {block_size}, "
                         f"and N of {8 // int(bits)}")
    return (n, k), *_blockwise(weights, bits, block_size, symmetric, abs_scales, full)
