"""Losses as blocks: called with the name of what the model says, they add an input for what it should say."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from nacre.training._onnx import onnx
from nacre.training.onnxblock import _graph_utils, blocks


class _Reduced(blocks.Block):
    """A loss of each element, and how they become one number."""

    def __init__(self, reduction: str = "mean") -> None:
        if reduction not in ("mean", "sum", "none"):
            raise RuntimeError(f"Reduction {reduction} not supported.")
        self._reduction = reduction

    def _target(self, like: str, name: str) -> str:
        if not _graph_utils.node_arg_exists(self.base, name):
            blocks.InputLike(like)(name)
        return name

    def _constant(self, like: str, token: str, values: Any) -> str:
        dtype = _graph_utils.dtype_of(self.base, like)
        return _graph_utils.add_initializer(self.base, token, np.asarray(values, dtype))

    def _reduce(self, name: str) -> str:
        if self._reduction == "none":
            return name
        reduce = blocks.ReduceMean if self._reduction == "mean" else blocks.ReduceSum
        return str(reduce(keepdims=False)(name))


class MSELoss(_Reduced):
    """(x - target) squared."""

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        target = self._target(loss_input_name, target_name)
        return self._reduce(blocks.Pow(2.0)(blocks.Sub()(loss_input_name, target)))


class L1Loss(_Reduced):
    """|x - target|."""

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        target = self._target(loss_input_name, target_name)
        return self._reduce(blocks.Abs()(blocks.Sub()(loss_input_name, target)))


class BCEWithLogitsLoss(_Reduced):
    """Binary cross entropy of sigmoid(x), from x itself, so that large x of either sign give finite numbers:
    pos_weight * t * softplus(-x) + (1 - t) * softplus(x), times weight."""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self._weight, self._pos_weight = weight, pos_weight

    def _times(self, name: str, weight: Any, like: str, token: str) -> str:
        return name if weight is None else str(blocks.Mul()(name, self._constant(like, token, weight)))

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        target = self._target(loss_input_name, target_name)
        softplus = blocks._UnaryOp("Softplus")
        one = self._constant(loss_input_name, "bceloss.one", [1])
        missed = blocks.Mul()(target, softplus(blocks.Neg()(loss_input_name)))
        missed = self._times(missed, self._pos_weight, loss_input_name, "bceloss.pos_weight")
        wrong = blocks.Mul()(blocks.Sub()(one, target), softplus(loss_input_name))
        loss = self._times(blocks.Add()(missed, wrong), self._weight, loss_input_name, "bceloss.weight")
        return self._reduce(loss)


class CrossEntropyLoss(_Reduced):
    """Softmax over the classes, axis 1, and the negative logarithm of the one that the label names. weight: a number
    for each class. Labels are an input of int64, of the scores' shape without the classes; those that are ignore_index
    count for nothing."""

    def __init__(self, weight: Any = None, reduction: str = "mean", ignore_index: Optional[int] = None) -> None:
        super().__init__(reduction)
        self._weight, self._ignore_index = weight, ignore_index

    def _labels(self, scores: str, name: str) -> str:
        if _graph_utils.node_arg_exists(self.base, name):
            return name
        added = self.base.graph.input.add()
        added.CopyFrom(_graph_utils.get_input_like(self.base, scores))
        added.name = name
        tensor = added.type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) < 2:
            raise ValueError(f"CrossEntropyLoss: {scores} has {len(tensor.shape.dim)} dims, expected at least 2: "
                             "samples, classes")
        tensor.elem_type = onnx.TensorProto.INT64
        if tensor.HasField("shape"):
            del tensor.shape.dim[1]
        return name

    def build(self, scores_input_name: str, labels_name: str = "labels") -> str:
        inputs = [scores_input_name, self._labels(scores_input_name, labels_name)]
        if self._weight is not None:
            inputs.append(self._constant(scores_input_name, "celoss.weight", self._weight))
        outputs = [_graph_utils.generate_graph_name("loss"), _graph_utils.generate_graph_name("log_prob")]
        attributes = {} if self._ignore_index is None else {"ignore_index": int(self._ignore_index)}
        _graph_utils.add_node(self.base, "SoftmaxCrossEntropyLoss", inputs, outputs, reduction=self._reduction,
                              **attributes)
        return outputs[0]
