"""onnxruntime checks its platform here. A Nacre that can be imported runs."""
from __future__ import annotations

from typing import Tuple

from nacre import cuda_version, package_name, version


def check_distro_info() -> None:
    """Every Linux with a C library will do."""


def get_package_name_and_version_info() -> Tuple[str, str, str]:
    return package_name, version, cuda_version
