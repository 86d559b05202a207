"""Models like BERT without the work on padding: before the first attention RemovePadding takes it away, attentions
become packed ones, and behind the last normalization RestorePadding puts it back.

    python -m nacre.transformers.convert_to_packing_mode --input MODEL --output MODEL
"""
from __future__ import annotations

import argparse
import logging
from typing import Dict, List, Optional

import onnx
from onnx import NodeProto, helper

from nacre.transformers.constants import (AttentionInputIDs, MultiHeadAttentionInputIDs, MultiHeadAttentionOutputIDs,
                                          Operators)
from nacre.transformers.onnx_model import OnnxModel

logger = logging.getLogger(__name__)


def _at(names: List[str], i: int) -> str:
    """An input or output, empty where the node has none there."""
    return names[i] if i < len(names) else ""


class PackingAttentionBase:
    #: Of a derived class: where an attention has its mask, the packed operator, the attributes that it has too.
    mask_at, packed_type, kept = 0, "", ("num_heads", "scale")

    def __init__(self, model: OnnxModel, attention_op_type: str) -> None:
        self.model, self.attention_op_type = model, attention_op_type
        self.nodes_to_remove: List[NodeProto] = []
        self.nodes_to_add: List[NodeProto] = []
        self.prune_graph = False
        self.node_name_to_graph_name: Dict[str, str] = {}
        self.this_graph_name = model.model.graph.name
        self.attention_nodes = model.get_nodes_by_op_type(attention_op_type)

    def refused(self, node: NodeProto) -> Optional[str]:
        """Why an attention has no packed form."""
        raise NotImplementedError

    def first_input(self, node: NodeProto) -> Optional[str]:
        """What the first attention is computed from, padded."""
        raise NotImplementedError

    def packed_inputs(self, node: NodeProto, offset: str, lengths: str) -> List[str]:
        raise NotImplementedError

    def convert(self, use_symbolic_shape_infer: bool = True) -> None:
        """Changes the model; one that cannot be packed stays, with the reason in the log."""
        found = self._checked()
        if isinstance(found, str):
            logger.error("%s: not packed: %s", self.this_graph_name, found)
            return
        x, mask, last = found
        dense, offset, lengths = (f"{x}_{end}" for end in ("no_padding", "token_offset", "cumulated_seq_len"))
        self.model.replace_input_of_all_nodes(x, dense)
        self._add(Operators.REMOVEPADDING, [x, mask], [dense, offset, lengths, x + "_max_seq_len"])
        y, packed = last.output[0], last.output[0] + "_restore_input"
        self.model.replace_output_of_all_nodes(y, packed)
        self._add(Operators.RESTOREPADDING, [packed, offset], [y])
        for node in self.attention_nodes:
            made = self._add(self.packed_type, self.packed_inputs(node, offset, lengths), [node.output[0]])
            made.attribute.extend(a for a in node.attribute if a.name in self.kept)
            self.nodes_to_remove.append(node)
        self.model.remove_nodes(self.nodes_to_remove)
        self.model.add_nodes(self.nodes_to_add, self.node_name_to_graph_name)
        self.model.prune_graph()
        del self.model.model.graph.value_info[:]  # they tell of padded shapes
        self.model.topological_sort()
        if use_symbolic_shape_infer:
            from nacre import _inference
            self.model.model.graph.value_info.extend(_inference.inferred(self.model.model).graph.value_info)

    def _checked(self) -> object:
        """(what goes in, mask, the last normalization), or why not."""
        masks = {_at(n.input, self.mask_at) for n in self.attention_nodes}
        if len(masks) != 1 or masks == {""}:
            return f"its attentions have masks {sorted(masks)}, expected one for all"
        for node in self.attention_nodes:
            if why := self.refused(node):
                return f"{node.op_type} '{node.name}' has {why}"
        norms = [n for n in self.model.nodes() if n.op_type in (Operators.LAYERNORM, Operators.SKIPLAYERNORM)]
        x = self.first_input(self.attention_nodes[0])
        if x is None or not norms:
            return "no product in front of the first attention" if x is None else "no normalization behind the last one"
        return x, masks.pop(), norms[-1]

    def _add(self, op_type: str, inputs: List[str], outputs: List[str]) -> NodeProto:
        name = f"{op_type}_{sum(n.op_type == op_type for n in self.nodes_to_add)}_{outputs[0]}"
        self.nodes_to_add.append(helper.make_node(op_type, inputs, outputs, name, domain="com.microsoft"))
        self.node_name_to_graph_name[name] = self.this_graph_name
        return self.nodes_to_add[-1]


class PackingAttention(PackingAttentionBase):
    mask_at, packed_type = AttentionInputIDs.MASK_INDEX, Operators.PACKEDATTENTION
    kept = ("num_heads", "qkv_hidden_sizes", "scale")

    def __init__(self, model: OnnxModel) -> None:
        super().__init__(model, Operators.ATTENTION)

    def refused(self, node: NodeProto) -> Optional[str]:
        told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        for name in ("past_present_share_buffer", "do_rotary", "unidirectional"):
            if told.get(name):
                return f"{name} {told[name]}"
        given = [i for i in (AttentionInputIDs.PAST, AttentionInputIDs.PAST_SEQUENCE_LENGTH) if _at(node.input, i)]
        return f"a past, input {given[0]}" if given else None

    def first_input(self, node: NodeProto) -> Optional[str]:
        return node.input[AttentionInputIDs.INPUT]

    def packed_inputs(self, node: NodeProto, offset: str, lengths: str) -> List[str]:
        ids = AttentionInputIDs
        return [*(_at(node.input, i) for i in (ids.INPUT, ids.WEIGHTS, ids.BIAS)), offset, lengths,
                _at(node.input, ids.ATTENTION_BIAS)]


class PackingMultiHeadAttention(PackingAttentionBase):
    mask_at, packed_type = MultiHeadAttentionInputIDs.KEY_PADDING_MASK, Operators.PACKED_MULTI_HEAD_ATTENTION
    kept = ("num_heads", "mask_filter_value", "scale")

    def __init__(self, model: OnnxModel) -> None:
        super().__init__(model, Operators.MULTI_HEAD_ATTENTION)

    def refused(self, node: NodeProto) -> Optional[str]:
        ids, out = MultiHeadAttentionInputIDs, MultiHeadAttentionOutputIDs
        others = [a.name for a in node.attribute if a.name not in self.kept]
        if others:
            return f"attribute {others[0]}"
        if _at(node.input, ids.KEY) and not _at(node.input, ids.VALUE):
            return "keys and values in one tensor"
        if any(_at(node.input, i) for i in (ids.PAST_KEY, ids.PAST_VALUE)):
            return "a past"
        return "caches as outputs" if any(_at(node.output, i) for i in (out.PRESENT_KEY, out.PRESENT_VALUE)) else None

    def first_input(self, node: NodeProto) -> Optional[str]:
        product = self.model.get_parent(node, 0)
        return product.input[0] if product is not None and product.op_type == "MatMul" else None

    def packed_inputs(self, node: NodeProto, offset: str, lengths: str) -> List[str]:
        ids = MultiHeadAttentionInputIDs
        bias = _at(node.input, ids.ATTENTION_BIAS)
        maker = self.model.get_parent(node, ids.ATTENTION_BIAS) if bias else None
        if maker is not None and maker.op_type == "GatedRelativePositionBias" and len(maker.input) == 6:
            maker.input.append(offset)
        return [*(_at(node.input, i) for i in (ids.QUERY, ids.KEY, ids.VALUE, ids.BIAS)), offset, lengths, bias]


class PackingMode:
    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def convert(self, use_symbolic_shape_infer: bool = True) -> None:
        kinds = [k for k in (PackingAttention, PackingMultiHeadAttention) if k(self.model).attention_nodes]
        if len(kinds) != 1:
            logger.error("not packed: the model has %s of Attention and MultiHeadAttention, expected one",
                         "both" if kinds else "none")
            return
        kinds[0](self.model).convert(use_symbolic_shape_infer)


def _parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes a model like BERT that does not compute padding.")
    parser.add_argument("--input", required=True, help="the model's file")
    parser.add_argument("--output", required=True, help="where the new one goes")
    parser.add_argument("--use_external_data_format", action="store_true", help="weights in a file of their own")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = _parse_arguments(arguments)
    logging.basicConfig(level=logging.DEBUG if told.verbose else logging.INFO)
    mode = PackingMode(OnnxModel(onnx.load(told.input)))
    mode.convert()
    mode.model.save_model_to_file(told.output, told.use_external_data_format)


if __name__ == "__main__":
    main()
