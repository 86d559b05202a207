"""Model tools by the names of onnxruntime.transformers: float16 models, optimized models. Needs the package onnx."""
