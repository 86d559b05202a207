"""onnxruntime.quantization.fusions: sequences of nodes put together before a model is quantized."""
from nacre.quantization.fusions.fusion import Fusion
from nacre.quantization.fusions.fusion_gelu import FusionGelu
from nacre.quantization.fusions.fusion_layernorm import FusionLayerNormalization
from nacre.quantization.fusions.replace_upsample_with_resize import ReplaceUpsampleWithResize
