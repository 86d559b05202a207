#!/usr/bin/env python3
"""What a run executes on the other architecture, beside another build: what can be said where no such machine is at
hand. Instructions, and with --caches the lines of 64 bytes that loads and stores bring into a first cache (64 KiB) and
a second one (1 MiB). One thread, under qemu-user, where a run differs from the next by a few in 10,000; models go side
by side. Inputs are those of MODEL.npz, as `make bench` writes it, or random where there is none.

emulated.py MODEL.onnx ... [--build build/aarch64-cross] [--other FOLDER] [--cpu max] [--caches] [--runs 2]
"""
import argparse
import concurrent.futures
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
COUNTS = {"instructions": "instructions", "first": "into the first cache", "second": "into the second"}


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


def executed(architecture, command, counter, cpu="max", caches=False):
    """Of a process on that architecture: what the plugin printed."""
    qemu, libraries = ARCHITECTURES[architecture]
    done = subprocess.run([qemu, "-cpu", cpu, "-L", libraries, "-plugin",
                           f"file={counter}" + (",caches=on" if caches else ""), *command], capture_output=True,
                          text=True, env={**os.environ, "NC_EMULATED": "1"})
    found = {name: int(n) for name, n in re.findall(r"^(\w+) (\d+)$", done.stderr, re.MULTILINE) if name in COUNTS}
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return found


def counted(build, model, runs, counter, options):
    feeds = model.with_suffix(".npz")
    return executed(build.name, [build / "nacre", "bench", model, "--threads", "1", "--warmup", "0", "--repeat",
                                 str(runs), *(["--input", feeds] if feeds.exists() else [])],
                    counter, options.cpu, options.caches)


def of_a_run(build, model, counter, options, pool):
    """Of the last of the runs: the first packs weights, the second may still plan. A function that waits for it."""
    less, more = (pool.submit(counted, build, model, n, counter, options) for n in (options.runs - 1, options.runs))
    return lambda: {name: more.result()[name] - less.result()[name] for name in more.result()}


def mean(ratios):
    known = [r for r in ratios if r is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def tables(models, builds, counts, options):
    """A ratio is of two builds; a count of 0 has none."""
    for name in counts[0][0]():
        rows = [[model.stem, *(one()[name] for one in pair)] for model, pair in zip(models, counts)]
        what = COUNTS[name] if name == "instructions" else f"lines {COUNTS[name]}"
        title = f"Millions of {what} of a run, {builds[0].name}, {options.cpu}"
        if not options.other:
            print_table(title, ["", "this build"], [[n, a / 1e6] for n, a in rows])
            continue
        ratios = [a / b if a > 0 and b > 0 else None for _, a, b in rows]
        print_table(title, ["", "this build", "other", "ratio"],
                    [*([n, a / 1e6, b / 1e6, r] for (n, a, b), r in zip(rows, ratios)),
                     ["geometric mean", None, None, mean(ratios)]])


def main():
    parser = argparse.ArgumentParser(description="what a run executes under qemu-user, beside another build")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "aarch64-cross")
    parser.add_argument("--other", type=pathlib.Path, help="the same folder of another checkout")
    parser.add_argument("--cpu", default="max", help="qemu's name of the processor (default max)")
    parser.add_argument("--caches", action="store_true", help="follow loads and stores through two caches (slower)")
    parser.add_argument("--runs", type=int, default=3, help="which run is counted (default the third; at least 2)")
    options = parser.parse_args()
    if options.runs < 2:
        parser.error("--runs: the first run packs weights, so at least 2")
    builds = [options.build.resolve(), *([options.other.resolve()] if options.other else [])]
    check(builds, options.models)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counter = plugin(folder)
        counts = [[of_a_run(build, model, counter, options, pool) for build in builds] for model in options.models]
        try:
            for model, pair in zip(options.models, counts):
                print(f"[emulated] {model.stem}:", *(one() for one in pair), file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)  # where one has failed, nobody waits for the others
        tables(options.models, builds, counts, options)


if __name__ == "__main__":
    main()
