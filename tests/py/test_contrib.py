"""Operators of domains com.microsoft and com.microsoft.nchwc: values against onnxruntime or numpy, with sizes known and
unknown before the run; what their cards say against onnxruntime's schemas; and what is refused, by which words."""
import ast
import re
import types

import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as peer

import package
import test_schemas
import test_training_ops
from contrib import (DOMAIN, attentions, blocked, by_nacre, by_onnxruntime, compare, layers, layouts, model_of,
                     quantized, training)

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
CASES = [*layers.CASES, *attentions.CASES, *quantized.CASES, *blocked.CASES, *layouts.CASES]
REFUSED = [*layers.REFUSED, *attentions.REFUSED, *quantized.REFUSED, *blocked.REFUSED, *layouts.REFUSED,
           *layouts.LEGACY_REFUSED]
DOMAINS = (DOMAIN, blocked.DOMAIN)
TRAINING = {c.op for c in training.CASES} | test_training_ops.SEQUENCES  # of onnxruntime-training: test_training_ops.py
CARDS = {key: card for key, card in test_schemas.every_card().items() if key[0] in DOMAINS and key[1] not in TRAINING}


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_values(c):
    want = c.reference(*c.inputs) if c.reference else by_onnxruntime(c)
    compare(by_nacre(c), want, c, "sizes known:")
    if c.needs_sizes:
        with pytest.raises(Exception, match="must be known"):
            by_nacre(c, known=False)
    else:
        compare(by_nacre(c, known=False), want, c, "ranks known:")
    compare(by_nacre(c, opset=23), want, c, "opset 23:")


@pytest.mark.parametrize("c", layouts.LEGACY, ids=lambda c: c.name)
def test_experiments_of_old(c):
    """Ops that ai.onnx no longer has; onnxruntime has them below opset 10."""
    want = by_onnxruntime(c, opset=7)
    for how in ({"opset": 7}, {"opset": 7, "known": False}, {"opset": 17}):
        compare(by_nacre(c, **how), want, c, str(how))


@pytest.mark.parametrize("c", layouts.REGIONS, ids=lambda c: c.name)
def test_regions(c):
    """MaxRoiPool of ai.onnx, of which onnx has neither a reference nor cases."""
    want = by_onnxruntime(c)
    for how in ({}, {"known": False}, {"opset": 23}):
        compare(by_nacre(c, **how), want, c, str(how))


@pytest.mark.parametrize("c, words", REFUSED, ids=lambda x: getattr(x, "name", ""))
def test_refusals(c, words):
    import nacre
    with pytest.raises(Exception) as caught:
        nacre.InferenceSession(model_of(c)[0])
    for word in ("'it'", c.op, *([words] if isinstance(words, str) else words)):
        assert word in str(caught.value), f"'{word}' is not in: {caught.value}"


# ---- cards against onnxruntime's schemas ----

def option_of(p):
    return getattr(test_schemas.Option, str(p.option).rpartition(".")[2])


def parameters(formal):
    return [types.SimpleNamespace(name=p.name, option=option_of(p), types=p.types, type_str=p.typeStr, min_arity=1,
                                  is_homogeneous=p.isHomogeneous) for p in formal]


def attributes(formal):
    out = {}
    for name, a in formal.items():
        value = onnx.AttributeProto()
        value.ParseFromString(a._default_value)
        out[name] = types.SimpleNamespace(type=types.SimpleNamespace(name=str(a.type).rpartition(".")[2]),
                                          required=a.required, default_value=value)
    return out


SCHEMAS = {(s.domain, s.name): types.SimpleNamespace(inputs=parameters(s.inputs), outputs=parameters(s.outputs),
                                                     deprecated=False, attributes=attributes(s.attributes))
           for s in peer.get_all_operator_schema() if s.domain in DOMAINS}


def is_wider(text):
    """Float types beyond onnxruntime's."""
    takes = re.fullmatch(r".*: takes (\[.*\]), which onnx has not", text)
    return takes and set(ast.literal_eval(takes[1])) <= {"double", "bfloat16", "float16"}


@pytest.mark.parametrize("name", sorted(CARDS), ids=".".join)
def test_card_says_what_onnxruntime_says(name):
    assert name in SCHEMAS, "onnxruntime has no such operator"
    found = [text for text in test_schemas.differences(CARDS[name], {1: SCHEMAS[name]}) if not is_wider(text)]
    assert not found, "\n".join(found)


def test_every_operator_has_a_case():
    assert {(c.domain, c.op) for c in CASES} == set(CARDS)
