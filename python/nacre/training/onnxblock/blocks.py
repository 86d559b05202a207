"""Blocks: pieces of a graph that are called with names of values and give names of values."""
from __future__ import annotations

import abc
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from nacre.training.onnxblock import _graph_utils
from nacre.training.onnxblock import model_accessor as accessor

Names = Union[str, Sequence[str]]


class Block(abc.ABC):
    """A piece of a graph. Subclasses build it; calling one adds it to the base model."""

    def __init__(self, temp_file_name: str = "temp.onnx") -> None:
        """temp_file_name: onnxruntime's argument; here no file is written on the way."""

    @property
    def base(self) -> Any:
        """The model that is built upon: an onnx.ModelProto, to be changed in place."""
        return accessor.current().model

    @abc.abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds to self.base, by nodes or by calling other blocks. Gives the name of what it makes, or several."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        accessor.current()
        return self.build(*args, **kwargs)

    def infer_shapes_on_base(self) -> None:
        """Types and shapes that onnx's inference finds go into the base model."""
        _graph_utils.infer_shapes(self.base)

    def _add(self, op: str, inputs: Sequence[str], token: Optional[str] = None, **more: Any) -> str:
        """A node with one output; gives its name."""
        output = _graph_utils.generate_graph_name(token or f"{op.lower()}_output")
        _graph_utils.add_node(self.base, op, inputs, [output], **more)
        return output


class _BinaryOp(Block):
    """Two values to one."""

    def __init__(self, op_name: str) -> None:
        self._op_name = op_name

    def build(self, input_name1: str, input_name2: str) -> str:
        return self._add(self._op_name, [input_name1, input_name2])


class Add(_BinaryOp):
    """x + y."""

    def __init__(self) -> None:
        super().__init__("Add")


class Sub(_BinaryOp):
    """x - y."""

    def __init__(self) -> None:
        super().__init__("Sub")


class Mul(_BinaryOp):
    """x * y."""

    def __init__(self) -> None:
        super().__init__("Mul")


class Div(_BinaryOp):
    """x / y."""

    def __init__(self) -> None:
        super().__init__("Div")


class _UnaryOp(Block):
    """One value to one."""

    def __init__(self, op_name: str, **attributes: Any) -> None:
        self._op_name = op_name
        self._attributes = attributes

    def build(self, input_name: str) -> str:
        return self._add(self._op_name, [input_name], **self._attributes)


class ReduceMean(_UnaryOp):
    """The mean over all axes."""

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__("ReduceMean", keepdims=int(keepdims))


class ReduceSum(_UnaryOp):
    """The sum over all axes."""

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__("ReduceSum", keepdims=int(keepdims))


class Sigmoid(_UnaryOp):
    def __init__(self) -> None:
        super().__init__("Sigmoid")


class Log(_UnaryOp):
    def __init__(self) -> None:
        super().__init__("Log")


class Neg(_UnaryOp):
    def __init__(self) -> None:
        super().__init__("Neg")


class Abs(_UnaryOp):
    def __init__(self) -> None:
        super().__init__("Abs")


class Pow(Block):
    """x to a constant power."""

    def __init__(self, exponent: float) -> None:
        self._exponent = exponent

    def build(self, pow_input_name: str) -> str:
        dtype = _graph_utils.dtype_of(self.base, pow_input_name)
        exponent = _graph_utils.add_initializer(self.base, "pow_exponent", np.array([self._exponent], dtype))
        return self._add("Pow", [pow_input_name, exponent])


class Constant(Block):
    """A constant of one float."""

    def __init__(self, value_float: float) -> None:
        self._value = value_float

    def build(self) -> str:
        return _graph_utils.add_initializer(self.base, "initializer", np.array([self._value], np.float32))


class SequenceConstruct(Block):
    """Values to a sequence of them."""

    def build(self, *sequence_input_names: str) -> str:
        return self._add("SequenceConstruct", sequence_input_names)


class ReduceAllL2(Block):
    """The L2 norm over all elements of all values."""

    def build(self, *reduce_node_input_names: str) -> str:
        return self._add("ReduceAllL2", reduce_node_input_names, domain="com.microsoft")


class Clip(Block):
    """x, no smaller than clip_min and no larger than clip_max; None: without that bound."""

    def __init__(self, clip_min: Optional[float] = None, clip_max: Optional[float] = None) -> None:
        self._min, self._max = clip_min, clip_max

    def _bound(self, token: str, value: Optional[float], dtype: Any) -> str:
        return "" if value is None else _graph_utils.add_initializer(self.base, token, np.array(value, dtype))

    def build(self, clip_input_name: str) -> str:
        dtype = _graph_utils.dtype_of(self.base, clip_input_name)
        bounds = [self._bound("clip_min", self._min, dtype), self._bound("clip_max", self._max, dtype)]
        while bounds and not bounds[-1]:
            bounds.pop()
        return self._add("Clip", [clip_input_name, *bounds])


class PassThrough(Block):
    """What comes in goes out."""

    def build(self, *input_names: str) -> Any:
        return input_names


class InputLike(Block):
    """A new input of the model, of the type and shape of a value that is there."""

    def __init__(self, like: str) -> None:
        self._like = like

    def build(self, input_name: Optional[str] = None) -> str:
        name = input_name or _graph_utils.generate_graph_name("input")
        added = self.base.graph.input.add()
        added.CopyFrom(_graph_utils.get_input_like(self.base, self._like))
        added.name = name
        return name


class LabelEncoder(Block):
    """Values looked up in a table: keys to values, others to the default."""

    def __init__(self, default_float: float = 0.0, default_int64: int = -1, default_string: str = "_Unused",
                 keys_floats: Optional[List[float]] = None, keys_int64s: Optional[List[int]] = None,
                 keys_strings: Optional[List[str]] = None, values_floats: Optional[List[float]] = None,
                 values_int64s: Optional[List[int]] = None, values_strings: Optional[List[str]] = None) -> None:
        tables = dict(keys_floats=keys_floats, keys_int64s=keys_int64s, keys_strings=keys_strings,
                      values_floats=values_floats, values_int64s=values_int64s, values_strings=values_strings)
        self._attributes = {k: v for k, v in tables.items() if v is not None}
        self._attributes.update(default_float=default_float, default_int64=default_int64,
                                default_string=default_string)

    def build(self, label_encoder_input_name: str) -> str:
        return self._add("LabelEncoder", [label_encoder_input_name], domain="ai.onnx.ml", **self._attributes)


class Cast(Block):
    """x as another element type, a number of onnx.TensorProto.DataType."""

    def __init__(self, to: int) -> None:
        self._to = to

    def build(self, cast_input_name: str) -> str:
        return self._add("Cast", [cast_input_name], "cast.output", to=self._to)


class Linear(Block):
    """alpha * x W + beta * b, with parameters of its own: normal numbers at first."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, alpha: float = 1.0,
                 beta: float = 1.0) -> None:
        self._in, self._out, self._bias = in_features, out_features, bias
        self._alpha, self._beta = alpha, beta

    def build(self, linear_input_name: str) -> str:
        def numbers(token: str, *shape: int) -> str:
            return _graph_utils.add_initializer(self.base, token, np.random.randn(*shape).astype(np.float32))

        inputs = [linear_input_name, numbers("linear.weight", self._in, self._out)]
        if self._bias:
            inputs.append(numbers("linear.bias", self._out))
        return self._add("Gemm", inputs, "linear.output", name="linear", alpha=self._alpha, beta=self._beta)
