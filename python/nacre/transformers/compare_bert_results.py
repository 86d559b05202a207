"""Whether two models like BERT say the same to drawn inputs: the one before and the one after optimization.

    python -m nacre.transformers.compare_bert_results --baseline_model A --optimized_model B --batch_size 1
        --sequence_length 128
"""
from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from nacre.transformers.bert_perf_test import create_session, onnxruntime_inference
from nacre.transformers.bert_test_data import (add_input_arguments, generate_test_data, get_bert_inputs,
                                               output_test_data)
from nacre.transformers.machine_info import MachineInfo


def run_model(model_path: str, all_inputs: List[Dict[str, Any]], use_gpu: bool,
              disable_optimization: bool) -> Tuple[List[Any], List[float], List[str]]:
    """(outputs, seconds, names of outputs)."""
    session = create_session(model_path, use_gpu, "cuda" if use_gpu else "cpu",
                             MachineInfo(silent=True).get_cpu_info()["cores"], 0 if disable_optimization else None)
    names = [o.name for o in session.get_outputs()]
    return (*onnxruntime_inference(session, all_inputs, names), names)


def compare(baseline_results: List[Any], treatment_results: List[Any], verbose: bool, rtol: float = 1e-1,
            atol: float = 1e-3) -> Tuple[float, bool]:
    """(the greatest difference, whether all are near enough)."""
    most, part, wrong = 0.0, 0.0, 0
    for case, (wants, gots) in enumerate(zip(baseline_results, treatment_results)):
        off = [np.abs(np.asarray(got) - want) for got, want in zip(gots, wants)]
        near = [np.allclose(want, got, rtol=rtol, atol=atol) for got, want in zip(gots, wants)]
        most, part = max(most, *(o.max() for o in off)), max(part, *(100 * np.mean(o > atol) for o in off))
        wrong += not all(near)
        if verbose and not all(near):
            print(f"case {case}: outputs {[i for i, n in enumerate(near) if not n]} differ, by {max(map(np.max, off))}")
    print(f"{len(baseline_results) - wrong} of {len(baseline_results)} are the same (rtol {rtol}, atol {atol}); the "
          f"greatest difference is {most}, at most {part:.3f}% of the numbers differ by more than atol")
    return most, wrong == 0


def run_test(baseline_model: str, optimized_model: str, output_dir: Optional[str], batch_size: int,
             sequence_length: int, use_gpu: bool, test_cases: int, seed: int, verbose: bool, rtol: float, atol: float,
             input_ids_name: Optional[str], segment_ids_name: Optional[str], input_mask_name: Optional[str],
             mask_type: int, dictionary_size: int = 1024) -> Tuple[float, bool]:
    """Lengths without padding are drawn around half of the sequence."""
    found = get_bert_inputs(optimized_model, input_ids_name, segment_ids_name, input_mask_name)
    feeds = generate_test_data(batch_size, sequence_length, test_cases, seed, verbose, *found,
                               max(sequence_length // 2, 1), True, mask_type, dictionary_size)
    if output_dir is not None:
        for i, feed in enumerate(feeds):
            output_test_data(str(Path(output_dir) / f"test_data_set_{i}"), feed)
    wants, before, _ = run_model(baseline_model, feeds, use_gpu, disable_optimization=True)
    gots, after, _ = run_model(optimized_model, feeds, use_gpu, disable_optimization=False)
    if verbose:
        print(f"{statistics.mean(before) * 1000:.2f} ms without optimization, {statistics.mean(after) * 1000:.2f} with")
    return compare(wants, gots, verbose, rtol, atol)


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares two models like BERT.")
    parser.add_argument("--baseline_model", required=True, help="runs without optimization")
    parser.add_argument("--optimized_model", required=True, help="has the same inputs")
    parser.add_argument("--output_dir", help="where the inputs go as files of tests")
    parser.add_argument("--batch_size", required=True, type=int)
    parser.add_argument("--sequence_length", required=True, type=int)
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-4)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--use_gpu", action="store_true")
    add_input_arguments(parser, suffix="")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> Tuple[float, bool]:
    told = parse_arguments(arguments)
    if told.output_dir is not None:
        Path(told.output_dir).mkdir(parents=True, exist_ok=True)
    return run_test(told.baseline_model, told.optimized_model, told.output_dir, told.batch_size, told.sequence_length,
                    told.use_gpu, told.samples, told.seed, told.verbose, told.rtol, told.atol, told.input_ids,
                    told.segment_ids, told.input_mask, told.mask_type)


if __name__ == "__main__":
    main()
