"""Small random models in the shapes of GPT-2, T5 and Whisper, as subgraphs of onnxruntime's searches."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, HEADS, SIZE = 23, 2, 4
HIDDEN = HEADS * SIZE
INT, FLOAT = TensorProto.INT32, TensorProto.FLOAT


class Body:
    """Nodes and weights of a subgraph. Weights of one name are the same in every body of a seed."""

    def __init__(self, seed, prefix):
        self.seed, self.prefix, self.nodes, self.held, self.n = seed, prefix, [], {}, 0

    def weight(self, name, *shape, scale=1.0):
        draw = np.random.default_rng([self.seed, *name.encode()])
        return self.const(name, (draw.standard_normal(shape) * scale).astype(np.float32))

    def const(self, name, x):
        name = self.prefix + name
        self.held.setdefault(name, numpy_helper.from_array(np.asarray(x), name))
        return name

    def ints(self, *v):
        return self.const("i" + "_".join(map(str, v)).replace("-", "m"), np.int64(v))

    def __call__(self, op, *inputs, out=None, n_out=1, **attributes):
        self.n += 1
        outs = [out or f"{self.prefix}t{self.n}"] + [f"{self.prefix}t{self.n}_{k}" for k in range(1, n_out)]
        self.nodes.append(helper.make_node(op, list(inputs), outs, **attributes))
        return outs[0] if n_out == 1 else outs

    def graph(self, inputs, outputs):
        def info(name, kind, *dims):
            return helper.make_tensor_value_info(name, kind, dims)
        return helper.make_graph(self.nodes, self.prefix + "body", [info(*i) for i in inputs],
                                 [info(*o) for o in outputs], list(self.held.values()))

    def into_heads(self, x):
        return self("Transpose", self("Reshape", x, self.ints(0, 0, HEADS, SIZE)), perm=[0, 2, 1, 3])

    def attend(self, x, query, keys, values, mask=None, shown=None):
        """x plus what it finds; keys and values (rows, heads, tokens, size), mask (rows, tokens) of 0 and 1. shown: a
        name for the scores."""
        found = self("MatMul", query, self("Transpose", keys, perm=[0, 1, 3, 2]), out=shown)
        if mask:
            hidden = self("Mul", self("Sub", self("Cast", mask, to=FLOAT), self.const("one", np.float32(1))),
                          self.const("far", np.float32(1e4)))
            found = self("Add", found, self("Unsqueeze", hidden, self.ints(1, 2)))
        out = self("MatMul", self("Softmax", found), values)
        return self("Add", x, self("Reshape", self("Transpose", out, perm=[0, 2, 1, 3]), self.ints(0, 0, HIDDEN)))


#: What decoders take whose pasts are buffers: the first of these, or all.
EXTRA = [("past_sequence_length", INT, 1), ("beam_width", INT, 1), ("cache_indirection", INT, "texts", "beams", "room")]


def gpt(seed, layers=2, prefix="", extra=0):
    """extra: 0 pasts of their own length; 1 buffers; 3 buffers, read by a decoder of one token."""
    b = Body(seed, prefix)
    op, how = ("DecoderMaskedSelfAttention", {}) if extra == 3 else ("Attention", {"unidirectional": 1})
    how |= {"past_present_share_buffer": 1} if extra else {}
    more = ["", *(name for name, *_ in EXTRA[:extra])] if extra else []
    x = b("Add", b("Gather", b.weight("words", VOCABULARY, HIDDEN), "input_ids"),
          b("Gather", b.weight("places", 64, HIDDEN), "position_ids"))
    for k in range(layers):
        y, present = b(op, x, b.weight(f"qkv{k}", HIDDEN, 3 * HIDDEN, scale=0.7), b.weight(f"bias{k}", 3 * HIDDEN),
                       "attention_mask", f"past_{k}", *more, n_out=2, domain="com.microsoft", num_heads=HEADS, **how)
        b.nodes[-1].output[1] = f"present_{k}"
        x = b("Add", x, b("Tanh", b("MatMul", y, b.weight(f"mlp{k}", HIDDEN, HIDDEN))))
    b("MatMul", x, b.weight("head", HIDDEN, VOCABULARY), out="logits")
    past = (FLOAT, 2, "rows", HEADS, "past", SIZE)
    return b.graph([("input_ids", INT, "rows", "tokens"), ("position_ids", INT, "rows", "tokens"),
                    ("attention_mask", INT, "rows", "total"), *[(f"past_{k}", *past) for k in range(layers)],
                    *EXTRA[:extra]],
                   [("logits", FLOAT, "rows", "tokens", VOCABULARY),
                    *[(f"present_{k}", FLOAT, 2, "rows", HEADS, "after", SIZE) for k in range(layers)]])


PARTS = ("key", "value")


def t5_self(b, x, k, past, extra):
    """x behind the attention of layer k to what was said, and its keys and values."""
    new = [b("MatMul", x, b.weight(f"self_{which}{k}", HIDDEN, HIDDEN, scale=0.6)) for which in PARTS]
    query = b("MatMul", x, b.weight(f"query{k}", HIDDEN, HIDDEN, scale=0.6))
    old = [past(f"{which}_self", k) for which in PARTS]
    if extra:
        y, *own = b("DecoderMaskedMultiHeadAttention", query, *new, "", "", *old, *(name for name, *_ in EXTRA[:extra]),
                    n_out=3, domain="com.microsoft", num_heads=HEADS, scale=1.0, past_present_share_buffer=1)
        return b("Add", x, y), own
    new = [b.into_heads(x) for x in new]
    own = [b("Concat", o, n, axis=2) if o else n for o, n in zip(old, new)]
    return b.attend(x, b.into_heads(query), *own), own


def t5_layers(b, x, mask, layers, past, extra=0, shows=False):
    """The decoder's layers: past(which, k) names what came before, None where there is nothing."""
    presents = []
    for k in range(layers):
        x, own = t5_self(b, x, k, past, extra)
        query = b.into_heads(b("MatMul", x, b.weight(f"cross{k}", HIDDEN, HIDDEN, scale=0.6)))
        shown = f"output_cross_qk_{k}" if shows else None
        x = b.attend(x, query, past("key_cross", k), past("value_cross", k), mask, shown)
        presents += own
    return b("MatMul", x, b.weight("head", HIDDEN, VOCABULARY)), presents


def t5_encoder(seed, layers=2, begins=True):
    b = Body(seed, "e_")
    hidden = b("Tanh", b("MatMul", b("Gather", b.weight("words", VOCABULARY, HIDDEN), "encoder_input_ids"),
                         b.weight("mix", HIDDEN, HIDDEN)))
    cross = {(part, k): b.into_heads(b("MatMul", hidden, b.weight(f"cross_{part}{k}", HIDDEN, HIDDEN, scale=0.6)))
             for k in range(layers) for part in PARTS}
    named = []
    if begins:
        x = b("Gather", b.weight("words", VOCABULARY, HIDDEN), "decoder_input_ids")
        logits, own = t5_layers(b, x, "encoder_attention_mask", layers,
                                lambda which, k: None if "self" in which else cross[which.split("_")[0], k])
        named = [("logits", logits), ("encoder_hidden_states", hidden)]
        named += [(f"present_{PARTS[i % 2]}_self_{i // 2}", v) for i, v in enumerate(own)]
    named += [(f"present_{part}_cross_{k}", v) for (part, k), v in cross.items()]
    for name, v in named:
        b("Identity", v, out=name)
    ids = [("encoder_input_ids", INT, "texts", "tokens"), ("encoder_attention_mask", INT, "texts", "tokens")]
    shapes = {"logits": ("texts", 1, VOCABULARY), "encoder_hidden_states": ("texts", "tokens", HIDDEN)}
    return b.graph(ids + ([("decoder_input_ids", INT, "texts", 1)] if begins else []),
                   [(n, FLOAT, *shapes.get(n, ("texts", HEADS, 1 if "self" in n else "tokens", SIZE)))
                    for n, _ in named])


def t5_decoder(seed, layers=2, hidden=True, extra=0):
    b = Body(seed, "d_")
    x = b("Gather", b.weight("words", VOCABULARY, HIDDEN), "input_ids")
    if hidden:  # of no consequence, as in models whose pasts hold all that is needed
        x = b("Add", x, b("Mul", b("ReduceMean", "encoder_hidden_states", axes=[1]), b.const("none", np.float32(0))))
    logits, own = t5_layers(b, x, "encoder_attention_mask", layers, lambda which, k: f"past_{which}_{k}", extra)
    b("Identity", logits, out="logits")
    for i, v in enumerate(own):
        b("Identity", v, out=f"present_{PARTS[i % 2]}_self_{i // 2}")
    inputs = [("input_ids", INT, "rows", 1), ("encoder_attention_mask", INT, "rows", "tokens")]
    inputs += [("encoder_hidden_states", FLOAT, "rows", "tokens", HIDDEN)] if hidden else []
    for kind, length in (("self", "past"), ("cross", "tokens")):
        inputs += [(f"past_{part}_{kind}_{k}", FLOAT, "rows", HEADS, length, SIZE) for k in range(layers)
                   for part in PARTS]
    return b.graph(inputs + EXTRA[:extra], [("logits", FLOAT, "rows", 1, VOCABULARY), *t5_presents(layers)])


def t5_presents(layers):
    return [(f"present_{PARTS[i % 2]}_self_{i // 2}", FLOAT, "rows", HEADS, "total", SIZE) for i in range(2 * layers)]


def whisper_encoder(seed, layers=2, mels=3):
    """Features (texts, mels, frames) and the tokens that were said before in; without masks."""
    b = Body(seed, "e_")
    sound = b("Transpose", "encoder_input_ids", perm=[0, 2, 1])
    hidden = b("Tanh", b("MatMul", sound, b.weight("mix", mels, HIDDEN)))
    cross = {(part, k): b.into_heads(b("MatMul", hidden, b.weight(f"cross_{part}{k}", HIDDEN, HIDDEN, scale=0.6)))
             for k in range(layers) for part in PARTS}
    x = b("Gather", b.weight("words", VOCABULARY, HIDDEN), "decoder_input_ids")
    logits, own = t5_layers(b, x, None, layers,
                            lambda which, k: None if "self" in which else cross[which.split("_")[0], k])
    named = [("logits", logits), ("encoder_hidden_states", hidden)]
    named += [(f"present_{PARTS[i % 2]}_self_{i // 2}", v) for i, v in enumerate(own)]
    named += [(f"present_{part}_cross_{k}", v) for (part, k), v in cross.items()]
    for name, v in named:
        b("Identity", v, out=name)
    shapes = {"logits": ("texts", "said", VOCABULARY), "encoder_hidden_states": ("texts", "frames", HIDDEN)}
    return b.graph([("encoder_input_ids", FLOAT, "texts", mels, "frames"), ("decoder_input_ids", INT, "texts", "said")],
                   [(n, FLOAT, *shapes.get(n, ("texts", HEADS, "said" if "self" in n else "frames", SIZE)))
                    for n, _ in named])


def whisper_decoder(seed, layers=2, hidden=False, extra=0, shows=False):
    b = Body(seed, "d_")
    x = b("Gather", b.weight("words", VOCABULARY, HIDDEN), "input_ids")
    if hidden:
        x = b("Add", x, b("Mul", b("ReduceMean", "encoder_hidden_states", axes=[1]), b.const("none", np.float32(0))))
    logits, own = t5_layers(b, x, None, layers, lambda which, k: f"past_{which}_{k}", extra, shows)
    b("Identity", logits, out="logits")
    for i, v in enumerate(own):
        b("Identity", v, out=f"present_{PARTS[i % 2]}_self_{i // 2}")
    inputs = [("input_ids", INT, "rows", 1)]
    inputs += [("encoder_hidden_states", FLOAT, "rows", "frames", HIDDEN)] if hidden else []
    for kind, length in (("self", "past"), ("cross", "frames")):
        inputs += [(f"past_{part}_{kind}_{k}", FLOAT, "rows", HEADS, length, SIZE) for k in range(layers)
                   for part in PARTS]
    shown = [(f"output_cross_qk_{k}", FLOAT, "rows", HEADS, 1, "frames") for k in range(layers)] if shows else []
    return b.graph(inputs + EXTRA[:extra], [("logits", FLOAT, "rows", 1, VOCABULARY), *t5_presents(layers), *shown])


def search(op, inputs, outputs, **attributes):
    """A model of one search; inputs: (name, array) each, name "" for those that are left out."""
    node = helper.make_node(op, [n for n, _ in inputs], outputs, name="it", domain="com.microsoft", **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
             for n, x in inputs if n]
    results = [helper.make_tensor_value_info(n, INT if n == "sequences" else FLOAT, None) for n in outputs if n]
    graph = helper.make_graph([node], "search", infos, results)
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]).SerializeToString()
