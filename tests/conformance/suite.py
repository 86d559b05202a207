"""Runs ONNX's own backend suite (onnx.backend.test) on nacre.backend: node, simple, PyTorch and light model cases.

suite.py            runs all cases, prints the count, and fails when a case of passing.txt does not pass
suite.py --update   also adds to passing.txt what passes now; a case never leaves it
suite.py PATTERN    runs the cases whose name matches, and prints why each of them fails
"""
import ctypes
import os
import pathlib
import re
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# Light models keep their generated inputs here.
os.environ.setdefault("ONNX_HOME", str(HERE.parents[1] / "build" / "conformance"))

import isolated  # noqa: E402

PASSING = HERE / "passing.txt"


CODECS = ("jpeg", "png", "webp", "tiff", "jpeg2k")  # as base/codecs.h numbers them


_DRAWS = "compares unseeded draws with those of numpy; statistics are tested in src/ops/random"
_DFT = ("where the value is 0 it expects, within 1e-7, numpy's rounding in f32: 1.9e-7 in all columns (x86-64) or in "
        "those that are not transformed side by side (AArch64); numpy in f64 does not pass either: test_defects.py")
#: Cases that no exact implementation passes, with what is wrong in onnx.
DEFECTS = {
    **{f"test_bernoulli{name}{form}_cpu": _DRAWS for name in ("", "_double", "_seed") for form in ("", "_expanded")},
    "test_dft_inverse_cpu": _DFT, "test_dft_inverse_opset19_cpu": _DFT,
    "test_loop16_seq_none_cpu": "onnx.backend.test.runner takes len() of a sequence's expected elements, of which the "
                                "first is a scalar: test_defects.py; tests/py/test_onnx_files.py compares the values",
}


def without_codec():
    """Names of image formats that libnacre_codecs.so, if it is there, was built without."""
    class Table(ctypes.Structure):
        _fields_ = [("version", ctypes.c_int), ("decode", ctypes.c_void_p * len(CODECS))]
    try:
        library = ctypes.CDLL(str(HERE.parents[1] / "build/release/libnacre_codecs.so"))
        table = Table.in_dll(library, "nacre_codecs_table")
        return {name for name, decode in zip(CODECS, table.decode) if not decode}
    except OSError:
        return set(CODECS)


def listed():
    """The names in passing.txt, but for images whose codec this machine has not."""
    lines = PASSING.read_text().splitlines() if PASSING.exists() else []
    gone = tuple(f"test_image_decoder_decode_{name}_" for name in without_codec())
    return {line for line in lines if line and not line.startswith("#") and not line.startswith(gone)}


def excused(name):
    """Why the case may fail; None: it may not."""
    if any(name.startswith(f"test_image_decoder_decode_{codec}_") for codec in without_codec()):
        return "the machine has no codec for it"
    return DEFECTS.get(name)


def cases():
    """{name: test} of every case on a device that is there."""
    from onnx.backend.test import BackendTest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = BackendTest(isolated.IsolatedBackend, __name__).test_cases.values()
    tests = [t for c in classes for t in unittest.defaultTestLoader.loadTestsFromTestCase(c)]
    found = {t._testMethodName: t for t in tests}
    assert len(found) == len(tests), "two cases have the same name"
    return {n: t for n, t in found.items() if not getattr(getattr(t, n), "__unittest_skip__", False)}


def run(pattern=""):
    """{name: None when it passed, else why not}."""
    outcome = {}
    for name, test in sorted(cases().items()):
        if not re.search(pattern, name):
            continue
        result = unittest.TestResult()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test.run(result)
        wrong = [text for _, text in result.errors + result.failures + result.skipped]
        outcome[name] = None if result.testsRun == 1 and not wrong else reason(wrong)
    isolated.worker.stop()
    return outcome


def reason(texts):
    """The exception of a traceback in one line: from the line that names it on."""
    lines = texts[0].strip().splitlines() if texts else ["did not run"]
    at = max((i for i, line in enumerate(lines) if re.match(r"[\w.]+(Error|Failed|Exception)\b", line)), default=-1)
    return " ".join(" ".join(lines[at:]).split())[:300]


def write(names):
    head = ("# Cases of ONNX's backend suite that pass. The list only grows: `make conformance` adds to it, and a "
            "listed case\n# that fails fails the tests.\n")
    PASSING.write_text(head + "".join(f"{n}\n" for n in sorted(names)))


def main(arguments):
    update = "--update" in arguments
    patterns = [a for a in arguments if a != "--update"]
    outcome = run(patterns[0] if patterns else "")
    passed = {n for n, why in outcome.items() if why is None}
    lost = {n: outcome[n] for n in listed() & set(outcome) if outcome[n] is not None}
    if patterns or update:
        for name in sorted(set(outcome) - passed):
            print(f"{name}: {outcome[name]}")
    if update:
        write(listed() | passed)
    for name, why in sorted(lost.items()):
        print(f"LOST {name}: {why}")
    print(f"ONNX backend suite: {len(passed)} passed of {len(outcome)}; {len(listed())} listed, {len(lost)} lost")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
