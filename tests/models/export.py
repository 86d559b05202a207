"""Models of real architecture with random weights, exported by torch.onnx into build/models.

MODELS names them; path(name) exports a model when it is not there yet and gives its file. Files are kept in a folder
named by a digest of this script and the versions of the exporters, so that a change of either exports anew. How they
are fed is in inputs.py. `python export.py [NAME...]` exports from the command line.
"""
import hashlib
import os
import pathlib
import sys
import warnings

import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build" / "models"
LAYERS, HEADS, WIDTH, VOCABULARY = 6, 6, 384, 5000  # of GPT-2
BLOCKS = 4  # of ViT-base and BERT-base: the others would be the same over again
TAGGER_WORDS, TAGS = 800, 17


# ---- networks: positional tensors in, a tuple of tensors out ----

class Images(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values).logits


class Bert(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return out.last_hidden_state, out.pooler_output


class Gpt2(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                          use_cache=False).logits


class Gpt2Past(torch.nn.Module):
    """past: keys and values, layer by layer, each (batch, heads, length, width of a head)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, past):
        cache = transformers.DynamicCache()
        for i in range(LAYERS):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                         past_key_values=cache, use_cache=True)
        present = [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]
        return (out.logits, *present)


class Tagger(torch.nn.Module):
    """Words to scores of tags through two bidirectional LSTM layers. Sentences come padded; with lengths, the longest
    first, the layers are told where each ends."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(TAGGER_WORDS, 48)
        self.lstm = torch.nn.LSTM(48, 40, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = torch.nn.Linear(80, TAGS)

    def forward(self, words, lengths=None):
        x = self.words(words)
        if lengths is None:
            y, _ = self.lstm(x)
        else:
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return torch.log_softmax(self.tags(y), dim=-1)


def calibrated(model):
    """Random weights with untrained batch normalization let signals die out; the statistics of some images keep them
    at the scale they have in trained networks."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for m in norms:
        m.momentum = None
    model.train()
    with torch.no_grad():
        model(pixel_values=torch.randn(4, 3, 96, 96))
    return model


def gpt2():
    """The same weights at every call: with and without past it is one network."""
    torch.manual_seed(2)
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, vocab_size=VOCABULARY,
                                     initializer_range=0.08, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


# ---- what is exported: network, example arguments, names, free dims ----

BATCH, SEQUENCE = {0: "batch"}, {0: "batch", 1: "sequence"}
PICTURE = {0: "batch", 2: "height", 3: "width"}
TOTAL, PAST = {0: "batch", 1: "total"}, {0: "batch", 2: "past"}


def images(model, free=PICTURE):
    return Images(model), {"pixel_values": torch.randn(2, 3, 224, 224)}, ["logits"], {"pixel_values": free}


def resnet50():
    return images(calibrated(transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))))


def mobilenet_v2():
    config = transformers.MobileNetV2Config(num_labels=1000)
    return images(calibrated(transformers.MobileNetV2ForImageClassification(config)))


def vit():
    config = transformers.ViTConfig(num_labels=1000, num_hidden_layers=BLOCKS)
    return images(transformers.ViTForImageClassification(config), BATCH)


def tokens(n, batch, sequence):
    return torch.randint(0, n, (batch, sequence))


def bert():
    """BERT-base with fewer layers; a short list of words keeps the file small."""
    model = transformers.BertModel(transformers.BertConfig(vocab_size=1000, num_hidden_layers=BLOCKS))
    args = {"input_ids": tokens(1000, 2, 9), "attention_mask": torch.ones(2, 9, dtype=torch.int64),
            "token_type_ids": tokens(2, 2, 9)}
    return Bert(model), args, ["last_hidden_state", "pooler_output"], dict.fromkeys(args, SEQUENCE)


def gpt2_plain():
    args = {"input_ids": tokens(VOCABULARY, 2, 9), "attention_mask": torch.ones(2, 9, dtype=torch.int64),
            "position_ids": torch.arange(9).repeat(2, 1)}
    return Gpt2(gpt2()), args, ["logits"], dict.fromkeys(args, SEQUENCE)


def past_names(side):
    return [f"{side}.{i}.{what}" for i in range(LAYERS) for what in ("key", "value")]


def gpt2_past():
    args = {"input_ids": tokens(VOCABULARY, 2, 3), "attention_mask": torch.ones(2, 8, dtype=torch.int64),
            "position_ids": torch.arange(5, 8).repeat(2, 1),
            "past": [torch.randn(2, HEADS, 5, WIDTH // HEADS) for _ in range(2 * LAYERS)]}
    dims = {"input_ids": SEQUENCE, "attention_mask": TOTAL, "position_ids": SEQUENCE, "past": [PAST] * (2 * LAYERS)}
    return Gpt2Past(gpt2()), args, ["logits", *past_names("present")], dims


def tagger_packed():
    args = {"words": tokens(TAGGER_WORDS, 3, 7), "lengths": torch.tensor([7, 5, 2])}
    return Tagger(), args, ["scores"], {"words": SEQUENCE, "lengths": BATCH}


def tagger():
    return Tagger(), {"words": tokens(TAGGER_WORDS, 3, 7)}, ["scores"], {"words": SEQUENCE}


# name: (function, the exporter of torch.export or the tracing one)
MODELS = {f"{f.__name__}-{'dynamo' if dynamo else 'trace'}": (f, dynamo)
          for f in (resnet50, mobilenet_v2, vit, bert, gpt2_plain, gpt2_past, tagger) for dynamo in (False, True)}
MODELS["tagger_packed-trace"] = (tagger_packed, False)


# ---- exporting ----

def names_of(args):
    return [n for name, x in args.items() for n in ([name] if torch.is_tensor(x) else past_names(name))]


def flat(args, dims):
    """Names of the graph's inputs with their free dims."""
    rows = [d for name in args for d in (dims[name] if isinstance(dims[name], list) else [dims[name]])]
    return dict(zip(names_of(args), rows))


def by_trace(network, args, outputs, dims, file):
    torch.onnx.export(network, tuple(args.values()), file, dynamo=False, input_names=names_of(args),
                      output_names=outputs, dynamic_axes=flat(args, dims), opset_version=17)


def by_dynamo(network, args, outputs, dims, file):
    def free(d):
        return [free(i) for i in d] if isinstance(d, list) else dict.fromkeys(d, torch.export.Dim.DYNAMIC)

    torch.onnx.export(network, tuple(args.values()), file, dynamo=True, input_names=names_of(args),
                      output_names=outputs, dynamic_shapes=tuple(free(dims[name]) for name in args),
                      external_data=False, verbose=False)


def digest():
    text = pathlib.Path(__file__).read_bytes() + f"{torch.__version__} {transformers.__version__}".encode()
    return hashlib.sha256(text).hexdigest()[:16]


def path(name):
    file = FOLDER / digest() / f"{name}.onnx"
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    make, dynamo = MODELS[name]
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        network, args, outputs, dims = make()
        part = file.with_suffix(f".{os.getpid()}.part")
        (by_dynamo if dynamo else by_trace)(network.eval(), args, outputs, dims, str(part))
    part.rename(file)
    return file


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        print(path(wanted))
