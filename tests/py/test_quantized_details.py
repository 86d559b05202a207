"""What scripts read in a quantized model beside its operators: the types of codes, where scales and zero points stand,
which tensors share them, shapes of outputs; wishes and configs. Each is asked of onnxruntime.quantization too."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnxruntime.quantization import calibrate as their_calibrate, quant_utils as their_utils

import test_quantization as q
from test_quantization import quiet  # noqa: F401

calibrate, quant_utils = q.calibrate, q.quant_utils
F32 = np.float32


def static(told, shape=(2, 3, 5, 5), count=3):
    """Calls quantize_static with this, where texts name types and forms."""
    def call(module, source, target):
        words = {k: getattr(module, "QuantFormat" if k == "quant_format" else "QuantType")[v] if isinstance(v, str)
                 else v for k, v in told.items()}
        module.quantize_static(source, target, q.Feeds(shape, count), **words)
    return call


def same(folder, model, told, shape=(2, 3, 5, 5)):
    q.both_ways(folder, model, static(told, shape), q.feeds(shape))
    (_, mine), (_, theirs) = (q.parts(folder / f"{name}.onnx") for name in ("mine", "theirs"))
    return mine, theirs


def conv(**more):
    i = {"w": q.weight(4, 3, 2, 2), "b": q.weight(4), **more}
    return q.model_of([q.node("Conv", "x w b", "y")], {"x": ["n", 3, 5, 5]}, i)


# ---- types ----

def test_channels_of_convolutions_have_signed_codes(tmp_path):
    """Also where codes without a sign were asked for: one zero point for all channels."""
    mine, theirs = same(tmp_path, conv(), dict(quant_format="QOperator", per_channel=True, activation_type="QUInt8",
                                               weight_type="QUInt8"))
    assert mine["w_quantized"].dtype == theirs["w_quantized"].dtype == np.int8
    assert not mine["w_zero_point"].any() and mine["w_zero_point"].shape == (4,)


@pytest.mark.parametrize("per_channel", [False, True])
def test_recurrent_weights_have_signed_codes(per_channel, tmp_path):
    lstm = q.model_of([q.node("LSTM", "x w r", "y", hidden_size=4)], {"x": [5, "n", 3]},
                      {"w": q.weight(1, 16, 3), "r": q.weight(1, 16, 4)})
    q.both_ways(tmp_path, lstm, lambda m, s, t: m.quantize_dynamic(
        s, t, weight_type=m.QuantType.QUInt8, per_channel=per_channel), q.feeds((5, 2, 3)))
    assert q.parts(tmp_path / "mine.onnx")[1]["w_quantized"].dtype == np.int8


@pytest.mark.parametrize("kind", [T.UINT8, T.INT16])
def test_types_as_numbers_of_onnx(kind, tmp_path):
    same(tmp_path, conv(), dict(activation_type=kind, weight_type=T.INT8))


# ---- parameters ----

@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_scales_and_zero_points_are_listed(form, per_channel, tmp_path):
    """Not as raw bytes: scripts read float_data and int32_data."""
    same(tmp_path, conv(), dict(quant_format=form, per_channel=per_channel))
    for name in ("mine", "theirs"):
        held = {t.name: t for t in onnx.load(tmp_path / f"{name}.onnx").graph.initializer}
        for tensor in ("x", "w", "y"):
            count = 4 if tensor == "w" and per_channel else 1
            assert len(held[tensor + "_scale"].float_data) == len(held[tensor + "_zero_point"].int32_data) == count


def test_zero_points_of_any_range():
    """Rounded once, from exact steps: -1 to 1 lies around 0."""
    r = np.random.default_rng(5)
    ranges = [(-1, 1), (-3, 3), (-1, 2), (0, 0), (-5, 0)] + [(-a, b) for a, b in r.uniform(0, 9, (300, 2))]
    for low, high in ranges:
        for kind in (np.int8, np.uint8, np.int16, np.uint16):
            ends = [np.array(e, kind) for e in (np.iinfo(kind).min, np.iinfo(kind).max)]
            mine, theirs = (u.compute_scale_zp(F32(low), F32(high), *ends) for u in (quant_utils, their_utils))
            assert [x.item() for x in mine] == [x.item() for x in theirs], (low, high, kind)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_scales_grow_for_large_biases(form, per_channel, tmp_path):
    """Small weights beside a large bias: the model holds the scale that its codes were made with."""
    model = conv(w=F32(np.where(np.arange(48) % 2, 1e-7, -1e-7)).reshape(4, 3, 2, 2), b=F32([5, -4.5, 3, 1]))
    mine, _ = same(tmp_path, model, dict(quant_format=form, per_channel=per_channel, activation_type="QUInt8"))
    assert (mine["w_scale"] > 2e-7 / 254).any() and np.abs(mine["b_quantized"].astype(np.int64)).max() < 2**31 - 1
    x = q.feeds((2, 3, 5, 5))
    for got, want in zip(q.by_ort(tmp_path / "mine.onnx", x), q.by_ort(tmp_path / "plain.onnx", x)):
        assert np.abs(got - want).max() < 0.1


# ---- pairs ----

def padded(mode, number):
    constants = {"w": q.weight(4, 3, 2, 2), "p": np.array([0, 0, 1, 1, 0, 0, 2, 0])}
    inputs = "a p"
    if number is not None:
        constants["v"], inputs = F32(number), "a p v"
    return q.model_of([q.node("Conv", "x w", "a"), q.node("Pad", inputs, "y", mode=mode)], {"x": ["n", 3, 5, 5]},
                      constants)


@pytest.mark.parametrize("mode,number,shared", [("constant", None, True), ("constant", 0, True),
                                                ("constant", 30.0, False), ("reflect", None, True)])
def test_pads_share_where_their_numbers_have_codes(mode, number, shared, tmp_path):
    mine, theirs = same(tmp_path, padded(mode, number), dict(activation_type="QUInt8"))
    assert ("y_scale" not in mine) == ("y_scale" not in theirs) == shared


def test_pads_in_front(tmp_path):
    model = q.model_of([q.node("Pad", "x p", "a"), q.node("Conv", "a w", "y")], {"x": ["n", 3, 5, 5]},
                       {"w": q.weight(4, 3, 2, 2), "p": np.array([0, 0, 1, 1, 0, 0, 2, 0])})
    mine, theirs = same(tmp_path, model, dict(activation_type="QUInt8"))
    assert "x_scale" in mine and "x_scale" in theirs


@pytest.mark.parametrize("by_channel", [False, True])
def test_weights_that_are_codes_already(by_channel, tmp_path):
    """They keep their scale, and get no second pair; the bias has codes too."""
    scale, zero = (F32([0.01, 0.02, 0.01, 0.03]), np.zeros(4, np.int8)) if by_channel else (F32(0.01), np.int8(0))
    codes = q.R.integers(-90, 90, (4, 3, 2, 2)).astype(np.int8)
    model = q.model_of([q.node("DequantizeLinear", "c s z", "w", axis=0), q.node("Conv", "x w b", "y")],
                       {"x": ["n", 3, 5, 5]}, {"c": codes, "s": scale, "z": zero, "b": q.weight(4)})
    mine, _ = same(tmp_path, model, dict(op_types_to_quantize=["Conv"], activation_type="QUInt8"))
    np.testing.assert_array_equal(mine["s"], scale)
    assert mine["b_quantized"].dtype == np.int32


U8, U16 = "QUInt8", "QUInt16"


def branches(first, last):
    nodes = [first, *(q.node("Cos", "t", f"y{k}") for k in range(3))]
    return q.model_of(nodes, {"x": ["n", 3, 5, 5]}, {}, outputs=("y0", "y1", "y2", *last), opset=18)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("receivers", [("y0_node", "y1_node", "y2_node"), ("y1_node", "y2_node")])
def test_tensors_in_two_types(turned, shown, receivers, tmp_path):
    """For all who read a tensor or for some, whether it is an output or not; one that a Transpose gives still shares
    what went in."""
    first = q.node("Transpose", "x", "t", perm=[0, 2, 1, 3]) if turned else q.node("Sigmoid", "x", "t")

    def call(m, source, target):
        kinds = m.QuantType
        wishes = {"t": [{"quant_type": kinds[U8], "convert": {"quant_type": kinds[U16], "recv_nodes": set(receivers)}}],
                  **{f"y{k}": [{"quant_type": kinds[U16]}] for k in (1, 2)}}
        m.quantize_static(source, target, q.Feeds((2, 3, 5, 5)), activation_type=kinds[U8],
                          op_types_to_quantize=["Sigmoid", "Transpose", "Cos"],
                          extra_options={"TensorQuantOverrides": wishes, "ForceQuantizeNoInputCheck": turned})
    q.both_ways(tmp_path, branches(first, ("t",) if shown else ()), call, q.feeds((2, 3, 5, 5)))
    (_, mine), (_, theirs) = (q.parts(tmp_path / f"{name}.onnx") for name in ("mine", "theirs"))
    assert ("t_scale" in mine) == ("t_scale" in theirs) == (not turned)
    onnx.checker.check_model(onnx.load(tmp_path / "mine.onnx"), True)


def test_activations_go_with_equal_wishes(tmp_path):
    model = q.model_of([q.node("Conv", "x w", "a"), q.node("Relu", "a", "y")], {"x": ["n", 3, 5, 5]},
                       {"w": q.weight(4, 3, 2, 2)})

    def call(m, source, target):
        wish = [{"quant_type": m.QuantType.QUInt16}]
        m.quantize_static(source, target, q.Feeds((2, 3, 5, 5)), activation_type=m.QuantType.QUInt8,
                          extra_options={"TensorQuantOverrides": {"a": wish, "y": wish}})
    q.both_ways(tmp_path, model, call, q.feeds((2, 3, 5, 5)))
    assert "Relu" not in [n.op_type for n in onnx.load(tmp_path / "mine.onnx").graph.node]


def test_biases_with_wishes_are_weights(tmp_path):
    def call(m, source, target):
        wish = [{"quant_type": m.QuantType.QInt8, "symmetric": True}]
        m.quantize_static(source, target, q.Feeds((2, 3, 5, 5)), activation_type=m.QuantType.QUInt8,
                          extra_options={"TensorQuantOverrides": {"b": wish}})
    q.both_ways(tmp_path, conv(), call, q.feeds((2, 3, 5, 5)))
    assert q.parts(tmp_path / "mine.onnx")[1]["b_quantized"].dtype == np.int8


def test_outputs_have_shapes(tmp_path):
    """The plain model tells none."""
    same(tmp_path, conv(), dict(activation_type="QUInt8"))
    dims = onnx.load(tmp_path / "mine.onnx").graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["n", 4, 4, 4]
    onnx.checker.check_model(onnx.load(tmp_path / "mine.onnx"), True)


# ---- configs, ranges ----

def test_what_a_config_says(tmp_path):
    onnx.save(conv(big=q.weight(40, 40)), tmp_path / "m.onnx", save_as_external_data=True, location="m.bin")
    for m in q.BOTH.values():
        def told(**more):
            return m.get_qdq_config(tmp_path / "m.onnx", q.Feeds((2, 3, 5, 5)), **more)
        assert told().use_external_data_format and list(told().op_types_to_quantize) == ["Conv"]
        assert list(told(op_types_to_quantize=["Mul"]).op_types_to_quantize) == ["Mul"]
        assert list(told(nodes_to_exclude=["y_node"]).op_types_to_quantize) == []


@pytest.mark.parametrize("at", [slice(0, 2), slice(1, 3)])
def test_examples_that_are_no_numbers(at, tmp_path):
    """They leave the range to the others."""
    onnx.save(q.model_of([q.node("Relu", "x", "y")], {"x": ["n", 2]}, {}), tmp_path / "m.onnx")
    examples = F32([[[-9, 1]], [[2, 12]], [[-4, 7]]])
    want = np.delete(examples, at, 0)
    examples[at] = np.nan
    for m in (calibrate, their_calibrate):
        reader = q.Feeds((1, 2), 0)
        reader.left = iter([{"x": x} for x in examples])
        found = m.create_calibrator(tmp_path / "m.onnx", augmented_model_path=str(tmp_path / "a.onnx"))
        found.collect_data(reader)
        assert [np.ravel(e).tolist() for e in found.compute_data()["x"].range_value] == [[want.min()], [want.max()]]


def test_tables_of_ranges_of_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for m, u in ((calibrate, quant_utils), (their_calibrate, their_utils)):
        data = m.TensorData(lowest=F32([0.5]), highest=F32([1.5]))
        u.write_calibration_table(m.TensorsData(m.CalibrationMethod.MinMax, {"t": data}))
        assert "t" in (tmp_path / "calibration.json").read_text()
