"""What an optimizer is made with, as data: defaults, and groups of parameters that differ from them."""
from __future__ import annotations

import enum
from typing import Any, Dict, List, Optional, Sequence

_NAMES = ("AdamOptimizer", "LambOptimizer", "SGDOptimizer")


class _OptimizerConfig:
    """name: the operator; params: a dict each, with the names of parameters under 'params' and their own numbers."""

    def __init__(self, name: str, params: Sequence[Dict[str, Any]], defaults: Dict[str, Any]) -> None:
        assert name in _NAMES, "'name' must be one of 'AdamOptimizer', 'LambOptimizer' or 'SGDOptimizer'"
        assert isinstance(defaults, dict) and defaults.get("lr", -1) >= 0, "lr must be a positive number"
        self.name, self.lr = name, float(defaults["lr"])
        self.defaults: Dict[str, Any] = defaults
        self.params: List[Dict[str, Any]] = []
        for group in params:
            self._add_param_group(group)

    def _add_param_group(self, param_group: Dict[str, Any]) -> None:
        assert isinstance(param_group, dict) and len(param_group) > 1 and "params" in param_group, (
            "Each dict inside 'params' must contain a {'params' : [model parameter names]} entry and additional "
            "entries for custom hyper parameter values")
        for key in param_group:
            assert key == "params" or key in self.defaults, \
                f"'params' has {key} hyper parameter not present at 'defaults'"
        taken = {name for group in self.params for name in group["params"]}
        assert not taken & set(param_group["params"]), "a parameter is in more than one group of 'params'"
        self.params.append({**param_group, **{k: v for k, v in self.defaults.items() if k not in param_group}})


class SGDConfig(_OptimizerConfig):
    """weights - lr * gradients."""

    def __init__(self, params: Sequence[Dict[str, Any]] = (), lr: float = 0.001) -> None:
        assert not params, "'params' must be an empty list for SGD optimizer"
        super().__init__("SGDOptimizer", params, {"lr": lr})


class AdamConfig(_OptimizerConfig):
    """Adam with decoupled decay lambda_coef."""

    class DecayMode(enum.IntEnum):
        BEFORE_WEIGHT_UPDATE = 0
        AFTER_WEIGHT_UPDATE = 1

    def __init__(self, params: Sequence[Dict[str, Any]] = (), lr: float = 0.001, alpha: float = 0.9,
                 beta: float = 0.999, lambda_coef: float = 0.0, epsilon: float = 1e-8, max_norm_clip: float = 1.0,
                 do_bias_correction: bool = True,
                 weight_decay_mode: "AdamConfig.DecayMode" = DecayMode.BEFORE_WEIGHT_UPDATE) -> None:
        numbers = dict(alpha=alpha, beta=beta, lambda_coef=lambda_coef, epsilon=epsilon, max_norm_clip=max_norm_clip)
        _check_numbers(numbers)
        rest = dict(do_bias_correction=do_bias_correction, weight_decay_mode=weight_decay_mode)
        super().__init__("AdamOptimizer", params, {"lr": lr, **_as_attributes(numbers), **rest})
        self.__dict__.update(numbers, **rest)


class LambConfig(_OptimizerConfig):
    """Adam's direction, as long as the weights are; ratio_min and ratio_max bound how much."""

    def __init__(self, params: Sequence[Dict[str, Any]] = (), lr: float = 0.001, alpha: float = 0.9,
                 beta: float = 0.999, lambda_coef: float = 0.0, ratio_min: float = float("-inf"),
                 ratio_max: float = float("inf"), epsilon: float = 1e-6, max_norm_clip: float = 1.0,
                 do_bias_correction: bool = False) -> None:
        numbers = dict(alpha=alpha, beta=beta, lambda_coef=lambda_coef, ratio_min=ratio_min, ratio_max=ratio_max,
                       epsilon=epsilon, max_norm_clip=max_norm_clip)
        _check_numbers({k: v for k, v in numbers.items() if not k.startswith("ratio")})
        rest = dict(do_bias_correction=do_bias_correction)
        super().__init__("LambOptimizer", params, {"lr": lr, **_as_attributes(numbers), **rest})
        self.__dict__.update(numbers, **rest)


def _check_numbers(numbers: Dict[str, Optional[float]]) -> None:
    for name, value in numbers.items():
        assert isinstance(value, (int, float)) and value >= 0, f"'{name}' must be a positive number"


def _as_attributes(numbers: Dict[str, float]) -> Dict[str, float]:
    """Under the names of the operators' attributes."""
    return {"lambda" if name == "lambda_coef" else name: value for name, value in numbers.items()}
