"""Cases of ONNX Runtime's training operators: gradients, losses, accumulation. The references are PyTorch's autograd,
or formulas in numpy."""
import numpy as np
import torch

from . import case, stream
from .layers import BF16, odd, wide

_, f, i32 = stream(61)

TYPES = (np.float32, np.float64, np.float16, BF16)
SHAPES = [(3, 5), (1,), (0, 4), (2, 3, 17)]
F = torch.nn.functional


def name_of(t):
    return np.dtype(t).name


def tensor(x):
    return torch.from_numpy(np.array(x))


def i64(hi, *shape):
    return i32(hi, *shape).astype(np.int64)


def by_autograd(function):
    """dY times the derivative of a function of one tensor."""
    def run(dy, x, *more):
        x = tensor(x).requires_grad_()
        y = function(x, *(tensor(m) for m in more))
        y.backward(tensor(dy).reshape(y.shape))
        return x.grad.numpy()
    return wide(run)


def exactly(function):
    """A reference whose results have the types they should have."""
    return lambda *operands: [np.asarray(r) for r in function(*operands)]


# ---- elements ----

def relu_grad(dy, x):
    return np.where(x > 0, dy, 0)


OF_ONE = [
    ("ReluGrad", relu_grad, {}),
    ("LeakyReluGrad", lambda dy, y: np.where(y > 0, dy, 0.25 * dy), {"alpha": 0.25}),
    ("SigmoidGrad", lambda dy, y: dy * y * (1 - y), {}),
    ("TanhGrad", lambda dy, y: dy * (1 - y * y), {}),
]
OF_X = [
    ("GeluGrad", F.gelu, {}),
    ("FastGeluGrad", lambda x: F.gelu(x, approximate="tanh"), {}),
    ("QuickGeluGrad", lambda x: x * torch.sigmoid(1.702 * x), {}),
]


def elements():
    rows = [*((o, wide(r), a) for o, r, a in OF_ONE), *((o, by_autograd(r), a) for o, r, a in OF_X)]
    for op, reference, attributes in rows:
        for s in SHAPES:
            yield case(f"f32{s}", op, [f(*s), f(*s)], reference=reference, **attributes)
        for t in TYPES[1:]:
            yield case(name_of(t), op, [f(3, 5, t=t), f(3, 5, t=t)], reference=reference, **attributes)
    yield case("odd", "ReluGrad", [odd(f(9)), odd(f(9))[::-1].copy()], reference=wide(relu_grad))
    yield case("infinite", "ReluGrad", [np.float32([np.inf, np.inf, np.nan, 1]), np.float32([-1, 1, -1, np.nan])],
               reference=wide(relu_grad))
    for op, how in (("BiasGeluGrad_dX", "none"), ("BiasFastGeluGrad_dX", "tanh")):
        reference = by_autograd(lambda x, b, how=how: F.gelu(x + b, approximate=how))
        for s in SHAPES:
            yield case(f"f32{s}", op, [f(*s), f(*s), f(s[-1])], reference=reference)
        yield case("f16", op, [f(2, 7, t=np.float16), f(2, 7, t=np.float16), f(7, t=np.float16)], reference=reference)


def div_grad(dy, a, b):
    a, b = (tensor(x).requires_grad_() for x in (a, b))
    (a / b).backward(tensor(dy))
    return [a.grad.numpy(), b.grad.numpy()]


def fake_quant(lo, hi):
    def run(x, scale, zero):
        q = np.round(x / scale) + zero
        return [((np.clip(q, lo, hi) - zero) * scale).astype(x.dtype), (q >= lo) & (q <= hi)]
    return exactly(run)


BITS = np.uint32([0xDEADBEEF, 0x00001234])


def stayed(bits, like):
    """32 places in a number, the first in its lowest bit."""
    return (((bits.astype(np.int64)[:, None] >> np.arange(32)) & 1).ravel()[:like.size]).reshape(like.shape)


MASK = np.arange(15).reshape(3, 5) % 3 > 0
ELEMENTS = [
    *elements(),
    *(case(f"{a}{b}{name_of(t)}", "DivGrad", [f(*np.broadcast_shapes(a, b), t=t), f(*a, t=t), f(*b, lo=1, t=t)], 2,
           reference=wide(div_grad)) for a, b in (((3, 5), (3, 5)), ((2, 1, 4), (3, 1)), ((), (3,)), ((0, 4), (4,)))
      for t in (np.float32, np.float64)),
    case("one", "DivGrad", [f(3, 5), f(3, 5), f(5, lo=1)], [False, True],
         reference=wide(lambda *x: div_grad(*x)[1:])),
    *(case(name_of(t), "DropoutGrad", [f(3, 5, t=t), MASK, np.float32(0.25), np.bool_(True)],
           reference=wide(lambda dy, mask, ratio, training: mask * dy / (1 - ratio))) for t in TYPES),
    case("ratio", "DropoutGrad", [f(3, 5), MASK], reference=wide(lambda dy, mask: mask * dy * 2)),
    case("still", "DropoutGrad", [f(3, 5), MASK | True, np.float32(0.25), np.bool_(False)],
         reference=wide(lambda dy, *_: dy)),
    *(case(name_of(t), "BitmaskDropoutGrad", [f(3, 15, t=t), BITS, np.float32(0.25), np.bool_(True)],
           reference=wide(lambda dy, bits, ratio, training: stayed(bits, dy) * dy / (1 - ratio))) for t in TYPES),
    case("ratio", "BitmaskDropoutGrad", [f(3, 15), BITS], reference=wide(lambda dy, bits: stayed(bits, dy) * dy * 2)),
    case("f32", "FakeQuant", [f(4, 9, lo=-30, hi=30), np.float32([0.11]), np.float32([128])], 2,
         reference=fake_quant(0, 255)),
    case("range", "FakeQuant", [f(40, lo=-30, hi=30), np.float32([0.5]), np.float32([3])], 2,
         reference=fake_quant(-7, 8), quant_min=-7, quant_max=8),
    *(case(name_of(t), "FakeQuantGrad", [f(3, 5, t=t), MASK], reference=wide(lambda dy, mask: dy * mask))
      for t in TYPES),
]


# ---- softmax ----

def softmaxes():
    for op, log, flat in (("SoftmaxGrad", False, True), ("SoftmaxGrad_13", False, False),
                          ("LogSoftmaxGrad", True, True), ("LogSoftmaxGrad_13", True, False)):
        def reference(dy, y, axis, log=log, flat=flat):
            axes = tuple(range(axis % dy.ndim, dy.ndim)) if flat else axis
            if log:
                return dy - np.exp(y) * dy.sum(axes, keepdims=True)
            return (dy - (dy * y).sum(axes, keepdims=True)) * y
        for shape, axis in (((3, 7), 1), ((2, 3, 4), 1), ((2, 3, 4), 0), ((5,), 0), ((0, 3), 1), ((2, 3, 4), -1)):
            yield case(f"{shape}{axis}", op, [f(*shape), f(*shape, lo=-3, hi=0)], axis=axis,
                       reference=wide(lambda dy, y, axis=axis, r=reference: r(dy, y, axis)))
        for t in TYPES[1:]:
            yield case(name_of(t), op, [f(3, 7, t=t), f(3, 7, lo=-1, hi=0, t=t)], axis=1,
                       reference=wide(lambda dy, y, r=reference: r(dy, y, 1)))


# ---- windows ----

def conv_grads(transposed, **how):
    apply = F.conv_transpose2d if transposed else F.conv2d

    def run(dy, x, w):
        x, w = (tensor(v).requires_grad_() for v in (x, w))
        b = torch.zeros(dy.shape[1], dtype=x.dtype, requires_grad=True)
        apply(x, w, b, **how).backward(tensor(dy))
        return [x.grad.numpy(), w.grad.numpy(), b.grad.numpy()]
    return wide(run)


def max_pool(x):
    """Results and flat indices as ONNX Runtime counts them, over everything."""
    y, at = F.max_pool2d(torch.from_numpy(x), 2, 2, return_indices=True)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], 1, 1)
    return y.numpy(), at.numpy() + planes * x.shape[2] * x.shape[3]


def max_pool_grad(shape):
    def run(dy, at):
        dx = np.zeros(int(np.prod(shape)))
        np.add.at(dx, at.ravel(), dy.ravel())
        return dx.reshape(shape)
    return wide(run)


def average_pool_grad(shape, *how):
    def run(dy):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        F.avg_pool2d(x, *how).backward(tensor(dy))
        return x.grad.numpy()
    return wide(run)


POOLED = (2, 3, 6, 4)
WINDOWS = [
    *(case(name_of(t), "ConvGrad", [f(2, 4, 5, 4, t=t), f(2, 3, 5, 4, t=t), f(4, 3, 3, 3, t=t)], 3,
           reference=conv_grads(False, padding=1), pads=[1, 1, 1, 1]) for t in TYPES),
    case("group", "ConvGrad", [f(2, 4, 3, 2), f(2, 2, 5, 4), f(4, 1, 3, 3)], [False, True, True], group=2,
         reference=lambda *x: conv_grads(False, groups=2)(*x)[1:]),
    case("stride", "ConvGrad", [f(1, 2, 2, 2), f(1, 3, 5, 5), f(2, 3, 3, 3)], [True], strides=[2, 2],
         reference=lambda *x: conv_grads(False, stride=2)(*x)[:1]),
    case("empty", "ConvGrad", [f(0, 2, 3, 3), f(0, 3, 5, 5), f(2, 3, 3, 3)], 3, reference=conv_grads(False)),
    *(case(name_of(t), "ConvTransposeGrad", [f(2, 4, 7, 6, t=t), f(2, 3, 5, 4, t=t), f(3, 4, 3, 3, t=t)], 3,
           reference=conv_grads(True)) for t in (np.float32, np.float64)),
    case("group", "ConvTransposeGrad", [f(1, 4, 7, 6), f(1, 2, 5, 4), f(2, 2, 3, 3)], 3, group=2,
         reference=conv_grads(True, groups=2)),
    *(case(name_of(t), "MaxPoolGrad", [f(2, 3, 3, 2, t=t), max_pool(f(*POOLED))[1]], domain="",
           reference=max_pool_grad(POOLED), types={0: (t, POOLED)}, kernel_shape=[2, 2], strides=[2, 2])
      for t in TYPES),
    *(case(name_of(t), "AveragePoolGrad", [f(2, 3, 3, 2, t=t)], domain="", kernel_shape=[2, 2], strides=[2, 2],
           reference=average_pool_grad(POOLED, 2, 2), types={0: (t, POOLED)}) for t in TYPES),
    case("pads", "AveragePoolGrad", [f(2, 3, 4, 3)], domain="", kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1],
         count_include_pad=1, reference=average_pool_grad(POOLED, 2, 2, 1), types={0: (np.float32, POOLED)}),
]


# ---- picking ----

def added(shape, at, dy):
    out = np.zeros(tuple(shape))
    np.add.at(out, at, dy)
    return out


def gather_grad(axis):
    def run(shape, at, dy):
        out = np.zeros(tuple(shape))
        moved = np.moveaxis(out, axis, 0)
        rolled = np.moveaxis(dy, tuple(range(axis, axis + at.ndim)), tuple(range(at.ndim)))
        np.add.at(moved, at, rolled)
        return [out.astype(dy.dtype)]
    return lambda shape, at, dy: [gather_grad_wide(run, shape, at, dy)]


def gather_grad_wide(run, shape, at, dy):
    return run(shape, at, dy.astype(np.float64))[0].astype(dy.dtype)


def elements_grad(axis):
    def run(dy, shape, at):
        where = list(np.indices(at.shape))
        where[axis] = at
        return added(shape, tuple(where), dy)
    return wide(run)


def nd_grad(shape, at, dy):
    return [added(shape, tuple(np.moveaxis(at, -1, 0)), dy.astype(np.float64)).astype(dy.dtype)]


def slice_grad(shape, where):
    def run(dy, *_):
        out = np.zeros(shape, dy.dtype)
        out[where] = dy
        return [out]
    return run


def unpadded(x, at):
    return [x.reshape(-1, *x.shape[2:])[at], np.array(x.shape[:2], at.dtype)]


def padded(x, at, dims):
    out = np.zeros((int(np.prod(dims)), *x.shape[1:]), x.dtype)
    out[at] = x
    return [out.reshape(*dims, *x.shape[1:])]


def resize_grad(dy, x, roi, scales):
    x = torch.zeros(x.shape, dtype=torch.float64, requires_grad=True)
    F.interpolate(x, scale_factor=(2, 2), mode="bilinear", align_corners=False).backward(
        tensor(dy))
    return x.grad.numpy()


def shape_of(*dims):
    return np.array(dims, np.int64)


PICKS = [
    *(case(f"{name_of(t)}", "GatherGrad", [shape_of(5, 3), i64(5, 2, 4), f(2, 4, 3, t=t)], reference=gather_grad(0))
      for t in TYPES),
    case("axis", "GatherGrad", [shape_of(2, 6, 3), i32(6, 4), f(2, 4, 3)], axis=1, reference=gather_grad(1)),
    case("int32", "GatherGrad", [shape_of(5, 3).astype(np.int32), i64(5, 4), f(4, 3)], reference=gather_grad(0)),
    *(case(name_of(t), "ShrunkenGather", [f(5, 3, t=t), i64(5, 2, 4)], reference=lambda x, i: [x[i]]) for t in TYPES),
    case("axis", "ShrunkenGather", [f(2, 6, 3), i32(6, 4)], axis=1, reference=lambda x, i: [x[:, i]]),
    case("empty", "GatherGrad", [shape_of(5, 3), i64(5, 0), f(0, 3)], reference=gather_grad(0)),
    *(case(name_of(t), "GatherElementsGrad", [f(2, 4, t=t), shape_of(2, 6), i64(6, 2, 4)], axis=1,
           reference=elements_grad(1)) for t in TYPES),
    case("first", "GatherElementsGrad", [f(3, 4), shape_of(5, 4), i32(5, 3, 4)], reference=elements_grad(0)),
    *(case(name_of(t), "GatherNDGrad", [shape_of(4, 5, 3), np.stack([i64(4, 6), i64(5, 6)], -1), f(6, 3, t=t)],
           reference=nd_grad) for t in TYPES),
    *(case(name_of(t), "SliceGrad", [(10 * f(2, 4)).astype(t), shape_of(5, 4), shape_of(1), shape_of(3), shape_of(0)],
           reference=slice_grad((5, 4), np.s_[1:3])) for t in (*TYPES, np.int64, np.bool_)),
    case("steps", "SliceGrad", [f(3, 4), shape_of(7, 4), shape_of(6), shape_of(-8), shape_of(0), shape_of(-3)],
         reference=slice_grad((7, 4), np.s_[::-3])),
    case("empty", "SliceGrad", [f(0, 4), shape_of(5, 4), shape_of(3), shape_of(3), shape_of(0)],
         reference=slice_grad((5, 4), np.s_[3:3])),
    *(case(name_of(t), "ResizeGrad", [f(1, 2, 6, 8, t=t), f(1, 2, 3, 4, t=t), np.zeros(0, t),
                                      np.float32([1, 1, 2, 2])], mode="linear", reference=wide(resize_grad),
           constants=(2, 3)) for t in (np.float32, np.float64)),
    *(case(name_of(t), "FlattenAndUnpad", [(9 * f(2, 3, 4)).astype(t), np.array([0, 2, 5], at)], 2, reference=unpadded)
      for t, at in ((np.float32, np.int64), (np.int64, np.int32), (np.float16, np.int64))),
    case("empty", "FlattenAndUnpad", [f(2, 3, 4), np.zeros(0, np.int64)], 2, reference=unpadded),
    *(case(name_of(t), "PadAndUnflatten", [f(3, 4, t=t), np.array([0, 2, 5]), np.array([2, 3])], reference=padded)
      for t in TYPES),
]


# ---- normalizations ----

def layer_grads(center, invert=False):
    def run(dy, x, scale, *stats):
        inv = stats[-1]
        h = (x - stats[0]) / scale if invert else (x - stats[0] if center else x) * inv
        g = dy * scale
        dx = g - h * (g * h).mean(-1, keepdims=True) - (g.mean(-1, keepdims=True) if center else 0)
        lead = tuple(range(x.ndim - 1))
        return [dx * inv, (dy * h).sum(lead), dy.sum(lead)][:3 if center else 2]
    return wide(run)


def batch_grads(dy, x, scale, mean, inv):
    axes, by = (0, *range(2, x.ndim)), (-1, *[1] * (x.ndim - 2))
    n = x.size / x.shape[1]
    h = (x - mean.reshape(by)) * inv.reshape(by)
    g = dy * scale.reshape(by)
    dx = (g - g.sum(axes, keepdims=True) / n - h * (g * h).sum(axes, keepdims=True) / n) * inv.reshape(by)
    return [dx, (dy * h).sum(axes), dy.sum(axes)]


def batch_internal(eps, momentum):
    def run(x, scale, b, mean, var):
        axes, by = (0, *range(2, x.ndim)), (-1, *[1] * (x.ndim - 2))
        m, v = x.mean(axes), x.var(axes)
        y = (x - m.reshape(by)) / np.sqrt(v.reshape(by) + eps) * scale.reshape(by) + b.reshape(by)
        return [y, mean * momentum + m * (1 - momentum), var * momentum + v * (1 - momentum), m, 1 / np.sqrt(v + eps)]
    return wide(run)


def norms():
    for t in TYPES:
        u = np.float64 if t is np.float64 else np.float32
        stat = [f(2, 3, 1, t=u), f(2, 3, 1, lo=0.5, t=u)]
        x = [f(2, 3, 7, t=t), f(2, 3, 7, t=t), f(7, lo=0.5, t=t)]
        yield case(name_of(t), "LayerNormalizationGrad", [*x, *stat], 3, reference=layer_grads(True), axis=-1)
        yield case(name_of(t), "SimplifiedLayerNormalizationGrad", [*x, stat[1]], 2, reference=layer_grads(False))
        yield case(name_of(t), "InvertibleLayerNormalizationGrad", [*x, f(7, t=t), stat[1]], 3, types={0: t},
                   reference=layer_grads(True, invert=True))
        yield case(name_of(t), "BatchNormalizationGrad",
                   [f(2, 3, 4, 5, t=t), f(2, 3, 4, 5, t=t), f(3, t=t), f(3, t=t), f(3, lo=0.5, t=t)], 3, epsilon=1e-5,
                   reference=wide(batch_grads))
        yield case(name_of(t), "BatchNormInternal",
                   [f(2, 3, 4, 5, t=t), f(3, t=t), f(3, t=t), f(3, t=t), f(3, lo=0.5, t=t)], 5, epsilon=1e-3,
                   momentum=0.75, reference=batch_internal(1e-3, 0.75))


# ---- losses ----

def cross_entropy_grad(reduction, ignore=None):
    def run(dy, log_prob, label, weight=None, *_):
        x = tensor(log_prob).requires_grad_()
        more = {} if ignore is None else {"ignore_index": ignore}
        w = None if weight is None else torch.from_numpy(weight)
        y = F.cross_entropy(x, torch.from_numpy(label.astype(np.int64)), w, reduction=reduction, **more)
        y.backward(tensor(dy))
        return x.grad.numpy()
    return wide(run)


def log_prob(*shape, t=np.float32, axis=1):
    x = torch.from_numpy(f(*shape, t=np.float64))
    return torch.log_softmax(x, axis).numpy().astype(t)


def loss(reduction, ignore=None, negative=False, out=None):
    def run(x, label, weight=None, *_):
        t = out or x.dtype
        x = torch.from_numpy(x.astype(np.float64))
        more = {} if ignore is None else {"ignore_index": ignore}
        w = None if weight is None else torch.from_numpy(weight.astype(np.float64))
        p = x if negative else torch.log_softmax(x, 1)
        y = F.nll_loss(p, torch.from_numpy(label.astype(np.int64)), w, reduction=reduction, **more)
        return [y.numpy().astype(t)] if negative else [y.numpy().astype(t), p.numpy().astype(t)]
    return run


def dense(mean):
    def run(x, label):
        p = torch.log_softmax(torch.from_numpy(x), -1).numpy()
        return [np.asarray(-(label * p).sum() / (x.size / x.shape[-1] if mean else 1)), p]
    return wide(run)


def dense_grad(mean):
    return wide(lambda dy, p, label: dy * (np.exp(p) - label) / (p.size / p.shape[-1] if mean else 1))


def sparse(mean):
    def run(x, label, weight=None):
        p = torch.log_softmax(torch.from_numpy(x), -1).numpy()
        w = np.ones(label.shape) if weight is None else weight
        each = -np.take_along_axis(p, label[..., None].astype(np.int64), -1)[..., 0] * w
        return [np.asarray(each.sum() / (w.sum() if mean else 1)), p]
    return wide(run)


def sparse_grad(mean):
    def run(dy, p, label, weight=None):
        w = np.ones(label.shape) if weight is None else weight
        hit = np.eye(p.shape[-1])[label]
        return dy * (np.exp(p) - hit) * w[..., None] / (w.sum() if mean else 1)
    return wide(run)


def internals():
    op, back = "SoftmaxCrossEntropyLossInternal", "SoftmaxCrossEntropyLossInternalGrad"
    some, labels = np.int64([2, 0, 4, 2]), i64(5, 4, 3)
    for how in ("mean", "sum"):
        yield case(how, op, [f(4, 5), some], 2, reference=loss(how), reduction=how)
        yield case(f"{how}_held", op, [f(4, 5), some, f(5, lo=0.5), np.int64(2)], 2, constants=(3,),
                   reference=loss(how, 2), reduction=how)
        yield case(f"{how}_fed", op, [f(4, 5), some.astype(np.int32), f(5, lo=0.5), np.int64(2)], 2,
                   reference=loss(how, 2), reduction=how)
        yield case(how, back, [f(), log_prob(4, 5), some], reduction=how, reference=cross_entropy_grad(how))
        yield case(f"{how}_fed", back, [f(), log_prob(4, 5), some, f(5, lo=0.5), np.int64(2)], reduction=how,
                   reference=cross_entropy_grad(how, 2))
    yield case("none", op, [f(4, 5, 3), labels], 2, reference=loss("none"), reduction="none")
    yield case("wider", op, [f(4, 5, t=np.float16), some], 2, reference=loss("mean", out=np.float32), output_type=1,
               types={0: np.float32, 1: np.float32})
    bias = f(4, 5)
    yield case("bias", back, [f(), log_prob(4, 5), some, None, None, bias], types={0: np.float32},
               reference=lambda dy, p, at, *_: [cross_entropy_grad("mean")(dy, p, at)[0] + bias])
    yield case("narrower", back, [f(), log_prob(4, 5), some], output_type=10, types={0: np.float16},
               reference=lambda *x: [cross_entropy_grad("mean")(*x)[0].astype(np.float16)])


LOSSES = [
    *(case(f"{how}{name_of(t)}", "SoftmaxCrossEntropyLossGrad", [f(t=t), log_prob(6, 5, t=t), i64(5, 6)], reduction=how,
           reference=cross_entropy_grad(how)) for how in ("mean", "sum") for t in TYPES),
    case("none", "SoftmaxCrossEntropyLossGrad", [f(2, 3), log_prob(2, 5, 3), i64(5, 2, 3)], reduction="none",
         reference=cross_entropy_grad("none")),
    case("weights", "SoftmaxCrossEntropyLossGrad", [f(), log_prob(6, 5), i32(5, 6), f(5, lo=0.5)],
         reference=cross_entropy_grad("mean")),
    case("ignored", "SoftmaxCrossEntropyLossGrad", [f(), log_prob(4, 5), np.int64([2, 0, 4, 2]), f(5, lo=0.5)],
         ignore_index=2, reference=cross_entropy_grad("mean", 2)),
    *internals(),
    *(case(how, op, [log_prob(4, 5), np.int64([2, 0, 4, 2]), f(5, lo=0.5), np.int64(2)], reduction=how,
           reference=loss(how, 2, negative=True)) for how in ("mean", "sum", "none")
      for op in ("NegativeLogLikelihoodLossInternal", "NegativeLogLikelihoodLossInternal2")),
    *(case(f"{how}{name_of(t)}", "SoftmaxCrossEntropy", [f(3, 4, 5, t=t), np.eye(5)[i32(5, 3, 4)].astype(t)], 2,
           reduction=how, reference=dense(how == "mean")) for how in ("mean", "sum") for t in TYPES[:2]),
    *(case(how, "SoftmaxCrossEntropyGrad", [f(), log_prob(4, 5), np.eye(5)[i32(5, 4)].astype(np.float32)],
           reduction=how, reference=dense_grad(how == "mean")) for how in ("mean", "sum")),
    *(case(how, "SparseSoftmaxCrossEntropy", [f(3, 4, 5), i64(5, 3, 4)], 2, domain="", reduction=how,
           reference=sparse(how == "mean")) for how in ("mean", "sum")),
    case("weights", "SparseSoftmaxCrossEntropy", [f(6, 5), i32(5, 6), f(6, lo=0.5)], 2, domain="",
         reference=sparse(True)),
    *(case(how, "SparseSoftmaxCrossEntropyGrad", [f(), log_prob(3, 4, 5, axis=-1), i64(5, 3, 4)], domain="",
           reduction=how, reference=sparse_grad(how == "mean")) for how in ("mean", "sum")),
    case("weights", "SparseSoftmaxCrossEntropyGrad", [f(), log_prob(6, 5), i32(5, 6), f(6, lo=0.5)], domain="",
         reference=sparse_grad(True)),
]


# ---- sums, signals, numbers ----

def widened(a, b):
    """The axes, last first, along which a is widened."""
    rank = max(len(a), len(b))
    one = [*[1] * (rank - len(a)), *a]
    two = [*[1] * (rank - len(b)), *b]
    return np.array([k for k in reversed(range(rank)) if k < rank - len(a) or (
        k >= rank - len(b) and one[k] == 1 and two[k] != 1)], np.int64)


def broadcasts():
    for a, b in (((2, 3), (3,)), ((2, 1), (2, 3)), ((1, 1), (1, 3)), ((4, 1, 1), (1, 5)), ((), (2,)), ((2, 1, 3), (3,)),
                 ((1,), (1, 1)), ((0, 1), (1, 4)), ((3, 2), (3, 2))):
        for held in ((), (0, 1)):
            yield case(f"{a}{b}{len(held)}", "BroadcastGradientArgs", [shape_of(*a), shape_of(*b)], 2, constants=held,
                       reference=lambda a, b: [widened(list(a), list(b)), widened(list(b), list(a))])


def finite(*x, nans=True, infinities=True):
    return [np.array(not any((nans and np.isnan(v).any()) or (infinities and np.isinf(v).any()) for v in x))]


BAD, GOOD = odd(f(9)), f(4)
SIGNAL = np.array([False])
REST = [
    *broadcasts(),
    *(case(name_of(t), "ReduceSumTraining", [(5 * f(2, 3, 4)).astype(t), shape_of(0, 2)],
           reference=lambda x, _: [x.astype(np.float64).sum((0, 2), keepdims=True).astype(x.dtype)])
      for t in (*TYPES, np.int64)),
    case("held", "ReduceSumTraining", [f(2, 3, 4), shape_of(-1)], constants=(1,), keepdims=0,
         reference=lambda x, _: [x.sum(-1)]),
    case("noop", "ReduceSumTraining", [f(2, 3), shape_of()], noop_with_empty_axes=1, reference=lambda x, _: [x]),
    case("all", "ReduceSumTraining", [f(2, 3), shape_of()], reference=lambda x, _: [x.sum(keepdims=True)]),
    *(case(name_of(t), "SplitTraining", [(5 * f(2, 7)).astype(t), shape_of(2, 0, 5)], 3, axis=1,
           reference=lambda x, _: [x[:, :2], x[:, 2:2], x[:, 2:]]) for t in (*TYPES, np.int32)),
    case("held", "SplitTraining", [f(5, 2), shape_of(2, 3)], 2, constants=(1,), reference=lambda x, _: [x[:2], x[2:]]),
    *(case(name_of(t), "ConcatTraining", [(5 * f(2, 3)).astype(t), (5 * f(2, 0)).astype(t), (5 * f(2, 4)).astype(t)], 2,
           axis=1, reference=lambda *x: [np.concatenate(x, 1), shape_of(3, 0, 4)]) for t in (*TYPES, np.int32)),
    *(case(name_of(t), "ReduceAllL2", [f(2, 3, t=t), f(5, t=t), f(0, 4, t=t)], types={0: t},
           reference=wide(lambda *x: np.sqrt(sum((v * v).sum() for v in x)))) for t in TYPES),
    *(case(name_of(t), "IsFinite", [BAD.astype(t)], reference=lambda x: [np.isfinite(x.astype(np.float64))])
      for t in TYPES),
    *(case(f"{name_of(t)}{len(x)}", "IsAllFinite", [v.astype(t) for v in x], reference=finite)
      for t in TYPES for x in ([GOOD], [GOOD, BAD], [f(0, 3)])),
    case("infinities", "IsAllFinite", [np.float32([1, np.nan])], isinf_only=1,
         reference=lambda *x: finite(*x, nans=False)),
    case("nans", "IsAllFinite", [np.float32([1, np.inf])], isnan_only=1,
         reference=lambda *x: finite(*x, infinities=False)),
    *(case(str(k), "All", [np.array(x, bool)], reference=lambda x: [np.array(x.all())])
      for k, x in enumerate(([1, 1], [1, 0, 1], [[1], [1]], []))),
    case("two", "Group", [f(2), i64(3, 4)], reference=lambda *_: [np.array([True])]),
    case("two", "PassThrough", [f(2), i64(3, 4)], 2, reference=lambda *x: list(x)),
    *(case(name_of(t), "ZeroGradient", [f(2, 3, t=t), i64(3, 1)], reference=lambda x, _: [0 * x]) for t in TYPES),
    *(case(name_of(t), "InPlaceAccumulator", [f(2, 3, t=t), f(2, 3, t=t)], reference=wide(lambda a, b: a + b))
      for t in TYPES),
    case("still", "InPlaceAccumulator", [f(3), f(3), SIGNAL], reference=lambda a, *_: [a]),
    case("mixed", "InPlaceAccumulator", [f(3), f(3, t=np.float16)], reference=lambda a, b: [a + b]),
    *(case(f"{name_of(t)}{flag}", "InPlaceAccumulatorV2", [f(2, 3, t=t), f(2, 3, t=t), np.array([flag])], 2,
           reference=lambda a, b, flag: [~SIGNAL, b if flag[0] else (a.astype(np.float64) + b).astype(a.dtype)])
      for t in TYPES for flag in (True, False)),
    case("scalar", "InPlaceAccumulatorV2", [odd(f(4))[0], f(), ~SIGNAL], 2, reference=lambda a, b, _: [~SIGNAL, b]),
    case("bare", "InPlaceAccumulatorV2", [f(0, 3), f(0, 3)], 2, reference=lambda a, b: [~SIGNAL, a]),
    *(case(f"{name_of(t)}{name_of(s)}", "Scale", [f(2, 3, t=t), np.array(4, s)], reference=wide(lambda x, s: x * s))
      for t in TYPES for s in (np.float32, np.int64, np.float64)),
    case("down", "Scale", [f(2, 3), np.array([3], np.int32)], scale_down=1, reference=wide(lambda x, s: x / s)),
    *(case(name_of(t), "ScaledSum", [f(2, 3, t=t), f(2, 3, t=t)], scale_0=0.5, scale_1=-2.0,
           reference=wide(lambda a, b: a / 2 - 2 * b)) for t in TYPES),
    case("three", "ScaledSum", [f(5), f(5), f(5)], scale_0=0.5, scale_1=-2.0, scale_2=3.0,
         reference=wide(lambda a, b, c: a / 2 - 2 * b + 3 * c)),
    *(case(name_of(t), "BatchScale", [f(2, 3, t=t)], 3, scale_0=0.5, scale_1=-2.0, scale_2=3.0,
           reference=wide(lambda a: [a / 2, -2 * a, 3 * a])) for t in TYPES),
    case("apart", "MixedPrecisionScale", [np.float32(2.5), f(2, 3), f(4)], 2, to=10,
         types={0: np.float16, 1: np.float16}, reference=lambda s, *x: [(s * v).astype(np.float16) for v in x]),
    case("joined", "MixedPrecisionScale", [np.float32([2.5]), f(2, 3, t=np.float16), f(4, t=np.float16)], to=1,
         fuse_outputs=1, types={0: np.float32},
         reference=lambda s, *x: [np.concatenate([(s[0] * v.astype(np.float32)).ravel() for v in x])]),
]

# ---- optimizers of single tensors ----

def adam(mode, decay, correct=True, clip=None, signal=True):
    def run(rate, t, w, g, m, v, half=None, scale=None, norm=None, _=None):
        by = 1 if scale is None else float(scale)
        if norm is not None and norm > by * 0.5:
            by = float(norm) / 0.5
        g, t = g / by, int(t)
        m_, v_ = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        a, b = (1 - 0.9 ** t, 1 - 0.999 ** t) if correct else (1, 1)
        if mode == 0:
            delta = -rate * (m_ / a / (np.sqrt(v_ / b) + 1e-8) + decay * w)
        else:
            delta = -rate * np.sqrt(b) / a * m_ / (np.sqrt(v_) + 1e-8)
            delta -= rate * decay * (w + delta)
        return [np.int64(t + 1), m_, v_, w + delta, delta]
    return lambda *x: [np.asarray(r).astype(np.int64 if k == 0 else np.float32) for k, r in enumerate(
        run(*(None if v is None else v.astype(np.float64) for v in x)))]


def lamb(groups, step):
    def run(*x):
        out = [np.int64(step + 1)]
        for k in range(groups):
            w, g, m, v = (y.astype(np.float64) for y in x[5 + 5 * k:9 + 5 * k])
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            to = m / (1 - 0.9 ** step) / (np.sqrt(v / (1 - 0.999 ** step)) + 1e-6) + 0.1 * w
            ratio = np.clip(np.linalg.norm(w) / np.linalg.norm(to), 0.1, 5)
            out += [w - 0.1 * ratio * to, m, v]
        return [np.asarray(r).astype(np.int64 if k == 0 else np.float32) for k, r in enumerate(out)]
    return run


def adam_operands(t=3):
    return [np.float32(0.1), np.int64(t), f(3, 5), f(3, 5), f(3, 5), f(3, 5, lo=0, hi=1)]


OPTIMIZERS = [
    *(case(name_of(t), "SGDOptimizer", [np.float32(0.1), f(3, 5, t=t), f(3, 5, t=t)], 2,
           reference=lambda r, w, g: [(w.astype(np.float64) - np.float64(r) * g).astype(w.dtype),
                                      (-np.float64(r) * g).astype(w.dtype)]) for t in TYPES),
    *(case(f"{mode}{correct}", "AdamOptimizer", adam_operands(), 5, reference=adam(mode, 0.01, correct),
           weight_decay_mode=mode, do_bias_correction=int(correct), **{"lambda": 0.01})
      for mode in (0, 1) for correct in (True, False)),
    case("clipped", "AdamOptimizer", [*adam_operands(), None, np.float32(4), np.float32(100)], 5, max_norm_clip=0.5,
         reference=adam(0, 0)),
    case("still", "AdamOptimizer", [*adam_operands(), None, None, None, np.array([False])], 4,
         reference=lambda r, t, w, g, m, v, *_: [t, m, v, w]),
    case("two", "LambOptimizer", [None, None, None, np.float32(0.1), np.int64(4), f(3, 5), f(3, 5), f(3, 5),
                                  f(3, 5, lo=0, hi=1), None, f(4), f(4), f(4), f(4, lo=0, hi=1)],
         [True, True, False, True, True, False, True, False, True, True], reference=lamb(2, 4), ratio_min=0.1,
         ratio_max=5.0, **{"lambda": [0.1, 0.1]}),
    *(case(name_of(t), "LambOptimizer", [None, None, None, np.float32(0.1), np.int64(4), f(3, 5, t=t), f(3, 5, t=t),
                                         f(3, 5), f(3, 5, lo=0, hi=1)], [True, True, False, True, True],
           reference=lambda *x, t=t: [r.astype(t) if k == 1 else r for k, r in enumerate(lamb(1, 4)(*x))],
           ratio_min=0.1, ratio_max=5.0, **{"lambda": [0.1]}) for t in (np.float16, BF16)),
]

# ---- LSTM ----

def iofc_rows(w, axis):
    """ONNX's gates i o f c in the order of PyTorch: i f c o."""
    i, o, g, c = np.split(w, 4, axis)
    return np.concatenate([i, g, c, o], axis)


def lstm_states(x, w, r, b, h, c):
    """All states, cells and gates, step by step."""
    hs, cs, gates = [], [], []
    w, r, b, h, c = w[0], r[0], b[0], h[0], c[0]
    for row in x:
        i, o, g, n = np.split(row @ w.T + h @ r.T + b[:len(b) // 2] + b[len(b) // 2:], 4, -1)
        i, o, g, n = 1 / (1 + np.exp(-i)), 1 / (1 + np.exp(-o)), 1 / (1 + np.exp(-g)), np.tanh(n)
        c = g * c + i * n
        h = o * np.tanh(c)
        hs.append(h), cs.append(c), gates.append(np.concatenate([i, o, g, n], -1))
    return [np.stack(v)[:, None] for v in (hs, cs, gates)]


def lstm_training(x, w, r, b, _, h, c):
    hs, cs, gates = lstm_states(x, w, r, b, h, c)
    return [hs, hs[-1], cs[-1], cs, gates]


def lstm_grads(b):
    def run(x, w, r, _, h, c, hs, cs, gates, *dy):
        layer = torch.nn.LSTM(x.shape[2], h.shape[2], dtype=torch.float64)
        weights = [iofc_rows(v, 0) for v in (w[0], r[0], *np.split(b[0].astype(np.float64), 2))]
        with torch.no_grad():
            for p, v in zip(layer.parameters(), weights):
                p.copy_(tensor(v))
        x, h, c = (tensor(v).requires_grad_() for v in (x, h, c))
        y, (y_h, y_c) = layer(x, (h, c))
        sum((u * tensor(d)).sum() for u, d in zip((y, y_h, y_c), (dy[0][:, 0], dy[1], dy[2]))).backward()

        def back(v):  # i f c o as i o f c
            i, g, n, o = np.split(v, 4, 0)
            return np.concatenate([i, o, g, n], 0)
        dw, dr, dbw, dbr = (back(p.grad.numpy()) for p in layer.parameters())
        return [x.grad.numpy(), dw[None], dr[None], np.concatenate([dbw, dbr])[None], h.grad.numpy(), c.grad.numpy()]
    return wide(run)


def lstms():
    T, B, I, H = 3, 2, 5, 4
    x, w, r, b, h, c = f(T, B, I), f(1, 4 * H, I), f(1, 4 * H, H), f(1, 8 * H), f(1, B, H), f(1, B, H)
    yield case("all", "LSTMTraining", [x, w, r, b, None, h, c], 5, reference=wide(lstm_training), hidden_size=H)
    yield case("cells", "LSTMTraining", [x, w, r, b, None, h, c], [True, False, False, True], hidden_size=H,
               reference=lambda *a: [wide(lstm_training)(*a)[k] for k in (0, 3)])
    kept = [v.astype(np.float32) for v in lstm_states(*(v.astype(np.float64) for v in (x, w, r, b, h, c)))]
    yield case("all", "LSTMGrad", [x, w, r, None, h, c, *kept, f(T, 1, B, H), f(1, B, H), f(1, B, H)], 6,
               reference=lstm_grads(b), hidden_size=H)


# ---- GRU ----

def gru_states(x, w, r, b, h, before):
    """All states and gates z r h, step by step, of tensors; before: linear_before_reset."""
    hs, gates = [], []
    (w, r, b, h), H = (v[0] for v in (w, r, b, h)), h.shape[2]
    bw, br = b[:3 * H], b[3 * H:]
    for row in x:
        sums, state = row @ w.T + bw, h @ r[:2 * H].T + br[:2 * H]
        z, g = torch.sigmoid(sums[:, :H] + state[:, :H]), torch.sigmoid(sums[:, H:2 * H] + state[:, H:])
        rest = g * (h @ r[2 * H:].T + br[2 * H:]) if before else (g * h) @ r[2 * H:].T + br[2 * H:]
        n = torch.tanh(sums[:, 2 * H:] + rest)
        h = (1 - z) * n + z * h
        hs.append(h), gates.append(torch.cat([z, g, n], -1))
    return torch.stack(hs)[:, None], torch.stack(gates)[:, None]


def gru_training(before):
    def run(x, w, r, b, _, h):
        hs, gates = gru_states(*(tensor(v) for v in (x, w, r, b, h)), before)
        return [hs.numpy(), hs[-1].numpy(), gates.numpy()]
    return wide(run)


def gru_grads(before):
    def run(x, w, r, b, _, h, hs, gates, dy, dy_h):
        operands = [tensor(v).requires_grad_() for v in (x, w, r, b, h)]
        y = gru_states(*operands, before)[0]
        ((y * tensor(dy)).sum() + (y[-1] * tensor(dy_h)).sum()).backward()
        return [v.grad.numpy() for v in operands]
    return wide(run)


def grus():
    T, B, I, H = 3, 2, 5, 4
    x, w, r, b, h = f(T, B, I), f(1, 3 * H, I), f(1, 3 * H, H), f(1, 6 * H), f(1, B, H)
    zero_b, zero_h, dy, dy_h = np.zeros_like(b), np.zeros_like(h), f(T, 1, B, H), f(1, B, H)
    for before in (0, 1):
        how = {"hidden_size": H, "linear_before_reset": before}
        yield case(f"all_{before}", "GRUTraining", [x, w, r, b, None, h], 3, reference=gru_training(before), **how)
        yield case(f"gates_{before}", "GRUTraining", [x, w, r], [False, False, True], **how,
                   reference=lambda x, w, r, k=before: gru_training(k)(x, w, r, zero_b, None, zero_h)[2:])
        hs, _, gates = gru_training(before)(x, w, r, b, None, h)
        yield case(f"all_{before}", "GRUGrad", [x, w, r, b, None, h, hs, gates, dy, dy_h], 5,
                   reference=gru_grads(before), tolerance="recurrent_f32", **how)
        hs, _, gates = gru_training(before)(x, w, r, zero_b, None, zero_h)
        yield case(f"bare_{before}", "GRUGrad", [x, w, r, None, None, None, hs, gates, dy], [True, True, True, True],
                   reference=lambda x, w, r, *rest, k=before: gru_grads(k)(x, w, r, zero_b, None, zero_h, *rest[3:],
                                                                          zero_h)[:4],
                   tolerance="recurrent_f32", **how)


CASES = [*ELEMENTS, *softmaxes(), *WINDOWS, *PICKS, *norms(), *LOSSES, *REST, *OPTIMIZERS, *lstms(), *grus()]
REFUSED = [
    (case("shapes", "InPlaceAccumulatorV2", [f(3), f(4)], 2), ["dim", "3", "4"]),
    (case("shapes", "BroadcastGradientArgs", [shape_of(2), shape_of(3)], 2, constants=(0, 1)), "do not broadcast"),
    (case("sizes", "SplitTraining", [f(5), shape_of(2, 3)], 3, constants=(1,)), ["2 sizes", "3 outputs"]),
    (case("none", "SoftmaxCrossEntropy", [f(3, 5), f(3, 5)], reduction="none"), "expected mean or sum"),
    (case("both", "IsAllFinite", [f(3)], isinf_only=1, isnan_only=1), "at most one"),
    (case("scale", "BatchScale", [f(3)], 3, scale_0=1.0, scale_1=2.0), "scale_2"),
    (case("dims", "MaxPoolGrad", [f(1, 1, 2, 2), i64(4, 1, 1, 2, 2)], domain="", kernel_shape=[2, 2]), "declare"),
    (case("reverse", "LSTMTraining", [f(3, 2, 5), f(1, 16, 5), f(1, 16, 4)], direction="reverse"), "expected forward"),
    (case("reverse", "GRUTraining", [f(3, 2, 5), f(1, 12, 5), f(1, 12, 4)], direction="reverse"), "expected forward"),
    (case("states", "GRUGrad", [f(3, 2, 5), f(1, 12, 5), f(1, 12, 4)], 3), "HAll is missing"),
    (case("narrow", "FakeQuant", [f(3, t=BF16), f(t=BF16), f(t=BF16)], 2), ["input 0", "bfloat16"]),
    (case("vector", "BatchNormalizationGrad", [f(2, 3), f(2, 3), f(3), f(4), f(3)], 3, epsilon=1e-5), ["4", "3"]),
]
