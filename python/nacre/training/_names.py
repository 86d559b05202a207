"""Names of onnxruntime.training that speak of what is done otherwise here."""
import enum
from typing import Any


class PropagateCastOpsStrategy(enum.Enum):
    """How onnxruntime moves casts in graphs of half precision; here the pass `casts` does, whatever is chosen."""

    NONE = 0
    INSERT_AND_REDUCE = 1
    FLOOD_FILL = 2


class TrainingParameters:
    """Settings of onnxruntime's former trainer in Python, which it no longer has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("TrainingParameters were for ORTTrainer, which is no more: nacre.training.api trains "
                                  "models, and artifacts.generate_artifacts takes its settings.")


def is_ortmodule_available() -> bool:
    """Whether PyTorch modules can be wrapped to train here."""
    return False
