"""Training models composed of blocks: losses and optimizers put behind a forward model, and blocks of one's own. The
names, arguments and rules are those of onnxruntime.training.onnxblock. Needs the package onnx."""
from nacre.training.onnxblock import blocks, loss, optim
from nacre.training.onnxblock.blocks import Block
from nacre.training.onnxblock.checkpoint_utils import load_checkpoint_to_model, save_checkpoint
from nacre.training.onnxblock.model_accessor import base, custom_op_library, empty_base
from nacre.training.onnxblock.onnxblock import ForwardBlock, TrainingBlock

__all__ = ["Block", "ForwardBlock", "TrainingBlock", "base", "blocks", "custom_op_library", "empty_base",
           "load_checkpoint_to_model", "loss", "optim", "save_checkpoint"]
