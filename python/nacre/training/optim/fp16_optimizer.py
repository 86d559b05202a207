"""FP16_Optimizer: onnxruntime puts faster checks into optimizers of apex, DeepSpeed and Megatron with it."""
import warnings
from typing import Any


def FP16_Optimizer(optimizer: Any, **kwargs: Any) -> Any:  # noqa: N802  (the name is onnxruntime's)
    """Gives the optimizer back as it is: its results are the same, and none of those packages is changed from here."""
    del kwargs
    warnings.warn(f"FP16_Optimizer: {type(optimizer).__module__}.{type(optimizer).__qualname__} is used as it is")
    return optimizer
