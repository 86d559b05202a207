"""Compares the schema facts of every card with the package onnx, version by version: how many inputs and outputs, which
are optional or variadic, which types they take and must share, attributes with kinds, defaults and what is required.

The cards come from the program print_cards of the build folder. Operators that no card describes are printed, and must
be those that docs/operators.md names."""
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NACRE_BUILD", ROOT / "build" / "release"))
Option = onnx.defs.OpSchema.FormalParameterOption
# Where a card and onnx may differ, by how the finding begins, and why.
ON_PURPOSE = {
    ("Constant", "attribute sparse_value: only in onnx"): "the loader makes it dense before a card is asked",
    ("GroupNormalization", "removed 0, in onnx True"): "version 18 is deprecated, but models have it and ORT runs it",
    ("DequantizeLinear", "output y: has the type of input None"): "inference gives the type of the scale",
}
# Types that a card does not take yet; it may take them any day, but no other ones.
FEWER_TYPES = {
    "BitCast": "narrow types", "Dropout": "8-bit floats", "IsInf": "8-bit floats", "IsNaN": "8-bit floats",
    "Pad": "narrow types",
}
NOT_ONNX = ("nacre", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc",
            "org.pytorch.aten")
FEWER_VERSIONS = {"Dropout": "versions 1 and 6 train unless is_test says otherwise, and no model in reach has them"}


def every_card():
    tool = BUILD / "print_cards"
    if not tool.exists():
        pytest.fail(f"{tool} is missing: build first")
    lines = subprocess.run([str(tool)], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    return {(c["domain"], c["name"]): c for c in found}


def cards():
    """Those of onnx: test_contrib.py has onnxruntime's."""
    found = every_card()
    for c in found.values():  # onnxruntime's own versions are not onnx's
        c["versions"] = [v for v in c["versions"] if not v["foreign"]]
    return {key: c for key, c in found.items() if key[0] not in NOT_ONNX and c["versions"]}


def schemas():
    out = {}
    for s in onnx.defs.get_all_schemas_with_history():
        out.setdefault((s.domain, s.name), {})[s.since_version] = s
    return out


def types_of(strings):
    """Element types and kinds of value, as print_cards names them."""
    out = set()
    for s in strings:
        kind, _, inner = s.partition("(")
        out.add({"seq": "sequence"}.get(kind, kind) if kind != "tensor" else inner[:-1])
    return out


def resolved(params, inputs):
    """Per parameter its set of types and the input that it must share its type with, itself when that is an input."""
    out = []
    for i, p in enumerate(params):
        same = p.get("same")
        if same is None:
            out.append((set(p["types"]), i if params is inputs else None))
        else:
            out.append((set(inputs[same]["types"]), same))
    return out


def compare_params(what, params, formal, inputs, formal_inputs):
    if len(params) != len(formal):
        yield f"{what}: {len(params)}, onnx has {len(formal)}"
        return
    for p, f, (types, same) in zip(params, formal, resolved(params, inputs)):
        name = f"{what} {f.name}"
        types = types - {"tape"}  # of gradients; no file has one
        if p["name"] != f.name:
            yield f"{name}: is called {p['name']}"
        may_miss = f.option == Option.Optional or (f.option == Option.Variadic and f.min_arity == 0)
        if bool(p["optional"]) != may_miss:
            yield f"{name}: optional {p['optional']}"
        if bool(p["variadic"]) != (f.option == Option.Variadic):
            yield f"{name}: variadic {p['variadic']}"
        if bool(p["mixed"]) != (f.option == Option.Variadic and not f.is_homogeneous):
            yield f"{name}: mixed {p['mixed']}"
        want = types_of(f.types)
        if types - want:
            yield f"{name}: takes {sorted(types - want)}, which onnx has not"
        if want - types:
            yield f"{name}: types {sorted(want - types)} are missing"
        shares = next((i for i, g in enumerate(formal_inputs) if g.type_str == f.type_str), None)
        if shares is not None and (p["mixed"] or formal_inputs[shares].option == Option.Optional):
            continue  # differs item by item; or there may be no input to take the type from
        if len(want) > 1 and same != shares:
            yield f"{name}: has the type of input {same}, in onnx of input {shares}"


def default_of(attribute):
    value = attribute.default_value
    if not value.name:
        return None
    got = onnx.helper.get_attribute_value(value)
    return got.decode() if isinstance(got, bytes) else got


def compare_attributes(attributes, formal):
    mine = {a["name"]: a for a in attributes}
    for name in sorted(mine.keys() ^ formal.keys()):
        yield f"attribute {name}: only in {'the card' if name in mine else 'onnx'}"
    for name in sorted(mine.keys() & formal.keys()):
        a, f = mine[name], formal[name]
        if a["kind"] != f.type.name and a["kind"] != "OTHER":
            yield f"attribute {name}: {a['kind']}, in onnx {f.type.name}"
        if bool(a["required"]) != f.required:
            yield f"attribute {name}: required {a['required']}"
        got, want = a.get("default"), default_of(f)
        if want is not None and isinstance(want, list):
            continue  # a card writes no list; the op's own code reads an absent one as onnx's default
        if isinstance(want, float) and isinstance(got, (int, float)):
            got, want = onnx.numpy_helper.np.float32(got), onnx.numpy_helper.np.float32(want)
        if got != want:
            yield f"attribute {name}: default {got!r}, in onnx {want!r}"


def compare_version(v, s):
    if v["removed"] or s.deprecated:
        if bool(v["removed"]) != s.deprecated:
            yield f"removed {v['removed']}, in onnx {s.deprecated}"
        return
    yield from compare_params("input", v["in"], s.inputs, v["in"], s.inputs)
    yield from compare_params("output", v["out"], s.outputs, v["in"], s.inputs)
    yield from compare_attributes(v["attr"], s.attributes)


def differences(card, versions):
    mine = {v["since"]: v for v in card["versions"]}
    if list(mine) != sorted(mine, reverse=True):
        yield "versions are not ordered newest first"
    for since in sorted(mine.keys() ^ versions.keys()):
        yield f"version {since}: only in {'the card' if since in mine else 'onnx'}"
    for since in sorted(mine.keys() & versions.keys()):
        for text in compare_version(mine[since], versions[since]):
            yield f"version {since}: {text}"


def is_known(op, text):
    fact = text.partition(": ")[2]
    return (any(name == op and fact.startswith(start) for name, start in ON_PURPOSE) or
            (op in FEWER_TYPES and fact.endswith("are missing")) or
            (op in FEWER_VERSIONS and fact == "only in onnx"))


CARDS, SCHEMAS = cards(), schemas()


@pytest.mark.parametrize("key", sorted(CARDS), ids=lambda k: ".".join(filter(None, k)))
def test_card_says_what_onnx_says(key):
    assert key in SCHEMAS, "onnx has no such operator"
    found = [text for text in differences(CARDS[key], SCHEMAS[key]) if not is_known(key[1], text)]
    assert not found, "\n".join(found)


def test_operators_without_a_card_are_on_the_page(capsys):
    missing = sorted(".".join(filter(None, key)) for key in SCHEMAS if key not in CARDS)
    with capsys.disabled():
        print(f"\n{len(CARDS)} operators of onnx have a card, {len(missing)} have none: {' '.join(missing)}")
    tool = [sys.executable, ROOT / "tools" / "docs" / "operators.py", "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, env={**os.environ, "NACRE_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_differences_on_purpose_still_exist():
    for op, start in ON_PURPOSE:
        found = list(differences(CARDS["", op], SCHEMAS["", op]))
        assert any(text.partition(": ")[2].startswith(start) for text in found), f"{op}: {start}: mended"


@pytest.mark.parametrize("change, finding", [
    (lambda v: v["in"].pop(), "input: 1, onnx has 2"),
    (lambda v: v["in"][1].update(name="C"), "is called C"),
    (lambda v: v["in"][1].update(optional=1), "optional 1"),
    (lambda v: v["in"][1].update(types=["float"], same=None), "types"),
    (lambda v: v["in"][0]["types"].append("string"), "takes ['string']"),
    (lambda v: v["out"][0].update(variadic=1), "variadic 1"),
    (lambda v: v["attr"].append({"name": "a", "kind": "INT", "required": 0}), "only in the card"),
    (lambda v: v.update(since=12), "version 12: only in the card"),
    (lambda v: v.update(removed=1), "removed 1")])
def test_a_wrong_card_is_found(change, finding):
    card = json.loads(json.dumps(CARDS["", "Add"]))
    change(card["versions"][0])
    assert any(finding in text for text in differences(card, SCHEMAS["", "Add"]))


@pytest.mark.parametrize("change, finding", [
    ({"default": 0.02}, "default"), ({"kind": "INT"}, "INT, in onnx FLOAT"), ({"required": 1}, "required 1")])
def test_a_wrong_attribute_is_found(change, finding):
    card = json.loads(json.dumps(CARDS["", "LeakyRelu"]))
    card["versions"][0]["attr"][0].update(change)
    assert any(finding in text for text in differences(card, SCHEMAS["", "LeakyRelu"]))
