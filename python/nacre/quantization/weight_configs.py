"""How weights of few bits are found: the configs that matmul_nbits_quantizer takes."""
from __future__ import annotations

import importlib
from typing import Any, Dict, List, Optional, Tuple

from nacre.quantization.quant_utils import QuantFormat

Axes = Optional[Tuple[Tuple[str, int], ...]]
Ops = Optional[Tuple[str, ...]]


class WeightOnlyQuantConfig:
    def __init__(self, algorithm: str, quant_format: QuantFormat, op_types_to_quantize: Ops = None,
                 quant_axes: Axes = None, customized_weight_config: Optional[Dict[str, Any]] = None) -> None:
        self.algorithm, self.quant_format = algorithm, quant_format
        self.op_types_to_quantize = set(op_types_to_quantize) if op_types_to_quantize else {"MatMul"}
        self.quant_axes = dict(quant_axes) if quant_axes else {"MatMul": 0, "Gather": 1}
        self.customized_weight_config = customized_weight_config or {}


class RTNWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Round to nearest, in blocks of the quantizer's size."""

    def __init__(self, ratios: Any = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Ops = None,
                 customized_weight_config: Optional[Dict[str, Any]] = None) -> None:
        super().__init__("RTN", quant_format, op_types_to_quantize, None, customized_weight_config)
        self.ratios = ratios or {}


class KQuantWeightOnlyQuantConfig(RTNWeightOnlyQuantConfig):
    """The scale of a block is searched."""

    def __init__(self, ratios: Any = None, quant_format: QuantFormat = QuantFormat.QOperator,
                 op_types_to_quantize: Ops = None,
                 customized_weight_config: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(ratios, quant_format, op_types_to_quantize, customized_weight_config)
        self.algorithm = "k_quant"


class GPTQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """By the samples of a CalibrationDataReader. block_size: of rows that are worked on together."""

    def __init__(self, calibration_data_reader: Any = None, percdamp: float = 0.01, block_size: int = 128,
                 actorder: bool = False, mse: bool = False, perchannel: bool = True,
                 quant_format: QuantFormat = QuantFormat.QOperator, op_types_to_quantize: Ops = None) -> None:
        super().__init__("GPTQ", quant_format, op_types_to_quantize)
        self.calibration_data_reader, self.percdamp, self.block_size = calibration_data_reader, percdamp, block_size
        self.actorder, self.mse, self.perchannel = actorder, mse, perchannel


class HQQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Zero points are numbers between codes, found by half-quadratic steps."""

    def __init__(self, block_size: int = 128, bits: int = 4, axis: int = 1,
                 quant_format: QuantFormat = QuantFormat.QOperator, op_types_to_quantize: Ops = None,
                 quant_axes: Axes = None) -> None:
        super().__init__("HQQ", quant_format, op_types_to_quantize, quant_axes)
        self.block_size, self.bits, self.axis = block_size, bits, axis
        self.is_symmetric, self.accuracy_level, self.channel_wised_quantize = False, None, False


class DefaultWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    def __init__(self, block_size: int = 128, is_symmetric: bool = False, accuracy_level: Optional[int] = None,
                 quant_format: QuantFormat = QuantFormat.QOperator, op_types_to_quantize: Ops = None,
                 quant_axes: Axes = None, bits: int = 4, channel_wised_quantize: bool = False) -> None:
        super().__init__("DEFAULT", quant_format, op_types_to_quantize, quant_axes)
        self.block_size, self.is_symmetric, self.bits = block_size, is_symmetric, bits
        self.accuracy_level, self.channel_wised_quantize = accuracy_level, channel_wised_quantize


# ---- NVIDIA's AWQ ----

def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ImportError(f"nvidia_awq needs the package {name.split('.')[0]}, which is not installed") from e


#: Texts to calibrate with: by a part of dataset_name the data set, its arguments, and the column of texts.
_TEXTS = {"cnn": ("cnn_dailymail", {"name": "3.0.0", "split": "train"}, "article"),
          "pile": ("mit-han-lab/pile-val-backup", {"split": "validation"}, "text")}


class NVAWQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """NVIDIA's ModelOpt finds the weights; here are the samples it wants, tokens of a data set of Hugging Face. Needs
    the packages torch, datasets and transformers, and what they download."""

    def __init__(self, tokenizer_dir: str, dataset_name: str = "cnn", cache_dir: str = "./cache",
                 calibration_method: str = "awq_lite") -> None:
        self.torch, transformers = _package("torch"), _package("transformers")
        self.load_dataset = _package("datasets").load_dataset
        self.AutoConfig, self.AutoTokenizer = transformers.AutoConfig, transformers.AutoTokenizer
        super().__init__("nvidia_awq", QuantFormat.QDQ)
        device = self.torch.device("cuda" if self.torch.cuda.is_available() else "cpu")
        self.calibration_method = calibration_method
        self.calibration_data_reader = self.get_calib_inputs(
            dataset_name, tokenizer_dir, cache_dir, calib_size=32, batch_size=1, block_size=512, device=device,
            use_fp16=True, use_buffer_share=False, add_past_kv_inputs=True, max_calib_rows_to_load=128,
            add_position_ids=True)

    def make_model_input(self, config: Any, input_ids_arg: Any, attention_mask_arg: Any, add_past_kv_inputs: bool,
                         device: Any, use_fp16: bool, use_buffer_share: bool,
                         add_position_ids: bool) -> Dict[str, Any]:
        """A decoder's inputs for a batch of tokens: mask, positions, and caches, empty or of the greatest length."""
        torch = self.torch
        ids, mask = (torch.as_tensor(a, dtype=torch.int64, device=device).contiguous()
                     for a in (input_ids_arg, attention_mask_arg))
        inputs = {"input_ids": ids, "attention_mask": mask}
        if add_position_ids:
            inputs["position_ids"] = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
        if add_past_kv_inputs:
            shape = (ids.shape[0], config.num_key_value_heads,
                     config.max_position_embeddings if use_buffer_share else 0,
                     config.hidden_size // config.num_attention_heads)
            for i in range(config.num_hidden_layers):
                for part in ("key", "value"):
                    inputs[f"past_key_values.{i}.{part}"] = torch.zeros(
                        shape, device=device, dtype=torch.float16 if use_fp16 else torch.float32)
        return inputs

    def get_calib_inputs(self, dataset_name: str, model_name: str, cache_dir: str, calib_size: int, batch_size: int,
                         block_size: int, device: Any, use_fp16: bool, use_buffer_share: bool,
                         add_past_kv_inputs: bool, max_calib_rows_to_load: int,
                         add_position_ids: bool) -> List[Dict[str, Any]]:
        """calib_size texts as batches of at most block_size tokens."""
        found = next((told for part, told in _TEXTS.items() if part in dataset_name), None)
        if found is None:
            raise ValueError(f"dataset_name is '{dataset_name}', expected one with {' or '.join(_TEXTS)} in it")
        if calib_size > max_calib_rows_to_load:
            raise ValueError(f"calib_size is {calib_size}, at most {max_calib_rows_to_load} rows are loaded")
        config, tokenizer = (kind.from_pretrained(model_name, cache_dir=cache_dir, trust_remote_code=True)
                             for kind in (self.AutoConfig, self.AutoTokenizer))
        tokenizer.pad_token = tokenizer.eos_token
        name, arguments, column = found
        texts = list(self.load_dataset(name, **arguments)[column][:calib_size])
        tokens = tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=block_size).to(device)
        batches = []
        for at in range(0, calib_size // batch_size * batch_size, batch_size):
            ids, mask = (tokens[n][at:at + batch_size] for n in ("input_ids", "attention_mask"))
            inputs = self.make_model_input(config, ids, mask, add_past_kv_inputs, device, use_fp16, use_buffer_share,
                                           add_position_ids)
            batches.append({n: x.cpu().numpy() for n, x in inputs.items()})
        return batches
