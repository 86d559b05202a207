"""The models of test_transformers.py, differentiated: the gradient of a loss by every parameter that the exported file
holds, beside PyTorch's."""
import io
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
import test_transformers  # noqa: E402  (skips where the extension was not built)

import nacre  # noqa: E402
from nacre import training  # noqa: E402
from tolerances import close  # noqa: E402

#: PyTorch's own gradient is no measure there: Longformer reads memory that nothing has written (new_empty), XLNet cuts
#: its memories off, which no graph says.
NO_MEASURE = {"Longformer", "XLNet"}
#: The index whose row PyTorch gives no gradient, which no graph says, becomes one that no text holds.
SETTINGS = {"FNet": {"pad_token_id": 0}}
#: Gradients whose largest element is less than this part of the largest of all are beside that.
SMALL = 1e-4


class Loss(torch.nn.Module):
    """One number of all that a model gives, in which each element has a weight of its own."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *values):
        parts = [x for x in self.model(*values) if x.is_floating_point()]
        return sum((x * torch.cos(torch.arange(x.numel(), dtype=x.dtype).reshape(x.shape))).mean() for x in parts)


def made(name):
    """The loss of a model whose parameters all differ, so that each is told by its contents, and its inputs."""
    kind, config, inputs = test_transformers.MODELS[name]
    test_transformers.MODELS["changed"] = kind, config | SETTINGS.get(name, {}), inputs
    model, values = test_transformers.made("changed")
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn_like(p))
    return Loss(model), values


def exported(module, values, dynamo):
    """The model, or None where the exporter refuses; parameters are not folded into other constants."""
    out = io.BytesIO()
    how = {"opset_version": 18, "input_names": [f"i{k}" for k in range(len(values))], "output_names": ["loss"]}
    try:
        if dynamo:
            torch.onnx.export(module, values, dynamo=True, optimize=False, verbose=False, **how).save(out)
        else:
            torch.onnx.export(module, values, out, dynamo=False, do_constant_folding=False, **how)
    except Exception as e:  # noqa: BLE001  (it raises whatever its passes raise)
        print(f"not exported: {type(e).__name__}: {str(e)[:200]}")
        return None
    return onnx.load_from_string(out.getvalue())


def parameters_of(model, module):
    """{initializer: parameter} by equal contents, of those that learn."""
    found = {}
    for t in model.graph.initializer:
        a = numpy_helper.to_array(t)
        for p in module.parameters():
            if p.requires_grad and a.shape == tuple(p.shape) and np.array_equal(a, p.detach().numpy()):
                found[t.name] = p
    return found


def gradients_of(model, names, values):
    """The loss, and the gradient by each name."""
    session = nacre.InferenceSession(training.gradients(model, "loss", names).SerializeToString())
    results = session.run(["loss", *(o.name for o in session.get_outputs() if o.name != "loss")],
                          {i.name: values[int(i.name[1:])].numpy() for i in session.get_inputs()})
    assert len(results) == 1 + len(names)
    return results[0], dict(zip(names, results[1:]))


def refused(model, values):
    """onnxruntime cannot run what the exporter wrote: PatchTST's patches come out turned."""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        session.run(None, {i.name: values[int(i.name[1:])].numpy() for i in session.get_inputs()})
    except Exception as e:  # noqa: BLE001  (each kind of failure has its own class)
        print(f"not run by onnxruntime: {str(e)[:200]}")
        return True
    return False


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", [n for n in test_transformers.MODELS if n not in NO_MEASURE])
def test_gradients(name, exporter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, values = made(name)
        loss = module(*values)
        loss.backward()
        model = exported(module, values, exporter == "dynamo")
    if model is None:
        pytest.skip("the exporter refuses it")
    params = parameters_of(model, module)
    assert params, "no parameter is in the file"
    try:
        found, gradients = gradients_of(model, list(params), values)
    except Exception:
        if refused(model, values):
            pytest.skip("the exporter writes a file that onnxruntime cannot run either")
        raise
    close(found, loss.item(), "torch_operators")
    wants = {n: (torch.zeros_like(p) if p.grad is None else p.grad).numpy() for n, p in params.items()}
    largest = max(np.abs(w).max() for w in wants.values())
    for n, want in wants.items():
        scale = max(np.abs(want).max(), SMALL * largest)
        close(gradients[n] / scale, want / scale, "exported_gradient", n)
