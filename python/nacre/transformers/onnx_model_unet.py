"""The place where onnxruntime keeps UnetOnnxModel."""
from nacre.transformers.onnx_model_bert import UnetOnnxModel

__all__ = ["UnetOnnxModel"]
