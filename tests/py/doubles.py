"""Models in double, so that their gradients can be compared with differences. Ops whose schema has no double take it
where NACRE_TEST_DOUBLES is set (src/ir/card.c), which importing this does: before the library meets its first node.
"""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

os.environ["NACRE_TEST_DOUBLES"] = "1"


class Widening:
    """All floats of a model as doubles, or, for ops that compute in float alone, as floats."""

    def __init__(self, to):
        self.to, self.array = to, np.float64 if to == TensorProto.DOUBLE else np.float32
        self.narrow = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16} - {to}

    def tensor(self, t):
        if t.data_type in self.narrow:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(self.array), t.name))

    def type(self, t):
        kind = t.WhichOneof("value")
        if kind in ("tensor_type", "sparse_tensor_type"):
            inner = getattr(t, kind)
            if inner.elem_type in self.narrow:
                inner.elem_type = self.to
        elif kind in ("sequence_type", "optional_type"):
            self.type(getattr(t, kind).elem_type)

    def node(self, n):
        name, value = DEFAULTS.get(n.op_type, (None, None))
        if name and name not in [a.name for a in n.attribute]:
            n.attribute.append(helper.make_attribute(name, value))
        for a in n.attribute:
            if a.name in TYPE_ATTRIBUTES and a.i in self.narrow:
                a.i = self.to
            if a.HasField("t"):
                self.tensor(a.t)
            if a.HasField("tp"):
                self.type(a.tp)
            if a.HasField("g"):
                self.graph(a.g)
            if n.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                values = np.array(a.f if a.name == "value_float" else list(a.floats), self.array)
                a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))

    def graph(self, g, held=()):
        for t in g.initializer:
            self.tensor(t)
        kept = {n.output[i] for n in g.node for i in FLOAT_OUTPUTS.get(n.op_type, ()) if i < len(n.output)}
        for v in [*g.input, *g.output, *g.value_info]:
            if v.name not in kept and v.name not in held:
                self.type(v.type)
        for n in g.node:
            self.node(n)

    def value(self, x):
        if isinstance(x, (list, tuple)):
            return [self.value(i) for i in x]
        x = plain(x)
        return x.astype(self.array) if x.dtype.name in ("float32", "float16", "bfloat16") else x


def plain(x):
    return np.asarray(numpy_helper.to_array(x) if isinstance(x, TensorProto) else x)


# Attributes that hold the number of a type.
TYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "softmax_precision", "output_datatype"}
# What an attribute that is not written means in float, written out; then widened like any other.
DEFAULTS = {"ConstantOfShape": ("value", numpy_helper.from_array(np.zeros(1, np.float32))),
            **{op: ("output_datatype", 1) for op in ("MelWeightMatrix", "HannWindow", "HammingWindow",
                                                     "BlackmanWindow")}}
# Outputs that are floats whatever the inputs are.
FLOAT_OUTPUTS = {"LayerNormalization": (1, 2)}
