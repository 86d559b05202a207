"""Random models of smooth operators, in double: what gradients are compared with differences on.

The recipes are those of draw.py; a node that has a kink, rounds or draws is left out, wherever it stands.
"""
import numpy as np
from onnx import TensorProto, helper

from doubles import Widening

from . import control, draw, lanes, layers, moves
from .builder import Graph, value_info
from .oracle import Reject, model_of

SMOOTH = set("""
Acos Acosh Add Asin Asinh Atan Atanh AveragePool BatchNormalization Concat Constant Conv ConvTranspose Cos Cosh
CumSum DepthToSpace Div Einsum Erf Exp Expand Flatten Gather GatherElements GatherND Gelu Gemm GlobalAveragePool
GroupNormalization Identity If InstanceNormalization LayerNormalization Log LogSoftmax Loop MatMul Mean
MeanVarianceNormalization Mish Mul Neg Pad Pow RMSNormalization Reciprocal ReduceLogSum ReduceLogSumExp ReduceMean
ReduceProd ReduceSum ReduceSumSquare Reshape Scan Shape Sigmoid Sin Sinh Size Slice Softmax Softplus SpaceToDepth Split
Sqrt Squeeze Sub Sum Swish Tan Tanh Tile Transpose Trilu Unsqueeze Where
""".split())
RECIPES = [lanes.unary] * 5 + [lanes.binary] * 5 + [lanes.along, lanes.reduce, layers.products, layers.products,
           layers.convolutions, layers.normalizations, layers.pools, moves.transpose, moves.reshape, moves.slices,
           moves.split, moves.concat, moves.expand, moves.pad, moves.gather, moves.several, moves.squeeze, control.if_,
           control.loop, control.scan]


def rough(nodes):
    """The first operator that is not smooth, in bodies too."""
    for n in nodes:
        if n.op_type not in SMOOTH:
            return n.op_type
        for a in n.attribute:
            inside = rough(a.g.node) if a.HasField("g") else None
            if inside:
                return inside
    return None


class Smooth(Graph):
    def add(self, node, operands, *more):
        if rough([node]):
            raise Reject(f"{node.op_type} is not smooth")
        return super().add(node, operands, *more)


def smooth(seed):
    """(model in double, feeds, inputs and outputs of floats) of a seed."""
    rng = np.random.default_rng(seed)
    g = Smooth(rng, {"": int(rng.choice(draw.OPSETS))}, base=draw.SHAPES[rng.integers(len(draw.SHAPES) - 2)])
    for _ in range(int(rng.integers(2, 4))):
        g.input([g.random(s, np.float32, -1.5, 1.5) for s in g.base])
    for _ in range(int(rng.integers(4, 14))):
        try:
            RECIPES[rng.integers(len(RECIPES))](g)
        except Reject:
            continue
    ends = [v for v in draw.outputs_of(g) if not v.is_sequence and v.dtype.kind == "f" and v.data[0].size]
    ends = ends or g.emit("Sin", [g.inputs[0]])
    used = control.names_inside(g.nodes)[0] | {v.name for v in ends}
    inputs = [v for v in g.inputs if v.name in used]
    graph = helper.make_graph(g.nodes, f"g{seed}", [value_info(v.name, v, g.rng) for v in inputs],
                              [value_info(v.name, v) for v in ends], g.consts)
    to = Widening(TensorProto.DOUBLE)
    to.graph(graph)
    feeds = {v.name: to.value(v.data[0]) for v in inputs}
    xs = [v.name for v in inputs if v.dtype.kind == "f" and feeds[v.name].size]
    return model_of(graph, g.opsets), feeds, xs, [v.name for v in ends], {n.op_type for n in g.nodes}
