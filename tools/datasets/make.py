"""Writes the example models of nacre.datasets: `python tools/datasets/make.py FOLDER`."""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

#: scikit-learn's logistic regression, one class against the others, on the iris flowers' sepals (80% right).
COEFFICIENTS = [-6.4415, 6.3967, 0.1291, -3.0905, 2.5518, -0.7081]
INTERCEPTS = [14.7012, 7.7377, -13.9813]
CLASSES = [0, 1, 2]


def model(name, nodes, inputs, outputs, weights=(), opsets=(("", 13),)):
    tensors = [numpy_helper.from_array(x, n) for n, x in weights]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    return helper.make_model(graph, ir_version=7, producer_name="nacre",
                             opset_imports=[helper.make_opsetid(d, v) for d, v in opsets]).SerializeToString()


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def iris():
    ml = "ai.onnx.ml"
    nodes = [helper.make_node("LinearClassifier", ["float_input"], ["label", "chances"], domain=ml,
                              coefficients=COEFFICIENTS, intercepts=INTERCEPTS, classlabels_ints=CLASSES,
                              post_transform="LOGISTIC"),
             helper.make_node("Normalizer", ["chances"], ["normalized"], domain=ml, norm="L1"),
             helper.make_node("ZipMap", ["normalized"], ["probabilities"], domain=ml, classlabels_int64s=CLASSES)]
    chance = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    probabilities = helper.make_value_info("probabilities", helper.make_sequence_type_proto(chance))
    return model("logistic regression", nodes, [tensor("float_input", [3, 2])],
                 [tensor("label", [3], TensorProto.INT64), probabilities], opsets=(("", 13), (ml, 1)))


def models():
    weight = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    return {"mul_1.onnx": model("product", [helper.make_node("Mul", ["X", "W"], ["Y"], name="mul_1")],
                                [tensor("X", [3, 2])], [tensor("Y", [3, 2])], [("W", weight)]),
            "sigmoid.onnx": model("sigmoid", [helper.make_node("Sigmoid", ["x"], ["y"])],
                                  [tensor("x", [3, 4, 5])], [tensor("y", [3, 4, 5])]),
            "logreg_iris.onnx": iris()}


if __name__ == "__main__":
    for name, data in models().items():
        (pathlib.Path(sys.argv[1]) / name).write_bytes(data)
