"""Module: the training and eval models over a CheckpointState."""
from __future__ import annotations

import os
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from nacre import _core, _types
from nacre._device import envs
from nacre._options import SessionOptions
from nacre._value import NativeOrtValue, OrtValue
from nacre.training.api.checkpoint_state import CheckpointState

Source = Union[str, os.PathLike, bytes]
_PREPACKING = "session.disable_prepacking"


def source_of(model: Any) -> Union[str, bytes]:
    return bytes(model) if isinstance(model, (bytes, bytearray, memoryview)) else os.fspath(model)


def _check_options(options: Optional[SessionOptions]) -> None:
    """Weights change at every step, so nothing may be packed once and for all."""
    if options is None:
        return
    try:
        asked = options.get_session_config_entry(_PREPACKING)
    except Exception:  # it is not set
        options.add_session_config_entry(_PREPACKING, "1")
        return
    if asked != "1":
        raise RuntimeError("Prepacking is not supported for training scenarios.")


def _value_of(x: Any) -> Optional[_core.Value]:
    if x is None:
        return None
    if isinstance(x, OrtValue):
        return x._value
    return _types.to_value(x if hasattr(x, "__dlpack__") or isinstance(x, np.ndarray) else np.asarray(x))


class Module:
    """A model that trains: calling it in training mode adds the gradients of a batch up, in eval mode it evaluates.

    train_model_uri, eval_model_uri: paths, or the bytes of the models. device: "cpu", "cuda" or "cuda:1". The session
    entry "nacre.recompute" = "1": less memory, some time (docs/training.md).
    """

    training: bool

    def __init__(self, train_model_uri: Source, state: CheckpointState, eval_model_uri: Optional[Source] = None,
                 device: str = "cpu", session_options: Optional[SessionOptions] = None) -> None:
        if not isinstance(state, CheckpointState):
            raise TypeError(f"expected a CheckpointState, got {type(state)}")
        _check_options(session_options)
        self.training = True
        self._state = state
        self._has_eval = eval_model_uri is not None
        threads = session_options.intra_op_num_threads if session_options is not None else 0
        libraries = session_options._libraries if session_options is not None else []
        recompute, cudnn_dropout = (session_options is not None and session_options._switch(f"nacre.{name}")
                                    for name in ("recompute", "cudnn_dropout"))
        self._training = _core.Training(envs.get(threads, libraries), state._checkpoint, source_of(train_model_uri),
                                        source_of(eval_model_uri) if eval_model_uri is not None else None, device,
                                        envs.seed or 0, recompute, cudnn_dropout)
        self._on_host = device == "cpu"
        self._n_optimizers = 0
        state._attach(self)

    def _fetch(self) -> None:
        """Contents of another device come to the checkpoint before they are read."""
        if not self._on_host and not self._state._checkpoint.is_nominal:
            self._training.sync()

    def __call__(self, *user_inputs: Any) -> Any:
        """One output, or a tuple of them: arrays where an input is one, else OrtValues. Tensors of others (DLPack) are
        read where they lie, as arrays and OrtValues are."""
        arrays = any(isinstance(x, np.ndarray) for x in user_inputs)
        if not arrays and any(x is not None and not hasattr(x, "__dlpack__") for x in user_inputs):
            raise ValueError("expected numpy arrays or OrtValues, or tensors that speak DLPack, got "
                             f"{[type(x).__name__ for x in user_inputs]}")
        self._need_eval()
        made = self._training.step([_value_of(x) for x in user_inputs], not self.training)
        out = tuple(_types.to_numpy(v) if arrays else OrtValue(v) for v in made)
        return out[0] if len(out) == 1 else out

    def _need_eval(self) -> None:
        if not self.training and not self._has_eval:
            raise RuntimeError("The module has no eval model: give eval_model_uri when it is made.")

    def train(self, mode: bool = True) -> "Module":
        self.training = mode
        return self

    def eval(self) -> "Module":
        return self.train(False)

    def lazy_reset_grad(self) -> None:
        """The gradients of the next step in training mode replace the sums."""
        self._training.reset()

    def get_contiguous_parameters(self, trainable_only: bool = False) -> NativeOrtValue:
        """The parameters behind each other, as floats."""
        return NativeOrtValue(self._training.to_buffer(trainable_only))

    def get_parameters_size(self, trainable_only: bool = True) -> int:
        """How many elements they have."""
        return self._training.size(trainable_only)

    def copy_buffer_to_parameters(self, buffer: Any, trainable_only: bool = True) -> None:
        """What get_contiguous_parameters gave, or an array of the same size."""
        value = _value_of(buffer)
        if value is None:
            raise TypeError("expected an OrtValue or an array, got None")
        self._training.from_buffer(value, trainable_only)

    def export_model_for_inferencing(self, inference_model_uri: Union[str, os.PathLike],
                                     graph_output_names: Sequence[str]) -> None:
        """The eval model with these outputs, what they need, and the parameters inside."""
        self._training.export(os.fspath(inference_model_uri), list(graph_output_names))

    def input_names(self) -> List[str]:
        self._need_eval()
        return self._training.inputs(not self.training)

    def output_names(self) -> List[str]:
        self._need_eval()
        return self._training.outputs(not self.training)
