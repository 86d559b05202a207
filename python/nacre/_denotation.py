"""What must be known of a model before the library loads it, read from its bytes: denotations of input dims
('DATA_BATCH'), which the library does not keep, and metadata that options are made from.

A walk over protobuf's wire form that looks at ModelProto.graph.input and ModelProto.metadata_props and skips everything
else by its length.
"""
from __future__ import annotations

import mmap
from typing import Callable, Dict, Iterator, Tuple, Union

_GRAPH, _INPUT, _TYPE, _TENSOR, _SHAPE, _DIM, _PARAM, _DENOTATION = 7, 11, 2, 1, 2, 1, 2, 3
_METADATA = 14


def _varint(data: memoryview, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _parts(data: memoryview, number: int) -> Iterator[memoryview]:
    """The parts of a message that have this number and a length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            at = _varint(data, at)[1]
        elif wire == 2:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise ValueError(f"{size} bytes of {len(data) - at}")
            if key >> 3 == number:
                yield data[at:at + size]
            at += size
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")


def _walk(data: memoryview, *path: int) -> Iterator[memoryview]:
    for part in _parts(data, path[0]):
        if len(path) == 1:
            yield part
        else:
            yield from _walk(part, *path[1:])


def _names(data: memoryview) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for dim in _walk(data, _GRAPH, _INPUT, _TYPE, _TENSOR, _SHAPE, _DIM):
        name, denotation = (b"".join(bytes(p) for p in _parts(dim, n)).decode() for n in (_PARAM, _DENOTATION))
        if name and denotation:
            found[name] = denotation
    return found


def props(data: memoryview) -> Dict[str, str]:
    """The metadata of a model; ValueError or IndexError for what is none."""
    found: Dict[str, str] = {}
    for entry in _parts(data, _METADATA):
        key, value = (b"".join(bytes(p) for p in _parts(entry, n)).decode() for n in (1, 2))
        found[key] = value
    return found


def _of(model: Union[str, bytes], read: Callable[[memoryview], Dict[str, str]]) -> Dict[str, str]:
    try:
        if isinstance(model, bytes):
            return read(memoryview(model))
        with open(model, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            with memoryview(whole) as view:
                return read(view)
    except (OSError, ValueError, IndexError):
        return {}


def names_of(model: Union[str, bytes]) -> Dict[str, str]:
    """Denotation by name, of the input dims that have both. A model that cannot be read has none: loading says why."""
    return _of(model, _names)


def metadata_of(model: Union[str, bytes]) -> Dict[str, str]:
    """The model's metadata; empty where it cannot be read."""
    return _of(model, props)
