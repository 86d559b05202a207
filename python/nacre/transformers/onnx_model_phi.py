"""The place where onnxruntime keeps PhiOnnxModel."""
from nacre.transformers.onnx_model_bert import PhiOnnxModel

__all__ = ["PhiOnnxModel"]
