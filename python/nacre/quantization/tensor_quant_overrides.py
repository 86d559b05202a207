"""The caller's wishes for single tensors, extra_options["TensorQuantOverrides"]: a name and a list of one dict, or of
one for each channel, with some of quant_type, symmetric, reduce_range, rmin, rmax, scale and zero_point, axis,
block_size, and convert: the type that some or all readers get instead."""
from __future__ import annotations

import json
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from nacre.quantization.quant_utils import QuantType

_KEYS = {"quant_type", "axis", "scale", "zero_point", "symmetric", "reduce_range", "rmin", "rmax", "convert",
         "block_size"}


@dataclass
class QuantTypeInfo:
    quant_type: QuantType
    symmetric: Optional[bool] = None
    reduce_range: Optional[bool] = None
    axis: Optional[int] = None

    @staticmethod
    def load_from_dict(raw_dict: Dict[str, Any], default_qtype: Optional[QuantType] = None,
                       default_symmetric: Optional[bool] = None,
                       default_reduce_range: Optional[bool] = None) -> "QuantTypeInfo":
        return QuantTypeInfo(raw_dict.get("quant_type", default_qtype), raw_dict.get("symmetric", default_symmetric),
                             raw_dict.get("reduce_range", default_reduce_range), raw_dict.get("axis"))

    def save_to_dict(self, raw_dict: Dict[str, Any]) -> None:
        raw_dict["quant_type"] = self.quant_type
        for name in ("symmetric", "reduce_range", "axis"):
            if getattr(self, name) is not None:
                raw_dict[name] = getattr(self, name)


class TensorQuantOverridesHelper(MutableMapping):  # type: ignore[type-arg]
    def __init__(self, raw_overrides: Optional[Dict[str, List[Dict[str, Any]]]]) -> None:
        self.overrides = raw_overrides or {}
        self.quant_types: Optional[Set[QuantType]] = None

    # ---- questions ----

    def has_per_tensor_overrides(self, tensor_name: str) -> bool:
        rows = self.overrides.get(tensor_name)
        return bool(rows) and len(rows) == 1 and "axis" not in rows[0]

    def has_per_channel_overrides(self, tensor_name: str) -> bool:
        rows = self.overrides.get(tensor_name)
        return bool(rows) and (len(rows) > 1 or "axis" in rows[0])

    def overrides_scale_zp(self, tensor_name: str) -> bool:
        return any("scale" in row and "zero_point" in row for row in self.overrides.get(tensor_name, []))

    def get_per_tensor_overrides(self, tensor_name: str, default_val: Any = None) -> Any:
        rows = self.overrides.get(tensor_name)
        if rows and (len(rows) > 1 or "axis" in rows[0]):
            raise ValueError(f"'{tensor_name}': its overrides are of channels, it is quantized as one")
        return rows[0] if rows else default_val

    def get_per_channel_overrides(self, tensor_name: str, default_val: Any = None) -> Any:
        rows = self.overrides.get(tensor_name)
        if not rows:
            return default_val
        if len(rows) == 1 and "axis" not in rows[0]:
            raise ValueError(f"'{tensor_name}': its override has no axis, it is quantized by channels")
        return rows

    def get_quant_types(self) -> Set[QuantType]:
        if self.quant_types is None:
            rows = [row for rows in self.overrides.values() for row in rows]
            self.quant_types = {k for row in rows for k in (row.get("quant_type"),
                                                            row.get("convert", {}).get("quant_type")) if k is not None}
        return self.quant_types

    def get_node_output_qtype_info(self, output_name: str, default_qtype: Optional[QuantType],
                                   default_symmetric: Optional[bool] = None) -> QuantTypeInfo:
        rows = self.overrides.get(output_name) or [{}]
        return QuantTypeInfo.load_from_dict(rows[0], default_qtype, default_symmetric)

    def get_node_input_qtype_info(self, input_name: str, node_name: str, default_qtype: Optional[QuantType],
                                  default_symmetric: Optional[bool] = None,
                                  default_reduce_range: Optional[bool] = None) -> QuantTypeInfo:
        row = (self.overrides.get(input_name) or [{}])[0]
        convert = row.get("convert")
        if convert and (not convert.get("recv_nodes") or node_name in convert["recv_nodes"]):
            row = convert
        return QuantTypeInfo.load_from_dict(row, default_qtype, default_symmetric, default_reduce_range)

    # ---- whether they make sense ----

    def is_valid(self, initializers: Dict[str, Any], activation_names: Set[str],
                 default_activation_qtype: Any) -> Tuple[bool, Optional[str]]:
        for name, rows in self.overrides.items():
            why = self._wrong(name, rows, initializers, activation_names)
            if why:
                return False, f"TensorQuantOverrides of '{name}': {why}"
        return True, None

    @staticmethod
    def _wrong(name: str, rows: Any, initializers: Dict[str, Any], activations: Set[str]) -> Optional[str]:
        if name not in initializers and name not in activations:
            return "no tensor of the model has this name"
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return f"expected a list of dicts, got {rows!r}"
        if name not in initializers and len(rows) > 1:
            return f"{len(rows)} dicts, but only initializers are quantized by channels"
        for row in rows:
            unknown = set(row) - _KEYS
            if unknown:
                return f"unknown {sorted(unknown)}, expected some of {sorted(_KEYS)}"
            if ("scale" in row) != ("zero_point" in row):
                return "scale and zero_point come together"
            if "scale" in row and {"symmetric", "reduce_range", "rmin", "rmax"} & set(row):
                return "scale and zero_point leave nothing to symmetric, reduce_range, rmin and rmax"
            if "quant_type" in row and not isinstance(row["quant_type"], QuantType):
                return f"quant_type is {row['quant_type']!r}, expected a QuantType"
            if "convert" in row and name in initializers:
                return "convert is for activations"
            if "convert" in row and "quant_type" not in row["convert"]:
                return "convert has no quant_type"
        return None

    def update_tensor_overrides(self, tensor_name: str, new_vals: Dict[str, Any], channels: Optional[List[int]] = None,
                                overwrite: bool = True) -> bool:
        """Adds to the dicts of a tensor, of all its channels or of these; False if nothing was changed."""
        rows = self.overrides.setdefault(tensor_name, [{}])
        changed = False
        for i in range(len(rows)) if channels is None else channels:
            while i >= len(rows):
                rows.append({})
            for key, value in new_vals.items():
                if overwrite or key not in rows[i]:
                    rows[i][key], changed = value, True
        self.quant_types = None
        return changed

    def pprint_str(self, indent: Optional[int] = None) -> str:
        def plain(value: Any) -> Any:
            return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else sorted(value) if isinstance(
                value, (set, frozenset)) else str(value)
        return json.dumps(self.overrides, default=plain, indent=indent)

    def empty(self) -> bool:
        return not self.overrides

    def get_dict(self) -> Dict[str, List[Dict[str, Any]]]:
        return self.overrides

    def __setitem__(self, key: str, value: List[Dict[str, Any]]) -> None:
        self.overrides[key], self.quant_types = value, None

    def __getitem__(self, key: str) -> List[Dict[str, Any]]:
        return self.overrides[key]

    def __delitem__(self, key: str) -> None:
        del self.overrides[key]
        self.quant_types = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.overrides)

    def __len__(self) -> int:
        return len(self.overrides)
