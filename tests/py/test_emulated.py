"""bench/emulated.c counts what a program executes on the other architecture: instructions, and the lines of 64 bytes
that come into its two caches, of 64 KiB and of 1 MiB."""
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import emulated  # noqa: E402

OTHER = {"x86_64": "aarch64-cross", "aarch64": "x86-64-cross"}.get(platform.machine())
WALK = """
#include <stdlib.h>
static volatile char memory[1 << 23];
int main(int argc, char **argv) {
    long lines = atol(argv[1]), passes = atol(argv[2]), sum = argc;
    for (long p = 0; p < passes; p++)
        for (long i = 0; i < lines; i++) sum += memory[i * 64];
    return sum == 0;
}
"""


def needs_qemu():
    if OTHER is None or not shutil.which(emulated.ARCHITECTURES[OTHER][0]):
        return "no qemu for another architecture (Debian: qemu-user)"
    said = subprocess.run([emulated.ARCHITECTURES[OTHER][0], "--version"], capture_output=True, text=True).stdout
    if int(re.search(r"version (\d+)", said)[1]) >= 9:
        return "this qemu has left version 1 of the interface of plugins"
    return None if shutil.which(compiler()) else f"{compiler()} is not installed"


def compiler():
    return pathlib.Path(emulated.ARCHITECTURES[OTHER][1]).name + "-gcc"


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    why = needs_qemu()
    if why:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("emulated")
    source, program = folder / "walk.c", folder / "walk"
    source.write_text(WALK)
    subprocess.run([compiler(), "-O1", "-static", "-o", program, source], check=True)
    counter = emulated.plugin(folder)

    def of_a_pass(lines):
        """Of the third pass over so many lines."""
        two, three = (emulated.executed(OTHER, [program, str(lines), str(n)], counter, caches=True) for n in (2, 3))
        return {name: three[name] - two[name] for name in three}

    return of_a_pass


@pytest.mark.parametrize("lines, first, second", [(512, 0, 0), (8192, 8192, 0), (65536, 65536, 65536)])
def test_a_pass_brings_in_what_a_cache_does_not_hold(walk, lines, first, second):
    found = walk(lines)
    assert abs(found["first"] - first) <= 64 and abs(found["second"] - second) <= 64, found
    assert 3 * lines <= found["instructions"] <= 8 * lines + 1000, found


def test_what_ends_badly_is_said(walk, tmp_path):
    with pytest.raises(SystemExit, match="no-program"):
        emulated.executed(OTHER, [tmp_path / "no-program"], emulated.plugin(tmp_path))


def test_a_count_of_nothing_has_no_ratio():
    assert emulated.mean([2.0, None, 8.0]) == pytest.approx(4.0) and emulated.mean([None]) is None
