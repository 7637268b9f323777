"""Records of `__transaction_state`: Apache Kafka's read and written again byte for byte, and ours loaded by it."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, Producer

from bench.brokers.apache import ApacheKafka
from bench.brokers.java import kafka_tool
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.coordinator.shard import Outcome
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.record import NewRecord, Record, build_batch, iter_records
from kafkad.core.transactions.records import TransactionRecord
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import LAST_PRODUCER_EPOCH
from kafkad.wire.records import transaction_records
from tests.compat.test_transaction_rules import Conversation, finalize
from tests.compat.transaction_sides import BrokerSide, OurSide
from tests.tools.raw_requests import RawClient, create_topic, produce, read_produced

NO_TIME_MS = 1_700_000_000_000


def _records(log_dir: Path) -> Iterator[Record]:
    for segment in sorted(log_dir.glob("__transaction_state-*/*.log")):
        data = segment.read_bytes()
        for position, header in walk_batches(partial(_read_at, data), 0, len(data)):
            yield from iter_records(memoryview(data)[position : position + header.size])


def _read_at(data: bytes, size: int, position: int) -> bytes:
    return data[position : position + size]


def _produce_transactions(bootstrap: str, transactional_id: str, *, partitions: int) -> None:
    """One that commits with offsets, one that aborts, one that stays open."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    for end in ("commit", "abort", "none"):
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce("t", b"x", partition=partition)
            producer.produce("u", b"x", partition=partition % 2)
        producer.flush(30)
        if end == "commit":
            producer.send_offsets_to_transaction([], consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)
    consumer.close()


def _perform_with_java(bootstrap: str, transactional_id: str) -> None:
    args = ["--topic", "t", "--num-records", "400", "--record-size", "10", "--throughput", "2000"]
    args += ["--bootstrap-server", bootstrap, "--transactional-id", transactional_id, "--transaction-duration-ms", "20"]
    done = kafka_tool("kafka-producer-perf-test", *args)
    assert done.returncode == 0, done.stderr.decode()


def test_records_of_apache_kafka_are_written_again_as_they_were(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path) as apache:
        with RawClient(apache.port) as client:
            client.ask(create_topic("t", 10))
            client.ask(create_topic("u", 2))
        side = BrokerSide(apache.port)
        side.wake()
        for level in (2, 1, 0):
            finalize(side, level)
            _produce_transactions(apache.bootstrap, f"confluent-{level}", partitions=7)
            _perform_with_java(apache.bootstrap, f"java-{level}")
        side.close()
        assert apache.stop() in apache.clean_exits
    seen: Counter[object] = Counter()
    for raw in _records(apache.log_dir):
        assert raw.key is not None
        record = transaction_records.decode(raw.key, raw.value)
        assert isinstance(record, TransactionRecord)
        assert transaction_records.encode(record) == (raw.key, raw.value)
        seen.update([record.state, f"value {record.value_version}", f"client {record.client_transaction_version}"])
        assert (record.state is TransactionState.ONGOING) <= (len(record.partitions) > 0)
    assert set(seen) >= {*TransactionState} - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
    assert set(seen) >= {"value 0", "value 1", "client 0", "client 2"}


def _planted(transactional_id: str, number: int, epoch: int) -> TransactionRecord:
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=5_000_000 + number,
        previous_producer_id=4_000_000 + number,
        producer_epoch=epoch,
        timeout_ms=60_000,
        state=TransactionState.EMPTY,
        last_update_ms=NO_TIME_MS,
        client_transaction_version=2,
    )


def _plant(apache: ApacheKafka, record: TransactionRecord) -> None:
    """Only the tools' own client id may write to internal topics."""
    partition = partition_for(record.transactional_id, 50)
    batch = bytes(build_batch([NewRecord(NO_TIME_MS, *transaction_records.encode(record))]))
    request = produce({("__transaction_state", partition): batch}, acks=-1)
    with RawClient(apache.port) as client:
        reply = client.ask(_as_admin(request))
    assert read_produced(reply)["__transaction_state", partition].error == 0


def _as_admin(request: bytes) -> bytes:
    name = b"__admin_client"
    changed = request[4:12] + len(name).to_bytes(2, "big") + name + request[17:]
    return len(changed).to_bytes(4, "big") + changed


def test_apache_kafka_loads_ours_and_both_go_on_alike_at_the_last_epochs(tmp_path: Path) -> None:
    records = [_planted(f"planted-{number}", number, LAST_PRODUCER_EPOCH - 1 - number % 5) for number in range(20)]
    apache = ApacheKafka(tmp_path)
    with apache:
        with RawClient(apache.port) as client:
            client.ask(create_topic("t", 10))
            client.ask(create_topic("u", 2))
        side = BrokerSide(apache.port)
        side.wake()
        side.close()
        for record in records:
            _plant(apache, record)
        assert apache.stop() in apache.clean_exits
        apache.start()
        side = BrokerSide(apache.port)
        side.wake()
        for record in records:
            ours = OurSide()
            ours.bed.perform(Outcome(records=[record]))
            talk = Conversation(record.transactional_id, Random(record.transactional_id), 2, side, ours)
            talk.knows(record.producer_id, record.producer_epoch)
            for _ in range(20):
                talk.step()
        side.close()
