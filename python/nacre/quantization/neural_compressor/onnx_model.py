"""A model with the questions and edits of Neural Compressor's class of this name, where they differ from those of
nacre.quantization.onnx_model: tables of readers and writers are kept until update(), and reach into subgraphs."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from nacre._files import save_model
from nacre.quantization import onnx_model
from nacre.quantization.neural_compressor.util import MAXIMUM_PROTOBUF, find_by_name
from nacre.quantization.onnx_model import subgraphs


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Those of subgraphs before the node that holds them."""
    for node in nodes:
        for graph in subgraphs(node):
            yield from _all_nodes(graph.node)
        yield node


class ONNXModel(onnx_model.ONNXModel):
    def __init__(self, model: Any, **kwargs: Any) -> None:
        """A path, a proto, or another such model. load_external_data=False leaves large weights in their files."""
        path = str(model) if isinstance(model, (str, os.PathLike)) else getattr(model, "model_path", None)
        if isinstance(model, (str, os.PathLike)):
            model = onnx.load(str(model), load_external_data=kwargs.get("load_external_data", True))
        self._model_path, self._q_config = path, None
        self.model = getattr(model, "model", model)
        self.check_is_large_model()

    # ---- what it is ----

    @property
    def model(self) -> Any:
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        self._model = model
        self.update()

    def update(self) -> None:
        """Makes the tables anew, after nodes have changed."""
        self._readers: Dict[str, List[NodeProto]] = {}
        self._writers: Dict[str, NodeProto] = {}
        for node in _all_nodes(self._model.graph.node):
            for name in node.input:
                if name:
                    self._readers.setdefault(name, []).append(node)
            self._writers.update((name, node) for name in node.output if name)
        self._info = {node.name: node.op_type for node in self._model.graph.node}

    graph_info = property(lambda self: self._info)
    input_name_to_nodes: Any = property(lambda self: self._readers)
    output_name_to_node: Any = property(lambda self: self._writers)

    def check_is_large_model(self) -> None:
        """Whether its initializers are too much for one protobuf."""
        self._large = sum(onnx.TensorProto.ByteSize(t) for t in self._model.graph.initializer) > MAXIMUM_PROTOBUF

    @property
    def is_large_model(self) -> bool:
        return self._large

    @property
    def model_path(self) -> Optional[str]:
        return self._model_path

    @model_path.setter
    def model_path(self, path: Optional[str]) -> None:
        self._model_path = path

    @property
    def q_config(self) -> Any:
        """How it was quantized, as somebody told."""
        return self._q_config

    @q_config.setter
    def q_config(self, q_config: Any) -> None:
        self._q_config = q_config

    @property
    def hf_config(self) -> Any:
        """Of the config.json beside the model's file, if there is one; needs the package transformers."""
        folder = Path(self._model_path).parent if self._model_path else None
        if folder is None or not (folder / "config.json").exists():
            return None
        from transformers import AutoConfig
        return AutoConfig.from_pretrained(str(folder))

    def framework(self) -> str:
        return "onnxruntime"

    def input(self) -> List[str]:
        return [i.name for i in self._model.graph.input]

    def output(self) -> List[str]:
        return [o.name for o in self._model.graph.output]

    def is_smoothquant_model(self) -> bool:
        return any("_smooth_scale" in t.name for t in self._model.graph.initializer)

    # ---- who makes, who reads ----

    def get_children(self, node: NodeProto, input_name_to_nodes: Any = None) -> List[NodeProto]:
        return super().get_children(node, self._readers if input_name_to_nodes is None else input_name_to_nodes)

    def get_parents(self, node: NodeProto, output_name_to_node: Any = None) -> List[NodeProto]:
        return super().get_parents(node, self._writers if output_name_to_node is None else output_name_to_node)

    def get_parent(self, node: NodeProto, idx: int, output_name_to_node: Any = None) -> Optional[NodeProto]:
        return super().get_parent(node, idx, self._writers if output_name_to_node is None else output_name_to_node)

    def get_siblings(self, node: NodeProto) -> List[NodeProto]:
        return [c for p in self.get_parents(node) for c in self.get_children(p) if c.name != node.name]

    def get_node(self, name: str) -> Optional[NodeProto]:
        return find_by_name(name, self._model.graph.node)

    def get_initializer_share_num(self, name: str) -> int:
        """How many nodes read an initializer."""
        return sum(name in node.input for node in self.nodes()) if self.get_initializer(name) is not None else 0

    def match_first_parent(self, node: NodeProto, parent_op_type: str, output_name_to_node: Any,
                           exclude: Optional[Sequence[NodeProto]] = None) -> Tuple[Optional[NodeProto], Optional[int]]:
        """(a parent of this operator, at which input), the first that is not excluded."""
        for i, name in enumerate(node.input):
            parent = output_name_to_node.get(name)
            if parent is not None and parent.op_type == parent_op_type and parent not in (exclude or ()):
                return parent, i
        return None, None

    def match_parent(self, node: NodeProto, parent_op_type: str, input_index: Optional[int] = None,
                     output_name_to_node: Any = None, exclude: Optional[Sequence[NodeProto]] = None,
                     return_indice: Optional[List[Any]] = None) -> Optional[NodeProto]:
        """The parent at an input, or at any, which return_indice then gets, if it is of this operator."""
        writers = self._writers if output_name_to_node is None else output_name_to_node
        if input_index is None:
            parent, at = self.match_first_parent(node, parent_op_type, writers, exclude)
            if return_indice is not None:
                return_indice.append(at)
            return parent
        parent = self.get_parent(node, input_index, writers)
        found = parent is not None and parent.op_type == parent_op_type and parent not in (exclude or ())
        return parent if found else None

    def match_parent_path(self, node: NodeProto, parent_op_types: Sequence[str],
                          parent_input_index: Sequence[Optional[int]], output_name_to_node: Any = None,
                          return_indice: Optional[List[Any]] = None) -> Optional[List[NodeProto]]:
        """Parents of parents of these operators at these inputs, or None."""
        path: List[NodeProto] = []
        for op_type, at in zip(parent_op_types, parent_input_index, strict=True):
            found = self.match_parent(path[-1] if path else node, op_type, at, output_name_to_node, None, return_indice)
            if found is None:
                return None
            path.append(found)
        return path

    def get_nodes_chain(self, start: Iterable[Any], stop: Iterable[Any],
                        result_chain: Optional[List[str]] = None) -> List[str]:
        """Names of nodes from start upwards, nodes or names, until stop, which is left out."""
        chain, waiting = [] if result_chain is None else result_chain, [getattr(n, "name", n) for n in start]
        ends = {getattr(n, "name", n) for n in stop}
        while waiting:
            name = waiting.pop(0)
            if name not in ends and name not in chain:
                chain.append(name)
                node = self.get_node(name)
                waiting += [p.name for p in self.get_parents(node)] if node is not None else []
        return chain

    # ---- edits ----

    def add_initializers(self, tensors: Iterable[TensorProto]) -> None:
        for tensor in tensors:
            self.add_initializer(tensor)

    def set_initializer(self, tensor: str, array: np.ndarray, raw: bool = False) -> None:
        """Other numbers for an initializer, in its type and shape."""
        old = self.get_initializer(tensor)
        if old is None:
            raise ValueError(f"the model has no initializer '{tensor}'")
        numbers = array.tobytes() if raw else array.flatten().tolist()
        new = helper.make_tensor(tensor, old.data_type, list(old.dims), numbers, raw)
        self._model.graph.initializer.remove(old)
        self._model.graph.initializer.append(new)

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str,
                                   white_optype: Sequence[str] = (), black_optype: Sequence[str] = ()) -> None:
        """Of nodes of the operators in white_optype alone, if it names any, else of all but black_optype's."""
        for node in self._of(white_optype, black_optype):
            self.replace_node_input(node, old_input_name, new_input_name)

    def replace_output_of_all_nodes(self, old_output_name: str, new_output_name: str,
                                    white_optype: Sequence[str] = (), black_optype: Sequence[str] = ()) -> None:
        for node in self._of(white_optype, black_optype):
            self.replace_node_output(node, old_output_name, new_output_name)

    def _of(self, only: Optional[Sequence[str]], never: Optional[Sequence[str]]) -> List[NodeProto]:
        return [n for n in self._model.graph.node if (n.op_type in only if only else n.op_type not in (never or ()))]

    def add_tensors_to_outputs(self, tensor_names: Iterable[str]) -> None:
        known = self.output()
        self._model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in tensor_names if n not in known)

    def remove_tensors_from_outputs(self, tensor_names: Iterable[str]) -> None:
        outputs = self._model.graph.output
        for found in [o for o in outputs if o.name in set(tensor_names)]:
            outputs.remove(found)

    def remove_unused_nodes(self) -> None:
        """Nodes whose results nobody reads, and initializers that nobody reads then."""
        while True:
            read = set(self._readers) | set(self.output())
            unread = [n for n in self.nodes() if not any(o in read for o in n.output)]
            if not unread:
                break
            self.remove_nodes(unread)
            self.update()
        self.clean_initializers()

    def remove_unused_init(self) -> None:
        self.clean_initializers()

    def topological_sort(self, enable_subgraph: bool = False) -> None:
        super().topological_sort()

    # ---- files ----

    def save(self, root: str) -> None:
        """Weights of a model that does not fit into one file go into another beside it."""
        if not Path(root).absolute().parent.exists():
            raise ValueError(f"the folder of {root} does not exist")
        if self.is_large_model:
            save_model(self._model, root, save_as_external_data=True, location=Path(root).name + "_data",
                       convert_attribute=False)
        else:
            save_model(self._model, root)

    def load_model_initializer_by_tensor(self, data_path: Optional[str] = None) -> None:
        """Reads weights that lie in other files."""
        folder = os.path.dirname(self._model_path or "") if data_path is None else data_path
        for tensor in self._model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)

    def write_external_data_to_new_location(self, external_data_location: str = "external.data",
                                            overwrite: bool = False) -> None:
        """Writes all weights into one file beside the model's."""
        folder = os.path.dirname(self._model_path or "")
        target = os.path.join(folder, external_data_location)
        self.load_model_initializer_by_tensor()
        if overwrite and os.path.exists(target):
            os.remove(target)
        onnx.external_data_helper.convert_model_to_external_data(self._model, location=external_data_location)
        onnx.external_data_helper.write_external_data_tensors(self._model, folder)
