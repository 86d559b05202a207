"""What the gradient test leaves out, and the mathematical reason. Nothing else may be missing."""

# Ops without a gradient.
OPS = {
    "Unique": "the size of the result jumps where elements become equal",
    "DynamicQuantizeLinear": "rounds to codes; its scale and zero point say how the codes are to be read",
}

_SIZE = "decides the size of the result"
# Inputs of floats that have none, by op and place.
INPUTS = {
    "Resize": {1: "the region decides which elements are read", 2: _SIZE},
    "Upsample": {1: _SIZE},
    "Dropout": {1: "the ratio decides which elements are dropped"},
    "MelWeightMatrix": {3: "the edge is rounded to a bin", 4: "the edge is rounded to a bin"},
}

# Those of them that are floats whatever the others are.
FLOATS = {"Resize": INPUTS["Resize"], "Upsample": INPUTS["Upsample"]}

# Inputs of whole numbers that must be known before the run: which nodes a gradient is made of depends on them.
CONSTANTS = {
    "CumProd": {1: "the axis"},
    "DFT": {1: "the length of the transform", 2: "the axis"},
    "ReduceProd": {1: "the axes"},
}

# The same of single cases: a Squeeze without axes keeps a dim of this size, or drops it, and the rank is its result's.
CASE_CONSTANTS = {
    "test_affine_grid_2d_expanded": {"size"},
    "test_affine_grid_2d_align_corners_expanded": {"size"},
}

# Ops that compute in float alone: differences in float, over a larger step.
SINGLE = {
    "DequantizeLinear": "its results are floats of at most 32 bits",
    "CausalConvWithState": "its kernel is of floats",
    "RotaryEmbedding": "its kernel is of floats",
    "LinearAttention": "its kernel is of floats",
}

_NAN = "the graph makes NaN and replaces it with Where: the chain rule multiplies that NaN by zero"
_ENDS = "infinities and NaN have no slope"
_ROUNDED = "rounds to codes: the slope is zero almost everywhere, and the gradient is the straight-through one"
# Single cases.
CASES = {
    "test_attention_23_boolmask_fullymasked_row_nan_robustness_expanded": _NAN,
    "test_attention_23_fullymasked_qk_matmul_output_mode3_zero_expanded": _NAN,
    "test_attention_24_fullymasked_qk_matmul_output_mode3_zero_expanded": _NAN,
    "test_attention_24_qk_matmul_output_mode3_softmax_precision_expanded": _NAN,
    "test_attention_4d_causal_nonpad_negative_offset_structural_empty_expanded": _NAN,
    "test_attention_4d_causal_padded_kv_bf16_expanded": _NAN,
    "test_attention_causal_boolmask_nan_robustness_expanded": _NAN,
    "test_attention_local_window_gqa_rank4_mask_expanded": _NAN,
    "test_mod_float_edge_cases_fmod_0_float16": _ENDS,
    "test_mod_float_edge_cases_fmod_0_float32": _ENDS,
    "test_mod_float_edge_cases_fmod_0_float64": _ENDS,
    "test_dynamicquantizelinear_expanded": _ROUNDED,
    "test_dynamicquantizelinear_max_adjusted_expanded": _ROUNDED,
    "test_dynamicquantizelinear_min_adjusted_expanded": _ROUNDED,
}
