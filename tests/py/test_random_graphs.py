"""Random graphs of all operators against onnxruntime, ONNX's reference evaluator and, for com.microsoft, what judges
test_contrib.py: see graphs/. Many values have the same shape, operands are intermediates that die where they are read,
views and results in place abound; each graph runs at two sets of sizes, with 1 and 2 threads and on cpu and guard with
equal bits, and with lowering switched on and off.

NACRE_GRAPHS=N runs N graphs (default 2000), NACRE_GRAPHS_FROM=K from seed K on, NACRE_GRAPH=SEED one of them alone,
whose model is printed when it fails. NACRE_TEST_DEVICE=cuda: on that device instead (tests/gpu/run.sh).
"""
import collections
import multiprocessing
import os
import pathlib
import re
import time
import types

import numpy as np
import onnx
import pytest

from graphs import judge, layers, microsoft
from graphs.builder import Graph
from graphs.draw import draw, starts
from graphs.oracle import Reject

COUNT = int(os.environ.get("NACRE_GRAPHS", 2000))
START = int(os.environ.get("NACRE_GRAPHS_FROM", 0))
CHUNK = 25
WORKERS = min(os.cpu_count() or 1, 16)
SECONDS = 120  # for one graph: then it hangs, however busy the machine is
OPERATORS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operators.md"

# Operators that no graph has.
NOT_DRAWN = {"ImageDecoder": "needs libraries of pictures, which not every machine has",
             "MaxRoiPool": "ONNX's evaluator, which judges the graphs, has none; test_contrib.py asks onnxruntime"}

# Their cases hold numbers that lie on an edge between two codes: noise moves them across in nearly every draw.
ON_EDGES = {"com.microsoft.QLinearSoftmax", "com.microsoft.QLinearWhere"}


def work(seeds):
    """{operator: graphs that have it} and [(seed, what is wrong)] of some seeds."""
    runner = work.__dict__.setdefault("runner", None) or judge.Runner()
    work.runner = runner
    counts, wrong = collections.Counter(), []
    for seed in seeds:
        work.note.value = seed
        try:
            counts.update(runner.judge(seed))
        except judge.Wrong as e:
            wrong.append((seed, " ".join(str(e).split())[:600]))
    return counts, wrong


def worker(pipe, note):
    """Answers one list of seeds after the other. note holds the seed at hand, for the case that it is the last."""
    work.note = note
    while (seeds := pipe.recv()) is not None:
        pipe.send(work(seeds))


class Worker:
    """A process, so that a graph that crashes or hangs costs a process and not the test."""

    def __init__(self):
        self.start()

    def start(self):
        context = multiprocessing.get_context("fork")
        self.note = context.Value("q", -1)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=worker, args=(theirs, self.note), daemon=True)
        self.process.start()
        theirs.close()
        self.seeds, self.seen, self.since = [], -1, 0

    def give(self, seeds):
        self.seeds, self.since = seeds, time.monotonic()
        self.pipe.send(seeds)

    def hangs(self):
        """Has it been at one graph for too long?"""
        at, now = self.note.value, time.monotonic()
        if at != self.seen:
            self.seen, self.since = at, now
        return now - self.since > SECONDS

    def take(self):
        """(answer, seeds left to do); the answer is None while there is none."""
        late = self.hangs()
        if not late and not self.pipe.poll():
            return None, []
        try:
            if late and not self.pipe.poll():
                raise EOFError
            return self.pipe.recv(), []
        except (EOFError, ConnectionResetError):
            at, why = self.note.value, "takes too long" if late else "the process died"
            self.process.kill()
            self.process.join()
            rest = self.seeds[self.seeds.index(at) + 1:] if at in self.seeds else []
            again = [s for s in self.seeds if s not in rest and s != at]
            self.start()
            return (collections.Counter(), [(at, why)]), again + rest

    def stop(self):
        self.process.kill()
        self.process.join()


def run_all(seeds):
    """Shares the seeds out; prints how far it is."""
    chunks = collections.deque(seeds[i:i + CHUNK] for i in range(0, len(seeds), CHUNK))
    counts, wrong, done, told = collections.Counter(), [], 0, time.monotonic()
    workers = [Worker() for _ in range(min(WORKERS, len(chunks)))]
    idle, busy = list(workers), []
    try:
        while chunks or busy:
            while idle and chunks:
                busy.append(idle.pop())
                busy[-1].give(chunks.popleft())
            multiprocessing.connection.wait([w.pipe for w in busy], timeout=1)
            for w in list(busy):
                answer, left = w.take()
                if answer is None:
                    continue
                counts.update(answer[0])
                wrong += answer[1]
                done += len(w.seeds) - len(left) if not left else 0
                chunks.extend([left] if left else [])
                busy.remove(w)
                idle.append(w)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(f"random graphs: {done} of {len(seeds)}, {len(wrong)} wrong", flush=True)
    finally:
        for w in workers:
            w.stop()
    return counts, wrong


@pytest.fixture(scope="module")
def outcome():
    layers.cases()  # before the workers are forked
    if "NACRE_GRAPH" in os.environ:
        pytest.skip("NACRE_GRAPH asks for one graph")
    return run_all(list(range(START, START + COUNT)))


def test_graphs(outcome):
    counts, wrong = outcome
    print(f"\nrandom graphs: {COUNT}, {len(counts)} operators")
    told = "\n".join(f"NACRE_GRAPH={seed}: {why}" for seed, why in wrong[:40])
    assert not wrong, f"{len(wrong)} of {COUNT} graphs:\n{told}"


def operators():
    """The names of ai.onnx for which there is a card."""
    part = OPERATORS.read_text().split("## ai.onnx: ")[1].split("\n## ")[0]
    return set(re.findall(r"^\| (\w+) \| [0-9 ]+ \|", part, re.M))


def test_every_operator_is_drawn(outcome):
    if COUNT < 2000:
        pytest.skip("too few graphs to have every operator")
    counts, wrong = outcome
    have = operators()
    assert len(have) > 190, "docs/operators.md is not as it was"
    assert have - set(counts) - set(NOT_DRAWN) == set(), "operators without a recipe, or too rare"
    assert not set(NOT_DRAWN) & set(counts) and set(NOT_DRAWN) <= have, "NOT_DRAWN is out of date"
    theirs = {f"{microsoft.DOMAIN}.{op}" for op in microsoft.cases()}
    assert len(theirs) > 140 and theirs - set(counts) - ON_EDGES == set(), "of com.microsoft none is drawn, or too rare"


@pytest.mark.skipif("NACRE_GRAPH" not in os.environ, reason="NACRE_GRAPH names one graph")
def test_one_graph():
    seed = int(os.environ["NACRE_GRAPH"])
    print(onnx.printer.to_text(draw(seed).model))
    judge.Runner().judge(seed)


def test_every_recipe_begins_a_graph():
    assert len(starts()) * 9 < 2000, "too many recipes for the graphs of one run"
    for seed in range(len(starts())):
        assert draw(seed).ops


@pytest.mark.parametrize("op, operands", [("Floor", 1), ("Greater", 2), ("ArgMax", 1), ("NonZero", 1)])
def test_what_hangs_on_rounding_is_not_drawn(op, operands):
    """The argument has been computed: it may be off by some roundings to either side, whatever the seed."""
    steep = {"ArgMax": [2.0, np.nextafter(np.float32(2), 3)], "NonZero": [0.0, 3.0]}.get(op, [2.0, 0.5])
    for seed in range(20):
        for data, drawn in ((steep, False), ([2.5, 0.5], True)):
            g = Graph(np.random.default_rng(seed), {"": 18})
            v, = g.emit("Mul", [g.input([np.float32(data)] * 2), np.float32(1)])
            try:
                g.emit(op, [v, np.float32(2)][:operands])
                assert drawn, f"seed {seed}: {op} of {data}"
            except Reject:
                assert not drawn, f"seed {seed}: {op} of {data}"


def test_a_graph_that_crashes_costs_itself_alone(monkeypatch):
    monkeypatch.setattr(judge.Runner, "judge", lambda self, seed: os.abort() if seed == 3 else {"Abs"})
    counts, wrong = run_all(list(range(8)))
    assert wrong == [(3, "the process died")] and counts["Abs"] == 7


def test_graphs_that_end_one_by_one_do_not_hang(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    w = Worker.__new__(Worker)
    w.note, w.seen, w.since = types.SimpleNamespace(value=0), -1, 0.0
    told = []
    for now[0], w.note.value in ((1, 0), (SECONDS, 1), (2 * SECONDS, 1), (2 * SECONDS + 1, 1), (2 * SECONDS + 2, 2)):
        told.append(w.hangs())
    assert told == [False, False, False, True, False]


def test_a_wrong_result_is_seen(monkeypatch):
    run = judge.Runner.run

    def spoilt(self, *arguments):
        outs = run(self, *arguments)
        name = next(n for n, x in outs[0].items() if getattr(x, "size", 0) and x.dtype.kind == "f")
        outs[0][name] = outs[0][name] + 1
        return outs
    monkeypatch.setattr(judge.Runner, "run", spoilt)
    assert len(run_all([1, 2, 4])[1]) == 3
