"""Node cases of ONNX's backend suite in the middle of a graph: every operand is an intermediate that nothing else
reads, every result is read by a later node and is no output itself. What comes out must still be the case's own result.

middle.py [PATTERN]   runs the cases whose name matches and prints why each of them fails
"""
import pathlib
import re
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import isolated  # noqa: E402
import suite  # noqa: E402

# From which operator set on Mul and Add take the type and broadcast as they do today.
SINCE = {TensorProto.FLOAT: 7, TensorProto.DOUBLE: 7, TensorProto.FLOAT16: 7, TensorProto.BFLOAT16: 13,
         TensorProto.INT32: 7, TensorProto.INT64: 7, TensorProto.UINT32: 7, TensorProto.UINT64: 7,
         TensorProto.INT8: 14, TensorProto.INT16: 14, TensorProto.UINT8: 14, TensorProto.UINT16: 14}
OWN_OPSET = 18  # for cases of other domains alone
FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
# Random results cannot be compared; these draw from what their place in the graph says.
NOT_MOVED = re.compile(r"bernoulli|_training_dropout|dropout_.*random|randomnormal|randomuniform")


class Wrapper:
    """One case's graph with nodes before and after it."""

    def __init__(self, model):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
        if self.opset is None:
            self.opset = OWN_OPSET
            self.model.opset_import.append(helper.make_opsetid("", OWN_OPSET))
        self.fed = {}  # {name: (type, number)} of the inputs that no pass can know

    def scalar(self, elem, number):
        name = f"fed_{elem}_{number}"
        self.fed[name] = (elem, number)
        return name

    def through(self, value, given, made):
        """A node that hands a value of this type on: Identity where no arithmetic has the type, None without either."""
        kind = value.type.tensor_type.elem_type if value.type.HasField("tensor_type") else None
        if kind is None and self.opset < (14 if value.type.HasField("sequence_type") else 16):
            return None
        if kind == TensorProto.BOOL and self.opset >= 7:
            return helper.make_node("Or", [given, self.scalar(kind, 0)], [made])
        if kind in SINCE and self.opset >= SINCE[kind]:
            number = int(kind in FLOATS)
            return helper.make_node("Mul" if number else "Add", [given, self.scalar(kind, number)], [made])
        return helper.make_node("Identity", [given], [made])

    def wrap(self):
        """The model with a node before each input and after each output that can have one."""
        graph = self.model.graph
        constant = {t.name for t in graph.initializer}
        before, after = [], []
        for v in graph.input:
            node = self.through(v, f"given_{v.name}", v.name) if v.name not in constant else None
            if node:
                before.append(node)
                v.name = node.input[0]
        for v in graph.output:
            node = self.through(v, v.name, f"read_{v.name}")
            if node:
                after.append(node)
                v.name = node.output[0]
        nodes = [*before, *graph.node, *after]
        del graph.node[:]
        graph.node.extend(nodes)
        graph.input.extend(helper.make_tensor_value_info(n, elem, []) for n, (elem, _) in self.fed.items())
        return len(before) + len(after)

    def scalars(self):
        return [np.array(number, helper.tensor_dtype_to_np_dtype(elem)) for elem, number in self.fed.values()]


def plain(x):
    if isinstance(x, (list, tuple)):
        return [plain(i) for i in x]
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else x


def cases():
    """{name: case} of the suite's node cases that are listed as passing."""
    from onnx.backend.test.case.node import collect_testcases
    listed = suite.listed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {c.name: c for c in collect_testcases(None)}
    return {n: c for n, c in sorted(found.items())
            if f"{n}_cpu" in listed and c.data_sets and not NOT_MOVED.search(n)}


def run_case(case):
    """Why the case fails when it stands in the middle; None when it does not."""
    from onnx.backend.test.runner import Runner
    wrapper = Wrapper(case.model)
    if wrapper.wrap() == 0:
        return "nothing to be wrapped in"
    try:
        isolated.worker.ask("prepare", wrapper.model.SerializeToString(), "CPU")
        for inputs, wants in case.data_sets:
            got = isolated.worker.ask("run", [plain(x) for x in inputs] + wrapper.scalars())
            Runner.assert_similar_outputs([plain(w) for w in wants], got, case.rtol, case.atol)
    except (isolated.Failed, AssertionError) as e:
        return " ".join(str(e).split())[:400]
    return None


def run(pattern=""):
    """{name: why not, or None}"""
    try:
        return {name: run_case(case) for name, case in cases().items() if re.search(pattern, name)}
    finally:
        isolated.worker.stop()


if __name__ == "__main__":
    outcome = run(sys.argv[1] if len(sys.argv) > 1 else "")
    for case_name, why in outcome.items():
        if why:
            print(f"{case_name}: {why}")
    print(f"in the middle of a graph: {sum(w is None for w in outcome.values())} passed of {len(outcome)}")
