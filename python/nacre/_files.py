"""Files that are whole or not there: each is written under another name beside its own and renamed when it is done, so
that whoever reads meanwhile, and whoever comes after a crash, finds the old one."""
from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import IO, TYPE_CHECKING, Any, Iterator, Union

if TYPE_CHECKING:
    import onnx

_Path = Union[str, "os.PathLike[str]"]


def _stands_alone(path: str) -> bool:
    """A pipe or a device takes bytes as they come, and is not replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _put(part: str, path: str) -> None:
    """A file that was there keeps its permissions, and one that replaces it has them."""
    if os.path.isfile(path):
        shutil.copymode(path, part)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.replace(part, path)


@contextlib.contextmanager
def _folder_beside(path: _Path) -> Iterator[str]:
    """A folder for one file and what comes with it, which goes in the end; what lies in it by then takes its place, the
    file itself last. Behind a symbolic link it is the file that the link leads to."""
    home, name = os.path.split(os.path.realpath(os.fspath(path)))
    try:
        folder = tempfile.mkdtemp(prefix=f".{name}.tmp.", dir=home)
    except OSError as e:
        raise type(e)(e.errno, f"{os.strerror(e.errno or 0)}, to write a file there", os.fspath(path)) from None
    try:
        yield os.path.join(folder, name)
        made = [os.path.relpath(os.path.join(at, file), folder) for at, _, files in os.walk(folder) for file in files]
        for part in sorted(made, key=lambda part: part == name):
            _put(os.path.join(folder, part), os.path.join(home, part))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def writing(path: _Path, mode: str = "w", **how: Any) -> Iterator[IO[Any]]:
    """As open(path, mode): the file is there when the block ends without an exception."""
    how["encoding"] = None if "b" in mode else "utf-8"
    if _stands_alone(os.fspath(path)):
        with open(path, mode, **how) as file:
            yield file
        return
    with _folder_beside(path) as part:
        with open(part, mode, **how) as file:
            yield file


def write(path: _Path, data: Union[str, bytes]) -> None:
    with writing(path, "wb" if isinstance(data, bytes) else "w") as file:
        file.write(data)


def save_model(model: onnx.ModelProto, path: _Path, **how: Any) -> None:
    """As onnx.save, with the files of weights that it says of; one of an earlier save is replaced, not written on."""
    import onnx  # no part of what every program needs

    if _stands_alone(os.fspath(path)):
        onnx.save(model, os.fspath(path), **how)
        return
    with _folder_beside(path) as part:
        onnx.save(model, part, **how)
