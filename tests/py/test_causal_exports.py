"""Causal attention in what torch's exporters write: triangles become is_causal, MultiheadAttention's products over
batch times heads become Attention, and the results are torch's."""
import logging
import subprocess
import warnings

import nacre_c
import pytest
import torch
from tolerances import close

WIDTH, HEADS, LENGTH = 16, 4, 7
torch.backends.mha.set_fastpath_enabled(False)  # one op that the tracing exporter does not know


class Mha(torch.nn.Module):
    """With the weights asked for, as is the default, torch multiplies over three dims."""

    def __init__(self, masked):
        super().__init__()
        self.attention, self.masked = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), masked

    def forward(self, x):
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1) if self.masked else None
        return self.attention(x, x, x, attn_mask=mask)[0]


class Sdpa(torch.nn.Module):
    """The triangle of torch's own word, of a buffer as GPT-2 keeps one, and of places compared."""

    def __init__(self, how):
        super().__init__()
        self.how, self.qkv = how, torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("tri", torch.ones(32, 32, dtype=torch.bool).tril()[None, None])

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.view(x.shape[0], n, HEADS, -1).transpose(1, 2) for t in self.qkv(x).split(WIDTH, 2))
        if self.how == "word":
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        places = torch.arange(n)
        seen = self.tri[:, :, :n, :n] if self.how == "buffer" else places[None, :] <= places[:, None]
        scores = torch.where(seen, q @ k.transpose(2, 3) * 0.5, torch.finfo(torch.float32).min)
        return scores.softmax(-1) @ v


def exported(network, x, dynamo, free, file):
    dims = {"dynamic_shapes": ({1: torch.export.Dim.DYNAMIC},)} if dynamo else {"dynamic_axes": {"x": {1: "n"}}}
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(network, (x,), file, input_names=["x"], dynamo=dynamo, verbose=False,
                              opset_version=18 if dynamo else 17, **(dims if free else {}))
    finally:
        logging.disable(logging.NOTSET)


NETWORKS = {"mha": lambda: Mha(False), "mha_causal": lambda: Mha(True), "word": lambda: Sdpa("word"),
            "buffer": lambda: Sdpa("buffer"), "places": lambda: Sdpa("places")}
# The tracing exporter writes the length of MultiheadAttention's keys as a number; the other takes seconds for each.
CASES = [(name, free, False) for name in NETWORKS for free in (False, True) if not (free and name.startswith("mha"))]
CASES.append(("mha_causal", True, True))


@pytest.mark.parametrize("name, free, dynamo", CASES)
def test_attention_is_found(name, free, dynamo, tmp_path):
    torch.manual_seed(0)
    network, x, file = NETWORKS[name]().eval(), torch.randn(2, LENGTH, WIDTH), tmp_path / "model.onnx"
    exported(network, x, dynamo, free, file)
    done = subprocess.run([nacre_c.PROGRAM, "run", file, "--dump", "transformed"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # A buffer of 32 rows need not have as many as there are queries: who knows their number when it is made?
    causal = name != "mha" and not (name == "buffer" and free)
    counts = [done.stdout.count(word) for word in ("Softmax<", "Attention<", "is_causal = 1")]
    assert counts == [0, 1, int(causal)], done.stdout
    for n in (LENGTH, LENGTH + 4) if free else (LENGTH,):
        x = torch.randn(2, n, WIDTH)
        with torch.no_grad(), nacre_c.Env(1).session(file) as session:
            got, = session.run({"x": x.numpy()}).values()
            close(got, network(x).numpy(), "model_f32")
