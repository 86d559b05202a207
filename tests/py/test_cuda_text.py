"""Compiles every CUDA kernel text of the library with NVRTC from PyPI, which needs no GPU.

The sources come from the program print_cuda_text of the build folder ($NACRE_BUILD, default build/release). A warning
of the compiler is a failure too, and so is a source without the entry points that the launchers ask for."""
import ctypes
import glob
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NACRE_BUILD", ROOT / "build" / "release"))
QUICKLY = "--Ofast-compile=max"  # NVRTC of CUDA 12.8 and newer


def find_nvrtc():
    for folder in sys.path:
        for name in sorted(glob.glob(f"{folder}/nvidia/*/lib/libnvrtc.so.*"), reverse=True):
            return ctypes.CDLL(name)
    return None


def printed_sources():
    tool = BUILD / "print_cuda_text"
    if not tool.exists():
        pytest.fail(f"{tool} is missing: build first")
    text = subprocess.run([str(tool)], capture_output=True, text=True, check=True).stdout
    for part in text.split("==== ")[1:]:
        name, entries, source = part.split("\n", 2)
        yield name, entries.split(), source


def compile_source(nvrtc, source, architecture, *more):
    """Machine code and the compiler's words; no code when it refused."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"nacre.cu", 0, None, None) == 0
    words = [w.encode() for w in (f"--gpu-architecture={architecture}", "--std=c++17", "--fmad=false", *more)]
    failed = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
    log = ctypes.create_string_buffer(size.value + 1)
    assert nvrtc.nvrtcGetProgramLog(program, log) == 0
    code = b""
    if not failed:
        assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
        cubin = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetCUBIN(program, cubin) == 0
        code = cubin.raw
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode().strip()


@pytest.fixture(scope="module")
def nvrtc():
    library = find_nvrtc()
    if library is None:
        pytest.skip("not run: no NVRTC here: nvidia-cuda-nvrtc-cu12 has no wheel for this architecture")
    return library


def complaints(job):
    """What is wrong with one text; in a process of its own, since NVRTC compiles one at a time."""
    name, entries, source, architecture, *more = job
    code, log = compile_source(find_nvrtc(), source, architecture, *more)
    found = [f"{name}, {architecture}:\n{log}"] if not code or log else []
    asked = [e for e, _, since in (word.partition("@") for word in entries) if int(since or 0) <= int(architecture[3:])]
    missing = [e for e in asked if code and f".text.{e}\0".encode() not in code]
    return found + [f"{name}, {architecture}: no entry {e}" for e in missing]


def one_of_each_file(texts):
    """What an architecture changes is in the file and in its heads, not in the element type: bfloat16, where it is."""
    chosen = {}
    for text in texts:
        file, kind = text[0].split()[:2]
        if file not in chosen or kind == "bfloat16":
            chosen[file] = text
    return list(chosen.values())


def compile_all(jobs):
    with multiprocessing.get_context("spawn").Pool(min(os.cpu_count() or 1, 16)) as pool:
        wrong = [w for found in pool.imap_unordered(complaints, jobs) for w in found]
    assert not wrong, "\n\n".join(wrong)


def test_texts_compile(nvrtc):
    """One of each file for sm_90 as the library compiles it; with a fifth of the effort all of them, and one of each
    file for the others. tests/nightly has all for all, as the library compiles them."""
    texts = list(printed_sources())
    some = one_of_each_file(texts)
    assert len(texts) > 200 and len(some) > 40
    compile_all([(*text, "sm_90", *([] if text in some else [QUICKLY])) for text in texts] +
                [(*text, a, QUICKLY) for text in some for a in ("sm_75", "sm_80", "sm_100")])


def test_a_wrong_text_is_refused(nvrtc):
    code, log = compile_source(nvrtc, 'extern "C" __global__ void f(float *x) { *x = LANE_none(1); }', "sm_90")
    assert not code and "LANE_none" in log
