"""Cases of com.microsoft.nchwc: channels in blocks of the size that this machine's onnxruntime uses. Where it has none
of these operators, as on AArch64, the blocks are those of Nacre, and values are compared with ONNX's own operators on
data laid out plainly."""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import contrib

DOMAIN = "com.microsoft.nchwc"
draw = np.random.default_rng(11)


def f32(*shape):
    return draw.standard_normal(shape).astype(np.float32)


def case(name, op, inputs, **more):
    made = contrib.case(name, op, inputs, domain=DOMAIN, needs_sizes=True, **more)
    return made if THEIRS else made._replace(reference=lambda *x: [written_out(op, x, made.attributes)])


def block_size():
    """Channels of a block, as they are filled up; and whether onnxruntime has such operators."""
    one = contrib.case("size", "ReorderInput", [f32(1, 4, 2, 2)], domain=DOMAIN)
    try:
        return contrib.by_onnxruntime(one)[0].shape[1], True
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as e:
        assert "is not a registered function/op" in str(e)
        return contrib.by_nacre(one)[0].shape[1], False


def plain(x):
    n, c, h, w = x.shape
    return x.reshape(n, c // C, h, w, C).transpose(0, 1, 4, 2, 3).reshape(x.shape)


def in_blocks(x):
    n, c, h, w = x.shape
    return x.reshape(n, c // C, C, h, w).transpose(0, 1, 3, 4, 2).reshape(x.shape)


def plain_weights(w, blocks):
    """(O/C, I/C, h, w, C of I, C of O) as (O, I, h, w); blocks False: only the outputs are in blocks."""
    o, i, h, k = w.shape
    if blocks:
        return w.reshape(o // C, i // C, h, k, C, C).transpose(0, 5, 1, 4, 2, 3).reshape(w.shape)
    return w.reshape(o // C, i, h, k, C).transpose(0, 4, 1, 2, 3).reshape(w.shape)


def standard(op, inputs, **attributes):
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(inputs)]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "one",
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
                               for n, x in zip(names, inputs) if n],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {n: x for n, x in zip(names, inputs) if n})[0]


def activated(y, kind, params=()):
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(kind, ())
    if kind == "Clip":
        return np.clip(y, *params)
    return standard(kind, [y], **dict(zip(names, params))) if kind else y


def convolved(inputs, activation=None, activation_params=(), **attributes):
    x, w, bias, more = (*inputs, None, None)[:4]
    blocks = x.shape[1] >= C
    deep = attributes.get("group", 1) == x.shape[1] and w.shape[1] == 1
    y = standard("Conv", [plain(x) if blocks else x, plain_weights(w, blocks and not deep), bias], **attributes)
    return in_blocks(activated(y if more is None else y + plain(more), activation, activation_params))


def resized(x, scales, mode="nearest", **how):
    how = {"coordinate_transformation_mode": "asymmetric", **how}
    if mode == "nearest":
        how["nearest_mode"] = "floor"
    return standard("Resize", [x, None, np.float32(scales)], mode=mode, **how)


def written_out(op, inputs, attributes):
    x, last = inputs[0], attributes.get("channels_last")
    if op == "ReorderInput":
        x = x.transpose(0, 3, 1, 2) if last else x
        return in_blocks(np.pad(x, [(0, 0), (0, -x.shape[1] % C), (0, 0), (0, 0)]))
    if op == "ReorderOutput":
        y = plain(x)[:, :attributes["channels"]]
        return y.transpose(0, 2, 3, 1) if last else y
    if op == "Conv":
        return convolved(inputs, **attributes)
    if op == "Upsample":
        return in_blocks(resized(plain(x), **attributes))
    return in_blocks(standard(op, [plain(x)], **attributes))


C, THEIRS = block_size()
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
