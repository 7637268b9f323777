"""A session with ZooKeeper: opened when a server answers, however long that takes, and said once while none does.

The first one of this process ends the session of the broker's process before it, which had no time to do so.
"""

import logging
import threading

from kafkad.adapters.stores.session_file import SessionFile
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore, ZookeeperUnreachable
from kafkad.config.entities.broker import ClusterConfig
from kafkad.core.coordination_store import CoordinationError, SessionLost

log = logging.getLogger(__name__)

RETRY_S = 1.0


class Stopped(Exception):
    """The broker stops; nobody waits for the session any more."""


class Sessions:
    """Opens one session after the other; every method but `stop` belongs to the store's thread."""

    def __init__(self, cluster: ClusterConfig, file: SessionFile | None) -> None:
        self._cluster = cluster
        self._file = file
        self._earlier = None if file is None else file.read()
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
                self._end_earlier()
                store = self._connect(None)
            except (ZookeeperUnreachable, CoordinationError) as error:
                if not has_said_so:
                    log.error("the broker waits for ZooKeeper: %s", error)
                has_said_so = True
                self.pause()
            else:
                if has_said_so:
                    log.info("ZooKeeper answers")
                if self._file is not None:
                    self._file.write(store.session)
                return store

    def ended(self) -> None:
        """The last session was closed."""
        if self._file is not None:
            self._file.remove()

    def _end_earlier(self) -> None:
        """Raises ZookeeperUnreachable."""
        if self._earlier is None:
            return
        try:
            self._connect(self._earlier).close()
        except SessionLost:
            log.debug("the session of the process before has ended by itself")
        else:
            log.warning("the session of this broker's process before was still alive; it is ended now")
        self._earlier = None

    def _connect(self, session: tuple[int, bytes] | None) -> ZookeeperStore:
        return ZookeeperStore(
            self._cluster.zookeeper_connect,
            session_timeout_s=self._cluster.zookeeper_session_timeout_ms / 1000,
            connect_timeout_s=self._cluster.zookeeper_connection_timeout_ms / 1000,
            session=session,
        )
