"""Whether a model suits the accelerators of phones under onnxruntime: NNAPI and the two forms of Core ML.

A provider takes nodes by their operator (the tables *.md beside this file), some only with dims that are numbers, Core
ML only up to five of them. What it takes falls into partitions, between which values travel: few large ones suit it,
many small ones cost more than they bring. Nothing of this runs the model, and no accelerator is needed.

    python -m nacre.tools.mobile_helpers.usability_checker [--skip_optimize] [--log_level debug] MODEL
"""
from __future__ import annotations

import argparse
import logging
import pathlib
import tempfile
from collections import deque
from enum import IntEnum
from typing import Any, Deque, Dict, Iterator, List, Optional, Set, Tuple

import onnx

import nacre
from nacre.quantization.onnx_model import inputs_of, subgraphs
from nacre.tools.onnx_model_utils import ModelProtoWithShapeInfo, is_fixed_size_tensor

_FOLDER = pathlib.Path(__file__).parent
_ANY_RANK, _CORE_ML_RANK = 999, 5
#: Passes that make what a phone's provider does not know; the others of their level, such as folding a
#: BatchNormalization into weights, are among onnxruntime's basic ones.
_NOT_BASIC = ["quantized", "normalizations", "activations", "attention", "powers", "resizes", "products"]
Values = Dict[str, onnx.ValueInfoProto]


class _SupportedOpsChecker:
    """A table of operators: rows `|domain:operator|note|`; all else in the file is text."""

    def __init__(self, filename: Any) -> None:
        rows = [line.strip().split("|") for line in pathlib.Path(filename).read_text(encoding="utf-8").splitlines()]
        self._notes = {r[1]: r[2].replace("<br/>", " ") for r in rows if len(r) == 4 and not r[0] and ":" in r[1]}
        self._seen: Set[str] = set()

    def is_op_supported(self, node: onnx.NodeProto) -> bool:
        name = _name(node)
        self._seen |= {name} & self._notes.keys()
        return name in self._notes

    def get_caveats(self) -> List[str]:
        """The notes of the operators that were asked for."""
        return [f"{name}:{self._notes[name]}" for name in sorted(self._seen) if self._notes[name]]


def _name(node: onnx.NodeProto) -> str:
    return f"{node.domain or 'ai.onnx'}:{node.op_type}"


class PartitioningInfo:
    """How a provider would cut a model, and what it would leave to the CPU for what reason."""

    class TryWithEP(IntEnum):
        NO = 0
        MAYBE = 1
        YES = 2

    def __init__(self, num_nodes: int, num_supported_nodes: int, num_partitions: int,
                 supported_ops_checker: Any, supported_groups: List[List[onnx.NodeProto]], unsupported_ops: Set[str],
                 nodes_unsupported_due_to_op: int, nodes_unsupported_due_to_dynamic_input: int,
                 num_unsupported_nodes_due_to_rank: int, ops_with_unsupported_rank: Set[str]) -> None:
        self.num_nodes, self.num_supported_nodes, self.num_partitions = num_nodes, num_supported_nodes, num_partitions
        self.supported_ops_checker, self.supported_groups = supported_ops_checker, supported_groups
        self.unsupported_ops, self.nodes_unsupported_due_to_op = unsupported_ops, nodes_unsupported_due_to_op
        self.nodes_unsupported_due_to_dynamic_input = nodes_unsupported_due_to_dynamic_input
        self.num_unsupported_nodes_due_to_rank = num_unsupported_nodes_due_to_rank
        self.ops_with_unsupported_rank = ops_with_unsupported_rank
        self.num_subgraphs = self.num_nodes_in_subgraphs = 0

    def merge(self, other: PartitioningInfo) -> None:
        """Adds what was found in a subgraph of this graph."""
        for count in ("num_nodes", "num_supported_nodes", "num_partitions", "nodes_unsupported_due_to_op",
                      "nodes_unsupported_due_to_dynamic_input", "num_unsupported_nodes_due_to_rank"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.supported_groups.extend(other.supported_groups)
        self.unsupported_ops |= other.unsupported_ops
        self.ops_with_unsupported_rank |= other.ops_with_unsupported_rank
        self.num_subgraphs += 1
        self.num_nodes_in_subgraphs += other.num_nodes

    def _percent(self) -> float:
        return 100 * self.num_supported_nodes / self.num_nodes if self.num_nodes else 0.0

    def suitability(self) -> PartitioningInfo.TryWithEP:
        """One partition of more than three quarters of the nodes suits; of more than half, or two of three quarters
        together, may suit."""
        answer, percent = self.TryWithEP, self._percent()
        if self.num_partitions == 1 and percent > 75:
            return answer.YES
        if (self.num_partitions == 1 and percent > 50) or (self.num_partitions == 2 and percent > 75):
            return answer.MAYBE
        return answer.NO

    def print_analysis(self, logger: logging.Logger, ep_name: str) -> None:
        logger.info("%s takes %d of %d nodes, in %d partitions", ep_name, self.num_supported_nodes, self.num_nodes,
                    self.num_partitions)
        if self.supported_groups:
            logger.info("\tnodes of the partitions: %s", ", ".join(str(len(g)) for g in self.supported_groups))
        for group in self.supported_groups:
            logger.debug("\ta partition: %s", ", ".join(f"{n.op_type} '{n.name}'" for n in group))
        logger.info("\tleft for their operator: %d %s", self.nodes_unsupported_due_to_op,
                    ", ".join(sorted(self.unsupported_ops)))
        if self.nodes_unsupported_due_to_dynamic_input:
            logger.info("\tleft for dims that are no numbers: %d", self.nodes_unsupported_due_to_dynamic_input)
        if self.num_unsupported_nodes_due_to_rank:
            logger.info("\tleft for too many dims: %d %s", self.num_unsupported_nodes_due_to_rank,
                        ", ".join(sorted(self.ops_with_unsupported_rank)))
        if caveats := self.supported_ops_checker.get_caveats():
            logger.info("\tnot checked, and may leave more of them:%s", "".join("\n\t\t" + c for c in caveats))
        if self.num_subgraphs:
            logger.info("\t%d nodes are in %d subgraphs, which a provider may not take", self.num_nodes_in_subgraphs,
                        self.num_subgraphs)
        verdict = {0: "is better left alone with", 1: "may suit; measure", 2: "suits"}[self.suitability()]
        logger.info("%s %s this model: %.1f%% of the nodes in %d partitions", ep_name, verdict, self._percent(),
                    self.num_partitions)


# ---- one graph ----

class _Verdicts:
    """What a provider says to the nodes of a graph, and the counts of its reasons."""

    def __init__(self, graph: onnx.GraphProto, ops: Any, values: Optional[Values], constants: Set[str],
                 max_rank: int) -> None:
        """values: what is known of the names that the graph sees; None: shapes do not matter."""
        self._ops, self._values, self._max_rank = ops, values, max_rank
        self._constants = constants | {i.name for i in graph.initializer}
        self.n_op = self.n_shape = self.n_rank = 0
        self.ops: Set[str] = set()
        self.rank_ops: Set[str] = set()

    def reasons(self, node: onnx.NodeProto) -> Tuple[bool, bool, bool]:
        """Whether the operator, a shape, a rank speaks against it."""
        return (not self._ops.is_op_supported(node),
                self._values is not None and not all(self._fixed(i) for i in node.input if i), self._high(node))

    def count(self, node: onnx.NodeProto, reasons: Tuple[bool, bool, bool]) -> None:
        op, shape, rank = reasons
        self.n_op, self.n_shape, self.n_rank = self.n_op + op, self.n_shape + shape, self.n_rank + rank
        self.ops |= {_name(node)} if op else set()
        self.rank_ops |= {_name(node)} if rank else set()

    def _fixed(self, name: str) -> bool:
        assert self._values is not None
        return is_fixed_size_tensor(self._values[name]) if name in self._values else name in self._constants

    def _high(self, node: onnx.NodeProto) -> bool:
        ranks = [len(self._values[i].type.tensor_type.shape.dim) for i in node.input
                 if self._values and i in self._values]
        if node.op_type == "Transpose":  # tells its rank without shapes
            ranks += [len(a.ints) for a in node.attribute if a.name == "perm"]
        return any(r > self._max_rank for r in ranks)


def _links(nodes: List[onnx.NodeProto]) -> Tuple[List[int], List[List[int]]]:
    """By node: of how many others it reads, and which ones read of it. A subgraph reads for its node."""
    maker = {o: i for i, node in enumerate(nodes) for o in node.output if o}
    before = [{maker[name] for name in inputs_of(node) if name in maker} for node in nodes]
    after: List[List[int]] = [[] for _ in nodes]
    for i, makers in enumerate(before):
        for m in makers:
            after[m].append(i)
    return [len(b) for b in before], after


def _groups(graph: onnx.GraphProto, verdicts: _Verdicts) -> List[List[onnx.NodeProto]]:
    """The partitions, as onnxruntime cuts them: in topological order a node that is taken joins the open one. One that
    is not, and reads of the open one, waits until nothing else is ready; then that one is closed."""
    nodes = list(graph.node)
    waits_for, after = _links(nodes)
    ready: Deque[int] = deque(i for i, n in enumerate(waits_for) if n == 0)
    later: Deque[int] = deque()
    groups: List[List[onnx.NodeProto]] = [[]]
    border: Set[int] = set()  # nodes that read of the open one
    while ready or later:
        if not ready:
            ready, later = later, deque()
            border.clear()
            groups.append([])
        i = ready.popleft()
        reasons = verdicts.reasons(nodes[i])
        if any(reasons) and i in border:
            later.append(i)
            continue
        if any(reasons):
            verdicts.count(nodes[i], reasons)
        else:
            groups[-1].append(nodes[i])
            border.update(after[i])
        for reader in after[i]:
            waits_for[reader] -= 1
            if waits_for[reader] == 0:
                ready.append(reader)
    return [g for g in groups if g]


def _of_graph(graph: onnx.GraphProto, ops: Any, values: Optional[Values], constants: Set[str],
              max_rank: int) -> PartitioningInfo:
    verdicts = _Verdicts(graph, ops, values, constants, max_rank)
    groups = _groups(graph, verdicts)
    return PartitioningInfo(len(graph.node), sum(map(len, groups)), len(groups), ops, groups, verdicts.ops,
                            verdicts.n_op, verdicts.n_shape, verdicts.n_rank, verdicts.rank_ops)


def _all_graphs(graph: onnx.GraphProto, values: Optional[Values],
                constants: Set[str]) -> Iterator[Tuple[onnx.GraphProto, Optional[Values], Set[str]]]:
    """A graph and those inside of it, with the values and constants that each sees."""
    if values is not None:
        values = {**values, **{v.name: v for part in (graph.input, graph.output, graph.value_info) for v in part}}
    yield graph, values, constants
    seen = constants | {i.name for i in graph.initializer}
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _all_graphs(inner, values, seen)


def check_partitioning(main_graph: onnx.GraphProto, supported_ops_checker: Any, require_fixed_input_sizes: bool,
                       max_rank: int = _ANY_RANK) -> PartitioningInfo:
    """How a graph and its subgraphs would be cut by a provider that takes what the checker says. With
    require_fixed_input_sizes it takes only nodes whose inputs have numbers for dims; shapes must be inferred then."""
    if require_fixed_input_sizes and not main_graph.value_info and len(main_graph.node) > 1:
        raise ValueError(f"graph '{main_graph.name}' tells no shapes inside: infer them before (onnx.shape_inference)")
    whole: Optional[PartitioningInfo] = None
    for graph, values, constants in _all_graphs(main_graph, {} if require_fixed_input_sizes else None, set()):
        found = _of_graph(graph, supported_ops_checker, values, constants, max_rank)
        if whole is None:
            whole = found
        else:
            whole.merge(found)
    assert whole is not None
    return whole


def check_nnapi_partitions(model: onnx.ModelProto, require_fixed_input_sizes: bool) -> PartitioningInfo:
    return check_partitioning(model.graph, _SupportedOpsChecker(_FOLDER / "nnapi_supported_ops.md"),
                              require_fixed_input_sizes)


def check_coreml_partitions(model: onnx.ModelProto, require_fixed_input_sizes: bool,
                            config_filename: str) -> PartitioningInfo:
    """config_filename: coreml_supported_neuralnetwork_ops.md or coreml_supported_mlprogram_ops.md."""
    return check_partitioning(model.graph, _SupportedOpsChecker(_FOLDER / config_filename), require_fixed_input_sizes,
                              _CORE_ML_RANK)


# ---- a model ----

def check_shapes(graph: onnx.GraphProto,
                 logger: Optional[logging.Logger] = None) -> Tuple[List[onnx.ValueInfoProto], int]:
    """(inputs with dims that are no numbers, how many values have such). NNAPI refuses those, Core ML is slowed."""
    logger = logger or logging.getLogger(__name__)
    inputs = [v for v in graph.input if not is_fixed_size_tensor(v)]
    outputs = [v for v in graph.output if not is_fixed_size_tensor(v)]
    inside = [v for v in graph.value_info if not is_fixed_size_tensor(v)]
    for what, values in (("input", inputs), ("output", outputs)):
        for v in values:
            logger.info("%s '%s' has dims that are no numbers: %s", what, v.name,
                        [d.dim_value or d.dim_param or "?" for d in v.type.tensor_type.shape.dim])
    if not graph.value_info and len(graph.node) != 1 and len(inputs) != len(graph.input):
        logger.warning("graph '%s' tells no shapes inside: infer them before", graph.name)
    total, open_dims = len(graph.input) + len(graph.output) + len(graph.value_info), len(inputs + outputs + inside)
    logger.info("values with numbers for dims: %d, without: %d", total - open_dims, open_dims)
    if inputs and outputs:
        logger.info("exported with numbers for dims the model may suit NNAPI and Core ML better")
    elif inputs:
        logger.info("the outputs have numbers for dims: where those begin early in the model, little is lost")
    return inputs, open_dims


def _suits(name: str, check: Any, model: onnx.ModelProto, dynamic: bool,
           logger: logging.Logger) -> PartitioningInfo.TryWithEP:
    """The best of the model as it is and, where inputs have open dims, with numbers in their place."""
    best = PartitioningInfo.TryWithEP.NO
    for fixed in (True, False):
        logger.info("---- %s, the model %s", name, "as it is" if fixed else "with numbers for all of its dims")
        info = check(model, fixed)
        info.print_analysis(logger, name)
        best = max(best, info.suitability())
        if best == PartitioningInfo.TryWithEP.YES or not dynamic:
            break
        if not fixed and info.suitability() != PartitioningInfo.TryWithEP.NO:
            logger.info("python -m nacre.tools.make_dynamic_shape_fixed gives dims numbers")
    logger.info("%s: %s", name, best.name)
    return best


def checker(model_path: pathlib.Path, logger: logging.Logger) -> bool:
    """Whether NNAPI or Core ML may suit the model of a file."""
    model = ModelProtoWithShapeInfo(model_path).model_with_shape_info
    dynamic, _ = check_shapes(model.graph, logger)
    checks = {"NNAPI": check_nnapi_partitions}
    for form in ("NeuralNetwork", "MLProgram"):
        checks[f"Core ML {form}"] = lambda m, fixed, form=form: check_coreml_partitions(
            m, fixed, f"coreml_supported_{form.lower()}_ops.md")
    found = [_suits(name, check, model, bool(dynamic), logger) for name, check in checks.items()]
    return any(f != PartitioningInfo.TryWithEP.NO for f in found)


def _optimize(model_path: pathlib.Path, output_path: pathlib.Path) -> None:
    options = nacre.SessionOptions()
    options.optimized_model_filepath = str(output_path)
    options.graph_optimization_level = nacre.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 3
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    nacre.InferenceSession(str(model_path), options, disabled_optimizers=_NOT_BASIC)


def analyze_model(model_path: pathlib.Path, skip_optimize: bool = False,
                  logger: Optional[logging.Logger] = None) -> bool:
    """The same of the model as passes leave it, as a phone's .ort file would hold it."""
    if logger is None:
        logger = logging.getLogger("usability_checker")
        logger.setLevel(logging.INFO)
    path = pathlib.Path(model_path)
    logger.info("%s on phones", path)
    with tempfile.TemporaryDirectory() as folder:
        if not skip_optimize:
            path = pathlib.Path(folder) / path.name
            _optimize(pathlib.Path(model_path), path)
        return checker(path.resolve(strict=True), logger)


def parse_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tells whether a model suits the accelerators of phones.")
    parser.add_argument("--log_level", choices=["debug", "info"], default="info", help="debug names every node")
    parser.add_argument("--skip_optimize", action="store_true", help="the file as it is, without passes")
    parser.add_argument("model_path", type=pathlib.Path, help="the model's file")
    return parser.parse_args(arguments)


def run_analyze_model(arguments: Optional[List[str]] = None) -> None:
    told = parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    logger = logging.getLogger("usability_checker")
    logger.setLevel(told.log_level.upper())
    analyze_model(told.model_path.resolve(), told.skip_optimize, logger)


if __name__ == "__main__":
    run_analyze_model()
