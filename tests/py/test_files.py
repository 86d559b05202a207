"""nacre._files: files that are whole or not there, and nobody in the package writes them otherwise."""
import ast
import os
from pathlib import Path

import numpy as np
import onnx
import package  # noqa: F401  (puts nacre on the path)
import pytest
from onnx import TensorProto, helper, numpy_helper

from nacre import _files  # noqa: E402

SOURCES = Path(__file__).resolve().parents[2] / "python" / "nacre"


def model(value, elements=4):
    x = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [elements]) for n in "xy"]
    w = numpy_helper.from_array(np.full(elements, value, np.float32), "w")
    return helper.make_model(helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", x[:1], x[1:], [w]))


def test_a_file_is_replaced_when_it_is_whole(tmp_path):
    path = tmp_path / "told.txt"
    _files.write(path, "old")
    with pytest.raises(KeyboardInterrupt):
        with _files.writing(path) as file:
            file.write("half of the n")
            file.flush()
            assert path.read_text() == "old"
            raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["told.txt"]
    with _files.writing(path) as file:
        file.write("new")
    _files.write(tmp_path / "bytes", b"\x00\xff")
    assert path.read_text() == "new" and (tmp_path / "bytes").read_bytes() == b"\x00\xff"


def test_weights_beside_a_model_are_replaced_too(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    for value in (1, 2):  # onnx alone would write the second behind the first
        _files.save_model(model(value, 4096), path, save_as_external_data=True, location="m.data")
        assert (tmp_path / "m.data").stat().st_size == 4096 * 4
        assert numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0] == value
    monkeypatch.setattr(onnx, "save", lambda m, to, **how: (Path(to).write_bytes(b"half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        _files.save_model(model(3), path)
    assert numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0] == 2
    assert sorted(os.listdir(tmp_path)) == ["m.data", "m.onnx"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"to write a file there: '.*gone/told\.txt'"):
        _files.write(tmp_path / "gone" / "told.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        _files.write(tmp_path / "folder", "x")
    assert os.listdir(tmp_path) == ["folder"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "told.txt", tmp_path / "link"
    _files.write(path, "old")
    path.chmod(0o640)
    link.symlink_to("told.txt")
    _files.write(link, "new")
    assert link.is_symlink() and path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    _files.write(pipe, b"told")
    assert os.read(end, 10) == b"told" and not pipe.is_file()
    _files.save_model(model(1), pipe)
    assert onnx.load_from_string(os.read(end, 1 << 16)).graph.node[0].op_type == "Add"
    os.close(end)


def writes(call):
    """Whether a call writes a file under its own name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    of = getattr(getattr(call.func, "value", None), "id", "")
    modes = [a.value for a in [*call.args, *(k.value for k in call.keywords)] if isinstance(a, ast.Constant)]
    opens = name == "open" and any(isinstance(m, str) and len(m) < 4 and set(m) & set("wx") for m in modes)
    return opens or name in ("write_text", "write_bytes") or (of == "onnx" and name in ("save", "save_model"))


def test_nobody_in_the_package_writes_otherwise():
    found = [f"{path.relative_to(SOURCES)}:{n.lineno}" for path in sorted(SOURCES.rglob("*.py"))
             if path.name != "_files.py" for n in ast.walk(ast.parse(path.read_text()))
             if isinstance(n, ast.Call) and writes(n)]
    assert not found
    assert any(writes(n) for n in ast.walk(ast.parse((SOURCES / "_files.py").read_text())) if isinstance(n, ast.Call))
