"""onnxruntime.tools.qdq_helpers."""
