"""Everything at once, for `chaos_seconds`; `first_seed` repeats a run as far as real processes allow."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.amounts import amount, first_seed
from tests.chaos.faults import Faults
from tests.chaos.high_watermarks import Watcher
from tests.chaos.hosts import HostedCluster
from tests.chaos.workload import (
    IN_TRANSACTIONS,
    PARTITIONS,
    WRITTEN,
    Administrator,
    Client,
    Member,
    Mover,
    Promises,
    Reader,
    Transactions,
    Writer,
    consumer,
)

SECONDS = amount("chaos_seconds")
SEED = first_seed()
CLIENTS: tuple[type[Client], ...] = (Writer, Transactions, Reader, Member, Watcher, Administrator, Mover)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HostedCluster]:
    with ExitStack() as ends:
        made = HostedCluster(tmp_path, ends)
        rows = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
        for name in (WRITTEN, IN_TRANSACTIONS):
            made.create(1, name, rows)
            made.wait_until(lambda name=name: made.leaders(1, name) == [1, 2, 3], "it is led")  # type: ignore[misc]
        yield made


@pytest.mark.timeout(SECONDS * 2 + 600)
def test_what_was_promised_holds_whatever_happens(cluster: HostedCluster) -> None:
    print(f"seed {SEED}")
    promises = Promises()
    clients = [kind(cluster.bootstrap, promises, SEED) for kind in CLIENTS]
    for client in clients:
        client.start()
    try:
        Faults(cluster, promises, SEED).play(SECONDS)
    finally:
        for client in clients:
            client.is_over.set()
    for client in clients:
        client.join(300)
        assert not client.is_alive(), f"{client.name} waits for ever"
    print(promises.counts)
    for name in (WRITTEN, IN_TRANSACTIONS):
        cluster.wait_until(
            lambda name=name: cluster.in_sync(1, name) == [{1, 2, 3}] * PARTITIONS,  # type: ignore[misc]
            f"all replicas of {name} are in sync",
        )
    for check in (check_metadata, check_writes, check_transactions, check_replicas):
        try:
            check(cluster, promises)
        except AssertionError as broken:
            promises.broken.append(str(broken))
    assert not promises.broken, "\n".join(promises.broken)


def check_metadata(cluster: HostedCluster, _promises: Promises) -> None:
    """Every broker says the same of every topic, those of the administrator included."""

    def is_one() -> bool:
        first, *others = (described(cluster, broker) for broker in cluster.brokers)
        return (WRITTEN, 0) in first and all(other == first for other in others)

    cluster.wait_until(is_one, "the metadata of all brokers is the same")


def described(cluster: HostedCluster, broker: int) -> dict[tuple[str, int], tuple[int, list[int], set[int]]]:
    """Leader, replicas and in-sync replicas of each partition."""
    client = cluster.admin(broker)
    try:
        topics = client.describe_topics()
    finally:
        client.close()
    return {
        (topic["name"], row["partition_index"]): (row["leader_id"], row["replica_nodes"], set(row["isr_nodes"]))
        for topic in topics
        for row in topic["partitions"]
    }


def check_writes(cluster: HostedCluster, promises: Promises) -> None:
    for partition, acknowledged in promises.acknowledged.items():
        found = everything(cluster, WRITTEN, partition)
        values = list(found.values())
        assert len(set(values)) == len(values), f"{WRITTEN}-{partition} has a record twice"
        numbers = [tuple(int(part) for part in value.split(b"-")) for value in values]
        assert numbers == sorted(numbers), f"{WRITTEN}-{partition} is out of order"
        lost = {value: offset for value, offset in acknowledged.items() if found.get(offset) != value}
        assert not lost, f"{WRITTEN}-{partition} lost {len(lost)} of {len(acknowledged)}: {sorted(lost.items())[:5]}"
        check_seen(promises, WRITTEN, partition, found)


def check_transactions(cluster: HostedCluster, promises: Promises) -> None:
    read = [everything(cluster, IN_TRANSACTIONS, partition) for partition in range(PARTITIONS)]
    for partition, found in enumerate(read):
        numbers = [int(value) for value in found.values()]
        assert numbers == sorted(set(numbers)), f"{IN_TRANSACTIONS}-{partition} is out of order, or has one twice"
        assert set(numbers) == {int(value) for value in read[0].values()}, "a transaction is in some partitions only"
        for number, is_committed in promises.ended.items():
            assert is_committed is None or is_committed == (number in numbers), f"transaction {number}: {is_committed}"
        check_seen(promises, IN_TRANSACTIONS, partition, found)


def check_seen(promises: Promises, topic: str, partition: int, found: dict[int, bytes]) -> None:
    seen = promises.seen.get((topic, partition), {})
    gone = {offset: value for offset, value in seen.items() if found.get(offset) != value}
    assert not gone, f"{topic}-{partition}: {len(gone)} records were read and are gone: {sorted(gone.items())[:5]}"


def everything(cluster: HostedCluster, topic: str, partition: int) -> dict[int, bytes]:
    """All committed records by offset."""
    found: dict[int, bytes] = {}
    with consumer(cluster.bootstrap, "check") as reader:
        reader.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = reader.poll(60)
            assert message is not None, f"{topic}-{partition} gives nothing after {len(found)} records"
            if message.error() is not None:
                return found
            found[int(message.offset() or 0)] = bytes(message.value() or b"")


def check_replicas(cluster: HostedCluster, _promises: Promises) -> None:
    """Byte by byte, however the bytes are divided into segments."""
    for broker in cluster.brokers.values():
        assert broker.stop() == 0, "a stop in order is one"
    logs: dict[str, dict[int, bytes]] = {}
    for number, broker in cluster.brokers.items():
        for folder in broker.log_dir.glob("*-[0-9]*"):
            if folder.suffix or folder.name.startswith("short-"):
                continue
            content = b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))
            logs.setdefault(folder.name, {})[number] = content
    assert len([name for name in logs if not name.startswith("__")]) == 2 * PARTITIONS
    for name, replicas in logs.items():
        if name.startswith("__consumer_offsets"):
            # Compacted: each replica by itself.
            continue
        assert len(replicas) == 3, f"{name} is on {sorted(replicas)} only"
        assert len(set(replicas.values())) == 1, f"{name} differs: { ({at: len(log) for at, log in replicas.items()}) }"
