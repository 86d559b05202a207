"""SubscriberBase: what a subscriber may do before and behind each module, in the steps that it is for."""
from __future__ import annotations

import dataclasses
import sys
from typing import Any, Dict, Optional, Tuple

import torch


@dataclasses.dataclass
class GlobalStates:
    """Which forward pass this is, and the modules: numbered from the outermost on, with their depths."""

    execution_step: int = 0
    module_index_to_depth: Dict[int, int] = dataclasses.field(default_factory=dict)
    module_to_module_index: Dict[torch.nn.Module, int] = dataclasses.field(default_factory=dict)


class RuntimeStates:
    """What subscribers are told about the run."""

    def __init__(self) -> None:
        self.global_states = GlobalStates()


class SubscriberBase:
    """Subclasses define the `_impl` methods that they need. They are called in the steps from start_step (default: the
    first) up to but not including end_step (default: none); what they return takes the place of what they got."""

    def __init__(self, start_step: Optional[int], end_step: Optional[int]) -> None:
        self._start_step = 0 if start_step is None else start_step
        self._end_step = sys.maxsize if end_step is None else end_step

    def _is_idle(self, run_rtx: RuntimeStates) -> bool:
        return not self._start_step <= run_rtx.global_states.execution_step < self._end_step

    # ---- for subclasses ----

    def pre_forward_module_apply_impl(self, run_rtx: RuntimeStates, module: torch.nn.Module, args: Any,
                                      kwargs: Any) -> Tuple[Any, Any]:
        return args, kwargs

    def pre_forward_tensor_apply_impl(self, run_rtx: RuntimeStates, module: torch.nn.Module, tensor_index: int,
                                      tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def post_forward_module_apply_impl(self, run_rtx: RuntimeStates, module: torch.nn.Module, args: Any,
                                       output: Any) -> Tuple[Any, Any]:
        return args, output

    def post_forward_tensor_apply_impl(self, run_rtx: RuntimeStates, module: torch.nn.Module, tensor_index: int,
                                       tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def post_forward_outmost_module_apply_impl(self, run_rtx: RuntimeStates, module: torch.nn.Module, args: Any,
                                               outputs: Any) -> Tuple[Any, Any]:
        return args, outputs

    # ---- for the manager ----

    def pre_forward_module_apply(self, run_rtx: RuntimeStates, module: torch.nn.Module, args: Any,
                                 kwargs: Any) -> Tuple[Any, Any]:
        return (args, kwargs) if self._is_idle(run_rtx) else self.pre_forward_module_apply_impl(run_rtx, module, args,
                                                                                                kwargs)

    def pre_forward_tensor_apply(self, run_rtx: RuntimeStates, module: torch.nn.Module, tensor_index: int,
                                 tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self._is_idle(run_rtx) else self.pre_forward_tensor_apply_impl(run_rtx, module, tensor_index,
                                                                                        tensor)

    def post_forward_module_apply(self, run_rtx: RuntimeStates, module: torch.nn.Module, args: Any,
                                  output: Any) -> Tuple[Any, Any]:
        return (args, output) if self._is_idle(run_rtx) else self.post_forward_module_apply_impl(run_rtx, module, args,
                                                                                                 output)

    def post_forward_tensor_apply(self, run_rtx: RuntimeStates, module: torch.nn.Module, tensor_index: int,
                                  tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self._is_idle(run_rtx) else self.post_forward_tensor_apply_impl(run_rtx, module, tensor_index,
                                                                                         tensor)

    def post_forward_outmost_module_apply(self, run_rtx: RuntimeStates, module: torch.nn.Module, args: Any,
                                          outputs: Any) -> Tuple[Any, Any]:
        if self._is_idle(run_rtx):
            return args, outputs
        return self.post_forward_outmost_module_apply_impl(run_rtx, module, args, outputs)
