#!/usr/bin/env python3
"""Single operators on an NVIDIA GPU beside PyTorch: `bench/gpu_cards.py [--only NAMES] [--kernels] [--tiny] [--alone]`.

A row has a model of one node, its inputs, what PyTorch does for the same (None where it has nothing) and the bytes that
must be read and written at least. Printed: milliseconds here and there, the quotient, the time that those bytes take at
a copy's rate, and whether the results agree. Times are those of rows of runs that are waited for at their end, inputs
and results in the GPU's memory; where a result's size is found in the run, runs are waited for one by one, there and
here. --tiny: sizes for the stand-ins of tests/cuda; --alone: without PyTorch. Results go to $OUT/cards.md as well.
"""
import argparse
import os
import pathlib
import sys
import time
import traceback

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, os.environ.get("NACRE_PYTHON", str(ROOT / "build" / "release" / "python")))

import nacre  # noqa: E402

DEADLINE = time.monotonic() + float(os.environ.get("GPU_ROWS_SECONDS", "240"))
COPY_TB_S = 4.1
KINDS = {np.dtype(k): helper.np_dtype_to_tensor_dtype(np.dtype(k)) for k in ("f4", "f8", "f2", "i8", "i4", "bool")}


class Row:
    """op with its array inputs; consts are initializers, by place. outs: (dtype, dims) of results; a dim None is found
    in the run. peer(torch, *inputs): the same in PyTorch; bytes: that must move."""

    def __init__(self, op, inputs, outs, peer=None, bytes=None, consts=None, domain="", opset=22, check=True, **attrs):
        self.op, self.inputs, self.outs, self.peer, self.attrs, self.check = op, inputs, outs, peer, attrs, check
        self.consts, self.domain, self.opset = consts or {}, domain, opset
        self.bytes = bytes if bytes is not None else sum(x.nbytes for x in inputs if x is not None)
        self.found = any(d is None for _, dims in outs for d in dims)
        if bytes is None and not self.found:
            self.bytes += sum(np.dtype(k).itemsize * int(np.prod(dims, dtype=np.int64)) for k, dims in outs)

    def model(self):
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        weights = []
        for at, value in sorted(self.consts.items()):
            while len(names) <= at:
                names.append("")
            names[at] = f"c{at}"
            weights.append(numpy_helper.from_array(value, names[at]))
        ins = [helper.make_tensor_value_info(f"x{i}", KINDS[x.dtype], x.shape) for i, x in enumerate(self.inputs)
               if x is not None]
        outs = [helper.make_tensor_value_info(f"y{i}", KINDS[np.dtype(k)],
                                              [f"d{i}_{j}" if d is None else d for j, d in enumerate(dims)])
                for i, (k, dims) in enumerate(self.outs)]
        node = helper.make_node(self.op, names, [o.name for o in outs], domain=self.domain, **self.attrs)
        graph = helper.make_graph([node], "g", ins, outs, weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("nacre", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def timed(run, wait, least=0.25):
    """Milliseconds of one run, the best of three rows of them."""
    for _ in range(3):
        run()
    wait()
    begin = time.perf_counter()
    run()
    wait()
    n = max(1, min(300, int(least / 3 / max(time.perf_counter() - begin, 1e-6))))

    def row():
        begin = time.perf_counter()
        for _ in range(n):
            run()
        wait()
        return (time.perf_counter() - begin) / n * 1e3
    return min(row() for _ in range(3))


def ours(row, kernels):
    stream = next(d for d in nacre.get_ep_devices() if d.ep_name == "CUDAExecutionProvider").create_sync_stream()
    told = {"user_compute_stream": str(stream.get_handle())}
    how = nacre.RunOptions()
    if not row.found:
        how.add_run_config_entry("disable_synchronize_execution_providers", "1")
        told["enable_cuda_graph"] = "1"
    s = nacre.InferenceSession(row.model().SerializeToString(), providers=[("CUDAExecutionProvider", told)])
    binding, kept = s.io_binding(), [stream]
    for i, x in enumerate(row.inputs):
        if x is not None:
            kept.append(nacre.OrtValue.ortvalue_from_numpy(x, "cuda", 0))
            binding.bind_ortvalue_input(f"x{i}", kept[-1])
    for i, (kind, dims) in enumerate(row.outs):
        if row.found:
            binding.bind_output(f"y{i}", "cuda")
            continue
        kept.append(nacre.OrtValue.ortvalue_from_shape_and_type(list(dims), np.dtype(kind), "cuda", 0))
        binding.bind_ortvalue_output(f"y{i}", kept[-1])

    def run():
        s.run_with_iobinding(binding, how)
    for _ in range(12):
        run()
    ms = timed(run, binding.synchronize_outputs)
    if kernels:
        import gpu_rows
        gpu_rows.print_kernels(lambda: (run(), binding.synchronize_outputs()))
    return ms, binding.copy_outputs_to_cpu()


def peers(row):
    import torch
    if row.peer is None:
        return None, None
    ins = [torch.from_numpy(x).cuda() for x in row.inputs if x is not None]
    with torch.no_grad():
        got = row.peer(torch, *ins)
        ms = timed(lambda: row.peer(torch, *ins), torch.cuda.synchronize)
    return ms, [g.cpu().numpy() for g in (got if isinstance(got, (tuple, list)) else [got])]


def agree(row, mine, theirs):
    if not theirs or not row.check:
        return "-"
    worst = 0.0
    for a, b in zip(mine, theirs):
        if a.shape != b.shape:
            return f"shapes {a.shape} {b.shape}"
        scale = float(np.abs(b).max()) if b.size else 0
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64)).max() if b.size else 0
        worst = max(worst, float(difference) / max(scale, 1e-30))
    return f"{worst:.1e}"


# ---- the rows ----

RNG = np.random.default_rng(3)


def normal(*dims, kind=np.float32):
    block = RNG.standard_normal(min(int(np.prod(dims)), 1 << 22), np.float32).astype(kind)
    return np.resize(block, dims)


def warp(n, h, w, noise=0.0):
    """A grid that bends the image a little; noise 1: places anywhere."""
    y, x = np.meshgrid(np.linspace(-1, 1, h, dtype=np.float32), np.linspace(-1, 1, w, dtype=np.float32), indexing="ij")
    grid = np.stack([x + 0.05 * np.sin(9 * y), y + 0.05 * np.cos(7 * x)], -1)
    grid = np.broadcast_to(grid, (n, h, w, 2)).copy()
    if noise:
        grid = RNG.uniform(-1, 1, grid.shape).astype(np.float32)
    return grid


def grid_sample(tiny, noise=0.0, kind=np.float32):
    n, c, s = (1, 2, 8) if tiny else (8, 64, 256)
    return Row("GridSample", [normal(n, c, s, s, kind=kind), warp(n, s, s, noise).astype(kind)], [(kind, (n, c, s, s))],
               lambda t, x, g: t.nn.functional.grid_sample(x, g, align_corners=False))


def grid_sample_grad(tiny, noise=0.0):
    n, c, s = (1, 2, 8) if tiny else (8, 64, 256)
    x, d = normal(n, c, s, s), normal(n, c, s, s)
    return Row("GridSampleGrad", [x, warp(n, s, s, noise), d], [("f4", (n, c, s, s)), ("f4", (n, s, s, 2))],
               lambda t, a, g, b: t.ops.aten.grid_sampler_2d_backward(b, a, g, 0, 0, False, [True, True]),
               domain="nacre")


def grid_sample_deep(tiny):
    n, c, s = (1, 2, 4) if tiny else (2, 32, 64)
    at = RNG.uniform(-1, 1, (n, s, s, s, 3)).astype(np.float32)
    return Row("GridSample", [normal(n, c, s, s, s), at], [("f4", (n, c, s, s, s))],
               lambda t, x, g: t.nn.functional.grid_sample(x, g, align_corners=False))


def torchvision():
    try:
        import torchvision as module
        return module
    except Exception:
        return None


def deform(tiny, back=False):
    n, c, s = (1, 2, 6) if tiny else (4, 64, 128)
    ins = [normal(n, c, s, s), normal(c, c, 3, 3) * 0.1, normal(n, 18, s, s), None, RNG.uniform(0, 1, (n, 9, s, s))
           .astype(np.float32)]
    if back:
        outs = [("f4", ins[i].shape) for i in (0, 1, 2)] + [("f4", (c,)), ("f4", ins[4].shape)]
        ins[3] = normal(c)
        return Row("DeformConvGrad", [*ins, normal(n, c, s, s)], outs, domain="nacre", pads=[1, 1, 1, 1])
    v = torchvision()
    peer = (lambda t, x, w, o, m: v.ops.deform_conv2d(x, o, w, padding=1, mask=m)) if v else None
    return Row("DeformConv", ins, [("f4", (n, c, s, s))], peer, pads=[1, 1, 1, 1])


def unique(tiny, wide=False, whole=False):
    n = 256 if tiny else 1 << 24
    x = RNG.integers(-(1 << 62), 1 << 62, n) if wide else RNG.integers(0, n >> 4, n)
    if whole:
        return Row("Unique", [x], [("i8", (None,))] * 4, lambda t, v: t.unique(v, return_inverse=True,
                                                                               return_counts=True), check=False)
    return Row("Unique", [x], [("i8", (None,))], lambda t, v: t.unique(v))


def unique_rows(tiny):
    n = 64 if tiny else 1 << 20
    return Row("Unique", [RNG.integers(0, 100, (n, 4)).astype(np.float32)], [("f4", (None, 4))],
               lambda t, v: t.unique(v, dim=0), axis=0)


def unpool(tiny):
    n, c, s = (1, 2, 4) if tiny else (8, 64, 128)
    x = normal(n, c, s, s)
    rows, columns = np.meshgrid(np.arange(s) * 2, np.arange(s) * 2, indexing="ij")
    at = np.broadcast_to(rows * 2 * s + columns, x.shape) + RNG.integers(0, 2, x.shape)
    planes = (np.arange(n * c) * 4 * s * s).reshape(n, c, 1, 1)
    return Row("MaxUnpool", [x, at + planes], [("f4", (n, c, 2 * s, 2 * s))],
               lambda t, a, i: t.nn.functional.max_unpool2d(a, i % (4 * s * s), 2, 2), kernel_shape=[2, 2],
               strides=[2, 2])


def regions(tiny, back=False):
    n, c, h, w, r = (1, 2, 9, 9, 3) if tiny else (2, 256, 200, 304, 1000)
    low = RNG.uniform(0, 0.7, (r, 2)) * [w, h]
    rois = np.concatenate([low, low + RNG.uniform(4, 60, (r, 2))], 1).astype(np.float32)
    batch = RNG.integers(0, n, r)
    attrs = {"output_height": 7, "output_width": 7, "sampling_ratio": 2}
    if back:
        outs = [("f4", (n, c, h, w))]
        return Row("RoiAlignGrad", [normal(n, c, h, w), rois, batch, normal(r, c, 7, 7)], outs, domain="nacre", **attrs)
    v = torchvision()
    peer = (lambda t, x, b, i: v.ops.roi_align(x, t.cat([i[:, None].float(), b], 1), 7, sampling_ratio=2,
                                               aligned=True)) if v else None
    return Row("RoiAlign", [normal(n, c, h, w), rois, batch], [("f4", (r, c, 7, 7))], peer, **attrs)


def col2im(tiny):
    n, c, s = (1, 2, 4) if tiny else (8, 64, 128)
    return Row("Col2Im", [normal(n, c * 9, s * s)], [("f4", (n, c, s, s))],
               lambda t, x: t.nn.functional.fold(x, s, 3, padding=1), consts={1: np.int64([s, s]), 2: np.int64([3, 3])},
               pads=[1, 1, 1, 1])


def boxes(tiny):
    n = 50 if tiny else 20000
    low = RNG.uniform(0, 1000, (1, n, 2))
    b = np.concatenate([low, low + RNG.uniform(5, 60, (1, n, 2))], -1).astype(np.float32)
    v = torchvision()
    peer = (lambda t, x, s: v.ops.nms(x[0], s[0, 0], 0.5)) if v else None
    return Row("NonMaxSuppression", [b, RNG.uniform(0, 1, (1, 1, n)).astype(np.float32)], [("i8", (None, 3))], peer,
               consts={2: np.int64([n]), 3: np.float32([0.5])}, check=False)


def scatter(tiny, how="add", lines=False):
    n, m = (500, 90) if tiny else (1 << 24, 1 << 22)
    dims = (8, 16) if tiny else (8192, 2048)
    x, u = (normal(*dims), normal(*dims)) if lines else (normal(m), normal(n))
    at = RNG.integers(0, dims[1], dims) if lines else RNG.integers(0, m, n)
    name = {"add": "sum", "max": "amax", "mul": "prod"}[how]
    return Row("ScatterElements", [x, at, u], [("f4", x.shape)],
               lambda t, a, i, b: t.scatter_reduce(a, a.dim() - 1, i, b, name), reduction=how, axis=x.ndim - 1)


def scatter_rows(tiny):
    n, m, w = (20, 9, 4) if tiny else (1 << 16, 50257, 768)
    at = np.resize(RNG.integers(0, m, n), (n, 1))
    return Row("ScatterND", [normal(m, w), at, normal(n, w)], [("f4", (m, w))],
               lambda t, a, i, b: a.index_add(0, i[:, 0], b), reduction="add")


def cumulative(tiny, rows, columns, axis=1):
    dims = (3, 40) if tiny else (rows, columns)
    return Row("CumSum", [normal(*dims) * 0.01], [("f4", dims)], lambda t, x: t.cumsum(x, axis),
               consts={1: np.int64(axis)})


def topk(tiny, rows, columns, k):
    rows, columns, k = (2, 60, 5) if tiny else (rows, columns, k)
    x = RNG.permutation(rows * columns).reshape(rows, columns).astype(np.float32)
    return Row("TopK", [x], [("f4", (rows, k)), ("i8", (rows, k))], lambda t, v: t.topk(v, k),
               consts={1: np.int64([k])})


def argmax(tiny, rows, columns):
    rows, columns = (2, 60) if tiny else (rows, columns)
    x = RNG.permutation(rows * columns).reshape(rows, columns).astype(np.float32)
    return Row("ArgMax", [x], [("i8", (rows, 1))], lambda t, v: t.argmax(v, 1, keepdim=True), axis=1)


def einsum(tiny, text, *dims):
    sizes = dict(zip("bhijd", (2, 2, 4, 4, 4) if tiny else dims))
    left, right, out = text.replace("->", ",").split(",")
    ins = [normal(*(sizes[c] for c in part), kind=np.float16) * np.float16(0.1) for part in (left, right)]
    return Row("Einsum", ins, [("f2", tuple(sizes[c] for c in out))], lambda t, a, b: t.einsum(text, a, b),
               equation=text)


def dft(tiny, rows, n):
    rows, n = (2, 16) if tiny else (rows, n)
    return Row("DFT", [normal(rows, n, 2)], [("f4", (rows, n, 2))],
               lambda t, x: t.view_as_real(t.fft.fft(t.view_as_complex(x))), consts={2: np.int64(1)}, opset=20)


def nonzero(tiny):
    n = 100 if tiny else 1 << 24
    return Row("NonZero", [RNG.integers(0, 2, n)], [("i8", (1, None))], lambda t, x: t.nonzero(x).T)


def resize(tiny, mode):
    n, c, s = (1, 2, 4) if tiny else (8, 64, 128)
    how = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}[mode]
    coordinates = "asymmetric" if mode == "nearest" else "half_pixel"
    return Row("Resize", [normal(n, c, s, s)], [("f4", (n, c, 2 * s, 2 * s))],
               lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode=how),
               consts={2: np.float32([1, 1, 2, 2])}, mode=mode, cubic_coeff_a=-0.75, nearest_mode="floor",
               coordinate_transformation_mode=coordinates)


def det(tiny, n, s):
    n, s = (3, 4) if tiny else (n, s)
    return Row("Det", [normal(n, s, s) * 0.3], [("f4", (n,))], lambda t, x: t.linalg.det(x))


def draws(tiny, op="RandomNormal"):
    n = 64 if tiny else 1 << 24
    peer = {"RandomNormal": lambda t: t.randn(n, device="cuda"),
            "RandomUniform": lambda t: t.rand(n, device="cuda")}[op]
    return Row(op, [], [("f4", (n,))], peer, shape=[n], seed=1.0, check=False)


def bernoulli(tiny):
    n = 64 if tiny else 1 << 24
    return Row("Bernoulli", [RNG.uniform(0, 1, n).astype(np.float32)], [("f4", (n,))], lambda t, x: t.bernoulli(x),
               seed=1.0, check=False)


def multinomial(tiny):
    n, m, k = (2, 9, 5) if tiny else (64, 32000, 64)
    return Row("Multinomial", [normal(n, m)], [("i4", (n, k))],
               lambda t, x: t.multinomial(t.softmax(x, 1), k, replacement=True), sample_size=k, seed=1.0, check=False)


ROWS = {
    "grid_sample": grid_sample,
    "grid_sample_grad": grid_sample_grad,
    "grid_sample_random": lambda t: grid_sample(t, 1.0),
    "grid_sample_grad_random": lambda t: grid_sample_grad(t, 1.0),
    "grid_sample_f16": lambda t: grid_sample(t, kind=np.float16),
    "grid_sample_deep": grid_sample_deep,
    "deform": deform,
    "deform_grad": lambda t: deform(t, True),
    "unique": unique,
    "unique_wide": lambda t: unique(t, wide=True),
    "unique_whole": lambda t: unique(t, whole=True),
    "unique_rows": unique_rows,
    "max_unpool": unpool,
    "roi_align": regions,
    "roi_align_grad": lambda t: regions(t, True),
    "col2im": col2im,
    "nms": boxes,
    "scatter_add": scatter,
    "scatter_max": lambda t: scatter(t, "max"),
    "scatter_lines": lambda t: scatter(t, "add", True),
    "scatter_rows": scatter_rows,
    "cumsum_rows": lambda t: cumulative(t, 64, 1 << 20),
    "cumsum_long": lambda t: cumulative(t, 1, 1 << 24),
    "cumsum_down": lambda t: cumulative(t, 1 << 16, 512, 0),
    "topk_rows": lambda t: topk(t, 64, 1 << 18, 100),
    "topk_long": lambda t: topk(t, 1, 1 << 24, 1000),
    "topk_words": lambda t: topk(t, 32, 128256, 50),
    "sort": lambda t: topk(t, 64, 1 << 16, 1 << 16),
    "argmax_long": lambda t: argmax(t, 1, 1 << 24),
    "argmax_rows": lambda t: argmax(t, 64, 128256),
    "einsum_heads": lambda t: einsum(t, "bhid,bhjd->bhij", 8, 16, 1024, 1024, 64),
    "einsum_turned": lambda t: einsum(t, "bihd,bjhd->bhij", 8, 16, 1024, 1024, 64),
    "einsum_sum": lambda t: einsum(t, "bhij,bhij->bi", 8, 16, 512, 512, 64),
    "dft": lambda t: dft(t, 8, 1 << 20),
    "dft_short": lambda t: dft(t, 1 << 13, 1 << 10),
    "dft_odd": lambda t: dft(t, 64, 10007),
    "nonzero": nonzero,
    "resize_linear": lambda t: resize(t, "linear"),
    "resize_cubic": lambda t: resize(t, "cubic"),
    "resize_nearest": lambda t: resize(t, "nearest"),
    "det_small": lambda t: det(t, 1 << 16, 4),
    "det": lambda t: det(t, 256, 64),
    "random_normal": draws,
    "random_uniform": lambda t: draws(t, "RandomUniform"),
    "bernoulli": bernoulli,
    "multinomial": multinomial,
}


def line_of(name, make, options):
    row = make(options.tiny)
    mine, results = ours(row, options.kernels)
    theirs, expected = (None, None) if options.alone else peers(row)
    limit = row.bytes / COPY_TB_S / 1e9
    shape = " ".join("x".join(map(str, x.shape)) for x in row.inputs[:2] if x is not None)
    quotient = f"{mine / theirs:.2f}" if theirs else "-"
    there = f"{theirs:.3f}" if theirs else "-"
    return f"| {name} | {row.op} {shape} | {mine:.3f} | {there} | {quotient} | {limit:.3f} | " \
           f"{agree(row, results, expected)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", help="rows whose names begin so, in this order")
    parser.add_argument("--kernels", action="store_true", help="print what the GPU did, by PyTorch's profiler")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    lines, failed = ["| row | op | ms | PyTorch | quotient | limit | differs |", "|---|---|---|---|---|---|---|"], 0
    print("\n".join(lines), flush=True)
    for name in dict.fromkeys(n for o in options.only or [""] for n in ROWS if n.startswith(o)):
        if time.monotonic() > DEADLINE:
            print("no time is left", flush=True)
            break
        try:
            lines.append(line_of(name, ROWS[name], options))
        except Exception as e:
            failed += 1
            lines.append(f"| {name} | {' '.join(str(e).split())[:200]} | | | | | |")
            if os.environ.get("GPU_ROWS_TRACE"):
                traceback.print_exc()
        print(lines[-1], flush=True)
    out = pathlib.Path(os.environ.get("OUT", ROOT / "build" / "gpu"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "cards.md").write_text("\n".join(lines) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
