"""python -m nacre.tools.update_onnx_opset IN OUT --opset N: a model in another opset."""
from __future__ import annotations

import argparse
import pathlib
from typing import List, Optional

from nacre.tools.onnx_model_utils import update_onnx_opset


def update_onnx_opset_helper(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Writes a model in another opset, by onnx's converter.")
    parser.add_argument("--opset", type=int, default=15, help="the opset of ai.onnx (default 15)")
    parser.add_argument("input_model", type=pathlib.Path)
    parser.add_argument("output_model", type=pathlib.Path)
    told = parser.parse_args(arguments)
    update_onnx_opset(told.input_model, told.opset, told.output_model)


if __name__ == "__main__":
    update_onnx_opset_helper()
