"""torch.onnx.export's script exporter by a call that holds for all versions of torch."""
from __future__ import annotations

import inspect
import warnings
from typing import Any

import torch
from torch._C._onnx import OperatorExportTypes

TrainingMode = torch.onnx.TrainingMode


def torch_onnx_export(model: Any, args: Any, f: Any, export_params: bool = True, verbose: bool = False,
                      training: Any = TrainingMode.EVAL, input_names: Any = None, output_names: Any = None,
                      operator_export_type: Any = OperatorExportTypes.ONNX, opset_version: Any = None,
                      _retain_param_name: Any = None, do_constant_folding: bool = True, example_outputs: Any = None,
                      strip_doc_string: Any = None, dynamic_axes: Any = None, keep_initializers_as_inputs: Any = None,
                      custom_opsets: Any = None, enable_onnx_checker: Any = None, use_external_data_format: Any = None,
                      export_modules_as_functions: Any = False) -> None:
    """Arguments that the installed torch does not have any more, or not yet, are left out if nothing is asked by them,
    and refused otherwise."""
    told = dict(locals())
    known = inspect.signature(torch.onnx.export).parameters
    nothing = {n: p.default for n, p in inspect.signature(torch_onnx_export).parameters.items()}
    unknown = sorted(n for n in told if n not in known and told[n] != nothing[n])
    if unknown:
        raise TypeError(f"torch {torch.__version__} does not export with {', '.join(unknown)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(**{n: v for n, v in told.items() if n in known}, dynamo=False)
