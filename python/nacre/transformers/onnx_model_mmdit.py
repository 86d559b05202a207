"""The place where onnxruntime keeps MmditOnnxModel."""
from nacre.transformers.onnx_model_bert import MmditOnnxModel

__all__ = ["MmditOnnxModel"]
