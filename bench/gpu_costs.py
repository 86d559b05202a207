#!/usr/bin/env python3
"""More figures of an NVIDIA GPU, beside PyTorch in one run: `bench/gpu_costs.py [--out FOLDER] [--only PART]`.

- A file of f32 with the option compute = f16 beside the same file written in f16: time of a run, BERT and ResNet-50.
- What a replayed run costs the processor: runs of a captured graph on the caller's stream that nobody waits for, from
  Python and from C (replay.c); from C also what a waited run takes, captured and not, of BERT and of one node.
- Kernels of one more block of BERT and of GPT-2 (two blocks less one), beside those of torch.compile for the same:
  queries, keys and values are three layers in BERT and one in GPT-2.
Results go to FOLDER ($OUT, else build/gpu) as costs.md; a figure that cannot be had says why.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np
import torch

import gpu
import gpu_rows
import models
import nacre


def bound(model, feeds, outputs, provider, entries=()):
    """A session with everything of it in the GPU's memory, and its binding; outputs: name to (shape, torch's type)."""
    options = nacre.SessionOptions()
    for key, value in entries:
        options.add_session_config_entry(key, value)
    s = nacre.InferenceSession(model.SerializeToString(), options,
                               providers=[("CUDAExecutionProvider", {"enable_cuda_graph": "1", **provider})])
    kinds = {torch.int64: np.int64, torch.float16: np.float16, torch.float32: np.float32}
    binding, kept = s.io_binding(), [feeds]
    for name, t in feeds.items():
        binding.bind_input(name, "cuda", 0, kinds[t.dtype], tuple(t.shape), t.data_ptr())
    for name, (shape, kind) in outputs.items():
        kept.append(torch.empty(shape, dtype=kind, device="cuda"))
        binding.bind_output(name, "cuda", 0, kinds[kind], tuple(shape), kept[-1].data_ptr())
    torch.cuda.synchronize()
    for _ in range(3):
        s.run_with_iobinding(binding)
    return s, binding, kept


def milliseconds(s, binding, n=40):
    def row():
        begin = time.perf_counter()
        for _ in range(n):
            s.run_with_iobinding(binding)
        return (time.perf_counter() - begin) / n * 1e3
    return min(row() for _ in range(5))


def bert_in(kind, batch, **shape):
    ids = torch.randint(0, 30000, (batch, 128), device="cuda")
    hidden = {"last_hidden": ((batch, 128, 768), kind), "pooled": ((batch, 768), kind)}
    return models.bert(**shape), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, hidden


def resnet_in(kind, batch):
    return models.resnet50(), {"x": torch.randn(batch, 3, 224, 224, device="cuda", dtype=kind)}, \
        {"y": ((batch, 1000), kind)}


def precision():
    """compute = f16 for a file of f32, its time over that of a file in f16; at most 1.05."""
    for name, make in (("BERT-base, batch 32", lambda k: bert_in(k, 32)), ("ResNet-50, batch 64",
                                                                        lambda k: resnet_in(k, 64))):
        model, feeds, outputs = make(torch.float32)
        wide = milliseconds(*bound(model, feeds, outputs, {}, [("nacre.compute", "f16")])[:2])
        model, feeds, outputs = make(torch.float16)
        narrow = milliseconds(*bound(gpu.half(model), feeds, outputs, {})[:2])
        yield f"| {name}: f32 with compute = f16, of a file in f16 | {wide:.3f} of {narrow:.3f} ms | " \
              f"{wide / narrow:.2f} | 1.05 |"


def host():
    """Microseconds of the processor for a run that is queued, from Python."""
    stream = torch.cuda.Stream()
    model, feeds, outputs = bert_in(torch.float16, 1)
    s, binding, _ = bound(gpu.half(model), feeds, outputs, {"user_compute_stream": str(stream.cuda_stream)})
    options = nacre.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    times = []
    for _ in range(100):  # no more at a time than may be under way
        begin = time.perf_counter()
        for _ in range(3):
            s.run_with_iobinding(binding, options)
        times.append((time.perf_counter() - begin) / 3)
        stream.synchronize()
    yield f"| a replayed run of BERT-base, the processor's time from Python, median | " \
          f"{statistics.median(times) * 1e6:.1f} us | | 20 |"


def numbered(model, **dims):
    """The model with numbers in place of its symbols."""
    for v in (*model.graph.input, *model.graph.output):
        for d in v.type.tensor_type.shape.dim:
            if d.dim_param:
                d.dim_value = dims[d.dim_param]
    return model


def from_c():
    """Microseconds of runs of bound tensors of the GPU from C."""
    build = pathlib.Path(os.environ.get("NACRE_BUILD", gpu.ROOT / "build" / "release"))
    works = {"BERT-base, batch 1": numbered(gpu.half(models.bert()), batch=1, length=128),
             "Slice of 4096 x 16384": gpu_rows.sliced(gpu_rows.Build(), False),
             "GatherElements 2048 x 4096": gpu_rows.gathered(gpu_rows.Build(), False)}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/replay"
        subprocess.run([os.environ.get("CC", "cc"), "-O2", f"-I{gpu.ROOT}/include", "-o", program,
                        f"{gpu.ROOT}/bench/replay.c", f"-L{build}", "-lnacre", f"-Wl,-rpath,{build}"], check=True)
        for name, model in works.items():
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            captured, plain = (subprocess.run([program, path, *how], check=True, capture_output=True, text=True)
                               .stdout.split() for how in ((), ("plain",)))
            yield f"| a replayed run of {name} from C, the processor's time, median | {captured[0]} us " \
                  f"({plain[0]} by launches) | | 20 |"
            yield f"| the same waited for | {captured[1]} us ({plain[1]} by launches) | | |"


def count(run):
    return round(sum(row[1] for row in gpu.kernels(run)))


def blocks():
    """Kernels of two blocks less those of one."""
    def ours(make, **shape):
        s, binding, kept = bound(gpu.half(make(**shape)), kept_feeds, outs, {})
        return count(lambda: s.run_with_iobinding(binding))

    def compiled(causal, layers):
        torch._dynamo.reset()
        module = gpu.Transformer(30522, 512, causal, layers)
        for block in module.blocks if not causal else ():
            block.attention.qkv = torch.nn.ModuleList(torch.nn.Linear(768, 768) for _ in range(3))
        module = torch.compile(module.eval().half().cuda())
        ids = kept_feeds["input_ids"]
        with torch.inference_mode():
            for _ in range(3):
                module(ids)
            return count(lambda: module(ids))
    for name, causal in (("BERT", False), ("GPT-2", True)):
        ids = torch.randint(0, 30000, (8, 128), device="cuda")
        if causal:
            kept_feeds, outs = {"input_ids": ids}, {"y": ((8, 128, 768), torch.float16)}
            mine = [ours(gpu.gpt2, layers=n, vocabulary=30522, positions=512, length=128, joined=True) for n in (1, 2)]
        else:
            kept_feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            outs = {"last_hidden": ((8, 128, 768), torch.float16), "pooled": ((8, 768), torch.float16)}
            mine = [ours(models.bert, layers=n) for n in (1, 2)]
        theirs = [compiled(causal, n) for n in (1, 2)]
        yield f"| kernels of a block of {name}, beside torch.compile | {mine[1] - mine[0]} beside " \
              f"{theirs[1] - theirs[0]} | | fewer |"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=os.environ.get("OUT", str(gpu.ROOT / "build" / "gpu")))
    p.add_argument("--only", default="", help="parts whose names hold this: precision, host, from_c, blocks")
    a = p.parse_args()
    folder = pathlib.Path(a.out)
    folder.mkdir(parents=True, exist_ok=True)
    lines, failed = ["| what | figure | ratio | to reach |", "|---|---|---|---|"], False
    for part in (p for p in (precision, host, from_c, blocks) if a.only in p.__name__):
        try:
            for line in part():
                lines.append(line)
                print(line, flush=True)
        except Exception as e:  # the other figures are told
            failed = True
            traceback.print_exc()
            lines.append(f"| {part.__name__} failed: {' '.join(str(e).split())[:200].replace('|', ' ')} | | | |")
        (folder / "costs.md").write_text("\n".join(lines) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
