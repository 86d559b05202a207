"""States: weights that several sessions share, in the memory of numpy, PyTorch or the state itself. The guard stands
for a GPU; where there is one, the same tests run on it."""
import gc
import threading
import weakref

import numpy as np
import package
import pytest
import torch

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from package import F, model, node, tensor  # noqa: E402
from tolerances import close  # noqa: E402

PROVIDER = {"cpu": "CPUExecutionProvider", "guard": "GuardExecutionProvider", "cuda": "CUDAExecutionProvider"}
DEVICES = ["cpu", "guard"] + (["cuda"] if nacre.get_device() == "GPU" else [])
ON = pytest.mark.parametrize("device", DEVICES)
X = np.float32([[1, 2]])
W = np.float32([[1], [2]])


def session(data, device="cpu", variables=(), ties=()):
    options = nacre.SessionOptions()
    for name in variables:
        options.add_variable(name)
    for pair in ties:
        options.add_tie(*pair)
    return nacre.InferenceSession(data, options, providers=[PROVIDER[device]])


def evaluation(device="cpu", variables=("*",)):
    """y = x w + b"""
    data = model([node("MatMul", "x w", "h"), node("Add", "h b", "y")], [tensor("x", F, ["n", 2])],
                 [tensor("y", F, ["n", 1])], [("w", W), ("b", np.float32([0.5]))])
    return session(data, device, variables)


def step(device="cpu"):
    """w = w - g"""
    data = model([node("Sub", "w g", "next"), node("Neg", "g", "seen")],
                 [tensor("w", F, [2, 1]), tensor("g", F, [2, 1])],
                 [tensor("next", F, [2, 1]), tensor("seen", F, [2, 1])])
    return session(data, device, ties=[("w", "next")])


@ON
def test_one_session_evaluates_what_another_updates(device):
    evaluate, update = evaluation(device), step(device)
    assert {v.name for v in evaluate.get_variables()} == {"w", "b"}
    assert [(v.name, v.type, v.shape) for v in update.get_variables()] == [("w", "tensor(float)", [2, 1])]
    state = nacre.State(evaluate)
    before = state.share("w").data_ptr()
    assert evaluate.run(None, {"x": X}, state=state)[0] == 5.5
    update.run(None, {"g": W}, state=state)
    assert evaluate.run(None, {"x": X}, state=state)[0] == 0.5
    assert evaluate.run(None, {"x": X})[0] == 5.5, "its own state is another"
    assert state.share("w").data_ptr() == before
    np.testing.assert_array_equal(state["w"], W * 0)
    del evaluate, update
    gc.collect()
    np.testing.assert_array_equal(state["b"], np.float32([0.5]))


def test_a_parameter_of_torch_is_updated_where_it_lies():
    layer = torch.nn.Linear(2, 1, bias=False)
    layer.weight = torch.nn.Parameter(torch.tensor([[3.0], [4.0]]))
    state = nacre.State.lend_all({"w": layer.weight})
    assert state.share("w").data_ptr() == layer.weight.data_ptr() and state.describe("w")["is_lent"]
    step().run(None, {"g": W}, state=state)
    assert layer.weight.flatten().tolist() == [2, 2]
    with torch.no_grad():
        layer.weight += 1
    np.testing.assert_array_equal(state["w"], np.float32([[3], [3]]))


def test_memory_of_numpy_is_used_as_it_lies_and_kept():
    w = np.float32([[1], [1]])
    state = nacre.State()
    state.lend("w", w)
    step().run(None, {"g": W}, state=state)
    np.testing.assert_array_equal(w, np.float32([[0], [-1]]))
    state["w"] = W
    np.testing.assert_array_equal(w, W)
    gone = weakref.ref(w)
    del w
    gc.collect()
    assert gone() is not None and state["w"][1] == 2
    del state
    gc.collect()
    assert gone() is None


def test_a_mapped_file_is_read_and_refused_to_who_updates(tmp_path):
    W.tofile(tmp_path / "w.bin")
    mapped = np.memmap(tmp_path / "w.bin", np.float32, "r", shape=(2, 1))
    state = nacre.State()
    state.lend("w", mapped)
    state["b"] = np.float32([1])
    assert evaluation().run(None, {"x": X}, state=state)[0] == 6
    assert state.describe("w")["is_read_only"] and not state.share("w").numpy().flags.writeable
    with pytest.raises(nacre.RuntimeException, match="variable 'w'.*lent to be read") as e:
        step().run(None, {"g": W}, state=state)
    assert e.value.node == "w" and e.value.code == "STATE" and not state.is_dirty
    with pytest.raises(ValueError, match="read only"):
        nacre.State().lend("w", mapped, writable=True)
    locked = nacre.State()
    locked.lend("w", W.copy(), writable=False)
    with pytest.raises(nacre.RuntimeException, match="lent to be read"):
        locked["w"] = W


@ON
def test_it_is_a_mapping(device):
    s = evaluation(device)
    state = nacre.State(None, device)
    assert len(state) == 0 and list(state) == [] and "w" not in state
    state["w"] = W * 2
    state.add_session(s)
    assert list(state) == ["w", "b"] and len(state) == 2 and state.get("c") is None
    np.testing.assert_array_equal(dict(state)["w"], W * 2)
    state.reset(s, "w")
    np.testing.assert_array_equal(state["w"], W)
    state["w"] = W * 3
    state["b"] = nacre.OrtValue.ortvalue_from_numpy(np.float32([7]), device)
    assert s.run(None, {"x": X}, state=state)[0] == 22
    state.reset(s)
    assert s.run(None, {"x": X}, state=state)[0] == 5.5
    assert state.describe("w")["device"] == device
    assert repr(state) == "State(w, b)"
    for use in (lambda: state["c"], lambda: state.describe("c")):
        with pytest.raises(KeyError):
            use()


def test_conversations():
    data = model([node("Concat", "past x", "now", axis=0), node("ReduceSum", "now", "y", keepdims=0)],
                 [tensor("x", F, [1]), tensor("past", F, ["p"])], [tensor("y", F, []), tensor("now", F, ["q"])])
    s = session(data, ties=[("past", "now")])
    a, b = nacre.State(s), nacre.State(s)
    for k in range(20):
        assert s.run(None, {"x": np.float32([1])}, state=a)[0] == k + 1
        assert s.run(None, {"x": np.float32([k])}, state=b)[0] == k * (k + 1) / 2
    assert a["past"].shape == (20,) and a.describe("past")["capacity"] == 32
    assert s.state["past"].shape == (0,)


def test_every_way_to_run_takes_a_state():
    s, state = evaluation(), nacre.State(evaluation())
    state["b"] = np.float32([100])
    x = nacre.OrtValue.ortvalue_from_numpy(X)
    assert s.run_with_ort_values(None, {"x": x}, state=state)[0].numpy() == 105
    binding = s.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_output("y")
    s.run_with_iobinding(binding, state=state)
    assert binding.copy_outputs_to_cpu()[0] == 105
    assert s.run(None, {"x": X}, nacre.RunOptions(), state=state)[0] == 105
    done, got = threading.Event(), []
    s.run_async(None, {"x": X}, lambda results, data, error: (got.append((results, error)), done.set()), None,
                state=state)
    assert done.wait(30) and got[0][1] == "" and got[0][0][0] == 105


@ON
def test_what_does_not_fit_is_told_by_name(device):
    s = evaluation(device)

    def run(**tensors):
        state = nacre.State(None, device)
        for name, x in tensors.items():
            state[name] = x
        s.run(None, {"x": X}, state=state)

    b = np.float32([0])
    run(w=W, b=b)
    with pytest.raises(nacre.InvalidArgument, match="lacks 2 of the session's 2 variables: 'w', 'b'"):
        run()
    with pytest.raises(nacre.InvalidArgument, match="expected float, got double") as e:
        run(w=W.astype(np.float64), b=b)
    assert e.value.node == "w"
    with pytest.raises(nacre.InvalidArgument, match="expected rank 2, got 1"):
        run(w=W[:, 0], b=b)
    with pytest.raises(nacre.InvalidArgument, match="expected 2, got 3"):
        run(w=np.ones((3, 1), np.float32), b=b)
    with pytest.raises(TypeError, match="expected State or None"):
        s.run(None, {"x": X}, state={"w": W})
    with pytest.raises(nacre.InvalidArgument, match="no initializer 'q'"):
        evaluation(device, ["q"])


def test_memory_of_another_device_is_refused():
    state = nacre.State(None, "guard")
    with pytest.raises(nacre.EPFail, match="expected memory of guard"):
        state.lend("w", W.copy())
    with pytest.raises(nacre.EPFail, match="expected memory of guard"):
        evaluation("guard").run(None, {"x": X}, state=nacre.State(evaluation("cpu")))


def test_what_would_be_copied_is_not_lent():
    for x in (np.ones((4, 2), np.float32)[::2], np.ones((2, 3), np.float32).T, W.astype(">f4"), np.array(["a"])):
        with pytest.raises(ValueError, match="copied"):
            nacre.State().lend("w", x)
    with pytest.raises(Exception, match="dense"):
        nacre.State().lend("w", torch.ones(4, 2)[::2])
    with pytest.raises(TypeError, match="DLPack"):
        nacre.State().lend("w", [1.0])


def made_up(arg):
    shape = [d if isinstance(d, int) else 3 for d in arg.shape]
    count = int(np.prod(shape))
    if arg.type == "tensor(float)":
        return (np.arange(count, dtype=np.float32) * 37 % 64 / 32 - 1).reshape(shape)
    return np.ones(shape, np.dtype(arg.type[len("tensor("):-1]))


@ON
@pytest.mark.parametrize("name", ["attention", "control", "convolutions", "external", "functions", "large", "lstm",
                                  "quantized", "shapes", "sparse", "training"])
def test_weights_in_a_state_give_what_constants_give(name, device):
    """A plan that packs, folds and fuses constants, and one that reads them from a state."""
    path = str(package.nacre_c.ROOT / "tests" / "faults" / f"{name}.onnx")
    constant, variable = session(path, device), session(path, device, ["*"])
    feeds = {a.name: made_up(a) for a in constant.get_inputs()}
    assert variable.get_variables() and not constant.get_variables()
    for want, got in zip(constant.run(None, feeds), variable.run(None, feeds)):
        close(got, want, "device_f32")
