"""Gradients of the node cases of ONNX's backend suite against central differences, in double.

Every float of a case becomes a double: types, data, attributes. Inputs are moved off ties and kinks by a little noise;
random cotangents arrive at all outputs, so no entry of a Jacobian can hide in a sum. Each gradient is compared along
single elements and along whole directions.

gradients.py [PATTERN]   runs the cases whose name matches and prints why each of them fails, and counts
"""
import concurrent.futures
import multiprocessing
import os
import pathlib
import re
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "py"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import nacre_c  # noqa: E402
import not_differentiable  # noqa: E402
from doubles import Widening, plain  # noqa: E402
from tolerances import TOLERANCES  # noqa: E402

ELEMENTS, DIRECTIONS, DRAWS = 24, 3, 6


# ---- one case ----

# What draws numbers: the random state is set back before each run, so that all runs draw the same.
DRAWING = {"Bernoulli", "Dropout", "RandomNormalLike", "RandomUniformLike", "RandomNormal", "RandomUniform"}


class Skip(Exception):
    """The case has nothing to be differentiated."""


class Case:
    """A case in double: what is fed, what is differentiated by what."""

    def __init__(self, case):
        self.name = case.name
        self.op = case.model.graph.node[-1].op_type if len(case.model.graph.node) else ""
        single = self.op in not_differentiable.SINGLE
        self.step, self.row = (2.0 ** -6, "difference_suite_f32") if single else (1e-6, "difference_suite_f64")
        self.bend = 5e-2 if single else 1e-3  # how far slopes to both sides may differ where there is no kink
        to = Widening(TensorProto.FLOAT if single else TensorProto.DOUBLE)
        self.model = onnx.ModelProto()
        self.model.CopyFrom(case.model)
        graph = self.model.graph
        held, kept = self.at(not_differentiable.INPUTS), self.at(not_differentiable.FLOATS)
        to.graph(graph, kept)
        inputs = [v for v in graph.input if v.name not in {t.name for t in graph.initializer}]
        self.feeds = {v.name: plain(x) if v.name in kept else to.value(x)
                      for v, x in zip(inputs, case.data_sets[0][0]) if x is not None}

        def is_float(v):
            return v.type.HasField("tensor_type") and v.type.tensor_type.elem_type == to.to
        self.xs = [v.name for v in inputs if is_float(v) and v.name in self.feeds and v.name not in held
                   and self.feeds[v.name].size]
        self.ys = [v.name for v in graph.output if is_float(v)]
        if not self.xs or not self.ys:
            raise Skip
        self.draws = any(n.op_type in DRAWING for n in graph.node)
        constant = (self.at(not_differentiable.CONSTANTS) | not_differentiable.CASE_CONSTANTS.get(self.name, set()))
        constant -= set(self.xs)
        for v in [v for v in inputs if v.name in constant and v.name in self.feeds]:
            graph.initializer.append(numpy_helper.from_array(self.feeds.pop(v.name), v.name))
            graph.input.remove(v)

    def at(self, table):
        """Names of the inputs of the case's op that the table has."""
        places = table.get(self.op, {})
        return {n for node in self.model.graph.node if node.op_type == self.op
                for i, n in enumerate(node.input) if i in places and n}

    def functions(self, env):
        """What gives the outputs, and what gives the gradients."""
        self.forward = env.session(self.model)
        if self.draws:
            self.zeros = {f"d:{n}": np.zeros_like(y) for n, y in self.forward.run(self.feeds, self.ys).items()}
        self.backward = env.session(self.model, nacre_c.Options().backward(self.ys, self.xs))

    def outputs(self, feeds):
        """Of what draws numbers, those of the session that differentiates: it has a generator of its own."""
        if self.draws:
            self.backward.reset()
            feeds = {**feeds, **self.zeros}
        run = self.backward if self.draws else self.forward
        return [np.asarray(y, np.float64) for y in run.run(feeds, self.ys).values()]

    def noisy(self, seed, scale):
        rng = np.random.default_rng(seed)
        moved = {x: self.feeds[x] * (1 + scale * rng.standard_normal(self.feeds[x].shape))
                 + 0.1 * scale * rng.standard_normal(self.feeds[x].shape) for x in self.xs}
        return {**self.feeds, **{x: v.astype(self.feeds[x].dtype) for x, v in moved.items()}}


def products(ys, dys):
    """<y, dy>, summed where it is finite."""
    return float(sum(np.nansum(np.where(np.isfinite(y), y, 0) * dy) for y, dy in zip(ys, dys)))


class Kink(Exception):
    """Left and right of the point the slopes differ, or a value leaves the function's domain."""


def slope(case, feeds, dys, x, direction):
    """The derivative of <y, dy> along a direction of x; the differences to both sides must agree."""
    def at(t):
        there = np.where(direction, feeds[x] + t * direction, feeds[x]).astype(feeds[x].dtype)
        return products(case.outputs({**feeds, x: there}), dys)
    here, up, down = at(0.0), at(case.step), at(-case.step)
    left, right = (here - down) / case.step, (up - here) / case.step
    if abs(left - right) > case.bend * (1 + abs(left) + abs(right)):
        raise Kink
    return (up - down) / (2 * case.step)


def directions(x, rng):
    """Single elements, then whole directions of about the same length; where x is no number there is no slope."""
    places = np.flatnonzero(np.isfinite(x))
    for i in places if len(places) <= ELEMENTS else sorted(rng.choice(places, ELEMENTS, replace=False)):
        d = np.zeros(x.size)
        d[i] = 1
        yield d.reshape(x.shape)
    for _ in range(DIRECTIONS if len(places) > 1 else 0):
        yield np.where(np.isfinite(x), rng.standard_normal(x.shape) / np.sqrt(x.size), 0)


def judge(case, feeds, seed):
    """Why a gradient is wrong; None where all are right."""
    rng = np.random.default_rng(seed)
    ys = case.outputs(feeds)
    first = case.outputs(case.feeds)
    if any(a.shape != b.shape or (np.isfinite(a) < np.isfinite(b)).any() for a, b in zip(ys, first)):
        raise Kink
    dys = [np.where(np.isfinite(y), rng.uniform(0.5, 1.5, y.shape) * rng.choice([-1, 1], y.shape), 0) for y in ys]
    if case.draws:
        case.backward.reset()
    kind = feeds[case.xs[0]].dtype
    got = case.backward.run({**feeds, **{f"d:{n}": dy.astype(kind) for n, dy in zip(case.ys, dys)}},
                            [f"grad:{x}" for x in case.xs])
    rtol, atol = TOLERANCES[case.row]
    for x in case.xs:
        grad = got[f"grad:{x}"]
        if grad.shape != feeds[x].shape:
            return f"the gradient of {x} has shape {grad.shape}, not {feeds[x].shape}"
        for d in directions(feeds[x], rng):
            want, have = slope(case, feeds, dys, x, d), float(grad[d != 0] @ d[d != 0])
            if not abs(have - want) <= atol + rtol * max(1.0, abs(want)):
                return f"the gradient of {x} is {have:.9g} along {where(d)}, differences say {want:.9g}"
    return None


def where(d):
    at = np.argwhere(d)
    return f"element {at[0].tolist()}" if len(at) == 1 else "a direction"


def run_case(env, case):
    """Why the case fails; None when it passes."""
    try:
        case.functions(env)
        for draw in range(DRAWS):
            try:
                return judge(case, case.noisy(draw, 0.01 if draw < 4 else 0.001), draw)
            except Kink:
                continue
        return "no point without a kink was found"
    except nacre_c.NacreError as e:
        return " ".join(str(e).split())[:400]


def cases(pattern=""):
    """[Case] of the suite's node cases with something to differentiate, and {op: cases} of those left out."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sorted(collect_testcases(None), key=lambda c: c.name)
    taken, left = [], {}
    for c in found:
        if not re.search(pattern, c.name) or not c.data_sets:
            continue
        try:
            case = Case(c)
        except Skip:
            continue
        if case.op in not_differentiable.OPS or c.name in not_differentiable.CASES:
            left.setdefault(case.op, []).append(c.name)
        else:
            taken.append(case)
    return taken, left


def run_some(of):
    """[why not, or None] of every `step`-th case from `first` on, in a child that has the list."""
    first, step = of
    with nacre_c.Env(1) as env:
        return [run_case(env, c) for c in run.taken[first::step]]


def run(pattern=""):
    """{name: (op, why not, or None)} and what was left out. Each core takes every n-th case."""
    run.taken, left = cases(pattern)
    n = os.cpu_count() or 1
    with concurrent.futures.ProcessPoolExecutor(n, multiprocessing.get_context("fork")) as pool:
        whys = {}
        for first, found in enumerate(pool.map(run_some, [(i, n) for i in range(n)])):
            whys.update(zip(range(first, len(run.taken), n), found))
    return {c.name: (c.op, whys[i]) for i, c in enumerate(run.taken)}, left


def summary(outcome):
    passed = [op for op, why in outcome.values() if why is None]
    failing = sorted({op for op, why in outcome.values() if why is not None})
    return (f"gradients of ONNX's node cases: {len(passed)} passed of {len(outcome)}, of {len(set(passed))} ops"
            f"{'; failing: ' + ', '.join(failing) if failing else ''}")


if __name__ == "__main__":
    result, _ = run(sys.argv[1] if len(sys.argv) > 1 else "")
    for case_name, (op, why) in result.items():
        if why:
            print(f"{case_name} ({op}): {why}")
    print(summary(result))
