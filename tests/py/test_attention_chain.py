"""Attention and the element formulas behind it as one kernel (nacre.AttentionChain), beside the same model without
fusion: heads apart and packed, one query whose heads are joined, few and many, rows that see no key, masks; operands of
the result's size, of its last dim and of one number. Bits are those of both kernels apart, for any threads."""
import itertools

import nacre_c
import numpy as np
import onnx.parser
import pytest

SIZES = [(1, 1, 1, 5), (2, 4, 1, 40), (1, 4, 7, 7), (2, 2, 70, 70), (1, 2, 130, 600), (0, 2, 3, 3)]
TAIL = "g = Sigmoid(r) p = Mul(a, g) o = Add(p, c) h = Mul(o, s) y = Tanh(h)"


def model(packed, attrs, width):
    dims, heads = (f"b,t,{width}", f"q_num_heads = 4, kv_num_heads = 2{attrs}") if packed else ("b,h,t,d", attrs[2:])
    keys = f"b,k,{width // 2}" if packed else "b,j,k,d"
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 23]> g (float[{dims}] q, float[{keys}] k, float[{keys}] v, '
        f"float[{dims}] r, float[{width}] c, float s, bool[t,k] m) => (float[{dims}] y) "
        f"{{ a = Attention<{heads}>(q, k, v, m) {TAIL} }}".replace("<>", "")).SerializeToString()


def feeds(packed, batch, heads, queries, keys, width, seed):
    rng = np.random.default_rng(seed)

    def some(h, rows):
        x = rng.standard_normal((batch, h, rows, width), np.float32)
        return x.transpose(0, 2, 1, 3).reshape(batch, rows, h * width).copy() if packed else x
    mask = rng.random((queries, keys)) < 0.7
    mask[-1] = False  # sees no key
    size = width * heads if packed else width
    return {"q": some(heads, queries), "k": some(max(1, heads // 2), keys), "v": some(max(1, heads // 2), keys),
            "r": some(heads, queries), "c": rng.standard_normal(size, np.float32),
            "s": np.array(0.7, np.float32), "m": mask}


@pytest.mark.parametrize("packed, attrs, width", [*itertools.product(
    (False, True), (", is_causal = 0", ", is_causal = 1, softcap = 5.0"), (8, 13))])
def test_formulas_behind_attention(packed, attrs, width):
    data = model(packed, attrs, width * 4 if packed else width)
    with nacre_c.Env(1) as one, nacre_c.Env(3) as three:
        sessions = [one.session(data, dumps="on"), three.session(data), one.session(data, fusion="off")]
        assert "nacre.AttentionChain" in sessions[0].dump("lowered")
        for i, (batch, heads, queries, keys) in enumerate(SIZES):
            fed = feeds(packed, batch, 4 if packed else heads, queries, keys, width, i)
            got = [s.run(fed)["y"] for s in sessions]
            assert got[0].size == 0 or np.isfinite(got[0]).all()
            for other in got[1:]:
                assert got[0].tobytes() == other.tobytes(), (batch, heads, queries, keys)
