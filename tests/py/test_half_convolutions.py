"""Convolutions in half precision, and what hangs together with them, are done in f32 on the CPU (plan/lower_widen.c):
beside the same graph in f32, equal bits for any threads, in blocks from end to end, with values that others read as
they were and with outputs of the half type."""
import ml_dtypes
import nacre_c
import numpy as np
import onnx
import onnx.parser
import pytest
import tolerances
from onnx import numpy_helper

BODY = """{
  c = Conv<pads = [1, 1, 1, 1]>(x, w, b) r = Relu(c)
  d = Conv<group = 20, pads = [1, 1, 1, 1], strides = [2, 2]>(r, v)
  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
  s = Add(d, p) m = Mul(s, k) u = Resize<mode = "nearest">(m, , z)
  t = ConvTranspose<strides = [2, 2]>(s, q)
  e = Concat<axis = 1>(u, t, r) n = Softmax(e) g = GlobalAveragePool(e) }"""
WEIGHTS = {"w": (20, 3, 3, 3), "b": (20,), "v": (20, 1, 3, 3), "k": (20, 1, 1), "q": (20, 24, 2, 2)}


def model(half, wide=False):
    """wide: the same weights and formulas in f32."""
    elem = "float" if wide else half
    m = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 22]> g ({elem}[N,3,H,W] x) => ({elem}[N,64,H,W] n, {elem}[N,64,1,1] g, '
        f"{elem}[N,20,h,k] s) <float[4] z = {{1, 1, 2, 2}}> {BODY}")
    rng = np.random.default_rng(3)
    as_elem = onnx.TensorProto.DataType.Value(half.upper())
    for name, dims in WEIGHTS.items():
        x = rng.standard_normal(dims).astype(np.float32) * 0.3
        t = onnx.helper.make_tensor(name, as_elem, dims, x.ravel())
        if wide:
            t = numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float32), name)
        m.graph.initializer.append(t)
    return m.SerializeToString()


@pytest.mark.parametrize("elem, tolerance", [("float16", "op_f16"), ("bfloat16", "op_bf16")])
def test_a_network_in_half_precision(elem, tolerance):
    with nacre_c.Env(1) as one, nacre_c.Env(3) as three:
        half, again = one.session(model(elem), dumps="on"), three.session(model(elem))
        wide = one.session(model(elem, True))
        lowered = half.dump("lowered")
        assert lowered.count("nacre.ConvBlocked<") == 2 and "nacre.ConvTransposeBlocked<" in lowered
        assert lowered.count(f"Cast<to = {10 if elem == 'float16' else 16}>") == 3  # s, e for Softmax, g
        rng = np.random.default_rng(5)
        for dims in ((1, 3, 2, 2), (2, 3, 12, 14), (1, 3, 40, 36), (0, 3, 8, 8)):
            x = rng.standard_normal(dims).astype(np.float32)
            fed = x.astype(np.float16 if elem == "float16" else ml_dtypes.bfloat16)
            got, same = half.run({"x": fed}), again.run({"x": fed})
            want = wide.run({"x": np.asarray(fed, np.float32)})
            for name in ("n", "g", "s"):
                assert got[name].tobytes() == same[name].tobytes(), (dims, name)
                tolerances.close(np.asarray(got[name], np.float32), want[name], tolerance, (dims, name))
