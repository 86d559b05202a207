"""Models of torch and ONNX with 8-bit weights, by the call that scripts for GPT-2 make."""
from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch

logger = logging.getLogger(__name__)


def conv1d_to_linear(model: Any) -> None:
    """Hugging Face's Conv1D, a product with a weight (in, out), becomes torch's Linear, which torch can quantize."""
    for name, module in list(model.named_children()):
        if type(module).__name__ == "Conv1D" and module.weight.dim() == 2:
            n_in, n_out = module.weight.shape
            linear = torch.nn.Linear(n_in, n_out)
            linear.weight.data, linear.bias.data = module.weight.data.T.contiguous(), module.bias.data
            setattr(model, name, linear)
        else:
            conv1d_to_linear(module)


class QuantizeHelper:
    @staticmethod
    def quantize_torch_model(model: Any, dtype: Any = torch.qint8) -> Any:
        """Its Linear layers with weights of this type; Conv1D of the model itself become Linear."""
        conv1d_to_linear(model)
        return torch.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=dtype)

    @staticmethod
    def quantize_onnx_model(onnx_model_path: str, quantized_model_path: str,
                            use_external_data_format: bool = False) -> None:
        """Writes the model of a file with dynamic quantization."""
        import onnx

        from nacre.quantization import quantize_dynamic
        Path(quantized_model_path).parent.mkdir(parents=True, exist_ok=True)
        quantize_dynamic(onnx_model_path, quantized_model_path, use_external_data_format=use_external_data_format,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        before, after = (os.path.getsize(p) / 2**20 for p in (onnx_model_path, quantized_model_path))
        logger.info("%s: %.1f MiB, before %.1f", quantized_model_path, after, before)
