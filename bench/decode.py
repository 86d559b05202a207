"""Decoding token by token: a Llama-shaped network of 4-bit weights (MatMulNBits with accuracy_level 4,
GroupQueryAttention with its own rotation), one token behind a past. What bounds it is reading: weights, scales and past
are read once, and the figure is the share of the machine's read bandwidth that this is. Once with caches that lie in
place, as decoders keep them: room for ROOM keys, which the new ones are written into; once with a past that is given
and a present that is made of it, which copies it.
"""
import numpy as np
from onnx import TensorProto, helper

import models
import paired
from models import F, I64, Build, tensor

DOMAIN = "com.microsoft"
SIZES = {False: dict(layers=8, hidden=2048, heads=32, kv=8, inner=5632, vocabulary=32000, past=256),
         True: dict(layers=1, hidden=64, heads=4, kv=2, inner=96, vocabulary=100, past=5)}
BLOCK, MOST, ROOM = 32, 1024, 512


class _Llama(Build):
    def linear(self, x, n_in, n_out):
        blocks = n_in // BLOCK
        codes = self.const(self.rng.integers(0, 256, (n_out, blocks, BLOCK // 2), np.uint8))
        scales = self.const((self.rng.random(n_out * blocks, np.float32) + 0.5) * np.float32(0.05 / n_in ** 0.5))
        return self.node("MatMulNBits", x, codes, scales, domain=DOMAIN, K=n_in, N=n_out, bits=4, block_size=BLOCK,
                         accuracy_level=4)

    def norm(self, x, width):
        return self.node("SimplifiedLayerNormalization", x, self.const(np.ones(width, np.float32)), axis=-1,
                         epsilon=1e-5, stash_type=1)

    def attend(self, i, q, k, v, turns, heads, kv):
        out = self.name("attention")
        ins = [q, k, v, f"past_key_{i}", f"past_value_{i}", "seqlens_k", "total", *turns]
        self.nodes.append(helper.make_node("GroupQueryAttention", ins, [out, f"key_{i}", f"value_{i}"], domain=DOMAIN,
                                           num_heads=heads, kv_num_heads=kv, do_rotary=1))
        return out


def _turns(head):
    angles = np.outer(np.arange(MOST), 10000.0 ** (-np.arange(0, head, 2) / head))
    return np.float32(np.cos(angles)), np.float32(np.sin(angles))


def llama(layers, hidden, heads, kv, inner, vocabulary, past):
    """The model, its feeds, and the bytes that a token reads."""
    b, head = _Llama(21), hidden // heads
    turns = [b.const(t) for t in _turns(head)]
    x = b.node("Gather", b.weight(vocabulary, hidden, scale=1.0), "ids")
    for i in range(layers):
        y = b.norm(x, hidden)
        q, k, v = (b.linear(y, hidden, n * head) for n in (heads, kv, kv))
        x = b.node("Add", x, b.linear(b.attend(i, q, k, v, turns, heads, kv), heads * head, hidden))
        y = b.norm(x, hidden)
        gate = b.linear(y, hidden, inner)
        y = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), b.linear(y, hidden, inner))
        x = b.node("Add", x, b.linear(y, inner, hidden))
    b.nodes.append(helper.make_node("Identity", [b.linear(b.norm(x, hidden), hidden, vocabulary)], ["logits"]))
    cached = [f"{what}_{i}" for i in range(layers) for what in ("key", "value")]
    i32 = TensorProto.INT32
    ins = [tensor("ids", I64, 1, 1), tensor("seqlens_k", i32, 1), tensor("total", i32)]
    ins += [tensor(f"past_{c}", F, 1, kv, "past", head) for c in cached]
    outs = [tensor("logits", F, 1, 1, vocabulary), *(tensor(c, F, 1, kv, "total", head) for c in cached)]
    model = b.model(ins, outs)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    rng = np.random.default_rng(22)
    feeds = {"ids": np.array([[7]]), "seqlens_k": np.array([past], np.int32), "total": np.array(past + 1, np.int32)}
    feeds |= {f"past_{c}": rng.standard_normal((1, kv, past, head), np.float32) for c in cached}
    return model, feeds


def _bytes(model, feeds):
    """Of weights and scales, and of the past: the table of words is read in one row only."""
    weights = {i.name: len(i.raw_data) for i in model.graph.initializer}
    read = {name for n in model.graph.node if n.op_type == "MatMulNBits" for name in n.input[1:] if name}
    return sum(weights[name] for name in read) + sum(v.nbytes for k, v in feeds.items() if k.startswith("past_"))


def _in_place(path, feeds):
    """The same feeds with room behind the past. Returns which outputs are written onto which inputs."""
    with np.load(feeds) as f:
        arrays = dict(f)
    caches = {k: v for k, v in arrays.items() if k.startswith("past_")}
    for k, v in caches.items():
        arrays[k] = np.zeros((*v.shape[:2], max(ROOM, v.shape[2] + 1), v.shape[3]), v.dtype)
        arrays[k][:, :, :v.shape[2]] = v
    np.savez(path, **arrays)
    return {k.removeprefix("past_"): k for k in caches}


def measure(bench):
    path, feeds = bench.folder / "llama.onnx", bench.folder / "llama.npz"
    count, in_place = bench.folder / "llama.bytes", bench.folder / "llama_in_place.npz"
    if not (path.exists() and feeds.exists() and count.exists()):
        model, arrays = llama(**SIZES[bench.quick])
        models.made(bench.folder, "llama", lambda: model)
        np.savez(feeds, **arrays)
        count.write_text(str(_bytes(model, arrays)))
    how = dict(kind="decode", within=0.02, bytes=int(count.read_text()))
    made = [paired.Model("Llama, 4 bits, one token", path, feeds, **how),
            paired.Model("Llama, 4 bits, one token, caches in place", path, in_place, onto=_in_place(in_place, feeds),
                         **how)]
    return paired.measure(bench, "Decoding token by token", made, {})
