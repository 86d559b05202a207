"""Small helpers of nacre.quantization.neural_compressor."""
from __future__ import annotations

from typing import Any, Iterable

import numpy as np

#: Bytes from which on a model does not fit into one protobuf.
MAXIMUM_PROTOBUF = 1 << 31


def simple_progress_bar(total: int, i: int) -> None:
    """Writes over the line how much is done."""
    print(f"\r{i} of {total} [{'#' * (20 * i // total):20}]", end="\n" if i == total else "", flush=True)


def find_by_name(name: str, item_list: Iterable[Any]) -> Any:
    """The first that has the name, or None."""
    return next((item for item in item_list if item.name == name), None)


def to_numpy(data: Any) -> np.ndarray:
    """An array of an array, of a tensor of torch, or of what numpy makes one of."""
    if hasattr(data, "detach"):
        data = data.detach().cpu()
        data = data.float() if str(data.dtype) == "torch.bfloat16" else data
    return np.asarray(data)
