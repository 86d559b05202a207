"""How long a model like BERT takes, with one number of threads or with all that make sense.

    python -m nacre.transformers.bert_perf_test --model MODEL --batch_size 1 8 --sequence_length 128
"""
from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import random
import timeit
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

import nacre
from nacre._files import write, writing
from nacre.transformers.benchmark_helper import providers_of
from nacre.transformers.bert_test_data import (add_input_arguments, add_length_arguments, generate_test_data,
                                               get_bert_inputs)
from nacre.transformers.machine_info import MachineInfo

_LEVELS = {0: "DISABLE_ALL", 1: "ENABLE_BASIC", 2: "ENABLE_EXTENDED", 3: "ENABLE_LAYOUT", 99: "ENABLE_ALL"}


@dataclass
class TestSetting:
    batch_size: int
    sequence_length: int
    test_cases: int
    test_times: int
    use_gpu: bool
    use_io_binding: bool
    provider: str
    intra_op_num_threads: int
    seed: int
    verbose: bool
    log_severity: int
    average_sequence_length: int
    random_sequence_length: bool


@dataclass
class ModelSetting:
    model_path: str
    input_ids_name: str
    segment_ids_name: str
    input_mask_name: str
    opt_level: int
    input_tuning_results: Optional[str]
    output_tuning_results: Optional[str]
    mask_type: int


TestSetting.__test__ = False  # type: ignore[attr-defined]  # pytest takes names that begin so for tests


def create_session(model_path: str, use_gpu: bool, provider: Optional[str], intra_op_num_threads: Optional[int],
                   graph_optimization_level: Any = None, log_severity: int = 2,
                   tuning_results_path: Optional[str] = None) -> Any:
    options, level = nacre.SessionOptions(), graph_optimization_level
    options.log_severity_level, options.execution_mode = log_severity, nacre.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = getattr(nacre.GraphOptimizationLevel, "ORT_" + _LEVELS[
        99 if level is None else int(level)])
    if intra_op_num_threads is not None:
        options.intra_op_num_threads = intra_op_num_threads
    wanted = providers_of(use_gpu, provider if use_gpu else None)
    session = nacre.InferenceSession(model_path, options, providers=wanted)
    if wanted[0] not in session.get_providers():
        raise RuntimeError(f"{wanted[0]} was asked for; the session has {', '.join(session.get_providers())}")
    if tuning_results_path is not None:
        with open(tuning_results_path, encoding="utf-8") as file:
            session.set_tuning_results(json.load(file))
    return session


def numpy_type(torch_type: Any) -> Any:
    import torch
    return {torch.float32: np.float32, torch.float16: np.float16, torch.int32: np.int32,
            torch.int64: np.longlong}[torch_type]


def create_input_output_tensors(inputs: Dict[str, Any], outputs: Dict[str, Any], device: Any) -> Tuple[Any, Any]:
    import torch
    made = [{name: torch.from_numpy(array).to(device) for name, array in part.items()} for part in (inputs, outputs)]
    return made[0], made[1]


def create_io_binding(sess: Any, input_tensors: Dict[str, Any], output_tensors: Dict[str, Any]) -> Any:
    binding = sess.io_binding()
    for bind, tensors in ((binding.bind_input, input_tensors), (binding.bind_output, output_tensors)):
        for name, t in tensors.items():
            bind(name, t.device.type, 0, numpy_type(t.dtype), t.shape, t.data_ptr())
    return binding


def _seconds(run: Any) -> Tuple[Any, float]:
    start = timeit.default_timer()
    return run(), timeit.default_timer() - start


def onnxruntime_inference_with_io_binding(session: Any, all_inputs: List[Dict[str, Any]], output_names: List[str],
                                          test_setting: TestSetting) -> Tuple[List[Any], List[float]]:
    """(outputs, seconds) of each, bound before and run once before."""
    results, seconds = [], []
    for feed in all_inputs:
        results.append(session.run(output_names, feed))
        tensors = create_input_output_tensors(feed, dict(zip(output_names, results[-1])),
                                              "cuda" if test_setting.use_gpu else "cpu")
        binding = create_io_binding(session, *tensors)
        session.run_with_iobinding(binding)
        seconds.append(_seconds(lambda binding=binding: session.run_with_iobinding(binding))[1])
    return results, seconds


def onnxruntime_inference(session: Any, all_inputs: List[Dict[str, Any]],
                          output_names: List[str]) -> Tuple[List[Any], List[float]]:
    """(outputs, seconds) of each; one of them is run before."""
    if all_inputs:
        session.run(output_names, random.choice(all_inputs))
    both = [_seconds(lambda feed=feed: session.run(output_names, feed)) for feed in all_inputs]
    return [b[0] for b in both], [b[1] for b in both]


def to_string(model_path: str, session: Any, test_setting: TestSetting) -> str:
    """What was measured, name=value between commas."""
    options, t = session.get_session_options(), test_setting
    level = str(options.graph_optimization_level).replace("GraphOptimizationLevel.ORT_", "")
    told = {"model": os.path.basename(model_path), "graph_optimization_level": level,
            "intra_op_num_threads": options.intra_op_num_threads,
            **{n: getattr(t, n) for n in ("batch_size", "sequence_length", "test_cases", "test_times", "use_gpu",
                                          "use_io_binding", "average_sequence_length", "random_sequence_length")}}
    return ",".join(f"{n}={v}" for n, v in told.items())


def run_one_test(model_setting: ModelSetting, test_setting: TestSetting, perf_results: Any, all_inputs: List[Any],
                 intra_op_num_threads: Optional[int]) -> None:
    """Puts (mean, percentiles 50 to 99, inputs a second) into perf_results; times in milliseconds."""
    m, t = model_setting, test_setting
    session = create_session(m.model_path, t.use_gpu, t.provider, intra_op_num_threads, m.opt_level, t.log_severity,
                             m.input_tuning_results)
    key, names = to_string(m.model_path, session, t), [o.name for o in session.get_outputs()]
    if key in perf_results:
        return
    seconds: List[float] = []
    for _ in range(t.test_times):
        seconds += (onnxruntime_inference_with_io_binding(session, all_inputs, names, t) if t.use_io_binding else
                    onnxruntime_inference(session, all_inputs, names))[1]
    ms = np.array(seconds) * 1000
    perf_results[key] = (float(ms.mean()), *(float(np.percentile(ms, p)) for p in (50, 75, 90, 95, 99)),
                         t.batch_size * 1000 / float(ms.mean()))
    print(f"{key}: {ms.mean():.2f} ms, {perf_results[key][-1]:.2f} a second")
    if m.output_tuning_results:
        path = Path(m.output_tuning_results)
        if path.exists():
            path = path.with_suffix(f".{datetime.now().timestamp()}.json")
        write(path, json.dumps(session.get_tuning_results()))


def launch_test(model_setting: ModelSetting, test_setting: TestSetting, perf_results: Any, all_inputs: List[Any],
                intra_op_num_threads: Optional[int]) -> None:
    """In a process of its own, so that no test finds what another has left."""
    process = multiprocessing.Process(target=run_one_test, args=(model_setting, test_setting, perf_results, all_inputs,
                                                                 intra_op_num_threads))
    process.start()
    process.join()


def run_perf_tests(model_setting: ModelSetting, test_setting: TestSetting, perf_results: Any,
                   all_inputs: List[Any]) -> None:
    cpu = MachineInfo(silent=True).get_cpu_info()
    threads = [test_setting.intra_op_num_threads] if test_setting.intra_op_num_threads is not None else sorted(
        {cpu["cores"], cpu["logical_cores"], *range(1, min(16, cpu["logical_cores"]))}, reverse=True)
    for count in threads:
        launch_test(model_setting, test_setting, perf_results, all_inputs, count)


def run_performance(model_setting: ModelSetting, test_setting: TestSetting, perf_results: Any) -> None:
    m, t = model_setting, test_setting
    found = get_bert_inputs(m.model_path, m.input_ids_name, m.segment_ids_name, m.input_mask_name)
    feeds = generate_test_data(t.batch_size, t.sequence_length, t.test_cases, t.seed, t.verbose, *found,
                               t.average_sequence_length, t.random_sequence_length, m.mask_type)
    run_perf_tests(m, t, perf_results, feeds)


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures a model like BERT.")
    parser.add_argument("--model", required=True, help="the model's file")
    parser.add_argument("-b", "--batch_size", required=True, type=int, nargs="+", help="from 1 to 128")
    parser.add_argument("-s", "--sequence_length", required=True, type=int)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("-t", "--test_times", type=int, default=0, help="runs of a sample; default: 1000 / samples")
    parser.add_argument("--opt_level", type=int, choices=sorted(_LEVELS), default=99)
    parser.add_argument("--log_severity", type=int, default=2, choices=range(5))
    parser.add_argument("--use_gpu", action="store_true")
    parser.add_argument("--use_io_binding", action="store_true")
    parser.add_argument("--provider")
    parser.add_argument("-n", "--intra_op_num_threads", type=int, help="default: each number up to that of the cores")
    parser.add_argument("--input_tuning_results", help="a file of tuning results to begin with")
    parser.add_argument("--output_tuning_results", help="where those of the session go")
    add_input_arguments(parser)
    add_length_arguments(parser)
    return parser.parse_args(arguments)


def _write(path: Path, results: List[Tuple[str, Any]]) -> None:
    heads = ["Latency(ms)", *(f"Latency_P{p}" for p in (50, 75, 90, 95, 99)), "Throughput(QPS)"]
    with writing(path, newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        for i, (key, numbers) in enumerate(results):
            told = [part.split("=") for part in key.split(",")]
            if i == 0:
                writer.writerow(heads + [name for name, _ in told])
            writer.writerow([f"{x:.2f}" for x in numbers] + [value for _, value in told])


def main(arguments: Optional[List[str]] = None) -> Path:
    told = parse_arguments(arguments)
    batches = sorted(set(told.batch_size))
    if not 1 <= batches[0] <= batches[-1] <= 128:
        raise ValueError(f"batch_size is {batches}, expected numbers from 1 to 128")
    average = told.average_sequence_length if told.average_sequence_length > 0 else told.sequence_length
    times, results = told.test_times or max(1, 1000 // told.samples), multiprocessing.Manager().dict()
    model = ModelSetting(told.model, told.input_ids_name, told.segment_ids_name, told.input_mask_name, told.opt_level,
                         told.input_tuning_results, told.output_tuning_results, told.mask_type)
    for batch in batches:
        run_performance(model, TestSetting(batch, told.sequence_length, told.samples, times, told.use_gpu,
                                           told.use_io_binding, told.provider, told.intra_op_num_threads, told.seed,
                                           told.verbose, told.log_severity, average, told.random_sequence_length),
                        results)
    path = Path(told.model).parent / (f"perf_results_{'GPU' if told.use_gpu else 'CPU'}_B{'-'.join(map(str, batches))}_"
                                      f"S{told.sequence_length}_{datetime.now():%Y%m%d-%H%M%S}.txt")
    _write(path, sorted(results.items(), key=lambda r: r[1]))
    print("written to", path)
    return path


if __name__ == "__main__":
    main()
