"""Multiply-adds of a model, twice: convolutions, products and recurrent layers by the shapes that onnx infers."""
import functools

import numpy as np
import onnx
from onnx import shape_inference


@functools.lru_cache(maxsize=None)
def count(path, feeds):
    """Floating-point operations of one run with these feeds; what its shapes do not tell counts as nothing."""
    model = onnx.load(path)
    with np.load(feeds) as f:
        for value in model.graph.input:
            if value.name in f:
                dims = value.type.tensor_type.shape.dim
                for dim, n in zip(dims, f[value.name].shape):
                    dim.dim_value = n
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    shapes = {i.name: list(i.dims) for i in inferred.graph.initializer}
    for value in [*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output]:
        shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return sum(_node(n, shapes) for n in inferred.graph.node)


def _size(dims):
    return int(np.prod(dims)) if dims else 0


def _node(node, shapes):
    ins, outs = [shapes.get(i, []) for i in node.input], [shapes.get(o, []) for o in node.output]
    if node.op_type == "Conv":
        return 2 * _size(outs[0]) * _size(ins[1][1:])
    if node.op_type in ("MatMul", "Gemm"):
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        return 2 * _size(outs[0]) * (ins[0][-2 if turned else -1] if ins[0] else 0)
    if node.op_type == "LSTM":
        steps, batch = ins[0][:2]
        return 2 * steps * batch * (_size(ins[1]) + _size(ins[2]))
    return 0
