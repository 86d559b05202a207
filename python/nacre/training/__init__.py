"""Training: gradients of models, as models."""
from nacre.training._gradients import gradients

__all__ = ["gradients"]
