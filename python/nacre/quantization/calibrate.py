"""Calibration: runs a model over examples and finds the range of each tensor that is to be quantized.

MinMax takes the least and the greatest number seen, or a moving average of them. The others count numbers in a
histogram around 0 that grows in whole bins: Percentile cuts its ends off, Entropy chooses the range whose coarse form
tells most of it (Kullback-Leibler), Distribution keeps mean and deviation, which is what float 8 needs.
"""
from __future__ import annotations

import abc
import json
import os
import tempfile
from enum import Enum
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
import onnx
from onnx import TensorProto, helper

import nacre
from nacre import _inference
from nacre._files import save_model, write
from nacre.quantization.quant_utils import load_model, smooth_distribution

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


def rel_entr(pk: np.ndarray, qk: np.ndarray) -> np.ndarray:
    """p log(p/q), element by element; 0 where p is 0, infinite where only q is."""
    pk, qk = np.broadcast_arrays(np.asarray(pk), np.asarray(qk))
    result = np.full(pk.shape, np.inf, np.result_type(pk.dtype, np.float32))
    both = (pk > 0) & (qk > 0)
    result[both] = pk[both] * np.log(pk[both] / qk[both])
    result[(pk == 0) & (qk >= 0)] = 0
    return result


def entropy(pk: np.ndarray, qk: np.ndarray, base: Optional[float] = None, axis: int = 0) -> np.ndarray:
    """The relative entropy of two distributions, each scaled to sum 1."""
    if base is not None and base <= 0:
        raise ValueError(f"base is {base}, expected more than 0")
    pk, qk = (np.asarray(a).astype(np.float32) for a in (pk, qk))
    pk, qk = (a / a.sum(axis=axis, keepdims=True) for a in (pk, qk))
    total = rel_entr(pk, qk).sum(axis=axis)
    return (total if base is None else total / np.log(base)).astype(pk.dtype)


# ---- what calibration finds ----

class TensorData:
    """Of one tensor: lowest, highest; avg, std; hist, hist_edges; bins: what its method found."""

    _allowed = frozenset(["avg", "std", "lowest", "highest", "hist", "hist_edges", "bins"])
    _floats = frozenset(["avg", "std", "lowest", "highest", "hist_edges"])

    def __init__(self, **kwargs: Any) -> None:
        unknown = set(kwargs) - self._allowed
        if unknown:
            raise ValueError(f"unknown {sorted(unknown)}, expected some of {sorted(self._allowed)}")
        self._attrs = list(kwargs)
        for name, value in kwargs.items():
            if name in self._floats:
                if not hasattr(value, "dtype"):
                    raise ValueError(f"{name}: expected an array, got {type(value).__name__}")
                if value.dtype not in (np.float16, np.float32):
                    raise ValueError(f"{name}: expected float16 or float32, got {value.dtype}")
            setattr(self, name, value)

    @property
    def range_value(self) -> Tuple[Any, Any]:
        if not hasattr(self, "lowest") or not hasattr(self, "highest"):
            raise AttributeError(f"no range was found, only {sorted(self._attrs)}")
        return self.lowest, self.highest

    @property
    def avg_std(self) -> Tuple[Any, Any]:
        if not hasattr(self, "avg") or not hasattr(self, "std"):
            raise AttributeError(f"no mean and deviation were found, only {sorted(self._attrs)}")
        return self.avg, self.std

    def to_dict(self) -> Dict[str, Any]:
        return {"CLS": type(self).__name__, **{name: getattr(self, name) for name in self._attrs}}

    @classmethod
    def from_dict(cls, d: Dict[str, Any]) -> "TensorData":
        return cls(**{k: v for k, v in d.items() if k != "CLS"})


class TensorsData:
    """By name, what a method found."""

    def __init__(self, calibration_method: "CalibrationMethod", data: Dict[str, Any]) -> None:
        self.calibration_method = calibration_method
        self.data: Dict[str, TensorData] = {}
        for name, found in data.items():
            if not isinstance(name, str):
                raise TypeError(f"a name is a {type(name).__name__}, expected a string")
            self.data[name] = found if isinstance(found, TensorData) else self._of_tuple(calibration_method, found)

    @staticmethod
    def _of_tuple(method: "CalibrationMethod", found: Any) -> TensorData:
        if not isinstance(found, tuple) or len(found) not in (2, 4):
            raise TypeError(f"expected TensorData or a tuple of 2 or 4, got {found!r}")
        if method == CalibrationMethod.MinMax and len(found) == 2:
            return TensorData(lowest=found[0], highest=found[1])
        if len(found) == 4:
            return TensorData(lowest=found[0], highest=found[1], hist=found[2], bins=found[3])
        return TensorData(lowest=found[0], highest=found[1])

    def __iter__(self) -> Iterable[str]:
        return iter(self.data)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def __getitem__(self, key: str) -> TensorData:
        return self.data[key]

    def __setitem__(self, key: str, value: TensorData) -> None:
        if key not in self.data:
            raise RuntimeError(f"only what was calibrated can be changed; '{key}' was not")
        self.data[key] = value

    def __len__(self) -> int:
        return len(self.data)

    def keys(self) -> Any:
        return self.data.keys()

    def values(self) -> Any:
        return self.data.values()

    def items(self) -> Any:
        return self.data.items()

    def to_dict(self) -> Dict[str, Any]:
        return {"CLS": type(self).__name__, "data": self.data, "calibration_method": self.calibration_method}

    @classmethod
    def from_dict(cls, d: Dict[str, Any]) -> "TensorsData":
        return cls(d["calibration_method"], d["data"])


class CalibrationCacheEncoder(json.JSONEncoder):
    """Arrays, enumerations and what calibration found as JSON objects that say their class."""

    def default(self, obj: Any) -> Any:
        if isinstance(obj, (TensorData, TensorsData)):
            return obj.to_dict()
        if isinstance(obj, CalibrationMethod):
            return {"CLS": "CalibrationMethod", "value": obj.name}
        if isinstance(obj, (np.ndarray, np.generic)):
            return {"CLS": "numpy.array", "value": np.asarray(obj).tolist(), "dtype": str(np.asarray(obj).dtype)}
        return super().default(obj)


def _decoded(d: Dict[str, Any]) -> Any:
    kind = d.get("CLS")
    if kind == "numpy.array":
        return np.array(d["value"], d["dtype"])
    if kind == "CalibrationMethod":
        name = d["value"]
        return CalibrationMethod[name.rpartition(".")[2]] if isinstance(name, str) else CalibrationMethod(name)
    return {"TensorData": TensorData, "TensorsData": TensorsData}[kind].from_dict(d) if kind in (
        "TensorData", "TensorsData") else d


def save_tensors_data(tensors_data: TensorsData, path: Union[str, Path], *, smooth_quant: bool = False) -> None:
    text = json.dumps({"smooth_quant": smooth_quant, "tensors": tensors_data}, cls=CalibrationCacheEncoder)
    write(path, text)


def load_tensors_data(path: Union[str, Path]) -> TensorsData:
    try:
        found = json.loads(Path(path).read_text(), object_hook=_decoded)
        tensors = found["tensors"] if isinstance(found, dict) else found
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"{path} is no file of save_tensors_data: {e}") from None
    if not isinstance(tensors, TensorsData):
        raise ValueError(f"{path} is no file of save_tensors_data: it holds no tensors")
    return tensors


class CalibrationMethod(Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class CalibrationDataReader(metaclass=abc.ABCMeta):
    """The caller's examples: get_next gives the feeds of one run, by name, and None behind the last."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        return True if callable(getattr(subclass, "get_next", None)) else NotImplemented

    @abc.abstractmethod
    def get_next(self) -> Optional[Dict[str, Any]]:
        raise NotImplementedError

    def __iter__(self) -> "CalibrationDataReader":
        return self

    def __next__(self) -> Dict[str, Any]:
        feeds = self.get_next()
        if feeds is None:
            raise StopIteration
        return feeds

    def __len__(self) -> int:
        raise NotImplementedError

    def set_range(self, start_index: int, end_index: int) -> None:
        raise NotImplementedError


# ---- calibrators ----

class CalibraterBase:
    """Makes a session over the model whose tensors are outputs; what a method does with them is its own."""

    def __init__(self, model_path: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                 augmented_model_path: Any = "augmented_model.onnx", symmetric: bool = False,
                 use_external_data_format: bool = False, per_channel: bool = False) -> None:
        self.model = load_model(model_path)
        self.op_types_to_calibrate, self.symmetric, self.per_channel = op_types_to_calibrate, symmetric, per_channel
        self.augmented_model_path, self.use_external_data_format = augmented_model_path, use_external_data_format
        self.augment_model: Optional[onnx.ModelProto] = None
        self.infer_session: Any = None
        self.execution_providers = ["CPUExecutionProvider"]

    def set_execution_providers(self, execution_providers: Sequence[str] = ("CPUExecutionProvider",)) -> None:
        self.execution_providers = list(execution_providers)
        self.create_inference_session()

    def create_inference_session(self) -> None:
        options = nacre.SessionOptions()
        options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.infer_session = nacre.InferenceSession(str(self.augmented_model_path), options,
                                                    providers=self.execution_providers)

    def select_tensors_to_calibrate(self, model: onnx.ModelProto) -> Tuple[set, Dict[str, onnx.TypeProto]]:
        """(names, types): what nodes of these kinds read and write, if it is a tensor of floats and no weight."""
        types, weights, names = _inference.types_of(model), {t.name for t in model.graph.initializer}, set()
        for node in model.graph.node:
            if self.op_types_to_calibrate and node.op_type not in self.op_types_to_calibrate:
                continue
            for name in [*node.input, *node.output]:
                if name and name not in weights and name in types and \
                        types[name].tensor_type.elem_type in _FLOATS:
                    names.add(name)
        return names, types

    def get_augment_model(self) -> Optional[onnx.ModelProto]:
        return self.augment_model

    def augment_graph(self) -> None:
        raise NotImplementedError

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        raise NotImplementedError

    def compute_data(self) -> TensorsData:
        raise NotImplementedError

    def _save_augmented(self) -> None:
        save_model(self.model, self.augmented_model_path, save_as_external_data=self.use_external_data_format)
        self.augment_model = self.model


def _feeds(data_reader: Any) -> Iterable[Dict[str, Any]]:
    while (feeds := data_reader.get_next()) is not None:
        yield feeds


class MinMaxCalibrater(CalibraterBase):
    """The ends of what was seen. The model itself reduces its tensors, so that a run keeps none of them."""

    def __init__(self, model_path: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                 augmented_model_path: Any = "augmented_model.onnx", symmetric: bool = False,
                 use_external_data_format: bool = False, moving_average: bool = False,
                 averaging_constant: float = 0.01, max_intermediate_outputs: Optional[int] = None,
                 per_channel: bool = False) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, symmetric, use_external_data_format,
                         per_channel)
        if moving_average and not 0 <= averaging_constant <= 1:
            raise ValueError(f"averaging_constant is {averaging_constant}, expected 0 to 1")
        self.intermediate_outputs: List[List[np.ndarray]] = []
        self.calibrate_tensors_range: Optional[TensorsData] = None
        self.moving_average, self.averaging_constant = moving_average, averaging_constant
        self.max_intermediate_outputs = max_intermediate_outputs
        self.num_model_outputs = len(self.model.graph.output)
        self.model_original_outputs = {o.name for o in self.model.graph.output}

    def augment_graph(self) -> None:
        names, types = self.select_tensors_to_calibrate(self.model)
        self._names = sorted(names)
        graph = self.model.graph
        every = onnx.numpy_helper.from_array(np.array([-1], np.int64), "nacre_calibration_flat")
        graph.initializer.append(every)
        for name in self._names:
            kind, source = types[name].tensor_type.elem_type, name
            if not self.per_channel:  # one axis to reduce, whatever the rank
                source = name + "_Reshape"
                graph.node.append(helper.make_node("Reshape", [name, every.name], [source], source))
            for op in ("ReduceMin", "ReduceMax"):
                self._reduce(name, source, kind, op, types[name])
        self._save_augmented()

    def _reduce(self, name: str, source: str, kind: int, op: str, told: onnx.TypeProto) -> None:
        graph, opset = self.model.graph, next(o.version for o in self.model.opset_import if o.domain == "")
        rank = len(told.tensor_type.shape.dim) if self.per_channel else 1
        axes = [a for a in range(rank) if a != 1] if self.per_channel and rank > 1 else list(range(rank))
        inputs, attributes = [source], {"keepdims": 0}
        if opset >= 18:
            constant = f"{name}_{op}_axes"
            graph.initializer.append(onnx.numpy_helper.from_array(np.array(axes, np.int64), constant))
            inputs.append(constant)
        else:
            attributes["axes"] = axes
        graph.node.append(helper.make_node(op, inputs, [f"{name}_{op}"], f"{name}_{op}", **attributes))
        graph.output.append(helper.make_tensor_value_info(f"{name}_{op}", kind, None))

    def clear_collected_data(self) -> None:
        self.intermediate_outputs = []

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        wanted = [f"{n}_{op}" for n in self._names for op in ("ReduceMin", "ReduceMax")]
        for feeds in _feeds(data_reader):
            self.intermediate_outputs.append(self.infer_session.run(wanted, feeds) if wanted else [])
            if self.max_intermediate_outputs == len(self.intermediate_outputs):
                self.compute_data()
                self.clear_collected_data()
        if not self.intermediate_outputs and self.calibrate_tensors_range is None:
            raise ValueError("no calibration data: the reader's first get_next gave None")
        self.compute_data()
        self.clear_collected_data()

    def merge_range(self, old_range: Optional[TensorsData], new_range: TensorsData) -> TensorsData:
        """Both together; of moving averages, the new one's share is averaging_constant."""
        if not old_range:
            return new_range
        for name, old in old_range.items():
            (low, high), (new_low, new_high) = old.range_value, new_range[name].range_value
            if self.moving_average:
                share = low.dtype.type(self.averaging_constant)
                low, high = low + share * (new_low - low), high + share * (new_high - high)
            else:
                low, high = np.fmin(low, new_low), np.fmax(high, new_high)
            if self.symmetric:
                high = np.maximum(np.abs(low), np.abs(high))
                low = -high
            new_range[name] = TensorData(lowest=low, highest=high)
        return new_range

    def compute_data(self) -> Optional[TensorsData]:
        if not self.intermediate_outputs:
            return self.calibrate_tensors_range
        found = {}
        for i, name in enumerate(self._names):
            lows, highs = (np.stack([np.asarray(run[2 * i + k]) for run in self.intermediate_outputs]) for k in (0, 1))
            low, high = (lows.mean(0), highs.mean(0)) if self.moving_average else (
                np.fmin.reduce(lows, 0), np.fmax.reduce(highs, 0))  # an example that is no number says nothing
            low, high = low.astype(lows.dtype), high.astype(highs.dtype)
            if self.symmetric:
                high = np.maximum(np.abs(low), np.abs(high))
                low = -high
            found[name] = TensorData(lowest=np.asarray(low), highest=np.asarray(high))
        self.calibrate_tensors_range = self.merge_range(self.calibrate_tensors_range,
                                                        TensorsData(CalibrationMethod.MinMax, found))
        return self.calibrate_tensors_range


class HistogramCalibrater(CalibraterBase):
    """Counts what was seen; method says what is made of the counts. The examples of one reader lie in memory together,
    because their largest number says how wide a bin is; readers given one after the other do not."""

    def __init__(self, model_path: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                 augmented_model_path: Any = "augmented_model.onnx", use_external_data_format: bool = False,
                 method: str = "percentile", symmetric: bool = False, num_bins: int = 128,
                 num_quantized_bins: int = 2048, percentile: float = 99.999, scenario: str = "same") -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, symmetric, use_external_data_format)
        self.calibrate_tensors_range = None
        self.num_model_outputs = len(self.model.graph.output)
        self.model_original_outputs = {o.name for o in self.model.graph.output}
        self.collector: Optional[HistogramCollector] = None
        self.method, self.num_bins, self.num_quantized_bins = method, num_bins, num_quantized_bins
        self.percentile, self.scenario = percentile, scenario
        self.tensors_to_calibrate: set = set()

    def augment_graph(self) -> None:
        self.tensors_to_calibrate, types = self.select_tensors_to_calibrate(self.model)
        for name in sorted(self.tensors_to_calibrate - self.model_original_outputs):
            self.model.graph.output.append(helper.make_tensor_value_info(
                name, types[name].tensor_type.elem_type, None))
        self._save_augmented()

    def clear_collected_data(self) -> None:
        self.collector = None

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        inputs = {i.name for i in self.infer_session.get_inputs()}
        names = sorted(self.tensors_to_calibrate)
        computed = [n for n in names if n not in inputs]
        merged: Dict[str, List[np.ndarray]] = {}
        for feeds in _feeds(data_reader):
            tensors = dict(zip(computed, self.infer_session.run(computed, feeds) if computed else []))
            tensors.update((n, np.asarray(feeds[n])) for n in names if n in inputs and n in feeds)
            for name, tensor in tensors.items():
                merged.setdefault(name, []).append(tensor)
        if not merged:
            raise ValueError("no calibration data: the reader's first get_next gave None")
        if self.collector is None:
            self.collector = HistogramCollector(self.method, self.symmetric, self.num_bins, self.num_quantized_bins,
                                                self.percentile, self.scenario)
        self.collector.collect(merged)

    def compute_data(self) -> TensorsData:
        if self.collector is None:
            raise ValueError("nothing was collected")
        method = {"entropy": CalibrationMethod.Entropy, "percentile": CalibrationMethod.Percentile,
                  "distribution": CalibrationMethod.Distribution}[self.method]
        return TensorsData(method, self.collector.compute_collection_result())


class EntropyCalibrater(HistogramCalibrater):
    def __init__(self, model_path: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                 augmented_model_path: Any = "augmented_model.onnx", use_external_data_format: bool = False,
                 method: str = "entropy", symmetric: bool = False, num_bins: int = 128,
                 num_quantized_bins: int = 128) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, use_external_data_format,
                         method=method, symmetric=symmetric, num_bins=num_bins, num_quantized_bins=num_quantized_bins)


class PercentileCalibrater(HistogramCalibrater):
    def __init__(self, model_path: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                 augmented_model_path: Any = "augmented_model.onnx", use_external_data_format: bool = False,
                 method: str = "percentile", symmetric: bool = False, num_bins: int = 2048,
                 percentile: float = 99.999) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, use_external_data_format,
                         method=method, symmetric=symmetric, num_bins=num_bins, percentile=percentile)


class DistributionCalibrater(HistogramCalibrater):
    def __init__(self, model_path: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                 augmented_model_path: Any = "augmented_model.onnx", use_external_data_format: bool = False,
                 method: str = "distribution", num_bins: int = 128, scenario: str = "same") -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, use_external_data_format,
                         method=method, num_bins=num_bins, scenario=scenario)


class CalibrationDataCollector(metaclass=abc.ABCMeta):
    @abc.abstractmethod
    def collect(self, name_to_arr: Dict[str, Sequence[np.ndarray]]) -> None:
        raise NotImplementedError

    @abc.abstractmethod
    def compute_collection_result(self) -> Dict[str, Any]:
        raise NotImplementedError


class HistogramCollector(CalibrationDataCollector):
    """By name: (counts, edges, least, greatest, threshold). Counts lie around 0, or from 0 on for absolute values."""

    def __init__(self, method: str, symmetric: bool, num_bins: int, num_quantized_bins: int, percentile: float,
                 scenario: str) -> None:
        if method not in ("distribution", "entropy", "percentile"):
            raise ValueError(f"method is '{method}', expected distribution, entropy or percentile")
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile is {percentile}, expected 0 to 100")
        self.histogram_dict: Dict[str, Tuple[Any, ...]] = {}
        self.infinite: Set[str] = set()
        self.method, self.symmetric, self.num_bins = method, symmetric, num_bins
        self.num_quantized_bins, self.percentile, self.scenario = num_quantized_bins, percentile, scenario

    def get_histogram_dict(self) -> Dict[str, Tuple[Any, ...]]:
        return self.histogram_dict

    def collect(self, name_to_arr: Dict[str, Sequence[np.ndarray]]) -> None:
        if self.symmetric and self.method == "percentile":
            self.collect_absolute_value(name_to_arr)
        else:
            self.collect_value(name_to_arr)

    def _joined(self, name: str, arrays: Any) -> np.ndarray:
        """The finite ones; that a tensor has others, as masks have, is kept in mind."""
        parts = arrays if isinstance(arrays, (list, tuple)) else [arrays]
        data = np.concatenate([np.asarray(a).reshape(-1) for a in parts]) if parts else np.zeros(0, np.float32)
        finite = np.isfinite(data)
        if not finite.all():
            self.infinite.add(name)
        return data[finite]

    def collect_absolute_value(self, name_to_arr: Dict[str, Sequence[np.ndarray]]) -> None:
        for name, arrays in name_to_arr.items():
            data = self._joined(name, arrays)
            low, high = (data.min(), data.max()) if data.size else (data.dtype.type(0), data.dtype.type(0))
            sizes = np.abs(data)
            if name not in self.histogram_dict:
                counts, edges = np.histogram(sizes, bins=self.num_bins)
                self.histogram_dict[name] = (counts, edges.astype(data.dtype), low, high, None)
                continue
            counts, edges, old_low, old_high, _ = self.histogram_dict[name]
            most, width = (sizes.max() if sizes.size else 0), edges[1] - edges[0]
            if most > edges[-1]:
                more = np.arange(edges[-1] + width, most + width, width, dtype=edges.dtype)
                edges = np.concatenate([edges, more])
            new, edges = np.histogram(sizes, bins=edges)
            new[:len(counts)] += counts
            self.histogram_dict[name] = (new, edges.astype(data.dtype), min(old_low, low), max(old_high, high), None)

    def collect_value(self, name_to_arr: Dict[str, Sequence[np.ndarray]]) -> None:
        for name, arrays in name_to_arr.items():
            data = self._joined(name, arrays)
            low, high = (data.min(), data.max()) if data.size else (data.dtype.type(0), data.dtype.type(0))
            threshold = np.array(max(abs(low), abs(high)), data.dtype)
            if name in self.histogram_dict:
                self.histogram_dict[name] = self.merge_histogram(self.histogram_dict[name], data, low, high, threshold)
            else:
                counts, edges = np.histogram(data, self.num_bins, range=(-threshold, threshold))
                self.histogram_dict[name] = (counts, edges.astype(data.dtype), low, high, threshold)

    def merge_histogram(self, old_histogram: Tuple[Any, ...], data_arr: np.ndarray, new_min: Any, new_max: Any,
                        new_threshold: Any) -> Tuple[Any, ...]:
        """The old counts with data_arr's, in bins of the old width, more of them where the numbers lie further out."""
        counts, edges, low, high, threshold = old_histogram
        low, high = min(low, new_min), max(high, new_max)
        if new_threshold <= threshold:
            more, _ = np.histogram(data_arr, len(counts), range=(-threshold, threshold))
            return counts + more, edges, low, high, threshold
        if threshold == 0:
            more, edges = np.histogram(data_arr, len(counts), range=(-new_threshold, new_threshold))
            more[len(counts) // 2] += counts.sum()
            return more, edges.astype(data_arr.dtype), low, high, new_threshold
        width = 2 * threshold / len(counts)
        each = int((new_threshold - threshold) // width + 1)
        wide = np.array(each * width + threshold, data_arr.dtype)
        more, edges = np.histogram(data_arr, len(counts) + 2 * each, range=(-wide, wide))
        more[each:each + len(counts)] += counts
        return more, edges.astype(data_arr.dtype), low, high, wide

    def compute_collection_result(self) -> Dict[str, Any]:
        if not self.histogram_dict:
            raise ValueError("nothing was collected")
        found: Dict[str, Any] = {"entropy": self.compute_entropy, "percentile": self.compute_percentile,
                                 "distribution": self.compute_distribution}[self.method]()
        for name in self.infinite & set(found):
            kind = self.histogram_dict[name][1].dtype
            ends = (np.array(-np.inf, kind), np.array(np.inf, kind))
            if isinstance(found[name], TensorData):
                found[name].lowest, found[name].highest = ends
            else:
                found[name] = (*ends, *found[name][2:])
        return found

    def compute_percentile(self) -> Dict[str, Tuple[Any, ...]]:
        found = {}
        for name, (counts, edges, low, high, _) in self.histogram_dict.items():
            shares = np.cumsum(counts / max(counts.sum(), 1))
            if self.symmetric:
                right = edges[np.searchsorted(shares, self.percentile / 100)]
                ends = (-right, right)
            else:
                cut = (100 - self.percentile) / 200
                ends = edges[np.searchsorted(shares, cut)], edges[np.searchsorted(shares, 1 - cut)]
            ends = max(ends[0], low), min(ends[1], high)
            found[name] = (*(np.array(e, edges.dtype) for e in ends), counts, edges)
        return found

    def compute_entropy(self) -> Dict[str, Tuple[Any, ...]]:
        return {name: (*self.get_entropy_threshold(histogram, self.num_quantized_bins), *histogram[:2])
                for name, histogram in self.histogram_dict.items()}

    def get_entropy_threshold(self, histogram: Tuple[Any, ...], num_quantized_bins: int) -> Tuple[Any, Any]:
        """The range around 0 whose counts, told in num_quantized_bins steps, lose least."""
        counts, edges, low, high, _ = histogram
        middle, half = len(counts) // 2, num_quantized_bins // 2
        best, ends = np.inf, (edges[0], edges[-1])
        for reach in range(half, middle + 1):
            first, behind = middle - reach, min(middle + reach + 1, len(counts))
            loss = self._loss(counts, first, behind, num_quantized_bins)
            if loss < best:
                best, ends = loss, (edges[first], edges[behind])
        return np.array(max(ends[0], low), edges.dtype), np.array(min(ends[1], high), edges.dtype)

    @staticmethod
    def _loss(counts: np.ndarray, first: int, behind: int, steps: int) -> float:
        """How much of counts[first:behind], the others moved to its ends, is lost when told in so many steps."""
        part = counts[first:behind].astype(np.float64)
        p = part.copy()
        p[0] += counts[:first].sum()
        p[-1] += counts[behind:].sum()
        each, filled = len(part) // steps, p != 0
        starts = np.arange(steps) * each
        of_bin = np.minimum(np.arange(len(part)) // max(each, 1), steps - 1)
        sums = np.add.reduceat(part, starts) if each else part[:steps]
        shares = np.bincount(of_bin, filled, steps)
        q = np.where(filled, (sums / np.maximum(shares, 1))[of_bin], 0)
        p_smooth, q_smooth = smooth_distribution(p), smooth_distribution(q)
        if p_smooth is None or q_smooth is None:
            return np.inf
        return float(entropy(p_smooth, q_smooth))

    @staticmethod
    def _mean_and_deviation(counts: np.ndarray, edges: np.ndarray, power: int = 1) -> Tuple[Any, Any]:
        if power <= 0:
            raise ValueError(f"power is {power}, expected more than 0")
        middles = ((edges[:-1].astype(np.float64) + edges[1:]) / 2) ** power
        total = max(counts.sum(), 1)
        mean = (counts * middles).sum() / total
        deviation = np.sqrt(np.maximum((counts * middles ** 2).sum() / total - mean ** 2, 0))
        return np.array(mean, edges.dtype), np.array(deviation, edges.dtype)

    def compute_distribution(self) -> Dict[str, TensorData]:
        if self.num_bins < 512:
            raise ValueError(f"num_bins is {self.num_bins}: a distribution takes at least 512")
        if self.scenario not in ("same", "p3"):
            raise ValueError(f"scenario is '{self.scenario}', expected same or p3")
        found = {}
        for name, (counts, edges, low, high, _) in self.histogram_dict.items():
            mean, deviation = self._mean_and_deviation(counts, edges, 1 if self.scenario == "same" else 3)
            found[name] = TensorData(avg=mean, std=deviation, hist=counts, hist_edges=edges,
                                     lowest=np.array(low, edges.dtype), highest=np.array(high, edges.dtype))
        return found


_KINDS = {CalibrationMethod.MinMax: MinMaxCalibrater, CalibrationMethod.Entropy: EntropyCalibrater,
          CalibrationMethod.Percentile: PercentileCalibrater, CalibrationMethod.Distribution: DistributionCalibrater}
_KNOWN = {CalibrationMethod.MinMax: ("symmetric", "moving_average", "averaging_constant", "max_intermediate_outputs",
                                     "per_channel"),
          CalibrationMethod.Entropy: ("symmetric", "num_bins", "num_quantized_bins"),
          CalibrationMethod.Percentile: ("symmetric", "num_bins", "percentile"),
          CalibrationMethod.Distribution: ("num_bins", "scenario")}


def create_calibrator(model: Any, op_types_to_calibrate: Optional[Sequence[str]] = None,
                      augmented_model_path: Any = "augmented_model.onnx",
                      calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
                      use_external_data_format: bool = False, providers: Optional[Sequence[str]] = None,
                      extra_options: Dict[str, Any] = {}) -> CalibraterBase:  # noqa: B006
    """A calibrator of the method, ready to collect. The augmented model stays at augmented_model_path."""
    if calibrate_method not in _KINDS:
        raise ValueError(f"calibrate_method is {calibrate_method}, expected a CalibrationMethod")
    known = {k: v for k, v in extra_options.items() if k in _KNOWN[calibrate_method]}
    if calibrate_method == CalibrationMethod.Distribution:
        known.setdefault("num_bins", 2048)
    elif calibrate_method == CalibrationMethod.Percentile:
        known.setdefault("symmetric", True)
    calibrator = _KINDS[calibrate_method](model, op_types_to_calibrate, augmented_model_path,
                                          use_external_data_format=use_external_data_format, **known)
    calibrator.augment_graph()
    calibrator.set_execution_providers(providers or ["CPUExecutionProvider"])
    return calibrator


def calibrated(model: onnx.ModelProto, reader: Any, op_types: Sequence[str], method: CalibrationMethod,
               providers: Optional[Sequence[str]], external: bool, options: Dict[str, Any]) -> TensorsData:
    """What calibrating with a reader's examples finds; nothing is left on the disk. A reader that knows its length and
    takes ranges is read in strides of options["stride"]."""
    stride = options.pop("stride", None)
    with tempfile.TemporaryDirectory(prefix="nacre-calibrate-") as folder:
        calibrator = create_calibrator(model, op_types, os.path.join(folder, "augmented.onnx"), method, external,
                                       providers, options)
        if stride:
            for start in range(0, len(reader), stride):
                reader.set_range(start_index=start, end_index=min(start + stride, len(reader)))
                calibrator.collect_data(reader)
        else:
            calibrator.collect_data(reader)
        found = calibrator.compute_data()
    if not isinstance(found, TensorsData):
        raise TypeError(f"calibration gave {type(found).__name__}, expected TensorsData")
    return found
