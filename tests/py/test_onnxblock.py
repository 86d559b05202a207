"""nacre.training.onnxblock: blocks, losses and optimizers composed on ONNX's protos; losses and gradients against
torch."""
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import package  # noqa: F401  finds the package that was built
import nacre
from nacre.training import onnxblock
from tolerances import close

RNG = np.random.default_rng(0)


def linear(elem=TensorProto.FLOAT, n_in=3, n_out=4, opset=17):
    """y = x w + b."""
    dtype = helper.tensor_dtype_to_np_dtype(elem)
    w, b = RNG.standard_normal((n_in, n_out)).astype(dtype), RNG.standard_normal(n_out).astype(dtype)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])], "linear",
        [helper.make_tensor_value_info("x", elem, ["N", n_in])],
        [helper.make_tensor_value_info("y", elem, ["N", n_out])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model, feeds, names=None):
    return nacre.InferenceSession(model.SerializeToString()).run(names, feeds)


class Forward(onnxblock.ForwardBlock):
    def __init__(self, block, *names):
        super().__init__()
        self.block, self.names = block, names

    def build(self):
        return self.block(*self.names)


class Training(onnxblock.TrainingBlock):
    def __init__(self, loss, *more):
        self.loss, self.more = loss, more  # without super().__init__(), as scripts do

    def build(self, name):
        return (self.loss(name), *self.more)


def forward(block, *names, model=None):
    made = Forward(block, *names)
    with onnxblock.base(model or linear()):
        made()
    return made.to_model_proto()


def train(loss, trainable=("w", "b"), model=None, more=(), frozen=()):
    block = Training(loss, *more)
    for name in trainable:
        block.requires_grad(name)
    for name in frozen:
        block.requires_grad(name, False)
    with onnxblock.base(model or linear()):
        block("y")
    return block


X = RNG.standard_normal((5, 3)).astype(np.float32)

UNARY = [
    (onnxblock.blocks.Pow(2.0), lambda y: y**2), (onnxblock.blocks.ReduceMean(), lambda y: y.mean(keepdims=True)),
    (onnxblock.blocks.ReduceMean(keepdims=False), np.mean), (onnxblock.blocks.ReduceSum(keepdims=False), np.sum),
    (onnxblock.blocks.ReduceSum(), lambda y: y.sum(keepdims=True)),
    (onnxblock.blocks.Sigmoid(), lambda y: 1 / (1 + np.exp(-y))), (onnxblock.blocks.Neg(), np.negative),
    (onnxblock.blocks.Abs(), np.abs), (onnxblock.blocks.Clip(-0.5, 0.5), lambda y: y.clip(-0.5, 0.5)),
    (onnxblock.blocks.Clip(clip_max=0.0), lambda y: y.clip(None, 0)), (onnxblock.blocks.Clip(0.0), lambda y: y.clip(0)),
    (onnxblock.blocks.Clip(), lambda y: y), (onnxblock.blocks.PassThrough(), lambda y: y),
    (onnxblock.blocks.Cast(TensorProto.INT64), lambda y: y.astype(np.int64)),
    (onnxblock.blocks.ReduceAllL2(), lambda y: np.sqrt((y**2).sum())),
    (onnxblock.blocks.LabelEncoder(default_float=7.0, keys_floats=[1.0], values_floats=[2.0]),
     lambda y: np.where(y == 1, 2, 7)),
]


@pytest.mark.parametrize("block, formula", UNARY, ids=lambda b: type(b).__name__ if not callable(b) else "")
def test_blocks_of_one_value(block, formula):
    model = forward(block, "y")
    plain = run(linear_of(model), {"x": X})[0]
    close(run(model, {"x": X})[0], formula(plain), "ort_f32")


def linear_of(model):
    """The model with y as its output, with the same weights."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4]))
    return copy


@pytest.mark.parametrize("block, formula", [(onnxblock.blocks.Add(), np.add), (onnxblock.blocks.Sub(), np.subtract),
                                            (onnxblock.blocks.Mul(), np.multiply), (onnxblock.blocks.Div(), np.divide)])
def test_blocks_of_two_values(block, formula):
    model = forward(block, "y", "b")
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    close(run(model, {"x": X})[0], formula(X @ weights["w"] + weights["b"], weights["b"]), "ort_f32")


def test_constant_sequence_and_linear():
    assert run(forward(onnxblock.blocks.Constant(3.0)), {"x": X})[0] == 3
    items = run(forward(onnxblock.blocks.SequenceConstruct(), "x", "y"), {"x": X})[0]
    assert [i.shape for i in items] == [(5, 3), (5, 4)]
    for bias in (True, False):
        model = forward(onnxblock.blocks.Linear(4, 2, bias=bias, alpha=0.5), "y")
        own = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        w = next(v for k, v in own.items() if "linear.weight" in k)
        b = next((v for k, v in own.items() if "linear.bias" in k), 0)
        close(run(model, {"x": X})[0], 0.5 * (X @ own["w"] + own["b"]) @ w + b, "ort_f32")


def test_names_are_told_apart_and_inputs_are_alike():
    model = forward(onnxblock.blocks.InputLike("y"), "z")
    assert [i.name for i in model.graph.input] == ["x", "z"]
    assert model.graph.input[1].type == model.graph.output[0].type
    names = {onnxblock._graph_utils.generate_graph_name("a") for _ in range(10)}
    assert len(names) == 10
    with onnxblock.base(linear()) as accessor:
        made = onnxblock.blocks.InputLike(onnxblock.blocks.Neg()("y"))()  # a value that only inference knows
        assert accessor.model.graph.input[-1].name == made


def test_bases_are_copies_and_do_not_nest():
    model = linear()
    with onnxblock.base(model) as accessor:
        onnxblock.blocks.Neg()("y")
        assert len(accessor.model.graph.node) == 3 and len(model.graph.node) == 2
        with pytest.raises(RuntimeError, match="Base onnx model already exists"):
            with onnxblock.empty_base():
                pass
    with onnxblock.empty_base(15) as accessor:
        assert {(o.domain, o.version) for o in accessor.model.opset_import} == {("", 15), ("com.microsoft", 1)}
    with pytest.raises(RuntimeError, match="No base onnx model is set"):
        onnxblock.blocks.Neg()("y")
    with pytest.raises(RuntimeError, match="does not exist"):
        with onnxblock.custom_op_library("/nowhere.so"):
            pass


def test_what_is_asked_too_early_or_is_not_there():
    block = Training(onnxblock.loss.MSELoss())
    with pytest.raises(RuntimeError, match="build the training model first before trying to retrieve the parameters"):
        block.parameters()
    with pytest.raises(RuntimeError, match="training and eval models first"):
        block.to_model_proto()
    with pytest.raises(RuntimeError, match="build the forward model first"):
        Forward(onnxblock.blocks.Neg()).to_model_proto()
    with pytest.raises(LookupError, match="nope"):
        forward(onnxblock.loss.MSELoss(), "nope")
    with pytest.raises(LookupError, match="nope"):
        forward(onnxblock.blocks.PassThrough(), "nope")
    with pytest.raises(ValueError, match="no initializer or input 'zz'"):
        train(onnxblock.loss.MSELoss(), ["w", "zz"])
    with pytest.raises(ValueError, match="frozen parameters: the model has no initializer 'zz'"):
        train(onnxblock.loss.MSELoss(), ["w"], frozen=["zz"])
    for loss in (onnxblock.loss.MSELoss, onnxblock.loss.CrossEntropyLoss):
        with pytest.raises(RuntimeError, match="Reduction some not supported"):
            loss(reduction="some")


# ---- losses ----

WEIGHT, POSITIVE = np.array([1, 2, 0.5, 3], np.float32), np.array([2, 1, 3, 0.5], np.float32)
LABELS = np.array([0, 3, 1, 1, 2])
TARGET = RNG.random((5, 4)).astype(np.float32)
LOSSES = {
    "mse": (lambda r: onnxblock.loss.MSELoss(reduction=r), lambda r: torch.nn.MSELoss(reduction=r)),
    "l1": (lambda r: onnxblock.loss.L1Loss(reduction=r), lambda r: torch.nn.L1Loss(reduction=r)),
    "bce": (lambda r: onnxblock.loss.BCEWithLogitsLoss(reduction=r), lambda r: torch.nn.BCEWithLogitsLoss(reduction=r)),
    "bce weighted": (lambda r: onnxblock.loss.BCEWithLogitsLoss(WEIGHT, r, POSITIVE),
                     lambda r: torch.nn.BCEWithLogitsLoss(torch.tensor(WEIGHT), reduction=r,
                                                          pos_weight=torch.tensor(POSITIVE))),
    "ce": (lambda r: onnxblock.loss.CrossEntropyLoss(reduction=r), lambda r: torch.nn.CrossEntropyLoss(reduction=r)),
    "ce weighted": (lambda r: onnxblock.loss.CrossEntropyLoss(WEIGHT, r, 1),
                    lambda r: torch.nn.CrossEntropyLoss(torch.tensor(WEIGHT), reduction=r, ignore_index=1)),
}


def gradients_of(model):
    """The training model with the gradients as outputs, in place of the flags."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = [n for n in copy.graph.node if n.op_type == "InPlaceAccumulatorV2"]
    for node in nodes:
        copy.graph.output.append(helper.make_empty_tensor_value_info(node.input[1]))
    return copy, {node.input[0].removesuffix("_grad.accumulation.buffer"): node.input[1] for node in nodes}


def feeds_of(model, parameters, **more):
    """Parameters as they are, buffers of zeros."""
    feeds = {t.name: numpy_helper.to_array(t) for t in parameters[0] + parameters[1]}
    for info in model.graph.input:
        if info.name.endswith("_grad.accumulation.buffer"):
            feeds[info.name] = np.zeros_like(feeds[info.name.removesuffix("_grad.accumulation.buffer")])
    return {**feeds, "lazy_reset_grad": np.array([True]), **more}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("kind", LOSSES)
def test_losses_and_their_gradients_are_those_of_torch(kind, reduction):
    ours, theirs = (make(reduction) for make in LOSSES[kind])
    block = train(ours)
    training, evaluation = block.to_model_proto()
    target = {"labels": LABELS} if kind.startswith("ce") else {"target": TARGET}
    feeds = feeds_of(training, block.parameters(), x=X, **target)
    with_gradients, names = gradients_of(training)
    got = run(with_gradients, feeds, [training.graph.output[0].name, *names.values()])
    w, b = (torch.tensor(feeds[name], requires_grad=True) for name in ("w", "b"))
    loss = theirs(torch.tensor(X) @ w + b, torch.tensor(*target.values()))
    loss.sum().backward()
    close(got[0], loss.detach().numpy(), "torch_f32")
    for name, want in zip(names, (w, b)):
        close(got[1 + list(names).index(name)], want.grad.numpy(), "torch_f32", name)
    plain = {i.name for i in evaluation.graph.input}
    close(run(evaluation, {k: v for k, v in feeds.items() if k in plain})[0], loss.detach().numpy(), "torch_f32")


def test_large_logits_give_finite_losses():
    block = train(onnxblock.loss.BCEWithLogitsLoss())
    training, _ = block.to_model_proto()
    feeds = feeds_of(training, block.parameters(), x=X * 1e4, target=np.round(TARGET))
    with_gradients, names = gradients_of(training)
    got = run(with_gradients, feeds, [training.graph.output[0].name, *names.values()])
    assert all(np.isfinite(v).all() for v in got)


def test_three_dims_of_scores_have_their_classes_on_axis_1():
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 3])],
                              [numpy_helper.from_array(np.ones((4, 1), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    block = train(onnxblock.loss.CrossEntropyLoss(), ["w"], model)
    training, _ = block.to_model_proto()
    x, labels = RNG.standard_normal((2, 4, 3)).astype(np.float32), RNG.integers(0, 4, (2, 3))
    got = run(training, feeds_of(training, block.parameters(), x=x, labels=labels))[0]
    close(got, torch.nn.functional.cross_entropy(torch.tensor(x), torch.tensor(labels)).numpy(), "torch_f32")


def test_targets_that_are_there_are_used():
    model = linear()
    model.graph.input.append(helper.make_tensor_value_info("wanted", TensorProto.FLOAT, ["N", 4]))

    class Named(onnxblock.ForwardBlock):
        def build(self):
            return onnxblock.loss.MSELoss()("y", target_name="wanted")

    named = Named()
    with onnxblock.base(model):
        named()
    assert [i.name for i in named.to_model_proto().graph.input] == ["x", "wanted"]


def test_doubles():
    block = train(onnxblock.loss.BCEWithLogitsLoss(POSITIVE), model=linear(TensorProto.DOUBLE))
    training, _ = block.to_model_proto()
    feeds = feeds_of(training, block.parameters(), x=X.astype(np.float64), target=TARGET.astype(np.float64))
    y = torch.tensor(feeds["x"] @ feeds["w"] + feeds["b"])
    want = torch.nn.functional.binary_cross_entropy_with_logits(y, torch.tensor(feeds["target"]),
                                                                torch.tensor(POSITIVE, dtype=torch.float64))
    close(run(training, feeds)[0], want.numpy(), "torch_f64")


# ---- training models ----


def test_inputs_outputs_and_accumulators_have_their_names_and_order():
    block = train(onnxblock.loss.MSELoss(), ["w"], more=["y"], frozen=["b"])
    training, evaluation = block.to_model_proto()
    loss = training.graph.output[0].name
    assert [i.name for i in training.graph.input] == ["x", "target", "w", "b", "w_grad.accumulation.buffer",
                                                      "lazy_reset_grad"]
    assert [o.name for o in training.graph.output] == [loss, "y", "w_grad.accumulation.out"]
    last = training.graph.node[-1]
    assert (last.name, last.op_type, last.domain) == ("GradientAccumulator2", "InPlaceAccumulatorV2", "com.microsoft")
    assert (last.input[0], last.input[2]) == ("w_grad.accumulation.buffer", "lazy_reset_grad")
    assert [i.name for i in evaluation.graph.input] == ["x", "target", "w", "b"]
    assert [o.name for o in evaluation.graph.output] == [loss, "y"]
    trainable, frozen = block.parameters()
    assert [t.name for t in trainable] == ["w"] and [t.name for t in frozen] == ["b"]


def test_parameters_that_are_not_named_stay_inside():
    training, evaluation = train(onnxblock.loss.MSELoss(), ["w"]).to_model_proto()
    assert "b" in [t.name for t in training.graph.initializer] and "b" in [t.name for t in evaluation.graph.initializer]


def test_gradients_of_inputs():
    block = train(onnxblock.loss.MSELoss(), ["x"])
    training, _ = block.to_model_proto()
    assert block.parameters() == ([], [])
    assert [i.name for i in training.graph.input] == ["x", "target", "x_grad.accumulation.buffer", "lazy_reset_grad"]


def test_nothing_to_train():
    block = train(onnxblock.loss.MSELoss(), [])
    training, _ = block.to_model_proto()
    assert block.parameters() == ([], [])
    assert [o.name for o in training.graph.output] == [block.to_model_proto()[1].graph.output[0].name]


def test_a_loss_that_depends_on_no_parameter_is_refused():
    class Apart(onnxblock.TrainingBlock):
        def build(self):
            return onnxblock.loss.MSELoss()("x")

    block = Apart()
    block.requires_grad("w")
    with pytest.raises(Exception, match="does not depend on any trainable parameter"):
        with onnxblock.base(linear()):
            block()


def test_blocks_nest_and_merge():
    class Twice(onnxblock.Block):
        def __init__(self):
            self.mse, self.l1, self.add = onnxblock.loss.MSELoss(), onnxblock.loss.L1Loss(), onnxblock.blocks.Add()

        def build(self, name):
            return self.add(self.mse(name), self.l1(name))

    block = train(Twice())
    training, _ = block.to_model_proto()
    feeds = feeds_of(training, block.parameters(), x=X, target=TARGET)
    off = X @ feeds["w"] + feeds["b"] - TARGET
    assert [i.name for i in training.graph.input].count("target") == 1
    close(run(training, feeds)[0], (off**2).mean() + np.abs(off).mean(), "ort_f32")


def test_a_block_of_ones_own_adds_to_the_base():
    class Square(onnxblock.Block):
        def build(self, name):
            made = onnxblock._graph_utils.generate_graph_name("square")
            self.base.graph.node.append(helper.make_node("Mul", [name, name], [made]))
            return made

    model = forward(Square(), "y")
    close(run(model, {"x": X})[0], run(linear_of(model), {"x": X})[0]**2, "ort_f32")


def test_dropout_and_batch_norm_are_still_in_the_eval_model():
    nodes = [helper.make_node("Dropout", ["x", "ratio", "mode"], ["d"], seed=1),
             helper.make_node("BatchNormalization", ["d", "s", "b", "m", "v"], ["y", "m2", "v2"], training_mode=1)]
    ones = np.ones(3, np.float32)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3, 2])],
                              [numpy_helper.from_array(ones * 2, n) for n in "sbmv"] +
                              [numpy_helper.from_array(np.array(0.5, np.float32), "ratio"),
                               numpy_helper.from_array(np.array(True), "mode")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    block = train(onnxblock.loss.MSELoss(), ["s", "b"], model)
    training, evaluation = block.to_model_proto()
    kinds = {n.op_type: n for n in evaluation.graph.node}
    assert list(kinds["Dropout"].input) == ["x", "ratio", ""]
    assert helper.get_node_attr_value(kinds["BatchNormalization"], "training_mode") == 0
    x = RNG.standard_normal((4, 3, 2)).astype(np.float32)
    got = run(evaluation, {"x": x, "target": np.zeros_like(x), "s": ones * 2, "b": ones * 2})[0]
    close(got, (((x - 2) / np.sqrt(2 + 1e-5) * 2 + 2)**2).mean(), "ort_f32")


# ---- optimizers ----


def optimizer_model(block, parameters):
    with onnxblock.empty_base() as accessor:
        block(parameters)
        assert block.to_model_proto() == accessor.model
        return accessor.model


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_optimizer_models(kind, clip):
    clipping = None if clip is None else onnxblock.optim.ClipGradNorm(clip)
    block = onnxblock.optim.AdamW(clip_grad=clipping) if kind == "adamw" else onnxblock.optim.SGD(clip_grad=clipping)
    model = optimizer_model(block, train(onnxblock.loss.MSELoss()).parameters())
    moments = ["first_order_moments", "second_order_moments"][:2 if kind == "adamw" else 1]
    assert [i.name for i in model.graph.input] == ["learning_rate", "step", "params", "gradients", *moments]
    ops = [n.op_type for n in model.graph.node]
    update = "AdamWOptimizer" if kind == "adamw" else "SGDOptimizerV2"
    assert ops == (["InplaceClipGradNorm"] if clip else []) + [update]
    assert len(model.graph.output) == 1 and model.graph.output[0].type.tensor_type.elem_type == TensorProto.BOOL
    if kind == "adamw":
        values = {a.name: helper.get_attribute_value(a) for a in model.graph.node[-1].attribute}
        assert values == {"alpha": np.float32(0.9), "beta": np.float32(0.999), "epsilon": np.float32(1e-6),
                          "weight_decay": 0, "correct_bias": 1, "adam_mode": 1}
    onnx.checker.check_model(model)


def test_optimizers_refuse():
    with pytest.raises(ValueError, match="no parameter is trainable"):
        optimizer_model(onnxblock.optim.AdamW(), ([], []))
    with pytest.raises(ValueError, match="nesterov needs a momentum above 0"):
        onnxblock.optim.SGD(momentum=0.9, dampening=0.1, nesterov=True)
    with pytest.raises(ValueError, match="must not be negative"):
        onnxblock.optim.SGD(momentum=-0.9)
    with pytest.raises(ValueError, match="mode is 0"):
        onnxblock.optim.AdamW(mode=2)
    mixed = [numpy_helper.from_array(np.zeros(1, t), t) for t in ("float32", "float64")]
    with pytest.raises(ValueError, match="of one type, got DOUBLE, FLOAT"):
        optimizer_model(onnxblock.optim.SGD(), mixed)
