"""nacre.backend in a process of its own, so that a case that crashes or hangs costs a process and not the suite.

The parent holds one worker and speaks with it over a pipe; a worker that dies or takes too long is replaced before the
next case. This file is both halves: the parent imports it, the worker is `main`.
"""
import multiprocessing
import os
import pathlib
import sys

from onnx.backend.base import Backend, BackendRep

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("NACRE_PYTHON", ROOT / "build" / "release" / "python"))
SECONDS = 120  # for one request


class Failed(RuntimeError):
    """The worker's exception, or that it died or took too long."""


def main(pipe, package):
    """The worker: prepares a model, runs it, answers (True, result) or (False, text)."""
    sys.path.insert(0, package)
    from nacre import backend
    prepared = None
    while True:
        try:
            kind, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            if kind == "devices":
                answer = [d for d in ("CPU", "CUDA") if backend.supports_device(d)]
            elif kind == "prepare":
                prepared, answer = backend.prepare(*arguments), None
            elif kind == "prepare_whole":
                prepared, answer = prepare_whole(backend, *arguments), None
            else:
                answer = list(prepared.run(*arguments))
            pipe.send((True, answer))
        except Exception as e:  # whatever a case may raise is the case's result
            pipe.send((False, f"{type(e).__name__}: {e}"))


def prepare_whole(backend, model, device):
    """Refuses a model of which a node would compute on the host."""
    import nacre
    options = nacre.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return backend.prepare(nacre.InferenceSession(model, options, [f"{device}ExecutionProvider"]))


class Worker:
    def __init__(self):
        self.process = self.pipe = None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=main, args=(theirs, str(PACKAGE)), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process = self.pipe = None

    def ask(self, *request):
        if self.process is None:
            self.start()
        try:
            self.pipe.send(request)
            if not self.pipe.poll(SECONDS):
                self.stop()
                raise Failed(f"no answer in {SECONDS} seconds")
            ok, answer = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join(10)
            code = self.process.exitcode
            self.stop()
            raise Failed(f"the process died with exit code {code}") from None
        if not ok:
            raise Failed(answer)
        return answer


worker = Worker()


class IsolatedRep(BackendRep):
    def run(self, inputs, **kwargs):
        return tuple(worker.ask("run", list(inputs)))


class IsolatedBackend(Backend):
    devices = None

    @classmethod
    def supports_device(cls, device):
        if cls.devices is None:
            cls.devices = worker.ask("devices")
        return device in cls.devices

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        worker.ask("prepare", model.SerializeToString(), device)
        return IsolatedRep()
