"""SubscriberManager: hooks of PyTorch at every module, which call the subscribers in the order they were given."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, List

import torch

from nacre.training.utils.hooks._subscriber import RuntimeStates, SubscriberBase
from nacre.training.utils.torch_io_helper import extract_data_and_schema, unflatten_data_using_schema

_COUNTS = [True]


@contextlib.contextmanager
def no_increase_global_step() -> Iterator[None]:
    """Forward passes inside (those of an exporter) are no steps, and StatisticsSubscriber writes nothing of them."""
    before, _COUNTS[0] = _COUNTS[0], False
    try:
        yield
    finally:
        _COUNTS[0] = before


def steps_are_counted() -> bool:
    return _COUNTS[0]


class SubscriberManager:
    """subscribe() puts hooks at a module and all below it; another call takes away those of the one before."""

    def __init__(self) -> None:
        self._run_ctx = RuntimeStates()
        self._subscribers: List[SubscriberBase] = []
        self._hooks: List[Any] = []

    def subscribe(self, module: torch.nn.Module, subscribers: List[SubscriberBase]) -> None:
        if not isinstance(module, torch.nn.Module):
            raise ValueError(f"module must be a torch.nn.Module instance, got {type(module)}")
        if not subscribers:
            raise RuntimeError("No subscribers are registered.")
        for subscriber in subscribers:
            if not isinstance(subscriber, SubscriberBase):
                raise ValueError(f"subscriber must be a SubscriberBase instance, got {type(subscriber)}")
        for hook in self._hooks:
            hook.remove()
        self._run_ctx, self._hooks, self._subscribers = RuntimeStates(), [], list(subscribers)
        self._number(module, 1)
        for each in self._run_ctx.global_states.module_to_module_index:
            self._hooks.append(each.register_forward_pre_hook(self._before, with_kwargs=True))
            self._hooks.append(each.register_forward_hook(self._behind))
        self._hooks.append(module.register_forward_hook(self._end_of_step))

    def get_subscriber(self, subscriber_type: type) -> SubscriberBase:
        for subscriber in self._subscribers:
            if isinstance(subscriber, subscriber_type):
                return subscriber
        raise RuntimeError(f"Subscriber {subscriber_type} is not registered.")

    def get_run_context(self) -> RuntimeStates:
        return self._run_ctx

    def _number(self, module: torch.nn.Module, depth: int) -> None:
        """Each module once, a module before those below it."""
        states = self._run_ctx.global_states
        index = len(states.module_to_module_index)
        states.module_to_module_index[module], states.module_index_to_depth[index] = index, depth
        for child in module.children():
            if child not in states.module_to_module_index:
                self._number(child, depth + 1)

    def _over_tensors(self, data: Any, what: str, module: torch.nn.Module) -> Any:
        tensors, schema = extract_data_and_schema(data)
        for subscriber in self._subscribers:
            tensors = [getattr(subscriber, what)(self._run_ctx, module, i, t) for i, t in enumerate(tensors)]
        return unflatten_data_using_schema(tensors, schema)

    def _before(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        for subscriber in self._subscribers:
            args, kwargs = subscriber.pre_forward_module_apply(self._run_ctx, module, args, kwargs)
        return (self._over_tensors(args, "pre_forward_tensor_apply", module),
                self._over_tensors(kwargs, "pre_forward_tensor_apply", module))

    def _behind(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        for subscriber in self._subscribers:
            _, output = subscriber.post_forward_module_apply(self._run_ctx, module, args, output)
        return self._over_tensors(output, "post_forward_tensor_apply", module)

    def _end_of_step(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        for subscriber in self._subscribers:
            args, output = subscriber.post_forward_outmost_module_apply(self._run_ctx, module, args, output)
        if steps_are_counted():
            self._run_ctx.global_states.execution_step += 1
        return output


#: The one that inspect_activation asks.
GlobalSubscriberManager = SubscriberManager()
