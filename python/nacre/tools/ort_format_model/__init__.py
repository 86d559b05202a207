"""What operators and types .ort files need, for builds of onnxruntime that have nothing else."""
from nacre.tools.ort_format_model.operator_type_usage_processors import (GloballyAllowedTypesOpTypeImplFilter,
                                                                         OperatorTypeUsageManager,
                                                                         OpTypeImplFilterInterface)
from nacre.tools.ort_format_model.ort_model_processor import OrtFormatModelProcessor
from nacre.tools.ort_format_model.utils import create_config_from_models
