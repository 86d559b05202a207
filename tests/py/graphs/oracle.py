"""What a node gives, by somebody else: onnxruntime where it has the operator for these types, else ONNX's reference
evaluator. Nodes are asked one at a time, so each finds the oracle that knows it."""
import collections
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)
NEWEST_OF_ORT = 26
SESSIONS_KEPT = 1500
# Its DFT is less exact than a float; its MaxUnpool counts in the shape that is asked for, ONNX's suite in its own.
NOT_OF_ORT = {"DFT", "MaxUnpool"}
# Of an empty picture its pools have other shapes than of a full one, it cuts odd sides into squares, and of nothing it
# takes the largest.
NOT_OF_REFERENCE = {"GlobalMaxPool", "MaxPool", "SpaceToDepth", "TopK"}


class Reject(Exception):
    """This node cannot be part of the graph: no oracle takes it, or its result is no good to compare with."""


def element(x):
    """ONNX's number of an array's element type."""
    return TensorProto.STRING if x.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(x.dtype)


def type_proto(x):
    """The type of a value, dims left open. An empty list is a sequence of floats."""
    if isinstance(x, list):
        return helper.make_sequence_type_proto(
            helper.make_tensor_type_proto(element(x[0]) if x else TensorProto.FLOAT, None))
    return helper.make_tensor_type_proto(element(x), None)


def renamed(node, captured):
    """The node with names that depend on nothing but its form, and the names of its operands, each once."""
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    names = list(dict.fromkeys(n for n in node.input if n))
    kept = set(captured)
    place = {n: n if n in kept else f"i{k}" for k, n in enumerate(names)}
    plain.name = ""
    plain.input[:] = [place[n] if n else "" for n in node.input]
    plain.output[:] = [f"o{k}" if n else "" for k, n in enumerate(node.output)]
    operands = [(n, place[n]) for n in names] + [(n, n) for n in captured if n not in names]
    return plain, operands


class Oracle:
    """Answers for one operator set; sessions are kept by the node's form."""

    def __init__(self):
        self.kept = collections.OrderedDict()

    def run(self, node, values, opsets, captured=()):
        """values: {name: array or list} of the operands and captures. Gives the outputs that have a name, in order."""
        plain, operands = renamed(node, captured)
        feeds = {inner: values[outer] for outer, inner in operands}
        key = (plain.SerializeToString(), tuple(opsets.items()),
               tuple((n, type_proto(x).SerializeToString()) for n, x in feeds.items()))
        if key not in self.kept:
            self.kept[key] = self.sessions(plain, feeds, opsets)
            if len(self.kept) > SESSIONS_KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(key)
        sessions = self.kept[key]
        if any(isinstance(x, np.ndarray) and x.size == 0 for x in feeds.values()):
            if node.op_type in NOT_OF_REFERENCE:
                sessions = [s for s in sessions if isinstance(s, onnxruntime.InferenceSession)]
            else:
                sessions = sessions[::-1]  # onnxruntime's reductions of nothing have shapes of their own
        for session in sessions:
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return [tidy(x) for x in session.run(None, feeds)]
            except Exception:  # whatever an oracle raises means that it does not know; the other may
                continue
        raise Reject(f"no oracle for {node.op_type}")

    def sessions(self, node, feeds, opsets):
        """Those oracles that take the node."""
        inputs = [helper.make_value_info(n, type_proto(x)) for n, x in feeds.items()]
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        graph = helper.make_graph([node], "one", inputs, outputs)
        check(graph, opsets)
        first, second = in_onnxruntime, in_reference
        if node.op_type in NOT_OF_ORT or any(isinstance(x, np.ndarray) and x.dtype.kind == "O" for x in feeds.values()):
            first = None  # of strings its Gather keeps one of each slice
        if node.op_type in ("Loop", "Scan"):
            second = None  # it joins what it should stack
        return [s for s in (make(graph, opsets) for make in (first, second) if make) if s]


def check(graph, opsets):
    """The evaluator takes more than the standard allows: forms of other versions, types that the schema has not."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, dict(opsets)
    try:
        onnx.checker.check_node(graph.node[0], context)
        onnx.shape_inference.infer_shapes(model_of(graph, opsets), check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as e:
        raise Reject(str(e)) from None


def model_of(graph, opsets):
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()])


def in_onnxruntime(graph, opsets):
    """A session, or None. An operator that did not change since the newest set of onnxruntime is asked in that set."""
    node = graph.node[0]
    if opsets[""] > NEWEST_OF_ORT:
        if node.domain == "" and onnx.defs.get_schema(node.op_type, opsets[""]).since_version > NEWEST_OF_ORT:
            return None
        opsets = opsets | {"": NEWEST_OF_ORT}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model_of(graph, opsets).SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])
    except Exception:  # it has no such operator, version or type
        return None


def in_reference(graph, opsets):
    try:
        return ReferenceEvaluator(model_of(graph, opsets))
    except Exception:  # as above
        return None


def tidy(x):
    """A result as the tests hold it: an array or a list of arrays."""
    if isinstance(x, (list, tuple)):
        return [tidy(i) for i in x]
    if x is None:
        raise Reject("the oracle gives nothing")
    return np.asarray(x)
