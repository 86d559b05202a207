"""What becomes of onnxruntime's settings here: honoured, accepted because it cannot matter, or refused.

docs/options.md shows these tables; tests/py/test_options.py walks both.
"""
from __future__ import annotations

import difflib
from typing import Dict, Iterable, List, Tuple

from nacre import _core

INFO, WARNING = 1, 2

#: A message for the log: (level, text).
Note = Tuple[int, str]

# ---- session entries ----

#: Obeyed; _options.py says how. STREAM_OF and the name of a node is a further one.
ENTRIES_HONOURED = {
    "nacre.compute", "nacre.cudnn_dropout", "nacre.packed_file", "nacre.patterns", "nacre.recompute", "nacre.streams",
    "nacre.strict", "nacre.tune", "nacre.winograd",
    "session.strict_shape_type_inference",
    "session.disable_prepacking", "session.set_denormal_as_zero", "session.record_ep_graph_assignment_info",
    "session.disable_cpu_ep_fallback",
    "session.model_external_initializers_file_folder_path",
    "session.optimized_model_external_initializers_file_name",
    "session.optimized_model_external_initializers_min_size_in_bytes", "session.save_model_format",
    "optimization.disable_specified_optimizers",
}

STREAM_OF = "nacre.stream."

_SPINS = "idle threads spin for 50 microseconds, never longer, and not at all when processors are short"
_CUT = "how work is cut depends on shapes alone, so that any number of threads gives the same bits"
_QDQ = "this rewriting of quantized graphs does not exist here"
_MEMORY = "memory is planned before a run and shared by runs"
_KERNELS = "it chooses between kernels of onnxruntime"
_ORT_FILE = "it is about files in onnxruntime's own format"
_CONTEXT = "no provider keeps compiled contexts"

#: Accepted: nothing that a user could see depends on it. Each with the reason.
ENTRIES_WITHOUT_EFFECT: Dict[str, str] = {
    "session.intra_op.allow_spinning": _SPINS, "session.inter_op.allow_spinning": _SPINS,
    "session.intra_op.spin_duration_us": _SPINS, "session.inter_op.spin_duration_us": _SPINS,
    "session.intra_op.spin_backoff_max": _SPINS, "session.inter_op.spin_backoff_max": _SPINS,
    "session.force_spinning_stop": _SPINS, "session.dynamic_block_base": _CUT,
    "session.qdqisint8allowed": _QDQ, "session.disable_quant_qdq": _QDQ, "session.disable_double_qdq_remover": _QDQ,
    "session.enable_quant_qdq_cleanup": _QDQ, "session.disable_qdq_constant_folding": _QDQ,
    "session.enable_dq_matmulnbits_fusion": _QDQ, "session.qdq_matmulnbits_accuracy_level": _QDQ,
    "session.qdq_matmulnbits_block_size": _QDQ,
    "session.x64quantprecision": "products of 8-bit integers are exact",
    "session.disable_aot_function_inlining": "functions are always put in place of their calls",
    "session.use_env_allocators": _MEMORY, "session.use_device_allocator_for_initializers": _MEMORY,
    "session.use_external_initializer_file_buffers_directly": "external data is always mapped",
    "session.use_ort_model_bytes_directly": _ORT_FILE, "session.use_ort_model_bytes_for_initializers": _ORT_FILE,
    "session.use_memory_mapped_ort_model": _ORT_FILE, "session.enable_saved_runtime_optimizations": _ORT_FILE,
    "session.load_model_format": "the bytes tell their format",
    "session.graph_optimizations_loop_level": "passes run until nothing changes",
    "session.prepack.enable_parallel": "weights are always packed by all threads",
    "session.debug_layout_transformation": "`nacre inspect` shows every stage",
    "session.allow_released_opsets_only":
        "a newer opset is read as the newest known one, with one WARNING; nacre.strict refuses it",
    "session.disable_model_compile": _CONTEXT, "session.fail_on_suboptimal_compiled_model": _CONTEXT,
    "ep.context_file_path": _CONTEXT, "ep.context_embed_mode": _CONTEXT, "ep.context_node_name_prefix": _CONTEXT,
    "ep.context_model_external_initializers_file_name": _CONTEXT, "ep.share_ep_contexts": _CONTEXT,
    "optimization.constant_folding_max_output_size_in_bytes": "what is folded is bounded by its own limit",
    "optimization.enable_cast_chain_elimination": "casts are joined where that keeps every value",
    "mlas.disable_kleidiai": _KERNELS, "mlas.qnbit.force_fp32": _KERNELS, "mlas.use_lut_gemm": _KERNELS,
    "mlas.enable_gemm_fastmath_arm64_bfloat16": _KERNELS,
}

#: Refused: (the value that asks for it, or * for any but an empty one; what to do instead).
ENTRIES_REFUSED: Dict[str, Tuple[str, str]] = {
    "session.intra_op_thread_affinities": ("*", "bind the process: threads stay on the processors it may use"),
    "session.save_external_prepacked_constant_initializers": ("1", "nacre.packed_file keeps packed weights"),
    "session.collect_node_memory_stats_to_file": ("*", "`nacre plan` tells where memory goes"),
    "session.node_partition_config_file": ("*", "nodes are placed by the planner"),
    "session.layer_assignment_settings": ("*", "nodes are placed by the planner"),
    "session.name_based_layer_assignment": ("*", "nodes are placed by the planner"),
    "session.resource_cuda_partitioning_settings": ("*", "nodes are placed by the planner"),
    "session.compile_only": ("1", "no provider keeps compiled contexts"),
    "ep.context_enable": ("1", "no provider keeps compiled contexts"),
    "optimization.enable_gelu_approximation": ("1", "Gelu is computed exactly"),
    "optimization.minimal_build_optimizations": ("*", "the optimized model is saved as ONNX, whole"),
}

# ---- run entries ----

RUN_ENTRIES_HONOURED = {"memory.enable_memory_arena_shrinkage", "disable_synchronize_execution_providers"}
RUN_ENTRIES_WITHOUT_EFFECT: Dict[str, str] = {
    "gpu_graph_id": "a run on a GPU is captured and replayed by its shapes",
}
RUN_ENTRIES_REFUSED: Dict[str, Tuple[str, str]] = {
    "kernel_profile": ("*", "set enable_profiling"),
}

# ---- fields ----

#: Fields of SessionOptions that are accepted without effect, by reason; the other fields are honoured.
FIELDS_WITHOUT_EFFECT: Dict[str, str] = {
    "enable_cpu_mem_arena": _MEMORY, "enable_mem_pattern": _MEMORY, "enable_mem_reuse": _MEMORY,
    "execution_order": "the planner orders the graph, and every kernel uses all threads",
    "log_verbosity_level": "there is one level below INFO",
    "use_deterministic_compute": "results are always the same bits",
}
#: The same of RunOptions.
RUN_FIELDS_WITHOUT_EFFECT: Dict[str, str] = {
    "log_verbosity_level": FIELDS_WITHOUT_EFFECT["log_verbosity_level"],
    "only_execute_path_to_fetches": "the whole graph is one plan; its outputs are what is asked for",
}

# ---- provider options ----

#: Obeyed, by provider: the option of the library and what its value becomes.
PROVIDER_HONOURED = {"CUDAExecutionProvider": {"device_id", "gpu_mem_limit", "enable_cuda_graph", "use_tf32",
                                               "user_compute_stream", "has_user_compute_stream",
                                               "tunable_op_enable", "tunable_op_tuning_enable"},
                     "CPUExecutionProvider": set()}
#: Known to onnxruntime and not to this library: named in a warning.
PROVIDER_WITHOUT_EFFECT = {
    "CUDAExecutionProvider": {
        "arena_extend_strategy", "cudnn_conv_algo_search", "do_copy_in_default_stream", "cudnn_conv_use_max_workspace",
        "cudnn_conv1d_pad_to_nc1d", "tunable_op_max_tuning_duration_ms", "enable_skip_layer_norm_strict_mode",
        "prefer_nhwc",
        "use_ep_level_unified_stream", "fuse_conv_bias", "sdpa_kernel"},
    "CPUExecutionProvider": {"use_arena", "arena_extend_strategy"},
}
#: Would take memory from elsewhere.
PROVIDER_REFUSED = {"CUDAExecutionProvider": {"gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache"}}

# ---- onnxruntime's optimizers ----

#: Its name: the option of this library that leaves out the same.
OPTIMIZERS: Dict[str, Tuple[str, str]] = {
    **dict.fromkeys(("EliminateIdentity", "EliminateSlice", "EliminateDropout", "ExpandElimination"),
                    ("disable", "identity")),
    "NoopElimination": ("disable", "neutral"),
    **dict.fromkeys(("CastElimination", "CastChainElimination"), ("disable", "casts")),
    **dict.fromkeys(("UnsqueezeElimination", "ReshapeFusion"), ("disable", "reshapes")),
    "TransposeOptimizer": ("disable", "transposes"),
    "ConstantFolding": ("disable", "fold_constants"),
    "CommonSubexpressionElimination": ("disable", "common_subexpressions"),
    **dict.fromkeys(("LayerNormFusion", "SimplifiedLayerNormFusion"), ("disable", "normalizations")),
    **dict.fromkeys(("GeluFusion", "FastGeluFusion", "QuickGeluFusion", "FuseReluClip"), ("disable", "activations")),
    **dict.fromkeys(("MatMulAddFusion", "GemmTransposeFusion", "GemmSumFusion"), ("disable", "gemms")),
    **dict.fromkeys(("ConvBNFusion", "ConvMulFusion", "ConvAddFusion", "MatMul_BatchNormalization_Fusion"),
                    ("disable", "weights")),
    **dict.fromkeys(("NchwcTransformer", "NhwcTransformer"), ("layouts", "off")),
}
#: Rewritings of onnxruntime that have no counterpart among the passes here.
OPTIMIZERS_ABSENT = set("""
    AttentionFusion Avx2WeightS8ToU8Transformer BiasDropoutFusion BiasGeluFusion BiasSkipLayerNormFusion
    BiasSoftmaxFusion BitmaskDropoutReplacement CastFloat16Transformer ClipQuantRewrite ConstantSharing
    ConvActivationFusion ConvAddActivationFusion DQMatMulNBitsFusion DivMulFusion DoubleQDQPairsRemover
    DynamicQuantizeMatMulFusion EmbedLayerNormFusion EnsureUniqueDQForNodeUnit FreeDimensionOverrideTransformer
    GatherSliceToSplitFusion GatherToSliceFusion GeluApproximation GemmActivationFusion
    GroupQueryAttentionFusion IdenticalChildrenConsolidation InsertCastTransformer LabelEncoderFusion
    MatMulActivationFusion MatMulIntegerToFloatFusion MatMulNBitsFusion MatMulScaleFusion MatmulTransposeFusion
    MemcpyTransformer NotWhereFusion Pad_Fusion PreShapeNodeElimination PropagateCastOps
    QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer QDQSelectorActionTransformer
    ReluQuantRewrite RocmBlasAltImpl SkipLayerNormFusion SliceConcatToSpaceToDepthFusion
    TransposeOptimizer_CPUExecutionProvider TritonFusion WeightBiasQuantization WhereDummyDq""".split())


def near(name: str, known: Iterable[str]) -> str:
    """'; near it: a, b', or nothing."""
    found = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 3, 0.6)
    spelled = {k.lower(): k for k in known}
    return f"; near it: {', '.join(spelled[f] for f in found)}" if found else ""


def entry_notes(entries: Dict[str, str]) -> List[Note]:
    """A line for every session entry that has no effect; NotImplemented for one that is refused."""
    notes: List[Note] = []
    known = [*ENTRIES_HONOURED, *ENTRIES_WITHOUT_EFFECT, *ENTRIES_REFUSED]
    for key, value in entries.items():
        refuse_entry(ENTRIES_REFUSED, key, value)
        if key in ENTRIES_WITHOUT_EFFECT:
            notes.append((INFO, f"{key}={value} is without effect: {ENTRIES_WITHOUT_EFFECT[key]}"))
        elif key not in known and not key.startswith(STREAM_OF):
            notes.append((WARNING, f"{key}={value} is not known and without effect{near(key, known)}"))
    return notes


def refuse_entry(refused: Dict[str, Tuple[str, str]], key: str, value: str) -> None:
    asks, instead = refused.get(key, ("", ""))
    if key in refused and (value == asks or (asks == "*" and value)):
        raise _core.NotImplemented(f"{key}={value} is not supported; {instead}")


def optimizer_settings(names: Iterable[str]) -> Tuple[List[Tuple[str, str]], List[Note]]:
    """The library's options for optimizers that are switched off by name, its own or onnxruntime's."""
    passes = _core.pass_names()
    settings: List[Tuple[str, str]] = []
    absent = []
    for name in names:
        if name in passes:
            settings.append(("disable", name))
        elif name in OPTIMIZERS:
            settings.append(OPTIMIZERS[name])
        elif name in OPTIMIZERS_ABSENT:
            absent.append(name)
        else:
            raise _core.InvalidArgument(f"disabled_optimizers: there is no optimizer '{name}'"
                                        f"{near(name, [*passes, *OPTIMIZERS, *OPTIMIZERS_ABSENT])}")
    text = f"disabled_optimizers: {', '.join(absent)}: there is no such pass here to leave out"
    return settings, [(WARNING, text)] if absent else []


def _whole(provider: str, key: str, value: str) -> str:
    if not value.isdecimal():
        raise _core.InvalidArgument(f"{provider}: {key}: expected a whole number, got '{value}'")
    return value


def stream_of(options: Dict[str, str]) -> int:
    """The address of the stream on which the caller wants runs; 0: the session has its own."""
    return int(options.get("user_compute_stream") or 0)


def provider_settings(provider: str, options: Dict[str, str]) -> Tuple[List[Tuple[str, str]], List[Note]]:
    """The library's options for a provider's, and a warning that names those without effect. What the CPU's provider
    does not know is named too, as onnxruntime goes on with it; what CUDA's does not know is an error, as there."""
    settings: List[Tuple[str, str]] = []
    idle = []
    known = [k for table in (PROVIDER_HONOURED, PROVIDER_WITHOUT_EFFECT, PROVIDER_REFUSED) for k in
             table.get(provider, ())]
    for key, value in options.items():
        if key in PROVIDER_REFUSED.get(provider, ()) and value not in ("0", ""):
            raise _core.NotImplemented(f"{provider}: {key}={value} is not supported; memory is the library's own")
        if key == "gpu_mem_limit" and key in known and value != str(2**64 - 1):
            settings.append(("memory_limit", _whole(provider, key, value)))
        elif key == "enable_cuda_graph" and key in known:
            settings.append(("capture", "on" if value in ("1", "True", "true") else "off"))
        elif key == "use_tf32" and key in known:
            settings.append(("tf32", "on" if value in ("1", "True", "true") else "off"))
        elif key == "tunable_op_tuning_enable" and key in known:
            settings.append(("tune", "on" if value in ("1", "True", "true") else "off"))
        elif key in ("device_id", "user_compute_stream") and key in known:
            _whole(provider, key, value)
        elif key not in known and provider == "CUDAExecutionProvider":
            raise _core.InvalidArgument(f"{provider}: there is no option '{key}'{near(key, known)}")
        elif key not in PROVIDER_HONOURED.get(provider, ()):
            idle.append(key)
    return settings, [(WARNING, f"{provider}: without effect here: {', '.join(idle)}")] if idle else []
