"""Gradients through QuantizeLinear and DequantizeLinear: straight through the rounding, nothing outside of the range,
as torch's fake quantization has it. Scales where the function is smooth: against differences."""
import numpy as np
import pytest
import torch

from nacre_c import NacreError, Options
from tolerances import close

SETTINGS = {"cpu": {}, "guard": {"device": "guard"}, "off": {"fusion": False, "views": False, "level": "off"}}
RNG = np.random.default_rng(5)


def floats(*shape, spread=3.0):
    return (RNG.standard_normal(shape) * spread).astype(np.float32)


def graph(inputs, body, constants="", opset=21):
    return f'<opset: "" {opset}>\ng ({inputs}) => (y) {"<" + constants + ">" if constants else ""} {{\n{body}\n}}\n'


def gradients(env, text, feeds, wrt, dy, **settings):
    with env.session(text, Options(**settings).backward(["y"], wrt)) as session:
        return session.run({**feeds, "d:y": dy})


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("type_name,low,high,zero", [("int8", -128, 127, 3), ("uint8", 0, 255, 120), ("int4", -8, 7, 2),
                                                     ("uint4", 0, 15, 5), ("int16", -32768, 32767, 0)])
def test_one_scale_as_torch(env, setting, type_name, low, high, zero):
    scale = {"int16": 2.0 ** -14}.get(type_name, 2.0 ** -6 if high > 100 else 0.25)  # torch multiplies by 1 / scale
    text = graph("float[n,37] x, float[] s", "q = QuantizeLinear(x, s, z)\n y = DequantizeLinear(q, s, z)",
                 f"const {type_name}[] z = {{{zero}}}")
    x, dy = floats(9, 37), floats(9, 37)
    tx = torch.tensor(x, requires_grad=True)
    ts = torch.tensor(np.float32([scale]), requires_grad=True)
    tz = torch.tensor([float(zero)])
    want = torch._fake_quantize_learnable_per_tensor_affine(tx, ts, tz, low, high, 1.0)
    want.backward(torch.from_numpy(dy))
    fixed = torch.tensor(x, requires_grad=True)
    torch.fake_quantize_per_tensor_affine(fixed, scale, zero, low, high).backward(torch.from_numpy(dy))
    got = gradients(env, text, {"x": x, "s": np.float32(scale)}, ["x", "s"], dy, **SETTINGS[setting])
    close(got["y"], want.detach().numpy(), "torch_f32")
    assert (got["grad:x"] == fixed.grad.numpy()).all() and 0 < np.count_nonzero(got["grad:x"]) < x.size
    close(got["grad:s"], ts.grad.numpy().reshape(()), "device_sum_f32")


@pytest.mark.parametrize("setting", SETTINGS)
def test_scales_along_an_axis_as_torch(env, setting):
    text = graph("float[4,3,n] x, float[3] s", "q = QuantizeLinear(x, s, z)\n y = DequantizeLinear(q, s, z)",
                 "const int8[3] z = {0, 5, -7}")
    x, dy, scale = floats(4, 3, 11), floats(4, 3, 11), np.float32([0.01, 0.02, 0.05])
    tx, ts = torch.tensor(x, requires_grad=True), torch.tensor(scale, requires_grad=True)
    y = torch._fake_quantize_learnable_per_channel_affine(tx, ts, torch.tensor([0.0, 5, -7]), 1, -128, 127, 1.0)
    y.backward(torch.from_numpy(dy))
    got = gradients(env, text, {"x": x, "s": scale}, ["x", "s"], dy, **SETTINGS[setting])
    close(got["y"], y.detach().numpy(), "torch_f32")
    assert (got["grad:x"] == tx.grad.numpy()).all()
    close(got["grad:s"], ts.grad.numpy(), "device_sum_f32")


def test_blocks(env):
    """A scale per block of two along axis 1, of which the last block is half: the same as one op per block."""
    text = graph("float[2,5,3] x, float[2,3,3] s",
                 "q = QuantizeLinear<axis = 1, block_size = 2, output_dtype = 3>(x, s)\n"
                 "y = DequantizeLinear<axis = 1, block_size = 2>(q, s)")
    x, dy, scale = floats(2, 5, 3), floats(2, 5, 3), RNG.uniform(0.005, 0.03, (2, 3, 3)).astype(np.float32)
    got = gradients(env, text, {"x": x, "s": scale}, ["x", "s"], dy)
    wide = np.repeat(scale, 2, axis=1)[:, :5]
    steps = np.rint(x / wide)
    inside = np.abs(steps + 0.5) < 128
    assert (got["grad:x"] == np.where(inside, dy, 0)).all() and 0 < inside.sum() < x.size
    each = dy * (np.clip(steps, -128, 127) - np.where(inside, x / wide, 0))
    want = np.stack([each[:, 0:2].sum(1), each[:, 2:4].sum(1), each[:, 4]], axis=1)
    close(got["grad:s"], want, "device_sum_f32")


def test_another_scale_on_the_way_back(env):
    """y grows with the quotient of the scales; a decoded tensor of half precision, and two decoders of one code."""
    text = graph("float[n] x, float[] s, float[] t",
                 "q = QuantizeLinear<output_dtype = 3>(x, s)\n a = DequantizeLinear(q, t)\n h = Cast<to = 10>(t)\n"
                 "c = DequantizeLinear(q, h)\n d = Cast<to = 1>(c)\n y = Add(a, d)")
    x, dy = floats(40), floats(40)
    s, t = np.float32(0.03125), np.float32(0.125)
    got = gradients(env, text, {"x": x, "s": s, "t": t}, ["x", "t"], dy)
    inside = np.abs(np.rint(x / s) + 0.5) < 128
    close(got["grad:x"], np.where(inside, dy * 8, 0), "device_f16")
    close(got["grad:t"], 2 * np.sum(dy * np.clip(np.rint(x / s), -128, 127)), "device_f16")


def test_narrow_floats(env):
    text = graph("float[n] x, float[] s", "q = QuantizeLinear(x, s, z)\n y = DequantizeLinear(q, s, z)",
                 "const float8e4m3fn[] z = {0}")
    x = np.float32([0, 3, -447, 448, 449, -1e4, np.nan])
    got = gradients(env, text, {"x": x, "s": np.float32(1)}, ["x"], np.float32([1, 2, 3, 4, 5, 6, 7]))
    assert got["grad:x"].tolist() == [1, 2, 3, 4, 0, 0, 0]


def test_half_precision(env):
    text = graph("float16[n] x, float16[] s", "q = QuantizeLinear<output_dtype = 2>(x, s)\n y = DequantizeLinear(q, s)")
    x = np.float16([-1, 0, 0.5, 127, 128, 500])
    got = gradients(env, text, {"x": x, "s": np.float16(0.5)}, ["x", "s"], np.float16([1, 2, 3, 4, 5, 6]))
    assert got["grad:x"].dtype == np.float16 and got["grad:x"].tolist() == [0, 2, 3, 4, 0, 0]
    assert got["grad:s"].dtype == np.float16 and got["grad:s"] == 255 * 11


def test_scale_of_constant_codes_against_differences(env):
    text = graph("float[3] s", "y = DequantizeLinear<axis = 0>(q, s, z)",
                 "const int8[3,4] q = {1, -2, 3, -4, 50, 60, 70, 80, -9, 9, 0, 127}, const int8[3] z = {0, 10, -1}")
    s, dy = np.float32([0.5, 0.25, 2]), floats(3, 4)
    got = gradients(env, text, {"s": s}, ["s"], dy)
    with env.session(text) as session:
        for i in range(3):
            step = np.zeros(3, np.float32)
            step[i] = 0.125
            change = session.run({"s": s + step})["y"] - session.run({"s": s - step})["y"]
            close(got["grad:s"][i], np.sum(change * dy) / 0.25, "torch_f32")


def test_scale_against_differences_where_all_is_clamped(env):
    text = graph("float[4] x, float[] s", "q = QuantizeLinear<output_dtype = 3>(x, s)\n y = DequantizeLinear(q, s)")
    x, dy = np.float32([200, -300, 400, 500]), np.float32([1, -2, 0.5, 3])
    got = gradients(env, text, {"x": x, "s": np.float32(1)}, ["x", "s"], dy)
    with env.session(text) as session:
        high, low = (session.run({"x": x, "s": np.float32(v)})["y"] for v in (1.125, 0.875))
    close(got["grad:s"], np.sum((high - low) * dy) / 0.25, "torch_f32")
    assert not got["grad:x"].any()


def test_dynamic(env):
    text = graph("float[n] x", "q, s, z = DynamicQuantizeLinear(x)\n y = DequantizeLinear(q, s, z)")
    x, dy = floats(20), floats(20)
    assert (gradients(env, text, {"x": x}, ["x"], dy)["grad:x"] == dy).all()


def test_training_through_the_pair_learns(env):
    """A weight that is quantized in every step still moves."""
    text = """<opset: "" 21>
g (float[n,3] x, float[n,1] t) => (float[] loss) <const float[] s = {0.05}, const float[3,1] w = {0.5, -0.5, 0.25}> {
  q = QuantizeLinear<output_dtype = 3>(w, s)
  v = DequantizeLinear(q, s)
  p = MatMul(x, v)
  d = Sub(p, t)
  e = Mul(d, d)
  loss = ReduceMean<keepdims = 0>(e)
}
"""
    x = floats(64, 3, spread=1.0)
    feeds = {"x": x, "t": x @ np.float32([[1], [0.3], [-0.6]]), "lr": np.float32(0.1)}
    with env.session(text, Options().sgd("loss", ["w"], "lr")) as session:
        losses = [float(session.run(feeds)["loss"]) for _ in range(30)]
    assert losses[-1] < losses[0] / 50


@pytest.mark.parametrize("body,who", [
    ("q = QuantizeLinear(x, s)\n y = Cast<to = 1>(q)", "Cast"),
    ("q = QuantizeLinear(x, s)\n m = MatMulInteger(q, q)\n y = Cast<to = 1>(m)", "MatMulInteger"),
    ("q, a, b = DynamicQuantizeLinear(x)\n m = MatMulInteger(q, q, b, b)\n c = Cast<to = 1>(m)\n y = Mul(c, a)",
     "MatMulInteger"),
    ("q = QuantizeLinear(x, s)\n t = Transpose(q)\n y = DequantizeLinear(t, s)", "Transpose"),
    ("q, a, b = DynamicQuantizeLinear(x)\n y = Mul(s, a)", "a scale found from x has no gradient"),
])
def test_codes_used_otherwise_are_refused(env, body, who):
    with pytest.raises(NacreError, match=who) as e:
        env.session(graph("float[4,4] x, float[] s", body), Options().backward(["y"], ["x"]))
    assert "QuantizeLinear" in str(e.value)


def test_codes_that_nothing_depends_on_are_not(env):
    body = "q = QuantizeLinear(x, s)\n n = Shape(q)\n r = Reshape(x, n)\n y = Mul(r, r)\n other = Cast<to = 1>(q)"
    text = graph("float[4] x, float[] s", body).replace("=> (y)", "=> (y, other)")
    x = np.float32([1, 2, 3, 4])
    got = gradients(env, text, {"x": x, "s": np.float32(1)}, ["x"], np.ones(4, np.float32))
    assert got["grad:x"].tolist() == [2, 4, 6, 8]
