"""Types of Qualcomm's tensors: the numbers of its converter's files and the names of its contexts' files."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Tuple, Union

from onnx import TensorProto

#: Kinds, in the order of a number's upper byte, and the bits that ONNX has of each; a lower byte of 0x16 is 16 bits.
_BITS = {"INT": (8, 16, 32, 64), "UINT": (8, 16, 32, 64), "FLOAT": (16, 32), "FIXED_POINT": (8, 16, 32),
         "UFIXED_POINT": (8, 16, 32), "BOOL": (8,)}
_ONNX = {"BOOL8": "BOOL", "FLOAT32": "FLOAT"}


def _split(told: Union[int, str]) -> Tuple[str, int]:
    """(kind, bits); nothing where it is no type."""
    if isinstance(told, int):
        word, bits = (list(_BITS)[told >> 8] if told >> 8 < len(_BITS) else ""), f"{told & 255:x}"
    else:
        word, _, bits = told.replace("QNN_DATATYPE_", "").rpartition("_")
    return (word, int(bits)) if bits.isdigit() else ("", 0)


def onnx_type(told: Union[int, str]) -> int:
    """UNDEFINED for what ONNX has not."""
    word, bits = _split(told)
    if bits not in _BITS.get(word, ()):
        return TensorProto.UNDEFINED
    name = f"{word.replace('FIXED_POINT', 'INT')}{bits}"
    return TensorProto.DataType.Value(_ONNX.get(name, name))


def is_quantized(told: Union[int, str]) -> bool:
    """Fixed points of 8 and 16 bits."""
    word, bits = _split(told)
    return word.endswith("FIXED_POINT") and bits in (8, 16)


def read(path: str) -> Any:
    """The JSON of a file of Qualcomm's tools."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not there: it is a file that Qualcomm's tools write (qnn-onnx-converter's "
                                "model_net.json, or what qnn-context-binary-utility says of a context)")
    return json.loads(Path(path).read_text(encoding="utf-8"))


def need(told: Any, *keys: str) -> None:
    missing = [k for k in keys if k not in told]
    if missing:
        raise ValueError(f"the JSON has no {', '.join(missing)}: it is no file of Qualcomm's tools, or of others")
