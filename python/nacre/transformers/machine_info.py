"""What machine this is, and what runs on it: python -m nacre.transformers.machine_info. Python's own library is all it
needs; of GPUs nvidia-smi tells, where it is."""
from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import logging
import os
import pathlib
import platform
import shutil
import subprocess
from typing import Any, Dict, List, Optional

_PACKAGES = {"flatbuffers", "nacre", "numpy", "onnx", "onnxconverter-common", "onnxruntime", "onnxruntime-gpu",
             "protobuf", "sympy", "tensorflow", "torch", "transformers"}


def _lines(path: str) -> Dict[str, str]:
    """name: value, the first of each name, of a file of the kernel; nothing where there is none."""
    try:
        rows = [line.partition(":") for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return {}
    found: Dict[str, str] = {}
    for name, _, value in rows:
        found.setdefault(name.strip(), value.strip())
    return found


def _cache() -> str:
    try:
        return pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class MachineInfo:
    def __init__(self, silent: bool = False, logger: Optional[logging.Logger] = None) -> None:
        self.silent, self.logger = silent, logger or logging.getLogger(__name__)
        self.machine_info = self.get_machine_info()

    def get_machine_info(self) -> Dict[str, Any]:
        return {"gpu": self.get_gpu_info_by_nvml(), "cpu": self.get_cpu_info(), "memory": self.get_memory_info(),
                "os": platform.platform(), "python": platform.python_version(),
                "packages": self.get_related_packages(), "onnxruntime": self.get_onnxruntime_info(),
                "pytorch": self.get_pytorch_info(), "tensorflow": self.get_tensorflow_info()}

    def get_memory_info(self) -> Dict[str, Any]:
        told = _lines("/proc/meminfo")
        return {name: int(told[of].split()[0]) * 1024 for name, of in (("total", "MemTotal"), (
            "available", "MemAvailable")) if of in told}

    def get_cpu_info(self) -> Dict[str, Any]:
        told, logical = _lines("/proc/cpuinfo"), os.cpu_count()
        siblings, cores = int(told.get("siblings", 1)), int(told.get("cpu cores", 1))
        return {"brand": told.get("model name", platform.processor() or platform.machine()),
                "cores": (logical or 1) * cores // siblings, "logical_cores": logical, "hz": told.get("cpu MHz", ""),
                "l2_cache": _cache(), "flags": ",".join((told.get("flags") or told.get("Features", "")).split()),
                "processor": platform.uname().processor}

    def get_gpu_info_by_nvml(self) -> Optional[Dict[str, Any]]:
        """None where NVIDIA's driver is not."""
        tool = shutil.which("nvidia-smi")
        asked = "driver_version,name,memory.total,memory.free"
        said = subprocess.run([tool, f"--query-gpu={asked}", "--format=csv,noheader,nounits"], capture_output=True,
                              text=True, check=False) if tool else None
        if said is None or said.returncode:
            if not self.silent:
                self.logger.info("no GPU: %s", "nvidia-smi is not there" if said is None else said.stdout.strip())
            return None
        rows = [[part.strip() for part in line.split(",")] for line in said.stdout.splitlines()]
        devices = [{"memory_total": int(total) << 20, "memory_available": int(free) << 20, "name": name}
                   for _, name, total, free in rows]
        found: Dict[str, Any] = {"driver_version": rows[0][0] if rows else None, "devices": devices}
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            found["cuda_visible"] = os.environ["CUDA_VISIBLE_DEVICES"]
        return found

    def get_related_packages(self) -> Dict[str, str]:
        found = {(d.metadata["Name"] or "").lower(): d.version for d in importlib.metadata.distributions()}
        return {name: found[name] for name in sorted(_PACKAGES & found.keys())}

    def get_onnxruntime_info(self) -> Dict[str, Any]:
        import nacre
        return {"version": nacre.__version__, "support_gpu": "CUDAExecutionProvider" in nacre.get_available_providers()}

    def get_pytorch_info(self) -> Optional[Dict[str, Any]]:
        torch = self._module("torch")
        return torch and {"version": torch.__version__, "support_gpu": torch.cuda.is_available(),
                          "cuda": torch.version.cuda}

    def get_tensorflow_info(self) -> Optional[Dict[str, Any]]:
        tf = self._module("tensorflow")
        return tf and {"version": tf.version.VERSION, "git_version": tf.version.GIT_VERSION,
                       "support_gpu": tf.test.is_built_with_cuda()}

    def _module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError as e:
            if not self.silent:
                self.logger.info("%s", e)
            return None


def get_machine_info(silent: bool = True) -> str:
    return json.dumps(MachineInfo(silent).machine_info, indent=2)


def get_device_info(silent: bool = True) -> str:
    told = MachineInfo(silent).machine_info
    return json.dumps({name: told[name] for name in ("gpu", "cpu", "memory")}, indent=2)


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tells what machine this is.")
    parser.add_argument("--silent", action="store_true", help="do not say what is not there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(get_machine_info(parse_arguments().silent))
