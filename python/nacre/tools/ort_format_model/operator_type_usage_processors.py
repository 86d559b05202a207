"""Which types of which operators models use, and whether a kernel of onnxruntime is needed for them. An operator counts
the types of the inputs and outputs by which its kernels differ; the list is at the end of the classes."""
from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from nacre.tools.ort_format_model.types import FbsTypeInfo, value_name_to_typestr

Types = Dict[int, Set[str]]
_DOMAINS = {"ai.onnx": "kOnnxDomain", "ai.onnx.ml": "kMLDomain", "com.microsoft": "kMSDomain"}


def _cpp(registered: str) -> str:
    return "std::string" if registered == "string" else registered


class TypeUsageProcessor(ABC):
    def __init__(self, domain: str, optype: str) -> None:
        self.domain, self.optype, self.name = domain, optype, f"{domain}:{optype}"

    @abstractmethod
    def process_node(self, node: Any, value_name_to_typeinfo: Dict[Any, Any]) -> None:
        """Counts what a node of this operator uses."""

    def is_typed_registration_needed(self, type_in_registration: str,
                                     globally_allowed_types: Optional[Set[str]]) -> bool:
        """Whether the kernel of this type is; where types are allowed for all operators, those count alone."""
        raise RuntimeError(f"{self.name} has no kernels by type")

    def get_cpp_entry(self) -> List[str]:
        """Lines of C++ that say which types an operator is to have."""
        return []

    @abstractmethod
    def to_config_entry(self) -> Optional[str]:
        """The types as JSON, None if there are none."""

    @abstractmethod
    def from_config_entry(self, entry: str) -> None:
        """The types are those of this JSON."""


class DefaultTypeUsageProcessor(TypeUsageProcessor):
    """Types of some inputs and outputs; required ones always have kernels."""

    def __init__(self, domain: str, optype: str, inputs: Sequence[int] = (0,), outputs: Sequence[int] = (),
                 required_input_types: Optional[Types] = None, required_output_types: Optional[Types] = None) -> None:
        super().__init__(domain, optype)
        if not inputs and not outputs:
            raise ValueError(f"{self.name}: no input and no output is counted")
        self._input_types: Types = {i: set() for i in inputs}
        self._output_types: Types = {o: set() for o in outputs}
        self._required_input_types = required_input_types or {}
        self._required_output_types = required_output_types or {}

    def is_input_type_enabled(self, reg_type: str, index: int, allowed_type_set: Optional[Set[str]] = None) -> bool:
        allowed = self._input_types[index] if allowed_type_set is None else allowed_type_set
        return _cpp(reg_type) in allowed | self._required_input_types.get(index, set())

    def is_output_type_enabled(self, reg_type: str, index: int, allowed_type_set: Optional[Set[str]] = None) -> bool:
        allowed = self._output_types[index] if allowed_type_set is None else allowed_type_set
        return _cpp(reg_type) in allowed | self._required_output_types.get(index, set())

    def process_node(self, node: Any, value_name_to_typeinfo: Dict[Any, Any]) -> None:
        for i, found in self._input_types.items():
            if i < node.InputsLength():  # old versions have fewer
                found.add(value_name_to_typestr(node.Inputs(i), value_name_to_typeinfo))
        for o, found in self._output_types.items():
            if o >= node.OutputsLength():
                raise RuntimeError(f"{self.name} has {node.OutputsLength()} outputs, output {o} is counted")
            found.add(value_name_to_typestr(node.Outputs(o), value_name_to_typeinfo))

    def is_typed_registration_needed(self, type_in_registration: str,
                                     globally_allowed_types: Optional[Set[str]]) -> bool:
        if 0 not in self._input_types:
            raise RuntimeError(f"{self.name} has no kernels by the type of input 0")
        return self.is_input_type_enabled(type_in_registration, 0, globally_allowed_types)

    def _told(self) -> Iterator[Tuple[str, int, List[str]]]:
        for word, types in (("Input", self._input_types), ("Output", self._output_types)):
            for i in sorted(types):
                if types[i]:
                    yield word, i, sorted(types[i])

    def get_cpp_entry(self) -> List[str]:
        if self.domain not in _DOMAINS:
            raise ValueError(f"domain is '{self.domain}', expected one of {', '.join(_DOMAINS)}")
        return [f"ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES({_DOMAINS[self.domain]}, {self.optype}, {word}, {i}, "
                f"{', '.join(types)});" for word, i, types in self._told()]

    def to_config_entry(self) -> Optional[str]:
        entry: Dict[str, Dict[int, List[str]]] = {}
        for word, i, types in self._told():
            entry.setdefault(word.lower() + "s", {})[i] = types
        return json.dumps(entry) if entry else None

    def from_config_entry(self, entry: str) -> None:
        told = json.loads(entry)
        self._input_types, self._output_types = ({int(i): set(types) for i, types in told.get(part, {}).items()}
                                                 for part in ("inputs", "outputs"))


class Input1TypedRegistrationProcessor(DefaultTypeUsageProcessor):
    """Kernels differ by the second input."""

    def __init__(self, domain: str, optype: str) -> None:
        super().__init__(domain, optype, inputs=[1])

    def is_typed_registration_needed(self, type_in_registration: str,
                                     globally_allowed_types: Optional[Set[str]]) -> bool:
        return self.is_input_type_enabled(type_in_registration, 1, globally_allowed_types)


class Output0TypedRegistrationProcessor(DefaultTypeUsageProcessor):
    """Kernels differ by the output."""

    def __init__(self, domain: str, optype: str) -> None:
        super().__init__(domain, optype, inputs=[], outputs=[0])

    def is_typed_registration_needed(self, type_in_registration: str,
                                     globally_allowed_types: Optional[Set[str]]) -> bool:
        return self.is_output_type_enabled(type_in_registration, 0, globally_allowed_types)


class OneHotProcessor(TypeUsageProcessor):
    """Kernels by three types in the order of indices, values, depth, written with _ between them."""

    def __init__(self) -> None:
        super().__init__("ai.onnx", "OneHot")
        self._triples: Set[Tuple[str, ...]] = set()

    def process_node(self, node: Any, value_name_to_typeinfo: Dict[Any, Any]) -> None:
        self._triples.add(tuple(value_name_to_typestr(node.Inputs(i), value_name_to_typeinfo) for i in (0, 2, 1)))

    def is_typed_registration_needed(self, type_in_registration: str,
                                     globally_allowed_types: Optional[Set[str]]) -> bool:
        triple = tuple(_cpp(t) for t in _split(type_in_registration))
        if globally_allowed_types is not None:
            return all(t in globally_allowed_types for t in triple)
        return triple in self._triples

    def to_config_entry(self) -> Optional[str]:
        return json.dumps({"custom": sorted(self._triples)}) if self._triples else None

    def from_config_entry(self, entry: str) -> None:
        self._triples = {tuple(t) for t in json.loads(entry).get("custom", [])}


def _split(text: str) -> List[str]:
    """At each _, except the one of int64_t and its like."""
    parts: List[str] = []
    for word in text.split("_"):
        if word == "t" and parts:
            parts[-1] += "_t"
        else:
            parts.append(word)
    return parts


# ---- the list ----

_BY_INPUT_0 = """
    Abs ArgMax ArgMin AveragePool BatchNormalization BitShift Ceil Clip Conv CumSum Exp Expand Floor
    Gemm IsNaN Log LogSoftmax LpNormalization MatMul Max MaxPool Mean Min NonZero Pad QLinearConv
    QLinearMatMul Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Resize ReverseSequence RoiAlign Round Scatter
    ScatterElements ScatterND Shrink Sigmoid Sign Sin Softmax Split SplitToSequence Sqrt Sum Tanh TopK
    Transpose Unique""".split()
#: They compute shapes and indices too, and so keep their kernels of integers.
_WITH_INTEGERS = "Add Concat Div Equal Greater Less Mul Neg Sub".split()
_BY_OUTPUT = "ConstantOfShape RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial".split()


def _create_operator_type_usage_processors() -> Dict[str, TypeUsageProcessor]:
    plain, onnx = DefaultTypeUsageProcessor, "ai.onnx"
    made: List[TypeUsageProcessor] = [plain(onnx, op) for op in _BY_INPUT_0]
    made += [plain(onnx, op, required_input_types={0: {"int32_t", "int64_t"}}) for op in _WITH_INTEGERS]
    made += [plain("com.microsoft", op) for op in ("QLinearAdd", "QLinearMul", "QLinearConv")]
    made += [plain(onnx, op, inputs=[0, 1]) for op in ("Gather", "GatherElements", "Pow", "Slice")]
    made += [plain(onnx, op, inputs=[], outputs=[0]) for op in _BY_OUTPUT]
    made += [Output0TypedRegistrationProcessor(onnx, op) for op in ("QuantizeLinear", "DynamicQuantizeLinear")]
    made += [plain(onnx, "Cast", inputs=[0], outputs=[0]), Input1TypedRegistrationProcessor(onnx, "Where"),
             plain(onnx, "DequantizeLinear", required_input_types={0: {"int8_t", "uint8_t", "int32_t"}}),
             OneHotProcessor()]
    return {p.name: p for p in made}


# ---- many operators ----

class OpTypeImplFilterInterface(ABC):
    """Which kernels are needed."""

    @abstractmethod
    def is_typed_registration_needed(self, domain: str, optype: str, type_registration_str: str) -> bool:
        """Whether that of this operator and type is."""

    @abstractmethod
    def get_cpp_entries(self) -> List[str]:
        """Lines of C++ that say which types there are to be."""


class OperatorTypeUsageManager:
    """Counts for all operators of the list."""

    def __init__(self) -> None:
        self._all_operator_processors = _create_operator_type_usage_processors()
        self._operator_processors: Dict[str, TypeUsageProcessor] = {}  # those that were asked for

    def _of(self, domain: str, optype: str) -> Optional[TypeUsageProcessor]:
        key = f"{domain}:{optype}"
        if key in self._all_operator_processors:
            self._operator_processors.setdefault(key, self._all_operator_processors[key])
        return self._operator_processors.get(key)

    def process_node(self, node: Any, value_name_to_typeinfo: Dict[Any, Any]) -> None:
        found = self._of((node.Domain() or b"").decode() or "ai.onnx", node.OpType().decode())
        if found is not None:
            found.process_node(node, value_name_to_typeinfo)

    def get_config_entry(self, domain: str, optype: str) -> Optional[str]:
        found = self._operator_processors.get(f"{domain}:{optype}")
        return found and found.to_config_entry()

    def restore_from_config_entry(self, domain: str, optype: str, config_entry: str) -> None:
        found = self._of(domain, optype)
        if found is not None:
            found.from_config_entry(config_entry)

    def debug_dump(self) -> None:
        print("\n".join(self.make_op_type_impl_filter().get_cpp_entries()))
        for key in sorted(self._operator_processors):
            print(key, "->", self._operator_processors[key].to_config_entry())

    class _OpTypeImplFilter(OpTypeImplFilterInterface):
        def __init__(self, manager: OperatorTypeUsageManager) -> None:
            self._manager = manager

        def is_typed_registration_needed(self, domain: str, optype: str, type_registration_str: str) -> bool:
            """One of an operator that was never seen stays."""
            found = self._manager._operator_processors.get(f"{domain}:{optype}")
            return found is None or found.is_typed_registration_needed(type_registration_str, None)

        def get_cpp_entries(self) -> List[str]:
            return [line for _, p in sorted(self._manager._operator_processors.items()) for line in p.get_cpp_entry()]

    def make_op_type_impl_filter(self) -> OpTypeImplFilterInterface:
        return OperatorTypeUsageManager._OpTypeImplFilter(self)


class GloballyAllowedTypesOpTypeImplFilter(OpTypeImplFilterInterface):
    """The same types for all operators."""

    def __init__(self, globally_allowed_types: Set[str]) -> None:
        wrong = sorted(globally_allowed_types - set(FbsTypeInfo.tensordatatype_to_string.values()))
        if wrong:
            raise ValueError(f"types {', '.join(wrong)} are none of C++'s for ONNX")
        self._operator_processors, self._allowed = _create_operator_type_usage_processors(), globally_allowed_types

    def is_typed_registration_needed(self, domain: str, optype: str, type_registration_str: str) -> bool:
        found = self._operator_processors.get(f"{domain}:{optype}")
        if found is None:
            return _cpp(type_registration_str) in self._allowed
        return found.is_typed_registration_needed(type_registration_str, self._allowed)

    def get_cpp_entries(self) -> List[str]:
        return [f"ORT_SPECIFY_OP_KERNEL_GLOBAL_ALLOWED_TYPES({', '.join(sorted(self._allowed))});"]

    def global_type_list(self) -> Set[str]:
        return self._allowed
