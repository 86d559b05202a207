"""Runs a drawn model in Nacre in several ways and says what is wrong, if anything is. With NACRE_TEST_DEVICE
they run on that device alone, beside the same references."""
import numpy as np

import nacre_c
from tolerances import close

from .draw import draw

LEVELS = ["off", "basic", "extended", "all"]
SWITCHES = ["fusion", "layouts", "views", "packing"]


class Wrong(Exception):
    """The text says how the graph was run and what came out."""


def settings_of(seed):
    """Two ways to run: with everything that lowering does off, or with a random choice of it."""
    rng = np.random.default_rng([seed, 1])
    ways = []
    for _ in range(2):
        drawn = ["cpu", "guard"][rng.integers(2)]
        way = {"device": nacre_c.DEVICE or drawn, "level": LEVELS[rng.integers(4)]}
        way |= {s: bool(rng.integers(2)) for s in SWITCHES}
        ways.append(way | ({"capture": True} if drawn == "guard" and rng.random() < 0.3 else {}))
    if rng.random() < 0.25:
        ways[0] = {"level": "off"} | {s: False for s in SWITCHES}
    return ways


def compare(got, want, coarse, what):
    if isinstance(want, list):
        if len(got) != len(want):
            raise Wrong(f"{what}: {len(got)} items, expected {len(want)}")
        for i, (g, w) in enumerate(zip(got, want)):
            compare(g, w, coarse, f"{what}[{i}]")
        return
    if got.shape != want.shape or (got.dtype != want.dtype and want.dtype.kind != "O"):
        raise Wrong(f"{what}: {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}")
    if want.dtype.kind == "f":
        if got.tobytes() == want.tobytes():
            return
        try:
            close(got, want, "graph_f16" if coarse else "graph_f32", what)
        except AssertionError as e:
            raise Wrong(str(e)) from None
    elif got.tolist() != want.tolist():
        at = tuple(int(i) for i in np.argwhere(got != want)[0])
        raise Wrong(f"{what}: {got[at]!r} at {at}, expected {want[at]!r}")


def bits(outs):
    """The results as bytes, to be compared as they are."""
    def of(x):
        return [of(i) for i in x] if isinstance(x, list) else x.tolist() if x.dtype.kind == "O" else x.tobytes()
    return [[of(x) for x in run.values()] for run in outs]


class Runner:
    """Environments of one thread and of two, which all graphs of a process share."""

    def __init__(self):
        self.envs = {n: nacre_c.Env(n) for n in (1, 2)}

    def run(self, drawn, data, threads, way):
        """What both sizes give; the first size once more must give the same bits."""
        what = f"{way}, {threads} threads"
        try:
            with self.envs[threads].session(data, **way) as session:
                outs = [session.run(drawn.feeds[k]) for k in (0, 1, 0)]
        except nacre_c.NacreError as e:
            raise Wrong(f"{what}: {e}") from None
        if bits(outs[:1]) != bits(outs[2:]):
            raise Wrong(f"{what}: other bits in the third run than in the first, on the same inputs")
        return outs[:2]

    def check(self, drawn, outs, what):
        for k, out in enumerate(outs):
            for name, want, coarse in drawn.wants[k]:
                compare(out[name], want, coarse, f"{what}, run {k}, output {name}")

    def judge(self, seed):
        """Raises Wrong, or gives the operators that were drawn."""
        drawn = draw(seed)
        data = drawn.model.SerializeToString()
        if nacre_c.DEVICE is None:
            self.judge_threads(drawn, data)
        else:
            self.check(drawn, self.run(drawn, data, 1, {}), nacre_c.DEVICE)
        for way in settings_of(seed):
            self.check(drawn, self.run(drawn, data, 2, way), f"{way}")
        return drawn.ops

    def judge_threads(self, drawn, data):
        """One thread on the cpu is right, and two threads and the guard device give its bits."""
        first = self.run(drawn, data, 1, {})
        self.check(drawn, first, "1 thread")
        for way in ({}, {"device": "guard"}):
            if bits(self.run(drawn, data, 2, way)) != bits(first):
                raise Wrong(f"{way}, 2 threads: other bits than 1 thread on cpu")
