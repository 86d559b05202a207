"""quant_pre_process: a model made ready to be quantized: constants folded, useless nodes gone, every type written."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional, Union

import onnx

from nacre._files import save_model
from nacre.quantization.quant_utils import (add_pre_process_metadata, convert_version, get_opset_version, load_model,
                                            optimize_model, save_and_reload_model_with_shape_infer, temporary_folder)

#: Quantized models are of this opset or a later one.
_LEAST_OPSET = 11


def quant_pre_process(input_model: Union[str, Path, onnx.ModelProto, None] = None,
                      output_model_path: Union[str, Path, None] = None, skip_optimization: bool = False,
                      skip_onnx_shape: bool = False, skip_symbolic_shape: bool = False, auto_merge: bool = False,
                      int_max: int = 2**31 - 1, guess_output_rank: bool = False, verbose: int = 0,
                      save_as_external_data: bool = False, all_tensors_to_one_file: bool = False,
                      external_data_location: Optional[str] = None, external_data_size_threshold: int = 1024,
                      **deprecated_kwargs: Any) -> None:
    """Writes the model that is quantized next. Types and shapes come from this library's own inference, symbols too:
    they are left out only if both skip_onnx_shape and skip_symbolic_shape ask for it. auto_merge, int_max,
    guess_output_rank and verbose are for another way to infer and change nothing."""
    input_model = deprecated_kwargs.pop("input_model_path", input_model)
    if deprecated_kwargs:
        raise TypeError(f"quant_pre_process: unknown arguments {sorted(deprecated_kwargs)}")
    if input_model is None or output_model_path is None:
        raise ValueError("quant_pre_process needs input_model and output_model_path")
    model = load_model(input_model)
    if get_opset_version(model) < _LEAST_OPSET:
        model = convert_version(model, _LEAST_OPSET)
    if not skip_optimization:
        model = _optimized(model)
    if not (skip_onnx_shape and skip_symbolic_shape):
        model = save_and_reload_model_with_shape_infer(model)
    add_pre_process_metadata(model)
    if save_as_external_data:
        save_model(model, output_model_path, save_as_external_data=True,
                   all_tensors_to_one_file=all_tensors_to_one_file, location=external_data_location,
                   size_threshold=external_data_size_threshold)
    else:
        save_model(model, output_model_path)


def _optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    with temporary_folder() as folder:
        before, after = os.path.join(folder, "before.onnx"), os.path.join(folder, "after.onnx")
        save_model(model, before, save_as_external_data=model.ByteSize() >= 2**31, location="before.data")
        optimize_model(Path(before), Path(after))
        return onnx.load(after)
