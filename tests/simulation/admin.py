"""Two who change things: one makes, fills, reads and deletes a topic again and again, one deletes records.

A topic that was made anew under its old name must not have anything of what was acknowledged before.
"""

from collections.abc import Callable, Set
from typing import ClassVar

from tests.simulation import requests
from tests.simulation.client import Client
from tests.simulation.requests import Partition
from tests.simulation.scheduler import Scheduler, Violated
from tests.simulation.sockets import Port
from tests.simulation.truth import Truth, make_batch, origins, topic_mark, whole_batches
from tests.tools.raw_requests import produce, read_produced

ALREADY_EXISTS, UNKNOWN_TOPIC, TIMED_OUT, NOT_CONTROLLER = 36, 3, 7, 41
INTERRUPTED = -1
"""The controller died while it handled the request, which may have been carried out."""
OUT_OF_RANGE = 1
NOT_NOW = {3, 5, 6, 7, 9, 56}


class TopicMaker(Client):
    """Goes round: create, produce, read back, delete."""

    acks = 1
    replication_factor = 1
    not_now: ClassVar[Set[int]] = NOT_NOW
    not_created: ClassVar[Set[int]] = {TIMED_OUT, NOT_CONTROLLER, INTERRUPTED}
    leaves_slowly = False
    """The answer to a deletion says that it has begun; until it is over the name is taken."""
    patience_ns = 0
    """How long what was acknowledged may take to be seen."""

    def __init__(
        self, scheduler: Scheduler, port: Port, *, topic: str, partitions: int, rounds: int, short_chance: float
    ) -> None:
        super().__init__(scheduler, port, f"maker-{topic}", short_chance=short_chance)
        self.topic = topic
        self._partitions = partitions
        self._rounds_left = rounds
        self._next: Callable[[], None] = self._create
        self._generation = 0
        self._number = 0
        self._acknowledged: dict[int, dict[int, int]] = {}
        """Offset by number, by partition, in this generation."""
        self._known_dead: set[int] = set()
        """Numbers that were acknowledged in earlier generations."""
        self._to_produce = 0
        self._lost_deletions = 0
        """So many may still happen, at any time."""
        self._may_be_leaving = False
        """The name was taken when we wanted it: by a topic of ours, or by one whose deletion is not over."""
        self._lost_creations = 0
        self._reading_since_ns = 0

    @property
    def is_done(self) -> bool:
        return self._rounds_left <= 0 and not self.open

    def step(self) -> None:
        if self.open or self.is_done:
            return
        if not self.is_connected:
            self.connect()
        self._next()

    def _then(self, what: Callable[[], None], delay_ms: float = 0.0) -> None:
        self._next = what
        self.wake_in(delay_ms)

    def _create(self) -> None:
        def answered(body: bytes | None) -> None:
            error = requests.read_created(body) if body is not None else TIMED_OUT
            self.note(f"creating {self.topic}: error {error}")
            self._lost_creations += error in (TIMED_OUT, INTERRUPTED)
            if error in (0, ALREADY_EXISTS):
                self._generation += 1
                self._may_be_leaving = error == ALREADY_EXISTS
                self._acknowledged = {at: {} for at in range(self._partitions)}
                self._to_produce = self.scheduler.random.choice((0, 1, 4))
                self._then(self._produce)
            elif error in self.not_created:
                self._then(self._create, 20)
            else:
                raise Violated(f"{self.name} got error {error} for creating {self.topic}")

        self.ask(f"create {self.topic}", self._creation, answered)

    def _creation(self, correlation: int) -> bytes:
        return requests.create_topic(self.topic, self._partitions, {}, correlation, self.replication_factor)

    def refused(self, error: int) -> None:
        """Somebody else is to be asked, perhaps."""

    def _produce(self) -> None:
        if self._to_produce <= 0:
            self._reading_since_ns = self.scheduler.now_ns
            self._then(self._read_back)
            return
        self._to_produce -= 1
        at = self.scheduler.random.randrange(self._partitions)
        partition, number = (self.topic, at), self._number
        self._number += 1
        data = make_batch(self._generation, partition, range(number, number + 1), self.scheduler.wall_ms, 20)

        def answered(body: bytes | None) -> None:
            error, offset = read_produced(body)[partition] if body is not None else (TIMED_OUT, -1)
            self.note(f"{number} to {partition}: error {error}, offset {offset}")
            if error == 0:
                self._acknowledged[at][number] = offset
            elif error not in self.not_now:
                raise Violated(f"{self.name} got error {error} for a produce to {partition}")
            self._then(self._produce, 10 if error else 0)
            self.refused(error)

        self.ask(
            f"produce {number} to {partition}",
            lambda n: produce({partition: data}, acks=self.acks, correlation=n),
            answered,
        )

    def _read_back(self) -> None:
        offsets: dict[Partition, int] = {(self.topic, at): 0 for at in range(self._partitions)}

        def answered(body: bytes | None) -> None:
            reply = requests.read_fetched(body) if body is not None else None
            if reply is None or any(found.error for found in reply.partitions.values()):
                errors = {found.error for found in reply.partitions.values()} if reply is not None else set()
                self.note(f"reading {self.topic}: errors {errors}")
                if errors - self.not_now - {0}:
                    raise Violated(f"{self.name} got {errors} for reading {self.topic} from its start")
                is_gone = UNKNOWN_TOPIC in errors and (self._lost_deletions or self._may_be_leaving)
                self._then(self._create if is_gone else self._read_back, 50)
                for error in errors:
                    self.refused(error)
                return
            missing = [row for (_, at), found in reply.partitions.items() for row in self._missing(at, found.records)]
            if missing and self.scheduler.now_ns >= self._reading_since_ns + self.patience_ns:
                raise Violated(f"{self.topic}: {missing} were acknowledged, and can't be read")
            self._then(self._read_back if missing else self._delete, 50 if missing else 0)

        self.ask(
            f"read {self.topic}",
            lambda n: requests.fetch(offsets, n, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20),
            answered,
        )

    def _missing(self, at: int, records: bytes) -> list[tuple[int, int]]:
        """The partition and the number of each record that was acknowledged and is not among `records`."""
        found: dict[int, int] = {}
        for base, _, batch in whole_batches(records):
            for offset, origin in enumerate(origins(batch), base):
                if (origin.topic, origin.partition) != (topic_mark(self.topic), at):
                    raise Violated(f"{self.topic}-{at} has a record of another partition at {offset}")
                if origin.number in self._known_dead and not (self._may_be_leaving and self.leaves_slowly):
                    raise Violated(f"{self.topic}-{at} has record {origin.number} of a topic that was deleted")
                found[origin.number] = offset
        if self._lost_deletions or (self._may_be_leaving and self._lost_creations):
            return []
        for number, offset in self._acknowledged[at].items():
            if found.get(number, offset) != offset:
                raise Violated(f"{self.topic}-{at}: {number} was acknowledged at {offset}, it is at {found[number]}")
        return [(at, number) for number in self._acknowledged[at] if number not in found]

    def _delete(self) -> None:
        def answered(body: bytes | None) -> None:
            error = requests.read_deleted(body) if body is not None else TIMED_OUT
            self.note(f"deleting {self.topic}: error {error}")
            self._lost_deletions += body is None
            if error in (0, UNKNOWN_TOPIC):
                self._known_dead.update(number for rows in self._acknowledged.values() for number in rows)
                self._rounds_left -= 1
                self._then(self._create)
            elif error in (TIMED_OUT, NOT_CONTROLLER, INTERRUPTED):
                self._then(self._delete, 20)
            else:
                raise Violated(f"{self.name} got error {error} for deleting {self.topic}")

        self.ask(f"delete {self.topic}", lambda at: requests.delete_topic(self.topic, at), answered)


class RecordDeleter(Client):
    """Deletes what is old in its partitions, now and then."""

    def __init__(
        self, scheduler: Scheduler, port: Port, truth: Truth, *, partitions: list[Partition], times: int
    ) -> None:
        super().__init__(scheduler, port, "deleter")
        self._truth = truth
        self._partitions = partitions
        self._left = times

    @property
    def is_done(self) -> bool:
        return self._left <= 0 and not self.open

    def step(self) -> None:
        if self.open or self.is_done:
            return
        if not self.is_connected:
            self.connect()
        random = self.scheduler.random
        self._left -= 1
        partition = random.choice(self._partitions)
        truth = self._truth.of(partition)
        offset = random.randint(truth.deleted_up_to, max(truth.deleted_up_to, truth.acknowledged_end))
        truth.deleted_up_to = offset

        def answered(body: bytes | None) -> None:
            if body is not None:
                error, low_watermark = requests.read_records_deleted(body)
                self.note(f"deleting up to {offset} of {partition}: error {error}, {low_watermark}")
                if error and error not in NOT_NOW:
                    raise Violated(f"{self.name} got error {error} for deleting up to {offset} of {partition}")
                if not error and low_watermark < offset:
                    raise Violated(f"{partition} begins at {low_watermark} after deleting up to {offset}")
            self.wake_in(random.choice((1, 30, 300)))

        self.ask(
            f"delete records up to {offset} of {partition}",
            lambda at: requests.delete_records(partition, offset, at),
            answered,
        )
