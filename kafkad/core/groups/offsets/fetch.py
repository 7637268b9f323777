"""OffsetFetch: the committed offsets of the requested partitions, or all of a group.

An offset that was committed for another topic with the same name counts as missing. `pending` are the offsets of open
transactions: with require_stable, clients must retry partitions with pending offsets (KIP-447).
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

MAX_BUILT_ROWS = 5_000
"""For more offsets, up to millions, the rows of the reply are built in steps."""


def fetch_group(
    request: GroupFetch,
    group: Group | None,
    committed: CommittedOffsets,
    pending: PendingOffsets | None,
    topics: Topics | None,
) -> FetchedGroup:
    """`group` None: it does not exist, and has no offsets. `topics` is set if the request has topic ids."""
    group_id = request.group_id
    offsets: CommittedTopics = {}
    if group is not None:
        try:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                return FetchedGroup(group_id, [], error.code)
            # A dead group counts as missing.
        else:
            offsets = committed.of_group(group_id)
    unstable = _Unstable(group_id, pending)
    if request.topics is None:
        return FetchedGroup(group_id, _all_topics(offsets, unstable, topics))
    rows, unknown = [], []
    for topic in request.topics:
        name = topic.name if topics is None else topics.name_of(topic.topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            partitions = [FetchedPartition(partition, code=code) for partition in topic.partitions]
            unknown.append(FetchedTopic("", topic.topic_id, partitions))
        else:
            rows.append(_one_topic(name, topic, offsets.get(name, {}), unstable))
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
    """The current offsets of a topic, unaffected by commits during the iteration."""

    __slots__ = ("_packed", "_partitions", "_unstable")

    def __init__(self, offsets: dict[int, Packed], unstable: frozenset[int]) -> None:
        # Not a copy of the dict, which would take more than twice the memory.
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
        return any(row == other for other in self)


def _one_topic(name: str, requested: TopicFetch, offsets: dict[int, Packed], unstable: _Unstable) -> FetchedTopic:
    rows = []
    for partition in requested.partitions:
        packed = offsets.get(partition)
        if unstable.has(name, partition):
            rows.append(FetchedPartition(partition, code=ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif packed is None or not is_of_topic(packed, requested.topic_id):
            rows.append(FetchedPartition(partition))
        else:
            rows.append(FetchedPartition(partition, *position(packed)))
    return FetchedTopic(name, requested.topic_id, rows)


def _all_topics(offsets: CommittedTopics, unstable: _Unstable, topics: Topics | None) -> list[FetchedTopic]:
    rows = []
    is_lazy = sum(map(len, offsets.values())) > MAX_BUILT_ROWS
    unstable_of = unstable.by_topic()
    for name, partitions in offsets.items():
        topic_id = NO_TOPIC_ID if topics is None else topics.id_of(name)
        if topic_id is None:
            # The topic is deleted; its offsets will be removed soon.
            continue
        found = CommittedRows(partitions, unstable_of.get(name, frozenset()))
        rows.append(FetchedTopic(name, topic_id, found if is_lazy else list(found)))
    return rows
