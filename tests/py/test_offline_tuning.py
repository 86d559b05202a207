"""nacre.tools.offline_tuning beside onnxruntime's: results put into models, taken out, joined, and the command."""
import json

import onnx
import package
import pytest
from onnxruntime.tools import offline_tuning as theirs

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.tools import offline_tuning as mine  # noqa: E402

FIRST = [{"ep": "A", "validators": {"VERSION": "1", "DEVICE": "x"},
          "results": {"Gemm": {"NN_4": 1}, "Softmax": {"8": 3}}},
         {"ep": "B", "validators": {}, "results": {}}]
SECOND = [{"ep": "A", "validators": {"DEVICE": "x", "VERSION": "1"}, "results": {"Gemm": {"NN_4": 9, "NT_4": 2}}},
          {"ep": "A", "validators": {"DEVICE": "y", "VERSION": "1"}, "results": {"Gemm": {"NN_4": 5}}}]


def model():
    return onnx.load_from_string(package.affine())


def test_in_and_out():
    assert mine.extract(model()) is None
    held = mine.embed(model(), FIRST)
    assert mine.extract(held) == theirs.extract(held) == FIRST
    assert held.SerializeToString() == theirs.embed(model(), FIRST).SerializeToString()
    with pytest.raises(ValueError, match="already"):
        mine.embed(held, SECOND)
    assert mine.extract(mine.embed(held, SECOND, overwrite=True)) == SECOND
    assert nacre.InferenceSession(held.SerializeToString()).get_modelmeta().custom_metadata_map["tuning_results"]


def test_joined():
    mergers = mine.Merger(), theirs.Merger()
    for merger in mergers:
        merger.merge(FIRST)
        merger.merge(SECOND)
    joined = mergers[0].get_merged()
    assert joined == mergers[1].get_merged() and len(joined) == 3
    assert joined[0]["results"]["Gemm"] == {"NN_4": 1, "NT_4": 2}, "the first that was told stays"


def test_command(tmp_path, capsys):
    paths = {n: str(tmp_path / n) for n in ("a.json", "b.json", "joined.json", "out.json", "m.onnx", "held.onnx")}
    for name, told in (("a.json", FIRST), ("b.json", SECOND)):
        (tmp_path / name).write_text(json.dumps(told))
    onnx.save(model(), paths["m.onnx"])
    mine.main(["merge", paths["joined.json"], paths["a.json"], paths["b.json"]])
    mine.main(["embed", paths["held.onnx"], paths["m.onnx"], paths["a.json"], paths["b.json"]])
    mine.main(["extract", paths["held.onnx"], paths["out.json"]])
    joined = json.loads((tmp_path / "joined.json").read_text())
    assert joined == json.loads((tmp_path / "out.json").read_text()) and len(joined) == 3
    with pytest.raises(ValueError, match="--force"):
        mine.main(["embed", paths["held.onnx"], paths["held.onnx"], paths["a.json"]])
    mine.main(["embed", "--force", paths["held.onnx"], paths["held.onnx"], paths["a.json"]])
    capsys.readouterr()
    for what in ("a.json", "held.onnx"):
        mine.main(["pprint", paths[what]])
        assert "Softmax" in capsys.readouterr().out
    for command in (["extract", paths["m.onnx"], paths["out.json"]], ["pprint", paths["m.onnx"]]):
        with pytest.raises(SystemExit, match="m.onnx holds no tuning results"):
            mine.main(command)
