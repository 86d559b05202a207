"""TensorRT's table of ranges, a file of FlatBuffers: names and numbers as texts."""
from __future__ import annotations

import struct
from typing import Dict

from nacre import _flat_tables

_flat_tables.Schema("""
table KeyValue: Key string, Value string
table TrtTable: Dict [KeyValue]
""", __name__).install(globals())


def table_of(texts: Dict[str, str]) -> bytes:
    """The file. Its parts lie in the order: the table with its list of fields, the vector, the list of fields that all
    pairs share, the pairs, the texts. Every offset is from where it stands to what lies behind it."""
    pairs = [text.encode() for pair in texts.items() for text in pair]
    head = struct.pack("<I3Hxx", 12, 6, 8, 4) + struct.pack("<iI", 8, 4) + struct.pack("<I", len(texts))
    fields = len(head) + 4 * len(texts)
    first = fields + 8
    places, at = [], first + 12 * len(texts)
    for text in pairs:
        places.append(at)
        at += (4 + len(text) + 1 + 3) // 4 * 4
    vector = b"".join(struct.pack("<I", first + 12 * i - (len(head) + 4 * i)) for i in range(len(texts)))
    tables = b"".join(struct.pack("<iII", at - fields, places[2 * i] - at - 4, places[2 * i + 1] - at - 8)
                      for i, at in enumerate(range(first, first + 12 * len(texts), 12)))
    strings = b"".join(struct.pack("<I", len(t)) + t + bytes(-(4 + len(t)) % 4 or 4) for t in pairs)
    return head + vector + struct.pack("<4H", 8, 12, 4, 8) + tables + strings
