"""Sessions whose inputs and outputs are PyTorch's tensors, bound where they lie. Needs PyTorch."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy
import torch
from onnx import TensorProto

import nacre

ShapeDict = Mapping[str, Sequence[int]]
_SAME = ("float16", "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "complex64",
         "complex128")
_NAMES = {**{k: k for k in _SAME}, "float": "float32", "double": "float64", "bfloat16": "bfloat16",
          "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
          "float8e5m2fnuz": "float8_e5m2fnuz", "int4": "int4", "uint4": "uint4"}
#: tensor(...) by PyTorch's type and by numpy's, which has fewer.
_TORCH = {f"tensor({k})": getattr(torch, v) for k, v in _NAMES.items() if hasattr(torch, v)}
_NUMPY = {f"tensor({k})": bool if v == "bool" else getattr(numpy, v) for k, v in _NAMES.items()
          if v == "bool" or hasattr(numpy, v)}


def _told(table: Mapping[Any, Any], key: Any) -> Any:
    if key not in table:
        raise ValueError(f"{key} has no equivalent; known are {', '.join(map(str, table))}")
    return table[key]


def _of(values: Any, name: str, what: str) -> str:
    found = next((v.type for v in values if v.name == name), None)
    if found is None:
        raise ValueError(f"the session has no {what} '{name}'")
    return str(found)


class TypeHelper:
    """Types of sessions, ONNX, numpy and PyTorch."""

    @staticmethod
    def get_input_type(ort_session: Any, name: str) -> str:
        return _of(ort_session.get_inputs(), name, "input")

    @staticmethod
    def get_output_type(ort_session: Any, name: str) -> str:
        return _of(ort_session.get_outputs(), name, "output")

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        return _told(_NUMPY, ort_type)

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        return _told(_TORCH, ort_type)

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        return int(_told({f"tensor({k.lower()})": v for k, v in TensorProto.DataType.items()}, ort_type))

    @staticmethod
    def numpy_type_to_torch_type(numpy_type: Any) -> Any:
        return _told({n: _TORCH[k] for k, n in _NUMPY.items() if k in _TORCH}, numpy_type)

    @staticmethod
    def torch_type_to_numpy_type(torch_type: Any) -> Any:
        return _told({t: _NUMPY[k] for k, t in _TORCH.items() if k in _NUMPY}, torch_type)

    @staticmethod
    def _map(session: Any, of: Any) -> Dict[str, Any]:
        return {v.name: of(v.type) for v in [*session.get_inputs(), *session.get_outputs()]}

    @staticmethod
    def get_io_onnx_type_map(ort_session: Any) -> Dict[str, int]:
        return TypeHelper._map(ort_session, TypeHelper.ort_type_to_onnx_type)

    @staticmethod
    def get_io_numpy_type_map(ort_session: Any) -> Dict[str, Any]:
        return TypeHelper._map(ort_session, TypeHelper.ort_type_to_numpy_type)

    @staticmethod
    def get_io_torch_type_map(ort_session: Any) -> Dict[str, Any]:
        return TypeHelper._map(ort_session, TypeHelper.ort_type_to_torch_type)


def _bind_input(binding: Any, name: str, tensor: torch.Tensor, kind: int) -> None:
    if not tensor.is_contiguous():
        raise ValueError(f"the tensor for input '{name}' is not contiguous")
    binding.bind_input(name, tensor.device.type, tensor.device.index or 0, kind, list(tensor.size()), tensor.data_ptr())


class IOBindingHelper:
    """For decoders with inputs input_ids, position_ids, attention_mask and past_0, past_1, ..."""

    @staticmethod
    def get_output_buffers(ort_session: Any, output_shapes: ShapeDict, device: Any) -> Dict[str, torch.Tensor]:
        """A flat tensor for each output, large enough for that shape."""
        kinds = {name: TypeHelper.ort_type_to_torch_type(TypeHelper.get_output_type(ort_session, name))
                 for name in output_shapes}
        return {n: torch.empty(math.prod(s), dtype=kinds[n], device=device) for n, s in output_shapes.items()}

    @staticmethod
    def prepare_io_binding(ort_session: Any, input_ids: torch.Tensor, position_ids: Optional[torch.Tensor],
                           attention_mask: Optional[torch.Tensor], past: Optional[List[torch.Tensor]],
                           output_buffers: Dict[str, torch.Tensor], output_shapes: ShapeDict) -> Any:
        kinds, binding = TypeHelper.get_io_onnx_type_map(ort_session), ort_session.io_binding()
        given = {"input_ids": input_ids, "position_ids": position_ids, "attention_mask": attention_mask,
                 **{f"past_{i}": x for i, x in enumerate(past or [])}}
        for name, tensor in given.items():
            if tensor is not None:
                _bind_input(binding, name, tensor, kinds[name])
        for output in ort_session.get_outputs():
            into = output_buffers[output.name]
            binding.bind_output(output.name, into.device.type, into.device.index or 0, kinds[output.name],
                                list(output_shapes[output.name]), into.data_ptr())
        return binding

    @staticmethod
    def get_outputs_from_io_binding_buffer(ort_session: Any, output_buffers: Dict[str, torch.Tensor],
                                           output_shapes: ShapeDict, return_numpy: bool = True) -> List[Any]:
        """Copies of the results, in their shapes."""
        names = [o.name for o in ort_session.get_outputs()]
        found = [output_buffers[n][:math.prod(output_shapes[n])].reshape(tuple(output_shapes[n])).clone()
                 for n in names]
        return [x.cpu().numpy() for x in found] if return_numpy else found


class CudaSession:
    """A session with tensors of its own for outputs, which stay where they are from run to run."""

    def __init__(self, ort_session: Any, device: torch.device, enable_cuda_graph: bool = False) -> None:
        self.ort_session, self.device, self.enable_cuda_graph = ort_session, device, enable_cuda_graph
        self.input_names = [i.name for i in ort_session.get_inputs()]
        self.output_names = [o.name for o in ort_session.get_outputs()]
        self.io_name_to_onnx_type = TypeHelper.get_io_onnx_type_map(ort_session)
        self.io_name_to_torch_type = TypeHelper.get_io_torch_type_map(ort_session)
        self.io_binding = ort_session.io_binding()
        self.input_tensors: Dict[str, torch.Tensor] = {}
        self.output_tensors: Dict[str, torch.Tensor] = {}
        self.buffer_sharing: Dict[str, str] = {}

    def set_buffer_sharing(self, input_name: str, output_name: str) -> None:
        """The output is written over the input."""
        if input_name not in self.input_names or output_name not in self.output_names:
            raise ValueError(f"the session has no input '{input_name}' or no output '{output_name}'")
        self.buffer_sharing.update({input_name: output_name, output_name: input_name})

    def _bind_output(self, name: str, tensor: torch.Tensor) -> None:
        self.io_binding.bind_output(name, tensor.device.type, tensor.device.index or 0, self.io_name_to_onnx_type[name],
                                    list(tensor.size()), tensor.data_ptr())
        self.output_tensors[name] = tensor

    def bind_input_and_buffer_sharing(self, name: str, tensor: torch.Tensor) -> None:
        _bind_input(self.io_binding, name, tensor, self.io_name_to_onnx_type[name])
        if name in self.buffer_sharing:
            self._bind_output(self.buffer_sharing[name], tensor)

    def allocate_buffers(self, shape_dict: ShapeDict) -> None:
        """Tensors of these shapes; those that have them already stay. Inputs get one only for a captured graph, which
        reads from where it was captured."""
        for name, shape in shape_dict.items():
            kept = self.input_tensors if name in self.input_names else self.output_tensors
            if name in kept and tuple(kept[name].shape) == tuple(shape):
                continue
            if name in self.output_names and name not in self.buffer_sharing:
                self._bind_output(name, self._empty(name, shape))
            elif name in self.input_names and self.enable_cuda_graph:
                self.input_tensors[name] = self._empty(name, shape)
                self.bind_input_and_buffer_sharing(name, self.input_tensors[name])

    def _empty(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=self.io_name_to_torch_type[name], device=self.device)

    def infer(self, feed_dict: Dict[str, torch.Tensor], run_options: Any = None,
              synchronize: bool = True) -> Dict[str, torch.Tensor]:
        for name, tensor in feed_dict.items():
            if name not in self.input_names:
                continue
            if name in self.input_tensors:
                self.input_tensors[name].copy_(tensor)
            else:
                self.bind_input_and_buffer_sharing(name, tensor)
        if synchronize:
            self.io_binding.synchronize_inputs()
        self.ort_session.run_with_iobinding(self.io_binding, run_options)
        if synchronize:
            self.io_binding.synchronize_outputs()
        return self.output_tensors

    @staticmethod
    def get_cuda_provider_options(device_id: int, enable_cuda_graph: bool, stream: int = 0) -> Dict[str, Any]:
        told: Dict[str, Any] = {"device_id": device_id, "arena_extend_strategy": "kSameAsRequested",
                                "enable_cuda_graph": enable_cuda_graph}
        return {**told, "user_compute_stream": str(stream)} if stream else told


class GpuBinding(CudaSession):
    """A CudaSession for one set of shapes; gpu_graph_id: the captured graph that its runs use, -1 none."""

    def __init__(self, ort_session: Any, device: torch.device, shape_dict: ShapeDict, enable_gpu_graph: bool = False,
                 gpu_graph_id: int = -1, stream: int = 0,
                 buffer_sharing: Optional[Dict[str, str]] = None) -> None:
        super().__init__(ort_session, device, enable_gpu_graph)
        for source, target in (buffer_sharing or {}).items():
            self.set_buffer_sharing(source, target)
        self.allocate_buffers(shape_dict)
        self.gpu_graph_id, self.stream, self.last_run_gpu_graph_id = gpu_graph_id, stream, -1
        self.shape_dict = {n: tuple(s) for n, s in shape_dict.items()} if enable_gpu_graph else None

    def get_run_options(self, disable_cuda_graph_in_run: bool = False) -> nacre.RunOptions:
        options = nacre.RunOptions()
        self.last_run_gpu_graph_id = -1 if disable_cuda_graph_in_run else self.gpu_graph_id
        options.add_run_config_entry("gpu_graph_id", str(self.last_run_gpu_graph_id))
        return options

    def infer(self, feed_dict: Dict[str, torch.Tensor],  # type: ignore[override]
              disable_cuda_graph_in_run: bool = False) -> Dict[str, torch.Tensor]:
        return super().infer(feed_dict, self.get_run_options(disable_cuda_graph_in_run))


class GpuBindingManager:
    """A GpuBinding for each set of shapes, at most max_cuda_graphs of them with a graph; one without for the others."""

    def __init__(self, ort_session: Any, device: torch.device, stream: int = 0, max_cuda_graphs: int = 1) -> None:
        self.ort_session, self.device, self.stream, self.max_cuda_graphs = ort_session, device, stream, max_cuda_graphs
        self.graph_bindings: List[GpuBinding] = []
        self.no_graph_binding: Optional[GpuBinding] = None

    def get_binding(self, shape_dict: ShapeDict, use_cuda_graph: bool = False,
                    buffer_sharing: Optional[Dict[str, str]] = None) -> GpuBinding:
        wanted = {n: tuple(s) for n, s in shape_dict.items()}
        for binding in self.graph_bindings:
            if use_cuda_graph and binding.shape_dict == wanted:
                return binding
        if use_cuda_graph and len(self.graph_bindings) < self.max_cuda_graphs:
            self.graph_bindings.append(GpuBinding(self.ort_session, self.device, shape_dict, True,
                                                  len(self.graph_bindings), self.stream, buffer_sharing))
            return self.graph_bindings[-1]
        if self.no_graph_binding is None:
            self.no_graph_binding = GpuBinding(self.ort_session, self.device, shape_dict, False, -1, self.stream,
                                               buffer_sharing)
        else:
            self.no_graph_binding.allocate_buffers(shape_dict)
        return self.no_graph_binding
