"""A shard that only keeps offsets, on the coordinator test bed, with the real group registry and the real rules."""

from collections.abc import Generator, Hashable
from uuid import UUID

from kafkad.core.coordinator.shard import Moment, Outcome, Producer
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.offsets.expiration import SWEEP_TIMERS
from kafkad.core.groups.offsets.messages import OffsetCommit, PartitionCommit, TopicCommit, TxnOffsetCommit
from kafkad.core.groups.offsets.offset_metadata import GroupOffsets
from kafkad.core.groups.records import GroupMetadata, GroupMetadataRemoved, GroupRecord, OffsetCommitted, OffsetRemoved
from kafkad.core.groups.registry import Groups
from kafkad.wire.records import group_records
from tests.core.coordinator.memory_log import Bed

ORDERS = UUID(int=0xA)
PAYMENTS = UUID(int=0xB)
HOUR_MS = 3_600_000


class FewTopics:
    """The topics of the cluster; tests add and delete."""

    def __init__(self) -> None:
        self.by_name: dict[str, tuple[UUID, int]] = {"orders": (ORDERS, 4), "payments": (PAYMENTS, 2)}
        self.version = 0

    def partitions_of(self, name: str) -> int | None:
        return self.by_name[name][1] if name in self.by_name else None

    def id_of(self, name: str) -> UUID | None:
        return self.by_name[name][0] if name in self.by_name else None

    def name_of(self, topic_id: UUID) -> str | None:
        return next((name for name, (each, _) in self.by_name.items() if each == topic_id), None)

    def names(self) -> frozenset[str]:
        return frozenset(self.by_name)


class OffsetsShard:
    """Offsets and groups, and nobody who could join one."""

    def __init__(self, topics: FewTopics, config: GroupConfig) -> None:
        self.groups = Groups()
        self.offsets = GroupOffsets(self.groups, topics, config)

    def replay(self, record: GroupRecord, offset: int, producer: Producer | None) -> None:
        match record:
            case OffsetCommitted():
                self.offsets.replay_committed(record, offset, producer)
            case OffsetRemoved():
                self.offsets.replay_removed(record)
            case GroupMetadata():
                self.groups.replay_metadata(record)
            case GroupMetadataRemoved():
                self.groups.replay_removed(record.group_id)
            case _:
                raise AssertionError(record)

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        self.offsets.transaction_ended(producer_id, is_commit=is_commit)

    def loaded(self, moment: Moment) -> Generator[Outcome[GroupRecord], None, Outcome[GroupRecord]]:
        for _ in self.groups.finish_loading():
            yield Outcome()
        return Outcome(timers=[self.offsets.loaded(moment)])

    def expired(self, key: Hashable, moment: Moment) -> Outcome[GroupRecord]:
        # Sessions that commits keep alive may run out: members are not what is tested here.
        return self.offsets.sweep(key, moment) if key in SWEEP_TIMERS else Outcome()

    def unloaded(self) -> Outcome[GroupRecord]:
        return Outcome()

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Outcome[GroupRecord]:
        raise AssertionError("groups request no markers")


def offsets_bed(topics: FewTopics | None = None, **config: int) -> Bed[GroupRecord]:
    known = topics or FewTopics()
    return Bed(lambda: OffsetsShard(known, GroupConfig(**config)), group_records)


def one(topic: str, partition: int, offset: int, *, leader_epoch: int = -1, metadata: str | None = None) -> TopicCommit:
    return TopicCommit(topic, [PartitionCommit(partition, offset, leader_epoch, metadata)])


def plain(group_id: str, *topics: TopicCommit, **fields: int) -> OffsetCommit:
    return OffsetCommit(group_id, list(topics), **fields)  # type: ignore[arg-type]


def in_transaction(group_id: str, producer_id: int, *topics: TopicCommit, epoch: int = 0) -> TxnOffsetCommit:
    return TxnOffsetCommit(group_id, f"tx-{producer_id}", producer_id, epoch, list(topics))
