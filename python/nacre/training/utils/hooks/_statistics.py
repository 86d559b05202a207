"""StatisticsSubscriber: of every result of a module, and of its gradient, a file per step with its figures."""
from __future__ import annotations

import pathlib
import shutil
import warnings
from typing import Any, Optional, Union

import torch

from nacre._files import write
from nacre.training.utils.hooks._manager import GlobalSubscriberManager, steps_are_counted
from nacre.training.utils.hooks._subscriber import RuntimeStates, SubscriberBase

SAMPLES = 128


class StatisticsSubscriber(SubscriberBase):
    """OUTPUT_DIR/step_K/NAME_forward and NAME_backward hold shape, type, least, greatest, mean, deviation, how many are
    NaN, infinite, negative, positive and zero, and the first elements; order.txt names the files in the order in which
    they came. NAME is CLASS_INDEX_Kth_output. run_on_cpu: tensors are brought to the host first; bucket_size: at most
    so many elements are looked at at a time."""

    def __init__(self, output_dir: str, start_step: Optional[int] = None, end_step: Optional[int] = None,
                 override_output_dir: bool = False, run_on_cpu: bool = False,
                 bucket_size: int = 1024 * 1024 * 1024 // 2) -> None:
        super().__init__(start_step=start_step, end_step=end_step)
        self._output_dir, self._run_on_cpu, self._bucket_size = pathlib.Path(output_dir), run_on_cpu, bucket_size
        if not self._output_dir.exists():
            return
        if not override_output_dir:
            raise FileExistsError(f"Output directory {output_dir} already exists. Set override_output_dir=True for "
                                  "StatisticsSubscriber if this is the intention.")
        warnings.warn(f"Output directory {output_dir} already exists, overriding it.", stacklevel=2)
        shutil.rmtree(self._output_dir)

    def post_forward_tensor_apply_impl(self, run_rtx: RuntimeStates, module: torch.nn.Module, tensor_index: int,
                                       tensor: torch.Tensor) -> torch.Tensor:
        states = run_rtx.global_states
        index = states.module_to_module_index[module]
        return self.watch(f"{type(module).__name__}_{index}_{tensor_index}th_output", tensor, states.execution_step,
                          states.module_index_to_depth[index])

    def watch(self, name: str, tensor: torch.Tensor, step: int, depth: int) -> torch.Tensor:
        """Writes of the tensor now, and of its gradient when that arrives."""
        if not steps_are_counted():
            return tensor
        self._write(name, "forward", tensor, step, depth)
        if tensor.requires_grad:
            tensor = tensor.view_as(tensor)  # the gradient of what is handed on, not of who else holds the tensor
            tensor.register_hook(lambda gradient: self._write(name, "backward", gradient, step, depth))
        return tensor

    def _write(self, name: str, way: str, tensor: torch.Tensor, step: int, depth: int) -> None:
        folder = self._output_dir / f"step_{step}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "order.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name}_{way}\n")
        text = _described(tensor.detach().cpu() if self._run_on_cpu else tensor.detach(), self._bucket_size)
        head = f"{'>' * max(0, depth)}{name} {way} run"
        write(folder / f"{name}_{way}", f"{head} {text}")


def _described(tensor: torch.Tensor, bucket_size: int) -> str:
    flat = tensor.reshape(-1)
    counts = dict.fromkeys(("nan", "inf", "neg", "pos", "zero"), 0)
    least = greatest = None
    n, mean, squares = 0, 0.0, 0.0
    for start in range(0, flat.numel(), bucket_size):
        part = flat[start:start + bucket_size]
        for key, found in (("nan", part.isnan()), ("inf", part.isinf()), ("neg", part < 0), ("pos", part > 0),
                           ("zero", part == 0)):
            counts[key] += int(found.sum())
        low, high = part.min(), part.max()
        least = low if least is None else torch.minimum(least, low)
        greatest = high if greatest is None else torch.maximum(greatest, high)
        wide = part.double()  # sums of parts are joined by the difference of their means
        own, k = float(wide.mean()), part.numel()
        squares += float(((wide - own) ** 2).sum()) + (own - mean) ** 2 * n * k / (n + k)
        mean, n = mean + (own - mean) * k / (n + k), n + k
    deviation = (squares / (n - 1)) ** 0.5 if n > 1 else float("nan")
    return (f"shape: {tensor.shape} dtype: {tensor.dtype} size: {flat.size()}\n"
            f"min: {_number(least)} max: {_number(greatest)}, mean: {mean if n else float('nan')}, std: {deviation}\n"
            f"nan: {counts['nan']}, inf: {counts['inf']}\n"
            f"samples(top {SAMPLES}): {flat[:SAMPLES]}\n"
            f"neg: {counts['neg']}, pos: {counts['pos']}, zero: {counts['zero']},\n{'=' * 16}\n")


def _number(of: Optional[torch.Tensor]) -> Union[int, float, bool]:
    return float("nan") if of is None else of.item()


def inspect_activation(activation_name: str, tensor: Any) -> Any:
    """Within forward(): the same files of a tensor that is no module's result, by the StatisticsSubscriber that
    GlobalSubscriberManager has. Use what it returns."""
    subscriber = GlobalSubscriberManager.get_subscriber(StatisticsSubscriber)
    context = GlobalSubscriberManager.get_run_context()
    assert isinstance(subscriber, StatisticsSubscriber)
    if subscriber._is_idle(context) or not isinstance(tensor, torch.Tensor):
        return tensor
    return subscriber.watch(activation_name, tensor, context.global_states.execution_step, 0)
