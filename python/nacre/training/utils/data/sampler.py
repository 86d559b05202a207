"""Samplers for data whose samples cost unequal work (sentences of many lengths): samples of like cost are dealt to all
processes in the same round, so that none waits for another. They are iterables of indices, as PyTorch's DataLoader
takes them; numpy draws the order, the same in every process."""
from __future__ import annotations

import math
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np


def _processes(world_size: Optional[int], rank: Optional[int]) -> Tuple[int, int]:
    if world_size is None or rank is None:
        import torch.distributed as distributed
        if not distributed.is_available() or not distributed.is_initialized():
            raise RuntimeError("world_size and rank are not given, and torch.distributed is not initialized")
        world_size = distributed.get_world_size() if world_size is None else world_size
        rank = distributed.get_rank() if rank is None else rank
    if not 0 <= rank < world_size:
        raise ValueError(f"rank: expected 0 to {world_size - 1}, got {rank}")
    return world_size, rank


class LoadBalancingDistributedSampler:
    """Deals samples of like complexity to all processes.

    complexity_fn: a number for each sample. Samples are sorted by it, within groups of group_size neighbours if that is
    given, and cut into rounds of world_size samples, one for each process; shuffle puts the rounds into another order,
    in each epoch (set_epoch) another one. random_level, from 0 to 1, blurs the sorting by that part of the
    complexities' range. A last round that is not full is dropped, or filled with samples from the beginning."""

    def __init__(self, dataset: Sequence[Any], complexity_fn: Callable[[Any], float], world_size: Optional[int] = None,
                 rank: Optional[int] = None, shuffle: bool = True, group_size: Optional[int] = None, seed: int = 0,
                 drop_last: bool = False, random_level: float = 0) -> None:
        self.world_size, self.rank = _processes(world_size, rank)
        if not 0 <= random_level <= 1:
            raise ValueError(f"random_level: expected 0 to 1, got {random_level}")
        if group_size is not None and group_size < 1:
            raise ValueError(f"group_size: expected at least 1, got {group_size}")
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.group_size, self.random_level, self.epoch = group_size, random_level, 0
        self._complexities = np.array([complexity_fn(dataset[i]) for i in range(len(dataset))], np.float64)
        size = len(dataset)
        self.num_samples = size // self.world_size if drop_last else math.ceil(size / self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """The order of the rounds depends on it."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_samples

    def _sorted(self, draw: np.random.Generator) -> List[int]:
        cost = self._complexities
        if self.random_level and len(cost):
            cost = cost + draw.random(len(cost)) * (cost.max() - cost.min()) * self.random_level
        step = self.group_size or max(len(cost), 1)
        groups = (np.arange(k, min(k + step, len(cost))) for k in range(0, len(cost), step))
        return [int(i) for group in groups for i in group[np.argsort(cost[group], kind="stable")]]

    def rounds(self) -> List[List[int]]:
        """Of the present epoch: the indices of all processes, one each."""
        draw = np.random.default_rng([self.seed, self.epoch if self.shuffle else 0])
        indices = self._sorted(draw)
        wanted = self.num_samples * self.world_size
        while indices and len(indices) < wanted:
            indices += indices[:wanted - len(indices)]
        dealt = [indices[k:k + self.world_size] for k in range(0, wanted, self.world_size)]
        return [dealt[k] for k in draw.permutation(len(dealt))] if self.shuffle else dealt

    def __iter__(self) -> Iterator[int]:
        return iter([dealt[self.rank] for dealt in self.rounds()])


class LoadBalancingDistributedBatchSampler:
    """Batches of what a LoadBalancingDistributedSampler deals. batch_fn: a list of indices to a list of batches. All
    processes give the same number of batches: the fewest with drop_last, else the most, the first ones again."""

    def __init__(self, sampler: LoadBalancingDistributedSampler, batch_fn: Callable[[List[int]], List[List[int]]],
                 drop_last: bool = False) -> None:
        if not isinstance(sampler, LoadBalancingDistributedSampler):
            raise ValueError(f"sampler: expected a LoadBalancingDistributedSampler, got {type(sampler)}")
        self.sampler, self.batch_fn, self.drop_last = sampler, batch_fn, drop_last

    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)

    def _batches(self) -> List[List[int]]:
        rounds = self.sampler.rounds()
        of_all = [list(self.batch_fn([dealt[rank] for dealt in rounds])) for rank in range(self.sampler.world_size)]
        counts = [len(batches) for batches in of_all]
        wanted = min(counts) if self.drop_last else max(counts)
        own = of_all[self.sampler.rank]
        return [own[k % len(own)] for k in range(wanted)] if own else []

    def __len__(self) -> int:
        return len(self._batches())

    def __iter__(self) -> Iterator[List[int]]:
        return iter(self._batches())
