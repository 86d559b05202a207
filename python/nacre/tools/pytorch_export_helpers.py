"""What torch.onnx.export wants to know of a module's arguments: their names as graph inputs, and a tuple of them."""
from __future__ import annotations

import inspect
from collections import abc
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch


def _leaves(name: str, value: Any) -> Iterator[str]:
    """A name for each tensor or number of an argument: lists and dictionaries are taken apart, None is no input."""
    if isinstance(value, abc.Mapping):
        parts: Any = value.items()
    elif isinstance(value, abc.Sequence) and not isinstance(value, (str, bytes)):
        parts = enumerate(value)
    else:
        if value is not None:
            yield name
        return
    for key, part in parts:
        yield from _leaves(f"{name}_{key}", part)


def _names(parameters: Sequence[inspect.Parameter], inputs: Sequence[Any], kwargs: Dict[str, Any]) -> List[str]:
    """In the order of forward()'s parameters. What stands behind *args in the signature comes by keyword, where all
    positional arguments are taken by it."""
    names: List[str] = []
    at = 0  # of the next positional argument
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            for i, value in enumerate(inputs[at:]):
                names += _leaves(f"{p.name}_{i}", value)
            at = len(inputs)
        elif p.kind is p.VAR_KEYWORD:
            for name, value in kwargs.items():
                if name not in names:
                    names += _leaves(name, value)
        else:
            given = inputs[at] if at < len(inputs) else None
            names += _leaves(p.name, kwargs.get(p.name) if given is None else given)
            at += 1
    return names


def infer_input_info(module: torch.nn.Module, *inputs: Any, **kwargs: Any) -> Tuple[List[str], Tuple[Any, ...]]:
    """(names, arguments) of a call of the module, as torch.onnx.export takes them:

        names, arguments = infer_input_info(module, x, mask=mask)
        torch.onnx.export(module, arguments, "model.onnx", input_names=names, dynamo=False)

    Numbers become tensors. Without keywords an empty dictionary ends the tuple: the exporter takes a dictionary in the
    last place for keywords, and an argument that is one is safe behind it.
    """
    names = _names(list(inspect.signature(module.forward).parameters.values()), inputs, kwargs)
    values = [*inputs, *(kwargs[n] for n in names if n in kwargs)]
    arguments = [torch.tensor(v) if type(v) in (int, bool, float) else v for v in values]
    return names, (*arguments, *([] if kwargs else [{}]))
