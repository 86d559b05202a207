"""FusionOptions: which fusions optimize_model may make. Each switch is that of a pass of this library."""
from __future__ import annotations

import argparse
from enum import Enum
from typing import List


class AttentionMaskFormat:
    MaskIndexEnd = 0
    MaskIndexEndAndStart = 1
    AttentionMask = 2
    NoMask = 3


class AttentionOpType(Enum):
    Attention = "Attention"
    MultiHeadAttention = "MultiHeadAttention"
    GroupQueryAttention = "GroupQueryAttention"
    PagedAttention = "PagedAttention"

    def __str__(self) -> str:
        return self.value


#: Switches, and the pass that each of them is about; None: this library has no such pass.
_SWITCHES = {"enable_gelu": "activations", "enable_layer_norm": "normalizations", "enable_attention": "attention",
             "enable_rotary_embeddings": None, "enable_skip_layer_norm": None, "enable_embed_layer_norm": None,
             "enable_bias_skip_layer_norm": None, "enable_bias_gelu": None, "enable_gelu_approximation": None,
             "enable_qordered_matmul": None, "enable_shape_inference": None, "enable_gemm_fast_gelu": None}


class FusionOptions:
    def __init__(self, model_type: str) -> None:
        self.model_type = model_type
        for name in _SWITCHES:
            setattr(self, name, name not in ("enable_gelu_approximation", "enable_gemm_fast_gelu"))
        self.use_multi_head_attention = False
        self.disable_multi_head_attention_bias = False
        self.group_norm_channels_last = True
        self.attention_mask_format = AttentionMaskFormat.AttentionMask if model_type in (
            "bart", "vit") else AttentionMaskFormat.MaskIndexEnd
        self.attention_op_type = None

    def use_raw_attention_mask(self, use_raw_mask: bool = True) -> None:
        self.attention_mask_format = AttentionMaskFormat.AttentionMask if use_raw_mask else \
            AttentionMaskFormat.MaskIndexEnd

    def disable_attention_mask(self) -> None:
        self.attention_mask_format = AttentionMaskFormat.NoMask

    def set_attention_op_type(self, attn_op_type: AttentionOpType) -> None:
        self.attention_op_type = attn_op_type

    def disabled_passes(self, known: List[str]) -> List[str]:
        """Passes of this library that must not run."""
        return sorted({p for name, p in _SWITCHES.items() if p in known and not getattr(self, name)})

    @staticmethod
    def parse(args: argparse.Namespace) -> "FusionOptions":
        options = FusionOptions(args.model_type)
        for name in _SWITCHES:
            if getattr(args, "disable_" + name[len("enable_"):], False):
                setattr(options, name, False)
        return options

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        for name in _SWITCHES:
            parser.add_argument("--disable_" + name[len("enable_"):], action="store_true", help="leave this fusion out")
