"""SymbolicShapeInference: types and shapes with symbols for every value of a model, by this library's own inference.

    python -m nacre.tools.symbolic_shape_infer --input MODEL --output MODEL
"""
from __future__ import annotations

import argparse
import math
import numbers
from typing import Any, List, Optional

import numpy as np
import onnx

from nacre import _inference
from nacre._files import save_model


# ---- what scripts that work with expressions of sympy share ----

def is_literal(dim: Any) -> bool:
    """Whether it is a number, and no expression over symbols."""
    return isinstance(dim, numbers.Integral) or bool(getattr(dim, "is_number", False))


def get_shape_from_sympy_shape(sympy_shape: Any) -> List[Any]:
    """Numbers, texts of expressions, and None where nothing is known."""
    return [None if d is None else int(d) if is_literal(d) else str(d) for d in sympy_shape]


def as_scalar(x: Any) -> Any:
    """The one element of a list or array."""
    if isinstance(x, list) and len(x) != 1:
        raise ValueError(f"expected one element, got {len(x)}")
    return x[0] if isinstance(x, list) else x.item() if isinstance(x, np.ndarray) else x


def as_list(x: Any, keep_none: bool) -> Any:
    return x if isinstance(x, list) or (keep_none and x is None) else list(x) if isinstance(x, np.ndarray) else [x]


def sympy_reduce_product(x: Any) -> Any:
    """Of a list of numbers and expressions; needs the package sympy."""
    import sympy
    return math.prod(x, start=sympy.Integer(1)) if isinstance(x, list) else x


class SymbolicShapeInference:
    """int_max, auto_merge, guess_output_rank and verbose are for another way to infer: sizes here are expressions over
    symbols that are never guessed."""

    def __init__(self, int_max: int = 2**31 - 1, auto_merge: bool = False, guess_output_rank: bool = False,
                 verbose: int = 0, prefix: str = "") -> None:
        self.int_max_, self.auto_merge_, self.guess_output_rank_ = int_max, auto_merge, guess_output_rank
        self.verbose_, self.prefix_ = verbose, prefix

    @staticmethod
    def infer_shapes(in_mp: onnx.ModelProto, int_max: int = 2**31 - 1, auto_merge: bool = False,
                     guess_output_rank: bool = False, verbose: int = 0) -> onnx.ModelProto:
        """A copy of the model that tells the type of each value whose type is known. Raises what is wrong with it."""
        out = onnx.ModelProto()
        out.CopyFrom(in_mp)
        told = _inference.inferred(in_mp)
        _tell(out.graph, told.graph)
        return out


def _tell(graph: onnx.GraphProto, told: onnx.GraphProto) -> None:
    """Types of one graph's values into another that has the same nodes. What a node gives stands in value_info, also
    where it is an output: scripts look there for all of them."""
    given = {name for node in graph.node for name in node.output}
    types = {t.name: onnx.helper.make_tensor_type_proto(t.data_type, list(t.dims)) for t in told.initializer}
    types.update((v.name, v.type) for part in (told.value_info, told.output) for v in part)
    fresh = [onnx.ValueInfoProto(name=n, type=t) for n, t in types.items() if n in given]
    names = {v.name for v in fresh}
    fresh += [v for v in graph.value_info if v.name not in names]
    fresh = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in fresh]
    del graph.value_info[:]
    graph.value_info.extend(fresh)
    for output in graph.output:
        if output.name in types:
            output.type.CopyFrom(types[output.name])
    inner = {n.output[0]: n for n in told.node if n.output}
    for node in graph.node:
        other = inner.get(node.output[0]) if node.output else None
        for a in node.attribute:
            b = next((x for x in other.attribute if x.name == a.name), None) if other is not None else None
            if b is not None and a.type == a.GRAPH and [list(n.output) for n in a.g.node] == [
                    list(n.output) for n in b.g.node]:
                _tell(a.g, b.g)


# ---- small questions ----

def get_attribute(node: onnx.NodeProto, attr_name: str, default_value: Any = None) -> Any:
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == attr_name), default_value)


def get_dim_from_proto(dim: Any) -> Any:
    """A number, a symbol, or None."""
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def is_sequence(type_proto: onnx.TypeProto) -> bool:
    return type_proto.WhichOneof("value") == "sequence_type"


def get_shape_from_type_proto(type_proto: onnx.TypeProto) -> Optional[List[Any]]:
    tensor = type_proto.tensor_type
    if is_sequence(type_proto) or not tensor.HasField("shape"):
        return None
    return [get_dim_from_proto(d) for d in tensor.shape.dim]


def get_elem_type_from_type_proto(type_proto: onnx.TypeProto) -> int:
    inner = type_proto.sequence_type.elem_type if is_sequence(type_proto) else type_proto
    return inner.tensor_type.elem_type


def get_shape_from_value_info(vi: onnx.ValueInfoProto) -> Optional[List[Any]]:
    return get_shape_from_type_proto(vi.type)


def make_named_value_info(name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name)


def get_opset(mp: onnx.ModelProto, domain: Any = None) -> Optional[int]:
    wanted = domain if isinstance(domain, (list, tuple)) else [domain] if domain else ["", "onnx", "ai.onnx"]
    return next((o.version for o in mp.opset_import if o.domain in wanted), None)


def handle_negative_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis is {axis}, the rank {rank}")
    return axis % rank


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes the types and shapes of all values into a model.")
    parser.add_argument("--input", required=True, help="the model's file")
    parser.add_argument("--output", required=True, help="where the new one goes")
    parser.add_argument("--save_as_external_data", action="store_true", help="weights in a file beside it")
    for name in ("--auto_merge", "--guess_output_rank"):
        parser.add_argument(name, action="store_true", help="changes nothing here")
    parser.add_argument("--int_max", type=int, default=2**31 - 1, help="changes nothing here")
    parser.add_argument("--verbose", type=int, default=0, help="changes nothing here")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_arguments(arguments)
    model = SymbolicShapeInference.infer_shapes(onnx.load(told.input))
    save_model(model, told.output, save_as_external_data=told.save_as_external_data)


if __name__ == "__main__":
    main()
