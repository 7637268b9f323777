"""A broker of a cluster as tests start it: no pause of the machine ends its session."""

from collections.abc import Mapping
from pathlib import Path

from bench.brokers.daemon import Kafkad

SESSION_TIMEOUT_MS = 60_000
"""The most that the ensembles of tests give. No test waits for it: the host of a killed broker refuses connections, so
others lead at once.
"""

SHORT_SESSION_MS = 2_000
"""For tests that wait for the end of sessions."""


class KafkadInCluster(Kafkad):
    """`settings` has zookeeper.connect."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **settings})
