"""python -m nacre.quantization.preprocess --input MODEL --output MODEL: quant_pre_process as a command."""
from __future__ import annotations

import argparse
from typing import List, Optional

from nacre.quantization.shape_inference import quant_pre_process


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Folds constants and writes the types of all values into a model, "
                                                 "which is what quantizing it needs.")
    yes_or_no = {"type": lambda text: text.lower() in ("1", "true", "yes"), "default": False}
    parser.add_argument("--input", required=True, help="the model's file")
    parser.add_argument("--output", required=True, help="where the new one goes")
    parser.add_argument("--skip_optimization", help="true: fold nothing", **yes_or_no)
    parser.add_argument("--skip_onnx_shape", help="true, with --skip_symbolic_shape: write no types", **yes_or_no)
    parser.add_argument("--skip_symbolic_shape", help="true, with --skip_onnx_shape: write no types", **yes_or_no)
    parser.add_argument("--save_as_external_data", help="weights in a file of their own", action="store_true")
    parser.add_argument("--all_tensors_to_one_file", help="one such file for all", action="store_true")
    parser.add_argument("--external_data_location", help="its name")
    parser.add_argument("--external_data_size_threshold", type=int, default=1024, help="bytes from which on a weight "
                        "goes there")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = vars(parse_arguments(arguments))
    quant_pre_process(told.pop("input"), told.pop("output"), **told)


if __name__ == "__main__":
    main()
