"""The place where onnxruntime keeps T5OnnxModel."""
from nacre.transformers.onnx_model_bert import T5OnnxModel

__all__ = ["T5OnnxModel"]
