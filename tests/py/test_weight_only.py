"""Weights of few bits beside onnxruntime's: RTN, k_quant and GPTQ of neural_compressor, HQQ, the quantizers of single
nodes, and the orders that CUDA's kernels read."""
import itertools
import sys
import types

import numpy as np
import onnx
import package
import pytest
import torch
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime.quantization import cuda_quantizer as their_cuda, matmul_nbits_quantizer as their_few
from onnxruntime.quantization.neural_compressor import onnx_model as their_model, weight_only as theirs

import test_quantization as models
from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.quantization import CalibrationDataReader, cuda_quantizer, matmul_nbits_quantizer as few  # noqa: E402
from nacre.quantization.neural_compressor import onnx_model, util, weight_only as mine  # noqa: E402

W = np.random.default_rng(3).standard_normal((64, 24)).astype(np.float32)
W[:32, 0], W[:32, 1] = 0, 0.5
V = np.random.default_rng(6).standard_normal((24, 6)).astype(np.float32)


def equal(a, b):
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


# ---- codes ----

@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_of_groups(bits):
    for scheme, kind, ratio in itertools.product(("asym", "sym"), ("int", "uint"), (1.0, 0.9)):
        told = (W.T, bits, 32, scheme, kind, ratio)
        assert equal(mine.quant_tensor(*told), theirs.quant_tensor(*told)), told[3:]
        assert np.array_equal(mine.qdq_tensor(*told), theirs.qdq_tensor(*told))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning:onnxruntime")
def test_searched_codes(bits):
    assert equal(mine.quant_tensor_k_quant_cuda(W.T, bits, 32), theirs.quant_tensor_k_quant_cpu(W.T, bits, 32))


def test_small_functions():
    assert np.array_equal(mine.get_weight_scale(W.T + 9, 32), theirs.get_weight_scale(W.T + 9, 32))
    for size, blocks in ((48, 2), (32, 2), (-1, 1)):
        assert np.array_equal(mine.pad_tensor(W, size, blocks), theirs.pad_tensor(W, size, blocks))
    assert util.to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


X = np.random.default_rng(4).standard_normal((400, 64)) @ (
    np.eye(64) + np.random.default_rng(5).standard_normal((64, 64)) / 16)
X[:, 7] = 0


def off(q):
    return np.linalg.norm(X @ (q - W))


@pytest.mark.parametrize("told", [{}, dict(actorder=True), dict(mse=True), dict(scheme="sym"), dict(perchannel=False),
                                  dict(group_size=-1), dict(num_bits=2), dict(num_bits=8)], ids=str)
def test_gptq_beats_rounding(told):
    """By what products with the inputs come to. onnxruntime's takes the column of a triangular factor where the row is
    meant, so that nothing is made good there: it is as far off as rounding."""
    hessian = X.T @ X
    got = mine.gptq(W, hessian, **told)
    rows = [mine._Grid(told.get("num_bits", 4), told.get("scheme", "asym"), told.get("mse", False),
                       told.get("perchannel", True))]
    size = told.get("group_size", 32) if told.get("group_size", 32) != -1 else 64
    rounded = np.concatenate([rows[0].back(W[g:g + size], *rows[0].of(W[g:g + size])) for g in range(0, 64, size)])
    assert off(got) < 0.97 * off(rounded), (off(got), off(rounded))
    assert off(got) < off(theirs.gptq(W.copy(), hessian.copy(), **told))
    if not told.get("mse"):
        levels = [len(np.unique(np.round(got[:size, c] / np.abs(np.diff(np.unique(got[:size, c]))).min())))
                  for c in range(2, 5)]
        assert max(levels) <= 2 ** told.get("num_bits", 4)


def test_gptq_does_not_depend_on_its_blocks():
    hessian = X.T @ X
    close(mine.gptq(W, hessian, blocksize=16), mine.gptq(W, hessian), "ort_f32")


# ---- models ----

class Feeds(CalibrationDataReader):
    def __init__(self):
        self.left = iter([{"x": X[i:i + 50].astype(np.float32)} for i in range(0, 400, 50)])

    def get_next(self):
        return next(self.left, None)


def two_products():
    return models.model_of([models.node("MatMul", "x w", "h"), models.node("Relu", "h", "r"),
                            models.node("MatMul", "r v", "z"), models.node("MatMul", "r v", "y")], {"x": ["n", 64]},
                           {"w": W, "v": V}, outputs=("y", "z"))


def quantized(module, config, **told):
    quantizer = module.MatMulNBitsQuantizer(two_products(), algo_config=config, **told)
    quantizer.process()
    return quantizer.model.model


def told_of(model):
    nodes = {n.output[0]: (n.op_type, {a.name: helper.get_attribute_value(a) for a in n.attribute})
             for n in model.graph.node}
    return nodes, {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


@pytest.mark.parametrize("kind", ["RTNWeightOnlyQuantConfig", "KQuantWeightOnlyQuantConfig"])
@pytest.mark.parametrize("told", [{}, dict(is_symmetric=True), dict(accuracy_level=4),
                                  dict(nodes_to_exclude=["h_node"])], ids=str)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_rounded_models(kind, told):
    """In blocks of 16, of which there is an even number: of odd ones onnxruntime cannot pack the zero points. It keeps
    a weight that several nodes had read."""
    own = {"customized_weight_config": {"h_node": {"bits": 8, "group_size": 32}}} if not told else {}
    got, want = (told_of(quantized(m, getattr(m, kind)(**own), block_size=16, **told)) for m in (few, their_few))
    assert got[0] == want[0] and got[1].keys() == want[1].keys() - {"v"}
    assert all(np.array_equal(got[1][n], want[1][n]) and got[1][n].dtype == want[1][n].dtype for n in got[1])


@pytest.mark.parametrize("size", [32, 64, 128])
def test_odd_numbers_of_blocks(size):
    made = quantized(few, few.RTNWeightOnlyQuantConfig(), block_size=size)
    want = run(two_products())
    assert np.linalg.norm(run(made) - want) < 0.3 * np.linalg.norm(want)


def run(model):
    session = nacre.InferenceSession(model.SerializeToString())
    return session.run(["y"], {"x": X[:50].astype(np.float32)})[0]


def test_gptq_models():
    want = run(two_products())
    made = {"RTN": quantized(few, few.RTNWeightOnlyQuantConfig(), block_size=32),
            "GPTQ": quantized(few, few.GPTQWeightOnlyQuantConfig(Feeds()), block_size=32)}
    error = {name: np.linalg.norm(run(m) - want) for name, m in made.items()}
    assert error["GPTQ"] < 0.95 * error["RTN"], error
    assert [n.op_type for n in made["GPTQ"].graph.node] == ["MatMulNBits", "Relu", "MatMulNBits", "MatMulNBits"]
    assert [o.name for o in made["GPTQ"].graph.output] == ["y", "z"]
    symmetric = quantized(few, few.GPTQWeightOnlyQuantConfig(Feeds(), mse=True, actorder=True), block_size=16,
                          is_symmetric=True)
    assert [len(n.input) for n in symmetric.graph.node] == [3, 1, 3, 3]
    assert np.linalg.norm(run(symmetric) - want) < error["RTN"]
    three = mine.gptq_quantize(two_products(), [({"x": X[:50].astype(np.float32)}, None)], {"h_node": "fp32"},
                               num_bits=3, n_samples=-1).model
    assert [n.op_type for n in three.graph.node] == ["MatMul", "Relu", "MatMul", "MatMul"]
    assert 0 < np.linalg.norm(run(three) - want) < 5 * error["RTN"]


def test_gptq_misuse():
    with pytest.raises(ValueError, match="samples: the loader gave none"):
        mine.gptq_quantize(two_products(), [], n_samples=-1)
    with pytest.raises(ValueError, match="sample 0 has q, the model wants x"):
        mine.gptq_quantize(two_products(), [({"q": X}, None)], n_samples=-1)
    with pytest.raises(ValueError, match="2, 4 or 8 bits, got 5"):
        mine.make_matmul_weight_only_node(two_products().graph.node[0], (64, 24), 5, 32, 2, W, W, None)
    with pytest.raises(ValueError, match="expected 1536 and 48"):
        mine.make_matmul_weight_only_node(two_products().graph.node[0], (64, 24), 4, 32, 2, W[:9], W[0], None)


def test_half_quadratic_codes():
    """A mean may be summed in another order than torch's: few codes lie on an edge."""
    for bits, size in ((4, 32), (8, 16), (2, 64)):
        config = few.HQQWeightOnlyQuantConfig(size, bits), their_few.HQQWeightOnlyQuantConfig(size, bits)
        (nodes, got), (their_nodes, want) = (told_of(quantized(m, c)) for m, c in zip((few, their_few), config))
        assert nodes == their_nodes and got.keys() == want.keys()
        for name in want:
            if name.endswith(f"_Q{bits}"):
                assert np.mean(got[name] != want[name]) < 0.01 and got[name].shape == want[name].shape
            else:
                close(got[name].reshape(-1), want[name].reshape(-1), "recurrent_f32", name)
    with pytest.raises(NotImplementedError, match="between codes"):
        few.HQQWeightOnlyQuantizer(config[0]).quantize(models.node("Gather", "t i", "y"), [])


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_half_quadratic_steps(kind):
    me, they = (m.HQQWeightOnlyQuantizer(None) for m in (few, their_few))
    for told in (dict(), dict(optimize=False, group_size=16), dict(axis=0, group_size=32),
                 dict(round_zero=False), dict(bits=2, group_size=48)):
        got, want = me.quantize_internal(kind(W.copy()), **told), they.quantize_internal(torch.from_numpy(W), **told)
        assert all(type(g) is type(kind(W)) and g.shape == w.shape for g, w in zip(got, want))
        assert np.mean(np.asarray(got[0]) != want[0].numpy()) < 0.01
        for g, w in zip(got[1:], want[1:]):
            close(np.asarray(g), w.numpy(), "recurrent_f32", told)
    for bits in (2, 4, 8):
        packed, codes = torch.zeros(24, 64 * bits // 8, dtype=torch.uint8), torch.arange(24 * 64).reshape(24, 64) % 4
        both = packed.clone(), packed.clone()
        me.pack_on_row_fast_248bit(both[0], codes.to(torch.uint8), bits)
        they.pack_on_row_fast_248bit(both[1], codes.to(torch.uint8), bits)
        assert torch.equal(*both) and both[0].any()
    with pytest.raises(NotImplementedError, match="bits is 3"):
        me.pack_on_row_fast_248bit(packed, codes, 3)


# ---- single nodes ----

def test_functions_of_the_default_quantizer():
    me, they = few.DefaultWeightOnlyQuantizer, their_few.DefaultWeightOnlyQuantizer
    for told in itertools.product((0, 1, 2), (16, 32), (True, False), (np.float32, np.float16)):
        data = models.weight(5, 33, 20).astype(told[3])
        data[0, :16] = 0
        got, want = (q.quantize_ndarray(data, *told[:3]) for q in (me, they))
        assert equal(got[:2], want[:2]) and (got[2] is want[2] is None or np.array_equal(got[2], want[2])), told
    for told in (dict(bits=8), dict(is_symmetric=True), dict(quant_format="QDQ"), dict(bits=2),
                 dict(quant_format="QDQ", channel_wised_quantize=True)):
        made = []
        for module in (few, their_few):
            form = module.QuantFormat[told.get("quant_format", "QOperator")]
            config = module.DefaultWeightOnlyQuantConfig(block_size=16, **{**told, "quant_format": form})
            made.append(module.DefaultWeightOnlyQuantizer(config).qbits_block_quant(W))
        assert equal(*made), told
    packed = np.arange(30, dtype=np.uint8) * 7
    assert np.array_equal(few.transpose_packed_int4_matrix(packed, 6, 10),
                          their_few.transpose_packed_int4_matrix(packed, 6, 10))
    assert [few.is_divisible(a, 16) for a in (32, 33)] == [their_few.is_divisible(a, 16) for a in (32, 33)]


def wide(dims, rank, kind=T.FLOAT):
    w = numpy_helper.from_array(W.astype(helper.tensor_dtype_to_np_dtype(kind)).reshape(dims), "w")
    graph = helper.make_graph([models.node("MatMul", "x w", "y")], "g",
                              [helper.make_tensor_value_info("x", kind, [3] * (rank - 1) + [64])],
                              [helper.make_tensor_value_info("y", kind, None)], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
@pytest.mark.parametrize("dims,rank", [([1, 64, 24], 2), ([1, 1, 64, 24], 3), ([1, 64, 24], 4), ([1, 64, 24], 1),
                                       ([2, 32, 24], 3)])
def test_weights_with_more_dims(form, dims, rank):
    quantizer = few.MatMulNBitsQuantizer(wide(dims, rank), block_size=16, quant_format=few.QuantFormat[form])
    quantizer.process()
    kinds = [n.op_type for n in quantizer.model.model.graph.node]
    if rank == 1 or dims[0] == 2:
        assert kinds == ["MatMul"]
        return
    assert "MatMulNBits" in kinds or "DequantizeLinear" in kinds
    x = np.random.default_rng(1).standard_normal([3] * (rank - 1) + [64]).astype(np.float32)
    want, = nacre.InferenceSession(wide(dims, rank).SerializeToString()).run(None, {"x": x})
    got, = nacre.InferenceSession(quantizer.model.model.SerializeToString()).run(None, {"x": x})
    assert got.shape == want.shape and np.abs(got - want).mean() < 0.1 * np.abs(want).mean()


def test_weights_of_bfloat16():
    quantizer = few.MatMulNBitsQuantizer(wide([64, 24], 2, T.BFLOAT16), block_size=32)
    quantizer.process()
    tensors = {t.name: t for t in quantizer.model.model.graph.initializer}
    assert tensors["w_scales"].data_type == T.BFLOAT16 and quantizer.model.model.graph.node[0].op_type == "MatMulNBits"


def test_command(tmp_path):
    onnx.save(two_products(), tmp_path / "m.onnx")
    for method, more in (("default", ["--symmetric", "false"]), ("rtn", []), ("k_quant", ["--bits", "8"]),
                         ("hqq", ["--quant_axes", "Gather:1"])):
        few.main(["--input_model", str(tmp_path / "m.onnx"), "--output_model", str(tmp_path / f"{method}.onnx"),
                  "--quant_method", method, *more])
        made = onnx.load(tmp_path / f"{method}.onnx")
        found = [helper.get_attribute_value(a) for n in made.graph.node for a in n.attribute if a.name == "bits"]
        assert found == [8 if "8" in more else 4] * 3
        assert [len(n.input) for n in made.graph.node if n.domain] == [3 if method == "rtn" else 4] * 3


# ---- NVIDIA's AWQ ----

class Words:
    """Stands for a tokenizer, a config and a data set."""
    eos_token, pad_token = "<end>", None
    num_hidden_layers, num_key_value_heads, hidden_size, num_attention_heads, max_position_embeddings = 2, 3, 32, 4, 9

    @classmethod
    def from_pretrained(cls, name, **told):
        return cls()

    def __call__(self, texts, return_tensors, padding, truncation, max_length):
        assert self.pad_token == "<end>" and max_length == 512
        mask = torch.tensor([[0] * (5 - len(t)) + [1] * len(t) for t in texts])
        return types.SimpleNamespace(to=lambda device: {"input_ids": mask * 7, "attention_mask": mask})


def test_samples_for_awq(monkeypatch):
    data = types.ModuleType("datasets")
    data.load_dataset = lambda path, **told: {"article": ["abc", "abcde", "a"] * 20}
    hub = types.ModuleType("transformers")
    hub.AutoConfig = hub.AutoTokenizer = Words
    monkeypatch.setitem(sys.modules, "datasets", data)
    monkeypatch.setitem(sys.modules, "transformers", hub)
    config = few.NVAWQWeightOnlyQuantConfig("somewhere")
    assert len(config.calibration_data_reader) == 32 and config.algorithm == "nvidia_awq"
    first = config.calibration_data_reader[0]
    assert first["position_ids"].tolist() == [[1, 1, 0, 1, 2]] and first["past_key_values.1.key"].shape == (1, 3, 0, 8)
    shared = config.make_model_input(Words(), [[1, 2]], [[1, 1]], True, "cpu", False, True, False)
    assert shared["past_key_values.0.value"].shape == (1, 3, 9, 8) and "position_ids" not in shared
    with pytest.raises(ValueError, match="'wiki', expected one with cnn or pile"):
        few.NVAWQWeightOnlyQuantConfig("somewhere", "wiki")
    with pytest.raises(ImportError, match="nvidia_modelopt"):
        few.MatMulNBitsQuantizer(two_products(), algo_config=config).process()


def test_awq_names_what_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match="needs the package datasets"):
        few.NVAWQWeightOnlyQuantConfig("somewhere")


# ---- orders of CUDA's kernels ----

ME, THEY = cuda_quantizer.CudaQuantizer, their_cuda.CudaQuantizer


def same(name, *arguments, **told):
    got, want = (getattr(q, name)(*arguments, **told) for q in (ME, THEY))
    assert len(got) == len(want), name
    for g, w in zip(got, want):
        assert g.shape == w.shape and g.dtype == w.dtype and torch.equal(g, w), (name, arguments[1:], told)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(16, 128), (32, 64), (64, 256)])
def test_cuda_orders(shape, bits):
    w = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    w[0, :32] = 0
    for full in (True, False):
        same("qmoe_symmetric_per_channel_quantize", w, bits, unsigned_full_range=full)
        for arch in (80, 90):
            same("qmoe_per_channel_quantize", w, bits, True, arch, unsigned_full_range=full)
        same("symmetric_blockwise_quantize", w[:, :50], bits, 16, unsigned_full_range=full)
        same("symmetric_blockwise_quantize", w.reshape(2, -1, 32), bits, 16, unsigned_full_range=full)
    for symmetric, zeros, plain in itertools.product((True, False), repeat=3):
        told = dict(symmetric=symmetric, return_zero_points=zeros)
        same("matmulnbits_blockwise_quantize", w[:, :50], bits, 16, flatten_qweight=plain, **told)
        for arch in (80, 90):
            same("matmulnbits_prepacked_blockwise_quantize", w, bits, 64, arch, abs_scales=plain, **told)
            same("qmoe_prepacked_blockwise_quantize", w, bits, 32, arch, abs_scales=plain, **told)
    assert cuda_quantizer.has_cuda_weight_prepacking()


@pytest.mark.parametrize("module", [ME, THEY], ids=["nacre", "onnxruntime"])
def test_cuda_misuse(module):
    w = torch.ones(16, 96)
    for call in (lambda: module.qmoe_symmetric_per_channel_quantize(w, 3),
                 lambda: module.matmulnbits_blockwise_quantize(w, 4, 0),
                 lambda: module.matmulnbits_prepacked_blockwise_quantize(w, 4, 32, 90),
                 lambda: module.matmulnbits_prepacked_blockwise_quantize(w, 4, 64, 80),
                 lambda: module.qmoe_prepacked_blockwise_quantize(w, 4, 64),
                 lambda: module.qmoe_per_channel_quantize(w, 8, True, 70)):
        with pytest.raises(ValueError):
            call()


# ---- neural_compressor's model ----

def test_questions(tmp_path):
    onnx.save(two_products(), tmp_path / "m.onnx")
    me, they = (m.ONNXModel(str(tmp_path / "m.onnx")) for m in (onnx_model, their_model))
    for ask in (lambda m: (m.input(), m.output(), m.framework(), m.graph_info, m.is_large_model, m.hf_config),
                lambda m: {n: [r.name for r in rs] for n, rs in m.input_name_to_nodes.items()},
                lambda m: {n: w.name for n, w in m.output_name_to_node.items()},
                lambda m: [n.name for n in m.get_siblings(m.get_node("z_node"))],
                lambda m: [m.get_initializer_share_num(n) for n in ("w", "v", "nobody")],
                lambda m: [n.name for n in m.match_parent_path(m.get_node("y_node"), ["Relu", "MatMul"], [None, 0])],
                lambda m: m.match_parent_path(m.get_node("y_node"), ["Relu", "Add"], [0, 0]),
                lambda m: m.is_smoothquant_model(),
                lambda m: m.get_nodes_chain(["y_node"], ["h_node"])):
        assert ask(me) == ask(they)


def test_edits(tmp_path):
    made = []
    for module in (onnx_model, their_model):
        model = module.ONNXModel(two_products())
        model.replace_input_of_all_nodes("r", "h", white_optype=["MatMul"])
        model.replace_output_of_all_nodes("z", "other", black_optype=["Relu"])
        model.set_initializer("v", np.ones((24, 6), np.float32))
        model.add_tensors_to_outputs(["h", "y"])
        model.remove_tensors_from_outputs(["z"])
        model.update()
        model.save(str(tmp_path / "e.onnx"))
        made.append(told_of(onnx.load(tmp_path / "e.onnx")))
        assert model.output() == ["y", "h"]
    assert made[0][0] == made[1][0] and made[0][1].keys() == made[1][1].keys()
    model = onnx_model.ONNXModel(two_products())
    model.remove_tensors_from_outputs(["z", "y"])
    model.add_tensors_to_outputs(["r"])
    model.remove_unused_nodes()
    assert [n.name for n in model.nodes()] == ["h_node", "r_node"] and model.get_initializer("v") is None
    with pytest.raises(ValueError, match="no initializer 'v'"):
        model.set_initializer("v", W)


def test_weights_in_other_files(tmp_path):
    model = onnx_model.ONNXModel(two_products())
    model.model_path = str(tmp_path / "m.onnx")
    model.write_external_data_to_new_location()
    onnx.save(model.model, tmp_path / "m.onnx")
    assert (tmp_path / "external.data").stat().st_size >= W.nbytes
    again = onnx_model.ONNXModel(str(tmp_path / "m.onnx"), load_external_data=False)
    assert again.get_initializer("w").data_location == T.EXTERNAL
    again.load_model_initializer_by_tensor()
    assert np.array_equal(numpy_helper.to_array(again.get_initializer("w")), W)
