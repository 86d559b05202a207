"""python -m nacre.tools.convert_onnx_models_to_ort MODEL_OR_FOLDER: ONNX models as files in onnxruntime's own format,
.ort, with a list of the operators that they need.

A model is written optimized for good (style Fixed), or with what every machine would do alone, as
NAME.with_runtime_opt, which is optimized further when it is loaded (style Runtime).
"""
from __future__ import annotations

import argparse
import enum
import logging
import pathlib
import tempfile
from typing import Dict, List, Optional, Sequence, Set, Tuple

import onnx

import nacre
from nacre import _inference
from nacre._files import write
from nacre.tools.ort_format_model.utils import create_config_from_models

logger = logging.getLogger(__name__)
Needs = Set[Tuple[str, int, str]]  # domain, version since which it is as it is, operator


class OptimizationStyle(enum.Enum):
    Fixed = 0
    Runtime = 1


_SUFFIX = {OptimizationStyle.Fixed: "", OptimizationStyle.Runtime: ".with_runtime_opt"}
_LEVEL = {OptimizationStyle.Fixed: nacre.GraphOptimizationLevel.ORT_ENABLE_ALL,
          OptimizationStyle.Runtime: nacre.GraphOptimizationLevel.ORT_ENABLE_BASIC}


def _models(where: pathlib.Path) -> List[pathlib.Path]:
    if not where.exists():
        raise FileNotFoundError(f"Model path '{where}' is not a file or directory.")
    found = [where] if where.is_file() else sorted(p for p in where.rglob("*.onnx")
                                                   if not p.name.endswith(".optimized.onnx"))
    if not found:
        raise ValueError(f"No model files were found in '{where}'")
    return found


def _write(model: pathlib.Path, to: pathlib.Path, style: OptimizationStyle, library: Optional[pathlib.Path]) -> None:
    options = nacre.SessionOptions()
    options.graph_optimization_level = _LEVEL[style]
    options.optimized_model_filepath = str(to)
    if library is not None:
        options.register_custom_ops_library(str(library))
    to.parent.mkdir(parents=True, exist_ok=True)
    nacre.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _since(domain: str, version: int, op: str) -> int:
    try:
        return int(onnx.defs.get_schema(op, version, "" if domain == "ai.onnx" else domain).since_version)
    except onnx.defs.SchemaError:
        return version  # of a domain that onnx does not know


def _needs(model: pathlib.Path) -> Needs:
    proto = onnx.load(str(model))
    versions: Dict[str, int] = {o.domain or "ai.onnx": o.version for o in proto.opset_import}
    nodes = [node for graph in (*_inference.graphs(proto.graph), *proto.functions) for node in graph.node]
    named = [(node.domain or "ai.onnx", node.op_type) for node in nodes]
    return {(domain, _since(domain, versions.get(domain, 1), op), op) for domain, op in named}


def _list(needs: Needs, models: Sequence[pathlib.Path], to: pathlib.Path) -> None:
    lines = ["# Generated from model/s:", *(f"# - {m}" for m in models)]
    for domain, version in sorted({n[:2] for n in needs}):
        lines.append(f"{domain};{version};{','.join(sorted(n[2] for n in needs if n[:2] == (domain, version)))}")
    write(to, "\n".join(lines) + "\n")


def _convert(model: pathlib.Path, to: pathlib.Path, style: OptimizationStyle, library: Optional[pathlib.Path],
             keep: bool) -> Needs:
    """Writes one model; gives what it needs. keep: the same as ONNX stays beside it."""
    _write(model, to, style, library)
    if keep:
        _write(model, beside := to.with_suffix(".optimized.onnx"), style, library)
        return _needs(beside)
    with tempfile.TemporaryDirectory() as there:
        _write(model, plain := pathlib.Path(there) / "model.onnx", style, library)
        return _needs(plain)


def convert_onnx_models_to_ort(model_path_or_dir: pathlib.Path, output_dir: Optional[pathlib.Path] = None,
                               optimization_styles: Optional[List[OptimizationStyle]] = None,
                               custom_op_library_path: Optional[pathlib.Path] = None,
                               target_platform: Optional[str] = None, save_optimized_onnx_model: bool = False,
                               allow_conversion_failures: bool = False, enable_type_reduction: bool = False) -> None:
    """Converts a model, or all of a folder and of those below it, in each style (None: both). target_platform is
    without effect: what is saved holds for every machine. enable_type_reduction: the list names types too."""
    where = pathlib.Path(model_path_or_dir).resolve()
    top = where.parent if where.is_file() else where
    out = pathlib.Path(output_dir).resolve() if output_dir else top
    library = pathlib.Path(custom_op_library_path).resolve() if custom_op_library_path else None
    for style in optimization_styles or list(OptimizationStyle):
        needs: Needs = set()
        made: List[pathlib.Path] = []
        for model in _models(where):
            to = out / model.relative_to(top).with_suffix(_SUFFIX[style] + ".ort")
            try:
                needs |= _convert(model, to, style, library, save_optimized_onnx_model)
                made.append(to)
            except Exception as e:
                logger.error("Error converting %s: %s", model, e)
                if not allow_conversion_failures:
                    raise
        if made:
            head = f"{where.stem}." if where.is_file() else ""
            if enable_type_reduction:
                to = out / f"{head}required_operators_and_types{_SUFFIX[style]}.config"
                create_config_from_models(made, to, enable_type_reduction)
            else:
                _list(needs, made, out / f"{head}required_operators{_SUFFIX[style]}.config")


def parse_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes ONNX models in onnxruntime's own format, .ort.")
    parser.add_argument("model_path_or_dir", type=pathlib.Path, help="a model, or a folder of models")
    parser.add_argument("--output_dir", type=pathlib.Path, help="where the new ones go; default: beside the models")
    parser.add_argument("--optimization_style", nargs="+", default=[s.name for s in OptimizationStyle],
                        choices=[s.name for s in OptimizationStyle])
    parser.add_argument("--custom_op_library", type=pathlib.Path, help="a library of operators that the models need")
    parser.add_argument("--save_optimized_onnx_model", action="store_true", help="keeps what is written as ONNX too")
    parser.add_argument("--allow_conversion_failures", action="store_true", help="goes on after a model that fails")
    parser.add_argument("--enable_type_reduction", action="store_true", help="lists types beside the operators")
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_args(arguments)
    convert_onnx_models_to_ort(told.model_path_or_dir, told.output_dir,
                               [OptimizationStyle[s] for s in told.optimization_style], told.custom_op_library,
                               save_optimized_onnx_model=told.save_optimized_onnx_model,
                               allow_conversion_failures=told.allow_conversion_failures,
                               enable_type_reduction=told.enable_type_reduction)


if __name__ == "__main__":
    main()
