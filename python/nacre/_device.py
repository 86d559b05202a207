"""Devices and providers: which there are, what they are called, which one a session gets."""
from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from nacre import _core
from nacre._enums import (OrtAllocatorType, OrtDeviceMemoryType, OrtDeviceVendorId, OrtHardwareDeviceType,
                          OrtMemoryInfoDeviceType, OrtMemType)

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
#: The device that proves, without a GPU, that nothing of the host touches a device's memory. For tests; not listed.
GUARD = "GuardExecutionProvider"
_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1, "npu": 3, "dml": 4, "webgpu": 5, "cann": 3, "guard": 1}

Provider = Union[str, Tuple[str, Dict[Any, Any]]]


class _Env(_core.Env):
    """An environment that can be looked up without being kept."""

    __slots__ = ("__weakref__",)


class _Envs:
    """Environments by number of threads and custom libraries. Sessions that agree in both share one, and with it
    threads and packed weights. One with libraries lives as long as its sessions: then the libraries are closed."""

    def __init__(self) -> None:
        self.default_threads = 0
        self.seed: Optional[int] = None
        self._kept: Dict[int, _core.Env] = {}
        self._made: "weakref.WeakValueDictionary[Tuple[int, Tuple[str, ...]], _Env]" = weakref.WeakValueDictionary()

    def get(self, threads: int = 0, libraries: Sequence[str] = ()) -> _core.Env:
        key = (threads or self.default_threads, tuple(dict.fromkeys(libraries)))
        env = self._made.get(key)
        if env is None:
            env = _Env(key[0])
            for path in key[1]:
                env.load_plugin(path)
            env = self._made.setdefault(key, env)
        return env if key[1] else self._kept.setdefault(key[0], env)


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
        name, own = (p, {}) if isinstance(p, str) else p if isinstance(p, tuple) and len(p) == 2 else (None, {})
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
        if name == GUARD:
            return "guard", {GUARD: own, CPU: {}}
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


def place(device_type: str, device_id: int = 0) -> Optional[str]:
    """The library's name of a device, 'cuda:1'; None for the host."""
    name = _known(device_type)
    if name == "cpu":
        return None
    if name == "guard":
        return name
    if name not in ("cuda", "gpu"):
        raise _core.NotImplemented(f"there is no memory of '{device_type}'; there is that of cpu and cuda")
    return f"cuda:{int(device_id)}"


def _known(device_type: str) -> str:
    if device_type not in _TYPES:
        raise Exception(f"Unsupported device type: {device_type}")  # onnxruntime's class
    return device_type


class OrtDevice:
    """A device and its number."""

    def __init__(self, name: str, device_id: int, vendor_id: int = -1) -> None:
        self._name, self._id, self._vendor = _known(name), int(device_id), int(vendor_id)

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

    name: str
    allocator_type: OrtAllocatorType
    device_id: int
    mem_type: OrtMemType
    device_mem_type: OrtDeviceMemoryType
    device_vendor_id: int

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType) -> None:
        self.name, self.allocator_type = name, OrtAllocatorType(allocator_type)
        self.device_id, self.mem_type = int(device_id), OrtMemType(mem_type)
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0

    @staticmethod
    def create_v2(name: str, device_type: OrtMemoryInfoDeviceType, vendor_id: int, device_id: int,
                  mem_type: OrtDeviceMemoryType, alignment: int, allocator_type: OrtAllocatorType) -> "OrtMemoryInfo":
        info = OrtMemoryInfo(name, allocator_type, device_id, OrtMemType.DEFAULT)
        info.device_mem_type, info.device_vendor_id = OrtDeviceMemoryType(mem_type), int(vendor_id)
        return info


class OrtHardwareDevice:
    """A processor or GPU of this machine."""

    def __init__(self, kind: OrtHardwareDeviceType, vendor: str, vendor_id: int, metadata: Dict[str, str]) -> None:
        self.type, self.vendor, self.vendor_id, self.device_id = kind, vendor, vendor_id, 0
        self.metadata = metadata

    type: OrtHardwareDeviceType
    vendor: str
    vendor_id: int
    device_id: int
    metadata: Dict[str, str]


class OrtEpDevice:
    """A provider and the device that it works on."""

    def __init__(self, ep_name: str, device: OrtHardwareDevice) -> None:
        self.ep_name, self.ep_vendor, self.device = ep_name, "Nacre", device
        self.ep_metadata, self.ep_options = {}, {}

    ep_name: str
    ep_vendor: str
    device: OrtHardwareDevice
    ep_metadata: Dict[str, str]
    ep_options: Dict[str, str]

    def memory_info(self, memory_type: OrtDeviceMemoryType = OrtDeviceMemoryType.DEFAULT) -> OrtMemoryInfo:
        return memory_info("cpu" if self.ep_name == CPU else "cuda")

    def create_sync_stream(self) -> Any:
        raise _core.NotImplemented("streams of a device are not given out: a run returns when its outputs are written")


def memory_info(device: str) -> OrtMemoryInfo:
    """What inputs and outputs of a session lie in, unless they are bound elsewhere."""
    return OrtMemoryInfo("Cpu" if device == "cpu" else "Cuda", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0,
                         OrtMemType.DEFAULT)


def get_ep_devices() -> List[OrtEpDevice]:
    """The providers that work on this machine, each with its device."""
    cpu = OrtHardwareDevice(OrtHardwareDeviceType.CPU, "", 0, {"Description": envs.get().describe("cpu")})
    found = [OrtEpDevice(CPU, cpu)]
    if not why_no_cuda():
        gpu = OrtHardwareDevice(OrtHardwareDeviceType.GPU, "NVIDIA", int(OrtDeviceVendorId.NVIDIA),
                                {"Description": envs.get().describe("cuda")})
        found.append(OrtEpDevice(CUDA, gpu))
    return found


class OrtArenaCfg:
    """Sizes of an allocator's arena: hints, memory is planned before a run."""

    def __init__(self, *args: Any) -> None:
        values = dict(args[0]) if len(args) == 1 and isinstance(args[0], dict) else dict(zip(self._NAMES, args))
        for name in self._NAMES:
            setattr(self, name, int(values.get(name, -1)))

    _NAMES = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
              "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes")
    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: Optional[OrtArenaCfg]) -> None:
    """A hint: sessions of one environment share its memory anyway."""


def create_and_register_allocator_v2(provider_type: str, mem_info: OrtMemoryInfo, options: Dict[str, str],
                                     arena_cfg: Optional[OrtArenaCfg]) -> None:
    """A hint, as create_and_register_allocator."""
