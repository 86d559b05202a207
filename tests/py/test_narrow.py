"""Arrays of ml_dtypes, in and out: every type that ONNX has and numpy has not, those that lie packed too."""
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import package
import pytest
from onnx import helper

ml_dtypes = pytest.importorskip("ml_dtypes")
if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre import _types  # noqa: E402

WHOLE = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
PACKED = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
ALL = WHOLE + list(PACKED)
NOT_IN_ORT = {"float6_e2m3fn", "float6_e3m2fn"}


NEWEST = onnx.defs.onnx_opset_version()


def identity(name, dims=("n",)):
    if name in NOT_IN_ORT:  # Cast alone has these types
        kind = number(name)
        return package.model([package.node("Cast", "x", "f", to=1), package.node("Cast", "f", "y", to=kind)],
                             [package.tensor("x", kind, dims)], [package.tensor("y", kind, dims)], opset=NEWEST,
                             ir_version=onnx.IR_VERSION)
    return package.identity(number(name), dims, opset=NEWEST, ir_version=onnx.IR_VERSION)


def number(name):
    return helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, name)))


def bits(a):
    return np.ascontiguousarray(a).view(np.uint16 if a.dtype.itemsize == 2 else np.uint8)


def every_code(name, count):
    """count elements that go through all bit patterns of the type."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    if name == "bfloat16":
        return (np.arange(count, dtype=np.uint16) * 257).view(dtype)
    codes = np.arange(count) % (1 << PACKED.get(name, 8))
    if name in ("int4", "int2"):
        half = 1 << PACKED[name] - 1
        return ((codes ^ half) - half).astype(np.int8).astype(dtype)
    return codes.astype(np.uint8).astype(dtype) if name in ("uint4", "uint2") else codes.astype(np.uint8).view(dtype)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 7, 8, 64, 257])
@pytest.mark.parametrize("name", ALL)
def test_a_run_gives_back_what_it_takes(name, count):
    session = nacre.InferenceSession(identity(name))
    x = every_code(name, count)
    y, = session.run(None, {"x": x})
    assert y.dtype == x.dtype and y.shape == x.shape
    np.testing.assert_array_equal(bits(y), bits(x))


@pytest.mark.parametrize("name", ALL)
def test_shapes_and_strides(name):
    session = nacre.InferenceSession(identity(name, ("a", "b")))
    x = every_code(name, 35).reshape(5, 7)
    for a in (x, x.T, x[::2, 1:], x[:, :0]):
        y, = session.run(None, {"x": a})
        assert y.shape == a.shape
        np.testing.assert_array_equal(bits(y), bits(a))


@pytest.mark.parametrize("name", ALL)
def test_values(name):
    x = every_code(name, 15).reshape(3, 5)
    again = x[::-1].copy()
    v = nacre.OrtValue.ortvalue_from_numpy(x)
    want = -(-15 * PACKED.get(name, 8 * x.dtype.itemsize) // 8)
    assert (v.element_type(), v.shape(), v.tensor_size_in_bytes()) == (number(name), [3, 5], want)
    np.testing.assert_array_equal(bits(v.numpy()), bits(x))
    assert name in PACKED or v.data_ptr() == bits(x).ctypes.data
    v.update_inplace(again)
    np.testing.assert_array_equal(bits(v.numpy()), bits(again))
    y, = nacre.InferenceSession(identity(name, ("a", "b"))).run_with_ort_values(None, {"x": v})
    assert y.data_type() == v.data_type()
    np.testing.assert_array_equal(bits(y.numpy()), bits(v.numpy()))
    if name not in NOT_IN_ORT:
        theirs = ort.OrtValue.ortvalue_from_shape_and_type([3, 5], number(name))
        assert v.data_type() == theirs.data_type() and v.element_type() == theirs.element_type()
        assert v.tensor_size_in_bytes() == theirs.tensor_size_in_bytes()
    zeros = nacre.OrtValue.ortvalue_from_shape_and_type([3, 5], number(name))
    assert not bits(zeros.numpy()).any() or name == "float8_e8m0fnu"
    with pytest.raises(RuntimeError, match="update_inplace: expected"):
        v.update_inplace(x[:1])


@pytest.mark.parametrize("name", sorted(set(ALL) - NOT_IN_ORT))
def test_bits_under_another_type(name):
    """As in onnxruntime: the array's shape is the tensor's, its first bytes are the data."""
    x = every_code(name, 15)
    raw = bits(x) if name in WHOLE else np.zeros(15, np.uint8)
    if name in PACKED:
        packed = _types.pack(x, number(name))
        raw[:packed.size] = packed
    values = [rt.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number(name)) for rt in (nacre, ort)]
    for tell in ("shape", "data_type", "element_type", "tensor_size_in_bytes"):
        assert getattr(values[0], tell)() == getattr(values[1], tell)(), tell
    assert values[0].data_ptr() == values[1].data_ptr() == raw.ctypes.data
    np.testing.assert_array_equal(bits(values[0].numpy()), bits(x))
    own = nacre.OrtValue.ortvalue_from_numpy_with_onnx_type(x, number(name))
    np.testing.assert_array_equal(bits(own.numpy()), bits(x))
    with pytest.raises(RuntimeError, match="bits, the array's 64"):
        nacre.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3), number(name))


@pytest.mark.parametrize("name", sorted(set(PACKED) - NOT_IN_ORT))
def test_packed_bytes_are_onnx_s(name):
    """Initializers that the package onnx packs, through a run."""
    x = every_code(name, 11)
    proto = onnx.numpy_helper.from_array(x, "c")
    graph = helper.make_graph([package.node("Identity", "c", "y")], "g", [],
                              [helper.make_tensor_value_info("y", number(name), [11])], [proto])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)], ir_version=onnx.IR_VERSION)
    y, = nacre.InferenceSession(model.SerializeToString()).run(None, {})
    np.testing.assert_array_equal(bits(y), bits(x))
    if proto.raw_data and PACKED[name] != 6:
        np.testing.assert_array_equal(_types.pack(x, number(name)), np.frombuffer(proto.raw_data, np.uint8))


def test_casts_agree_with_ml_dtypes():
    x = np.float32([0, -0.0, 1, -1.5, 3.3, 447, 1e9, np.nan, 0.01])
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        dtype = np.dtype(getattr(ml_dtypes, name))
        m = package.model([package.node("Cast", "x", "y", to=number(name), saturate=1)],
                          [package.tensor("x", package.F, ["n"])], [package.tensor("y", number(name), ["n"])], opset=19,
                          ir_version=9)
        y, = nacre.InferenceSession(m).run(None, {"x": x})
        small = np.isfinite(x) & (np.abs(x) < 400)
        np.testing.assert_array_equal(bits(y[small]), bits(x[small].astype(dtype)))
        assert np.isnan(y[7].astype(np.float32))


def test_without_ml_dtypes():
    """Bits, or small integers, where the package is not installed."""
    code = f"""
import sys
sys.modules["ml_dtypes"] = None
sys.path[:0] = {[str(package.FOLDER)]!r}
import numpy as np, nacre
raw = np.zeros(4, np.uint8)
raw[:2] = [0x2f, 0x71]
for number, want in ((22, [-1, 2, 1, 7]), (21, [15, 2, 1, 7]), (23, [15, 2, 1, 7])):
    v = nacre.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    assert v.numpy().tolist() == want, v.numpy()
v = nacre.OrtValue.ortvalue_from_numpy_with_onnx_type(np.uint16([0x3f80]), 16)
assert v.numpy().tolist() == [0x3f80] and v.numpy().dtype == np.uint16
print("well")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "well\n", done.stderr
