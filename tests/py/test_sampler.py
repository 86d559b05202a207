"""nacre.training.utils.data.sampler: every process gets samples of like cost in the same round; none is lost."""
import pytest

import package  # noqa: F401  (makes nacre importable)
from nacre.training.optim import AdamWMode
from nacre.training.utils.data.sampler import (LoadBalancingDistributedBatchSampler,
                                               LoadBalancingDistributedSampler)

DATA = [(k * 37) % 101 for k in range(100)]


def samplers(world_size=4, data=DATA, **more):
    return [LoadBalancingDistributedSampler(data, lambda x: x, world_size=world_size, rank=r, **more)
            for r in range(world_size)]


def test_rounds_are_of_like_cost_and_no_sample_is_lost():
    dealt = [list(s) for s in samplers()]
    assert sorted(i for own in dealt for i in own) == list(range(100))
    in_order = sorted(DATA)
    for k in range(25):
        costs = sorted(DATA[own[k]] for own in dealt)
        at = in_order.index(costs[0])
        assert costs == in_order[at:at + 4]


def test_epochs_shuffle_and_all_processes_agree():
    one, two = samplers(2)
    first = list(one)
    one.set_epoch(1)
    assert list(one) != first and sorted(DATA[i] for i in one) == sorted(DATA[i] for i in first)
    assert [one.rounds()[k][0] for k in range(50)] == list(one)
    two.set_epoch(1)
    assert [dealt[1] for dealt in one.rounds()] == list(two)
    plain = samplers(2, shuffle=False)[0]
    assert [DATA[i] for i in plain] == sorted(DATA)[::2]


def test_rests_are_filled_or_dropped():
    assert [len(list(s)) for s in samplers(3)] == [34] * 3 and len(samplers(3)[0]) == 34
    assert [len(list(s)) for s in samplers(3, drop_last=True)] == [33] * 3
    assert [list(s) for s in samplers(2, data=[5])] == [[0], [0]]
    assert [list(s) for s in samplers(2, data=[])] == [[], []]


def test_groups_and_blur():
    dealt = samplers(2, shuffle=False, group_size=10)[0].rounds()
    assert {i for pair in dealt[:5] for i in pair} == set(range(10))
    blurred = samplers(2, random_level=1.0)
    assert sorted(i for s in blurred for i in s) == list(range(100))
    assert blurred[0].rounds() != samplers(2)[0].rounds()


def by_cost(indices, most=150):
    batches, cost = [[]], 0
    for i in indices:
        if batches[-1] and cost + DATA[i] > most:
            batches.append([])
            cost = 0
        batches[-1].append(i)
        cost += DATA[i]
    return batches


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_as_many_in_every_process(drop_last):
    all_of = [LoadBalancingDistributedBatchSampler(s, by_cost, drop_last) for s in samplers()]
    assert len({len(list(b)) for b in all_of}) == 1 and len(all_of[0]) == len(list(all_of[0]))
    all_of[0].set_epoch(3)
    assert all_of[0].sampler.epoch == 3


def test_refusals_and_modes():
    for arguments, words in ((dict(random_level=2), "random_level"), (dict(group_size=0), "group_size")):
        with pytest.raises(ValueError, match=words):
            samplers(**arguments)
    with pytest.raises(ValueError, match="rank: expected 0 to 1, got 5"):
        LoadBalancingDistributedSampler(DATA, lambda x: x, world_size=2, rank=5)
    with pytest.raises(RuntimeError, match="torch.distributed is not initialized"):
        LoadBalancingDistributedSampler(DATA, lambda x: x)
    with pytest.raises(ValueError, match="expected a LoadBalancingDistributedSampler"):
        LoadBalancingDistributedBatchSampler([1, 2], by_cost)
    assert [int(m) for m in AdamWMode] == [0, 1, 2]
