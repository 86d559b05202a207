"""Nacre under the import name `onnxruntime`, for programs that ask for that name and choose features by its version.

    python -m nacre.as_onnxruntime script.py ARGUMENTS...     one program (also: -m MODULE, -c TEXT)
    nacre.as_onnxruntime.install()                            this process, from now on

The wheel in python/as_onnxruntime does it for an environment. Modules below the name are the modules of nacre
themselves, so a class is one class however it was imported. What is asked for the version, `onnxruntime.__version__`
and the distribution's metadata, is told that of the surface which is mirrored.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import runpy
import sys
import types
from typing import Any, Iterator, List, Optional, Sequence

#: The version of onnxruntime whose names and behaviour are mirrored.
SURFACE = "1.31.1"
NAME = "onnxruntime"


def become(module: types.ModuleType) -> None:
    """Gives a module nacre's names and the version of the surface; modules below its name become nacre's."""
    nacre = importlib.import_module("nacre")
    for name in dir(nacre):
        if not name.startswith("__"):
            setattr(module, name, getattr(nacre, name))
    told = {"__version__": SURFACE, "version": SURFACE, "package_name": NAME, "__doc__": nacre.__doc__,
            "__all__": list(nacre.__all__), "get_version_string": lambda: SURFACE}
    for name, value in told.items():
        setattr(module, name, value)
    if not any(isinstance(f, _Below) for f in sys.meta_path):
        sys.meta_path.insert(0, _Below())


class _Same(importlib.abc.Loader):
    """Loads a module that another name has already."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        self._module = importlib.import_module(self._name)
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the other name's there

    def get_code(self, fullname: str) -> Any:
        """For python -m."""
        spec = importlib.util.find_spec(self._name)
        return spec.loader.get_code(self._name)  # type: ignore[union-attr]


class _Below(importlib.abc.MetaPathFinder):
    """onnxruntime.capi is nacre.capi."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]] = None,
                  target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if not fullname.startswith(NAME + "."):
            return None
        mine = "nacre" + fullname[len(NAME):]
        spec = None if "._" in mine.replace("._pybind_state", "") else importlib.util.find_spec(mine)
        if spec is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Same(mine), origin=spec.origin,
                                              is_package=spec.submodule_search_locations is not None)


class _Top(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The name itself, and its distribution's metadata, where no wheel brings them."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]] = None,
                  target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != NAME:
            return None
        return importlib.machinery.ModuleSpec(NAME, self, origin=__file__, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[types.ModuleType]:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = __file__
        become(module)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        wanted = getattr(context, "name", None)
        return iter([_Told()] if wanted in (None, NAME) else [])


class _Told(importlib.metadata.Distribution):
    _FILES = {"METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {SURFACE}\n", "top_level.txt": NAME + "\n"}

    def read_text(self, filename: str) -> Optional[str]:
        return self._FILES.get(filename)

    def locate_file(self, path: Any) -> Any:
        return os.path.join(os.path.dirname(__file__), path)


def install() -> None:
    """From now on `import onnxruntime` gives nacre in this process. One that was imported before is refused."""
    loaded = sys.modules.get(NAME)
    if loaded is not None and loaded.InferenceSession is not importlib.import_module("nacre").InferenceSession:
        raise ImportError(f"{NAME} was imported already, from {getattr(loaded, '__file__', 'somewhere')}")
    if not any(isinstance(f, _Top) for f in sys.meta_path):
        sys.meta_path.insert(0, _Top())


def main(arguments: List[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        print("usage: python -m nacre.as_onnxruntime SCRIPT | -m MODULE | -c TEXT [ARGUMENTS...]")
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    install()
    kind = arguments[0] if arguments[0] in ("-m", "-c") else ""
    what, rest = arguments[bool(kind)], arguments[bool(kind) + 1:]
    sys.argv = [kind or what, *rest]
    sys.path[0] = os.path.dirname(os.path.abspath(what)) if not kind else ""
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(what, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
