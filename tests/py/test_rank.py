"""Tensors of 17 to 64 dims: every family of operators that walks over dims or changes them, against numpy (and
onnxruntime where numpy has no such thing), on the CPU and on the guard device, with dims that are fixed, free or of an
unknown rank; through files, control flow, the Python package and DLPack. 64 is the most; more is refused by name."""
import ctypes as C

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import nacre_c
import package
from nacre_c import NacreError
from tolerances import close

MOST = 64
onnxruntime.set_default_logger_severity(4)


def spread(rank, sizes):
    """Dims of 1 but for those at the axes given."""
    dims = [1] * rank
    for axis, size in sizes.items():
        dims[axis] = size
    return dims


def numbers(dims, seed=3):
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


TWOS = numbers([2] * 17)                               # no two dims merge once they are turned
WIDE = numbers(spread(40, {0: 3, 7: 2, 20: 5, 39: 4}))  # mostly ones
ODD = numbers(spread(40, {0: 1, 7: 2, 20: 1, 39: 4}), 4)
ONES = np.ones([1] * MOST, np.float32)
FULL = numbers(spread(MOST, {0: 2, 31: 3, 32: 2, 63: 5}))
TURN = list(range(0, 17, 2)) + list(range(1, 17, 2))
EVERY = list(range(0, 40, 2))
TOPS = np.random.default_rng(5).permutation(1 << 17).astype(np.float32).reshape([2] * 17)  # no two alike
LETTERS = "abcdefghijklmnopqrst"


def pads_of(rank, axes):
    """One before, two behind, at each axis."""
    before, behind = [0] * rank, [0] * rank
    for a in axes:
        before[a], behind[a] = 1, 2
    return ints(*before, *behind), list(zip(before, behind))


def lines(x, axis):
    """x with three dims, the middle one the axis: some functions of numpy take no more than 32 dims."""
    return x.reshape(int(np.prod(x.shape[:axis])), x.shape[axis], -1)


def take_along(x, axis):
    at = np.random.default_rng(7).integers(-x.shape[axis], x.shape[axis], x.shape)
    return at, np.take_along_axis(lines(x, axis), lines(at, axis) % x.shape[axis], 1).reshape(x.shape)


def scattered(x, axis):
    at = np.argsort(lines(numbers(x.shape, 8), axis), axis=1).astype(np.int64)
    want = lines(x, axis).copy()
    np.put_along_axis(want, at, -lines(x, axis), 1)
    return at.reshape(x.shape), want.reshape(x.shape)


def gathered_nd():
    """All axes of a tensor of 20 dims are indexed: the result has the other dims of the indices, 25 in all."""
    x = numbers(spread(20, {3: 4, 19: 5}))
    at = np.zeros([*spread(25, {0: 3, 24: 2}), 20], np.int64)
    at[..., 3] = np.random.default_rng(9).integers(0, 4, at.shape[:-1])
    at[..., 19] = np.random.default_rng(10).integers(-5, 5, at.shape[:-1])
    return x, at, x[tuple(np.moveaxis(at, -1, 0))]


def scattered_nd():
    x, at = numbers(spread(30, {0: 4, 29: 3})), np.zeros([2, 30], np.int64)
    at[:, 0], at[:, 29] = [3, 1], [0, 2]
    updates, want = np.float32([7, 8]), x.copy()
    want[tuple(at.T)] = updates
    return x, at, updates, want


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def batches():
    """20 batch dims, some of one side, some of the other, some of both."""
    a = numbers([*spread(20, {0: 2, 9: 3, 19: 2}), 4, 5], 11)
    b = numbers([*spread(20, {0: 2, 4: 3, 12: 2}), 5, 3], 12)
    return a, b, a @ b


def rows():
    """name: (op, inputs, which of them are constants, attributes, what is expected)"""
    pads, pad_pairs = pads_of(40, [0, 20, 39])
    at, along = take_along(TWOS, 8)
    where, put = scattered(WIDE, 20)
    x_nd, at_nd, y_nd = gathered_nd()
    s_nd, sat_nd, u_nd, sy_nd = scattered_nd()
    a, b, ab = batches()
    yes = numbers(spread(40, {7: 2, 39: 4}), 13) > 0
    e = numbers([2] * 10, 14)
    return {
        "Transpose": ("Transpose", [TWOS], [], {"perm": TURN}, TWOS.transpose(TURN)),
        "Transpose, reversed": ("Transpose", [FULL], [], {}, FULL.transpose()),
        "Reshape, more": ("Reshape", [TWOS, ints(*spread(64, {0: 512, 63: 256}))], [1], {},
                          TWOS.reshape(spread(64, {0: 512, 63: 256}))),
        "Reshape, fewer": ("Reshape", [WIDE, ints(-1)], [1], {}, WIDE.reshape(-1)),
        "Expand": ("Expand", [ODD, ints(*WIDE.shape)], [1], {}, np.broadcast_to(ODD, WIDE.shape)),
        "Flatten": ("Flatten", [WIDE], [], {"axis": 20}, WIDE.reshape(6, 20)),
        "Squeeze": ("Squeeze", [WIDE, ints(*(i for i in range(40) if WIDE.shape[i] == 1))], [1], {}, WIDE.squeeze()),
        "Unsqueeze": ("Unsqueeze", [WIDE, ints(*range(5, 29))], [1], {}, np.expand_dims(WIDE, tuple(range(5, 29)))),
        "Identity": ("Identity", [ONES], [], {}, ONES),
        "Shape": ("Shape", [FULL], [], {}, ints(*FULL.shape)),
        "Size": ("Size", [FULL], [], {}, np.int64(60)),
        "Cast": ("Cast", [TWOS], [], {"to": T.INT64}, TWOS.astype(np.int64)),
        "Relu": ("Relu", [FULL], [], {}, np.maximum(FULL, 0)),
        "Add": ("Add", [WIDE, ODD], [], {}, WIDE + ODD),
        "Add, a scalar": ("Add", [ONES, np.float32(3)], [], {}, ONES + 3),
        "Add, both grow": ("Add", [TWOS[:, :1], TWOS[..., :1]], [], {}, TWOS[:, :1] + TWOS[..., :1]),
        "Where": ("Where", [yes, WIDE, ODD], [], {}, np.where(yes, WIDE, ODD)),
        "Max, variadic": ("Max", [WIDE, ODD, -WIDE], [], {}, np.maximum(np.maximum(WIDE, ODD), -WIDE)),
        "ReduceSum, every other": ("ReduceSum", [WIDE, ints(*EVERY)], [1], {}, WIDE.sum(tuple(EVERY), keepdims=True)),
        "ReduceSum, behind 32": ("ReduceSum", [FULL, ints(-1, 32)], [1], {"keepdims": 0}, FULL.sum((63, 32))),
        "ReduceMax, all": ("ReduceMax", [TWOS], [], {"keepdims": 0}, TWOS.max()),
        "ReduceMean, turns": ("ReduceMean", [TWOS, ints(*range(0, 17, 2))], [1], {"keepdims": 0},
                              TWOS.mean(tuple(range(0, 17, 2)))),
        "ReduceMin, 64": ("ReduceMin", [FULL], [], {}, FULL.min(keepdims=True)),
        "ArgMax": ("ArgMax", [FULL], [], {"axis": 63, "keepdims": 0}, FULL.argmax(63)),
        "Concat": ("Concat", [WIDE, -WIDE, WIDE], [], {"axis": 20}, np.concatenate([WIDE, -WIDE, WIDE], 20)),
        "Slice, all axes": ("Slice", [TWOS, ints(*[-1] * 17), ints(*[-99] * 17), ints(*range(17)), ints(*[-1] * 17)],
                            [1, 2, 3, 4], {}, TWOS[(slice(None, None, -1),) * 17]),
        "Slice, of the run": ("Slice", [FULL, ints(1, -4), ints(3, 99), ints(31, -1)], [], {}, FULL[(
            slice(None),) * 31 + (slice(1, 3),) + (slice(None),) * 31 + (slice(1, None),)]),
        "Pad": ("Pad", [WIDE, pads, np.float32(2)], [1, 2], {}, np.pad(WIDE, pad_pairs, constant_values=2)),
        "Pad, edge": ("Pad", [WIDE, pads], [1], {"mode": "edge"}, np.pad(WIDE, pad_pairs, mode="edge")),
        "Tile": ("Tile", [WIDE, ints(*spread(40, {1: 3, 20: 2, 38: 2}))], [1], {},
                 np.tile(WIDE, spread(40, {1: 3, 20: 2, 38: 2}))),
        "Tile, turns": ("Tile", [TWOS[:, :1], ints(*[1, 2] * 8, 1)], [1], {}, np.tile(TWOS[:, :1], [1, 2] * 8 + [1])),
        "Gather": ("Gather", [WIDE, np.int64(np.arange(6).reshape(spread(24, {3: 3, 20: 2})) % 5)], [], {"axis": 20},
                   np.take(WIDE, np.arange(6).reshape(spread(24, {3: 3, 20: 2})) % 5, 20)),
        "GatherElements": ("GatherElements", [TWOS, at], [], {"axis": 8}, along),
        "GatherND": ("GatherND", [x_nd, at_nd], [], {}, y_nd),
        "ScatterElements": ("ScatterElements", [WIDE, where, -WIDE], [], {"axis": 20}, put),
        "ScatterND": ("ScatterND", [s_nd, sat_nd, u_nd], [], {}, sy_nd),
        "Softmax": ("Softmax", [WIDE], [], {"axis": 20}, softmax(WIDE, 20)),
        "Softmax, last": ("Softmax", [FULL], [], {"axis": -1}, softmax(FULL, -1)),
        "CumSum": ("CumSum", [FULL, np.int64(31)], [1], {}, FULL.cumsum(31)),
        "MatMul": ("MatMul", [a, b], [], {}, ab),
        "MatMul, 62 batch dims": ("MatMul", [numbers([*spread(62, {0: 3, 61: 2}), 2, 3]), numbers([3, 4])], [], {},
                                  numbers([*spread(62, {0: 3, 61: 2}), 2, 3]) @ numbers([3, 4])),
        "Einsum": ("Einsum", [e, -e], [], {"equation": f"{LETTERS[:10]},{LETTERS[10:]}->{LETTERS[::-1]}"},
                   np.einsum(f"{LETTERS[:10]},{LETTERS[10:]}->{LETTERS[::-1]}", e, -e)),
        "Einsum, dots": ("Einsum", [a, b], [], {"equation": "...ij,...jk->...ik"}, ab),
        "LayerNormalization": ("LayerNormalization", [FULL, np.float32([1, 2, 3, 4, 5])], [1], {"axis": -1},
                               (FULL - FULL.mean(-1, keepdims=True)) /
                               np.sqrt(FULL.var(-1, keepdims=True) + 1e-5) * np.float32([1, 2, 3, 4, 5])),
        "NonZero": ("NonZero", [ODD], [], {}, np.array(np.nonzero(ODD))),
        "OneHot": ("OneHot", [np.int64(np.abs(ODD) * 2), np.int64(4), np.float32([0, 1])], [1, 2], {"axis": 20},
                   np.moveaxis(np.eye(5, 4, dtype=np.float32)[np.minimum(np.int64(np.abs(ODD) * 2), 4)], -1, 20)),
        "Trilu": ("Trilu", [WIDE], [], {"upper": 0}, np.tril(WIDE)),
        "Clip": ("Clip", [FULL, np.float32(-1), np.float32(1)], [], {}, FULL.clip(-1, 1)),
    }


ROWS = rows()


def model(nodes, inputs, outputs, initializers=(), opset=18):
    graph = helper.make_graph(nodes, "ranks", inputs, outputs, [numpy_helper.from_array(x, n) for n, x in initializers])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])


def value(name, x, how="fixed"):
    dims = {"fixed": list(x.shape), "free": [f"{name}{d}" for d in range(x.ndim)], "open": None}[how]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), dims)


def one_node(row, how):
    op, inputs, constants, attributes, want = ROWS[row]
    names = [f"x{i}" for i in range(len(inputs))]
    inputs = [np.asarray(x) for x in inputs]
    # How many numbers there are may say a rank, so that these stay fixed.
    given = [value(n, x, how if x.dtype == np.float32 else "fixed")
             for i, (n, x) in enumerate(zip(names, inputs)) if i not in constants]
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.asarray(want).dtype), None)
    return model([helper.make_node(op, names, ["y"], name="here", **attributes)], given, [out],
                 [(names[i], inputs[i]) for i in constants]), \
        {n: x for i, (n, x) in enumerate(zip(names, inputs)) if i not in constants}, np.asarray(want)


@pytest.mark.parametrize("how", ["fixed", "free", "open"])
@pytest.mark.parametrize("row", ROWS)
def test_any_rank(env, row, how):
    proto, feeds, want = one_node(row, how)
    for device in ("cpu", "guard"):
        with env.session(proto, device=device) as s:
            for _ in range(2):
                got, = s.run(feeds).values()
                assert got.shape == want.shape, device
                if want.dtype == np.float32:
                    close(got, want, "ort_f32", device)
                else:
                    np.testing.assert_array_equal(got, want, device)


def test_topk(env):
    proto = model([helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=8, largest=0)], [value("x", TOPS)],
                  [helper.make_tensor_value_info(n, t, None) for n, t in (("v", T.FLOAT), ("i", T.INT64))],
                  [("k", ints(1))])
    for device in ("cpu", "guard"):
        with env.session(proto, device=device) as s:
            got = s.run({"x": TOPS})
        np.testing.assert_array_equal(got["v"], TOPS.min(8, keepdims=True))
        np.testing.assert_array_equal(got["i"], TOPS.argmin(8, keepdims=True))


def test_split(env):
    proto = model([helper.make_node("Split", ["x", "s"], ["a", "b"], axis=20)], [value("x", WIDE)],
                  [helper.make_tensor_value_info(n, T.FLOAT, None) for n in "ab"], [("s", ints(2, 3))])
    with env.session(proto) as s:
        got = s.run({"x": WIDE})
    for n, want in zip("ab", np.split(WIDE, [2], 20)):
        np.testing.assert_array_equal(got[n], want)


#: Nodes in a row, so that chains are joined, views stay views and reshapes meet.
CHAINED = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[{dims}] x, float[{dims}] b) => (y) {{
    s = Add (x, b)
    r = Relu (s)
    m = Mul (r, x)
    t = Transpose (m)
    e = Exp (t)
    q = Transpose (e)
    y = Sub (q, b)
}}
"""


@pytest.mark.parametrize("rank", [17, 32, 33, 64])
def test_chains_of_any_rank(env, rank):
    dims = spread(rank, {0: 2, rank // 2: 3, rank - 1: 5})
    x, b = numbers(dims, 20), numbers(dims, 21)
    proto = onnx.parser.parse_model(CHAINED.format(dims=",".join(map(str, dims))))
    want = np.exp(np.maximum(x + b, 0) * x) - b
    for settings in ({}, {"level": "off"}, {"fusion": False}, {"device": "guard"}):
        with env.session(proto, **settings) as s:
            close(s.run({"x": x, "b": b})["y"], want, "ort_f32", settings)


def test_gradients(env):
    """d/dx and d/db of the sum of x times b, b spread over a dim behind 32 and one in front."""
    x, b = numbers(spread(50, {0: 3, 40: 2, 49: 4}), 22), numbers(spread(50, {49: 4}), 23)
    proto = model([helper.make_node("Mul", ["x", "b"], ["m"]), helper.make_node("Transpose", ["m"], ["t"]),
                   helper.make_node("ReduceSum", ["t"], ["loss"], keepdims=0)], [value("x", x), value("b", b)],
                  [helper.make_tensor_value_info("loss", T.FLOAT, [])])
    with env.session(proto, nacre_c.Options().gradients("loss", ["x", "b"])) as s:
        got = s.run({"x": x, "b": b})
    close(got["grad:x"], np.broadcast_to(b, x.shape), "ort_f32")
    close(got["grad:b"], x.sum((0, 40), keepdims=True), "ort_f32")


# ---- control flow ----

def looped(x):
    """x doubled in each of three rounds, stacked; a Loop that carries it, an If inside, a Scan behind."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go_on"]),
         helper.make_node("If", ["c"], ["n"],
                          then_branch=helper.make_graph([helper.make_node("Add", ["v", "v"], ["t"])], "then", [],
                                                        [onnx.ValueInfoProto(name="t")]),
                          else_branch=helper.make_graph([helper.make_node("Identity", ["v"], ["f"])], "else", [],
                                                        [onnx.ValueInfoProto(name="f")])),
         helper.make_node("Identity", ["n"], ["kept"])], "body",
        [helper.make_tensor_value_info("i", T.INT64, []), helper.make_tensor_value_info("c", T.BOOL, []),
         value("v", x)], [helper.make_tensor_value_info("go_on", T.BOOL, []), onnx.ValueInfoProto(name="n"),
                          onnx.ValueInfoProto(name="kept")])
    step = helper.make_graph([helper.make_node("Add", ["sum", "part"], ["more"]),
                              helper.make_node("Identity", ["more"], ["each"])], "step",
                             [value("sum", x), value("part", x)],
                             [onnx.ValueInfoProto(name="more"), onnx.ValueInfoProto(name="each")])
    return model([helper.make_node("Loop", ["trips", "yes", "x"], ["last", "all"], body=body),
                  helper.make_node("Scan", ["x", "all"], ["sum", "sums"], body=step, num_scan_inputs=1)],
                 [value("x", x)], [onnx.ValueInfoProto(name=n) for n in ("last", "all", "sum", "sums")],
                 [("trips", np.int64(3)), ("yes", np.bool_(True))])


@pytest.mark.parametrize("rank", [17, 40, 63])
def test_control_flow(env, rank):
    x = numbers(spread(rank, {0: 2, rank - 1: 3}), 24)
    every = np.stack([2 * x, 4 * x, 8 * x])
    for device in ("cpu", "guard"):
        with env.session(looped(x), device=device) as s:
            got = s.run({"x": x})
        np.testing.assert_array_equal(got["last"], 8 * x)
        np.testing.assert_array_equal(got["all"], every)
        close(got["sum"], 15 * x, "ort_f32")
        close(got["sums"], x + every.cumsum(0), "ort_f32")


def test_sequences(env):
    proto = model([helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
                   helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0, new_axis=1)], [value("x", WIDE)],
                  [helper.make_tensor_value_info("y", T.FLOAT, None)])
    with env.session(proto) as s:
        np.testing.assert_array_equal(s.run({"x": WIDE})["y"], np.stack([WIDE, WIDE]))


# ---- against onnxruntime, and files ----

@pytest.mark.parametrize("row", ["Transpose", "Expand", "Where", "Tile", "GatherND", "ScatterElements", "Concat"])
def test_as_onnxruntime(env, row):
    proto, feeds, _ = one_node(row, "fixed")
    want, = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    with env.session(proto) as s:
        close(s.run(feeds)["y"], want, "ort_f32")


def test_save_and_load(env, tmp_path):
    """A constant and an input of 64 dims, written and read again, with the bytes inside and beside the file."""
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", FULL)], [value("y", FULL)],
                  [("w", -2 * FULL)])
    with env.model(proto) as m:
        m.save(tmp_path / "a.onnx")
        m.save_external(tmp_path / "b.onnx", "b.bin", 1)
    for name in ("a.onnx", "b.onnx"):
        read = onnx.load(tmp_path / name)
        assert len(read.graph.input[0].type.tensor_type.shape.dim) == MOST
        np.testing.assert_array_equal(numpy_helper.to_array(read.graph.initializer[0]), -2 * FULL)
        with env.session(tmp_path / name) as s:
            np.testing.assert_array_equal(s.run({"x": FULL})["y"], -FULL)


# ---- the package ----

@pytest.mark.skipif(not package.BUILT, reason="the package is not built")
class TestPackage:
    def test_numpy_and_shapes(self):
        import nacre
        proto = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", FULL)], [value("y", FULL)])
        s = nacre.InferenceSession(proto.SerializeToString())
        assert s.get_inputs()[0].shape == list(FULL.shape) and s.get_outputs()[0].shape == list(FULL.shape)
        np.testing.assert_array_equal(s.run(None, {"x": FULL})[0], -FULL)
        free = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", FULL, "free")], [value("y", FULL)])
        assert nacre.InferenceSession(free.SerializeToString()).get_inputs()[0].shape == [f"x{d}" for d in range(MOST)]

    def test_dlpack(self):
        import nacre
        x = torch.arange(120, dtype=torch.float32).reshape(spread(MOST, {0: 2, 40: 3, 63: 20}))
        v = nacre.OrtValue.from_dlpack(x)
        assert list(v.shape()) == list(x.shape)
        back = torch.from_dlpack(v)
        assert back.data_ptr() == x.data_ptr() and torch.equal(back, x)


# ---- too many ----

@pytest.mark.parametrize("n", [65, 100000])
@pytest.mark.parametrize("where", ["input", "constant", "shape", "tensor"])
def test_more_is_refused(env, n, where):
    if where == "tensor":
        with pytest.raises(NacreError, match=f"rank {n}: expected 0 to {MOST}"):
            nacre_c.made("nacre_value_tensor", 1, n, (C.c_int64 * n)(*[1] * n), None)
        return
    x = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[1] * n, raw_data=b"\0" * 4)
    given = helper.make_tensor_value_info("x", T.FLOAT, [1] * n if where == "input" else [1])
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], name="here")] if where == "shape" else \
        [helper.make_node("Add", ["x", "w"], ["y"], name="here")]
    proto = model(nodes, [given], [onnx.ValueInfoProto(name="y")],
                  [("s", np.ones(n, np.int64))] if where == "shape" else [("w", np.float32([1]))])
    if where == "constant":
        proto.graph.initializer[0].CopyFrom(x)
    with pytest.raises(NacreError, match=f"{n} dims, at most {MOST} are supported") as e:
        env.session(proto)
    if where == "shape":
        assert e.value.node == "here" and e.value.op == "Reshape"
