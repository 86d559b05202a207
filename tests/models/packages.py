"""The ONNX files inside the packages rapidocr-onnxruntime, silero-vad and magika, and those packages at work.

models() finds the files. `python packages.py TASK RUNTIME OUT FOLDER` puts a package's own classes to work on inputs of
inputs.py, with RUNTIME ('onnxruntime', or 'nacre' found in FOLDER) as their onnxruntime, and pickles to OUT a pair:
what they said, and by model file what they fed to it.
"""
import importlib
import importlib.util
import pathlib
import pickle
import sys

import inputs

PACKAGES = ("rapidocr_onnxruntime", "silero_vad", "magika")


def models():
    """Paths of all ONNX files of the packages; a package that is not installed is an error."""
    out = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"{name} is not installed; see tests/requirements.txt")
        found = sorted(pathlib.Path(spec.origin).parent.rglob("*.onnx"))
        if not found:
            raise FileNotFoundError(f"{name} has no ONNX files")
        out += found
    return out


def recorded(runtime):
    """Every session of the runtime keeps what it is fed, by the name of its model's file."""
    feeds = {}

    class Recorded(runtime.InferenceSession):
        def __init__(self, path, *args, **kwargs):
            super().__init__(path, *args, **kwargs)
            self.kept = feeds.setdefault(pathlib.Path(path).name, [])

        def run(self, names, given, *args):
            self.kept.append(dict(given))
            return super().run(names, given, *args)

    runtime.InferenceSession = Recorded
    return feeds


def read_text():
    """Boxes, texts and scores of the picture, one of whose lines is upside down."""
    from rapidocr_onnxruntime import RapidOCR
    found, _ = RapidOCR()(inputs.text_image())
    return [{"box": [list(map(float, p)) for p in box], "text": text, "score": float(score)}
            for box, text, score in found]


def identify_files():
    from magika import Magika
    m, out = Magika(), {}
    for name, content in inputs.files().items():
        result = m.identify_bytes(content)
        out[name] = (str(result.prediction.output.label), float(result.prediction.score))
    return out


def find_speech():
    """Where each of the package's ONNX front ends hears speech, at both sampling rates."""
    import silero_vad
    import torch
    out = {}
    for name, arguments, rate in (("opset 16", {}, 16000), ("opset 16, 8 kHz", {}, 8000),
                                  ("opset 15", {"opset_version": 15}, 16000)):
        model = silero_vad.load_silero_vad(onnx=True, **arguments)
        audio = torch.from_numpy(inputs.samples(inputs.speech(rate)))
        out[name] = silero_vad.get_speech_timestamps(audio, model, sampling_rate=rate)
        out[f"{name}, chances"] = model.audio_forward(audio[None], rate).ravel().tolist()
    whole, audio = silero_vad.load_silero_vad(sequence=True), inputs.samples(inputs.speech())
    out["sequence"] = silero_vad.get_speech_timestamps_sequence(audio, whole)
    out["sequence, chances"] = whole.audio_forward(audio, max_frames=29).tolist()
    return out


TASKS = {"text": read_text, "files": identify_files, "speech": find_speech}


def main(task, name, file, folder):
    sys.path.insert(0, folder)
    runtime = importlib.import_module(name)
    sys.modules["onnxruntime"] = runtime
    feeds = recorded(runtime)
    result = TASKS[task]()
    pathlib.Path(file).write_bytes(pickle.dumps((result, feeds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
