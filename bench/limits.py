"""The machine's limits, measured by limits.c, and how much of a time they explain.

A run can take no less than its multiply-adds at the processors' peak, and no less than its bytes at the speed of
copying; the share of the longer of both in the time that was measured says how far an engine is from the machine.
"""
import dataclasses
import os
import pathlib
import platform
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Limits:
    threads: int
    gflops: float
    gbytes: float
    reads: float

    def milliseconds(self, flops, data):
        return max(flops / self.gflops, data / self.gbytes) * 1e-6

    def moving(self, read, written):
        """Milliseconds for bytes that are read and bytes that are written: copying is as fast as both together go, and
        what is only read comes no faster than reading."""
        return max((read + written) / self.gbytes, read / self.reads) * 1e-6

    def share(self, flops, data, milliseconds):
        """Which part of `milliseconds` the machine needs; None where nothing was counted."""
        return self.milliseconds(flops, data) / milliseconds if flops or data else None

    def __str__(self):
        return f"{self.threads} threads: {self.gflops:.0f} GFLOP/s in f32, copying {self.gbytes:.1f} GB/s, " \
            f"reading {self.reads:.1f} GB/s"


def measure(folder):
    """Limits of one thread and of all, compiled for this processor."""
    program, library = pathlib.Path(folder) / "limits", pathlib.Path(folder) / "limits.so"
    native = "-march=native" if platform.machine() == "x86_64" else "-mcpu=native"
    for more in (["-o", program], ["-shared", "-fPIC", "-o", library]):
        subprocess.run([os.environ.get("CC", "cc"), "-O3", native, "-ffp-contract=fast", "-pthread",
                        HERE / "limits.c", *more], check=True)
    os.environ["BENCH_LIMITS"] = str(library)  # for worker.py
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    return [Limits(int(n), *map(float, values)) for n, *values in rows]
