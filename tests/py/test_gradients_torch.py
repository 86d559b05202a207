"""Gradients of single ops and small graphs against torch autograd, in double precision.

A case is an ONNX text graph with an output y, inputs, and the same formula in torch. The gradient of y is random and
fed from outside, so no entry of a Jacobian can hide in a sum. Every case runs on cpu, on guard, and with fusion, views
and packing off.
"""
import dataclasses
import typing

import numpy as np
import onnx.parser
import pytest
import torch
import torch.nn.functional as F

from nacre_c import Options
from tolerances import close

SETTINGS = {"cpu": {"device": "cpu"}, "guard": {"device": "guard"},
            "off": {"fusion": False, "views": False, "packing": False, "level": "off"}}


@dataclasses.dataclass
class Case:
    signature: str  # of the graph: inputs and initializers; the output is y
    body: str
    formula: typing.Callable  # of the inputs, as torch tensors in the order of the signature
    inputs: dict
    opset: int = 18


CASES = {}


def case(name, signature, body, formula, opset=18, **inputs):
    assert name not in CASES
    CASES[name] = Case(signature, body, formula, inputs, opset)


def normal(*shape, seed=1):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def positive(*shape, seed=1):
    return np.random.default_rng(seed + sum(shape)).uniform(0.3, 2.5, shape)


def ints(*values):
    return np.array(values, np.int64)


def text_model(c):
    """'in, in <init>' becomes a graph with output y of any shape."""
    inputs, _, rest = c.signature.partition("<")
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {c.opset}]>\n'
                                   f"g ({inputs}) => (double[] y) {'<' + rest if rest else ''} {{\n{c.body}\n}}")


# ---- unary lanes ----

for op, formula, make in [
    ("Tanh", torch.tanh, normal), ("Sigmoid", torch.sigmoid, normal), ("Relu", torch.relu, normal),
    ("Softplus", F.softplus, normal), ("Exp", torch.exp, normal), ("Log", torch.log, positive),
    ("Sqrt", torch.sqrt, positive), ("Erf", torch.erf, normal), ("Sin", torch.sin, normal), ("Cos", torch.cos, normal),
    ("Reciprocal", torch.reciprocal, positive), ("Abs", torch.abs, normal), ("Neg", torch.neg, normal),
    ("LeakyRelu", lambda x: F.leaky_relu(x, float(np.float32(0.01))), normal), ("Elu", F.elu, normal),
]:
    case(op, "double[n,7] x", f"y = {op}(x)", formula, x=make(5, 7))
case("LeakyRelu_alpha", "double[n,7] x", "y = LeakyRelu<alpha = 0.25>(x)", lambda x: F.leaky_relu(x, 0.25),
     x=normal(3, 7))
case("Elu_alpha", "double[n,7] x", "y = Elu<alpha = 0.5>(x)", lambda x: F.elu(x, 0.5), x=normal(3, 7))
case("unary_scalar", "double x", "y = Tanh(x)", torch.tanh, x=np.array(0.7))
case("unary_empty", "double[n,3] x", "y = Sigmoid(x)", torch.sigmoid, x=np.zeros((0, 3)))
case("unary_chain", "double[n,7] x", "a = Tanh(x)\n b = Exp(a)\n c = Mul(a, b)\n y = Sigmoid(c)",
     lambda x: torch.sigmoid(torch.tanh(x) * torch.exp(torch.tanh(x))), x=normal(9, 7))

# ---- binary, with broadcasting ----

for op, formula, make in [
    ("Add", torch.add, normal), ("Sub", torch.sub, normal), ("Mul", torch.mul, normal), ("Div", torch.div, positive),
    ("Pow", torch.pow, positive), ("Min", torch.minimum, normal), ("Max", torch.maximum, normal),
]:
    for name, a, b in [("same", (4, 5), (4, 5)), ("row", (4, 5), (5,)), ("column", (4, 5), (4, 1)),
                       ("both", (3, 1, 5), (4, 1)), ("scalar", (), (2, 3)), ("ones", (1, 1), (2, 3, 4))]:
        case(f"{op}_{name}", f"double[{','.join(map(str, a))}] a, double[{','.join(map(str, b))}] b".replace("[]", ""),
             f"y = {op}(a, b)", formula, a=make(*a, seed=1), b=make(*b, seed=2))
case("Add_dynamic", "double[n,5] a, double[5] b", "y = Add(a, b)", torch.add, a=normal(6, 5), b=normal(5))
case("Mul_dynamic", "double[n,1] a, double[n,m] b", "y = Mul(a, b)", torch.mul, a=normal(6, 1), b=normal(6, 5))
case("Mul_itself", "double[n] a", "y = Mul(a, a)", lambda a: a * a, a=normal(6))
case("Max_of_three", "double[4,5] a, double[5] b, double[4,1] c", "y = Max(a, b, c)",
     lambda a, b, c: torch.maximum(torch.maximum(a, b), c), a=normal(4, 5), b=normal(5, seed=2), c=normal(4, 1, seed=3))
case("Min_of_three", "double[4,5] a, double[5] b, double[4,1] c", "y = Min(a, b, c)",
     lambda a, b, c: torch.minimum(torch.minimum(a, b), c), a=normal(4, 5), b=normal(5, seed=2), c=normal(4, 1, seed=3))
case("Where", "double[4,5] a, double[5] b, bool[4,1] c", "y = Where(c, a, b)", lambda a, b, c: torch.where(c, a, b),
     a=normal(4, 5), b=normal(5, seed=2), c=np.array([[True], [False], [True], [False]]))

# ---- matrix products ----

for name, a, b in [("2d", (3, 4), (4, 5)), ("batched", (2, 3, 4), (2, 4, 5)), ("batch_left", (2, 3, 4), (4, 5)),
                   ("batch_right", (3, 4), (2, 4, 5)), ("batch_broadcast", (2, 1, 3, 4), (3, 4, 5)),
                   ("batch_ones", (2, 1, 3, 4), (1, 3, 4, 5)), ("vector_matrix", (4,), (4, 5)),
                   ("matrix_vector", (3, 4), (4,)), ("vectors", (4,), (4,)), ("vector_batch", (4,), (2, 4, 5)),
                   ("batch_vector", (2, 3, 4), (4,)), ("one", (1, 1), (1, 1)), ("odd", (17, 33), (33, 9))]:
    case(f"MatMul_{name}", f"double[{','.join(map(str, a))}] a, double[{','.join(map(str, b))}] b", "y = MatMul(a, b)",
         torch.matmul, a=normal(*a), b=normal(*b, seed=2))
case("MatMul_dynamic", "double[n,4] a, double[4,5] b", "y = MatMul(a, b)", torch.matmul, a=normal(6, 4), b=normal(4, 5))
case("MatMul_itself", "double[4,4] a", "y = MatMul(a, a)", lambda a: a @ a, a=normal(4, 4))

for ta in (0, 1):
    for tb in (0, 1):
        case(f"Gemm_trans{ta}{tb}",
             f"double[{'4,3' if ta else '3,4'}] a, double[{'5,4' if tb else '4,5'}] b, double[5] c",
             f"y = Gemm<transA = {ta}, transB = {tb}, alpha = 0.5, beta = 2.0>(a, b, c)",
             lambda a, b, c, ta=ta, tb=tb: 0.5 * ((a.T if ta else a) @ (b.T if tb else b)) + 2.0 * c,
             a=normal(*((4, 3) if ta else (3, 4))), b=normal(*((5, 4) if tb else (4, 5)), seed=2), c=normal(5, seed=3))
case("Gemm_no_c", "double[n,4] a, double[4,5] b", "y = Gemm<alpha = 0.25>(a, b)", lambda a, b: 0.25 * (a @ b),
     a=normal(3, 4), b=normal(4, 5))
case("Gemm_c_column", "double[3,4] a, double[4,5] b, double[3,1] c", "y = Gemm(a, b, c)", lambda a, b, c: a @ b + c,
     a=normal(3, 4), b=normal(4, 5), c=normal(3, 1))
case("Gemm_c_scalar", "double[3,4] a, double[4,5] b, double c", "y = Gemm<beta = 0.5>(a, b, c)",
     lambda a, b, c: a @ b + 0.5 * c, a=normal(3, 4), b=normal(4, 5), c=np.array(0.3))

# ---- reductions ----

for op, reduce in [("ReduceSum", torch.sum), ("ReduceMean", torch.mean), ("ReduceMax", torch.amax)]:
    for name, axes, keep in [("last", (2,), 1), ("first", (0,), 0), ("middle", (1,), 1), ("negative", (-1,), 0),
                             ("two", (0, 2), 0), ("two_kept", (-3, 1), 1)]:
        listed = ",".join(map(str, axes))
        case(f"{op}_{name}", f"double[n,4,5] x <int64[{len(axes)}] axes = {{{listed}}}>",
             f"y = {op}<keepdims = {keep}>(x, axes)",
             lambda x, reduce=reduce, axes=axes, keep=keep: reduce(x, dim=axes, keepdim=bool(keep)), x=normal(3, 4, 5))
    case(f"{op}_all", "double[n,4] x", f"y = {op}<keepdims = 0>(x)",
         lambda x, reduce=reduce: reduce(x, dim=(0, 1)), x=normal(3, 4))
case("ReduceMean_attribute", "double[n,4] x", "y = ReduceMean<axes = [1], keepdims = 1>(x)",
     lambda x: x.mean(1, keepdim=True), opset=13, x=normal(3, 4))

# ---- softmax and losses ----

for axis in (0, 1, -1):
    case(f"Softmax_{axis}", "double[n,4,5] x", f"y = Softmax<axis = {axis}>(x)",
         lambda x, axis=axis: torch.softmax(x, axis), x=normal(3, 4, 5))
    case(f"LogSoftmax_{axis}", "double[n,4,5] x", f"y = LogSoftmax<axis = {axis}>(x)",
         lambda x, axis=axis: torch.log_softmax(x, axis), x=normal(3, 4, 5))

LABELS = ints(0, 3, 1, 1, 2, 3)
for reduction in ("none", "mean", "sum"):
    case(f"SoftmaxCrossEntropyLoss_{reduction}", "double[n,4] x, int64[n] t",
         f'y = SoftmaxCrossEntropyLoss<reduction = "{reduction}">(x, t)',
         lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r), x=normal(6, 4), t=LABELS)
    case(f"SoftmaxCrossEntropyLoss_{reduction}_weights",
         "double[n,4] x, int64[n] t <double[4] w = {0.5, 1.5, 2, 0.25}>",
         f'y = SoftmaxCrossEntropyLoss<reduction = "{reduction}">(x, t, w)',
         lambda x, t, r=reduction: F.cross_entropy(x, t, torch.tensor([0.5, 1.5, 2, 0.25], dtype=torch.float64),
                                                   reduction=r), x=normal(6, 4), t=LABELS)
    case(f"SoftmaxCrossEntropyLoss_{reduction}_ignore", "double[n,4] x, int64[n] t",
         f'y = SoftmaxCrossEntropyLoss<reduction = "{reduction}", ignore_index = 1>(x, t)',
         lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r, ignore_index=1), x=normal(6, 4), t=LABELS)
    case(f"SoftmaxCrossEntropyLoss_{reduction}_all",
         "double[n,4,2] x, int64[n,2] t <double[4] w = {0.5, 1.5, 2, 0.25}>",
         f'y = SoftmaxCrossEntropyLoss<reduction = "{reduction}", ignore_index = -1>(x, t, w)',
         lambda x, t, r=reduction: F.cross_entropy(x, t, torch.tensor([0.5, 1.5, 2, 0.25], dtype=torch.float64),
                                                   reduction=r, ignore_index=-1),
         x=normal(3, 4, 2), t=np.array([[0, 3], [-1, 1], [2, -1]], np.int64))
case("SoftmaxCrossEntropyLoss_log_prob", "double[n,4] x, int64[n] t",
     "l, p = SoftmaxCrossEntropyLoss(x, t)\n e = Exp(p)\n s = Mul(e, p)\n y = Add(s, l)",
     lambda x, t: torch.softmax(x, 1) * torch.log_softmax(x, 1) + F.cross_entropy(x, t), x=normal(6, 4), t=LABELS)

# ---- convolution ----

case("Conv_2d", "double[n,3,7,6] x, double[4,3,3,3] w, double[4] b", "y = Conv(x, w, b)", F.conv2d,
     x=normal(2, 3, 7, 6), w=normal(4, 3, 3, 3), b=normal(4))
case("Conv_2d_pads_strides", "double[n,3,7,6] x, double[4,3,3,2] w",
     "y = Conv<pads = [1,2,1,2], strides = [2,1]>(x, w)",
     lambda x, w: F.conv2d(x, w, padding=(1, 2), stride=(2, 1)), x=normal(2, 3, 7, 6), w=normal(4, 3, 3, 2))
case("Conv_2d_uneven_pads", "double[n,2,5,5] x, double[3,2,2,2] w", "y = Conv<pads = [0,1,1,0]>(x, w)",
     lambda x, w: F.conv2d(F.pad(x, (1, 0, 0, 1)), w), x=normal(2, 2, 5, 5), w=normal(3, 2, 2, 2))
case("Conv_2d_dilated", "double[n,2,9,8] x, double[3,2,3,3] w", "y = Conv<dilations = [2,3]>(x, w)",
     lambda x, w: F.conv2d(x, w, dilation=(2, 3)), x=normal(2, 2, 9, 8), w=normal(3, 2, 3, 3))
case("Conv_2d_groups", "double[n,4,5,5] x, double[6,2,3,3] w, double[6] b", "y = Conv<group = 2>(x, w, b)",
     lambda x, w, b: F.conv2d(x, w, b, groups=2), x=normal(2, 4, 5, 5), w=normal(6, 2, 3, 3), b=normal(6))
case("Conv_2d_depthwise", "double[n,4,5,5] x, double[4,1,3,3] w", "y = Conv<group = 4, pads = [1,1,1,1]>(x, w)",
     lambda x, w: F.conv2d(x, w, groups=4, padding=1), x=normal(2, 4, 5, 5), w=normal(4, 1, 3, 3))
case("Conv_1x1", "double[n,4,5,5] x, double[3,4,1,1] w", "y = Conv(x, w)", F.conv2d,
     x=normal(2, 4, 5, 5), w=normal(3, 4, 1, 1))
case("Conv_1d", "double[n,3,9] x, double[4,3,3] w, double[4] b", "y = Conv<strides = [2]>(x, w, b)",
     lambda x, w, b: F.conv1d(x, w, b, stride=2), x=normal(2, 3, 9), w=normal(4, 3, 3), b=normal(4))

# ---- moving elements ----

case("Transpose", "double[n,3,4] x", "y = Transpose<perm = [2,0,1]>(x)", lambda x: x.permute(2, 0, 1),
     x=normal(2, 3, 4))
case("Transpose_default", "double[n,3,4] x", "y = Transpose(x)", lambda x: x.permute(2, 1, 0), x=normal(2, 3, 4))
case("Reshape", "double[n,3,4] x <int64[2] s = {0, -1}>", "r = Reshape(x, s)\n y = Tanh(r)",
     lambda x: torch.tanh(x.reshape(x.shape[0], -1)), x=normal(2, 3, 4))
case("Slice", "double[6,7] x <int64[2] s = {1,0}, int64[2] e = {5,7}, int64[2] a = {0,1}, int64[2] p = {2,3}>",
     "y = Slice(x, s, e, a, p)", lambda x: x[1:5:2, 0:7:3], x=normal(6, 7))
case("Slice_backwards", "double[n,7] x <int64[1] s = {-1}, int64[1] e = {-8}, int64[1] a = {-1}, int64[1] p = {-2}>",
     "y = Slice(x, s, e, a, p)", lambda x: x[:, torch.arange(6, -1, -2)], x=normal(3, 7))
case("Slice_twice", "double[n,7] x <int64[1] s = {0}, int64[1] m = {4}, int64[1] e = {7}, int64[1] a = {1}>",
     "p = Slice(x, s, m, a)\n q = Slice(x, s, e, a)\n r = Tanh(p)\n t = ReduceSum<keepdims = 1>(q, a)\n y = Mul(r, t)",
     lambda x: torch.tanh(x[:, :4]) * x.sum(1, keepdim=True), x=normal(3, 7))
case("Split", "double[n,6] x <int64[3] s = {1,2,3}>", "a, b, c = Split<axis = 1>(x, s)\n m = Mul(a, b)\n"
     " t = ReduceSum<keepdims = 0>(c)\n y = Add(m, t)",
     lambda x: x[:, 0:1] * x[:, 1:3] + x[:, 3:6].sum(), x=normal(3, 6))
case("Split_one_unused", "double[n,6] x", "a, b = Split<axis = -1, num_outputs = 2>(x)\n y = Tanh(b)",
     lambda x: torch.tanh(x[:, 3:6]), x=normal(3, 6))
case("Concat", "double[n,3] a, double[n,2] b", "y = Concat<axis = 1>(a, b, a)", lambda a, b: torch.cat([a, b, a], 1),
     a=normal(4, 3), b=normal(4, 2))
case("Concat_negative", "double[2,3] a, double[4,3] b", "y = Concat<axis = -2>(a, b)",
     lambda a, b: torch.cat([a, b], 0), a=normal(2, 3), b=normal(4, 3))
case("Expand", "double[3,1] x <int64[3] s = {2,1,4}>", "y = Expand(x, s)", lambda x: x.expand(2, 3, 4), x=normal(3, 1))
case("Gather_repeated", "double[5,3] x, int64[m] i", "y = Gather(x, i)", lambda x, i: x[i], x=normal(5, 3),
     i=ints(4, 0, 4, 4, 2, 0))
case("Gather_axis", "double[n,5,3] x <int64[2,2] i = {1,-1,0,1}>", "y = Gather<axis = 1>(x, i)",
     lambda x: x[:, torch.tensor([[1, 4], [0, 1]])], x=normal(2, 5, 3))
case("Gather_scalar", "double[5,3] x <int64 i = {2}>", "y = Gather<axis = 1>(x, i)", lambda x: x[:, 2], x=normal(5, 3))

# ---- einsum and determinants ----

for name, equation, *shapes in [
    ("matmul", "bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("permute", "ijk->kij", (2, 3, 4)), ("sum", "ij->j", (3, 4)),
    ("trace", "ii->", (4, 4)), ("diagonal", "bii->bi", (2, 3, 3)), ("cube_diagonal", "iii->i", (3, 3, 3)),
    ("outer", "i,j->ji", (3,), (4,)), ("bilinear", "bi,oij,bj->bo", (2, 3), (4, 3, 5), (2, 5)),
    ("lost_label", "ij,jk->k", (2, 3), (3, 4)), ("ellipsis", "...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("implicit", "ji,jk", (3, 2), (3, 4)), ("diagonal_times", "ii,ij->j", (3, 3), (3, 2)),
    ("dot", "i,i->", (5,), (5,)), ("empty", "ij,jk->ik", (0, 3), (3, 4)),
]:
    names = "xwv"[:len(shapes)]
    case(f"Einsum_{name}", ", ".join(f"double[{','.join(map(str, s))}] {n}" for n, s in zip(names, shapes)),
         f'y = Einsum<equation = "{equation}">({", ".join(names)})',
         lambda *t, equation=equation: torch.einsum(equation, *t),
         **{n: normal(*s, seed=i) for i, (n, s) in enumerate(zip(names, shapes))})
for n in (1, 2, 4):
    case(f"Det_{n}", f"double[b,{n},{n}] x", "y = Det(x)", torch.linalg.det, x=normal(3, n, n))

# ---- attention ----

def attention(q, k, v, mask=None, scale=None, cap=0, packed=0):
    if packed:
        heads = ((q, packed), (k, packed // 2), (v, packed // 2))
        q, k, v = (t.unflatten(2, (h, -1)).transpose(1, 2) for t, h in heads)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        blind = (scores == -torch.inf).all(-1, keepdim=True)
        scores = scores.masked_fill(blind, 0)
    p = scores.softmax(-1)
    if mask is not None:
        p = p.masked_fill(blind, 0)
    y = p @ v
    return y.transpose(1, 2).flatten(2) if packed else y


def below(rows, columns, offset=0):
    return torch.ones(rows, columns, dtype=torch.bool).tril(offset)


QKV = "double[b,4,s,6] q, double[b,2,t,6] k, double[b,2,t,5] v"
OPERANDS = {"q": normal(2, 4, 3, 6), "k": normal(2, 2, 7, 6), "v": normal(2, 2, 7, 5)}
case("Attention", QKV, "y = Attention(q, k, v)", attention, opset=23, **OPERANDS)
case("Attention_scale_cap", QKV, "y = Attention<scale = 0.5, softcap = 2.0>(q, k, v)",
     lambda q, k, v: attention(q, k, v, scale=0.5, cap=2), opset=23, **OPERANDS)
case("Attention_causal", QKV, "y = Attention<is_causal = 1>(q, k, v)",
     lambda q, k, v: attention(q, k, v, below(3, 7)), opset=23, **OPERANDS)
case("Attention_window", QKV, "y = Attention<left_window_size = 1, right_window_size = 2>(q, k, v)",
     lambda q, k, v: attention(q, k, v, below(3, 7, 2) & ~below(3, 7, -2)), opset=25, **OPERANDS)
case("Attention_mask", QKV + ", double[s,t] m", "y = Attention(q, k, v, m)", attention, opset=23, **OPERANDS,
     m=normal(3, 7))
case("Attention_short_mask", QKV + ", double[1,s,4] m", "y = Attention(q, k, v, m)",
     lambda q, k, v, m: attention(q, k, v, F.pad(m, (0, 3), value=-torch.inf)), opset=23, **OPERANDS, m=normal(1, 3, 4))
case("Attention_blind_row", QKV + ", bool[s,t] m", "y = Attention(q, k, v, m)", attention, opset=23, **OPERANDS,
     m=np.array([[1, 0, 1, 0, 1, 1, 0], [0] * 7, [1] * 7], bool))
case("Attention_packed", "double[b,s,8] q, double[b,t,4] k, double[b,t,6] v",
     "y = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v)", lambda q, k, v: attention(q, k, v, packed=4),
     opset=23, q=normal(2, 3, 8), k=normal(2, 5, 4), v=normal(2, 5, 6))
case("Attention_past", QKV + ", double[b,2,p,6] pk, double[b,2,p,5] pv",
     "y, tk, tv = Attention<is_causal = 1>(q, k, v, , pk, pv)",
     lambda q, k, v, pk, pv: attention(q, torch.cat((pk, k), 2), torch.cat((pv, v), 2), below(3, 9, 2)), opset=23,
     **OPERANDS, pk=normal(2, 2, 2, 6), pv=normal(2, 2, 2, 5))
case("SwiGLU", "double[n,7] a, double[n,7] b", "y = SwiGLU(a, b)", lambda a, b: F.silu(a) * b, opset=28, a=normal(3, 7),
     b=normal(3, 7, seed=2))
case("SwiGLU_alpha", "double[n,7] a, double[n,7] b", "y = SwiGLU<alpha = 0.5>(a, b)",
     lambda a, b: a * torch.sigmoid(0.5 * a) * b, opset=28, a=normal(3, 7), b=normal(3, 7, seed=2))

# ---- recurrent layers: torch's order of the gates is another, and its GRU is linear before the reset ----

ORDER = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}


def recurrent(op, x, w, r, b, *states):
    """Y of ONNX's layer, (T, directions, B, H), by torch's own kernels."""
    def sorted_gates(v):
        return torch.cat([v.chunk(len(ORDER[op]))[i] for i in ORDER[op]])

    flat = []
    for d in range(w.shape[0]):
        wb, rb = b[d].chunk(2)
        flat += [sorted_gates(v) for v in (w[d], r[d], wb, rb)]
    run = {"RNN": torch.rnn_tanh, "GRU": torch.gru, "LSTM": torch.lstm}[op]
    y, *_ = run(x, states if op == "LSTM" else states[0], flat, True, 1, 0.0, False, w.shape[0] == 2, False)
    return y.unflatten(2, (w.shape[0], -1)).transpose(1, 2)


for op, gates in [("RNN", 1), ("GRU", 3), ("LSTM", 4)]:
    for dirs in (1, 2):
        operands = {"x": normal(4, 3, 5), "w": normal(dirs, gates * 6, 5), "r": normal(dirs, gates * 6, 6) * 0.5,
                    "b": normal(dirs, 2 * gates * 6), "h": normal(dirs, 3, 6)}
        signature = f"double[t,b,5] x, double[{dirs},{gates * 6},5] w, double[{dirs},{gates * 6},6] r, " \
                    f"double[{dirs},{gates * 12}] b, double[{dirs},b,6] h"
        if op == "LSTM":
            operands["c"] = normal(dirs, 3, 6, seed=3)
            signature += f", double[{dirs},b,6] c"
        attrs = ["linear_before_reset = 1"] if op == "GRU" else []
        attrs += ['direction = "bidirectional"'] if dirs == 2 else ['direction = "forward"']
        case(f"{op}_{dirs}", signature, f"y = {op}<{', '.join(attrs)}>(x, w, r, b, , h{', c' if op == 'LSTM' else ''})",
             lambda *v, op=op: recurrent(op, *v), opset=22, **operands)

# ---- images ----

for padding in ("zeros", "border", "reflection"):
    for mode, name in [("linear", "bilinear"), ("nearest", "nearest"), ("cubic", "bicubic")]:
        for corners in (0, 1):
            attrs = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {corners}'
            case(f"GridSample_{mode}_{padding}_{corners}", "double[n,3,5,6] x, double[n,4,3,2] g",
                 f"y = GridSample<{attrs}>(x, g)",
                 lambda x, g, a=(name, padding, bool(corners)): F.grid_sample(x, g, a[0], a[1], a[2]), opset=22,
                 x=normal(2, 3, 5, 6), g=normal(2, 4, 3, 2) * 0.7)
    case(f"GridSample_3d_{padding}", "double[n,2,3,4,5] x, double[n,2,3,2,3] g",
         f'y = GridSample<padding_mode = "{padding}">(x, g)',
         lambda x, g, p=padding: F.grid_sample(x, g, "bilinear", p, False), opset=22, x=normal(2, 2, 3, 4, 5),
         g=normal(2, 2, 3, 2, 3) * 0.7)

# ---- control flow ----

LOOP = """y = Loop(trips, yes, s0) <body = b (int64 i, bool go, double[2,3] s) => (bool go_on, double[2,3] s1) {
  go_on = Identity(go)
  m = MatMul(s, W)
  s1 = Tanh(m)
}>"""


def loop(s, w, trips):
    for _ in range(trips):
        s = torch.tanh(s @ w)
    return s


for trips in (0, 1, 4):
    case(f"Loop_{trips}", "double[2,3] s0, double[3,3] W, int64 trips <bool yes = {1}>", LOOP,
         lambda s, w, t: loop(s, w, t.item()), s0=normal(2, 3), W=normal(3, 3), trips=np.int64(trips))

case("Loop_accumulating", "double[2,3] x, int64 trips <bool yes = {1}, double[2,3] zero = {0,0,0,0,0,0}>",
     """y = Loop(trips, yes, zero) <body = b (int64 i, bool go, double[2,3] s) => (bool go_on, double[2,3] s1) {
  go_on = Identity(go)
  e = Mul(x, x)
  t = Sin(s)
  u = Add(e, t)
  s1 = Add(s, u)
}>""", lambda x, t: accumulate(x, t.item()), x=normal(2, 3), trips=np.int64(3))


def accumulate(x, trips):
    s = torch.zeros_like(x)
    for _ in range(trips):
        s = s + (x * x + torch.sin(s))
    return s


case("Loop_scan_output", "double[3] x, int64 trips <bool yes = {1}>",
     """last, ys = Loop(trips, yes, x) <
body = b (int64 i, bool go, double[3] s) => (bool go_on, double[3] s1, double[3] o) {
  go_on = Identity(go)
  s1 = Sin(s)
  o = Mul(s1, x)
}>
y = Mul(ys, last)""", lambda x, t: scan(x, t.item()), x=normal(3), trips=np.int64(4))


def scan(x, trips):
    s, rows = x, []
    for _ in range(trips):
        s = torch.sin(s)
        rows.append(s * x)
    return torch.stack(rows) * s


case("Loop_stops_early", "double[3] x <int64 many = {100}, bool yes = {1}, double limit = {3}, int64 one = {1}>",
     """y = Loop(many, yes, x) <body = b (int64 i, bool go, double[3] s) => (bool go_on, double[3] s1) {
  s1 = Mul(s, x)
  n = ReduceSum<keepdims = 0>(s1)
  go_on = Less(n, limit)
}>""", lambda x: stops(x), x=np.array([1.1, 1.2, 0.9]))


def stops(x):
    s = x
    while True:
        s = s * x
        if not s.sum() < 3:
            return s


case("Loop_nested", "double[2,2] x, double[2,2] W, int64 outer, int64 inner <bool yes = {1}>",
     """y = Loop(outer, yes, x) <body = b (int64 i, bool go, double[2,2] s) => (bool go_on, double[2,2] s1) {
  go_on = Identity(go)
  r = Loop(inner, go, s) <body = c (int64 j, bool go2, double[2,2] u) => (bool go3, double[2,2] u1) {
    go3 = Identity(go2)
    m = MatMul(u, W)
    k = Tanh(m)
    u1 = Mul(k, x)
  }>
  s1 = Add(r, s)
}>""", lambda x, w, o, n: nested(x, w, o.item(), n.item()), x=normal(2, 2), W=normal(2, 2, seed=5), outer=np.int64(3),
     inner=np.int64(2))


def nested(x, w, outer, inner):
    s = x
    for _ in range(outer):
        u = s
        for _ in range(inner):
            u = torch.tanh(u @ w) * x
        s = u + s
    return s


IF = """h = Tanh(a)
r = If(c) <then_branch = t () => (double[2,3] p) {
  p = Mul(h, b)
}, else_branch = e () => (double[2,3] q) {
  q = Exp(a)
}>
y = Mul(r, r)"""
for taken in (True, False):
    case(f"If_{taken}".lower(), "double[2,3] a, double[3] b, bool c", IF,
         lambda a, b, c: (torch.tanh(a) * b) ** 2 if c else torch.exp(a) ** 2,
         a=normal(2, 3), b=normal(3), c=np.array(taken))

case("If_in_Loop", "double[3] x, int64 trips <bool yes = {1}, double limit = {0.5}>",
     """y = Loop(trips, yes, x) <body = b (int64 i, bool go, double[3] s) => (bool go_on, double[3] s1) {
  go_on = Identity(go)
  n = ReduceMean<keepdims = 0>(s)
  big = Less(limit, n)
  s1 = If(big) <then_branch = t () => (double[3] p) {
    p = Sin(s)
  }, else_branch = e () => (double[3] q) {
    q = Exp(s)
  }>
}>""", lambda x, t: if_in_loop(x, t.item()), x=normal(3), trips=np.int64(5))


def if_in_loop(x, trips):
    s = x
    for _ in range(trips):
        s = torch.sin(s) if 0.5 < s.mean() else torch.exp(s)
    return s


# ---- a small graph: one head of attention with a residual ----

# Long transforms: as products their matrices would take gigabytes.
case("DFT_long", "double[1,n,1] x <int64 a = {1}>", "y = DFT<onesided = 1>(x, , a)",
     lambda x: torch.view_as_real(torch.fft.rfft(x[..., 0])), opset=20, x=normal(1, 1 << 17, 1))
case("DFT_long_inverse", "double[1,40001,2] x <int64 a = {1}>", "y = DFT<inverse = 1>(x, , a)",
     lambda x: torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x))), opset=20, x=normal(1, 40001, 2))
case("DFT_long_half_inverse", "double[1,40001,2] x <int64 a = {1}>", "y = DFT<inverse = 1, onesided = 1>(x, , a)",
     lambda x: torch.fft.irfft(torch.view_as_complex(x))[..., None], opset=20, x=normal(1, 40001, 2))

case("attention", "double[n,5,4] x, double[4,4] Q, double[4,4] K, double[4,4] V <double scale = {0.5}>",
     """q = MatMul(x, Q)
k = MatMul(x, K)
v = MatMul(x, V)
kt = Transpose<perm = [0,2,1]>(k)
s = MatMul(q, kt)
ss = Mul(s, scale)
p = Softmax<axis = -1>(ss)
o = MatMul(p, v)
y = Add(o, x)""",
     lambda x, q, k, v: torch.softmax((x @ q) @ (x @ k).transpose(1, 2) * 0.5, -1) @ (x @ v) + x,
     x=normal(2, 5, 4), Q=normal(4, 4, seed=1), K=normal(4, 4, seed=2), V=normal(4, 4, seed=3))


@pytest.mark.parametrize("name", CASES)
def test_gradient_as_torch(env, name):
    c = CASES[name]
    tensors = {n: torch.from_numpy(np.asarray(x).copy()) for n, x in c.inputs.items()}
    wrt = [n for n, t in tensors.items() if t.dtype == torch.float64]
    for n in wrt:
        tensors[n].requires_grad_()
    y = c.formula(*tensors.values())
    dy = torch.from_numpy(np.asarray(np.random.default_rng(3).standard_normal(tuple(y.shape))))
    want = torch.autograd.grad(y, [tensors[n] for n in wrt], dy, allow_unused=True, materialize_grads=True)
    model = text_model(c)
    for setting, values in SETTINGS.items():
        with env.session(model, Options(**values).backward(["y"], wrt)) as session:
            got = session.run({**c.inputs, "d:y": dy.numpy()})
        close(got["y"], y.detach().numpy(), "torch_forward_f64", f"{setting}: y")
        for n, g in zip(wrt, want):
            close(got[f"grad:{n}"], g.numpy(), "torch_f64", f"{setting}: d{n}")


def test_gradient_of_a_scalar_loss(env):
    c = Case("double[n,3] x, double[3,2] w", "m = MatMul(x, w)\n t = Tanh(m)\n y = ReduceMean<keepdims = 0>(t)", None,
             {})
    x, w = (torch.from_numpy(normal(*s)).requires_grad_() for s in ((4, 3), (3, 2)))
    loss = torch.tanh(x @ w).mean()
    want = torch.autograd.grad(loss, [x, w])
    with env.session(text_model(c), Options().gradients("y", ["w", "x"])) as session:
        got = session.run({"x": x.detach().numpy(), "w": w.detach().numpy()})
    close(got["grad:x"], want[0].numpy(), "torch_f64")
    close(got["grad:w"], want[1].numpy(), "torch_f64")


def test_forward_and_backward_as_two_halves(env):
    c = CASES["unary_chain"]
    options = Options().backward(["y"], ["x"]).cut("forward", ["y"])
    x, dy = normal(9, 7), normal(9, 7, seed=4)
    tx = torch.from_numpy(x).requires_grad_()
    ty = c.formula(tx)
    want, = torch.autograd.grad(ty, [tx], torch.from_numpy(dy))
    with env.session(text_model(c), options) as session, session.frame() as frame:
        frame.input("x", x)
        frame.run("forward")
        close(frame.output("y"), ty.detach().numpy(), "torch_forward_f64")
        frame.input("d:y", dy)
        frame.run()
        close(frame.output("grad:x"), want.numpy(), "torch_f64")


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_gradient_is_the_rotation_back(env, interleaved):
    """RotaryEmbedding knows no double: compared in single precision, part of the columns rotated."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 23]>
g (float[b,h,s,8] x, float[9,3] c, float[9,3] sn, int64[b,s] at) => (float[b,h,s,8] y) {{
  y = RotaryEmbedding<rotary_embedding_dim = 6, interleaved = {interleaved}>(x, c, sn, at)
}}""")
    angles = normal(9, 3)
    feed = {"x": normal(2, 2, 5, 8).astype(np.float32), "c": np.cos(angles).astype(np.float32),
            "sn": np.sin(angles).astype(np.float32), "at": np.random.default_rng(1).integers(0, 9, (2, 5))}
    dy = normal(2, 2, 5, 8, seed=4).astype(np.float32)
    x = torch.from_numpy(feed["x"]).requires_grad_()
    cos, sin = (torch.from_numpy(feed[n])[torch.from_numpy(feed["at"])][:, None] for n in ("c", "sn"))
    a, b = (x[..., 0:6:2], x[..., 1:6:2]) if interleaved else (x[..., :3], x[..., 3:6])
    turned = (cos * a - sin * b, sin * a + cos * b)
    y = torch.cat((torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1), x[..., 6:]), -1)
    want, = torch.autograd.grad(y, [x], torch.from_numpy(dy))
    for values in SETTINGS.values():
        with env.session(model, Options(**values).backward(["y"], ["x"])) as session:
            got = session.run({**feed, "d:y": dy})
        close(got["y"], y.detach().numpy(), "torch_f32")
        close(got["grad:x"], want.numpy(), "torch_f32")


def linear_attention(q, k, v, state, decay, beta, heads, kv_heads):
    """Token by token: the state decays, is corrected towards the value, and is read by every query head of its key."""
    q, k, v = (x.unflatten(2, (n, -1)) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    rows = []
    for t in range(q.shape[1]):
        if decay is not None:
            state = state * torch.exp(decay[:, t].unflatten(1, (kv_heads, -1)))[..., None]
        value = v[:, t]
        if beta is not None:
            value = beta[:, t, :, None] * (value - torch.einsum("bhd,bhdm->bhm", k[:, t], state))
        state = state + torch.einsum("bhd,bhm->bhdm", k[:, t], value)
        shared = state.repeat_interleave(heads // kv_heads, 1)
        rows.append(torch.einsum("bhd,bhdm->bhm", q[:, t], shared).flatten(1) / q.shape[-1]**0.5)
    return torch.stack(rows, 1), state


@pytest.mark.parametrize("rule, decay_columns, beta_columns",
                         [("linear", 0, 0), ("gated", 2, 0), ("gated", 6, 0), ("delta", 0, 2), ("gated_delta", 6, 1)])
@pytest.mark.parametrize("past", [False, True])
def test_linear_attention_gradients(env, rule, decay_columns, beta_columns, past):
    """It knows no double: compared in single precision, both outputs take part."""
    feeds = {"q": normal(2, 4, 12), "k": normal(2, 4, 6) * 0.5, "v": normal(2, 4, 10)}
    feeds.update({"s": normal(2, 2, 3, 5)} if past else {})
    feeds.update({"g": -positive(2, 4, decay_columns)} if decay_columns else {})
    feeds.update({"e": positive(2, 4, beta_columns) * 0.3} if beta_columns else {})
    feeds = {n: x.astype(np.float32) for n, x in feeds.items()}
    operands = ", ".join(n if n in feeds else "" for n in ("q", "k", "v", "s", "g", "e")).rstrip(", ")
    signature = ", ".join(f"float[{','.join(map(str, x.shape))}] {n}" for n, x in feeds.items())
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 27]>
g ({signature}) => (float[2,4,20] y, float[2,2,3,5] z) {{
  y, z = LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = "{rule}">({operands})
}}""")
    dys = {"y": normal(2, 4, 20, seed=7).astype(np.float32), "z": normal(2, 2, 3, 5, seed=8).astype(np.float32)}
    tensors = {n: torch.from_numpy(x).double().requires_grad_() for n, x in feeds.items()}
    start = tensors["s"] if past else torch.zeros(2, 2, 3, 5, dtype=torch.float64)
    made = linear_attention(tensors["q"], tensors["k"], tensors["v"], start, tensors.get("g"), tensors.get("e"), 4, 2)
    want = torch.autograd.grad(made, list(tensors.values()), [torch.from_numpy(d).double() for d in dys.values()])
    with env.session(model, Options().backward(["y", "z"], list(feeds))) as session:
        got = session.run({**feeds, **{f"d:{n}": d for n, d in dys.items()}})
    for n, y in zip(dys, made):
        close(got[n], y.detach().numpy(), "torch_f32", n)
    for n, g in zip(feeds, want):
        close(got[f"grad:{n}"], g.numpy(), "torch_f32", f"d{n}")


@pytest.mark.parametrize("given", [("y", "m", "r"), ("m",), ("y", "r")], ids="".join)
@pytest.mark.parametrize("biased", [True, False])
def test_gradients_through_statistics_of_layer_normalization(env, given, biased):
    """Its mean and inverse deviation are floats whatever X is: compared in single precision."""
    feeds = {"x": normal(3, 4, 5), "s": normal(5, seed=2), "b": normal(5, seed=3)}
    feeds = {n: x.astype(np.float32) for n, x in feeds.items() if biased or n != "b"}
    signature = ", ".join(f"float[{','.join(map(str, x.shape))}] {n}" for n, x in feeds.items())
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]>
g ({signature}) => ({', '.join(f'float[] {n}' for n in given)}) {{
  y, m, r = LayerNormalization<epsilon = 0.01>({', '.join(feeds)})
}}""")
    t = {n: torch.from_numpy(x).double().requires_grad_() for n, x in feeds.items()}
    mean = t["x"].mean(-1, keepdim=True)
    rate = ((t["x"] - mean).square().mean(-1, keepdim=True) + 0.01).rsqrt()
    made = {"y": (t["x"] - mean) * rate * t["s"] + t.get("b", 0), "m": mean, "r": rate}
    dys = {n: normal(*made[n].shape, seed=7).astype(np.float32) for n in given}
    want = torch.autograd.grad([made[n] for n in given], list(t.values()),
                               [torch.from_numpy(d).double() for d in dys.values()], allow_unused=True)
    with env.session(model, Options().backward(list(given), list(feeds))) as session:
        got = session.run({**feeds, **{f"d:{n}": d for n, d in dys.items()}})
    for n, g in zip(feeds, want):
        close(got[f"grad:{n}"], np.zeros_like(feeds[n]) if g is None else g.numpy(), "torch_f32", f"d{n}")


def test_gradient_through_scan(env):
    """The last slice comes first; both the final state and the stacked outputs take part."""
    text = """<opset: "" 18>
g (float[4,3] x, float[3] s) => (float[] l) {
  y, z = Scan(s, x)<num_scan_inputs = 1, scan_input_directions = [1],
                    body = { (float[3] a, float[3] b) => (c, d) { c = Mul(a, b)
    d = Add(c, b) } }>
  p = ReduceSum<keepdims = 0>(z)
  q = ReduceSum<keepdims = 0>(y)
  l = Add(p, q)
}
"""
    rng = np.random.default_rng(3)
    x, s = rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    with env.session(text, Options().gradients("l", ["x", "s"])) as session:
        got = session.run({"x": x, "s": s})
    tx, ts = torch.tensor(x, requires_grad=True), torch.tensor(s, requires_grad=True)
    state, total = ts, 0
    for i in reversed(range(4)):
        state = state * tx[i]
        total = total + (state + tx[i]).sum()
    total = total + state.sum()
    total.backward()
    close(got["l"], total.item(), "torch_f32")
    close(got["grad:x"], tx.grad.numpy(), "torch_f32")
    close(got["grad:s"], ts.grad.numpy(), "torch_f32")
