"""A whole random model, with what it gives for two sets of sizes."""
import collections
import functools

import numpy as np
from onnx import helper

from . import control, lanes, layers, microsoft, moves
from .builder import Graph, value_info
from .oracle import Reject, model_of

Drawn = collections.namedtuple("Drawn", "model feeds wants ops")

OPSETS = [18, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
OLD_OPSETS = [9, 10]
# The shape that most values have, at both sizes; the second differs in a dim that gets a name.
SHAPES = [((4, 4), (4, 4)), ((3, 4), (5, 4)), ((2, 3, 4), (2, 3, 4)), ((3, 4, 4), (1, 4, 4)),
          ((2, 4, 5, 6), (2, 4, 5, 6)), ((1, 4, 5, 6), (3, 4, 5, 6)), ((6,), (6,)), ((5,), (7,)),
          ((40, 64), (40, 64)), ((20, 96), (33, 96))]
TRIES = 12
FAMILIES = [(lanes.RECIPES, 0.34), (moves.RECIPES, 0.34), (layers.RECIPES, 0.22), (control.RECIPES, 0.1),
            (microsoft.RECIPES, 0.06)]


def recipe(rng, families):
    at = rng.random() * sum(w for _, w in families)
    for recipes, weight in families:
        at -= weight
        if at <= 0:
            break
    return recipes[rng.integers(len(recipes))]


def outputs_of(g):
    """Values that nothing reads, some that are read as well, and at times an input as it is."""
    read, _ = control.names_inside(g.nodes)
    made = {n for node in g.nodes for n in node.output}
    ends = [v for v in g.values if v.name in made and (v.name not in read or g.chance(0.15))]
    ends += [v for v in g.inputs if not v.name.startswith("fed_") and not v.is_sequence and g.chance(0.02)]
    return ends


def starts():
    """(recipe, the oldest operator set it works in) of all recipes: the seeds begin with one after the other."""
    own = list(dict.fromkeys(r for recipes, _ in FAMILIES for r in recipes))
    return [(r, 0) for r in own] + [(functools.partial(layers.borrowed, op=op), layers.oldest(op))
                                    for op in layers.FORMS] + [
        (functools.partial(microsoft.borrowed, op=op), microsoft.OLDEST) for op in sorted(microsoft.cases())]


def opsets_of(rng, least=0):
    if rng.random() < 0.04 and least <= min(OLD_OPSETS):
        return {"": int(rng.choice(OLD_OPSETS)), microsoft.DOMAIN: 1}
    fit = [v for v in OPSETS if v >= least]
    return {"": int(rng.choice(fit)), microsoft.DOMAIN: 1} | ({"ai.onnx.ml": 3} if rng.random() < 0.2 else {})


def begin(seed, least=0):
    rng = np.random.default_rng(seed)
    g = Graph(rng, opsets_of(rng, least), base=SHAPES[rng.integers(len(SHAPES))])
    g.wraps = [0.0, 0.0, 0.3, 1.0][rng.integers(4)]
    for _ in range(int(rng.integers(2, 5))):
        g.input([g.random(s, np.float32, -2, 2) for s in g.base])
    if rng.random() < 0.3:
        g.input([g.random((4,), np.float32, -2, 2)] * 2)
    return g


def start(g, recipe):
    """The first node or nodes of a graph; a recipe that rejects its draw draws again."""
    for _ in range(TRIES):
        n = len(g.nodes)
        try:
            recipe(g)
        except Reject:
            continue
        if len(g.nodes) > n:
            return


def draw(seed):
    """The model of a seed."""
    all_starts = starts()
    first, least = all_starts[seed % len(all_starts)]
    g = begin(seed, least)
    start(g, first)
    families = [f for f in FAMILIES if g.rng.random() < 0.85] or FAMILIES
    recipes = [recipe(g.rng, families) for _ in range(int(g.rng.integers(5, 22)))]
    if g.opsets[""] in OLD_OPSETS:  # what ended with them
        recipes[1:1] = [layers.resize, moves.scatter]
    for step in recipes:
        try:
            step(g)
        except Reject:
            continue
    ends = outputs_of(g)
    if not ends:
        ends = g.emit("Neg", [g.inputs[0]])
    used = control.names_inside(g.nodes)[0] | {v.name for v in ends}
    inputs = [v for v in g.inputs if v.name in used or g.chance(0.3)]
    graph = helper.make_graph(g.nodes, f"g{seed}", [value_info(v.name, v, g.rng) for v in inputs],
                              [value_info(v.name, v) for v in ends], g.consts)
    feeds = [{v.name: v.data[k] for v in inputs} for k in range(2)]
    wants = [[(v.name, v.data[k], v.coarse) for v in ends] for k in range(2)]
    model = model_of(graph, g.opsets)
    model.producer_name = "pytorch"  # what onnxruntime, the judge, makes of files that can be read in two ways
    return Drawn(model, feeds, wants, g.drawn)
