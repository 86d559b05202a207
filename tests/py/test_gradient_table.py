"""Every card is in one of three tables: it has a gradient (of its own, of its formula, or of what it is made of); it
says itself why it has none, and asking for one is an error; or its gradient is zero everywhere, for a reason below."""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NACRE_BUILD", ROOT / "build" / "release"))

# Why the gradient of an op is zero, or cannot be asked for since nothing with a gradient goes in or comes out.
ZERO = {
    "it stands for no gradient": "nacre.StopGradient",
    "codes of quantized numbers go in or come out: constant between two steps":
        "DynamicQuantizeLSTM DynamicQuantizeMatMul GatherBlockQuantized MatMulIntegerToFloat NhwcMaxPool "
        "QAttention QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv "
        "QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax "
        "QLinearWhere ",
    "no numbers with a gradient go in": """
        BlackmanWindow HammingWindow HannWindow Constant ConstantOfShape RandomNormal RandomUniform SequenceEmpty
        ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer Tokenizer ConvInteger
        MatMulInteger MatMulInteger16 MulInteger ReduceSumInteger
        BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor And Or Xor Not CastMap CategoryMapper DictVectorizer
        nacre.TapeEmpty nacre.ShiftLeft nacre.ShiftRight nacre.RandomStep nacre.PhiloxUniform nacre.PhiloxNormal""",
    "integers, booleans or names come out": """
        ArgMax ArgMin Equal Greater GreaterOrEqual Less LessOrEqual IsInf IsNaN NonZero NonMaxSuppression Shape Size
        SequenceLength OptionalHasElement Multinomial LabelEncoder ZipMap MurmurHash3
        All IsFinite IsAllFinite Group BroadcastGradientArgs
        nacre.IsInfinite nacre.MaxRoiPlaces nacre.TapeLength nacre.SequenceSizes nacre.PhiloxMultinomial""",
    "piecewise constant": """
        Ceil Floor Round Sign Hardmax Binarizer OneHotEncoder TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
        MelWeightMatrix nacre.MelWeights""",
    "only the dims of the input count": """
        EyeLike ZeroGradient RandomNormalLike RandomUniformLike nacre.SequenceZeros nacre.PhiloxNormalLike
        nacre.PhiloxUniformLike""",
    "what is drawn is 0 or 1; its chance has no gradient, as in PyTorch": "Bernoulli nacre.PhiloxBernoulli",
    "made behind the gradient": "nacre.Deferred nacre.AtZero",
}


def cards():
    tool = BUILD / "print_cards"
    if not tool.exists():
        pytest.fail(f"{tool} is missing: build first")
    lines = subprocess.run([str(tool)], capture_output=True, text=True, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def name_of(card):
    return f"nacre.{card['name']}" if card["domain"] == "nacre" else card["name"]


def test_every_card_is_in_one_table():
    reasons = [n for names in ZERO.values() for n in names.split()]
    assert len(reasons) == len(set(reasons))
    zero, silent = set(), []
    for card in cards():
        if card["gradient"] == "zero":
            zero.add(name_of(card))
        elif card["gradient"] == "none" and not card["no_gradient"]:
            silent.append(name_of(card))
    assert silent == [], "cards without a gradient that do not say why"
    assert zero == set(reasons)


def test_gradient_ops_have_gradients():
    missing = [name_of(c) for c in cards() if c["name"].endswith("Grad") and c["gradient"] in ("none", "zero")]
    assert missing == []


def test_an_op_without_a_gradient_says_why(env):
    from nacre_c import NacreError, Options
    import onnx.parser
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
g (uint8[2,2] a, float s, float t, uint8 z) => (float[2,2] y) {
  q = QLinearMatMul(a, s, z, a, t, z, s, z)
  y = DequantizeLinear(q, t, z)
}""")
    with pytest.raises(NacreError, match="QLinearMatMul.*no gradient: it computes on codes"):
        env.session(model, Options().backward(["y"], ["s"]))
