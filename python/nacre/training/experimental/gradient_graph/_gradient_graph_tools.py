"""export_gradient_graph: a module and its loss, with the gradients of all parameters as further outputs."""
from __future__ import annotations

import io
import os
from typing import Any, Callable, Dict, Union

import torch

from nacre._files import save_model
from nacre.training._gradients import shared_gradients
from nacre.training._onnx import onnx


class _WithLoss(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, loss_fn: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.model, self.loss_fn = model, loss_fn

    def forward(self, model_input: Any, labels: Any) -> Any:
        output = self.model(model_input)
        return output, self.loss_fn(output, labels)


def _exported(model: torch.nn.Module, loss_fn: Any, inputs: Any, opset_version: int) -> Any:
    """By the exporter that keeps the parameters' names and the mode of the module."""
    file = io.BytesIO()
    torch.onnx.export(_WithLoss(model, loss_fn), inputs, file, input_names=["input", "labels"],
                      output_names=["output", "loss"], opset_version=opset_version, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, export_params=True, dynamo=False,
                      dynamic_axes={"input": {0: "batch"}, "labels": {0: "batch"}, "output": {0: "batch"}})
    return onnx.load_model_from_string(file.getvalue())


def _rename(proto: Any, names: Dict[str, str]) -> None:
    for node in proto.graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
    for kind in (proto.graph.initializer, proto.graph.input, proto.graph.output, proto.graph.value_info):
        for item in kind:
            item.name = names.get(item.name, item.name)


def _parameters_as_inputs(proto: Any, names: Any) -> None:
    held = {t.name: t for t in proto.graph.initializer}
    for name in names:
        tensor = held[name]
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
        proto.graph.initializer.remove(tensor)


def export_gradient_graph(model: torch.nn.Module, loss_fn: Callable[[Any, Any], Any], example_input: torch.Tensor,
                          example_labels: torch.Tensor, gradient_graph_path: Union[str, "os.PathLike[str]"],
                          opset_version: int = 12) -> None:
    """Saves a model with the inputs input, labels and all parameters by name, and the outputs output, loss and
    `<parameter>_grad` for each parameter that requires one. The module is not changed."""
    proto = _exported(model, loss_fn, (example_input, example_labels), opset_version)
    _rename(proto, {f"model.{name}": name for name, _ in model.named_parameters()})
    _parameters_as_inputs(proto, [name for name, _ in model.named_parameters()])
    wanted = [name for name, p in model.named_parameters() if p.requires_grad]
    made = shared_gradients(proto, "loss", wanted)
    _rename(made, {f"grad:{name}": f"{name}_grad" for name in wanted})
    save_model(made, gradient_graph_path)
