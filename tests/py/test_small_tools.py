"""The small modules that onnxruntime's wheel ships beside its tools, as scripts call them, beside onnxruntime's own."""
import collections
import json

import numpy as np
import onnx
import onnxruntime
import package
import pytest
import torch
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime.quantization import static_quantize_runner as their_runner
from onnxruntime.tools import file_utils as their_files
from onnxruntime.transformers import io_binding_helper as their_binding
from onnxruntime.transformers.onnx_model import OnnxModel as theirs_model

import test_quantized_models as models
from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.capi import build_and_package_info, convert_npz_to_onnx_adapter  # noqa: E402
from nacre.quantization import static_quantize_runner  # noqa: E402
from nacre.quantization.fusions import Fusion  # noqa: E402
from nacre.quantization.onnx_model import ONNXModel  # noqa: E402
from nacre.tools import file_utils, logger, onnx_randomizer, onnxruntime_test  # noqa: E402
from nacre.tools.qdq_helpers.optimize_qdq_model import optimize_qdq_model  # noqa: E402
from nacre.transformers import io_binding_helper, onnx_utils, optimizer  # noqa: E402
from nacre.transformers.onnx_model import OnnxModel  # noqa: E402
from nacre.transformers.onnx_model_bart import BartOnnxModel  # noqa: E402
from nacre.transformers.onnx_model_bert import BertOnnxModel  # noqa: E402
from nacre.transformers.onnx_model_gpt2 import Gpt2OnnxModel  # noqa: E402
from nacre.transformers.shape_infer_helper import SymbolicShapeInferenceHelper  # noqa: E402


@pytest.fixture
def affine(tmp_path):
    path = tmp_path / "affine.onnx"
    path.write_bytes(package.affine())
    return path


def test_what_the_build_says():
    assert build_and_package_info.package_name == "nacre" and build_and_package_info.__version__ == nacre.__version__


def test_adapter_from_npz(tmp_path):
    arrays = {"a": np.float32([[1, 2], [3, 4]]), "b": np.int64([5])}
    np.savez(tmp_path / "x.npz", **arrays)
    convert_npz_to_onnx_adapter.main(["--npz_file_path", str(tmp_path / "x.npz"), "--adapter_version", "3",
                                      "--output_file_path", str(tmp_path / "x.onnx_adapter"), "--model_version", "7"])
    for ort in (nacre, onnxruntime):
        back = ort.AdapterFormat.read_adapter(str(tmp_path / "x.onnx_adapter"))
        assert (back.get_adapter_version(), back.get_model_version()) == (3, 7)
        for name, value in back.get_parameters().items():
            np.testing.assert_array_equal(value.numpy(), arrays[name])


def test_files(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.ORT", "b.onnx", "in/c.ort"):
        (tmp_path / name).write_text("")
    for where in (tmp_path, tmp_path / "b.onnx"):
        for told in ({}, {"predicate": lambda p: file_utils.path_match_suffix_ignore_case(p, ".ort")}):
            assert sorted(file_utils.files_from_file_or_dir(where, **told)) == \
                   sorted(their_files.files_from_file_or_dir(where, **told))
    assert logger.get_logger("some", 30).level == 30


def test_runs_on_random_inputs(affine, capsys):
    code, feeds, outputs = onnxruntime_test.run_model(affine, 2, symbolic_dims={"batch": 5})
    assert code == 0 and feeds["x"].shape == (5, 3) and outputs[0].shape == (5, 2) and "iterations: 2" in \
        capsys.readouterr().out
    assert onnxruntime_test.main([str(affine), "1", "--symbolic_dims", "batch=2"]) == 0


def test_weights_drawn_anew(affine, tmp_path):
    model = onnx.load(affine)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(24, dtype=np.float32).reshape(4, 6), "large"))
    onnx.save(model, tmp_path / "m.onnx")
    onnx_randomizer.main(["-m", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "r.onnx")])
    before, after = ({t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / n).graph.initializer}
                     for n in ("m.onnx", "r.onnx"))
    assert not np.array_equal(before["large"], after["large"]) and np.array_equal(before["b"], after["b"])
    assert after["large"].shape == (4, 6) and 0 <= after["large"].min() and after["large"].max() <= 23
    optimize_qdq_model([str(tmp_path / "m.onnx"), str(tmp_path / "copy.onnx")])
    assert onnx.load(tmp_path / "copy.onnx") == model


def test_static_quantization_of_a_folder(tmp_path):
    """The same model by both commands' parts: the same codes."""
    onnx.save(models.plain("convolutions"), tmp_path / "m.onnx")
    for i in range(2):
        (tmp_path / f"test_data_set_{i}").mkdir()
        for k, x in enumerate(models.feeds("convolutions", i).values()):
            (tmp_path / f"test_data_set_{i}" / f"input_{k}.pb").write_bytes(
                numpy_helper.from_array(x).SerializeToString())
    static_quantize_runner.main(["-i", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "q.onnx"), "--per_channel"])
    made = onnx.load(tmp_path / "q.onnx")
    assert {"QuantizeLinear", "DequantizeLinear"} <= {n.op_type for n in made.graph.node}
    readers = [side.OnnxModelCalibrationDataReader(str(tmp_path / "m.onnx")) for side in (
        static_quantize_runner, their_runner)]
    sums = [sorted(float(sum(x.sum() for x in feeds.values())) for feeds in iter(r.get_next, None)) for r in readers]
    assert sums[0] == sums[1] and len(sums[0]) == 2
    (tmp_path / "o.json").write_text(json.dumps({"x": [{"scale": 0.5, "zero_point": 3}]}))
    both = [side.get_tensor_quant_overrides(tmp_path / "o.json")["x"][0] for side in (static_quantize_runner,
                                                                                     their_runner)]
    assert both[0] == both[1] and both[0]["scale"].dtype == np.float32
    with pytest.raises(ValueError, match="no folder test_data_set_"):
        (tmp_path / "bare").mkdir()
        onnx.save(models.plain("convolutions"), tmp_path / "bare" / "m.onnx")
        static_quantize_runner.OnnxModelCalibrationDataReader(tmp_path / "bare" / "m.onnx")


def test_weights_taken_out_of_a_model():
    model = onnx.ModelProto.FromString(package.affine())
    assert not onnx_utils.has_external_data(model)
    names, values = onnx_utils.extract_raw_data_from_model(model)
    assert set(names) == {"w", "b"} and onnx_utils.has_external_data(model)
    options = nacre.SessionOptions()
    options.add_external_initializers(list(names), list(values))
    x = np.ones((2, 3), np.float32)
    got = nacre.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    want = nacre.InferenceSession(package.affine()).run(None, {"x": x})
    np.testing.assert_array_equal(got[0], want[0])


def test_shapes_with_numbers_for_symbols():
    found = SymbolicShapeInferenceHelper(onnx.ModelProto.FromString(package.affine()))
    assert found.infer({"batch": 4}) and found.get_edge_shape("s") == [4, 2] and found.compare_shape("s", "h")
    assert found.infer({}) and found.get_edge_shape("s") == ["batch", 2]
    with pytest.raises(ValueError, match="not both known"):
        found.compare_shape("s", "nothing")


# ---- tensors of PyTorch ----

def test_types():
    kinds = [f"tensor({k})" for k in ("float", "float16", "double", "bool", "int8", "uint8", "int16", "uint16", "int32",
                                      "uint32", "int64", "uint64", "complex64", "complex128")]
    for name in ("ort_type_to_numpy_type", "ort_type_to_torch_type", "ort_type_to_onnx_type"):
        mine, theirs = (getattr(side.TypeHelper, name) for side in (io_binding_helper, their_binding))
        assert [mine(k) for k in kinds] == [theirs(k) for k in kinds]
        with pytest.raises(ValueError, match="seq"):
            mine("seq(tensor(float))")
    mine, theirs = io_binding_helper.TypeHelper, their_binding.TypeHelper
    for k in map(mine.ort_type_to_torch_type, kinds):
        assert mine.torch_type_to_numpy_type(k) == theirs.torch_type_to_numpy_type(k)
        assert mine.numpy_type_to_torch_type(mine.torch_type_to_numpy_type(k)) == k
    session = nacre.InferenceSession(package.affine())
    assert mine.get_io_onnx_type_map(session) == theirs.get_io_onnx_type_map(session) == {
        "x": 1, "y": 1, "z": 1}
    assert mine.get_output_type(session, "y") == "tensor(float)"
    with pytest.raises(ValueError, match="no input 'q'"):
        mine.get_input_type(session, "q")


@pytest.mark.parametrize("side, ort", [(io_binding_helper, nacre), (their_binding, onnxruntime)])
def test_sessions_with_tensors_of_their_own(side, ort):
    session = ort.InferenceSession(package.affine(), providers=["CPUExecutionProvider"])
    bound = side.CudaSession(session, torch.device("cpu"))
    for rows in (2, 3):
        bound.allocate_buffers({"x": (rows, 3), "y": (rows, 2), "z": (rows, 2)})
        x = torch.arange(rows * 3, dtype=torch.float32).reshape(rows, 3)
        got = bound.infer({"x": x})
        want = session.run(None, {"x": x.numpy()})
        for name, w in zip("yz", want):
            np.testing.assert_array_equal(got[name].numpy(), w)
    manager = side.GpuBindingManager(session, torch.device("cpu"))
    one = manager.get_binding({"x": (2, 3), "y": (2, 2), "z": (2, 2)})
    assert manager.get_binding({"x": (2, 3), "y": (2, 2), "z": (2, 2)}) is one
    assert side.CudaSession.get_cuda_provider_options(1, True)["device_id"] == 1


def decoder():
    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("Cast", ["input_ids"], ["x"], to=T.FLOAT), node("Concat", ["past_0", "x"], ["present_0"], axis=1),
         node("ReduceSum", ["present_0"], ["logits"], keepdims=0)],
        "g", [value("input_ids", T.INT64, ["b", "s"]), value("past_0", T.FLOAT, ["b", "p"])],
        [value("logits", T.FLOAT, []), value("present_0", T.FLOAT, ["b", "t"])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("side, ort", [(io_binding_helper, nacre), (their_binding, onnxruntime)])
def test_decoders_bound_to_buffers(side, ort):
    session, shapes = ort.InferenceSession(decoder(), providers=["CPUExecutionProvider"]), {"logits": [1],
                                                                                            "present_0": [2, 5]}
    help_ = side.IOBindingHelper
    buffers = help_.get_output_buffers(session, shapes, "cpu")
    shapes["logits"] = []
    ids, past = torch.tensor([[1, 2], [3, 4]]), torch.ones(2, 3)
    session.run_with_iobinding(help_.prepare_io_binding(session, ids, None, None, [past], buffers, shapes))
    logits, present = help_.get_outputs_from_io_binding_buffer(session, buffers, {"logits": [1], "present_0": [2, 5]})
    assert logits.tolist() == [16] and present.tolist() == [[1, 1, 1, 1, 2], [1, 1, 1, 3, 4]]


# ---- models by kind ----

def test_models_by_kind():
    proto = onnx.ModelProto.FromString(package.affine())
    model = BertOnnxModel(proto, 2, 8)
    model.optimize()
    x = np.ones((2, 3), np.float32)
    close(nacre.InferenceSession(model.model.SerializeToString()).run(None, {"x": x})[0],
          nacre.InferenceSession(package.affine()).run(None, {"x": x})[0], "ort_f32")
    assert model.get_operator_statistics() and isinstance(model.get_fused_operator_statistics(), dict)
    assert isinstance(optimizer.optimize_model(proto, "gpt2", 2, 8), Gpt2OnnxModel)
    assert BartOnnxModel(proto, 2, 8, model_impl="openai").num_heads == 2
    with pytest.raises(ValueError, match="hidden_size 9 is not a multiple of num_heads 2"):
        BertOnnxModel(proto, 2, 9)
    theirs = pytest.importorskip("onnxruntime.transformers.optimizer").MODEL_TYPES
    assert {k: (v[0].__name__, *v[1:]) for k, v in optimizer.MODEL_TYPES.items()} == {
        k: (v[0].__name__, *v[1:]) for k, v in theirs.items()}


def test_fusions_of_ones_own():
    """A class as scripts derive it: the product and the sum behind it become one node."""
    class Both(Fusion):
        def __init__(self, model):
            super().__init__(model, "Gemm", "Add")

        def fuse(self, node, input_name_to_nodes, output_name_to_node):
            path = self.match_parent_path(node, ["MatMul"], [0], output_name_to_node)
            if path and self.is_safe_to_fuse_nodes([*path, node], node.output, input_name_to_nodes,
                                                   output_name_to_node):
                self.nodes_to_remove += [*path, node]
                self.nodes_to_add.append(helper.make_node("Gemm", [*path[0].input, node.input[1]], node.output,
                                                          self.create_unique_node_name()))
    model = ONNXModel(onnx.ModelProto.FromString(package.affine()))
    assert Both(model).apply() and [n.op_type for n in model.nodes()][0] == "Gemm" and not Both(model).apply()
    assert model.nodes()[0].name == "Gemm_fused_Add_0"
    x = np.ones((2, 3), np.float32)
    close(nacre.InferenceSession(model.model.SerializeToString()).run(None, {"x": x})[0],
          nacre.InferenceSession(package.affine()).run(None, {"x": x})[0], "ort_f32")


# ---- questions and edits of models ----

def chain(side):
    """A model class over y = Cast(Relu(x w + b)), twice read."""
    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["m"], "product"), node("Add", ["m", "b"], ["s"], "sum"),
         node("Relu", ["s"], ["r"], "relu"), node("Cast", ["r"], ["c"], "cast", to=T.DOUBLE),
         node("Cast", ["c"], ["d"], "again", to=T.FLOAT), node("Neg", ["d"], ["y"], "neg"),
         node("Cast", ["s"], ["u"], "useless", to=T.FLOAT), node("Exp", ["u"], ["z"], "exp")],
        "g", [value("x", T.FLOAT, ["n", 2])], [value("y", T.FLOAT, ["n", 2]), value("z", T.FLOAT, ["n", 2])],
        [numpy_helper.from_array(np.float32([[1, 2], [3, 4]]), "w"), numpy_helper.from_array(np.float32([5, 6]), "b")])
    return side(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def named(found):
    if found is None or isinstance(found, (bool, int, str)):
        return found
    if isinstance(found, onnx.NodeProto):
        return found.name
    if isinstance(found, (list, tuple)):
        return [named(x) for x in found]
    return getattr(found, "name", found)


def of(m, name):
    return next(n for n in m.nodes() if n.name == name)


@pytest.mark.parametrize("ask", [
    lambda m: m.get_graphs_input_names() + m.get_graphs_output_names(), lambda m: m.get_graph_by_name("g"),
    lambda m: m.get_graph_by_name("h"), lambda m: m.get_graph_by_node(of(m, "relu")),
    lambda m: m.get_topological_insert_id(m.graph(), ["r"]), lambda m: m.get_topological_insert_id(m.graph(), ["y"]),
    lambda m: m.get_children(of(m, "sum"), output_index=0), lambda m: m.get_children(of(m, "sum")),
    lambda m: m.match_parent_path(of(m, "relu"), ["Add", "MatMul"], [0, 0]),
    lambda m: m.match_parent_path(of(m, "relu"), ["Add", "Relu"], [0, 0]),
    lambda m: m.match_child_path(of(m, "product"), ["Add", "Relu", "Cast"], [(0, 0), (0, 0), (0, 0)]),
    lambda m: m.match_child_path(of(m, "product"), ["Add", "Exp"]),
    lambda m: m.match_parent_paths_all(of(m, "relu"), [(["Add"], [0]), (["Mul"], [0]), (["Add", "MatMul"], [0, 0])],
                                       m.output_name_to_node())[:2],
    lambda m: m.find_first_parent_by_type(of(m, "neg"), "Add"), lambda m: m.find_first_parent_by_type(
        of(m, "neg"), "Add", recursive=False), lambda m: m.find_first_child_by_type(of(m, "product"), "Relu"),
    lambda m: sorted(named(m.get_parent_subgraph_nodes(of(m, "relu"), []))),
    lambda m: sorted(named(m.get_children_subgraph_nodes(of(m, "sum"), [of(m, "cast")]))),
    lambda m: m.get_graph_inputs(of(m, "neg"), True), lambda m: m.get_graph_inputs(of(m, "neg")),
    lambda m: m.is_constant_with_specified_dimension("w", 2, ""), lambda m: m.use_float16(),
    lambda m: m.has_same_value(m.get_initializer("w"), m.get_initializer("b")),
    lambda m: m.has_same_value(m.get_initializer("w"), m.get_initializer("w")),
    lambda m: sorted(m.input_name_to_nodes(exclude_subgraphs=True)), lambda m: sorted(m.output_name_to_node())])
def test_models_answer_the_same(ask):
    assert named(ask(chain(OnnxModel))) == named(ask(chain(theirs_model)))


@pytest.mark.parametrize("edit", [
    lambda m: m.add_prefix_to_names("p_"), lambda m: m.rename_graph_output("y", "out"),
    lambda m: m.remove_useless_cast_nodes(), lambda m: m.remove_cascaded_cast_nodes(),
    lambda m: m.change_graph_input_type(m.graph().input[0], T.DOUBLE), lambda m: m.clean_shape_infer(),
    lambda m: m.graph_topological_sort(m.graph())])
def test_edited_models_compute_the_same(edit):
    x, want = np.float32([[1, -2], [0.5, 3]]), None
    for side in (OnnxModel, theirs_model):
        m = chain(side)
        edit(m)
        m.topological_sort()
        onnx.checker.check_model(m.model, full_check=True)
        kind = m.model.graph.input[0].type.tensor_type.elem_type
        got = nacre.InferenceSession(m.model.SerializeToString()).run(
            None, {"x": x.astype(helper.tensor_dtype_to_np_dtype(kind))})
        seen = collections.Counter(n.op_type for n in m.model.graph.node), [o.name for o in m.model.graph.output]
        assert want is None or (seen == want[0] and all(np.array_equal(a, b) for a, b in zip(got, want[1])))
        want = seen, got


def test_outputs_of_another_type():
    m = chain(OnnxModel)
    assert m.change_graph_output_type(m.graph().output[0], T.DOUBLE).op_type == "Cast"
    assert m.change_graph_output_type(m.graph().output[0], T.DOUBLE) is None
    x = np.float32([[1, -2]])
    y = nacre.InferenceSession(m.model.SerializeToString()).run(None, {"x": x})[0]
    assert y.dtype == np.float64 and np.array_equal(y, nacre.InferenceSession(
        chain(OnnxModel).model.SerializeToString()).run(None, {"x": x})[0])


# ---- small functions ----

def test_functions_for_expressions():
    import sympy
    from onnxruntime.tools import symbolic_shape_infer as theirs

    from nacre.tools import symbolic_shape_infer as mine
    n = sympy.Symbol("n")
    for x in (3, np.int64(3), sympy.Integer(3), n, n + 1, sympy.Integer(2) * 3, "n"):
        assert mine.is_literal(x) == theirs.is_literal(x), x
    shape = [None, 2, n, 2 * n + 1, sympy.Integer(4)]
    assert mine.get_shape_from_sympy_shape(shape) == theirs.get_shape_from_sympy_shape(shape)
    for x in ([5], np.array([7]), 3, None):
        assert mine.as_scalar(x) == theirs.as_scalar(x)
        for keep in (True, False):
            assert mine.as_list(x, keep) == theirs.as_list(x, keep)
    assert mine.sympy_reduce_product([2, n, 3]) == theirs.sympy_reduce_product([2, n, 3]) == 6 * n
    assert mine.sympy_reduce_product(n) == n
    with pytest.raises(ValueError, match="got 2"):
        mine.as_scalar([1, 2])


def test_inputs_with_defaults(tmp_path):
    from onnxruntime.tools import remove_initializer_from_input as theirs

    from nacre.tools import remove_initializer_from_input as mine
    for version in (3, 8):
        made = []
        for tool in (mine, theirs):
            model = onnx.load_from_string(package.affine())
            model.ir_version = version
            made.append((tool.remove_initializer_from_input(model), tool.remove_initializer_from_input(model),
                         [i.name for i in model.graph.input]))
        assert made[0] == made[1] and made[0][0] == (version == 8)
    onnx.save(model, tmp_path / "a.onnx")
    mine.main(["--input", str(tmp_path / "a.onnx"), "--output", str(tmp_path / "b.onnx")])
    assert [i.name for i in onnx.load(tmp_path / "b.onnx").graph.input] == ["x"]


def test_a_histogram_drawn(monkeypatch, capsys):
    import sys
    import types

    from nacre.quantization.quant_utils import apply_plot
    drawn, plot = [], types.ModuleType("matplotlib.pyplot")
    for name in ("stairs", "xlabel", "ylabel", "show"):
        setattr(plot, name, lambda *a, name=name, **told: drawn.append(name))
    around = types.ModuleType("matplotlib")
    around.pyplot = plot
    monkeypatch.setitem(sys.modules, "matplotlib", around)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", plot)
    apply_plot(np.arange(2000), np.arange(2001))
    assert drawn == ["stairs", "xlabel", "ylabel", "show"] and " 1234 " in capsys.readouterr().out


def test_versions_of_cudas_runtime(tmp_path, monkeypatch):
    from onnxruntime.capi import onnxruntime_collect_build_info as theirs

    from nacre.capi import onnxruntime_collect_build_info as mine
    assert sorted(mine.find_cudart_versions(True, "12")) == sorted(theirs.find_cudart_versions(True, "12"))

    class Library:
        def __init__(self, name):
            self.number = {"libcudart.so": 12010, "libcudart.so.11": 11080}[name]

        def cudaRuntimeGetVersion(self, at):
            at._obj.value = self.number
            return 0
    monkeypatch.setattr(mine.ctypes, "CDLL", Library)
    assert mine.find_cudart_versions(build_cuda_version="11") == [11080, 12010]
