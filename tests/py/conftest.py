"""Fixtures of all Python tests. torch gets one thread, so that its sums do not depend on the machine.
NACRE_TEST_PART=I/N: every N-th test from the I-th, for machines without a runner in parallel (tests/gpu/run.sh)."""
import os
import signal

import pytest
import torch

import nacre_c


def pytest_configure(config):
    if not nacre_c.LIBRARY.exists():
        raise pytest.UsageError(f"{nacre_c.LIBRARY} is not there: run make, or set NACRE_LIB")
    torch.set_num_threads(1)
    # A shell that starts the tests in the background has them ignore Ctrl-C, and their children too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    part, _, parts = os.environ.get("NACRE_TEST_PART", "0/1").partition("/")
    items[:] = items[int(part)::int(parts)]


@pytest.fixture(scope="session")
def env():
    with nacre_c.Env(2) as e:
        yield e
