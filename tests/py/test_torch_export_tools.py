"""nacre.tools.pytorch_export_contrib_ops and pytorch_export_helpers: what torch's script exporter writes with them runs
here, and is what it writes with onnxruntime's."""
import io
import subprocess
import sys
import warnings

import numpy as np
import onnx
import package
import pytest
import torch
from onnxruntime.tools import pytorch_export_contrib_ops as their_ops, pytorch_export_helpers as their_helpers

from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.tools import infer_input_info, pytorch_export_contrib_ops as ops  # noqa: E402


class Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


X, SQUARE = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(1)), torch.eye(4) * 3 + 0.5
GRID = torch.rand(2, 5, 6, 2, generator=torch.Generator().manual_seed(2)) * 2.2 - 1.1


def sampled(mode, padding, corners):
    return lambda x, grid: torch.nn.functional.grid_sample(x, grid, mode, padding, corners)


CASES = {
    "gelu": (lambda x: torch.nn.functional.gelu(x), (X,), ["Gelu"]),
    "gelu by tanh": (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), (X,), []),
    "inverse": (lambda x: torch.inverse(x), (SQUARE,), ["Inverse"]),
    "linalg.inv": (lambda x: torch.linalg.inv(x), (SQUARE,), ["Inverse"]),
    "triu": (lambda x: torch.triu(x, 1), (X,), ["Trilu"]),
    "tril": (lambda x: torch.tril(x, -1), (X,), ["Trilu"]),
    "grid of lines": (sampled("bilinear", "zeros", True), (X, GRID), ["GridSample"]),
    "grid of cubes": (sampled("bicubic", "border", False), (X, GRID), ["GridSample"]),
    "grid of neighbours": (sampled("nearest", "reflection", True), (X, GRID), ["GridSample"]),
}
#: From which opset on torch has a symbolic of the standard's operator, which is newer and taken.
OF_ITS_OWN = {"Trilu": 14, "GridSample": 16}


def exported(function, arguments, opset, **more):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Module(function), arguments, file, opset_version=opset, dynamo=False,
                          custom_opsets={"com.microsoft": 1}, **more)
    return onnx.load_from_string(file.getvalue())


def nodes(model):
    return [(n.domain, n.op_type, [(a.name, onnx.helper.get_attribute_value(a)) for a in n.attribute
                                   if a.name != "value"]) for n in model.graph.node]


@pytest.mark.parametrize("opset", [11, 14, 18])
@pytest.mark.parametrize("case", CASES)
def test_what_the_exporter_writes(case, opset):
    function, arguments, expected = CASES[case]
    written = []
    for register in (ops, their_ops):
        register.register()
        try:
            written.append(exported(function, arguments, opset))
        finally:
            register.unregister()
    assert nodes(written[0]) == nodes(written[1])
    own = opset >= OF_ITS_OWN.get((expected or [""])[0], 99)
    assert [n.op_type for n in written[0].graph.node if n.domain == "com.microsoft"] == ([] if own else expected)
    session = nacre.InferenceSession(written[0].SerializeToString())
    feeds = {i.name: x.numpy() for i, x in zip(session.get_inputs(), arguments)}
    close(session.run(None, feeds)[0], function(*arguments).numpy(), "ort_f32")


def test_unregistered_again():
    ops.register()
    ops.unregister()
    ops.unregister()
    assert all(n.domain == "" for n in exported(CASES["gelu"][0], (X,), 14).graph.node)


def test_operators_that_torch_has_not():
    library = torch.library.Library("onnxruntime", "DEF")
    try:
        library.define("UnfoldTensor(Tensor x, int dim, int size, int step) -> Tensor")
        library.define("DynamicTimeWarping(Tensor x) -> Tensor")
        library.impl("UnfoldTensor", lambda x, dim, size, step: x.unfold(dim, size, step), "CPU")
        library.impl("DynamicTimeWarping", lambda x: torch.zeros(2, 7, dtype=torch.int32), "CPU")
        ops.register()
        model = exported(lambda x: torch.ops.onnxruntime.UnfoldTensor(x, 3, 2, 1), (X,), 14)
        warped = exported(lambda x: torch.ops.onnxruntime.DynamicTimeWarping(x), (torch.rand(3, 5),), 14)
    finally:
        ops.unregister()
        library._destroy()
    assert nodes(model) == [("com.microsoft", "UnfoldTensor", [("dim", 3), ("size", 2), ("step", 1)])]
    assert nodes(warped) == [("com.microsoft", "DynamicTimeWarping", [])]
    session = nacre.InferenceSession(model.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {session.get_inputs()[0].name: X.numpy()})[0],
                                  X.unfold(3, 2, 1).numpy())


# ---- names of inputs ----

class Plain(torch.nn.Module):
    def forward(self, x, y=None, scale=1.0, *more, last=None, **others):
        total = x if y is None else x + y
        for m in (*more, last, *others.values()):
            total = total if m is None else total + m
        return total * scale


CALLS = {
    "positional": ((X, X), {}), "number": ((X, X, 2.5), {}), "many": ((X, X, 1, X, X), {}), "keyword": ((X,), {"y": X}),
    "all": ((X, X, True, X), {"last": X, "own": X}), "none": ((X, None), {"scale": 3}),
    "list": (([X, None, (X, X)],), {"y": {"a": X, "b": [X]}}),
}


@pytest.mark.parametrize("case", CALLS)
def test_names_of_inputs(case):
    arguments, keywords = CALLS[case]
    mine, theirs = (f(Plain(), *arguments, **keywords) for f in (infer_input_info, their_helpers.infer_input_info))
    assert mine[0] == theirs[0] and len(mine[0]) >= 2 and len(mine[1]) == len(theirs[1])
    for m, t in zip(mine[1], theirs[1]):
        assert type(m) is type(t) and (m is t or not torch.is_tensor(m) or bool((m == t).all()))


@pytest.mark.parametrize("keywords", [{}, {"y": X}])
def test_exported_by_these_names(keywords):
    module = Module(lambda x, y: x - 2 * y)
    names, arguments = infer_input_info(module, *((X,) if keywords else (X, X)), **keywords)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, arguments, file, input_names=names, dynamo=False)
    session = nacre.InferenceSession(file.getvalue())
    assert [i.name for i in session.get_inputs()] == names == ["x", "y"]
    close(session.run(None, {n: X.numpy() for n in names})[0], (-X).numpy(), "ort_f32")


def test_torch_is_imported_when_asked_for():
    said = subprocess.run([sys.executable, "-c", "import sys, nacre.tools; print('torch' in sys.modules); "
                           "from nacre.tools import infer_input_info; print('torch' in sys.modules)"],
                          capture_output=True, text=True, check=True, env={"PYTHONPATH": str(package.FOLDER)}).stdout
    assert said.split() == ["False", "True"]
