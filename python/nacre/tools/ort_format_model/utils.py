"""The list of operators, with types if they are wanted, that .ort files need."""
from __future__ import annotations

import pathlib
from typing import Iterable

from nacre._files import write
from nacre.tools.logger import get_logger
from nacre.tools.ort_format_model.operator_type_usage_processors import OperatorTypeUsageManager
from nacre.tools.ort_format_model.ort_model_processor import Ops, OrtFormatModelProcessor

log = get_logger("ort_format_model.utils")


def create_config_from_models(model_files: Iterable[pathlib.Path], output_file: pathlib.Path,
                              enable_type_reduction: bool) -> None:
    """Writes lines domain;version;operators, with each operator's types as JSON behind it."""
    models = sorted(model_files)
    needed: Ops = {}
    counts = OperatorTypeUsageManager() if enable_type_reduction else None
    for model in models:
        if not model.is_file():
            raise ValueError(f"{model} is no file")
        OrtFormatModelProcessor(str(model), needed, counts).process()
    lines = ["# Generated from model/s:", *(f"# - {m}" for m in models)]
    for domain in sorted(needed):
        for version in sorted(needed[domain]):
            ops = [op + ((counts and counts.get_config_entry(domain, op)) or "")
                   for op in sorted(needed[domain][version])]
            lines.append(f"{domain};{version};{','.join(ops)}")
    output_file.parent.mkdir(parents=True, exist_ok=True)
    write(output_file, "\n".join(lines) + "\n")
    log.info("%d lines in %s", len(lines), output_file)
