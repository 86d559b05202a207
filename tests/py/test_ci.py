"""What continuous integration does before the tests: it asks for what the system lacks, and goes on without it."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(tmp_path, apt, works=()):
    """.ci/run on a system where apt-get is this script, and of the tools only `works` do."""
    asked = tmp_path / "asked"
    scripts = {"apt-get": f'echo "apt-get $*" >> {asked}\n{apt}', "make": f'echo "make $*" >> {asked}',
               "id": "echo 0", "sudo": "exit 1", "ldconfig": "exit 0"}
    for tool in ("gcc", "g++", "clang", "clang-format", "aarch64-linux-gnu-gcc", "x86_64-linux-gnu-gcc", "qemu-aarch64",
                 "qemu-x86_64", "python3"):
        scripts[tool] = "exit 0" if tool in works else "exit 1"
    for name, text in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([ROOT / ".ci" / "run"], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    return done, asked.read_text().splitlines()


def test_what_is_missing_is_installed(tmp_path):
    done, asked = run(tmp_path, "exit 0", works=("gcc", "clang-format", "python3"))
    assert done.returncode == 0 and asked[-1] == "make test", done.stderr
    assert asked[0] == "apt-get update" and len(asked) == 3
    packages = asked[1].split()[3:]
    assert {"clang", "g++", "libclang-rt-dev", "qemu-user", "libjpeg-dev", "libopenjp2-7-dev"} <= set(packages)
    assert any(p.startswith("gcc-") for p in packages)
    assert not {"gcc", "clang-format", "python3-dev", "python3-venv"} & set(packages)


def test_one_that_cannot_be_had_leaves_the_others(tmp_path):
    done, asked = run(tmp_path, 'for p in "$@"; do [ "$p" = libclang-rt-dev ] && exit 1; done; exit 0')
    assert done.returncode == 0 and asked[-1] == "make test"
    assert "apt-get install -y clang" in asked and "apt-get install -y qemu-user" in asked
    assert "not installed: libclang-rt-dev" in done.stdout and "not installed: clang" not in done.stdout


@pytest.mark.parametrize("apt", ["exit 100", "exit 127"])
def test_the_tests_run_where_nothing_can_be_installed(tmp_path, apt):
    done, asked = run(tmp_path, apt)
    assert done.returncode == 0 and asked[-1] == "make test"
