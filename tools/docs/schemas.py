#!/usr/bin/env python3
"""Writes python/nacre/capi/operators.tsv from the cards, as the program print_cards of the build folder tells them:
what nacre.capi's get_all_operator_schema and get_all_opkernel_def tell.

schemas.py           writes the table
schemas.py --check   says whether the table is current, and exits 1 when it is not
"""
import json
import sys

import made_page
import operators

TABLE = operators.ROOT / "python" / "nacre" / "capi" / "operators.tsv"
HEAD = """\
# Made by `make docs` from the cards in src/ops/. First the sets of types: a number, names. Then a line each version of
# an operator: domain, name, since, the first version that is another or 0, inputs, outputs, attributes, the set of
# types that the CPU computes in (that of the first input, or of the output), what it does. A parameter is NAME:SET or
# NAME=INPUT, whose type it has, behind ? if it may be left out, * if there may be many, + if those may have several
# types. An attribute is NAME:KIND, with ! if it must be there, or =DEFAULT as JSON.
"""


#: Parameters of which there may be none, from which version on: ONNX says it, the cards need not.
MAY_BE_NONE = {("Loop", "v_initial"): 11, ("SequenceMap", "additional_inputs"): 17}


def parameter(p, sets, card, version):
    none = version["since"] >= MAY_BE_NONE.get((card["name"], p["name"]), 999)
    mark = "?" * (p["optional"] or none) + ("+" if p["mixed"] else "*") * p["variadic"]
    return f"{mark}{p['name']}" + (f"={p['same']}" if "same" in p else f":{number(p['types'], sets)}")


def number(types, sets):
    return sets.setdefault(" ".join(t for t in types if t != "tape"), len(sets))


def attribute(a):
    told = f"{a['name']}:{a['kind']}{'!' * a['required']}"
    if "default" not in a:
        return told
    value = float(a["default"]) if a["kind"] == "FLOAT" else a["default"]
    return f"{told}={json.dumps(value)}".replace(" ", "\\u0020")


def computed(card, version):
    """Types of the first input, or of the output, that the CPU computes in."""
    first = (version["in"] or version["out"] or [{}])[0].get("types", [])
    if card["cpu"] in ("decomposed", "drawn", "any"):
        return first
    served = set(card["cpu_types"]) | set(operators.LANE.get(card["lane"], []))
    return [t for t in first if t in served]


def page(cards):
    sets, lines = {}, []
    for card in cards:
        for v in card["versions"] if card["domain"] != "nacre" else ():
            if not v["removed"]:
                later = [w["since"] for w in card["versions"] if w["since"] > v["since"]]
                lines.append("\t".join([card["domain"], card["name"], str(v["since"]), str(min(later, default=0)),
                                        " ".join(parameter(p, sets, card, v) for p in v["in"]),
                                        " ".join(parameter(p, sets, card, v) for p in v["out"]),
                                        " ".join(map(attribute, v["attr"])), str(number(computed(card, v), sets)),
                                        card["doc"]]))
    known = [f"{i}\t{names}" for names, i in sets.items()]
    return HEAD + "\n".join([*known, "", *lines]) + "\n"


if __name__ == "__main__":
    sys.exit(made_page.main(TABLE, page(operators.read_cards()), sys.argv[1:]))
