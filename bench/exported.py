"""Models as torch.onnx writes them, with random weights: a GPT-2 and a bidirectional LSTM, of any batch and length. Run
as a script it writes one file, so that torch is loaded by a process of its own: exported.py MODEL FILE [quick].
"""
import importlib.util
import logging
import pathlib
import subprocess
import sys
import warnings

NAMES = {"gpt2": "a GPT-2 of 12 layers, by torch", "lstm": "a bidirectional LSTM, by torch"}


def missing():
    """What an export needs and this Python lacks."""
    return [p for p in ("torch", "transformers", "onnxscript") if importlib.util.find_spec(p) is None]


def path(folder, name, quick):
    """The file of a model, exported when it is not there yet."""
    file = pathlib.Path(folder) / f"exported_{name}.onnx"
    if not file.exists():
        new = file.with_suffix(".new")
        subprocess.run([sys.executable, __file__, name, new, *(["quick"] if quick else [])], check=True,
                       capture_output=True, text=True)
        new.rename(file)
    return str(file)


def gpt2(quick):
    """Token ids to logits by the defaults of transformers: 12 layers of 768, 124 million weights, the last tied."""
    import torch
    import transformers
    small = dict(n_layer=2, n_embd=64, n_head=2, vocab_size=100) if quick else {}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager", **small))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids=input_ids, use_cache=False).logits
    return Logits(), torch.randint(0, 100, (2, 7))


def lstm(quick):
    """Two layers, both ways; (batch, steps, 256) in."""
    import torch
    return torch.nn.LSTM(256, 64 if quick else 512, num_layers=2, bidirectional=True, batch_first=True), \
        torch.randn(2, 9, 256)


def main(name, file, *quick):
    import torch
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    model, example = globals()[name](bool(quick))
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    with torch.no_grad():
        torch.onnx.export(model.eval(), (example,), file, dynamo=True, dynamic_shapes=(free,), external_data=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
