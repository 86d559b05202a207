"""Shapes of a model's values once its symbols have numbers."""
from __future__ import annotations

from typing import Any, Dict, List, Optional

from onnx import ModelProto

from nacre import _inference
from nacre.tools.onnx_model_utils import make_dim_param_fixed
from nacre.tools.symbolic_shape_infer import SymbolicShapeInference


class SymbolicShapeInferenceHelper(SymbolicShapeInference):
    def __init__(self, model: ModelProto, verbose: int = 0, int_max: int = 2**31 - 1, auto_merge: bool = True,
                 guess_output_rank: bool = False) -> None:
        super().__init__(int_max, auto_merge, guess_output_rank, verbose)
        self.model_ = model
        self.all_shapes_inferred_ = self.is_inferred_ = False
        self.dynamic_axis_mapping_: Dict[str, int] = {}
        self._types: Dict[str, Any] = {}

    def infer(self, dynamic_axis_mapping: Dict[str, int], max_runs: int = 200) -> bool:
        """Whether every value has a shape. The model itself stays as it is."""
        if self.is_inferred_ and dynamic_axis_mapping == self.dynamic_axis_mapping_:
            return self.all_shapes_inferred_
        bare = _inference.skeleton(self.model_)
        for name, size in dynamic_axis_mapping.items():
            make_dim_param_fixed(bare.graph, name, size)
        self._types, self.dynamic_axis_mapping_ = _inference.types_of(bare), dict(dynamic_axis_mapping)
        made = [o for n in bare.graph.node for o in n.output if o]
        self.all_shapes_inferred_ = all(o in self._types and self._types[o].tensor_type.HasField("shape")
                                        for o in made)
        self.is_inferred_ = True
        return self.all_shapes_inferred_

    def get_edge_shape(self, edge: str) -> Optional[List[Any]]:
        """Numbers, symbols as text; None where nothing is known."""
        kind = self._types.get(edge)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.tensor_type.shape.dim]

    def compare_shape(self, edge: str, edge_other: str) -> bool:
        shapes = [self.get_edge_shape(e) for e in (edge, edge_other)]
        if None in shapes:
            raise ValueError(f"the shapes of '{edge}' and '{edge_other}' are not both known")
        return shapes[0] == shapes[1]
