"""Keys and values of decoders with an encoder, four tensors a layer: of attention to itself and across to the encoder.
They come by layer, (self key, self value, cross key, cross value) each, or all self ones before all cross ones."""
from __future__ import annotations

from typing import Any, List, Sequence, Tuple


def _four(layer: Sequence[Any]) -> Tuple[Any, ...]:
    """Of a layer; where it has six, the third and the last say how far a cache is filled."""
    if len(layer) not in (4, 6):
        raise ValueError(f"a layer has {len(layer)} tensors, expected 4 or 6")
    return tuple(layer) if len(layer) == 4 else (layer[0], layer[1], layer[3], layer[4])


def _names(prefix: str, num_layers: int) -> List[str]:
    return [f"{prefix}_{part}_{kind}_{i}" for kind in ("self", "cross") for i in range(num_layers)
            for part in ("key", "value")]


class PastKeyValuesHelper:
    @staticmethod
    def get_past_names(num_layers: int, present: bool = False) -> List[str]:
        return _names("present" if present else "past", num_layers)

    @staticmethod
    def get_input_names(past_key_values: Sequence[Any], encoder: bool = True) -> List[str]:
        """Of tensors in a row (encoder) or by layer."""
        count = len(past_key_values) // 4 if encoder else len(past_key_values)
        return _names("present" if encoder else "past", count)

    @staticmethod
    def group_by_self_or_cross(present_key_values: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
        """From by layer to (self, cross)."""
        layers = [_four(layer) for layer in present_key_values]
        return [x for layer in layers for x in layer[:2]], [x for layer in layers for x in layer[2:]]

    @staticmethod
    def group_by_self_and_cross(present_key_values: Sequence[Any], concat: bool = False) -> Any:
        own, cross = PastKeyValuesHelper.group_by_self_or_cross(present_key_values)
        return own + cross if concat else (own, cross)

    @staticmethod
    def back_group_by_layer(past_key_values: Sequence[Any]) -> Tuple[Tuple[Any, ...], ...]:
        """From self before cross to by layer."""
        half = len(past_key_values) // 2
        return tuple((*past_key_values[i:i + 2], *past_key_values[half + i:half + i + 2]) for i in range(0, half, 2))

    @staticmethod
    def group_by_layer(past: Sequence[Any], num_layers: int) -> Any:
        """The same, as the installed transformers takes it: its cache since version 5, lists before."""
        if len(past) != 4 * num_layers:
            raise ValueError(f"{len(past)} tensors for {num_layers} layers, expected {4 * num_layers}")
        layers = tuple(list(layer) for layer in PastKeyValuesHelper.back_group_by_layer(past))
        import transformers
        if int(transformers.__version__.split(".")[0]) < 5:
            return layers
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache
        return EncoderDecoderCache(DynamicCache((a, b) for a, b, _, _ in layers),
                                   DynamicCache((c, d) for _, _, c, d in layers))
