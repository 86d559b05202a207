"""Small edits and questions that fusions written in Python share."""
from __future__ import annotations

import logging
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from nacre.transformers.onnx_model import OnnxModel

logger = logging.getLogger(__name__)
_TYPES = {"int32": TensorProto.INT32, "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def _is(value: Any, expected: Any) -> bool:
    """Lists by their elements."""
    if isinstance(expected, list):
        return isinstance(value, (np.ndarray, list)) and np.array_equal(expected, value)
    return bool(value == expected)


class FusionUtils:
    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    # ---- Casts ----

    def cast_graph_input_to_int32(self, input_name: str) -> Tuple[bool, str]:
        """(whether a Cast was made, the value of int32)."""
        found = self.model.find_graph_input(input_name)
        if found is None or found.type.tensor_type.elem_type == TensorProto.INT32:
            return False, input_name
        return True, self.cast_input_to_int32(input_name)[0]

    def cast_input(self, input_name: str, target_type: str = "int32") -> Tuple[str, NodeProto]:
        if target_type not in _TYPES:
            raise ValueError(f"target_type is '{target_type}', expected one of {', '.join(_TYPES)}")
        output = f"{input_name}_{target_type}"
        return output, self.add_cast_node(input_name, int(_TYPES[target_type]), output)

    def cast_input_to_int32(self, input_name: str) -> Tuple[str, NodeProto]:
        return self.cast_input(input_name, "int32")

    def add_cast_node(self, input_name: str, to_type: int, output_name: Optional[str] = None,
                      output_name_to_node: Optional[Dict[str, NodeProto]] = None,
                      graph_name: Optional[str] = None) -> NodeProto:
        """A Cast of a Cast takes what that one took."""
        makers = self.model.output_name_to_node() if output_name_to_node is None else output_name_to_node
        parent = makers.get(input_name)
        source = parent.input[0] if parent is not None and parent.op_type == "Cast" else input_name
        node = helper.make_node("Cast", [source], [output_name or f"{input_name}_cast_to_{to_type}"], to=to_type)
        self.model.add_node(node, graph_name)
        return node

    def remove_cast_int32(self, input_name: str) -> None:
        for node in self.model.input_name_to_nodes().get(input_name, []):
            if node.op_type == "Cast" and self.check_node_attribute(node, "to", int(TensorProto.INT32)):
                made = node.output[0]
                self.model.remove_node(node)
                self.model.replace_input_of_all_nodes(made, input_name)

    # ---- edges ----

    @staticmethod
    def update_node_input(node: NodeProto, i: int, new_input_name: str,
                          input_name_to_nodes: Dict[str, List[NodeProto]]) -> int:
        """How many others read what the node has read there."""
        readers = input_name_to_nodes.get(node.input[i], [])
        left = 0
        if node in readers:
            readers.remove(node)
            left = len(readers)
        node.input[i] = new_input_name
        input_name_to_nodes.setdefault(new_input_name, []).append(node)
        return left

    @staticmethod
    def skip_parent(model: OnnxModel, node: NodeProto, parent_node: NodeProto,
                    input_name_to_nodes: Dict[str, List[NodeProto]], node_input_index: int = 0,
                    parent_input_index: int = 0) -> bool:
        """The node reads what its parent reads; whether nobody needs the parent any more."""
        old = node.input[node_input_index]
        left = FusionUtils.update_node_input(node, node_input_index, parent_node.input[parent_input_index],
                                             input_name_to_nodes)
        return left == 0 and model.find_graph_output(old) is None

    # ---- questions ----

    def get_squeeze_or_unsqueeze_axes(self, node: NodeProto) -> Any:
        """By the second input, or by the attribute, as opsets before 13 have it; None where they are not constant."""
        if len(node.input) > 1:
            return self.model.get_constant_value(node.input[1])
        return next((helper.get_attribute_value(a) for a in node.attribute if a.name == "axes"), None)

    @staticmethod
    def check_node_attribute(node: NodeProto, attribute_name: str, expected_value: Any,
                             default_value: Any = None) -> bool:
        found = [helper.get_attribute_value(a) for a in node.attribute if a.name == attribute_name]
        return _is(found[-1] if found else default_value, expected_value)

    def check_node_input_value(self, node: NodeProto, input_index: int, expected_value: Any) -> bool:
        return _is(self.model.get_constant_value(node.input[input_index]), expected_value)

    @staticmethod
    def check_qdq_node_for_fusion(node: NodeProto, model: OnnxModel,
                                  allow_per_tensor_quantization_only: bool = True) -> bool:
        """Whether a QuantizeLinear or DequantizeLinear has a constant scale, one for all if that is asked for, and 0
        for a zero point."""
        scale = model.get_constant_value(node.input[1])
        if scale is None or (allow_per_tensor_quantization_only and (scale.ndim > 1 or scale.size != 1)):
            return False
        zero = model.get_constant_value(node.input[2]) if len(node.input) > 2 else np.zeros_like(scale)
        return zero is not None and zero.ndim == scale.ndim and bool((zero == 0).all())

    @staticmethod
    def transpose_2d_int8_tensor(tensor: TensorProto) -> TensorProto:
        """A matrix of int8 in raw bytes, turned; its dims stay as they were."""
        if not isinstance(tensor, TensorProto):
            raise TypeError(f"expected a TensorProto, got {type(tensor).__name__}")
        if len(tensor.dims) != 2 or tensor.data_type != TensorProto.INT8 or not tensor.raw_data:
            raise ValueError(f"tensor '{tensor.name}': expected a matrix of int8 in raw bytes, got type "
                             f"{tensor.data_type}, dims {list(tensor.dims)}")
        tensor.raw_data = np.frombuffer(tensor.raw_data, np.int8).reshape(tuple(tensor.dims)).T.tobytes()
        return tensor

    # ---- nodes that go ----

    def remove_identity_nodes(self) -> None:
        """Those that make no output of a graph."""
        rim, gone = set(self.model.get_graphs_output_names()), []
        for node in self.model.nodes():
            if node.op_type == "Identity" and node.output[0] not in rim:
                self.model.replace_input_of_all_nodes(node.output[0], node.input[0])
                gone.append(node)
        self.model.remove_nodes(gone)

    def remove_cascaded_cast_nodes(self) -> None:
        self.model.remove_cascaded_cast_nodes()

    def remove_useless_cast_nodes(self) -> None:
        self.model.remove_useless_cast_nodes()

    def remove_useless_reshape_nodes(self) -> None:
        """Reshapes to the shape that their input has, as far as inference tells; symbols count by their names."""
        from nacre import _inference
        types = _inference.types_of(self.model.model)
        inputs, rim = set(self.model.get_graphs_input_names()), set(self.model.get_graphs_output_names())
        for node in [n for n in self.model.nodes() if n.op_type == "Reshape"]:
            x, y = node.input[0], node.output[0]
            shapes = [_known(types.get(name)) for name in (x, y)]
            if shapes[0] is None or shapes[0] != shapes[1]:
                continue
            if y not in rim:
                self.model.replace_input_of_all_nodes(y, x)
            elif x not in inputs and len(self.model.input_name_to_nodes()[x]) == 1:
                self.model.replace_output_of_all_nodes(x, y)
            else:
                continue
            self.model.remove_node(node)


def _known(kind: Any) -> Optional[List[Any]]:
    """Numbers and names of dims; None if one has neither."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.tensor_type.shape.dim]
    return None if "" in dims else dims


class NumpyHelper:
    @staticmethod
    def to_array(tensor: TensorProto, fill_zeros: bool = False) -> np.ndarray:
        """fill_zeros: of the type and dims alone, where the numbers are not at hand."""
        if fill_zeros:
            return np.zeros(tuple(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type))
        return numpy_helper.to_array(tensor)
