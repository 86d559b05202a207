#!/usr/bin/env python3
"""Writes docs/operators.md from the cards, as the program print_cards of the build folder tells them, and from the
package onnx, which knows the operators that have no card.

operators.py           writes the page
operators.py --check   says whether the page is current, and exits 1 when it is not
"""
import json
import os
import subprocess
import sys
from pathlib import Path

import made_page

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NACRE_BUILD", ROOT / "build" / "release"))
PAGE = ROOT / "docs" / "operators.md"

FLOATS = ["float16", "bfloat16", "float", "double"]
INTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
LANE = {"F": FLOATS, "N": FLOATS + INTS + ["bool"], "I": INTS + ["bool"]}
GROUPS = (("floats", FLOATS), ("ints", INTS), ("complex", ["complex64", "complex128"]),
          ("narrow", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4"]))

HEAD = """# Operators

Made by `make docs` from the cards in `src/ops/` and the package onnx; `tests/py/test_schemas.py` checks that it is
current, and that versions, types and attributes of each card are those of onnx.

- *versions*: rows of the card, oldest first. A model of any opset takes the newest row that is not newer than it.
  In brackets: those that onnxruntime has and ONNX has not; old exporters and onnxruntime's own tools write them.
- *CPU types*: element types of the first input (of the output, where there is none) that a row of the CPU's tables
  serves in the newest version. "parts": the op runs as the simpler ops that its card names, with their types.
  "drawn": lowering puts a generator of random numbers in its place. `nacre explain` says why a row refused a node.
  floats: {floats}. ints: {ints}. narrow: 8-bit floats and 4-bit integers.
- *gradient*: own (the card's), lane (of its formula), parts (of what it is made of), zero (everywhere), - (none: asking
  for one is an error that names the node).
"""


def read_cards():
    lines = subprocess.run([str(BUILD / "print_cards")], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in lines.splitlines()]


def names(types):
    """Groups of types by one word, the others by name."""
    words, left = [], list(types)
    for word, group in GROUPS:
        if set(group) <= set(left):
            words.append(word)
            left = [t for t in left if t not in group]
    return " ".join(words + left) or "-"


def cpu_types(card):
    if card["cpu"] in ("decomposed", "drawn"):
        return {"decomposed": "parts"}.get(card["cpu"], card["cpu"])
    newest = next(v for v in card["versions"] if not v["removed"])
    first = (newest["in"] or newest["out"] or [{"types": []}])[0]
    known = first.get("types", [])
    if card["cpu"] == "any":
        return names(known)
    served = set(card["cpu_types"]) | set(LANE.get(card["lane"], []))
    return names([t for t in known if t in served])


def row(card):
    versions = " ".join(f"({v['since']})" if v["foreign"] else str(v["since"])
                        for v in reversed(card["versions"]) if not v["removed"])
    gradient = {"by decomposition": "parts", "none": "-"}.get(card["gradient"], card["gradient"])
    return f"| {card['name']} | {versions} | {cpu_types(card)} | {gradient} |"


def without_card(cards):
    import onnx
    have = {(c["domain"], c["name"]) for c in cards}
    out = {}
    for s in onnx.defs.get_all_schemas_with_history():
        if (s.domain, s.name) not in have:
            out.setdefault(s.domain, set()).add(s.name)
    return out


def page(cards):
    lines = [HEAD.format(floats=", ".join(FLOATS), ints=", ".join(INTS))]
    for domain in sorted({c["domain"] for c in cards} - {"nacre"}):
        mine = sorted((c for c in cards if c["domain"] == domain), key=lambda c: c["name"].lower())
        lines += [f"## {domain or 'ai.onnx'}: {len(mine)} operators", ""]
        lines += ["| operator | versions | CPU types | gradient |", "|---|---|---|---|", *map(row, mine), ""]
    lines += ["## Not carried", ""]
    for domain, missing in sorted(without_card(cards).items()):
        lines.append(f"- {domain or 'ai.onnx'}: {', '.join(sorted(missing))}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(made_page.main(PAGE, page(read_cards()), sys.argv[1:]))
