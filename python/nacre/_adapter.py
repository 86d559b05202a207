"""LoRA adapters: named tensors in a file of onnxruntime's, a flatbuffer with the identifier TORT.

    Adapter    {format_version: int32, adapter_version: int32, model_version: int32, parameters: [Parameter]}
    Parameter  {name: string, dims: [int64], data_type: int32, raw_data: [uint8]}

A file is untrusted: every place that it names is checked before it is read.
"""
from __future__ import annotations

import os
import struct
from typing import Any, Dict, List, Tuple

import numpy as np

from nacre import _core, _types
from nacre._files import write
from nacre._value import OrtValue

FORMAT_VERSION = 1
_MAGIC = b"TORT"


class _Reader:
    """Tables, vectors and strings of a flatbuffer. What lies outside of it is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, form: str, at: int) -> int:
        if not 0 <= at <= len(self.data) - struct.calcsize(form):
            raise ValueError(f"place {at} is outside of {len(self.data)} bytes")
        return int(struct.unpack_from(form, self.data, at)[0])

    def follow(self, at: int) -> int:
        return at + self.number("<I", at)

    def field(self, table: int, slot: int) -> int:
        """Where the field lies; 0: it has its default."""
        names = table - self.number("<i", table)
        place = 4 + 2 * slot
        inside = self.number("<H", names + place) if place < self.number("<H", names) else 0
        return table + inside if inside else 0

    def vector(self, at: int, width: int) -> Tuple[int, int]:
        """(first element, count)."""
        at = self.follow(at)
        count = self.number("<I", at)
        if at + 4 + count * width > len(self.data):
            raise ValueError(f"{count} elements at {at} do not fit into {len(self.data)} bytes")
        return at + 4, count

    def block(self, at: int) -> bytes:
        first, count = self.vector(at, 1)
        return self.data[first:first + count]


def _tensor(r: _Reader, table: int) -> Tuple[str, OrtValue]:
    name, dims, kind, raw = (r.field(table, i) for i in range(4))
    if not name or not dims or not raw:
        raise ValueError("a parameter without name, dims or data")
    first, rank = r.vector(dims, 8)
    shape = [r.number("<q", first + 8 * i) for i in range(rank)]
    number, data = r.number("<i", kind) if kind else 0, r.block(raw)
    dtype = _types.numpy_type(number)
    count = 1
    for d in shape:
        count *= d
    if number == _types.STRING or min(shape, default=0) < 0 or count * dtype.itemsize != len(data):
        raise ValueError(f"parameter of type {number} and shape {shape} with {len(data)} bytes")
    array = np.frombuffer(data, dtype=np.uint8).copy().view(dtype).reshape(shape)
    return r.block(name).decode(), OrtValue.ortvalue_from_numpy(array)


def _read(data: bytes) -> Tuple[Tuple[int, int, int], Dict[str, OrtValue]]:
    if data[4:8] != _MAGIC:
        raise ValueError("the identifier TORT is missing")
    r = _Reader(data)
    root = r.follow(0)
    places = [r.field(root, i) for i in range(4)]
    versions = [r.number("<i", p) if p else 0 for p in places[:3]]
    if versions[0] != FORMAT_VERSION:
        raise ValueError(f"its format has version {versions[0]}, expected {FORMAT_VERSION}")
    first, count = r.vector(places[3], 4) if places[3] else (0, 0)
    rows = [_tensor(r, r.follow(first + 4 * i)) for i in range(count)]
    return (versions[0], versions[1], versions[2]), dict(rows)


def _load(path: Any) -> Tuple[Tuple[int, int, int], Dict[str, OrtValue]]:
    try:
        with open(path, "rb") as f:
            return _read(f.read())
    except OSError as e:
        raise RuntimeError(f"adapter {os.fspath(path)}: {e.strerror}") from None
    except (ValueError, struct.error, _core.NotImplemented) as e:
        raise RuntimeError(f"The buffer does not appear to be a valid lora parameter format: {os.fspath(path)}: "
                           f"{e}") from None


# ---- writing ----

class _Writer:
    """Parts laid one after the other, forwards; places are filled in when what they point at is written."""

    def __init__(self) -> None:
        self.data = bytearray(8)

    def align(self, width: int, before: int = 0) -> None:
        self.data += bytes(-(len(self.data) + before) % width)

    def vector(self, at: int, items: bytes, width: int, align: int = 4) -> None:
        """A vector, pointed at from `at`, whose elements begin at a multiple of `align`."""
        self.align(align, 4)
        struct.pack_into("<I", self.data, at, len(self.data) - at)
        self.data += struct.pack("<I", len(items) // width) + items

    def table(self, n: int) -> List[int]:
        """A table of n fields of 4 bytes, all there; gives its own place and theirs."""
        self.align(4)
        names = len(self.data)
        self.data += struct.pack(f"<{n + 2}H", 4 + 2 * n, 4 + 4 * n, *(4 + 4 * i for i in range(n)))
        self.align(4)
        start = len(self.data)
        self.data += struct.pack("<i", start - names) + bytes(4 * n)
        return [start, *(start + 4 + 4 * i for i in range(n))]


def _write(adapter_version: int, model_version: int, parameters: Dict[str, OrtValue]) -> bytes:
    w = _Writer()
    root, *places = w.table(4)
    struct.pack_into("<I4s", w.data, 0, root, _MAGIC)
    for place, number in zip(places, (FORMAT_VERSION, adapter_version, model_version)):
        struct.pack_into("<i", w.data, place, number)
    ordered = sorted(parameters.items())
    w.vector(places[3], bytes(4 * len(ordered)), 4)
    slots = len(w.data) - 4 * len(ordered)
    for i, (name, value) in enumerate(ordered):
        _write_tensor(w, slots + 4 * i, name, value)
    w.align(8)
    return bytes(w.data)


def _write_tensor(w: _Writer, slot: int, name: str, value: OrtValue) -> None:
    start, *places = w.table(4)
    struct.pack_into("<I", w.data, slot, start - slot)
    struct.pack_into("<i", w.data, places[2], value.element_type())
    text, shape, array = name.encode(), value.shape(), value.numpy()
    w.vector(places[0], text, 1)
    w.data += b"\0"
    w.vector(places[1], struct.pack(f"<{len(shape)}q", *shape), 8, align=8)
    w.vector(places[3], np.ascontiguousarray(array).tobytes(), 1, align=8)


# ---- what scripts see ----

def _version(what: str, value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what}: expected a whole number, got {value!r}")
    return int(value)


class AdapterFormat:
    """The contents of an adapter's file, to be read or written."""

    def __init__(self, adapter: Any = None) -> None:
        self._versions = (FORMAT_VERSION, 0, 0)
        self._parameters: Dict[str, OrtValue] = {}
        if adapter is not None:
            self._versions, self._parameters = adapter._versions, dict(adapter._parameters)

    @staticmethod
    def read_adapter(file_path: Any) -> "AdapterFormat":
        made = AdapterFormat()
        made._versions, made._parameters = _load(file_path)
        return made

    def export_adapter(self, file_path: Any) -> None:
        """Writes the file."""
        data = _write(self._versions[1], self._versions[2], self._parameters)
        write(file_path, data)

    def get_format_version(self) -> int:
        return self._versions[0]

    def set_adapter_version(self, adapter_version: int) -> None:
        self._versions = (self._versions[0], _version("adapter_version", adapter_version), self._versions[2])

    def get_adapter_version(self) -> int:
        return self._versions[1]

    def set_model_version(self, model_version: int) -> None:
        self._versions = (*self._versions[:2], _version("model_version", model_version))

    def get_model_version(self) -> int:
        return self._versions[2]

    def set_parameters(self, params: Dict[str, OrtValue]) -> None:
        self._parameters = {str(k): OrtValue(v) for k, v in params.items()}

    def get_parameters(self) -> Dict[str, OrtValue]:
        return dict(self._parameters)


class LoraAdapter:
    """An adapter that runs may use: RunOptions.add_active_adapter. Its tensors are fed to the inputs of their names."""

    def __init__(self) -> None:
        self._parameters: Dict[str, OrtValue] = {}

    def Load(self, path: Any) -> None:
        self._parameters = _load(path)[1]
