"""Samplers that give every process of a training run equal work."""
from nacre.training.utils.data.sampler import (LoadBalancingDistributedBatchSampler,
                                               LoadBalancingDistributedSampler)

__all__ = ["LoadBalancingDistributedBatchSampler", "LoadBalancingDistributedSampler"]
