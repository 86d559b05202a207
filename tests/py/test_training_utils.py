"""nacre.training.utils, optim, amp and experimental: nests of tensors taken apart and put together, optimizers and
rates beside torch's, gradient graphs that onnxruntime's names promise."""
import math
from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch

import package
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
A, B, C = (torch.full((k + 1,), float(k)) for k in range(3))
Pair = namedtuple("Pair", "u v")

#: Public names of onnxruntime.training 1.19.2, by module.
NAMES = {
    "": "amp api artifacts optim onnxblock utils experimental is_ortmodule_available PropagateCastOpsStrategy "
        "TrainingParameters",
    "artifacts": "LossType OptimType generate_artifacts",
    "onnxblock": "blocks loss optim Block ForwardBlock TrainingBlock load_checkpoint_to_model save_checkpoint base "
                 "custom_op_library empty_base",
    "onnxblock.loss": "BCEWithLogitsLoss CrossEntropyLoss L1Loss MSELoss",
    "onnxblock.optim": "AdamW ClipGradNorm SGD",
    "api": "CheckpointState LinearLRScheduler Module Optimizer",
    "amp": "DynamicLossScaler LossScaler",
    "optim": "AdamConfig LambConfig SGDConfig FP16_Optimizer AdamWMode FusedAdam ConstantWarmupLRScheduler "
             "CosineWarmupLRScheduler LinearWarmupLRScheduler PolyWarmupLRScheduler",
    "utils": "PrimitiveType ORTModelInputOutputType ORTModelInputOutputSchemaType extract_data_and_schema "
             "unflatten_data_using_schema torch_nvtx_range_push torch_nvtx_range_pop nvtx_function_decorator "
             "log_memory_usage pytorch_type_to_onnx_dtype onnx_dtype_to_pytorch_dtype "
             "pytorch_scalar_type_to_pytorch_dtype PTable",
    "utils.torch_io_helper": "_TensorStub",
    "utils.hooks": "StatisticsSubscriber GlobalSubscriberManager inspect_activation",
    "utils.data.sampler": "LoadBalancingDistributedSampler LoadBalancingDistributedBatchSampler",
    "experimental": "export_gradient_graph",
}


@pytest.mark.parametrize("module", NAMES)
def test_names(module):
    import importlib
    found = importlib.import_module(f"nacre.training.{module}".rstrip("."))
    assert [n for n in NAMES[module].split() if not hasattr(found, n)] == []


# ---- nests ----

def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("data", [A, [A, B], (A, [B, {"z": C, "a": A}]), {"k": A, "b": [B, None, "s"]}, None, "s", [],
                                  {}, OrderedDict(z=A, b=B), Pair(A, [B])])
@pytest.mark.parametrize("constants", [False, True])
def test_nests_come_back(data, constants):
    from nacre.training import utils
    tensors, schema = utils.extract_data_and_schema(data, constants)
    assert same(utils.unflatten_data_using_schema(tensors, schema), data)


def test_stubs_tell_place_name_and_type():
    from nacre.training import utils
    tensors, schema = utils.extract_data_and_schema({"x": [A, 2, True]}, constant_as_tensor=True,
                                                    device=torch.device("cpu"))
    assert [t.tolist() for t in tensors] == [[0.0], 2, True]
    assert [str(s) for s in schema["x"]] == [
        "_TensorStub(tensor_idx=0,name=x_0,dtype=torch.float32,shape_dims=1)",
        "_TensorStub(tensor_idx=1,name=x_1,dtype=<class 'int'>,shape_dims=0)",
        "_TensorStub(tensor_idx=2,name=x_2,dtype=<class 'bool'>_True,shape_dims=0)"]
    with pytest.warns(UserWarning, match="taken as a constant"):
        assert utils.extract_data_and_schema([A, 2])[1][1] == 2
    with pytest.raises(TypeError, match="Unsupported flatten data type: <class 'object'>"):
        utils.extract_data_and_schema([object()])
    stub = schema["x"][0]
    assert stub == utils.torch_io_helper._TensorStub(0, "x_0", "torch.float32", None, 1) != schema["x"][1]
    with pytest.raises(NotImplementedError, match="another _TensorStub"):
        stub == 3  # noqa: B015


def test_types_and_tables():
    from nacre.training import utils
    numbers = torch.onnx.TensorProtoDataType
    for half in (torch.float16, "Half"):
        assert utils.pytorch_type_to_onnx_dtype(half) == numbers.FLOAT16
    assert utils.onnx_dtype_to_pytorch_dtype(numbers.INT64) == utils.pytorch_scalar_type_to_pytorch_dtype("Long")
    with pytest.raises(RuntimeError, match="Unsupported dtype Nope"):
        utils.pytorch_type_to_onnx_dtype("Nope")
    table = utils.PTable(sortable=True)
    table.add_row(["bbbb", "1"])
    table.add_row(["a", "22"]).append_annotation_table(_table("x", "y"))
    assert table.get_string() == "a     22  \nx     y   \nbbbb  1   \n"
    assert table.get_string(6, 3).startswith("a       22   \n") and utils.PTable().get_string() == ""


def _table(*cells):
    from nacre.training import utils
    table = utils.PTable()
    table.add_row(list(cells))
    return table


# ---- optimizers and rates ----

def steps(make, count=5):
    torch.manual_seed(3)
    params = [torch.randn(4, 3, requires_grad=True), torch.randn(5, requires_grad=True), torch.randn(2)]
    optimizer = make(params)
    for _ in range(count):
        optimizer.zero_grad()
        loss = (params[0] ** 2).sum() + (params[1] ** 3).sum()
        loss.backward()
        optimizer.step()
    return [p.detach().numpy() for p in params]


@pytest.mark.parametrize("mode, peer", [(0, torch.optim.Adam), (2, torch.optim.AdamW)])
def test_fused_adam_is_torchs(mode, peer):
    from nacre.training.optim import AdamWMode, FusedAdam
    how = dict(lr=0.05, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.1)
    got = steps(lambda p: FusedAdam(p, adam_w_mode=AdamWMode(mode), **how))
    for a, b in zip(got, steps(lambda p: peer(p, **how))):
        close(a, b, "steps_f32")


@pytest.mark.parametrize("correct", [True, False])
def test_fused_adam_as_hugging_face_had_it(correct):
    from nacre.training.optim import FusedAdam
    w = torch.tensor([2.0, -3.0], requires_grad=True)
    optimizer = FusedAdam([w], lr=0.1, eps=1e-3, weight_decay=0.5, bias_correction=correct)
    x, m, v = w.detach().numpy().copy(), np.zeros(2), np.zeros(2)
    for step in (1, 2, 3):
        optimizer.zero_grad()
        assert w.grad is None
        value = optimizer.step(lambda: _backward(w))
        g = 2 * x
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        size = 0.1 * (math.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step) if correct else 1)
        assert abs(value.item() - (x ** 2).sum()) < 1e-3
        x = x - size * m / (np.sqrt(v) + 1e-3)
        x = x - 0.1 * 0.5 * x
    close(w.detach().numpy(), x.astype(np.float32), "steps_f32")


def _backward(w):
    loss = (w ** 2).sum()
    loss.backward()
    return loss


def info(step, finite=True):
    return SimpleNamespace(optimization_step=step, all_finite=finite, optimizer_config=SimpleNamespace(lr=1.0))


RATES = {"Constant": ({}, [0, 1 / 3, 2 / 3, 1, 1, 1]), "Linear": ({}, [0, 1 / 3, 2 / 3, 1, 6 / 7, 5 / 7]),
         "Cosine": ({}, [0, 1 / 3, 2 / 3, 1, 0.5 + 0.5 * math.cos(math.pi / 7), 0.5 + 0.5 * math.cos(2 * math.pi / 7)]),
         "Poly": ({"power": 2.0, "lr_end": 0.001},
                  [0, 1 / 3, 2 / 3, 1, 0.999 * (6 / 7) ** 2 + 0.001, 0.999 * (5 / 7) ** 2 + 0.001])}


@pytest.mark.parametrize("kind", RATES)
def test_rates(kind):
    from nacre.training import optim
    more, want = RATES[kind]
    schedule = getattr(optim, f"{kind}WarmupLRScheduler")(10, warmup=0.3, **more)
    assert np.allclose([schedule.get_lr(info(k))[0] for k in range(6)], want)
    last = info(4)
    schedule._step(last)
    assert schedule.get_last_lr() == [last.optimizer_config.lr] and np.isclose(last.optimizer_config.lr, want[4])
    with pytest.raises(AssertionError, match="total_steps"):
        getattr(optim, f"{kind}WarmupLRScheduler")(0)
    with pytest.raises(AssertionError, match="warmup must be"):
        getattr(optim, f"{kind}WarmupLRScheduler")(10, warmup=1.0)


def test_configs():
    from nacre.training import optim
    config = optim.AdamConfig(params=[{"params": ["fc"], "alpha": 0.5}], alpha=0.7, lambda_coef=0.1)
    assert config.name == "AdamOptimizer" and config.defaults["lambda"] == config.lambda_coef == 0.1
    assert config.params[0]["alpha"] == 0.5 and config.params[0]["beta"] == 0.999 and config.alpha == 0.7
    for bad, words in ((lambda: optim.SGDConfig(lr=-1), "lr must be"), (lambda: optim.LambConfig(
            params=[{"params": ["a"], "colour": 1}]), "colour hyper parameter not present"),
            (lambda: optim.SGDConfig(params=[{"params": ["a"], "lr": 1}]), "empty list")):
        with pytest.raises(AssertionError, match=words):
            bad()


def test_loss_scales():
    from nacre.training import amp
    scaler = amp.DynamicLossScaler(up_scale_window=2)
    got = [scaler.update(info(0, finite)) for finite in (True, True, False, True, True)]
    assert got == [65536.0, 131072.0, 65536.0, 65536.0, 131072.0]
    scaler.reset()
    assert scaler.loss_scale == 65536.0
    assert amp.DynamicLossScaler(loss_scale=1.0).update(info(0, False)) == 1.0
    with pytest.raises(AssertionError, match="positive float"):
        amp.LossScaler(0)


# ---- gradient graphs ----

def test_a_gradient_graph_gives_torchs_gradients(tmp_path):
    import nacre
    from nacre.training.experimental import export_gradient_graph
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    module[0].bias.requires_grad_(False)
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    export_gradient_graph(module, torch.nn.CrossEntropyLoss(), x[:2], y[:2], tmp_path / "g.onnx", opset_version=15)
    model = onnx.load(tmp_path / "g.onnx")
    names = [name for name, _ in module.named_parameters()]
    assert [i.name for i in model.graph.input] == ["input", "labels", *names]
    wanted = [name for name, p in module.named_parameters() if p.requires_grad]
    assert [o.name for o in model.graph.output] == ["output", "loss", *(f"{n}_grad" for n in wanted)]
    torch.nn.functional.cross_entropy(module(x), y).backward()
    feeds = {"input": x.numpy(), "labels": y.numpy(), **{n: p.detach().numpy() for n, p in module.named_parameters()}}
    got = nacre.InferenceSession(str(tmp_path / "g.onnx")).run([f"{n}_grad" for n in wanted], feeds)
    for name, value in zip(wanted, got):
        close(value, dict(module.named_parameters())[name].grad.numpy(), "steps_f32", name)


def test_gradient_graphs_of_old_opsets_are_read_by_others(tmp_path):
    """The checker of the package onnx, and onnxruntime."""
    import onnxruntime
    from nacre.training.experimental import export_gradient_graph
    torch.manual_seed(2)
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2), torch.nn.Softmax(1))

    def loss(y, wanted):
        return -torch.sum(wanted * torch.log2(y[:, 0]) + (1 - wanted) * torch.log2(y[:, 1]))
    x, wanted = torch.randn(3, 4), torch.tensor([1, 0, 1])
    export_gradient_graph(module, loss, x, wanted, tmp_path / "g.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "g.onnx"), full_check=True)
    loss(module(x), wanted).backward()
    parameters = dict(module.named_parameters())
    feeds = {"input": x.numpy(), "labels": wanted.numpy(), **{n: p.detach().numpy() for n, p in parameters.items()}}
    got = onnxruntime.InferenceSession(str(tmp_path / "g.onnx")).run([f"{n}_grad" for n in parameters], feeds)
    for (name, p), value in zip(parameters.items(), got):
        close(value, p.grad.numpy(), "steps_f32", name)


def test_a_gradient_that_only_runs_here_is_given_all_the_same():
    """Where ONNX has no words for an op's gradient, the ops of Nacre's own stay."""
    import nacre
    from nacre.training import _gradients
    from onnx import TensorProto, helper
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("RoiAlign", ["x", "boxes", "which"], ["y"]),
                               helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)], "g",
                              [info("x", TensorProto.FLOAT, [1, 1, 2, 2]), info("boxes", TensorProto.FLOAT, [1, 4]),
                               info("which", TensorProto.INT64, [1])], [info("loss", TensorProto.FLOAT, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8).SerializeToString()
    with pytest.raises(nacre.NotImplemented, match="RoiAlignGrad"):
        _gradients.gradients(model, "loss", ["x"], standard=True)
    made = _gradients.shared_gradients(model, "loss", ["x"])
    feeds = {"x": np.ones((1, 1, 2, 2), np.float32), "boxes": np.float32([[0, 0, 1, 1]]), "which": np.int64([0])}
    got = nacre.InferenceSession(made.SerializeToString()).run(["grad:x"], feeds)[0]
    assert got.shape == (1, 1, 2, 2) and np.isclose(got.sum(), 1)  # one mean of the four


def test_gradient_graph_builder(tmp_path):
    import nacre
    from nacre.capi._pybind_state import GradientGraphBuilder
    from onnx import TensorProto, helper
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)], "g",
        [info("x", TensorProto.FLOAT, [3]), info("w", TensorProto.FLOAT, [3])],
        [info("y", TensorProto.FLOAT, [3]), info("loss", TensorProto.FLOAT, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8).SerializeToString()
    builder = GradientGraphBuilder(model, {"loss"}, {"w", "x"}, "loss")
    with pytest.raises(RuntimeError, match=r"call build\(\) first"):
        builder.get_model()
    builder.build()
    builder.save(tmp_path / "g.onnx")
    assert (tmp_path / "g.onnx").read_bytes() == builder.get_model()
    x, w = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    got = nacre.InferenceSession(builder.get_model()).run(["x_grad", "w_grad"], {"x": x, "w": w})
    assert np.array_equal(got[0], w) and np.array_equal(got[1], x)
    with pytest.raises(ValueError, match="no output 'z'; it has y, loss"):
        GradientGraphBuilder(model, {"z"}, {"w"}, "loss").build()


# ---- modules of torch ----

def test_values_as_tensors_of_torch():
    import nacre
    from nacre.capi._pybind_state import OrtValueVector
    from nacre.training.ortmodule import ORTModule, _utils
    arrays, vector = [np.float32([1, 2]), np.array([True, False]), np.int64([[7]])], OrtValueVector()
    for x in arrays:
        vector.push_back(nacre.OrtValue.ortvalue_from_numpy(x)._ortvalue)
    tensors = _utils._ortvalues_to_torch_tensor(vector, torch.device("cpu"))
    assert [t.dtype for t in tensors] == [torch.float32, torch.bool, torch.int64]
    assert [t.data_ptr() for t in tensors] == [x.ctypes.data for x in arrays]
    assert _utils._ortvalues_to_torch_tensor(OrtValueVector(), torch.device("cpu")) == ()
    assert torch.equal(_utils._ortvalue_to_torch_tensor(vector[1], torch.device("cpu")), torch.tensor([True, False]))
    back = _utils._ortvalue_from_torch_tensor(tensors[1])
    assert back.data_type() == "tensor(bool)" and back.data_ptr() == arrays[1].ctypes.data
    with pytest.raises(TypeError, match="must be an OrtValueVector"):
        _utils._ortvalues_to_torch_tensor([vector[0]], torch.device("cpu"))
    with pytest.raises(nacre.NotImplemented, match="ORTModule is not supported; export the module"):
        ORTModule(torch.nn.Linear(1, 1))


# ---- hooks ----

class Watched(torch.nn.Module):
    """A layer that is called twice, keyword arguments, and a result that is a dictionary."""

    def __init__(self):
        super().__init__()
        self.first, self.act = torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.ReLU())
        self.again = self.first

    def forward(self, x, *, shift):
        from nacre.training.utils.hooks import inspect_activation
        h = self.act(self.first(x) + shift)
        return {"sum": inspect_activation("mine", h * 2).sum(), "n": 4}


def test_statistics_of_modules_and_their_gradients(tmp_path):
    from nacre.training.utils import hooks
    torch.manual_seed(1)
    model, x = Watched(), torch.randn(5, 3)
    out = tmp_path / "out"
    statistics = hooks.StatisticsSubscriber(str(out), start_step=1, end_step=3, bucket_size=7)
    hooks.GlobalSubscriberManager.subscribe(model, [statistics])
    assert hooks.GlobalSubscriberManager.get_subscriber(hooks.StatisticsSubscriber) is statistics
    for _ in range(4):
        result = model(x, shift=torch.zeros(4))
        result["sum"].backward()
        assert result["n"] == 4
    with hooks.no_increase_global_step():
        model(x, shift=torch.zeros(4))
    assert hooks.GlobalSubscriberManager.get_run_context().global_states.execution_step == 4
    assert sorted(p.name for p in out.iterdir()) == ["step_1", "step_2"]
    names = ["Linear_1_0th_output", "ReLU_3_0th_output", "Sequential_2_0th_output", "mine", "Watched_0_0th_output"]
    order = [f"{n}_forward" for n in names] + [f"{n}_backward" for n in reversed(names)]
    assert (out / "step_1" / "order.txt").read_text().split() == order
    h = model.first(x).detach()
    text = (out / "step_2" / "Linear_1_0th_output_forward").read_text()
    assert text.startswith(">>Linear_1_0th_output forward run shape: torch.Size([5, 4]) dtype: torch.float32")
    figures = ", ".join(text.splitlines()[1:3]).replace(" max", ", max")
    found = dict(pair.split(": ") for pair in figures.split(", "))
    close(np.array([float(found[k]) for k in ("min", "max", "mean", "std")]),
          np.array([h.min(), h.max(), h.double().mean(), h.double().std()]), "torch_f32")
    assert f"neg: {int((h < 0).sum())}, pos: {int((h > 0).sum())}, zero: 0," in text
    back = (out / "step_2" / "ReLU_3_0th_output_backward").read_text()
    assert "min: 2.0 max: 2.0, mean: 2.0, std: 0.0" in back


def test_subscribers_change_what_they_are_given_and_are_taken_away(tmp_path):
    from nacre.training.utils import hooks

    class Doubles(hooks.SubscriberBase):
        def __init__(self):
            super().__init__(None, 1)
            self.calls = []

        def pre_forward_tensor_apply_impl(self, run_rtx, module, tensor_index, tensor):
            return tensor * 2

        def pre_forward_module_apply_impl(self, run_rtx, module, args, kwargs):
            self.calls.append(type(module).__name__)
            return args, kwargs

        def post_forward_outmost_module_apply_impl(self, run_rtx, module, args, outputs):
            return args, outputs + 1

    model, manager, doubles = torch.nn.Sequential(torch.nn.ReLU()), hooks.SubscriberManager(), Doubles()
    manager.subscribe(model, [doubles])
    assert model(torch.ones(2)).tolist() == [5, 5] and model(torch.ones(2)).tolist() == [1, 1]
    assert doubles.calls == ["Sequential", "ReLU"]
    manager.subscribe(model, [hooks.SubscriberBase(None, None)])
    assert model(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="is not registered"):
        manager.get_subscriber(Doubles)
    with pytest.raises(RuntimeError, match="No subscribers"):
        manager.subscribe(model, [])
    for wrong in ((7, [doubles]), (model, [7])):
        with pytest.raises(ValueError, match="must be a .* instance, got <class 'int'>"):
            manager.subscribe(*wrong)
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError, match="override_output_dir=True"):
        hooks.StatisticsSubscriber(str(tmp_path / "there"))
    with pytest.warns(UserWarning, match="overriding"):
        hooks.StatisticsSubscriber(str(tmp_path / "there"), override_output_dir=True)
    assert not (tmp_path / "there").exists()
