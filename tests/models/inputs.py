"""Inputs of the model tests: sizes and tokens for exported models; a picture of text, a voice, files of many kinds.

Everything is made here from fixed seeds or taken from this repository and the running Python; nothing is downloaded.
"""
import gzip
import io
import json
import pathlib
import pickle
import sqlite3
import sys
import tarfile
import tempfile
import wave
import zipfile

import numpy as np
from PIL import Image, ImageDraw, ImageFont

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Constants of the exported models, as in export.py.
GPT2 = {"layers": 6, "heads": 6, "width": 64, "vocabulary": 5000}
LINES = ("The quick brown fox", "jumps over 13 lazy dogs", "INVOICE 2024-07-31", "Total: 1,284.50 EUR")


# ---- exported models ----

def pictures(batch, height=224, width=224):
    """Smooth colours, edges and noise, at the scale that image processors give."""
    rng = np.random.default_rng(batch * 1000 + height)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / 32
    waves = [np.sin(x * rng.uniform(0.2, 2) + y * rng.uniform(0.2, 2)) + (x + y > c + 2) for c in range(batch * 3)]
    noise = rng.standard_normal((batch, 3, height, width)) * 0.2
    return {"pixel_values": (np.reshape(waves, noise.shape) + noise).astype(np.float32)}


def words(batch, sequence, vocabulary=1000):
    return np.random.default_rng(batch * 100 + sequence).integers(0, vocabulary, (batch, sequence))


def bert(batch, sequence):
    """The last sentences are shorter and padded, and each has two parts."""
    place = np.arange(sequence)[None, :].repeat(batch, 0)
    lengths = np.maximum(1, sequence - np.arange(batch) * 3)[:, None]
    return {"input_ids": words(batch, sequence), "attention_mask": (place < lengths).astype(np.int64),
            "token_type_ids": (place > lengths // 2).astype(np.int64)}


def gpt2(batch, sequence):
    ids = words(batch, sequence, GPT2["vocabulary"])
    return {"input_ids": ids, "attention_mask": np.ones_like(ids),
            "position_ids": np.arange(sequence)[None, :].repeat(batch, 0)}


def no_past(batch, length=0):
    rng = np.random.default_rng(length)
    shape = (batch, GPT2["heads"], length, GPT2["width"])
    return {f"past.{i}.{what}": rng.standard_normal(shape).astype(np.float32)
            for i in range(GPT2["layers"]) for what in ("key", "value")}


def gpt2_past(batch, sequence, past):
    feeds = gpt2(batch, sequence)
    feeds["position_ids"] = feeds["position_ids"] + past
    feeds["attention_mask"] = np.ones((batch, past + sequence), np.int64)
    return {**feeds, **no_past(batch, past)}


def tagger(batch, sequence):
    return {"words": words(batch, sequence, 800)}


def tagger_packed(batch, sequence):
    lengths = np.maximum(1, sequence - np.arange(batch) * 2)
    return {**tagger(batch, sequence), "lengths": lengths.astype(np.int64)}


# name of a model without its exporter: (function, sizes). The first size is also run on the saved model.
EXPORTED = {
    "resnet50": (pictures, [(1, 224, 224), (3, 97, 131)]),
    "mobilenet_v2": (pictures, [(1, 224, 224), (3, 97, 131)]),
    "vit": (pictures, [(1,), (3,)]),
    "bert": (bert, [(1, 7), (3, 33), (2, 128)]),
    "gpt2_plain": (gpt2, [(1, 1), (3, 17), (1, 96)]),
    "gpt2_past": (gpt2_past, [(1, 5, 0), (1, 1, 37), (3, 7, 11)]),
    "tagger": (tagger, [(1, 1), (1, 13), (5, 31)]),
    "tagger_packed": (tagger_packed, [(1, 1), (1, 13), (5, 31)]),
}


# ---- a picture of text ----

def text_image():
    """The lines of LINES, and one upside down, as (height, width, 3) bytes."""
    image = Image.new("RGB", (640, 330), (250, 248, 240))
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(LINES):
        draw.text((30, 20 + 58 * i), line, (20, 20, 30 + 40 * i), ImageFont.load_default(size=34))
    strip = Image.new("RGB", (400, 50), (230, 240, 250))
    ImageDraw.Draw(strip).text((10, 5), "turned upside down", (0, 0, 0), ImageFont.load_default(size=34))
    image.paste(strip.rotate(180), (30, 265))
    return np.asarray(image)


# ---- a voice ----

VOWELS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "u": (300, 870, 2240), "e": (530, 1840, 2480),
          "o": (570, 840, 2410)}


def resonated(x, rate, frequency, width):
    """x through a two-pole resonator."""
    r = np.exp(-np.pi * width / rate)
    a, b = 2 * r * np.cos(2 * np.pi * frequency / rate), -r * r
    y = np.zeros(len(x) + 2)
    for i, v in enumerate(x * (1 - r)):
        y[i + 2] = v + a * y[i + 1] + b * y[i]
    return y[2:]


def syllable(vowel, pitch, seconds, rate):
    """A hiss, then a falling tone of glottal pulses through the formants of a vowel."""
    rng = np.random.default_rng(int(pitch))
    t = np.arange(int(seconds * rate)) / rate
    phase = np.cumsum(pitch * (1.1 - 0.3 * t / seconds + 0.02 * np.sin(35 * t)) / rate)
    pulses = np.diff(np.floor(phase), prepend=0) + rng.standard_normal(len(t)) * 0.02
    voice = sum(resonated(pulses, rate, f, 60 + f / 20) / (k + 1) for k, f in enumerate(VOWELS[vowel])
                if f < rate / 2)
    hiss = rng.standard_normal(len(t)) * 0.02 * (t < 0.05)
    return voice * np.sin(np.pi * t / seconds) ** 0.4 / np.abs(voice).max() + hiss


def speech(rate=16000):
    """A wav file of a few syllables between pauses; about 2.6 seconds."""
    rng = np.random.default_rng(7)
    parts = [np.zeros(rate // 3)]
    for i, (vowel, seconds) in enumerate(zip("aiueoa", (0.25, 0.2, 0.22, 0.3, 0.2, 0.35))):
        parts += [syllable(vowel, 120 + 9 * i, seconds, rate), np.zeros(rate // (25 if i != 2 else 3))]
    x = np.concatenate(parts) * 0.5
    x += rng.standard_normal(len(x)) * 0.001
    out = io.BytesIO()
    with wave.open(out, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes((np.clip(x, -1, 1) * 32767).astype("<i2").tobytes())
    return out.getvalue()


def samples(wav):
    with wave.open(io.BytesIO(wav)) as f:
        return np.frombuffer(f.readframes(f.getnframes()), "<i2").astype(np.float32) / 32768


def frames(rate, batch=1):
    """Chunks of 32 ms as the models of silero-vad take them, each after the 4 ms before it: (batch, samples). The
    voices of a batch begin at different times."""
    size, context = rate * 32 // 1000, rate * 4 // 1000
    audio = samples(speech(rate))
    voices = np.stack([np.roll(audio, 5000 * i) for i in range(batch)])
    padded = np.pad(voices, ((0, 0), (context, 0)))
    return [padded[:, i * size:(i + 1) * size + context] for i in range(len(audio) // size)]


# ---- files ----

def saved_picture(kind):
    out = io.BytesIO()
    Image.fromarray(text_image()).save(out, kind)
    return out.getvalue()


def archive(kind):
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as z:
            z.writestr(zipfile.ZipInfo("readme.txt"), "\n".join(LINES) * 40, zipfile.ZIP_DEFLATED)
    else:
        with tarfile.open(fileobj=out, mode="w") as t:
            content = (ROOT / "LICENSE").read_bytes()
            entry = tarfile.TarInfo("LICENSE")
            entry.size = len(content)
            t.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def database():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "x.db"
        base = sqlite3.connect(file)
        base.execute("create table line (number integer primary key, content text)")
        base.executemany("insert into line values (?, ?)", enumerate(LINES))
        base.commit()
        base.close()
        return file.read_bytes()


def files():
    """Name to content, of many kinds; the odd ones too: empty, one byte, noise."""
    rows = [{"id": i, "line": line, "odd": bool(i % 2)} for i, line in enumerate(LINES * 9)]
    page = "<!DOCTYPE html>\n<html><head><title>Lines</title></head><body>" + "".join(
        f"<p class='line'>{line}</p>\n" for line in LINES * 5) + "</body></html>\n"
    return {
        "source.py": pathlib.Path(__file__).read_bytes(), "header.h": (ROOT / "include/nacre/nacre.h").read_bytes(),
        "readme.md": (ROOT / "README.md").read_bytes(), "steps.sh": (ROOT / "tools/build/steps.sh").read_bytes(),
        "Makefile": (ROOT / "Makefile").read_bytes(), "rows.json": json.dumps(rows, indent=1).encode(),
        "page.html": page.encode(), "rows.csv": "\n".join(
            ["id,line,odd"] + [f'{r["id"]},"{r["line"]}",{r["odd"]}' for r in rows]).encode(),
        "tree.xml": ("<?xml version='1.0'?>\n<lines>" + "".join(f"<l n='{i}'>{x}</l>" for i, x in enumerate(LINES * 9))
                     + "</lines>").encode(),
        "picture.png": saved_picture("PNG"), "picture.jpg": saved_picture("JPEG"), "picture.gif": saved_picture("GIF"),
        "picture.bmp": saved_picture("BMP"), "picture.pdf": saved_picture("PDF"), "voice.wav": speech(),
        "some.zip": archive("zip"), "some.tar": archive("tar"), "some.gz": gzip.compress(page.encode(), mtime=0),
        "lines.db": database(), "program": pathlib.Path(sys.executable).resolve().read_bytes()[:1 << 16],
        "rows.pickle": pickle.dumps(rows), "greek.txt": "Ἄνδρα μοι ἔννεπε, Μοῦσα, πολύτροπον\n".encode() * 30,
        "noise": np.random.default_rng(3).bytes(5000), "empty": b"", "one": b"x", "short.txt": b"hello",
    }
