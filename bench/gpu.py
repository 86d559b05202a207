#!/usr/bin/env python3
"""nacre beside PyTorch on an NVIDIA GPU, in one process and one run: `bench/gpu.py [--out FOLDER] [--only NAMES]`.

Every figure is the time of one forward pass with inputs and outputs in the GPU's memory: PyTorch's by the GPU's own
events around a row of passes, nacre's by the clock around runs that wait for their end. Anchors, measured in the same
run: one 8192 product in bf16 and one copy of 2 GiB. PyTorch is measured eager and as a CUDA graph, convolutions in
channels_last as well. For each work two tables say where the time goes: its kernels, as CUPTI saw them in captured
runs, and its nodes by op, with events around each, their bytes and the share of the copy's rate that these make.
Results go to FOLDER ($OUT, else build/gpu) as gpu.md and gpu.json; what failed is told there, and the exit code is 1.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, os.environ.get("NACRE_PYTHON", str(ROOT / "build" / "release" / "python")))

import models  # noqa: E402
import nacre  # noqa: E402

DEADLINE = time.monotonic() + float(os.environ.get("GPU_BENCH_SECONDS", "220"))


# ---- time ----

def events(run, stream, least=0.15):
    """Milliseconds of one call, the best of three rows of calls between two events on the stream."""
    with torch.cuda.stream(stream):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def row(n):
            begin.record(stream)
            for _ in range(n):
                run()
            end.record(stream)
            end.synchronize()
            return begin.elapsed_time(end) / n
        row(3)
        n = max(3, min(2000, int(least * 1e3 / max(row(3), 1e-3))))
        return min(row(n) for _ in range(3))


def anchors():
    stream = torch.cuda.current_stream()
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = events(lambda: torch.mm(a, b), stream)
    x = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    copy = events(lambda: y.copy_(x), stream)
    return {"gemm_tflops": round(2 * 8192 ** 3 / product / 1e9, 1), "copy_tb_s": round(2 * x.numel() / copy / 1e9, 2)}


# ---- nacre ----

def half(model):
    """The same model with f16 weights, inputs and outputs."""
    for t in model.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float16), t.name))
    for v in list(model.graph.input) + list(model.graph.output):
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = TensorProto.FLOAT16
    for node in model.graph.node:
        for a in node.attribute:
            if node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.FLOAT16
    return model


def nacre_ms(model, feeds, outputs):
    """feeds: name to CUDA tensor. Milliseconds of a run that waits for its end, and the outputs."""
    options = nacre.SessionOptions()
    begin = time.perf_counter()
    s = nacre.InferenceSession(model.SerializeToString(), options,
                               providers=[("CUDAExecutionProvider", {"enable_cuda_graph": "1"})])
    created = time.perf_counter() - begin
    binding = s.io_binding()
    for name, t in feeds.items():
        kind = {torch.int64: np.int64, torch.float16: np.float16, torch.float32: np.float32}[t.dtype]
        binding.bind_input(name, "cuda", 0, kind, tuple(t.shape), t.data_ptr())
    results = {}
    for name, shape in outputs.items():
        results[name] = torch.empty(shape, dtype=torch.float16, device="cuda")
        binding.bind_output(name, "cuda", 0, np.float16, tuple(shape), results[name].data_ptr())
    torch.cuda.synchronize()
    begin = time.perf_counter()
    s.run_with_iobinding(binding)
    first = time.perf_counter() - begin
    n, best = 10, 1e9
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(n):
            s.run_with_iobinding(binding)
        wall = (time.perf_counter() - begin) / n
        best = min(best, wall * 1e3)
        n = max(3, min(500, int(0.2 / wall)))
    return {"ms": round(best, 3), "create_s": round(created, 2), "first_s": round(first, 3),
            "kernels": kernels(lambda: s.run_with_iobinding(binding))}, results


def kernels(run, n=5):
    """What the GPU did in a run: name, count, microseconds; the longest first. Empty where CUPTI gives nothing."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            for _ in range(n):
                run()
            torch.cuda.synchronize()
        rows = [(e.key[:90], e.count / n, e.self_device_time_total / n) for e in seen.key_averages()]
    except Exception as e:  # a profiler that does not work there takes no figure with it
        print(f"no profile of kernels: {e}", flush=True)
        return []
    rows = [r for r in rows if r[2] > 0]
    return [[k, round(c, 1), round(us, 1)] for k, c, us in sorted(rows, key=lambda r: -r[2])]


def nodes(model, feeds):
    """By op: how many nodes, microseconds of the quickest of three runs, bytes read and written."""
    options = nacre.SessionOptions()
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(pathlib.Path(folder) / "profile")
        s = nacre.InferenceSession(model.SerializeToString(), options, providers=["CUDAExecutionProvider"])
        host = {k: t.cpu().numpy() for k, t in feeds.items()}
        for _ in range(3):
            s.run(None, host)
        trace = json.loads(pathlib.Path(s.end_profiling()).read_text())
    runs = [[] for _ in range(3)]
    at = -1
    for e in trace:
        at += e["name"] == "model_run"
        if e["cat"] == "Node" and 0 <= at < 3:
            runs[at].append(e)
    best = min(runs, key=lambda r: sum(e["dur"] for e in r))
    rows = {}
    for e in best:
        row = rows.setdefault(e["args"]["op_name"] + ("" if e["tid"] else ", host"), [0, 0, 0])
        for i, v in enumerate((1, e["dur"], int(e["args"].get("bytes", 0)))):
            row[i] += v
    return [[op, *row] for op, row in sorted(rows.items(), key=lambda r: -r[1][1]) if row[1] > 0]


# ---- PyTorch ----

def torch_ms(module, args, channels_last=False):
    module = module.eval().half().cuda()
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
        args = [a.contiguous(memory_format=torch.channels_last) if a.dim() == 4 else a for a in args]
    with torch.inference_mode():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                module(*args)
        torch.cuda.synchronize()
        eager = events(lambda: module(*args), stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = module(*args)
        replay = events(graph.replay, stream)
    return {"eager": round(eager, 3), "graph": round(replay, 3)}, out


class Attention(torch.nn.Module):
    def __init__(self, hidden, heads, causal):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        b, t, c = x.shape
        three = isinstance(self.qkv, torch.nn.ModuleList)  # layers of their own
        parts = [layer(x) for layer in self.qkv] if three else self.qkv(x).chunk(3, -1)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, first):
        super().__init__()
        self.attention = Attention(hidden, heads, first)
        self.n1, self.n2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)
        self.act = torch.nn.GELU(approximate="tanh" if first else "none")
        self.first = first  # norms stand first, as in GPT-2

    def forward(self, x):
        if self.first:
            x = x + self.attention(self.n1(x))
            return x + self.down(self.act(self.up(self.n2(x))))
        x = self.n1(x + self.attention(x))
        return self.n2(x + self.down(self.act(self.up(x))))


class Transformer(torch.nn.Module):
    def __init__(self, vocabulary, positions, causal, layers=12, hidden=768, heads=12):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(vocabulary, hidden), torch.nn.Embedding(positions, hidden)
        self.blocks = torch.nn.ModuleList(Block(hidden, heads, causal) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(hidden)
        self.causal = causal

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        x = x if self.causal else self.norm(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) if self.causal else x


class Bottleneck(torch.nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        conv = torch.nn.Conv2d
        self.a, self.b, self.c = (conv(channels, width, 1), conv(width, width, 3, stride, 1), conv(width, 4 * width, 1))
        self.side = conv(channels, 4 * width, 1, stride) if stride > 1 or channels != 4 * width else torch.nn.Identity()

    def forward(self, x):
        y = self.c(self.b(self.a(x).relu_()).relu_())
        return (y + self.side(x)).relu_()


def resnet50():
    layers = [torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if i == 0 and width > 64 else 1))
            channels = 4 * width
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2048, 1000))


# ---- GPT-2 for nacre, in the nodes that exporters write ----

def gpt2(layers=12, hidden=768, heads=12, vocabulary=50257, positions=1024, length=512, dropout=0.0, padded=False,
         joined=False):
    """dropout: of words, attention and what is added to the residuals, as in training. padded: an input attention_mask
    says which keys there are, instead of the triangle. joined: queries, keys and values are one product."""
    b = models.Build()
    training = b.const(np.array(True)) if dropout else None

    def drop(v):
        return b.node("Dropout", v, b.const(np.float32(dropout)), training) if dropout else v
    split, join = b.const(np.int64([0, 0, heads, hidden // heads])), b.const(np.int64([0, 0, hidden]))
    root = b.const(np.float32((hidden // heads) ** 0.5))
    if padded:
        given = b.node("Cast", b.node("Unsqueeze", "attention_mask", b.const(np.int64([1, 2]))), to=TensorProto.FLOAT)
        mask = b.node("Mul", b.node("Sub", b.const(np.float32(1)), given), b.const(np.float32(-1e4)))
    else:
        mask = b.const(np.triu(np.full((1, 1, length, length), -1e4, np.float32), 1))
    half_, one, cubic, scale = (b.const(np.float32(v)) for v in (0.5, 1, 0.044715, (2 / np.pi) ** 0.5))
    x = b.node("Add", b.node("Gather", b.weight(vocabulary, hidden), "input_ids"),
               b.node("Gather", b.weight(positions, hidden), b.const(np.arange(length)[None])))
    x = drop(x)
    for _ in range(layers):
        n = models._layer_norm(b, x, hidden)
        parts = b.parts(models._linear(b, n, hidden, 3 * hidden), 3, -1) if joined else [
            models._linear(b, n, hidden, hidden) for _ in range(3)]
        q, k, v = (b.node("Transpose", b.node("Reshape", part, split), perm=p)
                   for part, p in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        scores = b.node("Add", b.node("Div", b.node("MatMul", q, k), root), mask)
        context = b.node("MatMul", drop(b.node("Softmax", scores, axis=-1)), v)
        joined = b.node("Reshape", b.node("Transpose", context, perm=[0, 2, 1, 3]), join)
        x = b.node("Add", x, drop(models._linear(b, joined, hidden, hidden)))
        u = models._linear(b, models._layer_norm(b, x, hidden), hidden, 4 * hidden)
        cube = b.node("Mul", b.node("Mul", u, u), u)
        inner = b.node("Mul", scale, b.node("Add", u, b.node("Mul", cubic, cube)))
        g = b.node("Mul", b.node("Mul", half_, u), b.node("Add", one, b.node("Tanh", inner)))
        x = b.node("Add", x, drop(models._linear(b, g, 4 * hidden, hidden)))
    x = models._layer_norm(b, x, hidden)
    b.nodes.append(helper.make_node("Identity", [x], ["y"]))
    inputs = ["input_ids"] + (["attention_mask"] if padded else [])
    return b.model([models.tensor(name, TensorProto.INT64, "batch", length) for name in inputs],
                   [models.tensor("y", TensorProto.FLOAT, "batch", length, hidden)])


# ---- the works ----

def bert_work(batch):
    ids = torch.randint(0, 30000, (batch, 128), device="cuda")
    feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    outs = {"last_hidden": (batch, 128, 768), "pooled": (batch, 768)}
    return lambda: half(models.bert()), feeds, outs, lambda: Transformer(30522, 512, False), [ids], False


def resnet_work(batch):
    x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)
    return lambda: half(models.resnet50()), {"x": x}, {"y": (batch, 1000)}, resnet50, [x], True


def gpt2_work():
    ids = torch.randint(0, 50000, (8, 512), device="cuda")
    return lambda: half(gpt2()), {"input_ids": ids}, {"y": (8, 512, 768)}, lambda: Transformer(50257, 1024, True), \
        [ids], False


WORKS = {"bert_b1": lambda: bert_work(1), "bert_b32": lambda: bert_work(32), "resnet50_b1": lambda: resnet_work(1),
         "resnet50_b64": lambda: resnet_work(64), "gpt2_8x512": gpt2_work}


def measure(name, work):
    row = {"name": name}
    make, feeds, outs, module, args, images = work()
    try:
        model = make()
        figures, results = nacre_ms(model, feeds, outs)
        row["nacre"] = figures
        if not all(torch.isfinite(t).all().item() for t in results.values()):
            row["failed"] = "nacre: an output is not finite"
        row["nodes"] = nodes(model, feeds)
    except Exception as e:
        row["failed"] = f"nacre: {e}"
        traceback.print_exc()
    try:
        torch.manual_seed(0)
        row["torch"], _ = torch_ms(module(), args)
        if images:
            row["torch_channels_last"], _ = torch_ms(module(), args, channels_last=True)
    except Exception as e:
        row["failed"] = f"{row.get('failed', '')} torch: {e}"
        traceback.print_exc()
    torch.cuda.empty_cache()
    return row


def table(facts, rows):
    yield ", ".join(f"{k} {v}" for k, v in facts.items())
    yield ""
    yield "| work, f16 | nacre, ms | PyTorch eager | as a graph | channels_last eager, graph | created, first run, s |"
    yield "|---|---|---|---|---|---|"
    for r in rows:
        n, t, c = r.get("nacre", {}), r.get("torch", {}), r.get("torch_channels_last", {})
        last = f"{c['eager']}, {c['graph']}" if c else ""
        note = f" {r['failed']}" if "failed" in r else ""
        yield (f"| {r['name']}{note} | {n.get('ms', '')} | {t.get('eager', '')} | {t.get('graph', '')} | {last} | "
               f"{n.get('create_s', '')}, {n.get('first_s', '')} |")


def profiles(facts, rows, most=18):
    for r in rows:
        for title, lines in (("kernels in captured runs", kernel_lines(r)),
                             ("nodes, events around each", node_lines(r, facts))):
            lines = list(lines)
            if len(lines) > 2:
                yield from ("", f"{r['name']}: {title}", "", *lines[:2 + most])


def kernel_lines(r):
    rows = r.get("nacre", {}).get("kernels", [])
    yield "| kernel | count | us | share |"
    yield "|---|---|---|---|"
    total = sum(us for _, _, us in rows)
    for name, count, us in rows:
        yield f"| {name.replace('|', ' ')} | {count:g} | {us:g} | {us / total:.0%} |"


def node_lines(r, facts):
    yield "| op | count | us | MB | of the copy's rate |"
    yield "|---|---|---|---|---|"
    for op, count, us, size in r.get("nodes", []):
        yield f"| {op} | {count} | {us} | {size / 1e6:.1f} | {size / us / 1e6 / facts['copy_tb_s']:.0%} |"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=os.environ.get("OUT", str(ROOT / "build" / "gpu")))
    p.add_argument("--only", default="")
    a = p.parse_args()
    folder = pathlib.Path(a.out)
    folder.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    facts = {"commit": commit.stdout.strip() or "unknown", "date": time.strftime("%Y-%m-%d"),
             "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "onnx": onnx.__version__, **anchors()}
    rows = []
    for name, work in WORKS.items():
        if a.only and name not in a.only.split(","):
            continue
        if time.monotonic() > DEADLINE:
            rows.append({"name": name, "failed": "no time was left"})
            continue
        rows.append(measure(name, work))
        print(json.dumps(rows[-1]), flush=True)
        (folder / "gpu.json").write_text(json.dumps({"facts": facts, "rows": rows}, indent=1))
        (folder / "gpu.md").write_text("\n".join([*table(facts, rows), *profiles(facts, rows)]) + "\n")
    print("\n".join([*table(facts, rows), *profiles(facts, rows)]))
    return any("failed" in r for r in rows)


if __name__ == "__main__":
    sys.exit(main())
