"""Federated averaging: three clients train the digits model, each on digits that only it has; what travels is one row
of parameters, and a server averages them, by how many digits each client saw.
python3 examples/federated.py [FOLDER for what is written]
"""
import pathlib
import sys
import tempfile

import numpy as np

import nacre
from nacre.training import artifacts
from nacre.training.api import CheckpointState, Module, Optimizer
from train import HERE, digits

ROUNDS, BATCH = 6, 32
SHARES = (0.5, 0.8)  # of all digits: the first client has half of them, the last a fifth
WEIGHTS = [f"{kind}{k}" for kind in "wb" for k in (0, 1, 2, "f")]


class Client:
    """A model of its own over the artifacts, and its own part of the data."""

    def __init__(self, folder, x, y):
        self.x, self.y = x, y
        self.state = CheckpointState.load_checkpoint(folder / "checkpoint")
        self.model = Module(folder / "training_model.onnx", self.state, folder / "eval_model.onnx")
        self.optimizer = Optimizer(folder / "optimizer_model.onnx", self.model)
        self.optimizer.set_learning_rate(0.002)

    def train(self, parameters, rng):
        """One epoch from these parameters on; gives the new ones, and how many digits they saw."""
        self.model.copy_buffer_to_parameters(parameters)
        for batch in np.array_split(rng.permutation(len(self.y)), max(1, len(self.y) // BATCH)):
            self.model(self.x[batch], self.y[batch])
            self.optimizer.step()
            self.model.lazy_reset_grad()
        return self.model.get_contiguous_parameters(trainable_only=True).numpy(), len(self.y)


def fresh(server, rng):
    """Parameters that know nothing."""
    for name, p in server.state.parameters:
        width = np.sqrt(2 / max(1, np.prod(p.data.shape[1:])))
        p.data = (rng.standard_normal(p.data.shape) * (width if name[0] == "w" else 0)).astype(np.float32)
    return server.model.get_contiguous_parameters(trainable_only=True).numpy()


def main(folder):
    artifacts.generate_artifacts(str(HERE / "digits.onnx"), requires_grad=WEIGHTS, loss_input_names=["logits"],
                                 loss=artifacts.LossType.CrossEntropyLoss, optimizer=artifacts.OptimType.AdamW,
                                 artifact_directory=folder)
    (x, y), (x_test, y_test) = digits()
    rng = np.random.default_rng(1)
    parts = np.split(rng.permutation(len(y)), [int(share * len(y)) for share in SHARES])
    clients, server = [Client(folder, x[own], y[own]) for own in parts], Client(folder, x, y)
    parameters = fresh(server, rng)
    for k in range(ROUNDS):
        answers = [client.train(nacre.OrtValue.ortvalue_from_numpy(parameters), rng) for client in clients]
        total = sum(seen for _, seen in answers)
        parameters = sum(values * np.float32(seen / total) for values, seen in answers)
        server.model.copy_buffer_to_parameters(nacre.OrtValue.ortvalue_from_numpy(parameters))
        server.model.export_model_for_inferencing(folder / "averaged.onnx", ["probabilities"])
        got, = nacre.InferenceSession(str(folder / "averaged.onnx")).run(None, {"pixels": x_test})
        print(f"round {k + 1}: the average of {len(clients)} clients reads {(got.argmax(1) == y_test).mean():.1%}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(pathlib.Path(made))
