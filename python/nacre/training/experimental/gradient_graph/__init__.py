"""Gradient graphs of PyTorch modules."""
