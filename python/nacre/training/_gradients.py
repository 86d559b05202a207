"""gradients: a model with the gradients of its values as further outputs."""
from __future__ import annotations

from typing import Any, List, Sequence, Union

from nacre import _core
from nacre._device import envs
from nacre._session import _source

Names = Union[str, Sequence[str]]


def _names(names: Any, what: str) -> List[str]:
    found = [names] if isinstance(names, str) else list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{what}: expected names, got {name!r}")
    return found


def gradients(model: Any, y: Names, xs: Names, *, stop: Names = (), cotangents: bool = False,
              standard: bool = False) -> Any:
    """The model with an output `grad:<x>` for each name in `xs`: the gradient of `y` by it.

    model: a path, the bytes of an ONNX file, or an onnx.ModelProto; it is not changed.
    y: the name of a value of the main graph, or several: then the gradient is that of their sum. All elements of y are
        summed, as in ONNX's op Gradient and as y.sum().backward() would.
    xs: names of inputs, initializers or other values of the main graph. Where y does not depend on one, its gradient is
        zeros, and a warning says so.
    stop: names of values through which no gradient passes: they count as independent of what they are made of. An x in
        it has its gradient all the same.
    cotangents: for each y an input `d:<y>` of the same type, the gradient that arrives there, in place of ones.
    standard: gradient ops of Nacre's own (domain nacre) are taken apart into ONNX's, so that other runtimes can run the
        model; where one cannot be, that is an error which names it.

    Gives an onnx.ModelProto where the package onnx can be imported, else the bytes of the file.
    """
    source = _source(model)
    made = _core.gradients(envs.get(), source, _names(y, "y"), _names(xs, "xs"), _names(stop, "stop"),
                           bool(cotangents), bool(standard))
    try:
        import onnx
    except ImportError:
        return made
    return onnx.ModelProto.FromString(made)


def shared_gradients(model: Any, y: str, xs: Sequence[str]) -> Any:
    """gradients in the form that others can run and check too, where there is one."""
    try:
        return gradients(model, y, xs, standard=True)
    except _core.NotImplemented:
        return gradients(model, y, xs)
