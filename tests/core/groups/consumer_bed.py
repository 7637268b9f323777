"""Members of KIP-848 groups on the coordinator test bed: each behaves like a client, one heartbeat at a time."""

from dataclasses import replace
from uuid import UUID

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.assignors import NOTHING, Assignment
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import ClassicBed

GROUP = "modern-service"
REBALANCE_MS = 30_000
RETRY = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
BEGIN_ANEW = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class ConsumerBed(ClassicBed):
    """`say` sends one heartbeat and gives its answer, which comes at once."""

    def divide_once_in(self, interval_ms: int) -> None:
        """Kafka's default is 1,000 ms; other tests divide whenever there is a reason."""
        self.consumer_config = replace(self.consumer_config, assignment_interval_ms=interval_ms)
        self.crash()

    def say(self, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        answer = self.try_to_say(heartbeat)
        assert answer is not None, "the log has refused it"
        return answer

    def try_to_say(self, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeatReply | None:
        """None: the log has refused what it led to."""
        token = self.ask(lambda asked: self.shard.consumer.heartbeat(heartbeat, asked.token, self.moment))
        answer = self.answers[token]
        assert isinstance(answer, ConsumerHeartbeatReply | Refused), answer
        return None if isinstance(answer, Refused) else answer

    @property
    def consumers(self) -> ConsumerGroup:
        return self.consumers_of(GROUP)

    def consumers_of(self, group_id: str) -> ConsumerGroup:
        group: ConsumerGroup = self.shard.consumer.find(group_id)
        return group


class Client:
    """One consumer. `owned` is what it reads now; `slow` clients do not give up what they are asked to."""

    def __init__(
        self,
        bed: ConsumerBed,
        member_id: str,
        *topics: str,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        group_id: str = GROUP,
    ) -> None:
        self.bed = bed
        self.member_id = member_id
        self.topics = topics
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.group_id = group_id
        self.epoch = 0
        self.owned: Assignment = NOTHING
        self.asked: Assignment = NOTHING
        self.is_slow = False
        self.taken_late: set[tuple[UUID, int]] = set()
        """Partitions taken up although an answer was lost, which may have taken them away again."""
        self._misses_an_answer = False
        self.last: ConsumerHeartbeatReply = ConsumerHeartbeatReply()
        self._says_all = True

    def first(self) -> ConsumerHeartbeat:
        """What it says when it joins."""
        return ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=self.topics,
            owned=NOTHING,
        )

    def beat(self, *, lose_answer: bool = False) -> ConsumerHeartbeatReply:
        """One heartbeat, and what the client does about the answer."""
        heard = self.try_beat(lose_answer=lose_answer)
        assert heard is not None, "the log has refused it"
        return heard

    def try_beat(self, *, lose_answer: bool = False) -> ConsumerHeartbeatReply | None:
        """The same where the log may refuse it, which the client says all again for."""
        if not self.is_slow:
            if self._misses_an_answer:
                self.taken_late |= _partitions(self.asked) - _partitions(self.owned)
            self.owned = self.asked
            self.taken_late &= _partitions(self.owned)
        says_all, self._says_all = self._says_all or self.epoch == 0, False
        heard = self.bed.try_to_say(
            ConsumerHeartbeat(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                instance_id=self.instance_id,
                rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
                topics=self.topics if says_all else None,
                regex=self.regex if says_all else None,
                assignor=self.assignor if says_all else None,
                owned=self.owned,
            )
        )
        if lose_answer or heard is None:
            self._says_all = True
            self._misses_an_answer |= heard is not None
            return heard
        self._misses_an_answer = False
        self._hear(heard)
        self.taken_late -= _partitions(self.asked)
        return heard

    def _hear(self, heard: ConsumerHeartbeatReply) -> None:
        self.last = heard
        if heard.code in BEGIN_ANEW:
            self.epoch, self.owned, self.asked, self._says_all = 0, NOTHING, NOTHING, True
        elif heard.code is ErrorCode.NONE:
            self.epoch = heard.member_epoch
            if heard.assignment is not None:
                self.asked = heard.assignment
        elif heard.code not in RETRY and heard.code is not ErrorCode.UNRELEASED_INSTANCE_ID:
            raise AssertionError(heard)

    def subscribe(self, *topics: str) -> None:
        self.topics, self._says_all = topics, True

    def leave(self, *, for_now: bool = False) -> ConsumerHeartbeatReply:
        heard = self.try_to_leave(for_now=for_now)
        assert heard is not None, "the log has refused it"
        return heard

    def try_to_leave(self, *, for_now: bool = False) -> ConsumerHeartbeatReply | None:
        heartbeat = ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=STATIC_LEAVE_EPOCH if for_now else LEAVE_EPOCH,
            instance_id=self.instance_id,
        )
        self.epoch, self.owned, self.asked = 0, NOTHING, NOTHING
        return self.bed.try_to_say(heartbeat)

    @property
    def size(self) -> int:
        return sum(map(len, self.asked.values()))


def _partitions(assignment: Assignment) -> set[tuple[UUID, int]]:
    return {(topic, index) for topic, indexes in assignment.items() for index in indexes}


def settle(*clients: Client, rounds: int = 8) -> None:
    """Everybody beats until nothing changes any more."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
