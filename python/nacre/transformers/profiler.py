"""Runs a model with inputs of its kind and prints what its nodes took, or prints that of a profile's file.

    python -m nacre.transformers.profiler --model MODEL [--dummy_inputs bert] [--samples N]
    python -m nacre.transformers.profiler --input PROFILE.json
"""
from __future__ import annotations

import argparse
from typing import Any, Dict, List, Optional

import numpy as np
import onnx

from nacre.transformers.benchmark_helper import create_onnxruntime_session
from nacre.transformers.bert_test_data import _TYPES, find_bert_inputs, generate_test_data
from nacre.transformers.onnx_model import OnnxModel
from nacre.transformers.profile_result_processor import add_table_arguments, process_results

Feeds = List[Dict[str, np.ndarray]]


def parse_arguments(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Prints what the nodes of a model take.")
    parser.add_argument("-i", "--input", help="a profile's file that is there already")
    parser.add_argument("-m", "--model", help="the model's file, where --input is not given")
    parser.add_argument("-b", "--batch_size", type=int, default=1)
    parser.add_argument("-s", "--sequence_length", type=int, default=32)
    parser.add_argument("--past_sequence_length", type=int, default=1, help="of gpt2")
    parser.add_argument("--global_length", type=int, default=1, help="words that all look at, of longformer")
    parser.add_argument("--samples", type=int, default=1000, help="runs")
    parser.add_argument("--thread_num", type=int, default=-1)
    for name in ("input_ids", "segment_ids", "input_mask"):
        parser.add_argument(f"--{name}_name", help="of bert, where it is not found")
    parser.add_argument("--dummy_inputs", default="default", choices=["bert", "gpt2", "longformer", "default"])
    parser.add_argument("-g", "--use_gpu", action="store_true")
    parser.add_argument("--basic_optimization", action="store_true", help="basic passes alone")
    add_table_arguments(parser)
    return parser.parse_args(argv)


def run_profile(onnx_model_path: str, use_gpu: bool, provider: str, basic_optimization: bool, thread_num: int,
                all_inputs: Feeds) -> str:
    """The name of the profile's file."""
    session = create_onnxruntime_session(onnx_model_path, use_gpu, provider if use_gpu else None,
                                         enable_all_optimization=not basic_optimization, num_threads=thread_num,
                                         enable_profiling=True)
    if session is None:
        raise RuntimeError(f"{onnx_model_path}: no session; the log tells why")
    for feed in all_inputs:
        session.run(None, feed)
    return str(session.end_profiling())


def get_dim_from_type_proto(dim: Any) -> Any:
    """A number, a symbol, or None."""
    kind = dim.WhichOneof("value")
    return getattr(dim, kind) if kind else None


def get_shape_from_type_proto(type_proto: Any) -> List[Any]:
    return [get_dim_from_type_proto(d) for d in type_proto.tensor_type.shape.dim]


def _ones(value: Any, shape: List[int]) -> np.ndarray:
    kind = value.type.tensor_type.elem_type
    if kind not in _TYPES:
        raise ValueError(f"input '{value.name}' has element type {kind}, expected float, int32 or int64")
    return np.ones(shape, _TYPES[kind])


def create_dummy_inputs(onnx_model: OnnxModel, batch_size: int, sequence_length: int, samples: int) -> Optional[Feeds]:
    """Ones. The first symbol of an input is the batch, the second the length; None if one has more."""
    feed = {}
    for value in onnx_model.get_graph_inputs_excluding_initializers():
        shape = get_shape_from_type_proto(value.type)
        symbols = [i for i, d in enumerate(shape) if isinstance(d, str)]
        if len(symbols) > 2:
            return None
        for i, number in zip(symbols, (batch_size, sequence_length)):
            shape[i] = number
        feed[value.name] = _ones(value, shape)
    return [feed] * samples


def create_bert_inputs(onnx_model: OnnxModel, batch_size: int, sequence_length: int, samples: int,
                       input_ids_name: Optional[str] = None, segment_ids_name: Optional[str] = None,
                       input_mask_name: Optional[str] = None) -> Feeds:
    found = find_bert_inputs(onnx_model, input_ids_name, segment_ids_name, input_mask_name)
    return generate_test_data(batch_size, sequence_length, samples, 123, False, *found, sequence_length, False, 2)


def _by_symbols(onnx_model: OnnxModel, symbols: Dict[str, int]) -> Dict[str, np.ndarray]:
    feed = {}
    for value in onnx_model.get_graph_inputs_excluding_initializers():
        shape = get_shape_from_type_proto(value.type)
        unknown = [d for d in shape if isinstance(d, str) and d not in symbols]
        if unknown:
            raise RuntimeError(f"input '{value.name}' has dim '{unknown[0]}', expected one of {', '.join(symbols)}")
        feed[value.name] = _ones(value, [symbols[d] if isinstance(d, str) else d for d in shape])
    return feed


def create_gpt2_inputs(onnx_model: OnnxModel, batch_size: int, sequence_length: int, past_sequence_length: int,
                       samples: int) -> Feeds:
    """Ones, by the symbols that exported GPT-2 models have."""
    return [_by_symbols(onnx_model, {"batch_size": batch_size, "seq_len": sequence_length,
                                     "past_seq_len": past_sequence_length,
                                     "total_seq_len": sequence_length + past_sequence_length})] * samples


def create_longformer_inputs(onnx_model: OnnxModel, batch_size: int, sequence_length: int, global_length: int,
                             samples: int) -> Feeds:
    """Ones; of what has global in its name the first global_length of a sequence alone."""
    feed = _by_symbols(onnx_model, {"batch_size": batch_size, "sequence_length": sequence_length})
    for name in feed:
        if "global" in name:
            feed[name][:, global_length:] = 0
    return [feed] * samples


def run(args: argparse.Namespace) -> str:
    model, size = OnnxModel(onnx.load(args.model)), (args.batch_size, args.sequence_length)
    feeds: Optional[Feeds]
    if args.dummy_inputs == "bert":
        feeds = create_bert_inputs(model, *size, args.samples, args.input_ids_name, args.segment_ids_name,
                                   args.input_mask_name)
    elif args.dummy_inputs == "gpt2":
        feeds = create_gpt2_inputs(model, *size, args.past_sequence_length, args.samples)
    elif args.dummy_inputs == "longformer":
        feeds = create_longformer_inputs(model, *size, args.global_length, args.samples)
    else:
        feeds = create_dummy_inputs(model, *size, args.samples)
    if feeds is None:
        raise ValueError(f"{args.model}: an input has more than two symbols; --dummy_inputs says what kind it is")
    return run_profile(args.model, args.use_gpu, args.provider, args.basic_optimization, args.thread_num, feeds)


def main(argv: Optional[List[str]] = None) -> None:
    told = parse_arguments(argv)
    if not told.input and not told.model:
        raise SystemExit("say --model, to run it, or --input, a profile's file")
    print("\n".join(process_results(told.input or run(told), told)))


if __name__ == "__main__":
    main()
