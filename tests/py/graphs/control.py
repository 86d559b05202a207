"""Recipes with bodies: If, Loop, Scan and SequenceMap, whose bodies capture values of the graphs around them."""
import numpy as np
from onnx import helper

from .builder import Graph, Value, body_proto
from .oracle import Reject

DEEPEST = 2


def depth(g):
    return len(g.chain())


def inside(g, tag):
    """A body of g with names of its own. It draws from the recipes of graphs, less those of the test's `steps`."""
    if depth(g) > DEEPEST:
        raise Reject("deep enough")
    g.root().bodies = getattr(g.root(), "bodies", 0) + 1
    inner = Graph(g.rng, g.opsets, outer=g, prefix=f"{tag}{g.root().bodies}_")
    return inner


def steps(inner, recipes, least, most):
    for _ in range(int(inner.rng.integers(least, most))):
        try:
            inner.choice(recipes)(inner)
        except Reject:
            continue


def names_inside(nodes):
    """What nodes read, in their bodies too, and what they and their bodies make."""
    read, made = set(), set()
    for node in nodes:
        read |= set(node.input)
        made |= set(node.output)
        for a in node.attribute:
            if a.HasField("g"):
                r, m = names_inside(a.g.node)
                read |= r
                made |= m | {i.name for i in a.g.input} | {t.name for t in a.g.initializer}
    return read - {""}, made


def captures(g, *bodies):
    """Values around that the bodies read."""
    known = {v.name: v for o in g.chain() for v in (*o.values, *o.all_values)}
    known |= {v.name: v for v in g.root().inputs}
    found = {}
    for body in bodies:
        read, made = names_inside(body.nodes)
        own = made | {t.name for t in body.consts}
        found |= {n: known[n] for n in sorted(read - own) if n in known}
    return list(found.values())


def own_value(inner, v):
    """A value like v made inside, from the newest that has its type and shape."""
    fits = [w for w in inner.values if not w.is_sequence and w.dtype == v.dtype and w.dims_equal(v)]
    return inner.emit("Neg" if inner.chance(0.7) else "Identity", [fits[-1]])[0]


def recipes_inside():
    from . import lanes, layers, moves
    return lanes.RECIPES + moves.RECIPES + [layers.products, layers.normalizations] + RECIPES[:2]


def if_(g):
    x = g.tensor()
    top, = g.emit("ReduceMean", [x], keepdims=0)
    test, = g.emit("Greater", [top, np.float32(g.rng.uniform(-0.5, 0.5))])
    like = [x] if g.chance(0.6) else [x, g.tensor()]
    graphs, results, bodies = [], [], []
    for tag in ("t", "e"):
        inner = inside(g, tag)
        steps(inner, recipes_inside(), 1, 4)
        outs = [own_value(inner, v) for v in like]
        graphs.append(body_proto(inner, tag, [], outs))
        results.append(outs)
        bodies.append(inner)
    node = helper.make_node("If", [test.name], [g.name() for _ in like], then_branch=graphs[0], else_branch=graphs[1])
    outs = []
    for i, name in enumerate(node.output):
        taken = [results[0 if test.data[k] else 1][i] for k in range(2)]
        data = [t.data[k] for k, t in enumerate(taken)]
        shadows = [[s[k] for k, s in enumerate(of)] for of in zip(*(t.shadows for t in taken))]
        outs.append(Value(name, data, shadows, any(t.coarse for t in taken)))
    g.nodes.append(node)
    g.values += outs
    g.drawn.add("If")


def halfway(inner, state):
    """What becomes of a state: half of something like it, so that it does not grow."""
    half, = inner.emit("Mul", [own_value(inner, state), np.asarray(0.5, state.dtype)])
    return inner.emit("Add", [half, state] if inner.chance(0.3) else [half, own_value(inner, state)])[0]


def body_value(inner, name, data, shadows=None, coarse=False):
    return inner.known(Value(inner.prefix + name, data, shadows, coarse))


def loop(g):
    x = g.tensor()
    inner = inside(g, "l")
    i = body_value(inner, "i", [np.array(0, np.int64)] * 2)
    c = body_value(inner, "c", [np.array(True)] * 2)
    s = body_value(inner, "s", x.data, x.shadows, x.coarse)
    inner.values += [i, s]
    steps(inner, recipes_inside(), 1, 4)
    state = halfway(inner, s)
    trips = int(g.rng.integers(1, 4))
    if g.chance(0.3):
        going, = inner.emit("Less", [i, np.asarray(trips - 2, np.int64)])
    else:
        going = inner.alias("Identity", c)
    outs = [going, state]
    if g.chance(0.6):
        outs.append(own_value(inner, s))
    graph = body_proto(inner, "body", [i, c, s], outs)
    number = np.asarray(trips, np.int64)
    count = g.const(number) if g.chance(0.6) else g.input([number] * 2, hidden=True)
    go = g.const(np.asarray(True))
    node = helper.make_node("Loop", [count.name, go.name, x.name], [g.name() for _ in outs[1:]], body=graph)
    g.add(node, [count, go, x], [v for v in captures(g, inner) if v.name not in (count.name, go.name, x.name)])


def scan(g):
    x = g.tensor(want=lambda v: v.rank >= 1 and v.is_static and v.shape[0] > 0)
    inner = inside(g, "s")
    first, *shadows = [[np.asarray(d[0]) for d in of] for of in (x.data, *x.shadows)]
    row = body_value(inner, "r", first, shadows, x.coarse)
    start = g.input([np.zeros_like(d) for d in row.data])
    state = body_value(inner, "s", start.data)
    inner.values += [row, state]
    steps(inner, recipes_inside(), 0, 3)
    mixed, = inner.emit("Add", [row, state])
    after = halfway(inner, mixed)
    out = own_value(inner, mixed)
    graph = body_proto(inner, "body", [state, row], [after, out])
    backwards = {"scan_input_directions": [1]} if g.chance(0.3) else {}
    outs = [g.name(), g.name()]
    node = helper.make_node("Scan", [start.name, x.name], outs, body=graph, num_scan_inputs=1, **backwards)
    g.add(node, [start, x], [v for v in captures(g, inner) if v.name not in (start.name, x.name)])


def sequence_map(g):
    x = g.tensor(want=lambda v: v.rank)
    made, = g.emit("SequenceConstruct", [x, g.like(x, np.float32)])
    inner = inside(g, "m")
    item = body_value(inner, "x", x.data, x.shadows, x.coarse)
    inner.values.append(item)
    steps(inner, recipes_inside(), 0, 3)
    out = own_value(inner, item)
    graph = body_proto(inner, "body", [item], [out])
    node = helper.make_node("SequenceMap", [made.name], [g.name()], body=graph)
    g.add(node, [made], [v for v in captures(g, inner) if v.name != made.name])


RECIPES = [if_, loop, scan, sequence_map]
