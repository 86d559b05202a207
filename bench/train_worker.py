"""One engine that trains, in a process of its own: train_worker.py ENGINE, ENGINE being nacre, eager or compile (both
torch). Commands as in worker.py:

    {"do": "load", "name": net, "model": path, "feeds": npz, "threads": n}   milliseconds to the end of the first step
    {"do": "turn", "times": n}                                             milliseconds of each step; memory
    {"do": "results", "path": npz}                                         writes the loss and the gradients by name
"""
import sys

import numpy as np

from worker import answer_all, memory, timed


class Nacre:
    def __init__(self):
        import nacre
        self.engine, self.version = nacre, nacre.__version__

    def load(self, name, model, feeds, threads):
        with np.load(feeds) as f:
            self.feeds = dict(f)
        options = self.engine.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = self.engine.InferenceSession(model, options)
        self.names = [o.name for o in self.session.get_outputs()]

    def step(self):
        return self.session.run(None, self.feeds)

    def results(self):
        return dict(zip([n.removeprefix("grad:") for n in self.names], self.step()))


class Torch:
    def __init__(self, compiled):
        import torch
        import train_nets
        self.torch, self.nets, self.compiled, self.version = torch, train_nets, compiled, torch.__version__

    def load(self, name, model, feeds, threads):
        if threads:
            self.torch.set_num_threads(threads)
        self.module, batch = self.nets.make(name)
        self.batch = [self.torch.from_numpy(a) for a in batch.values()]
        self.run = self.torch.compile(self.module) if self.compiled else self.module

    def step(self):
        self.module.zero_grad(set_to_none=True)
        loss = self.run(*self.batch)
        loss.backward()
        return loss

    def results(self):
        loss = self.step()
        return {"loss": loss.detach().numpy(), **{n: p.grad.numpy() for n, p in self.module.named_parameters()}}


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


if __name__ == "__main__":
    answer_all(Worker(sys.argv[1]))
