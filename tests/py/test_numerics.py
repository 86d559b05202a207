"""What docs/numerics.md promises about NaN, infinities, integers, conversions and rounding, one case per promise, with
elements enough for whole vectors and a rest, on every way to run a program."""
import numpy as np
import pytest
from nacre_c import Env
from onnx import TensorProto as T
from onnx import helper

NAN, INF = np.nan, np.inf
ODD = [NAN, INF, -INF, 5, -5, 0.0]


def f32(*x):
    return np.array(x, np.float32)


def f16(*x):
    return np.array(x, np.float16)


def ints(dtype, *x):
    return np.array(x, dtype)


CASES = {
    "min": ("Min", [f32(*ODD), f32(1, 1, 1, 1, 1, NAN)], f32(NAN, 1, -INF, 1, -5, NAN), {}),
    "max": ("Max", [f32(*ODD), f32(1, 1, 1, 1, 1, NAN)], f32(NAN, INF, 1, 5, 1, NAN), {}),
    "clip": ("Clip", [f32(*ODD), np.float32(-1), np.float32(1)], f32(NAN, 1, -1, 1, -1, 0), {}),
    "clip_min_above_max": ("Clip", [f32(*ODD), np.float32(1), np.float32(-1)], f32(NAN, -1, -1, -1, -1, -1), {}),
    "relu": ("Relu", [f32(*ODD)], f32(NAN, INF, 0, 5, 0, 0), {}),
    "leaky_relu": ("LeakyRelu", [f32(*ODD)], f32(NAN, INF, -INF, 5, -2.5, 0), {"alpha": 0.5}),
    "sign": ("Sign", [f32(*ODD)], f32(NAN, 1, -1, 1, -1, 0), {}),
    "less": ("Less", [f32(*ODD), f32(NAN, NAN, 0, NAN, 0, 0)], np.array([0, 0, 1, 0, 1, 0], bool), {}),
    "equal": ("Equal", [f32(NAN, INF, 0), f32(NAN, INF, -0.0)], np.array([0, 1, 1], bool), {}),
    "round": ("Round", [f32(0.5, 1.5, 2.5, -0.5, -1.5, NAN)], f32(0, 2, 2, 0, -2, NAN), {}),
    "int_div": ("Div", [ints(np.int32, 7, -7, 7, -7), ints(np.int32, 0, 0, -2, 2)], ints(np.int32, 0, 0, -3, -3), {}),
    "int_div_lowest": ("Div", [ints(np.int64, -2**63), ints(np.int64, -1)], ints(np.int64, -2**63), {}),
    "int_mod": ("Mod", [ints(np.int32, 7, -7, 7, -7), ints(np.int32, 0, 0, -2, 2)], ints(np.int32, 0, 0, -1, 1), {}),
    "int_fmod": ("Mod", [ints(np.int32, 7, -7, 7, -7), ints(np.int32, 0, 0, -2, 2)], ints(np.int32, 0, 0, 1, -1),
                 {"fmod": 1}),
    "int_add_wraps": ("Add", [ints(np.uint8, 250), ints(np.uint8, 10)], ints(np.uint8, 4), {}),
    "int_pow": ("Pow", [ints(np.int32, 7, 1, -1, 2), ints(np.int32, -2, -3, -3, 5)], ints(np.int32, 0, 1, -1, 32), {}),
    "shift_left": ("BitShift", [ints(np.uint8, 1, 1, 255), ints(np.uint8, 7, 9, 64)], ints(np.uint8, 128, 0, 0),
                   {"direction": "LEFT"}),
    "shift_right": ("BitShift", [ints(np.uint8, 128, 255, 255), ints(np.uint8, 7, 9, 64)], ints(np.uint8, 1, 0, 0),
                    {"direction": "RIGHT"}),
    "to_int8": ("Cast", [f32(NAN, INF, -INF, 300, -300, 2.9, -2.9)], ints(np.int8, 0, -1, 0, 44, -44, 2, -2),
                {"to": T.INT8}),
    "to_uint8": ("Cast", [f32(NAN, INF, -INF, 300, -300, 2.9)], ints(np.uint8, 0, 255, 0, 44, 212, 2), {"to": T.UINT8}),
    "to_int64": ("Cast", [f32(NAN, 1e20, -1e20)], ints(np.int64, 0, 2**63 - 1, -2**63), {"to": T.INT64}),
    "int_to_int": ("Cast", [ints(np.int64, 300, -1)], ints(np.uint8, 44, 255), {"to": T.UINT8}),
    "to_bool": ("Cast", [f32(NAN, 0.25, -0.0)], np.array([1, 1, 0], bool), {"to": T.BOOL}),
    "to_half": ("Cast", [f32(65520, 2049, NAN)], np.array([INF, 2048, NAN], np.float16), {"to": T.FLOAT16}),
    "quantize": ("QuantizeLinear", [f32(NAN, INF, -INF, 0.5, 1.5, 2.5), np.float32(1), np.uint8(3)],
                 ints(np.uint8, 3, 255, 0, 3, 5, 5), {}),
    "subnormal": ("Mul", [f32(1e-45, 1e-40), f32(1, 0.5)], f32(1e-45, 5e-41), {}),
}
for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
    low, high, bits, name = np.iinfo(kind).min, np.iinfo(kind).max, np.iinfo(kind).bits, kind.__name__
    a, b = ints(kind, low, low, high, 0), ints(kind, -1 if low else 0, 0, 0, 0)
    CASES[f"div_{name}"] = ("Div", [a, b], ints(kind, low, 0, 0, 0), {})
    for fmod in (0, 1):
        CASES[f"mod_{name}_{fmod}"] = ("Mod", [a, b], ints(kind, 0, 0, 0, 0), {"fmod": fmod})
    if not low:
        one, by = ints(kind, 1, 1, high, high), ints(kind, bits - 1, bits, bits + 1, min(high, 255))
        CASES[f"shift_left_{name}"] = ("BitShift", [one, by], ints(kind, 1 << bits - 1, 0, 0, 0), {"direction": "LEFT"})
        CASES[f"shift_right_{name}"] = ("BitShift", [one, by], ints(kind, 0, 0, 0, 0), {"direction": "RIGHT"})
    through = np.iinfo(np.int32 if bits < 32 else kind)
    for source in (np.float16, np.float32, np.float64):
        x = np.array([NAN, INF, -INF, -1.5, 7.75, 300, -300, *([1e30, -1e30] if source != np.float16 else [])], source)
        cut = [0, *(min(max(int(v), through.min), through.max) if np.isfinite(v) else
                    through.max if v > 0 else through.min for v in x[1:])]
        CASES[f"cast_{source.__name__}_{name}"] = (
            "Cast", [x], np.array([v % 2**bits for v in cut], np.uint64).astype(kind),
            {"to": helper.np_dtype_to_tensor_dtype(np.dtype(kind))})
for kind in (np.int32, np.int64):
    low, high, name = np.iinfo(kind).min, np.iinfo(kind).max, kind.__name__
    base, power = ints(kind, 2, 1, -1, 0, -1, -2, 3), f32(-1, -3, -3, -1, NAN, 99, INF)
    CASES[f"pow_{name}_negative"] = ("Pow", [ints(kind, 2, 1, -1, -1, 0), ints(kind, -1, -3, -3, -2, -1)],
                                     ints(kind, 0, 1, -1, 1, 0), {})
    CASES[f"pow_{name}_by_float"] = ("Pow", [base, power], ints(kind, 0, 1, -1, high, 0, low, high), {})
WHOLE = {  # of a line: not repeated
    "arg_max": ("ArgMax", [f32(1, NAN, INF, NAN)], ints(np.int64, 1), {"axis": 0}),
    "arg_min_last": ("ArgMin", [f32(1, NAN, -INF, NAN)], ints(np.int64, 3), {"axis": 0, "select_last_index": 1}),
    "reduce_max": ("ReduceMax", [f32(*ODD)], f32(NAN), {}),
    "reduce_max_of_none": ("ReduceMax", [f32()], f32(-INF), {}),
    "reduce_sum_of_none": ("ReduceSum", [f32()], f32(0), {}),
    "softmax_of_infinities": ("Softmax", [f32(-INF, -INF)], f32(NAN, NAN), {}),
    "int_mean": ("ReduceMean", [ints(np.int32, 1, 2, -6)], ints(np.int32, -1), {}),
    "l2_of_halves": ("ReduceL2", [f16(*[300] * 64)], np.float16(2400), {"keepdims": 0}),
    "log_sum_of_halves": ("ReduceLogSum", [f16(*[60000] * 4)], np.float16(np.log(240000)), {"keepdims": 0}),
    "global_lp_of_halves": ("GlobalLpPool", [f16(*[300] * 64).reshape(1, 1, 64)], f16(2400).reshape(1, 1, 1), {}),
    "nonzero": ("NonZero", [f32(0, -0.0, NAN, 2)], ints(np.int64, 2, 3).reshape(1, 2), {}),
}


def one_node(op, inputs, want, attributes):
    infos = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for i, x in enumerate(inputs)]
    node = helper.make_node(op, [i.name for i in infos], ["y"], **attributes)
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(want.dtype), None)
    return helper.make_model(helper.make_graph([node], "g", infos, [out]), ir_version=10,
                             opset_imports=[helper.make_opsetid("", 21)])


def check(op, inputs, want, attributes, settings):
    with Env(threads=2) as env, env.session(one_node(op, inputs, want, attributes), **settings) as session:
        got = session.run({f"x{i}": x for i, x in enumerate(inputs)})["y"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("settings", [{"device": "cpu"}, {"device": "guard"}, {"level": "off", "fusion": False}],
                         ids=["cpu", "guard", "plain"])
@pytest.mark.parametrize("name", [*CASES, *WHOLE])
def test_promise(name, settings):
    op, inputs, want, attributes = (CASES | WHOLE)[name]
    check(op, inputs, want, attributes, settings)
    if name in CASES:  # longer than a vector, and no multiple of one
        check(op, [x if x.ndim == 0 else np.tile(x, 7) for x in inputs], np.tile(want, 7), attributes, settings)


def test_top_k_takes_nan_for_the_largest():
    x = f32(1, NAN, 3, NAN, INF)
    infos = [helper.make_tensor_value_info("x", T.FLOAT, [5]), helper.make_tensor_value_info("k", T.INT64, [1])]
    outs = [helper.make_tensor_value_info("v", T.FLOAT, None), helper.make_tensor_value_info("i", T.INT64, None)]
    graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["v", "i"])], "g", infos, outs)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    with Env() as env, env.session(model) as session:
        got = session.run({"x": x, "k": np.int64([4])})
    np.testing.assert_array_equal(got["i"], [1, 3, 4, 2])
