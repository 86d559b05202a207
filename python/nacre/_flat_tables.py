"""Tables of FlatBuffers by their schema: for each the class that reads it and the functions that write it, by the names
that the compiler of FlatBuffers gives them. Reading needs nothing; writing calls methods of a builder of the package
flatbuffers, which the caller brings.

A schema is lines: `enum Name: A B C`, numbered from 0, `struct Name: Field kind, ...`, and `table Name IDENTIFIER:
Field kind, ...`, where a kind is string, a number's, union, the name of a table, [kind], or - for a place that is not
used any more. A number after = is the default.
"""
from __future__ import annotations

import importlib.machinery
import inspect
import struct
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

#: Of numbers: the code of struct, and the builder's word.
_NUMBERS = {"bool": ("?", "Bool"), "i8": ("b", "Int8"), "u8": ("B", "Uint8"), "i32": ("i", "Int32"),
            "u32": ("I", "Uint32"), "i64": ("q", "Int64"), "u64": ("Q", "Uint64"), "f32": ("f", "Float32")}


class Bytes:
    """A table's or struct's place in a buffer."""

    def __init__(self, buf: Any, pos: int) -> None:
        self.Bytes, self.Pos = buf, pos

    def number(self, code: str, at: int) -> Any:
        return struct.unpack_from("<" + code, self.Bytes, at)[0]

    def indirect(self, at: int) -> int:
        return at + int(self.number("I", at))

    def field(self, slot: int) -> int:
        """Where the field of a table lies; 0: it is not there. A table begins with the way back to its list of them."""
        listed = self.Pos - int(self.number("i", self.Pos))
        place = 4 + 2 * slot
        offset = self.number("H", listed + place) if place < self.number("H", listed) else 0
        return self.Pos + offset if offset else 0

    def string(self, at: int) -> bytes:
        at = self.indirect(at)
        return bytes(self.Bytes[at + 4:at + 4 + self.number("I", at)])


def _named(name: str, parameters: List[str], call: Callable[..., Any]) -> Callable[..., Any]:
    """The function as if it were written with these parameters."""
    def function(*args: Any, **kwargs: Any) -> Any:
        return call(*signature.bind(*args, **kwargs).arguments.values())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(p, kind) for p in parameters])
    function.__name__, function.__signature__ = name, signature  # type: ignore[attr-defined]
    return function


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


class Schema:
    def __init__(self, text: str, package: str) -> None:
        self._package = package
        self._kinds: Dict[str, Tuple[str, str, List[List[str]]]] = {}
        for line in text.strip().splitlines():
            head, _, body = line.partition(":")
            word, name, *more = head.split()
            fields = [part.split() for part in (body.split() if word == "enum" else body.split(","))]
            self._kinds[name] = (word, more[0] if more else "", fields)
        self.modules = {name: self._module(name) for name in self._kinds}

    def install(self, into: Dict[str, Any]) -> None:
        """Makes them modules of the package."""
        for name, module in self.modules.items():
            into[name] = sys.modules[f"{self._package}.{name}"] = module

    def _module(self, name: str) -> types.ModuleType:
        full = f"{self._package}.{name}"
        module = types.ModuleType(full)
        module.__spec__ = importlib.machinery.ModuleSpec(full, None)
        word, identifier, fields = self._kinds[name]
        made = {"enum": self._enum, "struct": self._struct, "table": self._table}[word](name, fields, identifier)
        for key, value in made.items():
            value.__module__ = full
            setattr(module, key, value)
        return module

    def _class(self, name: str) -> Any:
        return getattr(self.modules[name], name)

    @staticmethod
    def _enum(name: str, fields: List[List[str]], identifier: str) -> Dict[str, Any]:
        return {name: type(name, (), {word: i for i, (word,) in enumerate(fields)})}

    def _struct(self, name: str, fields: List[List[str]], identifier: str) -> Dict[str, Any]:
        """Of numbers of four bytes, one behind the other."""
        size, own = 4 * len(fields), {"Init": _init}
        for i, (field, kind) in enumerate(fields):
            own[field] = lambda self, i=i, kind=kind: self._tab.number(_NUMBERS[kind][0], self._tab.Pos + 4 * i)

        def create(builder: Any, *values: Any) -> Any:
            builder.Prep(4, size)
            for (_, kind), value in reversed(list(zip(fields, values))):
                getattr(builder, "Prepend" + _NUMBERS[kind][1])(value)
            return builder.Offset()
        own["SizeOf"] = classmethod(lambda cls: size)
        return {name: type(name, (), own),
                f"Create{name}": _named(f"Create{name}", ["builder", *(_lower(f) for f, _ in fields)], create)}

    def _table(self, name: str, fields: List[List[str]], identifier: str) -> Dict[str, Any]:
        mark, own, functions = identifier.encode(), {"Init": _init}, {}

        def root(cls: Any, buf: Any, offset: int = 0) -> Any:
            made = cls()
            made.Init(buf, Bytes(buf, 0).indirect(offset))
            return made

        def marked(cls: Any, buf: Any, offset: int, size_prefixed: bool = False) -> bool:
            at = offset + (8 if size_prefixed else 4)
            return bytes(buf[at:at + 4]) == mark
        own.update({"GetRootAs": classmethod(root), f"GetRootAs{name}": classmethod(root)})
        if mark:
            own[f"{name}BufferHasIdentifier"] = classmethod(marked)

        def put(key: str, parameters: List[str], call: Callable[..., Any]) -> None:
            for title in (key, name + key):
                functions[title] = _named(title, parameters, call)
        put("Start", ["builder"], lambda builder: builder.StartObject(len(fields)))
        for slot, (field, *told) in enumerate(fields):
            if field != "-":
                own.update(self._readers(slot, field, told))
                self._writers(slot, field, told, put)
        put("End", ["builder"], lambda builder: builder.EndObject())
        return {name: type(name, (), own), **functions}

    def _readers(self, slot: int, field: str, told: List[str]) -> Dict[str, Callable[..., Any]]:
        kind, default = told[0], float(told[1][1:]) if len(told) > 1 else 0
        if not kind.startswith("["):
            return {field: self._one(slot, kind, default)}
        inner, schema = kind[1:-1], self
        made: Dict[str, Callable[..., Any]] = {
            field: lambda self, j: schema._element(self._tab, slot, inner, j),
            field + "Length": lambda self: _length(self._tab, slot),
            field + "IsNone": lambda self: not self._tab.field(slot)}
        if inner in _NUMBERS:
            made[field + "AsNumpy"] = lambda self: _array(self._tab, slot, _NUMBERS[inner][0])
        return made

    def _one(self, slot: int, kind: str, default: float) -> Callable[[Any], Any]:
        schema = self

        def read(self: Any) -> Any:
            tab, at = self._tab, self._tab.field(slot)
            if kind in _NUMBERS:
                nothing = bool(default) if kind == "bool" else default if kind == "f32" else int(default)
                return tab.number(_NUMBERS[kind][0], at) if at else nothing
            if not at:
                return None
            if kind == "string":
                return tab.string(at)
            if kind == "union":
                return Bytes(tab.Bytes, tab.indirect(at))
            return schema._placed(kind, tab.Bytes, tab.indirect(at))
        return read

    def _placed(self, kind: str, buf: Any, pos: int) -> Any:
        made = self._class(kind)()
        made.Init(buf, pos)
        return made

    def _element(self, tab: Bytes, slot: int, kind: str, j: int) -> Any:
        at = tab.field(slot)
        if not at:
            return 0 if kind in _NUMBERS else "" if kind == "string" else None
        first = tab.indirect(at) + 4
        if kind in _NUMBERS:
            return tab.number(_NUMBERS[kind][0], first + j * struct.calcsize(_NUMBERS[kind][0]))
        if kind == "string":
            return tab.string(first + 4 * j)
        if self._kinds[kind][0] == "struct":
            return self._placed(kind, tab.Bytes, first + 4 * len(self._kinds[kind][2]) * j)
        return self._placed(kind, tab.Bytes, tab.indirect(first + 4 * j))

    def _writers(self, slot: int, field: str, told: List[str], put: Callable[..., None]) -> None:
        kind, default = told[0], int(told[1][1:]) if len(told) > 1 else 0
        word = _NUMBERS[kind][1] if kind in _NUMBERS else "UOffsetTRelative"
        put(f"Add{field}", ["builder", _lower(field)],
            lambda builder, value: getattr(builder, f"Prepend{word}Slot")(slot, value, default))
        if kind.startswith("["):
            size, align = self._size(kind[1:-1])
            put(f"Start{field}Vector", ["builder", "numElems"],
                lambda builder, count: builder.StartVector(size, count, align))

    def _size(self, kind: str) -> Tuple[int, int]:
        """Of an element of a vector, and what its place is a multiple of."""
        if kind in _NUMBERS:
            return (struct.calcsize(_NUMBERS[kind][0]),) * 2
        entry: Optional[Tuple[str, str, List[List[str]]]] = self._kinds.get(kind)
        return (4 * len(entry[2]) if entry and entry[0] == "struct" else 4), 4


def _init(self: Any, buf: Any, pos: int) -> None:
    self._tab = Bytes(buf, pos)


def _length(tab: Bytes, slot: int) -> int:
    at = tab.field(slot)
    return int(tab.number("I", tab.indirect(at))) if at else 0


def _array(tab: Bytes, slot: int, code: str) -> Any:
    """A view of the buffer; 0 where nothing is."""
    import numpy as np
    at = tab.field(slot)
    return np.frombuffer(tab.Bytes, "<" + code, _length(tab, slot), tab.indirect(at) + 4) if at else 0
