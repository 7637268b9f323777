"""The cluster of the tests that need none of their own: they leave three brokers, and a topic of their own is theirs."""

import urllib.request
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S
from tests.daemon.cluster import Cluster, Zookeeper
from tests.daemon.cluster_broker import KafkadInCluster

INTERNAL = "__"


class SharedCluster(Cluster):
    """Each broker has a rack, two log directories into which it writes all the time, listeners of its own for brokers
    and for the controller, and a page of metrics. Internal topics have three partitions and three replicas.
    """

    def __init__(self, folder: Path, ends: ExitStack, server: Zookeeper) -> None:
        self._numbers = count(1)
        self.metrics_ports = {each: free_port() for each in (1, 2, 3)}
        super().__init__(folder, ends, server)

    def settings_of(self, folder: Path) -> dict[str, str]:
        return {
            **self.settings(),
            "broker.rack": f"r{folder.name}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "log.dirs": f"{folder / 'one'},{folder / 'two'}",
            "replica.high.watermark.checkpoint.interval.ms": "500",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "kafkad.metrics.listener": f"127.0.0.1:{self.metrics_ports[int(folder.name)]}",
        }

    def broker_in(self, folder: Path, settings: dict[str, str]) -> KafkadInCluster:
        broker = KafkadInCluster(folder, settings)
        ports = free_port(), free_port()
        broker.overrides |= {
            "listeners": f"PLAINTEXT://{broker.bootstrap},CONTROL://127.0.0.1:{ports[0]},BROKERS://127.0.0.1:{ports[1]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "control.plane.listener.name": "CONTROL",
        }
        return broker

    def port_of(self, broker: int, listener: str) -> int:
        found = self.brokers[broker].overrides["listeners"].partition(f"{listener}://")[2]
        return int(found.partition(",")[0].rpartition(":")[2])

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def metric(self, broker: int, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_ports[broker]}/metrics", timeout=WITHIN_S) as page:
            lines = page.read().decode().splitlines()
        names = (name + " ", name + "_total ", name + "_total{")
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(names)]
        assert values, f"{name} is not on the page"
        return sum(values)

    def begin_test(self) -> None:
        """It has another topic than those before."""
        self.topic = f"t{next(self._numbers)}"

    def end_test(self) -> None:
        """All brokers run, all replicas are in sync, and the topics are gone."""
        for broker in self.brokers.values():
            if not broker.tree():
                broker.start()
        for each in self.brokers:
            self.wait_until(lambda each=each: self.known(each) == {1, 2, 3}, f"broker {each} knows all")  # type: ignore[misc]
        names = set(self.zookeeper.get_children("/brokers/topics"))
        made = {name for name in names if not name.startswith(INTERNAL)}
        if made:
            client = self.admin(1)
            client.delete_topics(sorted(made))
            client.close()
        self.wait_until(lambda: made.isdisjoint(self.zookeeper.get_children("/brokers/topics")), "topics are deleted")
        for name in names - made:
            self.wait_until(
                lambda name=name: all(each == {1, 2, 3} for each in self.in_sync(1, name)),  # type: ignore[misc]
                f"all replicas of {name} are in sync",
            )
