"""Sizes of a model like BERT as constants, for one batch size and length: what Shapes give, and what Reshapes are told,
is found by a run. The library's own passes do it for dims that are numbers; this writes it into a file.

    python -m nacre.transformers.shape_optimizer --input MODEL --output MODEL --input_ids X --segment_ids Y
        --input_mask Z --enable_shape_opt --enable_reshape_opt [--batch_size N] [--sequence_length N]
"""
from __future__ import annotations

import argparse
import logging
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

import nacre
from nacre._files import save_model
from nacre.transformers.bert_test_data import _TYPES
from nacre.transformers.onnx_model import OnnxModel

logger = logging.getLogger(__name__)
CONSTANT_SHAPE_NAME_PREFIX = "constant_shape_opt__"
RESHAPE_INPUT_SHAPE_PREFIX = "reshape_input_shape__"


class BertOnnxModelShapeOptimizer(OnnxModel):
    def __init__(self, onnx_model: OnnxModel) -> None:
        super().__init__(onnx_model.model)

    def add_shape_initializer(self, shape: Any) -> onnx.TensorProto:
        count = sum(t.name.startswith(CONSTANT_SHAPE_NAME_PREFIX) for t in self.model.graph.initializer)
        tensor = numpy_helper.from_array(np.asarray(shape, np.int64), f"{CONSTANT_SHAPE_NAME_PREFIX}{count}")
        self.add_initializer(tensor)
        return tensor

    def get_shape_outputs(self) -> List[str]:
        """What Shapes give that somebody reads."""
        readers = self.input_name_to_nodes()
        return [n.output[0] for n in self.model.graph.node if n.op_type == "Shape" and n.output[0] in readers]

    def get_reshape_shape_inputs(self) -> List[str]:
        return [n.input[1] for n in self.model.graph.node if n.op_type == "Reshape"]

    def add_shape_for_reshape_input(self) -> List[str]:
        """A Shape of what each Reshape takes; their names."""
        sources = [n.input[0] for n in self.model.graph.node if n.op_type == "Reshape"]
        names = [f"{RESHAPE_INPUT_SHAPE_PREFIX}{i}" for i in range(len(sources))]
        self.add_nodes(helper.make_node("Shape", [x], [y], y) for x, y in zip(sources, names))
        return names

    def add_extra_graph_output(self, extra_outputs: Sequence[str]) -> List[str]:
        """Those of them that are no constants, which are outputs then."""
        names = [n for n in dict.fromkeys(extra_outputs) if self.get_initializer(n) is None]
        known = {o.name for o in self.model.graph.output}
        self.model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
        return names

    def use_static_input(self, inputs: Sequence[str], batch_size: int = 1, max_seq_len: int = 128) -> None:
        for value in self.model.graph.input:
            if value.name in inputs:
                first, second = value.type.tensor_type.shape.dim[:2]
                if second.HasField("dim_value") and second.dim_value != max_seq_len:
                    raise ValueError(f"input '{value.name}' has length {second.dim_value}, asked for was {max_seq_len}")
                first.dim_value, second.dim_value = batch_size, max_seq_len

    def create_dummy_inputs(self, input_ids: str, segment_ids: str, input_mask: str, batch_size: int,
                            sequence_length: int, elem_type: int, dictionary_size: int = 8) -> Dict[str, np.ndarray]:
        if elem_type not in _TYPES:
            raise ValueError(f"input '{input_ids}' has element type {elem_type}, expected float, int32 or int64")
        shape, kind = (batch_size, sequence_length), _TYPES[elem_type]
        words = np.random.randint(dictionary_size, size=shape, dtype=np.int32)
        return {input_ids: words.astype(kind), input_mask: np.ones(shape, kind), segment_ids: np.zeros(shape, kind)}

    def shape_optimization(self, temp_model_path: str, input_ids: str, segment_ids: str, input_mask: str,
                           output_names: List[str], batch_size: int, sequence_length: int, enable_shape_opt: bool,
                           enable_reshape_opt: bool, verbose: bool) -> None:
        self.bert_inputs = [input_ids, segment_ids, input_mask]
        told = self.get_reshape_shape_inputs() if enable_reshape_opt else []
        taken = self.add_shape_for_reshape_input() if enable_reshape_opt else []
        names = self.add_extra_graph_output([*(self.get_shape_outputs() if enable_shape_opt else []), *told, *taken])
        if not names:
            return
        self.use_static_input(self.bert_inputs, batch_size, sequence_length)
        self.topological_sort()
        kind = next(i.type.tensor_type.elem_type for i in self.model.graph.input if i.name == input_ids)
        feed = self.create_dummy_inputs(input_ids, segment_ids, input_mask, batch_size, sequence_length, kind)
        for value in self.get_graph_inputs_excluding_initializers():
            feed[value.name] = feed[value.name].astype(_TYPES[value.type.tensor_type.elem_type])
        options = nacre.SessionOptions()
        options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = nacre.InferenceSession(self.model.SerializeToString(), options)
        shapes: Dict[str, Any] = dict(zip(names, session.run(names, feed)))
        for target, source in zip(told, taken):
            self.update_target_shape(shapes, target, source, verbose)
        for name, shape in shapes.items():
            self.replace_input_of_all_nodes(name, self.add_shape_initializer(shape).name)
        self.prune_graph(output_names)

    def update_target_shape(self, shapes: Dict[str, Any], shape_input: str, input_shape: str, verbose: bool) -> None:
        """Dims that stay as they are become 0, as Reshape calls them: from (2,5,8) to (2,5,4,2) is (0,0,4,2)."""
        target, source = (shapes[n] if n in shapes else numpy_helper.to_array(self._constant(n))
                          for n in (shape_input, input_shape))
        shapes[shape_input] = [0 if i < len(source) and source[i] == d else int(d) for i, d in enumerate(target)]
        logger.debug("%s: from %s to %s is %s", shape_input, list(source), list(target), shapes[shape_input])

    def _constant(self, name: str) -> onnx.TensorProto:
        found = self.get_initializer(name)
        if found is None:
            raise ValueError(f"'{name}' is no initializer and was not computed")
        return found

    def validate_input(self, input: str) -> None:
        if self.find_graph_input(input) is None:
            raise ValueError(f"the graph has no input '{input}'; it has "
                             f"{', '.join(i.name for i in self.model.graph.input)}")

    def validate_outputs(self, output_names: List[str]) -> None:
        for name in output_names:
            if self.find_graph_output(name) is None:
                raise ValueError(f"the graph has no output '{name}'; it has "
                                 f"{', '.join(o.name for o in self.model.graph.output)}")

    def optimize(self, output_path: Optional[str], input_ids: str, segment_ids: str, input_mask: str,
                 enable_shape_opt: bool, enable_reshape_opt: bool, output_names: Optional[List[str]] = None,
                 batch_size: int = 1, sequence_length: int = 128, verbose: bool = False) -> None:
        if any(t.name.startswith(CONSTANT_SHAPE_NAME_PREFIX) for t in self.model.graph.initializer):
            logger.info("the sizes are constants already")
            return
        for name in (input_ids, segment_ids, input_mask):
            self.validate_input(name)
        if output_names is not None:
            self.validate_outputs(output_names)
            self.prune_graph(output_names)
        if enable_shape_opt or enable_reshape_opt:
            if len(self.get_graph_inputs_excluding_initializers()) != 3:
                logger.info("the model has not three inputs and stays")
                return
            self.shape_optimization("", input_ids, segment_ids, input_mask, [o.name for o in self.model.graph.output],
                                    batch_size, sequence_length, enable_shape_opt, enable_reshape_opt, verbose)
            logger.warning("the model is for a batch of %d and a length of %d now", batch_size, sequence_length)
        if output_path is not None:
            save_model(self.model, output_path)


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes a model like BERT whose sizes are constants.")
    for name in ("input", "output", "input_ids", "segment_ids", "input_mask"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--output_names", help="with ; between them; the others go")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--sequence_length", type=int, default=128)
    for flag in ("enable_shape_opt", "enable_reshape_opt", "verbose"):
        parser.add_argument("--" + flag, action="store_true")
    return parser.parse_args(arguments)


def setup_logging(verbose: bool) -> None:
    logging.basicConfig(format="%(filename)20s: %(message)s", level=logging.DEBUG if verbose else logging.INFO)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_arguments(arguments)
    setup_logging(told.verbose)
    outputs = told.output_names.split(";") if told.output_names else None
    BertOnnxModelShapeOptimizer(OnnxModel(onnx.load(told.input))).optimize(
        told.output, told.input_ids, told.segment_ids, told.input_mask, told.enable_shape_opt, told.enable_reshape_opt,
        outputs, told.batch_size, told.sequence_length, told.verbose)


if __name__ == "__main__":
    main()
