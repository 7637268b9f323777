"""Members of a classic group that behave like clients: they join, sync and assign, and fail to in every way.

Each step of a client looks for an answer, and does what a real client does next. The test bed checks for answers that a
client must never get.
"""

from enum import Enum
from random import Random

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Joined, LeavingMember, Synced
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import ClassicBed

PARTITIONS = 7
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
PROTOCOLS = (
    (("range", SUBSCRIPTION),),
    (("range", SUBSCRIPTION), ("sticky", b"s")),
    (("sticky", b"s"), ("range", SUBSCRIPTION)),
    (("range", SUBSCRIPTION + b"\0"), ("sticky", b"t")),
)
TRY_AGAIN = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""The last is what becomes of a record that is too large."""


class Doing(Enum):
    """What a client waits for. GONE clients never act again."""

    NOTHING = "nothing"
    JOIN_EPOCH = "joining"
    SYNCING = "syncing"
    CONSUMING = "consuming"
    GONE = "gone"


class WatchedBed(ClassicBed):
    """What members are told, in one incarnation of the coordinator after the other; fails when it must not be told."""

    def __init__(self, **config: int) -> None:
        self.incarnation = 0
        self.owners: dict[tuple[int, int], str] = {}
        self.leaders: dict[tuple[int, int], str] = {}
        super().__init__(**config)

    def start(self) -> None:
        self.incarnation += 1
        super().start()

    def reply(self, token: int, reply: object) -> None:
        super().reply(token, reply)
        if isinstance(reply, Joined) and reply.members and not reply.skip_assignment:
            # A generation that was not written may be made again after a restart, with another leader.
            other = self.leaders.setdefault((self.incarnation, reply.generation), reply.member_id)
            assert other == reply.member_id, f"{other} and {reply.member_id} both lead {reply.generation}"

    def has_assignment(self, generation: int, who: str, partitions: bytes) -> None:
        """A client says what it owns now."""
        for partition in partitions:
            other = self.owners.setdefault((generation, partition), who)
            assert other == who, f"{other} and {who} both own {partition} in generation {generation}"


class Client:
    """`name` stays the same over restarts of a static member; `version` is that of its JoinGroup."""

    def __init__(self, bed: WatchedBed, random: Random, name: str, *, is_static: bool) -> None:
        self.bed = bed
        self.random = random
        self.name = name
        self.instance_id = name if is_static else None
        self.version = random.choice((2, 4, 8, 9)) if not is_static else random.choice((5, 9))
        self.protocols = random.choice(PROTOCOLS)
        self.member_id = ""
        self.generation = -1
        self.doing = Doing.NOTHING
        self.token = -1
        self.assignment = b""

    @property
    def is_settled(self) -> bool:
        return self.doing is Doing.CONSUMING

    def step(self) -> None:
        """One turn of the client's loop."""
        match self.doing:
            case Doing.NOTHING:
                self._join()
            case Doing.JOIN_EPOCH if self.token in self.bed.answers:
                self._hear_join(self.bed.answers[self.token])
            case Doing.SYNCING if self.token in self.bed.answers:
                self._hear_sync(self.bed.answers[self.token])
            case Doing.JOIN_EPOCH | Doing.SYNCING if self.token not in self.bed.asked:
                # The coordinator was restarted: the connection broke.
                self._join()
            case Doing.SYNCING | Doing.CONSUMING:
                self._heartbeat()

    def change(self) -> None:
        """It wants something else now, and says so."""
        if self.doing is Doing.CONSUMING:
            self.protocols = self.random.choice(PROTOCOLS)
            self._join()

    def restart(self) -> None:
        """The client's process is killed and started again, without what it knew."""
        self.member_id, self.generation, self.doing = "", -1, Doing.NOTHING

    def repeat(self) -> None:
        """Its request timed out, so it asks again on another connection."""
        if self.doing is Doing.JOIN_EPOCH:
            self._join()
        elif self.doing is Doing.SYNCING:
            self._sync(self._own_share_of_nothing)

    def leave(self) -> None:
        if self.member_id or self.instance_id:
            self.bed.leave(LeavingMember(member_id=self.member_id, instance_id=self.instance_id))
        self.doing = Doing.GONE

    def vanish(self) -> None:
        self.doing = Doing.GONE

    # Requests.

    def _join(self) -> None:
        self.token = self.bed.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=self.protocols,
            session_ms=6_000,
            rebalance_ms=self.random.choice((8_000, 9_000)),
            version=self.version,
        )
        self.doing = Doing.JOIN_EPOCH

    def _sync(self, shares: dict[str, bytes]) -> None:
        self.token = self.bed.sync(self.member_id, self.generation, shares, instance_id=self.instance_id)
        self.doing = Doing.SYNCING

    @property
    def _own_share_of_nothing(self) -> dict[str, bytes]:
        return {self.member_id: b""}

    def _heartbeat(self) -> None:
        request = self.bed.ask_heartbeat(self.member_id, self.generation, instance_id=self.instance_id)
        answer = self.bed.answers.get(request)
        if not isinstance(answer, ErrorCode) or self.doing is not Doing.CONSUMING:
            return
        match answer:
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                self._join()
            case ErrorCode.FENCED_INSTANCE_ID:
                self.doing = Doing.GONE
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            case _:
                raise AssertionError(answer)

    # Answers.

    def _hear_join(self, answer: object) -> None:
        self.doing = Doing.NOTHING
        if isinstance(answer, Refused):
            return
        assert isinstance(answer, Joined)
        match answer.code:
            case ErrorCode.NONE:
                self._hear_joined(answer)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                if self.random.random() < 0.05:
                    self.doing = Doing.GONE
            case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                self.doing = Doing.GONE
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            case code:
                assert code in TRY_AGAIN, answer

    def _hear_joined(self, answer: Joined) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation
        shares: dict[str, bytes] = {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            members = [each.member_id for each in answer.members]
            assert self.member_id in members
            for at, member_id in enumerate(members):
                shares[member_id] = bytes(range(at, PARTITIONS, len(members)))
        self._sync(shares)

    def _hear_sync(self, answer: object) -> None:
        self.doing = Doing.NOTHING
        if isinstance(answer, Refused):
            return
        assert isinstance(answer, Synced)
        match answer.code:
            case ErrorCode.NONE:
                self.doing, self.assignment = Doing.CONSUMING, answer.assignment
                self.bed.has_assignment(self.generation, self.name, answer.assignment)
            case ErrorCode.FENCED_INSTANCE_ID:
                self.doing = Doing.GONE
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            case code:
                assert code in (*TRY_AGAIN, ErrorCode.ILLEGAL_GENERATION), answer

    def _forget(self) -> None:
        self.member_id, self.generation, self.doing = "", -1, Doing.NOTHING
