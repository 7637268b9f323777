"""The groups of one partition of `__consumer_offsets`, their protocols and their offsets, as one `Shard`.

It passes records, timers and requests to the object that handles them. Only the deletion of groups, which includes
their offsets, is decided here; handlers use the other objects directly.
"""

from collections.abc import Callable, Generator, Hashable, Iterable

from kafkad.core.coordinator.shard import Moment, Outcome, Producer
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.protocol import ClassicProtocol, GroupOutcome
from kafkad.core.groups.classic.step import first_names
from kafkad.core.groups.classic.timers import ClassicTimerKey
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.consumer.classic_members import ClassicInConsumer
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.fencing import Fencing
from kafkad.core.groups.consumer.protocol import ConsumerProtocol
from kafkad.core.groups.consumer.timers import ConsumerTimerKey
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.offsets.expiration import SWEEP_TIMERS
from kafkad.core.groups.offsets.offset_metadata import GroupOffsets
from kafkad.core.groups.records import (
    GroupMetadata,
    GroupMetadataRemoved,
    GroupRecord,
    OffsetCommitted,
    OffsetRemoved,
)
from kafkad.core.groups.registry import Groups


class GroupShard:
    """`new_id` returns a new unique text at each call, for member ids.

    `rebalanced` counts the new epochs of groups with the consumer protocol.
    """

    def __init__(
        self,
        config: GroupConfig,
        topics: Topics,
        new_id: Callable[[], str],
        consumer_config: ConsumerConfig,
        subscriptions: Subscriptions,
        rebalanced: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.groups = Groups()
        self.offsets = GroupOffsets(self.groups, topics, config)
        self._fencing = Fencing(self.groups, config, consumer_config, subscriptions)
        self._modern = ClassicInConsumer(consumer_config, subscriptions, self._fencing, new_id, rebalanced)
        self.classic = ClassicProtocol(self.groups, config, new_id, self._modern)
        self.consumer = ConsumerProtocol(
            self.groups, config, consumer_config, subscriptions, self._fencing, new_id, rebalanced
        )

    def configure(self, config: ConsumerConfig) -> None:
        """Apply new group settings."""
        self.consumer.config = self._modern.config = self._fencing.config = config

    # Called by the runtime.

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
                self.groups.replay_consumer(record)

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        self.offsets.transaction_ended(producer_id, is_commit=is_commit)

    def loaded(self, moment: Moment) -> Generator[GroupOutcome, None, GroupOutcome]:
        for _ in self.groups.finish_loading():
            yield Outcome()
        yield from self.classic.loaded(moment)
        yield from self.consumer.loaded(moment)
        return Outcome(timers=[self.offsets.loaded(moment)])

    def expired(self, key: Hashable, moment: Moment) -> GroupOutcome:
        if isinstance(key, ClassicTimerKey):
            return self.classic.expired(key, moment)
        if isinstance(key, ConsumerTimerKey):
            return self.consumer.expired(key, moment)
        if key in SWEEP_TIMERS:
            return self.offsets.sweep(key, moment)
        raise AssertionError(f"unknown timer {key!r}")

    def unloaded(self) -> GroupOutcome:
        return self.classic.unloaded()

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> GroupOutcome:
        raise AssertionError("groups request no markers")

    # Requests about groups and their offsets together.

    def delete_groups(self, group_ids: Iterable[str], token: int) -> GroupOutcome:
        """Replies with (group id, code) for each distinct id of the request."""
        outcome: Outcome[GroupRecord] = Outcome()
        results = []
        deleted = []
        for group_id in dict.fromkeys(group_ids):
            try:
                group = self.groups.find(group_id)
                group.check_delete()
            except KafkaError as error:
                results.append((group_id, error.code))
                continue
            outcome.records += self.offsets.removal_records(group_id)
            outcome.records += group.tombstones()
            deleted.append(group_id)
            results.append((group_id, ErrorCode.NONE))
        if deleted:
            outcome.log_lines.append(f"deleted {len(deleted)} group(s) on request: {first_names(deleted)}")
        outcome.replies.append((token, results))
        return outcome
