"""Model tools by the names of onnxruntime.tools: fixed shapes, inferred shapes, opsets, torch's exporter. Needs the
package onnx."""
from typing import Any


def __getattr__(name: str) -> Any:
    """infer_input_info needs PyTorch, which is imported when it is asked for and not before."""
    if name == "infer_input_info":
        from nacre.tools.pytorch_export_helpers import infer_input_info
        return infer_input_info
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
