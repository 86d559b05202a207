"""onnx.backend.base.Backend over InferenceSession: what ONNX's own test runner, and other frameworks, drive."""
from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

import nacre
from nacre import _types

_PROVIDERS = {"CPU": nacre._device.CPU, "CUDA": nacre._device.CUDA, "GPU": nacre._device.CUDA}


#: What callers may set through this interface; the rest of the options write files or stop runs.
_SESSION_OPTIONS = frozenset((
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "execution_mode", "execution_order",
    "graph_optimization_level", "inter_op_num_threads", "intra_op_num_threads", "log_severity_level",
    "log_verbosity_level", "logid", "use_deterministic_compute", "use_per_session_threads"))
_RUN_OPTIONS = frozenset(("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"))


def _set(options: Any, allowed: Iterable[str], given: Mapping[str, Any]) -> Any:
    """Sets those that options has; what is no option at all is somebody else's argument."""
    for name, value in given.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            raise RuntimeError(f"{type(options).__name__} attribute '{name}' is not permitted via the backend API. "
                               f"Allowed attributes: {', '.join(sorted(allowed))}")
    return options


def _device(device: str) -> Tuple[str, str]:
    kind, _, number = device.partition(":")
    return kind.upper(), number or "0"


class NacreBackendRep(BackendRep):
    """A prepared model."""

    def __init__(self, session: nacre.InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        """inputs: by name, in the model's order, or one value for a model of one input. Gives a named tuple."""
        names = [a.name for a in self.session.get_inputs()]
        if isinstance(inputs, Mapping) and not self._is_a_map(inputs):
            feeds = dict(inputs)
        elif isinstance(inputs, (list, tuple)):
            if len(inputs) > len(names):
                raise RuntimeError(f"the model has {len(names)} inputs, got {len(inputs)}")
            feeds = dict(zip(names, inputs))
        elif len(names) == 1:
            feeds = {names[0]: inputs}
        else:
            raise RuntimeError(f"the model has {len(names)} inputs: give a list or a dict")
        outputs = [a.name for a in self.session.get_outputs()]
        options = kwargs.pop("run_options", None) or _set(nacre.RunOptions(), _RUN_OPTIONS, kwargs)
        return namedtupledict("Outputs", outputs)(*self.session.run(None, feeds, options))

    def _is_a_map(self, inputs: Mapping[Any, Any]) -> bool:
        """Whether a dict is the value of the only input, which is a map, not values by name."""
        takes = self.session.get_inputs()
        return len(takes) == 1 and takes[0].type.startswith("map(") and takes[0].name not in inputs


class NacreBackend(Backend):
    """ONNX's Backend interface."""

    @classmethod
    def is_opset_supported(cls, model: onnx.ModelProto) -> Tuple[bool, str]:
        newest = onnx.defs.onnx_opset_version()
        for opset in model.opset_import:
            if opset.domain in ("", "ai.onnx") and opset.version > newest:
                return False, f"opset {opset.version} is newer than {newest}"
        return True, ""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be prepared."""
        try:
            cls.prepare(model, device, **kwargs)
        except Exception:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return _PROVIDERS.get(_device(device)[0]) in nacre.get_available_providers()

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> NacreBackendRep:
        """model: a ModelProto, bytes, a path, or an InferenceSession. Other arguments: attributes of SessionOptions
        that write no files; RuntimeError for one that does."""
        if isinstance(model, NacreBackendRep):
            return model
        if isinstance(model, nacre.InferenceSession):
            return NacreBackendRep(model)
        kind, number = _device(device)
        if kind not in _PROVIDERS:
            raise RuntimeError(f"no device '{device}'; there are {', '.join(_PROVIDERS)}")
        options = _set(nacre.SessionOptions(), _SESSION_OPTIONS, kwargs)
        own = {"device_id": number} if kind != "CPU" else {}
        return NacreBackendRep(nacre.InferenceSession(model, options, [(_PROVIDERS[kind], own)]))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
        logs = {name: value for name, value in kwargs.items() if name in _RUN_OPTIONS}
        return cls.prepare(model, device, **kwargs).run(inputs, **logs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Optional[Sequence[Tuple[Any, Tuple[int, ...]]]] = None,
                 **kwargs: Any) -> Optional[Tuple[Any, ...]]:
        """One node as a model of its own. The opset is opset_version, or onnx's newest."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [n for n in node.input if n]
        feeds = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs))
        graph = helper.make_graph([node], "node", [_input_info(n, feeds[n]) for n in names],
                                  _output_infos(node, outputs_info))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, feeds, device, **kwargs)


def _input_info(name: str, x: Any) -> onnx.ValueInfoProto:
    if isinstance(x, (list, tuple)):
        return helper.make_tensor_sequence_value_info(name, _types.type_number(np.asarray(x[0]).dtype), None)
    x = np.asarray(x)
    return helper.make_tensor_value_info(name, _types.type_number(x.dtype), x.shape)


def _output_infos(node: onnx.NodeProto, infos: Optional[Sequence[Any]]) -> List[onnx.ValueInfoProto]:
    names = [n for n in node.output if n]
    if infos is None:
        return [helper.make_empty_tensor_value_info(n) for n in names]
    return [helper.make_tensor_value_info(n, _types.type_number(t), shape) for n, (t, shape) in zip(names, infos)]


prepare = NacreBackend.prepare
run_model = NacreBackend.run_model
run_node = NacreBackend.run_node
supports_device = NacreBackend.supports_device
is_compatible = NacreBackend.is_compatible
is_opset_supported = NacreBackend.is_opset_supported


def run(model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
    """onnxruntime's name for run_model."""
    return NacreBackend.run_model(model, inputs, device, **kwargs)


OnnxRuntimeBackend = NacreBackend  #: onnxruntime's name
