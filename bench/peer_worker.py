"""OpenVINO or MNN in a process of its own: peer_worker.py openvino|MNN. Commands and answers are those of worker.py.

MNN reads files of its own form: the model is converted once, beside the ONNX file, and that is no part of the time.
OpenVINO computes in f32, as the others do, and for the shortest time of one run.
"""
import os
import pathlib
import subprocess
import sys

import numpy as np

import worker


class OpenVino(worker.Worker):
    def make(self, model, threads):
        core = self.engine.Core()
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1"}
        if threads:
            options["INFERENCE_NUM_THREADS"] = threads
        request = core.compile_model(model, "CPU", options).create_infer_request()
        outputs = request.model_outputs

        def run():
            found = request.infer(self.feeds, share_inputs=True)
            return [np.array(found[o]) for o in outputs]
        return run


def converted(model, path):
    """The model in MNN's form, at `path`; the converter leaves a file where it runs."""
    if not path.exists():
        done = subprocess.run([str(pathlib.Path(sys.executable).parent / "mnnconvert"), "-f", "ONNX", "--modelFile",
                               model, "--MNNModel", str(path), "--bizCode", "bench"],
                              cwd=path.parent, capture_output=True, text=True)
        if done.returncode != 0 or not path.exists():
            sys.exit(f"MNN does not convert {model}: {(done.stdout + done.stderr).strip()[-300:]}")


class Mnn(worker.Worker):
    def prepare(self, model, feeds):
        path = pathlib.Path(feeds).parent / f"{pathlib.Path(feeds).stem}_{pathlib.Path(model).stem}.mnn"
        self.path = str(path)
        converted(model, path)

    def make(self, model, threads):
        runtime = self.engine.nn.create_runtime_manager(
            ({"backend": "CPU", "precision": "high", "numThread": threads or len(os.sched_getaffinity(0))},))
        module = self.engine.nn.load_module_from_file(self.path, list(self.feeds), self.names,
                                                      runtime_manager=runtime)
        expr = self.engine.expr
        # Its integers have 32 bits. The arrays are kept: their memory is what it reads.
        self.arrays = [np.ascontiguousarray(v, np.int32 if v.dtype.kind == "i" else v.dtype)
                       for v in self.feeds.values()]
        given = [expr.const(v.ctypes.data, list(v.shape), expr.NCHW, expr.int if v.dtype.kind == "i" else expr.float)
                 for v in self.arrays]

        def run():
            return [np.array(o.read()) for o in module.forward(given)]
        return run


if __name__ == "__main__":
    sys.stdout = os.fdopen(os.dup(1), "w")  # for answers alone: MNN prints to file 1
    os.dup2(2, 1)
    worker.answer_all({"openvino": OpenVino, "MNN": Mnn}[sys.argv[1]](sys.argv[1]))
