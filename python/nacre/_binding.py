"""IOBinding: inputs and outputs bound once, for runs that allocate nothing for them."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from nacre import _core, _types
from nacre._device import OrtDevice, envs, place
from nacre._value import OrtValue, OrtValueVector

Place = Union[str, OrtDevice]


class _Call(NamedTuple):
    """What a run is given of a binding, until something else is bound."""

    names: List[str]
    inputs: Dict[str, _core.Value]
    outputs: List[Optional[_core.Value]]
    kept: Optional[List[str]]
    bound: List[_core.Value]
    on_host: bool  # it reads or writes memory of the host, where nothing runs in the order of a stream


class IOBinding:
    """What a session's run_with_iobinding reads and writes. Bound memory is kept alive, never copied when dense."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: Dict[str, _core.Value] = {}
        self._outputs: Dict[str, Optional[_core.Value]] = {}
        self._places: Dict[str, str] = {}  # outputs that a run allocates on a device
        self._results: Dict[str, _core.Value] = {}
        self._made: Optional[_Call] = None

    def _check(self, name: str, known: Dict[str, str]) -> str:
        if name not in known:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list; there are "
                               f"{', '.join(known)}")
        return known[name]

    # ---- inputs ----

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """An input from an array (or whatever run takes)."""
        self._bind_input(name, _types.to_value(arr_on_cpu, self._check(name, self._session._input_types)))

    def bind_input(self, name: str, device_type: Place, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        """An input from memory at an address of the host or of a device, which the caller keeps: nothing is copied to
        bind it."""
        self._check(name, self._session._input_types)
        self._bind_input(name, self._at(device_type, device_id, element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._check(name, self._session._input_types)
        self._bind_input(name, ortvalue._value)

    def _bind_input(self, name: str, value: _core.Value) -> None:
        self._inputs[name] = value
        self._made = None

    def synchronize_inputs(self) -> None:
        """Waits until what was queued on devices of bound inputs is done."""
        for name, number in {v.device for v in self._inputs.values()} - {("cpu", 0)}:
            envs.get().synchronize(f"{name}:{number}" if name == "cuda" else name)

    @staticmethod
    def _at(device_type: Place, device_id: int, element_type: Any, shape: Sequence[int], pointer: int) -> _core.Value:
        device, number = place(device_type, device_id), _types.type_number(element_type)
        return _core.at(number, shape, int(pointer), None, envs.get(), device)

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()
        self._made = None

    # ---- outputs ----

    def bind_output(self, name: str, device_type: Place = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        """An output into memory at an address, or, without one, into memory of that device that the run allocates; a
        shape without an address is not used."""
        device, value = place(device_type, device_id), None
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
            value = self._at(device_type, device_id, element_type, shape, buffer_ptr)
        self._bind(name, value)
        if value is None and device is not None:
            self._places[name] = device
            self._made = None

    def _bind(self, name: str, value: Optional[_core.Value]) -> None:
        self._check(name, self._session._output_types)
        self._outputs[name] = value
        self._places.pop(name, None)
        self._results.pop(name, None)
        self._made = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._bind(name, ortvalue._value)

    def synchronize_outputs(self) -> None:
        """Waits for runs on the caller's stream that were not waited for; others have ended when they return."""
        self._session._synchronize()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._places.clear()
        self._results.clear()
        self._made = None

    # ---- results ----

    def _values(self) -> Dict[str, _core.Value]:
        return {n: v for n in self._outputs if (v := self._results.get(n, self._outputs[n])) is not None}

    def get_outputs(self) -> List[OrtValue]:
        """The outputs in the order in which they were bound."""
        return [self._session._ortvalue(n, v) for n, v in self._values().items()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return OrtValueVector(v._ortvalue for v in self.get_outputs())

    def copy_outputs_to_cpu(self) -> List[Any]:
        """The outputs as arrays, lists and dicts over copied memory."""
        copies = [_types.to_python(v) for v in self._values().values()]
        return [c.copy() if isinstance(c, np.ndarray) else c for c in copies]

    def _call(self) -> _Call:
        made = self._made
        if made is None:
            names = list(self._outputs)
            bound = [v for v in (*self._inputs.values(), *self._outputs.values()) if v is not None]
            on_host = any(v.device[0] == "cpu" for v in bound) or any(
                v is None and n not in self._places for n, v in self._outputs.items())
            made = self._made = _Call(names, dict(self._inputs), list(self._outputs.values()),
                                      [n for n in names if n in self._places] or None, bound, on_host)
        return made

    def _run(self, session: _core.Session, run_options: Any, state: Any = None, wait: bool = True) -> None:
        call = self._call()
        try:
            values = session.run(call.names, call.inputs, run_options, call.outputs, call.kept, state, wait)
        except (_core.Fail, _core.InvalidArgument, _core.RuntimeException, _core.NotImplemented, _core.EPFail) as e:
            raise RuntimeError(f"Error in execution: {e}") from e  # onnxruntime's class for runs of bindings
        results = dict(zip(call.names, values))
        for n, device in self._places.items():
            results[n] = self._moved(results[n], device)
        self._results = results

    @staticmethod
    def _moved(value: _core.Value, device: str) -> _core.Value:
        """The value on the device where it was asked for; a session's own device it is on already."""
        name, number = value.device
        if value.kind != "tensor" or device in (name, f"{name}:{number}"):
            return value
        there = _core.empty(value.type, value.shape, envs.get(), device)
        there.copy_from(value)
        return there


class SessionIOBinding(IOBinding):
    """An IOBinding as onnxruntime's native class: a device is an OrtDevice, and comes with its number."""

    def __init__(self, session: Any) -> None:
        super().__init__(getattr(session, "_of", session))

    def bind_input(self, name: str, *what: Any) -> None:  # type: ignore[override]
        """What run takes; or device, element type, shape and address of memory that the caller keeps."""
        if len(what) == 1:
            self.bind_cpu_input(name, what[0])
        else:
            device, element_type, shape, address = what
            super().bind_input(name, device, 0, element_type, shape, address)

    def bind_output(self, name: str, device: Any = "cpu", element_type: Any = None,  # type: ignore[override]
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        super().bind_output(name, device, 0, element_type, shape, buffer_ptr)

    def get_outputs(self) -> OrtValueVector:  # type: ignore[override]
        return OrtValueVector(v._ortvalue for v in super().get_outputs())
