"""Models by kind, as scripts make them before they call optimize(): BertOnnxModel(proto, 12, 768). The passes match the
patterns of every kind, so the classes differ by name alone; heads and widths are read from the patterns."""
from __future__ import annotations

from typing import Optional

from onnx import ModelProto

from nacre.transformers.fusion_options import FusionOptions
from nacre.transformers.onnx_model import OnnxModel


class BertOnnxModel(OnnxModel):
    def __init__(self, model: ModelProto, num_heads: int = 0, hidden_size: int = 0) -> None:
        if hidden_size and (not num_heads or hidden_size % num_heads):
            raise ValueError(f"hidden_size {hidden_size} is not a multiple of num_heads {num_heads}")
        super().__init__(model)
        self.num_heads, self.hidden_size = num_heads, hidden_size

    def optimize(self, options: Optional[FusionOptions] = None, add_dynamic_axes: bool = False) -> None:
        """The model itself becomes what the passes leave of it."""
        from nacre.transformers.optimizer import optimize_model
        after = optimize_model(self.model, optimization_options=options)
        self.initialize(after.model)
        self.fused = after.fused
        if add_dynamic_axes:
            self.use_dynamic_axes()


class BartOnnxModel(BertOnnxModel):
    """model_impl is for another way to find attention and changes nothing."""

    def __init__(self, model: ModelProto, num_heads: int, hidden_size: int, model_impl: str = "hf") -> None:
        super().__init__(model, num_heads, hidden_size)


class BertOnnxModelTF(BertOnnxModel):
    pass


class BertOnnxModelKeras(BertOnnxModelTF):
    pass


class ClipOnnxModel(BertOnnxModel):
    pass


class ConformerOnnxModel(BertOnnxModel):
    pass


class Gpt2OnnxModel(BertOnnxModel):
    pass


class MmditOnnxModel(BertOnnxModel):
    pass


class PhiOnnxModel(BertOnnxModel):
    pass


class Sam2OnnxModel(BertOnnxModel):
    pass


class T5OnnxModel(BertOnnxModel):
    pass


class TnlrOnnxModel(BertOnnxModel):
    pass


class UnetOnnxModel(BertOnnxModel):
    pass


class VaeOnnxModel(UnetOnnxModel):
    pass
