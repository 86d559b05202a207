"""One model in onnxruntime and in Nacre: runs of feeds whose state is carried on, and whether the outputs agree."""
import functools

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(4)

# row: (relative, absolute): an output is right where |got - want| <= absolute + relative * the largest |want| in it.
# Sums of thousands of products taken in another order differ by some units in the seventh digit; depth and recurrence
# carry that on. The two models of text enlarge it: evaluated in double precision, the recognizer's outputs lie 1e-3
# from onnxruntime's and 5e-4 from Nacre's.
TOLERANCE = {"float32": (2e-5, 2e-7), "float16": (4e-3, 4e-5), "float64": (1e-12, 1e-14),
             "ch_PP-OCRv4_det_infer": (2e-4, 0), "ch_PP-OCRv4_rec_infer": (2e-3, 0), "scores": (0, 1e-4)}


class Run:
    """feeds: one dict per step. carry: {input: output of the step before}, which starts as in state."""

    def __init__(self, name, feeds, state=None, carry=None):
        self.name, self.feeds, self.state, self.carry = name, feeds, state or {}, carry or {}

    def through(self, run):
        """run: {input: array} -> {output: array}. Gives the outputs of every step."""
        state, out = self.state, []
        for feed in self.feeds:
            out.append(run({**feed, **state}))
            state = {i: out[-1][o] for i, o in self.carry.items()}
        return out


def onnxruntime_session(path, threads=2):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def by_name(session):
    """A function for Run.through."""
    names = [o.name for o in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds)))


@functools.lru_cache(maxsize=None)
def reference(path, runs):
    """onnxruntime's outputs, by run and step. runs: a tuple."""
    run = by_name(onnxruntime_session(path))
    return [r.through(run) for r in runs]


def difference(got, want, row=None):
    """Why an output is not what it should be, or an empty text. row: of TOLERANCE, instead of that of its type."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if want.dtype.kind != "f":
        return "" if np.array_equal(got, want) else f"{np.sum(got != want)} of {want.size} elements differ"
    odd = ~np.isfinite(want)
    if not np.array_equal(got[odd], want[odd], equal_nan=True) or not np.isfinite(got[~odd]).all():
        return "NaN or infinity at other places"
    if not want.size or odd.all():
        return ""
    relative, absolute = TOLERANCE[row if row in TOLERANCE else want.dtype.name]
    off, scale = np.abs(got[~odd] - want[~odd]).max(), np.abs(want[~odd]).max()
    limit = absolute + relative * scale
    return "" if off <= limit else f"off by {off:.3g}, at most {limit:.3g} at a magnitude of {scale:.3g}"


def differences(path, runs, got, want):
    """One line per output of the model that differs."""
    return [f"{run.name}, step {i}, {name}: {why}"
            for run, g_steps, w_steps in zip(runs, got, want) for i, (g, w) in enumerate(zip(g_steps, w_steps))
            for name in w for why in [difference(g[name], w[name], path.stem)] if why]


def same_bits(a, b):
    """Whether two lists of runs agree in every bit."""
    return all(x[name].tobytes() == y[name].tobytes() for p, q in zip(a, b) for x, y in zip(p, q) for name in x)
