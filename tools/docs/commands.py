#!/usr/bin/env python3
"""Writes docs/commands.md from what `nacre --help` and `nacre COMMAND --help` print.

commands.py           writes the page
commands.py --check   says whether the page is current, and exits 1 when it is not
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import made_page

ROOT = Path(__file__).resolve().parents[2]
NACRE = Path(os.environ.get("NACRE_BUILD", ROOT / "build" / "release")) / "nacre"
PAGE = ROOT / "docs" / "commands.md"

HEAD = """# The command line

Made by `make docs` from `nacre COMMAND --help`; `tests/py/test_readme.py` checks that it is current. The keys of
`--set` are those of `nacre_options_set` in `include/nacre/nacre.h`.

Variables of the environment: `NACRE_NUM_THREADS` sets the size of thread pools, `NACRE_ISA` forces an instruction set
(`nacre info` lists them), `NACRE_CACHE` names the folder of compiled GPU kernels (empty: none), `NACRE_CUDA_PATH` the
folders where NVIDIA's libraries are looked for, `NACRE_PYTHON` the Python that has onnxruntime, for
`nacre check --against ort`.
"""


def help_text(*command):
    done = subprocess.run([str(NACRE), *command, "--help"], capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def page():
    parts, first = [HEAD], help_text()
    for command in re.findall(r"^  (\w+)  +\S", first, re.M):
        parts.append(f"## nacre {command}\n\n```text\n{help_text(command)}\n```\n")
    return "\n".join([parts[0], f"```text\n{first}\n```\n", *parts[1:]])


if __name__ == "__main__":
    sys.exit(made_page.main(PAGE, page(), sys.argv[1:]))
