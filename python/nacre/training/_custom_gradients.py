"""register_gradient: gradients of one's own for operators, in onnxruntime's words.

A definition is a list of nodes, each (op, inputs, outputs) or (op, inputs, outputs, attributes). op: a name, or (name,
domain). Inputs may be I(i), O(i) and GO(i), the operator's inputs, its outputs and the gradients that arrive at these;
an output GI(i) is the gradient of its input i; other names are the definition's own. attributes: {name: {"value": v,
"dtype": t, "is_tensor": whether it is a tensor}}; a dtype may be IElemType(i) or OElemType(i), the type of an input or
output of the operator."""
from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from nacre._device import envs
from nacre.training._onnx import onnx

Definition = Sequence[Tuple[Any, ...]]
_TYPES = {"int": np.int64, "int64": np.int64, "int32": np.int32, "float": np.float32, "float32": np.float32,
          "double": np.float64, "float64": np.float64, "float16": np.float16, "bool": np.bool_, "uint8": np.uint8,
          "int8": np.int8}
_OPERAND = re.compile(r"(I|O|GO)\(\d+\)")
_ELEMENT = re.compile(r"([IO])ElemType(\(\d+\))")


def _attribute(name: str, given: Dict[str, Any]) -> Any:
    value, dtype = given["value"], given["dtype"]
    if dtype != "string" and dtype not in _TYPES:
        raise ValueError(f"attribute {name}: dtype {dtype!r} is none of string, {', '.join(_TYPES)}, IElemType(i), "
                         "OElemType(i)")
    if given.get("is_tensor"):
        return onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(np.array(value, _TYPES[dtype])))
    if dtype == "bool" or dtype.startswith(("int", "uint")):
        value = [int(v) for v in value] if isinstance(value, (list, tuple)) else int(value)
    elif dtype != "string":
        value = [float(v) for v in value] if isinstance(value, (list, tuple)) else float(value)
    return onnx.helper.make_attribute(name, value)


def _like(attributes: Dict[str, Dict[str, Any]]) -> Optional[str]:
    """The operand whose type an attribute has."""
    for given in attributes.values():
        found = _ELEMENT.fullmatch(str(given["dtype"]))
        if found:
            return found[1] + found[2]
    return None


def _nodes(definition: Tuple[Any, ...]) -> List[Any]:
    """Usually one. An attribute of an operand's type is written in float, and CastLike follows."""
    if len(definition) not in (3, 4):
        raise ValueError(f"a node is (op, inputs, outputs) or (op, inputs, outputs, attributes), got {definition!r}")
    op, inputs, outputs = definition[:3]
    op, domain = (op, "") if isinstance(op, str) else op[:2]
    attributes: Dict[str, Dict[str, Any]] = dict(definition[3]) if len(definition) == 4 else {}
    like = _like(attributes)
    if like is None:
        node = onnx.helper.make_node(op, list(inputs), list(outputs), domain=domain)
        node.attribute.extend(_attribute(n, a) for n, a in attributes.items())
        return [node]
    if (op, domain) == ("Cast", ""):
        return [onnx.helper.make_node("CastLike", [inputs[0], like], list(outputs))]
    if len(outputs) != 1:
        raise ValueError(f"{op}: an attribute of the type of {like} is taken for operators of one output")
    plain = [{**a, "dtype": "float"} if _ELEMENT.fullmatch(str(a["dtype"])) else a for a in attributes.values()]
    made = f"{outputs[0]}.as_float"
    node = onnx.helper.make_node(op, list(inputs), [made], domain=domain)
    node.attribute.extend(_attribute(n, a) for n, a in zip(attributes, plain))
    return [node, onnx.helper.make_node("CastLike", [made, like], list(outputs))]


def _model(definition: Definition) -> bytes:
    """Without opsets: those of the model that is differentiated count."""
    nodes = [n for d in definition for n in _nodes(d)]
    names = {n: None for node in nodes for n in node.input if _OPERAND.fullmatch(n)}
    ends = {n: None for node in nodes for n in node.output if re.fullmatch(r"GI\(\d+\)", n)}
    if not ends:
        raise ValueError("the definition of a gradient makes no GI(i)")
    inputs, outputs = ([onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in some]
                       for some in (names, ends))  # any type: the operator's count
    graph = onnx.helper.make_graph(nodes, "gradient", inputs, outputs)
    return onnx.ModelProto(ir_version=10, graph=graph).SerializeToString()


def _change(domain: str, name: str, attributes: Tuple[str, ...], model: Optional[bytes] = None, stops: int = 0) -> None:
    if attributes:
        raise ValueError(f"{domain}::{name}: gradients by attributes ({', '.join(attributes)}) are for nodes that call "
                         "PyTorch's operators, which are not run here")
    old_model, old_stops = envs.rules.get((domain, name), (None, 0))
    envs.add_rule(domain, name, model or old_model, stops or old_stops)


def register_gradient(domain: str, name: str, *attributes: str) -> Callable[[Callable[[], Definition]],
                                                                              Callable[[], Definition]]:
    """Decorates a function that gives the definition. It counts for models that are loaded later."""
    def wrapper(fn: Callable[[], Definition]) -> Callable[[], Definition]:
        _change(domain, name, attributes, model=_model(fn()))
        return fn
    return wrapper


def register_custom_stop_gradient_edges(edges: Iterable[int], domain: str, name: str, *attributes: str) -> None:
    """No gradient passes to these inputs of the operator."""
    _change(domain, name, attributes, stops=sum(1 << i for i in set(edges)))
