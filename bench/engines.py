"""Engines as worker processes, taking turns. A pair of workers is started for one model; `turns` asks one after
the other, and the other one first the next time, so that a slow spell of the machine hits both alike.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("nacre", "onnxruntime")


class Engine:
    """One process of worker.py or a script like it. Use as a context; `ask` sends a command and returns the answer."""

    def __init__(self, name, package, script="worker.py", python=sys.executable):
        path = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
        self.name = name
        self.process = subprocess.Popen([python, str(HERE / script), name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
        self.version = self._answer()["version"]

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: the worker ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, do, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def turns(n):
    """The engines' names, n times both, the order changing each time."""
    for i in range(n):
        yield from NAMES if i % 2 == 0 else NAMES[::-1]


def looped(bench, what, path, feeds, times):
    """Milliseconds of a run, by the wall clock and of the processor, of each engine; `times` runs in a turn. What they
    give must agree."""
    with Engine(NAMES[0], bench.package) as a, Engine(NAMES[1], bench.package) as b:
        engines, took, sums = {a.name: a, b.name: b}, {n: [] for n in NAMES}, {}
        for name, engine in engines.items():
            engine.ask("load", model=str(path), feeds=str(feeds))
            sums[name] = engine.ask("run", times=3)["sums"]
        bench.agree(what, *(sums[n] for n in NAMES))
        for name in turns(2 * bench.turns):
            took[name].append(engines[name].ask("loop", times=times))
    return [[median(took[n], clock) for n in NAMES] for clock in ("wall", "cpu")]


def median(rows, *keys):
    """The median of rows[i][key][key]..."""
    values = []
    for row in rows:
        for key in keys:
            row = row[key]
        values.append(row)
    return statistics.median(values)
