"""Two brokers in pieces: one leads a topic, the other follows it with a fetcher. Passes alternate in one thread."""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from msgspec import structs

from bench.brokers.processes import WITHIN_S
from kafkad.core.controller.deltas import BrokersChanged, PartitionsChanged, TopicCreated
from kafkad.core.log.partition_log import PartitionLog
from tests.processes.pieces import FETCHER, NETWORK, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, produce, read_produced

ALL = (WORKER, NETWORK, FETCHER)
NAME = "followed"


class Broker(Pieces):
    """Broker `node_id`; its own topic "t" is not replicated."""

    def __init__(self, folder: Path, node_id: int, settings: Mapping[str, str]) -> None:
        # The controller is played, so nobody connects to its ensemble.
        own = {"node.id": str(node_id), "zookeeper.connect": "played:2181"}
        pauses = {"replica.fetch.backoff.ms": "50", "replica.fetch.wait.max.ms": "20"}
        super().__init__(folder, {**own, **pauses, **settings}, partitions=1)

    def start(self) -> None:
        self.begin(FETCHER)
        super().start()

    def log(self, partition: int = 0) -> PartitionLog:
        found = self.worker.partitions.by_slot[self.slot(NAME, partition)].log
        assert found is not None
        return found

    def content(self, partition: int = 0) -> bytes:
        return b"".join(segment.log.read_at(segment.size, 0) for segment in self.log(partition).segments)


class TwoBrokers:
    """Brokers 1 and 2; topic "followed" is led by broker 1."""

    def __init__(self, folder: Path, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.brokers = [Broker(folder / str(node_id), node_id, settings or {}) for node_id in (1, 2)]
        self.leader, self.follower = self.brokers
        for broker in self.brokers:
            broker.start()
        live = tuple(broker.image.brokers[broker.config.node_id] for broker in self.brokers)
        for broker in self.brokers:
            broker.publish(BrokersChanged(live), to=ALL)
        topic = self.leader.topic(NAME, partitions)
        rows = tuple(structs.replace(row, replicas=(1, 2), leader=1, isr=(1,)) for row in topic.partitions)
        self.topic = structs.replace(topic, partitions=rows)
        for broker in self.brokers:
            broker.publish(TopicCreated(self.topic), to=ALL)
            broker.run_until_online(NAME)

    def lead(self, number: int, epoch: int, *, told: tuple[int, ...] = (0, 1)) -> None:
        """Broker `number` (0 or 1) leads from now on, in that epoch; those in `told` hear of it."""
        self.leader, self.follower = self.brokers[number], self.brokers[1 - number]
        node_id = self.leader.config.node_id
        rows = tuple(
            structs.replace(row, leader=node_id, leader_epoch=epoch, isr=(node_id,)) for row in self.topic.partitions
        )
        for at in told:
            self.brokers[at].publish(PartitionsChanged(NAME, rows), to=ALL)
            self.brokers[at].run_until_known()

    def run(self, condition: Callable[[], object], what: str) -> None:
        deadline = monotonic() + WITHIN_S
        while not condition():
            assert monotonic() < deadline, f"not within {WITHIN_S} s: {what}"
            for broker in self.brokers:
                broker.turn()

    def run_until_equal(self, partition: int = 0) -> None:
        self.run(lambda: self.are_equal(partition), "the follower's log is the leader's")

    def are_equal(self, partition: int = 0) -> bool:
        leader, follower = self.leader, self.follower
        same = leader.content(partition) == follower.content(partition)
        ends = leader.log(partition).high_watermark.offset == follower.log(partition).high_watermark.offset
        return same and ends

    def write(self, client: Client, count: int = 1, partition: int = 0) -> None:
        request = produce({(NAME, partition): batch(count)})
        client.send(request)
        self.run(lambda: client.replies, "a reply comes")
        assert read_produced(client.replies.pop(0)[1])[NAME, partition].error == 0

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()
