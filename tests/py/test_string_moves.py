"""Strings through what moves whole tensors: scan outputs, sequences of parts, results whose rank only a run tells."""
import numpy as np
import onnxruntime
import package
import pytest
from onnx import parser

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

TOKENS = 'a = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = "#", tokenexp = "[a-z]+"> (x)'
WORDS = np.array([["a bc"], ["cd d e"]], object)
SIX = np.array([["a", "bc", ""], ["d", "é", "f" * 300]], object)
CASES = {
    "rank of tokens": (f"(string[] x) => (string[?,?] y) {{ {TOKENS} y = Flatten(a) }}", {"x": WORDS}),
    "rank of tokens, twice": (f"(string[] x) => (string[?,?] y) {{ {TOKENS} b = Flatten(a) y = Flatten(b) }}",
                              {"x": WORDS[:, 0]}),
    "concatenated": ("(string[2,3] x, string[2,1] z) => (string[2,?] y) "
                     "{ s = SequenceConstruct(x, z, x) y = ConcatFromSequence<axis = 1>(s) }",
                     {"x": SIX, "z": SIX[:, :1]}),
    "of a new axis": ("(string[2,3] x) => (string[?,?,?] y) "
                      "{ s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = -1, new_axis = 1>(s) }", {"x": SIX}),
    "of nothing": ("(string[n,3] x) => (string[?,3] y) "
                   "{ s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(s) }", {"x": SIX[:0]}),
    "split": ("(string[2,3] x, int64 at) => (string[?,?] y) "
              "{ s = SplitToSequence<axis = 1>(x) y = SequenceAt(s, at) }", {"x": SIX, "at": np.array(1)}),
    "split and dropped": ("(string[2,3] x, int64 at) => (string[?] y) "
                          "{ s = SplitToSequence<axis = 1, keepdims = 0>(x) y = SequenceAt(s, at) }",
                          {"x": SIX, "at": np.array(-1)}),
}


def both(text, feeds):
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g {text}')
    data = model.SerializeToString()
    return [rt.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
            for rt in (nacre, onnxruntime)]


@pytest.mark.parametrize("name", CASES)
def test_strings_as_onnxruntime_moves_them(name):
    mine, want = both(*CASES[name])
    assert mine[0].shape == want[0].shape and mine[0].tolist() == want[0].tolist()


@pytest.mark.parametrize("n", [1, 3])
def test_strings_are_scan_outputs(n):
    text = """(int64 n, bool go, string[2,3] x) => (string[?,2,3] y) {
        v, y = Loop (n, go, x) <body = b (int64 k, bool on, string[2,3] u) => (bool more, string[2,3] w, string[2,3] o)
        { more = Identity(on) w = Identity(u) o = StringConcat(u, u) }> }"""
    data = parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> g {text}').SerializeToString()
    feeds = {"n": np.array(n), "go": np.array(True), "x": SIX}
    y = nacre.InferenceSession(data).run(None, feeds)[0]
    assert y.shape == (n, 2, 3) and y.tolist() == [(SIX + SIX).tolist()] * n
