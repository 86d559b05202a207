"""InferenceSession: a model that is ready to run."""
from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Union

from nacre import _core, _known, _types
from nacre._binding import IOBinding
from nacre._denotation import metadata_of, names_of
from nacre._device import (OrtEpAssignedSubgraph, OrtEpDevice, OrtMemoryInfo, Provider, assignments, choose, envs,
                           get_ep_devices, memory_info, stream_at)
from nacre._native import NativeSession
from nacre._options import RunOptions, SessionOptions
from nacre._profile import Profile
from nacre._sparse import SparseTensor, from_dense
from nacre._state import State
from nacre._value import OrtValue

_INPUTS, _OUTPUTS, _OVERRIDABLE, _VARIABLES = 0, 1, 2, 3


class NodeArg:
    """Name, type ('tensor(float)') and shape of an input or output. A dim is a number, a name, or None."""

    def __init__(self, name: str, type: str, shape: List[Union[int, str, None]]) -> None:
        self._fields = (name, type, shape)

    name: str = property(lambda self: self._fields[0])  # type: ignore[assignment]
    type: str = property(lambda self: self._fields[1])  # type: ignore[assignment]
    shape: List[Union[int, str, None]] = property(lambda self: list(self._fields[2]))  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class ModelMetadata:
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Dict[str, str]

    def __init__(self, producer_name: str = "", graph_name: str = "", domain: str = "", description: str = "",
                 graph_description: str = "", version: int = 0,
                 custom_metadata_map: Optional[Dict[str, str]] = None) -> None:
        self.producer_name, self.graph_name, self.domain = producer_name, graph_name, domain
        self.description, self.graph_description, self.version = description, graph_description, version
        self.custom_metadata_map = dict(custom_metadata_map or {})


def _source(path_or_bytes: Any) -> Union[str, bytes]:
    if isinstance(path_or_bytes, (str, os.PathLike)):
        return os.fspath(path_or_bytes)
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes)
    if hasattr(path_or_bytes, "SerializeToString"):
        return bytes(path_or_bytes.SerializeToString())
    raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")


def _elements(name: str, value: _core.Value, fed: Mapping[str, Any]) -> SparseTensor:
    """A sparse output: an input that the model gives back as it was fed; else what is not zero, as in onnxruntime."""
    given = fed.get(name)
    if isinstance(given, OrtValue):
        given = given._sparse
    return given if isinstance(given, SparseTensor) else from_dense(_types.to_numpy(value))


def _inner(state: Optional[State]) -> Optional[_core.State]:
    if state is not None and not isinstance(state, State):
        raise TypeError(f"state: expected State or None, got {type(state)}")
    return None if state is None else state._state


def _contradict(inputs: Sequence[NodeArg], feeds: Mapping[str, Any]) -> bool:
    """Whether a symbol has two values."""
    sizes: Dict[str, int] = {}
    for a in inputs:
        shape = getattr(feeds.get(a.name), "shape", ())
        for dim, size in zip(a.shape, shape() if callable(shape) else shape):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                return True
    return False


_MOST_UNDER_WAY = 256


def _unwaited(run_options: Optional[RunOptions]) -> bool:
    return isinstance(run_options, RunOptions) and run_options._unwaited()


class Session:
    """The part of InferenceSession that does not make the session."""

    _session: _core.Session
    _env: _core.Env
    _device: str
    _sess_options: SessionOptions
    _providers: Dict[str, Dict[str, str]]
    _inputs: List[NodeArg]
    _outputs: List[NodeArg]
    _overridable: List[NodeArg]
    _required: List[str]
    _output_names: List[str]
    _input_types: Dict[str, str]
    _output_types: Dict[str, str]
    _sparse: Set[str]  # outputs that the model calls sparse tensors: runs give their dense form
    _profile: Optional[Profile] = None
    _stream: Optional[_core.Stream] = None  # the caller's, on which runs are queued
    _under_way: Dict[int, _core.Value] = {}  # what runs that nobody waited for read and write

    @property
    def _sess(self) -> NativeSession:
        """The session as onnxruntime's native class."""
        return NativeSession(self)

    # ---- what it tells ----

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def get_inputs(self) -> List[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> List[NodeArg]:
        return list(self._outputs)

    def get_overridable_initializers(self) -> List[NodeArg]:
        """Initializers that the model also lists as inputs: they may be fed, and need not be."""
        return list(self._overridable)

    def get_variables(self) -> List[NodeArg]:
        """What a state must have for this session: tied inputs, and initializers that the options name."""
        return [NodeArg(*row) for row in self._session.signature(_VARIABLES)]

    @property
    def state(self) -> State:
        """The session's own state, which its runs use where they are given none."""
        return State._over(self._session.state())

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(**self._session.info())

    def get_input_memory_infos(self) -> List[OrtMemoryInfo]:
        """Where each input may lie without being copied by the host: anywhere; what is fed lies in host memory."""
        return [memory_info("cpu") for _ in self._inputs]

    def get_output_memory_infos(self) -> List[OrtMemoryInfo]:
        return [memory_info("cpu") for _ in self._outputs]

    def get_input_epdevices(self) -> List[OrtEpDevice]:
        """The provider that reads each input."""
        device = [d for d in get_ep_devices() if d.ep_name in self._providers][-1:]
        return device * len(self._inputs)

    def get_provider_graph_assignment_info(self) -> List[OrtEpAssignedSubgraph]:
        """Which provider runs which node."""
        if not self._sess_options._switch("session.record_ep_graph_assignment_info"):
            raise _core.Fail("Session configuration entry 'session.record_ep_graph_assignment_info' must be set to "
                             '"1" to retrieve EP graph assignment information.')
        return assignments(self._session.dump("lowered"), next(iter(self._providers)))

    def get_providers(self) -> List[str]:
        return list(self._providers)

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        """Those that a provider knows; the CPU's has none."""
        return {name: {} if name == "CPUExecutionProvider" else dict(own) for name, own in self._providers.items()}

    # ---- running ----

    def _validate_input(self, feed_input_names: Sequence[str]) -> None:
        missing = [n for n in self._required if n not in feed_input_names]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed_input_names)}).")

    def _feeds(self, input_feed: Mapping[str, Any]) -> Dict[str, _core.Value]:
        types, convert = self._input_types, _types.to_value
        return {name: convert(x, types.get(name)) for name, x in input_feed.items()}

    def _run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
             run_options: Optional[RunOptions], state: Optional[State] = None) -> List[_core.Value]:
        self._validate_input(list(input_feed.keys()))
        wanted = list(output_names) if output_names else self._output_names
        inner = _inner(state)
        begin = time.monotonic_ns()
        feeds = self._feeds(input_feed)
        if isinstance(run_options, RunOptions):
            feeds = run_options._adapted(feeds)
        try:
            return self._session.run(wanted, feeds, run_options, None, None, inner)
        except _core.InvalidArgument:
            if not self._part_symbols(feeds):
                raise
            return self._session.run(wanted, feeds, run_options, None, None, inner)
        finally:
            self._after(begin, run_options)

    def _part_symbols(self, feeds: Mapping[str, Any]) -> bool:
        """Makes the session anew with a symbol for each dim of its inputs, where these contradict the names that the
        model gives them: onnxruntime takes no notice of the names. False: they do not, or it is done already."""
        return False

    def _after(self, begin: int, run_options: Optional[RunOptions]) -> None:
        if self._profile is not None:
            self._profile.add("model_run", begin)
        if isinstance(run_options, RunOptions) and run_options._shrinks():
            self._session.trim()

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Optional[RunOptions] = None, *, state: Optional[State] = None) -> List[Any]:
        """Computes the outputs of these names (None: all) from {input name: array, list or dict}. state: where its
        variables are, in place of the session's own."""
        if isinstance(output_names, str):
            raise TypeError(f"output_names: expected a list of names or None, got the text '{output_names}'")
        if (run_options is None and state is None and self._profile is None and isinstance(input_feed, dict)
                and not self._sparse):
            for name in self._required:
                if name not in input_feed:
                    self._validate_input(list(input_feed))
            wanted = list(output_names) if output_names else self._output_names
            try:
                return self._session.run_arrays(wanted, input_feed, self._input_types)
            except _core.InvalidArgument:
                if not self._part_symbols(input_feed):
                    raise
            return self._session.run_arrays(wanted, input_feed, self._input_types)
        values = self._run(output_names, input_feed, run_options, state)
        if not self._sparse:
            return [_types.to_python(v) for v in values]
        wanted = list(output_names) if output_names else self._output_names
        return [_elements(name, v, input_feed) if name in self._sparse else _types.to_python(v)
                for name, v in zip(wanted, values)]

    def _ortvalue(self, name: str, value: _core.Value, fed: Mapping[str, Any] = {}) -> OrtValue:  # noqa: B006
        """An output as an OrtValue; one that the model calls sparse as the elements that are there."""
        made = OrtValue(value)
        if name in self._sparse:
            made._sparse = _elements(name, value, fed)
        return made

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
                  callback: Callable[[Optional[List[Any]], Any, str], None], user_data: Any,
                  run_options: Optional[RunOptions] = None, *, state: Optional[State] = None) -> None:
        """As run, on another thread. callback(results, user_data, error) is called there; error is empty when the run
        succeeded."""
        self._validate_input(list(input_feed.keys()))
        feeds = dict(input_feed)

        def work() -> None:
            results, error = None, ""
            try:
                results = self.run(output_names, feeds, run_options, state=state)
            except Exception as e:  # what a run may raise goes to the callback
                error = str(e) or type(e).__name__
            callback(results if results is not None else [], user_data, error)

        threading.Thread(target=work, name="nacre run_async", daemon=True).start()

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: Optional[RunOptions] = None, *,
                            state: Optional[State] = None) -> List[OrtValue]:
        """As run, with OrtValues in and out."""
        feeds = {name: value._get_c_value() for name, value in input_dict_ort_values.items()}
        wanted = list(output_names) if output_names else self._output_names
        results = self._run(wanted, feeds, run_options, state)
        return [self._ortvalue(n, v, input_dict_ort_values) for n, v in zip(wanted, results)]

    def run_with_ortvaluevector(self, run_options: Optional[RunOptions], feed_names: Sequence[str],
                                feeds: Sequence[OrtValue], fetch_names: Sequence[str], fetches: List[OrtValue],
                                fetch_devices: Any) -> None:
        """As run_with_ort_values, with names and values apart; results are appended to fetches."""
        fetches.extend(self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options))

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None, *,
                           state: Optional[State] = None) -> None:
        """Runs on what is bound; outputs are read from the binding."""
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        begin = time.monotonic_ns()
        wait = self._stream is None or not _unwaited(run_options) or iobinding._call().on_host
        if not wait:
            self._hold(iobinding._call().bound)
        try:
            try:
                iobinding._run(self._session, run_options, _inner(state), wait)
            except RuntimeError:
                if not self._part_symbols(iobinding._inputs):
                    raise
                iobinding._run(self._session, run_options, _inner(state), wait)
        finally:
            self._after(begin, run_options)

    def _hold(self, values: Iterable[_core.Value]) -> None:
        """They outlive the run that is queued next, which is not waited for."""
        if len(self._under_way) > _MOST_UNDER_WAY:
            self._synchronize()
        self._under_way = {**self._under_way, **{id(v): v for v in values}}

    def _synchronize(self) -> None:
        """Waits for the runs on the caller's stream."""
        held = self._under_way
        if self._stream is not None:
            self._stream.synchronize()
        self._under_way = {k: v for k, v in self._under_way.items() if k not in held}

    def create_ortvalue_from_shape_and_type(self, shape: Sequence[int], element_type: Any, device_type: str,
                                            device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    # ---- others ----

    def end_profiling(self) -> str:
        """Writes what was seen since the session was made and gives the file's name; empty when profiling is off or was
        ended before. The file is a list of Chrome trace events of the categories Session and Node."""
        return "" if self._profile is None else self._profile.end()

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, on the clock of time.monotonic_ns(); 0: it is off."""
        return 0 if self._profile is None else self._profile.start_ns

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Nothing is captured from here."""

    def get_tuning_results(self) -> List[Any]:
        """Kernels are not tuned while running."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        if results and error_on_invalid:
            raise _core.NotImplemented("kernels are not tuned while running")

    def disable_fallback(self) -> None:
        """Nothing falls back while running."""

    def enable_fallback(self) -> None:
        """Nothing falls back while running."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        if options:
            raise _core.NotImplemented(f"no provider takes options while running, got {', '.join(options)}")


class InferenceSession(Session):
    """A model that is ready to run, made from a path, bytes, or an onnx.ModelProto.

    providers: names, or (name, options), in order of preference; None: the CPU. Several threads may run one session.
    """

    def __init__(self, path_or_bytes: Any, sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Provider]] = None,
                 provider_options: Optional[Sequence[Dict[Any, Any]]] = None, **kwargs: Any) -> None:
        self._model = _source(path_or_bytes)
        self._parts = False
        self._sess_options = sess_options if isinstance(sess_options, SessionOptions) else SessionOptions()
        if sess_options and sess_options is not self._sess_options:
            raise TypeError(f"sess_options: expected SessionOptions, got {type(sess_options)}")
        self._disabled = list(kwargs.pop("disabled_optimizers", None) or [])
        kwargs.pop("enable_fallback", None)  # nothing falls back while running
        asked = kwargs.pop("read_config_from_model", os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1")
        if int(asked or 0) == 1 and (config := metadata_of(self._model).get("ort_config")):
            self._sess_options = SessionOptions._of_model(config)
        if kwargs:
            raise TypeError(f"InferenceSession takes no {', '.join(map(repr, kwargs))}")
        self._create(providers, provider_options)

    def _create(self, providers: Optional[Sequence[Provider]], options: Optional[Sequence[Dict[Any, Any]]]) -> None:
        if self._sess_options.use_per_session_threads == envs.shared:  # onnxruntime's class and words
            raise RuntimeError("use_per_session_threads must be false when using a global thread pool" if envs.shared
                               else "When the session is not configured to use per session threadpools, the env must be"
                               " created with global ones: set_global_thread_pool_sizes")
        if providers is None and self._sess_options.has_providers():
            providers = list(self._sess_options._providers)
        self._device, self._providers = choose(providers, options)
        profile = None
        if self._sess_options.enable_profiling:
            profile = Profile(self._sess_options.profile_file_prefix, next(iter(self._providers)))
        begin = time.monotonic_ns()
        self._session = self._make()
        if profile is not None:
            profile.add("session_initialization", begin)
            profile.watch(self, self._session)
        self._profile = profile
        self._inputs, self._outputs, self._overridable = (
            [NodeArg(*row) for row in self._session.signature(side)] for side in (_INPUTS, _OUTPUTS, _OVERRIDABLE))
        self._required = [a.name for a in self._inputs if not a.type.startswith("optional(")]
        self._output_names = [a.name for a in self._outputs]
        self._input_types = {a.name: a.type for a in self._inputs + self._overridable}
        self._output_types = {a.name: a.type for a in self._outputs}
        self._sparse = {a.name for a in self._outputs if a.type.startswith("sparse_tensor(")}

    def _make(self) -> _core.Session:
        o = self._sess_options
        settings, notes = o._settings() + [("device", self._device)], o._notes()
        more = [_known.optimizer_settings(self._disabled + o._optimizers_off())]
        more += [_known.provider_settings(name, own) for name, own in self._providers.items()]
        for own_settings, own_notes in more:
            settings += own_settings
            notes += own_notes
        if self._parts:
            settings.append(("part_symbols", "on"))
        if envs.seed is not None:
            settings.append(("seed", str(envs.seed)))
        dims = dict(o._dims)
        for name, denotation in names_of(self._model).items() if o._denotations else ():
            if denotation in o._denotations:
                dims.setdefault(name, o._denotations[denotation])
        self._env = envs.get(o.intra_op_num_threads, o._libraries)
        made = _core.Session(self._env, self._model, settings, list(dims.items()), o._folder(), o._given, o._files,
                             list(o._ties), notes)
        self._stream = None
        if self._device.startswith("cuda") and (handle := _known.stream_of(next(iter(self._providers.values())))):
            self._stream = stream_at(handle, self._env, self._device)
            made.use_stream(self._stream)
        return made

    def _part_symbols(self, feeds: Mapping[str, Any]) -> bool:
        if self._parts or self.get_variables() or not _contradict(self._inputs, feeds):
            return False
        self._parts = True
        self._session = self._make()
        return True

    def set_providers(self, providers: Optional[Sequence[Provider]] = None,
                      provider_options: Optional[Sequence[Dict[Any, Any]]] = None) -> None:
        """Makes the session anew for other providers."""
        self._create(providers, provider_options)
