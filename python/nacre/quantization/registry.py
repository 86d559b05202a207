"""Which operators are quantized, in each way: a table of rules by operator."""
from __future__ import annotations

from typing import Any

from nacre.quantization.operator_rules import CommonOpsRegistry, IntegerOpsRegistry, QLinearOpsRegistry
from nacre.quantization.qdq_rules import QDQRegistry, every_tensor
from nacre.quantization.quant_utils import QuantizationMode


def CreateDefaultOpQuantizer(onnx_quantizer: Any, node: Any) -> Any:  # noqa: N802
    """The rule of a node that stays as it is."""
    return lambda quantizer, n: False


def CreateOpQuantizer(onnx_quantizer: Any, node: Any) -> Any:  # noqa: N802
    """The rule for a node, in a quantizer's own way."""
    table = IntegerOpsRegistry if onnx_quantizer.mode == QuantizationMode.IntegerOps else QLinearOpsRegistry
    return table.get(node.op_type) or CreateDefaultOpQuantizer(onnx_quantizer, node)


def CreateQDQQuantizer(onnx_quantizer: Any, node: Any) -> Any:  # noqa: N802
    return QDQRegistry.get(node.op_type, every_tensor)
