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


class Answers:
    """What a worker does when it is asked; `ask` does it without a process, for a tool that watches this one."""

    def __init__(self, package=str(PACKAGE)):
        sys.path.insert(0, package)
        from nacre import backend
        self.backend, self.prepared = backend, None

    def answer(self, kind, *arguments):
        """Prepares a model or runs it."""
        if kind == "devices":
            return [d for d in ("CPU", "CUDA") if self.backend.supports_device(d)]
        if kind == "prepare":
            self.prepared = self.backend.prepare(*arguments)
        elif kind == "prepare_whole":
            self.prepared = prepare_whole(self.backend, *arguments)
        else:
            return list(self.prepared.run(*arguments))
        return None

    def ask(self, *request):
        try:
            return self.answer(*request)
        except Exception as e:  # whatever a case may raise is the case's result
            raise Failed(f"{type(e).__name__}: {e}") from None

    def stop(self):
        self.prepared = None


def main(pipe, package):
    """The worker: answers (True, result) or (False, text)."""
    answers = Answers(package)
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, answers.ask(*request)))
        except Failed as e:
            pipe.send((False, str(e)))


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
