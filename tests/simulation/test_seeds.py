"""Whatever order the seed decides, whoever dies: nothing acknowledged is lost, doubled, reordered or left waiting.

Fixed: the stories of mutants without their fault, and three that are told twice. Random: `broker_stories` others.
"""

import pytest

from tests.amounts import seeds_of_tests
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import Mutation
from tests.simulation.seeds import fail_if_violated, fingerprint, play

AT_ONCE = 25


@pytest.mark.parametrize("seeds", seeds_of_tests("broker_stories", AT_ONCE))
def test_a_broker_keeps_its_promises_in_any_order_of_events(seeds: range) -> None:
    for seed in seeds:
        fail_if_violated(play(seed))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broker_without_the_fault_of_a_mutant_keeps_its_promises_in_the_same_story(name: str) -> None:
    mutant = MUTANTS[name]
    fail_if_violated(play(mutant.seed, Mutation(shape=mutant.mutation.shape)))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_tells_the_same_story_each_time(seed: int) -> None:
    assert fingerprint(seed) == fingerprint(seed)
