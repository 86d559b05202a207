"""The place where onnxruntime keeps BertOnnxModelKeras."""
from nacre.transformers.onnx_model_bert import BertOnnxModelKeras

__all__ = ["BertOnnxModelKeras"]
