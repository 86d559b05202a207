"""The place where onnxruntime keeps BertOnnxModelTF."""
from nacre.transformers.onnx_model_bert import BertOnnxModelTF

__all__ = ["BertOnnxModelTF"]
