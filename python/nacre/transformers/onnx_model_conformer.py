"""The place where onnxruntime keeps ConformerOnnxModel."""
from nacre.transformers.onnx_model_bert import ConformerOnnxModel

__all__ = ["ConformerOnnxModel"]
