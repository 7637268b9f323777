"""Consumers of both group protocols by librdkafka, alone and in one group; a pipeline in transactions by aiokafka."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import aiokafka  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as TopicWanted

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from tests.compat.group_members import produce

NewTopic = Callable[[str], str]
_PARTITIONS = 6


@contextmanager
def _consumer(broker: RunningBroker, topic: str, protocol: str, strategy: str) -> Iterator[Consumer]:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"{topic}-group",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    if protocol == "classic":
        settings |= {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 1_000}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


class _Together:
    """Consumers of one group that all go on polling while one waits for how they share."""

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []
        self.read = 0

    def share(self, *wanted: int) -> None:
        """Wait until they have so many partitions each, in any order, and none has two owners."""
        eventually(lambda: self._shares() == sorted(wanted), what=f"partitions shared as {wanted}")

    def _shares(self) -> list[int]:
        for consumer in self.consumers:
            message = consumer.poll(0.05)
            self.read += message is not None and message.error() is None
        held = [[each.partition for each in consumer.assignment()] for consumer in self.consumers]
        owned = sorted(partition for partitions in held for partition in partitions)
        return sorted(map(len, held)) if owned == list(range(_PARTITIONS)) else []


@pytest.fixture
def topic(broker: RunningBroker, new_topic: NewTopic) -> str:
    name = new_topic("shared")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([TopicWanted(name, _PARTITIONS, 1)])[name].result(30)
    return name


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_goes_from_one_protocol_to_the_other_and_back(broker: RunningBroker, topic: str, strategy: str) -> None:
    """As in a rolling restart of a service with another setting: old members leave as new ones come."""
    group = _Together()
    with ExitStack() as all_of_them:

        def join(protocol: str) -> ExitStack:
            member = all_of_them.enter_context(ExitStack())
            group.consumers.append(member.enter_context(_consumer(broker, topic, protocol, strategy)))
            return member

        def leave(member: ExitStack, consumer: Consumer) -> None:
            group.consumers.remove(consumer)
            member.close()

        old = join("classic")
        group.share(6)
        new = join("consumer")
        group.share(3, 3)
        leave(old, group.consumers[0])
        group.share(6)
        old = join("classic")
        group.share(3, 3)
        leave(new, group.consumers[0])
        group.share(6)


def test_three_members_of_the_new_protocol_share_and_commit(broker: RunningBroker, topic: str) -> None:
    produce(broker.bootstrap, topic, *(b"%d" % number for number in range(50)))
    group = _Together()
    with ExitStack() as members:
        for size in ((6,), (3, 3), (2, 2, 2)):
            group.consumers.append(members.enter_context(_consumer(broker, topic, "consumer", "")))
            group.share(*size)
        eventually(lambda: bool(group._shares()) and group.read >= 50, what="all is read")
    with _consumer(broker, topic, "consumer", "") as later:
        assert later.poll(8) is None, "what was read is committed"


def test_aiokafka_moves_records_in_transactions(broker: RunningBroker, topic: str) -> None:
    produce(broker.bootstrap, topic, *(b"%d" % number for number in range(60)))
    target = f"{topic}-target"
    moved = asyncio.run(_move(broker.bootstrap, topic, target))
    assert moved == 60
    assert sorted(asyncio.run(_committed(broker.bootstrap, target, 60))) == list(range(60))


async def _move(bootstrap: str, source: str, target: str) -> int:
    """Every second transaction is aborted, and its records are moved by the next one."""
    group = f"{source}-movers"
    consumer = aiokafka.AIOKafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=group)
    await consumer.start()
    await producer.start()
    moved, commits = 0, False
    try:
        while moved < 60:
            batches = await asyncio.wait_for(consumer.getmany(timeout_ms=1_000, max_records=15), 30)
            records = [record for batch in batches.values() for record in batch]
            if not records:
                continue
            await producer.begin_transaction()
            for record in records:
                await producer.send(target, record.value)
            if commits:
                ends = {where: batch[-1].offset + 1 for where, batch in batches.items()}
                await producer.send_offsets_to_transaction(ends, group)
                await producer.commit_transaction()
                moved += len(records)
            else:
                await producer.abort_transaction()
                for where, batch in batches.items():
                    consumer.seek(where, batch[0].offset)
            commits = not commits
    finally:
        await producer.stop()
        await consumer.stop()
    return moved


async def _committed(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        values = [int((await asyncio.wait_for(consumer.getone(), 30)).value) for _ in range(count)]
        assert not await consumer.getmany(timeout_ms=1_000), "more was committed than moved"
    finally:
        await consumer.stop()
    return values
