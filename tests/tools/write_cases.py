"""Writes cases of ONNX's backend suite as files, for programs without Python: FOLDER/NAME/model.onnx and
FOLDER/NAME/test_data_set_0/{input,output}_N.pb.

write_cases.py FOLDER [EVERY]   every EVERY-th case that is listed as passing (default: all of them)
"""
import pathlib
import sys
import warnings

from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.case.node import collect_testcases

PASSING = pathlib.Path(__file__).resolve().parents[1] / "conformance" / "passing.txt"


def to_bytes(value, info):
    kind = info.type.WhichOneof("value")
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    if kind == "sequence_type":
        return numpy_helper.from_list(value).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value).SerializeToString()
    if kind != "tensor_type":
        raise TypeError(f"no file form for {kind}")
    tensor = numpy_helper.from_array(value)
    if tensor.data_type != info.type.tensor_type.elem_type and info.type.tensor_type.elem_type != TensorProto.UNDEFINED:
        raise TypeError("numpy has no such type")
    return tensor.SerializeToString()


def write(folder, case):
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    data = {f"input_{i}.pb": to_bytes(v, graph.input[i]) for i, v in enumerate(inputs)}
    data |= {f"output_{i}.pb": to_bytes(v, graph.output[i]) for i, v in enumerate(outputs)}
    home = folder / case.name / "test_data_set_0"
    home.mkdir(parents=True, exist_ok=True)
    (home.parent / "model.onnx").write_bytes(case.model.SerializeToString())
    for name, content in data.items():
        (home / name).write_bytes(content)


def copy(folder, case):
    """A case that onnx itself ships as files."""
    (folder / case.name).mkdir(parents=True, exist_ok=True)
    for path in pathlib.Path(case.model_dir).rglob("*"):
        to = folder / case.name / path.relative_to(case.model_dir)
        if path.is_dir():
            to.mkdir(parents=True, exist_ok=True)
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())


def main(folder, every=1):
    folder, left_out = pathlib.Path(folder), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {c.name: c for c in collect_testcases(None)}
        for kind in ("simple", "pytorch-converted", "pytorch-operator"):
            cases |= {c.name: c for c in load_model_tests(kind=kind)}
    passing = {line.removesuffix("_cpu") for line in PASSING.read_text().splitlines()}
    chosen = sorted(n for n in cases if n in passing)[::int(every)]
    for name in chosen:
        try:
            (write if cases[name].model is not None else copy)(folder, cases[name])
        except (TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
            left_out += 1
    print(f"{len(chosen) - left_out} cases in {folder}, {left_out} without a file form")


if __name__ == "__main__":
    main(*sys.argv[1:])
