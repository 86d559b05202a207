"""Training from artifacts, with the names of onnxruntime.training.api: a CheckpointState, a Module over it, an
Optimizer and a LinearLRScheduler."""
from nacre.training.api.checkpoint_state import CheckpointState, Parameter, Parameters, Properties
from nacre.training.api.lr_scheduler import LinearLRScheduler
from nacre.training.api.module import Module
from nacre.training.api.optimizer import Optimizer

__all__ = ["CheckpointState", "LinearLRScheduler", "Module", "Optimizer", "Parameter", "Parameters", "Properties"]
