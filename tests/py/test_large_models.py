"""What models cost before and while they run: constants stay in the file until something reads them, what was packed
leaves it, and a model of more than 2 GB is opened without reading it. Every case is a process of its own, which tells
its memory; sizes are far from the limits that are asked for, so that a busy machine changes nothing."""
import json
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import package
import pytest
from onnx import TensorProto, helper, numpy_helper
from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

MB = 1 << 20
ASK = textwrap.dedent("""
    import json, sys
    import numpy as np
    import nacre

    def memory():
        with open("/proc/self/smaps_rollup") as f:
            kb = {line.split(":")[0]: int(line.split()[1]) for line in f if line.rstrip().endswith("kB")}
        with open("/proc/self/status") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        return np.array([kb["Anonymous"], kb["Rss"] - kb["Anonymous"], peak]) / 1024

    path, feeds = sys.argv[1], {k: np.array(v, np.int64) for k, v in json.loads(sys.argv[2]).items()}
    before = memory()
    session = nacre.InferenceSession(path)
    loaded = memory()
    outputs = session.run(None, feeds)
    print(json.dumps({"load": list(loaded - before), "run": list(memory() - before),
                      "outputs": [o.ravel()[:8].tolist() for o in outputs]}))
""")


def asked(path, **feeds):
    done = subprocess.run([sys.executable, "-c", ASK, str(path), json.dumps(feeds)], capture_output=True, text=True,
                          env={"PYTHONPATH": str(package.FOLDER)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def gather_of(table, dims, rows=3):
    return helper.make_graph([helper.make_node("Gather", ["table", "i"], ["y"])], "g",
                             [helper.make_tensor_value_info("i", TensorProto.INT64, [rows])],
                             [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, dims[1]])], [table])


def large_model(tmp_path, rows, width):
    """The data file is sparse: it takes a few blocks of disk."""
    with open(tmp_path / "table.bin", "wb") as f:
        f.truncate(rows * width * 4)
        for row in (7, rows // 2, rows - 1):
            f.seek(row * width * 4)
            f.write(np.full(width, row, np.float32).tobytes())
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, width],
                        data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="table.bin")
    table.external_data.add(key="length", value=str(rows * width * 4))
    model = helper.make_model(gather_of(table, (rows, width), 4), opset_imports=[helper.make_opsetid("", 17)],
                              ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "m.onnx"


def test_a_model_of_more_than_2_gb_is_mapped(tmp_path):
    rows, width = 5 << 17, 1 << 10
    got = asked(large_model(tmp_path, rows, width), i=[7, -1, rows // 2, 8])
    assert rows * width * 4 > 2 << 30
    assert got["outputs"][0][:1] == [7.0]
    assert max(got["load"]) < 20 and max(got["run"]) < 40, got


def test_an_optimized_model_of_more_than_2_gb_is_saved(tmp_path):
    """Its constants go into a file of their own, without being asked."""
    rows, width = (2 << 30) // 4096 + 8, 1 << 10
    if shutil.disk_usage(tmp_path).free < 3 << 30:
        pytest.skip("less than 3 GB of disk")
    saved = tmp_path / "saved.onnx"
    command = [str(package.nacre_c.BUILD / "nacre"), "optimize", str(large_model(tmp_path, rows, width)), "-o", saved]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert saved.stat().st_size < 10_000
        assert (tmp_path / "saved.onnx.data").stat().st_size == rows * width * 4
        (tmp_path / "table.bin").unlink()
        assert asked(saved, i=[7, -1, rows // 2, 8])["outputs"][0][:1] == [7.0]
        assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "saved.onnx", "saved.onnx.data"]
    finally:
        (tmp_path / "saved.onnx.data").unlink(missing_ok=True)


def embedded(tmp_path, shift):
    """A table of 48 MB and a matrix of 32 MB; the length of a text before them shifts them through the file."""
    rng = np.random.default_rng(0)
    table = numpy_helper.from_array(rng.standard_normal((12288, 1024), np.float32), "table")
    matrix = numpy_helper.from_array(rng.standard_normal((1024, 8192), np.float32), "w")
    graph = gather_of(table, (12288, 1024))
    graph.initializer.append(matrix)
    graph.node.append(helper.make_node("MatMul", ["y", "w"], ["z"]))
    graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 8192]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10,
                              producer_name="x" * shift)
    path = tmp_path / f"m{shift}.onnx"
    onnx.save(model, path)
    want = numpy_helper.to_array(table)[[5, 12287, 6000]]
    return path, want.ravel()[:8], (want @ numpy_helper.to_array(matrix)).ravel()[:8]


@pytest.mark.parametrize("shift", range(4))
def test_embedded_weights_at_any_address(tmp_path, shift):
    """Whatever the alignment, the table is read in place, and the matrix is in memory once, packed."""
    path, row, product = embedded(tmp_path, shift)
    got = asked(path, i=[5, 12287, 6000])
    np.testing.assert_array_equal(np.float32(got["outputs"][0]), row)
    close(got["outputs"][1], product, "long_sum_f32")
    assert sum(got["load"][:2]) < 16, f"MB after load: anonymous, file, peak {got['load']}"
    assert got["run"][0] < 32 + 8, f"MB after run: anonymous, file, peak {got['run']}"
    assert got["run"][1] < 16, f"MB after run: anonymous, file, peak {got['run']}"


def tied(rows, width, kind=TensorProto.FLOAT):
    """Words by a table, and as logits the products with all of its rows: dynamo's GPT-2."""
    table = np.random.default_rng(1).standard_normal((rows, width)).astype(helper.tensor_dtype_to_np_dtype(kind))
    nodes = [helper.make_node("Gather", ["table", "i"], ["y"]), helper.make_node("Transpose", ["table"], ["t"]),
             helper.make_node("MatMul", ["y", "t"], ["z"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("i", TensorProto.INT64, [1, 3])],
                              [helper.make_tensor_value_info("z", kind, [1, 3, rows])],
                              [numpy_helper.from_array(table, "table")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), table


def test_a_tied_table_is_packed_from_where_it_lies(tmp_path):
    """32 MB of it: no transposed copy, neither when the session is made nor later, and the file's pages go."""
    model, table = tied(8192, 1024)
    onnx.save(model, tmp_path / "m.onnx")
    got = asked(tmp_path / "m.onnx", i=[[5, 8191, 4000]])
    close(got["outputs"][0], (table[5] @ table.T)[:8], "long_sum_f32")
    assert sum(got["load"][:2]) < 16, f"MB after load: anonymous, file, peak {got['load']}"
    assert got["run"][0] < 32 + 8, f"MB after run: anonymous, file, peak {got['run']}"
    assert got["run"][1] < 16, f"MB after run: anonymous, file, peak {got['run']}"


@pytest.mark.parametrize("kind", (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16))
@pytest.mark.parametrize("rows, width", ((1, 1), (7, 33), (100, 5), (513, 700)))
def test_turned_matrices_are_packed(kind, rows, width):
    """Without passes, too: then nothing is folded, and small ones are turned in the packing."""
    model, table = tied(rows, width, kind)
    feeds, wide = {"i": np.int64([[0, rows - 1, rows // 2]])}, table.astype(np.float64)
    for level in (nacre.GraphOptimizationLevel.ORT_DISABLE_ALL,
                  nacre.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = nacre.SessionOptions()
        options.graph_optimization_level = level
        session = nacre.InferenceSession(model.SerializeToString(), options)
        close(session.run(None, feeds)[0].astype(np.float64), wide[feeds["i"]] @ wide.T,
              "device_sum_f16" if kind == TensorProto.FLOAT16 else "long_sum_f32")
