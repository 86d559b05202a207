"""generate_artifacts: from a forward model the files that training needs. The names and arguments are those of
onnxruntime.training.artifacts. Needs the package onnx; the command `nacre artifacts` and nacre_train.h do not."""
from __future__ import annotations

import contextlib
import enum
import os
from typing import Any, Iterator, List, Optional, Tuple, Union

from nacre import GraphOptimizationLevel, InferenceSession, SessionOptions
from nacre._files import write
from nacre.training import onnxblock
from nacre.training._onnx import onnx

Path = Union[str, bytes, "os.PathLike[str]"]


class LossType(enum.Enum):
    """Losses that have a name; a Block may stand for any other."""

    MSELoss = 1
    CrossEntropyLoss = 2
    BCEWithLogitsLoss = 3
    L1Loss = 4


class OptimType(enum.Enum):
    """Optimizers that have a name; a Block may stand for any other."""

    AdamW = 1
    SGD = 2


#: ModelProtos stop here; larger models are given by their path, with data in other files.
USE_PATH_THRESHOLD = 2147483648


def _loss_block(loss: Any) -> onnxblock.Block:
    if loss is None:
        return onnxblock.blocks.PassThrough()
    if isinstance(loss, LossType):
        return getattr(onnxblock.loss, loss.name)()
    if isinstance(loss, onnxblock.Block):
        return loss
    raise RuntimeError(f"Unknown loss provided {type(loss)}. Expected loss to be either one of "
                       "nacre.training.artifacts.LossType or nacre.training.onnxblock.Block.")


def _optimizer_block(optimizer: Any) -> Optional[onnxblock.Block]:
    if optimizer is None or isinstance(optimizer, onnxblock.Block):
        return optimizer
    if isinstance(optimizer, OptimType):
        return getattr(onnxblock.optim, optimizer.name)()
    raise TypeError(f"Unknown optimizer provided {type(optimizer)}. Expected optimizer to be either one of "
                    "nacre.training.artifacts.OptimType or nacre.training.onnxblock.Block.")


class _Training(onnxblock.TrainingBlock):
    """The loss behind the model's outputs, and further outputs."""

    def __init__(self, loss: onnxblock.Block, more: List[str], standard: bool, compute: Optional[str]) -> None:
        super().__init__()
        self._loss, self._more, self.standard, self.compute = loss, more, standard, compute

    def build(self, *names: str) -> Any:
        found = self._loss(*names)
        outputs = [found] if isinstance(found, str) else list(found)
        if isinstance(self._loss, onnxblock.blocks.PassThrough):
            _check_scalar(self.base, outputs[0])
        return tuple(outputs + [name for name in self._more if name not in outputs])


def _check_scalar(model: Any, name: str) -> None:
    info = onnxblock._graph_utils.find_inferred(model, name)
    if info is None or not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
        return
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in info.type.tensor_type.shape.dim]
    if any(d != 1 for d in dims):
        raise ValueError(f"loss=None: the model's first output is then the loss and must be one number; '{name}' has "
                         f"the shape {dims}. Give a loss, or put it into the model.")


def _check_names(what: str, names: Any) -> List[str]:
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise RuntimeError(f"Unknown type provided for {what} {type(names)}. Expected {what} to be a list of strings.")
    return names


def _load(model: Any) -> Tuple[Any, Optional[str]]:
    """The proto, and the path where it came from if its data may lie in other files."""
    if isinstance(model, (str, bytes, os.PathLike)):
        path = os.fsdecode(model)
        return onnx.load(path, load_external_data=False), path
    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"model: expected an onnx.ModelProto or a path, got {type(model)}")
    if model.ByteSize() >= USE_PATH_THRESHOLD:
        raise RuntimeError("Models of 2 GB and more are given by their path, with their data in other files.")
    return model, None


@contextlib.contextmanager
def _library(path: Optional[Path]) -> Iterator[None]:
    if path is None:
        yield
        return
    with onnxblock.custom_op_library(os.fsdecode(path)):
        yield


def generate_artifacts(model: Any, requires_grad: Optional[List[str]] = None,
                       frozen_params: Optional[List[str]] = None, loss: Any = None, optimizer: Any = None,
                       artifact_directory: Optional[Path] = None, prefix: str = "", ort_format: bool = False,
                       custom_op_library: Optional[Path] = None, additional_output_names: Optional[List[str]] = None,
                       nominal_checkpoint: bool = False, loss_input_names: Optional[List[str]] = None, *,
                       standard: bool = False, checkpoint_format: str = "ort", compute: Optional[str] = None) -> None:
    """Writes <prefix>training_model.onnx, eval_model.onnx, checkpoint, and with an optimizer optimizer_model.onnx.

    model: an onnx.ModelProto, which is not changed, or a path.
    requires_grad, frozen_params: initializers that train, and that stay but are kept in the checkpoint; all others
        remain in the models.
    loss: a LossType or a Block, called with the names of the model's outputs or with loss_input_names; None: the first
        output is the loss.
    optimizer: an OptimType or a Block; None: no optimizer model.
    additional_output_names: values that are outputs of both models behind the loss.
    ort_format: each model is written in onnxruntime's own format too, beside the .onnx as .ort.
    nominal_checkpoint: writes <prefix>nominal_checkpoint too, which has names and types of parameters alone.
    standard: gradients in ONNX's own operators, so that onnxruntime's training API runs the models too. A training
        model of an older opset is raised to the one that its gradients need, 18 at most.
    checkpoint_format: "ort", onnxruntime's own, or "safetensors".
    compute: "f16" or "bf16": products of the training model take operands in half precision; losses, norms, sums and
        parameters stay in f32. "f16" comes with a loss scale (Optimizer.get_loss_scale)."""
    wanted, frozen = _check_names("requires_grad", requires_grad), _check_names("frozen_params", frozen_params)
    both = set(wanted) & set(frozen)
    if both:
        raise RuntimeError(f"A parameter cannot be frozen and require gradient computation at the same time {both}")
    more = _check_names("additional output names", additional_output_names)
    loss_inputs = _check_names("loss input names", loss_input_names)
    optimizer_block = _optimizer_block(optimizer)
    training = _Training(_loss_block(loss), more, standard, compute)
    for name in wanted:
        training.requires_grad(name)
    for name in frozen:
        training.requires_grad(name, False)
    proto, path = _load(model)
    folder = os.fsdecode(artifact_directory) if artifact_directory is not None else os.getcwd()
    opset = next((o.version for o in reversed(proto.opset_import) if o.domain in ("", "ai.onnx")), None)
    with _library(custom_op_library):
        with onnxblock.base(proto, path):
            training(*(loss_inputs or [o.name for o in proto.graph.output]))
        optimizer_model = _optimizer_model(optimizer_block, training, opset, proto.ir_version)
    start = os.path.join(folder, prefix)
    _write(training, optimizer_model, start, path, nominal_checkpoint, checkpoint_format)
    if ort_format:
        names = ["training_model", "eval_model", *(["optimizer_model"] if optimizer_model is not None else [])]
        _write_ort([start + name for name in names], custom_op_library)


def _optimizer_model(block: Optional[onnxblock.Block], training: _Training, opset: Optional[int],
                     ir_version: int) -> Any:
    """For whoever reads the forward model, so no newer than that."""
    if block is None:
        return None
    with onnxblock.empty_base(opset) as accessor:
        accessor.model.ir_version = max(ir_version, 7)
        block(training.parameters())
        return accessor.model


def _write(training: _Training, optimizer_model: Any, start: str, path: Optional[str], nominal: bool,
           checkpoint_format: str) -> None:
    """All is made before the first file is written; the folder is made where it is missing."""
    os.makedirs(os.path.dirname(start) or ".", exist_ok=True)
    source = os.path.dirname(os.path.abspath(path)) if path is not None else ""
    training_model, eval_model = training.to_model_proto()
    for name, proto in (("training_model.onnx", training_model), ("eval_model.onnx", eval_model),
                        ("optimizer_model.onnx", optimizer_model)):
        if proto is not None:
            write(start + name, proto.SerializeToString())
    onnxblock.save_checkpoint(training.parameters(), start + "checkpoint", folder=source, format=checkpoint_format)
    if nominal:
        onnxblock.save_checkpoint(training.parameters(), start + "nominal_checkpoint", nominal_checkpoint=True,
                                  folder=source)


def _write_ort(names: List[str], library: Optional[Path]) -> None:
    """A session without passes writes the model that it was made of, with every type."""
    for name in names:
        options = SessionOptions()
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = f"{name}.ort"
        if library is not None:
            options.register_custom_ops_library(os.fsdecode(library))
        InferenceSession(f"{name}.onnx", options)
