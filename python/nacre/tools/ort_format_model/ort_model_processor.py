"""Operators, and types if they are counted, of one .ort file."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional, Set

from nacre.tools.ort_format_model.operator_type_usage_processors import OperatorTypeUsageManager
from nacre.tools.ort_format_model.ort_flatbuffers_py import fbs

Ops = Dict[str, Dict[int, Set[str]]]


class OrtFormatModelProcessor:
    def __init__(self, model_path: str, required_ops: Ops, processors: Optional[OperatorTypeUsageManager]) -> None:
        """process() adds to required_ops, {domain: {version: operators}}, and to what the processors have counted."""
        self._required_ops, self._processors, session = required_ops, processors, fbs.InferenceSession
        data = Path(model_path).read_bytes()
        if not session.InferenceSession.InferenceSessionBufferHasIdentifier(data, 0):
            raise RuntimeError(f"{model_path} is no .ort file: its mark is {data[4:8]!r}, expected b'ORTM'")
        self._model = session.InferenceSession.GetRootAsInferenceSession(data, 0).Model()

    def process(self) -> None:
        self._graph(self._model.Graph(), {})

    def _graph(self, graph: Any, outside: Dict[Any, Any]) -> None:
        args = [graph.NodeArgs(i) for i in range(graph.NodeArgsLength())]
        types = {**outside, **{a.Name(): a.Type() for a in args}}
        for i in range(graph.NodesLength()):
            node = graph.Nodes(i)
            domain = (node.Domain() or b"").decode() or "ai.onnx"
            versions = self._required_ops.setdefault(domain, {})
            versions.setdefault(node.SinceVersion(), set()).add(node.OpType().decode())
            if self._processors is not None:
                self._processors.process_node(node, types)
            for j in range(node.AttributesLength()):
                attribute = node.Attributes(j)
                inner = [attribute.G(), *(attribute.Graphs(k) for k in range(attribute.GraphsLength()))]
                for g in inner:
                    if g is not None:
                        self._graph(g, types)
