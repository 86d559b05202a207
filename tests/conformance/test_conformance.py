"""Every case of ONNX's backend suite that once passed still passes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import gradients  # noqa: E402
import isolated  # noqa: E402
import middle  # noqa: E402
import pytest  # noqa: E402
import suite  # noqa: E402


def test_listed_cases_pass():
    outcome = suite.run()
    passed = sum(why is None for why in outcome.values())
    print(f"\nONNX backend suite: {passed} passed of {len(outcome)}")
    listed = suite.listed()
    assert len(listed) > 700, "passing.txt was lost"
    lost = {n: outcome.get(n, "there is no such case") for n in listed if outcome.get(n, "") is not None}
    assert not lost, "\n".join(f"{n}: {why}" for n, why in sorted(lost.items()))
    open_ = {n: why for n, why in outcome.items() if why is not None and suite.excused(n) is None}
    assert not open_, "\n".join(f"{n}: {why}" for n, why in sorted(open_.items()))


def test_listed_cases_pass_in_the_middle_of_a_graph():
    outcome = middle.run()
    assert len(outcome) > 1500, "cases were lost"
    wrong = {n: why for n, why in outcome.items() if why is not None}
    assert not wrong, "\n".join(f"{n}: {why}" for n, why in sorted(wrong.items()))


def test_a_wrong_result_in_the_middle_is_seen(monkeypatch):
    monkeypatch.setattr(middle.Wrapper, "scalars", lambda self: [2 * x for x in scalars(self)])
    assert "Mismatched" in middle.run("test_relu$")["test_relu"]


scalars = middle.Wrapper.scalars


def test_gradients_of_node_cases():
    outcome, left = gradients.run()
    print(f"\n{gradients.summary(outcome)}; left out: {', '.join(sorted(left))}")
    assert len(outcome) > 1200, "cases were lost"
    wrong = {n: f"{op}: {why}" for n, (op, why) in outcome.items() if why is not None}
    assert not wrong, "\n".join(f"{n}: {why}" for n, why in sorted(wrong.items()))


def test_a_wrong_gradient_is_seen(monkeypatch):
    monkeypatch.setattr(gradients, "products", lambda ys, dys: 2 * products(ys, dys))
    outcome, _ = gradients.run("^test_(tanh|matmul_2d|cast_FLOAT_to_FLOAT16)$")
    assert len(outcome) == 3
    assert all("differences say" in why for _, why in outcome.values())


products = gradients.products


def test_a_worker_that_dies_is_replaced():
    worker = isolated.Worker()
    try:
        assert "CPU" in worker.ask("devices")
        worker.process.kill()
        with pytest.raises(isolated.Failed, match="died with exit code -9"):
            worker.ask("devices")
        assert "CPU" in worker.ask("devices")
    finally:
        worker.stop()
