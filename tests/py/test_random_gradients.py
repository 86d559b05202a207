"""Gradients of random graphs of smooth operators (graphs/smooth.py), in double, against central differences along
random directions.

NACRE_GRADIENT_GRAPHS=N runs N graphs (default 300), NACRE_GRADIENT_GRAPH=SEED one of them alone, which is printed.
"""
import collections
import os

import numpy as np
import onnx
import pytest

from graphs.oracle import Reject
from graphs.smooth import smooth
from nacre_c import NacreError, Options
from tolerances import TOLERANCES

COUNT = int(os.environ.get("NACRE_GRADIENT_GRAPHS", 300))
STEP = 1e-6


def total(outs, dys):
    return float(sum((y * dy).sum() for y, dy in zip(outs, dys)))


def judge(env, seed):
    """What is wrong with the gradients of a seed's graph, or None; and its operators."""
    model, feeds, xs, ys, ops = smooth(seed)
    rng = np.random.default_rng(seed)
    if not xs:
        return None, set()
    try:
        forward = env.session(model)
        backward = env.session(model, Options().backward(ys, xs))
        outs = forward.run(feeds, ys)
        size = 1 + sum(np.abs(y).sum() for y in outs.values())  # sums of about 1 lose the same digits in every graph
        dys = [rng.standard_normal(outs[y].shape) / size for y in ys]
        got = backward.run({**feeds, **{f"d:{y}": dy for y, dy in zip(ys, dys)}}, [f"grad:{x}" for x in xs])
        for x in xs:
            d = rng.standard_normal(feeds[x].shape)

            def along(t, x=x, d=d):
                return total(forward.run({**feeds, x: feeds[x] + t * d}, ys).values(), dys)
            want, have = (along(STEP) - along(-STEP)) / (2 * STEP), float((got[f"grad:{x}"] * d).sum())
            rtol, atol = TOLERANCES["difference_graph_f64"]
            if not abs(want - have) <= atol + rtol * abs(want):
                return f"the gradient of {x} is {have:.9g} along a direction, differences say {want:.9g}", ops
    except NacreError as e:
        return " ".join(str(e).split())[:300], ops
    return None, ops


@pytest.mark.skipif("NACRE_GRADIENT_GRAPH" in os.environ, reason="NACRE_GRADIENT_GRAPH asks for one graph")
def test_gradients_of_random_graphs(env):
    wrong, counts, judged = [], collections.Counter(), 0
    for seed in range(COUNT):
        try:
            why, ops = judge(env, seed)
        except Reject:
            continue
        judged += bool(ops)
        counts.update(ops)
        if why:
            wrong.append(f"NACRE_GRADIENT_GRAPH={seed}: {why}")
    print(f"\ngradients of random graphs: {judged}, {len(counts)} operators")
    assert judged > COUNT * 0.8, "few graphs were drawn"
    assert len(counts) > (45 if COUNT >= 300 else 0), "few operators were drawn"
    assert not wrong, "\n".join(wrong[:30])


@pytest.mark.skipif("NACRE_GRADIENT_GRAPH" not in os.environ, reason="NACRE_GRADIENT_GRAPH names one graph")
def test_one_graph(env):
    seed = int(os.environ["NACRE_GRADIENT_GRAPH"])
    print(onnx.printer.to_text(smooth(seed)[0]))
    assert judge(env, seed)[0] is None
