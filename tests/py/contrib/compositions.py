"""Cases of operators of com.microsoft for which onnxruntime has a schema and no kernel on the CPU, or nearly nothing to
do: products with an activation, Fourier transforms, integers, pads of the run. References are numpy's and torch's."""
import numpy as np
import torch

from . import case, stream
from .layers import odd

R, f, _ = stream(21)


def i8(*shape, t=np.int8):
    return R.integers(np.iinfo(t).min, np.iinfo(t).max + 1, shape).astype(t)


# ---- FusedMatMulActivation ----

def product(a, b, activation, trans_a=0, trans_b=0, alpha=1.0):
    x, y = (torch.from_numpy(v.astype(np.float64)) for v in (a, b))
    x, y = x.mT if trans_a else x, y.mT if trans_b else y
    return [activation(alpha * (x @ y)).numpy().astype(a.dtype)]


NN = torch.nn.functional
ACTIVATED = [
    case(f"{name} {t.__name__}", "FusedMatMulActivation", [f(2, 3, 5, t=t), f(5, 7, t=t)], activation=name, alpha=0.5,
         reference=lambda a, b, fn=fn: product(a, b, fn, alpha=0.5), **numbers)
    for t in (np.float32, np.float16, np.float64)
    for name, fn, numbers in (
        ("Relu", NN.relu, {}), ("Tanh", torch.tanh, {}),
        ("LeakyRelu", lambda x: NN.leaky_relu(x, 0.25), {"activation_alpha": 0.25}),
        ("HardSigmoid", lambda x: (0.5 * x + 0.25).clamp(0, 1), {"activation_alpha": 0.5, "activation_beta": 0.25}))]
ACTIVATED += [
    case("transposed", "FusedMatMulActivation", [f(5, 3), f(7, 5)], activation="Relu", transA=1, transB=1,
         reference=lambda a, b: product(a, b, NN.relu, 1, 1)),
    case("empty", "FusedMatMulActivation", [f(0, 3), f(3, 4)], activation="Relu",
         reference=lambda a, b: product(a, b, NN.relu)),
    case("no sums", "FusedMatMulActivation", [f(2, 0), f(0, 4)], activation="Sigmoid",
         reference=lambda a, b: product(a, b, torch.sigmoid)),
    case("odd", "FusedMatMulActivation", [odd(f(3, 5)), f(5, 2)], activation="Relu",
         reference=lambda a, b: product(a, b, NN.relu))]


# ---- Rfft, Irfft ----

def rfft(dims):
    def run(x):
        y = np.fft.rfftn(x.astype(np.float64), axes=range(-dims, 0))
        return [np.stack([y.real, y.imag], -1).astype(x.dtype)]
    return run


def irfft(dims):
    def run(x):
        z = x[..., 0].astype(np.float64) + 1j * x[..., 1]
        z = np.fft.ifftn(z, axes=range(-dims, -1)) if dims > 1 else z
        return [np.fft.irfft(z, axis=-1).astype(x.dtype)]
    return run


FOURIER = [case(f"{shape} {dims} {t.__name__}", "Rfft", [f(*shape, t=t)], reference=rfft(dims), signal_ndim=dims,
                tolerance="device_f16" if t is np.float16 else None)  # one DFT after the other, rounded in between
           for t in (np.float32, np.float64, np.float16)
           for shape, dims in (((8,), 1), ((2, 7), 1), ((3, 1), 1), ((2, 4, 6), 2), ((0, 4), 1), ((2, 3, 4, 5), 3))]
FOURIER += [case("by default", "Rfft", [f(2, 9)], reference=rfft(1))]
FOURIER += [case(f"{shape} {dims} {t.__name__}", "Irfft", [f(*shape, 2, t=t)], reference=irfft(dims), signal_ndim=dims)
            for t in (np.float32, np.float64, np.float16)
            for shape, dims in (((5,), 1), ((2, 4), 1), ((2, 4, 3), 2), ((0, 4), 1), ((2, 3, 4, 5), 3))]


# ---- integers ----

def mul(a, a_zero, b, b_zero):
    x, y = (v.astype(np.int32) - (0 if z is None else z.reshape(()).astype(np.int32)) for v, z in
            ((a, a_zero), (b, b_zero)))
    return [x * y]


def sums(axes, keep):
    def run(x):
        to = np.uint32 if x.dtype == np.uint8 else np.int32
        return [x.astype(to).sum(tuple(axes), keepdims=bool(keep), dtype=to)]
    return run


INTEGERS = [case(f"{t.__name__} {name}", "MulInteger", [a, za, b, zb], reference=mul)
            for t in (np.int8, np.uint8)
            for name, a, za, b, zb in (
                ("zeros", i8(3, 5, t=t), i8(t=t), i8(3, 5, t=t), i8(1, t=t)),
                ("no zeros", i8(3, 5, t=t), None, i8(5, t=t), None),
                ("one zero", i8(3, 1, t=t), None, i8(1, 4, t=t), i8(t=t)),
                ("empty", i8(0, 4, t=t), i8(t=t), i8(4, t=t), None),
                ("scalars", i8(t=t), i8(1, t=t), i8(t=t), None))]
INTEGERS += [case(f"{t.__name__} {axes} {keep}", "ReduceSumInteger", [i8(3, 40, 7, t=t)], axes=axes, keepdims=keep,
                  reference=sums(axes, keep))
             for t in (np.int8, np.uint8) for axes, keep in (([1], 0), ([-1, 0], 1), ([0, 1, 2], 0))]
INTEGERS += [case("empty", "ReduceSumInteger", [i8(3, 0)], axes=[1], keepdims=1, reference=sums([1], 1))]


# ---- ConvTransposeWithDynamicPads ----

def transposed(pads, **how):
    n = len(pads) // 2

    def run(x, w, _, bias=None):
        wide = [None if v is None else torch.from_numpy(v.astype(np.float64)) for v in (x, w, bias)]
        conv = (NN.conv_transpose1d, NN.conv_transpose2d, NN.conv_transpose3d)[n - 1]
        y = conv(wide[0], wide[1], wide[2], **how)
        cut = tuple(slice(pads[i], y.shape[2 + i] - pads[n + i]) for i in range(n))
        return [y[(slice(None), slice(None), *cut)].numpy().astype(x.dtype)]
    return run


def pads_case(name, shape, kernel, pads, held=(), t=np.float32, torch_how=None, bias=None, **attributes):
    inputs = [f(*shape, t=t), f(*kernel, t=t), np.array(pads, np.int64)] + ([bias] if bias is not None else [])
    return case(name, "ConvTransposeWithDynamicPads", inputs, constants=held, tolerance=None,
                reference=transposed(pads, **(torch_how or {})), **attributes)


PADS = [
    pads_case("2-D", (1, 2, 4, 5), (2, 3, 3, 3), [1, 0, 1, 2]),
    pads_case("held", (1, 2, 4, 5), (2, 3, 3, 3), [1, 0, 1, 2], held=(2,)),
    pads_case("none", (2, 2, 4), (2, 3, 3), [0, 0]),
    pads_case("strides", (1, 4, 3, 3), (4, 1, 3, 3), [1, 1, 0, 0], strides=[2, 3], group=2, output_padding=[1, 0],
              bias=f(2), torch_how={"stride": (2, 3), "groups": 2, "output_padding": (1, 0)}),
    pads_case("dilations", (1, 1, 6), (1, 1, 3), [2, 1], dilations=[2], torch_how={"dilation": 2}),
    pads_case("3-D", (1, 1, 2, 3, 2), (1, 2, 2, 2, 2), [0, 1, 0, 1, 0, 1]),
    pads_case("double", (1, 2, 4, 5), (2, 3, 3, 3), [1, 0, 1, 2], t=np.float64),
    pads_case("half", (1, 2, 4), (2, 3, 3), [1, 1], t=np.float16),
    case("left out", "ConvTransposeWithDynamicPads", [f(1, 2, 4), f(2, 3, 3)],
         reference=lambda x, w: transposed([0, 0])(x, w, None))]

SAMPLES = [case(f"{t.__name__} {shape}", "SampleOp", [R.integers(0, 100, shape).astype(t)], reference=lambda x: [x])
           for t in (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint32, np.uint64)
           for shape in ((3, 5), (), (0, 2))]

CASES = [*ACTIVATED, *FOURIER, *INTEGERS, *PADS, *SAMPLES]
REFUSED = [
    (case("unknown", "FusedMatMulActivation", [f(2, 3), f(3, 4)], activation="Frob"), "'Frob' is not known"),
    (case("no number", "FusedMatMulActivation", [f(2, 3), f(3, 4)], activation="LeakyRelu"), "0 numbers, expected 1"),
    (case("normalized", "Rfft", [f(4)], normalized=1), "normalized is not 0"),
    (case("both sides", "Rfft", [f(4)], onesided=0), "onesided is not 1"),
    (case("many dims", "Rfft", [f(4)], signal_ndim=2), "X has 1 dims, expected at least 2"),
    (case("parts", "Irfft", [f(4, 3)], signal_ndim=1), "expected 2"),
    (case("dims", "Irfft", [f(4, 2)], signal_ndim=4), "signal_ndim is 4"),
    (case("shapes", "MulInteger", [i8(2), None, i8(3), None]), "has a dim of 3 where 2 or 1 is expected"),
    (case("two zeros", "MulInteger", [i8(2), i8(2), i8(2), None]), "A_zero_point"),
    (case("axis", "ReduceSumInteger", [i8(2)], axes=[1], keepdims=1), "an axis is out of range"),
    (case("few pads", "ConvTransposeWithDynamicPads", [f(1, 1, 4), f(1, 1, 3), np.zeros(3, np.int64)]), "expected 2"),
    (case("negative", "ConvTransposeWithDynamicPads", [f(1, 1, 4), f(1, 1, 3), np.array([-1, 0])], constants=(2,)),
     "a pad is negative")]
