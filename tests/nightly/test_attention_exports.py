"""Attention is found in what torch's exporters write for language models, encoders and speech, small ones: every
Softmax of a layer goes into an Attention, and the results are torch's, with padded masks and a past."""
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
import nacre_c  # noqa: E402
from tolerances import close  # noqa: E402

WORDS, LAYERS, HEADS, KEY_HEADS, WIDTH = 100, 2, 4, 2, 32
SIZE = WIDTH // HEADS
TOKENS, TOTAL, PAST = {0: "batch", 1: "length"}, {0: "batch", 1: "total"}, {0: "batch", 2: "past"}


class Called(torch.nn.Module):
    """A model with its arguments by position; a past goes in and out as a list of tensors."""

    def __init__(self, model, names, result):
        super().__init__()
        self.model, self.names, self.result = model, names, result

    def forward(self, *args):
        given = dict(zip(self.names, args))
        past = given.pop("past", None)
        if past is None:
            return getattr(self.model(**given, use_cache=False) if "input_ids" in given else self.model(**given),
                           self.result)
        cache = transformers.DynamicCache()
        for i in range(LAYERS):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(**given, past_key_values=cache, use_cache=True)
        return (getattr(out, self.result), *[t for x in out.past_key_values.layers for t in (x.keys, x.values)])


def words(batch=2, length=7):
    return torch.randint(0, WORDS, (batch, length))


def padded(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, -2:] = 0
    return mask


def decoder(make, config, key_heads, past, how, **more):
    shape = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
             "num_key_value_heads": key_heads, "intermediate_size": 64, **more}
    if config is transformers.GPT2Config:
        shape = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "bos_token_id": 0, "eos_token_id": 0}
    model = make(config(vocab_size=WORDS, attn_implementation=how, **shape))
    n = 5 if past else 0
    args = {"input_ids": words(), "attention_mask": padded(2, 7 + n),
            "position_ids": torch.arange(n, n + 7).repeat(2, 1)}
    dims = {"input_ids": TOKENS, "attention_mask": TOTAL if past else TOKENS, "position_ids": TOKENS}
    if past:
        args["past"] = [torch.randn(2, key_heads, n, SIZE) for _ in range(2 * LAYERS)]
        dims["past"] = [PAST] * (2 * LAYERS)
    return Called(model, list(args), "logits"), args, dims, LAYERS


def gpt2(how, past=False):
    return decoder(transformers.GPT2LMHeadModel, transformers.GPT2Config, HEADS, past, how)


def llama(how, past=False):
    return decoder(transformers.LlamaForCausalLM, transformers.LlamaConfig, KEY_HEADS, past, how)


def mistral(how):
    return decoder(transformers.MistralForCausalLM, transformers.MistralConfig, KEY_HEADS, False, how, sliding_window=4)


def gpt2_past(how):
    return gpt2(how, True)


def llama_past(how):
    return llama(how, True)


def bert(how):
    model = transformers.BertModel(transformers.BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=64,
        attn_implementation=how))
    args = {"input_ids": words(), "attention_mask": padded(2, 7)}
    return Called(model, list(args), "last_hidden_state"), args, dict.fromkeys(args, TOKENS), LAYERS


def vit(how):
    model = transformers.ViTModel(transformers.ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=64, image_size=32,
        patch_size=8, attn_implementation=how))
    args = {"pixel_values": torch.randn(2, 3, 32, 32)}
    return Called(model, list(args), "last_hidden_state"), args, {"pixel_values": {0: "batch"}}, LAYERS


def t5(how):
    model = transformers.T5Model(transformers.T5Config(
        vocab_size=WORDS, d_model=WIDTH, d_kv=SIZE, d_ff=64, num_layers=LAYERS, num_heads=HEADS,
        attn_implementation=how))
    args = {"input_ids": words(), "attention_mask": padded(2, 7), "decoder_input_ids": words(2, 5)}
    dims = {**dict.fromkeys(args, TOKENS), "decoder_input_ids": {0: "batch", 1: "answer"}}
    return Called(model, list(args), "last_hidden_state"), args, dims, 3 * LAYERS


def whisper(how):
    model = transformers.WhisperModel(transformers.WhisperConfig(
        vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=30,
        max_target_positions=40, num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=3, attn_implementation=how))
    args = {"input_features": torch.randn(2, 8, 60), "decoder_input_ids": words(2, 5)}
    dims = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "answer"}}
    return Called(model, list(args), "last_hidden_state"), args, dims, 3 * LAYERS


def export(network, args, dims, dynamo, file):
    names = [n for name, x in args.items()
             for n in ([name] if torch.is_tensor(x) else [f"{name}.{i}" for i in range(len(x))])]

    # By name, so that all pasts have one length.
    def free(d):
        return [free(i) for i in d] if isinstance(d, list) else dict(d)

    how = {"dynamo": True, "dynamic_shapes": (tuple(free(dims[name]) for name in args),), "opset_version": 18}
    if not dynamo:
        rows = [d for name in args for d in (dims[name] if isinstance(dims[name], list) else [dims[name]])]
        how = {"dynamo": False, "dynamic_axes": dict(zip(names, rows)), "opset_version": 17}
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, tuple(args.values()), file, input_names=names, verbose=False, **how)
    return names


# The tracing exporter cannot trace Whisper of this version of transformers.
CASES = [(make, how, dynamo) for make in (bert, gpt2, gpt2_past, llama, llama_past, mistral, t5, vit, whisper)
         for how in ("sdpa", "eager") for dynamo in (False, True) if dynamo or make is not whisper]


@pytest.mark.parametrize("make, how, dynamo", CASES)
def test_attention_is_found(make, how, dynamo, tmp_path):
    torch.manual_seed(0)
    network, args, dims, count = make(how)
    network.eval()
    file = tmp_path / "model.onnx"
    names = export(network, args, dims, dynamo, file)
    done = subprocess.run([nacre_c.PROGRAM, "run", file, "--dump", "transformed"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.count("Softmax<"), done.stdout.count("Attention<")) == (0, count)
    with torch.no_grad():
        want = network(*args.values())
    flat = [t for x in args.values() for t in ([x] if torch.is_tensor(x) else x)]
    with nacre_c.Env(2).session(file) as session:
        got = session.run(dict(zip(names, (t.numpy() for t in flat))))
    for y, w in zip(got.values(), want if isinstance(want, tuple) else [want]):
        close(y, w.numpy(), "model_f32")
