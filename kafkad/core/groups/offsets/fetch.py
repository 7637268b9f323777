"""OffsetFetch: the committed offsets that a request names, or all of its group.

An offset that was committed for another topic of the same name counts as missing. `pending` are the offsets of open
transactions: a client that asks for stable offsets has to retry partitions that have some (KIP-447).
"""

from collections.abc import Collection, Iterator

from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.group import Group
from kafkad.core.groups.offsets.messages import FetchedGroup, FetchedPartition, FetchedTopic, GroupFetch, TopicFetch
from kafkad.core.groups.offsets.pending import PendingOffsets
from kafkad.core.groups.offsets.store import CommittedOffsets, Packed, is_of_topic, position
from kafkad.core.groups.offsets.store import Topics as CommittedTopics
from kafkad.core.types import NO_TOPIC_ID

MANY = 5_000
"""In a group with more offsets the answer is built in steps: there may be a million."""


def fetch_group(
    wanted: GroupFetch,
    group: Group | None,
    committed: CommittedOffsets,
    pending: PendingOffsets | None,
    topics: Topics | None,
) -> FetchedGroup:
    """`group` None: the group does not exist, so nothing is committed. `topics`: the client names topics by id."""
    group_id = wanted.group_id
    offsets: CommittedTopics = {}
    if group is not None:
        try:
            group.check_offset_fetch(wanted.member_id, wanted.member_epoch)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                return FetchedGroup(group_id, [], error.code)
            # A dead group counts as missing.
        else:
            offsets = committed.of_group(group_id)
    unstable = _Unstable(group_id, pending)
    if wanted.topics is None:
        return FetchedGroup(group_id, _everything(offsets, unstable, topics))
    rows, unknown = [], []
    for each in wanted.topics:
        name = each.name if topics is None else topics.name_of(each.topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            parts = [FetchedPartition(partition, code=code) for partition in each.partitions]
            unknown.append(FetchedTopic("", each.topic_id, parts))
        else:
            rows.append(_one_topic(name, each, offsets.get(name, {}), unstable))
    return FetchedGroup(group_id, rows + unknown)


class _Unstable:
    __slots__ = ("_group_id", "_pending")

    def __init__(self, group_id: str, pending: PendingOffsets | None) -> None:
        self._group_id = group_id
        self._pending = pending if pending is not None and pending.has_group(group_id) else None

    def has(self, topic: str, partition: int) -> bool:
        return self._pending is not None and self._pending.has(self._group_id, topic, partition)

    def by_topic(self) -> dict[str, frozenset[int]]:
        if self._pending is None:
            return {}
        found: dict[str, set[int]] = {}
        for topic, partition in self._pending.of_group(self._group_id):
            found.setdefault(topic, set()).add(partition)
        return {topic: frozenset(partitions) for topic, partitions in found.items()}


class CommittedRows(Collection[FetchedPartition]):
    """The present offsets of a topic, also when commits come while the caller iterates."""

    __slots__ = ("_packed", "_partitions", "_unstable")

    def __init__(self, offsets: dict[int, Packed], unstable: frozenset[int]) -> None:
        # Not a copy of the dict, which takes more than twice as much.
        self._partitions = tuple(offsets)
        self._packed = tuple(offsets.values())
        self._unstable = unstable

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchedPartition]:
        for partition, packed in zip(self._partitions, self._packed, strict=True):
            if partition in self._unstable:
                yield FetchedPartition(partition, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            else:
                yield FetchedPartition(partition, *position(packed))

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)


def _one_topic(name: str, wanted: TopicFetch, offsets: dict[int, Packed], unstable: _Unstable) -> FetchedTopic:
    rows = []
    for partition in wanted.partitions:
        packed = offsets.get(partition)
        if unstable.has(name, partition):
            rows.append(FetchedPartition(partition, code=ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif packed is None or not is_of_topic(packed, wanted.topic_id):
            rows.append(FetchedPartition(partition))
        else:
            rows.append(FetchedPartition(partition, *position(packed)))
    return FetchedTopic(name, wanted.topic_id, rows)


def _everything(offsets: CommittedTopics, unstable: _Unstable, topics: Topics | None) -> list[FetchedTopic]:
    rows = []
    are_many = sum(map(len, offsets.values())) > MANY
    unstable_of = unstable.by_topic()
    for name, partitions in offsets.items():
        topic_id = NO_TOPIC_ID if topics is None else topics.id_of(name)
        if topic_id is None:
            # The topic is gone; its offsets will be removed soon.
            continue
        found = CommittedRows(partitions, unstable_of.get(name, frozenset()))
        rows.append(FetchedTopic(name, topic_id, found if are_many else list(found)))
    return rows
