"""Operators that this library knows, and the types that its CPU kernels compute in, as onnxruntime's native module
tells its own: get_all_operator_schema and get_all_opkernel_def. They read operators.tsv, made from the cards."""
from __future__ import annotations

import functools
import json
import pathlib
import types
from enum import IntEnum
from typing import Any, Dict, List, Sequence, Tuple

_NEWEST = 2**31 - 1  # also: as many as one likes


class OpSchema:
    """One version of an operator."""

    class AttrType(IntEnum):
        FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS, SPARSE_TENSOR, SPARSE_TENSORS, \
            TYPE_PROTO = range(1, 14)

    class FormalParameterOption(IntEnum):
        Single, Optional, Variadic = range(3)

    class SupportType(IntEnum):
        COMMON, EXPERIMENTAL = range(2)

    class Attribute:
        def __init__(self, name: str, kind: OpSchema.AttrType, required: bool, default: Any) -> None:
            self.name, self.type, self.required, self.description = name, kind, required, ""
            self.default = default

        @property
        def _default_value(self) -> bytes:
            """An AttributeProto, empty without a default; needs the package onnx."""
            if self.default is None:
                return b""
            from onnx import helper
            return bytes(helper.make_attribute(self.name, self.default).SerializeToString())

    class FormalParameter:
        def __init__(self, name: str, type_str: str, allowed: Sequence[str], option: OpSchema.FormalParameterOption,
                     homogeneous: bool, least: int) -> None:
            """least: how many there are, where there may be many."""
            self.name, self.typeStr, self.types, self.option = name, type_str, set(allowed), option
            self.isHomogeneous, self.description, self.least = homogeneous, "", least

    class TypeConstraintParam:
        def __init__(self, type_param_str: str, allowed_type_strs: Sequence[str]) -> None:
            self.type_param_str, self.allowed_type_strs, self.description = type_param_str, list(allowed_type_strs), ""

    def __init__(self, name: str, domain: str, since_version: int, doc: str, inputs: List[Any], outputs: List[Any],
                 constraints: List[Any], attributes: Dict[str, Any]) -> None:
        self.name, self.domain, self.since_version, self.doc = name, domain, since_version, doc
        self.inputs, self.outputs, self.type_constraints, self.attributes = inputs, outputs, constraints, attributes
        self.min_input, self.max_input = _counts(inputs)
        self.min_output, self.max_output = _counts(outputs)
        self.deprecated, self.support_level = False, self.SupportType.COMMON
        self.has_type_and_shape_inference_function, self.file, self.line = True, "", 0

    @staticmethod
    def is_infinite(arg0: int) -> bool:
        """Whether a number of inputs or outputs means any."""
        return arg0 == _NEWEST


def _counts(parameters: List[Any]) -> Tuple[int, int]:
    """The fewest and the most. What stands before one of which there may be many has its place."""
    option, fewest = OpSchema.FormalParameterOption, 0
    for i, p in enumerate(parameters):
        if p.option != option.Optional:
            fewest = i + (1 if p.option == option.Single else p.least)
    many = any(p.option == option.Variadic for p in parameters)
    return fewest, _NEWEST if many else len(parameters)


class KernelDef:
    """Versions of an operator that are computed alike, and in which types."""

    def __init__(self, op_name: str, domain: str, version_range: Tuple[int, int],
                 type_constraints: Dict[str, List[str]]) -> None:
        self.op_name, self.domain, self.version_range = op_name, domain, version_range
        self.type_constraints, self.provider = type_constraints, "CPUExecutionProvider"


# ---- the table ----

#: What a sequence and an optional hold, where an operator takes any; and maps.
_HELD = ("float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
         "string")
_OTHERS = {"sequence": [f"seq(tensor({t}))" for t in _HELD],
           "optional": [f"optional({kind})" for t in _HELD for kind in (f"tensor({t})", f"seq(tensor({t}))")],
           "map": [f"map({k},tensor({v}))" for k in ("int64", "string") for v in ("float", "double", "int64", "string")
                   if k != v]}


def _type_strings(names: str) -> List[str]:
    return [text for name in names.split() for text in _OTHERS.get(name, [f"tensor({name})"])]


@functools.lru_cache(maxsize=None)
def _table() -> Tuple[Dict[str, List[str]], List[List[str]]]:
    """(strings of types by the number of a set, rows)."""
    text = pathlib.Path(__file__).with_name("operators.tsv").read_text(encoding="utf-8")
    sets, _, rows = text.partition("\n\n")
    known = [line.split("\t") for line in sets.splitlines() if not line.startswith("#")]
    return {number: _type_strings(names) for number, names in known}, [r.split("\t") for r in rows.splitlines()]


class _Row:
    """A line of the table as parameters and constraints. A set that several parameters have, or that has several types,
    gets a letter; a single type stands for itself."""

    def __init__(self, inputs: str, outputs: str) -> None:
        self.constraints: List[OpSchema.TypeConstraintParam] = []
        self._of_inputs: List[Tuple[str, List[str]]] = []
        self.inputs = [self._parameter(p, True) for p in inputs.split()]
        self.outputs = [self._parameter(p, False) for p in outputs.split()]

    def _parameter(self, text: str, is_input: bool) -> OpSchema.FormalParameter:
        marks = text[:len(text) - len(text.lstrip("?*+"))]
        name, mark, told = text[len(marks):].replace("=", ":=").partition(":")
        option = OpSchema.FormalParameterOption.Variadic if set(marks) & {"*", "+"} else \
            OpSchema.FormalParameterOption.Optional if "?" in marks else OpSchema.FormalParameterOption.Single
        letter, allowed = self._of_inputs[int(told[1:])] if told[0] == "=" else self._constraint(_table()[0][told])
        if is_input:
            self._of_inputs.append((letter, allowed))
        return OpSchema.FormalParameter(name, letter, allowed, option, "+" not in marks, int("?" not in marks))

    def _constraint(self, allowed: List[str]) -> Tuple[str, List[str]]:
        if len(allowed) == 1:
            return allowed[0], allowed
        letter = f"T{len(self.constraints) or ''}"
        self.constraints.append(OpSchema.TypeConstraintParam(letter, allowed))
        return letter, allowed


def _attribute(text: str) -> OpSchema.Attribute:
    told, _, default = text.partition("=")
    name, _, kind = told.partition(":")
    return OpSchema.Attribute(name, OpSchema.AttrType[kind.rstrip("!")], kind.endswith("!"),
                              json.loads(default) if default else None)


def get_all_operator_schema() -> List[OpSchema]:
    """Of every version of every operator."""
    found = []
    for domain, name, since, _, inputs, outputs, attributes, _, doc in _table()[1]:
        row = _Row(inputs, outputs)
        told = {a.name: a for a in map(_attribute, attributes.split())}
        found.append(OpSchema(name, domain, int(since), doc, row.inputs, row.outputs, row.constraints, told))
    return found


def get_all_opkernel_def() -> List[KernelDef]:
    """What the CPU computes. Of a version's types those of its first input, or of its output, are told as the kernels
    have them, the others as the operator does."""
    found = []
    for domain, name, since, until, inputs, outputs, _, computed, _ in _table()[1]:
        row = _Row(inputs, outputs)
        constraints = {c.type_param_str: c.allowed_type_strs for c in row.constraints}
        first = (row.inputs or row.outputs or [None])[0]
        if first is not None and first.typeStr in constraints:
            constraints[first.typeStr] = _table()[0][computed]
        found.append(KernelDef(name, domain, (int(since), int(until) - 1 if until != "0" else _NEWEST), constraints))
    return found


def get_registered_ep_kernel_defs(ep_name: str) -> List[KernelDef]:
    """Of a provider in a library of its own, of which there is none."""
    from nacre import _core
    raise _core.Fail(f"no provider '{ep_name}' is registered: libraries of providers are not supported")


schemadef = types.SimpleNamespace(OpSchema=OpSchema)
opkernel = types.SimpleNamespace(KernelDef=KernelDef)
