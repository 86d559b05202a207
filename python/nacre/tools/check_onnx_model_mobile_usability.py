"""Whether to try the accelerators of phones with a model, in a sentence after the reasons.

    python -m nacre.tools.check_onnx_model_mobile_usability [--log_level debug] MODEL
"""
from __future__ import annotations

import argparse
import logging
import pathlib
from typing import List, Optional

from nacre.tools.mobile_helpers import usability_checker


def check_usability(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Tells whether a model suits the accelerators of phones.")
    parser.add_argument("--log_level", choices=["debug", "info"], default="info", help="debug names every node")
    parser.add_argument("model_path", type=pathlib.Path, help="the model's file")
    told = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s:  %(message)s")
    logger = logging.getLogger("check_usability")
    logger.setLevel(told.log_level.upper())
    if usability_checker.analyze_model(told.model_path, logger=logger):
        logger.info("measure NNAPI on Android and Core ML on Apple's systems beside the CPU: they may be faster")
    else:
        logger.info("the CPU is the best place for this model")


if __name__ == "__main__":
    check_usability()
