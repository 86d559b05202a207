"""Packed weights kept in a file: who finds it right maps it, who does not writes it anew; the numbers are the same."""
import os
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import package  # noqa: F401  puts the package of the build on the path
import nacre

RNG = np.random.default_rng(5)


def constant(name, *shape):
    return numpy_helper.from_array(RNG.standard_normal(shape, np.float32) / 8, name)


def model(seed=0, slope=0.1, wide=64):
    """A convolution done by Winograd's way, a product, an LSTM, and a product inside of an If."""
    global RNG
    RNG = np.random.default_rng(seed)
    then = helper.make_graph([helper.make_node("MatMul", ["flat", "inner"], ["t"])], "then", [],
                             [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
                             [constant("inner", wide, 24)])
    other = helper.make_graph([helper.make_node("MatMul", ["flat", "outer"], ["e"])], "else", [],
                              [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)])
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("LeakyRelu", ["c"], ["r"], alpha=slope),
             helper.make_node("GlobalAveragePool", ["r"], ["g"]),
             helper.make_node("Flatten", ["g"], ["f"]),
             helper.make_node("MatMul", ["f", "m"], ["flat"]),
             helper.make_node("If", ["p"], ["y"], then_branch=then, else_branch=other),
             helper.make_node("Unsqueeze", ["flat", "axis"], ["steps"]),
             helper.make_node("LSTM", ["steps", "lw", "lr"], ["", "h", ""], hidden_size=16)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64, 20, 20]),
                     helper.make_tensor_value_info("p", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "h")],
        [constant("w", 64, 64, 3, 3), constant("m", 64, wide), constant("outer", wide, 24),
         constant("lw", 1, 64, wide), constant("lr", 1, 64, 16), numpy_helper.from_array(np.array([0]), "axis")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


FEEDS = [{"x": np.random.default_rng(1).standard_normal((2, 64, 20, 20), np.float32), "p": np.array(p)}
         for p in (True, False)]


# In the file: magic, key, count; of each pack hashes of form, source and content, its place, offset and size.
SOURCE, PLACE = range(32, 40), range(48, 56)


def run(bytes_, path=None, **entries):
    options = nacre.SessionOptions()
    for key, value in ({} if path is None else {"nacre.packed_file": str(path)}).items() | entries.items():
        options.add_session_config_entry(key, value)
    session = nacre.InferenceSession(bytes_, options)
    return [r.tobytes() for f in FEEDS for r in session.run(None, f)]


def which(path):
    s = os.stat(path)
    return s.st_ino, s.st_mtime_ns


def test_the_second_session_finds_the_first_ones_file(tmp_path):
    path = tmp_path / "weights.packed"
    expected = run(model())
    assert run(model(), path) == expected
    first, text = which(path), path.read_bytes()
    assert run(model(), path) == expected
    assert which(path) == first  # nothing was written
    assert len(text) > 4 * 64 * 64 * 9  # the weights are in it
    assert sorted(os.listdir(tmp_path)) == ["weights.packed"]


@pytest.mark.parametrize("other", [{"seed": 1}, {"slope": 0.2}, {"wide": 128}])
def test_other_weights_or_another_graph_write_it_anew(tmp_path, other):
    path = tmp_path / "weights.packed"
    run(model(), path)
    first = which(path)
    assert run(model(**other), path) == run(model(**other))
    assert which(path) != first
    again = which(path)
    assert run(model(**other), path) == run(model(**other)) and which(path) == again


def test_other_kernels_write_it_anew(tmp_path):
    path = tmp_path / "weights.packed"
    run(model(), path)
    first = which(path)
    exact = {"nacre.winograd": "0"}
    assert run(model(), path, **exact) == run(model(), **exact) != run(model())
    assert which(path) != first


def test_a_damaged_file_is_not_taken(tmp_path):
    path = tmp_path / "weights.packed"
    expected = run(model(), path)
    whole = path.read_bytes()
    # Where a source lay is only a reason not to read it again; without its first bytes it is another file, below.
    places = [*(i for i in range(8, 64) if i not in PLACE), *RNG.integers(1024, len(whole), 40)]
    damaged = [whole[:n] for n in (0, 8, 23, 24, 64, 300, len(whole) // 2, len(whole) - 1)]
    damaged += [whole[:i] + bytes([whole[i] ^ 1 << int(i) % 8]) + whole[i + 1:] for i in places]
    padding = 0
    for text in damaged:
        path.write_bytes(text)
        assert run(model(), path) == expected
        padding += path.read_bytes() != whole  # between blocks nothing is read
    assert padding <= 3


def test_weights_of_an_unchanged_file_are_not_read(tmp_path):
    """A wrong hash of the source shows who compares it: only those whose model file is another, or was changed."""
    path, file, copy = (tmp_path / n for n in ("weights.packed", "model.onnx", "copy.onnx"))
    file.write_bytes(model())
    copy.write_bytes(model())
    time.sleep(2.1)  # a file that was changed a moment ago is not known by its times
    expected = run(str(file), path)
    whole = bytearray(path.read_bytes())
    assert any(whole[i] for i in PLACE)
    whole[SOURCE[0]] ^= 1
    path.write_bytes(whole)
    assert run(str(file), path) == expected and path.read_bytes() == whole
    assert run(str(copy), path) == expected and path.read_bytes() != whole
    path.write_bytes(whole)
    file.write_bytes(model(seed=3))
    assert run(str(file), path) == run(model(seed=3)) != expected


def test_a_small_file_is_told_by_its_bytes(tmp_path):
    """What was packed of a copied file leaves the memory; what the file of packs says of it was taken before."""
    path, file, copy = (tmp_path / n for n in ("weights.packed", "model.onnx", "copy.onnx"))
    for p in (file, copy):
        p.write_bytes(model())
    expected = run(str(file))
    assert run(str(file), path) == expected
    first = which(path)
    assert run(str(copy), path) == expected
    assert which(path) == first


def test_another_file_is_not_written_over(tmp_path):
    """Least of all the model itself."""
    file = tmp_path / "model.onnx"
    run(model(), tmp_path / "weights")
    whole = (tmp_path / "weights").read_bytes()
    for text in (model(), b"x", b"notes of mine", b"\0" + whole[1:]):
        file.write_bytes(text)
        for source in (model(), *([str(file)] if text == model() else [])):
            with pytest.raises(nacre.InvalidArgument, match="packed_file: expected a path for packed weights, got .*"
                                                            "model.onnx', which holds something else"):
                run(source, file)
        assert file.read_bytes() == text
    with pytest.raises(nacre.InvalidArgument, match="packed_file: expected a path, got ''"):
        run(model(), "")


def test_a_file_that_cannot_be_written_is_told(tmp_path, capfd):
    expected = run(model())
    for path in (tmp_path / "missing" / "weights", tmp_path):
        assert run(model(), path) == expected
        told = capfd.readouterr().err
        assert "packed_file: cannot" in told and "will pack its weights again" in told, told


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_large_weights_are_mapped(tmp_path):
    """Not read into memory: what the process has mapped names the file, until its session is gone."""
    path = tmp_path / "weights.packed"
    w = numpy_helper.from_array(np.ones((2100, 2100), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2100])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [w])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    options = nacre.SessionOptions()
    options.add_session_config_entry("nacre.packed_file", str(path))
    x = np.ones((3, 2100), np.float32)
    for turn in range(2):
        session = nacre.InferenceSession(data, options)
        assert (session.run(None, {"x": x})[0] == 2100).all()
        assert (str(path) in open("/proc/self/maps").read()) == (turn == 1)
        del session
        assert str(path) not in open("/proc/self/maps").read()


def test_onnxruntime_s_own_key_names_ours():
    options = nacre.SessionOptions()
    options.add_session_config_entry("session.save_external_prepacked_constant_initializers", "1")
    with pytest.raises(Exception, match="nacre.packed_file"):
        nacre.InferenceSession(model(), options)
