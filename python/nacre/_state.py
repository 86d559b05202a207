"""State: named tensors that sessions keep their variables in, so that several sessions work on one set of weights."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional

import numpy as np

from nacre import _core, _types
from nacre._device import envs, place
from nacre._value import OrtValue

if TYPE_CHECKING:
    from nacre._session import Session


def _borrow(x: Any) -> _core.Value:
    """A Value over the very memory of an array, an OrtValue or what speaks DLPack; never over a copy."""
    if isinstance(x, OrtValue):
        return x._value
    if isinstance(x, np.ndarray):
        value = _types.to_value(x)
        if value.kind != "tensor" or value.data_ptr != x.ctypes.data:
            raise ValueError("expected an array of numbers that lies dense in the machine's byte order: it would have "
                             "to be copied")
        return value
    if getattr(x, "requires_grad", False):  # PyTorch lends no parameter, but the tensor below it
        x = x.detach()
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"expected an array, an OrtValue or an object that speaks DLPack, got {type(x)}")
    return _types.from_dlpack(x)


class State(Mapping[str, np.ndarray]):
    """The contents of variables, by name: own memory, or memory of numpy, PyTorch and others, used where it lies.

        state = nacre.State.lend_all(dict(torch_module.named_parameters()))
        session.run(None, feeds, state=state)

    A run needs all the variables of its session, with their types and shapes; a state may have more. Reading is shared;
    a run that updates a state holds it alone. `state[name]` is a copy; `state[name] = array` sets the contents, or adds
    a variable of that name.
    """

    def __init__(self, session: Optional["Session"] = None, device_type: str = "cpu", device_id: int = 0) -> None:
        """session: all its variables, with their initial contents, on its device. None: empty, for that device."""
        if session is None:
            self._state = _core.State(envs.get(), place(device_type, device_id))
            return
        self._state = _core.State(session._env, session._device)
        self._state.add_session(session._session)

    @classmethod
    def _over(cls, state: _core.State) -> "State":
        made = cls.__new__(cls)
        made._state = state
        return made

    @classmethod
    def lend_all(cls, tensors: Mapping[str, Any], device_type: str = "cpu", device_id: int = 0) -> "State":
        """A state over the memory of these tensors: see lend."""
        made = cls(None, device_type, device_id)
        for name, x in tensors.items():
            made.lend(name, x)
        return made

    # ---- adding ----

    def add_session(self, session: "Session") -> None:
        """The variables of the session that are not here yet, with their initial contents."""
        self._state.add_session(session._session)

    def lend(self, name: str, x: Any, writable: Optional[bool] = None) -> None:
        """A variable over the memory of x: an array, an OrtValue, or what speaks DLPack, such as a PyTorch parameter.
        Nothing is copied, runs update it where it lies, and it is kept as long as the state. Memory that cannot be
        written (a mapped file) is lent to be read, and refused to sessions that update it; so is any with
        writable=False."""
        value = _borrow(x)
        self._state.lend(name, value, value.writable if writable is None else writable)

    def __setitem__(self, name: str, x: Any) -> None:
        value = _types.to_value(x)
        if name in self:
            self._state.set(name, value)
            return
        if value.device[0] != "cpu":
            value = _types.to_value(_types.to_numpy(value))
        self._state.add(name, value)

    # ---- reading ----

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise KeyError(name)
        return _types.to_numpy(self._state.get(name))

    def __contains__(self, name: object) -> bool:
        return name in self._state.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.names())

    def __len__(self) -> int:
        return len(self._state.names())

    def share(self, name: str) -> OrtValue:
        """The variable's own memory, on its device: good until it grows or is set to another shape. Not for variables
        whose rows lie apart (a past in use)."""
        return OrtValue(self._state.share(name, not self.describe(name)["is_read_only"]))

    def describe(self, name: str) -> Dict[str, Any]:
        """What is known of a variable: type (ONNX's number), shape, device, grow_axis, capacity, is_lent, ..."""
        names = self._state.names()
        if name not in names:
            raise KeyError(name)
        return self._state.describe(names.index(name))

    # ---- mending ----

    @property
    def is_dirty(self) -> bool:
        """Whether a failed run left variables half updated: runs refuse until these are reset or set."""
        return self._state.is_dirty

    def reset(self, session: "Session", name: Optional[str] = None) -> None:
        """What the session's model says, for all of its variables or for one."""
        self._state.reset(session._session, name)

    def __repr__(self) -> str:
        return f"State({', '.join(self)})"
