"""Lives of a partition with transactions, each drawn from its seed.

Fixed: the seeds that once found something. Random: `transactional_log_lives` others.
"""

import pytest

from tests.amounts import seeds_of_tests
from tests.core.log.transaction_lives import Incarnation

AT_ONCE = 50
FOUND_SOMETHING = (17, 68, 272, 993, 1839, 2722, 3641, 4315, 5881, 856643888)
"""Cuts that were not synced, snapshots of batches that were lost, transactions that ended before a cut."""


@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_a_life_that_once_went_wrong(seed: int) -> None:
    Incarnation(seed).live(40)


@pytest.mark.parametrize("seeds", seeds_of_tests("transactional_log_lives", AT_ONCE))
def test_every_life_leaves_what_its_batches_say(seeds: range) -> None:
    for seed in seeds:
        try:
            Incarnation(seed).live(40)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
