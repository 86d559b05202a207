"""Weights that lie outside of a model's proto."""
from __future__ import annotations

from typing import Any

from onnx import ModelProto, TensorProto, numpy_helper
from onnx.external_data_helper import set_external_data

import nacre
from nacre import _inference


def extract_raw_data_from_model(model: ModelProto) -> Any:
    """(names, values) of the initializers with raw bytes, as a session's add_external_initializers takes them; in the
    model they are now marked as lying elsewhere."""
    found = []
    for graph in _inference.graphs(model.graph):
        for t in graph.initializer:
            if t.HasField("raw_data"):
                found.append((t.name, nacre.OrtValue.ortvalue_from_numpy(numpy_helper.to_array(t))))
                set_external_data(t, location="elsewhere.bin")
                t.ClearField("raw_data")
    return zip(*found)


def has_external_data(model: ModelProto) -> bool:
    return any(t.data_location == TensorProto.EXTERNAL for graph in _inference.graphs(model.graph)
               for t in graph.initializer)
