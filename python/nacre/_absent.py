"""Names of onnxruntime that stand for what Nacre does not have. Each can be imported, and says so when it is used."""
from __future__ import annotations

from typing import Any, NoReturn

from nacre import _core


def _refuse(what: str, instead: str) -> NoReturn:
    raise _core.NotImplemented(f"{what} is not supported{'; ' + instead if instead else ''}")


class _Absent:
    _instead = ""

    def __init_subclass__(cls) -> None:
        cls.__doc__ = f"Not supported: {cls._instead}."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__, self._instead)


class OrtEpContextData(_Absent):
    _instead = "no provider keeps compiled contexts"


class OrtEpContextDataBuffer(_Absent):
    _instead = "no provider keeps compiled contexts"


def register_execution_provider_library(registration_name: str, path: str) -> None:
    _refuse("a provider from a library", "operators can be added: SessionOptions.register_custom_ops_library")


def unregister_execution_provider_library(registration_name: str) -> None:
    _refuse("a provider from a library", "")
