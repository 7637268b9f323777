"""Wrong rules of a follower are found out: within some hundred seeds a committed batch is lost, or logs stay apart."""

from collections.abc import Callable

import pytest

from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.segments import removal
from kafkad.core.replication.following import following_log
from kafkad.core.replication.following.followed_partition import FollowedPartition
from kafkad.core.replication.following.following_log import Truncation
from kafkad.core.replication.following.requests import FollowOrder, PartitionToFetch
from kafkad.core.types import NO_LEADER_EPOCH
from tests.core.replication.following import replicas
from tests.core.replication.following.test_convergence import play
from tests.mutants import find_out

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def _to_the_high_watermark(patch: Patch) -> None:
    def planned(log: PartitionLog, order: FollowOrder) -> Truncation:
        return Truncation(log.high_watermark.offset, False)

    patch.setattr(replicas, "planned_truncation", planned)


def _to_the_leaders_end_alone(patch: Patch) -> None:
    """Epochs of which the leader has no record stay."""

    def offset(_epochs: LeaderEpochCache, end: int, *, diverging_epoch: int, diverging_end_offset: int) -> int:
        return min(end, diverging_end_offset)

    patch.setattr(following_log, "truncation_offset", offset)


def _last_epoch_is_not_said(patch: Patch) -> None:
    row = FollowedPartition.row

    def silent(partition: FollowedPartition) -> PartitionToFetch:
        return row(partition)._replace(last_fetched_epoch=NO_LEADER_EPOCH)

    patch.setattr(FollowedPartition, "row", silent)


def _epochs_without_records_stay(patch: Patch) -> None:
    patch.setattr(removal, "_remove_empty_epoch", lambda _log: None)


def _truncation_is_left_out(patch: Patch) -> None:
    patch.setattr(replicas, "truncate", lambda _log, _truncation, _now_ms: [])


MUTANTS: dict[Callable[[Patch], None], tuple[int, str]] = {
    _to_the_high_watermark: (2, "a committed batch at"),
    _to_the_leaders_end_alone: (0, "the logs are not equal"),
    _last_epoch_is_not_said: (0, "a committed batch at"),
    _epochs_without_records_stay: (3, "the logs are not equal"),
    _truncation_is_left_out: (0, "the logs are not equal"),
}
"""With the seed that found each, and what the invariant says."""


@pytest.mark.parametrize("mutate", MUTANTS)
def test_a_wrong_rule_is_found_out(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    recorded, found = MUTANTS[mutate]
    find_out(mutate.__name__, recorded, "follower_mutant_seeds", lambda seed: found in what_went_wrong(seed))


def what_went_wrong(seed: int) -> str:
    try:
        play(seed)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", sorted({seed for seed, _ in MUTANTS.values()}))
def test_without_a_fault_nothing_goes_wrong_in_the_same_life(seed: int) -> None:
    play(seed)
