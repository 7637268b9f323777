"""A group of one that commits offsets and asks for them: what was acknowledged is what it goes on from, for ever."""

from collections.abc import Callable
from struct import Struct

from tests.simulation.client import Client
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Scheduler, Violated
from tests.simulation.sockets import Port
from tests.tools.raw_requests import framed

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
NOT_NOW = {7, 14, 15, 16, 56}
"""Timed out; the coordinator loads, is not there, or is somebody else."""
_I16, _I32, _I64 = Struct(">h"), Struct(">i"), Struct(">q")


def _text(text: str) -> bytes:
    return _I16.pack(len(text)) + text.encode()


def _one(partition: Partition, rest: bytes = b"") -> bytes:
    return _I32.pack(1) + _text(partition[0]) + _I32.pack(1) + _I32.pack(partition[1]) + rest


def find_group(group: str, correlation: int) -> bytes:
    """FindCoordinator 1 of a group."""
    return framed(FIND_COORDINATOR, 1, _text(group) + b"\x00", correlation)


def commit(group: str, partition: Partition, offset: int, correlation: int) -> bytes:
    """OffsetCommit 2 of somebody who is in no generation."""
    head = _text(group) + _I32.pack(-1) + _text("") + _I64.pack(-1)
    return framed(OFFSET_COMMIT, 2, head + _one(partition, _I64.pack(offset) + _text("")), correlation)


def fetch(group: str, partition: Partition, correlation: int) -> bytes:
    """OffsetFetch 1."""
    return framed(OFFSET_FETCH, 1, _text(group) + _one(partition), correlation)


def is_found(body: bytes) -> int:
    """The error of FindCoordinator."""
    return int(_I16.unpack_from(body, 4)[0])


class OffsetKeeper(Client):
    """Commits ever larger offsets of one partition, and asks now and then where it is."""

    def __init__(
        self, scheduler: Scheduler, port: Port, *, number: int, partition: Partition, commits: int, short_chance: float
    ) -> None:
        super().__init__(scheduler, port, f"keeper-{number}", short_chance=short_chance)
        self._group = f"group-{number}"
        self._partition = partition
        self._left = commits
        self._sent = 0
        self._acknowledged = 0
        self._lost: set[int] = set()
        """Commits whose answer was lost with the connection: they may come through at any time."""
        self._has_looked = False
        self._is_found = False
        self._counts = True
        """What it is about to be told."""

    @property
    def is_done(self) -> bool:
        """It has looked once more after the last commit."""
        return self._left <= 0 and self._has_looked and not self.open

    def step(self) -> None:
        if self.open or self.is_done:
            return
        if not self.reach():
            self.wake_in(50)
        elif not self._is_found:
            self._ask("find the group", lambda at: find_group(self._group, at), self._found)
        elif self._left > 0 and self.scheduler.random.random() < 0.7:
            self._left -= 1
            self._sent += 1
            offset = self._sent
            self._lost.add(offset)
            self._ask(
                f"commit {offset}",
                lambda at: commit(self._group, self._partition, offset, at),
                lambda body: self._committed(body, offset),
            )
        else:
            self._has_looked = False
            self._counts = self.knows_all()
            self._ask("fetch", lambda at: fetch(self._group, self._partition, at), self._fetched)

    def reach(self) -> bool:
        """Be connected to the coordinator; False while there is none."""
        if not self.is_connected:
            self.connect()
        return True

    def knows_all(self) -> bool:
        """Whether who is asked is the coordinator, and not one that has not heard that it was replaced."""
        return True

    def _ask(self, what: str, make: Callable[[int], bytes], take: Callable[[bytes], int]) -> None:
        def answered(body: bytes | None) -> None:
            error = take(body) if body is not None else 7
            self.note(f"{what}: error {error}")
            if error and error not in NOT_NOW:
                raise Violated(f"{self.name} got error {error}: {what}")
            self.wake_in(10 if error else self.scheduler.random.choice((0, 1, 50, 300)))

        self.ask(what, make, answered)

    def _found(self, body: bytes) -> int:
        error = is_found(body)
        self._is_found = not error
        return error

    def _committed(self, body: bytes, offset: int) -> int:
        error = int(_I16.unpack_from(body, len(body) - 2)[0])
        self._lost.discard(offset)
        if not error:
            self._acknowledged = offset
        return error

    def _fetched(self, body: bytes) -> int:
        error = int(_I16.unpack_from(body, len(body) - 2)[0])
        if not error and self._counts and self.knows_all():
            (offset,) = _I64.unpack_from(body, 4 + 2 + len(self._partition[0]) + 4 + 4)
            if not self._acknowledged <= max(0, offset) <= self._sent and offset not in self._lost:
                raise Violated(f"{self.name} is at {offset}: it was told {self._acknowledged}, and sent {self._sent}")
            self.note(f"is at {offset}")
            self._has_looked = self._left <= 0
        return error
