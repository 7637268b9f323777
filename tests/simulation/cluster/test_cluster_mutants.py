"""The simulation of a cluster finds out brokers that break a rule."""

import pytest

from tests.simulation.cluster.mutants import MUTANTS
from tests.simulation.cluster.seeds import play

SEEDS = 150
"""So many chances to notice; most are found within ten."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_cluster_that_breaks_a_rule_is_found_out(name: str) -> None:
    assert any(play(seed, MUTANTS[name]) is not None for seed in range(SEEDS))
