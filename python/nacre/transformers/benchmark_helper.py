"""What scripts that measure models share: sessions, timings, memory, tables of results."""
from __future__ import annotations

import csv
import importlib
import logging
import os
import random
import shutil
import subprocess
import sys
import timeit
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from enum import Enum
from time import sleep
from typing import Any, Callable, Dict, List, Optional

import numpy

import nacre

logger = logging.getLogger(__name__)
IO_BINDING_DATA_TYPE_MAP = {"float32": numpy.float32}
_POLL = 0.005  # seconds between two looks at the memory


class Precision(Enum):
    FLOAT32 = "fp32"
    FLOAT16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"

    def __str__(self) -> str:
        return self.value


class OptimizerInfo(Enum):
    """Who has optimized a model: nobody, the library when it loads it, or a script before."""
    NOOPT = "no_opt"
    BYORT = "by_ort"
    BYSCRIPT = "by_script"

    def __str__(self) -> str:
        return self.value


class ConfigModifier:
    """Another number of layers in a config of Hugging Face; None leaves it."""

    def __init__(self, num_layers: Optional[int]) -> None:
        self.num_layers = num_layers

    def modify(self, config: Any) -> None:
        for name in ("num_hidden_layers", "encoder_layers", "decoder_layers"):
            if self.num_layers is not None and hasattr(config, name):
                setattr(config, name, self.num_layers)

    def get_layer_num(self) -> Optional[int]:
        return self.num_layers


# ---- sessions ----

_CHAINS = {"dml": ["DmlExecutionProvider"], "migraphx": ["MIGraphXExecutionProvider"],
           "cuda": ["CUDAExecutionProvider"], "tensorrt": ["TensorrtExecutionProvider", "CUDAExecutionProvider"]}


def providers_of(use_gpu: bool, provider: Optional[str]) -> List[str]:
    """By a provider's own name, or a short one; the CPU's comes last."""
    if provider in nacre.get_available_providers():
        return [provider]
    if not use_gpu:
        return ["CPUExecutionProvider"]
    if (provider or "cuda") not in _CHAINS:
        raise RuntimeError(f"provider is '{provider}', expected one of {', '.join(_CHAINS)}")
    return [*_CHAINS[provider or "cuda"], "CPUExecutionProvider"]


def create_onnxruntime_session(onnx_model_path: Any, use_gpu: bool, provider: Optional[str] = None,
                               enable_all_optimization: bool = True, num_threads: int = -1,
                               enable_profiling: bool = False, verbose: bool = False,
                               enable_mlas_gemm_fastmath_arm64_bfloat16: bool = False,
                               provider_options: Optional[Dict[str, Any]] = None) -> Any:
    """A session, or None with the reason in the log."""
    level, options = nacre.GraphOptimizationLevel, nacre.SessionOptions()
    options.graph_optimization_level = level.ORT_ENABLE_ALL if enable_all_optimization else level.ORT_ENABLE_BASIC
    options.enable_profiling, options.log_severity_level = enable_profiling, 0 if verbose else 4
    if num_threads > 0:
        options.intra_op_num_threads = num_threads
    if enable_mlas_gemm_fastmath_arm64_bfloat16:
        options.add_session_config_entry("mlas.enable_gemm_fastmath_arm64_bfloat16", "1")
    wanted = [(p, provider_options[p]) if p in (provider_options or {}) else p
              for p in providers_of(use_gpu, provider)]
    try:
        return nacre.InferenceSession(onnx_model_path, options, providers=wanted)
    except Exception:
        logger.exception("%s: no session with providers %s", onnx_model_path, wanted)
        return None


def setup_logger(verbose: bool = True) -> None:
    logging.basicConfig(format="[%(filename)s:%(lineno)s - %(funcName)20s()] %(message)s" if verbose else "%(message)s",
                        level=logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        logging.getLogger("transformers").setLevel(logging.WARNING)


def prepare_environment(cache_dir: Optional[str], output_dir: Optional[str], use_gpu: bool,
                        provider: Optional[str] = None) -> None:
    """Makes the folders; a GPU that is asked for must be there."""
    for folder in (cache_dir, output_dir):
        if folder:
            os.makedirs(folder, exist_ok=True)
    wanted = _CHAINS.get(provider or "cuda", ["CUDAExecutionProvider"])
    if use_gpu and not set(wanted) & set(nacre.get_available_providers()):
        raise AssertionError(f"{' and '.join(wanted)} is not there; there is "
                             f"{', '.join(nacre.get_available_providers())}")
    logger.info("nacre %s", nacre.__version__)


# ---- timings ----

def get_latency_result(latency_list: List[float], batch_size: int) -> Dict[str, Any]:
    """Of seconds that runs took: milliseconds and inputs a second, as texts."""
    mean = float(numpy.mean(latency_list)) * 1000
    told: Dict[str, Any] = {"test_times": len(latency_list),
                            "latency_variance": f"{numpy.var(latency_list, dtype=numpy.float64) * 1000:.2f}"}
    for part in (90, 95, 99):
        told[f"latency_{part}_percentile"] = f"{numpy.percentile(latency_list, part) * 1000:.2f}"
    return {**told, "average_latency_ms": f"{mean:.2f}", "QPS": f"{batch_size * 1000 / mean:.2f}"}


def _timed(run: Callable[[], Any], template: Dict[str, Any], binding: bool, repeat: int, warm_up: int,
           batch_size: int) -> Dict[str, Any]:
    timeit.repeat(run, number=1, repeat=warm_up)
    return {**template, "io_binding": binding,
            **get_latency_result(timeit.repeat(run, number=1, repeat=repeat), batch_size)}


def inference_ort(ort_session: Any, ort_inputs: Dict[str, Any], result_template: Dict[str, Any], repeat_times: int,
                  batch_size: int, warm_up_repeat: int = 0) -> Dict[str, Any]:
    return _timed(lambda: ort_session.run(None, ort_inputs), result_template, False, repeat_times, warm_up_repeat,
                  batch_size)


def inference_ort_with_io_binding(ort_session: Any, ort_inputs: Dict[str, Any], result_template: Dict[str, Any],
                                  repeat_times: int, ort_output_names: List[str], ort_outputs: List[Any],
                                  output_buffers: List[Any], output_buffer_max_sizes: List[int], batch_size: int,
                                  device: Any, data_type: Any = numpy.longlong,
                                  warm_up_repeat: int = 0) -> Dict[str, Any]:
    """Inputs and outputs lie on the device; outputs are floats of the shapes of ort_outputs."""
    import torch
    binding, held = ort_session.io_binding(), []
    for name, array in ort_inputs.items():
        held.append(torch.from_numpy(array).to(device))
        binding.bind_input(name, held[-1].device.type, 0, IO_BINDING_DATA_TYPE_MAP.get(str(array.dtype), data_type),
                           held[-1].shape, held[-1].data_ptr())
    if not output_buffers:
        allocateOutputBuffers(output_buffers, output_buffer_max_sizes, device)
    for name, like, buffer in zip(ort_output_names, ort_outputs, output_buffers):
        binding.bind_output(name, buffer.device.type, 0, numpy.float32, like.shape, buffer.data_ptr())
    return _timed(lambda: ort_session.run_with_iobinding(binding), result_template, True, repeat_times, warm_up_repeat,
                  batch_size)


def allocateOutputBuffers(output_buffers: List[Any], output_buffer_max_sizes: List[int], device: Any) -> None:
    import torch
    output_buffers.extend(torch.empty(n, dtype=torch.float32, device=device) for n in output_buffer_max_sizes)


def set_random_seed(seed: int = 123) -> None:
    import torch
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


# ---- tables ----

_WHAT = ["engine", "version", "providers", "device", "precision", "optimizer", "io_binding", "model_name", "inputs",
         "threads"]
_DETAILS = [*_WHAT, "batch_size", "sequence_length", "custom_layer_num", "datetime", "test_times", "QPS",
            "average_latency_ms", "latency_variance", *(f"latency_{p}_percentile" for p in (90, 95, 99))]
_SUMMARY = ["model_name", "inputs", "custom_layer_num", *(n for n in _WHAT if n not in ("model_name", "inputs"))]


def _append(csv_filename: str, columns: List[str], rows: List[Dict[str, Any]]) -> None:
    with open(csv_filename, "a", newline="", encoding="ascii") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    logger.info("%d rows in %s", len(rows), csv_filename)


def output_details(results: List[Dict[str, Any]], csv_filename: str) -> None:
    _append(csv_filename, _DETAILS, results)


def output_summary(results: List[Dict[str, Any]], csv_filename: str, args: Any) -> None:
    """A row a model and way to run it, a column a batch size and length of sequences."""
    sizes = [f"b{b}" if args.sequence_lengths == [""] else f"b{b}_s{s}" for b in args.batch_sizes
             for s in (args.sequence_lengths if args.sequence_lengths != [""] else [""])]
    rows: Dict[Any, Dict[str, Any]] = {}
    order = [args.models, [1, 2, 3], args.engines, [True, False, ""], args.num_threads]
    for r in results:
        key = tuple(r[n] for n in ("model_name", "inputs", "engine", "io_binding", "threads"))
        if any(k not in known for k, known in zip(key, order)):
            continue
        row = rows.setdefault(key, {**{n: r[n] for n in _SUMMARY if n in r}, **dict.fromkeys(sizes, "")})
        row[f"b{r['batch_size']}_s{r['sequence_length']}" if r["sequence_length"] else f"b{r['batch_size']}"] = \
            r["average_latency_ms"]
    places = sorted(rows, key=lambda key: [known.index(k) for k, known in zip(key, order)])
    _append(csv_filename, _SUMMARY + sizes, [rows[key] for key in places])


def output_fusion_statistics(model_fusion_statistics: Dict[str, Dict[str, Any]], csv_filename: str) -> None:
    versions = {n: getattr(importlib.import_module(n), "__version__", "") for n in ("transformers", "torch")}
    rows = [{**told, "model_filename": name, "datetime": str(datetime.now()), **versions}
            for name, told in model_fusion_statistics.items()]
    first = next(iter(model_fusion_statistics.values()))
    _append(csv_filename, ["model_filename", "datetime", "transformers", "torch", *first], rows)


# ---- memory ----

def get_gpu_info() -> Optional[List[Dict[str, Any]]]:
    """Bytes of each GPU as nvidia-smi tells them; None where it is not."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    said = subprocess.run([tool, "--query-gpu=index,name,memory.total,memory.free,memory.used",
                           "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False)
    if said.returncode:
        logger.error("nvidia-smi: %s", said.stdout.strip() or said.stderr.strip())
        return None
    rows = [[part.strip() for part in line.split(",")] for line in said.stdout.splitlines()]
    return [{"id": int(i), "name": name, "total": int(total) << 20, "free": int(free) << 20, "used": int(used) << 20}
            for i, name, total, free, used in rows]


def _resident() -> float:
    """MiB that this process holds in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class MemoryMonitor(ABC):
    """Looks at the memory until keep_measuring is False, at least once, and tells the most that it saw."""

    def __init__(self, keep_measuring: bool = True) -> None:
        self.keep_measuring = keep_measuring

    def measure_cpu_usage(self) -> float:
        most = _resident()
        while self.keep_measuring:
            sleep(_POLL)
            most = max(most, _resident())
        return most

    @abstractmethod
    def measure_gpu_usage(self) -> Optional[List[Dict[str, Any]]]:
        raise NotImplementedError()

    def _most(self, look: Callable[[], Optional[List[Dict[str, Any]]]]) -> Optional[List[Dict[str, Any]]]:
        """look: [{"device_id", "name", "max_used_MB"}] of now."""
        most = look()
        while most is not None and self.keep_measuring:
            sleep(_POLL)
            for known, now in zip(most, look() or []):
                known["max_used_MB"] = max(known["max_used_MB"], now["max_used_MB"])
        return most


class CudaMemoryMonitor(MemoryMonitor):
    def measure_gpu_usage(self) -> Optional[List[Dict[str, Any]]]:
        def look() -> Optional[List[Dict[str, Any]]]:
            told = get_gpu_info()
            return told and [{"device_id": t["id"], "name": t["name"], "max_used_MB": t["used"] / 2**20} for t in told]
        return self._most(look)


class RocmMemoryMonitor(MemoryMonitor):
    """Of AMD's GPUs, by the module rocm_smi."""

    def __init__(self, keep_measuring: bool = True) -> None:
        super().__init__(keep_measuring)
        folder = "/opt/rocm/libexec/rocm_smi"
        if os.path.exists(folder) and folder not in sys.path:
            sys.path.append(folder)
        try:
            self.rocm_smi: Any = importlib.import_module("rocm_smi")
            self.rocm_smi.initializeRsmi()
        except ImportError:
            self.rocm_smi = None

    def get_used_memory(self, dev: int) -> float:
        """MiB; -1 where nothing tells."""
        return -1 if self.rocm_smi is None else self.rocm_smi.getMemInfo(dev, "VRAM")[0] / 2**20

    def measure_gpu_usage(self) -> Optional[List[Dict[str, Any]]]:
        if self.rocm_smi is None:
            return None
        count = len(self.rocm_smi.listDevices())
        return self._most(lambda: [{"device_id": i, "name": f"GPU{i}", "max_used_MB": self.get_used_memory(i)}
                                   for i in range(count)])


def measure_memory(is_gpu: bool, func: Optional[Callable[[], Any]], monitor_type: str = "cuda",
                   start_memory: Any = None) -> Any:
    """MiB by which the memory grew while func ran, of the GPU on which it grew most; without func what is used now.
    None where nothing tells of a GPU."""
    kind = RocmMemoryMonitor if monitor_type == "rocm" else CudaMemoryMonitor
    once = kind(False)
    before = start_memory if start_memory is not None else (
        once.measure_gpu_usage() if is_gpu else once.measure_cpu_usage())
    if before is None or func is None:
        return before
    monitor = kind()
    with ThreadPoolExecutor() as pool:
        watching = pool.submit(monitor.measure_gpu_usage if is_gpu else monitor.measure_cpu_usage)
        try:
            pool.submit(func).result()
        finally:
            monitor.keep_measuring = False
        most: Any = watching.result()
    if not is_gpu:
        return most - before
    return most and max([0, *(m["max_used_MB"] - b["max_used_MB"] for b, m in zip(before, most))])


def get_ort_environment_variables() -> str:
    """Those that change how onnxruntime runs transformers, as far as they are set."""
    names = [*(f"ORT_DISABLE_{n}" for n in ("FUSED_ATTENTION", "FUSED_CROSS_ATTENTION", "TRT_FLASH_ATTENTION",
                                            "MEMORY_EFFICIENT_ATTENTION")),
             "ORT_TRANSFORMER_OPTIONS", "ORT_CUDA_GEMM_OPTIONS"]
    return ",".join(f"{n}={os.environ[n]}" for n in names if n in os.environ)
