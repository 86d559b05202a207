"""What phones make of a model, by the names of onnxruntime.tools.mobile_helpers."""
