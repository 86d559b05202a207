"""Tuning results, which say what kernel a provider found fastest for what sizes, inside of models and in files of their
own: put in, taken out, joined. What they say is kept as it is: the
option "tune" keeps what it finds in the cache of kernels.

    python -m nacre.tools.offline_tuning extract MODEL RESULTS.json
    python -m nacre.tools.offline_tuning embed [--force] NEW_MODEL MODEL RESULTS.json...
    python -m nacre.tools.offline_tuning merge JOINED.json RESULTS.json...
    python -m nacre.tools.offline_tuning pprint MODEL_OR_RESULTS
"""
from __future__ import annotations

import argparse
import copy
import json
import pprint
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import onnx

from nacre._files import save_model, write

#: {"ep": provider, "validators": {name: what must be the same}, "results": {operator: {sizes: kernel}}}
TuningResults = Dict[str, Any]
_KEY = "tuning_results"


def _place(model: onnx.ModelProto) -> Optional[int]:
    return next((i for i, p in enumerate(model.metadata_props) if p.key == _KEY), None)


def extract(model: onnx.ModelProto) -> Optional[List[TuningResults]]:
    """The results that a model holds, None if it holds none."""
    at = _place(model)
    return None if at is None else json.loads(model.metadata_props[at].value)


def embed(model: onnx.ModelProto, tuning_results: List[TuningResults], overwrite: bool = False) -> onnx.ModelProto:
    """Puts results into the model and gives it back; those that it holds already only go if overwrite says so."""
    at = _place(model)
    if at is not None:
        if not overwrite:
            raise ValueError("the model holds tuning results already; overwrite=True (--force) replaces them")
        del model.metadata_props[at]
    model.metadata_props.add(key=_KEY, value=json.dumps(tuning_results))
    return model


class Merger:
    """Joins results: an entry a provider and set of validators, the first kernel told for an operator and sizes."""

    class EpAndValidators:
        """What results hold for, as a key of dictionaries."""

        def __init__(self, ep: str, validators: Dict[str, str]) -> None:
            self.ep, self.validators = ep, copy.deepcopy(validators)
            self.key = (ep, tuple(sorted(validators.items())))

        def __hash__(self) -> int:
            return hash(self.key)

        def __eq__(self, other: Any) -> bool:
            return bool(self.key == other.key)

    def __init__(self) -> None:
        self.ev_to_results: Dict[Merger.EpAndValidators, Dict[Tuple[str, str], int]] = {}

    def merge(self, tuning_results: List[TuningResults]) -> None:
        for told in tuning_results:
            known = self.ev_to_results.setdefault(self.EpAndValidators(told["ep"], told["validators"]), {})
            for op, kernels in told["results"].items():
                for sizes, kernel in kernels.items():
                    known.setdefault((op, sizes), kernel)

    def get_merged(self) -> List[TuningResults]:
        joined = []
        for of, known in self.ev_to_results.items():
            results: Dict[str, Dict[str, int]] = {}
            for (op, sizes), kernel in known.items():
                results.setdefault(op, {})[sizes] = kernel
            joined.append({"ep": of.ep, "validators": of.validators, "results": results})
        return joined


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _write(results: Any, path: str) -> None:
    write(path, json.dumps(results))


def _joined(paths: Sequence[str]) -> List[TuningResults]:
    merger = Merger()
    for path in paths:
        merger.merge(_read(path))
    return merger.get_merged()


def _held(path: str) -> List[TuningResults]:
    found = extract(onnx.load(path, load_external_data=False))
    if found is None:
        sys.exit(f"{path} holds no tuning results")
    return found


def _either(path: str) -> Any:
    """Results of a file of their own or of a model."""
    try:
        return _read(path)
    except ValueError:  # bytes that are no text of JSON: a model
        return _held(path)


def parse_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tuning results inside of models and in files of their own.")
    commands = parser.add_subparsers(dest="cmd", required=True)
    command = commands.add_parser("extract", help="writes what a model holds into a file")
    command.add_argument("input_onnx")
    command.add_argument("output_json")
    command = commands.add_parser("embed", help="writes a model that holds the results of files")
    command.add_argument("--force", "-f", action="store_true", help="replace what the model holds")
    command.add_argument("output_onnx")
    command.add_argument("input_onnx")
    command.add_argument("input_json", nargs="+")
    command = commands.add_parser("merge", help="joins files into one")
    command.add_argument("output_json")
    command.add_argument("input_json", nargs="+")
    command = commands.add_parser("pprint", help="prints the results of a file or a model")
    command.add_argument("json_or_onnx")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_args(arguments)
    if told.cmd == "extract":
        _write(_held(told.input_onnx), told.output_json)
    elif told.cmd == "embed":
        save_model(embed(onnx.load(told.input_onnx), _joined(told.input_json), told.force), told.output_onnx)
    elif told.cmd == "merge":
        _write(_joined(told.input_json), told.output_json)
    else:
        pprint.pprint(_either(told.json_or_onnx))


if __name__ == "__main__":
    main()
