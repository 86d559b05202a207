"""Whole networks, made with onnx and numpy alone, as the usual exporters write them: sizes, operators and order are
those of the published ones, weights are random numbers. `NETS` names them; each gives a model and its feeds.
"""
import numpy as np
from onnx import helper

import models
from models import F, I64, Build, tensor

RNG = np.random.default_rng(3)


def _image(size=224):
    return {"x": RNG.standard_normal((1, 3, size, size), np.float32)}


def _conv(b, x, c_in, c_out, kernel, stride=1, group=1, bias=True):
    fan = c_in // group * kernel * kernel
    w = b.weight(c_out, c_in // group, kernel, kernel, scale=(2 / fan) ** 0.5)
    more = [b.weight(c_out)] if bias else []
    return b.node("Conv", x, w, *more, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group,
                  kernel_shape=[kernel] * 2)


def _head(b, x, width, classes=1000):
    """Pooled, flattened, classified."""
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    b.nodes.append(helper.make_node("Gemm", [x, b.weight(classes, width), b.weight(classes)], ["y"], transB=1))


def _finished(b, size=224, classes=1000):
    return b.model([tensor("x", F, 1, 3, size, size)], [tensor("y", F, 1, classes)])


def resnet50():
    b = Build(5)
    x = b.node("Relu", _conv(b, "x", 3, 64, 7, 2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    width = 64
    for stage, (inner, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = b.node("Relu", _conv(b, x, width, inner, 1))
            y = b.node("Relu", _conv(b, y, inner, inner, 3, stride))
            y = _conv(b, y, inner, 4 * inner, 1)
            if block == 0:
                x = _conv(b, x, width, 4 * inner, 1, stride)
            x, width = b.node("Relu", b.node("Add", y, x)), 4 * inner
    _head(b, x, width)
    return _finished(b), _image()


def mobilenet_v2():
    b = Build(6)
    low, high = b.const(np.float32(0)), b.const(np.float32(6))

    def clipped(x):
        return b.node("Clip", x, low, high)
    x, width = clipped(_conv(b, "x", 3, 32, 3, 2)), 32
    for expand, out, n, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                  (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(n):
            stride, inner = first if i == 0 else 1, width * expand
            y = clipped(_conv(b, x, width, inner, 1)) if expand > 1 else x
            y = clipped(_conv(b, y, inner, inner, 3, stride, inner))
            y = _conv(b, y, inner, out, 1)
            x, width = b.node("Add", x, y) if stride == 1 and width == out else y, out
    _head(b, clipped(_conv(b, x, width, 1280, 1)), 1280)
    return _finished(b), _image()


def _norm_channels(b, x, width):
    """LayerNorm over the channels of an image, as torch writes it: to channels last and back."""
    last = b.node("Transpose", x, perm=[0, 2, 3, 1])
    return b.node("Transpose", models._layer_norm(b, last, width), perm=[0, 3, 1, 2])


def _words(b):
    return {"one": b.const(np.float32(1)), "half": b.const(np.float32(0.5)), "sqrt2": b.const(np.float32(2 ** 0.5))}


def convnext_tiny():
    b = Build(7)
    words, depths, widths = _words(b), (3, 3, 9, 3), (96, 192, 384, 768)
    w = b.weight(96, 3, 4, 4, scale=0.1)
    x = _norm_channels(b, b.node("Conv", "x", w, b.weight(96), strides=[4, 4], kernel_shape=[4, 4]), 96)
    for stage, (depth, width) in enumerate(zip(depths, widths)):
        if stage > 0:
            before = widths[stage - 1]
            x = b.node("Conv", _norm_channels(b, x, before), b.weight(width, before, 2, 2, scale=0.05), b.weight(width),
                       strides=[2, 2], kernel_shape=[2, 2])
        for _ in range(depth):
            y = b.node("Transpose", _conv(b, x, width, width, 7, group=width), perm=[0, 2, 3, 1])
            y = models._gelu(b, models._linear(b, models._layer_norm(b, y, width), width, 4 * width), words)
            y = b.node("Mul", models._linear(b, y, 4 * width, width), b.weight(width, scale=0.1))
            x = b.node("Add", b.node("Transpose", y, perm=[0, 3, 1, 2]), x)
    pooled = b.node("Flatten", b.node("GlobalAveragePool", x))
    y = models._layer_norm(b, pooled, 768)
    b.nodes.append(helper.make_node("Gemm", [y, b.weight(1000, 768), b.weight(1000)], ["y"], transB=1))
    return _finished(b), _image()


def _heads(b, x, hidden, heads, perm):
    split = b.const(np.int64([0, 0, heads, hidden // heads]))
    return b.node("Transpose", b.node("Reshape", x, split), perm=perm)


def _attend(b, q, k, v, hidden, heads, mask=None):
    q, v = (_heads(b, t, hidden, heads, [0, 2, 1, 3]) for t in (q, v))
    k = _heads(b, k, hidden, heads, [0, 2, 3, 1])
    scores = b.node("Mul", b.node("MatMul", q, k), b.const(np.float32((hidden // heads) ** -0.5)))
    scores = b.node("Add", scores, mask) if mask else scores
    context = b.node("Transpose", b.node("MatMul", b.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return b.node("Reshape", context, b.const(np.int64([0, 0, hidden])))


def vit_base(layers=12, hidden=768, heads=12):
    b = Build(8)
    words = _words(b)
    x = b.node("Conv", "x", b.weight(hidden, 3, 16, 16), b.weight(hidden), strides=[16, 16], kernel_shape=[16, 16])
    x = b.node("Transpose", b.node("Reshape", x, b.const(np.int64([1, hidden, 196]))), perm=[0, 2, 1])
    x = b.node("Add", b.node("Concat", b.weight(1, 1, hidden), x, axis=1), b.weight(1, 197, hidden))
    for _ in range(layers):
        y = models._layer_norm(b, x, hidden)
        q, k, v = (models._linear(b, y, hidden, hidden) for _ in range(3))
        x = b.node("Add", models._linear(b, _attend(b, q, k, v, hidden, heads), hidden, hidden), x)
        y = models._gelu(b, models._linear(b, models._layer_norm(b, x, hidden), hidden, 4 * hidden), words)
        x = b.node("Add", models._linear(b, y, 4 * hidden, hidden), x)
    first = b.node("Gather", models._layer_norm(b, x, hidden), b.const(np.int64(0)), axis=1)
    b.nodes.append(helper.make_node("Gemm", [first, b.weight(1000, hidden), b.weight(1000)], ["y"], transB=1))
    return _finished(b), _image()


def _new_gelu(b, x):
    """The form by tanh, as GPT-2 has it."""
    cube = b.node("Pow", x, b.const(np.float32(3)))
    inner = b.node("Mul", b.node("Add", x, b.node("Mul", cube, b.const(np.float32(0.044715)))),
                   b.const(np.float32((2 / np.pi) ** 0.5)))
    return b.node("Mul", b.node("Mul", x, b.const(np.float32(0.5))),
                  b.node("Add", b.node("Tanh", inner), b.const(np.float32(1))))


def gpt2(tokens=128, layers=12, hidden=768, heads=12, vocabulary=50257):
    """With its head, all tokens at once."""
    b = Build(9)
    table = b.weight(vocabulary, hidden)
    x = b.node("Add", b.node("Gather", table, "ids"), b.weight(1, tokens, hidden))
    mask = b.const(np.where(np.tri(tokens, dtype=bool), 0, np.finfo(np.float32).min).astype(np.float32)[None, None])
    for _ in range(layers):
        y = models._linear(b, models._layer_norm(b, x, hidden), hidden, 3 * hidden)
        q, k, v = (b.name("part") for _ in range(3))
        b.nodes.append(helper.make_node("Split", [y, b.const(np.int64([hidden] * 3))], [q, k, v], axis=2))
        x = b.node("Add", models._linear(b, _attend(b, q, k, v, hidden, heads, mask), hidden, hidden), x)
        y = _new_gelu(b, models._linear(b, models._layer_norm(b, x, hidden), hidden, 4 * hidden))
        x = b.node("Add", models._linear(b, y, 4 * hidden, hidden), x)
    x = models._layer_norm(b, x, hidden)
    b.nodes.append(helper.make_node("MatMul", [x, b.node("Transpose", table, perm=[1, 0])], ["y"]))
    model = b.model([tensor("ids", I64, 1, tokens)], [tensor("y", F, 1, tokens, vocabulary)])
    return model, {"ids": RNG.integers(0, vocabulary, (1, tokens))}


def bert(tokens=128):
    feeds = {"input_ids": RNG.integers(0, 30522, (1, tokens)), "attention_mask": np.ones((1, tokens), np.int64)}
    return models.bert(), feeds


def lstm(steps=100, width=256, hidden=256, layers=2):
    """A bidirectional one of two layers."""
    b, y, size = Build(10), "x", width
    for _ in range(layers):
        y = b.node("LSTM", y, b.weight(2, 4 * hidden, size), b.weight(2, 4 * hidden, hidden), b.weight(2, 8 * hidden),
                   hidden_size=hidden, direction="bidirectional")
        y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1, 3]), b.const(np.int64([0, 0, 2 * hidden])))
        size = 2 * hidden
    b.nodes[-1].output[0] = "y"
    model = b.model([tensor("x", F, steps, 1, width)], [tensor("y", F, steps, 1, 2 * hidden)])
    return model, {"x": RNG.standard_normal((steps, 1, width), np.float32)}


def segformer_b0(size=512, classes=150):
    """Overlapping patches, attention over shortened keys, a depthwise convolution inside of each MLP; four scales,
    resized and joined by 1x1 convolutions."""
    b = Build(11)
    words, x, c_in, scales = _words(b), "x", 3, []
    stages = ((32, 2, 1, 8, 7, 4), (64, 2, 2, 4, 3, 2), (160, 2, 5, 2, 3, 2), (256, 2, 8, 1, 3, 2))
    for width, depth, heads, shorter, kernel, stride in stages:
        x, size = _conv(b, x, c_in, width, kernel, stride), size // stride
        image, tokens = b.const(np.int64([1, width, size, size])), b.const(np.int64([1, width, size * size]))

        def rows(y, tokens=tokens):
            return b.node("Transpose", b.node("Reshape", y, tokens), perm=[0, 2, 1])

        def picture(y, image=image):
            return b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1]), image)
        x = models._layer_norm(b, rows(x), width)
        for _ in range(depth):
            y = models._layer_norm(b, x, width)
            keys = y
            if shorter > 1:
                w = b.weight(width, width, shorter, shorter)
                cut = b.node("Conv", picture(y), w, b.weight(width), strides=[shorter] * 2, kernel_shape=[shorter] * 2)
                few = b.const(np.int64([1, width, (size // shorter) ** 2]))
                keys = models._layer_norm(b, b.node("Transpose", b.node("Reshape", cut, few), perm=[0, 2, 1]), width)
            q, k, v = (models._linear(b, t, width, width) for t in (y, keys, keys))
            x = b.node("Add", models._linear(b, _attend(b, q, k, v, width, heads), width, width), x)
            y = models._linear(b, models._layer_norm(b, x, width), width, 4 * width)
            wide = b.const(np.int64([1, 4 * width, size, size]))
            y = b.node("Reshape", b.node("Transpose", y, perm=[0, 2, 1]), wide)
            y = _conv(b, y, 4 * width, 4 * width, 3, group=4 * width)
            y = rows(y, b.const(np.int64([1, 4 * width, size * size])))
            x = b.node("Add", models._linear(b, models._gelu(b, y, words), 4 * width, width), x)
        x = picture(models._layer_norm(b, x, width))
        scales.append((rows(x), width, size))
        c_in = width
    top, parts = scales[0][2], []
    for y, width, side in reversed(scales):
        y = b.node("Transpose", models._linear(b, y, width, 256), perm=[0, 2, 1])
        y = b.node("Reshape", y, b.const(np.int64([1, 256, side, side])))
        parts.append(b.node("Resize", y, "", "", b.const(np.int64([1, 256, top, top])), mode="linear",
                            coordinate_transformation_mode="half_pixel") if side != top else y)
    y = b.node("Relu", _conv(b, b.node("Concat", *parts, axis=1), 1024, 256, 1))
    b.nodes.append(helper.make_node("Conv", [y, b.weight(classes, 256, 1, 1), b.weight(classes)], ["y"]))
    model = b.model([tensor("x", F, 1, 3, 512, 512)], [tensor("y", F, 1, classes, top, top)])
    return model, _image(512)


# by name: what makes it, and whether convolutions or products are what it does
NETS = {
    "ResNet-50": (resnet50, "conv"),
    "MobileNetV2": (mobilenet_v2, "conv"),
    "ConvNeXt-tiny": (convnext_tiny, "conv"),
    "SegFormer-b0": (segformer_b0, "conv"),
    "ViT-base": (vit_base, "gemm"),
    "BERT-base": (bert, "gemm"),
    "GPT-2": (gpt2, "gemm"),
    "LSTM, both directions": (lstm, "other"),
}
