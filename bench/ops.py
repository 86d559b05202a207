"""Single operators beside what memory allows, of the shapes in ops.tsv, with one thread: read and written are the bytes
that an element of x costs, and the bound is what copying and reading them takes (limits.py). A row that stays below
TO_REACH says why in its last column.
"""
import csv
import json
import pathlib

import numpy as np
from onnx import TensorProto, helper

import models
import speed
from table import print_table, share

TABLE = pathlib.Path(__file__).resolve().parent / "ops.tsv"
TO_REACH = 0.7
TYPES = {"f32": np.float32, "u8": np.uint8, "i64": np.int64}
QUICK_ROWS, QUICK_DIM = 4, 8


def _model(row, dims):
    """One node; constants are its inputs behind x, "" for those left out."""
    b = models.Build()
    more = [b.const(np.array(c[1], TYPES[c[0]])) if c else "" for c in json.loads(row["constants"] or "[]")]
    outs = ["y", "places"] if row["op"] == "TopK" else ["y"]
    node = helper.make_node(row["op"], ["x", *more], outs, **json.loads(row["attributes"]))
    b.nodes.append(node)
    x = models.tensor("x", helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[row["type"]])), *dims)
    return b.model([x], [helper.make_tensor_value_info(o, t, None) for o, t in zip(outs, _types(row), strict=True)])


def _types(row):
    """Of the outputs."""
    to = json.loads(row["attributes"]).get("to")
    same = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[row["type"]]))
    return {"TopK": [same, TensorProto.INT64], "ArgMax": [TensorProto.INT64], "NonZero": [TensorProto.INT64],
            "Cast": [to], "QuantizeLinear": [TensorProto.UINT8], "DequantizeLinear": [TensorProto.FLOAT]}.get(
                row["op"], [same])


def cases(quick):
    with open(TABLE, newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows[:QUICK_ROWS] if quick else rows:
        dims = [min(int(d), QUICK_DIM) if quick else int(d) for d in row["dims"].split(",")]
        case = speed.Case(row["name"], lambda row=row, dims=dims: _model(row, dims), tuple(dims),
                          dtype=TYPES[row["type"]])
        yield case, float(row["read"]) * np.prod(dims), float(row["written"]) * np.prod(dims), row["cause"]


def measure(bench):
    """No ratio is accepted here: that of the other engine is shown, the bound is what counts."""
    table = []
    for case, read, written, cause in cases(bench.quick):
        bench.say(case.name)
        wall, cpu = speed.measure_case(bench, case, 1)
        reached = bench.one.moving(read, written) / wall[0]
        met = "yes" if reached >= TO_REACH else cause or "no"
        table.append([case.name, *wall, wall[0] / wall[1], cpu[0] / max(cpu[1], 1e-6), share(reached), met])
    print_table(f"Operators beside the speed of memory, ms, one thread ({share(TO_REACH)} to reach)",
                ["", "nacre", "ORT", "ratio", "CPU ratio", "of limit", "met"], table)
    return []
