"""python -m nacre.capi.convert_npz_to_onnx_adapter: the arrays of a .npz file as a LoRA adapter's file."""
from __future__ import annotations

import argparse
from typing import Any, List, Optional

import numpy as np

import nacre


def get_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes the arrays of a .npz file as an adapter.")
    parser.add_argument("--npz_file_path", required=True)
    parser.add_argument("--output_file_path", required=True)
    parser.add_argument("--adapter_version", type=int, required=True)
    parser.add_argument("--model_version", type=int, required=True)
    return parser.parse_args(arguments)


def export_lora_parameters(npz_file_path: Any, adapter_version: int, model_version: int, output_file_path: Any) -> None:
    adapter = nacre.AdapterFormat()
    adapter.set_adapter_version(adapter_version)
    adapter.set_model_version(model_version)
    with np.load(npz_file_path) as arrays:
        adapter.set_parameters({n: nacre.OrtValue.ortvalue_from_numpy(x) for n, x in arrays.items()})
        adapter.export_adapter(output_file_path)


def main(arguments: Optional[List[str]] = None) -> int:
    told = get_args(arguments)
    export_lora_parameters(told.npz_file_path, told.adapter_version, told.model_version, told.output_file_path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
