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


class SparseTensor(_Absent):
    _instead = "feed dense arrays; sparse initializers of a model are read"

    @staticmethod
    def sparse_coo_from_numpy(dense_shape: Any, values: Any, coo_indices: Any, ort_device: Any) -> NoReturn:
        _refuse("SparseTensor", SparseTensor._instead)

    @staticmethod
    def sparse_csr_from_numpy(dense_shape: Any, values: Any, inner_indices: Any, outer_indices: Any,
                              ort_device: Any) -> NoReturn:
        _refuse("SparseTensor", SparseTensor._instead)


class AdapterFormat(_Absent):
    _instead = "feed the adapter's tensors as inputs"

    @staticmethod
    def read_adapter(file_path: Any) -> NoReturn:
        _refuse("AdapterFormat", AdapterFormat._instead)


class LoraAdapter(_Absent):
    _instead = "feed the adapter's tensors as inputs"

    def Load(self, path: Any) -> NoReturn:
        _refuse("LoraAdapter", self._instead)


class ModelCompiler(_Absent):
    _instead = "there is nothing to compile ahead; SessionOptions.optimized_model_filepath saves the optimized model"


class OrtSyncStream(_Absent):
    _instead = "a run returns when its outputs are written"


class OrtEpAssignedNode(_Absent):
    _instead = "nacre explain tells where a node runs"


class OrtEpAssignedSubgraph(_Absent):
    _instead = "nacre explain tells where a node runs"


class OrtEpContextData(_Absent):
    _instead = "no provider keeps compiled contexts"


class OrtEpContextDataBuffer(_Absent):
    _instead = "no provider keeps compiled contexts"


class OrtExternalInitializerInfo(_Absent):
    _instead = "it serves ModelCompiler"


class OrtCompileApiFlags(_Absent):
    _instead = "it serves ModelCompiler"


def register_execution_provider_library(registration_name: str, path: str) -> None:
    _refuse("a provider from a library", "operators can be added: SessionOptions.register_custom_ops_library")


def unregister_execution_provider_library(registration_name: str) -> None:
    _refuse("a provider from a library", "")
