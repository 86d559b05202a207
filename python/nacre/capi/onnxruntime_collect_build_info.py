"""Which versions of CUDA's runtime this machine has."""
from __future__ import annotations

import ctypes
import sys
import warnings
from typing import List, Optional


def _version(suffix: Optional[str]) -> Optional[int]:
    """12010 for 12.1; None where libcudart.so, or the one of this version, is not or does not answer."""
    found = ctypes.c_int()
    try:
        library = ctypes.CDLL("libcudart.so" + (f".{suffix}" if suffix else ""))
        return None if library.cudaRuntimeGetVersion(ctypes.byref(found)) else found.value
    except (OSError, AttributeError):
        return None


def find_cudart_versions(build_env: bool = False, build_cuda_version: Optional[str] = None) -> Optional[List[int]]:
    """Of the library by its plain name and by the name of build_cuda_version."""
    if not sys.platform.startswith("linux"):
        warnings.warn("find_cudart_versions looks for libraries as Linux names them")
        return None
    return sorted({v for v in map(_version, {None, build_cuda_version}) if v})
