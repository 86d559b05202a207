#!/usr/bin/env python3
"""Measures nacre beside onnxruntime and prints tables: see README.md. `make bench` runs it.

bench.py [--quick] [--only PART,...] [--repeat N] [--accept] [--strict] [--build FOLDER]
"""
import argparse
import datetime
import os
import pathlib
import platform
import subprocess
import sys

import onnx
import onnxruntime

import bert
import decode
import figures
import gemm
import int8
import limits
import ops
import package
import packaged
import small
import speed
import training
import trees
import whole
from table import print_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = {"package": package.measure, "bert": bert.measure, "small": small.measure,
         "speed": speed.measure, "gemm": gemm.measure, "ops": ops.measure, "trees": trees.measure,
         "whole": whole.measure, "packaged": packaged.measure, "int8": int8.measure, "decode": decode.measure,
         "training": training.measure}


class Bench:
    """What all parts need: folders, how often, the machine's limits, a word on progress."""

    def __init__(self, build, quick, repeat):
        self.build, self.quick = build, quick
        self.package = build / "python"
        self.folder = ROOT / "build" / "bench" / ("quick" if quick else "")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.repeat, self.turns, self.starts = (1, 1, 1) if quick else (repeat, repeat + 2, repeat + 2)
        self.steady = 1 if quick else 3
        self.length = 8 if quick else 128
        self.disagreed = []
        self.rows = {}  # of paired.py, by part and count of threads
        self.say("limits of the machine")
        measured = limits.measure(self.folder)
        self.one, self.limits = measured[0], measured[-1]

    def say(self, what):
        print(f"[bench] {what}", file=sys.stderr, flush=True)

    def agree(self, name, a, b):
        """A time of a wrong result is worth nothing: sums of |outputs| must be alike."""
        if any(abs(x - y) > 1e-3 * max(abs(x), abs(y), 1e-6) for x, y in zip(a, b, strict=True)):
            self.disagreed.append(name)
            print(f"\n{name}: the engines disagree: {a} and {b}")


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def processor():
    listed = subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines()
    names = [line.split(":", 1)[1].strip() for line in listed if line.startswith("Model name")]
    return f"{len(os.sched_getaffinity(0))} x {names[0] if names else platform.machine()}"


def governor():
    """What chooses the clock; virtual machines do not show it."""
    shown = pathlib.Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return shown.read_text().strip() if shown.exists() else "not shown"


def about():
    return {"commit": commit(), "date": datetime.date.today().isoformat(), "machine": processor(),
            "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__, "governor": governor(),
            "load": round(os.getloadavg()[0], 1)}


def heading(bench, facts):
    print(", ".join(f"{k} {v}" for k, v in facts.items()))
    print(f"limits: {bench.one}; {bench.limits}")
    if facts["load"] > 1:
        print(f"NOTE: the load average is {facts['load']}: other processes are running, times are long and uncertain")


def verdict(found, quick, load):
    """Prints targets and what got worse; True when all is well."""
    judged = [f for f in found if f.target is not None]
    if judged and not quick:
        print_table("Targets", ["", "measured", "at most", ""],
                    [[f.name, f.value, f.target, "met" if f.met else "MISSED"] for f in judged])
    known = figures.accepted().get(figures.machine(), {})
    worse = [] if quick else figures.worse(found, known, load)
    if worse:
        print_table(f"Worse than accepted at {known.get('commit')} by more than 10 %", ["", "now", "accepted"], worse)
    elif not quick:
        print(f"\nNothing is more than 10 % worse than accepted at {known.get('commit', '(nothing accepted yet)')}.")
    return quick or (not worse and all(f.met for f in judged))


def main():
    parser = argparse.ArgumentParser(description="nacre beside onnxruntime")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that the scripts work")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, of: " + ", ".join(PARTS))
    parser.add_argument("--accept", action="store_true", help="write the ratios to accepted.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed or something got worse")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--repeat", type=int, default=5, help="how often everything is measured (default 5)")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    bench, facts = Bench(options.build.resolve(), options.quick, max(1, options.repeat)), about()
    heading(bench, facts)
    found = [f for name in parts for f in PARTS[name](bench)] + whole.measure_all(bench)
    well = verdict(found, options.quick, facts["load"])
    if options.accept and not options.quick:
        figures.accept(found, facts)
        print(f"accepted as {figures.machine()}")
    return 1 if bench.disagreed or (options.strict and not well) else 0


if __name__ == "__main__":
    sys.exit(main())
