"""Forms that exported models rely on, each a model of one or a few nodes against onnxruntime: attributes of old
operator sets, ends beyond the data, negative axes, ties, empty dims, absent optional inputs and outputs,
          unused inputs, names of outer graphs, and what onnxruntime takes though the standard does not say so."""
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tolerances import close

onnxruntime.set_default_logger_severity(4)
KIND = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "i": TensorProto.INT64, "I": TensorProto.INT32,
        "b": TensorProto.BOOL, "s": TensorProto.STRING, "h": TensorProto.FLOAT16, "u": TensorProto.UINT8}
RNG = np.random.default_rng(11)


def f(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def element(x):
    x = np.asarray(x)
    return TensorProto.STRING if x.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(x.dtype)


def declared(x):
    """Dims are free, but for integers: how many there are may be a rank, which is known before a run; and for those of
    size 1 in front, which Squeeze takes away."""
    return list(x.shape) if x.dtype == np.int64 or x.shape[:1] == (1,) else [None] * x.ndim


def case(op, opset, inputs, out="f", constants=(), inits=None, **attributes):
    """One node. inputs: arrays in order, None where one is left out; constants: which of them are initializers;
    out: kinds of the outputs, '-' where one is left out."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outs = ["" if k == "-" else f"y{i}" for i, k in enumerate(out)]
    given = {n: np.asarray(x) for i, (n, x) in enumerate(zip(names, inputs)) if n and i not in constants}
    graph = helper.make_graph(
        [helper.make_node(op, names, outs, **attributes)], "form",
        [helper.make_tensor_value_info(n, element(x), declared(x)) for n, x in given.items()],
        [helper.make_tensor_value_info(n, KIND[k], None) for n, k in zip(outs, out) if n],
        [numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in constants])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]), given


def text(body, feeds):
    return onnx.parser.parse_model(body), feeds


A = f(2, 3, 4)
BOXES = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11, 0, 10], [0,
          100, 1, 101]]])
TEXTS = np.array([["1.5", " 2 ", "-3e2"], ["inf", "0", "7"]], dtype=object)
LSTM = {"W": f(1, 16, 3), "R": f(1, 16, 4), "B": f(1, 32), "X": f(5, 2, 3)}


def older(old, new):
    """A form too old for onnxruntime, with the newer one that means the same on the same inputs."""
    return old[0], old[1], new[0]


def halves(steps):
    """Each step keeps at most half of what there is and two more, and adds x: its size uses the one before twice."""
    node = helper.make_node
    nodes = [node("Identity", ["x"], ["t0"])]
    for i in range(steps):
        nodes += [node("Shape", [f"t{i}"], [f"s{i}"]), node("Div", [f"s{i}", "two"], [f"h{i}"]),
                  node("Add", [f"h{i}", "two"], [f"e{i}"]), node("Slice", [f"t{i}", "zero", f"e{i}"], [f"p{i}"]),
                  node("Concat", [f"p{i}", "x"], [f"t{i + 1}"], axis=0)]
    graph = helper.make_graph(nodes, "form", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info(f"t{steps}", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(ints(2), "two"), numpy_helper.from_array(ints(0), "zero")])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), {"x": f(20)}


def forms():
    """{name: (model, feeds) or (model, feeds, the model for onnxruntime)}"""
    c = {}
    # Operator sets 1 to 6: axis and broadcast, attributes that became inputs.
    row, square, one = f(3), f(3, 4), f(1)
    for opset, op in ((1, "Add"), (6, "Add"), (6, "Sub"), (6, "Mul"), (1, "Div")):
        c[f"{op}_{opset}_axis"] = older(case(op, opset, [A, row], broadcast=1, axis=1, constants=[1]),
                                        case(op, 7, [A, row[:, None]], constants=[1]))
    c["add_broadcast_trailing"] = older(case("Add", 6, [A, square], broadcast=1), case("Add", 7, [A, square]))
    c["mul_broadcast_scalar"] = older(case("Mul", 6, [A, one], broadcast=1), case("Mul", 7, [A, one]))
    c["pow_broadcast"] = older(case("Pow", 1, [np.abs(A), one], broadcast=1), case("Pow", 7, [np.abs(A), one]))
    c["prelu_6"] = older(case("PRelu", 6, [A, row], constants=[1]), case("PRelu", 7, [A, row[:, None]], constants=[1]))
    operands = [f(2, 3), f(3, 4), f(4)]
    c["gemm_broadcast"] = older(case("Gemm", 6, operands, broadcast=1), case("Gemm", 7, operands))
    for opset in (1, 6):
        old = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
        statistics = [f(2, 3, 4), f(3), f(3), f(3), np.abs(f(3))]
        c[f"batch_norm_{opset}"] = older(case("BatchNormalization", opset, statistics, is_test=1, **old),
                                         case("BatchNormalization", 7, statistics))
        c[f"dropout_test_{opset}"] = older(case("Dropout", opset, [A], is_test=1, ratio=0.4), case("Identity", 1, [A]))
    c["reshape_attribute"] = case("Reshape", 1, [A], shape=[0, -1])
    c["dropout_7"] = case("Dropout", 7, [A], ratio=0.4)
    c["dropout_10_mask"] = case("Dropout", 10, [A], out="fb", ratio=0.4)
    c["dropout_12_inference"] = case("Dropout", 12, [A, np.float32(0.4)], out="fb")
    c["batch_norm_7"] = case("BatchNormalization", 7, [f(2, 3, 4), f(3), f(3), f(3), np.abs(f(3))])
    c["batch_norm_7_vector"] = case("BatchNormalization", 7, [f(2, 3), f(3), f(3), f(3), np.abs(f(3))])
    c["batch_norm_14"] = case("BatchNormalization", 14, [f(2, 3, 4), f(3), f(3), f(3), np.abs(f(3))], epsilon=0.1)
    c["clip_6"] = case("Clip", 6, [A], min=-0.5, max=0.25)
    c["clip_6_one_side"] = case("Clip", 6, [A], max=0.25)
    c["clip_13_no_min"] = case("Clip", 13, [A, None, np.float32(0.25)])
    c["slice_1"] = case("Slice", 1, [A], axes=[1, 2], starts=[0, -3], ends=[1 << 40, -1])
    c["pad_2"] = case("Pad", 2, [A], pads=[0, 1, 2, 0, 0, 3], value=1.5)
    c["pad_2_reflect"] = case("Pad", 2, [A], pads=[0, 1, 2, 0, 0, 3], mode="reflect")
    c["pad_11_negative"] = case("Pad", 11, [A, ints(0, -1, 1, 0, 0, -2)])
    c["pad_18_axes"] = case("Pad", 18, [A, ints(1, 2), None, ints(-1)])
    c["pad_19_wrap"] = case("Pad", 19, [A, ints(0, 1, 2, 0, 1, 1)], mode="wrap")
    c["squeeze_1"] = case("Squeeze", 1, [f(1, 3, 1)], axes=[0])
    c["squeeze_11_negative"] = case("Squeeze", 11, [f(1, 3, 1)], axes=[-1])
    c["squeeze_13_all"] = case("Squeeze", 13, [f(1, 3, 1)])
    c["unsqueeze_1"] = case("Unsqueeze", 1, [A], axes=[0, 4])
    c["unsqueeze_13_negative"] = case("Unsqueeze", 13, [A, ints(-1, 0)])
    c["split_2_even"] = case("Split", 2, [A], out="ff", axis=2)
    c["split_2_sizes"] = case("Split", 2, [A], out="ff", axis=1, split=[1, 2])
    c["split_13_sizes"] = case("Split", 13, [A, ints(3, 1)], out="ff", axis=-1)
    c["split_18_uneven"] = case("Split", 18, [f(7, 2)], out="fff", num_outputs=3)
    c["topk_1"] = case("TopK", 1, [A], out="fi", k=2)
    c["topk_10"] = case("TopK", 10, [A, ints(2)], out="fi", axis=1)
    c["topk_ties"] = case("TopK", 11, [np.float32([3, 1, 3, 3, 2]), ints(4)], out="fi")
    c["topk_ties_smallest"] = case("TopK", 11, [np.float32([3, 1, 3, 1, 1]), ints(4)], out="fi", largest=0)
    c["topk_zero"] = case("TopK", 11, [A, ints(0)], out="fi")
    c["reduce_11_axes"] = case("ReduceSum", 11, [A], axes=[-1, 0], keepdims=0)
    c["reduce_13_axes"] = case("ReduceSum", 13, [A, ints(-1)], keepdims=0)
    c["reduce_13_noop"] = case("ReduceSum", 13, [A], noop_with_empty_axes=1)
    c["reduce_13_empty_axes"] = case("ReduceSum", 13, [A, ints()], keepdims=0)
    c["reduce_mean_18"] = case("ReduceMean", 18, [A, ints(1, 2)])
    # A scalar along its one axis, which it has not: the axes are known in the run only, or an attribute.
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        for axis, keep in ((0, 0), (-1, 1)):
            c[f"reduce_{op}_scalar_{axis}"] = case(f"Reduce{op}", 13 if op == "Sum" else 18,
                                                   [np.float32(2.5), ints(axis)], keepdims=keep)
    for axis in (0, -1):
        c[f"reduce_11_scalar_{axis}"] = case("ReduceMax", 11, [np.float32(2.5)], axes=[axis], keepdims=0)
    c["softmax_1"] = case("Softmax", 1, [A], axis=1)
    c["softmax_11_negative"] = case("Softmax", 11, [A], axis=-2)
    c["softmax_13"] = case("Softmax", 13, [A], axis=1)
    c["log_softmax_11"] = case("LogSoftmax", 11, [A])
    c["hardmax_11_ties"] = case("Hardmax", 11, [np.float32([[1, 3, 3], [2, 2, 1]])])
    c["hardmax_13_lowest"] = case("Hardmax", 13, [np.float32([[-np.inf, -np.inf], [1, -np.inf]])])
    for opset in (11, 13):
        for shape, axis in (((2, 0), -1), ((2, 0, 3), 1), ((0, 3), 1), ((0,), 0)):
            c[f"hardmax_{opset}_{shape}"] = case("Hardmax", opset, [np.zeros(shape, np.float32)], axis=axis)
    c["upsample_7"] = case("Upsample", 7, [f(1, 2, 3, 4)], scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")
    c["upsample_9_linear"] = case("Upsample", 9, [f(1, 2, 3, 4), np.float32([1, 1, 2, 2])], constants=[1],
                                  mode="linear")
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        c[f"{op}_of_one"] = case(op, 17, [np.int64(1)], constants=[0], periodic=0)
    c["resize_10"] = case("Resize", 10, [f(1, 2, 4, 4), np.float32([1, 1, 0.6, 0.6])], constants=[1])
    c["flatten_negative"] = case("Flatten", 11, [A], axis=-1)
    c["flatten_0"] = case("Flatten", 9, [A], axis=0)
    c["scatter_9"] = case("Scatter", 9, [f(3, 3), np.int64([[1, 0, 2], [0, 2, 1]]), f(2, 3)], axis=0)
    c["cast_1"] = case("Cast", 6, [np.float32([1.9, -1.9, 0])], out="I", to=TensorProto.INT32)
    c["max_pool_1"] = case("MaxPool", 1, [f(1, 2, 5, 5)], kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    c["max_pool_ceil"] = case("MaxPool", 12, [f(1, 2, 5, 5)], out="fi", kernel_shape=[2, 2], strides=[2, 2],
                              ceil_mode=1)
    c["average_pool_7"] = case("AveragePool", 7, [f(1, 2, 5, 5)], kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                               count_include_pad=1)
    c["conv_auto_pad"] = case("Conv", 1, [f(1, 2, 5, 6), f(3, 2, 3, 3)], auto_pad="SAME_LOWER", strides=[2, 2])
    c["conv_transpose_shape"] = case("ConvTranspose", 1, [f(1, 2, 3, 3), f(2, 3, 3, 3)], strides=[2, 2],
                                     output_shape=[7, 8])
    c["conv_transpose_auto_pad"] = case("ConvTranspose", 11, [f(1, 2, 3, 3), f(2, 3, 3, 3)], strides=[2, 2],
                                        auto_pad="SAME_UPPER")
    c["lrn"] = case("LRN", 1, [f(1, 5, 3, 3)], size=3)
    c["prelu_channels"] = case("PRelu", 9, [f(2, 3, 4), f(3, 1)])
    c["matmul_vector"] = case("MatMul", 9, [f(3), f(3, 4)])
    c["matmul_broadcast"] = case("MatMul", 13, [f(2, 1, 3, 4), f(5, 4, 2)])
    c["gemm_no_c"] = case("Gemm", 11, [f(2, 3), f(4, 3)], transB=1, alpha=0.5)
    c["gemm_scalar_c"] = case("Gemm", 11, [f(2, 3), f(3, 4), np.float32(2)], beta=0.5)
    # Shapes.
    c["reshape_0_and_minus_1"] = case("Reshape", 13, [A, ints(0, -1)])
    c["reshape_allowzero"] = case("Reshape", 14, [f(0, 3), ints(3, 0)], allowzero=1)
    c["reshape_scalar"] = case("Reshape", 13, [f(1), ints()])
    c["expand_smaller"] = case("Expand", 13, [f(3, 1), ints(2, 1, 4)])
    c["expand_1"] = case("Expand", 13, [f(3, 4), ints(1)])
    c["constant_of_shape_scalar"] = case("ConstantOfShape", 9, [ints()])
    c["constant_of_shape_zero"] = case("ConstantOfShape", 9, [ints(2, 0)], out="i",
                                       value=numpy_helper.from_array(np.int64([7])))
    c["slice_huge_end"] = case("Slice", 13, [A, ints(0, 1), ints(2 ** 63 - 1, 2 ** 31 - 1), ints(-1, 1)])
    c["slice_backwards"] = case("Slice", 13, [A, ints(-1), ints(-2 ** 63), ints(2), ints(-1)])
    c["slice_backwards_step_2"] = case("Slice", 13, [A, ints(100), ints(-100), ints(2), ints(-2)])
    c["slice_empty"] = case("Slice", 13, [A, ints(3), ints(1), ints(2)])
    c["slice_int32"] = case("Slice", 10, [A, np.int32([1]), np.int32([3]), np.int32([2])])
    c["gather_negative"] = case("Gather", 13, [A, np.int64([[-1, 0], [1, -3]])], axis=1)
    c["gather_scalar"] = case("Gather", 1, [A, np.int64(1)], axis=2)
    c["gather_empty"] = case("Gather", 13, [A, ints()], axis=1)
    c["gather_elements_negative"] = case("GatherElements", 11, [f(3, 3), np.int64([[-1, 0, -2]])], axis=0)
    c["gather_nd_batch"] = case("GatherND", 12, [A, np.int64([[-1], [0]])], batch_dims=1)
    c["scatter_nd_add"] = case("ScatterND", 16, [f(4), np.int64([[1], [1], [-1]]), f(3)], reduction="add")
    c["scatter_elements_max"] = case("ScatterElements", 18, [f(4), ints(1, 1, -1), f(3)], reduction="max")
    c["transpose_default"] = case("Transpose", 13, [A])
    c["concat_negative"] = case("Concat", 11, [A, A], axis=-1)
    c["concat_zero"] = case("Concat", 13, [A, f(2, 0, 4)], axis=1)
    c["tile_zero"] = case("Tile", 13, [f(2, 3), ints(0, 2)])
    c["range_backwards"] = case("Range", 11, [np.float32(3), np.float32(-1), np.float32(-0.75)])
    c["range_empty"] = case("Range", 11, [np.int64(3), np.int64(1), np.int64(1)], out="i")
    c["shape_15"] = case("Shape", 15, [A], out="i", start=-2, end=9)
    c["nonzero_scalar"] = case("NonZero", 13, [np.float32(2)], out="i")
    c["nonzero_none"] = case("NonZero", 13, [np.zeros((2, 3), np.float32)], out="i")
    c["trilu_k"] = case("Trilu", 14, [f(3, 4), np.int64(-1)], upper=0)
    c["onehot_negative"] = case("OneHot", 11, [ints(-1, 1, 9), np.int64(4), np.float32([2, 5])], axis=0)
    c["cumsum_exclusive"] = case("CumSum", 14, [A, np.int32(-1)], exclusive=1, reverse=1)
    c["eye_like"] = case("EyeLike", 9, [f(3, 4)], k=-1)
    c["unique_axis"] = case("Unique", 11, [np.float32([[1, 0], [1, 0], [0, 2]])], out="fiii", axis=0)
    c["unique_unsorted"] = case("Unique", 11, [np.float32([3, 1, 3, 2])], out="f-ii", sorted=0)
    c["compress_flat"] = case("Compress", 11, [f(2, 3), np.array([False, True, True, False, True])])
    c["einsum_trace"] = case("Einsum", 12, [f(3, 3)], equation="ii->i")
    c["einsum_implicit"] = case("Einsum", 12, [f(2, 3), f(3, 4)], equation="ij,jk")
    c["einsum_ellipsis"] = case("Einsum", 12, [f(2, 5, 3), f(2, 3, 4)], equation="...ij, ...jk -> ...ik")
    c["einsum_ellipsis_spread"] = case("Einsum", 12, [f(2, 1, 5, 3), f(2, 4, 3, 2)], equation="...ij,...jk->...ik")
    c["einsum_sum"] = case("Einsum", 12, [f(2, 3), f(2, 3)], equation="ij,ij->")
    c["einsum_three"] = case("Einsum", 12, [f(2, 3), f(3, 4), f(4, 5)], equation="ij,jk,kl->il")
    c["einsum_capital"] = case("Einsum", 12, [f(2, 3), f(3, 4)], equation="Aj,jb->bA")
    # Numbers.
    c["mod_negative"] = case("Mod", 13, [ints(-7, 7, -7), ints(3, -3, -3)], out="i")
    c["fmod"] = case("Mod", 13, [np.float32([-4.3, 7.2, 5]), np.float32([2.1, -3.4, 8])], fmod=1)
    c["div_negative"] = case("Div", 13, [ints(-7, 7, -8), ints(2, -2, 3)], out="i")
    c["pow_int"] = case("Pow", 13, [ints(2, -3, 0), np.float32([3, 2, 0])], out="i")
    c["round_half"] = case("Round", 11, [np.float32([0.5, 1.5, 2.5, -0.5, -2.5])])
    c["sign_nan"] = case("Sign", 13, [np.float32([-2, 0, 3, -0.0])])
    c["clip_nan"] = case("Clip", 13, [np.float32([np.nan, 5, -5]), np.float32(-1), np.float32(1)])
    c["clip_crossed"] = case("Clip", 12, [np.float32([0, 5, -5]), np.float32(1), np.float32(-1)])
    c["max_nan"] = case("Max", 13, [np.float32([np.nan, 1, 2]), np.float32([0, np.nan, 5])])
    c["argmax_last"] = case("ArgMax", 12, [np.float32([[1, 3, 3], [2, 2, 1]])], out="i", axis=-1, select_last_index=1)
    c["is_inf_negative"] = case("IsInf", 10, [np.float32([np.inf, -np.inf, 1])], out="b", detect_positive=0)
    c["cast_bool"] = case("Cast", 13, [np.float32([0, -0.0, 0.1, np.nan])], out="b", to=TensorProto.BOOL)
    c["cast_from_text"] = case("Cast", 13, [TEXTS], to=TensorProto.FLOAT)
    c["cast_text_int"] = case("Cast", 13, [np.array(["12", "-7"], dtype=object)], out="i", to=TensorProto.INT64)
    c["cast_to_text"] = case("Cast", 13, [np.float32([1.5, -2, 1e-7, 123456789, np.inf, np.nan])], out="s",
                             to=TensorProto.STRING)
    c["cast_int_text"] = case("Cast", 13, [ints(-12, 0, 9)], out="s", to=TensorProto.STRING)
    c["where_text"] = case("Where", 9, [np.array([[True], [False]]), TEXTS, np.array("x", dtype=object)], out="s")
    c["slice_text"] = case("Slice", 13, [TEXTS, ints(1), ints(9), ints(1)], out="s")
    c["gather_text"] = case("Gather", 13, [TEXTS, ints(-1, 0)], out="s", axis=1)
    c["tile_text"] = case("Tile", 13, [TEXTS, ints(1, 2)], out="s")
    c["expand_text"] = case("Expand", 13, [TEXTS, ints(2, 2, 3)], out="s")
    c["split_text"] = case("Split", 13, [TEXTS, ints(2, 1)], out="ss", axis=1)
    c["unsqueeze_text"] = case("Unsqueeze", 13, [TEXTS, ints(0)], out="s")
    c["squeeze_text"] = case("Squeeze", 13, [TEXTS[:1], ints(0)], out="s")
    c["reshape_text"] = case("Reshape", 13, [TEXTS, ints(-1)], out="s")
    c["concat_text"] = case("Concat", 13, [TEXTS, TEXTS], out="s", axis=0)
    c["onehot_text"] = case("OneHot", 11, [ints(1, 0), np.int64(3), np.array(["off", "on"], dtype=object)], out="s")
    c["unique_text"] = case("Unique", 11, [np.array(["b", "a", "b", ""], dtype=object)], out="siii")
    c["compress_text"] = case("Compress", 11, [TEXTS, np.array([False, True])], out="s", axis=0)
    c["equal_text"] = case("Equal", 19, [TEXTS, np.array("0", dtype=object)], out="b")
    # Boxes.
    scores = np.float32([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]])
    c["nms"] = case("NonMaxSuppression", 11, [BOXES, scores, np.int64([3]), np.float32([0.5]),
                    np.float32([0])], out="i")
    c["nms_no_max"] = case("NonMaxSuppression", 10, [BOXES, scores], out="i")
    c["nms_threshold"] = case("NonMaxSuppression", 11, [BOXES, scores, np.int64([9]), np.float32([1]),
                                                        np.float32([0.55])], out="i")
    c["nms_ties"] = case("NonMaxSuppression", 11, [BOXES, np.ones_like(scores), np.int64([9]),
                         np.float32([0.5])], out="i")
    c["nms_nothing"] = case("NonMaxSuppression", 11, [BOXES, scores, np.int64([9]), np.float32([0.5]), np.float32([2])],
                            out="i")
    c["nms_center"] = case("NonMaxSuppression", 11, [BOXES, scores, np.int64([9]), np.float32([0.4])], out="i",
                           center_point_box=1)
    c["nms_scalar"] = case("NonMaxSuppression", 11, [BOXES, scores, np.int64(2), np.float32(0.5)], out="i")
    # Recurrent layers.
    x, w, r, b = (LSTM[k] for k in "XWRB")
    c["lstm_no_bias"] = case("LSTM", 7, [x, w, r], out="-ff", hidden_size=4)
    c["lstm_last_only"] = case("LSTM", 14, [x, w, r, b], out="-f", hidden_size=4)
    c["lstm_lengths"] = case("LSTM", 14, [x, w, r, b, np.int32([5, 2])], out="fff", hidden_size=4)
    c["lstm_reverse"] = case("LSTM", 14, [x, w, r, b], out="f", hidden_size=4, direction="reverse")
    c["lstm_clip"] = case("LSTM", 14, [x, w, r, b], out="f", hidden_size=4, clip=0.3)
    c["lstm_coupled"] = case("LSTM", 14, [x, w, r, b], out="f", hidden_size=4, input_forget=1)
    c["lstm_state"] = case("LSTM", 7, [x, w, r, b, None, f(1, 2, 4), f(1, 2, 4), f(1, 12)], out="fff", hidden_size=4)
    c["gru_linear_before_reset"] = case("GRU", 7, [x, f(1, 12, 3), f(1, 12, 4), f(1, 24)], out="ff", hidden_size=4,
                                        linear_before_reset=1)
    c["rnn_relu"] = case("RNN", 7, [x, f(1, 4, 3), f(1, 4, 4)], out="ff", hidden_size=4, activations=["Relu"])
    c["rnn_two_ways"] = case("RNN", 14, [x, f(2, 4, 3), f(2, 4, 4)], out="ff", hidden_size=4, direction="bidirectional")
    # Resize.
    for mode, how, nearest in (("nearest", "half_pixel", "floor"), ("nearest", "asymmetric", "ceil"),
                               ("nearest", "align_corners", "round_prefer_ceil"), ("linear",
                                         "pytorch_half_pixel", None),
                               ("linear", "align_corners", None), ("cubic", "half_pixel", None),
                               ("cubic", "asymmetric", None), ("nearest", "tf_half_pixel_for_nn", "floor")):
        more = {"nearest_mode": nearest} if nearest else {}
        opset = 11 if how.startswith("tf") else 13
        c[f"resize_{mode}_{how}"] = case(
            "Resize", opset, [f(1, 2, 4, 5), np.float32([]), np.float32([]), ints(1, 2, 7, 3)], constants=[1, 2, 3],
            mode=mode, coordinate_transformation_mode=how, **more)
    # Sizes and places that are not round in binary: 17 / 1.7.
    c["resize_from_the_middle"] = case("Resize", 19, [f(1, 1, 2, 2), None, np.float32([1, 1, 2.3, 2.94])],
                                       coordinate_transformation_mode="half_pixel_symmetric")
    c["resize_scale_1_7"] = case("Resize", 13, [f(1, 1, 13, 11), None, np.float32([1, 1, 1.7, 2.3])], constants=[2],
                                 coordinate_transformation_mode="asymmetric", nearest_mode="floor", mode="nearest")
    for corners in (0, 1):
        places = RNG.uniform(-1.6, 1.6, (2, 5, 6, 2)).astype(np.float32)
        c[f"grid_cubic_border_{corners}"] = case("GridSample", 16, [f(2, 3, 7, 6), places], mode="bicubic",
                                                 padding_mode="border", align_corners=corners)
    # Models: defaults that may be given, unused inputs, names of outer graphs, absent outputs.
    c["default_used"] = text("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[N] x, float[N] unused) => (float[N] y) <float[1] b = {2}> { y = Add(x, b) }""",
                             {"x": f(3), "unused": f(3)})
    c["outer_names"] = text("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[N] x, bool c) => (float[N] y) <float[1] w = {3}> {
          h = Mul(x, w)
          y = If(c) <then_branch = t () => (float[N] a) { a = Add(h, w) },
                     else_branch = e () => (float[N] b) { b = Identity(x) }>
        }""", {"x": f(3), "c": np.array(True)})
    c["loop_outer_and_scan"] = text("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[2] x, int64 n) => (float[2] s, float[K,2] all) <bool yes = {1}> {
          s, all = Loop(n, yes, x) <body = b (int64 i, bool go, float[2] a) => (bool on, float[2] c, float[2] d) {
            on = Identity(go)
            c = Add(a, x)
            d = Identity(c) }>
        }""", {"x": f(2), "n": np.array(3)})
    c["loop_zero_times"] = text("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[2] x, int64 n) => (float[2] s) <bool yes = {1}> {
          s = Loop(n, yes, x) <body = b (int64 i, bool go, float[2] a) => (bool on, float[2] c) {
            on = Identity(go)
            c = Add(a, x) }>
        }""", {"x": f(2), "n": np.array(0)})
    c["loop_until"] = text("""<ir_version: 8, opset_import: ["" : 13]>
        g (float x) => (float s) <float limit = {50}, bool yes = {1}> {
          s = Loop("", yes, x) <body = b (int64 i, bool go, float a) => (bool on, float c) {
            c = Add(a, a)
            on = Less(c, limit) }>
        }""", {"x": np.array(1, np.float32)})
    c["declared_wrongly"] = text("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[N,3] x, bool c) => (float[N,4] y, float[N] z) {
          y = Relu(x)
          z = If(c) <then_branch = t () => (float[N,3] a) { a = Neg(x) },
                     else_branch = e () => (float[N,3] b) { b = Abs(x) }>
        }""", {"x": f(2, 3), "c": np.array(True)})
    many = [f"x{i}" for i in range(200)]
    c["many_symbols"] = (helper.make_model(helper.make_graph(
        [helper.make_node("Concat", many, ["y"], axis=0), helper.make_node("Shape", ["y"], ["s"])], "form",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [f"n_{n}"]) for n in many],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("s", TensorProto.INT64, None)]), ir_version=8,
        opset_imports=[helper.make_opsetid("", 13)]), {n: f(i % 4) for i, n in enumerate(many)})
    c["sizes_of_sizes"] = halves(60)
    # Nothing to do.
    for op, more in (("Relu", {}), ("Softmax", {"axis": -1}), ("Transpose", {}), ("ReduceSum", {"keepdims": 1}),
                     ("Neg", {}), ("Flatten", {}), ("Exp", {}), ("Cast", {"to": TensorProto.FLOAT})):
        c[f"empty_{op}"] = case(op, 13, [f(2, 0, 3)], **more)
    c["empty_matmul_rows"] = case("MatMul", 13, [f(0, 3), f(3, 4)])
    c["empty_matmul_depth"] = case("MatMul", 13, [f(2, 0), f(0, 4)])
    c["empty_gemm"] = case("Gemm", 13, [f(0, 3), f(3, 4), f(4)])
    c["empty_conv"] = case("Conv", 11, [f(0, 2, 5, 5), f(3, 2, 3, 3)])
    c["empty_add"] = case("Add", 13, [f(2, 0), f(1, 1)])
    c["empty_gather"] = case("Gather", 13, [f(0, 3), ints(1, 2)], axis=1)
    c["empty_concat"] = case("Concat", 13, [f(0, 3), f(0, 3)], axis=0)
    c["empty_max_pool"] = case("MaxPool", 12, [f(0, 2, 5, 5)], kernel_shape=[2, 2])
    for n, (scale, bias) in enumerate([((2, 3, 4), (3, 1)), ((3, 4), (2, 1, 4)), ((2, 1, 1), (4,))]):  # of all of X
        c[f"layer_norm_rows{n}"] = case("LayerNormalization", 17, [A, f(*scale), f(*bias)], "fff")
        c[f"rms_norm_rows{n}"] = case("RMSNormalization", 23, [A, f(*scale)])
    c["empty_layer_norm"] = case("LayerNormalization", 17, [f(0, 3), f(3), f(3)])
    c["empty_argmax"] = case("ArgMax", 13, [f(0, 3)], out="i", axis=1)
    c["empty_where"] = case("Where", 9, [np.zeros((0, 1), bool), f(1, 3), f(1, 3)])
    return c


FORMS = forms()

# What onnxruntime does and Nacre does not, on purpose. One that agrees fails the test, so that it leaves this list.
DIFFER = {"dropout_10_mask": "out of training onnxruntime fills the mask with false before version 12, with true after",
          "resize_10": "onnxruntime rounds up where nearest shrinks; every later version says floor for this form",
          "nonzero_scalar": "ONNX says (0, N) for a scalar, onnxruntime gives (1, N)"}


def compare(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    if want.dtype.kind in "OU":
        assert got.ravel().tolist() == want.ravel().tolist()
        return
    assert got.dtype == want.dtype, f"type {got.dtype}, expected {want.dtype}"
    close(got, want, "model_f32")


@pytest.mark.parametrize("settings", [{}, {"level": "off", "fusion": False, "views": False}, {"device": "guard"}],
                         ids=["cpu", "plain", "guard"])
@pytest.mark.parametrize("name", FORMS)
def test_form(env, name, settings):
    model, feeds, *newer = FORMS[name]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    oracle = newer[0] if newer else model
    reference = onnxruntime.InferenceSession(oracle.SerializeToString(), options, providers=["CPUExecutionProvider"])
    twins = {i.name: feeds.get(i.name) for i in reference.get_inputs()}
    want = dict(zip([o.name for o in reference.get_outputs()], reference.run(None, twins)))
    with env.session(model, **settings) as session:
        got = session.run(feeds)
    if name in DIFFER:
        with pytest.raises(AssertionError):
            for n, w in want.items():
                compare(got[n], w)
        return
    for n, w in want.items():
        compare(got[n], w)
