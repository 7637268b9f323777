"""The simulation of a cluster finds out brokers that break a rule, and says what is wrong.

All seeds are fixed: those that found the mutants.
"""

import pytest

from tests.mutants import find_out
from tests.simulation.cluster.mutants import MUTANTS
from tests.simulation.cluster.run import ClusterMutation
from tests.simulation.cluster.seeds import play
from tests.simulation.seeds import fail_if_violated, shows

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("name", MUTANTS)
def test_a_cluster_that_breaks_a_rule_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]
    is_found = shows(mutant.found, lambda seed: play(seed, mutant.mutation))
    find_out(name, mutant.seed, "cluster_mutant_seeds", is_found)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_cluster_without_that_fault_keeps_its_promises_in_the_same_story(name: str) -> None:
    mutant = MUTANTS[name]
    fail_if_violated(play(mutant.seed, ClusterMutation(shape=mutant.mutation.shape)))
