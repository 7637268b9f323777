"""Rows with public clients: librdkafka (confluent-kafka) and Kafka's own performance tools."""

import re
import subprocess
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from bench.brokers.broker import RunningBroker
from bench.brokers.jars import kafka_libs
from bench.brokers.java import kafka_tool
from bench.figures import Figure, cpu_per_gigabyte, rate
from bench.host import Cpu, cpu_of_tree, touch_memory
from bench.raw_rows import topic
from bench.scale import Scale

_RECORD_BYTES = 1_000
_JAVA_TIMEOUT_S = 600
_ASSIGNED_CONSUMER = Path(__file__).parent / "java" / "AssignedConsumer.java"


class ClientFailed(Exception):
    """A public client reported an error."""


def librdkafka(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """confluent-kafka produces and then consumes the same records, one partition, acks=1."""
    with topic(broker, "librdkafka", 1) as name:
        _confluent_produce(broker, name, scale.client_records // 5)
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        seconds = _confluent_produce(broker, name, scale.client_records)
        produced = _moved(broker, row, "produce", before, seconds, scale.client_records)
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        seconds = _confluent_consume(broker, name, scale.client_records)
        consumed = _moved(broker, row, "consume", before, seconds, scale.client_records)
    return produced + consumed


def _moved(broker: RunningBroker, row: str, what: str, before: Cpu, seconds: float, records: int) -> list[Figure]:
    used = cpu_of_tree(broker.pid) - before
    payload = records * _RECORD_BYTES
    throughput = rate(f"{row}, {what}", "throughput", payload / seconds / 1e6, "MB/s")
    return [throughput, *cpu_per_gigabyte(f"{row}, {what}", used, payload)]


def _confluent_produce(broker: RunningBroker, name: str, records: int) -> float:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "on_delivery": delivered,
        }
    )
    value = b"x" * _RECORD_BYTES
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(name, value, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(60)
    seconds = time.perf_counter() - started
    if failures or left:
        raise ClientFailed(f"{len(failures)} of {records} deliveries failed, {left} timed out: {failures[:1]}")
    return seconds


def _confluent_consume(broker: RunningBroker, name: str, records: int) -> float:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
    started, seen = time.perf_counter(), 0
    while seen < records:
        messages = consumer.consume(min(records - seen, 10_000), timeout=30)
        errors = [message.error() for message in messages if message.error() is not None]
        if errors or not messages:
            raise ClientFailed(f"after {seen} records: {errors[:1] or 'nothing for 30 s'}")
        seen += len(messages)
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def java(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """ProducerPerformance, then a Java consumer with its partition assigned."""
    with topic(broker, "java", 1) as name:
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        seconds = _producer_performance(broker, name, scale.client_records)
        produced = _moved(broker, row, "ProducerPerformance", before, seconds, scale.client_records)
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        seconds = _assigned_consumer(broker, name, scale.client_records)
        consumed = _moved(broker, row, "consumer with assigned partition", before, seconds, scale.client_records)
    return produced + consumed


def java_group(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """ConsumerPerformance, which subscribes through a consumer group."""
    with topic(broker, "grouped", 1) as name:
        _confluent_produce(broker, name, scale.client_records)
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        args = ["--bootstrap-server", broker.bootstrap, "--topic", name, "--hide-header"]
        args += ["--num-records", str(scale.client_records), "--timeout", "30000"]
        done = kafka_tool("kafka-consumer-perf-test", *args, timeout=_JAVA_TIMEOUT_S)
        columns = done.stdout.decode().strip().splitlines()[-1:] or [done.stderr.decode()[-200:]]
        fields = columns[0].split(", ")
        if done.returncode or len(fields) < 10 or int(fields[4]) < scale.client_records:
            raise ClientFailed(f"ConsumerPerformance: {columns[0]}")
        used = cpu_of_tree(broker.pid) - before
    payload = scale.client_records * _RECORD_BYTES
    throughput = rate(row, "throughput while fetching", float(fields[8]) * (1 << 20) / 1e6, "MB/s")
    return [throughput, *cpu_per_gigabyte(row, used, payload)]


def _producer_performance(broker: RunningBroker, name: str, records: int) -> float:
    args = ["--topic", name, "--num-records", str(records), "--record-size", str(_RECORD_BYTES)]
    args += ["--throughput", "-1", "--bootstrap-server", broker.bootstrap, "--command-property", "acks=1"]
    done = kafka_tool("kafka-producer-perf-test", *args, timeout=_JAVA_TIMEOUT_S)
    summary = done.stdout.decode().strip().splitlines()[-1:]
    match = re.match(r"(\d+) records sent, ([\d.]+) records/sec", summary[0]) if summary else None
    if done.returncode or match is None or int(match[1]) != records:
        raise ClientFailed(f"ProducerPerformance: {summary} {done.stderr.decode()[-300:]}")
    return records / float(match[2])


def _assigned_consumer(broker: RunningBroker, name: str, records: int) -> float:
    class_path = ":".join(sorted(str(jar) for jar in kafka_libs().glob("*.jar")))
    command = ["java", "-Xmx512M", "-cp", class_path, str(_ASSIGNED_CONSUMER)]
    command += [broker.bootstrap, name, str(records)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_JAVA_TIMEOUT_S)
    if done.returncode:
        raise ClientFailed(f"the Java consumer: {done.stderr.decode()[-300:]}")
    return int(done.stdout.split()[-1]) / 1_000
