"""onnxruntime.quantization.execution_providers.qnn: models for Qualcomm's provider. Making them needs none of its
libraries."""
from nacre.quantization.execution_providers.qnn.preprocess import qnn_preprocess_model
from nacre.quantization.execution_providers.qnn.quant_config import get_qnn_qdq_config
