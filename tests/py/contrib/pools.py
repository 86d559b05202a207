"""Cases of com.ms.internal.nhwc: pools with channels last, in every float type. ONNX's own operators on turned data are
the reference; onnxruntime has kernels for float16 on some processors alone."""
import numpy as np

import contrib

from .blocked import standard

DOMAIN = "com.ms.internal.nhwc"
draw = np.random.default_rng(31)


def last(*shape, t=np.float16):
    return draw.standard_normal(shape).astype(t)


def case(name, op, x, **attributes):
    def turned(x):
        y = standard(op, [np.moveaxis(x, -1, 1).astype(np.float32)], **attributes)
        return [np.moveaxis(y, 1, -1).astype(x.dtype)]
    return contrib.case(name, op, [x], domain=DOMAIN, reference=turned, **attributes)


ODD = last(1, 4, 5, 3)
ODD[0, 1, 2, 0] = np.inf
WINDOW = dict(kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1])
CASES = [
    *[case(f"{t.__name__}", op, last(2, 6, 5, 7, t=t), **WINDOW) for t in (np.float16, np.float32)
      for op in ("MaxPool", "AveragePool")],
    case("counted", "AveragePool", last(2, 6, 5, 3), count_include_pad=1, **WINDOW),
    case("ceiling", "MaxPool", last(1, 6, 5, 3), ceil_mode=1, dilations=[1, 2], **WINDOW),
    case("same", "MaxPool", last(1, 6, 5, 3), kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    case("one dim", "AveragePool", last(2, 9, 3), kernel_shape=[3]),
    case("empty", "MaxPool", last(0, 6, 5, 3), kernel_shape=[2, 2]),
    *[case(f"{x.shape}", "GlobalAveragePool", x) for x in (last(2, 6, 5, 3), last(1, 1, 1, 4), ODD, last(2, 5, 3),
                                                           last(2, 3, 4, 5, 2, t=np.float32))],
]
REFUSED = [(contrib.case("window", "MaxPool", [last(1, 6, 5, 3)], domain=DOMAIN, kernel_shape=[2, 2, 2]),
            "kernel_shape")]
