"""nacre.quantization.execution_providers.qnn beside onnxruntime's: the same configs, graphs and codes."""
import collections
import copy

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime import quantization as theirs
from onnxruntime.quantization.execution_providers import qnn as their_qnn

from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre import quantization as mine  # noqa: E402
from nacre.quantization.execution_providers import qnn  # noqa: E402
from nacre.tools.qnn import preprocess as command  # noqa: E402

R = np.random.default_rng(5)


def array(name, *dims):
    """The same numbers for the same name."""
    r = np.random.default_rng(list(name.encode()))
    return numpy_helper.from_array(r.standard_normal(dims).astype(np.float32), name)


def value(name, *dims):
    return helper.make_tensor_value_info(name, T.FLOAT, dims)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), outputs.split()[0] + "_node", **attributes)


def model(nodes, inputs, outputs, weights=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def number(name, x):
    return numpy_helper.from_array(np.float32(x), name)


# ---- configs ----

def branching(opset=17):
    """Branches of products, sums and activations, so that a wish for one tensor reaches several others."""
    return model([node("MatMul", "x w1", "a"), node("Sigmoid", "a", "b"), node("Add", "b a", "c"),
                  node("Tanh", "c", "d"), node("LayerNormalization", "c g h", "e"), node("MatMul", "e w2", "f"),
                  node("Mul", "d f", "y"), node("Relu", "c", "z")],
                 [value("x", 2, 8)], [value("y", 2, 8), value("z", 2, 8)],
                 [array("w1", 8, 8), array("w2", 8, 8), array("g", 8), array("h", 8)], opset)


class Examples:
    def __init__(self, shape=(2, 8)):
        r = np.random.default_rng(6)
        self.left = [{"x": r.standard_normal(shape).astype(np.float32)} for _ in range(3)]

    def get_next(self):
        return self.left.pop() if self.left else None


def as_theirs(thing):
    """Types and methods by the names that onnxruntime's enumerations have."""
    if isinstance(thing, dict):
        return {k: as_theirs(v) for k, v in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [as_theirs(v) for v in thing]
    if isinstance(thing, mine.QuantType):
        return theirs.QuantType[thing.name]
    return thing


def plain(thing):
    """Comparable: enumerations by name, arrays with their type, sets in order."""
    if isinstance(thing, dict):
        return {k: plain(v) for k, v in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [plain(v) for v in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(thing)
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.tolist()
    return getattr(thing, "name", thing)


def same_config(proto, **told):
    both = []
    for side, package_, options in ((qnn, mine, told), (their_qnn, theirs, as_theirs(told))):
        config = side.get_qnn_qdq_config(proto, Examples(), **copy.deepcopy(options))
        assert isinstance(config, package_.StaticQuantConfig)
        seen = {k: v for k, v in vars(config).items() if k != "calibration_data_reader"}
        seen["op_types_to_quantize"] = sorted(seen["op_types_to_quantize"])
        both.append(plain(seen))
    assert both[0] == both[1]


U8, I8, U16, I16, I4 = (mine.QuantType[n] for n in ("QUInt8", "QInt8", "QUInt16", "QInt16", "QInt4"))
WISHES = [{"c": [{"quant_type": U16}]}, {"a": [{"quant_type": U16}], "w1": [{"quant_type": I8, "symmetric": True}]},
          {"x": [{"quant_type": U16}]}, {"y": [{"quant_type": U16}]}, {"w2": [{"quant_type": I8, "axis": 1}]},
          {"c": [{"quant_type": U16, "convert": {"quant_type": U8, "recv_nodes": {"z_node"}}}]},
          {"e": [{"quant_type": U16}], "f": [{"quant_type": U16}]}]


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("told", [
    {}, {"activation_type": U16}, {"activation_type": I16, "weight_type": I8}, {"weight_type": I4},
    {"activation_type": U16, "weight_type": U8, "per_channel": True}, {"per_channel": True, "weight_type": I8},
    {"activation_symmetric": True, "weight_symmetric": True, "keep_removable_activations": True, "stride": 2},
    {"op_types_to_quantize": ["MatMul", "Add"]}, {"nodes_to_exclude": ["b_node", "e_node"], "activation_type": U16},
    *({"init_overrides": w} for w in WISHES), {"init_overrides": WISHES[0], "add_qtype_converts": False},
    {"init_overrides": WISHES[4], "activation_type": U16}], ids=str)
def test_configs(told, opset):
    same_config(branching(opset), **told)


@pytest.mark.parametrize("wishes", [{"nobody": [{"quant_type": U16}]},
                                    {"a": [{"quant_type": U16}], "c": [{"quant_type": I16}]},
                                    {"c": [{"scale": np.float32(1)}]}], ids=str)
def test_wishes_that_cannot_be(wishes):
    for side, told in ((qnn, wishes), (their_qnn, as_theirs(wishes))):
        with pytest.raises(ValueError):
            side.get_qnn_qdq_config(branching(), Examples(), init_overrides=told)


def test_nodes_need_names_to_convert_for():
    proto = branching()
    proto.graph.node[2].ClearField("name")
    with pytest.raises(ValueError, match="the Add that makes 'c' needs a name"):
        qnn.get_qnn_qdq_config(proto, Examples(), init_overrides={"c": [{"quant_type": U16}]})


@pytest.mark.parametrize("told", [{}, {"activation_type": U16, "weight_type": U8}, {"init_overrides": WISHES[0]},
                                  {"init_overrides": WISHES[1], "weight_type": I8},
                                  {"per_channel": True, "weight_type": I8}], ids=str)
def test_quantized_models(told, tmp_path):
    """Both quantizers by both configs: as many nodes of each kind, and results that agree."""
    paths = [str(tmp_path / n) for n in ("mine.onnx", "theirs.onnx")]
    mine.quantize(branching(), paths[0], qnn.get_qnn_qdq_config(branching(), Examples(), **told))
    theirs.quantize(branching(), paths[1], their_qnn.get_qnn_qdq_config(branching(), Examples(), **as_theirs(told)))
    counts = [collections.Counter(n.op_type for n in onnx.load(p).graph.node) for p in paths]
    assert counts[0] == counts[1]
    x = Examples().get_next()
    got = [nacre.InferenceSession(p).run(None, x) for p in paths]
    for a, b in zip(*got):
        close(a, b, "ort_f32")


# ---- pre-processing ----

def normalized(opset):
    axes = {"axes": [-1]} if opset < 18 else {}
    more = "" if opset < 18 else " last"
    return model([node("ReduceMean", "x" + more, "m", **axes), node("Sub", "x m", "d"), node("Pow", "d two", "p"),
                  node("ReduceMean", "p" + more, "v", **axes), node("Add", "v eps", "ve"), node("Sqrt", "ve", "s"),
                  node("Div", "d s", "q"), node("Mul", "q g", "qg"), node("Add", "qg b", "n"),
                  node("Div", "n root", "e0"), node("Erf", "e0", "e1"), node("Add", "e1 one", "e2"),
                  node("Mul", "n e2", "e3"), node("Mul", "e3 half", "gelu"),
                  node("ReduceL2", "gelu" + more, "l", **axes), helper.make_node("Clip", ["l", "tiny", ""], ["c"]),
                  node("Expand", "c shape", "w"), node("Div", "gelu w", "y")],
                 [value("x", 2, 3, 8)], [value("y", 2, 3, 8)],
                 [number("two", 2), number("eps", 1e-5), number("root", 2 ** 0.5), number("one", 1),
                  number("half", 0.5), number("tiny", 1e-12), array("g", 8), array("b", 8), numpy_helper.from_array(
                      np.array([2, 3, 8]), "shape"), numpy_helper.from_array(np.array([-1]), "last")], opset)


def blocks():
    """The seven nodes of early YOLO models."""
    shapes = {"s0": [1, 3, 2, 2, 3, 2], "s1": [1, 3, 6, 4], "s2": [1, 3, 4, 2, 3], "s3": [1, 12, 2, 3]}
    return model([node("Reshape", "x s0", "a"), node("Transpose", "a", "b", perm=[0, 1, 2, 4, 3, 5]),
                  node("Reshape", "b s1", "c"), node("Transpose", "c", "d", perm=[0, 1, 3, 2]),
                  node("Reshape", "d s2", "e"), node("Transpose", "e", "f", perm=[0, 2, 1, 3, 4]),
                  node("Reshape", "f s3", "y")], [value("x", 1, 3, 4, 6)], [value("y", 1, 12, 2, 3)],
                 [numpy_helper.from_array(np.array(s), n) for n, s in shapes.items()])


def prepared(proto, path, **told):
    assert qnn.qnn_preprocess_model(proto, path, **told) is True
    made = onnx.load(path)
    onnx.checker.check_model(made, full_check=True)
    assert all(n.name for n in made.graph.node)
    return made, [n.op_type for n in made.graph.node]


def run(what, **feeds):
    data = what.SerializeToString() if isinstance(what, onnx.ModelProto) else str(what)
    return nacre.InferenceSession(data).run(None, feeds), onnxruntime.InferenceSession(
        data, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("fuse", [False, True])
def test_parts_become_one(opset, fuse, tmp_path):
    proto = normalized(opset)
    made, ops = prepared(proto, tmp_path / "m.onnx", fuse_layernorm=fuse)
    assert ops[-2:] == ["Gelu", "LpNormalization"] and ("LayerNormalization" in ops) == fuse
    assert len(ops) == (3 if fuse else 11)
    x = R.standard_normal((2, 3, 8)).astype(np.float32)
    for after in run(made, x=x):
        close(after[0], run(proto, x=x)[1][0], "ort_f32")
    if fuse:  # without, onnxruntime has LayerNormalization too: its basic level makes it
        their_qnn.qnn_preprocess_model(proto, tmp_path / "t.onnx", fuse_layernorm=True)
        assert [n.op_type for n in onnx.load(tmp_path / "t.onnx").graph.node] == ops


def test_blocks_become_depth(tmp_path):
    made, ops = prepared(blocks(), tmp_path / "m.onnx")
    assert ops == ["SpaceToDepth"]
    x = R.standard_normal((1, 3, 4, 6)).astype(np.float32)
    for after in run(made, x=x):
        np.testing.assert_array_equal(after[0], run(blocks(), x=x)[1][0])
    turned = blocks()
    turned.graph.node[1].attribute[0].ints[:] = [0, 1, 4, 2, 3, 5]
    assert not qnn.qnn_preprocess_model(turned, tmp_path / "none.onnx") and not (tmp_path / "none.onnx").exists()


def test_other_axes_are_left_alone(tmp_path):
    """An axis that is the last one for one tensor and not for another names neither."""
    proto = model([node("ReduceL2", "x", "l", axes=[1]), node("Clip", "l tiny", "c"), node("Expand", "c s", "w"),
                   node("Div", "x w", "y")], [value("x", 2, 3, 4)], [value("y", 2, 3, 4)],
                  [number("tiny", 1e-12), numpy_helper.from_array(np.array([2, 3, 4]), "s")])
    assert not qnn.qnn_preprocess_model(proto, tmp_path / "m.onnx")


@pytest.mark.parametrize("inputs, outputs", [(["x"], ["y"]), (["x"], None), (None, ["y", "h"])])
def test_channels_last(inputs, outputs, tmp_path):
    proto = model([node("Conv", "x w", "h", pads=[1, 1, 1, 1]), node("Relu", "h", "y")], [value("x", 1, 3, 5, 4)],
                  [value("y", 1, 2, 5, 4), value("h", 1, 2, 5, 4)], [array("w", 2, 3, 3, 3)])
    made, _ = prepared(proto, tmp_path / "m.onnx", inputs_to_make_channel_last=inputs,
                       outputs_to_make_channel_last=outputs)
    x = R.standard_normal((1, 3, 5, 4)).astype(np.float32)
    want = dict(zip("yh", run(proto, x=x)[1]))
    for after in run(made, x=x.transpose(0, 2, 3, 1) if inputs else x):
        for name, got in zip("yh", after):
            close(got, want[name].transpose(0, 2, 3, 1) if name in (outputs or []) else want[name], "ort_f32")
    with pytest.raises(ValueError, match="no output 'q'; it has y, h"):
        qnn.qnn_preprocess_model(proto, tmp_path / "m.onnx", outputs_to_make_channel_last=["q"])


def test_shapes_are_fixed_by_the_command(tmp_path):
    proto = model([node("Relu", "x", "y")], [value("x", "n", 4)], [value("y", "n", 4)])
    onnx.save(proto, tmp_path / "in.onnx")
    command.main(["-i", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--dynamic_input_shapes", "x",
                  "3,4"])
    made = onnx.load(tmp_path / "out.onnx")
    assert [d.dim_value for d in made.graph.output[0].type.tensor_type.shape.dim] == [3, 4]
