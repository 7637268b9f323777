"""OffsetFetch of all of a group: pending offsets are sorted by topic once, however many topics the group has."""

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.offsets.fetch import fetch_group
from kafkad.core.groups.offsets.messages import GroupFetch
from kafkad.core.groups.offsets.pending import PendingOffsets
from kafkad.core.groups.offsets.store import CommittedOffsets, pack
from kafkad.core.groups.records import OffsetCommitted

TOPICS = 50


class _CountedName(str):
    """A topic name that counts its comparisons with other names."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_all_offsets_of_a_group_take_one_pass_over_the_pending_ones() -> None:
    committed, pending = CommittedOffsets(), PendingOffsets()
    names = [_CountedName(f"t{number}") for number in range(TOPICS)]
    for name in names:
        for partition in (0, 1):
            packed = pack(OffsetCommitted("g", name, partition, offset=7), 1)
            committed.put("g", name, partition, packed)
        pending.put(70, ("g", name, 1), packed)
    _CountedName.comparisons = 0
    fetched = fetch_group(GroupFetch("g", None), ClassicGroup("g", None), committed, pending, None)
    assert _CountedName.comparisons <= 10 * TOPICS
    codes = {(row.partition, row.code) for topic in fetched.topics for row in topic.partitions}
    assert codes == {(0, ErrorCode.NONE), (1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}
    assert len(fetched.topics) == TOPICS
