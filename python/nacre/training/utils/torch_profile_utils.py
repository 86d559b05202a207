"""Ranges for NVIDIA's profiler, where PyTorch has them, and the memory of GPUs."""
from __future__ import annotations

import functools
from typing import Any, Callable

import torch


def torch_nvtx_range_push(msg: str) -> None:
    if torch.cuda.is_available():
        torch.cuda.nvtx.range_push(msg)


def torch_nvtx_range_pop() -> None:
    if torch.cuda.is_available():
        torch.cuda.nvtx.range_pop()


def nvtx_function_decorator(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function's calls are ranges of its name."""

    @functools.wraps(func)
    def ranged(*args: Any, **kwargs: Any) -> Any:
        torch_nvtx_range_push(func.__qualname__)
        try:
            return func(*args, **kwargs)
        finally:
            torch_nvtx_range_pop()
    return ranged


def log_memory_usage(cur_phase: str, rank_0_only: bool = True, step_info: str = "", logger: Any = None,
                     module: Any = None) -> None:
    """One line: what the GPU holds, in MiB; nothing where there is no GPU, or on other ranks than 0 unless asked."""
    if not torch.cuda.is_available():
        return
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    rank = torch.distributed.get_rank() if distributed else 0
    if rank_0_only and rank != 0:
        return
    mib = 1024 * 1024
    text = (f"rank-{rank} {step_info} memory ({cur_phase}), in MiB: allocated "
            f"{torch.cuda.memory_allocated() / mib:.0f}, at most {torch.cuda.max_memory_allocated() / mib:.0f}, "
            f"reserved {torch.cuda.memory_reserved() / mib:.0f}")
    if module is not None:
        text += f", parameters {sum(p.numel() * p.element_size() for p in module.parameters()) / mib:.0f}"
    print(text) if logger is None else logger.info(text)
