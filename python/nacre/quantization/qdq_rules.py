"""Which tensors of a node get a QuantizeLinear and DequantizeLinear pair: one rule an operator. A rule marks tensors in
the quantizer; pairs are made when all nodes were seen."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import numpy as np
from onnx import NodeProto, helper

Rule = Callable[[Any, NodeProto], None]


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def every_tensor(q: Any, node: NodeProto) -> None:
    """An operator without a rule of its own: all it reads and writes."""
    for name in [*node.input, *outputs_of(q, node)]:
        if name:
            q.quantize_activation_tensor(name)


def outputs_of(q: Any, node: NodeProto) -> Any:
    return () if node.op_type in q.excluded_outputs() else node.output


def weight(q: Any, node: NodeProto, index: int, axis: Optional[int]) -> None:
    """A weight along its channels if that was asked for; what is computed is an activation."""
    name = node.input[index]
    if not q.is_input_a_initializer(name):
        q.quantize_activation_tensor(name)
        return
    by_channel, at = q.is_tensor_per_channel(name, axis, node.op_type) if axis is not None else (False, None)
    if by_channel:
        q.quantize_weight_tensor_per_channel(name, at)
    else:
        q.quantize_weight_tensor(name)


def bias(q: Any, node: NodeProto, index: int, beta: float = 1.0) -> None:
    if len(node.input) > index and node.input[index] and q.is_input_a_initializer(node.input[index]):
        q.quantize_bias_tensor(node.name, node.input[index], node.input[0], node.input[1], beta)


def conv(q: Any, node: NodeProto) -> None:
    q.quantize_activation_tensor(node.input[0])
    weight(q, node, 1, 1 if node.op_type == "ConvTranspose" else 0)
    bias(q, node, 2)
    for name in outputs_of(q, node):
        q.quantize_activation_tensor(name)


def gemm(q: Any, node: NodeProto) -> None:
    q.quantize_activation_tensor(node.input[0])
    weight(q, node, 1, 0 if attribute(node, "transB", 0) else 1)
    if attribute(node, "alpha", 1.0) == 1.0:
        bias(q, node, 2, attribute(node, "beta", 1.0))
    for name in outputs_of(q, node):
        q.quantize_activation_tensor(name)


def matmul(q: Any, node: NodeProto) -> None:
    for i in (0, 1):
        rank = len(q.types[node.input[i]].tensor_type.shape.dim) if node.input[i] in q.types else 0
        weight(q, node, i, rank - 1 if i == 1 and rank > 1 else None)
    for name in outputs_of(q, node):
        q.quantize_activation_tensor(name)


def normalization(q: Any, node: NodeProto) -> None:
    """A scale of one dim has no channels to tell apart: they are the same numbers."""
    q.quantize_activation_tensor(node.input[0])
    weight(q, node, 1, None)
    bias(q, node, 2)
    for name in list(outputs_of(q, node))[:1]:
        q.quantize_activation_tensor(name)


def passes_on(q: Any, node: NodeProto) -> None:
    """What comes out are numbers that went in: both have the same codes. Taken only where the input has codes."""
    x = node.input[0]
    if q.force_quantize_no_input_check:
        q.quantize_activation_tensor(x)
    elif not q.is_tensor_quantized(x):
        return
    for name in outputs_of(q, node):
        q.quantize_output_same_as_input(name, x, node.name)


def split(q: Any, node: NodeProto) -> None:
    """Parts of an input that has codes, or gets them now."""
    q.quantize_activation_tensor(node.input[0])
    for name in outputs_of(q, node):
        q.quantize_output_same_as_input(name, node.input[0], node.name)


def max_pool(q: Any, node: NodeProto) -> None:
    if q.opset_version >= 12:  # before, it takes floats alone
        passes_on(q, node)


def resize(q: Any, node: NodeProto) -> None:
    if q.opset_version >= 11:
        passes_on(q, node)


def gather(q: Any, node: NodeProto) -> None:
    x = node.input[0]
    if not (q.is_input_a_initializer(x) or q.is_tensor_quantized(x) or q.force_quantize_no_input_check):
        return
    q.quantize_activation_tensor(x)
    for name in outputs_of(q, node):
        q.quantize_output_same_as_input(name, x, node.name)


def pad(q: Any, node: NodeProto) -> None:
    """The result has the codes of what it surrounds where all numbers put around are among them: 0, or its own."""
    for name in node.input:
        q.quantize_activation_tensor(name)
    for name in outputs_of(q, node):
        if _pads_with_its_own(q, node):
            q.quantize_output_same_as_input(name, node.input[0], node.name)
        else:
            q.quantize_activation_tensor(name)


def _pads_with_its_own(q: Any, node: NodeProto) -> bool:
    number = node.input[2] if len(node.input) > 2 else ""
    if attribute(node, "mode", b"constant") != b"constant":
        return True
    if not number:
        return attribute(node, "value", 0.0) == 0
    return number in q.weights and not q.array(number).any()


def where(q: Any, node: NodeProto) -> None:
    if not q.force_quantize_no_input_check and not all(q.is_tensor_quantized(n) for n in node.input[1:3]):
        return
    for name in [*node.input[1:3], *outputs_of(q, node)]:
        q.quantize_activation_tensor(name)


def activation(q: Any, node: NodeProto) -> None:
    """A Relu or a Clip behind a product is what the codes' range does already."""
    x, y = node.input[0], node.output[0]
    if not q.is_tensor_quantized(x):
        return
    keeps = q.is_activation_symmetric or q.extra_options.get("QDQKeepRemovableActivations") or not around_zero(q, node)
    if not keeps and q.try_replacing_upstream_output(x, y):
        q.remove_node(node)
        return
    q.quantize_activation_tensor(x)
    for name in outputs_of(q, node):
        q.quantize_activation_tensor(name)


def around_zero(q: Any, node: NodeProto) -> bool:
    """Whether 0 lies inside of a Clip's bounds, as it does inside of every range of codes."""
    if node.op_type != "Clip":
        return True
    low, high = attribute(node, "min", -np.inf), attribute(node, "max", np.inf)
    names = [*node.input[1:3], "", ""]
    if any(n and n not in q.weights for n in names[:2]):
        return False
    low = q.array(names[0]).min(initial=low) if names[0] else low
    high = q.array(names[1]).max(initial=-np.inf) if names[1] else high
    return low <= 0 <= high


QDQRegistry: Dict[str, Rule] = {
    "Conv": conv, "ConvTranspose": conv, "Gemm": gemm, "MatMul": matmul,
    "Clip": activation, "Relu": activation,
    "Reshape": passes_on, "Transpose": passes_on, "Squeeze": passes_on, "Unsqueeze": passes_on, "Flatten": passes_on,
    "Slice": passes_on, "AveragePool": passes_on, "TopK": passes_on, "Split": split,
    "Resize": resize, "MaxPool": max_pool, "Pad": pad, "Gather": gather, "GatherElements": gather, "Where": where,
    "InstanceNormalization": normalization, "LayerNormalization": normalization, "BatchNormalization": normalization,
    "CumSum": every_tensor,
}
