"""Activations of another type among those of the default one: which tensors around them must change as well, so that
every node has inputs and outputs of one type, and where one type is converted into the other."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Set, Tuple

import onnx
from onnx import NodeProto, TensorProto

from nacre import _inference
from nacre.quantization.quant_utils import QuantType
from nacre.quantization.tensor_quant_overrides import QuantTypeInfo, TensorQuantOverridesHelper

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclass
class TensorTypeRequest:
    """The types a tensor should have: where it is made, and for some of its readers, by name. None: the default."""
    producer: Optional[QuantTypeInfo]
    consumers: Optional[Tuple[QuantTypeInfo, Set[str]]]


class MixedPrecisionTensorQuantOverridesFixer:
    """apply() adds to the overrides what the wishes in them entail: a tensor that is to have another type gives that
    type to all float activations of the nodes that make and read it, and the tensors at the rim get a "convert"."""

    def __init__(self, overrides: TensorQuantOverridesHelper, producers: Dict[str, NodeProto],
                 consumers: Dict[str, List[NodeProto]], value_infos: Dict[str, onnx.ValueInfoProto],
                 initializers: Dict[str, TensorProto]) -> None:
        self.overrides, self.producers, self.consumers = overrides, producers, consumers
        self.value_infos, self.initializers = value_infos, initializers

    @staticmethod
    def create_from_model(overrides: TensorQuantOverridesHelper, model: onnx.ModelProto,
                          default_activation_qtype: QuantType) -> "MixedPrecisionTensorQuantOverridesFixer":
        values = {name: onnx.ValueInfoProto(name=name, type=kind) for name, kind in _inference.types_of(model).items()}
        weights = {t.name: t for t in model.graph.initializer}
        readers: Dict[str, List[NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                if name:
                    readers.setdefault(name, []).append(node)
        makers = {o: node for node in model.graph.node for o in node.output}
        fixer = MixedPrecisionTensorQuantOverridesFixer(overrides, makers, readers, values, weights)
        fixer._check(default_activation_qtype)
        return fixer

    def _check(self, default: QuantType) -> None:
        ok, why = self.overrides.is_valid(self.initializers, set(self.value_infos), default)
        if not ok:
            raise ValueError(why)

    def apply(self, default_activation_qtype: QuantType, default_activation_symmetric: bool) -> None:
        wanted = self.get_desired_tensor_types(default_activation_qtype, default_activation_symmetric)
        for name, wish in wanted.items():
            self._settle(name, wish, default_activation_qtype)
        self._check(default_activation_qtype)

    def _settle(self, name: str, wish: TensorTypeRequest, default: QuantType) -> None:
        readers = {n.name for n in self.consumers.get(name, [])}
        made = wish.producer or self.overrides.get_node_output_qtype_info(name, default)
        if wish.consumers is None:
            self._convert(name, made, QuantTypeInfo(default), readers)
        elif made != wish.consumers[0]:
            self._convert(name, made, *wish.consumers)
        elif wish.producer is None:
            if self._converts_for(name, wish.consumers[1]):
                raise ValueError(f"override of '{name}': it converts for readers that need the type it is made in")
        elif readers - wish.consumers[1]:
            self._convert(name, made, QuantTypeInfo(default), readers - wish.consumers[1])
        elif name not in self.overrides:
            self._write(name, made)

    def get_desired_tensor_types(self, default_activation_qtype: QuantType,
                                 default_activation_symmetric: bool) -> Dict[str, TensorTypeRequest]:
        """What the overrides ask of the tensors around those that they name."""
        usual, found = QuantTypeInfo(default_activation_qtype, default_activation_symmetric), {}
        for name, rows in self.overrides.items():
            if not self._is_activation(name) or len(rows) != 1:
                continue
            asked = QuantTypeInfo.load_from_dict(rows[0], default_activation_qtype)
            if asked == usual or "convert" in rows[0]:
                continue
            for node in [self.producers.get(name), *self.consumers.get(name, [])]:
                if node is not None:
                    self._ask(found, asked, node)
        return found

    def _is_activation(self, name: str) -> bool:
        value = self.value_infos.get(name) if name and name not in self.initializers else None
        return value is not None and value.type.tensor_type.elem_type in _FLOATS

    def _ask(self, found: Dict[str, TensorTypeRequest], asked: QuantTypeInfo, node: NodeProto) -> None:
        """Every float activation of this node in that type."""
        for name in filter(self._is_activation, node.output):
            wish = found.setdefault(name, TensorTypeRequest(None, None))
            if wish.producer not in (None, asked):
                raise ValueError(f"tensor '{name}' is asked to be made in two types")
            wish.producer = asked
        for name in filter(self._is_activation, node.input):
            wish = found.setdefault(name, TensorTypeRequest(None, None))
            kind, readers = wish.consumers or (asked, set())
            if kind != asked:
                raise ValueError(f"tensor '{name}' is asked for in two types by its readers")
            if not node.name:
                raise ValueError(f"the {node.op_type} that makes '{node.output[0]}' needs a name")
            wish.consumers = kind, readers | {node.name}

    def _write(self, name: str, made: QuantTypeInfo) -> None:
        self.overrides[name] = [{}]
        made.save_to_dict(self.overrides[name][0])

    def _convert(self, name: str, made: QuantTypeInfo, read: QuantTypeInfo, readers: Set[str]) -> None:
        if not self.overrides.get(name):
            self._write(name, made)
        row = self.overrides[name][0]
        if made != QuantTypeInfo.load_from_dict(row):
            raise ValueError(f"override of '{name}': it is to be made in {made.quant_type}, and was given another type")
        if not readers:
            return
        if "convert" not in row:
            row["convert"] = {}
            read.save_to_dict(row["convert"])
        if read != QuantTypeInfo.load_from_dict(row["convert"]):
            raise ValueError(f"override of '{name}': it is to be read in {read.quant_type}, and converts to another")
        row["convert"]["recv_nodes"] = row["convert"].get("recv_nodes", set()) | readers

    def _converts_for(self, name: str, readers: Set[str]) -> bool:
        convert = (self.overrides.get(name) or [{}])[0].get("convert")
        return convert is not None and ("recv_nodes" not in convert or bool(convert["recv_nodes"] & readers))
