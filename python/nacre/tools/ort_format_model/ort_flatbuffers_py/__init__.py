"""The tables of .ort files, by the names of onnxruntime."""
