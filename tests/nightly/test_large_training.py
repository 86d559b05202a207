"""Training with more than 2 GB of parameters: artifacts are made of a model whose data lie in another file, a step
changes the rows it reads and no others, and what is saved and exported is whole. Takes gigabytes of memory and disk, so
it is part of `make nightly`; where there is too little it is reported as not run."""
import os
import pathlib
import shutil
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "py"))
import package  # noqa: E402
from test_large import available  # noqa: E402
from tolerances import close  # noqa: E402

assert package.BUILT
ROWS, COLUMNS = 2**31 // 256 + 4099, 64  # a table of 2 GiB and a little
IDS = np.array([[3, ROWS - 1, 7], [ROWS // 2, 3, ROWS - 2]])
WEIGHTS = np.linspace(-1, 1, COLUMNS * 2, dtype=np.float32).reshape(COLUMNS, 2)
TARGET = np.float32([[1, -1], [0.5, 2]])
RATE = 0.5


def model(folder):
    """The table is a hole in a file: zeros that take no disk, and 1 in its last row."""
    with open(folder / "table.bin", "wb") as file:
        file.truncate(ROWS * COLUMNS * 4)
        file.seek((ROWS - 1) * COLUMNS * 4)
        file.write(np.ones(COLUMNS, np.float32).tobytes())
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS],
                        data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "table.bin", "offset": "0", "length": str(ROWS * COLUMNS * 4)}.items():
        table.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["rows"]),
         helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
         helper.make_node("MatMul", ["mean", "w"], ["y"])], "large",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [table, numpy_helper.from_array(WEIGHTS, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              folder / "large.onnx")
    return folder / "large.onnx"


def stepped(rows, w):
    """rows (2, 3, C) and w after a step of gradient descent on the mean square, in double; and the loss before."""
    rows, w = rows.astype(np.float64), w.astype(np.float64)
    mean = rows.mean(1)
    d = 2 * (mean @ w - TARGET) / TARGET.size
    slopes = {}
    for b in range(2):
        for i in IDS[b]:
            slopes[i] = slopes.get(i, 0) + d[b] @ w.T / 3
    moved = np.stack([[rows[b, k] - RATE * slopes[i] for k, i in enumerate(IDS[b])] for b in range(2)])
    return moved, w - RATE * mean.T @ d, ((mean @ w - TARGET) ** 2).mean()


@pytest.fixture
def made(tmp_path):
    if available() < 10 * 2**30 or shutil.disk_usage(tmp_path).free < 12 * 2**30:
        pytest.skip(f"needs 10 GiB of memory and 12 of disk, there are {available() / 2**30:.1f} and "
                    f"{shutil.disk_usage(tmp_path).free / 2**30:.1f}")
    from nacre.training import artifacts
    artifacts.generate_artifacts(model(tmp_path), requires_grad=["table", "w"], loss=artifacts.LossType.MSELoss,
                                 optimizer=artifacts.OptimType.SGD, artifact_directory=tmp_path)
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_more_than_2_gb_of_parameters_train(made):
    from nacre.training import api
    state = api.CheckpointState.load_checkpoint(made / "checkpoint")
    module = api.Module(made / "training_model.onnx", state, made / "eval_model.onnx")
    optimizer = api.Optimizer(made / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(RATE)
    assert module.get_parameters_size() == ROWS * COLUMNS + WEIGHTS.size
    rows, w = np.zeros((2, 3, COLUMNS)), WEIGHTS
    rows[0, 1] = 1
    for _ in range(2):
        want, new_w, loss = stepped(rows, w)
        close(module(IDS, TARGET), loss, "torch_f32")
        optimizer.step()
        module.lazy_reset_grad()
        table = state.parameters["table"].data
        close(table[IDS], want, "torch_f32")
        close(state.parameters["w"].data, new_w, "torch_f32")
        rows, w = want, new_w
    assert not table[8:1000].any() and not table[ROWS // 2 + 1:ROWS // 2 + 1000].any()
    api.CheckpointState.save_checkpoint(state, made / "after")
    module.export_model_for_inferencing(made / "trained.onnx", ["y"])
    del module, optimizer, state, table
    again = api.CheckpointState.load_checkpoint(made / "after")
    close(again.parameters["table"].data[IDS], rows, "torch_f32")
    del again
    import nacre
    session = nacre.InferenceSession(os.fspath(made / "trained.onnx"))
    close(session.run(["y"], {"ids": IDS})[0], rows.mean(1) @ w, "torch_f32")
