"""A session with ZooKeeper: opened when a server answers, however long that takes, and said once while none does."""

import logging
import threading

from kafkad.adapters.stores.zookeeper_store import ZookeeperStore, ZookeeperUnreachable
from kafkad.config.entities.broker import ClusterConfig
from kafkad.core.coordination_store import CoordinationError

log = logging.getLogger(__name__)

RETRY_S = 1.0


class Stopped(Exception):
    """The broker stops; nobody waits for the session any more."""


class Sessions:
    """Opens one session after the other; every method but `stop` belongs to the store's thread."""

    def __init__(self, cluster: ClusterConfig) -> None:
        self._cluster = cluster
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def pause(self, seconds: float = RETRY_S) -> None:
        """Raises `Stopped`."""
        if self._stopping.wait(seconds):
            raise Stopped

    def open(self) -> ZookeeperStore:
        """Raises `Stopped`."""
        has_said_so = False
        while True:
            try:
                store = ZookeeperStore(
                    self._cluster.zookeeper_connect,
                    session_timeout_s=self._cluster.zookeeper_session_timeout_ms / 1000,
                    connect_timeout_s=self._cluster.zookeeper_connection_timeout_ms / 1000,
                )
            except (ZookeeperUnreachable, CoordinationError) as error:
                if not has_said_so:
                    log.error("the broker waits for ZooKeeper: %s", error)
                has_said_so = True
                self.pause()
            else:
                if has_said_so:
                    log.info("ZooKeeper answers")
                return store
