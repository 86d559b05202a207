"""The place where onnxruntime keeps VaeOnnxModel."""
from nacre.transformers.onnx_model_bert import VaeOnnxModel

__all__ = ["VaeOnnxModel"]
