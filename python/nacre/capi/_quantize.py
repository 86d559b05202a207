"""Weights of 2, 4 and 8 bits in blocks along K, as onnxruntime's native functions make them for MatMulNBits.

A block has a scale and a zero point. With zero points its numbers lie between its smallest and its greatest element, 0
among them; without, the element furthest from 0 becomes the lowest code.
"""
from __future__ import annotations

from typing import Callable, Optional, Tuple

import numpy as np


def _parameters(blocks: np.ndarray, bits: int, symmetric: bool) -> Tuple[np.ndarray, np.ndarray]:
    """Scales and zero points of blocks (..., size)."""
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    half, most = 1 << (bits - 1), (1 << bits) - 1
    if symmetric:
        furthest = np.where(np.abs(high) > np.abs(low), high, low)
        return (furthest / -half).astype(np.float32), np.full(low.shape, half, np.float32)
    scale = ((high - low) / most).astype(np.float32)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    return scale, np.clip(np.floor(0 - low * inverse + np.float32(0.5)), 0, most).astype(np.float32)


def _packed(codes: np.ndarray, bits: int, filler: Optional[int] = None) -> np.ndarray:
    """Codes (..., n) in bytes (..., ceil(n * bits / 8)), the first in the lowest bits; filler, the middle code if none
    is given, fills up."""
    per = 8 // bits
    room = -codes.shape[-1] % per
    code = 1 << (bits - 1) if filler is None else filler
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, room)], constant_values=code)
    parts = codes.reshape(*codes.shape[:-1], -1, per)
    return np.bitwise_or.reduce(parts << (np.arange(per, dtype=np.uint8) * bits), axis=-1).astype(np.uint8)


def _maker(bits: int) -> Callable[..., None]:
    def quantize(dst: np.ndarray, src: np.ndarray, scale: np.ndarray, zero_points: np.ndarray, block_size: int,
                 N: int, K: int, is_symmetric: bool) -> None:
        """src (K,N) into codes dst (N, blocks, bytes of a block), scale (N * blocks) and zero points, packed too."""
        n_blocks = -(-int(K) // int(block_size))
        whole = np.zeros((int(N), n_blocks * int(block_size)), np.float32)
        whole[:, :int(K)] = np.asarray(src, np.float32).reshape(int(K), int(N)).T
        blocks = whole.reshape(int(N), n_blocks, int(block_size))
        scales, zeros = _parameters(blocks, bits, bool(is_symmetric))
        scales = scales.astype(scale.dtype).astype(np.float32)  # codes are made with the scale that is kept
        inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)[..., None]
        shifted = blocks * inverse + zeros[..., None]
        codes = np.clip(np.floor(shifted + np.float32(0.5)), 0, (1 << bits) - 1).astype(np.uint8)
        codes.reshape(int(N), -1)[:, int(K):] = 0
        dst.reshape(-1)[:] = _packed(codes, bits).reshape(-1)
        scale.reshape(-1)[:] = scales.reshape(-1).astype(scale.dtype)
        if not is_symmetric and zero_points.size:
            zero_points.reshape(-1)[:] = _packed(zeros.astype(np.uint8), bits).reshape(-1)

    return quantize


quantize_matmul_2bits, quantize_matmul_4bits, quantize_matmul_8bits = _maker(2), _maker(4), _maker(8)


def _plain_maker(bits: int) -> Callable[..., bool]:
    def quantize(dst: np.ndarray, src: np.ndarray, scale: np.ndarray, zero_points: np.ndarray, block_size: int,
                 N: int, K: int, is_symmetric: bool) -> bool:
        """src (K,N) into codes in the same order, as DequantizeLinear reads them, with scale (blocks, N) and zero
        points. Symmetric codes are signed: whether they are is what it returns."""
        half, n_blocks = 1 << (bits - 1), -(-int(K) // int(block_size))
        whole = np.zeros((n_blocks * int(block_size), int(N)), np.float32)
        whole[:int(K)] = np.asarray(src, np.float32).reshape(int(K), int(N))
        blocks = whole.reshape(n_blocks, int(block_size), int(N))
        scales, zeros = _parameters(blocks.swapaxes(1, 2), bits, bool(is_symmetric))
        scales = scales.astype(scale.dtype).astype(np.float32)
        numbers = blocks * np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)[:, None]
        nearest = np.copysign(np.floor(np.abs(numbers, dtype=np.float64) + 0.5), numbers)  # halves away from 0
        codes = np.clip(nearest + zeros[:, None], 0, 2 * half - 1).astype(np.uint8)
        codes = codes.reshape(-1, int(N))[:int(K)] ^ np.uint8(half if is_symmetric else 0)
        dst.reshape(-1)[:] = _packed(codes.reshape(-1), bits, 0)
        scale.reshape(-1)[:] = scales.reshape(-1).astype(scale.dtype)
        if not is_symmetric and zero_points.size:
            zero_points.reshape(-1)[:] = _packed(zeros.astype(np.uint8).reshape(-1), bits, 0)
        return bool(is_symmetric)

    return quantize


quantize_qdq_matmul_2bits, quantize_qdq_matmul_4bits = _plain_maker(2), _plain_maker(4)


def pack_fp4_weights_for_cuda_moe_gemm(q_weights: np.ndarray, N: int, K: int) -> np.ndarray:
    """Codes of 4 bits (N, K/2), two a byte, turned: (K, N/2) in a row."""
    packed = np.asarray(q_weights, np.uint8).reshape(int(N), int(K) // 2)
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(int(N), int(K))
    return _packed(codes.T, 4).reshape(-1)


# ---- codes of bitsandbytes ----

#: The numbers of each kind from the lowest to the highest, and their codes. FP4 has its sign in the highest bit, so
#: that its numbers here are magnitudes; NF4's are quantiles of the normal distribution, coded in order.
_FP4 = np.array([0, 1 / 192, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1], np.float64), np.uint8([0, 1, 6, 7, 4, 5, 2, 3])
_NF4 = np.array([-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                 -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
                 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                 0.7229568362236023, 1], np.float64), np.arange(16, dtype=np.uint8)


def _nearest(x: np.ndarray, kind: Tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The code of the nearest number; half-way between two, and NaN, that of the lower one."""
    numbers, codes = kind
    between = ((numbers[1:] + numbers[:-1]) / 2).astype(np.float32)
    return np.where(np.isnan(x), codes[0], codes[np.searchsorted(between, x, side="left")]).astype(np.uint8)


def quantize_matmul_bnb4(dst: np.ndarray, src: np.ndarray, absmax: np.ndarray, block_size: int, quant_type: int, N: int,
                         K: int) -> None:
    """src, N * K numbers as they lie, into codes dst, two a byte, the first in the high half, and the greatest
    magnitude of each block. quant_type: 0 FP4, 1 NF4."""
    if block_size not in (16, 32, 64, 128, 256):
        raise RuntimeError(f"only block size 16, 32, 64, 128, 256 are supported, got {block_size}")
    count = int(N) * int(K)
    whole = np.zeros(-(-count // int(block_size)) * int(block_size), np.float32)
    whole[:count] = np.asarray(src, np.float32).reshape(-1)[:count]
    blocks = whole.reshape(-1, int(block_size))
    most = np.fmax.reduce(np.abs(blocks), axis=1, initial=0).astype(np.float32)
    scaled = blocks * np.divide(1, most, out=np.zeros_like(most), where=most != 0)[:, None]
    codes = _nearest(scaled, _NF4) if quant_type else _nearest(np.abs(scaled), _FP4) | ((scaled < 0) * np.uint8(8))
    none = np.full(count % 2, 7 if quant_type else 0, np.uint8)  # an odd one is followed by the code of 0
    codes = np.append(codes.reshape(-1)[:count], none)
    dst.reshape(-1)[:] = codes[::2] << 4 | codes[1::2]
    absmax.reshape(-1)[:] = most.astype(absmax.dtype)
