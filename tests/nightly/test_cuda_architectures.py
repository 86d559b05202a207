"""Every CUDA kernel text compiled for every architecture as the library does it; tests/py/test_cuda_text.py takes some
so, and the others with less effort."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
from test_cuda_text import compile_all, nvrtc, printed_sources  # noqa: E402, F401


def test_texts_compile_everywhere(nvrtc):  # noqa: F811
    compile_all([(*text, a) for text in printed_sources() for a in ("sm_75", "sm_80", "sm_90", "sm_100")])
