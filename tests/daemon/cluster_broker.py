"""A broker of a cluster as tests start it: its session ends soon after it was killed."""

from collections.abc import Mapping
from pathlib import Path

from bench.brokers.daemon import Kafkad

SESSION_TIMEOUT_MS = 2_000


class KafkadInCluster(Kafkad):
    """`settings` has zookeeper.connect."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **settings})
