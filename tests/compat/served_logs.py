"""Everything that a broker serves of some topics, as values: equal for two brokers that have the same files."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import WITHIN_S
from kafkad.client.broker_client import BrokerClient
from kafkad.client.transactions import ProducerState, producers_of

_EARLIEST, _LATEST = -2, -1

Partition = tuple[str, int]


class Served(NamedTuple):
    """One record with its place and time."""

    offset: int
    epoch: int | None
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class ServedPartition(NamedTuple):
    """`found`: the offset that a look-up by time answers, by time. `bounds`: first, last stable and next offset."""

    records: list[Served]
    committed: list[int]
    bounds: tuple[int, int, int]
    found: dict[int, int]
    producers: list[ProducerState]


def served(broker: RunningBroker, partitions: Sequence[Partition]) -> dict[Partition, ServedPartition]:
    """What `broker` answers about each of the partitions."""
    everything, committed = _consumer(broker, "read_uncommitted"), _consumer(broker, "read_committed")
    records, stable = _read(everything, partitions), _read(committed, partitions)
    ends = [
        _offsets_for(consumer, dict.fromkeys(partitions, time))
        for consumer, time in ((everything, _EARLIEST), (committed, _LATEST), (everything, _LATEST))
    ]
    found = _look_ups(everything, records)
    everything.close()
    committed.close()
    with BrokerClient(broker.bootstrap, WITHIN_S) as client:
        return {
            at: ServedPartition(
                records[at],
                [record.offset for record in stable[at]],
                (ends[0][at], ends[1][at], ends[2][at]),
                found[at],
                sorted(producers_of(client, *at)),
            )
            for at in partitions
        }


def differences(broker: RunningBroker, expected: Mapping[Partition, ServedPartition]) -> list[object]:
    """What `broker` serves otherwise: partition, which part, what was expected, what is served."""
    found = served(broker, list(expected))
    return [
        (partition, name, value, getattr(found[partition], name))
        for partition, content in expected.items()
        for name, value in content._asdict().items()
        if getattr(found[partition], name) != value
    ]


def _consumer(broker: RunningBroker, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )


def _read(consumer: Consumer, partitions: Sequence[Partition]) -> dict[Partition, list[Served]]:
    """Each of the partitions from its first record to its end."""
    consumer.assign([TopicPartition(*at, _EARLIEST) for at in partitions])
    records: dict[Partition, list[Served]] = {at: [] for at in partitions}
    unread = set(partitions)
    while unread:
        message = consumer.poll(WITHIN_S)
        assert message is not None, f"nothing comes, and no end of {unread}"
        at = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is None:
            records[at].append(_served(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            unread.discard(at)
        else:
            raise AssertionError(f"{at}: {error}")
    return records


def _served(message: Message) -> Served:
    offset, headers = message.offset(), message.headers() or []
    assert offset is not None
    pairs = tuple(cast("list[tuple[str, bytes]]", headers))
    assert message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
    return Served(offset, message.leader_epoch(), message.timestamp(), message.key(), message.value(), pairs)


def _look_ups(consumer: Consumer, records: Mapping[Partition, Sequence[Served]]) -> dict[Partition, dict[int, int]]:
    """The time of some records of each partition, and the one after it; each request asks all partitions once."""
    times = {
        at: sorted({row.timestamp[1] + more for row in rows[:: len(rows) // 25 + 1] for more in (0, 1)})
        for at, rows in records.items()
    }
    answers: dict[Partition, dict[int, int]] = {at: {} for at in records}
    for number in range(max(map(len, times.values()))):
        asked = {at: each[number] for at, each in times.items() if number < len(each)}
        for at, offset in _offsets_for(consumer, asked).items():
            answers[at][asked[at]] = offset
    return answers


def _offsets_for(consumer: Consumer, times: Mapping[Partition, int]) -> dict[Partition, int]:
    asked = [TopicPartition(*at, time) for at, time in times.items()]
    found = consumer.offsets_for_times(asked, WITHIN_S)
    assert [row for row in found if row.error is not None] == []
    return {(row.topic, row.partition): int(row.offset) for row in found}
