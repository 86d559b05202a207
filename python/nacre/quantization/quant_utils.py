"""What numbers become: the types that are written, their ranges, scales and zero points; names of what is added."""
from __future__ import annotations

import tempfile
from enum import Enum
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import nacre
from nacre._files import write

__producer__ = "nacre.quantization"
__version__ = "0.1.0"
onnx_domain, ms_domain = "ai.onnx", "com.microsoft"
QUANT_OP_NAME, DEQUANT_OP_NAME = "QuantizeLinear", "DequantizeLinear"
QUANT_INPUT_SUFFIX, DEQUANT_OUTPUT_SUFFIX = "_QuantizeLinear_Input", "_DequantizeLinear_Output"
TENSOR_NAME_QUANT_SUFFIX = "_quantized"
MODEL_SIZE_THRESHOLD = 1 << 31
FLOAT8_DISTRIBUTIONS: Dict[int, np.ndarray] = {}
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


class _Named(Enum):
    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_string(cls, text: str) -> "_Named":
        try:
            return cls[text]
        except KeyError:
            raise ValueError(f"'{text}' is none of {', '.join(m.name for m in cls)}") from None


class QuantizationMode(_Named):
    IntegerOps = 0
    QLinearOps = 1


class QuantizedValueType(_Named):
    Input = 0
    Initializer = 1


class QuantFormat(_Named):
    QOperator = 0
    QDQ = 1


class QuantType(_Named):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6

    @property
    def tensor_type(self) -> int:
        return {"QInt8": TensorProto.INT8, "QUInt8": TensorProto.UINT8, "QFLOAT8E4M3FN": TensorProto.FLOAT8E4M3FN,
                "QInt16": TensorProto.INT16, "QUInt16": TensorProto.UINT16, "QInt4": TensorProto.INT4,
                "QUInt4": TensorProto.UINT4}[self.name]


def _dtype(element: int) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(element)


def _ranges(rows: Dict[str, Tuple[int, int]]) -> Dict[int, Tuple[np.ndarray, np.ndarray]]:
    found = {}
    for name, ends in rows.items():
        element = TensorProto.DataType.Value(name)
        found[element] = tuple(np.array(e).astype(_dtype(element)) for e in ends)
    return found


ONNX_TYPE_TO_NP_TYPE = {t.tensor_type: _dtype(t.tensor_type) for t in QuantType}
ONNX_INT_TYPE_RANGE = _ranges({"UINT8": (0, 255), "INT8": (-128, 127), "UINT16": (0, 65535), "INT16": (-32768, 32767),
                               "UINT4": (0, 15), "INT4": (-8, 7)})
#: With 0 in the middle.
ONNX_INT_TYPE_SYMMETRIC_RANGE = _ranges({"INT8": (-127, 127), "INT16": (-32767, 32767)})
#: One bit less, so that sums of two products stay inside of 16 bits where a processor adds so.
ONNX_INT_TYPE_REDUCED_RANGE = _ranges({"UINT8": (0, 127), "INT8": (-64, 64), "UINT16": (0, 32767),
                                       "INT16": (-16384, 16384), "UINT4": (0, 7), "INT4": (-4, 3)})


# ---- ranges, scales, codes ----

def get_qmin_qmax_for_qType(qType: int, reduce_range: bool = False,  # noqa: N802
                            symmetric: bool = False) -> Tuple[np.ndarray, np.ndarray]:
    """The least and the greatest code."""
    if qType == TensorProto.FLOAT8E4M3FN:
        raise NotImplementedError("float 8 has no range of codes")
    if reduce_range:
        found = ONNX_INT_TYPE_REDUCED_RANGE.get(qType)
    else:
        found = (ONNX_INT_TYPE_SYMMETRIC_RANGE.get(qType) if symmetric else None) or ONNX_INT_TYPE_RANGE.get(qType)
    if found is None:
        raise ValueError(f"codes of type {qType}: expected integers of 4, 8 or 16 bits")
    return found


def get_qrange_for_qType(qType: int, reduce_range: bool = False, symmetric: bool = False) -> int:  # noqa: N802
    low, high = get_qmin_qmax_for_qType(qType, reduce_range, symmetric)
    return int(high) - int(low)


def compute_scale_zp(rmin: Any, rmax: Any, qmin: Any, qmax: Any, symmetric: bool = False,
                     min_real_range: Optional[float] = None) -> List[np.ndarray]:
    """[zero point, scale] so that [rmin, rmax], widened to hold 0, fills the codes."""
    low, high = np.minimum(np.asarray(rmin), 0), np.maximum(np.asarray(rmax), 0)
    kind = low.dtype if low.dtype.kind == "f" else np.dtype(np.float32)
    if min_real_range is not None:
        high = np.maximum(high, (low + np.asarray(min_real_range, kind)).astype(kind))
    if symmetric:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    first, last = int(qmin), int(qmax)
    with np.errstate(over="ignore"):
        exact = (high.astype(np.float64) - low.astype(np.float64)) / (last - first)
        scale = exact.astype(kind)
    codes = np.asarray(qmin).dtype if np.asarray(qmin).dtype.kind != "i" or hasattr(qmin, "dtype") else np.dtype(int)
    if scale < np.finfo(kind).tiny:
        return [np.array(0).astype(codes), np.array(1, kind)]
    zero = round((first + last) / 2) if symmetric else int(np.round(first - low.astype(np.float64) / exact))
    return [np.array(zero).astype(codes), np.array(scale, kind)]


def _float8_values(element: int) -> np.ndarray:
    if element not in FLOAT8_DISTRIBUTIONS:
        every = np.arange(256, dtype=np.uint8).view(_dtype(element)).astype(np.float32)
        FLOAT8_DISTRIBUTIONS[element] = every[np.isfinite(every)]
    return FLOAT8_DISTRIBUTIONS[element]


def compute_scale_zp_float8(element_type: int, std: Any) -> List[np.ndarray]:
    """[zero point, scale] so that numbers of this deviation are spread as the type's own values are."""
    if element_type != TensorProto.FLOAT8E4M3FN:
        raise ValueError(f"float 8 of type {element_type}: expected FLOAT8E4M3FN")
    std = np.asarray(std)
    kind = std.dtype if std.dtype.kind == "f" else np.dtype(np.float32)
    return [np.zeros((), _dtype(element_type)),
            np.array(std.astype(np.float64) / _float8_values(element_type).std(dtype=np.float64), kind)]


def compute_data_quant_params(data: np.ndarray, quant_type: int, symmetric: bool, reduce_range: bool = False,
                              min_real_range: Optional[float] = None, rmin_override: Optional[float] = None,
                              rmax_override: Optional[float] = None) -> Tuple[np.ndarray, np.ndarray]:
    """(zero point, scale) for all of data together."""
    data = np.asarray(data)
    if quant_type == TensorProto.FLOAT8E4M3FN:
        if reduce_range:
            raise RuntimeError("reduce_range is for integers, the type is float 8")
        return tuple(compute_scale_zp_float8(quant_type, np.std(data)))
    low = data.min() if rmin_override is None and data.size else rmin_override or 0
    high = data.max() if rmax_override is None and data.size else rmax_override or 0
    ends = get_qmin_qmax_for_qType(quant_type, reduce_range, symmetric)
    return tuple(compute_scale_zp(np.array(low, data.dtype), np.array(high, data.dtype), *ends, symmetric,
                                  min_real_range))


def quantize_nparray(qType: int, arr: np.ndarray, scale: Any, zero_point: Any, low: Optional[int] = None,  # noqa: N802
                     high: Optional[int] = None) -> np.ndarray:
    """Codes of arr; scale and zero_point are of its shape, or of one that broadcasts to it."""
    if qType == TensorProto.FLOAT8E4M3FN:
        if np.any(np.asarray(zero_point).astype(np.float32) != 0):
            raise NotImplementedError("float 8 with a zero point other than 0")
        most = _float8_values(qType).max()
        return np.clip(np.asarray(arr) / np.asarray(scale), -most, most).astype(_dtype(qType))
    ends = get_qmin_qmax_for_qType(qType)
    first = max(int(ends[0]), int(ends[0]) if low is None else int(low))
    last = min(int(ends[1]), int(ends[1]) if high is None else int(high))
    codes = np.round(np.asarray(arr).astype(np.float32) / np.asarray(scale)) + np.asarray(zero_point).astype(np.float32)
    return np.clip(codes, first, last).astype(np.int32).astype(_dtype(qType))


def quantize_data(data: Any, qType: int, symmetric: bool, reduce_range: bool = False,  # noqa: N802
                  min_real_range: Optional[float] = None, rmin_override: Optional[float] = None,
                  rmax_override: Optional[float] = None) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(zero point, scale, codes) of data as one block."""
    data = np.asarray(data)
    zero, scale = compute_data_quant_params(data, qType, symmetric, reduce_range, min_real_range, rmin_override,
                                            rmax_override)
    return zero, scale, quantize_nparray(qType, data, scale, zero)


def compute_scale_zp_blocked(weight: np.ndarray, quant_type: int, axis: int, block_size: int,
                             symmetric: bool) -> Tuple[np.ndarray, np.ndarray]:
    """(zero points, scales) of blocks of block_size along axis: the weight's shape, with as many as there are blocks
    there."""
    blocks = _in_blocks(weight, axis, block_size)
    zeros, scales = np.zeros(blocks.shape[:-1], _dtype(quant_type)), np.zeros(blocks.shape[:-1], weight.dtype)
    ends = get_qmin_qmax_for_qType(quant_type, symmetric=symmetric)
    for i in np.ndindex(*scales.shape):
        zeros[i], scales[i] = compute_scale_zp(blocks[i].min(), blocks[i].max(), *ends, symmetric)
    return np.moveaxis(zeros, -1, axis), np.moveaxis(scales, -1, axis)


def _in_blocks(weight: np.ndarray, axis: int, block_size: int) -> np.ndarray:
    """(others, blocks, block_size): axis cut into blocks, the last filled up with zeros."""
    turned = np.moveaxis(weight, axis, -1)
    room = -turned.shape[-1] % block_size
    turned = np.pad(turned, [(0, 0)] * (turned.ndim - 1) + [(0, room)])
    return turned.reshape(*turned.shape[:-1], -1, block_size)


def spread(params: np.ndarray, shape: Tuple[int, ...], axis: Optional[int], block_size: int = 0) -> np.ndarray:
    """Scales or zero points so that they broadcast over a tensor of this shape."""
    if axis is None or params.ndim == 0:
        return params.reshape(())
    if block_size:
        repeated = np.repeat(params, block_size, axis)
        return np.take(repeated, range(shape[axis]), axis)
    return params.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def quantize_onnx_initializer(weight: TensorProto, quant_type: int, zero_point: np.ndarray, scale: np.ndarray,
                              axis: Optional[int] = None, quant_weight_name: Optional[str] = None,
                              block_size: int = 0) -> TensorProto:
    """The initializer's codes as an initializer."""
    data = tensor_proto_to_array(weight)
    codes = quantize_nparray(quant_type, data, spread(np.asarray(scale), data.shape, axis, block_size),
                             spread(np.asarray(zero_point), data.shape, axis, block_size))
    return numpy_helper.from_array(codes.reshape(data.shape), quant_weight_name or
                                   weight.name + TENSOR_NAME_QUANT_SUFFIX)


def listed(data: Any, name: str) -> TensorProto:
    """A tensor whose numbers stand in the field of their type, not as raw bytes."""
    data = np.asarray(data)
    return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape, data.reshape(-1).tolist())


def pack_bytes_to_4bit(src_8bit: bytes) -> bytearray:
    """Two codes a byte, the first in the lower half."""
    codes = np.frombuffer(bytes(src_8bit), np.uint8) & 15
    codes = np.append(codes, np.zeros(codes.size % 2, np.uint8))
    return bytearray((codes[0::2] | codes[1::2] << 4).tobytes())


def snap_zero_point_to_uint8(rmin: Any, rmax: Any, qmin: int = 0, qmax: int = 255,
                             min_real_range: Optional[float] = None) -> Tuple[np.ndarray, np.ndarray]:
    """(rmin, rmax), moved so that the zero point of 16 bits is a whole number of 8-bit steps away from the start."""
    zero, scale = compute_scale_zp(rmin, rmax, np.array(qmin), np.array(qmax), min_real_range=min_real_range)
    kind = np.asarray(scale).dtype
    return (np.array((qmin - int(zero)) * float(scale), kind), np.array((qmax - int(zero)) * float(scale), kind))


def normalize_axis(axis: int, rank: int) -> Tuple[bool, int]:
    """Whether the axis exists, and it counted from the front."""
    from_front = axis + rank if axis < 0 else axis
    return 0 <= from_front < rank, from_front


def smooth_distribution(p: np.ndarray, eps: float = 1e-4) -> Optional[np.ndarray]:
    """p with eps where it is 0, taken from the others in equal parts; None if that is more than they have."""
    p = np.asarray(p)
    zero = p == 0
    n_zero, n_other = int(zero.sum()), int(p.size - zero.sum())
    if not n_other:
        return None
    less = eps * n_zero / n_other
    if less >= 1:
        return None
    smooth = p.astype(np.float32) + eps * zero.astype(np.float32) - less * (~zero).astype(np.float32)
    return smooth if (smooth >= 0).all() else None


# ---- what is known of a quantized tensor ----

class QuantizedInitializer:
    """An initializer, its codes and their parameters."""

    def __init__(self, name: str, initializer: TensorProto, rmins: Any, rmaxs: Any, zero_points: Any, scales: Any,
                 data: Any = (), quantized_data: Any = (), axis: Optional[int] = None) -> None:
        self.name, self.initializer, self.rmins, self.rmaxs = name, initializer, rmins, rmaxs
        self.zero_points, self.scales, self.data = zero_points, scales, data
        self.quantized_data, self.axis = quantized_data, axis


class QuantizedValue:
    """Where the codes of a tensor are, and the names of their parameters."""

    def __init__(self, name: str, new_quantized_name: str, scale_name: str, zero_point_name: str,
                 quantized_value_type: Any, axis: Optional[int] = None, node_type: Any = None, node_qtype: Any = None,
                 scale_type: Any = None) -> None:
        self.original_name, self.q_name, self.scale_name, self.zp_name = (name, new_quantized_name, scale_name,
                                                                          zero_point_name)
        self.value_type, self.axis, self.node_type = quantized_value_type, axis, node_type
        self.node_qtype, self.scale_type = node_qtype, scale_type


class BiasToQuantize:
    """A bias, whose scale is the product of its input's and its weight's."""

    def __init__(self, bias_name: str, input_name: str, weight_name: str) -> None:
        self.bias_name, self.input_name, self.weight_name = bias_name, input_name, weight_name


# ---- names ----

def add_quant_suffix(tensor_name: str) -> str:
    return tensor_name + "_QuantizeLinear"


def add_dequant_suffix(tensor_name: str) -> str:
    return tensor_name + "_DequantizeLinear"


def add_quant_input_suffix(tensor_name: str) -> str:
    return tensor_name + QUANT_INPUT_SUFFIX


def add_quant_output_suffix(tensor_name: str) -> str:
    return tensor_name + "_QuantizeLinear_Output"


def add_dequant_input_suffix(tensor_name: str) -> str:
    return tensor_name + "_DequantizeLinear_Input"


def add_dequant_output_suffix(tensor_name: str) -> str:
    return tensor_name + DEQUANT_OUTPUT_SUFFIX


# ---- protos and files ----

def tensor_proto_to_array(initializer: TensorProto) -> np.ndarray:
    """The numbers of a tensor of floats."""
    if initializer.data_type not in _FLOATS:
        raise ValueError(f"initializer '{initializer.name}': expected floats, got "
                         f"{TensorProto.DataType.Name(initializer.data_type)}")
    return numpy_helper.to_array(initializer)


def attribute_to_kwarg(attribute: onnx.AttributeProto) -> Dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute)}


def find_by_name(item_name: str, item_list: Any) -> Any:
    return next((item for item in item_list if item.name == item_name), None)


def get_elem_index(elem_name: str, elem_list: Any) -> int:
    return next((i for i, e in enumerate(elem_list) if e == elem_name), -1)


def get_mul_node(inputs: List[str], output: str, name: str) -> onnx.NodeProto:
    return helper.make_node("Mul", inputs, [output], name)


def generate_identified_filename(filename: Path, identifier: str) -> Path:
    return filename.parent / (filename.stem + identifier + filename.suffix)


def get_opset_version(model: ModelProto) -> int:
    found = [o.version for o in model.opset_import if o.domain in ("", onnx_domain)]
    if len(found) != 1:
        raise ValueError(f"the model imports ai.onnx {len(found)} times, expected once")
    return found[0]


def update_opset_version(model: ModelProto, weight_type: Any, activation_type: Any = None,
                         tensor_quant_overrides: Optional[Dict[str, Any]] = None, block_size: int = 0) -> ModelProto:
    """The model in an opset whose QuantizeLinear writes these types; that of com.microsoft writes those of 4 bits."""
    kinds = {weight_type, activation_type} - {None}
    for rows in (tensor_quant_overrides or {}).values():
        kinds |= {k for row in rows for k in (row.get("quant_type"), row.get("convert", {}).get("quant_type")) if k}
    types = {k.tensor_type if isinstance(k, QuantType) else k for k in kinds}
    wide = types & {TensorProto.INT16, TensorProto.UINT16}
    need = 21 if block_size or wide else 19 if TensorProto.FLOAT8E4M3FN in types else 11
    if get_opset_version(model) >= (10 if need == 11 else need):
        return model
    changed = convert_version(model, need)
    changed.ir_version = max(changed.ir_version, {11: 6, 19: 9, 21: 10}[need])
    return changed


def convert_version(model: ModelProto, version: int) -> ModelProto:
    """The model in a later opset. onnx's converter has no way for Upsample, which opset 10 took out, and gives Resize
    of opset 10 other coordinates: it sees an Identity in the place of both."""
    from nacre.quantization.fusions import ReplaceUpsampleWithResize
    from nacre.quantization.onnx_model import ONNXModel
    if get_opset_version(model) > 10:
        return onnx.version_converter.convert_version(model, version)
    ReplaceUpsampleWithResize(ONNXModel(model), get_opset_version(model)).apply()
    aside = {}
    for node in model.graph.node:
        if node.op_type == "Resize":
            aside[node.output[0]] = onnx.NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(helper.make_node("Identity", [node.input[0]], [node.output[0]], node.name))
    model = onnx.version_converter.convert_version(model, version)
    for node in model.graph.node:
        if node.output[0] in aside:
            node.CopyFrom(aside[node.output[0]])
    return model


def add_infer_metadata(model: ModelProto) -> None:
    _set_metadata(model, "onnx.infer", "nacre.quant")


def model_has_infer_metadata(model: ModelProto) -> bool:
    return any(p.key == "onnx.infer" for p in model.metadata_props)


def add_pre_process_metadata(model: ModelProto) -> None:
    _set_metadata(model, "onnx.quant.pre_process", "nacre.quant")


def model_has_pre_process_metadata(model: ModelProto) -> bool:
    return any(p.key == "onnx.quant.pre_process" for p in model.metadata_props)


def _set_metadata(model: ModelProto, key: str, value: str) -> None:
    helper.set_model_props(model, {**{p.key: p.value for p in model.metadata_props}, key: value})


def model_has_external_data(model_path: Path) -> bool:
    model = onnx.load(str(model_path), load_external_data=False)
    return any(onnx.external_data_helper.uses_external_data(t) for t in model.graph.initializer)


def optimize_model(model_path: Path, opt_model_path: Path) -> None:
    """Constants folded and useless nodes gone; the nodes that are left are ONNX's own."""
    options = nacre.SessionOptions()
    options.optimized_model_filepath = str(opt_model_path)
    options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_ENABLE_BASIC
    nacre.InferenceSession(str(model_path), options)


def load_model(model: Union[str, Path, ModelProto]) -> ModelProto:
    """A model of the caller's own, with all its weights inside: a copy of a proto, or a file's."""
    if isinstance(model, ModelProto):
        own = ModelProto()
        own.CopyFrom(model)
        return own
    return onnx.load(str(model))


def load_model_with_shape_infer(model_path: Path) -> ModelProto:
    return save_and_reload_model_with_shape_infer(load_model(model_path))


def save_and_reload_model_with_shape_infer(model: ModelProto) -> ModelProto:
    """The model with the types of all values written down."""
    from nacre import _inference
    known = {v.name for part in (model.graph.value_info, model.graph.input, model.graph.output) for v in part}
    told = _inference.inferred(model)
    model.graph.value_info.extend(v for v in told.graph.value_info if v.name not in known)
    add_infer_metadata(model)
    return model


def write_calibration_table(calibration_cache: Any, dir: str = ".") -> None:
    """Ranges as calibration.json (a table of names and ends), calibration.cache (a line each) and
    calibration.flatbuffers (TensorRT's table)."""
    import json

    from nacre.quantization.CalTableFlatBuffers import table_of
    ranges = {}
    for name, data in calibration_cache.items():
        low, high = data.range_value
        ranges[name] = [float(np.min(low)), float(np.max(high))]
    write(Path(dir) / "calibration.json", json.dumps(ranges))
    reaches = {name: str(max(abs(a), abs(b))) for name, (a, b) in sorted(ranges.items())}
    write(Path(dir) / "calibration.cache", "".join(f"{name} {reach}\n" for name, reach in reaches.items()))
    write(Path(dir) / "calibration.flatbuffers", bytes(table_of(reaches)))


def apply_plot(hist: np.ndarray, hist_edges: np.ndarray) -> None:
    """Prints a histogram and draws it; needs the package matplotlib."""
    import sys

    import matplotlib.pyplot as plt
    with np.printoptions(threshold=sys.maxsize):
        print(f"counts: {hist}\nedges: {hist_edges}")
    plt.stairs(hist, hist_edges, fill=True)
    plt.xlabel("value")
    plt.ylabel("count")
    plt.show()


def temporary_folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="nacre-quant-")
