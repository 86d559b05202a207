"""Attention with dropout trains as one op: ten steps beside its pieces, which draw the same numbers, on all devices."""
import numpy as np
import onnx
import package
import pytest
from onnx import TensorProto, helper, numpy_helper
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
BATCH, LENGTH, HEADS, SIZE = 2, 12, 2, 8
HIDDEN = HEADS * SIZE
RNG = np.random.default_rng(4)
WEIGHTS = {name: (RNG.standard_normal((HIDDEN, HIDDEN)) * 0.5).astype(np.float32) for name in "qkvo"}
X = RNG.standard_normal((BATCH, LENGTH, HIDDEN)).astype(np.float32)
MASK = np.float32([[0] * LENGTH, [0] * 7 + [-1e4] * (LENGTH - 7)])[:, None, None]
LABELS = RNG.integers(0, HIDDEN, (BATCH * LENGTH,))
RATIOS = (0.3, 0.1)


def model():
    """A layer of attention; its shares are dropped, and what it gives."""
    consts = {"split": np.int64([0, 0, HEADS, SIZE]), "join": np.int64([-1, HIDDEN]), "root": np.float32(SIZE ** 0.5),
              "yes": np.array(True), **{f"ratio{i}": np.float32(r) for i, r in enumerate(RATIOS)}}
    nodes = []

    def node(op, *ins, **attributes):
        nodes.append(helper.make_node(op, list(ins), [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]
    q, k, v = (node("Transpose", node("Reshape", node("MatMul", "x", name), "split"), perm=perm)
               for name, perm in zip("qkv", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
    shares = node("Softmax", node("Add", node("Div", node("MatMul", q, k), "root"), "mask"), axis=-1)
    y = node("MatMul", node("Dropout", shares, "ratio0", "yes"), v)
    y = node("MatMul", node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), "join"), "o")
    y = node("Dropout", y, "ratio1", "yes")
    nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", [y, "labels"], ["loss"]))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", LENGTH, HIDDEN]),
                     helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", 1, 1, LENGTH]),
                     helper.make_tensor_value_info("labels", TensorProto.INT64, ["rows"])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(a, n) for n, a in {**WEIGHTS, **consts}.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ops(path):
    return [n.op_type for n in onnx.load(path).graph.node]


def trained(folder, device="cpu", **more):
    """Losses of ten steps, the eval model's loss after them, the parameters."""
    from nacre.training import api, artifacts, onnxblock
    folder.mkdir()
    artifacts.generate_artifacts(model(), requires_grad=list(WEIGHTS), optimizer=onnxblock.optim.SGD(),
                                 artifact_directory=folder, **more)
    state = api.CheckpointState.load_checkpoint(folder / "checkpoint")
    module = api.Module(folder / "training_model.onnx", state, folder / "eval_model.onnx", device=device)
    optimizer = api.Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.2)
    losses = []
    for _ in range(10):
        losses.append(float(module(X, MASK, LABELS)))
        optimizer.step()
        module.lazy_reset_grad()
    module.eval()
    losses.append(float(module(X, MASK, LABELS)))
    return np.array(losses), {name: np.array(p.data) for name, p in state.parameters}


def check_same(got, want, kind):
    close(got[0], want[0], kind, "losses")
    for name, value in want[1].items():
        close(got[1][name], value, kind, name)


def test_ten_steps_are_those_of_the_pieces(tmp_path):
    whole, pieces = trained(tmp_path / "whole"), trained(tmp_path / "pieces", standard=True)
    kinds = ops(tmp_path / "whole" / "training_model.onnx")
    assert kinds.count("AttentionDropout") == kinds.count("AttentionDropoutGrad") == kinds.count("Dropout") == 1
    assert "Softmax" not in kinds
    assert "AttentionDropout" not in ops(tmp_path / "pieces" / "training_model.onnx")
    assert "AttentionDropout" not in ops(tmp_path / "whole" / "eval_model.onnx")
    assert len(set(whole[0][:10])) == 10, "each step draws anew"
    check_same(whole, pieces, "device_f32")


@pytest.mark.parametrize("compute", [None, "bf16"])
def test_devices_draw_the_same(compute, tmp_path):
    from nacre import get_available_providers
    if "CUDAExecutionProvider" not in get_available_providers():
        pytest.skip("no GPU, and no stand-in for one")
    check_same(trained(tmp_path / "cuda", "cuda", compute=compute), trained(tmp_path / "cpu", compute=compute),
               "mixed_bf16" if compute else "device_f32")
