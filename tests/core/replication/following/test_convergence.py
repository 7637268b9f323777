"""Logs of replicas converge through changes of leaders, crashes and lost answers, and keep what is committed."""

import pytest

from tests.core.replication.following.replicas import Cluster

SEEDS_AT_ONCE = 100


def play(seed: int, steps: int = 60) -> None:
    cluster = Cluster(seed)
    for _ in range(steps):
        cluster.step()
    cluster.settle()


@pytest.mark.parametrize("first", range(0, 2000, SEEDS_AT_ONCE))
def test_replicas_become_equal_and_nothing_committed_is_lost(first: int) -> None:
    for seed in range(first, first + SEEDS_AT_ONCE):
        play(seed)
