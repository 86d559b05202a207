"""CheckpointState: the parameters of a model, what an optimizer keeps of them, and properties of the user's own."""
from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from nacre import _core, _types

if TYPE_CHECKING:
    from nacre.training.api.module import Module

Property = Union[int, float, str]


class Parameter:
    """One parameter. `data` is the memory that trains: what is written into it counts at the next step."""

    def __init__(self, state: "CheckpointState", index: int) -> None:
        self._state = state
        self._index = index

    @property
    def name(self) -> str:
        return self._state._rows[self._index][0]

    @property
    def requires_grad(self) -> bool:
        return self._state._rows[self._index][2]

    @property
    def data(self) -> np.ndarray:
        return self._state._data(self._index)

    @data.setter
    def data(self, value: np.ndarray) -> None:
        self._state.parameters[self.name] = value

    @property
    def grad(self) -> Optional[np.ndarray]:
        """The sum of the gradients since the last reset; None before a Module exists, and of a frozen parameter."""
        module = self._state._module()
        value = module._training.gradient(self.name) if module is not None else None
        return None if value is None else _types.to_numpy(value)

    def __repr__(self) -> str:
        return f"Parameter(name={self.name!r}, requires_grad={self.requires_grad}, data={self.data!r})"


class Parameters:
    """The parameters of a state, by name; iteration is over (name, Parameter), sorted."""

    def __init__(self, state: "CheckpointState") -> None:
        self._state = state

    def _index(self, name: str) -> int:
        found = self._state._index.get(name)
        if found is None:
            raise KeyError(f"Parameter {name} not found.")
        return found

    def __getitem__(self, name: str) -> Parameter:
        index = self._index(name)
        if self._state._checkpoint.is_nominal:
            raise RuntimeError(f"Parameter {name} has no contents: the checkpoint is nominal. "
                               "Please load the parameter states first.")
        return Parameter(self._state, index)

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        index = self._index(name)
        if self._state._checkpoint.is_nominal:
            raise RuntimeError(f"Parameter {name} cannot be set alone: the checkpoint is nominal. "
                               "Please load all the parameter states first.")
        module, value = self._state._module(), np.asarray(value)
        data = self._state._data(index)
        if value.dtype != data.dtype or value.shape != data.shape:
            raise ValueError(f"Parameter {name}: expected {data.dtype} of shape {data.shape}, got {value.dtype} of "
                             f"shape {value.shape}")
        if module is None:
            data[...] = value
        else:
            module._training.set_parameter(name, _types.to_value(np.ascontiguousarray(value).reshape(value.shape)))

    def __contains__(self, name: object) -> bool:
        return name in self._state._index

    def __iter__(self) -> Iterator[Tuple[str, Parameter]]:
        return iter([(name, self[name]) for name in sorted(self._state._index)])

    def __len__(self) -> int:
        return len(self._state._rows)

    def __repr__(self) -> str:
        return f"Parameters({sorted(self._state._index)})"


class Properties:
    """Integers, floats (32 bits) and texts of the user's own, by name; iteration is over (name, value), sorted."""

    def __init__(self, checkpoint: _core.Checkpoint) -> None:
        self._checkpoint = checkpoint

    def __getitem__(self, name: str) -> Property:
        found = self._checkpoint.properties()
        if name not in found:
            raise KeyError(f"Property {name} not found.")
        return found[name]

    def __setitem__(self, name: str, value: Property) -> None:
        if isinstance(value, (bool, np.bool_, np.integer)):
            value = int(value)
        elif isinstance(value, np.floating):
            value = float(value)
        if not isinstance(value, (int, float, str)):
            raise TypeError(f"Property {name}: expected an int, a float or a str, got {type(value)}")
        self._checkpoint.set_property(name, value)

    def __contains__(self, name: object) -> bool:
        return name in self._checkpoint.properties()

    def __iter__(self) -> Iterator[Tuple[str, Property]]:
        return iter(sorted(self._checkpoint.properties().items()))

    def __len__(self) -> int:
        return len(self._checkpoint.properties())

    def __repr__(self) -> str:
        return f"Properties({self._checkpoint.properties()})"


class CheckpointState:
    """What training keeps between processes: see load_checkpoint and save_checkpoint."""

    def __init__(self, checkpoint: _core.Checkpoint) -> None:
        if not isinstance(checkpoint, _core.Checkpoint):
            raise TypeError(f"expected what load_checkpoint gives, got {type(checkpoint)}")
        self._checkpoint = checkpoint
        self._rows: List[Tuple[str, int, bool]] = checkpoint.parameters()
        self._index: Dict[str, int] = {row[0]: i for i, row in enumerate(self._rows)}
        self._module: Any = lambda: None

    def _data(self, index: int) -> np.ndarray:
        module = self._module()
        if module is not None:
            module._fetch()
        return _types.to_numpy(self._checkpoint.value(index))

    def _attach(self, module: "Module") -> None:
        self._module = weakref.ref(module)

    @classmethod
    def load_checkpoint(cls, checkpoint_uri: Union[str, os.PathLike]) -> "CheckpointState":
        """A checkpoint of nacre (safetensors) or of onnxruntime, told by its bytes."""
        return cls(_core.Checkpoint(os.fspath(checkpoint_uri)))

    @classmethod
    def save_checkpoint(cls, state: "CheckpointState", checkpoint_uri: Union[str, os.PathLike],
                        include_optimizer_state: bool = False, *, format: str = "safetensors") -> None:
        """format "ort": what onnxruntime reads; the rate, the schedule and the random state are properties there."""
        module = state._module()
        if module is not None:
            module._training.sync()
        state._checkpoint.save(os.fspath(checkpoint_uri), format, include_optimizer_state)

    @property
    def parameters(self) -> Parameters:
        return Parameters(self)

    @property
    def properties(self) -> Properties:
        return Properties(self._checkpoint)
