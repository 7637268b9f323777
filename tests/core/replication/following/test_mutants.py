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

pytestmark = pytest.mark.interpreted

SEEDS = 400
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
    patch.setattr(removal, "_forget_epoch_without_records", lambda _log: None)


def _truncation_is_left_out(patch: Patch) -> None:
    patch.setattr(replicas, "truncate", lambda _log, _truncation, _now_ms: [])


@pytest.mark.parametrize(
    "mutate",
    [
        _to_the_high_watermark,
        _to_the_leaders_end_alone,
        _last_epoch_is_not_said,
        _epochs_without_records_stay,
        _truncation_is_left_out,
    ],
)
def test_a_wrong_rule_is_found_out(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            play(seed)
