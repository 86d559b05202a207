"""python -m nacre.tools.remove_initializer_from_input --input IN --output OUT: inputs that have a default become
constants, which passes may fold."""
from __future__ import annotations

import argparse
import sys
from typing import List, Optional

import onnx

from nacre._files import save_model


def remove_initializer_from_input(model: onnx.ModelProto) -> bool:
    """Changes the model itself; whether there was such an input. Before version 4 of the format every initializer is an
    input, and such a model stays."""
    if model.ir_version < 4:
        print(f"the model has ir_version {model.ir_version}: from 4 on an initializer need not be an input",
              file=sys.stderr)
        return False
    weights = {t.name for t in model.graph.initializer}
    found = [i for i in model.graph.input if i.name in weights]
    for i in found:
        model.graph.input.remove(i)
    return bool(found)


def get_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Makes constants of the inputs that have a default.")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = get_args(arguments)
    model = onnx.load(told.input)
    remove_initializer_from_input(model)
    save_model(model, told.output)


if __name__ == "__main__":
    main()
