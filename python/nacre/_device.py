"""Devices and providers: which there are, what they are called, which one a session gets."""
from __future__ import annotations

import functools
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from nacre import _core
from nacre._enums import OrtAllocatorType, OrtDeviceMemoryType, OrtDeviceVendorId, OrtMemType

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1}

Provider = Union[str, Tuple[str, Dict[Any, Any]]]


class _Envs:
    """Environments by number of threads and custom libraries. Sessions that agree in both share one, and with it
    threads and packed weights."""

    def __init__(self) -> None:
        self.default_threads = 0
        self.seed: Optional[int] = None
        self._made: Dict[Tuple[int, Tuple[str, ...]], _core.Env] = {}

    def get(self, threads: int = 0, libraries: Sequence[str] = ()) -> _core.Env:
        key = (threads or self.default_threads, tuple(dict.fromkeys(libraries)))
        env = self._made.get(key)
        if env is None:
            env = _core.Env(key[0])
            for path in key[1]:
                env.load_plugin(path)
            env = self._made.setdefault(key, env)
        return env


envs = _Envs()


@functools.lru_cache(maxsize=None)
def why_no_cuda() -> str:
    """Empty when there is a GPU that can be used, else the reason why not."""
    try:
        envs.get().describe("cuda")
    except _core.EPFail as e:
        return str(e)
    return ""


def get_all_providers() -> List[str]:
    """The providers that this package knows, in order of preference."""
    return [CUDA, CPU]


def get_available_providers() -> List[str]:
    """The providers that work on this machine."""
    return [CPU] if why_no_cuda() else [CUDA, CPU]


def get_device() -> str:
    return "CPU" if why_no_cuda() else "GPU"


def _pairs(providers: Optional[Sequence[Provider]],
           options: Optional[Sequence[Dict[Any, Any]]]) -> List[Tuple[str, Dict[str, str]]]:
    if providers is None:
        return [(CPU, {})]
    if options is not None and len(options) != len(providers):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    pairs = []
    for i, p in enumerate(providers):
        name, own = (p, {}) if isinstance(p, str) else p
        if not isinstance(name, str) or not isinstance(own, dict):
            raise ValueError("'providers' values must be either strings or 2-tuples of (string, dict).")
        if options is not None and own:
            raise ValueError("'provider_options' should not be given when 'providers' holds options too.")
        pairs.append((name, {str(k): str(v) for k, v in (own or (options[i] if options else {})).items()}))
    return pairs


def choose(providers: Optional[Sequence[Provider]], options: Optional[Sequence[Dict[Any, Any]]] = None
           ) -> Tuple[str, Dict[str, Dict[str, str]]]:
    """The device for these providers, and the providers that are in use with their options. The first that works is
    taken; one that does not is an error unless CPUExecutionProvider comes after it, then a warning."""
    pairs = _pairs(providers, options) or [(CPU, {})]
    for i, (name, own) in enumerate(pairs):
        if name == CPU:
            return "cpu", {CPU: own}
        later = any(n in (CPU, CUDA) for n, _ in pairs[i + 1:])
        if name != CUDA:
            reason = f"there is no provider '{name}'; there are {', '.join(get_all_providers())}"
            if not later:
                raise _core.InvalidArgument(reason)
        else:
            reason = why_no_cuda()
            if not reason:
                return f"cuda:{own.get('device_id', '0')}", {CUDA: own, CPU: {}}
            if not any(n == CPU for n, _ in pairs[i + 1:]):
                raise _core.EPFail(f"{reason}; list CPUExecutionProvider after it to go on without a GPU")
        warnings.warn(f"{reason}; the next provider is tried", UserWarning, stacklevel=4)
    raise _core.InvalidArgument("no provider was given")


def host_only(device_type: str, what: str) -> None:
    """Refuses memory that is not the host's: sessions on a GPU take and give host memory."""
    if str(device_type).lower() not in _TYPES:
        raise RuntimeError(f"Unsupported device type: {device_type}")
    if str(device_type).lower() != "cpu":
        raise _core.NotImplemented(f"{what} in the memory of '{device_type}' is not supported; use 'cpu': a session on "
                                   "a GPU copies what it needs")


class OrtDevice:
    """A device and its number."""

    def __init__(self, name: str, device_id: int, vendor_id: int = -1) -> None:
        if name.lower() not in _TYPES:
            raise RuntimeError(f"Unsupported device type: {name}")
        self._name, self._id, self._vendor = name.lower(), int(device_id), int(vendor_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        return OrtDevice(ort_device_name, device_id, vendor_id)

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return _TYPES[self._name]

    def device_vendor_id(self) -> int:
        if self._vendor >= 0:
            return self._vendor
        return int(OrtDeviceVendorId.NVIDIA if self.device_type() == 1 else OrtDeviceVendorId.NONE)

    def device_mem_type(self) -> int:
        return int(OrtDeviceMemoryType.DEFAULT)


class OrtMemoryInfo:
    """A kind of memory, for scripts that describe one."""

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType) -> None:
        self.name, self.allocator_type = name, OrtAllocatorType(allocator_type)
        self.device_id, self.mem_type = int(device_id), OrtMemType(mem_type)
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0
