"""Logs of replicas converge through changes of leaders, crashes and lost answers, and keep what is committed.

Fixed: the seeds that find mutants (`test_mutants`). Random: `follower_lives` others.
"""

import pytest

from tests.amounts import seeds_of_tests
from tests.core.replication.following.replicas import Cluster

AT_ONCE = 100


def play(seed: int, steps: int = 60) -> None:
    cluster = Cluster(seed)
    for _ in range(steps):
        cluster.step()
    cluster.settle()


@pytest.mark.parametrize("seeds", seeds_of_tests("follower_lives", AT_ONCE))
def test_replicas_become_equal_and_nothing_committed_is_lost(seeds: range) -> None:
    for seed in seeds:
        try:
            play(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
