"""PyTorch's operators with the sample inputs of its own tests (OpInfo), as its exporters write them, with dims that are
fixed and with symbolic ones: where onnxruntime gives what PyTorch gives, Nacre does too. What the exporter refuses, and
what onnxruntime does not get right either, is left out. One test for an operator, its variant and an exporter."""
import functools
import io
import itertools
import sys
import warnings
from pathlib import Path

import onnxruntime
import pytest
import torch
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
import package  # noqa: E402
from beside_torch import wrong  # noqa: E402

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

pytest.importorskip("expecttest")

import nacre  # noqa: E402
from torch.onnx._internal.exporter._registration import ONNXRegistry  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

#: How many samples of which types: those that come first are the plainest. The newer exporter takes longest.
EXPORTERS = {"script": (6, (torch.float32, torch.int64, torch.bool)),
             "script_symbolic": (3, (torch.float32, torch.int64)),
             "dynamo": (1, (torch.float32,)), "dynamo_symbolic": (2, (torch.float32,))}
#: Draws, memory that was not written, and what gives no tensor of numbers.
NOT_COMPARED = ("bernoulli", "dropout", "empty", "multinomial", "normal", "rand", "rrelu", "uniform", "exponential",
                "geometric", "cauchy", "log_normal", "fractional_max_pool", "to_sparse", "complex", "item")
#: Of these the older exporter's own inference divides by a dim of 0, which ends the process on x86-64.
DIVIDED_BY_ZERO = ("nn.functional.unfold", "nn.functional.pixel_unshuffle")
OPS = [op for op in op_db if not any(word in op.name for word in NOT_COMPARED)]


class Call(torch.nn.Module):
    """The operator on a sample; the sample's tensors are the inputs."""

    def __init__(self, op, sample):
        super().__init__()
        leaves, self.tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.op, self.leaves = op, leaves
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def inputs(self):
        return tuple(self.leaves[i].detach().clone() for i in self.places)

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for i, x in zip(self.places, tensors):
            leaves[i] = x
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.op(*args, **kwargs)


def symbolic(tensors, exporter):
    """Every dim as a symbol; the newer exporter takes a dim of 1 for a constant."""
    if exporter == "script_symbolic":
        return {"dynamic_axes": {f"i{k}": {d: f"i{k}_{d}" for d in range(x.dim())} for k, x in enumerate(tensors)}}
    if exporter == "dynamo_symbolic":
        dims = tuple({d: torch.export.Dim.AUTO for d, size in enumerate(x.shape) if size > 1} for x in tensors)
        return {"dynamic_shapes": {"tensors": dims}}
    return {}


def exported(module, tensors, exporter):
    """The file, or None where the exporter refuses."""
    out, how = io.BytesIO(), {"opset_version": 18, "input_names": [f"i{k}" for k in range(len(tensors))]}
    how.update(symbolic(tensors, exporter))
    try:
        if exporter.startswith("script"):
            torch.onnx.export(module, tensors, out, dynamo=False, **how)
        else:
            torch.onnx.export(module, tensors, dynamo=True, verbose=False, **how).save(out)
    except Exception:  # noqa: BLE001  (it raises whatever its passes raise)
        return None
    return out.getvalue()


def outcome(runtime, data, tensors, want):
    try:
        session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
        feeds = {i.name: tensors[int(i.name[1:])].numpy() for i in session.get_inputs()}
        return wrong(session.run(None, feeds), want)
    except Exception as e:  # noqa: BLE001  (every way to fail is one)
        return f"{type(e).__name__}: {e}"


def cases(op, dtype, exporter):
    """(number, file, inputs, what PyTorch gives) of those samples that are exported."""
    torch.manual_seed(0)
    for k, sample in enumerate(itertools.islice(op.sample_inputs("cpu", dtype), EXPORTERS[exporter][0])):
        module = Call(op, sample)
        tensors = module.inputs()
        if exporter.startswith("script") and op.name in DIVIDED_BY_ZERO and any(x.numel() == 0 for x in tensors):
            continue
        try:
            want = [x for x in pytree.tree_leaves(module(*module.inputs())) if x is not None]
        except Exception:  # noqa: BLE001
            continue
        if tensors and all(isinstance(x, torch.Tensor) and not x.is_complex() for x in want):
            data = exported(module, tensors, exporter)
            if data is not None:
                yield k, data, tensors, want


def failures(op, exporter):
    for dtype in EXPORTERS[exporter][1]:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        for k, data, tensors, want in cases(op, dtype, exporter):
            mine = outcome(nacre, data, tensors, want)
            if mine and not outcome(onnxruntime, data, tensors, want):
                yield f"{dtype}, sample {k}: {mine}"


@pytest.fixture(autouse=True, scope="module")
def one_table_of_functions():
    """The newer exporter translates its 500 functions anew for every file: more than half of its time."""
    with pytest.MonkeyPatch.context() as patch:
        table = functools.cache(ONNXRegistry.from_torchlib)
        patch.setattr(ONNXRegistry, "from_torchlib", lambda self, *version, **named: table(*version, **named))
        yield


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}.{op.variant_test_name}".rstrip("."))
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_operator(op, exporter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(failures(op, exporter))
    assert not found, "\n".join(found)
