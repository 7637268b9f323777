"""A producer as Kafka's are: batches in sequence, several requests in flight, what failed is sent again in order.

Retries of a partition begin when nothing of it is under way any more, from the first batch that was not
acknowledged, cut as it was before: so the broker can recognize what it has.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from kafkad.core.errors import ErrorCode
from tests.simulation import requests
from tests.simulation.client import Client
from tests.simulation.compacted import COMPACTED
from tests.simulation.requests import Partition
from tests.simulation.scheduler import MS, Scheduler, Violated
from tests.simulation.sockets import Port
from tests.simulation.truth import Truth, make_batch
from tests.tools.raw_requests import produce, read_produced

IN_FLIGHT = 5
RETRY_MS = 20
OUT_OF_ORDER = 45
MOST_REFUSALS = 3
RETRIABLE = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    56: "KAFKA_STORAGE_ERROR",
}


class Delivery(Enum):
    """What a producer wants, and what may become of its records."""

    EXACTLY_ONCE = "idempotent"
    AT_LEAST_ONCE = "acks=1 with retries"
    AT_MOST_ONCE = "acks=1 without retries"
    UNANSWERED = "acks=0"


RETRIES = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE)


@dataclass(slots=True, eq=False)
class Batch:
    """Numbers that travel together, whatever happens."""

    numbers: range
    data: bytes
    made_ms: int
    refusals: int = 0
    """So often it was out of order although it was alone."""


class Lane:
    """What a producer has for one partition."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.unsent: deque[Batch] = deque()
        self.unacknowledged: list[Batch] = []
        self.under_way = 0
        self.has_failed = False
        self.next_number = 0
        self.wait_until_ns = 0
        self.is_known = False
        """The broker has taken something of ours."""

    def rewind(self) -> None:
        """Begin again, once nothing is under way."""
        if self.has_failed and not self.under_way:
            self.has_failed = False
            self.unsent.extendleft(reversed([batch for batch in self.unacknowledged if batch not in self.unsent]))
            self.unacknowledged.clear()

    def may_send(self, now_ns: int) -> bool:
        """The first batch goes alone: were it refused and the next one not, a broker that has never heard of the
        producer would begin with the second, as Apache Kafka does, and never take the first."""
        if self.has_failed or now_ns < self.wait_until_ns:
            return False
        return self.under_way < (IN_FLIGHT if self.is_known else 1)


class Producer(Client):
    """Sends `batches` batches over its partitions, then is done."""

    def __init__(
        self,
        scheduler: Scheduler,
        port: Port,
        truth: Truth,
        *,
        number: int,
        partitions: list[Partition],
        batches: int,
        delivery: Delivery,
        acks: int,
        largest_record: int,
        short_chance: float,
    ) -> None:
        super().__init__(scheduler, port, f"producer-{number}", short_chance=short_chance)
        self.number = number
        self.delivery = delivery
        self._truth = truth
        self._acks = 0 if delivery is Delivery.UNANSWERED else acks
        self._lanes = [Lane(partition) for partition in partitions]
        self._batches_left = batches
        self._largest_record = largest_record
        self._producer_id = -1
        self._asked_for_id = False

    @property
    def is_done(self) -> bool:
        return not self._batches_left and not any(
            lane.unsent or lane.unacknowledged or lane.under_way for lane in self._lanes
        )

    def step(self) -> None:
        if not self.is_connected:
            if self.is_done:
                return
            self.connect()
        if self.delivery is Delivery.EXACTLY_ONCE and self._producer_id < 0:
            self._ask_for_id()
            return
        random = self.scheduler.random
        for _ in range(random.randint(1, 3)):
            self._send()
        if not self.is_done:
            self.wake_in(random.choice((0, 0, 0.1, 1, 5, 40, 400) if self._batches_left else (RETRY_MS,)))
        if random.random() < 0.01:
            self.note("hangs up")
            self.hang_up()

    def _ask_for_id(self) -> None:
        if not self._asked_for_id:
            self._asked_for_id = True
            self.ask("InitProducerId", requests.init_producer_id, self._got_id)

    def _got_id(self, body: bytes | None) -> None:
        self._asked_for_id = False
        if body is not None:
            error, producer_id = requests.read_producer_id(body)
            # The controller may be dead for too long, or have died of this request, for all that anybody knows.
            if error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                raise Violated(f"{self.name} got error {error} instead of a producer id")
            self._producer_id = -1 if error else producer_id
        self.wake_in(1)

    def _send(self) -> None:
        """One request with a batch each for some partitions."""
        random = self.scheduler.random
        free = [lane for lane in self._lanes if lane.may_send(self.scheduler.now_ns)]
        chosen = random.sample(free, min(len(free), random.choice((1, 1, 2, 3))))
        rows: dict[Partition, tuple[Lane, Batch]] = {}
        for lane in chosen:
            if not lane.unsent and self._batches_left:
                self._batches_left -= 1
                lane.unsent.append(self._make(lane))
            if lane.unsent:
                batch = lane.unsent.popleft()
                lane.unacknowledged.append(batch)
                lane.under_way += 1
                rows[lane.partition] = lane, batch
        if rows:
            self._send_rows(rows)

    def _make(self, lane: Lane) -> Batch:
        random = self.scheduler.random
        numbers = range(lane.next_number, lane.next_number + random.choice((1, 1, 2, 5)))
        lane.next_number = numbers.stop
        self._truth.of(lane.partition).made(self.number, numbers)
        is_idempotent = self.delivery is Delivery.EXACTLY_ONCE
        data = make_batch(
            self.number,
            lane.partition,
            numbers,
            self.scheduler.wall_ms,
            random.choice((0, 10, 10, self._largest_record)),
            producer_id=self._producer_id,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=numbers.start if is_idempotent else -1,
            is_keyed=lane.partition[0] == COMPACTED,
        )
        return Batch(numbers, data, self.scheduler.wall_ms)

    def _send_rows(self, rows: dict[Partition, tuple[Lane, Batch]]) -> None:
        def answered(body: bytes | None) -> None:
            results = read_produced(body) if body is not None else {}
            for partition, (lane, batch) in rows.items():
                error, offset = results.get(partition, (-2, -1))
                self._settle(lane, batch, error, offset)
            self.wake_in(0)

        data = {partition: batch.data for partition, (_, batch) in rows.items()}
        what = ", ".join(f"{topic}-{at} {batch.numbers}" for (topic, at), (_, batch) in rows.items())
        expects = None if self._acks == 0 else answered
        self.ask(f"produce {what}", lambda at: produce(data, acks=self._acks, correlation=at), expects)
        if expects is None:
            for lane, batch in rows.values():
                lane.under_way -= 1
                lane.unacknowledged.remove(batch)

    def _settle(self, lane: Lane, batch: Batch, error: int, offset: int) -> None:
        lane.under_way -= 1
        if error == 0:
            self.note(f"was told {lane.partition[0]}-{lane.partition[1]} {batch.numbers} is at {offset}")
            lane.unacknowledged.remove(batch)
            lane.is_known = True
            if offset >= 0:
                self._truth.acknowledged_now(self.number, lane.partition, batch.numbers, offset, batch.made_ms)
        elif error != -2 and error not in RETRIABLE:
            raise Violated(f"{self.name} got error {error} for {batch.numbers} of {lane.partition}")
        elif self.delivery in RETRIES:
            lane.has_failed = True
        else:
            lane.unacknowledged.remove(batch)
        if error == OUT_OF_ORDER and batch is lane.unacknowledged[0]:
            self._refused(lane, batch)
        if error > 0:
            self.note(f"was told {RETRIABLE[error]} for {batch.numbers} of {lane.partition}")
            lane.wait_until_ns = self.scheduler.now_ns + RETRY_MS * MS
        lane.rewind()

    def _refused(self, lane: Lane, batch: Batch) -> None:
        """A batch that nothing is before can only be out of order when it is in the log, and its answer was lost.

        A snapshot has the last batch of each producer and no more, as in Apache Kafka: a broker that was killed right
        after a roll does not recognize the others.
        """
        batch.refusals += 1
        if batch.refusals == MOST_REFUSALS:
            self.note(f"gives up {batch.numbers} of {lane.partition}")
            lane.unacknowledged.remove(batch)
            self._truth.of(lane.partition).abandoned.update((self.number, number) for number in batch.numbers)
