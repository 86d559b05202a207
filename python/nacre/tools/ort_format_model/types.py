"""Types of values in .ort files, by the names that they have in C++."""
from __future__ import annotations

from typing import Any, Dict

from nacre.tools.ort_format_model.ort_flatbuffers_py import fbs

_ELEMENTS = vars(fbs.TensorDataType.TensorDataType)  # type: ignore[attr-defined]
_CPP = {"FLOAT": "float", "DOUBLE": "double", "STRING": "std::string", "BOOL": "bool", "FLOAT16": "MLFloat16",
        "BFLOAT16": "BFloat16", **{f"{s}INT{b}": f"{s.lower()}int{b}_t" for s in ("", "U") for b in (8, 16, 32, 64)},
        **{f"FLOAT8{k}": f"Float8{k}" for k in ("E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ")}}


class FbsTypeInfo:
    tensordatatype_to_string = {_ELEMENTS[name]: cpp for name, cpp in _CPP.items()}

    @staticmethod
    def typeinfo_to_str(type: Any) -> str:
        """Of a tensor its element, of a sequence what it holds, of a map both."""
        kinds, of, value = fbs.TypeInfoValue.TypeInfoValue, FbsTypeInfo, type.Value()  # type: ignore[attr-defined]
        if type.ValueType() == kinds.tensor_type:
            return of.tensordatatype_to_string[_as("TensorTypeAndShape", value).ElemType()]
        if type.ValueType() == kinds.sequence_type:
            return of.typeinfo_to_str(_as("SequenceType", value).ElemType())
        if type.ValueType() == kinds.map_type:
            told = _as("MapType", value)
            return f"std::map<{of.tensordatatype_to_string[told.KeyType()]},{of.typeinfo_to_str(told.ValueType())}>"
        raise ValueError(f"a value has type {type.ValueType()}, expected a tensor, a sequence or a map")


def _as(name: str, value: Any) -> Any:
    """What a union holds."""
    made = getattr(getattr(fbs, name), name)()
    made.Init(value.Bytes, value.Pos)
    return made


def get_typeinfo(name: Any, value_name_to_typeinfo: Dict[Any, Any]) -> Any:
    if name not in value_name_to_typeinfo:
        raise RuntimeError(f"the file does not tell the type of {name!r}")
    return value_name_to_typeinfo[name]


def value_name_to_typestr(name: Any, value_name_to_typeinfo: Dict[Any, Any]) -> str:
    return FbsTypeInfo.typeinfo_to_str(get_typeinfo(name, value_name_to_typeinfo))
