"""The networks that training is measured on, as modules of torch: each gives its loss. `export` writes one with its
loss for nacre, parameters under torch's names.
"""
import warnings

import numpy as np
import torch
import torch.nn.functional as F


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(784, 500), torch.nn.Linear(500, 10)

    def forward(self, x, labels):
        return F.cross_entropy(self.down(F.relu(self.up(x))), labels)


class Cnn(torch.nn.Module):
    """Batch normalization by the batch's own statistics, and no running ones: those are no part of the gradient."""
    CHANNELS, STRIDES = (3, 32, 64, 64, 128, 128, 256), (1, 2, 1, 2, 1, 2)

    def __init__(self):
        super().__init__()
        pairs = list(zip(self.CHANNELS, self.CHANNELS[1:], self.STRIDES))
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(a, b, 3, stride=s, padding=1, bias=False) for a, b, s in pairs)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(b, track_running_stats=False) for _, b, _ in pairs)
        self.last = torch.nn.Linear(self.CHANNELS[-1], 10)

    def forward(self, x, labels):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x)))
        return F.cross_entropy(self.last(x.mean((2, 3))), labels)


class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification
        self.net = BertForSequenceClassification(BertConfig(
            vocab_size=30522, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
            num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))

    def forward(self, x, labels):
        return F.cross_entropy(self.net(x).logits, labels)


class Gpt2(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel
        self.net = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=384, n_head=6, vocab_size=50257, resid_pdrop=0.0,
                                              embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))

    def forward(self, x, labels):
        return F.cross_entropy(self.net(x).logits.flatten(0, 1), labels.flatten())


def _words(rng, vocabulary, *shape):
    return rng.integers(0, vocabulary, shape)


NETS = {
    "MLP": (Mlp, lambda r: (r.standard_normal((64, 784), np.float32), _words(r, 10, 64))),
    "CNN": (Cnn, lambda r: (r.standard_normal((16, 3, 32, 32), np.float32), _words(r, 10, 16))),
    "BERT": (Bert, lambda r: (_words(r, 30522, 8, 128), _words(r, 2, 8))),
    "GPT-2": (Gpt2, lambda r: (_words(r, 50257, 4, 128), _words(r, 50257, 4, 128))),
}


def make(name):
    """The module in training mode, and its batch as numpy arrays: always the same."""
    torch.manual_seed(1)
    module, batch = NETS[name]
    return module().train(), dict(zip(("x", "labels"), batch(np.random.default_rng(2))))


def named(module):
    """Its parameters by name; one that two layers share stands under the name of each, a file holds one of them."""
    return module.named_parameters(remove_duplicate=False)


def export(name, path):
    """Writes the module; gives the names of its parameters in the file."""
    module, batch = make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, tuple(map(torch.from_numpy, batch.values())), input_names=list(batch),
                                    output_names=["loss"], opset_version=18, dynamo=True, optimize=False,
                                    external_data=False, verbose=False)
    program.save(str(path))
    there = set(program.model.graph.initializers)
    names = [n for n, _ in named(module) if n in there]
    if len(names) != len(list(module.parameters())):
        raise RuntimeError(f"{name}: {len(names)} of its parameters are in the file")
    return names
