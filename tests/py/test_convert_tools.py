"""Tools that scripts call by onnxruntime's names and that write models: 4 bits as bitsandbytes has them, .ort files of
whole folders. Beside onnxruntime's own."""
import importlib

import numpy as np
import onnx
import onnxruntime
import package
import pytest
import tolerances
from onnx import TensorProto as T, helper, numpy_helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

R = np.random.default_rng(3)
X = R.standard_normal((3, 48)).astype(np.float32)


def product(inner=False):
    """y = (x w) v, the second product inside of an If when inner."""
    w, v = (R.standard_normal(d).astype(np.float32) for d in ((48, 32), (32, 5)))
    value = helper.make_tensor_value_info
    first, second = (helper.make_node("MatMul", i, [o], name=n) for i, o, n in
                     ((["x", "w"], "h", "first"), (["h", "v"], "y", "second")))
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")]
    if inner:
        body = [helper.make_graph([helper.make_node("MatMul", ["h", "v"], [o], name=o)], o, [],
                                  [value(o, T.FLOAT, None)]) for o in ("then", "else")]
        second = helper.make_node("If", ["c"], ["y"], then_branch=body[0], else_branch=body[1])
        weights.append(numpy_helper.from_array(np.array(True), "c"))
    graph = helper.make_graph([first, second], "g", [value("x", T.FLOAT, ["n", 48])], [value("y", T.FLOAT, ["n", 5])],
                              weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def quantizer(rt):
    return importlib.import_module(f"{rt.__name__}.quantization.matmul_bnb4_quantizer").MatMulBnb4Quantizer


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("inner", [False, True])
def test_the_same_model_of_4_bits(kind, inner):
    model, made = product(inner), []
    for rt in (nacre, onnxruntime):
        own = onnx.ModelProto()
        own.CopyFrom(model)
        q = quantizer(rt)(own, kind, 16)
        q.process()
        made.append(q.model.model)
    assert onnx.printer.to_text(made[0]) == onnx.printer.to_text(made[1])
    mine, theirs = (rt.InferenceSession(made[0].SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"x": X})[0] for rt in (nacre, onnxruntime))
    tolerances.close(mine, theirs, "model_f32")


def test_what_stays(tmp_path):
    q = quantizer(nacre)(product(), 1, 16, ["first"])
    q.process()
    assert [n.op_type for n in q.model.model.graph.node] == ["MatMul", "MatMulBnb4"]
    with pytest.raises(ValueError, match="2D"):
        q.bnb4_block_quant(np.zeros((2, 2, 2), np.float32))
    with pytest.raises(ValueError, match="quant_type"):
        quantizer(nacre)(product(), 2, 16)
    onnx.save(product(), tmp_path / "m.onnx")
    from nacre.quantization import matmul_bnb4_quantizer
    matmul_bnb4_quantizer.main(["--input_model", str(tmp_path / "m.onnx"), "--output_model", str(tmp_path / "q.onnx"),
                                "--block_size", "32"])
    ops = [n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node]
    assert ops == ["MatMulBnb4", "MatMulBnb4"]


# ---- .ort files ----

def converter(rt):
    return importlib.import_module(f"{rt.__name__}.tools.convert_onnx_models_to_ort")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    onnx.save(product(), tmp_path / "in" / "a.onnx")
    onnx.save(product(inner=True), tmp_path / "in" / "deep" / "b.onnx")
    return tmp_path


def files(where):
    return sorted(str(p.relative_to(where)) for p in where.rglob("*") if p.is_file())


def test_the_same_files(folder):
    found = []
    for rt in (nacre, onnxruntime):
        tool = converter(rt)
        styles = list(tool.OptimizationStyle)
        tool.convert_onnx_models_to_ort(folder / "in", folder / rt.__name__, styles, save_optimized_onnx_model=True)
        tool.convert_onnx_models_to_ort(folder / "in" / "a.onnx", folder / rt.__name__ / "one", styles[:1])
        found.append(files(folder / rt.__name__))
    assert found[0] == found[1] and len(found[0]) == 12
    for name in ("a.ort", "deep/b.with_runtime_opt.ort", "a.optimized.onnx"):
        path = folder / "nacre" / name
        want = nacre.InferenceSession(str(folder / "in" / name.replace(path.name, path.name.split(".")[0] + ".onnx")))
        got = nacre.InferenceSession(str(path)).run(None, {"x": X})[0]
        tolerances.close(got, want.run(None, {"x": X})[0], "model_f32")
    theirs = onnxruntime.InferenceSession(str(folder / "nacre" / "a.with_runtime_opt.ort"),
                                          providers=["CPUExecutionProvider"])
    assert theirs.run(None, {"x": X})[0].shape == (3, 5)
    told = (folder / "nacre" / "one" / "a.required_operators.config").read_text()
    assert "ai.onnx;13;MatMul\n" in told and "a.ort" in told


def test_both_styles_unless_one_is_named(folder):
    converter(nacre).main([str(folder / "in"), "--output_dir", str(folder / "all")])
    converter(nacre).main([str(folder / "in"), "--output_dir", str(folder / "fixed"), "--optimization_style", "Fixed"])
    assert len(files(folder / "all")) == 6 and len(files(folder / "fixed")) == 3


@pytest.mark.parametrize("rt", [onnxruntime, nacre], ids=["onnxruntime", "nacre"])
def test_models_that_fail(rt, folder):
    tool = converter(rt)
    styles = [tool.OptimizationStyle.Fixed]
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="is not a file or directory"):
        tool.convert_onnx_models_to_ort(folder / "nothing", None, styles)
    with pytest.raises(ValueError, match="No model files were found"):
        tool.convert_onnx_models_to_ort(folder / "empty", None, styles)
    (folder / "in" / "bad.onnx").write_bytes(b"xx")
    with pytest.raises(Exception):
        tool.convert_onnx_models_to_ort(folder / "in", folder / "out", styles)
    tool.convert_onnx_models_to_ort(folder / "in", folder / "out", styles, allow_conversion_failures=True)
    assert files(folder / "out") == ["a.ort", "deep/b.ort", "required_operators.config"]
