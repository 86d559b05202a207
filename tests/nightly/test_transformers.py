"""Models of transformers in tiny configurations as torch's exporters write them: where onnxruntime gives what PyTorch
gives, Nacre does too. What the exporter refuses, and what onnxruntime does not get right either, is left out."""
import io
import sys
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
import package  # noqa: E402
from beside_torch import wrong  # noqa: E402

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402

WORDS, LENGTH = 60, 7
TEXT = dict(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=32)
KEYS = dict(TEXT, num_key_value_heads=1, head_dim=8, pad_token_id=0)
IMAGE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=16,
             patch_size=4)


def ids(batch=2, length=LENGTH):
    return torch.arange(batch * length).reshape(batch, length) * 7 % (WORDS - 3) + 3


def mask():
    return torch.tensor([[1] * LENGTH, [1] * (LENGTH - 2) + [0, 0]])


def text(**more):
    return lambda: {"input_ids": ids(), "attention_mask": mask(), **more}


def image(size=16):
    return lambda: {"pixel_values": torch.sin(torch.arange(2 * 3 * size * size).float()).reshape(2, 3, size, size)}


def both():
    return {"input_ids": ids(), "attention_mask": mask(), "decoder_input_ids": ids(2, 4)}


def sound(*shape):
    return lambda: {"input_values": torch.sin(torch.arange(np.prod(shape)).float() / 5).reshape(shape)}


#: The parts of a model of texts and images.
CLIP = dict(text_config=TEXT | {"eos_token_id": 5}, vision_config=IMAGE, projection_dim=8)
#: Name: (model, configuration, inputs).
MODELS = {
    "Bert": ("BertModel", TEXT, text()),
    "Roberta": ("RobertaModel", TEXT, text()),
    "Albert": ("AlbertModel", TEXT | {"embedding_size": 8}, text()),
    "Electra": ("ElectraModel", TEXT | {"embedding_size": 8}, text()),
    "DistilBert": ("DistilBertModel", dict(vocab_size=WORDS, dim=16, n_layers=2, n_heads=2, hidden_dim=24), text()),
    "Deberta": ("DebertaModel", TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                                        "max_relative_positions": 8}, text()),
    "DebertaV2": ("DebertaV2Model", TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                                            "position_buckets": 4, "share_att_key": True}, text()),
    "MPNet": ("MPNetModel", TEXT, text()),
    "MobileBert": ("MobileBertModel", TEXT | {"embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8},
                   text()),
    "SqueezeBert": ("SqueezeBertModel", TEXT | {"embedding_size": 16}, text()),
    "RoFormer": ("RoFormerModel", TEXT | {"embedding_size": 16}, text()),
    "ConvBert": ("ConvBertModel", TEXT | {"embedding_size": 16, "head_ratio": 1, "conv_kernel_size": 3}, text()),
    "FNet": ("FNetModel", TEXT, lambda: {"input_ids": ids()}),
    "Nystromformer": ("NystromformerModel", TEXT | {"segment_means_seq_len": 8, "num_landmarks": 8}, text()),
    "MegatronBert": ("MegatronBertModel", TEXT, text()),
    "ModernBert": ("ModernBertModel", TEXT | {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1,
                                              "cls_token_id": 1, "sep_token_id": 1}, text()),
    "Longformer": ("LongformerModel", TEXT | {"attention_window": 4}, text()),
    "LayoutLM": ("LayoutLMModel", TEXT, text(bbox=torch.zeros(2, LENGTH, 4, dtype=torch.long))),
    "Funnel": ("FunnelBaseModel", dict(vocab_size=WORDS, d_model=16, n_head=2, d_head=8, d_inner=24,
                                       block_sizes=[1, 1]), text()),
    "XLNet": ("XLNetModel", dict(vocab_size=WORDS, d_model=16, n_layer=2, n_head=2, d_inner=24), text()),
    "XLM": ("XLMModel", dict(vocab_size=WORDS, emb_dim=16, n_layers=2, n_heads=2), text()),
    "GPT2": ("GPT2LMHeadModel", dict(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=2, n_positions=32), text()),
    "GPTNeo": ("GPTNeoModel", dict(vocab_size=WORDS, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=24,
                                   attention_types=[[["global", "local"], 1]], window_size=4,
                                   max_position_embeddings=32), text()),
    "GPTNeoX": ("GPTNeoXModel", TEXT, text()),
    "GPTJ": ("GPTJModel", dict(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=2, n_positions=32, rotary_dim=4), text()),
    "Bloom": ("BloomModel", dict(vocab_size=WORDS, hidden_size=16, n_layer=2, n_head=2), text()),
    "OPT": ("OPTModel", dict(vocab_size=WORDS, hidden_size=16, word_embed_proj_dim=16, num_hidden_layers=2, ffn_dim=24,
                             num_attention_heads=2, max_position_embeddings=32), text()),
    "Llama": ("LlamaForCausalLM", KEYS, text()),
    "Mistral": ("MistralForCausalLM", KEYS | {"sliding_window": 4}, text()),
    "Qwen2": ("Qwen2ForCausalLM", KEYS, text()),
    "Qwen3": ("Qwen3ForCausalLM", KEYS, text()),
    "Gemma": ("GemmaForCausalLM", KEYS, text()),
    "Gemma2": ("Gemma2ForCausalLM", KEYS | {"sliding_window": 4}, text()),
    "Gemma3": ("Gemma3ForCausalLM", KEYS | {"sliding_window": 4}, text()),
    "Phi": ("PhiForCausalLM", KEYS, text()),
    "Phi3": ("Phi3ForCausalLM", KEYS, text()),
    "Falcon": ("FalconModel", dict(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2),
               text()),
    "StableLm": ("StableLmModel", KEYS, text()),
    "Olmo": ("OlmoModel", KEYS, text()),
    "Granite": ("GraniteModel", KEYS, text()),
    "Cohere": ("CohereModel", KEYS, text()),
    "Starcoder2": ("Starcoder2Model", KEYS, text()),
    "Mixtral": ("MixtralModel", KEYS | {"num_local_experts": 4, "num_experts_per_tok": 2}, text()),
    "Qwen2Moe": ("Qwen2MoeModel", KEYS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                                          "shared_expert_intermediate_size": 8}, text()),
    "Mamba": ("MambaModel", dict(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, state_size=4),
              lambda: {"input_ids": ids()}),
    "RWKV": ("RwkvModel", dict(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, attention_hidden_size=16),
             lambda: {"input_ids": ids()}),
    "T5": ("T5Model", dict(vocab_size=WORDS, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2), both),
    "MT5": ("MT5Model", dict(vocab_size=WORDS, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2), both),
    "Bart": ("BartModel", dict(vocab_size=WORDS, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=24,
                               decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2,
                               max_position_embeddings=32), both),
    "Pegasus": ("PegasusModel", dict(vocab_size=WORDS, d_model=16, encoder_layers=1, decoder_layers=1,
                                     encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2,
                                     decoder_attention_heads=2, max_position_embeddings=32), both),
    "Marian": ("MarianModel", dict(vocab_size=WORDS, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=24,
                                   decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2,
                                   max_position_embeddings=32, pad_token_id=1), both),
    "Whisper": ("WhisperModel", dict(vocab_size=WORDS, d_model=16, encoder_layers=2, decoder_layers=2,
                                     encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2,
                                     decoder_attention_heads=2, num_mel_bins=8, max_source_positions=10,
                                     max_target_positions=16, pad_token_id=1),
                lambda: {"input_features": torch.sin(torch.arange(2. * 8 * 20)).reshape(2, 8, 20),
                         "decoder_input_ids": ids(2, 4)}),
    "Wav2Vec2": ("Wav2Vec2Model", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                       conv_dim=[8, 8], conv_stride=[2, 2], conv_kernel=[4, 3],
                                       num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2), sound(2, 80)),
    "Hubert": ("HubertModel", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                   conv_dim=[8, 8], conv_stride=[2, 2], conv_kernel=[4, 3], num_conv_pos_embeddings=4,
                                   num_conv_pos_embedding_groups=2), sound(2, 80)),
    "WavLM": ("WavLMModel", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                 conv_dim=[8, 8], conv_stride=[2, 2], conv_kernel=[4, 3], num_conv_pos_embeddings=4,
                                 num_conv_pos_embedding_groups=2), sound(2, 80)),
    "AST": ("ASTModel", dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                             patch_size=4, frequency_stride=2, time_stride=2, max_length=16, num_mel_bins=8),
            sound(2, 16, 8)),
    "ViT": ("ViTModel", IMAGE, image()),
    "DeiT": ("DeiTModel", IMAGE, image()),
    "Beit": ("BeitModel", IMAGE | {"use_relative_position_bias": True}, image()),
    "Dinov2": ("Dinov2Model", IMAGE, image()),
    "ViTMAE": ("ViTMAEModel", IMAGE | {"mask_ratio": 0.0},
               lambda: image()() | {"noise": torch.arange(32.).reshape(2, 16)}),
    "Siglip": ("SiglipVisionModel", IMAGE, image()),
    "Swin": ("SwinModel", dict(image_size=16, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[1, 2],
                               window_size=2), image()),
    "Swinv2": ("Swinv2Model", dict(image_size=16, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[1, 2],
                                   window_size=2), image()),
    "Segformer": ("SegformerForSemanticSegmentation", dict(hidden_sizes=[8, 16], depths=[1, 1], num_encoder_blocks=2,
                                                           sr_ratios=[2, 1], num_attention_heads=[1, 2],
                                                           patch_sizes=[3, 3], strides=[2, 2], mlp_ratios=[2, 2],
                                                           decoder_hidden_size=8), image()),
    "ConvNext": ("ConvNextModel", dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, patch_size=2), image()),
    "ConvNextV2": ("ConvNextV2Model", dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, patch_size=2), image()),
    "ResNet": ("ResNetModel", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"), image()),
    "RegNet": ("RegNetModel", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4), image()),
    "MobileNetV2": ("MobileNetV2Model", dict(depth_multiplier=0.25), image(32)),
    "EfficientNet": ("EfficientNetModel",
                     dict(width_coefficient=0.2, depth_coefficient=0.2, image_size=32, hidden_dim=256), image(32)),
    "MobileViT": ("MobileViTModel", dict(hidden_sizes=[8, 8, 8], neck_hidden_sizes=[4, 4, 8, 8, 8, 8, 8],
                                         num_attention_heads=2, image_size=32), image(32)),
    "PoolFormer": ("PoolFormerModel", dict(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]), image(32)),
    "PVT": ("PvtModel", dict(image_size=32, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1],
                             num_attention_heads=[1, 1, 1, 1]), image(32)),
    "DPT": ("DPTForDepthEstimation", IMAGE | {"image_size": 32, "patch_size": 8, "num_hidden_layers": 4,
                                              "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [4, 4, 8, 8],
                                              "fusion_hidden_size": 8}, image(32)),
    "GLPN": ("GLPNModel", dict(hidden_sizes=[8, 16], depths=[1, 1], num_encoder_blocks=2, sr_ratios=[2, 1],
                               num_attention_heads=[1, 2], patch_sizes=[3, 3], strides=[2, 2], mlp_ratios=[2, 2]),
             image()),
    "YOLOS": ("YolosModel", IMAGE | {"image_size": [16, 16], "num_detection_tokens": 3}, image()),
    "CLIP": ("CLIPModel", CLIP, lambda: text()() | image()()),
    "CLIPVision": ("CLIPVisionModel", IMAGE, image()),
    "ViLT": ("ViltModel", TEXT | IMAGE,
             lambda: text(token_type_ids=torch.zeros(2, LENGTH, dtype=torch.long))() | image()()),
    "Perceiver": ("PerceiverModel", dict(num_latents=4, d_latents=16, d_model=16, num_self_attends_per_block=1,
                                         num_self_attention_heads=2, num_cross_attention_heads=2),
                  lambda: {"inputs": torch.sin(torch.arange(2. * 7 * 16)).reshape(2, 7, 16)}),
    "TimeSeries": ("PatchTSTModel", dict(context_length=16, patch_length=4, patch_stride=4, num_input_channels=2,
                                         d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=24),
                   lambda: {"past_values": torch.sin(torch.arange(2. * 16 * 2)).reshape(2, 16, 2)}),
    "Decision": ("DecisionTransformerModel", dict(state_dim=3, act_dim=2, hidden_size=16, n_layer=2, n_head=2),
                 lambda: {"states": torch.ones(2, 4, 3), "actions": torch.ones(2, 4, 2), "rewards": torch.ones(2, 4, 1),
                          "returns_to_go": torch.ones(2, 4, 1), "timesteps": torch.arange(4).expand(2, 4),
                          "attention_mask": torch.ones(2, 4)}),
}


def tensors(x):
    """The tensors of a result, as deep as it is."""
    if isinstance(x, torch.Tensor):
        return [x]
    values = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [t for v in values for t in tensors(v)]


class Positional(torch.nn.Module):
    """The model with its tensors by position; what comes out is a tuple of tensors without caches."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        out = self.model(**dict(zip(self.names, values)))
        return tuple(tensors({k: v for k, v in out.items() if "past_key" not in k and "cache" not in k}))


def made(name):
    kind, config, inputs = MODELS[name]
    torch.manual_seed(0)
    cls = getattr(transformers, kind)
    settings = cls.config_class(**config)
    for key, value in (("use_cache", False), ("return_dict", True)):
        setattr(settings, key, value)
    feeds = inputs()
    return Positional(cls(settings).eval(), list(feeds)), tuple(feeds.values())


def exported(module, values, dynamo):
    """The file, or None where the exporter refuses."""
    out, names = io.BytesIO(), [f"i{k}" for k in range(len(values))]
    how = {"opset_version": 18, "input_names": names}
    try:
        if dynamo:
            torch.onnx.export(module, values, dynamo=True, verbose=False, **how).save(out)
        else:
            torch.onnx.export(module, values, out, dynamo=False,
                              dynamic_axes={n: {0: "batch"} for n in names}, **how)
    except Exception as e:  # noqa: BLE001  (it raises whatever its passes raise)
        print(f"not exported: {type(e).__name__}: {str(e)[:200]}")
        return None
    return out.getvalue()


def by_onnxruntime(model, feeds, want):
    try:
        session = onnxruntime.InferenceSession(model)
        given = {k.name: feeds[k.name] for k in session.get_inputs()}
        return wrong(session.run(None, given), want)
    except Exception as e:  # noqa: BLE001
        return str(e)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name, exporter):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        module, values = made(name)
        want = module(*values)
        model = exported(module, values, exporter == "dynamo")
    if model is None:
        pytest.skip("the exporter refuses it")
    feeds = {f"i{k}": v.numpy() for k, v in enumerate(values)}
    theirs = by_onnxruntime(model, feeds, want)
    if theirs is not None:
        pytest.skip(f"onnxruntime does not give what PyTorch gives: {theirs[:200]}")
    session = nacre.InferenceSession(model)
    ours = wrong(session.run(None, {k.name: feeds[k.name] for k in session.get_inputs()}), want)
    assert ours is None, f"{ours}; onnxruntime gives what PyTorch gives"
