"""get_logger: a logger whose lines say when and how urgent."""
from __future__ import annotations

import logging


def get_logger(name: str, level: int = logging.DEBUG) -> logging.Logger:
    logging.basicConfig(format="%(asctime)s %(name)s [%(levelname)s] - %(message)s")
    found = logging.getLogger(name)
    found.setLevel(level)
    return found
