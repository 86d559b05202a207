"""The rows of tests/tolerances.list for Python tests: `close(got, want, "ort_f32")`."""
import re
from pathlib import Path

import numpy as np

LIST = Path(__file__).resolve().parents[1] / "tolerances.list"
ROW = re.compile(r'^TOL\((\w+), *([^,]+), *([^,]+), *"([^"]*)"\)$', re.M)


def number(text):
    return float.fromhex(text) if text.startswith("0x") else float(text)


TOLERANCES = {name: (number(rel), number(absolute)) for name, rel, absolute, _ in ROW.findall(LIST.read_text())}


def close(got, want, row, what=""):
    """Raises AssertionError unless got is within the row's tolerance of want."""
    rtol, atol = TOLERANCES[row]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=str(what))
