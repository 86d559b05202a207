"""The place where onnxruntime keeps Gpt2OnnxModel."""
from nacre.transformers.onnx_model_bert import Gpt2OnnxModel

__all__ = ["Gpt2OnnxModel"]
