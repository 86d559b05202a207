"""nacre.tools.mobile_helpers beside onnxruntime's: the same cuts and answers for real models and small ones."""
import logging
import pathlib
import sys

import numpy as np
import onnx
import package
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime.tools import onnx_model_utils as their_utils
from onnxruntime.tools.mobile_helpers import usability_checker as theirs

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

sys.path.insert(0, str(package.nacre_c.ROOT / "tests" / "models"))
import packages  # noqa: E402

from nacre.tools import check_onnx_model_mobile_usability  # noqa: E402
from nacre.tools.mobile_helpers import usability_checker as mine  # noqa: E402

NETWORK, PROGRAM = (f"coreml_supported_{form}_ops.md" for form in ("neuralnetwork", "mlprogram"))
COUNTS = ["num_nodes", "num_supported_nodes", "num_partitions", "nodes_unsupported_due_to_op", "num_subgraphs",
          "nodes_unsupported_due_to_dynamic_input", "num_unsupported_nodes_due_to_rank", "num_nodes_in_subgraphs",
          "unsupported_ops", "ops_with_unsupported_rank"]
QUIET = logging.getLogger("quiet")
QUIET.setLevel(logging.CRITICAL)
FILES = {f.parent.parent.name[:9] + "-" + f.stem: f for f in packages.models()}


def told(info):
    return [getattr(info, c) for c in COUNTS] + [sorted(len(g) for g in info.supported_groups), int(info.suitability())]


def cuts(module, graph, table, fixed, rank):
    return told(module.check_partitioning(graph, mine._SupportedOpsChecker(mine._FOLDER / table), fixed, rank))


def inner(graph):
    yield graph
    for n in graph.node:
        for a in n.attribute:
            if a.HasField("g"):
                yield from inner(a.g)


def shaped(path):
    """With the shapes of all values. A value of unknown rank goes: onnxruntime would take it for one with numbers."""
    model = their_utils.ModelProtoWithShapeInfo(path).model_with_shape_info
    for g in inner(model.graph):
        known = [v for v in g.value_info if v.type.tensor_type.HasField("shape")]
        del g.value_info[:]
        g.value_info.extend(known)
    return model


@pytest.mark.parametrize("name", FILES)
def test_cuts_of_real_models(name):
    model = shaped(FILES[name])
    answers = []
    for fixed in (True, False):
        for table, rank in (("nnapi_supported_ops.md", 999), (NETWORK, 5), (PROGRAM, 5), (PROGRAM, 3)):
            answers.append(cuts(mine, model.graph, table, fixed, rank))
            assert answers[-1] == cuts(theirs, model.graph, table, fixed, rank), (fixed, table)
    assert any(a[1] > 10 for a in answers)


@pytest.mark.parametrize("name", FILES)
def test_answers_for_real_models(name, tmp_path):
    """For the file as it is, and as onnxruntime's passes leave it. Ours leave less in some, which suits no worse."""
    path = tmp_path / "optimized.onnx"
    their_utils.optimize_model(FILES[name], path)
    for p in (FILES[name], path):
        assert mine.analyze_model(p, True, QUIET) == theirs.analyze_model(p, True, QUIET)
    assert mine.analyze_model(FILES[name], logger=QUIET) >= theirs.analyze_model(FILES[name], logger=QUIET)


def test_both_answers_occur():
    some = (f for name, f in FILES.items() if name.endswith(("cls_infer", "silero_vad")))
    assert sorted(mine.analyze_model(f, logger=QUIET) for f in some) == [False, True]


def test_tables():
    """Operators are those of onnxruntime's tables, where two names are misspelt and count for nothing."""
    differ = {"nnapi_supported_ops.md": set(), NETWORK: {"ai.onnx:ReduceSum"}, PROGRAM: {"ai.onnx:ArgMax",
                                                                                        "ai.onnx:Argmax"}}
    folder = pathlib.Path(theirs.__file__).parent
    for table, names in differ.items():
        have, want = mine._SupportedOpsChecker(mine._FOLDER / table), theirs._SupportedOpsChecker(folder / table)
        assert set(have._notes) ^ set(want._ops) == names
        assert {n for n in have._notes if have._notes[n]} >= {n for n, c in want._ops.items() if c} - {"ai.onnx:MatMul"}


# ---- small models ----

def graph(nodes, dims, outputs, **arrays):
    made = helper.make_graph([helper.make_node(op, i.split(), o.split(), **a) for op, i, o, a in nodes], "g",
                             [helper.make_tensor_value_info("x", T.FLOAT, dims)],
                             [helper.make_tensor_value_info(o, T.FLOAT, None) for o in outputs.split()],
                             [numpy_helper.from_array(a, n) for n, a in arrays.items()])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def diamond(dims):
    """A branch that is not taken joins one that is: Det and Cumulative sums stay on the CPU."""
    return graph([("Relu", "x", "a", {}), ("CumSum", "a one", "b", {}), ("Tanh", "a", "c", {}), ("Add", "b c", "d", {}),
                  ("CumSum", "d one", "e", {}), ("Sigmoid", "e", "y", {}), ("Sigmoid", "c", "z", {})], dims, "y z",
                 one=np.array(1))


@pytest.mark.parametrize("dims", [[2, 3], ["n", 3]])
@pytest.mark.parametrize("fixed", [True, False])
def test_cuts_of_a_diamond(dims, fixed):
    g = diamond(dims).graph
    got = cuts(mine, g, "nnapi_supported_ops.md", fixed, 999)
    assert got == cuts(theirs, g, "nnapi_supported_ops.md", fixed, 999)
    expected = (0, 0) if fixed and dims[0] == "n" else (5, 3)  # Relu, Tanh, Sigmoid of it; Add; Sigmoid
    assert tuple(got[1:3]) == expected


def test_ranks():
    six = graph([("Relu", "x", "a", {}), ("Transpose", "a", "y", {"perm": [5, 4, 3, 2, 1, 0]})], [1] * 6, "y")
    for fixed in (True, False):
        got = cuts(mine, six.graph, PROGRAM, fixed, 5)
        assert got == cuts(theirs, six.graph, PROGRAM, fixed, 5)
        assert got[1] == (0 if fixed else 1), "without shapes Transpose alone tells its rank"
    plain = graph([("Transpose", "x", "y", {})], [2, 3], "y")
    assert cuts(mine, plain.graph, PROGRAM, True, 5)[1] == 1, "no perm: onnxruntime's fails with IndexError"


def test_an_omitted_input_has_no_shape():
    model = graph([("Relu", "x", "a", {}), ("Clip", "a  six", "y", {})], [2], "y", six=np.float32(6))
    model.graph.node[1].input[:] = ["a", "", "six"]
    assert cuts(mine, model.graph, PROGRAM, True, 5)[1:3] == [2, 1]
    assert cuts(theirs, model.graph, PROGRAM, True, 5)[1:3] == [1, 1], "it counts as one with open dims there"


def test_shapes_are_asked_for():
    bare = diamond([2, 3])
    del bare.graph.value_info[:]
    with pytest.raises(ValueError, match="infer them before"):
        mine.check_nnapi_partitions(bare, True)


@pytest.mark.parametrize("dims", [[2, 3], ["n", 3]])
def test_open_dims(dims, caplog):
    model = diamond(dims)
    caplog.set_level(logging.INFO)
    inputs, count = mine.check_shapes(model.graph, logging.getLogger("shapes"))
    want_inputs, want = theirs.check_shapes(model.graph)
    assert ([i.name for i in inputs], count) == ([i.name for i in want_inputs], want)
    assert ("input 'x' has dims that are no numbers: ['n', 3]" in caplog.text) == (dims[0] == "n")


def test_report(tmp_path, caplog):
    path = tmp_path / "m.onnx"
    onnx.save(diamond(["n", 3]), path)
    check_onnx_model_mobile_usability.check_usability(["--log_level", "debug", str(path)])
    for text in ("NNAPI takes 5 of 7 nodes, in 3 partitions", "ai.onnx:CumSum", "left for dims that are no numbers: 7",
                 "Core ML MLProgram: NO", "a partition: Relu", "the CPU is the best place"):
        assert text in caplog.text
    onnx.save(graph([("Relu", "x", "a", {}), ("Pow", "a two", "y", {})], [4], "y", two=np.float32(2)), path)
    caplog.clear()
    mine.run_analyze_model(["--skip_optimize", str(path)])
    assert "NNAPI: YES" in caplog.text and "ai.onnx:Pow:Both of float." in caplog.text
