"""Trains the digits model from random weights, exports it and reads the test digits. The calls are those of
onnxruntime.training: python3 examples/train.py [FOLDER for what is written]
"""
import pathlib
import sys
import tempfile

import numpy as np

import nacre
from nacre.training import artifacts
from nacre.training.api import CheckpointState, Module, Optimizer

HERE = pathlib.Path(__file__).resolve().parent / "digits"
EPOCHS, BATCH = 6, 64


def digits():
    """(pixels, labels) to train with, and the same to test with."""
    data = (HERE / "digits.bin").read_bytes()
    n, n_test = np.frombuffer(data, "<u4", 2, 8).astype(int)
    labels = np.frombuffer(data, np.uint8, n, 16).astype(np.int64)
    pixels = np.frombuffer(data, np.uint8, n * 64, 16 + n).reshape(n, 1, 8, 8).astype(np.float32)
    return (pixels[:-n_test], labels[:-n_test]), (pixels[-n_test:], labels[-n_test:])


def main(folder):
    weights = [f"{kind}{k}" for kind in "wb" for k in (0, 1, 2, "f")]
    artifacts.generate_artifacts(str(HERE / "digits.onnx"), requires_grad=weights, loss_input_names=["logits"],
                                 loss=artifacts.LossType.CrossEntropyLoss, optimizer=artifacts.OptimType.AdamW,
                                 artifact_directory=folder)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    model = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = Optimizer(folder / "optimizer_model.onnx", model)
    optimizer.set_learning_rate(0.005)
    rng = np.random.default_rng(1)
    for name, p in state.parameters:  # forget what the file has learned
        width = np.sqrt(2 / max(1, np.prod(p.data.shape[1:])))
        p.data = (rng.standard_normal(p.data.shape) * (width if name[0] == "w" else 0)).astype(np.float32)
    (x, y), (x_test, y_test) = digits()
    for epoch in range(EPOCHS):
        order, losses = rng.permutation(len(y)), []
        for batch in np.array_split(order, len(y) // BATCH):
            losses.append(model(x[batch], y[batch]))
            optimizer.step()
            model.lazy_reset_grad()
        print(f"epoch {epoch + 1:2}: loss {np.mean(losses):.4f}")
    model.export_model_for_inferencing(folder / "trained.onnx", ["probabilities"])
    got, = nacre.InferenceSession(str(folder / "trained.onnx")).run(None, {"pixels": x_test})
    print(f"{(got.argmax(1) == y_test).mean():.1%} of the test digits are read rightly")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(pathlib.Path(made))
