"""Gradients of PyTorch modules as ONNX models."""
from nacre.training.experimental.gradient_graph._gradient_graph_tools import export_gradient_graph

__all__ = ["export_gradient_graph"]
