"""Operators and kernels as nacre.capi tells them, beside onnxruntime's native module."""
import os
import subprocess
import sys

import numpy as np
import onnx
import package
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.capi import onnxruntime_pybind11_state as mine  # noqa: E402

ROOT = package.nacre_c.ROOT


def by_key(schemas):
    return {(s.domain, s.name, s.since_version): s for s in schemas}


MINE, THEIRS = by_key(mine.get_all_operator_schema()), by_key(theirs.get_all_operator_schema())
BOTH = sorted(MINE.keys() & THEIRS.keys())
#: Of all versions in onnxruntime, those of kernels of its own providers and of operators that ONNX took back.
ABSENT = {"MemcpyFromHost", "MemcpyToHost", "GRUUnit", "GivenTensorFill", "DynamicSlice", "MeanVarianceNormalization",
          "Scatter", "Affine", "ParametricSoftplus", "ImageScaler", "Crop", "Scale", "ScaledTanh",
          "TreeEnsembleClassifier", "PyramidROIAlign_TRT", "DisentangledAttention_TRT", "EfficientNMS_TRT",
          "MultilevelCropAndResize_TRT", "TreeEnsembleRegressor", "Upsample"}
#: Attributes that onnxruntime has and the cards have not: sparse constants.
MORE = {"Constant": {"sparse_value"}}


def test_the_table_is_current():
    tool = [sys.executable, ROOT / "tools" / "docs" / "schemas.py", "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, env={**os.environ,
                                                                     "NACRE_BUILD": str(package.nacre_c.BUILD)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_standard_is_whole():
    missing = {k[1] for k in THEIRS if k not in MINE and k[0] in ("", "ai.onnx.ml")}
    assert missing == ABSENT, missing ^ ABSENT
    ours = {k[1] for k in MINE if k[0] == "com.microsoft"}
    assert len(ours) > 150 and len(BOTH) > 730


def parameters(part):
    return [(p.name, int(p.option), p.isHomogeneous) for p in part]


def default(attribute):
    told = attribute._default_value
    return onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(told)) if told else None


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "com.microsoft"])
def test_what_operators_take_and_give(domain):
    for key in (k for k in BOTH if k[0] == domain):
        got, want = MINE[key], THEIRS[key]
        assert (parameters(got.inputs), parameters(got.outputs)) == (parameters(want.inputs), parameters(want.outputs))
        for name in ("min_input", "max_input", "min_output", "max_output"):
            assert getattr(got, name) == getattr(want, name), (key, name)
        more = MORE.get(key[1], set())
        attributes = {n: a for n, a in want.attributes.items() if n not in more}
        assert {n: (int(a.type), a.required) for n, a in got.attributes.items()} == {
            n: (int(a.type), a.required) for n, a in attributes.items()}, key
        for name, a in attributes.items():  # lists have their defaults in the formulas here
            if int(a.type) < 4:
                assert default(got.attributes[name]) == default(a), (key, name)


def test_types():
    """Of tensors of whole bytes, 8-bit floats aside, at least those of onnxruntime; kernels of com.microsoft take more
    here than its schemas say."""
    narrow = ("float8", "float4", "int4", "uint4", "int2", "uint2")
    for key in (k for k in BOTH if k[0] == ""):
        for got, want in zip(MINE[key].inputs, THEIRS[key].inputs):
            wanted = {t for t in want.types if t.startswith("tensor(") and not t[7:].startswith(narrow)}
            assert wanted <= got.types, (key, got.name, wanted - got.types)
    add = MINE["", "Add", 14]
    assert [c.type_param_str for c in add.type_constraints] == ["T"] == [add.inputs[1].typeStr]
    assert set(add.type_constraints[0].allowed_type_strs) == add.inputs[0].types
    assert MINE["", "Split", 18].inputs[1].typeStr == "tensor(int64)" and add.is_infinite(MINE["", "Sum", 13].max_input)
    assert "seq(tensor(float))" in MINE["", "SequenceAt", 11].inputs[0].types


def test_enumerations():
    for name in ("AttrType", "FormalParameterOption", "SupportType"):
        for member, value in getattr(theirs.schemadef.OpSchema, name).__members__.items():
            assert int(getattr(mine.schemadef.OpSchema, name)[member]) == int(value), member


def test_kernels():
    found = mine.get_all_opkernel_def()
    assert all(isinstance(k, mine.opkernel.KernelDef) and k.provider == "CPUExecutionProvider" for k in found)
    add = sorted((k for k in found if (k.domain, k.op_name) == ("", "Add")), key=lambda k: k.version_range)
    assert [k.version_range for k in add] == [(1, 5), (6, 6), (7, 12), (13, 13), (14, 2**31 - 1)]
    assert "tensor(uint8)" in add[-1].type_constraints["T"] and "tensor(uint8)" not in add[-2].type_constraints["T"]
    with pytest.raises(nacre.Fail, match="no provider 'Own' is registered"):
        mine.get_registered_ep_kernel_defs("Own")


def test_kernels_compute_what_they_say():
    """Each type that a kernel of Neg, Clip and ReduceSum tells runs, and one that it does not tell is refused."""
    for op in ("Neg", "Relu", "Abs", "Erf", "Not"):
        newest = next(k for k in mine.get_all_opkernel_def() if k.op_name == op and k.version_range[1] == 2**31 - 1 and
                      k.domain == "")
        told = newest.type_constraints.get("T", ["tensor(bool)"])
        for name in ("float", "double", "int8", "int32", "int64", "uint8", "bool", "float16"):
            element = getattr(onnx.TensorProto, {"double": "DOUBLE"}.get(name, name.upper()))
            graph = onnx.helper.make_graph([onnx.helper.make_node(op, ["x"], ["y"])], "g", [
                onnx.helper.make_tensor_value_info("x", element, [2])], [
                onnx.helper.make_tensor_value_info("y", element, [2])])
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
            x = np.zeros(2, onnx.helper.tensor_dtype_to_np_dtype(element))
            if f"tensor({name})" in told:
                assert nacre.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0].dtype == x.dtype
            else:
                with pytest.raises(Exception, match=op):
                    nacre.InferenceSession(model.SerializeToString()).run(None, {"x": x})
