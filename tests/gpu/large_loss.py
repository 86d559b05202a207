"""A loss over more than 2^31 scores, SoftmaxCrossEntropyLossInternal and its gradient, against sums in double: 45 GB.

usage: python3 tests/gpu/large_loss.py [ROWS CLASSES PROVIDER...]   (default 10230 250680, CPU and CUDA)
"""
import sys
import time

sys.path.insert(0, "build/release/python")
import numpy as np
from onnx import TensorProto, helper

import nacre

DOMAIN, DISTINCT, PEAK = "com.microsoft", 64, 3


def model():
    def value(name, kind, *dims):
        return helper.make_tensor_value_info(name, kind, dims)
    f, nodes = TensorProto.FLOAT, [("", ["x", "l"], ["y", "p"]), ("Grad", ["d", "p", "l"], ["g"])]
    graph = helper.make_graph(
        [helper.make_node("SoftmaxCrossEntropyLossInternal" + name, i, o, domain=DOMAIN) for name, i, o in nodes], "g",
        [value("x", f, "n", "c"), value("l", TensorProto.INT64, "n"), value("d", f)],
        [value("y", f), value("p", f, "n", "c"), value("g", f, "n", "c")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def scores(rows, classes, rng):
    """Rows that repeat but for one class each, which has a peak; the logarithm of each row's sum."""
    some = rng.standard_normal((min(rows, DISTINCT), classes), dtype=np.float32)
    sums = np.exp(some.astype(np.float64)).sum(1)
    x, logs = np.empty((rows, classes), np.float32), np.empty(rows)
    for i in range(rows):
        k, at = i % len(some), i % classes
        x[i] = some[k]
        x[i, at] += PEAK
        logs[i] = np.log(sums[k] - np.exp(np.float64(some[k, at])) + np.exp(np.float64(x[i, at])))
    return x, logs


def check(provider, x, labels, logs):
    want = np.mean(logs - x[np.arange(len(x)), labels])
    begin = time.time()
    session = nacre.InferenceSession(model(), providers=[provider])
    loss, _, grad = session.run(None, {"x": x, "l": labels, "d": np.float32(1)})
    took, worst = time.time() - begin, 0
    for i in (0, len(x) // 2, len(x) - 1):
        right = np.exp(x[i].astype(np.float64) - logs[i])
        right[labels[i]] -= 1
        worst = max(worst, np.abs(grad[i] * np.float64(len(x)) - right).max())
    print(f"{provider}: {x.size} scores, loss {loss:.6f} for {want:.6f}, gradient off by {worst:.1e}, {took:.1f} s")
    return abs(loss - want) < 1e-5 * want and worst < 1e-5


def main():
    rows, classes = (int(n) for n in (sys.argv[1:3] or (10230, 250680)))
    rng = np.random.default_rng(3)
    x, logs = scores(rows, classes, rng)
    labels = rng.integers(0, classes, rows)
    providers = sys.argv[3:] or ["CPUExecutionProvider", "CUDAExecutionProvider"]
    return 0 if all([check(p, x, labels, logs) for p in providers]) else 1


if __name__ == "__main__":
    sys.exit(main())
