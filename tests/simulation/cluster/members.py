"""Members of a classic group that share partitions, commit what they have read, fall silent, and leave.

Each partition has one owner in a generation; once a generation has committed, none before it does; who gets a partition
goes on from what was acknowledged; and in the end all are in one generation that owns everything.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.cluster import member_requests
from tests.simulation.cluster.clients import Coordinated
from tests.simulation.cluster.forwarder import Leads
from tests.simulation.offsets import NOT_NOW, find_group, is_found
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Violated

ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED = 22, 25, 27, 79
SESSION_MS = 2_000
NAPS_MS = (20, 100, 100, 400, 400, 3_000)
"""The last is longer than the session."""


class Group:
    """What its members know together."""

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.members: list[ClusterMember] = []
        self._owners: dict[tuple[int, Partition], str] = {}
        self.newest = -1
        """The newest generation of which a commit was acknowledged."""
        self._sent = dict.fromkeys(partitions, 0)
        self._acknowledged = dict.fromkeys(partitions, 0)
        self._lost: set[tuple[Partition, int]] = set()
        """Commits whose answer was lost with the connection: they may come through later."""

    def claim(self, member: str, generation: int, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            if owner != member:
                raise Violated(f"{partition} belongs to {owner} and {member} in generation {generation}")

    def next_offset(self, partition: Partition) -> int:
        self._sent[partition] += 1
        self._lost.add((partition, self._sent[partition]))
        return self._sent[partition]

    def answered(
        self, member: str, generation: int, partition: Partition, offset: int, *, newest: int, error: int
    ) -> None:
        """`newest` was the newest generation that had committed when the commit was sent."""
        self._lost.discard((partition, offset))
        if error:
            return
        if generation < newest:
            raise Violated(f"{member} commits in generation {generation}, after generation {newest} has committed")
        self.newest = max(self.newest, generation)
        self._acknowledged[partition] = max(offset, self._acknowledged[partition])

    def found(self, member: str, partition: Partition, offset: int, acknowledged: int) -> None:
        """`acknowledged` was so when it was asked."""
        if not acknowledged <= max(0, offset) <= self._sent[partition] and (partition, offset) not in self._lost:
            raise Violated(f"{member} goes on from {offset} of {partition}, {acknowledged} was committed")

    def acknowledged(self, partition: Partition) -> int:
        return self._acknowledged[partition]

    @property
    def is_settled(self) -> bool:
        """Everybody has committed all it wanted to, and has a heartbeat of the same generation, which owns all."""
        generations = {each.generation if each.is_stable else -1 for each in self.members}
        if len(generations) > 1 or -1 in generations or any(each.left for each in self.members):
            return False
        return all((*generations, partition) in self._owners for partition in self.partitions)


class ClusterMember(Coordinated):
    """One request at a time. It goes on with heartbeats when it is done."""

    def __init__(self, *args: Any, group: Group, coordinator: Partition, leads: Leads, commits: int, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._group = group
        group.members.append(self)
        self.coordinator, self._leads = coordinator, leads
        self.left = commits
        self.generation, self.is_stable = -1, False
        self._id = ""
        self._owned: list[Partition] = []
        self._unread: list[Partition] = []
        self._next: Callable[[], None] = self._find

    @property
    def is_done(self) -> bool:
        return self._group.is_settled

    def step(self) -> None:
        if not self.open:
            self._next()

    def _then(self, what: Callable[[], None], delay_ms: float = 0.0) -> None:
        self._next = what
        self.wake_in(delay_ms)

    def _ask(
        self, what: str, make: Callable[[int], bytes], take: Callable[[bytes], int], tick: Callable[[], None]
    ) -> None:
        again = self._next
        if not self.reach():
            self._then(again, 50)
            return

        def answered(body: bytes | None) -> None:
            error = take(body) if body is not None else 7
            self.note(f"{what}: error {error}")
            if error == 0:
                tick()
            elif error in NOT_NOW:
                self._then(again, 10)
            elif error in (ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED):
                self._join_anew(keeps_id=error != UNKNOWN_MEMBER)
            else:
                raise Violated(f"{self.name} got error {error}: {what}")

        self.ask(what, make, answered)

    def _join_anew(self, *, keeps_id: bool) -> None:
        self.is_stable, self._owned = False, []
        self._id = self._id if keeps_id else ""
        self._then(self._join, 5)

    def _find(self) -> None:
        def tick() -> None:
            self._then(self._join)

        self._ask("find the group", lambda at: find_group(self._group.name, at), is_found, tick)

    def _join(self) -> None:
        joined: list[member_requests.Joined] = []

        def take(body: bytes) -> int:
            joined.append(member_requests.read_joined(body))
            return joined[0].error

        def tick() -> None:
            self.generation, self._id = joined[0].generation, joined[0].member
            members = joined[0].members if joined[0].leader == self._id else []
            self._then(lambda: self._sync(members))

        self._ask("join", lambda at: member_requests.join(self._group.name, self._id, SESSION_MS, at), take, tick)

    def _sync(self, members: list[str]) -> None:
        shares: dict[str, list[int]] = {member: [] for member in members}
        for at, (_, number) in enumerate(self._group.partitions if members else ()):
            shares[members[at % len(members)]].append(number)
        mine: list[Partition] = []

        def take(body: bytes) -> int:
            error, numbers = member_requests.read_synced(body)
            mine.extend(partition for partition in self._group.partitions if partition[1] in numbers)
            return error

        def tick() -> None:
            self._group.claim(self.name, self.generation, mine)
            self._owned, self._unread = list(mine), list(mine)
            self._then(self._work)

        what = f"sync generation {self.generation}"
        self._ask(
            what, lambda at: member_requests.sync(self._group.name, self.generation, self._id, shares, at), take, tick
        )

    def _work(self) -> None:
        random = self.scheduler.random
        if self._unread:
            self._read_offset(self._unread[-1])
        elif self.left and self._owned and random.random() < 0.6:
            self.left -= 1
            self._commit(random.choice(self._owned))
        elif self.left and random.random() < 0.05:
            self._ask(
                "leave",
                lambda at: member_requests.leave(self._group.name, self._id, at),
                member_requests.read_error,
                lambda: self._join_anew(keeps_id=False),
            )
        else:
            self.left = self.left if self._owned else 0
            self._heartbeat()

    def _heartbeat(self) -> None:
        def tick() -> None:
            self.is_stable = True
            self._then(self._work, self.scheduler.random.choice(NAPS_MS if self.left else NAPS_MS[:-1]))

        self._ask(
            f"heartbeat of generation {self.generation}",
            lambda at: member_requests.heartbeat(self._group.name, self.generation, self._id, at),
            member_requests.read_error,
            tick,
        )

    def _commit(self, partition: Partition) -> None:
        group, generation, newest = self._group, self.generation, self._group.newest
        offset = group.next_offset(partition)

        def take(body: bytes) -> int:
            error = member_requests.read_committed(body)
            group.answered(self.name, generation, partition, offset, newest=newest, error=error)
            return error

        self._ask(
            f"commit {offset} of {partition} in generation {generation}",
            lambda at: member_requests.commit(group.name, generation, self._id, partition, offset, at),
            take,
            lambda: self._then(self._work, self.scheduler.random.choice(NAPS_MS)),
        )

    def _read_offset(self, partition: Partition) -> None:
        group, counts, acknowledged = self._group, False, self._group.acknowledged(partition)

        def take(body: bytes) -> int:
            error, offset = member_requests.read_offset(body, partition)
            if not error and counts and self._leads(self._port, self.coordinator):
                group.found(self.name, partition, offset, acknowledged)
            return error

        def tick() -> None:
            self._unread.remove(partition)
            self._then(self._work)

        self._ask(f"fetch {partition}", lambda at: member_requests.offset(group.name, partition, at), take, tick)
        counts = self._leads(self._port, self.coordinator)
