"""Fine-tunes the last layer of a pretrained model: the classifier of rapidocr-onnxruntime, which tells whether a line
of text stands on its head, learns to tell lying stripes from standing ones. All other layers stay as they are.
python3 examples/finetune.py [FOLDER for what is written] [MODEL]
"""
import importlib.util
import pathlib
import sys
import tempfile

import numpy as np
import onnx

import nacre
from nacre.training import artifacts
from nacre.training.api import CheckpointState, Module, Optimizer

LOGITS, PROBABILITIES = "linear_1.tmp_1", "save_infer_model/scale_0.tmp_1"
LAST = ["fc_0.w_0", "fc_0.b_0"]
ROUNDS, BATCH = 12, 16


def pretrained():
    package = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent
    return package / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"


def ready_to_train(path, names):
    """The model; tensors that its exporter wrote as nodes are initializers, as parameters have to be, and the Reshape
    before the last layer, whose shape is computed at run time, is a Flatten: gradients want to know ranks."""
    model = onnx.load(path)
    product = next(n for n in model.graph.node if names[0] in n.input)
    for node in [n for n in model.graph.node if n.output[0] == product.input[0]]:
        node.CopyFrom(onnx.helper.make_node("Flatten", [node.input[0]], list(node.output)))
    for node in [n for n in model.graph.node if n.op_type == "Constant" and n.output[0] in names]:
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        model.graph.node.remove(node)
    return model


def stripes(rng, count):
    """(pictures, one-hot targets): stripes of some width in noise."""
    x, y = rng.standard_normal((count, 3, 48, 96)).astype(np.float32) * 0.3, rng.integers(0, 2, count)
    for picture, stands in zip(x, y):
        width = rng.integers(3, 7)
        rows, columns = np.arange(48)[:, None] // width % 2, np.arange(96)[None, :] // width % 2
        picture += np.where(columns if stands else rows, 0.8, -0.8).astype(np.float32)
    return x, np.eye(2, dtype=np.float32)[y]


def right(model, data):
    got, = nacre.InferenceSession(model).run([PROBABILITIES], {"x": data[0]})
    return (got.argmax(1) == data[1].argmax(1)).mean()


def main(folder, path):
    model, rng = ready_to_train(path, LAST), np.random.default_rng(1)
    train, test = stripes(rng, 96), stripes(rng, 48)
    print(f"before: {right(model.SerializeToString(), test):.0%} of the test pictures")
    artifacts.generate_artifacts(model, requires_grad=LAST, loss=artifacts.LossType.BCEWithLogitsLoss,
                                 loss_input_names=[LOGITS], optimizer=artifacts.OptimType.AdamW,
                                 artifact_directory=folder)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.02)
    for k in range(ROUNDS):
        batch = np.arange(k * BATCH, (k + 1) * BATCH) % len(train[0])
        loss = module(train[0][batch], train[1][batch])
        optimizer.step()
        module.lazy_reset_grad()
        print(f"update {k + 1:2}: loss {loss:.4f}")
    module.export_model_for_inferencing(folder / "finetuned.onnx", [PROBABILITIES])
    print(f"after: {right(str(folder / 'finetuned.onnx'), test):.0%} of the test pictures")


if __name__ == "__main__":
    source = sys.argv[2] if len(sys.argv) > 2 else pretrained()
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]), source)
    else:
        with tempfile.TemporaryDirectory() as made:
            main(pathlib.Path(made), source)
