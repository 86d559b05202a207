"""Peers besides onnxruntime: OpenVINO and MNN, in a Python environment of their own (build/peers), because what they
ask for may be at odds with .venv. `make bench` installs bench/requirements.txt there; what could not be installed is
missing, says so, and leaves the figures that need it unmet.
"""
import functools
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ("openvino", "MNN")
PYTHON = ROOT / "build" / "peers" / "bin" / "python"


@functools.lru_cache(maxsize=None)
def _why(name):
    """None where the peer can be imported, else why not."""
    if not PYTHON.exists():
        return f"there is no {PYTHON.relative_to(ROOT)}"
    done = subprocess.run([str(PYTHON), "-c", f"import numpy, {name}"], capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it cannot be imported"])[-1]


def missing():
    """By peer, why it cannot be measured."""
    return {n: _why(n) for n in PEERS if _why(n)}


def there():
    return [n for n in PEERS if not _why(n)]


def worker(name):
    """The script and the Python of an engine's process; nothing: those of .venv."""
    return ("peer_worker.py", str(PYTHON)) if name in PEERS else ()
