"""SessionOptions and RunOptions.

Every setting is honoured, accepted because it cannot matter here (an INFO line says why), or refused with a sentence:
_known.py has the tables, docs/options.md shows them.
"""
from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from nacre import _core, _known
from nacre._adapter import LoraAdapter
from nacre._enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from nacre._value import OrtValue


def _refuse(what: str, instead: str = "") -> None:
    raise _core.NotImplemented(f"{what} is not supported{'; ' + instead if instead else ''}")


def _field(what: str, kind: Any, value: Any) -> Any:
    """The value as this kind, int, str, bool or an enumeration; TypeError when it is none."""
    fits = isinstance(value, (kind, np.bool_)) if kind in (bool, str) else hasattr(value, "__index__")
    if not fits:
        raise TypeError(f"{what}: expected {kind.__name__}, got {value!r}")
    return kind(value)


def _entry(entries: Dict[str, str], key: str, value: str, longest: int = 1024) -> None:
    if not key or len(key) > longest:
        raise RuntimeError(f"Config key is empty or longer than maximum length {longest}")
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"a configuration entry is two texts, got {key!r}: {value!r}")
    entries[key] = value


def _severity(where: str, value: int) -> None:
    if not -1 <= value <= 4:
        raise ValueError(f"{where}.log_severity_level: expected -1 (that of the process) to 4, got {value}")


def _hint(path: Any) -> str:
    """Says that a library is one of onnxruntime's, where it is."""
    try:
        with open(path, "rb") as f:
            theirs = b"RegisterCustomOps" in f.read()
    except OSError:
        return ""
    return "; its operators are for onnxruntime (RegisterCustomOps): build them on nacre_plugin.h" if theirs else ""

_MOST_STREAMS = 64


class SessionOptions:
    """How a session is made. Defaults are onnxruntime's; docs/options.md tells what becomes of each setting."""

    # name: (default, what a value is made with)
    _FIELDS = {
        "enable_cpu_mem_arena": (True, bool), "enable_mem_pattern": (True, bool), "enable_mem_reuse": (True, bool),
        "enable_profiling": (False, bool), "execution_mode": (ExecutionMode.ORT_SEQUENTIAL, ExecutionMode),
        "execution_order": (ExecutionOrder.DEFAULT, ExecutionOrder),
        "graph_optimization_level": (GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel),
        "inter_op_num_threads": (0, int), "intra_op_num_threads": (0, int), "log_severity_level": (-1, int),
        "log_verbosity_level": (0, int), "logid": ("", str), "optimized_model_filepath": ("", str),
        "profile_file_prefix": ("onnxruntime_profile_", str), "use_deterministic_compute": (False, bool),
        "use_per_session_threads": (True, bool),
    }

    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_profiling: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    profile_file_prefix: str
    use_deterministic_compute: bool
    use_per_session_threads: bool
    _entries: Dict[str, str]
    _dims: Dict[str, int]
    _denotations: Dict[str, int]
    _given: Dict[str, _core.Value]
    _files: Dict[str, bytes]
    _libraries: List[str]
    _variables: List[str]
    _ties: List[Tuple[str, str]]
    _providers: List[Tuple[str, Dict[str, str]]]
    _cancelled: bool

    def __init__(self) -> None:
        for name, (default, _) in self._FIELDS.items():
            object.__setattr__(self, name, default)
        for name in ("_entries", "_dims", "_denotations", "_given", "_files"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_cancelled", False)
        for name in ("_libraries", "_providers", "_variables", "_ties"):
            object.__setattr__(self, name, [])

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._FIELDS:
            raise AttributeError(f"'SessionOptions' object has no attribute '{name}'")
        value = _field(f"SessionOptions.{name}", self._FIELDS[name][1], value)
        if name in ("intra_op_num_threads", "inter_op_num_threads") and value < 0:
            raise ValueError(f"SessionOptions.{name}: expected 0 (as many as the machine allows) or more, got {value}")
        if name == "log_severity_level":
            _severity("SessionOptions", value)
        object.__setattr__(self, name, value)

    # ---- entries ----

    def add_session_config_entry(self, config_key: str, config_value: str) -> None:
        """A setting by onnxruntime's key; looked at when a session is made."""
        _entry(self._entries, config_key, config_value)

    def get_session_config_entry(self, config_key: str) -> str:
        if config_key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {config_key}")
        return self._entries[config_key]

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Every input dim that the model calls dim_name has this size."""
        self._dims[str(dim_name)] = int(dim_value)

    def add_free_dimension_override_by_denotation(self, denotation: str, dim_value: int) -> None:
        """Every input dim that the model denotes so, and names, has this size."""
        self._denotations[str(denotation)] = int(dim_value)

    def register_custom_ops_library(self, path: str) -> None:
        """Adds the operators of a shared library that exports nacre_plugin_register (nacre_plugin.h). Libraries for
        onnxruntime, which export RegisterCustomOps, are refused."""
        try:
            _core.Env(1).load_plugin(str(path))
        except Exception as e:
            raise _core.Fail(f"Failed to load library {path}: {e}{_hint(path)}") from None
        self._libraries.append(str(path))

    # ---- providers ----

    def add_provider(self, provider: str, options: Dict[str, str]) -> None:
        self._providers.append((str(provider), dict(options)))

    def has_providers(self) -> bool:
        return bool(self._providers)

    def add_provider_for_devices(self, ep_devices: Any, options: Any) -> None:
        _refuse("add_provider_for_devices", "use providers=[...]")

    def set_provider_selection_policy(self, policy: Any) -> None:
        _refuse("a provider selection policy", "use providers=[...]")

    def set_provider_selection_policy_delegate(self, delegate: Any) -> None:
        _refuse("a provider selection policy", "use providers=[...]")

    def set_ep_context_data_read_func(self, read_func: Any, max_data_size: int) -> None:
        _refuse("a compiled context", "no provider keeps one")

    def clear_ep_context_data_read_func(self) -> None:
        """There is none."""

    # ---- contents given by the caller ----

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """The contents of the initializer of this name, of the model's type and shape; the memory is used as it
        lies."""
        if not isinstance(value, OrtValue) or not value.is_tensor():
            raise RuntimeError(f"add_initializer: expected an OrtValue that holds a tensor, got {type(value)}")
        self._given[str(name)] = value._value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """The contents of initializers that the model keeps in other files, which then need not be there."""
        if len(names) != len(values):
            raise RuntimeError(f"add_external_initializers: {len(names)} names, {len(values)} values")
        for name, value in zip(names, values):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(self, names: Sequence[str], buffers: Sequence[Any],
                                                       lengths: Sequence[int]) -> None:
        """The contents of the files in which the model keeps initializers, by the names that the model gives them."""
        if not len(names) == len(buffers) == len(lengths):
            raise RuntimeError("names, buffers and lengths: expected as many of each")
        for name, buffer, length in zip(names, buffers, lengths):
            self._files[str(name)] = bytes(memoryview(buffer).cast("B")[:int(length)])

    # ---- variables ----

    def add_variable(self, name: str) -> None:
        """The initializer of this name is read from the state, where it starts as the model has it. '*': all
        initializers of floats but those that decide sizes."""
        self._variables.append(str(name))

    def add_tie(self, input_name: str, output_name: str) -> None:
        """The output becomes the input of the next run: both leave the signature and live in the state, under the
        input's name."""
        self._ties.append((str(input_name), str(output_name)))

    # ---- options that a model brings ----

    #: What a model's metadata may set, and which values of it.
    _FROM_MODEL = {"intra_op_num_threads": None, "inter_op_num_threads": None, "execution_mode": (0, 1),
                   "graph_optimization_level": (0, 1, 2, 3, 99), "enable_profiling": (0, 1)}

    @classmethod
    def _of_model(cls, config: str) -> "SessionOptions":
        """Those that the metadata entry ort_config holds as JSON: {"session_options": {"intra_op_num_threads": 2}}."""
        made = cls()
        try:
            found = json.loads(config)
        except ValueError as e:
            raise RuntimeError(f"the JSON of the model's ort_config cannot be parsed: {e}") from None
        own = found.get("session_options") if isinstance(found, dict) else None
        for name, value in own.items() if isinstance(own, dict) else ():
            if name not in cls._FROM_MODEL:
                _core.log(_known.WARNING, f"the model's ort_config: {name} is not known and without effect")
                continue
            allowed = cls._FROM_MODEL[name]
            if not isinstance(value, int) or (allowed is not None and value not in allowed):
                raise RuntimeError(f"the model's ort_config: {name}: expected "
                                   f"{'a whole number' if allowed is None else f'one of {allowed}'}, got {value!r}")
            setattr(made, name, bool(value) if name == "enable_profiling" else value)
        return made

    def set_load_cancellation_flag(self, value: bool) -> None:
        """Sessions with these options are not made while it is set."""
        object.__setattr__(self, "_cancelled", bool(value))

    # ---- what the library is told ----

    def _settings(self) -> List[Tuple[str, str]]:
        """The library's options. The log's come first: messages about the others obey them."""
        if self._cancelled:
            raise _core.ModelLoadCanceled("the load was cancelled: set_load_cancellation_flag(True)")
        out = []
        if self.log_severity_level >= 0:
            out.append(("log_level", ("verbose", "info", "warning", "error", "off")[self.log_severity_level]))
        if self.logid:
            out.append(("log_id", self.logid))
        out.append(("level", {0: "off", 1: "basic", 2: "extended"}.get(int(self.graph_optimization_level), "all")))
        if self.optimized_model_filepath:
            out += [("save", self.optimized_model_filepath), ("save_format", self._save_format())]
        if self._switch("session.disable_prepacking"):
            out.append(("packing", "off"))
        if not self._switch("nacre.winograd", "1"):
            out.append(("winograd", "off"))
        if self._switch("nacre.cudnn_dropout"):
            out.append(("cudnn_dropout", "on"))
        if self._switch("nacre.recompute"):
            out.append(("recompute", "*"))
        if self._switch("nacre.tune"):
            out.append(("tune", "on"))
        if self._switch("nacre.strict"):
            out.append(("strict", "on"))
        elif self._switch("session.strict_shape_type_inference"):
            out.append(("strict", "shapes"))
        for option in ("compute", "patterns", "packed_file"):
            if f"nacre.{option}" in self._entries:
                out.append((option, self._entries[f"nacre.{option}"]))
        if self._switch("session.disable_cpu_ep_fallback"):
            out.append(("host_nodes", "off"))
        if self._switch("session.set_denormal_as_zero"):
            out.append(("flush_denormals", "on"))
        if self.enable_profiling:
            out.append(("profile", "on"))
        if self._switch("session.record_ep_graph_assignment_info"):
            out.append(("dumps", "on"))
        for key, option in (("session.optimized_model_external_initializers_file_name", "save_data"),
                            ("session.optimized_model_external_initializers_min_size_in_bytes", "save_data_bytes")):
            if self._entries.get(key):
                out.append((option, self._entries[key]))
        return out + [("variables", name) for name in self._variables] + self._streams()

    def _save_format(self) -> str:
        value = self._entries.get("session.save_model_format", "")
        if value not in ("", "ONNX", "ORT"):
            raise _core.InvalidArgument(f"session.save_model_format: expected ONNX or ORT, got '{value}'")
        return value.lower() or "name"

    def _switch(self, key: str, default: str = "0") -> bool:
        value = self._entries.get(key, default)
        if value not in ("0", "1"):
            raise _core.InvalidArgument(f"{key}: expected 0 or 1, got '{value}'")
        return value == "1"

    def _notes(self) -> List[_known.Note]:
        """What is to be said of settings that have no effect. Raises for those that are refused."""
        notes = _known.entry_notes(self._entries)
        for name, why in _known.FIELDS_WITHOUT_EFFECT.items():
            value = getattr(self, name)
            if value != self._FIELDS[name][0]:
                notes.append((_known.INFO, f"SessionOptions.{name}={value} is without effect: {why}"))
        return notes

    def _optimizers_off(self) -> List[str]:
        return [n for n in self._entries.get("optimization.disable_specified_optimizers", "").split(";") if n]

    def _streams(self) -> List[Tuple[str, str]]:
        out = []
        if "nacre.streams" in self._entries:
            out.append(("streams", self._entries["nacre.streams"]))
        elif self.execution_mode == ExecutionMode.ORT_PARALLEL and self.inter_op_num_threads > 1:
            out.append(("streams", str(min(self.inter_op_num_threads, _MOST_STREAMS))))
        for key, value in self._entries.items():
            if key.startswith(_known.STREAM_OF):
                out.append(("stream", f"{value} {key[len(_known.STREAM_OF):]}"))
        return out

    def _folder(self) -> Any:
        return self._entries.get("session.model_external_initializers_file_folder_path")


class RunOptions(_core.RunOptions):
    """What a run obeys. Setting terminate, from any thread, stops the runs that have these options."""

    # name: (default, what a value is)
    _FIELDS = {"log_severity_level": (-1, int), "log_verbosity_level": (0, int), "logid": ("", str),
               "only_execute_path_to_fetches": (False, bool)}

    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    _entries: Dict[str, str]
    _adapters: List[LoraAdapter]

    def __init__(self) -> None:
        for name, (default, _) in self._FIELDS.items():
            setattr(self, name, default)
        object.__setattr__(self, "_entries", {})
        object.__setattr__(self, "_adapters", [])

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "terminate" and name not in self._FIELDS:
            raise AttributeError(f"'RunOptions' object has no attribute '{name}'")
        kind = bool if name == "terminate" else self._FIELDS[name][1]
        value = _field(f"RunOptions.{name}", kind, value)
        if name == "log_severity_level":
            _severity("RunOptions", value)
        if name in _known.RUN_FIELDS_WITHOUT_EFFECT and value != self._FIELDS[name][0]:
            why = _known.RUN_FIELDS_WITHOUT_EFFECT[name]
            _core.log(_known.INFO, f"RunOptions.{name}={value} is without effect: {why}")
        object.__setattr__(self, name, value)
        if name in ("log_severity_level", "logid"):
            self.set_log(getattr(self, "log_severity_level", -1), getattr(self, "logid", ""))

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """A setting by onnxruntime's key; docs/options.md tells what becomes of each."""
        _known.refuse_entry(_known.RUN_ENTRIES_REFUSED, config_key, config_value)
        _entry(self._entries, config_key, config_value)
        known = [*_known.RUN_ENTRIES_HONOURED, *_known.RUN_ENTRIES_WITHOUT_EFFECT]
        if config_key in _known.RUN_ENTRIES_WITHOUT_EFFECT:
            why = _known.RUN_ENTRIES_WITHOUT_EFFECT[config_key]
            _core.log(_known.INFO, f"{config_key}={config_value} is without effect: {why}")
        elif config_key not in known:
            near = _known.near(config_key, known)
            _core.log(_known.WARNING, f"{config_key}={config_value} is not known and without effect{near}")

    def _unwaited(self) -> bool:
        return self._entries.get("disable_synchronize_execution_providers") == "1"

    def _shrinks(self) -> bool:
        return bool(self._entries.get("memory.enable_memory_arena_shrinkage"))

    def get_run_config_entry(self, config_key: str) -> str:
        if config_key not in self._entries:
            raise RuntimeError(f"RunOptions does not have configuration with key: {config_key}")
        return self._entries[config_key]

    def add_active_adapter(self, adapter: Optional[LoraAdapter]) -> None:
        """Runs are fed the adapter's tensors, in place of what is fed under their names."""
        if adapter is None:
            return
        if not isinstance(adapter, LoraAdapter):
            raise TypeError(f"add_active_adapter: expected LoraAdapter, got {type(adapter)}")
        self._adapters.append(adapter)

    def _adapted(self, feeds: Dict[str, Any]) -> Dict[str, Any]:
        for adapter in self._adapters:
            feeds = {**feeds, **{name: value._value for name, value in adapter._parameters.items()}}
        return feeds
