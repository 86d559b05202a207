"""How a node is written with operators that take codes: one rule an operator, for static quantization (QLinearConv and
its kind) and for dynamic (MatMulInteger and its kind). A rule emits nodes and returns True, or leaves the node as it
is.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
from onnx import NodeProto, TensorProto, helper

from nacre.quantization.qdq_rules import around_zero, attribute
from nacre.quantization.quant_utils import QuantizedValue, ms_domain

Rule = Callable[[Any, NodeProto], bool]


def _attributes(node: NodeProto) -> Dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _three(v: QuantizedValue) -> List[str]:
    return [v.q_name, v.scale_name, v.zp_name]


def _emit(q: Any, node: NodeProto, op: str, inputs: List[str], output: str, domain: str = "",
          **attributes: Any) -> bool:
    q.emit(helper.make_node(op, inputs, [output], node.name + "_quant", domain=domain, **attributes))
    return True


def _weight(q: Any, node: NodeProto, index: int, axis: Optional[int]) -> Optional[QuantizedValue]:
    name = node.input[index]
    if name not in q.weights:
        return q.codes_of(name)
    return q.weight(name, axis if q.per_channel else None)


# ---- static: products ----

def qlinear_conv(q: Any, node: NodeProto) -> bool:
    if not q.is_valid_quantize_weight(node.input[1]):
        return False
    x = q.codes_of(node.input[0])
    y = q.result(node.output[0]) if x and q.has_bias_codes(node, 2) else None
    if y is None:
        return False
    w = q.weight(node.input[1], 0, TensorProto.INT8) if q.per_channel else q.weight(node.input[1], None)
    bias = [q.bias(node.input[2], x, w, 1.0)] if len(node.input) > 2 and node.input[2] else []
    return _emit(q, node, "QLinearConv", [*_three(x), *_three(w), y.scale_name, y.zp_name, *bias], y.q_name,
                 **_attributes(node))


def qgemm(q: Any, node: NodeProto) -> bool:
    told = _attributes(node)
    beta = told.pop("beta", 1.0)
    has_bias = len(node.input) > 2 and node.input[2]
    if not q.is_valid_quantize_weight(node.input[1]) or not q.has_bias_codes(node, 2) or (has_bias and beta != 1.0):
        return False
    x = q.codes_of(node.input[0])
    y = q.result(node.output[0]) if x else None
    if y is None:
        return False
    w = _weight(q, node, 1, 0 if told.get("transB", 0) else 1)
    bias = q.bias(node.input[2], x, w, 1.0) if has_bias else ""
    return _emit(q, node, "QGemm", [*_three(x), *_three(w), bias, y.scale_name, y.zp_name], y.q_name, ms_domain, **told)


def qlinear_matmul(q: Any, node: NodeProto) -> bool:
    if node.input[1] not in q.weights and q.extra_options.get("MatMulConstBOnly"):
        return False
    a = q.codes_of(node.input[0])
    rank = len(q.weights[node.input[1]].dims) if node.input[1] in q.weights else 0
    b = _weight(q, node, 1, rank - 1 if rank == 2 else None)
    y = q.result(node.output[0]) if a and b else None
    if y is None:
        return False
    return _emit(q, node, "QLinearMatMul", [*_three(a), *_three(b), y.scale_name, y.zp_name], y.q_name)


# ---- static: element by element, pools, joins ----

def _one_input(op: str, **more: Any) -> Rule:
    def rule(q: Any, node: NodeProto) -> bool:
        x = q.codes_of(node.input[0])
        y = q.result(node.output[0]) if x else None
        if y is None:
            return False
        return _emit(q, node, op, [*_three(x), y.scale_name, y.zp_name], y.q_name, ms_domain,
                     **{**_attributes(node), **more})
    return rule


def qlinear_softmax(q: Any, node: NodeProto) -> bool:
    """What comes out lies between 0 and 1, of which 256 codes reach all but the last."""
    x = q.codes_of(node.input[0])
    y = q.result(node.output[0], q.from_zero_to_one()) if x else None
    if y is None:
        return False
    axis = attribute(node, "axis", -1 if q.opset_version >= 13 else 1)
    return _emit(q, node, "QLinearSoftmax", [*_three(x), y.scale_name, y.zp_name], y.q_name, ms_domain, axis=axis,
                 opset=q.opset_version)


def qlinear_binary(q: Any, node: NodeProto) -> bool:
    a, b = q.codes_of(node.input[0]), q.codes_of(node.input[1])
    y = q.result(node.output[0]) if a and b else None
    if y is None:
        return False
    return _emit(q, node, "QLinear" + node.op_type, [*_three(a), *_three(b), y.scale_name, y.zp_name], y.q_name,
                 ms_domain)


def qlinear_concat(q: Any, node: NodeProto) -> bool:
    parts = [q.codes_of(n) for n in node.input]
    y = q.result(node.output[0]) if all(parts) else None
    if y is None:
        return False
    return _emit(q, node, "QLinearConcat", [y.scale_name, y.zp_name, *(n for p in parts for n in _three(p))], y.q_name,
                 ms_domain, **_attributes(node))


def qlinear_where(q: Any, node: NodeProto) -> bool:
    if not q.force_quantize_no_input_check and not all(q.has_codes(n) for n in node.input[1:3]):
        return False
    a, b = q.codes_of(node.input[1]), q.codes_of(node.input[2])
    y = q.result(node.output[0]) if a and b else None
    if y is None:
        return False
    return _emit(q, node, "QLinearWhere", [node.input[0], *_three(a), *_three(b), y.scale_name, y.zp_name], y.q_name,
                 ms_domain)


# ---- static: what moves codes ----

def moves(q: Any, node: NodeProto) -> bool:
    """The operator itself takes codes: what it gives has those of its input. Where that has none, nothing is won."""
    return (q.force_quantize_no_input_check or q.has_codes(node.input[0])) and split(q, node)


def split(q: Any, node: NodeProto) -> bool:
    x = q.codes_of(node.input[0])
    if x is None:
        return False
    outputs = [q.share(name, x) if name else "" for name in node.output]
    q.emit(helper.make_node(node.op_type, [x.q_name, *node.input[1:]], outputs, node.name, **_attributes(node)))
    return True


def max_pool(q: Any, node: NodeProto) -> bool:
    return q.opset_version >= 12 and len(node.output) == 1 and moves(q, node)


def resize(q: Any, node: NodeProto) -> bool:
    return q.opset_version >= 11 and moves(q, node)


def arg_max(q: Any, node: NodeProto) -> bool:
    """Codes are in the order of their numbers."""
    if not q.has_codes(node.input[0]):
        return False
    x = q.codes_of(node.input[0])
    q.emit(helper.make_node("ArgMax", [x.q_name], list(node.output), node.name, **_attributes(node)))
    return True


def pad(q: Any, node: NodeProto) -> bool:
    """A constant around codes is a code; without one it is the code of 0."""
    if q.opset_version < 11 or (not q.force_quantize_no_input_check and not q.has_codes(node.input[0])):
        return False
    x, inputs = q.codes_of(node.input[0]), list(node.input)
    if x is None:
        return False
    if attribute(node, "mode", b"constant") == b"constant":
        given = len(inputs) > 2 and inputs[2]
        if given and given not in q.weights:
            inputs[2] = q.quantize_with(given, x)
        else:
            inputs[2:3] = [q.code_of_constant(q.array(given) if given else None, x, node)]
    q.emit(helper.make_node("Pad", [x.q_name, *inputs[1:]], [q.share(node.output[0], x)], node.name,
                            **_attributes(node)))
    return True


def activation(q: Any, node: NodeProto) -> bool:
    """A Relu or a Clip behind codes is what their range does already."""
    if q.is_activation_symmetric or not q.has_codes(node.input[0]) or not around_zero(q, node) or \
            not q.shares_range(node.input[0], node.output[0]):
        return False
    q.alias(node.output[0], node.input[0])
    return True


# ---- both: lookups ----

def gather(q: Any, node: NodeProto) -> bool:
    name = node.input[0]
    if not q.is_valid_quantize_weight(name) and not q.has_codes(name):
        return False
    x = q.codes_of(name)
    q.emit(helper.make_node("Gather", [x.q_name, node.input[1]], [q.share(node.output[0], x)], node.name,
                            **_attributes(node)))
    return True


def embed_layer_norm(q: Any, node: NodeProto) -> bool:
    """Its tables and the two vectors behind them are codes; ids, mask and result are as they were."""
    tables = list(node.input[2:7])
    if len(node.output) > 2 or not all(t in q.weights for t in tables if t) or not all(tables[i] for i in (0, 1, 3, 4)):
        return False
    codes = [q.codes_of(t) if t else None for t in tables]
    mask = node.input[7] if len(node.input) > 7 else ""
    inputs = [*node.input[:2], *(c.q_name if c else "" for c in codes), mask,
              *(c.scale_name if c else "" for c in codes), *(c.zp_name if c else "" for c in codes)]
    q.emit(helper.make_node("QEmbedLayerNormalization", inputs, list(node.output), node.name + "_quant",
                            domain=ms_domain, **_attributes(node)))
    return True


# ---- dynamic ----

def _scaled(q: Any, node: NodeProto, sums: str, a: QuantizedValue, b: QuantizedValue, y: str) -> None:
    """Sums of codes back to numbers: times both scales."""
    name = node.name + "_quant"
    q.emit(helper.make_node("Cast", [sums], [sums + "_cast_output"], sums + "_cast", to=q.number_type(node.output[0])))
    scales = name + "_scales_mul"
    q.emit(helper.make_node("Mul", [a.scale_name, b.scale_name], [scales + ":0"], scales))
    q.emit(helper.make_node("Mul", [sums + "_cast_output", scales + ":0"], [y], name + "_output_scale_mul"))


def matmul_integer(q: Any, node: NodeProto) -> bool:
    if node.input[1] not in q.weights and q.extra_options.get("MatMulConstBOnly", True):
        return False
    if node.input[1] in q.weights and not q.is_valid_quantize_weight(node.input[1]):
        return False
    rank = len(q.weights[node.input[1]].dims) if node.input[1] in q.weights else 0
    a, b = q.codes_of(node.input[0]), _weight(q, node, 1, rank - 1 if rank == 2 else None)
    sums = node.output[0] + "_output_quantized"
    _emit(q, node, "MatMulInteger", [a.q_name, b.q_name, a.zp_name, b.zp_name], sums)
    _scaled(q, node, sums, a, b, node.output[0])
    return True


def conv_integer(q: Any, node: NodeProto) -> bool:
    if not q.is_valid_quantize_weight(node.input[1]):
        return False
    x, w = q.codes_of(node.input[0]), q.weight(node.input[1], None)
    y, sums = node.output[0], node.output[0] + "_output_quantized"
    has_bias = len(node.input) > 2 and node.input[2]
    _emit(q, node, "ConvInteger", [x.q_name, w.q_name, x.zp_name, w.zp_name], sums, **_attributes(node))
    _scaled(q, node, sums, x, w, y + "_scaled" if has_bias else y)
    if has_bias:
        dims = [1, -1] + [1] * (len(q.weights[node.input[1]].dims) - 2)
        shape = q.constant(y + "_bias_shape", np.array(dims, np.int64))
        q.emit(helper.make_node("Reshape", [node.input[2], shape], [y + "_bias"], y + "_bias_reshape"))
        q.emit(helper.make_node("Add", [y + "_scaled", y + "_bias"], [y], y + "_bias_add"))
    return True


def attention(q: Any, node: NodeProto) -> bool:
    if not q.is_valid_quantize_weight(node.input[1]):
        return False
    x, w = q.codes_of(node.input[0]), q.weight(node.input[1], 1 if q.per_channel else None)
    rest = [*node.input, *[""] * 5]
    inputs = [x.q_name, w.q_name, rest[2], x.scale_name, w.scale_name, rest[3], x.zp_name, w.zp_name, rest[4]]
    while not inputs[-1]:
        inputs.pop()
    q.emit(helper.make_node("QAttention", inputs, list(node.output), node.name + "_quant", domain=ms_domain,
                            **{k: v for k, v in _attributes(node).items() if k in (
                                "num_heads", "unidirectional", "past_present_share_buffer", "mask_filter_value",
                                "scale", "do_rotary")}))
    return True


def lstm(q: Any, node: NodeProto) -> bool:
    """Its weights, turned so that the inputs of a gate lie together."""
    if not all(q.is_valid_quantize_weight(n) and len(q.weights[n].dims) == 3 for n in node.input[1:3]):
        return False
    w, r = (q.lstm_weight(n) for n in node.input[1:3])
    rest = [*node.input[3:8], *[""] * (5 - len(node.input[3:8]))]
    told = _attributes(node)
    told.pop("layout", None)
    if attribute(node, "layout", 0):
        return False
    q.emit(helper.make_node("DynamicQuantizeLSTM", [node.input[0], w.q_name, r.q_name, *rest, w.scale_name, w.zp_name,
                                                    r.scale_name, r.zp_name], list(node.output), node.name + "_quant",
                            domain=ms_domain, **told))
    return True


CommonOpsRegistry: Dict[str, Rule] = {"Gather": gather, "Transpose": moves, "EmbedLayerNormalization": embed_layer_norm}

IntegerOpsRegistry: Dict[str, Rule] = {"Conv": conv_integer, "MatMul": matmul_integer, "Attention": attention,
                                       "LSTM": lstm, **CommonOpsRegistry}

QLinearOpsRegistry: Dict[str, Rule] = {
    "ArgMax": arg_max, "Conv": qlinear_conv, "Gemm": qgemm, "MatMul": qlinear_matmul,
    "Add": qlinear_binary, "Mul": qlinear_binary, "Relu": activation, "Clip": activation,
    "LeakyRelu": _one_input("QLinearLeakyRelu"), "Sigmoid": _one_input("QLinearSigmoid"),
    "MaxPool": max_pool, "GlobalAveragePool": _one_input("QLinearGlobalAveragePool", channels_last=0),
    "Split": split, "Pad": pad, "Reshape": moves, "Squeeze": moves, "Unsqueeze": moves, "Flatten": moves,
    "Resize": resize, "AveragePool": _one_input("QLinearAveragePool"), "Concat": qlinear_concat,
    "Softmax": qlinear_softmax, "Where": qlinear_where, **CommonOpsRegistry}

