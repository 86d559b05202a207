"""python -m nacre.tools.qnn.preprocess -i MODEL -o MODEL: qnn_preprocess_model as a command."""
from __future__ import annotations

import argparse
import pathlib
from typing import List, Optional, Tuple, Union

import onnx

from nacre.quantization.execution_providers import qnn


def qnn_preprocess_model(model_input: Union[str, pathlib.Path, onnx.ModelProto], model_output: Union[str, pathlib.Path],
                         fuse_layernorm: bool = False, save_as_external_data: bool = False,
                         all_tensors_to_one_file: bool = False, external_data_location: Optional[str] = None,
                         external_data_size_threshold: int = 1024, external_data_convert_attribute: bool = False,
                         inputs_to_make_channel_last: Optional[List[str]] = None,
                         outputs_to_make_channel_last: Optional[List[str]] = None,
                         dynamic_input_shapes: Optional[List[Tuple[str, str]]] = None,
                         exclude_initializer_from_input: bool = False) -> bool:
    """That of nacre.quantization.execution_providers.qnn, with its arguments in another order."""
    return qnn.qnn_preprocess_model(
        model_input, model_output, exclude_initializer_from_input, fuse_layernorm, save_as_external_data,
        all_tensors_to_one_file, external_data_location, external_data_size_threshold, external_data_convert_attribute,
        inputs_to_make_channel_last, outputs_to_make_channel_last, dynamic_input_shapes)


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Makes a float model ready to be quantized for Qualcomm's provider.")
    parser.add_argument("--input_model_path", "-i", required=True)
    parser.add_argument("--output_model_path", "-o", required=True)
    for flag in ("save_as_external_data", "all_tensors_to_one_file", "external_data_convert_attribute",
                 "fuse_layernorm", "exclude_initializer_from_input"):
        parser.add_argument("--" + flag, action="store_true")
    parser.add_argument("--external_data_location")
    parser.add_argument("--external_data_size_threshold", type=int, default=1024)
    parser.add_argument("--inputs_to_make_channel_last", nargs="+")
    parser.add_argument("--outputs_to_make_channel_last", nargs="+")
    parser.add_argument("--dynamic_input_shapes", nargs=2, action="append", metavar=("INPUT", "1,3,256,256"))
    told = vars(parser.parse_args(arguments))
    qnn_preprocess_model(told.pop("input_model_path"), told.pop("output_model_path"), **told)


if __name__ == "__main__":
    main()
