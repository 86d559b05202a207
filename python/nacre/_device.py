"""Devices and providers: which there are, what they are called, which one a session gets."""
from __future__ import annotations

import collections.abc
import functools
import re
import warnings
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from nacre import _core
from nacre._enums import (OrtAllocatorType, OrtDeviceMemoryType, OrtDeviceVendorId, OrtHardwareDeviceType,
                          OrtMemoryInfoDeviceType, OrtMemType)

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
#: The device that proves, without a GPU, that nothing of the host touches a device's memory. For tests; not listed.
GUARD = "GuardExecutionProvider"
#: Kinds of devices that can be named: the number of the kind, and the vendor that the name implies.
_TYPES = {"cpu": 0, "cuda": 1, "gpu": 1, "npu": 3, "dml": 1, "webgpu": 1, "cann": 3, "guard": 1}
_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT, "cann": OrtDeviceVendorId.HUAWEI,
            "webgpu": OrtDeviceVendorId.NONE}

Provider = Union[str, Tuple[str, Dict[Any, Any]]]


class _Env(_core.Env):
    """An environment that can be looked up without being kept."""

    __slots__ = ("__weakref__",)


class _Envs:
    """Environments by number of threads and custom libraries. Sessions that agree in both share one, and with it
    threads and packed weights. One with libraries lives as long as its sessions: then the libraries are closed."""

    def __init__(self) -> None:
        self.default_threads = 0
        self.shared = False  # set_global_thread_pool_sizes was called: sessions may not ask for threads of their own
        self.seed: Optional[int] = None
        self.rules: Dict[Tuple[str, str], Tuple[Optional[bytes], int]] = {}  # gradients, by domain and operator
        self._kept: Dict[int, _core.Env] = {}
        self._made: "weakref.WeakValueDictionary[Tuple[int, Tuple[str, ...]], _Env]" = weakref.WeakValueDictionary()

    def get(self, threads: int = 0, libraries: Sequence[str] = ()) -> _core.Env:
        key = (threads or self.default_threads, tuple(dict.fromkeys(libraries)))
        env = self._made.get(key)
        if env is None:
            env = _Env(key[0])
            for path in key[1]:
                env.load_plugin(path)
            for (domain, op), (model, stops) in self.rules.items():
                env.register_gradient(domain, op, model, stops)
            env = self._made.setdefault(key, env)
        return env if key[1] else self._kept.setdefault(key[0], env)

    def add_rule(self, domain: str, op: str, model: Optional[bytes], stops: int) -> None:
        """A gradient of the user's own, in all environments that are there and to come."""
        self.rules[domain, op] = model, stops
        for env in list(self._made.values()):
            env.register_gradient(domain, op, model, stops)


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


def _named(provider: Any) -> Tuple[str, Dict[Any, Any]]:
    pair = (provider, {}) if isinstance(provider, str) else provider
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict)):
        raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
    return pair


def _pairs(providers: Any, options: Any) -> List[Tuple[str, Dict[str, str]]]:
    """Names with their options as texts; a name that comes again is left out with a warning."""
    if not isinstance(providers, collections.abc.Sequence):
        raise ValueError("'providers' should be a sequence.")
    if options is None:
        pairs = [_named(p) for p in providers]
    else:
        if not isinstance(options, collections.abc.Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(options) != len(providers):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(p, str) for p in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(o, dict) for o in options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, options))
    found: Dict[str, Dict[str, str]] = {}
    for name, own in pairs:
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", UserWarning, stacklevel=5)
        else:
            found[name] = {str(k): str(v) for k, v in own.items()}
    return list(found.items())


def check_and_normalize_provider_args(providers: Optional[Sequence[Provider]],
                                      provider_options: Optional[Sequence[Dict[Any, Any]]],
                                      available_provider_names: Sequence[str]
                                      ) -> Tuple[List[str], List[Dict[str, str]]]:
    """The names, and the options of each as texts. ValueError for what is neither; names that are not available are
    kept, with a warning."""
    if providers is None:
        return [], []
    pairs = _pairs(providers, provider_options)
    for name, _ in pairs:
        if name not in available_provider_names:
            warnings.warn(f"Specified provider '{name}' is not in available provider names. Available providers: "
                          f"'{', '.join(available_provider_names)}'", UserWarning, stacklevel=2)
    return [name for name, _ in pairs], [own for _, own in pairs]


def choose(providers: Optional[Sequence[Provider]], options: Optional[Sequence[Dict[Any, Any]]] = None
           ) -> Tuple[str, Dict[str, Dict[str, str]]]:
    """The device for these providers, and the providers that are in use with their options. The first that works is
    taken; one that does not is an error unless CPUExecutionProvider comes after it, then a warning."""
    pairs = (_pairs(providers, options) if providers is not None else []) or [(CPU, {})]
    for i, (name, own) in enumerate(pairs):
        if name == CPU:
            return "cpu", {CPU: own}
        if name == GUARD:
            return "guard", {GUARD: own, CPU: {}}
        later = any(n in (CPU, CUDA) for n, _ in pairs[i + 1:])
        if name != CUDA:
            reason = f"Unknown Provider Type: {name}; there are {', '.join(get_all_providers())}"
            if not later:
                raise RuntimeError(reason)  # onnxruntime's class and words
        else:
            reason = why_no_cuda()
            if not reason:
                return f"cuda:{own.get('device_id', '0')}", {CUDA: own, CPU: {}}
            if not any(n == CPU for n, _ in pairs[i + 1:]):
                raise _core.EPFail(f"{reason}; list CPUExecutionProvider after it to go on without a GPU")
        warnings.warn(f"{reason}; the next provider is tried", UserWarning, stacklevel=4)
    raise _core.InvalidArgument("no provider was given")


def place(device_type: Union[str, "OrtDevice"], device_id: int = 0) -> Optional[str]:
    """The library's name of a device, 'cuda:1'; None for the host."""
    if isinstance(device_type, OrtDevice):
        device_type, device_id = device_type._name, device_type._id
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


def get_ort_device_type(device_type: str) -> int:
    """The number of a kind of device, as OrtDevice.dml() and the like give it."""
    return OrtDevice.dml() if device_type == "dml" else _TYPES[_known(device_type)]


def get_vendor_id_for_device_type(device_type: str) -> Optional[OrtDeviceVendorId]:
    """The vendor that the name of a kind implies; None: none."""
    return _VENDORS.get(device_type)


def _of_numbers(kind: int, third: int, fourth: Optional[int]) -> Tuple[str, int, int]:
    """(name, device, vendor) of a device that is told by numbers."""
    names = {number: name for name, number in reversed(_TYPES.items())}
    if kind not in names:
        raise ValueError(f"kinds of devices are {sorted(names)}, got {kind}")
    return (names[kind], max(third, 0), 0) if fourth is None else (names[kind], fourth, third)


class OrtDevice:
    """A device and its number. Kinds have numbers: OrtDevice.cuda() is that of GPUs."""

    def __init__(self, name: Any, device_id: int = 0, vendor_id: int = -1, number: Optional[int] = None) -> None:
        """By another device or a name; or, as onnxruntime's native class, by the numbers of (kind, memory, device) or
        (kind, memory, vendor, device)."""
        if isinstance(name, OrtDevice):
            name, device_id, vendor_id = name._name, name._id, name._vendor
        elif isinstance(name, int) and not isinstance(name, bool):
            name, device_id, vendor_id = _of_numbers(name, vendor_id, number)
        if not isinstance(name, str):
            raise ValueError(f"`Provided object` needs to be an OrtDevice or the name of one, got {type(name)}")
        self._name, self._id, self._vendor = _known(name), int(device_id), int(vendor_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        return OrtDevice(ort_device_name, device_id, vendor_id)

    def _get_c_device(self) -> "OrtDevice":
        return self

    # ---- numbers of kinds ----

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def cuda() -> int:
        return 1

    @staticmethod
    def gpu() -> int:
        return 1

    @staticmethod
    def webgpu() -> int:
        return 1

    @staticmethod
    def fpga() -> int:
        return 2

    @staticmethod
    def npu() -> int:
        return 3

    @staticmethod
    def cann() -> int:
        return 3

    @staticmethod
    def dml() -> int:
        return 4

    @staticmethod
    def default_memory() -> int:
        return int(OrtDeviceMemoryType.DEFAULT)

    # ---- telling ----

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return _TYPES[self._name]

    def device_vendor_id(self) -> int:
        if self._vendor >= 0:
            return self._vendor
        return int(_VENDORS.get(self._name, OrtDeviceVendorId.NONE))

    def device_mem_type(self) -> int:
        return int(OrtDeviceMemoryType.DEFAULT)

    vendor_id, mem_type = device_vendor_id, device_mem_type


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

    def create_sync_stream(self) -> "OrtSyncStream":
        """A stream of the device, for the provider option user_compute_stream and for other libraries."""
        if self.ep_name == CPU:
            raise RuntimeError("ep_device does not use DEFAULT memory of a non-CPU device.")  # onnxruntime's words
        return OrtSyncStream(_core.Stream(envs.get(), "cuda"))


class OrtSyncStream:
    """A stream of a device, made by OrtEpDevice.create_sync_stream; it lives as long as this object, or a session on
    it."""
    _all: "weakref.WeakValueDictionary[int, OrtSyncStream]" = weakref.WeakValueDictionary()

    def __init__(self, stream: _core.Stream) -> None:
        self._stream = stream
        self._all[stream.handle] = self

    def get_handle(self) -> int:
        """The address by which the device's own library knows it: for CUDA a cudaStream_t."""
        return self._stream.handle


def stream_at(handle: int, env: _core.Env, device: str) -> _core.Stream:
    """The stream that its library knows by this address; one of our own lives as long as this is used."""
    return _core.Stream(env, device, handle, OrtSyncStream._all.get(handle))


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


def get_hardware_devices() -> List[OrtHardwareDevice]:
    """The processor and the GPU of this machine that can be used."""
    return [d.device for d in get_ep_devices()]


class OrtEpAssignedNode:
    """A node as it runs: rewritten nodes are told as they are then. One without a name has that of its first output."""

    def __init__(self, name: str, domain: str, op_type: str) -> None:
        self.name, self.domain, self.op_type = name, domain, op_type

    name: str
    domain: str
    op_type: str


class OrtEpAssignedSubgraph:
    """Nodes that one provider runs."""

    def __init__(self, ep_name: str, nodes: Sequence[OrtEpAssignedNode]) -> None:
        self.ep_name, self._nodes = ep_name, list(nodes)

    ep_name: str

    def get_nodes(self) -> List[OrtEpAssignedNode]:
        return list(self._nodes)


_LINE = re.compile(r"  (?:  )?(?:\S+ )?(?P<out>\S+?)(?:, .*)? = (?P<op>[\w.]+)[(<](?:.*\))?(?P<place> @place=1)?"
                   r'(?: "(?P<name>.*)")?$')


def assignments(lowered: str, device_provider: str) -> List[OrtEpAssignedSubgraph]:
    """Which provider runs which node, from the text of the lowered graph. Nodes that run as one chain are told one by
    one; nodes of other bodies are part of the node that has the body."""
    found, chain = [], False
    for line in lowered.splitlines():
        node = _LINE.match(line)
        if line.startswith("  }"):
            chain = False
        elif " = nacre.Chain<body = {" in line:
            chain = True
        elif node and line.startswith("    ") <= chain:
            domain, _, op = node["op"].rpartition(".")
            called = OrtEpAssignedNode(node["name"] or node["out"], domain, op)
            found.append(OrtEpAssignedSubgraph(device_provider if node["place"] else CPU, [called]))
    return found


class OrtExternalInitializerInfo:
    """Where in a file an initializer lies."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int) -> None:
        self.filepath, self.file_offset, self.byte_size = str(filepath), int(file_offset), int(byte_size)

    filepath: str
    file_offset: int
    byte_size: int


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
