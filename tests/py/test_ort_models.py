"""Models that onnxruntime wrote: saved after its own optimization, quantized by its tools, converted to float16. Each
gives what onnxruntime gives for it. The small ones are here; tests/nightly/test_ort_levels.py has every model at every
level."""
import platform
import sys

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto, helper, numpy_helper

import nacre_c
from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

sys.path.insert(0, str(nacre_c.ROOT / "tests" / "models"))
import compare  # noqa: E402
import nacre  # noqa: E402
import test_real_models  # noqa: E402

onnxruntime.set_default_logger_severity(4)
LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
SMALL = ["ch_ppocr_mobile_v2.0_cls_infer", "magika_standard_v3_3", "silero_vad_16k_op15"]


def optimized(path, level, folder):
    """The file that onnxruntime saves for a model at a level."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.optimized_model_filepath = str(folder / f"{level}.onnx")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return folder / f"{level}.onnx"


def check_real_model(name, level, folder):
    path, runs = test_real_models.model(name)
    session = nacre.InferenceSession(optimized(path, level, folder))
    got = [r.through(compare.by_name(session)) for r in runs]
    wrong = compare.differences(path, runs, got, compare.reference(path, runs))
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SMALL)
def test_optimized_by_onnxruntime(name, level, tmp_path):
    check_real_model(name, level, tmp_path)


# ---- a small network with what the optimizer lays out in blocks ----

draw = np.random.default_rng(5)


def weights(*shape):
    return (draw.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def network():
    """Convolutions of every kind with pools, a sum, a join, an upsampling and a classifier."""
    node = helper.make_node
    window = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    nodes = [node("Conv", ["x", "w0", "b0"], ["c0"], **window), node("Relu", ["c0"], ["r0"]),
             node("MaxPool", ["r0"], ["p0"], kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["p0", "w1"], ["c1"], group=32, **window), node("Clip", ["c1", "low", "high"], ["k1"]),
             node("Conv", ["k1", "w2", "b0"], ["c2"], kernel_shape=[1, 1]), node("Add", ["c2", "p0"], ["s2"]),
             node("Relu", ["s2"], ["r2"]), node("AveragePool", ["r2"], ["a2"], kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["a2", "w3"], ["c3"], **window), node("Sigmoid", ["c3"], ["g3"]),
             node("Mul", ["c3", "g3"], ["m3"]), node("Resize", ["m3", "", "scales"], ["u3"], mode="nearest",
                                                     coordinate_transformation_mode="asymmetric",
                                                     nearest_mode="floor"),
             node("Concat", ["u3", "r2"], ["j4"], axis=1), node("Conv", ["j4", "w4"], ["c4"], **window),
             node("Relu", ["c4"], ["r4"]), node("GlobalAveragePool", ["r4"], ["g4"]), node("Flatten", ["g4"], ["f4"]),
             node("Gemm", ["f4", "w5"], ["y"], transB=1)]
    held = {"w0": weights(32, 3, 3, 3), "b0": weights(32), "w1": weights(32, 1, 3, 3), "w2": weights(32, 32, 1, 1),
            "w3": weights(64, 32, 3, 3), "w4": weights(24, 96, 3, 3), "w5": weights(10, 24), "low": np.float32(-1),
            "high": np.float32(1), "scales": np.float32([1, 1, 2, 2])}
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])
    graph = helper.make_graph(nodes, "network", [image],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
                              [numpy_helper.from_array(v, k) for k, v in held.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    onnx.save(network(), folder / "network.onnx")
    return folder / "network.onnx"


IMAGES = [draw.standard_normal((n, 3, 16, 16)).astype(np.float32) for n in (1, 4)]


def both(path, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return nacre.InferenceSession(str(path)).run(None, {"x": x})[0], theirs.run(None, {"x": x})[0]


@pytest.mark.parametrize("level", LEVELS)
def test_optimized_network(small, level, tmp_path):
    path = optimized(small, level, tmp_path)
    domains = {n.domain for n in onnx.load(path).graph.node}
    # onnxruntime has that layout on x86-64 alone.
    assert ("com.microsoft.nchwc" if level == "all" and platform.machine() == "x86_64" else "") in domains
    for x in IMAGES:
        got, _ = both(path, x)
        close(got, both(small, x)[1], "ort_f32", f"{level}, {len(x)} images")


# ---- quantized ----

class Images:
    """Feeds for calibration."""

    def __init__(self):
        self.left = list(IMAGES)

    def get_next(self):
        return {"x": self.left.pop()} if self.left else None


def quantized(small, to, how):
    from onnxruntime import quantization as q
    kinds = {"u8": q.QuantType.QUInt8, "s8": q.QuantType.QInt8}
    kind, *rest = how.split("-")
    if kind == "dynamic":
        q.quantize_dynamic(small, to, weight_type=kinds[rest[0]], per_channel="channels" in rest)
    elif kind in ("qdq", "operators"):
        q.quantize_static(small, to, Images(), activation_type=kinds[rest[0]], weight_type=kinds[rest[1]],
                          quant_format=q.QuantFormat.QDQ if kind == "qdq" else q.QuantFormat.QOperator,
                          per_channel="channels" in rest, reduce_range=rest[1] == "s8")
    else:
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        made = MatMulNBitsQuantizer(onnx.load(small), block_size=16, is_symmetric=kind == "symmetric")
        made.process()
        made.model.save_model_to_file(str(to))


@pytest.mark.parametrize("how", ["dynamic-u8", "dynamic-s8", "dynamic-u8-channels", "qdq-u8-s8", "qdq-s8-s8-channels",
                                 "qdq-u8-u8", "operators-u8-u8", "operators-u8-s8-channels", "operators-s8-s8",
                                 "symmetric-4", "asymmetric-4"])
def test_quantized_by_onnxruntime(small, how, tmp_path):
    """Rounding the other way moves a logit by a step of the last quantization, which is what is allowed. Signed weights
    have 7 bits: with 8, onnxruntime's sums of two products saturate on processors without VNNI."""
    quantized(small, tmp_path / "q.onnx", how)
    for x in IMAGES:
        got, want = both(tmp_path / "q.onnx", x)
        if how.endswith("-4"):
            close(got, want, "ort_f32", how)
        else:
            close(got, want, "quantized_model", how)


def test_float16(small, tmp_path):
    from onnxruntime.transformers import float16
    onnx.save(float16.convert_float_to_float16(onnx.load(small), keep_io_types=True), tmp_path / "h.onnx")
    for x in IMAGES:
        close(*both(tmp_path / "h.onnx", x), "graph_f16", "float16")  # on AArch64 onnxruntime sums in float16


@pytest.mark.parametrize("level", LEVELS)
def test_float16_optimized(small, level, tmp_path):
    """Where its processor computes in float16, onnxruntime writes pools of a domain that the file does not import."""
    from onnxruntime.transformers import float16
    onnx.save(float16.convert_float_to_float16(onnx.load(small)), tmp_path / "h.onnx")
    path = optimized(tmp_path / "h.onnx", level, tmp_path)
    domains = {n.domain for n in onnx.load(path).graph.node}
    assert ("com.ms.internal.nhwc" if level == "all" and platform.machine() == "aarch64" else "") in domains
    for x in IMAGES:
        close(*both(path, x.astype(np.float16)), "graph_f16", f"{level}, {len(x)} images")
