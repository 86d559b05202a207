"""The place where onnxruntime keeps BartOnnxModel."""
from nacre.transformers.onnx_model_bert import BartOnnxModel

__all__ = ["BartOnnxModel"]
