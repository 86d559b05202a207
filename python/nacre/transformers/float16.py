"""convert_float_to_float16: a model of float16 from a model of float, with casts around the nodes that stay float.

A value of floats has one name for each type in which it exists. Nodes that stay float read and write the float one, all
others the float16 one, and a Cast stands where the other has to be made; so nodes that stay float and follow each other
pass floats on.
"""
from __future__ import annotations

import itertools
import os
import warnings
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Union

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nacre import _inference
from nacre.quantization.onnx_model import inputs_of, topologically

#: Operators that ONNX has no float16 form of, or that float16 would spoil: sums along an axis, counting, sorting.
DEFAULT_OP_BLOCK_LIST = [
    "ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "Imputer",
    "LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "RandomUniformLike",
    "SVMClassifier", "SVMRegressor", "Scaler", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
    "ZipMap", "NonMaxSuppression", "TopK", "RoiAlign", "Range", "CumSum", "Min", "Max", "Upsample"]
#: Inputs that are floats whatever the others are.
ALWAYS_FLOAT_INPUTS = {"Resize": [2], "GroupNorm": [1, 2], "SkipGroupNorm": [1, 2]}
_FLOAT, _HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def convert_np_to_float16(np_array: np.ndarray, min_positive_val: float = 5.96e-08,
                          max_finite_val: float = 65504.0) -> np.ndarray:
    """float16, where what is smaller than the smallest keeps its sign and what is greater becomes the greatest."""
    x = np.asarray(np_array, np.float32)
    size = np.abs(x)
    finite = np.isfinite(x)
    if np.any((size > max_finite_val) & finite):
        warnings.warn(f"numbers beyond {max_finite_val} become that", stacklevel=2)
    limited = np.where(finite, np.clip(size, 0, max_finite_val), size)
    limited = np.where((size > 0) & (size < min_positive_val), np.float32(min_positive_val), limited)
    return np.copysign(limited, x).astype(np.float16)


def convert_tensor_float_to_float16(tensor: TensorProto, min_positive_val: float = 5.96e-08,
                                    max_finite_val: float = 65504.0) -> TensorProto:
    """The tensor itself, if it holds floats changed to float16."""
    if not isinstance(tensor, TensorProto):
        raise ValueError(f"expected a TensorProto, got {type(tensor).__name__}")
    if tensor.data_type == _FLOAT:
        halves = convert_np_to_float16(numpy_helper.to_array(tensor), min_positive_val, max_finite_val)
        tensor.CopyFrom(numpy_helper.from_array(halves, tensor.name))
    return tensor


def make_value_info_from_tensor(tensor: TensorProto) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def float_to_float16_max_diff(tensor: TensorProto, min_positive_val: float = 5.96e-08,
                              max_finite_val: float = 65504.0) -> float:
    """How far the furthest number of a tensor of floats is from its float16."""
    if tensor.data_type != _FLOAT:
        raise ValueError(f"tensor '{tensor.name}': expected floats, got {TensorProto.DataType.Name(tensor.data_type)}")
    x = numpy_helper.to_array(tensor)
    halves = convert_np_to_float16(x, min_positive_val, max_finite_val).astype(np.float32)
    return float(np.abs(halves - x).max(initial=0))


class InitializerTracker:
    """Who reads an initializer: nodes that become float16, and nodes that stay float."""

    def __init__(self, initializer: TensorProto) -> None:
        self.initializer = initializer
        self.fp32_nodes: List[NodeProto] = []
        self.fp16_nodes: List[NodeProto] = []

    def add_node(self, node: NodeProto, is_node_blocked: bool) -> None:
        (self.fp32_nodes if is_node_blocked else self.fp16_nodes).append(node)


def convert_float_to_float16(model: Union[ModelProto, str], min_positive_val: float = 5.96e-08,
                             max_finite_val: float = 65504.0, keep_io_types: Union[bool, Sequence[str]] = False,
                             disable_shape_infer: bool = False, op_block_list: Optional[Iterable[str]] = None,
                             node_block_list: Optional[Iterable[str]] = None, force_fp16_initializers: bool = False,
                             force_fp16_inputs: Optional[Dict[str, List[int]]] = None,
                             use_bfloat16_as_blocked_nodes_dtype: bool = False) -> ModelProto:
    """A new model. keep_io_types: inputs and outputs stay float, all or those named. op_block_list, node_block_list:
    nodes that stay float, or bfloat16. force_fp16_initializers: constants become float16 even if only such nodes read
    them. force_fp16_inputs: by operator, inputs that are float16 although its others stay. disable_shape_infer changes
    nothing: types are always inferred."""
    if not 0 < min_positive_val < max_finite_val <= 65504:
        raise ValueError(f"min_positive_val {min_positive_val}, max_finite_val {max_finite_val}: expected 0 < min < "
                         "max <= 65504")
    own = onnx.load(os.fspath(model)) if not isinstance(model, ModelProto) else ModelProto.FromString(
        model.SerializeToString())
    if own.functions:
        own = onnx.inliner.inline_local_functions(own)
    work = _Conversion(own, min_positive_val, max_finite_val, force_fp16_initializers)
    work.blocked_ops = set(DEFAULT_OP_BLOCK_LIST if op_block_list is None else op_block_list)
    work.blocked_nodes = set(node_block_list or [])
    work.forced_inputs = force_fp16_inputs or {}
    work.stays = TensorProto.BFLOAT16 if use_bfloat16_as_blocked_nodes_dtype else _FLOAT
    both = [v.name for v in [*own.graph.input, *own.graph.output]]
    work.main(own.graph, set(both if keep_io_types is True else keep_io_types or []))
    return own


class _Conversion:
    def __init__(self, model: ModelProto, least: float, most: float, force: bool) -> None:
        self.types = _inference.types_of(model)
        self.least, self.most, self.force = least, most, force
        self.blocked_ops: Set[str] = set()
        self.blocked_nodes: Set[str] = set()
        self.forced_inputs: Dict[str, List[int]] = {}
        self.stays = _FLOAT
        self.numbers = itertools.count()
        #: By name of a value: the name of its form in another type.
        self.forms: Dict[Any, str] = {}

    # ---- graphs ----

    def main(self, graph: GraphProto, kept: Set[str]) -> None:
        nodes: List[NodeProto] = []
        weights = {t.name for t in graph.initializer}
        for v in graph.input:
            if self._is_float(v) and v.name not in weights:
                if v.name in kept:
                    self.forms[v.name, _FLOAT] = v.name
                    self.forms[v.name, _HALF] = self._cast(v.name, _HALF, nodes)
                else:
                    v.type.tensor_type.elem_type = _HALF
        self._graph(graph, nodes, kept)

    def _graph(self, graph: GraphProto, nodes: List[NodeProto], kept: Set[str]) -> None:
        outer = dict(self.forms)
        for t in graph.initializer:
            self.types[t.name] = helper.make_tensor_type_proto(t.data_type, list(t.dims))
        self._initializers(graph)
        outputs = {o.name: o for o in graph.output if self._is_float(o)}
        for node in graph.node:
            self._node(node, nodes, kept & set(outputs))
        for name, o in outputs.items():
            if name in kept:
                self._keep_output(name, nodes)
            else:
                o.type.tensor_type.elem_type = _HALF
                if self.forms.get((name, _HALF), name) != name:
                    self._rename(name, nodes)
        del graph.node[:]
        graph.node.extend(topologically(nodes, []))
        del graph.value_info[:]
        self._inputs_of_initializers(graph)
        self.forms = outer

    @staticmethod
    def _inputs_of_initializers(graph: GraphProto) -> None:
        kinds = {t.name: t.data_type for t in graph.initializer}
        for v in graph.input:
            if v.name in kinds:
                v.type.tensor_type.elem_type = kinds[v.name]

    def _rename(self, name: str, nodes: List[NodeProto]) -> None:
        """A graph output whose float16 form has another name."""
        nodes.append(helper.make_node("Identity", [self.forms[name, _HALF]], [name], name + "_as_output"))

    def _keep_output(self, name: str, nodes: List[NodeProto]) -> None:
        """An output that stays float: the node that makes it has written float16 under another name."""
        if any(name in n.output for n in nodes):
            return
        source = self.forms.get((name, self.stays)) if self.stays == _FLOAT else None
        source = source or self.forms.get((name, _HALF))
        if source is not None and source != name:
            nodes.append(helper.make_node("Cast", [source], [name], f"graph_output_cast_{name}", to=_FLOAT))

    def _is_float(self, v: onnx.ValueInfoProto) -> bool:
        kind = v.type.tensor_type.elem_type or self.types.get(v.name, v.type).tensor_type.elem_type
        return v.type.WhichOneof("value") in (None, "tensor_type") and kind == _FLOAT

    def _initializers(self, graph: GraphProto) -> None:
        """Those that a float16 node reads become float16; one that both kinds read exists twice."""
        readers: Dict[str, Set[int]] = {}
        for node in graph.node:
            for i, name in enumerate(node.input):
                readers.setdefault(name, set()).add(self._type_at(node, i))
            for name in inputs_of(node)[len(node.input):]:
                readers.setdefault(name, set()).add(_HALF)
        for t in list(graph.initializer):
            if t.data_type != _FLOAT:
                continue
            kinds = readers.get(t.name, set()) | {_HALF for o in graph.output if o.name == t.name}
            if kinds == {_FLOAT} and not self.force:
                self.forms[t.name, _FLOAT] = t.name
                continue
            if _FLOAT in kinds and not self.force:
                plain = graph.initializer.add()
                plain.CopyFrom(t)
                plain.name = f"{t.name}_float"
                self.forms[t.name, _FLOAT] = plain.name
            convert_tensor_float_to_float16(t, self.least, self.most)

    # ---- nodes ----

    def _blocked(self, node: NodeProto) -> bool:
        """Control flow itself computes nothing: what it holds is asked, node by node."""
        if any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute):
            return False
        return node.op_type in self.blocked_ops or node.name in self.blocked_nodes

    def _type_at(self, node: NodeProto, index: int) -> int:
        """In which type a node reads its input."""
        if index in self.forced_inputs.get(node.op_type, ()):
            return _HALF
        if self._blocked(node):
            return self.stays
        return _FLOAT if index in ALWAYS_FLOAT_INPUTS.get(node.op_type, ()) else _HALF

    def _float_value(self, name: str) -> bool:
        kind = self.types.get(name)
        return kind is not None and kind.tensor_type.elem_type == _FLOAT

    def _node(self, node: NodeProto, nodes: List[NodeProto], kept: Set[str]) -> None:
        made = NodeProto.FromString(node.SerializeToString())
        for a in made.attribute:
            for inner in [a.g] if a.type == AttributeProto.GRAPH else a.graphs:
                self._graph(inner, [], set())
        for i, name in enumerate(node.input):
            if name and self._float_value(name):
                made.input[i] = self._form(name, self._type_at(node, i), nodes)
        if not self._blocked(node):
            self._attributes(made)
        nodes.append(made)
        writes = self.stays if self._blocked(node) else _HALF
        for i, name in enumerate(node.output):
            if name and self._float_value(name):
                self._output(made, i, name, writes, nodes, name in kept)

    def _output(self, made: NodeProto, i: int, name: str, writes: int, nodes: List[NodeProto], keeps: bool) -> None:
        if writes == _HALF and not keeps:
            return
        if writes == _FLOAT and keeps:
            self.forms[name, _FLOAT] = name
            self.forms[name, _HALF] = self._cast(name, _HALF, nodes)
            return
        made.output[i] = f"{name}_{'half' if writes == _HALF else 'float'}"
        self.forms[name, writes] = made.output[i]
        if keeps:
            nodes.append(helper.make_node("Cast", [made.output[i]], [name], f"graph_output_cast_{name}", to=_FLOAT))
            self.forms[name, _FLOAT] = name
        if writes != _HALF:
            nodes.append(helper.make_node("Cast", [made.output[i]], [name + "_half" if keeps else name],
                                          f"{name}_output_cast", to=_HALF))
            self.forms[name, _HALF] = name + "_half" if keeps else name

    def _form(self, name: str, kind: int, nodes: List[NodeProto]) -> str:
        """The name of a value in this type; made by a Cast if it is not there."""
        if (name, kind) not in self.forms:
            if kind == _HALF:
                return name
            source = self.forms.get((name, _HALF), name)
            self.forms[name, kind] = self._cast(name, kind, nodes, source)
        return self.forms[name, kind]

    def _cast(self, name: str, kind: int, nodes: List[NodeProto], source: Optional[str] = None) -> str:
        y = f"{name}_input_cast_{next(self.numbers)}"
        nodes.append(helper.make_node("Cast", [source or name], [y], y + "_node", to=kind))
        return y

    def _attributes(self, node: NodeProto) -> None:
        """Types that a node names, and the tensors that it holds."""
        for a in node.attribute:
            if a.type == AttributeProto.TENSOR:
                convert_tensor_float_to_float16(a.t, self.least, self.most)
            elif a.name in ("to", "dtype", "output_datatype") and a.i == _FLOAT:
                a.i = _HALF
            elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                data = np.array(helper.get_attribute_value(a), np.float32)
                halves = convert_np_to_float16(data, self.least, self.most)
                a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(halves)))
        if node.op_type in ("ConstantOfShape", "RandomNormal", "RandomUniform", "EyeLike") and self._float_value(
                node.output[0]):
            self._defaults(node)

    @staticmethod
    def _defaults(node: NodeProto) -> None:
        """Operators that give floats where nothing is said."""
        name = "value" if node.op_type == "ConstantOfShape" else "dtype"
        if all(a.name != name for a in node.attribute):
            node.attribute.append(helper.make_attribute(
                name, numpy_helper.from_array(np.zeros(1, np.float16)) if name == "value" else _HALF))

