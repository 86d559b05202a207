"""ONNX's node cases on the CUDA device, a GPU or the stand-ins of tests/cuda: which of the numeric ones have every
compute node there, and whether the results are right, also of those that have not.

on_cuda.py [--here] [PATTERN]   runs the cases whose name matches and prints what is left on the host and what is wrong;
                                --here: in this process, for tools that watch one

NACRE_TEST_PART=I/N: every N-th of them from the I-th.
"""
import itertools
import os
import pathlib
import re
import sys

from onnx import TensorProto

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import isolated  # noqa: E402
import middle  # noqa: E402

# Not numbers, or no computing: files of images, trees and classifiers, subgraphs that the host steps through.
LEFT_OUT = re.compile(r"^test_(image_decoder|ai_onnx_ml|string|sequence|optional|identity_(sequence|opt)|loop|scan"
                      r"|if_(opt|seq)|range_.*_expanded|split_to_sequence)")


def numeric(case):
    """Whether every value of the graph's boundary, and of the nodes' attributes, is a tensor of numbers."""
    graph = case.model.graph
    values = [v.type for v in [*graph.input, *graph.output]]
    kinds = all(t.HasField("tensor_type") and t.tensor_type.elem_type != TensorProto.STRING for t in values)
    return kinds and not LEFT_OUT.search(case.name)


def refusal(worker, model):
    """Why a node of the model would compute on the host; None when none does."""
    try:
        worker.ask("prepare_whole", model, "CUDA")
    except isolated.Failed as e:
        if "host_nodes refuses" not in str(e):
            raise
        return " ".join(str(e).split())
    return None


def run_case(worker, case):
    """(why it is wrong or None, why a node stays on the host or None)"""
    from onnx.backend.test.runner import Runner
    model, left = case.model.SerializeToString(), None
    try:
        left = refusal(worker, model)
        if left is not None:
            worker.ask("prepare", model, "CUDA")
        for inputs, wants in case.data_sets:
            got = worker.ask("run", [middle.plain(x) for x in inputs])
            Runner.assert_similar_outputs([middle.plain(w) for w in wants], got, case.rtol, case.atol)
    except (isolated.Failed, AssertionError) as e:
        return " ".join(str(e).split())[:400], left
    return None, left


def run(worker, pattern=""):
    """{name: (wrong, left)} of the numeric cases."""
    part, _, parts = os.environ.get("NACRE_TEST_PART", "0/1").partition("/")
    chosen = [(n, c) for n, c in middle.cases().items() if re.search(pattern, n) and numeric(c)]
    try:
        return {n: run_case(worker, c) for n, c in itertools.islice(chosen, int(part), None, int(parts))}
    finally:
        worker.stop()


def summary(outcome):
    whole = sum(left is None for _, left in outcome.values())
    return f"{whole} of {len(outcome)} numeric node cases have no compute node on the host"


def main(arguments):
    here = arguments[:1] == ["--here"]
    pattern = "".join(arguments[here:][:1])
    outcome = run(isolated.Answers() if here else isolated.worker, pattern)
    for name, (wrong, left) in outcome.items():
        if left:
            print(f"HOST {name}: {left}")
        if wrong:
            print(f"WRONG {name}: {wrong}")
    print(summary(outcome))
    return int(any(wrong for wrong, _ in outcome.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
