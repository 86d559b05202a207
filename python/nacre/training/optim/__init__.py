"""What onnxruntime.training.optim has beside its PyTorch optimizers: the forms of Adam."""
import enum

__all__ = ["AdamWMode"]


class AdamWMode(enum.IntEnum):
    """How weights decay, and where the bias of the moments is corrected."""

    ADAM_L2_REGULARIZATION = 0  # decay is added to the gradient
    ADAMW_TRANSFORMERS = 1  # weights decay after the update; the correction is in the rate
    ADAMW_TORCH = 2  # weights decay before the update; the correction is in the moments
