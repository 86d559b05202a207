"""Files that can be read in two ways (docs/exporters.md): each reading beside who has it."""
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import package  # noqa: F401  (puts nacre on the path)
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import nacre
from nacre_c import PROGRAM
from test_cli import good
from tolerances import close

X = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def resize(scale, producer, mode="linear"):
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], name="r", mode=mode,
                            coordinate_transformation_mode="align_corners")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, None, None])],
                              [numpy_helper.from_array(np.float32([1, 1, scale, scale]), "s")])
    return helper.make_model(graph, producer_name=producer, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scale", [0.6, 0.8, 1.3, 1.75, 2.0])
def test_aligned_corners_by_scales(env, scale, mode):
    def mine(producer):
        with env.session(resize(scale, producer, mode)) as session:
            return session.run({"x": X})["y"]

    model = resize(scale, "pytorch", mode).SerializeToString()
    close(mine("pytorch"), onnxruntime.InferenceSession(model).run(None, {"x": X})[0], "ort_f32")
    torch_mode = {"linear": "bilinear", "cubic": "bicubic"}[mode]
    close(mine("pytorch"), torch.nn.functional.interpolate(torch.tensor(X), scale_factor=scale, mode=torch_mode,
                                                           align_corners=True).numpy(), "ort_f32")
    text = ReferenceEvaluator(resize(scale, "another", mode)).run(None, {"x": X})[0]
    close(mine("another"), text, "ort_f32")
    assert np.array_equal(mine("another"), mine("pytorch")) == (scale * 4 == int(scale * 4))


def test_explain_says_which_reading_was_taken(tmp_path):
    assert PROGRAM.exists()
    for producer, says in (("pytorch", "the rounded length, as the file's producer, pytorch, means it"),
                           ("another", "before it is rounded, as ONNX's text says")):
        path = tmp_path / f"{producer}.onnx"
        onnx.save(resize(1.3, producer), path)
        assert says in good("explain", path, "r")


def test_sizes_that_are_declared_of_parts(env):
    """torch declares the parts of tensor_split with one symbol, or all with the size of one."""
    node, info = helper.make_node, helper.make_tensor_value_info
    zero, one = (numpy_helper.from_array(np.array(k), n) for k, n in ((0, "zero"), (1, "one")))
    nodes = [node("SequenceEmpty", [], ["s0"], dtype=TensorProto.FLOAT), node("SequenceInsert", ["s0", "x"], ["s1"]),
             node("SequenceInsert", ["s1", "y"], ["s2"])]
    nodes += [node("SequenceAt", ["s2", at], [out]) for at, out in (("zero", "a"), ("one", "b"), ("one", "c"))]
    graph = helper.make_graph(nodes, "g", [info("x", 1, ["n", 3]), info("y", 1, ["m", 3])],
                              [info("a", 1, ["part", 3]), info("b", 1, ["part", 3]), info("c", 1, [1, "n"])],
                              [zero, one])
    model = helper.make_model(graph, producer_name="pytorch", ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    x, y = np.ones((1, 3), np.float32), np.ones((2, 3), np.float32)
    session = nacre.InferenceSession(model)
    for got, want in zip(session.run(None, {"x": x, "y": y}), (x, y, y), strict=True):
        assert np.array_equal(got, want)
    assert [len(o.shape) for o in session.get_outputs()] == [2, 2, 2]


def of_text(text, opset=17):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> {text}')


@pytest.mark.parametrize("dims", [(), (1,)])
def test_one_element_for_a_scalar(dims):
    """Scripts give sampling rates and sizes as arrays of one element."""
    model = of_text("""g (float[2] x, float s, bool c) => (float[2] y) {
        z = Mul(x, s) y = If(c) <then_branch = t () => (float[2] a) { a = Neg(z) },
                                 else_branch = e () => (float[2] b) { b = Abs(z) }> }""").SerializeToString()
    feeds = {"x": np.float32([2, -3]), "s": np.full(dims, 3, np.float32), "c": np.full(dims, True)}
    want = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    assert np.array_equal(nacre.InferenceSession(model).run(None, feeds)[0], want.reshape(2))
    with pytest.raises(Exception, match="input 's'.*expected rank 0, got 1"):
        nacre.InferenceSession(model).run(None, {**feeds, "s": np.ones(2, np.float32)})


BLIND = {"Attention": """y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, m)""",
         "MultiHeadAttention": """y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, "", "", m)"""}


@pytest.mark.parametrize("op", BLIND)
def test_a_query_that_sees_no_key(op):
    model = of_text(f"g (float[1,2,4] q, float[1,3,4] k, float[1,3,4] v, float[1,2,2,3] m) => (float[1,2,4] y) "
                    f"{{ {BLIND[op]} }}", 23)
    draw = np.random.default_rng(0).standard_normal
    feeds = {n: draw(s).astype(np.float32) for n, s in (("q", (1, 2, 4)), ("k", (1, 3, 4)), ("v", (1, 3, 4)))}
    feeds["m"] = np.zeros((1, 2, 2, 3), np.float32)
    feeds["m"][:, :, 0] = -np.inf
    got = nacre.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    close(got[:, 1], want[:, 1], "ort_f32")
    assert not got[:, 0].any() and got[:, 1].all()
    if op == "Attention":
        assert not want[:, 0].any() and not ReferenceEvaluator(model).run(None, feeds)[0][:, 0].any()
    else:
        assert np.isnan(want[:, 0]).all()


@pytest.mark.parametrize("dims", [(0,), (0, 2), (2, 0)])
def test_tokens_of_no_strings_keep_their_rank(dims):
    model = of_text(f"g (string[{','.join('ab'[:len(dims)])}] x) => (string[] y) "
                    '{ y = com.microsoft.Tokenizer<mark = 1, pad_value = "#", mincharnum = 1, separators = [" "]>(x) }')
    feeds = {"x": np.zeros(dims, object)}
    assert nacre.InferenceSession(model.SerializeToString()).run(None, feeds)[0].shape == (*dims, 0)
    assert onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0].size == 0
