"""How a test finds out a mutant: by the seed that is recorded for it, or by one of the next."""

import warnings
from collections.abc import Callable

import pytest

from tests.amounts import amount


class RecordedSeedLost(pytest.PytestWarning):
    """Shown in the summary of the run. The order of events has changed: record the seed that is named."""


def find_out(name: str, recorded: int | None, row: str, is_found: Callable[[int], bool]) -> None:
    """Fails if neither the recorded seed finds the mutant nor as many after it as the row of `amounts` says.

    Without a recorded seed (where another process plays another story by the same seed) it counts from 0.
    """
    first = recorded or 0
    last = first + amount(row)
    found = next(filter(is_found, range(first, last + 1)), None)
    if found is None:
        pytest.fail(f"{name!r} is found by no seed from {first} to {last}", pytrace=False)
    if recorded is not None and found != recorded:
        warnings.warn(RecordedSeedLost(f"recorded seed of {name!r} is now {found}, no longer {recorded}"), stacklevel=2)
