"""The place where onnxruntime keeps Sam2OnnxModel."""
from nacre.transformers.onnx_model_bert import Sam2OnnxModel

__all__ = ["Sam2OnnxModel"]
