"""Records of measurements, as JSON and CSV."""
from __future__ import annotations

import csv
import datetime
import json
from typing import Any, Dict, List, Optional

from nacre._files import writing


class BaseObject:
    """Fields, and customized ones beside them; empty ones are not told."""

    def __init__(self) -> None:
        self.customized: Dict[str, Any] = {}

    def to_dict(self) -> Dict[str, Any]:
        told = {**{n: v for n, v in self.__dict__.items() if n != "customized"}, **self.customized}
        told = {n: v.to_dict() if isinstance(v, BaseObject) else v for n, v in told.items()}
        return {n: v for n, v in told.items() if v}


class ModelInfo(BaseObject):
    def __init__(self, full_name: Optional[str] = None, is_huggingface: Optional[bool] = False,
                 is_text_generation: Optional[bool] = False, short_name: Optional[str] = None) -> None:
        super().__init__()
        self.full_name, self.is_huggingface = full_name, is_huggingface
        self.is_text_generation, self.short_name = is_text_generation, short_name
        self.input_shape: List[Any] = []


class BackendOptions(BaseObject):
    def __init__(self, enable_profiling: Optional[bool] = False, execution_provider: Optional[str] = None,
                 use_io_binding: Optional[bool] = False) -> None:
        super().__init__()
        self.enable_profiling, self.execution_provider = enable_profiling, execution_provider
        self.use_io_binding = use_io_binding


class Config(BaseObject):
    def __init__(self, backend: Optional[str] = "onnxruntime", batch_size: Optional[int] = 1,
                 seq_length: Optional[int] = 0, precision: Optional[str] = "fp32", warmup_runs: Optional[int] = 1,
                 measured_runs: Optional[int] = 10) -> None:
        super().__init__()
        self.backend, self.batch_size, self.seq_length, self.precision = backend, batch_size, seq_length, precision
        self.warmup_runs, self.measured_runs = warmup_runs, measured_runs
        self.model_info, self.backend_options = ModelInfo(), BackendOptions()


class Metadata(BaseObject):
    def __init__(self, device: Optional[str] = None, package_name: Optional[str] = None,
                 package_version: Optional[str] = None, platform: Optional[str] = None,
                 python_version: Optional[str] = None) -> None:
        super().__init__()
        self.device, self.package_name, self.package_version = device, package_name, package_version
        self.platform, self.python_version = platform, python_version


class Metrics(BaseObject):
    def __init__(self, latency_ms_mean: Optional[float] = 0.0, throughput_qps: Optional[float] = 0.0,
                 max_memory_usage_GB: Optional[float] = 0.0) -> None:
        super().__init__()
        self.latency_ms_mean, self.throughput_qps = latency_ms_mean, throughput_qps
        self.max_memory_usage_GB = max_memory_usage_GB


class BenchmarkRecord:
    def __init__(self, model_name: str, precision: str, backend: str, device: str, package_name: str,
                 package_version: str, batch_size: Optional[int] = 1, warmup_runs: Optional[int] = 1,
                 measured_runs: Optional[int] = 10, trigger_date: Optional[str] = None) -> None:
        self.config = Config(backend, batch_size, precision=precision, warmup_runs=warmup_runs,
                             measured_runs=measured_runs)
        self.config.model_info.full_name = model_name
        self.metrics, self.metadata = Metrics(), Metadata(device, package_name, package_version)
        self.trigger_date = trigger_date or datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S")

    def to_dict(self) -> Dict[str, Any]:
        return {"config": self.config.to_dict(), "metadata": self.metadata.to_dict(),
                "metrics": self.metrics.to_dict(), "trigger_date": self.trigger_date}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), default=str)

    @classmethod
    def save_as_csv(cls, file_name: str, records: List[Any]) -> None:
        """A column a field, with dots between names of objects inside of others."""
        rows = [dict(_flat(r.to_dict(), "")) for r in records or []]
        if rows:
            with writing(file_name, newline="") as file:
                writer = csv.DictWriter(file, list(dict.fromkeys(n for row in rows for n in row)), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)

    @classmethod
    def save_as_json(cls, file_name: str, records: List[Any]) -> None:
        if records:
            with writing(file_name) as file:
                json.dump([r.to_dict() for r in records], file, indent=4, default=str)


def _flat(told: Dict[str, Any], before: str) -> Any:
    for name, value in told.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
