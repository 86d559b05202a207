#!/usr/bin/env python3
"""Figures of single works on an NVIDIA GPU: decoding, 4-bit products, attention, single operators (beside PyTorch where
it is there), training steps, starts: `bench/gpu_rows.py [--out FOLDER] [--only NAMES] [--kernels] [--tiny]`.

A row is one function that gives its figure, its unit and its target; one that fails says why, the others go on. Times
are the clock's around runs that wait for their end, inputs and outputs in the GPU's memory. Decoding and products of
one row read weights that the L2 cannot hold. --tiny: sizes that the stand-ins of tests/cuda compute in seconds, for a
test of the script itself. Results go to FOLDER ($OUT, else build/gpu) as rows.md and rows.json.
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
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, os.environ.get("NACRE_PYTHON", str(ROOT / "build" / "release" / "python")))

import models  # noqa: E402
import nacre  # noqa: E402

DEADLINE = time.monotonic() + float(os.environ.get("GPU_ROWS_SECONDS", "240"))
COPY_TB_S = 4.1  # what a copy reaches, facts of this GPU; limits of memory are told as a share of it


# ---- models ----

class Build:
    """A graph of f16 nodes, node by node."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.outputs, self.n = [], [], [], [], 0
        self.rng = np.random.default_rng(1)

    def name(self):
        self.n += 1
        return f"v{self.n}"

    def node(self, op, *inputs, domain="", n_out=1, **attributes):
        outs = [self.name() for _ in range(n_out)]
        self.nodes.append(helper.make_node(op, list(inputs), outs, domain=domain, **attributes))
        return outs[0] if n_out == 1 else outs

    def const(self, array):
        name = self.name()
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *dims):
        size = int(np.prod(dims))
        block = (self.rng.standard_normal(min(size, 1 << 16), np.float32) * 0.02).astype(np.float16)
        return self.const(np.resize(block, dims))

    def input(self, name, *dims, kind=TensorProto.FLOAT16):
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def output(self, value, name, *dims, kind=TensorProto.FLOAT16):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, dims))

    def model(self, opset=24):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1),
                  helper.make_opsetid("nacre", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def bytes_of_weights(self):
        return sum(len(t.raw_data) for t in self.weights)


def dims_of(v):
    return [d.dim_value for d in v.type.tensor_type.shape.dim]


def drawn(v, rng):
    kind = helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
    if np.issubdtype(kind, np.floating):
        return rng.standard_normal(dims_of(v), np.float32).astype(kind)
    return rng.integers(0, 8, dims_of(v)).astype(kind)


PROFILED = False  # --kernels


def print_kernels(run, n=16):
    """What the GPU did in a run, the longest first, where PyTorch's profiler is there."""
    import gpu
    for name, count, us in gpu.kernels(run)[:n]:
        print(f"    {us:9.1f} us {count:6g} x {name}", flush=True)


def unwaited():
    """A stream of the caller's, what a provider is told of it, and options of runs that are queued there."""
    stream = next(d for d in nacre.get_ep_devices() if d.ep_name == "CUDAExecutionProvider").create_sync_stream()
    options = nacre.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return stream, {"user_compute_stream": str(stream.get_handle())}, options


def milliseconds(model, feeds=None, ties=(), least=0.3, queued=False):
    """Of one captured run, the best of three rows of runs; inputs are drawn where feeds does not give them. ties: pairs
    of an input and the output that takes its place. queued: runs are waited for at the end of a row, not one by one."""
    rng = np.random.default_rng(2)
    options = nacre.SessionOptions()
    for tie in ties:
        options.add_tie(*tie)
    stream, told, how = unwaited() if queued else (None, {}, None)
    s = nacre.InferenceSession(model.SerializeToString(), options,
                               providers=[("CUDAExecutionProvider", {"enable_cuda_graph": "1", **told})])
    binding, kept = s.io_binding(), [stream]
    tied = {name for tie in ties for name in tie}
    for v in (v for v in model.graph.input if v.name not in tied):
        array = (feeds or {}).get(v.name)
        kept.append(nacre.OrtValue.ortvalue_from_numpy(drawn(v, rng) if array is None else array, "cuda", 0))
        binding.bind_ortvalue_input(v.name, kept[-1])
    for v in (v for v in model.graph.output if v.name not in tied):
        kind = helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
        kept.append(nacre.OrtValue.ortvalue_from_shape_and_type(dims_of(v), kind, "cuda", 0))
        binding.bind_ortvalue_output(v.name, kept[-1])
    for _ in range(3 if not queued else 12):  # each of the runs that may be under way has a recording of its own
        s.run_with_iobinding(binding, how)
    binding.synchronize_outputs()
    begin = time.perf_counter()
    s.run_with_iobinding(binding)
    n = max(1, min(500, int(least / 3 / max(time.perf_counter() - begin, 1e-6))))

    def row():
        begin = time.perf_counter()
        for _ in range(n):
            s.run_with_iobinding(binding, how)
        binding.synchronize_outputs()
        return (time.perf_counter() - begin) / n * 1e3
    best = min(row() for _ in range(3))
    if PROFILED:
        print_kernels(lambda: s.run_with_iobinding(binding))
    return best


# ---- decoding ----

class Decoder:
    """One token of a Llama-shaped model over caches of `context` rows. All layers read the same weights, which the L2
    cannot hold, so that a file of one layer moves the bytes of all."""

    def __init__(self, layers, hidden, heads, key_heads, inner, words, context):
        self.b, self.layers, self.hidden, self.heads, self.key_heads = Build(), layers, hidden, heads, key_heads
        self.inner, self.words, self.context, self.size = inner, words, context, hidden // heads
        self.ties = []

    def bytes_moved(self):
        layer = 2 * (2 * self.hidden ** 2 + 2 * self.hidden * self.key_heads * self.size + 3 * self.hidden * self.inner)
        cache = 2 * 2 * self.key_heads * self.context * self.size
        return self.layers * (layer + cache) + 2 * self.hidden * self.words

    def rotated(self):
        """The oldest row of one pair of caches goes, by Slice, the newest comes, by Concat."""
        b = self.b
        caches = [b.input(name, 1, self.key_heads, self.context, self.size) for name in ("keys", "values")]
        ends = [b.const(np.int64([v])) for v in (1, self.context, 2)]
        tails = [b.node("Slice", c, *ends) for c in caches]

        def attend(q, k, v, layer):
            joined = [b.node("Concat", tail, x, axis=2) for tail, x in zip(tails, (k, v))]
            return b.node("Attention", q, *joined)
        return attend

    def in_place(self):
        """Each layer has caches of its own, which stay where they are; the token's row is written into them."""
        b = self.b
        at, length = b.input("at", 1, kind=TensorProto.INT64), b.input("length", 1, kind=TensorProto.INT64)

        def attend(q, k, v, layer):
            news = []
            for name, x in (("keys", k), ("values", v)):
                dims = 1, self.key_heads, self.context, self.size
                cache = b.input(f"{name}{layer}", *dims)
                news.append(f"new_{name}{layer}")
                b.nodes.append(helper.make_node("TensorScatter", [cache, x, at], news[-1:], axis=2, mode="circular"))
                b.outputs.append(helper.make_tensor_value_info(news[-1], TensorProto.FLOAT16, dims))
                self.ties.append((cache, news[-1]))
            return b.node("Attention", q, *news, "", "", "", length)
        return attend

    def model(self, attention):
        b, hidden, size = self.b, self.hidden, self.size
        x = b.input("x", 1, 1, hidden)
        attend = attention()
        norm, wq, wo = b.weight(hidden), b.weight(hidden, hidden), b.weight(hidden, hidden)
        wk, wv = b.weight(hidden, self.key_heads * size), b.weight(hidden, self.key_heads * size)
        gate, up, down = b.weight(hidden, self.inner), b.weight(hidden, self.inner), b.weight(self.inner, hidden)
        head, row = b.weight(hidden, self.words), b.const(np.int64([1, self.heads, 1, size]))
        line, one = b.const(np.int64([1, 1, hidden])), b.const(np.int64([1, self.key_heads, 1, size]))
        for layer in range(self.layers):
            n = b.node("RMSNormalization", x, norm, axis=-1)
            q = b.node("Reshape", b.node("MatMul", n, wq), row)
            k, v = (b.node("Reshape", b.node("MatMul", n, w), one) for w in (wk, wv))
            y = b.node("Reshape", attend(q, k, v, layer), line)
            x = b.node("Add", x, b.node("MatMul", y, wo))
            n = b.node("RMSNormalization", x, norm, axis=-1)
            g = b.node("MatMul", n, gate)
            g = b.node("Mul", b.node("Mul", g, b.node("Sigmoid", g)), b.node("MatMul", n, up))
            x = b.node("Add", x, b.node("MatMul", g, down))
        b.output(b.node("MatMul", b.node("RMSNormalization", x, norm, axis=-1), head), "y", 1, 1, self.words)
        return b.model()


def decode(target, tiny, in_place, *shape):
    d = Decoder(*((2, 64, 4, 2, 128, 100, 16) if tiny else shape))
    model = d.model(d.in_place if in_place else d.rotated)
    feeds = {"at": np.int64([d.context - 1]), "length": np.int64([d.context])}
    ms = milliseconds(model, feeds, d.ties)
    return {"figure": d.bytes_moved() / ms / 1e9 / COPY_TB_S * 100, "unit": "% of the copy's rate", "target": target,
            "ms": ms}


def gemv_4bit(tiny, n=8):
    """One of n products in a graph, as a model has them: the start and the end of a run count once."""
    K, N = (64, 32) if tiny else (4096, 1 << 16)
    b = Build()
    codes = b.const(np.resize(np.arange(256, dtype=np.uint8), (N, K // 32, 16)))
    scales = b.weight(N * K // 32)
    for i in range(n):
        y = b.node("MatMulNBits", b.input(f"x{i}", 1, K), codes, scales, domain="com.microsoft", K=K, N=N, bits=4,
                   block_size=32)
        b.output(y, f"y{i}", 1, N)
    ms = milliseconds(b.model()) / n
    return {"figure": b.bytes_of_weights() / ms / 1e9 / COPY_TB_S * 100, "unit": "% of the copy's rate", "target": 65,
            "ms": ms}


# ---- attention, single operators ----

def attention_ms(B, H, T, D, forward, back):
    """Of the forward pass, of the gradient by query, key and value, or of both in one graph, where the gradient takes
    what the forward pass kept, as in a training step; queued, as cuDNN's are."""
    b = Build()
    ins = [b.input(n, B, H, T, D) for n in "qkvd"[:3 + back]]
    if forward:
        b.output(b.node("Attention", *ins[:3], is_causal=1), "y", B, H, T, D)
    outs = b.node("AttentionGrad", *ins[:3], "", "", "", "", ins[3], domain="nacre", n_out=3,
                  is_causal=1) if back else ()
    for value, name in zip(outs, "abc"):
        b.output(value, name, B, H, T, D)
    return milliseconds(b.model(), queued=True)


def cudnn(tiny, B, H, T, D):
    """cuDNN's own through PyTorch's operators, forward and backward, ms of the GPU's events; None where it is not."""
    try:
        import torch
        if tiny or not torch.cuda.is_available():
            return None
    except ImportError:
        return None
    q, k, v, d = (halves(torch, B, H, T, D) for _ in range(4))

    def forward():
        return torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
    y, sums, rows, columns, longest, widest, seed, offset, _ = forward()

    def back():
        torch.ops.aten._scaled_dot_product_cudnn_attention_backward(d, q, k, v, y, sums, seed, offset, None, rows,
                                                                    columns, longest, widest, 0.0, True)

    def best(run, n=200):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def row():
            begin.record()
            for _ in range(n):
                run()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) / n
        return min(row() for _ in range(3))
    return best(forward), best(back)


def rate(work, ms, theirs, target):
    """A row of attention in TFLOP/s, beside what cuDNN has in the same process."""
    found = {"figure": work / ms, "unit": "TFLOP/s, causal", "target": target, "ms": ms}
    if theirs:
        found |= {"unit": f"TFLOP/s, causal; {theirs / ms:.0%} of cuDNN's {work / theirs:.0f}", "cudnn": work / theirs}
    return found


def attention(tiny, target, B, H, T, D):
    B, H, T, D = (1, 2, 16, 32) if tiny else (B, H, T, D)
    theirs = cudnn(tiny, B, H, T, D)
    return rate(2 * B * H * T * T * D / 1e9, attention_ms(B, H, T, D, True, False), theirs and theirs[0], target)


def attention_back(tiny, target, B, H, T, D):
    """Both passes in one graph, less the forward one; `anew`: the gradient alone, which does the forward one itself."""
    B, H, T, D = (1, 2, 16, 32) if tiny else (B, H, T, D)
    theirs = cudnn(tiny, B, H, T, D)
    both, forward, anew = (attention_ms(B, H, T, D, *which) for which in ((True, True), (True, False), (False, True)))
    work = 5 * B * H * T * T * D / 1e9
    return {**rate(work, max(both - forward, 1e-6), theirs and theirs[1], target), "anew": work / anew}


def peer(make, tiny, n=100):
    """Of PyTorch's eager form of the same, a lone run and one of many that are queued, us; nothing where it is not."""
    try:
        import torch
        ran = None if tiny or not torch.cuda.is_available() else make(torch)
    except ImportError:
        ran = None
    if ran is None:
        return {}

    def row(each):
        begin = time.perf_counter()
        for _ in range(n):
            ran()
            if each:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / n * 1e6
    row(True)
    return {"pytorch": min(row(True) for _ in range(3)), "pytorch_queued": min(row(False) for _ in range(3))}


def one_node(make, tiny, target_us, theirs):
    """A lone run, with its start and its end, and one of many that are queued."""
    ms, queued = (milliseconds(make(Build(), tiny), queued=q) for q in (False, True))
    found = {"figure": ms * 1e3, "unit": f"us, {queued * 1e3:.1f} of a queue", "target": target_us, "ms": ms}
    beside = peer(theirs, tiny)
    if beside:
        found["unit"] += f"; PyTorch {beside['pytorch']:.1f}, {beside['pytorch_queued']:.1f}"
    return {**found, **beside}


def halves(torch, *dims):
    return torch.randn(*dims, device="cuda", dtype=torch.float16)


def gelu_peer(torch):
    x, bias = halves(torch, 8192, 4096), halves(torch, 4096)
    return lambda: torch.nn.functional.gelu(x + bias)


def gelu_grad_peer(torch):
    dy, x, bias = halves(torch, 8192, 4096), halves(torch, 8192, 4096), halves(torch, 4096)
    return lambda: torch.ops.aten.gelu_backward(dy, x + bias)


def slice_peer(torch):
    x = halves(torch, 4096, 16384)
    return lambda: x[1:, 1:-1].contiguous()


def places(torch):
    return torch.randint(0, 8, (2048, 4096), device="cuda")


def gather_peer(torch):
    x, at = halves(torch, 2048, 4096), places(torch)
    return lambda: torch.gather(x, 1, at)


def gather_grad_peer(torch):
    dy, at = halves(torch, 2048, 4096), places(torch)
    return lambda: torch.zeros_like(dy).scatter_add_(1, at, dy)


def loss_peer(torch):
    x, t = halves(torch, 8192, 30528), torch.randint(0, 8, (8192,), device="cuda")
    return lambda: torch.nn.functional.cross_entropy(x, t)


def bias_gelu(b, tiny):
    rows, width = (4, 16) if tiny else (8192, 4096)
    x = b.node("BiasGelu", b.input("x", rows, width), b.input("bias", width), domain="com.microsoft")
    b.output(x, "y", rows, width)
    return b.model()


def bias_gelu_grad(b, tiny):
    rows, width = (4, 16) if tiny else (8192, 4096)
    x = b.node("BiasGeluGrad_dX", b.input("dy", rows, width), b.input("x", rows, width), b.input("bias", width),
               domain="com.microsoft")
    b.output(x, "dx", rows, width)
    return b.model()


def sliced(b, tiny):
    n, m = (4, 8) if tiny else (4096, 16384)
    ends = [b.const(np.int64(v)) for v in ([1, 1], [n, m - 1], [0, 1])]
    b.output(b.node("Slice", b.input("x", n, m), *ends), "y", n - 1, m - 2)
    return b.model()


def gathered(b, tiny):
    n, m = (4, 8) if tiny else (2048, 4096)
    at = b.input("at", n, m, kind=TensorProto.INT64)
    b.output(b.node("GatherElements", b.input("x", n, m), at, axis=1), "y", n, m)
    return b.model()


def gathered_grad(b, tiny):
    n, m = (4, 8) if tiny else (2048, 4096)
    at = b.input("at", n, m, kind=TensorProto.INT64)
    dims = b.const(np.int64([n, m]))
    dx = b.node("GatherElementsGrad", b.input("dy", n, m), dims, at, domain="com.microsoft", axis=1)
    b.output(dx, "dx", n, m)
    return b.model()


def loss(b, tiny):
    rows, words = (4, 16) if tiny else (8192, 30528)
    y = b.node("SoftmaxCrossEntropyLoss", b.input("x", rows, words), b.input("t", rows, kind=TensorProto.INT64))
    b.output(y, "y")
    return b.model()


# ---- training ----

def language_model(layers, hidden, heads, words, batch, length, causal, dropout=0.0):
    """A transformer with its loss, in f32, as one ONNX graph, and the names of its parameters. With dropout it takes a
    mask of the keys too."""
    import gpu
    model = gpu.gpt2(layers, hidden, heads, words, length, length, dropout, dropout > 0)
    graph = model.graph
    # What is hidden has the least float, as torch's exporters write it; a mask of zeros hides nothing.
    mask = np.triu(np.full((1, 1, length, length), np.finfo(np.float32).min if causal else 0, np.float32), 1)
    for t in graph.initializer:
        if list(t.dims) == [1, 1, length, length]:
            t.CopyFrom(numpy_helper.from_array(mask, t.name))
    params = [t.name for t in graph.initializer if t.data_type == TensorProto.FLOAT and
              list(t.dims) not in ([], [1, 1, length, length])]
    table = next(t.name for t in graph.initializer if list(t.dims) == [words, hidden])
    del graph.output[:]
    graph.initializer.append(numpy_helper.from_array(np.int64([-1, hidden]), "flat"))
    graph.node.extend([helper.make_node("Transpose", [table], ["head"], perm=[1, 0]),
                       helper.make_node("Reshape", ["y", "flat"], ["rows"]),
                       helper.make_node("MatMul", ["rows", "head"], ["logits"]),
                       helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"])])
    graph.input.append(helper.make_tensor_value_info("labels", TensorProto.INT64, [batch * length]))
    graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    return model, params


def gib_used():
    """Of the GPU's memory, by all processes, others' too; None where nobody tells."""
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                               capture_output=True, text=True, timeout=20, check=True)
        return round(float(found.stdout.split()[0]) / 1024, 2)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def training(tiny, target, compute, layers, hidden, heads, words, batch, length, causal, recompute="0", dropout=0.0,
             cudnn_dropout="0"):
    from nacre.training import artifacts
    from nacre.training.api import CheckpointState, Module, Optimizer
    if tiny:
        layers, hidden, heads, words, batch, length = 1, 32, 2, 64, 2, 8
    model, params = language_model(layers, hidden, heads, words, batch, length, causal, dropout)
    rng = np.random.default_rng(3)
    feeds = [rng.integers(0, words, (batch, length)), rng.integers(0, words, batch * length)]
    if dropout:  # some of the sentences are shorter
        feeds.insert(1, (np.arange(length) < rng.integers(length // 2, length + 1, (batch, 1))).astype(np.int64))
    before = gib_used()
    with tempfile.TemporaryDirectory() as folder:
        artifacts.generate_artifacts(model, requires_grad=params, optimizer=artifacts.OptimType.AdamW,
                                     artifact_directory=folder, compute=compute)
        folder = pathlib.Path(folder)
        options = nacre.SessionOptions()
        options.add_session_config_entry("nacre.recompute", recompute)
        options.add_session_config_entry("nacre.cudnn_dropout", cudnn_dropout)
        module = Module(folder / "training_model.onnx", CheckpointState.load_checkpoint(folder / "checkpoint"),
                        device="cuda", session_options=options)
        optimizer = Optimizer(folder / "optimizer_model.onnx", module)

        def step():
            value = module(*feeds)
            optimizer.step()
            module.lazy_reset_grad()
            return float(value)
        losses, best = [step() for _ in range(3)], 1e9
        for _ in range(1 if tiny else 5):
            begin = time.perf_counter()
            losses.append(step())
            best = min(best, (time.perf_counter() - begin) * 1e3)
        used = gib_used()
        if PROFILED:
            print_kernels(step, 40)
    if not np.isfinite(losses).all():
        raise RuntimeError(f"losses are {losses}")
    return {"figure": best, "unit": f"ms a step, {compute or 'f32'}", "target": target, "ms": best, "gib": used,
            "gib_before": before}


# ---- starts ----

START = """
import sys
sys.path.insert(0, {path!r})
import numpy as np, nacre
s = nacre.InferenceSession({model!r}, providers=["CUDAExecutionProvider"])
ids = np.ones((1, 8), np.int64)
s.run(None, {{"input_ids": ids, "attention_mask": ids}})
"""
FIRST_STEP = """
import sys
sys.path.insert(0, {path!r})
import numpy as np
from nacre.training.api import CheckpointState, Module, Optimizer
module = Module({folder!r} + "/training_model.onnx", CheckpointState.load_checkpoint({folder!r} + "/checkpoint"),
                device="cuda")
optimizer = Optimizer({folder!r} + "/optimizer_model.onnx", module)
module(np.ones(({batch}, {length}), np.int64), np.ones({batch} * {length}, np.int64))
optimizer.step()
module.lazy_reset_grad()
"""
# An empty CUDA program: a context and a block of memory.
EMPTY = """
import ctypes, os
import numpy
found = [f + "/libcuda.so.1" for f in os.environ.get("NACRE_CUDA_PATH", "").split(":") if f]
cuda = ctypes.CDLL(next((f for f in found if os.path.exists(f)), "libcuda.so.1"))
device, context, block = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0 and cuda.cuCtxSynchronize() == 0
"""


PACKAGE = os.environ.get("NACRE_PYTHON", str(ROOT / "build" / "release" / "python"))


def started(text, folder, target, warm):
    """Seconds from the start of a process to its end, kernels compiled or found in the cache, less what an empty CUDA
    program takes; both import numpy. The better of two: the first one on a machine also reads NVIDIA's libraries, a GB
    of them, from its disk, and compiles Python's modules, as they are in an installed package."""
    def seconds(text, cache):
        env = {**os.environ, "NACRE_CACHE": str(pathlib.Path(folder) / cache), "PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", text], check=True, timeout=120, env=env)
        return time.perf_counter() - begin
    empty = min(seconds(EMPTY, "none") for _ in range(2))
    took = min(seconds(text, f"kernels{i}") for i in range(2))
    took = min(seconds(text, "kernels0") for _ in range(2)) if warm else took
    return {"figure": took - empty, "unit": f"s more than an empty CUDA program's {empty:.2f}", "target": target,
            "ms": took * 1e3}


def start(tiny, warm):
    """To BERT's first result; the model's file is there before."""
    layers, hidden, heads = (1, 64, 2) if tiny else (12, 768, 12)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "bert.onnx"
        file.write_bytes(models.bert(layers, hidden, heads).SerializeToString())
        return started(START.format(path=PACKAGE, model=str(file)), folder, 0.4 if warm else 1.5, warm)


def start_of_training(tiny):
    """To the end of GPT-2's first step in bf16, nothing compiled; the artifacts are there before."""
    from nacre.training import artifacts
    shape = (1, 32, 2, 64, 2, 8) if tiny else (12, 768, 12, 50257, 16, 1024)
    model, params = language_model(*shape, True)
    with tempfile.TemporaryDirectory() as folder:
        artifacts.generate_artifacts(model, requires_grad=params, optimizer=artifacts.OptimType.AdamW,
                                     artifact_directory=folder, compute="bf16")
        text = FIRST_STEP.format(path=PACKAGE, folder=folder, batch=shape[4], length=shape[5])
        return started(text, folder, 4, False)


# layers, hidden, heads, heads of keys, inner, words, context
SMALL, LARGE = (22, 2048, 32, 4, 5632, 32000, 2048), (32, 4096, 32, 32, 11008, 32000, 2048)
ROWS = {
    "decode 1.1B, 2048 tokens": lambda t: decode(65, t, False, *SMALL),
    "decode 7B, 2048 tokens": lambda t: decode(80, t, False, *LARGE),
    "decode 1.1B in place, 2048 tokens": lambda t: decode(65, t, True, *SMALL),
    "decode 7B in place, 2048 tokens": lambda t: decode(80, t, True, *LARGE),
    "4-bit product of one row, 4096 x 65536": gemv_4bit,
    "attention forward d128 4x16x4096": lambda t: attention(t, 503, 4, 16, 4096, 128),
    "attention forward d64 16x12x1024": lambda t: attention(t, 230, 16, 12, 1024, 64),
    "attention backward d128 4x16x4096": lambda t: attention_back(t, 412, 4, 16, 4096, 128),
    "attention backward d64 16x12x1024": lambda t: attention_back(t, 166, 16, 12, 1024, 64),
    "BiasGelu 8192 x 4096": lambda t: one_node(bias_gelu, t, 132, gelu_peer),
    "BiasGelu's gradient 8192 x 4096": lambda t: one_node(bias_gelu_grad, t, 199, gelu_grad_peer),
    "Slice of 4096 x 16384": lambda t: one_node(sliced, t, 70, slice_peer),
    "GatherElements 2048 x 4096": lambda t: one_node(gathered, t, 40, gather_peer),
    "GatherElementsGrad 2048 x 4096": lambda t: one_node(gathered_grad, t, None, gather_grad_peer),
    "loss over 8192 x 30528": lambda t: one_node(loss, t, 300, loss_peer),
    "start to BERT's first result, nothing compiled": lambda t: start(t, False),
    "start to BERT's first result, all in the cache": lambda t: start(t, True),
    "start to the end of GPT-2's first training step, nothing compiled": start_of_training,
    "GPT-2 124M training, 16 x 1024, bf16": lambda t: training(t, 34, "bf16", 12, 768, 12, 50257, 16, 1024, True),
    "GPT-2 124M training, 16 x 1024, bf16, GELU taken anew": lambda t: training(t, 34, "bf16", 12, 768, 12, 50257, 16,
                                                                                1024, True, "1"),
    "GPT-2 124M training, 16 x 1024, f32": lambda t: training(t, 34, None, 12, 768, 12, 50257, 16, 1024, True),
    "BERT-large training, 32 x 512, bf16": lambda t: training(t, 85, "bf16", 24, 1024, 16, 30522, 32, 512, False),
    "BERT-large training, 32 x 512, bf16, mask, dropout 0.1":
        lambda t: training(t, 85, "bf16", 24, 1024, 16, 30522, 32, 512, False, dropout=0.1),
    "BERT-large training, 32 x 512, bf16, mask, dropout 0.1, cuDNN's draws":
        lambda t: training(t, 85, "bf16", 24, 1024, 16, 30522, 32, 512, False, dropout=0.1, cudnn_dropout="1"),
    "RoBERTa-base training, 32 x 256, bf16": lambda t: training(t, 17, "bf16", 12, 768, 12, 50265, 32, 256, False),
}


def measure(name, row, tiny):
    if time.monotonic() > DEADLINE:
        return {"name": name, "failed": "no time was left"}
    try:
        found = row(tiny)
        return {"name": name, **{k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}}
    except Exception as e:  # the other rows go on
        traceback.print_exc()
        return {"name": name, "failed": " ".join(str(e).split())[:300]}


def table(rows):
    yield "| work | figure | unit | to reach | ms |"
    yield "|---|---|---|---|---|"
    for r in rows:
        if "failed" in r:
            yield f"| {r['name']} | failed: {r['failed'].replace('|', ' ')} | | | |"
        else:
            yield f"| {r['name']} | {r['figure']} | {r['unit']} | {r['target']} | {r['ms']} |"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=os.environ.get("OUT", str(ROOT / "build" / "gpu")))
    p.add_argument("--only", default="", help="rows whose names hold one of these, joined by ;")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--kernels", action="store_true", help="print what the GPU did in each captured run")
    a = p.parse_args()
    global PROFILED
    PROFILED = a.kernels
    folder = pathlib.Path(a.out)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, row in ROWS.items():
        if not any(part in name for part in a.only.split(";")):
            continue
        rows.append(measure(name, row, a.tiny))
        print(json.dumps(rows[-1]), flush=True)
        (folder / "rows.json").write_text(json.dumps(rows, indent=1))
        (folder / "rows.md").write_text("\n".join(table(rows)) + "\n")
    print("\n".join(table(rows)))
    return any("failed" in r for r in rows)


if __name__ == "__main__":
    sys.exit(main())
