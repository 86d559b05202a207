"""python -m nacre.tools.qdq_helpers.optimize_qdq_model IN OUT: a copy. What the command once did, sessions do
themselves when they load a model."""
from __future__ import annotations

import argparse
from typing import List, Optional

import onnx

from nacre._files import save_model


def optimize_qdq_model(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Copies a QDQ model: sessions need no preparation of it any more.")
    parser.add_argument("input_model")
    parser.add_argument("output_model")
    told = parser.parse_args(arguments)
    save_model(onnx.load(told.input_model), told.output_model)


if __name__ == "__main__":
    optimize_qdq_model()
