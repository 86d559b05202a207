"""python -m nacre.tools.optimize_onnx_model IN OUT --opt_level LEVEL: a model as the passes of a level leave it."""
from __future__ import annotations

import argparse
import pathlib
from typing import List, Optional

from nacre.tools.onnx_model_utils import get_optimization_level, optimize_model


def optimize_model_helper(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Writes a model as the passes of a level leave it.")
    parser.add_argument("--opt_level", default="basic", choices=["disable", "basic", "extended", "layout", "all"])
    parser.add_argument("input_model", type=pathlib.Path)
    parser.add_argument("output_model", type=pathlib.Path)
    told = parser.parse_args(arguments)
    if told.input_model.resolve() == told.output_model.resolve():
        parser.error("the new model needs a file of its own")
    optimize_model(told.input_model, told.output_model, get_optimization_level(told.opt_level))


if __name__ == "__main__":
    optimize_model_helper()
