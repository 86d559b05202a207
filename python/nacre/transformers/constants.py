"""Names of operators, and the places of their inputs and outputs."""
from __future__ import annotations


class Operators:
    ATTENTION = "Attention"
    LAYERNORM = "LayerNormalization"
    MULTI_HEAD_ATTENTION = "MultiHeadAttention"
    PACKEDATTENTION = "PackedAttention"
    PACKED_MULTI_HEAD_ATTENTION = "PackedMultiHeadAttention"
    REMOVEPADDING = "RemovePadding"
    RESTOREPADDING = "RestorePadding"
    SKIPLAYERNORM = "SkipLayerNormalization"


class AttentionInputIDs:
    INPUT, WEIGHTS, BIAS, MASK_INDEX, PAST, ATTENTION_BIAS, PAST_SEQUENCE_LENGTH = range(7)


class AttentionOutputIDs:
    OUTPUT, PRESENT = range(2)


class MultiHeadAttentionInputIDs:
    QUERY, KEY, VALUE, BIAS, KEY_PADDING_MASK, ATTENTION_BIAS, PAST_KEY, PAST_VALUE = range(8)


class MultiHeadAttentionOutputIDs:
    OUTPUT, PRESENT_KEY, PRESENT_VALUE = range(3)
