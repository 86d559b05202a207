"""Every public name of onnxruntime is in nacre, takes the same arguments, or stands in a short list with the reason."""
import enum
import fnmatch
import importlib
import importlib.util
import inspect
import pathlib
import re
import sys
import types

import onnxruntime as ort
import package
import pytest

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.capi import onnxruntime_pybind11_state as mine_state  # noqa: E402

CLASSES = ["InferenceSession", "SessionOptions", "RunOptions", "OrtValue", "IOBinding", "NodeArg", "ModelMetadata",
           "OrtDevice", "SparseTensor", "ModelCompiler", "AdapterFormat", "LoraAdapter", "OrtMemoryInfo",
           "OrtEpDevice", "OrtHardwareDevice", "OrtArenaCfg", "SessionIOBinding",
           "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtExternalInitializerInfo"]
ENUMS = ["GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtAllocatorType", "OrtMemType",
         "OrtDeviceMemoryType", "OrtSparseFormat", "OrtMemoryInfoDeviceType", "OrtDeviceVendorId",
         "OrtHardwareDeviceType", "OrtExecutionProviderDevicePolicy", "OrtCompileApiFlags"]
NATIVE_ENUMS = ["ArenaExtendStrategy", "OrtCompiledModelCompatibility", "OrtDeviceEpIncompatibilityReason"]

#: Not there, and why.
NOT_NAMES = {
    "contextlib": "a module that onnxruntime happens to import",
    "onnxruntime_validation": "found at nacre.capi.onnxruntime_validation",
}
#: There, and refused with a sentence when used: what it would need.
REFUSED = {
    "OrtEpContextData": "compiled contexts of providers",
    "OrtEpContextDataBuffer": "compiled contexts of providers",
}
#: Of the native module: what it would need.
NOT_NATIVE = {
    "SessionObjectInitializer": "internal", "get_session_initializer": "internal",
}


def public(thing):
    return [n for n in dir(thing) if not n.startswith("_")]


def members(cls):
    found = set(dir(cls)) | set(getattr(cls, "_FIELDS", ()))
    for c in cls.__mro__:
        found |= set(c.__dict__.get("__annotations__", ()))
    return found


def test_names_of_the_package():
    missing = [n for n in public(ort) if not hasattr(nacre, n) and n not in NOT_NAMES
               and not isinstance(getattr(ort, n), types.ModuleType)]  # those that other tests imported; see below
    assert not missing
    assert not [n for n in NOT_NAMES if not hasattr(ort, n)], "the list names what onnxruntime has not"
    assert set(nacre.__all__) <= set(dir(nacre))


def test_names_of_the_native_module():
    missing = [n for n in public(ort.capi.onnxruntime_pybind11_state)
               if not hasattr(mine_state, n) and n not in NOT_NATIVE]
    assert not missing
    assert not [n for n in NOT_NATIVE if hasattr(mine_state, n)], "the list names what is there"
    for n in public(ort.capi.onnxruntime_pybind11_state):
        theirs = getattr(ort.capi.onnxruntime_pybind11_state, n)
        if isinstance(theirs, type) and issubclass(theirs, Exception):
            assert issubclass(getattr(mine_state, n), Exception)


def test_names_of_the_collection():
    from nacre.capi import onnxruntime_inference_collection as mine
    theirs = ort.capi.onnxruntime_inference_collection
    own = [n for n in public(theirs) if getattr(getattr(theirs, n), "__module__", "") == theirs.__name__]
    internal = {"make_get_initializer_location_func_wrapper"}
    assert len(own) > 6 and not [n for n in own if not hasattr(mine, n) and n not in internal]


@pytest.mark.parametrize("cls", CLASSES)
def test_members_of_classes(cls):
    missing = set(public(getattr(ort, cls))) - members(getattr(nacre, cls))
    assert not missing


@pytest.mark.parametrize("name", ENUMS + NATIVE_ENUMS)
def test_enumerations(name):
    native = name in NATIVE_ENUMS
    mine, theirs = (getattr(m, name) for m in ((mine_state, ort.capi.onnxruntime_pybind11_state) if native else
                                               (nacre, ort)))
    for member, value in theirs.__members__.items():
        assert int(getattr(mine, member)) == int(getattr(value, "value", value)), member


def parameters(function):
    """(name, has a default, positional) of each; None: a native function that tells only its argument types."""
    try:
        rows = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if len(rows) <= 2 and any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in rows):
        return None
    return [(p.name, p.default is not p.empty, p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
            for p in rows if p.name != "self"]


def differs(mine, theirs):
    """What of their parameters mine lacks: the same names in the same order, optional where theirs are. Mine may have
    more, if they are optional."""
    want, have = parameters(theirs), parameters(mine)
    if want is None or have is None:
        return count_differs(mine, theirs)
    if [h[0] for h in have[:len(want)]] != [w[0] for w in want]:
        return f"{[h[0] for h in have]}, expected {[w[0] for w in want]}"
    for h, w in zip(have, want):
        if w[1] and not h[1]:
            return f"{h[0]} has no default"
    return [h[0] for h in have[len(want):] if not h[1]]


def count_differs(mine, theirs):
    """pybind11 writes signatures into the first line of the documentation."""
    text, have = (theirs.__doc__ or "").split("\n")[0], parameters(mine)
    found = re.fullmatch(r"\w+\((.*)\) -> .*", text)
    if not found or have is None or "*args" in text:
        return None
    depth, count = 0, bool(found[1].strip())
    for c in found[1]:
        depth += (c in "[(") - (c in "])")
        count += c == "," and depth == 0
    count -= found[1].startswith("self")
    required = sum(not h[1] for h in have)
    return None if required <= count <= len(have) else f"{len(have)} parameters, expected {count}"


def functions_of(thing):
    return {n: f for n in public(thing) if isinstance(f := getattr(thing, n), (
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType))
        or type(f).__name__ in ("instancemethod", "method_descriptor")}


def test_arguments_are_the_same():
    wrong = {}
    classes = [(f"{c}.", getattr(nacre, c), getattr(ort, c)) for c in CLASSES[:12]]
    for where, mine, theirs in [("", nacre, ort), *classes]:
        checked, told = 0, 0
        for name, f in functions_of(theirs).items():
            if name in NOT_NAMES or isinstance(f, type):
                continue
            checked += 1
            told += parameters(f) is not None or bool(re.match(r"\w+\(", f.__doc__ or ""))
            if what := differs(getattr(mine, name), f):
                wrong[where + name] = what
        assert told > checked // 2 or where in ("NodeArg.", "ModelMetadata."), where
    assert not wrong
    assert not differs(nacre.InferenceSession, ort.InferenceSession)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_says_so(name):
    with pytest.raises(nacre.NotImplemented, match=f"{name} is not supported"):
        getattr(nacre, name)()


def test_functions_that_refuse():
    session = nacre.InferenceSession(package.affine())
    for call in (lambda: nacre.register_execution_provider_library("a", "b"),
                 lambda: nacre.unregister_execution_provider_library("a"),
                 lambda: nacre.SessionOptions().add_provider_for_devices([], {}),
                 lambda: nacre.SessionOptions().set_provider_selection_policy(0),
                 lambda: nacre.SessionOptions().set_ep_context_data_read_func(None, 1),
                 lambda: session.set_ep_dynamic_options({"a": "b"})):
        with pytest.raises(nacre.NotImplemented, match="not|no provider"):
            call()


def test_what_the_package_tells():
    assert nacre.version == nacre.__version__ and nacre.package_name == "nacre" and nacre.cuda_version == ""
    assert nacre.get_build_info().startswith("Nacre Build Info") and nacre.get_device() in ("CPU", "GPU")
    assert nacre.get_ep_devices()[0].ep_name == "CPUExecutionProvider"
    assert nacre.get_ep_devices()[0].memory_info(nacre.OrtDeviceMemoryType.DEFAULT).name == "Cpu"
    session = nacre.InferenceSession(package.affine())
    assert [i.name for i in session.get_input_memory_infos()] == ["Cpu"]
    assert [d.ep_name for d in session.get_input_epdevices()] == ["CPUExecutionProvider"]
    nacre.create_and_register_allocator(session.get_input_memory_infos()[0], nacre.OrtArenaCfg(0, -1, -1, -1))
    assert session.get_tuning_results() == []


def test_print_debug_info(capsys):
    nacre.print_debug_info()
    assert nacre.__version__ in (out := capsys.readouterr().out) and "CPUExecutionProvider" in out


# ---- modules below the package ----

#: Modules and packages that are not here, and why. A package stands for all of its modules.
NOT_MODULES = {
    "capi._ld_preload": "onnxruntime's wheel needs libraries loaded first",
    "quantization.operators": "one class an operator; here one rule, in qdq_rules and operator_rules",
    "transformers.fusion_[!bu]*": "one pattern each; here passes of the library, switched by fusion_options",
    "transformers.fusion_bart_attention": "a pattern", "transformers.fusion_bias*": "patterns",
    "transformers.models": "scripts that export and measure single models; onnxruntime itself sends users to Olive",
    **dict.fromkeys(["transformers." + n for n in (
        "benchmark", "convert_generation", "convert_tf_models_to_pytorch", "large_model_exporter", "onnx_exporter")],
        "scripts that export single models, by the insides of versions of Hugging Face's package"),
}


def modules():
    """Every module that the wheel ships below these packages, also in folders without an __init__.py."""
    for package_name in ("backend", "capi", "datasets", "quantization", "tools", "transformers"):
        theirs = importlib.import_module(f"onnxruntime.{package_name}")
        root = pathlib.Path(theirs.__path__[0])
        yield package_name
        for path in sorted(root.rglob("*.py")):
            parts = [p for p in path.relative_to(root).with_suffix("").parts if p != "__init__"]
            if parts:
                yield ".".join([package_name, *parts])


def excuses(pattern, name):
    return name.startswith(pattern + ".") or (fnmatch.fnmatch(name, pattern) and not is_here(name))


def is_here(name):
    try:
        return importlib.util.find_spec(f"nacre.{name}") is not None
    except ModuleNotFoundError:  # nor is the package
        return False


def is_excused(name):
    return any(excuses(n, name) for n in NOT_MODULES)


def test_modules_of_the_package():
    found = list(modules())
    assert len(found) > 200 and "quantization.execution_providers.qnn.quant_config" in found
    missing = [n for n in found if not is_excused(n) and not is_here(n)]
    assert not missing
    stale = [n for n in NOT_MODULES if not any(excuses(n, f) for f in found) and n != "transformers.models"]
    assert not stale, "the list names what is there, or what onnxruntime has not"


@pytest.mark.parametrize("name", ["backend.backend", "backend.backend_rep", "datasets", "capi.onnxruntime_validation"])
def test_functions_of_modules(name):
    mine, theirs = (importlib.import_module(f"{p}.{name}") for p in ("nacre", "onnxruntime"))
    own = [n for n in public(theirs) if getattr(getattr(theirs, n), "__module__", None) == theirs.__name__
           or isinstance(getattr(theirs, n), types.MethodType)]
    assert own and not [n for n in own if not hasattr(mine, n) and n != "check_training_module"]


# ---- quantization, tools, transformers ----

_INSIDE = "the inside of onnxruntime's quantizer; this one has rules"
_RULES = "a step of finding patterns in Python; here the library finds them"
#: Names of the modules that are here, and members of their classes, that are not, and why.
NOT_IN_MODULES = {
    **{f"quantization.neural_compressor.onnx_model.ONNXModel.{n}": "a step of Intel's tool that onnxruntime never takes"
       for n in ("export", "find_*", "get_scale_zero", "merge_split_models", "re_org_output", "split_model_with_node")},
    "quantization.*Quantizer.*": _INSIDE, "quantization.qdq_quantizer.QDQ*": _INSIDE,
    "quantization.*.Fusion*.fuse*": _RULES,
    "transformers.onnx_model_*.Fi*": _RULES, "transformers.onnx_model_*.Fusion*": _RULES,
    "transformers.onnx_model_*.Process*": _RULES, "transformers.onnx_model_phi.Phi2PreProcessor": _RULES,
    "transformers.onnx_model_*.*OnnxModel*.*": _RULES,
}


def shared_modules():
    return [n for n in modules() if n.split(".")[0] in ("quantization", "tools", "transformers") and is_here(n)]


#: Packages that modules of onnxruntime import when they are imported, and that tests do not need.
ABSENT = [n for n in ("cpuinfo", "pandas", "psutil", "py3nvml", "py3nvml.py3nvml")
          if importlib.util.find_spec(n.split(".")[0]) is None]


class Anything(types.ModuleType):
    """Stands for such a package: every name in it is a class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def own_names(module):
    """Functions and classes that a module defines; those of a package, that it shows."""
    shown = {n: getattr(module, n) for n in public(module)}
    return {n: x for n, x in shown.items() if isinstance(x, (type, types.FunctionType)) and
            (x.__module__ == module.__name__ or module.__name__.count(".") == 1) and
            x.__module__.startswith("onnxruntime")}


def what_differs(mine, theirs):
    """(name, what) of a class or function that differs in members, values or parameters."""
    if isinstance(theirs, type) and issubclass(theirs, enum.Enum):
        yield from [("", "members")] * ({n: m.value for n, m in theirs.__members__.items()} !=
                                        {n: m.value for n, m in mine.__members__.items()})
        return
    if what := differs(mine, theirs):
        yield "", what
    for name in public(theirs) if isinstance(theirs, type) else ():
        if name not in members(mine):
            yield "." + name, "not there"
        elif isinstance(getattr(theirs, name), types.FunctionType) and (
                what := differs(getattr(mine, name), getattr(theirs, name))):
            yield "." + name, what


@pytest.mark.parametrize("name", shared_modules())
def test_names_of_the_tools(name, monkeypatch):
    for package_name in ABSENT:
        monkeypatch.setitem(sys.modules, package_name, Anything(package_name))
    mine, theirs = (importlib.import_module(f"{p}.{name}") for p in ("nacre", "onnxruntime"))
    wrong = {}
    for n, x in own_names(theirs).items():
        found = what_differs(getattr(mine, n), x) if hasattr(mine, n) else [("", "not there")]
        wrong.update((f"{name}.{n}{part}", what) for part, what in found)
    assert not {n: what for n, what in wrong.items() if not any(fnmatch.fnmatch(n, p) for p in NOT_IN_MODULES)}
