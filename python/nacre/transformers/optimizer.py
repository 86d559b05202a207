"""optimize_model: the passes of this library, by the call that scripts make before they deploy a transformer.

    python -m nacre.transformers.optimizer --input MODEL --output MODEL [--float16]
"""
from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any, Dict, List, Optional, Union

import onnx
from onnx import ModelProto

import nacre
from nacre import _core
from nacre.transformers import onnx_model_bert as kinds
from nacre.transformers.fusion_options import FusionOptions
from nacre.transformers.onnx_model import OnnxModel, fused_between

#: Kinds of models that callers name: a class, where its models come from, the level that scripts usually ask for. The
#: passes match patterns, whatever the model is called.
MODEL_TYPES = {
    "bart": (kinds.BartOnnxModel, "pytorch", 1), "bert": (kinds.BertOnnxModel, "pytorch", 1),
    "bert_keras": (kinds.BertOnnxModelKeras, "keras2onnx", 0), "bert_tf": (kinds.BertOnnxModelTF, "tf2onnx", 0),
    "clip": (kinds.ClipOnnxModel, "pytorch", 1), "conformer": (kinds.ConformerOnnxModel, "pytorch", 1),
    "gpt2": (kinds.Gpt2OnnxModel, "pytorch", 1), "gpt2_tf": (kinds.Gpt2OnnxModel, "tf2onnx", 0),
    "gpt_neox": (kinds.BertOnnxModel, "pytorch", 0), "mmdit": (kinds.MmditOnnxModel, "pytorch", 1),
    "phi": (kinds.PhiOnnxModel, "pytorch", 0), "qwen3": (kinds.Gpt2OnnxModel, "pytorch", 0),
    "sam2": (kinds.Sam2OnnxModel, "pytorch", 1), "swin": (kinds.BertOnnxModel, "pytorch", 1),
    "t5": (kinds.T5OnnxModel, "pytorch", 2), "tnlr": (kinds.TnlrOnnxModel, "pytorch", 1),
    "unet": (kinds.UnetOnnxModel, "pytorch", 1), "vae": (kinds.VaeOnnxModel, "pytorch", 1),
    "vit": (kinds.BertOnnxModel, "pytorch", 1)}
_LEVELS = {0: "ORT_DISABLE_ALL", 1: "ORT_ENABLE_BASIC", 2: "ORT_ENABLE_EXTENDED", 99: "ORT_ENABLE_ALL"}


def _optimized(model: Any, level: int, disabled: List[str], use_gpu: bool, provider: Optional[str],
               path: str, external: str = "", threshold: int = 1024) -> None:
    options = nacre.SessionOptions()
    options.graph_optimization_level = getattr(nacre.GraphOptimizationLevel, _LEVELS[level])
    options.optimized_model_filepath = path
    if external:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", external)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes",
                                         str(threshold))
    wanted = provider or ("cuda" if use_gpu else "cpu")
    providers = ["CPUExecutionProvider"] if wanted == "cpu" else [
        {"cuda": "CUDAExecutionProvider"}.get(wanted, wanted), "CPUExecutionProvider"]
    source = model.SerializeToString() if isinstance(model, ModelProto) else os.fspath(model)
    nacre.InferenceSession(source, options, providers=providers, disabled_optimizers=disabled or None)


def optimize_by_onnxruntime(onnx_model: Union[str, ModelProto, None] = None, use_gpu: bool = False,
                            optimized_model_path: Optional[str] = None, opt_level: Optional[int] = 99,
                            disabled_optimizers: List[str] = [], verbose: bool = False,  # noqa: B006
                            save_as_external_data: bool = False, external_data_filename: str = "",
                            external_data_file_threshold: int = 1024, *, provider: Optional[str] = None,
                            **deprecated_kwargs: Any) -> str:
    """Writes the optimized model and returns its path: optimized_model_path, or one beside the source."""
    model = deprecated_kwargs.pop("onnx_model_path", onnx_model)
    if deprecated_kwargs or model is None:
        raise TypeError(f"optimize_by_onnxruntime: no model, or unknown arguments {sorted(deprecated_kwargs)}")
    if opt_level not in _LEVELS:
        raise ValueError(f"opt_level is {opt_level}, expected one of {sorted(_LEVELS)}")
    if optimized_model_path is None:
        if isinstance(model, ModelProto):
            raise ValueError("a ModelProto has no path: say optimized_model_path")
        optimized_model_path = os.path.splitext(os.fspath(model))[0] + f"_o{opt_level}.onnx"
    beside = external_data_filename or os.path.basename(optimized_model_path) + ".data"
    external = beside if save_as_external_data else ""
    _optimized(model, opt_level, list(disabled_optimizers), use_gpu, provider, optimized_model_path, external,
               external_data_file_threshold)
    return optimized_model_path


def optimize_by_fusion(model: ModelProto, model_type: str = "bert", num_heads: int = 0, hidden_size: int = 0,
                       optimization_options: Optional[FusionOptions] = None) -> OnnxModel:
    """The model with its patterns fused; num_heads and hidden_size are read from the patterns themselves."""
    return optimize_model(model, model_type, num_heads, hidden_size, optimization_options, opt_level=2)


def optimize_model(input: Union[str, ModelProto], model_type: str = "bert", num_heads: int = 0, hidden_size: int = 0,
                   optimization_options: Optional[FusionOptions] = None, opt_level: Optional[int] = None,
                   use_gpu: bool = False, only_onnxruntime: bool = False, verbose: bool = False, *,
                   provider: Optional[str] = None) -> OnnxModel:
    """The model as the passes leave it. opt_level: 0 none, 1 what every device can run, 2 and 99 fusions too (default).
    num_heads and hidden_size are read from the patterns themselves."""
    if model_type not in MODEL_TYPES:
        raise ValueError(f"model_type is '{model_type}', expected one of {', '.join(MODEL_TYPES)}")
    if opt_level is not None and opt_level not in _LEVELS:
        raise ValueError(f"opt_level is {opt_level}, expected one of {sorted(_LEVELS)}")
    options = optimization_options or FusionOptions(model_type)
    disabled = options.disabled_passes(_core.pass_names())
    before = input if isinstance(input, ModelProto) else onnx.load(os.fspath(input), load_external_data=False)
    with tempfile.TemporaryDirectory(prefix="nacre-optimize-") as folder:
        path = os.path.join(folder, "optimized.onnx")
        _optimized(input, 99 if opt_level is None else opt_level, disabled, use_gpu, provider, path)
        after = MODEL_TYPES[model_type][0](onnx.load(path), num_heads, hidden_size)
    after.fused = fused_between(before, after.model)
    return after


def get_fusion_statistics(optimized_model_path: str) -> Dict[str, int]:
    """How many nodes of each operator a model's file has that fusions make."""
    made = {"Attention", "BiasGelu", "EmbedLayerNormalization", "FastGelu", "Gelu", "GroupQueryAttention",
            "LayerNormalization", "MultiHeadAttention", "QuickGelu", "RMSNormalization", "RotaryEmbedding",
            "SimplifiedLayerNormalization", "SkipLayerNormalization", "Swish"}
    found = OnnxModel(onnx.load(optimized_model_path, load_external_data=False)).get_operator_statistics()
    return {op: n for op, n in found.items() if op in made}


def _parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes a model as the passes leave it.")
    parser.add_argument("--input", required=True, help="the model's file")
    parser.add_argument("--output", required=True, help="where the new one goes")
    parser.add_argument("--model_type", default="bert", choices=sorted(MODEL_TYPES))
    parser.add_argument("--num_heads", type=int, default=0, help="read from the patterns")
    parser.add_argument("--hidden_size", type=int, default=0, help="read from the patterns")
    parser.add_argument("--opt_level", type=int, default=None, choices=sorted(_LEVELS))
    parser.add_argument("--use_gpu", action="store_true", help="the passes of a CUDA device")
    parser.add_argument("--float16", action="store_true", help="float16, with float inputs and outputs")
    parser.add_argument("--use_external_data_format", action="store_true", help="weights in a file of their own")
    parser.add_argument("--verbose", action="store_true")
    FusionOptions.add_arguments(parser)
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = _parse_arguments(arguments)
    model = optimize_model(told.input, told.model_type, told.num_heads, told.hidden_size, FusionOptions.parse(told),
                           told.opt_level, told.use_gpu)
    if told.float16:
        model.convert_float_to_float16(keep_io_types=True)
    model.save_model_to_file(told.output, told.use_external_data_format)
    print(model.get_fused_operator_statistics())


if __name__ == "__main__":
    main()
