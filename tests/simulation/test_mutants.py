"""The simulation finds out a broker that breaks a rule: each rule is broken on purpose, one at a time.

All seeds are fixed: those that found the mutants.
"""

import pytest

from tests.mutants import find_out
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import Mutation
from tests.simulation.seeds import fail_if_violated, play, shows

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broker_that_breaks_a_rule_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]
    is_found = shows(mutant.found, lambda seed: play(seed, mutant.mutation))
    find_out(name, mutant.seed, "broker_mutant_seeds", is_found)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broker_without_that_fault_keeps_its_promises_in_the_same_story(name: str) -> None:
    mutant = MUTANTS[name]
    fail_if_violated(play(mutant.seed, Mutation(shape=mutant.mutation.shape)))
