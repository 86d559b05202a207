"""Whether a package is there."""
from __future__ import annotations

import importlib.metadata
import importlib.util


def is_installed(package: str) -> bool:
    """By the name that it is installed by, or that it is imported by."""
    try:
        importlib.metadata.distribution(package)
        return True
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # nor is the one around it
        return False
