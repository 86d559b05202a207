"""One engine in a process of its own: worker.py ENGINE, ENGINE being nacre or onnxruntime, or numpy, which takes every
model for the product of its two inputs (gemm.py); peer_worker.py has others.
Reads one JSON command a line and answers with one line; the parent decides whose turn it is, so that engines never run
at the same time.

    {"do": "load", "model": path, "feeds": npz}   imports, then creates; times, memory before and after; threads: 0 is
                                                  the engine's own choice; names: of the outputs, for engines that ask;
                                                  onto: outputs that are written onto inputs, by names
    {"do": "run", "times": n}                     milliseconds of each run, wall and CPU of the process; memory
    {"do": "loop", "times": n}                    milliseconds of a run, of n without a look at the clock
    {"do": "turn", "times": n, "reads": threads}  milliseconds of each run; GFLOP/s of a thread right before and after;
                                                  where reads is not 0: GB/s that so many threads read, then and then
    {"do": "outputs", "path": npz}                writes what a run gives
    {"do": "create", "model": path}               milliseconds to create a session
An error ends the process with its text.
"""
import ctypes
import json
import os
import resource
import sys
import time

import numpy as np


def memory():
    """Bytes of this process now: anonymous, file-backed; and the most that both had together so far."""
    with open("/proc/self/smaps_rollup") as f:
        kb = {line.split(":")[0]: int(line.split()[1]) for line in f if line.rstrip().endswith("kB")}
    with open("/proc/self/status") as f:
        peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
    return {"anonymous": kb["Anonymous"] << 10, "file": (kb["Rss"] - kb["Anonymous"]) << 10, "peak": peak << 10}


def clocks():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def timed(call):
    start = clocks()
    result = call()
    return result, {"wall": (clocks()[0] - start[0]) * 1e3, "cpu": (clocks()[1] - start[1]) * 1e3}


def array(output):
    return output if isinstance(output, np.ndarray) else output.numpy()


class Worker:
    def __init__(self, engine):
        self.engine = __import__(engine)
        self.version = getattr(self.engine, "__version__", "unknown")
        self.limits = ctypes.CDLL(os.environ["BENCH_LIMITS"])
        self.limits.limits_now.restype = self.limits.limits_read_now.restype = ctypes.c_double

    def prepare(self, model, feeds):
        """What is done once for all sessions, and is no part of any time."""

    def session(self, model, threads):
        options = self.engine.SessionOptions()
        options.intra_op_num_threads = threads
        return self.engine.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def make(self, model, threads):
        """A session, as a function that runs it with self.feeds and gives a list of arrays."""
        session = self.session(model, threads)
        return lambda: session.run(None, self.feeds)

    def make_bound(self, model, threads):
        """The same with all bound once, outputs onto inputs where self.onto says so: gives a list of values."""
        session = self.session(model, threads)
        binding = session.io_binding()
        values = {name: self.engine.OrtValue.ortvalue_from_numpy(v) for name, v in self.feeds.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name in (o.name for o in session.get_outputs()):
            if name in self.onto:
                binding.bind_ortvalue_output(name, values[self.onto[name]])
            else:
                binding.bind_output(name)

        def run():
            session.run_with_iobinding(binding)
            return binding.get_outputs()
        return run

    def load(self, model, feeds, threads=0, names=(), onto=None):
        with np.load(feeds) as f:
            self.feeds = dict(f)
        self.names, self.onto = list(names), onto or {}
        self.prepare(model, feeds)
        base = memory()
        self.once, took = timed(lambda: (self.make_bound if self.onto else self.make)(model, threads))
        return {"create": took, "base": base, "memory": memory()}

    def run(self, times):
        took = []
        for _ in range(times):
            outputs, t = timed(self.once)
            took.append(t)
        sums = [float(np.abs(array(o)).sum(dtype=np.float64)) for o in outputs]
        return {"runs": took, "memory": memory(), "sums": sums}

    def turn(self, times, reads=0):
        """Threads of the other engine may still spin: they are given a moment."""
        time.sleep(0.01)
        self.once()
        before = self.now(reads)
        took = [timed(self.once)[1]["wall"] for _ in range(times)]
        peaks, read = zip(before, self.now(reads))
        return {"ms": took, "peaks": peaks, "reads": read if reads else []}

    def now(self, reads):
        """What this machine can do at this moment."""
        return self.limits.limits_now(), self.limits.limits_read_now(reads) if reads else 0

    def outputs(self, path):
        np.savez(path, *map(array, self.once()))
        return {}

    def loop(self, times):
        once = self.once

        def runs():
            for _ in range(times):
                once()
        took = timed(runs)[1]
        return {clock: t / times for clock, t in took.items()}

    def create(self, model):
        return timed(lambda: self.engine.InferenceSession(model, providers=["CPUExecutionProvider"]))[1]


class Blas(Worker):
    """The library behind numpy; how many threads it has is said by the process's environment."""

    def make(self, model, threads):
        a, b = self.feeds.values()
        return lambda: [np.matmul(a, b)]


def answer_all(worker):
    """Commands until the parent closes the pipe."""
    print(json.dumps({"version": worker.version}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(worker, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    answer_all((Blas if sys.argv[1] == "numpy" else Worker)(sys.argv[1]))
