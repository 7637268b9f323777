"""Fifty consumers of three client libraries in one group, joining and leaving at random.

No record is missing, one is read again only beyond the last commit, and in no generation has a partition two owners.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

import confluent_kafka
import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.core.groups.records import GroupMetadata
from tests.amounts import amount
from tests.compat.churn_members import Book, crowd
from tests.compat.classic_log import classic_records
from tests.tools.raw_requests import RawClient, create_topic

PARTITIONS = 60
RECORDS = amount("churn_records")
CHURN_S = RECORDS / 300
_HEAD = Struct(">hi")
_I16, _I32 = Struct(">h"), Struct(">i")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_fifty_consumers_of_three_libraries_share_a_topic_while_they_come_and_go(
    broker: RunningBroker, new_topic: Callable[[str], str]
) -> None:
    topic = group = new_topic("churn")
    with RawClient(broker.port) as raw:
        raw.ask(create_topic(topic, PARTITIONS))
    book = Book()
    members = crowd(broker.bootstrap, group, topic, book, random.Random(1))
    producing = threading.Thread(target=lambda: _produce(broker.bootstrap, topic, book))
    for thread in (producing, *members):
        thread.start()
    try:
        producing.join()
        book.is_calm.set()
        eventually(lambda: not book.missing(), what="every record is read")
    finally:
        book.is_over.set()
        for thread in members:
            thread.join(30)
    assert book.mistakes == []
    assert book.assignments > 150, "members came and went, but the group did not follow"
    _check_generations(broker.log_dir, group, topic)


def _produce(bootstrap: str, topic: str, book: Book) -> None:
    """Spread over the time in which members come and go."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
        if number % 100 == 0:
            producer.flush(10)
            book.is_over.wait(CHURN_S / RECORDS * 100)
    assert producer.flush(30) == 0
    book.expected = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)


def _check_generations(log_dir: Path, group: str, topic: str) -> None:
    generations = 0
    for record in classic_records(log_dir, group):
        if not isinstance(record, GroupMetadata):
            continue
        owners = Counter(row for member in record.members for row in _assigned(member.assignment) if row[0] == topic)
        if record.members:
            generations += 1
            assert owners == {(topic, partition): 1 for partition in range(PARTITIONS)}, record.generation
    assert generations > 1


def _assigned(assignment: bytes) -> Iterator[tuple[str, int]]:
    """The partitions in an assignment of the embedded consumer protocol."""
    _, topics = _HEAD.unpack_from(assignment)
    at = _HEAD.size
    for _ in range(topics):
        (length,) = _I16.unpack_from(assignment, at)
        topic = assignment[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = _I32.unpack_from(assignment, at)
        at += 4
        for _ in range(count):
            yield topic, *_I32.unpack_from(assignment, at)
            at += 4
