"""The place where onnxruntime keeps TnlrOnnxModel."""
from nacre.transformers.onnx_model_bert import TnlrOnnxModel

__all__ = ["TnlrOnnxModel"]
