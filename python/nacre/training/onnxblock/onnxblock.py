"""ForwardBlock and TrainingBlock: blocks whose calls make whole models."""
from __future__ import annotations

import os
from typing import Any, List, Optional, Set, Tuple

from nacre import _core
from nacre._device import envs
from nacre.training._onnx import onnx
from nacre.training.onnxblock import _graph_utils, blocks
from nacre.training.onnxblock import model_accessor as accessor


def _copied(model: Any) -> Any:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


class ForwardBlock(blocks.Block):
    """A block that makes a model: what it gives are the model's outputs."""

    _model: Any = None

    def __init__(self) -> None:
        pass

    def to_model_proto(self) -> Any:
        """The model that the last call made."""
        if self._model is None:
            raise RuntimeError("Please build the forward model first before trying to retrieve it.")
        return self._model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = super().__call__(*args, **kwargs)
        _graph_utils.infer_shapes(self.base)
        _graph_utils.register_graph_outputs(self.base, output)
        self._model = _copied(self.base)
        return output


class TrainingBlock(blocks.Block):
    """A block that makes a training and an eval model: what it gives are their outputs, the loss first."""

    _training_model: Any = None
    _eval_model: Any = None
    _parameters: Optional[Tuple[List[Any], List[Any]]] = None
    #: Gradients in ONNX's own ops, for other runtimes.
    standard = False
    #: "f16" or "bf16": products of the training model take operands in half precision.
    compute: Optional[str] = None

    def __init__(self) -> None:
        pass

    def _named(self, which: str) -> Set[str]:
        """Names that are to have gradients, or to stay as they are; subclasses need not call __init__."""
        return self.__dict__.setdefault(which, set())

    def requires_grad(self, argument_name: str, value: bool = True) -> None:
        """The initializer or input has a gradient; with value False the initializer is a frozen parameter."""
        into, out_of = ("_requires_grad", "_frozen") if value else ("_frozen", "_requires_grad")
        self._named(into).add(argument_name)
        self._named(out_of).discard(argument_name)

    def parameters(self) -> Tuple[List[Any], List[Any]]:
        """Trainable and frozen parameters, each a list of TensorProto."""
        if self._parameters is None:
            raise RuntimeError("Please build the training model first before trying to retrieve the parameters.")
        return self._parameters

    def to_model_proto(self) -> Tuple[Any, Any]:
        """The training and the eval model that the last call made."""
        if self._training_model is None:
            raise RuntimeError("Please build the training and eval models first before trying to retrieve them.")
        return self._training_model, self._eval_model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = super().__call__(*args, **kwargs)
        _graph_utils.infer_shapes(self.base)
        _graph_utils.register_graph_outputs(self.base, output)
        self._parameters = self._find_parameters()
        self._training_model, self._eval_model = self._differentiated()
        return output

    def _find_parameters(self) -> Tuple[List[Any], List[Any]]:
        wanted, frozen = self._named("_requires_grad"), self._named("_frozen")
        there = {t.name for t in self.base.graph.initializer}
        inputs = {i.name for i in self.base.graph.input}
        for name in sorted(wanted - there - inputs):
            raise ValueError(f"requires_grad: the model has no initializer or input '{name}'")
        for name in sorted(frozen - there):
            raise ValueError(f"frozen parameters: the model has no initializer '{name}'")

        def copies(names: Set[str]) -> List[Any]:
            tensors = []
            for tensor in self.base.graph.initializer:
                if tensor.name in names:
                    tensors.append(onnx.TensorProto())
                    tensors[-1].CopyFrom(tensor)
            return tensors

        return copies(wanted), copies(frozen)

    def _differentiated(self) -> Tuple[Any, Any]:
        """The library makes both models: parameters become inputs, gradients are added to their buffers."""
        wanted, frozen = self._named("_requires_grad"), self._named("_frozen")
        initializers = [t.name for t in self.base.graph.initializer]
        moved = [n for n in initializers if n in wanted or n in frozen] if wanted or frozen else initializers
        order = {n: i for i, n in enumerate([i.name for i in self.base.graph.input] + initializers)}
        current = accessor.current()
        folder = os.path.dirname(os.path.abspath(current.path)) if current.has_path else ""
        library = accessor._GLOBAL_CUSTOM_OP_LIBRARY
        training, evaluation = _core.training_models(
            envs.get(libraries=[library] if library else []), self.base.SerializeToString(), folder, moved,
            sorted(wanted, key=order.__getitem__), bool(self.standard), self.compute)
        if max(len(training), len(evaluation)) >= 1 << 31:
            raise ValueError("the constants that stay in the models take 2 GB or more: name them as frozen parameters, "
                             "so that they go into the checkpoint")
        return onnx.ModelProto.FromString(training), onnx.ModelProto.FromString(evaluation)
