"""Model tools by the names of onnxruntime.tools: fixed shapes, inferred shapes, opsets. Needs the package onnx."""
