#!/usr/bin/env python3
"""Makes what `make demo` runs: examples/digits/digits.bin (the UCI handwritten digits, from scikit-learn) and
examples/digits/digits.onnx (a small CNN trained on the first part of them). Both are kept in the tree; run this only to
make them anew. Needs torch, onnx, numpy and scikit-learn; about half a minute on two cores.

make_digits.py [FOLDER]
"""
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

TEST = 360  # the last ones; the training set is what comes before
LAYERS = [(1, 16, 1), (16, 32, 2), (32, 32, 2)]  # channels in, channels out, stride; 3x3 each: 8x8 -> 4x4 -> 2x2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(i, o, 3, stride=s, padding=1) for i, o, s in LAYERS)
        self.fc = torch.nn.Linear(LAYERS[-1][1] * 4, 10)

    def forward(self, x):
        for conv in self.convs:
            x = torch.relu(conv(x))
        return self.fc(x.flatten(1))


def shifted(x, generator):
    """Each picture moved by up to one pixel: the only augmentation."""
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    dy, dx = torch.randint(0, 3, (2,), generator=generator).tolist()
    return padded[:, :, dy:dy + 8, dx:dx + 8]


def train(x, y):
    torch.set_num_threads(1)  # the same sums everywhere
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    net, epochs, batch = Net(), 60, 64
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(batch):
            loss = torch.nn.functional.cross_entropy(net(shifted(x[rows], generator)), y[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return net


def to_onnx(net):
    """Pixels 0..16 in, probabilities out. Written node by node, so that no exporter is needed."""
    nodes, consts = [], []

    def const(name, array):
        consts.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    nodes.append(helper.make_node("Mul", ["pixels", const("scale", np.float32(1 / 16))], ["x0"], "scale_pixels"))
    for k, (conv, (_, _, stride)) in enumerate(zip(net.convs, LAYERS)):
        w, b = const(f"w{k}", conv.weight.detach().numpy()), const(f"b{k}", conv.bias.detach().numpy())
        nodes.append(helper.make_node("Conv", [f"x{k}", w, b], [f"c{k}"], f"conv{k}", kernel_shape=[3, 3],
                                      pads=[1, 1, 1, 1], strides=[stride, stride]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"x{k + 1}"], f"relu{k}"))
    nodes.append(helper.make_node("Flatten", [f"x{len(LAYERS)}"], ["flat"], "flatten"))
    w, b = const("wf", net.fc.weight.detach().numpy()), const("bf", net.fc.bias.detach().numpy())
    nodes.append(helper.make_node("Gemm", ["flat", w, b], ["logits"], "fc", transB=1))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1))
    graph = helper.make_graph(nodes, "digits",
                              [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                              [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
                              consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="make_digits.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "examples" / "digits"
    data = load_digits()
    pixels, labels = data.images.astype(np.uint8), data.target.astype(np.uint8)
    head = b"DIGITS1\n" + struct.pack("<II", len(labels), TEST)
    (folder / "digits.bin").write_bytes(head + labels.tobytes() + pixels.tobytes())
    x = torch.from_numpy(pixels[:, None].astype(np.float32) / 16)
    y = torch.from_numpy(labels.astype(np.int64))
    net = train(x[:-TEST], y[:-TEST]).eval()
    with torch.no_grad():
        right = (net(x[-TEST:]).argmax(1) == y[-TEST:]).sum().item()
    onnx.save(to_onnx(net), folder / "digits.onnx")
    print(f"{right} of {TEST} test digits are right; {(folder / 'digits.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
