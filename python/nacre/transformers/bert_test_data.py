"""Inputs for models like BERT, drawn, and as files of a test.

    python -m nacre.transformers.bert_test_data --model MODEL [--batch_size N] [--sequence_length N] [--samples N]
"""
from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import nacre
from nacre._files import write
from nacre.transformers.onnx_model import OnnxModel

_TYPES = {TensorProto.FLOAT: np.float32, TensorProto.INT32: np.int32, TensorProto.INT64: np.int64}
Found = Tuple[Any, Any, Any]


def _as(data: np.ndarray, like: Any) -> np.ndarray:
    kind = like.type.tensor_type.elem_type
    if kind not in _TYPES:
        raise ValueError(f"input '{like.name}' has element type {kind}, expected float, int32 or int64")
    return data.astype(_TYPES[kind])


def fake_input_ids_data(input_ids: Any, batch_size: int, sequence_length: int, dictionary_size: int) -> np.ndarray:
    """Numbers of words, drawn by numpy's global generator, in the input's type."""
    return _as(np.random.randint(dictionary_size, size=(batch_size, sequence_length), dtype=np.int32), input_ids)


def fake_segment_ids_data(segment_ids: Any, batch_size: int, sequence_length: int) -> np.ndarray:
    return _as(np.zeros((batch_size, sequence_length), np.int32), segment_ids)


def get_random_length(max_sequence_length: int, average_sequence_length: int) -> int:
    """Drawn evenly from the widest range from 1 to the most whose middle is the average."""
    if not 1 <= average_sequence_length <= max_sequence_length:
        raise ValueError(f"an average of {average_sequence_length} is not between 1 and {max_sequence_length}")
    room = min(average_sequence_length - 1, max_sequence_length - average_sequence_length)
    return random.randint(average_sequence_length - room, average_sequence_length + room)


def fake_input_mask_data(input_mask: Any, batch_size: int, sequence_length: int, average_sequence_length: int,
                         random_sequence_length: bool, mask_type: int = 2) -> np.ndarray:
    """mask_type 1: lengths (batch); 2: ones and zeros (batch, sequence); 3: lengths and twice their sums from 0 on."""
    lengths = np.int32([get_random_length(sequence_length, average_sequence_length) if random_sequence_length else
                        average_sequence_length for _ in range(batch_size)])
    if mask_type == 1:
        return _as(lengths, input_mask)
    if mask_type == 2:
        return _as((np.arange(sequence_length) < lengths[:, None]).astype(np.int32), input_mask)
    if mask_type != 3:
        raise ValueError(f"mask_type is {mask_type}, expected 1, 2 or 3")
    sums = np.concatenate([[0], np.cumsum(lengths)])
    return _as(np.concatenate([lengths, sums, sums]), input_mask)


def fake_test_data(batch_size: int, sequence_length: int, test_cases: int, dictionary_size: int, verbose: bool,
                   random_seed: int, input_ids: Any, segment_ids: Any, input_mask: Any, average_sequence_length: int,
                   random_sequence_length: bool, mask_type: int) -> List[Dict[str, np.ndarray]]:
    """Feeds, the same ones for the same seed."""
    np.random.seed(random_seed)
    random.seed(random_seed)
    feeds = []
    for _ in range(test_cases):
        feed = {input_ids.name: fake_input_ids_data(input_ids, batch_size, sequence_length, dictionary_size)}
        if segment_ids is not None:
            feed[segment_ids.name] = fake_segment_ids_data(segment_ids, batch_size, sequence_length)
        if input_mask is not None:
            feed[input_mask.name] = fake_input_mask_data(input_mask, batch_size, sequence_length,
                                                         average_sequence_length, random_sequence_length, mask_type)
        feeds.append(feed)
    if verbose and feeds:
        print("the first:", feeds[0])
    return feeds


def generate_test_data(batch_size: int, sequence_length: int, test_cases: int, seed: int, verbose: bool, input_ids: Any,
                       segment_ids: Any, input_mask: Any, average_sequence_length: int, random_sequence_length: bool,
                       mask_type: int, dictionary_size: int = 10000) -> List[Dict[str, np.ndarray]]:
    return fake_test_data(batch_size, sequence_length, test_cases, dictionary_size, verbose, seed, input_ids,
                          segment_ids, input_mask, average_sequence_length, random_sequence_length, mask_type)


def output_test_data(directory: str, inputs: Dict[str, np.ndarray]) -> None:
    """input_0.pb and so on in a folder, which is made."""
    _write(Path(directory), "input", inputs)


def _write(folder: Path, kind: str, arrays: Dict[str, np.ndarray]) -> None:
    folder.mkdir(exist_ok=True)
    for i, (name, array) in enumerate(arrays.items()):
        write(folder / f"{kind}_{i}.pb", numpy_helper.from_array(array, name).SerializeToString())


# ---- which input is which ----

def get_graph_input_from_embed_node(onnx_model: OnnxModel, embed_node: Any, input_index: int) -> Any:
    """The graph's input that a node reads at this place, through a Cast if there is one."""
    if input_index >= len(embed_node.input):
        return None
    found = onnx_model.find_graph_input(embed_node.input[input_index])
    parent = onnx_model.get_parent(embed_node, input_index) if found is None else None
    return onnx_model.find_graph_input(parent.input[0]) if parent is not None and parent.op_type == "Cast" else found


def find_bert_inputs(onnx_model: OnnxModel, input_ids_name: Optional[str] = None,
                     segment_ids_name: Optional[str] = None, input_mask_name: Optional[str] = None) -> Found:
    """(ids, segments, mask): by the names that are told, else of three by who reads them, else by their names."""
    inputs = onnx_model.get_graph_inputs_excluding_initializers()
    if input_ids_name is not None:
        told = [input_ids_name, segment_ids_name, input_mask_name]
        found = [onnx_model.find_graph_input(name) if name else None for name in told]
        for name, value in zip(told, found):
            if name and value is None:
                raise ValueError(f"the graph has no input '{name}'; it has {', '.join(i.name for i in inputs)}")
        _expect(inputs, sum(v is not None for v in found))
        return found[0], found[1], found[2]
    _expect(inputs, 3)
    mask = next((i for i in reversed(inputs) if "mask" in i.name.lower()), None)
    embed = onnx_model.get_nodes_by_op_type("EmbedLayerNormalization")
    if len(embed) == 1:
        ids, segments, own = (get_graph_input_from_embed_node(onnx_model, embed[0], at) for at in (0, 1, 7))
        mask = own if own is not None else mask
    else:
        others = [i for i in inputs if "mask" not in i.name.lower()]
        of_segments = [any(w in i.name.lower() for w in ("token", "segment")) for i in others]
        segments = next((i for i, yes in zip(reversed(others), reversed(of_segments)) if yes), None)
        ids = next((i for i, yes in zip(reversed(others), reversed(of_segments)) if not yes), None)
    if mask is None or ids is None or segments is None:
        raise ValueError(f"which of {', '.join(i.name for i in inputs)} are ids, segments and mask? Say their names")
    return ids, segments, mask


def _expect(inputs: List[Any], count: int) -> None:
    if len(inputs) != count:
        raise ValueError(f"the graph has {len(inputs)} inputs, expected {count}: {', '.join(i.name for i in inputs)}")


def get_bert_inputs(onnx_file: str, input_ids_name: Optional[str] = None, segment_ids_name: Optional[str] = None,
                    input_mask_name: Optional[str] = None) -> Found:
    model = OnnxModel(onnx.load(onnx_file, load_external_data=False))
    return find_bert_inputs(model, input_ids_name, segment_ids_name, input_mask_name)


def create_and_save_test_data(model: str, output_dir: str, batch_size: int, sequence_length: int, test_cases: int,
                              seed: int, verbose: bool, input_ids_name: Optional[str], segment_ids_name: Optional[str],
                              input_mask_name: Optional[str], only_input_tensors: bool, average_sequence_length: int,
                              random_sequence_length: bool, mask_type: int) -> None:
    """Folders test_data_set_0 and so on, with inputs and, unless only they are wanted, what the model says to them."""
    found = get_bert_inputs(model, input_ids_name, segment_ids_name, input_mask_name)
    feeds = generate_test_data(batch_size, sequence_length, test_cases, seed, verbose, *found, average_sequence_length,
                               random_sequence_length, mask_type)
    session = None if only_input_tensors else nacre.InferenceSession(model, providers=nacre.get_available_providers())
    for i, feed in enumerate(feeds):
        folder = Path(output_dir) / f"test_data_set_{i}"
        _write(folder, "input", feed)
        if session is not None:
            names = [o.name for o in session.get_outputs()]
            _write(folder, "output", dict(zip(names, map(np.asarray, session.run(names, feed)))))


def add_input_arguments(parser: argparse.ArgumentParser, suffix: str = "_name") -> None:
    """What all scripts of this kind ask for."""
    for name in ("input_ids", "segment_ids", "input_mask"):
        parser.add_argument(f"--{name}{suffix}", help="the input's name, where it is not found")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--mask_type", type=int, default=2,
                        help="1: lengths, 2: ones and zeros, 3: lengths and their sums")


def add_length_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--average_sequence_length", type=int, default=-1, help="without padding; default: all")
    parser.add_argument("-r", "--random_sequence_length", action="store_true", help="lengths are drawn")


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes inputs and outputs of a model like BERT as files of a test.")
    parser.add_argument("--model", required=True, help="the model's file")
    parser.add_argument("--output_dir", help="default: batch_N_seq_N beside the model")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--sequence_length", type=int, default=128)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--only_input_tensors", action="store_true", help="no outputs")
    add_input_arguments(parser)
    add_length_arguments(parser)
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_arguments(arguments)
    average = told.average_sequence_length if told.average_sequence_length > 0 else told.sequence_length
    folder = Path(told.output_dir or Path(told.model).parent / f"batch_{told.batch_size}_seq_{told.sequence_length}")
    folder.mkdir(parents=True, exist_ok=True)
    create_and_save_test_data(told.model, str(folder), told.batch_size, told.sequence_length, told.samples, told.seed,
                              told.verbose, told.input_ids_name, told.segment_ids_name, told.input_mask_name,
                              told.only_input_tensors, average, told.random_sequence_length, told.mask_type)
    print("written into", folder)


if __name__ == "__main__":
    main()
