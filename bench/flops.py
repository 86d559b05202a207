"""Multiply-adds of a model, twice: convolutions, products and recurrent layers by the shapes that onnx infers, and,
where those leave something open (sizes that are computed from sizes), by the shapes of a run of onnxruntime."""
import functools

import numpy as np
import onnx
import onnxruntime
from onnx import shape_inference


COUNTED = ("Conv", "MatMul", "Gemm", "LSTM")


def _inferred(model, arrays):
    """Dims by name; 0: not known."""
    for value in model.graph.input:
        if value.name in arrays:
            for dim, n in zip(value.type.tensor_type.shape.dim, arrays[value.name].shape):
                dim.dim_value = n
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {i.name: list(i.dims) for i in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return shapes


def _ran(model, arrays, names):
    """The same of these values, by a run that gives them out."""
    given = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in given)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {n: list(v.shape) for n, v in zip(names, session.run(names, arrays))}


@functools.lru_cache(maxsize=None)
def count(path, feeds):
    """Floating-point operations of one run with these feeds."""
    model = onnx.load(path)
    with np.load(feeds) as f:
        arrays = dict(f)
    shapes = _inferred(model, arrays)
    nodes = [n for n in model.graph.node if n.op_type in COUNTED]
    names = {v for n in nodes for v in (n.input[0], n.output[0]) if v and 0 in (shapes.get(v) or [0])}
    if names:
        shapes.update(_ran(model, arrays, sorted(names)))
    return sum(_node(n, shapes) for n in nodes)


def outputs(path):
    """The names of a model's outputs."""
    return [v.name for v in onnx.load(path, load_external_data=False).graph.output]


def outputs(path):
    """The names of a model's outputs."""
    return [v.name for v in onnx.load(path, load_external_data=False).graph.output]


def _size(dims):
    return int(np.prod(dims)) if dims else 0


def _node(node, shapes):
    ins, outs = [shapes.get(i, []) for i in node.input], [shapes.get(o, []) for o in node.output]
    if node.op_type == "Conv":
        return 2 * _size(outs[0]) * _size(ins[1][1:])
    if node.op_type in ("ConvInteger", "QLinearConv"):
        return 2 * _size(outs[0]) * _size(ins[1 if node.op_type == "ConvInteger" else 3][1:])
    if node.op_type in ("MatMul", "Gemm", "MatMulInteger", "DynamicQuantizeMatMul"):
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        return 2 * _size(outs[0]) * (ins[0][-2 if turned else -1] if ins[0] else 0)
    if node.op_type == "LSTM":
        steps, batch = ins[0][:2]
        return 2 * steps * batch * (_size(ins[1]) + _size(ins[2]))
    raise ValueError(node.op_type)
