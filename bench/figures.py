"""What one run of the benchmark found: figures by name, each a ratio of nacre's number to onnxruntime's (or a number
with a limit of its own), some with a target. accepted.json keeps the ratios that were accepted last, per kind of
machine; what is more than 10 % worse than those is named. On a busy machine times of the wall clock say little: there a
time counts as worse only when its ratio of CPU time is worse too.
"""
import dataclasses
import json
import math
import pathlib
import platform

ACCEPTED = pathlib.Path(__file__).resolve().parent / "accepted.json"
WORSE, SLACK = 1.10, 0.005  # a tenth more, and more than the rounding of very small ratios


@dataclasses.dataclass
class Figure:
    name: str
    value: float
    target: float | None = None
    cpu: float | None = None  # the ratio of CPU times; None: no time

    @property
    def met(self):
        return self.target is None or self.value <= self.target


def machine():
    return {"x86_64": "x86-64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def accepted(path=ACCEPTED):
    return json.loads(path.read_text()) if path.exists() else {}


def worse(figures, known, load):
    """(name, value, accepted value) of what got worse; `known` is one machine's entry of accepted.json."""
    busy, found = max(load, known.get("load", 0)) > 1, []
    for f in figures:
        before = known.get("figures", {}).get(f.name)
        if before is None or f.value <= before["ratio"] * WORSE + SLACK:
            continue
        if busy and f.cpu is not None and f.cpu <= before.get("cpu", 0) * WORSE + SLACK:
            continue
        found.append((f.name, f.value, before["ratio"]))
    return found


def _entry(f):
    return {"ratio": round(f.value, 3)} | ({} if f.cpu is None else {"cpu": round(f.cpu, 3)})


def accept(figures, about, path=ACCEPTED):
    """Writes the figures as this machine's; those that this run did not measure, or could not (infinite), stay."""
    everything = accepted(path)
    entry = everything.setdefault(machine(), {})
    entry.update(about)
    entry["figures"] = {**entry.get("figures", {}), **{f.name: _entry(f) for f in figures if math.isfinite(f.value)}}
    path.write_text(json.dumps(everything, indent=2, sort_keys=True) + "\n")
