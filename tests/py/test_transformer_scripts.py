"""The modules of nacre.transformers that scripts import beside the optimizer, next to onnxruntime's."""
import argparse
import csv
import json
import os
import random
import subprocess
import sys
import types

import numpy as np
import onnx
import onnx_ir
import package
import pytest
import torch
from onnx import TensorProto as T, helper, numpy_helper
from onnxruntime.transformers import (affinity_helper as _, benchmark_helper as their_bench,  # noqa: F401
                                      bert_test_data as their_data, constants as their_constants,
                                      convert_to_packing_mode as their_packing, dynamo_onnx_helper as their_dynamo,
                                      fusion_base as their_base, fusion_utils as their_utils,
                                      huggingface_models as their_models, import_utils as their_imports,
                                      past_helper as their_past, profile_result_processor as their_tables,
                                      shape_optimizer as their_shapes)
from onnxruntime.transformers.onnx_model import OnnxModel as TheirModel

from tolerances import close

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre.transformers import (affinity_helper, benchmark_helper, bert_perf_test, bert_test_data,  # noqa: E402
                                compare_bert_results, constants, convert_to_packing_mode, dynamo_onnx_helper,
                                fusion_base, fusion_utils, huggingface_models, import_utils, machine_info, metrics,
                                past_helper, profile_result_processor, profiler, quantize_helper, shape_optimizer,
                                torch_onnx_export_helper)
from nacre.transformers.onnx_model import OnnxModel  # noqa: E402

R = np.random.default_rng(5)
WIDTH, WORDS = 16, 50


def weight(*shape):
    return (R.standard_normal(shape) * 0.3).astype(np.float32)


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, outputs[0] + "_node", domain=domain, **attributes)


def bert(kind="Attention", lengths=False, **told):
    """Embedding, normalization, two attentions with a mask, or lengths, sum and normalization each."""
    i = {"words": weight(WORDS, WIDTH), "kinds": weight(2, WIDTH), "g": weight(WIDTH) + 1, "b": weight(WIDTH)}
    nodes = [node("Gather", ["words", "input_ids"], ["e1"]), node("Gather", ["kinds", "segment_ids"], ["e2"]),
             node("Add", ["e1", "e2"], ["e"]), node("LayerNormalization", ["e", "g", "b"], ["x0"])]
    for n in range(2):
        x, a = f"x{n}", f"a{n}"
        if kind == "Attention":
            i |= {f"w{n}": weight(WIDTH, 3 * WIDTH), f"c{n}": weight(3 * WIDTH)}
            nodes.append(node(kind, [x, f"w{n}", f"c{n}", "input_mask"], [a], "com.microsoft", num_heads=2, **told))
        else:
            i |= {f"w{n}{p}": weight(WIDTH, WIDTH) for p in "qkv"} | {f"c{n}": weight(3 * WIDTH)}
            nodes += [node("MatMul", [x, f"w{n}{p}"], [f"{p}{n}"]) for p in "qkv"]
            nodes.append(node(kind, [f"q{n}", f"k{n}", f"v{n}", f"c{n}", "input_mask"], [a], "com.microsoft",
                              num_heads=2, **told))
        nodes += [node("Add", [x, a], [f"s{n}"]), node("LayerNormalization", [f"s{n}", "g", "b"], [f"x{n + 1}"])]
    nodes.append(node("Identity", ["x2"], ["y"]))
    graph = helper.make_graph(nodes, "bert", [helper.make_tensor_value_info(n, k, d) for n, k, d in (
        ("input_ids", T.INT64, ["batch", "length"]), ("segment_ids", T.INT64, ["batch", "length"]),
        ("input_mask", T.INT32, ["batch"] if lengths else ["batch", "length"]))],
        [helper.make_tensor_value_info("y", T.FLOAT, ["batch", "length", WIDTH])],
        [numpy_helper.from_array(a, n) for n, a in i.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def feed(mask=None):
    ids = R.integers(0, WORDS, (3, 6))
    return {"input_ids": ids, "segment_ids": ids % 2, "input_mask": np.ones((3, 6), np.int32) if mask is None else mask}


# ---- packing ----

def kinds_of(model):
    return sorted((n.domain, n.op_type, sorted(a.name for a in n.attribute)) for n in model.graph.node)


@pytest.mark.parametrize("kind", ["Attention", "MultiHeadAttention"])
def test_packed_models(kind):
    plain, packed, theirs = bert(kind, lengths=True), onnx.ModelProto(), onnx.ModelProto()
    packed.CopyFrom(plain)
    theirs.CopyFrom(plain)
    x = feed(np.int32([6, 2, 4]))
    convert_to_packing_mode.PackingMode(mode := OnnxModel(packed)).convert()
    their_packing.PackingMode(their_mode := TheirModel(theirs)).convert(use_symbolic_shape_infer=False)
    assert kinds_of(mode.model) == kinds_of(their_mode.model)
    assert {"RemovePadding", "RestorePadding", f"Packed{kind}"} <= {k[1] for k in kinds_of(mode.model)}
    for model in (mode.model, their_mode.model):
        want, = nacre.InferenceSession(plain.SerializeToString()).run(None, x)
        got, = nacre.InferenceSession(model.SerializeToString()).run(None, x)
        real = np.arange(6) < x["input_mask"][:, None]
        close(got[real], want[real], "ort_f32")
        assert not got[~real].any()


@pytest.mark.parametrize("told,why", [(dict(unidirectional=1), "unidirectional 1"), (dict(do_rotary=1), "do_rotary 1")])
def test_what_is_not_packed(told, why, caplog):
    model = bert(**told)
    before = model.SerializeToString()
    convert_to_packing_mode.PackingMode(OnnxModel(model)).convert()
    assert model.SerializeToString() == before and f"Attention 'a0_node' has {why}" in caplog.text
    caplog.clear()
    model = bert("MultiHeadAttention", unidirectional=0)
    convert_to_packing_mode.PackingMode(OnnxModel(model)).convert()
    assert "attribute unidirectional" in caplog.text
    model = bert(lengths=True)
    model.graph.node[4].input[3] = ""
    convert_to_packing_mode.PackingMode(OnnxModel(model)).convert()
    assert "expected one for all" in caplog.text
    convert_to_packing_mode.PackingMode(OnnxModel(onnx.load_from_string(package.affine()))).convert()
    assert "none of Attention and MultiHeadAttention" in caplog.text


def test_packing_command(tmp_path):
    onnx.save(bert(lengths=True), tmp_path / "m.onnx")
    convert_to_packing_mode.main(["--input", str(tmp_path / "m.onnx"), "--output", str(tmp_path / "p.onnx")])
    assert "PackedAttention" in {n.op_type for n in onnx.load(tmp_path / "p.onnx").graph.node}


# ---- inputs for BERT ----

@pytest.mark.parametrize("mask_type", [1, 2, 3])
@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("kind", [T.INT32, T.INT64, T.FLOAT])
def test_drawn_inputs(mask_type, drawn, kind):
    values = [helper.make_tensor_value_info(n, kind, ["b", "s"]) for n in ("ids", "kinds", "mask")]
    told = (4, 9, 3, 7, False, *values, 5, drawn, mask_type)
    for got, want in zip(bert_test_data.generate_test_data(*told), their_data.generate_test_data(*told), strict=True):
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])
            assert got[name].dtype == want[name].dtype


def test_drawn_lengths():
    for most, mean in ((9, 5), (9, 2), (9, 9), (9, 1), (8, 6)):
        random.seed(3)
        got = [bert_test_data.get_random_length(most, mean) for _ in range(50)]
        random.seed(3)
        assert got == [their_data.get_random_length(most, mean) for _ in range(50)]
    with pytest.raises(ValueError, match="10 is not between 1 and 9"):
        bert_test_data.get_random_length(9, 10)


def test_which_input_is_which():
    for told in ((), ("input_ids", "segment_ids", "input_mask")):
        got = bert_test_data.find_bert_inputs(OnnxModel(bert()), *told)
        assert [v.name for v in got] == ["input_ids", "segment_ids", "input_mask"]
        assert [v.name for v in their_data.find_bert_inputs(TheirModel(bert()), *told)] == [v.name for v in got]
    with pytest.raises(ValueError, match="no input 'q'"):
        bert_test_data.find_bert_inputs(OnnxModel(bert()), "q")
    with pytest.raises(ValueError, match="3 inputs, expected 1"):
        bert_test_data.find_bert_inputs(OnnxModel(bert()), "input_ids")
    model = bert()
    for old, new in (("input_mask", "third"), ("segment_ids", "second")):
        for n in model.graph.node:
            n.input[:] = [new if i == old else i for i in n.input]
        next(i for i in model.graph.input if i.name == old).name = new
    with pytest.raises(ValueError, match="are ids, segments and mask"):
        bert_test_data.find_bert_inputs(OnnxModel(model))


def large():
    """As many words as are drawn from."""
    model = bert()
    next(t for t in model.graph.initializer if t.name == "words").CopyFrom(
        numpy_helper.from_array(weight(10000, WIDTH), "words"))
    return model


def test_files_of_tests(tmp_path):
    onnx.save(large(), tmp_path / "m.onnx")
    bert_test_data.main(["--model", str(tmp_path / "m.onnx"), "--batch_size", "2", "--sequence_length", "5",
                         "--samples", "2", "--seed", "4"])
    folder = tmp_path / "batch_2_seq_5" / "test_data_set_1"
    read = {p.name: numpy_helper.to_array(onnx.load_tensor(p)) for p in folder.iterdir()}
    assert set(read) == {"input_0.pb", "input_1.pb", "input_2.pb", "output_0.pb"}
    want, = nacre.InferenceSession(str(tmp_path / "m.onnx")).run(None, dict(zip(
        ("input_ids", "segment_ids", "input_mask"), (read[f"input_{i}.pb"] for i in range(3)))))
    np.testing.assert_array_equal(read["output_0.pb"], want)


def test_two_models_compared(tmp_path, capsys):
    model = large()
    onnx.save(model, tmp_path / "a.onnx")
    next(t for t in model.graph.initializer if t.name == "b").CopyFrom(numpy_helper.from_array(weight(WIDTH) + 3, "b"))
    onnx.save(model, tmp_path / "b.onnx")
    common = ["--batch_size", "2", "--sequence_length", "6", "--samples", "3", "--baseline_model",
              str(tmp_path / "a.onnx")]
    most, same = compare_bert_results.main([*common, "--optimized_model", str(tmp_path / "a.onnx"), "--output_dir",
                                            str(tmp_path / "out")])
    assert same and most < 1e-4 and "3 of 3 are the same" in capsys.readouterr().out
    assert (tmp_path / "out" / "test_data_set_2" / "input_2.pb").exists()
    most, same = compare_bert_results.main([*common, "--optimized_model", str(tmp_path / "b.onnx"), "--verbose"])
    assert not same and most > 0.5 and "0 of 3 are the same" in capsys.readouterr().out


def test_a_model_measured(tmp_path, monkeypatch):
    onnx.save(large(), tmp_path / "m.onnx")
    monkeypatch.setattr(bert_perf_test, "launch_test", bert_perf_test.run_one_test)
    common = ["--model", str(tmp_path / "m.onnx"), "-b", "1", "2", "-s", "6", "--samples", "2", "-t", "2", "-n", "1"]
    for more in ([], ["--use_io_binding"]):
        path = bert_perf_test.main([*common, *more])
        rows = list(csv.DictReader(path.read_text().splitlines(), delimiter="\t"))
        assert sorted(r["batch_size"] for r in rows) == ["1", "2"] and all(float(r["Latency(ms)"]) >= 0 for r in rows)
        assert {r["use_io_binding"] for r in rows} == {str(bool(more))} and rows[0]["intra_op_num_threads"] == "1"
        path.unlink()
    with pytest.raises(ValueError, match=r"\[0, 5\], expected numbers from 1"):
        bert_perf_test.main(["--model", "m", "-b", "0", "5", "-s", "6"])


# ---- helpers that measure ----

def test_latencies():
    seconds = [0.001, 0.002, 0.0035, 0.01]
    assert benchmark_helper.get_latency_result(seconds, 4) == their_bench.get_latency_result(seconds, 4)


def results():
    base = {"engine": "onnxruntime", "version": "1", "providers": "CPU", "device": "cpu", "precision": "fp32",
            "optimizer": "", "io_binding": False, "model_name": "bert", "inputs": 3, "threads": 2,
            "custom_layer_num": "", "datetime": "now"}
    return [{**base, "batch_size": b, "sequence_length": s, "threads": t,
             **their_bench.get_latency_result([0.001 * b * s * t], b)} for b in (1, 2) for s in (8, 16) for t in (2, 1)]


def test_tables(tmp_path):
    told = argparse.Namespace(batch_sizes=[1, 2], sequence_lengths=[8, 16], models=["bert"], engines=["onnxruntime"],
                              num_threads=[1, 2])
    for name, module in (("mine", benchmark_helper), ("theirs", their_bench)):
        module.output_details(results(), str(tmp_path / f"{name}_d.csv"))
        module.output_summary(results(), str(tmp_path / f"{name}_s.csv"), told)
    for part in "ds":
        got, want = (list(csv.DictReader((tmp_path / f"{n}_{part}.csv").read_text().splitlines()))
                     for n in ("mine", "theirs"))
        assert got == want and len(got) == (8 if part == "d" else 2)
    benchmark_helper.output_fusion_statistics({"a.onnx": {"Gelu": 2}}, str(tmp_path / "f.csv"))
    row, = csv.DictReader((tmp_path / "f.csv").read_text().splitlines())
    assert row["Gelu"] == "2" and row["torch"] == torch.__version__ and row["model_filename"] == "a.onnx"


def test_sessions_and_runs(tmp_path, caplog):
    onnx.save(bert(), tmp_path / "m.onnx")
    session = benchmark_helper.create_onnxruntime_session(str(tmp_path / "m.onnx"), False, num_threads=1)
    assert session.get_session_options().intra_op_num_threads == 1
    assert benchmark_helper.create_onnxruntime_session(str(tmp_path / "none.onnx"), False) is None
    assert "none.onnx: no session" in caplog.text
    x, template = feed(), {"engine": "nacre"}
    said = benchmark_helper.inference_ort(session, x, template, 3, 3, 1)
    assert said["test_times"] == 3 and said["io_binding"] is False and said["engine"] == "nacre"
    buffers = []
    session = benchmark_helper.create_onnxruntime_session(package.affine(), False)
    y = {"x": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)}
    want = session.run(None, y)
    said = benchmark_helper.inference_ort_with_io_binding(session, y, template, 2, ["y", "z"], want, buffers, [4, 4], 2,
                                                          "cpu", warm_up_repeat=1)
    assert said["io_binding"] is True and said["test_times"] == 2
    for buffer, w in zip(buffers, want):
        np.testing.assert_array_equal(buffer.numpy().reshape(w.shape), w)
    with pytest.raises(RuntimeError, match="'abacus', expected one of"):
        benchmark_helper.providers_of(True, "abacus")
    with pytest.raises(AssertionError, match="DmlExecutionProvider is not there"):
        benchmark_helper.prepare_environment(str(tmp_path / "c"), str(tmp_path / "o" / "p"), True, "dml")
    assert (tmp_path / "o" / "p").is_dir()


def test_memory():
    grown = benchmark_helper.measure_memory(False, lambda: np.ones(40 << 20, np.uint8).sum())
    assert 30 < grown < 400 and benchmark_helper.measure_memory(False, None) > 50
    with pytest.raises(ZeroDivisionError):
        benchmark_helper.measure_memory(False, lambda: 1 // 0)


def fake_tool(folder, monkeypatch, text, code=0):
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_gpus_by_a_stand_in_tool(tmp_path, monkeypatch):
    fake_tool(tmp_path, monkeypatch, "0, Some GPU, 1000, 900, 100")
    assert benchmark_helper.get_gpu_info() == [{"id": 0, "name": "Some GPU", "total": 1000 << 20, "free": 900 << 20,
                                                "used": 100 << 20}]
    assert benchmark_helper.measure_memory(True, lambda: None) == 0
    assert benchmark_helper.measure_memory(True, None)[0]["max_used_MB"] == 100
    fake_tool(tmp_path, monkeypatch, "550.1, Some GPU, 1000, 900")
    told = machine_info.MachineInfo(silent=True).get_gpu_info_by_nvml()
    assert told["driver_version"] == "550.1" and told["devices"][0]["memory_available"] == 900 << 20
    fake_tool(tmp_path, monkeypatch, "no device", 9)
    assert benchmark_helper.get_gpu_info() is None and benchmark_helper.measure_memory(True, None) is None
    assert benchmark_helper.RocmMemoryMonitor().get_used_memory(0) == -1


def test_machine(capsys):
    told = json.loads(machine_info.get_machine_info())
    assert told["onnxruntime"]["version"] == nacre.__version__ and told["packages"]["onnx"] == onnx.__version__
    assert told["memory"]["total"] > told["memory"]["available"] > 0 and told["cpu"]["logical_cores"] >= 1
    assert told["pytorch"]["version"] == torch.__version__
    assert set(json.loads(machine_info.get_device_info())) == {"gpu", "cpu", "memory"}


def test_small_helpers(monkeypatch):
    for value in ("fp32", "fp16", "int8", "int4"):
        assert str(benchmark_helper.Precision(value)) == str(their_bench.Precision(value)) == value
    assert str(benchmark_helper.OptimizerInfo.BYSCRIPT) == "by_script"
    config = types.SimpleNamespace(num_hidden_layers=12, decoder_layers=6)
    benchmark_helper.ConfigModifier(None).modify(config)
    assert config.num_hidden_layers == 12
    benchmark_helper.ConfigModifier(2).modify(config)
    assert (config.num_hidden_layers, config.decoder_layers) == (2, 2)
    monkeypatch.setenv("ORT_TRANSFORMER_OPTIONS", "x")
    monkeypatch.setenv("ORT_DISABLE_FUSED_ATTENTION", "1")
    assert benchmark_helper.get_ort_environment_variables() == their_bench.get_ort_environment_variables() != ""
    benchmark_helper.set_random_seed(5)
    first = random.random(), np.random.rand(), torch.rand(1).item()
    benchmark_helper.set_random_seed(5)
    assert first == (random.random(), np.random.rand(), torch.rand(1).item())
    for name in ("numpy", "no-such-package", "onnx.helper", "no.such"):
        assert import_utils.is_installed(name) == their_imports.is_installed(name)
    assert huggingface_models.MODELS == their_models.MODELS
    assert huggingface_models.MODEL_CLASSES == their_models.MODEL_CLASSES
    for kind in ("Operators", "AttentionInputIDs", "AttentionOutputIDs", "MultiHeadAttentionInputIDs",
                 "MultiHeadAttentionOutputIDs"):
        mine, theirs = ({n: v for n, v in vars(getattr(m, kind)).items() if n[0] != "_"}
                        for m in (constants, their_constants))
        assert mine == theirs


def test_cores(caplog):
    setting = affinity_helper.AffinitySetting()
    setting.get_affinity()
    setting.set_affinity()
    assert setting.affinity and not caplog.text
    own = set(setting.affinity)
    try:
        os.sched_setaffinity(0, {min(own)})
        setting.set_affinity()
        assert os.sched_getaffinity(0) == own and (len(own) == 1 or "again" in caplog.text)
    finally:
        os.sched_setaffinity(0, own)


def test_records(tmp_path):
    record = metrics.BenchmarkRecord("bert", "fp16", "nacre", "cpu", "nacre", "1", batch_size=4, trigger_date="then")
    record.metrics.customized["tokens"] = 7
    record.metrics.latency_ms_mean = 1.5
    told = record.to_dict()
    assert told["config"]["batch_size"] == 4 and told["metrics"] == {"latency_ms_mean": 1.5, "tokens": 7}
    assert "is_huggingface" not in told["config"]["model_info"] and json.loads(record.to_json()) == told
    metrics.BenchmarkRecord.save_as_csv(str(tmp_path / "r.csv"), [record])
    row, = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert row["config.model_info.full_name"] == "bert" and row["metrics.tokens"] == "7"
    metrics.BenchmarkRecord.save_as_json(str(tmp_path / "r.json"), [record])
    assert json.loads((tmp_path / "r.json").read_text()) == [told]
    metrics.BenchmarkRecord.save_as_csv(str(tmp_path / "none.csv"), [])
    assert not (tmp_path / "none.csv").exists()


# ---- profiles ----

def profiled(folder):
    onnx.save(large(), folder / "m.onnx")
    session = benchmark_helper.create_onnxruntime_session(str(folder / "m.onnx"), False, enable_profiling=True)
    for _ in range(2):
        session.run(None, feed())
    return session.end_profiling()


def test_tables_of_profiles(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    records = profile_result_processor.load_profile_json(profiled(tmp_path))
    ready = {"cat": "Session", "name": "session_initialization", "dur": 9}
    kernels = [{"cat": "Kernel", "name": n, "dur": d, "args": {"op_name": op}} for n, d, op in (
        ("gemm", 30, "MatMul"), ("copy", 4, ""), ("gemm", 10, "MatMul"), ("loop", 99, "Loop"))]
    fence = {"cat": "Node", "name": "a_fence_before", "dur": 7, "args": {"op_name": "MatMul"}}
    for given in (records, [*records, ready, *kernels, fence], [kernels[0], ready]):
        got, want = (m.parse_kernel_results(given, 0.2) for m in (profile_result_processor, their_tables))
        assert got == want
        if len(given) > 2:
            for only in (True, False):
                assert profile_result_processor.parse_node_results(given, only, 0.05) == \
                    their_tables.parse_node_results(given, only, 0.05)
            assert profile_result_processor.group_node_results(given) == their_tables.group_node_results(given)
    profiler.main(["--input", str(next(tmp_path.glob("*.json")))])
    assert "LayerNormalization" in capsys.readouterr().out
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ValueError, match="holds dict"):
        profile_result_processor.load_profile_json(str(tmp_path / "x.json"))


def test_a_model_profiled(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(large(), tmp_path / "m.onnx")
    for kind in ("bert", "default"):
        profiler.main(["--model", "m.onnx", "--dummy_inputs", kind, "--samples", "2", "-b", "2", "-s", "5"])
        assert "Gather" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="'input_ids' has dim 'batch', expected one of batch_size"):
        profiler.main(["--model", "m.onnx", "--dummy_inputs", "gpt2"])
    with pytest.raises(SystemExit, match="say --model"):
        profiler.main([])


def test_inputs_for_profiles():
    def graph(**values):
        made = helper.make_graph([], "g", [helper.make_tensor_value_info(n, k, d) for n, (k, d) in values.items()], [])
        return OnnxModel(helper.make_model(made))
    past = graph(ids=(T.INT64, ["batch_size", "seq_len"]), past=(T.FLOAT, [2, "batch_size", 4, "past_seq_len", 8]),
                 mask=(T.INT32, ["batch_size", "total_seq_len"]))
    one, two = profiler.create_gpt2_inputs(past, 3, 4, 5, 2)
    shapes = {n: a.shape for n, a in one.items()}
    assert one is two and shapes == {"ids": (3, 4), "past": (2, 3, 4, 5, 8), "mask": (3, 9)}
    assert [a.dtype for a in one.values()] == [np.int64, np.float32, np.int32] and (one["past"] == 1).all()
    dims = ["batch_size", "sequence_length"]
    both = graph(ids=(T.INT64, dims), global_mask=(T.INT64, dims))
    one, = profiler.create_longformer_inputs(both, 2, 6, 2, 1)
    assert one["global_mask"].sum() == 4 and one["ids"].sum() == 12
    assert profiler.create_dummy_inputs(graph(x=(T.FLOAT, ["a", "b", "c"])), 1, 2, 1) is None
    with pytest.raises(ValueError, match="element type 9, expected float"):
        profiler.create_dummy_inputs(graph(x=(T.BOOL, [2])), 1, 2, 1)


# ---- sizes as constants ----

def with_shapes():
    """onnxruntime's draws for three inputs of one type."""
    model = bert()
    for value in model.graph.input:
        value.type.tensor_type.elem_type = T.INT32
    del model.graph.node[-1]
    model.graph.node.extend([
        node("Shape", ["x2"], ["dims"]), node("Gather", ["dims", "zero"], ["n"]),
        node("Gather", ["dims", "one"], ["m"]),
        node("Unsqueeze", ["n", "at"], ["n1"]), node("Unsqueeze", ["m", "at"], ["m1"]),
        node("Concat", ["n1", "m1", "heads"], ["target"], axis=0), node("Reshape", ["x2", "target"], ["y"])])
    model.graph.initializer.extend(numpy_helper.from_array(np.array(v), n) for n, v in (
        ("zero", 0), ("one", 1), ("at", [0]), ("heads", [4, 4])))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    model.graph.output[0].type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=4)] * 2)
    return model


@pytest.mark.parametrize("shapes,reshapes", [(True, False), (False, True), (True, True)])
def test_sizes_as_constants(shapes, reshapes, tmp_path):
    plain, made = with_shapes(), []
    names = ("input_ids", "segment_ids", "input_mask")
    for module, kind in ((shape_optimizer, OnnxModel), (their_shapes, TheirModel)):
        model = onnx.ModelProto()
        model.CopyFrom(plain)
        module.BertOnnxModelShapeOptimizer(kind(model)).optimize(str(tmp_path / "o.onnx"), *names, shapes, reshapes,
                                                                 batch_size=3, sequence_length=6)
        made.append(onnx.load(tmp_path / "o.onnx"))
    assert sorted(n.op_type for n in made[0].graph.node) == sorted(n.op_type for n in made[1].graph.node)
    assert "Shape" not in {n.op_type for n in made[0].graph.node}
    x = {n: a.astype(np.int32) for n, a in feed().items()}
    want, = nacre.InferenceSession(plain.SerializeToString()).run(None, x)
    got, = nacre.InferenceSession(made[0].SerializeToString()).run(None, x)
    np.testing.assert_array_equal(got, want)
    again = shape_optimizer.BertOnnxModelShapeOptimizer(OnnxModel(made[0]))
    again.optimize(None, *names, shapes, reshapes)
    with pytest.raises(ValueError, match="no input 'q'"):
        shape_optimizer.BertOnnxModelShapeOptimizer(OnnxModel(with_shapes())).optimize(None, "q", "r", "s", True, True)
    with pytest.raises(ValueError, match="no output 'q'"):
        shape_optimizer.BertOnnxModelShapeOptimizer(OnnxModel(with_shapes())).optimize(None, *names, True, True, ["q"])


# ---- caches ----

def test_caches():
    mine, theirs = past_helper.PastKeyValuesHelper, their_past.PastKeyValuesHelper
    layers = [tuple(f"{k}{i}" for k in "abcd") for i in range(3)]
    six = [(a, b, "n", c, d, "m") for a, b, c, d in layers]
    for present in (True, False):
        assert mine.get_past_names(3, present) == theirs.get_past_names(3, present)
    for given in (layers, six):
        assert mine.group_by_self_or_cross(given) == theirs.group_by_self_or_cross(given)
        for concat in (True, False):
            assert mine.group_by_self_and_cross(given, concat) == theirs.group_by_self_and_cross(given, concat)
    flat = mine.group_by_self_and_cross(layers, True)
    assert mine.back_group_by_layer(flat) == theirs.back_group_by_layer(flat) == tuple(layers)
    for encoder in (True, False):
        given = flat if encoder else layers
        assert mine.get_input_names(given, encoder) == theirs.get_input_names(given, encoder)
    tensors = [torch.full((1, 2, i + 1, 4), float(i)) for i in range(8)]
    got, want = mine.group_by_layer(tensors, 2), theirs.group_by_layer(tensors, 2)
    assert type(got) is type(want) and got.get_seq_length() == want.get_seq_length()
    with pytest.raises(ValueError, match="7 tensors for 2 layers, expected 8"):
        mine.group_by_layer(tensors[:7], 2)
    with pytest.raises(ValueError, match="5 tensors, expected 4 or 6"):
        mine.group_by_self_or_cross([range(5)])


# ---- torch ----

class Conv1D(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.randn(3, 5)), torch.nn.Parameter(torch.randn(5))

    def forward(self, x):
        return x @ self.weight + self.bias


def test_torch_helpers(tmp_path, monkeypatch):
    model, x = torch.nn.Sequential(torch.nn.Sequential(Conv1D()), torch.nn.ReLU()), torch.randn(2, 3)
    want = model(x)
    quantize_helper.conv1d_to_linear(model)
    assert isinstance(model[0][0], torch.nn.Linear)
    torch.testing.assert_close(model(x), want)
    torch_onnx_export_helper.torch_onnx_export(model, (x,), str(tmp_path / "m.onnx"), input_names=["x"],
                                               dynamic_axes={"x": {0: "n"}}, opset_version=17)
    got, = nacre.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x.numpy()})
    close(got, want.detach().numpy(), "ort_f32")
    with pytest.raises(TypeError, match="does not export with enable_onnx_checker"):
        torch_onnx_export_helper.torch_onnx_export(model, (x,), str(tmp_path / "m.onnx"), enable_onnx_checker=True)
    quantize_helper.QuantizeHelper.quantize_onnx_model(str(tmp_path / "m.onnx"), str(tmp_path / "q" / "m.onnx"))
    assert any("Integer" in n.op_type for n in onnx.load(tmp_path / "q" / "m.onnx").graph.node)
    asked = []  # torch has no engine for it on every machine
    monkeypatch.setattr(torch.quantization, "quantize_dynamic", lambda *a, **told: asked.append((a, told)))
    quantize_helper.QuantizeHelper.quantize_torch_model(model, torch.qint8)
    assert asked == [((model, {torch.nn.Linear}), {"dtype": torch.qint8})]


# ---- fusions written in Python ----

def doubled(model_class, base):
    """Mul by two behind Relu becomes a Double of one's own."""
    class Double(base.Fusion):
        def __init__(self, model):
            super().__init__(model, "Double", ["Relu"], "of a test")

        def fuse(self, relu, readers, makers):
            for mul in readers.get(relu.output[0], []):
                if mul.op_type == "Mul":
                    self.add_nodes_to_remove([relu, mul, relu])
                    self.nodes_to_add.append(helper.make_node("Double", [relu.input[0]], [mul.output[0]], "d"))
                    self.node_name_to_graph_name["d"] = self.this_graph_name
                    self.increase_counter("Double")
                    self.add_initializer("unread", T.FLOAT, [2], [1, 2])

    nodes = [node("Relu", ["x"], ["r"]), node("Mul", ["r", "two"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", T.FLOAT, [2])],
                              [numpy_helper.from_array(np.float32([2]), "two")])
    model = model_class(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    fusion = Double(model)
    fusion.apply()
    return [(n.op_type, list(n.input), list(n.output)) for n in model.model.graph.node], dict(fusion.fused_count), [
        n.op_type for n in fusion.nodes_to_remove], fusion.description


def test_a_fusion_of_ones_own():
    assert doubled(OnnxModel, fusion_base) == doubled(TheirModel, their_base)


def casts():
    nodes = [node("Cast", ["x"], ["c"], to=T.INT32), node("Identity", ["c"], ["i"]), node("Add", ["i", "one"], ["a"]),
             node("Reshape", ["a", "shape"], ["r"]), node("Unsqueeze", ["r", "axes"], ["u"]),
             node("Squeeze", ["u", "axes"], ["s"]), node("Reshape", ["s", "shape"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.INT64, [2, 3])],
                              [helper.make_tensor_value_info("y", T.INT32, [2, 3])],
                              [numpy_helper.from_array(a, n) for n, a in {
                                  "one": np.int32([1]), "shape": np.array([2, 3]), "axes": np.array([0])}.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def edited(model_class, utils, step):
    model = model_class(casts())
    said = step(utils.FusionUtils(model), model)
    return said, [(n.op_type, list(n.input), list(n.output)) for n in model.model.graph.node]


def skipped(u, m):
    readers = m.input_name_to_nodes()
    parent, child = m.model.graph.node[1], m.model.graph.node[2]
    return u.skip_parent(m, child, parent, readers), [n.op_type for n in readers["c"]]


STEPS = {
    "graph input": lambda u, m: u.cast_graph_input_to_int32("x"),
    "of int32": lambda u, m: u.cast_graph_input_to_int32("nobody"),
    "float16": lambda u, m: u.cast_input("a", "float16")[0],
    "cast of a cast": lambda u, m: list(u.add_cast_node("c", int(T.FLOAT)).input),
    "remove cast": lambda u, m: u.remove_cast_int32("x"),
    "skip": skipped,
    "axes": lambda u, m: u.get_squeeze_or_unsqueeze_axes(m.model.graph.node[4]).tolist(),
    "attribute": lambda u, m: [u.check_node_attribute(m.model.graph.node[0], "to", int(T.INT32)),
                               u.check_node_attribute(m.model.graph.node[1], "to", 3, 3),
                               u.check_node_attribute(m.model.graph.node[1], "to", [3], 3)],
    "input": lambda u, m: [u.check_node_input_value(m.model.graph.node[3], 1, [2, 3]),
                           bool(u.check_node_input_value(m.model.graph.node[2], 1, 2))],
    "identities": lambda u, m: u.remove_identity_nodes(),
    "reshapes": lambda u, m: u.remove_useless_reshape_nodes(),
}


@pytest.mark.parametrize("step", STEPS)
def test_edits_of_fusions(step):
    assert edited(OnnxModel, fusion_utils, STEPS[step]) == edited(TheirModel, their_utils, STEPS[step])


def test_misuse_of_edits():
    with pytest.raises(ValueError, match="'int8', expected one of"):
        fusion_utils.FusionUtils(OnnxModel(casts())).cast_input("x", "int8")
    with pytest.raises(TypeError, match="expected a TensorProto, got int"):
        fusion_utils.FusionUtils.transpose_2d_int8_tensor(3)
    with pytest.raises(ValueError, match="expected a matrix of int8"):
        fusion_utils.FusionUtils.transpose_2d_int8_tensor(numpy_helper.from_array(np.ones(3, np.int8), "t"))


def test_turned_tensors_and_codes():
    a = np.arange(6, dtype=np.int8).reshape(2, 3)
    for utils in (fusion_utils, their_utils):
        turned = utils.FusionUtils.transpose_2d_int8_tensor(numpy_helper.from_array(a, "t"))
        assert turned.raw_data == a.T.tobytes()
        assert utils.NumpyHelper.to_array(turned, True).shape == (2, 3)
    for scale, zero, expected in ((np.float32(1), np.int8(0), True), (np.float32(1), np.int8(3), False),
                                  (np.float32([1, 2]), np.int8([0, 0]), False), (np.float32([1]), np.int8(0), False)):
        nodes = [node("QuantizeLinear", ["x", "s", "z"], ["y"])]
        graph = helper.make_graph(nodes, "g", [], [], [numpy_helper.from_array(scale, "s"),
                                                       numpy_helper.from_array(zero, "z")])
        for utils, kind in ((fusion_utils, OnnxModel), (their_utils, TheirModel)):
            model = kind(helper.make_model(graph))
            assert bool(utils.FusionUtils.check_qdq_node_for_fusion(model.model.graph.node[0], model)) == expected


# ---- what dynamo writes ----

def with_function():
    function = helper.make_function("own", "Twice", ["p"], ["q"], [helper.make_node("Add", ["p", "p"], ["t"], "add"),
                                                                   helper.make_node("Neg", ["t"], ["q"], "neg")],
                                    [helper.make_opsetid("", 17)])
    nodes = [node("Twice", ["x"], ["h"], "own"), node("Dropout_1", ["h"], ["d"], "own"),
             node("Constant", [], ["c"], value=numpy_helper.from_array(np.float32([3, 4]), "c")),
             node("Constant", [], ["small"], value=numpy_helper.from_array(np.float32(1), "s")),
             node("Mul", ["d", "c"], ["m"]), node("Sub", ["m", "small"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", T.FLOAT, [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
                             functions=[function], ir_version=9)


def test_what_dynamo_writes():
    made = []
    for module in (dynamo_onnx_helper, their_dynamo):
        h = module.DynamoOnnxHelper(with_function())
        h.remove_dropout_layer()
        h.convert_constants_to_initializers(2)
        h.clear_metadata()
        h.unroll_function("Twice")
        h.add_initializer("more", T.FLOAT, [2], [1, 2])
        made.append(h.model.model)
        h.model.topological_sort()
    assert [t.name for t in made[0].graph.initializer] == [t.name for t in made[1].graph.initializer] == ["c", "more"]
    x = np.float32([1, -2])
    for model in made:
        name = model.graph.output[0].name
        got, = nacre.InferenceSession(model.SerializeToString()).run([name], {model.graph.input[0].name: x})
        close(got, -2 * x * np.float32([3, 4]) - 1, "ort_f32")
    with pytest.raises(ValueError, match="no function 'Twice'"):
        dynamo_onnx_helper.DynamoOnnxHelper(made[0]).unroll_function("Twice")


def test_two_calls_of_a_function():
    model = with_function()
    del model.graph.node[1:]
    model.graph.node.append(node("Twice", ["h"], ["y"], "own"))
    h = dynamo_onnx_helper.DynamoOnnxHelper(model)
    h.unroll_function("Twice")
    got, = nacre.InferenceSession(model.SerializeToString()).run(None, {"x": np.float32([1, -2])})
    close(got, np.float32([4, -8]), "ort_f32")


def test_turned_initializers():
    graph = helper.make_graph([node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", T.FLOAT, [1, 3])],
                              [helper.make_tensor_value_info("y", T.FLOAT, [1, 2])],
                              [numpy_helper.from_array(weight(2, 3), "w")])
    for module in (dynamo_onnx_helper, their_dynamo):
        model = onnx_ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        module.DynamoOnnxHelper.fold_transpose_initializers(model)
        assert [n.op_type for n in model.graph] == ["MatMul"] and list(model.graph.initializers["w"].shape) == [3, 2]


def test_scripts_find_these_by_onnxruntimes_name():
    text = ("from onnxruntime.transformers.machine_info import get_machine_info; "
            "from onnxruntime.transformers.benchmark_helper import Precision; "
            "from onnxruntime.transformers.fusion_base import Fusion; print(Precision.INT4, Fusion.__module__)")
    said = subprocess.run([sys.executable, "-m", "nacre.as_onnxruntime", "-c", text], capture_output=True, text=True,
                          check=True, env={"PYTHONPATH": str(package.FOLDER)}).stdout
    assert said.split() == ["int4", "nacre.transformers.fusion_base"]
