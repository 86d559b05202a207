"""ONNX Runtime's training operators: values against PyTorch and numpy, with sizes known and unknown before the run; the
optimizers over sequences, as models that onnxruntime.training wrote use them; and what is refused, by which words."""
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import package
import test_schemas
from contrib import DOMAIN, by_nacre, compare, model_of, training
from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
SEQUENCES = {"AdamWOptimizer", "SGDOptimizerV2", "InplaceClipGradNorm"}


@pytest.mark.parametrize("c", training.CASES, ids=lambda c: c.name)
def test_values(c):
    want = c.reference(*c.inputs)
    compare(by_nacre(c), want, c, "sizes known:")
    compare(by_nacre(c, known=False), want, c, "ranks known:")
    compare(by_nacre(c, opset=23), want, c, "opset 23:")


@pytest.mark.parametrize("c, words", training.REFUSED, ids=lambda x: getattr(x, "name", ""))
def test_refusals(c, words):
    import nacre
    with pytest.raises(Exception) as caught:
        nacre.InferenceSession(model_of(c)[0])
    for word in ("'it'", c.op, *([words] if isinstance(words, str) else words)):
        assert word in str(caught.value), f"'{word}' is not in: {caught.value}"


def test_every_operator_has_a_case():
    cards = {key[1] for key in test_schemas.every_card() if key[0] == DOMAIN}
    tested = {c.op for c in training.CASES if c.domain == DOMAIN} | SEQUENCES
    assert tested <= cards, tested - cards


# ---- sequences ----

def sequence_session(op, inputs, outputs, domain=DOMAIN, **attributes):
    """A session of one node over sequences, or tensors where a type is told."""
    import nacre
    kinds = {"lr": (TensorProto.FLOAT, [1]), "step": (TensorProto.INT64, [1]), "signal": (TensorProto.BOOL, [1]),
             "flag": (TensorProto.BOOL, [1])}

    def info(name):
        if name in kinds:
            return helper.make_tensor_value_info(name, *kinds[name])
        return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)
    node = helper.make_node(op, inputs, outputs, "it", domain=domain, **attributes)
    graph = helper.make_graph([node], "one", [info(n) for n in inputs], [info(n) for n in outputs])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15),
                                                                 helper.make_opsetid(domain, 1)])
    return nacre.InferenceSession(model.SerializeToString())


def tensors(seed):
    r = np.random.default_rng(seed)
    return [r.standard_normal(s).astype(np.float32) for s in ((4, 5), (7,), (), (0, 3))]


ADAM = ["lr", "step", "w", "g", "m", "v"]


def test_adamw_over_sequences_is_pytorchs():
    session = sequence_session("AdamWOptimizer", ADAM, ["flag", "w_", "m_", "v_"], weight_decay=0.02, epsilon=1e-7)
    w, m, v = tensors(1), [0 * x for x in tensors(1)], [0 * x for x in tensors(1)]
    peers = [torch.tensor(x).requires_grad_() for x in w]
    optimizer = torch.optim.AdamW(peers, lr=0.01, weight_decay=0.02, eps=1e-7)
    for step in range(1, 5):
        g = tensors(10 + step)
        flag, w, m, v = session.run(None, {"lr": np.float32([0.01]), "step": np.int64([step]), "w": w, "g": g, "m": m,
                                           "v": v})
        for p, x in zip(peers, g):
            p.grad = torch.tensor(x)
        optimizer.step()
        assert flag.tolist() == [True]
    for got, want in zip(w, peers):
        close(got, want.detach().numpy(), "steps_f32", "a weight")


def test_momentum_over_sequences_is_pytorchs():
    session = sequence_session("MomentumOptimizer", ["lr", "step", "w", "g", "m"], ["flag", "w_", "m_"], "nacre",
                               momentum=0.9, weight_decay=0.02, nesterov=1)
    w, m = tensors(1), [0 * x for x in tensors(1)]
    peers = [torch.tensor(x).requires_grad_() for x in w]
    optimizer = torch.optim.SGD(peers, lr=0.1, momentum=0.9, weight_decay=0.02, nesterov=True)
    for step in range(1, 5):
        g = tensors(10 + step)
        flag, w, m = session.run(None, {"lr": np.float32([0.1]), "step": np.int64([step]), "w": w, "g": g, "m": m})
        for p, x in zip(peers, g):
            p.grad = torch.tensor(x)
        optimizer.step()
        assert flag.tolist() == [True]
    for got, want, moment in zip(w, peers, m):
        close(got, want.detach().numpy(), "steps_f32", "a weight")
        close(moment, optimizer.state[want]["momentum_buffer"].numpy(), "steps_f32", "a moment")


def test_nesterov_with_dampening_is_refused():
    with pytest.raises(Exception, match="nesterov needs a momentum above 0 and no dampening"):
        sequence_session("MomentumOptimizer", ["lr", "step", "w", "g", "m"], ["flag", "w_"], "nacre", momentum=0.9,
                         dampening=0.5, nesterov=1)


def test_adamw_in_the_other_form():
    """The weights decay after the step, and epsilon is not corrected."""
    session = sequence_session("AdamWOptimizer", ADAM, ["flag", "w_", "m_", "v_"], weight_decay=0.5, adam_mode=1,
                               epsilon=1e-3, alpha=0.8, beta=0.9)
    w, g, m, v = (tensors(k) for k in range(4))
    v = [np.abs(x) for x in v]
    got = session.run(None, {"lr": np.float32([0.1]), "step": np.int64([2]), "w": w, "g": g, "m": m, "v": v})
    for k, (w_, g_, m_, v_) in enumerate(zip(w, g, m, v)):
        m_, v_ = 0.8 * m_ + 0.2 * g_, 0.9 * v_ + 0.1 * g_ * g_
        x = w_ - 0.1 * np.sqrt(1 - 0.9 ** 2) / (1 - 0.8 ** 2) * m_ / (np.sqrt(v_) + 1e-3)
        for have, want in zip((got[1][k], got[2][k], got[3][k]), (x - 0.1 * 0.5 * x, m_, v_)):
            close(have, want, "ort_f32", f"tensor {k}")


def test_optimizers_do_nothing_without_their_signal():
    w, g = tensors(1), tensors(2)
    session = sequence_session("SGDOptimizerV2", ["lr", "w", "g", "signal"], ["flag", "w_"])
    feeds = {"lr": np.float32([0.5]), "w": w, "g": g, "signal": np.array([False])}
    flag, same = session.run(None, feeds)
    assert flag.tolist() == [False] and all(np.array_equal(a, b) for a, b in zip(same, w))
    flag, moved = session.run(None, {**feeds, "signal": np.array([True])})
    assert flag.tolist() == [True]
    for got, a, b in zip(moved, w, g):
        close(got, a - 0.5 * b, "ort_f32", "a weight")


@pytest.mark.parametrize("most", [0.5, 100.0])
def test_gradients_are_clipped_by_their_common_norm(most):
    g = tensors(3)
    session = sequence_session("InplaceClipGradNorm", ["g"], ["g_"], max_norm=most)
    norm = np.sqrt(sum(float((x.astype(np.float64) ** 2).sum()) for x in g))
    for got, x in zip(session.run(None, {"g": g})[0], g):
        close(got, x * min(1, most / (norm + 1e-6)), "ort_f32", "a gradient")


def test_optimizers_say_what_does_not_fit():
    session = sequence_session("SGDOptimizerV2", ["lr", "w", "g"], ["flag"])
    with pytest.raises(Exception, match="SGDOptimizerV2 'it'.*4 weights and 3 of gradients"):
        session.run(None, {"lr": np.float32([1]), "w": tensors(1), "g": tensors(1)[:3]})
    with pytest.raises(Exception, match="tensor 1 of the gradients has another shape"):
        session.run(None, {"lr": np.float32([1]), "w": tensors(1)[:2], "g": tensors(1)[:1] * 2})
