"""Random models of operators with a gradient, in double: what gradients are compared with differences on.

The recipes are those of draw.py, nodes of ONNX's suite, and fused.py. What is left out, and why, is said below; a node
of those is left out wherever it stands.
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper

from doubles import Widening

from . import control, draw, fused, lanes, layers, moves
from .builder import Graph, value_info
from .oracle import Reject, model_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "conformance"))
import not_differentiable  # noqa: E402

_CODES = "rounds to codes, and its gradient is the straight-through one"
_DRAWS = "draws numbers: each run would draw others"
_NARROW = "may make numbers of a narrower type, whose differences are steps"
LEFT_OUT = {
    **not_differentiable.OPS, **not_differentiable.SINGLE,
    "QuantizeLinear": _CODES, "DequantizeLinear": _CODES, "QLinearMatMul": _CODES, "QLinearConv": _CODES,
    "Bernoulli": _DRAWS, "Dropout": _DRAWS, "RandomNormal": _DRAWS, "RandomNormalLike": _DRAWS, "RandomUniform": _DRAWS,
    "RandomUniformLike": _DRAWS, "Multinomial": _DRAWS,
    "Cast": _NARROW, "CastLike": _NARROW, "BitCast": _NARROW,
    "Resize": "its region and scales have no gradient", "Upsample": "its scales have no gradient",
    "Range": "its bounds decide a size", "MelWeightMatrix": "its edges are rounded to bins",
    "TfIdfVectorizer": "its numbers are floats whatever goes in",
    "SwiGLU": "no release of ONNX has it in double",
}
RECIPES = [lanes.unary] * 4 + [lanes.binary] * 4 + [
    lanes.along, lanes.reduce, lanes.where, lanes.clip, layers.products, layers.products, layers.convolutions,
    layers.normalizations, layers.pools, layers.recurrent, layers.spectrum, layers.borrowed, layers.borrowed,
    moves.transpose, moves.reshape, moves.slices, moves.split, moves.concat, moves.expand, moves.pad, moves.gather,
    moves.scatter, moves.several, moves.squeeze, moves.blocks, moves.sequences, control.if_, control.loop, control.scan,
    control.sequence_map] + fused.RECIPES


def left_out(nodes, constants):
    """Why a node of them is, in bodies too."""
    for n in nodes:
        if n.op_type in LEFT_OUT:
            return f"{n.op_type} {LEFT_OUT[n.op_type]}"
        for i in not_differentiable.CONSTANTS.get(n.op_type, ()):
            if i < len(n.input) and n.input[i] and n.input[i] not in constants:
                return f"{n.op_type} needs input {i} before the run"
        inside = [left_out(a.g.node, constants) for a in n.attribute if a.HasField("g")]
        if any(inside):
            return next(filter(None, inside))
    return None


class Smooth(Graph):
    def add(self, node, operands, *more, **how):
        constants = {t.name for g in self.chain() for t in g.consts}
        why = left_out([node], constants)
        if why:
            raise Reject(why)
        if node.op_type == "LayerNormalization":  # its statistics are floats whatever goes in
            del node.output[1:]
        return super().add(node, operands, *more, **how)


def smooth(seed):
    """(model in double, feeds, inputs and outputs of floats) of a seed."""
    rng = np.random.default_rng(seed)
    opsets = {"": int(rng.choice(draw.OPSETS)), "com.microsoft": 1}
    g = Smooth(rng, opsets, base=draw.SHAPES[rng.integers(len(draw.SHAPES) - 2)])
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
    xs = [v.name for v in inputs if not v.is_sequence and v.dtype.kind == "f" and feeds[v.name].size]
    return model_of(graph, g.opsets), feeds, xs, [v.name for v in ends], {n.op_type for n in g.nodes}
