"""onnxruntime.quantization's names: from models of floats to models of codes. Needs the package onnx."""
from nacre.quantization.calibrate import (CalibraterBase, CalibrationDataReader, CalibrationMethod, MinMaxCalibrater,
                                          TensorData, TensorsData, create_calibrator, load_tensors_data,
                                          save_tensors_data)
from nacre.quantization.cuda_quantizer import CudaQuantizer
from nacre.quantization.qdq_quantizer import QDQQuantizer
from nacre.quantization.quant_utils import QuantFormat, QuantizationMode, QuantType, write_calibration_table
from nacre.quantization.quantize import (DynamicQuantConfig, QuantConfig, StaticQuantConfig, get_qdq_config, quantize,
                                         quantize_dynamic, quantize_static)
from nacre.quantization.shape_inference import quant_pre_process
