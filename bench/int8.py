"""Models of 8-bit integers as onnxruntime.quantization writes them: BERT with its products quantized dynamically,
ResNet-50 and MobileNetV2 between QuantizeLinear and DequantizeLinear, with ranges found by a few inputs.

Codes of weights have 7 bits (reduce_range), as onnxruntime advises for processors without VNNI: with 8 its products
saturate there, and neither its results nor its time are those of the model. "8 bits" rows are the defaults of the tool:
times count, and results only as far as a saturated product lets them agree.
"""
import contextlib
import io
import logging

import numpy as np

import models
import nets
import paired

WITHOUT_VNNI, WITH_VNNI = 1.0, 0.8
SEVEN, EIGHT = 0.05, 0.5  # how far outputs may be off: a code more or less is passed on by all layers; saturation
QUICK = dict(layers=2, hidden=64, heads=2, vocabulary=300)


def _target():
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        text = f.read()
        return WITH_VNNI if "vnni" in text or "asimddp" in text else WITHOUT_VNNI
    return WITHOUT_VNNI


class _Samples:
    """What onnxruntime's calibration asks for."""

    def __init__(self, feeds):
        self.left = iter(feeds)

    def get_next(self):
        return next(self.left, None)


def _quantize(source, path, feeds, dynamic, bits):
    from onnxruntime import quantization
    logging.getLogger().setLevel(logging.ERROR)
    new = path.with_suffix(".tmp")
    with contextlib.redirect_stdout(io.StringIO()):
        if dynamic:
            quantization.quantize_dynamic(str(source), str(new), reduce_range=bits == 7)
        else:
            quantization.quantize_static(str(source), str(new), _Samples(feeds), per_channel=True,
                                         reduce_range=bits == 7, activation_type=quantization.QuantType.QUInt8)
    new.rename(path)


def _images(arrays):
    """The input, and others like it."""
    rng = np.random.default_rng(12)
    return [arrays] + [{k: rng.standard_normal(v.shape, np.float32) for k, v in arrays.items()} for _ in range(2)]


def _made(bench, name, stem, make, dynamic, bits, kind):
    source, feeds = bench.folder / f"{stem}.onnx", bench.folder / f"{stem}.npz"
    path = bench.folder / f"{stem}_int{bits}.onnx"
    if not (source.exists() and feeds.exists()):
        model, arrays = make()
        models.made(bench.folder, stem, lambda: model)
        np.savez(feeds, **arrays)
    if not path.exists():
        bench.say(f"{name} is quantized")
        with np.load(feeds) as f:
            _quantize(source, path, _images(dict(f)) if not dynamic else [], dynamic, bits)
    within = SEVEN if bits == 7 else EIGHT
    return paired.Model(f"{name}, {bits} bits", path, feeds, kind, target=_target(), within=within)


def _quick():
    rng = np.random.default_rng(1)
    ids = rng.integers(0, QUICK["vocabulary"], (1, 8))
    return models.bert(**QUICK), {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _all(bench):
    if bench.quick:
        return [_made(bench, "BERT, dynamic", "bert_small", _quick, True, 7, "gemm")]
    rows = (("BERT, dynamic", "bert-base", nets.bert, True, "gemm"), ("ResNet-50, QDQ", "resnet-50", nets.resnet50,
            False, "conv"), ("MobileNetV2, QDQ", "mobilenetv2", nets.mobilenet_v2, False, "conv"))
    return [_made(bench, name, stem, make, dynamic, bits, kind) for name, stem, make, dynamic, kind in rows
            for bits in (7, 8)]


def measure(bench):
    return paired.measure(bench, "Models of 8-bit integers", _all(bench), {"all": _target()})
