"""The models that are measured, made with onnx and numpy alone, kept in build/bench. Weights are random numbers of a
fixed seed, all different, so that no engine can share them. `made` makes a file once and leaves it for the next run.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I64 = TensorProto.FLOAT, TensorProto.INT64
OPSET, IR = 17, 10


class Build:
    """Collects nodes and initializers under counted names."""

    def __init__(self, seed=0):
        self.nodes, self.initializers, self.rng, self.count = [], [], np.random.default_rng(seed), 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def const(self, array, stem="c"):
        tensor = numpy_helper.from_array(np.asarray(array), self.name(stem))
        self.initializers.append(tensor)
        return tensor.name

    def weight(self, *dims, scale=0.02):
        return self.const(self.rng.standard_normal(dims, np.float32) * np.float32(scale), "w")

    def node(self, op, *inputs, **attributes):
        out = self.name(op.lower())
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def parts(self, x, n, axis):
        """Equal parts of x."""
        outs = [self.name("part") for _ in range(n)]
        self.nodes.append(helper.make_node("Split", [x], outs, axis=axis))
        return outs

    def model(self, inputs, outputs):
        graph = helper.make_graph(self.nodes, "bench", inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


def tensor(name, kind, *dims):
    return helper.make_tensor_value_info(name, kind, dims)


# ---- BERT, as torch.onnx writes it: MatMul and Add for a linear layer, attention from MatMul, Softmax, Transpose ----

def _linear(b, x, n_in, n_out):
    return b.node("Add", b.node("MatMul", x, b.weight(n_in, n_out)), b.weight(n_out))


def _layer_norm(b, x, hidden):
    scale = b.const(1 + b.rng.standard_normal(hidden, np.float32) * np.float32(0.02))
    return b.node("LayerNormalization", x, scale, b.weight(hidden), axis=-1, epsilon=1e-12)


def _gelu(b, x, words):
    erf = b.node("Erf", b.node("Div", x, words["sqrt2"]))
    return b.node("Mul", b.node("Mul", x, b.node("Add", erf, words["one"])), words["half"])


def _attention(b, x, mask, hidden, words):
    def heads(perm):
        h = b.node("Reshape", _linear(b, x, hidden, hidden), words["split"])
        return b.node("Transpose", h, perm=perm)
    q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = b.node("Add", b.node("Div", b.node("MatMul", q, k), words["root"]), mask)
    context = b.node("MatMul", b.node("Softmax", scores, axis=-1), v)
    joined = b.node("Reshape", b.node("Transpose", context, perm=[0, 2, 1, 3]), words["join"])
    return _linear(b, joined, hidden, hidden)


def bert(layers=12, hidden=768, heads=12, vocabulary=30522, positions=512):
    """Encoder and pooler of bert-base; ids and mask of any batch and length in, last_hidden and pooled out."""
    b = Build()
    words = {"one": b.const(np.float32(1)), "half": b.const(np.float32(0.5)), "sqrt2": b.const(np.float32(2 ** 0.5)),
             "root": b.const(np.float32((hidden // heads) ** 0.5)),
             "split": b.const(np.int64([0, 0, heads, hidden // heads])), "join": b.const(np.int64([0, 0, hidden]))}
    zero, one = b.const(np.int64([0])), b.const(np.int64([1]))
    length = b.node("Slice", b.node("Shape", "input_ids"), one, b.const(np.int64([2])))
    ids = b.node("Slice", b.const(np.arange(positions)[None]), zero, length, one)
    x = b.node("Add", b.node("Gather", b.weight(vocabulary, hidden), "input_ids"),
               b.node("Gather", b.weight(positions, hidden), ids))
    x = b.node("Add", x, b.node("Gather", b.weight(2, hidden), b.const(np.int64([[0]]))))
    x = _layer_norm(b, x, hidden)
    kept = b.node("Cast", b.node("Unsqueeze", "attention_mask", b.const(np.int64([1, 2]))), to=F)
    mask = b.node("Mul", b.node("Sub", words["one"], kept), b.const(np.float32(-1e4)))
    for _ in range(layers):
        x = _layer_norm(b, b.node("Add", _attention(b, x, mask, hidden, words), x), hidden)
        inner = _gelu(b, _linear(b, x, hidden, 4 * hidden), words)
        x = _layer_norm(b, b.node("Add", _linear(b, inner, 4 * hidden, hidden), x), hidden)
    first = b.node("Gather", x, b.const(np.int64(0)), axis=1)
    pooled = b.node("Tanh", b.node("Gemm", first, b.weight(hidden, hidden), b.weight(hidden), transB=1))
    b.nodes += [helper.make_node("Identity", [x], ["last_hidden"]), helper.make_node("Identity", [pooled], ["pooled"])]
    return b.model([tensor("input_ids", I64, "batch", "length"), tensor("attention_mask", I64, "batch", "length")],
                   [tensor("last_hidden", F, "batch", "length", hidden), tensor("pooled", F, "batch", hidden)])


def bert_flops(length, layers=12, hidden=768):
    return 2 * length * layers * (12 * hidden * hidden + 2 * length * hidden)


# ---- one operator, or a few, over an input x and an output y ----

def matmul(m, k, n):
    b = Build()
    b.nodes.append(helper.make_node("MatMul", ["x", b.weight(k, n)], ["y"]))
    return b.model([tensor("x", F, m, k)], [tensor("y", F, m, n)])


def conv(channels, out, kernel, size, group=1):
    b = Build()
    pad = kernel // 2
    b.nodes.append(helper.make_node("Conv", ["x", b.weight(out, channels // group, kernel, kernel), b.weight(out)],
                                    ["y"], pads=[pad] * 4, group=group))
    return b.model([tensor("x", F, 1, channels, size, size)], [tensor("y", F, 1, out, size, size)])


# ---- convolutional networks, batch normalization already folded, as exporters write them for inference ----
def _conv(b, x, n_in, n_out, kernel, stride=1, group=1, act=None):
    scale = (2 / (n_in // group * kernel * kernel)) ** 0.5
    y = b.node("Conv", x, b.weight(n_out, n_in // group, kernel, kernel, scale=scale), b.weight(n_out),
               pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)
    if act == "Relu":
        return b.node("Relu", y)
    if act == "Relu6":
        return b.node("Clip", y, b.const(np.float32(0)), b.const(np.float32(6)))
    return b.node("Mul", y, b.node("HardSigmoid", y, alpha=1 / 6, beta=0.5)) if act == "HardSwish" else y


def _head(b, x, channels, classes):
    flat = b.node("Flatten", b.node("GlobalAveragePool", x))
    b.nodes.append(helper.make_node("Gemm", [flat, b.weight(classes, channels), b.weight(classes)], ["y"], transB=1))
    return b.model([tensor("x", F, "n", 3, "h", "w")], [tensor("y", F, "n", classes)])


def resnet50(classes=1000):
    b = Build()
    x, channels = _conv(b, "x", 3, 64, 7, 2, act="Relu"), 64
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            stride = 2 if i == 0 and width > 64 else 1
            y = _conv(b, x, channels, width, 1, act="Relu")
            y = _conv(b, y, width, width, 3, stride, act="Relu")
            y = _conv(b, y, width, 4 * width, 1)
            x = _conv(b, x, channels, 4 * width, 1, stride) if i == 0 else x
            x, channels = b.node("Relu", b.node("Add", y, x)), 4 * width
    return _head(b, x, channels, classes)


def mobilenet_v2(classes=1000, act="Relu6"):
    b = Build()
    x, channels = _conv(b, "x", 3, 32, 3, 2, act=act), 32
    for expand, out, blocks, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            stride, wide = first if i == 0 else 1, channels * expand
            y = _conv(b, x, channels, wide, 1, act=act) if expand > 1 else x
            y = _conv(b, y, wide, wide, 3, stride, wide, act)
            y = _conv(b, y, wide, out, 1)
            x = b.node("Add", x, y) if stride == 1 and channels == out else y
            channels = out
    return _head(b, _conv(b, x, channels, 1280, 1, act=act), 1280, classes)


def unary(op, *dims, **attributes):
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    b = Build()
    b.nodes.append(node)
    return b.model([tensor("x", F, *dims)], [tensor("y", F, *dims)])


def layer_norm(rows, width):
    b = Build()
    b.nodes.append(helper.make_node("LayerNormalization", ["x", b.weight(width), b.weight(width)], ["y"]))
    return b.model([tensor("x", F, rows, width)], [tensor("y", F, rows, width)])


def gelu(rows, width):
    b = Build()
    words = {"one": b.const(np.float32(1)), "half": b.const(np.float32(0.5)), "sqrt2": b.const(np.float32(2 ** 0.5))}
    b.nodes.append(helper.make_node("Identity", [_gelu(b, "x", words)], ["y"]))
    return b.model([tensor("x", F, rows, width)], [tensor("y", F, rows, width)])


def lstm(steps, batch, width, hidden):
    b = Build()
    b.nodes.append(helper.make_node("LSTM", ["x", b.weight(1, 4 * hidden, width), b.weight(1, 4 * hidden, hidden),
                                             b.weight(1, 8 * hidden)], ["y"], hidden_size=hidden))
    return b.model([tensor("x", F, steps, batch, width)], [tensor("y", F, steps, 1, batch, hidden)])


def tiny(n):
    """n nodes on (4, 8) that nobody fuses with their neighbours: what a node costs beside its arithmetic."""
    b, y = Build(), "x"
    axis, order = b.const(np.int64(1)), b.const(np.arange(8)[::-1].copy())
    for i in range(n):
        if i % 5 == 0:
            y = b.node("MatMul", y, b.weight(8, 8, scale=0.5))
        elif i % 5 == 1:
            y = b.node("Softmax", y, axis=1)
        elif i % 5 == 2:
            y = b.node("CumSum", y, axis)
        elif i % 5 == 3:
            y = b.node("Gather", y, order, axis=1)
        else:
            y = b.node("LayerNormalization", y, b.weight(8), b.weight(8))
    b.nodes[-1].output[0] = "y"
    return b.model([tensor("x", F, 4, 8)], [tensor("y", F, 4, 8)])


def calls(n):
    """n calls of a model-local function of two nodes: what a node costs when a session is created."""
    body = [helper.make_node("Relu", ["a"], ["t"]), helper.make_node("Softmax", ["t"], ["b"], axis=0)]
    function = helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", OPSET)])
    names = ["x", *(f"v{i}" for i in range(1, n)), "y"]
    nodes = [helper.make_node("F", [names[i]], [names[i + 1]], domain="local") for i in range(n)]
    graph = helper.make_graph(nodes, "bench", [tensor("x", F, 8)], [tensor("y", F, 8)])
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=IR)


def sliced_lstm(width=512, layers=2):
    """A bidirectional LSTM whose weights are put together from slices of constants, as torch's exporter writes it."""
    b, y = Build(), "x"
    for layer in range(layers):
        size = width if layer == 0 else 2 * width
        parts = []
        for columns in (size, width):
            sides = []
            for _ in range(2):
                w = b.weight(4 * width, columns)
                cut = [b.node("Slice", w, b.const(np.array([k * width])), b.const(np.array([(k + 1) * width])),
                              b.const(np.array([0]))) for k in (0, 3, 1, 2)]
                sides.append(b.node("Unsqueeze", b.node("Concat", *cut, axis=0), b.const(np.array([0]))))
            parts.append(b.node("Concat", *sides, axis=0))
        y = b.node("LSTM", y, *parts, hidden_size=width, direction="bidirectional")
        y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3]), b.const(np.array([0, 0, 2 * width])))
    b.nodes[-1].output[0] = "y"
    return b.model([tensor("x", F, "steps", 1, width)], [tensor("y", F, "steps", 1, 2 * width)])


def made(folder, name, make, external=False):
    """The path of a model, made when it is not there; with external, its weights lie in a file beside it."""
    path = pathlib.Path(folder) / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".tmp")
        if external:
            (path.parent / f"{name}.data").unlink(missing_ok=True)
        onnx.save_model(make(), new, save_as_external_data=external, all_tensors_to_one_file=True,
                        location=f"{name}.data")
        new.rename(path)
    return path


# ---- decision trees ----

def forest(trees, depth, features, seed=5):
    """Full trees of random branches, and a weight for each leaf."""
    rng, branches, n = np.random.default_rng(seed), 2 ** depth - 1, 2 ** (depth + 1) - 1
    tree, node = np.repeat(np.arange(trees), n), np.tile(np.arange(n), trees)
    leaf = node >= branches
    at = np.nonzero(leaf)[0]
    values = np.where(leaf, 0, rng.standard_normal(trees * n)).astype(np.float32)
    lists = {"nodes_treeids": tree, "nodes_nodeids": node, "nodes_values": values,
             "nodes_featureids": np.where(leaf, 0, rng.integers(0, features, trees * n)),
             "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ"), "nodes_truenodeids": np.where(leaf, 0, 2 * node + 1),
             "nodes_falsenodeids": np.where(leaf, 0, 2 * node + 2), "target_treeids": tree[at],
             "target_nodeids": node[at], "target_ids": 0 * at,
             "target_weights": (rng.standard_normal(len(at)) / 100).astype(np.float32)}
    made = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
                            **{k: v.tolist() for k, v in lists.items()})
    graph = helper.make_graph([made], "bench", [tensor("x", F, "n", features)], [tensor("y", F, "n", 1)])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR)
