"""Subscribers that watch the modules of a PyTorch model while it trains; the names are those of
onnxruntime.training.utils.hooks. Steps are counted by the calls of the outermost module."""
from nacre.training.utils.hooks._manager import GlobalSubscriberManager, SubscriberManager, no_increase_global_step
from nacre.training.utils.hooks._statistics import StatisticsSubscriber, inspect_activation
from nacre.training.utils.hooks._subscriber import RuntimeStates, SubscriberBase

__all__ = ["GlobalSubscriberManager", "RuntimeStates", "StatisticsSubscriber", "SubscriberBase", "SubscriberManager",
           "inspect_activation", "no_increase_global_step"]
