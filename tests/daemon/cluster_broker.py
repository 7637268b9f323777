"""A broker of a cluster as a process: `python -m tests.daemon.cluster_broker ZOOKEEPER option=value…`."""

import sys
from collections.abc import Sequence
from dataclasses import replace

from bench.brokers.daemon import Kafkad
from kafkad.config import BrokerConfig, load
from kafkad.config.build import inter_broker_listener
from kafkad.config.entities.broker import ClusterConfig
from kafkad.startup import start_broker

SESSION_TIMEOUT_MS = 2_000


class KafkadInCluster(Kafkad):
    """`overrides` has zookeeper.connect."""

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": str(self.log_dir)} | self.overrides
        connect = settings.pop("zookeeper.connect")
        pairs = [f"{key}={value}" for key, value in settings.items()]
        return [sys.executable, "-m", "tests.daemon.cluster_broker", connect, *pairs]


def configured(connect: str, pairs: Sequence[str]) -> BrokerConfig:
    """A configuration from a file can't name a ZooKeeper yet."""
    config = load(None, [(name, value) for name, _, value in (pair.partition("=") for pair in pairs)])
    cluster = ClusterConfig(
        zookeeper_connect=connect,
        zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
        zookeeper_connection_timeout_ms=SESSION_TIMEOUT_MS,
        inter_broker_listener=inter_broker_listener(config.values, config.network.listeners),
    )
    return replace(config, cluster=cluster)


if __name__ == "__main__":
    sys.exit(start_broker(configured(sys.argv[1], sys.argv[2:])))
