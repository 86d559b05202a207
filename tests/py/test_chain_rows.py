"""Element formulas and what is done to the rows they make, in one pass (nacre.ChainRows), beside numpy in double: rows
that are empty, short, as long as the room they go through, longer, and all of a tensor; equal bits for any threads."""
import nacre_c
import numpy as np
import onnx.parser
import pytest
import tolerances

HEAD = '<ir_version: 8, opset_import: ["": 18]> g '
TAILS = {"softmax": "y = Softmax(q)", "log_softmax": "y = LogSoftmax<axis = 1>(q)",
         "layer": "y = LayerNormalization(q, v, v)", "layer_no_bias": "y = LayerNormalization<epsilon = 0.01>(q, v)",
         **{op: f"y = Reduce{op}<keepdims = 0>(q, a)" for op in ("Sum", "Mean", "Max", "Min", "Prod")},
         **{f"{op}_of_all": f"y = Reduce{op}(q)" for op in ("Sum", "Mean", "Max", "L2")}}
SIZES = [(1, 1), (7, 5), (300, 3), (3, 33), (70, 64), (2, 2047), (3, 2048), (2, 2049), (5, 5000), (1, 100003)]


def model(tail):
    text = HEAD + "(float[b,n] x, float[b,1] s, float[n] v, bool[b,n] m) => (float[...] y) <int64[1] a = {1}> {" \
        "half = Constant<value_float = 0.5>() p = Sub(x, s) r = Mul(p, half) z = Exp(r) q = Where(m, z, v) " \
        f"{tail} }}"
    m = onnx.parser.parse_model(text.replace("float[...] y", "float y"))
    del m.graph.output[0].type.tensor_type.shape.dim[:]
    m.graph.output[0].type.tensor_type.ClearField("shape")
    return m.SerializeToString()


def feeds(rows, cols):
    rng = np.random.default_rng(rows * 7 + cols)
    return {"x": rng.standard_normal((rows, cols), np.float32), "s": rng.standard_normal((rows, 1), np.float32),
            "v": 1 + 0.1 * rng.standard_normal(cols, np.float32), "m": rng.random((rows, cols)) < 0.8}


def normal(q, epsilon):
    return (q - q.mean(1, keepdims=True)) / np.sqrt(q.var(1, keepdims=True) + epsilon)


def exps(q):
    return np.exp(q - q.max(1, keepdims=True))


def expected(tail, x, s, v, m):
    """In double."""
    q = np.where(m, np.exp((x.astype(np.float64) - s) * 0.5), v)
    op = tail.partition("_of_all")[0]
    along = {"axis": None, "keepdims": True} if "_of_all" in tail else {"axis": 1}
    return {"softmax": lambda: exps(q) / exps(q).sum(1, keepdims=True),
            "log_softmax": lambda: q - q.max(1, keepdims=True) - np.log(exps(q).sum(1, keepdims=True)),
            "layer": lambda: normal(q, 1e-5) * v + v, "layer_no_bias": lambda: normal(q, 0.01) * v,
            "Sum": lambda: q.sum(**along), "Mean": lambda: q.mean(**along), "Max": lambda: q.max(**along),
            "Min": lambda: q.min(**along), "Prod": lambda: q.prod(**along),
            "L2": lambda: np.sqrt((q * q).sum(**along))}[op]()


@pytest.mark.parametrize("tail", TAILS)
def test_rows_of_a_chain(tail):
    data = model(TAILS[tail])
    with nacre_c.Env(1) as one, nacre_c.Env(3) as three:
        sessions = [one.session(data, dumps="on"), three.session(data)]
        assert "nacre.ChainRows" in sessions[0].dump("lowered")
        for rows, cols in SIZES:
            fed = feeds(rows, cols)
            want = expected(tail, **fed)
            got = [s.run(fed)["y"] for s in sessions]
            assert got[0].tobytes() == got[1].tobytes(), (rows, cols)
            assert got[0].shape == want.shape
            if tail == "Prod" and cols > 100:
                continue  # it has left the range of floats by then
            most = max(np.abs(want).max(), 1e-3)
            tolerances.close(got[0] / most, want / most, "model_f32", (tail, rows, cols))


@pytest.mark.parametrize("tail", ["Sum", "Mean", "Max", "softmax", "Sum_of_all"])
def test_rows_of_nothing(tail):
    with nacre_c.Env(2) as env:
        session = env.session(model(TAILS[tail]))
        for rows, cols in ((0, 5), (4, 0)):
            got = session.run(feeds(rows, cols))["y"]
            x = np.zeros((rows, cols), np.float32)
            with np.errstate(all="ignore"):
                want = {"Sum": lambda: x.sum(1), "Max": lambda: np.full(rows, -np.inf), "softmax": lambda: x,
                        "Mean": lambda: np.full(rows, np.nan), "Sum_of_all": lambda: x.sum(keepdims=True)}[tail]()
            np.testing.assert_array_equal(got, want.astype(np.float32))


def test_operands_that_do_not_fit_are_refused():
    with nacre_c.Env(1) as env:
        session = env.session(model(TAILS["Sum"]))
        fed = feeds(4, 6)
        with pytest.raises(nacre_c.NacreError, match="ReduceSum|expected|broadcast"):
            session.run({**fed, "v": fed["v"][:5]})
