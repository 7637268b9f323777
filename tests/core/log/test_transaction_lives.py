"""Thousands of lives of a partition with transactions, each drawn from its seed."""

import pytest

from tests.core.log.transaction_lives import Incarnation

LIVES_A_TEST = 100
FOUND_SOMETHING = (17, 68, 272, 993, 1839, 2722, 3641, 4315, 5881)
"""Cuts that were not synced, snapshots of batches that were lost, transactions that ended before a cut."""


@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_a_life_that_once_went_wrong(seed: int) -> None:
    Incarnation(seed).live(40)


@pytest.mark.parametrize("first", range(0, 600, LIVES_A_TEST))
def test_every_life_leaves_what_its_batches_say(first: int) -> None:
    for seed in range(first, first + LIVES_A_TEST):
        try:
            Incarnation(seed).live(40)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
