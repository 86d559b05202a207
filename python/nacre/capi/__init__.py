"""Where onnxruntime keeps its native names; the same names are found here."""
