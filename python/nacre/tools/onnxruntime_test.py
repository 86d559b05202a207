"""python -m nacre.tools.onnxruntime_test MODEL: runs a model on random inputs and says how long that took. 'nacre
bench' measures with care."""
from __future__ import annotations

import argparse
import os
import time
from typing import Any, Dict, List, Optional

import numpy as np

import nacre

_KINDS = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(double)": np.float64,
          "tensor(bool)": np.bool_, **{f"tensor({k})": np.dtype(k).type for k in (
              "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")}}


def _drawn(told: Any, symbolic_dims: Dict[str, Any]) -> np.ndarray:
    """Floats in [0, 1), whole numbers below 1000; a dim that nobody names is 1."""
    if told.type not in _KINDS:
        raise ValueError(f"'{told.name}' is a {told.type}, expected one of {', '.join(_KINDS)}")
    kind = np.dtype(_KINDS[told.type])
    shape = [int(symbolic_dims.get(d, 1)) if isinstance(d, str) else d or 1 for d in told.shape]
    top = 2 if kind == np.bool_ else 128 if kind.itemsize == 1 else 1000
    return (np.random.rand(*shape) if kind.kind == "f" else np.random.randint(top, size=shape)).astype(kind)


def generate_feeds(sess: nacre.InferenceSession, symbolic_dims: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    return {i.name: _drawn(i, symbolic_dims or {}) for i in sess.get_inputs()}


def run_model(model_path: Any, num_iters: int = 1, debug: Optional[bool] = None, profile: Optional[bool] = None,
              symbolic_dims: Optional[Dict[str, Any]] = None, feeds: Optional[Dict[str, Any]] = None,
              override_initializers: bool = True) -> Any:
    """(0, feeds, whether the model has outputs or a list of what it gave). debug waits for a key, as a debugger may
    want."""
    if debug:
        input(f"process {os.getpid()}; press Enter to go on")
    options = nacre.SessionOptions()
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, os.path.basename(str(model_path))
    session = nacre.InferenceSession(str(model_path), options, providers=nacre.get_available_providers())
    feeds = dict(feeds or generate_feeds(session, symbolic_dims))
    if override_initializers:
        feeds.update((i.name, _drawn(i, symbolic_dims or {})) for i in session.get_overridable_initializers())
    start = time.perf_counter()
    for _ in range(num_iters):
        outputs = session.run([], feeds)
    taken = (time.perf_counter() - start) * 1000
    print(f"model: {session.get_modelmeta().graph_name}")
    print(f"iterations: {num_iters}, in all {taken:.3f} ms, {taken / max(num_iters, 1):.3f} ms each")
    if profile:
        print(f"profile: {session.end_profiling()}")
    return 0, feeds, num_iters > 0 and outputs


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Runs a model on random inputs.")
    parser.add_argument("model_path")
    parser.add_argument("num_iters", nargs="?", type=int, default=1000)
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--symbolic_dims", default={}, metavar="A=1,B=2",
                        type=lambda text: dict(part.split("=") for part in text.split(",")))
    told = parser.parse_args(arguments)
    return int(run_model(told.model_path, told.num_iters, told.debug, told.profile, told.symbolic_dims)[0])


if __name__ == "__main__":
    raise SystemExit(main())
