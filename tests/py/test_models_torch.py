"""Whole models against PyTorch autograd: gradients and fifty steps of gradient descent, in double and in float.

Modules of torch and transformers in small configurations, exported here with their loss; a model with If and Loop is
written out on both sides. Both start from the same weights and see the same batches.
"""
import warnings

import numpy as np
import onnx
import onnx.parser
import onnxscript.optimizer
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper

from nacre_c import Options
from tolerances import TOLERANCES, close

STEPS, BATCHES = 50, 5
torch.use_deterministic_algorithms(True)


class WithLoss(torch.nn.Module):
    """The module's cross entropy: what is exported."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, target):
        y = self.module(x)
        y = getattr(y, "logits", y)
        return F.cross_entropy(y.flatten(0, -2), target.flatten())


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(9, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.GELU(),
                               torch.nn.Linear(16, 5))


class Cnn(torch.nn.Module):
    """Batch normalization by the batch's own statistics."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.Conv2d(6, 8, 3, stride=2, groups=2)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(c, track_running_stats=False) for c in (6, 8))
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norms[0](self.first(x))), 2)
        x = F.relu(self.norms[1](self.second(x)))
        return self.last(x.mean((2, 3)))


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification
    return ResNetForImageClassification(ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 12, 16, 20], depths=[2, 2, 2, 2], layer_type="basic", num_labels=5))


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.last = torch.nn.LSTMCell(6, 10), torch.nn.Linear(10, 5)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 10, dtype=x.dtype)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.last(h)


def bert():
    from transformers import BertConfig, BertForSequenceClassification
    return BertForSequenceClassification(BertConfig(
        vocab_size=23, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=12, num_labels=5, attn_implementation="eager"))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=23, n_positions=12, n_embd=16, n_layer=2, n_head=2, use_cache=False,
                                      tie_word_embeddings=False, attn_implementation="eager"))


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification(ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8, patch_size=4,
        num_labels=5, attn_implementation="eager"))


def floats(*shape):
    return lambda rng, kind: torch.from_numpy(rng.standard_normal(shape)).to(kind)


def tokens(*shape):
    """Not 0, which pads: torch gives its row no gradient, and no graph says so."""
    return lambda rng, kind: torch.from_numpy(rng.integers(1, 23, shape))


# What makes the module, what makes its inputs, the shape and number of its targets.
MODELS = {"mlp": (mlp, floats(6, 9), (6,), 5), "cnn": (Cnn, floats(4, 3, 8, 8), (4,), 5),
          "resnet18": (resnet, floats(2, 3, 32, 32), (2,), 5), "lstm": (Lstm, floats(4, 5, 6), (4,), 5),
          "bert": (bert, tokens(3, 7), (3,), 5), "gpt2": (gpt2, tokens(2, 7), (2, 7), 23),
          "vit": (vit, floats(3, 3, 8, 8), (3,), 5)}
# Exported with lists of pieces, which the exporter's optimizer takes away. It may fold no parameter: those have more
# bytes than this.
WITH_LISTS, SMALL = {"lstm", "gpt2"}, 32
RATES = {"resnet18": 0.01}
KINDS = {"f64": torch.float64, "f32": torch.float32}
# Tolerances of the first gradients, the losses of ten steps, those of all.
ROWS = {"f64": ("model_gradient_f64", "model_losses_f64", "model_steps_f64"),
        "f32": ("model_gradient_f32", "model_losses_f32", "model_steps_f32")}


def made(name, kind):
    """The module with its loss, its batches, and its ONNX model."""
    make, inputs, shape, classes = MODELS[name]
    torch.manual_seed(5)
    module = WithLoss(make()).eval().to(KINDS[kind])
    for p in module.parameters():  # so that each can be told by its contents
        with torch.no_grad():
            p.add_(0.02 * torch.randn_like(p))
    rng = np.random.default_rng(3)
    batches = [(inputs(rng, KINDS[kind]), torch.from_numpy(rng.integers(0, classes, shape))) for _ in range(BATCHES)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, batches[0], input_names=["x", "target"], output_names=["loss"],
                                    opset_version=20, dynamo=True, optimize=False, verbose=False)
        if name in WITH_LISTS:
            onnxscript.optimizer.optimize_ir(program.model, input_size_limit=SMALL, output_size_limit=SMALL,
                                             should_fold=lambda n: False if n.op_type == "Transpose" else None)
    return module, batches, program.model_proto


def names_of(model, module):
    """{initializer: parameter} by equal contents."""
    found = {}
    for t in model.graph.initializer:
        a = numpy_helper.to_array(t)
        for p in module.parameters():
            if a.shape == tuple(p.shape) and np.array_equal(a, p.detach().numpy()):
                found[t.name] = p
    return found


def torch_loss(module, batch):
    loss = module(*batch)
    module.zero_grad()
    loss.backward()
    return loss.item()


def descend(module, batches, lr):
    losses = []
    for step in range(STEPS):
        losses.append(torch_loss(module, batches[step % BATCHES]))
        with torch.no_grad():
            for p in module.parameters():
                if p.grad is not None:
                    p -= lr * p.grad
    return losses


def feeds_of(batch):
    return {"x": batch[0].numpy(), "target": batch[1].numpy()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_steps_as_torch(env, name, kind):
    module, batches, model = made(name, kind)
    gradient_row, losses_row, steps_row = ROWS[kind]
    params = names_of(model, module)
    torch_loss(module, batches[0])
    assert {id(p) for p in module.parameters() if p.grad is not None} <= {id(p) for p in params.values()}
    with env.session(model, Options().gradients("loss", list(params))) as session:
        got = session.run(feeds_of(batches[0]))
    for n, p in params.items():
        want = torch.zeros_like(p) if p.grad is None else p.grad
        close(got[f"grad:{n}"], want.numpy(), gradient_row, n)
    lr, first = RATES.get(name, 0.05), {n: p.detach().clone() for n, p in params.items()}
    losses = []
    with env.session(model, Options().sgd("loss", list(params), "lr")) as session:
        for step in range(STEPS):
            fed = {**feeds_of(batches[step % BATCHES]), "lr": np.array(lr, got["loss"].dtype)}
            losses.append(float(session.run(fed, ["loss"])["loss"]))
        last = {n: session.get(n) for n in params}
    wants = descend(module, batches, lr)
    close(losses[:10], wants[:10], losses_row)
    close(losses, wants, steps_row)
    assert np.mean(losses[-BATCHES:]) < np.mean(losses[:BATCHES]), "nothing was learnt"
    assert max(float((p.detach() - first[n]).abs().max()) for n, p in params.items()) > 1e-3
    for n, p in params.items() if kind == "f64" else ():
        close(last[n], p.detach().numpy(), "model_steps_f64", n)


CONTROL = """<ir_version: 10, opset_import: ["" : 18]>
    g (double[4,3] x, int64 n, bool flip) => (double loss) <double[3,3] w = {W}, double[3] b = {B}> {
    go = Constant<value = bool {1}>()
    h = Loop(n, go, x) <body = step (int64 i, bool c, double[4,3] s) => (bool on, double[4,3] next) {
        m = MatMul(s, w)  a = Add(m, b)  next = Tanh(a)  on = Identity(c) }>
    y = If(flip) <then_branch = one () => (double[4,3] p) { q = Mul(h, b)  p = Sin(q) },
        else_branch = two () => (double[4,3] r) { r = Mul(h, h) }>
    d = Sub(y, x)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e) }"""


def test_a_model_with_if_and_loop(env):
    rng = np.random.default_rng(2)
    w, b = rng.standard_normal((3, 3)) * 0.5, rng.standard_normal(3) * 0.3
    text = CONTROL.replace("{W}", "{" + ", ".join(map(repr, w.ravel().tolist())) + "}").replace(
        "{B}", "{" + ", ".join(map(repr, b.tolist())) + "}")
    model = onnx.parser.parse_model(text)
    tw, tb = (torch.tensor(p, requires_grad=True) for p in (w, b))
    with env.session(model, Options().sgd("loss", ["w", "b"], "lr")) as session:
        for step in range(STEPS):
            x, n, flip = rng.standard_normal((4, 3)) * 0.5, step % 4, step % 3 == 0
            fed = {"x": x, "n": np.int64(n), "flip": np.array(flip), "lr": np.float64(0.2)}
            got = float(session.run(fed, ["loss"])["loss"])
            h = tx = torch.tensor(x)
            for _ in range(n):
                h = torch.tanh(h @ tw + tb)
            loss = ((torch.sin(h * tb) if flip else h * h) - tx).square().mean()
            used = loss.requires_grad  # no trip, and the branch without b: nothing to learn
            grads = torch.autograd.grad(loss, (tw, tb), allow_unused=True) if used else (None, None)
            with torch.no_grad():
                for p, g in zip((tw, tb), grads):
                    if g is not None:
                        p -= 0.2 * g
            close(got, loss.item(), "model_steps_f64")
        close(session.get("w"), tw.detach().numpy(), "model_steps_f64")
        close(session.get("b"), tb.detach().numpy(), "model_steps_f64")
    assert np.abs(tw.detach().numpy() - w).max() > 1e4 * TOLERANCES["model_steps_f64"][1]
