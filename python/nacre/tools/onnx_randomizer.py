"""python -m nacre.tools.onnx_randomizer -m IN -o OUT: a model whose weights are drawn anew, so that it can be shown."""
from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Callable, List, Optional

import numpy as np
import onnx
from onnx import GraphProto, numpy_helper

from nacre import _inference
from nacre._files import save_model

#: Smaller constants may be shapes and stay.
SIZE_THRESHOLD = 10


def graph_iterator(model: onnx.ModelProto, func: Callable[[GraphProto], Any]) -> None:
    """func of the graph and of those inside of its nodes."""
    for graph in list(_inference.graphs(model.graph)):
        func(graph)


def randomize_graph_initializer(graph: GraphProto) -> None:
    """Weights of the same type, shape and range."""
    for t in graph.initializer:
        x = numpy_helper.to_array(t)
        if x.size > SIZE_THRESHOLD and x.dtype != object:
            t.CopyFrom(numpy_helper.from_array(np.random.uniform(x.min(), x.max(), x.shape).astype(x.dtype), t.name))


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Draws the weights of a model anew.")
    parser.add_argument("-m", required=True, help="the model's file")
    parser.add_argument("-o", required=True, help="where the new one goes")
    parser.add_argument("--use_external_data_format", action="store_true", help="weights in files of their own")
    parser.add_argument("--all_tensors_to_one_file", action="store_true", help="one such file for all")
    told = parser.parse_args(arguments)
    if told.use_external_data_format and Path(told.m).resolve().parent == Path(told.o).resolve().parent:
        parser.error("-o must be in another folder than -m: the files of weights would be mixed up")
    os.makedirs(Path(told.o).parent, exist_ok=True)
    model = onnx.load(told.m)
    graph_iterator(model, randomize_graph_initializer)
    save_model(model, told.o, save_as_external_data=told.use_external_data_format,
               all_tensors_to_one_file=told.all_tensors_to_one_file,
               location=Path(told.o).name + ".data" if told.all_tensors_to_one_file else None)


if __name__ == "__main__":
    main()
