"""The place where onnxruntime keeps ClipOnnxModel."""
from nacre.transformers.onnx_model_bert import ClipOnnxModel

__all__ = ["ClipOnnxModel"]
