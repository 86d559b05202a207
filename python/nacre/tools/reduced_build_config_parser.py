"""Lists of operators and types for builds of onnxruntime that have nothing else, as create_config_from_models writes
them. Lines:

    domain;version,version;Op,Op{types as JSON},Op      operators, each with types or without
    !globally_allowed_types;float,int8_t                types for all operators, instead of types for each
    !no_ops_specified_means_all_ops_are_required        what a list without operators means
    # a comment
"""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from nacre.tools.ort_format_model.operator_type_usage_processors import (GloballyAllowedTypesOpTypeImplFilter,
                                                                         OperatorTypeUsageManager)

_ALLOWED, _ALL = "!globally_allowed_types;", "!no_ops_specified_means_all_ops_are_required"


def _operators(text: str) -> List[Tuple[str, str]]:
    """(name, JSON or nothing) of each."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        ends = [e for e in (text.find(",", at), text.find("{", at)) if e >= 0]
        end = min(ends, default=len(text))
        name, types = text[at:end].strip(), ""
        if text[end:end + 1] == "{":
            try:
                _, after = decoder.raw_decode(text, end)
            except ValueError as e:
                raise RuntimeError(f"operator {name} has types that are no JSON: {text[end:]}") from e
            types, end = text[end:after], (text + ",").index(",", after)
        found.append((name, types))
        at = end + 1
    return found


def parse_config(config_file: str, enable_type_reduction: bool = False) -> Tuple[Optional[Dict[str, Any]], Any]:
    """(operators by domain and version, None for all; what says which types are needed, None if nothing does)."""
    if not Path(config_file).is_file():
        raise ValueError(f"{config_file} is no file")
    needed: Dict[str, Dict[int, Set[str]]] = {}
    manager, allowed, by_operator, empty_is_all = OperatorTypeUsageManager(), None, False, False
    for line in map(str.strip, Path(config_file).read_text(encoding="utf-8").splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith(_ALLOWED):
            if allowed is not None and enable_type_reduction:
                raise RuntimeError(f"{config_file}: types for all operators are told twice")
            allowed = {t.strip() for t in line[len(_ALLOWED):].split(",")}
        elif line == _ALL:
            empty_is_all = True
        else:
            domain, versions, text = (part.strip() for part in line.split(";", 2))
            ops = _operators(text)
            for name, types in ops:
                if types:
                    by_operator = True
                    manager.restore_from_config_entry(domain, name, types)
            for version in map(int, versions.split(",")):
                needed.setdefault(domain, {}).setdefault(version, set()).update(name for name, _ in ops)
    if enable_type_reduction and allowed is not None and by_operator:
        raise RuntimeError(f"{config_file}: types are told for all operators and for single ones")
    wanted: Any = None
    if enable_type_reduction and allowed is not None:
        wanted = GloballyAllowedTypesOpTypeImplFilter(allowed)
    elif enable_type_reduction and by_operator:
        wanted = manager.make_op_type_impl_filter()
    return (None if not needed and empty_is_all else needed), wanted
