"""Transactions in the logs beside Apache Kafka's: random conversations about one partition, and the same answers.

Both are whole brokers. What is compared is what Produce, WriteTxnMarkers, Fetch, ListOffsets and DescribeProducers
answer, offset by offset, batch by batch; times are left out, and producer ids are compared by the order of their birth.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from struct import Struct
from typing import Any

import pytest

from bench.brokers.apache import ApacheKafka
from bench.brokers.daemon import Kafkad
from kafkad.core.log.records.batch import HEADER_SIZE, read_header
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.amounts import amount
from tests.compat.transaction_sides import BrokerSide, Names
from tests.handlers.kio_calls import KioApi
from tests.tools.raw_requests import RawClient, create_topic

CONVERSATIONS = amount("transactional_log_conversations")
STEPS = 30
TOPIC = "t"
TIMEOUT = timedelta(seconds=60)
HOUR_MS = 3_600_000
BEFORE_MS = time.time_ns() // 1_000_000 - 24 * HOUR_MS
"""When the records were made: long before the markers, and not so long ago that retention takes them."""
_HEADER = Struct(">ihhih")


class LogSide:
    """One broker, asked about partitions; `BrokerSide` asks about transactions."""

    def __init__(self, port: int) -> None:
        self.transactions = BrokerSide(port)
        self.names = Names()
        self._client = RawClient(port)
        self.identities: list[tuple[int, int]] = []

    def ask(self, api: str, version: int, **values: Any) -> Any:
        kio = KioApi(api, version)
        request = kio.part("".join(part.capitalize() for part in api.split("_")) + "Request", **values)
        body = bytes(kio.request(**values))
        head = b"\x00" if request.__flexible__ else b""
        size = _HEADER.size - 4 + len(head) + len(body)
        reply = self._client.ask(_HEADER.pack(size, request.__api_key__, version, 1, 0) + head + body)
        return kio.read(reply[1:] if request.__flexible__ and api != "api_versions" else reply)

    def close(self) -> None:
        self.transactions.close()
        self._client.sock.close()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogSide, LogSide]]:
    with (
        ApacheKafka(tmp_path_factory.mktemp("apache")) as apache,
        Kafkad(tmp_path_factory.mktemp("kafkad")) as kafkad,
    ):
        made = []
        for broker in (apache, kafkad):
            with RawClient(broker.port) as client:
                client.ask(create_topic(TOPIC, CONVERSATIONS))
            side = LogSide(broker.port)
            side.transactions.wake()
            made.append(side)
        yield made[0], made[1]
        for side in made:
            side.close()


class Conversation:
    """Two transactional ids and one partition. Sequences are mostly right, epochs and everything else often not."""

    def __init__(self, number: int, sides: tuple[LogSide, LogSide]) -> None:
        self._partition = number
        self._ids = [f"log-{number}-{each}" for each in range(2)]
        self._random = Random(number)
        self._sides = sides
        self._known: list[list[tuple[int, int]]] = [[], []]
        """By side: the (producer id, epoch) of each transactional id."""
        self._sequences = [0, 0]
        self.history: list[str] = []
        self._end = 0

    def live(self) -> None:
        for which in range(2):
            self._init(which)
        acts = [self._produce] * 6 + [self._add] * 2 + [self._end_txn] * 3 + [self._init, self._write_marker]
        for _ in range(STEPS):
            self._random.choice(acts)(self._random.randrange(2))
            for transactional_id in self._ids:
                for side in self._sides:
                    side.transactions.settle(transactional_id)
            self._look()
        for _ in range(6):
            shift, coordinator_epoch = self._random.choice((-1, 0, 1)), self._random.choice((0, 1, 2))
            self._marker(self._random.randrange(2), self._random.choice((1, 2)), shift, coordinator_epoch)
            self._look()

    # What changes something.

    def _init(self, which: int) -> None:
        told = []
        for side in self._sides:
            values = {"transactional_id": self._ids[which], "transaction_timeout": TIMEOUT}
            response = side.transactions.ask("init_producer_id", 2, **values)
            if response.error_code.name == "concurrent_transactions":
                # What was open is being aborted.
                side.transactions.settle(self._ids[which])
                response = side.transactions.ask("init_producer_id", 2, **values)
            assert response.error_code.name == "none"
            told.append((int(response.producer_id), int(response.producer_epoch)))
        for known, identity in zip(self._known, told, strict=True):
            known[which:] = [identity, *known[which + 1 :]]
        self._sequences[which] = 0
        self.history.append(f"init {which} -> epoch {told[0][1]}")

    def _produce(self, which: int) -> None:
        random = self._random
        version = random.choice((3, 7, 9, 10, 11, 12, 12, 12))
        count = random.randint(1, 3)
        sequence = self._sequences[which] if random.random() < 0.85 else random.choice((0, 1, 5))
        is_transactional = random.random() < 0.9
        # A plain batch of a newer epoch would fence the coordinator: see `_write_marker`.
        shift = 0 if random.random() < 0.9 else random.choice((-1, 1) if is_transactional else (-1, 0))
        has_id = random.random() < 0.95
        answers = []
        for side, known in zip(self._sides, self._known, strict=True):
            producer_id, epoch = known[which]
            records = [NewRecord(BEFORE_MS + self._end + each, b"k", b"v" * 30) for each in range(count)]
            batch = build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=max(0, epoch + shift),
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
            kio = KioApi("produce", version)
            row = kio.part("PartitionProduceData", index=self._partition, records=batch)
            topic = kio.part("TopicProduceData", name=TOPIC, partition_data=(row,))
            transactional_id = self._ids[which] if has_id else None
            response = side.ask(
                "produce", version, transactional_id=transactional_id, acks=-1, timeout=TIMEOUT, topic_data=(topic,)
            )
            (said,) = response.responses[0].partition_responses
            answers.append((said.error_code.name, said.base_offset, getattr(said, "log_start_offset", None)))
        said_of_it = f"seq {sequence} count {count} epoch {shift:+} transactional {is_transactional} id {has_id}"
        self.same(f"produce {version} of {which}: {said_of_it}", answers)
        if answers[0][0] == "none" and sequence == self._sequences[which]:
            self._sequences[which] += count

    def _add(self, which: int) -> None:
        answers = []
        for side, known in zip(self._sides, self._known, strict=True):
            producer_id, epoch = known[which]
            response = side.transactions.ask(
                "add_partitions_to_txn",
                3,
                v3_and_below_transactional_id=self._ids[which],
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                topics={TOPIC: (self._partition,)},
            )
            rows = response.results_by_topic_v3_and_below
            answers.append([row.partition_error_code.name for row in rows[0].results_by_partition])
        self.same(f"add {which}", answers)

    def _end_txn(self, which: int) -> None:
        committed, version = self._random.random() < 0.5, self._random.choice((3, 5))
        answers, told = [], []
        for side, known in zip(self._sides, self._known, strict=True):
            producer_id, epoch = known[which]
            response = side.transactions.ask(
                "end_txn",
                version,
                transactional_id=self._ids[which],
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=committed,
            )
            answers.append((response.error_code.name, int(getattr(response, "producer_epoch", -2))))
            told.append((int(getattr(response, "producer_id", -1)), answers[-1][1]))
        self.same(f"end {version} of {which}: {'commit' if committed else 'abort'}", answers)
        if answers[0][0] == "none" and told[0][0] >= 0:
            for known, identity in zip(self._known, told, strict=True):
                known[which] = identity
            self._sequences[which] = 0

    def _write_marker(self, which: int) -> None:
        """As a tool does that knows better than the coordinator."""
        random = self._random
        version = random.choice((1, 2))
        # Nothing that fences the coordinator: Apache Kafka's does not end its transaction then.
        self._marker(which, version, random.choice((-1, 0, 0)), random.choice((-1, 0, 0)))

    def _marker(self, which: int, version: int, shift: int, coordinator_epoch: int) -> None:
        random = self._random
        commits, transaction_version = random.random() < 0.5, random.choice((0, 1, 2))
        answers = []
        for side, known in zip(self._sides, self._known, strict=True):
            producer_id, epoch = known[which]
            kio = KioApi("write_txn_markers", version)
            partitions = (self._partition, 9999)
            marker = kio.part(
                "WritableTxnMarker",
                producer_id=producer_id,
                producer_epoch=max(0, epoch + shift),
                transaction_result=commits,
                topics=(kio.part("WritableTxnMarkerTopic", name=TOPIC, partition_indexes=partitions),),
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
            )
            response = side.ask("write_txn_markers", version, markers=(marker,))
            rows = {row.partition_index: row.error_code.name for row in response.markers[0].topics[0].partitions}
            answers.append(sorted(rows.items()))
        said_of_it = f"epoch {shift:+} coordinator {coordinator_epoch} commits {commits} level {transaction_version}"
        self.same(f"marker {version} of {which}: {said_of_it}", answers)

    # What looks.

    def _look(self) -> None:
        for isolation in (0, 1):
            self.same(f"latest {isolation}", [self._offset(side, -1, isolation) for side in self._sides])
        self._end = self._offset(self._sides[0], -1, 0)[1]
        offset = self._random.randint(0, self._end)
        isolation, version = self._random.choice((0, 1, 1)), self._random.choice((4, 11, 12))
        max_bytes = self._random.choice((1, 200, 400, 1 << 20))
        answers = [self.fetch(side, offset, isolation, version, max_bytes) for side in self._sides]
        self.same(f"fetch {version} from {offset} isolation {isolation} up to {max_bytes}", answers)
        by_time = self._random.choice((-2, -3, BEFORE_MS + self._random.randint(0, self._end + 1)))
        answers = [self._offset(side, by_time, isolation) for side in self._sides]
        self.same(f"offset of {by_time} isolation {isolation}", answers)
        self.same("producers", [self._producers(side) for side in self._sides])

    def _offset(self, side: LogSide, timestamp: int, isolation: int) -> Any:
        kio = KioApi("list_offsets", 7)
        row = kio.part("ListOffsetsPartition", partition_index=self._partition, timestamp=timestamp)
        topic = kio.part("ListOffsetsTopic", name=TOPIC, partitions=(row,))
        response = side.ask("list_offsets", 7, replica_id=-1, isolation_level=isolation, topics=(topic,))
        (found,) = response.topics[0].partitions
        # A marker has the time at which it was written.
        return found.error_code.name, found.offset, min(found.timestamp, BEFORE_MS + HOUR_MS)

    def fetch(self, side: LogSide, offset: int, isolation: int, version: int, max_bytes: int) -> Any:
        kio = KioApi("fetch", version)
        row = kio.part("FetchPartition", partition=self._partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        topic = kio.part("FetchTopic", topic=TOPIC, partitions=(row,))
        response = side.ask(
            "fetch",
            version,
            replica_id=-1,
            max_wait=timedelta(0),
            min_bytes=0,
            isolation_level=isolation,
            topics=(topic,),
            forgotten_topics_data=(),
            rack_id="",
        )
        (found,) = response.responses[0].partitions
        aborted = found.aborted_transactions
        stable = found.last_stable_offset
        return {
            "error": found.error_code.name,
            "ends": (found.high_watermark, found.last_stable_offset),
            # Apache Kafka may list transactions of which nothing can be read yet.
            "aborted": sorted(
                (side.names.of(int(each.producer_id)), each.first_offset)
                for each in aborted or ()
                if each.first_offset < stable
            ),
            "is null": aborted is None,
            "records": _batches(side.names, bytes(found.records or b"")),
        }

    def _producers(self, side: LogSide) -> Any:
        kio = KioApi("describe_producers", 0)
        topic = kio.part("TopicRequest", name=TOPIC, partition_indexes=(self._partition,))
        response = side.ask("describe_producers", 0, topics=(topic,))
        rows = response.topics[0].partitions[0].active_producers
        return sorted(
            (
                side.names.of(int(row.producer_id)),
                row.producer_epoch,
                row.last_sequence,
                row.coordinator_epoch,
                row.current_txn_start_offset,
            )
            for row in rows
        )

    def same(self, what: str, answers: list[Any]) -> None:
        theirs, ours = answers
        line = f"{what} -> {theirs}"
        assert theirs == ours, "\n".join([f"partition {self._partition}", *self.history, line, f"    ours {ours}"])
        self.history.append(line)


def _batches(names: Names, records: bytes) -> list[Any]:
    found = []
    at = 0
    while len(records) - at >= HEADER_SIZE and (header := read_header(records, at)).size <= len(records) - at:
        batch = memoryview(records)[at : at + header.size]
        marker = read_end_marker(batch) if header.is_control else None
        found.append(
            (
                header.base_offset,
                header.last_offset,
                header.attributes,
                names.of(header.producer_id),
                header.producer_epoch,
                header.base_sequence,
                header.size,
                None if marker is None else (marker.commit, marker.coordinator_epoch),
            )
        )
        at += header.size
    return [*found, len(records) - at]


@pytest.mark.parametrize("isolation", [0, 1])
def test_both_answer_the_same_about_what_cannot_be_read(sides: tuple[LogSide, LogSide], isolation: int) -> None:
    for partition, offset in ((9999, 0), (0, 1_000_000)):
        talk = Conversation(partition, sides)
        for version in (4, 11, 12):
            answers = [talk.fetch(side, offset, isolation, version, 100) for side in sides]
            talk.same(f"fetch {version} from {offset} isolation {isolation}", answers)


@pytest.mark.parametrize("number", range(CONVERSATIONS))
def test_both_answer_the_same_about_a_partition(sides: tuple[LogSide, LogSide], number: int) -> None:
    Conversation(number, sides).live()
