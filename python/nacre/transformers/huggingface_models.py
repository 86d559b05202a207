"""Models of Hugging Face that scripts measure: by name (inputs, opset, whether weights need a file of their own, the
optimizer's kind of model)."""
from __future__ import annotations

from typing import Dict, List, Tuple

MODEL_CLASSES = ["AutoModel", "AutoModelWithLMHead", "AutoModelForSequenceClassification",
                 "AutoModelForQuestionAnswering", "AutoModelForCausalLM"]

_MASKED, _IDS, _PIXELS = ["input_ids", "attention_mask"], ["input_ids"], ["pixel_values"]
#: Of more than 2 GB.
_LARGE = {"xlm-mlm-en-2048", "ctrl", "albert-xlarge-v1", "albert-xlarge-v2", "xlm-roberta-large"}
_BY_INPUTS: List[Tuple[List[str], str, str]] = [
    ([*_MASKED, "token_type_ids"], "bert", "bert-base-cased bert-large-cased"),
    (["input_ids", "mems"], "bert", "transfo-xl-wt103"),
    (_IDS, "bert", (
        "xlnet-base-cased xlnet-large-cased xlm-mlm-en-2048 xlm-mlm-ende-1024 xlm-mlm-enfr-1024 ctrl "
        "camembert-base albert-base-v1 albert-large-v1 albert-xlarge-v1 albert-base-v2 albert-large-v2 "
        "albert-xlarge-v2 xlm-roberta-base xlm-roberta-large flaubert/flaubert_small_cased "
        "flaubert/flaubert_base_cased microsoft/layoutlm-base-uncased microsoft/layoutlm-large-uncased "
        "squeezebert/squeezebert-uncased squeezebert/squeezebert-mnli squeezebert/squeezebert-mnli-headless")),
    (_MASKED, "bert", (
        "roberta-base roberta-large roberta-large-mnli deepset/roberta-base-squad2 distilroberta-base "
        "distilbert-base-uncased distilbert-base-uncased-distilled-squad")),
    (["input_ids", "visual_feats", "visual_pos"], "bert", "unc-nlp/lxmert-base-uncased"),
    (_PIXELS, "vit", "google/vit-base-patch16-224"),
    (_PIXELS, "swin", " ".join(f"microsoft/swin-{size}-patch4-window7-224" for size in ("base", "small", "tiny")))]

MODELS: Dict[str, Tuple[List[str], int, bool, str]] = {
    name: (list(inputs), 16, name in _LARGE, kind) for inputs, kind, names in _BY_INPUTS for name in names.split()}
