"""A shard of groups on the coordinator test bed, with one short method for each request of classic members."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from kafkad.adapters.patterns import compile_pattern
from kafkad.core.coordinator.batches import Replayed, unpack_batch
from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    Left,
    Synced,
    SyncGroup,
)
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.shard import GroupShard
from kafkad.plugins.group_assignors import Range, Uniform
from kafkad.wire.records import group_records
from tests.core.coordinator.memory_log import Bed
from tests.core.groups.offsets_bed import FewTopics

GROUP = "orders-service"
RANGE = (("range", b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"),)
SESSION_MS, REBALANCE_MS, DELAY_MS = 10_000, 60_000, 3_000


class ClassicBed(Bed[GroupRecord]):
    """Requests about the group `GROUP`, unless another is named. Each verb returns the token of its request."""

    def __init__(self, **config: int) -> None:
        self.topics = FewTopics()
        self.config = GroupConfig(**config)
        ids = count(1)
        self.consumer_config = ConsumerConfig(
            assignors={each.name: each for each in (Uniform(), Range())}, assignment_interval_ms=0
        )
        self.subscriptions = Subscriptions(self.topics, lambda: self.topics.version, compile_pattern)

        def shard() -> GroupShard:
            return GroupShard(
                self.config, self.topics, lambda: str(next(ids)), self.consumer_config, self.subscriptions, self._count
            )

        self.rebalances = 0

        super().__init__(shard, group_records)

    def _count(self) -> None:
        self.rebalances += 1

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        reason: str | None = None,
    ) -> int:
        def rule(caller: Caller) -> Outcome[GroupRecord]:
            request = JoinGroup(
                group_id=group_id,
                member_id=member_id,
                instance_id=instance_id,
                client_id=caller.context.client.client_id,
                client_host=caller.context.client_host,
                protocol_type=protocol_type,
                protocols=protocols,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                reason=reason,
                requires_known_member_id=version >= 4,
                can_skip_assignment=version >= 9,
            )
            outcome: Outcome[GroupRecord] = self.shard.classic.join(request, caller.token, self.moment)
            return outcome

        return self.ask(rule, version=version)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> int:
        request = SyncGroup(
            group_id=group_id,
            member_id=member_id,
            generation=generation,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=dict(assignments or {}),
        )
        return self.ask(lambda caller: self.shard.classic.sync(request, caller.token, self.moment))

    def ask_heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> int:
        request = Heartbeat(group_id=GROUP, member_id=member_id, generation=generation, instance_id=instance_id)
        return self.ask(lambda caller: self.shard.classic.heartbeat(request, caller.token, self.moment))

    def heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> ErrorCode:
        """The answer itself: it comes at once."""
        answer = self.answers[self.ask_heartbeat(member_id, generation, instance_id=instance_id)]
        assert isinstance(answer, ErrorCode), answer
        return answer

    def leave(self, *members: str | LeavingMember, group_id: str = GROUP) -> int:
        leaving = tuple(LeavingMember(member_id=each) if isinstance(each, str) else each for each in members)
        request = LeaveGroup(group_id=group_id, members=leaving)
        return self.ask(lambda caller: self.shard.classic.leave(request, caller.token, self.moment))

    # What came of it.

    def joined(self, token: int) -> Joined:
        answer = self.answers[token]
        assert isinstance(answer, Joined), answer
        return answer

    def synced(self, token: int) -> Synced:
        answer = self.answers[token]
        assert isinstance(answer, Synced), answer
        return answer

    def left(self, token: int) -> Left:
        answer = self.answers[token]
        assert isinstance(answer, Left), answer
        return answer

    @property
    def group(self) -> ClassicGroup:
        return self.shard.groups.find_classic(GROUP)  # type: ignore[no-any-return]

    @property
    def state(self) -> str:
        return self.group.state_name

    def written(self) -> list[GroupRecord]:
        """The records of groups in the log."""
        return [
            row.record
            for batch in self.log.batches()
            for row in unpack_batch(batch, group_records.decode)
            if isinstance(row, Replayed)
        ]

    def mirror(self) -> Iterator[GroupShard]:
        """Another shard, which at each look has come as far as the log."""
        shard = GroupShard(self.config, self.topics, lambda: "", self.consumer_config, self.subscriptions)
        assert not list(shard.groups.finish_loading())
        read = 0
        while True:
            for batch in self.log.written[read:]:
                for row in unpack_batch(memoryview(batch), group_records.decode):
                    if isinstance(row, Replayed):
                        shard.replay(row.record, row.offset, row.producer)
            read = len(self.log.written)
            yield shard

    # Short ways to where a test begins.

    def member(self, instance_id: str | None = None, *, version: int = 9, **join: object) -> tuple[str, int]:
        """A new member's id, and the token of its join, which waits."""
        token = self.join(instance_id=instance_id, version=version, **join)  # type: ignore[arg-type]
        if instance_id is None and version >= 4:
            member_id = self.joined(token).member_id
            return member_id, self.join(member_id, version=version, **join)  # type: ignore[arg-type]
        return next(each.member_id for each in self.group.members.values() if each.join_token == token), token

    def stable(self, size: int = 2, *, instance_ids: Sequence[str | None] = ()) -> list[str]:
        """A stable group of generation 1; the first of the members leads."""
        ids = instance_ids or [None] * size
        members = [self.member(instance_id) for instance_id in ids]
        self.advance(DELAY_MS * 2)
        generation = self.joined(members[0][1]).generation
        leader = self.joined(members[0][1]).leader
        assignments = {member_id: f"for {member_id}".encode() for member_id, _ in members}
        tokens = [
            self.sync(member_id, generation, assignments if member_id == leader else None) for member_id, _ in members
        ]
        assert all(self.synced(token).code is ErrorCode.NONE for token in tokens)
        assert self.state == "Stable"
        return [leader] + [member_id for member_id, _ in members if member_id != leader]
