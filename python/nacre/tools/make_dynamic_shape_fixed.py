"""python -m nacre.tools.make_dynamic_shape_fixed IN OUT: open dims of a model become numbers."""
from __future__ import annotations

import argparse
import pathlib
from typing import List, Optional

import onnx

from nacre._files import save_model
from nacre.tools.onnx_model_utils import fix_output_shapes, make_dim_param_fixed, make_input_shape_fixed


def make_dynamic_shape_fixed_helper(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Replaces a symbol, or the open dims of an input, by numbers.")
    parser.add_argument("--dim_param", help="a symbol")
    parser.add_argument("--dim_value", type=int, help="the number for it")
    parser.add_argument("--input_name", help="an input")
    parser.add_argument("--input_shape", type=lambda text: [int(n) for n in text.split(",")],
                        help="its dims, as 1,3,8,8")
    parser.add_argument("input_model", type=pathlib.Path)
    parser.add_argument("output_model", type=pathlib.Path)
    told = parser.parse_args(arguments)
    by_symbol, by_input = told.dim_param and told.dim_value, told.input_name and told.input_shape
    if bool(by_symbol) == bool(by_input):
        parser.error("give --dim_param with --dim_value, or --input_name with --input_shape")
    model = onnx.load(str(told.input_model))
    if by_symbol:
        make_dim_param_fixed(model.graph, told.dim_param, told.dim_value)
    else:
        make_input_shape_fixed(model.graph, told.input_name, told.input_shape)
    fix_output_shapes(model)
    save_model(model, told.output_model)


if __name__ == "__main__":
    make_dynamic_shape_fixed_helper()
