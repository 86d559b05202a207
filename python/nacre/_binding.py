"""IOBinding: inputs and outputs bound once, for runs that allocate nothing for them."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from nacre import _core, _types
from nacre._device import host_only
from nacre._value import OrtValue


class IOBinding:
    """What a session's run_with_iobinding reads and writes. Bound memory is kept alive, never copied when dense."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: Dict[str, _core.Value] = {}
        self._outputs: Dict[str, Optional[_core.Value]] = {}
        self._results: Dict[str, _core.Value] = {}

    def _check(self, name: str, known: Dict[str, str]) -> str:
        if name not in known:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list; there are "
                               f"{', '.join(known)}")
        return known[name]

    # ---- inputs ----

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """An input from an array (or whatever run takes)."""
        self._inputs[name] = _types.to_value(arr_on_cpu, self._check(name, self._session._input_types))

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        """An input from memory at an address, which the caller keeps."""
        host_only(device_type, "an input")
        self._check(name, self._session._input_types)
        self._inputs[name] = _core.at(_types.type_number(element_type), shape, int(buffer_ptr), None)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._check(name, self._session._input_types)
        self._inputs[name] = ortvalue._value

    def synchronize_inputs(self) -> None:
        """Nothing waits: bound memory is the host's."""

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    # ---- outputs ----

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        """An output into memory at an address, or, without one, into memory that the run allocates."""
        host_only(device_type, "an output")
        self._check(name, self._session._output_types)
        value = None
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
            value = _core.at(_types.type_number(element_type), shape, int(buffer_ptr), None)
        elif shape is not None and element_type is not None:
            value = _core.empty(_types.type_number(element_type), shape)
        self._outputs[name] = value
        self._results.pop(name, None)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._check(name, self._session._output_types)
        self._outputs[name] = ortvalue._value
        self._results.pop(name, None)

    def synchronize_outputs(self) -> None:
        """Nothing waits: a run returns when its outputs are written."""

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    # ---- results ----

    def _values(self) -> List[_core.Value]:
        return [v for n in self._outputs if (v := self._results.get(n, self._outputs[n])) is not None]

    def get_outputs(self) -> List[OrtValue]:
        """The outputs in the order in which they were bound."""
        return [OrtValue(v) for v in self._values()]

    def get_outputs_as_ortvaluevector(self) -> List[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> List[Any]:
        """The outputs as arrays, lists and dicts over copied memory."""
        copies = (_types.to_python(v) for v in self._values())
        return [c.copy() if isinstance(c, np.ndarray) else c for c in copies]

    def _run(self, session: _core.Session, run_options: Any) -> None:
        names = list(self._outputs)
        values = session.run(names, dict(self._inputs), run_options, [self._outputs[n] for n in names])
        self._results = dict(zip(names, values))


SessionIOBinding = IOBinding
