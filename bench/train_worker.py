"""One engine that trains, in a process of its own: train_worker.py ENGINE, ENGINE being nacre, eager or compile (both
torch). Commands as in worker.py:

    {"do": "load", "name": net, "model": path, "feeds": npz, "threads": n}   milliseconds to the end of the first step
    {"do": "turn", "times": n}                                             milliseconds of each step; memory
    {"do": "results", "path": npz}                                         writes the loss and the gradients by name
    {"do": "losses", "times": n}                                           the loss of each of n further steps
A step is forward and backward; with "artifacts": folder in load it ends with AdamW's update of the parameters.
"""
import pathlib
import sys

import numpy as np

from worker import answer_all, memory, timed


class Nacre:
    def __init__(self):
        import nacre
        self.engine, self.version = nacre, nacre.__version__

    def load(self, name, model, feeds, threads, artifacts=None):
        with np.load(feeds) as f:
            self.feeds = dict(f)
        options = self.engine.SessionOptions()
        options.intra_op_num_threads = threads
        if artifacts:
            return self._load_artifacts(pathlib.Path(artifacts), options)
        self.session = self.engine.InferenceSession(model, options)
        self.names = [o.name for o in self.session.get_outputs()]
        self.step = lambda: self.session.run(None, self.feeds)

    def _load_artifacts(self, folder, options):
        from nacre.training.api import CheckpointState, Module, Optimizer
        state = CheckpointState.load_checkpoint(folder / "checkpoint")
        self.module = Module(folder / "training_model.onnx", state, session_options=options)
        self.optimizer = Optimizer(folder / "optimizer_model.onnx", self.module)
        self.batch = list(self.feeds.values())
        self.step = self._update

    def _update(self):
        loss = self.module(*self.batch)
        self.optimizer.step()
        self.module.lazy_reset_grad()
        return loss

    def losses(self, times):
        return [float(self.step()) for _ in range(times)]

    def results(self):
        return dict(zip([n.removeprefix("grad:") for n in self.names], self.step()))


class Torch:
    def __init__(self, compiled):
        import torch
        import train_nets
        self.torch, self.nets, self.compiled, self.version = torch, train_nets, compiled, torch.__version__

    def load(self, name, model, feeds, threads, artifacts=None):
        if threads:
            self.torch.set_num_threads(threads)
        self.module, batch = self.nets.make(name)
        self.batch = [self.torch.from_numpy(a) for a in batch.values()]
        self.run = self.torch.compile(self.module) if self.compiled else self.module
        self.optimizer = self.torch.optim.AdamW(self.module.parameters(), lr=1e-3) if artifacts else None

    def step(self):
        self.module.zero_grad(set_to_none=True)
        loss = self.run(*self.batch)
        loss.backward()
        if self.optimizer:
            self.optimizer.step()
        return loss

    def losses(self, times):
        return [self.step().item() for _ in range(times)]

    def results(self):
        loss = self.step()
        return {"loss": loss.detach().numpy(), **{n: p.grad.numpy() for n, p in self.nets.named(self.module)}}


class Worker:
    def __init__(self, engine):
        self.engine = Nacre() if engine == "nacre" else Torch(engine == "compile")
        self.version = self.engine.version

    def load(self, **arguments):
        self.base = memory()
        took = timed(lambda: self.engine.load(**arguments))[1]["wall"]
        return {"first": took + timed(self.engine.step)[1]["wall"]}

    def turn(self, times):
        self.engine.step()
        took = [timed(self.engine.step)[1]["wall"] for _ in range(times)]
        now = memory()
        return {"ms": took, "memory": (now["peak"] - self.base["anonymous"] - self.base["file"]) / 1e6}

    def results(self, path):
        np.savez(path, **self.engine.results())
        return {}

    def losses(self, times):
        return {"losses": self.engine.losses(times)}


if __name__ == "__main__":
    answer_all(Worker(sys.argv[1]))
