#!/usr/bin/env python3
"""Instructions of a run on the other architecture, beside those of another build: what can be said where no such
machine is at hand. One thread, under qemu-user, whose count is the same every time.

emulated.py MODEL.onnx ... [--build build/aarch64-cross] [--other FOLDER] [--cpu max]
"""
import argparse
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from table import print_table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
ARCHITECTURES = {"aarch64-cross": ("qemu-aarch64", "/usr/aarch64-linux-gnu"),
                 "x86-64-cross": ("qemu-x86_64", "/usr/x86_64-linux-gnu")}


def plugin(folder):
    made = pathlib.Path(folder) / "emulated.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, HERE / "emulated.c"], check=True)
    return made


def check(builds, models):
    """Ends with a word on what to do where something is missing."""
    for build in builds:
        if build.name not in ARCHITECTURES:
            sys.exit(f"{build}: not a build of another architecture; there are {', '.join(ARCHITECTURES)}")
        if not (build / "nacre").exists():
            sys.exit(f"{build}: no `nacre` there: cmake --preset {build.name} && cmake --build build/{build.name}")
        if not shutil.which(ARCHITECTURES[build.name][0]):
            sys.exit(f"{ARCHITECTURES[build.name][0]} is not installed (Debian: qemu-user)")
    for model in models:
        if not model.exists():
            sys.exit(f"{model}: no such file")


def counted(build, cpu, counter, model, runs):
    qemu, libraries = ARCHITECTURES[build.name]
    done = subprocess.run([qemu, "-cpu", cpu, "-L", libraries, "-plugin", f"file={counter}", build / "nacre", "bench",
                           model, "--threads", "1", "--warmup", "0", "--repeat", str(runs)], capture_output=True,
                          text=True, env={**os.environ, "NC_EMULATED": "1"})
    found = re.search(r"instructions (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{build / 'nacre'}: {model}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return int(found[1])


def of_a_run(build, cpu, counter, model):
    """Of the third run: the first packs weights, the second may still plan."""
    return counted(build, cpu, counter, model, 3) - counted(build, cpu, counter, model, 2)


def main():
    parser = argparse.ArgumentParser(description="instructions of a run under qemu-user, beside another build")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "aarch64-cross")
    parser.add_argument("--other", type=pathlib.Path, help="the same folder of another checkout")
    parser.add_argument("--cpu", default="max", help="qemu's name of the processor (default max)")
    options = parser.parse_args()
    builds = [options.build.resolve(), *([options.other.resolve()] if options.other else [])]
    check(builds, options.models)
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        counter = plugin(folder)
        for model in options.models:
            print(f"[emulated] {model.stem}", file=sys.stderr, flush=True)
            counts = [of_a_run(b, options.cpu, counter, model) for b in builds]
            ratios.append(counts[0] / counts[-1])
            rows.append([model.stem, *(n / 1e6 for n in counts), ratios[-1]])
    rows.append(["geometric mean", *(None for _ in builds), math.exp(sum(map(math.log, ratios)) / len(ratios))])
    print_table(f"Millions of instructions of a run, {builds[0].name}, {options.cpu}",
                ["", "this build", *(["other"] if options.other else []), "ratio"], rows)


if __name__ == "__main__":
    main()
