"""Element types, and values between Python and the library.

Tensors are numpy arrays, strings arrays of str, sequences lists, optionals None or what they hold, maps dicts. Memory
is lent, not copied, wherever an array lies dense in the machine's byte order.

Types of fewer than 8 bits (int4, uint4, float4_e2m1fn, int2, uint2, float6_*) lie packed in the library, the first
element in the lowest bits, without gaps; ml_dtypes keeps one of them in a byte. Such arrays are copied on the way in
and out. Without ml_dtypes they come out as int8 or uint8: the numbers of integer types, the bits of float types.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from nacre import _core
from nacre._device import envs

#: ONNX's number of each element type, by numpy's name (ml_dtypes' for those that numpy lacks).
NUMBER_OF = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4_e2m1fn": 23, "float8_e8m0fnu": 24, "uint2": 25, "int2": 26, "float6_e2m3fn": 27, "float6_e3m2fn": 28,
}
STRING = 8
NAME_OF = {number: name for name, number in NUMBER_OF.items()}
_ML_DTYPES = {name for name, number in NUMBER_OF.items() if number >= 16}
_PACKED = {number for number in NAME_OF if _core.type_bits(number) % 8}
_SIGNED = {NUMBER_OF["int4"], NUMBER_OF["int2"]}


def numpy_type(number: int) -> np.dtype:
    """The numpy type of ONNX's number. A type of ml_dtypes is its bits where that package is not installed."""
    if number == STRING:
        return np.dtype(object)
    name = NAME_OF.get(number)
    if name is None:
        raise _core.NotImplemented(f"numpy has no type for ONNX's element type {number}")
    if name not in _ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return np.dtype("int8" if number in _SIGNED else f"uint{max(8 * _core.type_bytes(number), 8)}")
    kind: np.dtype = np.dtype(getattr(ml_dtypes, name))
    return kind


def type_number(element_type: Any) -> int:
    """ONNX's number of an element type: that number itself, or whatever numpy takes for a dtype."""
    if isinstance(element_type, (int, np.integer)) and not isinstance(element_type, bool):
        return int(element_type)
    dtype = np.dtype(element_type)
    if dtype.kind in "OUS":
        return STRING
    if dtype.name not in NUMBER_OF:
        raise _core.NotImplemented(f"ONNX has no element type for numpy's {dtype.name}")
    return NUMBER_OF[dtype.name]


# ---- packed types ----

def _bits(number: int) -> int:
    return _core.type_bits(number)


def pack(x: np.ndarray, number: int) -> np.ndarray:
    """The bytes in which the elements of x, one to a byte, lie packed."""
    codes = x.astype(np.int8).view(np.uint8) if number in _SIGNED | {21, 25} else x.view(np.uint8)
    bits = np.unpackbits(codes.reshape(-1, 1), axis=1, bitorder="little")[:, :_bits(number)]
    return np.packbits(bits.reshape(-1), bitorder="little")


def unpack(packed: np.ndarray, shape: Sequence[int], number: int) -> np.ndarray:
    """The elements that lie packed in these bytes, one to a byte."""
    width, count = _bits(number), int(np.prod(shape, dtype=np.int64))
    bits = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width)
    codes = np.packbits(bits, axis=1, bitorder="little").reshape(shape)
    if number in _SIGNED:
        half = 1 << (width - 1)
        return ((codes.astype(np.int8) ^ half) - half).astype(numpy_type(number))
    return codes.astype(numpy_type(number)) if number in (21, 25) else codes.view(numpy_type(number))


def _element_of(type_text: str) -> int:
    """The number of the innermost element type of 'seq(tensor(float))'."""
    name = type_text.rsplit("(", 1)[-1].rstrip(")").rsplit(",", 1)[-1]
    for number in (*NAME_OF, STRING):
        if _core.type_name(number) == name:
            return number
    return 1


def _inside(type_text: str) -> str:
    return type_text[type_text.index("(") + 1:-1]


# ---- in ----

def to_value(x: Any, type_text: Optional[str] = None) -> _core.Value:
    """A Value for x. type_text, 'tensor(float)', is what the model expects: it tells optionals, the element type of
    empty sequences and of lists that stand for tensors."""
    if type_text is None or type_text.startswith("tensor("):
        value = _core.from_array(x)
        return value if value is not None else _tensor(x, type_text)
    if isinstance(x, _core.Value):
        return x
    if isinstance(held := getattr(x, "_value", None), _core.Value):
        return held
    if type_text.startswith("optional("):
        item = None if x is None else to_value(x, _inside(type_text))
        return _core.optional(_element_of(type_text), item)
    if type_text.startswith("seq("):
        if not isinstance(x, (list, tuple)):
            raise RuntimeError(f"expected a list for {type_text}, got {type(x)}")
        return _core.sequence(_element_of(type_text), [to_value(i, _inside(type_text)) for i in x])
    if type_text.startswith("sparse_tensor(") and hasattr(x, "_dense"):  # a SparseTensor
        return to_value(x._dense(), None)
    if type_text.startswith("map("):
        return _map(x, *_inside(type_text).split(",", 1))
    return to_value(x, None)


def _map(x: Any, key: str, value: str) -> _core.Value:
    if not isinstance(x, dict):
        raise RuntimeError(f"expected a dict for map({key},{value}), got {type(x)}")
    texts = _element_of(key) == STRING
    for k in x:
        if isinstance(k, (str, bytes)) != texts:  # onnxruntime's words
            raise RuntimeError(f"Unexpected key type  {type(k)}, it cannot be linked to C type "
                               f"{'std::string' if texts else 'int64_t'}")
    keys = np.array(list(x), dtype=numpy_type(_element_of(key)))
    values = np.array(list(x.values()), dtype=numpy_type(_element_of(value)))
    return _core.map(to_value(keys), to_value(values))


def _tensor(x: Any, type_text: Optional[str]) -> _core.Value:
    if isinstance(x, _core.Value):
        return x
    if isinstance(held := getattr(x, "_value", None), _core.Value):
        return held
    if isinstance(x, (list, tuple)):
        dtype = None if type_text is None else numpy_type(_element_of(type_text))
        try:
            return to_value(np.array(x, dtype=dtype))
        except ValueError as e:
            raise RuntimeError(f"Could not create tensor from given input list: {e}") from None
    if isinstance(x, np.ndarray):
        return _array(x)
    if x is None:
        raise _core.Fail(f"expected an array for {type_text or 'a tensor'}, got None")
    if isinstance(x, dict):
        raise _core.InvalidArgument(f"expected an array for {type_text or 'a tensor'}, got a dict")
    if hasattr(x, "__dlpack__"):
        return from_dlpack(x)
    if hasattr(x, "__array__"):
        return _array(np.asarray(x))
    if not isinstance(x, (str, bytes)):
        try:
            return to_value(np.asarray(memoryview(x)))
        except TypeError:
            pass
    raise RuntimeError(f"Unable to handle object of type {type(x)}")


def _array(x: np.ndarray) -> _core.Value:
    if x.dtype.kind in "OUS":
        texts = [s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape") for s in x.ravel().tolist()]
        return _core.from_strings(x.shape, texts)
    if x.dtype.type is np.void:  # raw bytes, and structs of them: strings of that length, as onnxruntime takes them
        return _core.from_strings(x.shape, [s.tobytes() for s in x.ravel()])
    number = type_number(x.dtype)
    if number in _PACKED:
        packed = pack(np.ascontiguousarray(x), number)
        return _core.at(number, x.shape, packed.ctypes.data, packed)
    x = x if x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative else x.astype(x.dtype.newbyteorder("="), "C")
    if x.dtype.name in _ML_DTYPES:
        return _core.at(number, x.shape, x.ctypes.data, x)
    value = _core.from_array(x)
    if value is None:
        raise _core.NotImplemented(f"an array of {x.dtype} cannot be given to a run")
    return value


def from_dlpack(x: Any) -> _core.Value:
    """A Value over the memory of an object that speaks DLPack (or of such a capsule), on the device where it lies."""
    if not hasattr(x, "__dlpack__"):
        return _core.from_dlpack(x, envs.get())
    try:
        capsule = x.__dlpack__(max_version=(1, 1))
    except TypeError:
        capsule = x.__dlpack__()
    value = _core.from_dlpack(capsule, envs.get())
    name, number = value.device
    if name != "cpu":  # what the producer queued must be done before a run reads it
        envs.get().synchronize(f"{name}:{number}" if name == "cuda" else name)
    return value


# ---- out ----

def to_python(value: _core.Value) -> Any:
    """What a run gives back: an array over the Value's memory, or a list, dict or None."""
    kind = value.kind
    if kind == "tensor":
        return to_numpy(value)
    items = value.items()
    if kind == "optional":
        return to_python(items[0]) if items else None
    if kind == "map":
        keys, values = (to_python(i) for i in items)
        return dict(zip(keys.tolist(), values.tolist() if isinstance(values, np.ndarray) else values))
    return [to_python(i) for i in items]


def to_numpy(value: _core.Value) -> np.ndarray:
    """A tensor as numpy sees it, over the same memory; strings, packed types and what lies on a device are copied."""
    number = value.type
    if value.device[0] != "cpu":
        host = _core.empty(number, value.shape)
        host.copy_from(value)
        value = host
    if number in _PACKED:
        return unpack(np.asarray(value), value.shape, number)
    if number == STRING:
        out = np.empty(value.shape, dtype=object)
        out.reshape(-1)[:] = value.strings()
        return out
    array = np.asarray(value)
    return array.view(numpy_type(number)) if NAME_OF.get(number) in _ML_DTYPES else array


_core.set_converters(to_value, to_python, np.asarray)
