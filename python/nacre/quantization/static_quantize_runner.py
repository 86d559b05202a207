"""python -m nacre.quantization.static_quantize_runner -i MODEL -o MODEL: quantize_static with the examples that lie
beside a model, test_data_set_*/input_*.pb. 'nacre quantize' takes other examples too."""
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import onnx
from onnx import numpy_helper

import nacre
from nacre.quantization.calibrate import CalibrationDataReader, CalibrationMethod
from nacre.quantization.quant_utils import QuantFormat, QuantType
from nacre.quantization.quantize import StaticQuantConfig, quantize

_TYPES = {k.name.lower(): k for k in QuantType}
_METHODS = {k.name.lower(): k for k in CalibrationMethod}
_FORMATS = {k.name.lower(): k for k in QuantFormat}
#: Options of the command that are extra_options of the quantizer.
_SWITCHES = {"enable_subgraph": "EnableSubgraph", "force_quantize_no_input_check": "ForceQuantizeNoInputCheck",
             "matmul_const_b_only": "MatMulConstBOnly", "add_qdq_pair_to_weight": "AddQDQPairToWeight",
             "dedicated_qdq_pair": "DedicatedQDQPair", "calib_tensor_range_symmetric": "CalibTensorRangeSymmetric",
             "calib_moving_average": "CalibMovingAverage", "use_qdq_contrib_ops": "UseQDQContribOps",
             "qdq_keep_removable_activations": "QDQKeepRemovableActivations",
             "qdq_disable_weight_adjust_for_int32_bias": "QDQDisableWeightAdjustForInt32Bias"}


class OnnxModelCalibrationDataReader(CalibrationDataReader):
    """The examples in the model's folder."""

    def __init__(self, model_path: Any) -> None:
        self.model_dir = str(Path(model_path).parent)
        names = [i.name for i in nacre.InferenceSession(str(model_path)).get_inputs()]
        folders = sorted(p for p in Path(self.model_dir).iterdir() if p.name.startswith("test_data_set_"))
        if not folders:
            raise ValueError(f"{model_path}: no folder test_data_set_* beside it: nothing to calibrate with")
        self.calibration_data = iter([{name: self.read_onnx_pb_data(folder / f"input_{i}.pb")
                                       for i, name in enumerate(names)} for folder in folders])

    def get_next(self) -> Optional[Dict[str, np.ndarray]]:
        return next(self.calibration_data, None)

    def read_onnx_pb_data(self, file_pb: Any) -> np.ndarray:
        return numpy_helper.to_array(onnx.TensorProto.FromString(Path(file_pb).read_bytes()))


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Quantizes a model with the examples that lie beside it.")
    parser.add_argument("-i", "--input_model_path", required=True)
    parser.add_argument("-o", "--output_quantized_model_path", required=True)
    parser.add_argument("--activation_type", choices=_TYPES, default="quint8")
    parser.add_argument("--weight_type", choices=_TYPES, default="qint8")
    parser.add_argument("--calibration_method", choices=_METHODS, default="minmax")
    parser.add_argument("--quant_format", choices=_FORMATS, default="qdq")
    for switch in [*_SWITCHES, "disable_quantize_bias", "per_channel"]:
        parser.add_argument("--" + switch, action="store_true")
    parser.add_argument("--op_types_to_exclude_output_quantization", nargs="+", default=[])
    parser.add_argument("--minimum_real_range", type=float, default=0.0001)
    parser.add_argument("--nodes_to_quantize", nargs="+")
    parser.add_argument("--nodes_to_exclude", nargs="+")
    parser.add_argument("--op_per_channel_axis", nargs=2, action="append", default=[], metavar=("OP", "AXIS"))
    parser.add_argument("--tensor_quant_overrides", metavar="FILE.json")
    return parser.parse_args(arguments)


def get_tensor_quant_overrides(file: Any) -> Dict[str, List[Dict[str, Any]]]:
    """The overrides in a file of JSON; scales and zero points become arrays."""
    if not file:
        return {}
    found: Dict[str, List[Dict[str, Any]]] = json.loads(Path(file).read_text())
    for row in (row for rows in found.values() for row in rows):
        row["scale"], row["zero_point"] = np.array(row["scale"], np.float32), np.array(row["zero_point"])
    return found


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_arguments(arguments)
    extra = {theirs: getattr(told, mine) for mine, theirs in _SWITCHES.items()}
    extra.update({"OpTypesToExcludeOutputQuantization": told.op_types_to_exclude_output_quantization,
                  "QDQOpTypePerChannelSupportToAxis": {op: int(axis) for op, axis in told.op_per_channel_axis},
                  "QuantizeBias": not told.disable_quantize_bias, "MinimumRealRange": told.minimum_real_range,
                  "TensorQuantOverrides": get_tensor_quant_overrides(told.tensor_quant_overrides)})
    config = StaticQuantConfig(
        OnnxModelCalibrationDataReader(told.input_model_path), _METHODS[told.calibration_method],
        _FORMATS[told.quant_format], _TYPES[told.activation_type], _TYPES[told.weight_type],
        nodes_to_quantize=told.nodes_to_quantize, nodes_to_exclude=told.nodes_to_exclude,
        per_channel=told.per_channel, extra_options=extra)
    quantize(told.input_model_path, told.output_quantized_model_path, config)


if __name__ == "__main__":
    main()
