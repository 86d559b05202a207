"""Cases of com.microsoft.nchwc: channels in blocks of the size that this machine's onnxruntime uses."""
import numpy as np

import contrib

DOMAIN = "com.microsoft.nchwc"
draw = np.random.default_rng(11)


def f32(*shape):
    return draw.standard_normal(shape).astype(np.float32)


def case(name, op, inputs, **more):
    return contrib.case(name, op, inputs, domain=DOMAIN, needs_sizes=True, **more)


def block_size():
    """Channels of a block, as onnxruntime fills them up."""
    return contrib.by_onnxruntime(case("size", "ReorderInput", [f32(1, 4, 2, 2)]))[0].shape[1]


C = block_size()
X, TWO = f32(2, 2 * C, 7, 5), f32(1, 2 * C, 1, 1)
ODD = X.copy()
ODD[0, 3, 2, 1], ODD[1, 0, 0, 0] = np.nan, np.inf
WINDOW = dict(kernel_shape=[3, 3], pads=[1, 0, 1, 2], strides=[2, 1])
W3, DEEP, GROUPS = f32(C, 2 * C, 3, 3) / 16, f32(2 * C, 1, 3, 3) / 3, f32(2 * C, C, 1, 1) / 4

CASES = [
    *[case(f"{c}{'-last' if last else ''}", "ReorderInput", [f32(2, 4, 3, c) if last else f32(2, c, 4, 3)],
           channels_last=last) for c in (4, C, C + 4) for last in (0, 1)],
    case("empty", "ReorderInput", [f32(0, C, 4, 3)]),
    *[case(f"{c}{'-last' if last else ''}", "ReorderOutput", [X], channels=c, channels_last=last)
      for c in (C + 4, 2 * C) for last in (0, 1)],
    case("plain data", "Conv", [f32(2, 3, 8, 7), f32(2 * C, 3, 3, 3) / 4, f32(2 * C)], pads=[1, 1, 1, 1],
         kernel_shape=[3, 3]),
    case("blocks", "Conv", [X, W3], **WINDOW),
    case("1x1", "Conv", [TWO, f32(2 * C, 2 * C, 1, 1) / 6, f32(2 * C)], kernel_shape=[1, 1]),
    case("no bias, sum", "Conv", [X, W3, None, f32(2, C, 5, 3)], kernel_shape=[3, 3]),
    case("held weights", "Conv", [X, W3, f32(C)], constants=[1, 2], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    case("dilations", "Conv", [X, W3], kernel_shape=[3, 3], dilations=[2, 2]),
    case("own windows", "Conv", [X, DEEP, f32(2 * C)], group=2 * C, **WINDOW),
    case("groups", "Conv", [X, GROUPS], group=2, kernel_shape=[1, 1]),
    *[case(f"sum, {a}", "Conv", [X, W3, f32(C), f32(2, C, 5, 3)], activation=a, kernel_shape=[3, 3], **more)
      for a, more in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", dict(activation_params=[0.1])),
                      ("Clip", dict(activation_params=[-0.5, 1.0])),
                      ("HardSigmoid", dict(activation_params=[0.3, 0.4])))],
    case("plain", "MaxPool", [X], kernel_shape=[2, 3]),
    case("window", "MaxPool", [X], ceil_mode=1, dilations=[1, 2], **WINDOW),
    case("plain", "AveragePool", [X], kernel_shape=[2, 2], strides=[2, 2]),
    case("pads", "AveragePool", [X], **WINDOW),
    case("pads counted", "AveragePool", [X], count_include_pad=1, **WINDOW),
    *[case(name, f"Global{kind}Pool", [x]) for kind in ("Max", "Average") for name, x in (("plain", X), ("one", TWO))],
    case("infinities", "GlobalAveragePool", [ODD]),
    case("nearest", "Upsample", [X], scales=[1, 1, 2, 3]),
    *[case(f"linear, {mode}", "Upsample", [X], scales=[1, 1, 2, 3], mode="linear",
           coordinate_transformation_mode=mode) for mode in ("asymmetric", "align_corners", "half_pixel")],
]
REFUSED = [
    (case("rank", "ReorderInput", [f32(2, 3, 4)]), "3 dims, expected 4"),
    (case("blocks", "GlobalMaxPool", [f32(1, C + 1, 2, 2)]), f"expected a multiple of {C}"),
    (case("channels", "ReorderOutput", [X], channels=2 * C + 1), "channels is"),
    (case("weights", "Conv", [X, f32(C + 2, 2 * C, 1, 1)]), "another processor"),
    (case("sum", "Conv", [X, W3, None, f32(2, C, 5, 4)]), "expected 3"),
    (case("scales", "Upsample", [X], scales=[1, 2, 2, 2]), "scales: expected"),
    (case("activation", "Conv", [X, W3], activation="Nothing"), "'Nothing' is not known"),
]
