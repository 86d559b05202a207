"""Weights of few bits by rounding, by a search for scales, and by GPTQ, by the names of onnxruntime's copy of Intel's
Neural Compressor."""
from nacre.quantization.neural_compressor.weight_only import gptq_quantize, rtn_quantize
