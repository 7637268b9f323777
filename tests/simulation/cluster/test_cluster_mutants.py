"""The simulation of a cluster finds out brokers that break a rule, and says what is wrong."""

import pytest

from tests.mutants import find_out
from tests.simulation.cluster.mutants import MUTANTS
from tests.simulation.cluster.seeds import play


@pytest.mark.parametrize("name", MUTANTS)
def test_a_cluster_that_breaks_a_rule_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]

    def is_found(seed: int) -> bool:
        failure = play(seed, mutant.mutation)
        return failure is not None and mutant.found in failure.what

    find_out(name, mutant.seed, "cluster_mutant_seeds", is_found)
