"""Every operator with every element type that its schema allows (op_variants.py), in Nacre, in onnxruntime and in
ONNX's reference evaluator. A variant that one of the others runs and Nacre refuses is a gap; a result that neither of
them gives is a difference. Both are listed below by operator and type; the lists may only shrink."""
import collections
import platform
import warnings

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import nacre_c
import op_variants

onnxruntime.set_default_logger_severity(4)

ALL = "*"
F8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")

# Refused though another runs it: (operator, types, why).
GAPS = [
    ("Cast", ("bool", "float", "int64"), "version 1 names types by strings"),
    ("Col2Im", (*INTEGERS, *COMPLEX, "bool"), "reference only; onnxruntime has floats"),
    ("Dropout", F8, "8-bit floats are storage"),
    ("Erf", "int64", "of integers"),
    ("GatherElements", "int32", "the indices of the case leave the axis when retyped"),
    ("GridSample", (*COMPLEX, "bool"), "reference only; pictures are numbers"),
    ("IsInf", F8, "8-bit floats are storage"),
    ("IsNaN", F8, "8-bit floats are storage"),
    ("LpPool", "float", "version 1 has a float for p"),
    ("NonZero", "string", "strings are neither zero nor not"),
    ("PRelu", "float", "version 6 broadcasts from axis 1"),
    ("Pad", (*F8, "float4e2m1", "float8e8m0", "int2", "int4", "uint2", "uint4"), "narrow types are storage"),
    ("QLinearMatMul", F8, "the reference only; its zero points are not 0"),
    ("QuantizeLinear", F8, "zero points that are not 0, or types that came with a later version"),
    ("Resize", (*COMPLEX, "float", "int64"), "complex pictures; version 11 without roi"),
    ("ScatterElements", (*COMPLEX, "string"), "strings and complex numbers cannot be combined"),
    ("ScatterND", (*COMPLEX, "string"), "strings and complex numbers cannot be combined"),
    ("TensorScatter", ("float4e2m1", "float8e8m0", "int4", "string", "uint4"), "caches of strings or packed types"),
    ("Unique", (*COMPLEX, "string"), "complex numbers have no order; strings along an axis"),
    ("Upsample", (*COMPLEX, "string"), "pictures of strings or complex numbers"),
]

# Run, with a result that the others do not give.
DIFFERENCES = [
    ("AveragePool", "float", "version 1 does not say whether pads count; here they do not"),
    ("CastLike", ("float8e8m0", "string"), "negative numbers, and digits of numbers, are written otherwise"),
    ("CenterCropPad", "string", "strings are padded with empty ones, by the reference with 0"),
    ("DequantizeLinear", "float4e2m1",
     "-8 where the reference has 0, with a zero point that is not 0; why is not known"),
    ("GridSample", INTEGERS, "the reference cuts the weights of neighbours to integers, and so mostly to 0"),
    ("ReduceLogSumExp", "int64",
     "integers, of which the result is none: 0 where the reference has -1; why is not known"),
    ("Trilu", "string", "empty strings outside of the triangle, by the reference the number 0"),
]
if platform.machine() == "x86_64":
    DIFFERENCES.append(("CastLike", ("int32", "int64", "uint32", "uint64"),
                        "NaN and numbers out of range: what this processor makes of them; here the same everywhere"))
if platform.machine() == "aarch64":
    DIFFERENCES.append(("CastLike", ("uint16", "uint8"),
                        "negative floats: 0 or their low bits by the others' loops; here always their low bits"))
# What is a difference on some processors of a kind alone.
AT_TIMES = [("CastLike", ("int16", "int8", "uint16", "uint8"),
             "numbers out of range: what the others' loops, chosen by processor, make of them; here always the same")]

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float": 1e-4, "float64": 1e-6, "double": 1e-6}


def listed(rows):
    return {(op, t) for op, types, _ in rows for t in ([types] if isinstance(types, str) else types)}


def holds(rows, op, type_name):
    return (op, type_name) in rows or (op, ALL) in rows


def in_nacre(env, v):
    with env.session(v.model) as session:
        got = session.run(v.feeds)
        return [got[o] for o in v.outputs]


def in_onnxruntime(v):
    if any(x.dtype.kind == "V" or x.dtype.name in (*nacre_c.NARROW_OF, "bfloat16") for x in v.feeds.values()):
        raise TypeError("numpy has no such type")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(v.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, v.feeds)


def in_reference(v):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(v.model).run(None, v.feeds)


def attempt(run, *arguments):
    """(result, None) or (None, why)."""
    try:
        return run(*arguments), None
    except Exception as e:  # whatever an oracle or the library raises is its answer
        return None, f"{type(e).__name__}: {' '.join(str(e).split())[:160]}"


def difference(got, want, type_name):
    """What differs, or None. The reference evaluator widens some types: values count, and the type where it is ours."""
    for g, w in zip(got, want):
        if w is None:
            continue
        w = np.asarray(w)
        if g.shape != w.shape:
            return f"shape {g.shape}, expected {w.shape}"
        if w.dtype.kind in "OSU":
            if g.ravel().tolist() != [str(s) for s in w.ravel()]:
                return f"{g.ravel().tolist()[:3]}, expected {w.ravel().tolist()[:3]}"
            continue
        rtol = max(TOLERANCE.get(w.dtype.name, 0), TOLERANCE.get(g.dtype.name, 0), TOLERANCE.get(type_name, 0))
        if g.dtype.kind in "biu" and w.dtype.kind in "biu":
            same = g == w
        else:
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            with np.errstate(all="ignore"):
                same = np.isclose(g.astype(wide), w.astype(wide), rtol=rtol or 1e-5, atol=rtol or 1e-6, equal_nan=True)
        if not np.all(same):
            at = tuple(np.argwhere(~np.asarray(same))[0])
            return f"{g[at]} at {at}, expected {w[at]}"
    return None


def judge(env, v):
    """(kind, detail) of one variant."""
    got, refused = attempt(in_nacre, env, v)
    first, no_first = attempt(in_onnxruntime, v)
    if got is not None and first is not None and difference(got, first, v.type) is None:
        return "as onnxruntime", None
    second, no_second = attempt(in_reference, v)
    if got is None:
        return ("nobody runs it", None) if first is None and second is None else ("gap", refused)
    if second is not None and difference(got, second, v.type) is None:
        return "as the reference", None
    if first is None and second is None:
        return "only Nacre runs it", None
    return "difference", difference(got, first if first is not None else second, v.type)


def chosen(domain, op, cases):
    """All types at the newest version; at older ones the type that all versions have."""
    newest = op_variants.schemas(domain, op)[0].since_version
    return (v for v in op_variants.variants(domain, op, cases)
            if v.version == newest or v.type in ("float", "int64", "bool", "string"))


@pytest.fixture(scope="module")
def verdicts(env):
    """{(operator, type, kind): [(version, detail)]}"""
    rows = collections.defaultdict(list)
    for (domain, op), cases in sorted(op_variants.single_node_cases().items()):
        for v in chosen(domain, op, cases):
            kind, detail = judge(env, v)
            rows[op, v.type, kind].append((v.version, detail))
    return rows


def test_counts(verdicts):
    counts = collections.Counter()
    for (_, _, kind), rows in verdicts.items():
        counts[kind] += len(rows)
    print("\nElement types of operators: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    assert counts["as onnxruntime"] > 2500 and counts["as the reference"] > 2000, "cases were lost"


@pytest.mark.parametrize("kind,rows,at_times", [("gap", GAPS, []), ("difference", DIFFERENCES, AT_TIMES)],
                         ids=["gaps", "differences"])
def test_lists_only_shrink(verdicts, kind, rows, at_times):
    known = listed(rows)
    found = {(op, t): r for (op, t, k), r in verdicts.items() if k == kind}
    new = {key: r for key, r in found.items() if not holds(known | listed(at_times), *key)}
    assert not new, "\n".join(f"{op} {t}: version {r[0][0]}: {r[0][1]}" for (op, t), r in sorted(new.items()))
    gone = {row for row in known if row not in found and (row[1] != ALL or not any(op == row[0] for op, _ in found))}
    assert not gone, f"no longer a {kind}, take it off the list: {sorted(gone)}"
