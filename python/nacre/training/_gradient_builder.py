"""GradientGraphBuilder, which onnxruntime has in its native module: the gradients of a loss as outputs of a model."""
from __future__ import annotations

import os
from typing import Any, Optional, Set, Union

from nacre._files import write
from nacre.training._gradients import shared_gradients
from nacre.training._onnx import onnx


class GradientGraphBuilder:
    """serialized_model: the bytes of a model; x_node_arg_names: values by which loss_node_arg_name is differentiated.
    build() makes the model, whose outputs `<x>_grad` are the gradients."""

    def __init__(self, serialized_model: bytes, y_node_arg_names: Set[str], x_node_arg_names: Set[str],
                 loss_node_arg_name: str, options: Optional[Any] = None) -> None:
        del options
        self._forward = serialized_model
        self._ys, self._xs, self._loss = set(y_node_arg_names), set(x_node_arg_names), loss_node_arg_name
        self._made: Optional[Any] = None

    def build(self) -> None:
        proto = onnx.ModelProto.FromString(self._forward)
        have = [o.name for o in proto.graph.output]
        for name in sorted(self._ys - set(have)):
            raise ValueError(f"GradientGraphBuilder: the model has no output '{name}'; it has {', '.join(have)}")
        order = [v.name for v in (*proto.graph.input, *proto.graph.initializer)]
        xs = sorted(self._xs, key=lambda n: (order.index(n) if n in order else len(order), n))
        made = shared_gradients(self._forward, self._loss, xs)
        names = {f"grad:{x}": f"{x}_grad" for x in xs}
        for node in made.graph.node:
            node.output[:] = [names.get(n, n) for n in node.output]
            node.input[:] = [names.get(n, n) for n in node.input]
        for output in made.graph.output:
            output.name = names.get(output.name, output.name)
        self._made = made

    def get_model(self) -> bytes:
        if self._made is None:
            raise RuntimeError("GradientGraphBuilder: call build() first")
        return self._made.SerializeToString()

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        write(path, self.get_model())
