"""What one run of the benchmark found: figures by name, each a ratio of nacre's number to onnxruntime's (or a number
with a limit of its own), some with a target. accepted.json keeps the ratios that were accepted last, per kind of
machine; what is more than 10 % worse than those is named.
"""
import dataclasses
import json
import pathlib
import platform

ACCEPTED = pathlib.Path(__file__).resolve().parent / "accepted.json"
WORSE = 1.10


@dataclasses.dataclass
class Figure:
    name: str
    value: float
    target: float | None = None

    @property
    def met(self):
        return self.target is None or self.value <= self.target


def machine():
    return {"x86_64": "x86-64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def accepted(path=ACCEPTED):
    return json.loads(path.read_text()) if path.exists() else {}


def worse(figures, known):
    """(name, value, accepted value) of what got worse; `known` is one machine's entry of accepted.json."""
    before = known.get("figures", {})
    return [(f.name, f.value, before[f.name]) for f in figures
            if f.name in before and f.value > before[f.name] * WORSE]


def accept(figures, about, path=ACCEPTED):
    """Writes the figures as this machine's; those that this run did not measure stay."""
    everything = accepted(path)
    entry = everything.setdefault(machine(), {})
    entry.update(about)
    entry["figures"] = {**entry.get("figures", {}), **{f.name: round(f.value, 3) for f in figures}}
    path.write_text(json.dumps(everything, indent=2, sort_keys=True) + "\n")
