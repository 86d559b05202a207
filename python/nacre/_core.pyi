"""The extension: handles of the library as Python objects."""
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

class Fail(Exception):
    code: str
    node: str
    op: str
    text: str

class InvalidArgument(Exception):
    code: str
    node: str
    op: str
    text: str

class NoSuchFile(Exception):
    code: str
    node: str
    op: str
    text: str

class NoModel(Exception):
    code: str
    node: str
    op: str
    text: str

class EngineError(Exception):
    code: str
    node: str
    op: str
    text: str

class RuntimeException(Exception):
    code: str
    node: str
    op: str
    text: str

class OutOfMemory(RuntimeException, MemoryError): ...

class InvalidProtobuf(Exception):
    code: str
    node: str
    op: str
    text: str

class ModelLoaded(Exception):
    code: str
    node: str
    op: str
    text: str

class NotImplemented(Exception):
    code: str
    node: str
    op: str
    text: str

class InvalidGraph(Exception):
    code: str
    node: str
    op: str
    text: str

class EPFail(Exception):
    code: str
    node: str
    op: str
    text: str

class ModelLoadCanceled(Exception):
    code: str
    node: str
    op: str
    text: str

class ModelRequiresCompilation(Exception):
    code: str
    node: str
    op: str
    text: str

class NotFound(Exception):
    code: str
    node: str
    op: str
    text: str

class DeviceReset(Exception):
    code: str
    node: str
    op: str
    text: str

class Value:
    @property
    def kind(self) -> str: ...
    @property
    def type(self) -> int: ...
    @property
    def shape(self) -> Tuple[int, ...]: ...
    @property
    def data_ptr(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    @property
    def device(self) -> Tuple[str, int]: ...
    def copy_from(self, other: Value) -> None: ...
    @property
    def __array_struct__(self) -> Any: ...
    def strings(self) -> List[str]: ...
    def items(self) -> List[Value]: ...
    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ..., dl_device: Any = ...,
                   copy: Optional[bool] = ...) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

class Env:
    def __new__(cls, threads: int = ...) -> Env: ...
    def load_plugin(self, path: str) -> None: ...
    def describe(self, device: str) -> str: ...
    def synchronize(self, device: str) -> None: ...

class RunOptions:
    terminate: bool
    def set_log(self, level: int, id: str) -> None: ...

class Session:
    def __new__(cls, env: Env, source: Union[str, bytes], options: List[Tuple[str, str]],
                dims: List[Tuple[str, int]], folder: Optional[str] = ..., given: Dict[str, Value] = ...,
                files: Dict[str, bytes] = ..., notes: List[Tuple[int, str]] = ...) -> Session: ...
    def signature(self, side: int) -> List[Tuple[str, str, List[Union[int, str, None]]]]: ...
    def info(self) -> Dict[str, Any]: ...
    def run(self, names: List[str], feeds: Dict[str, Value], run_options: Optional[RunOptions] = ...,
            outputs: Optional[List[Optional[Value]]] = ..., kept: Optional[List[str]] = ...) -> List[Value]: ...
    def profile(self) -> str: ...
    def trim(self) -> None: ...

def version() -> str: ...
def set_log_level(level: int) -> None: ...
def log(level: int, text: str) -> None: ...
def pass_names() -> List[str]: ...
def type_name(type: int) -> str: ...
def type_bytes(type: int) -> int: ...
def type_bits(type: int) -> int: ...
def empty(type: int, shape: Sequence[int], env: Optional[Env] = ..., device: Optional[str] = ...) -> Value: ...
def at(type: int, shape: Sequence[int], address: int, keeps: Any, env: Optional[Env] = ...,
       device: Optional[str] = ...) -> Value: ...
def from_strings(shape: Sequence[int], strings: List[bytes]) -> Value: ...
def sequence(type: int, items: List[Value]) -> Value: ...
def optional(type: int, item: Optional[Value]) -> Value: ...
def map(keys: Value, values: Value) -> Value: ...
def from_array(array: Any) -> Optional[Value]: ...
def from_dlpack(capsule: Any, env: Env) -> Value: ...
def dlpack_type(capsule: Any) -> Tuple[int, int, int]: ...
