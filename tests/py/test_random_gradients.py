"""Gradients of random graphs (graphs/smooth.py), in double, against differences along random directions. Where the
slopes to both sides differ little, any number between them will do; where they differ much there is a kink, and no
gradient to compare with.

NACRE_GRADIENT_GRAPHS=N runs N graphs (default 100), NACRE_GRADIENT_GRAPH=SEED one of them alone, which is printed.
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

COUNT = int(os.environ.get("NACRE_GRADIENT_GRAPHS", 100))
STEP, BEND = 1e-6, 1e-5


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
            here, have = along(0), float((got[f"grad:{x}"] * d).sum())
            low, high = sorted(((along(STEP) - here) / STEP, (here - along(-STEP)) / STEP))
            rtol, atol = TOLERANCES["difference_graph_f64"]
            room = atol + rtol * max(abs(low), abs(high))
            if high - low > BEND * (1 + abs(low) + abs(high)):
                continue
            if not low - room <= have <= high + room:
                return (f"the gradient of {x} is {have:.9g} along a direction, differences say {low:.9g} to "
                        f"{high:.9g}"), ops
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
    assert len(counts) > (110 if COUNT >= 100 else 0), "few operators were drawn"
    assert not wrong, "\n".join(wrong[:30])


@pytest.mark.skipif("NACRE_GRADIENT_GRAPH" not in os.environ, reason="NACRE_GRADIENT_GRAPH names one graph")
def test_one_graph(env):
    seed = int(os.environ["NACRE_GRADIENT_GRAPH"])
    print(onnx.printer.to_text(smooth(seed)[0]))
    assert judge(env, seed)[0] is None
