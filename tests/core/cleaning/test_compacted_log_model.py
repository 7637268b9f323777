"""The model of a compacted log, and what it is worth: it finds out a broker that breaks a rule."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from kafkad.core.cleaning.offset_map import KeyHashes, OffsetMap
from kafkad.core.cleaning.transactions import CleanedTransactions
from kafkad.core.cleaning.uncleanable import UncleanableLog
from kafkad.core.columns.arrays import Numbers
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.recovery import leftovers
from kafkad.core.log.segments import replacement
from tests.amounts import amount
from tests.core.cleaning.compacted_log_model import CompactedLogModel
from tests.mutants import find_out

Mutation = Callable[[pytest.MonkeyPatch], None]

TestCompactedLog = CompactedLogModel.TestCase
EXAMPLES = amount("compacted_log_examples")
TestCompactedLog.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)


def _takes_the_latest_for_an_older_one(patch: pytest.MonkeyPatch) -> None:
    true_get = OffsetMap.get

    def get(table: OffsetMap, keys: KeyHashes) -> Numbers:
        found: Numbers = true_get(table, keys) + 1
        return found

    patch.setattr(OffsetMap, "get", get)


def _learns_from_aborted_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CleanedTransactions, "_is_aborted", lambda transactions, producer_id: False)


def _learns_from_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CompactedLogModel, "stable_end", staticmethod(lambda log: log.log_end_offset))


def _learns_by_markers_that_are_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    def end(log: PartitionLog) -> int:
        return min(log.last_stable.offset, log.recovery_point)

    patch.setattr(CompactedLogModel, "stable_end", staticmethod(end))


def _brings_removed_segments_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replacement, "are_current", lambda log, sources: True)


def _leaves_what_was_replaced_beside_it(patch: pytest.MonkeyPatch) -> None:
    """After a crash in the middle of a swap."""
    patch.setattr(leftovers, "_next_offset", lambda store, name, size, base_offset: base_offset)


MUTANTS: tuple[Mutation, ...] = (
    _takes_the_latest_for_an_older_one,
    _learns_from_aborted_records,
    _learns_from_open_transactions,
    _learns_by_markers_that_are_not_on_disk,
    _brings_removed_segments_back,
    _leaves_what_was_replaced_beside_it,
)
"""No seeds are recorded: by the same seed Hypothesis takes other steps in another process."""
FOUND = AssertionError, CorruptBatch, UncleanableLog, FileNotFoundError, LookupError, ValueError
EXAMPLES_A_SEED = 20


@pytest.mark.interpreted
@pytest.mark.parametrize("mutation", MUTANTS)
def test_a_cleaner_that_breaks_a_rule_is_found_out(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    find_out(mutation.__name__, None, "compacted_log_mutant_seeds", goes_wrong)


def goes_wrong(number: int) -> bool:
    chances = settings(
        max_examples=EXAMPLES_A_SEED,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )

    @seed(number)
    class Seeded(CompactedLogModel):
        """The model itself has no seed."""

    try:
        run_state_machine_as_test(Seeded, settings=chances)
    except FOUND:
        return True
    return False
