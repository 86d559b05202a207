"""The Python package of the build tree, importable as `nacre`, and models that its tests share."""
import sys

import numpy as np
import nacre_c
from onnx import TensorProto, helper, numpy_helper

FOLDER = nacre_c.BUILD / "python"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
BUILT = (FOLDER / "nacre" / "_core.abi3.so").exists()
MEET = nacre_c.BUILD / "plugins" / "meet.so"

tensor, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
F, I64, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def model(nodes, inputs, outputs, initializers=(), opset=17, ir_version=8, domains=(), **header):
    """Bytes of a model of these nodes."""
    graph = helper.make_graph(nodes, "graph of a test", inputs, outputs,
                              [numpy_helper.from_array(x, n) for n, x in initializers], doc_string="its graph")
    proto = helper.make_model(graph, ir_version=ir_version, producer_name="test", producer_version="3",
                              doc_string="a model of a test", domain="org.test", model_version=42,
                              opset_imports=[helper.make_opsetid("", opset),
                                             *(helper.make_opsetid(d, 1) for d in domains)], **header)
    helper.set_model_props(proto, {"author": "nobody", "empty": ""})
    return proto.SerializeToString()


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def affine():
    """y = x w + b over a batch of any size; b is an input with a default, and w a constant."""
    return model([node("MatMul", "x w", "h"), node("Add", "h b", "s"), node("Relu", "s", "y"), node("Neg", "s", "z")],
                 [tensor("x", F, ["batch", 3]), tensor("b", F, [2])],
                 [tensor("y", F, ["batch", 2]), tensor("z", F, ["batch", 2])],
                 [("w", np.arange(6, dtype=np.float32).reshape(3, 2) / 5), ("b", np.float32([0.5, -1]))])


def identity(element, dims=("n",), **kwargs):
    return model([node("Identity", "x", "y")], [tensor("x", element, dims)], [tensor("y", element, dims)], **kwargs)


def add(element=F):
    """y = x + x, dims as they come."""
    return model([node("Add", "x x", "y")], [tensor("x", element, ["n"])], [tensor("y", element, ["n"])])


def sequences():
    """An input that is a sequence, outputs that are a sequence, an optional and a length."""
    return model([node("SequenceInsert", "s x", "t"), node("SequenceLength", "t", "n"),
                  node("SequenceAt", "t zero", "y")],
                 [sequence("s", F, None), tensor("x", F, ["k"])],
                 [sequence("t", F, None), tensor("n", I64, []), tensor("y", F, None)],
                 [("zero", np.int64(0))])


def unknown():
    """A node that no operator set has."""
    return model([node("NoSuchOp", "x", "y")], [tensor("x", F, [1])], [tensor("y", F, [1])])


def custom(op):
    return model([helper.make_node(op, ["x"], ["y"], domain="test.meet")], [tensor("x", F, [1])],
                 [tensor("y", F, [1])], domains=("test.meet",))
