"""Files that can be read in two ways (docs/exporters.md): each reading beside who has it."""
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

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
