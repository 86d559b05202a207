"""nacre.tools.qnn's commands for files of Qualcomm's tools, beside onnxruntime's. The files here are written by hand in
the form that those tools give them."""
import json
import sys

import numpy as np
import onnx
import package
import pytest
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime.tools.qnn import add_trans_cast as their_fit, gen_qnn_ctx_onnx_model as their_wrap

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.tools.qnn import add_trans_cast, gen_qnn_ctx_onnx_model  # noqa: E402

NUMBERS = range(0x700)
NAMES = [f"QNN_DATATYPE_{k}_{b}" for k in ("INT", "UINT", "FLOAT", "FIXED_POINT", "UFIXED_POINT", "BOOL", "SFIXED")
         for b in (4, 8, 16, 32, 64)]


def test_types():
    mine, theirs = gen_qnn_ctx_onnx_model, their_wrap
    for told, number in [*((n, True) for n in NUMBERS), *((n, False) for n in NAMES)]:
        for ask in ("qnn_data_type_to_onnx_data_type", "is_quantized_data_type"):
            assert getattr(mine, ask)(told, number) == getattr(theirs, ask)(told, number), told
    for n in NUMBERS:
        assert add_trans_cast.qnn_data_type_to_onnx_data_type(n) == their_fit.qnn_data_type_to_onnx_data_type(n)


# ---- inputs and outputs as the converter wants them ----

def value(name, *dims):
    return helper.make_tensor_value_info(name, T.FLOAT, dims)


def model():
    w = numpy_helper.from_array(np.random.default_rng(1).standard_normal((4, 3, 1, 1)).astype(np.float32), "w")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["h"], "conv"),
                               helper.make_node("Add", ["h", "b"], ["y"], "add"),
                               helper.make_node("ReduceSum", ["h"], ["z"], "sum", keepdims=0)], "g",
                              [value("x", 1, 3, 5, 6), value("b", 1)], [value("y", 1, 4, 5, 6), value("z")], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def tensors(**dims):
    told = {"x": (0, 0x0408, [1, 5, 6, 3]), "b": (0, 0x0232, [1]), "y": (1, 0x0216, [1, 5, 6, 4]), "z": (1, 0x0232, []),
            "w": (4, 0x0232, [4, 3, 1, 1])}
    return {"graph": {"tensors": {n: {"type": t, "data_type": k, "dims": d, "id": i, "quant_params": {
        "definition": int(n == "x"), "encoding": 0, "scale_offset": {"scale": 0.25, "offset": -7}}}
        for i, (n, (t, k, d)) in enumerate({**told, **dims}.items())}}}


def fitted(main, folder, monkeypatch, told=None):
    onnx.save(model(), folder / "m.onnx")
    (folder / "net.json").write_text(json.dumps(told or tensors()))
    arguments = ["-m", str(folder / "m.onnx"), "-q", str(folder / "net.json")]
    if main is their_fit.main:
        monkeypatch.setattr(sys, "argv", ["x", *arguments])
        main()
    else:
        main(arguments)
    return onnx.load(folder / "m_add_trans.onnx")


def test_a_model_fitted(tmp_path, monkeypatch):
    got, want = (fitted(m.main, tmp_path, monkeypatch) for m in (add_trans_cast, their_fit))
    assert [v.SerializeToString() for part in (got.graph.input, got.graph.output) for v in part] == [
        v.SerializeToString() for part in (want.graph.input, want.graph.output) for v in part]
    assert sorted(n.SerializeToString() for n in got.graph.node) == sorted(
        n.SerializeToString() for n in want.graph.node)
    x, b = np.random.default_rng(2).integers(0, 9, (1, 5, 6, 3)).astype(np.uint8), np.float32([2])
    y, z = nacre.InferenceSession(got.SerializeToString()).run(None, {"x": x, "b": b})
    plain, total = nacre.InferenceSession(model().SerializeToString()).run(
        None, {"x": x.astype(np.float32).transpose(0, 3, 1, 2), "b": b})
    np.testing.assert_array_equal(y, plain.transpose(0, 2, 3, 1).astype(np.float16))
    assert y.dtype == np.float16 and z == total


def test_orders_of_dims():
    for rank in (3, 4, 5):
        for name in ("gen_to_channel_first_perm", "gen_to_channel_last_perm"):
            assert getattr(add_trans_cast, name)(rank) == getattr(their_fit, name)(rank)
    with pytest.raises(ValueError, match="2 dims has no channels"):
        add_trans_cast.gen_to_channel_last_perm(2)


def test_misuse(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="net.json is not there: it is a file that Qualcomm's tools write"):
        add_trans_cast.parse_qnn_json_file(str(tmp_path / "net.json"), {})
    for told, match in (({"graph": {}}, "no tensors"),
                        ({"graph": {"tensors": {"x": {"type": 0}}}}, "no data_type, dims"),
                        ({"graph": {"tensors": {}}}, "0 inputs and outputs"),
                        (tensors(x=(0, 0x0408, [1, 5, 6])), "4 dims, Qualcomm's file 3")):
        with pytest.raises(ValueError, match=match):
            fitted(add_trans_cast.main, tmp_path, monkeypatch, told)
    less = tensors()
    del less["graph"]["tensors"]["y"]
    with pytest.raises(ValueError, match="output 'y' is not in Qualcomm's file, which has x, b, z"):
        fitted(add_trans_cast.main, tmp_path, monkeypatch, less)


# ---- a model around a context ----

def context():
    def tensor(name, kind, dims, scale):
        return {"info": {"name": name, "dataType": f"QNN_DATATYPE_{kind}", "dimensions": dims, "quantizeParams": {
            "definition": "QNN_DEFINITION_DEFINED" if scale else "QNN_DEFINITION_UNDEFINED",
            "quantizationEncoding": "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET",
            "scaleOffset": {"scale": scale, "offset": -3}}}}
    graphs = [{"info": {"graphName": n, "graphInputs": [tensor("p", "UFIXED_POINT_8", [1, 2], 0.5),
                                                        tensor("q", "FLOAT_32", [2], 0)],
                        "graphOutputs": [tensor("r", "FIXED_POINT_16", [3], 0.125)]}} for n in ("one", "two")]
    return {"info": {"buildId": "v9", "graphs": graphs}}


def wrapped(main, folder, monkeypatch, told, *more):
    (folder / "c.json").write_text(json.dumps(told))
    (folder / "c.bin").write_bytes(b"compiled")
    monkeypatch.chdir(folder)
    for old in folder.glob("*.onnx"):
        old.unlink()
    arguments = ["-b", "c.bin", "-q", "c.json", *more]
    monkeypatch.setattr(sys, "argv", ["x", *arguments])
    if main is their_wrap.main:
        main()
    else:
        main(arguments)
    return {p.name: onnx.load(p) for p in folder.glob("*.onnx")}


@pytest.mark.parametrize("more", [[], ["--quantized_IO"], ["--disable_embed_mode"]], ids=str)
@pytest.mark.parametrize("told", [tensors, context])
def test_a_model_around_a_context(more, told, tmp_path, monkeypatch):
    if told is context:  # onnxruntime's sorts by numbers that such tensors have not
        theirs_init = their_wrap.QnnTensorStruct.__init__
        monkeypatch.setattr(their_wrap.QnnTensorStruct, "__init__", lambda self, *a, **k: (
            theirs_init(self, *a, **k), setattr(self, "id", k.get("id") or 0))[0])
    got, want = (wrapped(m.main, tmp_path, monkeypatch, told(), *more) for m in (gen_qnn_ctx_onnx_model, their_wrap))
    assert got.keys() == want.keys() and len(got) == (2 if told is context else 1)
    for name in want:
        mine, theirs = got[name].graph, want[name].graph
        for part in ("input", "output", "value_info", "initializer"):
            assert list(getattr(mine, part)) == list(getattr(theirs, part)), part
        assert sorted(told_of(n) for n in mine.node) == sorted(told_of(n) for n in theirs.node)
        onnx.checker.check_model(got[name])


def told_of(node):
    return (node.op_type, node.name, list(node.input), list(node.output),
            sorted((a.name, str(helper.get_attribute_value(a))) for a in node.attribute))


def test_misuse_of_contexts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps(tensors()))
    with pytest.raises(FileNotFoundError, match="c.bin is not there: it is the context that Qualcomm's tools compile"):
        gen_qnn_ctx_onnx_model.main(["-b", "c.bin", "-q", "c.json"])
    with pytest.raises(FileNotFoundError, match="d.json is not there"):
        gen_qnn_ctx_onnx_model.main(["-b", "c.bin", "-q", "d.json"])
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(ValueError, match="neither graph.tensors nor info.graphs"):
        gen_qnn_ctx_onnx_model.main(["-b", "c.bin", "-q", "c.json"])
    none = context()
    none["info"]["graphs"][0]["info"]["graphOutputs"] = []
    with pytest.raises(ValueError, match="2 inputs and 0 outputs"):
        gen_qnn_ctx_onnx_model.parse_qnn_graph(none["info"]["graphs"][0], {}, {})
