"""Codes of 8 bits that are functions of codes of 8 bits are looked up (nacre.MapCodes): beside the same model without
fusion, bit for bit, for activations as quantizers write them, signed and unsigned codes, scales that overflow, saturate
or are 0, any dims and threads."""
import itertools

import nacre_c
import numpy as np
import onnx
import onnx.parser
import pytest

BODIES = {
    "silu": "e = Sigmoid(d) q = QuantizeLinear(e, t, z) f = DequantizeLinear(q, t, z) m = Mul(d, f)",
    "gelu": "a = Div(d, k) b = Erf(a) q = QuantizeLinear(b, t, z) f = DequantizeLinear(q, t, z) "
            "o = DequantizeLinear(c, t, z) g = Add(f, o) h = Mul(d, g) m = Mul(h, k)",
    "hard_swish": "m = HardSwish(d)", "requantize": "m = Identity(d)",
    "clip": "e = Clip(d, k) g = Less(e, k) m = Where(g, d, e)"}
SCALES = [(0.05, 0.004), (1e-30, 3e38), (0.0, 0.1), (float("inf"), 1.0), (0.7, 1e-40)]


def model(body, elem, scale, other, width):
    m = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({elem}[N,3,W] x) => ({elem}[N,3,W] y) '
        f"<{elem} z = {{{3 if elem == 'uint8' else -3}}}, {elem} c = {{25}}, float k = {{1.4142}}> "
        f"{{ d = DequantizeLinear(x, s, z) {BODIES[body]} y = QuantizeLinear(m, t, z) }}")
    for name, value in (("s", scale), ("t", other)):
        m.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [1] * width, [value]))
    return m.SerializeToString()


@pytest.mark.parametrize("body, elem", [*itertools.product(BODIES, ("uint8", "int8"))])
def test_maps_have_the_bits_of_what_they_stand_for(body, elem):
    rng = np.random.default_rng(1)
    with nacre_c.Env(1) as one, nacre_c.Env(3) as three:
        for i, (scale, other) in enumerate(SCALES):
            data = model(body, elem, scale, other, i % 2)
            sessions = [one.session(data, dumps="on"), three.session(data), one.session(data, fusion="off")]
            assert sessions[0].dump("lowered").count("nacre.MapCodes") == 1
            for dims in ((1, 3, 256), (2, 3, 7), (0, 3, 4), (5, 3, 9001)):
                x = rng.integers(0, 256, dims).astype(np.uint8).view(elem)
                got = [s.run({"x": x})["y"] for s in sessions]
                for other_run in got[1:]:
                    assert got[0].dtype == x.dtype and got[0].tobytes() == other_run.tobytes(), (scale, other, dims)
