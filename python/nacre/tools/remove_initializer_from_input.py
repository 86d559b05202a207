"""python -m nacre.tools.remove_initializer_from_input --input IN --output OUT: inputs that have a default become
constants, which passes may fold."""
from __future__ import annotations

import argparse
from typing import List, Optional

import onnx


def remove_initializer_from_input(model: onnx.ModelProto) -> onnx.ModelProto:
    """Changes the model itself, and returns it."""
    weights = {t.name for t in model.graph.initializer}
    for i in [i for i in model.graph.input if i.name in weights]:
        model.graph.input.remove(i)
    model.ir_version = max(model.ir_version, 4)  # from then on an initializer need not be an input
    return model


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Makes constants of the inputs that have a default.")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    told = parser.parse_args(arguments)
    onnx.save(remove_initializer_from_input(onnx.load(told.input)), told.output)


if __name__ == "__main__":
    main()
