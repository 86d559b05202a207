"""Tensors of more than 2^31 elements: every index and count is 64 bits wide. Takes gigabytes and seconds, so it is part
of `make nightly`; where memory is too small it is reported as not run."""
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "py"))
import nacre_c  # noqa: E402

N = 2**31 + 4099
FAR = 2**31 + 77


def available():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


def run(body, feeds, inputs, outputs, consts=""):
    if available() < 14 * 2**30:
        pytest.skip(f"needs 14 GiB of free memory, there are {available() / 2**30:.1f}")
    text = f'<opset: "" 18>\ng ({inputs}) => ({outputs})\n{consts}{{\n{body}\n}}\n'
    session = nacre_c.Env(threads=2).session(text)
    return session.run(feeds)


@pytest.fixture(scope="module")
def x():
    a = np.zeros(N, np.int8)
    a[3], a[FAR], a[N - 1] = -5, 99, 7
    return a


def test_a_lane_reaches_the_end(x):
    y = run("  y = Abs(x)", {"x": x}, "int8[n] x", "int8[n] y")["y"]
    assert (y[3], y[FAR], y[N - 1]) == (5, 99, 7) and np.count_nonzero(y) == 3


def test_reductions_see_all(x):
    out = run("  i = ArgMax<axis = 0, keepdims = 0>(x)\n  m = ReduceMax<keepdims = 0>(x)", {"x": x}, "int8[n] x",
              "int64[] i, int8[] m")
    assert out["i"] == FAR and out["m"] == 99


def test_slice_and_gather_far_out(x):
    out = run("  s = Slice(x, from, to)\n  g = Gather(x, at)",
              {"x": x, "from": np.array([FAR - 1], np.int64), "to": np.array([FAR + 2], np.int64),
               "at": np.array([FAR, -1, 3], np.int64)},
              "int8[n] x, int64[1] from, int64[1] to, int64[3] at", "int8[k] s, int8[3] g")
    assert out["s"].tolist() == [0, 99, 0] and out["g"].tolist() == [99, 7, -5]


def test_concat_and_transpose_past_the_limit(x):
    half = x[: N // 2]
    y = run("  c = Concat<axis = 0>(a, b)\n  r = Reshape(c, shape)\n  y = Transpose<perm = [1, 0]>(r)",
            {"a": half, "b": x[N // 2:N // 2 * 2], "shape": np.array([-1, 2], np.int64)},
            "int8[n] a, int8[m] b, int64[2] shape", "int8[p,q] y")["y"]
    assert y.shape == (2, N // 2) and y[1, 1] == -5 and y[FAR % 2, FAR // 2] == 99


def test_nonzero_counts_past_the_limit(x):
    y = run("  y = NonZero(x)", {"x": x}, "int8[n] x", "int64[1,k] y")["y"]
    assert y.tolist() == [[3, FAR, N - 1]]
