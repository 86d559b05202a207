"""python -m nacre.quantization: what `nacre quantize` calls; that command's help tells the options."""
from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import onnx

import nacre
from nacre.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quant_pre_process,
                                quantize_dynamic, quantize_static)
from nacre.quantization import matmul_nbits_quantizer as few_bits

_TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8, "int16": QuantType.QInt16, "uint16": QuantType.QUInt16,
          "int4": QuantType.QInt4, "uint4": QuantType.QUInt4}
_METHODS = {"minmax": CalibrationMethod.MinMax, "entropy": CalibrationMethod.Entropy,
            "percentile": CalibrationMethod.Percentile}


class Examples(CalibrationDataReader):
    """Slices of arrays along their first axis, as many as a run takes; an array of no dims is the same in all runs."""

    def __init__(self, paths: List[str], batch: int) -> None:
        self._left = self._slices(paths, batch)

    @staticmethod
    def _slices(paths: List[str], batch: int) -> Iterator[Dict[str, np.ndarray]]:
        for path in paths:
            archive = np.load(path, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise ValueError(f"{path} is one array, expected an archive of arrays by name (.npz)")
            with archive:
                arrays = {name: archive[name] for name in archive.files}
            counts = {name: a.shape[0] for name, a in arrays.items() if a.ndim}
            if len(set(counts.values())) != 1 or not min(counts.values(), default=0):
                raise ValueError(f"{path}: the arrays hold other numbers of examples: {counts}")
            count = next(iter(counts.values()))
            for start in range(0, count - count % batch, batch):
                yield {name: a[start:start + batch] if a.ndim else a for name, a in arrays.items()}

    def get_next(self) -> Optional[Dict[str, np.ndarray]]:
        return next(self._left, None)


def parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nacre quantize", allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("-o", dest="out", required=True)
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--method", choices=sorted(_METHODS), default="minmax")
    parser.add_argument("--form", choices=["qdq", "operators"], default="qdq")
    parser.add_argument("--activations", choices=["uint8", "int8", "uint16", "int16"], default="uint8")
    parser.add_argument("--weights", choices=sorted(_TYPES), default="int8")
    parser.add_argument("--bits", type=int, choices=[2, 4, 8])
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--search", choices=["default", "k_quant", "hqq", "gptq"], default="default")
    parser.add_argument("--op", action="append")
    parser.add_argument("--exclude", action="append")
    for flag in ("--per-channel", "--reduce-range", "--symmetric", "--prepare", "--external"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args(arguments)


def weights_alone(model: str, told: argparse.Namespace) -> None:
    if told.search == "hqq":
        config: Any = few_bits.HQQWeightOnlyQuantConfig(told.block, told.bits, op_types_to_quantize=told.op)
    elif told.search == "k_quant":
        config = few_bits.KQuantWeightOnlyQuantConfig(op_types_to_quantize=told.op)
    elif told.search == "gptq":
        if not told.data:
            raise ValueError("--search gptq needs --data, arrays by the names of the inputs")
        examples = Examples(told.data, told.batch or fixed_batch(model))
        config = few_bits.GPTQWeightOnlyQuantConfig(examples, op_types_to_quantize=told.op)
    else:
        config = few_bits.DefaultWeightOnlyQuantConfig(told.block, told.symmetric, op_types_to_quantize=told.op,
                                                       bits=told.bits)
    quantizer = few_bits.MatMulNBitsQuantizer(model, told.bits, told.block, told.symmetric, algo_config=config,
                                              nodes_to_exclude=told.exclude)
    quantizer.process()
    quantizer.model.save_model_to_file(told.out, told.external)


def fixed_batch(model: str) -> int:
    """The first dim that the inputs of a model have in common, as a number; 1 where it is open."""
    graph = onnx.load(model, load_external_data=False).graph
    weights = {t.name for t in graph.initializer}
    dims = [i.type.tensor_type.shape.dim for i in graph.input if i.name not in weights]
    first = {d[0].dim_value for d in dims if len(d)}
    return max(first.pop(), 1) if len(first) == 1 else 1


def quantized(model: str, told: argparse.Namespace) -> None:
    common = dict(op_types_to_quantize=told.op, per_channel=told.per_channel, reduce_range=told.reduce_range,
                  weight_type=_TYPES[told.weights], nodes_to_exclude=told.exclude,
                  use_external_data_format=told.external)
    if told.bits:
        weights_alone(model, told)
    elif told.data:
        examples = Examples(told.data, told.batch or fixed_batch(model))
        quantize_static(model, told.out, examples, calibrate_method=_METHODS[told.method],
                        quant_format=QuantFormat.QDQ if told.form == "qdq" else QuantFormat.QOperator,
                        activation_type=_TYPES[told.activations], **common)
    else:
        quantize_dynamic(model, told.out, **common)


def main(arguments: List[str]) -> int:
    told = parse(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="nacre-quantize-") as folder:
            model = told.model
            if told.prepare:
                model = os.path.join(folder, "prepared.onnx")
                quant_pre_process(told.model, model)
            quantized(model, told)
        sizes = [os.path.getsize(p) / 1e6 for p in (told.model, told.out)]
    except (ValueError, OSError, RuntimeError, NotImplementedError, nacre.capi.onnxruntime_pybind11_state.Fail,
            nacre.InvalidArgument, nacre.InvalidGraph) as e:
        print(f"nacre: {e}", file=sys.stderr)
        return 1
    print(f"{told.out}: {sizes[1]:.2f} MB, {told.model} has {sizes[0]:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
