"""Clusters of three brokers of one kind on this machine, with a ZooKeeper if they need one."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Self

from bench.brokers.apache import ApacheKafka
from bench.brokers.apache_on_zookeeper import ApacheKafkaOnZookeeper
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.java import BROKER_FLAGS
from bench.brokers.zookeeper import ZookeeperServer

NUMBERS = (1, 2, 3)
_SETTINGS = {
    "auto.leader.rebalance.enable": "false",  # leaders stay where a row puts them
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    # Deleted files are kept for a minute by default; the next row needs the disk.
    "log.segment.delete.delay.ms": "1000",
}


class _TunedApacheKafkaOnZookeeper(ApacheKafkaOnZookeeper):
    flags: ClassVar[tuple[str, ...]] = BROKER_FLAGS


class RunningCluster:
    """Brokers by number, all running until the exit of the context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.brokers: dict[int, RunningBroker] = {}
        self._ends = ExitStack()

    @abstractmethod
    def make(self) -> None:
        """Fill `brokers`."""

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def __enter__(self) -> Self:
        self.make()
        for broker in self.brokers.values():
            broker.prepare()
            broker.start(wait=False)
            self._ends.callback(broker.kill)
        for broker in self.brokers.values():
            broker.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def zookeeper(self) -> str:
        """Start a ZooKeeper; returns its address."""
        folder = self.folder / "zookeeper"
        folder.mkdir(parents=True)
        server = ZookeeperServer(folder)
        self._ends.callback(server.stop)
        return server.hosts


class KafkadCluster(RunningCluster):
    def make(self) -> None:
        hosts = self.zookeeper()
        for number in NUMBERS:
            settings = {"node.id": str(number), "zookeeper.connect": hosts}
            self.brokers[number] = Kafkad(self.folder / str(number), _SETTINGS | settings)


class ApacheOnZookeeperCluster(RunningCluster):
    def make(self) -> None:
        hosts = self.zookeeper()
        for number in NUMBERS:
            settings = _SETTINGS | {"broker.id": str(number)}
            self.brokers[number] = _TunedApacheKafkaOnZookeeper(self.folder / str(number), hosts, settings)


class ApacheKraftCluster(RunningCluster):
    """Each broker is also a voter."""

    def make(self) -> None:
        nodes = {number: ApacheKafka(self.folder / str(number)) for number in NUMBERS}
        voters = ",".join(f"{number}@127.0.0.1:{node.controller_port}" for number, node in nodes.items())
        for number, node in nodes.items():
            node.cluster_id = nodes[NUMBERS[0]].cluster_id
            node.overrides |= _SETTINGS | {"node.id": str(number), "controller.quorum.voters": voters}
            self.brokers[number] = node


CLUSTERS: dict[str, Callable[[Path], RunningCluster]] = {
    "apache-zookeeper": ApacheOnZookeeperCluster,
    "apache-kraft": ApacheKraftCluster,
    "kafkad": KafkadCluster,
}
