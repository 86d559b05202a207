"""Real models beside onnxruntime: exported networks, and every model of three packages with their own inputs.

Each runs on the CPU and on the guard device with one and with two threads, in several sizes; what the optimizer saves
is checked by onnx and run by onnxruntime; the packages themselves run with nacre in onnxruntime's place. The models and
inputs come from tests/models.
"""
import functools
import pickle
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import package
import pytest

import nacre_c

sys.path.insert(0, str(nacre_c.ROOT / "tests" / "models"))
import compare  # noqa: E402
import export  # noqa: E402
import inputs  # noqa: E402
import packages  # noqa: E402

PACKAGED = {file.stem if file.stem != "model" else f"magika_{file.parent.name}": file for file in packages.models()}
NAMES = [*export.MODELS, *PACKAGED]
needs_package = pytest.mark.skipif(not package.BUILT, reason="the Python extension was not built")


# ---- models and what they are fed ----

def owner(path):
    """The package that a file belongs to."""
    return next(p for p in packages.PACKAGES if p in path.parts)


@functools.lru_cache(maxsize=None)
def at_work(task, runtime):
    """What a package says with this runtime, and what it feeds to its models."""
    folder = nacre_c.ROOT / "build" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{task}-{runtime}.pickle"
    script = nacre_c.ROOT / "tests" / "models" / "packages.py"
    done = subprocess.run([sys.executable, script, task, runtime, out, package.FOLDER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return pickle.loads(out.read_bytes())


def fed(task, file):
    """The first feed that a package gave to a model."""
    return at_work(task, "onnxruntime")[1][file][0]


def text_runs(path):
    """As the package feeds it, and a part of an odd size."""
    x = fed("text", path.name)["x"]
    parts = {"ch_PP-OCRv4_det_infer.onnx": x[:, :, 96:256, :352], "ch_PP-OCRv4_rec_infer.onnx": x[:1, :, :, :211],
             "ch_ppocr_mobile_v2.0_cls_infer.onnx": x[:3]}
    return [compare.Run("the picture", [{"x": x}]), compare.Run("a part", [{"x": parts[path.name].copy()}])]


def file_runs(path):
    rows = np.concatenate([np.int32(f["bytes"]) for f in at_work("files", "onnxruntime")[1][path.name]])
    return [compare.Run("one file", [{"bytes": rows[:1]}]), compare.Run("some files", [{"bytes": rows[3:10]}])]


def voice(session, rate, batch):
    """A voice chunk by chunk, each with the state that the chunk before it left."""
    known = {i.name for i in session.get_inputs()}
    feeds = [{"input": f, **({"sr": np.array(rate)} if "sr" in known else {})} for f in inputs.frames(rate, batch)]
    return compare.Run(f"{batch} voices at {rate} Hz", feeds, {"state": np.zeros((2, batch, 128), np.float32)},
                       {"state": "stateN"})


def sequence_voice(rows):
    """A voice in blocks of chunks."""
    frames = np.concatenate(inputs.frames(16000))
    zero = np.zeros((1, 1, 128), np.float32)
    return compare.Run(f"blocks of {rows}", [{"input": frames[i:i + rows]} for i in range(0, len(frames), rows)],
                       {"h": zero, "c": zero}, {"h": "hn", "c": "cn"})


def voice_runs(path):
    if path.stem == "silero_vad_16k_sequence":
        return [sequence_voice(29), sequence_voice(1000)]
    session = compare.onnxruntime_session(path)
    batch = 1 if session.get_inputs()[0].shape[0] == 1 else 3
    both = path.stem in ("silero_vad", "silero_vad_op18_ifless")
    runs = [voice(session, 16000, 1)] + [voice(session, 16000, batch)] * (batch > 1)
    return runs + [voice(session, 8000, batch)] * both


@functools.lru_cache(maxsize=None)
def model(name):
    """Path and runs of a model."""
    if name in export.MODELS:
        make, sizes = inputs.EXPORTED[name.rpartition("-")[0]]
        return export.path(name), tuple(compare.Run(str(size), [make(*size)]) for size in sizes)
    path = PACKAGED[name]
    make = {"rapidocr_onnxruntime": text_runs, "magika": file_runs, "silero_vad": voice_runs}[owner(path)]
    return path, tuple(make(path))


# ---- the models beside onnxruntime ----

@functools.lru_cache(maxsize=None)
def env_of(threads):
    return nacre_c.Env(threads)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_onnxruntimes(name):
    path, runs = model(name)
    want, results = compare.reference(path, runs), {}
    for device in ("cpu", "guard"):
        for threads in (1, 2):
            with env_of(threads).session(path, device=device) as session:
                results[device, threads] = [r.through(session.run) for r in runs]
            wrong = compare.differences(path, runs, results[device, threads], want)
            assert not wrong, f"{device}, {threads} threads:\n" + "\n".join(wrong[:20])
    for place, got in results.items():
        assert compare.same_bits(got, results["cpu", 1]), f"other bits on {place} than on the CPU with one thread"


# Sizes that only a run finds: not all memory can be told before.
FOUND_WHILE_RUNNING = {"silero_vad", "silero_vad_16k_op15", "silero_vad_half"}
# One of two branches runs, and memory is told for both.
BRANCHES = {"silero_vad_op18_ifless"}


@needs_package
@pytest.mark.parametrize("name", NAMES)
def test_signature_is_onnxruntimes(name):
    """Names, types and ranks of the outputs; sizes where both sides know them."""
    path, _ = model(name)
    want = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_outputs()
    import nacre
    got = nacre.InferenceSession(path).get_outputs()
    assert [(v.name, v.type, len(v.shape)) for v in got] == [(v.name, v.type, len(v.shape)) for v in want]
    for a, b in zip(got, want):
        assert all(m == n for m, n in zip(a.shape, b.shape) if isinstance(m, int) and isinstance(n, int))


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_as_predicted(name):
    path, runs = model(name)
    for device in ("cpu", "guard"):
        for run in runs:
            with env_of(1).session(path, device=device) as session:
                feeds = {**run.feeds[0], **run.state}
                plan = session.plan(session.sizes(feeds))
                session.run(feeds)
                got, told = session.stats.bytes_frames_peak, sum(plan.bytes_frame)
            what = f"{run.name} on {device}: took {got} bytes, predicted were {told}"
            assert bool(plan.n_unknown) == (name in FOUND_WHILE_RUNNING), what
            assert got > told if plan.n_unknown else 0 < got <= told if name in BRANCHES else got == told, what


@pytest.mark.parametrize("name", [n for n in export.MODELS if n.startswith(("bert", "gpt2", "vit"))])
def test_attention_is_found(name):
    """Whatever opset the exporter wrote; language models of other kinds are in tests/nightly."""
    layers = export.LAYERS if name.startswith("gpt2") else export.BLOCKS
    done = subprocess.run([nacre_c.PROGRAM, "run", export.path(name), "--dump", "transformed"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.count("Softmax<"), done.stdout.count("Attention<")) == (0, layers)


@pytest.mark.parametrize("name", NAMES)
def test_optimized_model_is_saved(name, tmp_path):
    path, runs = model(name)
    out = tmp_path / "optimized.onnx"
    done = subprocess.run([nacre_c.PROGRAM, "optimize", path, "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(out), full_check=True)
    first = runs[:1]
    got = [r.through(compare.by_name(compare.onnxruntime_session(out))) for r in first]
    assert not compare.differences(path, first, got, compare.reference(path, runs))
    saved = tmp_path / "saved.onnx"
    with env_of(2).session(path, save=saved):
        assert saved.read_bytes() == out.read_bytes()


# ---- words, one after the other ----

WORDS, STEPS = np.int64([[17, 4021, 333, 8, 2500]]), 20


def next_words(run):
    """Greedy decoding, the whole text at every step."""
    ids = WORDS
    for _ in range(STEPS):
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(ids.shape[1])[None]}
        ids = np.concatenate([ids, run(feeds)["logits"][:, -1:].argmax(-1)], 1)
    return ids[0].tolist()


def next_words_past(run):
    """Greedy decoding, one word at every step after keys and values of those before."""
    ids, new, past = WORDS, WORDS, inputs.no_past(1)
    for _ in range(STEPS):
        n = ids.shape[1]
        out = run({"input_ids": new, "attention_mask": np.ones_like(ids),
                   "position_ids": np.arange(n - new.shape[1], n)[None], **past})
        past = {name: out[name.replace("past", "present")] for name in past}
        new = out["logits"][:, -1:].argmax(-1)
        ids = np.concatenate([ids, new], 1)
    return ids[0].tolist()


@pytest.mark.parametrize("exporter", ["trace", "dynamo"])
def test_greedy_words_with_and_without_past(exporter):
    plain, past = export.path(f"gpt2_plain-{exporter}"), export.path(f"gpt2_past-{exporter}")
    want = next_words(compare.by_name(compare.onnxruntime_session(plain)))
    assert len(set(want)) > 10, "the weights should say more than one word"
    assert next_words_past(compare.by_name(compare.onnxruntime_session(past))) == want
    for device in ("cpu", "guard"):
        with env_of(2).session(plain, device=device) as a, env_of(2).session(past, device=device) as b:
            assert next_words(a.run) == want, device
            assert next_words_past(b.run) == want, device


# ---- the packages with nacre in onnxruntime's place ----

@needs_package
def test_rapidocr_reads_the_same():
    mine, theirs = at_work("text", "nacre")[0], at_work("text", "onnxruntime")[0]
    assert [r["text"] for r in mine] == [r["text"] for r in theirs]
    assert [r["box"] for r in mine] == [r["box"] for r in theirs]
    assert not compare.difference([r["score"] for r in mine], [r["score"] for r in theirs], "ch_PP-OCRv4_rec_infer")
    read = [r["text"].replace(" ", "") for r in mine]
    assert read == [line.replace(" ", "") for line in (*inputs.LINES, "turned upside down")]


@needs_package
def test_magika_identifies_the_same():
    mine, theirs = at_work("files", "nacre")[0], at_work("files", "onnxruntime")[0]
    labels, scores = ({name: pair[k] for name, pair in mine.items()} for k in (0, 1))
    assert labels == {name: label for name, (label, _) in theirs.items()}
    assert not compare.difference([*scores.values()], [score for _, score in theirs.values()], "scores")
    assert (labels["source.py"], labels["picture.png"], labels["lines.db"]) == ("python", "png", "sqlite")


@needs_package
def test_silero_hears_the_same():
    mine, theirs = at_work("speech", "nacre")[0], at_work("speech", "onnxruntime")[0]
    assert mine.keys() == theirs.keys()
    for name, want in theirs.items():
        if name.endswith("chances"):
            assert not compare.difference(mine[name], want, "scores"), name
        else:
            assert mine[name] == want and want, name


def test_every_model_of_the_packages_is_here():
    owners = list(map(owner, PACKAGED.values()))
    assert {p: owners.count(p) for p in packages.PACKAGES} == {"rapidocr_onnxruntime": 3, "silero_vad": 6, "magika": 1}
