"""The cluster of all tests that need none of their own: each has a topic, and leaves three brokers in sync."""

import urllib.request
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S
from tests.daemon.cluster import Transactional, Zookeeper
from tests.daemon.cluster_broker import KafkadInCluster


class SharedCluster(Transactional):
    """Each broker has a rack, two log directories into which it writes all the time, listeners of its own for brokers
    and for the controller, and a page of metrics.
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

    def log_dirs_of(self, broker: int) -> str:
        return self.brokers[broker].overrides["log.dirs"]

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
