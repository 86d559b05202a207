"""Convolutional networks on channels in blocks: the whole network stays in the layout, and onnxruntime agrees."""
import importlib
import pathlib
import subprocess
import sys

import nacre_c
import numpy as np
import onnx.parser
import onnxruntime
import pytest
import tolerances

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def models():
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module("models")
    sys.path.remove(str(BENCH))


NETWORKS = {"resnet50": {}, "mobilenet_v2": {}, "mobilenet_v2 HardSwish": {"act": "HardSwish"}}


def conversions(env, model):
    session = env.session(model, dumps="on")
    lowered = session.dump("lowered")
    return session, lowered.count("nacre.PackChannels") + lowered.count("nacre.UnpackChannels")


@pytest.mark.parametrize("which", NETWORKS)
def test_networks_stay_in_blocks(models, which):
    name = which.split()[0]
    model = getattr(models, name)(classes=10, **NETWORKS[which]).SerializeToString()
    with nacre_c.Env(2) as env:
        session, n = conversions(env, model)
        assert n == 1, session.dump("lowered")
        reference = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        for dims in ((1, 3, 64, 64), (2, 3, 49, 71)):
            x = np.random.default_rng(1).standard_normal(dims, np.float32)
            want = reference.run(None, {"x": x})[0]
            got = session.run({"x": x})["y"]
            tolerances.close(got / np.abs(want).max(), want / np.abs(want).max(), "model_f32", (which, dims))


# Forms of old opsets between two convolutions: in the layout they are nodes of newer ones, with other inputs.
OLD_FORMS = [(6, "ReduceMean<axes = [-1], keepdims = 1>(a)", "ReduceMean"),
             (13, "ReduceMean<axes = [2, -1], keepdims = 1>(a)", "ReduceMean"),
             (11, "ReduceSum<axes = [2, 3], keepdims = 1>(a)", "ReduceSum"),
             (13, "ReduceMax<axes = [2], keepdims = 1>(a)", "ReduceMax"),
             (10, 'Resize<mode = "nearest">(a, s)', "Resize"),
             (10, 'Resize<mode = "linear">(a, s)', "Resize"),
             (9, 'Upsample<mode = "nearest">(a, s)', "Resize"),
             (9, 'Upsample<mode = "linear">(a, s)', "Resize")]


@pytest.mark.parametrize("opset, form, op", OLD_FORMS)
def test_forms_of_old_opsets_stay_in_blocks(env, opset, form, op):
    model = onnx.parser.parse_model(f'''<ir_version: 7, opset_import: ["" : {opset}]>
        g (float[n,20,20,20] x) => (float[n,20,h,w] y) <float[4] s = {{1, 1, 2, 2}}>
        {{ a = Conv<pads = [1,1,1,1]>(x, w1) b = {form} y = Conv<pads = [1,1,1,1]>(b, w2) }}''')
    rng = np.random.default_rng(3)
    for name in ("w1", "w2"):
        w = rng.standard_normal((20, 20, 3, 3), np.float32) / 13
        model.graph.initializer.append(onnx.numpy_helper.from_array(w, name))
    model = model.SerializeToString()
    session, n = conversions(env, model)
    lowered = session.dump("lowered")
    assert n == 2 and f"= {op}" in lowered, lowered
    x = rng.standard_normal((2, 20, 20, 20), np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    tolerances.close(session.run({"x": x})["y"], want, "model_f32", form)


def of_three_dims(models):
    """A first layer of few channels, pools of both kinds with uneven pads, a residual sum, (2 + 1)-D layers, groups."""
    b = models.Build()
    a = b.node("Relu", b.node("Conv", "x", b.weight(32, 3, 3, 3, 3), pads=[1] * 6))
    a = b.node("MaxPool", a, kernel_shape=[1, 2, 2], strides=[1, 2, 2], pads=[0, 1, 0, 0, 0, 1])
    c = b.node("Relu", b.node("Conv", a, b.weight(32, 32, 3, 3, 3), pads=[1] * 6))
    a = b.node("Relu", b.node("Add", a, b.node("Conv", c, b.weight(32, 32, 1, 3, 3), pads=[0, 1, 1, 0, 1, 1])))
    a = b.node("MaxPool", a, kernel_shape=[2, 3, 3], strides=[2, 1, 1], pads=[1, 1, 0, 0, 0, 2])
    a = b.node("Conv", a, b.weight(48, 32, 3, 1, 1), pads=[1, 0, 0, 1, 0, 0], strides=[2, 1, 1])
    a = b.node("Conv", a, b.weight(48, 48, 1, 1, 1))
    a = b.node("AveragePool", a, kernel_shape=[2, 2, 3], pads=[1, 0, 1, 0, 1, 1], count_include_pad=1)
    b.nodes.append(models.helper.make_node("GlobalAveragePool", [a], ["y"]))
    return b.model([models.tensor("x", models.F, "n", 3, "d", "h", "w")],
                   [models.tensor("y", models.F, "n", 48, 1, 1, 1)])


def test_three_dims_stay_in_blocks(models):
    model = of_three_dims(models).SerializeToString()
    reference = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with nacre_c.Env(1) as alone, nacre_c.Env(3) as env:
        session, n = conversions(env, model)
        assert n == 1, session.dump("lowered")
        one, exact = alone.session(model), env.session(model, winograd="off")
        for dims in ((1, 3, 5, 18, 23), (2, 3, 8, 12, 9)):
            x = np.random.default_rng(1).standard_normal(dims, np.float32)
            want, got = reference.run(None, {"x": x})[0], session.run({"x": x})["y"]
            for y in (got, exact.run({"x": x})["y"]):
                tolerances.close(y / np.abs(want).max(), want / np.abs(want).max(), "model_f32", dims)
            assert np.array_equal(got, one.run({"x": x})["y"])


def test_explain_tells_what_ended_the_layout(models, tmp_path):
    b = models.Build()
    y = b.node("Conv", "x", b.weight(32, 32, 3, 3), pads=[1] * 4)
    b.nodes.append(models.helper.make_node("Softmax", [y], ["y"], name="ends", axis=1))
    path = tmp_path / "m.onnx"
    models.onnx.save(b.model([models.tensor("x", models.F, 1, 32, 20, 20)],
                             [models.tensor("y", models.F, 1, 32, 20, 20)]), path)
    done = subprocess.run([nacre_c.LIBRARY.parent / "nacre", "explain", path, "ends"], capture_output=True, text=True)
    assert "blocks of channels end here: the op does not work on them" in done.stdout, done.stdout + done.stderr


def test_weights_that_are_given_are_packed_in_the_run(models):
    """As in training: the kernels over blocks, with the weights of each run."""
    b = models.Build()
    b.nodes.append(models.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4))
    sizes = {"x": (2, 32, 12, 12), "w": (48, 32, 3, 3)}
    model = b.model([models.tensor(k, models.F, *v) for k, v in sizes.items()],
                    [models.tensor("y", models.F, 2, 48, 12, 12)]).SerializeToString()
    with nacre_c.Env(2) as env:
        session, n = conversions(env, model)
        assert n == 2 and "nacre.ConvBlocked" in session.dump("lowered"), session.dump("lowered")
        reference = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        for seed in range(2):
            rng = np.random.default_rng(seed)
            feeds = {k: rng.standard_normal(v, np.float32) for k, v in sizes.items()}
            want, got = reference.run(None, feeds)[0], session.run(feeds)["y"]
            tolerances.close(got / np.abs(want).max(), want / np.abs(want).max(), "model_f32", seed)
