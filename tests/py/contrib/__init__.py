"""Operators of onnxruntime's own domains in models of one node: how they are made, run and compared. A case names the
op, its operands (None: left out), which outputs are wanted, and attributes; onnxruntime is the peer where its CPU has
the op, else a function of numpy that the case brings."""
import collections

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import package  # noqa: F401  (makes nacre importable)
from tolerances import close

Case = collections.namedtuple("Case", "name op inputs attributes outputs tolerance reference constants types domain "
                                      "needs_sizes")
onnxruntime.set_default_logger_severity(4)
DOMAIN = "com.microsoft"
NARROW = {np.dtype(ml_dtypes.bfloat16): "op_bf16", np.dtype(np.float16): "op_f16"}


def case(name, op, inputs, outputs=1, tolerance=None, reference=None, constants=(), types=None,
         domain=DOMAIN, needs_sizes=False, **attributes):
    """outputs: how many, or a list of which are wanted. constants: indices of operands that the model holds.
    types: element types of outputs that follow from nothing else, or (element type, shape). needs_sizes: refused where
    sizes are not known."""
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    inputs = [None if x is None else np.asarray(x) for x in inputs]
    return Case(f"{op}-{name}", op, inputs, attributes, wanted, tolerance, reference, tuple(constants), types or {},
                domain, needs_sizes)


def stream(seed):
    """Numbers of one file of cases, so that what another file draws does not move them: (generator, f, i32)."""
    draw = np.random.default_rng(seed)

    def f(*shape, lo=-2, hi=2, t=np.float32):
        return draw.uniform(lo, hi, shape).astype(t)

    def i32(hi, *shape):
        return draw.integers(0, hi, shape).astype(np.int32)
    return draw, f, i32


def kind(x):
    return helper.np_dtype_to_tensor_dtype(x.dtype)


def proto_of(name, x):
    if x.dtype.name in ("int4", "uint4"):
        return helper.make_tensor(name, kind(x), x.shape, x.astype(np.int8).ravel())
    return helper.make_tensor(name, kind(x), x.shape, np.ascontiguousarray(x).tobytes(), raw=True)


def declared(name, what):
    element, shape = what if isinstance(what, tuple) else (what, None)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(element)), shape)


def model_of(c, opset=17, known=True):
    """The model of one node. known: with the sizes of its inputs; else with their ranks alone."""
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(c.inputs)]
    outs = [f"o{k}" if w else "" for k, w in enumerate(c.outputs)]
    node = helper.make_node(c.op, names, outs, name="it", domain=c.domain, **c.attributes)
    fed = [(n, x) for k, (n, x) in enumerate(zip(names, c.inputs)) if n and k not in c.constants]
    held = [proto_of(n, x) for k, (n, x) in enumerate(zip(names, c.inputs)) if n and k in c.constants]
    infos = [helper.make_tensor_value_info(n, kind(x), x.shape if known else [f"{n}_{k}" for k in range(x.ndim)])
             for n, x in fed]
    results = [declared(n, c.types[k]) if k in c.types else helper.make_empty_tensor_value_info(n)
               for k, n in enumerate(outs) if n]
    graph = helper.make_graph([node], "one", infos, results, held)
    opsets = [helper.make_opsetid(d, opset if d == "" else 1) for d in dict.fromkeys(("", DOMAIN, c.domain))]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString(), dict(fed)


def by_onnxruntime(c, **how):
    model, feeds = model_of(c, **how)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def by_nacre(c, **how):
    import nacre
    model, feeds = model_of(c, **how)
    return nacre.InferenceSession(model).run(None, feeds)


def compare(got, want, c, what=""):
    assert len(got) == len(want)
    for k, (g, w) in enumerate(zip(got, want)):
        w = np.asarray(w)
        assert g.shape == w.shape, f"{what} output {k}: {g.shape}, expected {w.shape}"
        assert g.dtype == w.dtype, f"{what} output {k}: {g.dtype}, expected {w.dtype}"
        if c.tolerance == "step":  # a quantized result may round the other way, and rarely does
            apart = np.abs(g.astype(np.int64) - w.astype(np.int64))
            close(apart, np.zeros_like(apart), "code_step", f"{what} output {k}")
            share = max((apart > 0).sum() - 2, 0) / max(apart.size, 1)  # two of a few codes are no share
            close(share, 0, "code_share", f"{what} output {k}: in how many places")
        elif w.dtype.kind in "iubO":
            assert np.array_equal(g, w), f"{what} output {k}"
        else:
            close(g.astype(np.float64), w.astype(np.float64), c.tolerance or NARROW.get(w.dtype, "ort_f32"),
                  f"{what} output {k}")
