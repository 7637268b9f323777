"""A broker of a cluster as tests start it: no pause of the machine ends its session."""

from collections.abc import Mapping
from pathlib import Path

from bench.brokers.daemon import Kafkad
from bench.brokers.readiness import has_controller

SESSION_TIMEOUT_MS = 60_000
"""The most that the ensembles of tests give. No test waits for it: the host of a killed broker refuses connections, so
others lead at once.
"""

SHORT_SESSION_MS = 2_000
"""For tests that wait for the end of sessions."""


class KafkadInCluster(Kafkad):
    """`settings` has zookeeper.connect. It is ready when a controller knows it: its own Metadata names brokers then."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **settings})

    def _ready_or_dead(self) -> bool:
        return super()._ready_or_dead() and has_controller(self.port, self.host)
