"""The session with ZooKeeper: opened when a server responds, without a time limit; the wait is logged once.

The first session of a broker closes the session of an earlier process of the broker, if that was killed. A restarted
controller process resumes the session of its previous incarnation.
"""

import logging
import ssl
import threading
from collections.abc import Callable
from math import inf
from typing import TypeVar

from kafkad.adapters.stores.session_file import SessionFile
from kafkad.adapters.stores.zookeeper_store import ZookeeperStore, ZookeeperUnreachable
from kafkad.adapters.stores.zookeeper_tls import UnusableTlsFile, tls_context
from kafkad.config.entities.broker import ClusterConfig
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.coordination_store import CoordinationError, NotPermitted, SessionLost
from kafkad.processes.controller.store.sessions import Stopped

log = logging.getLogger(__name__)
Result = TypeVar("Result")

RETRY_S = 1.0
LOG_WAIT_AFTER_S = 2.0
"""Shorter than the timeout of the first attempt (zookeeper.connection.timeout.ms)."""


NOT_CONNECTED_YET = "no response from ZooKeeper at %s yet: the broker waits"


def opened_store(
    cluster: ClusterConfig,
    session: tuple[int, bytes] | None,
    *,
    within_s: float = inf,
    stopping: threading.Event | None = None,
) -> ZookeeperStore:
    """Raises ZookeeperUnreachable, also if a file of TLS can't be used, and SessionLost if `session` is over."""
    try:
        tls = zookeeper_tls(cluster)
    except UnusableTlsFile as error:
        raise ZookeeperUnreachable(str(error)) from error
    return ZookeeperStore(
        cluster.zookeeper_connect,
        # kazoo waits this long for a server without a response, for any connection timeout.
        session_timeout_s=min(within_s, cluster.zookeeper_session_timeout_ms / 1000),
        connect_timeout_s=min(within_s, cluster.zookeeper_connection_timeout_ms / 1000),
        session=session,
        tls=tls,
        protects=cluster.zookeeper_set_acl,
        max_in_flight=cluster.zookeeper_max_in_flight_requests,
        stopping=stopping,
    )


def zookeeper_tls(cluster: ClusterConfig) -> ssl.SSLContext | None:
    """Raises UnusableTlsFile."""
    tls = cluster.zookeeper_tls
    if tls is None:
        return None
    return tls_context(
        keystore=tls.keystore,
        keystore_password=tls.keystore_password,
        truststore=tls.truststore,
        checks_host_name=tls.checks_host_name,
        versions=tls.versions,
    )


class ZookeeperSessions:
    """Implements `Sessions` of processes/controller/store/sessions.py."""

    def __init__(self, cluster: ClusterConfig, file: SessionFile | None, *, resumes: bool) -> None:
        self._cluster = cluster
        self._file = file
        self._earlier = None if file is None else file.read()
        self._resumes = resumes
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def pause(self, seconds: float = RETRY_S) -> None:
        if self._stopping.wait(seconds):
            raise Stopped

    def begin(self, work: Callable[[ZookeeperStore], Result]) -> Result:
        """Do `work` again in another session after a connection error."""
        while True:
            store = self._open()
            try:
                return work(store)
            except NotPermitted as refused:
                store.close()
                raise UnusableMetadata(f"ZooKeeper does not let this broker change its nodes: {refused}") from refused
            except CoordinationError as error:
                store.close()
                log.warning("lost the connection to ZooKeeper during the start of the session, retrying: %s", error)
                self.pause()
            except BaseException:
                store.close()
                raise

    def _open(self) -> ZookeeperStore:
        """Raises `Stopped`."""
        wait_timer = threading.Timer(
            LOG_WAIT_AFTER_S, log.warning, (NOT_CONNECTED_YET, self._cluster.zookeeper_connect)
        )
        wait_timer.daemon = True
        wait_timer.start()
        try:
            return self._opened(wait_timer)
        finally:
            wait_timer.cancel()

    def _opened(self, wait_timer: threading.Timer) -> ZookeeperStore:
        has_logged = False
        while True:
            try:
                store = self._earlier_session() or self._connect(None)
            except (ZookeeperUnreachable, CoordinationError) as error:
                if not has_logged:
                    log.error("waiting for ZooKeeper: %s", error)
                has_logged = True
                self.pause()
            else:
                if has_logged or wait_timer.finished.is_set():
                    log.info("connected to ZooKeeper")
                if self._file is not None:
                    self._file.write(store.session)
                return store

    def end(self, store: ZookeeperStore) -> None:
        """If ZooKeeper does not respond, the next start closes the session."""
        store.close()
        if not store.is_left_open and self._file is not None:
            self._file.remove()

    def _earlier_session(self) -> ZookeeperStore | None:
        """Resume the session of the earlier process, or close it (None). Raises ZookeeperUnreachable."""
        if self._earlier is None:
            return None
        found = None
        try:
            found = self._connect(self._earlier)
        except SessionLost:
            log.debug("the session of the earlier process has expired")
        if found is not None and not self._resumes:
            found.close()
            if found.is_left_open:
                raise ZookeeperUnreachable(f"no response from ZooKeeper at {self._cluster.zookeeper_connect}")
            log.warning("closed the ZooKeeper session of an earlier process of this broker")
            found = None
        self._earlier = None
        return found

    def _connect(self, session: tuple[int, bytes] | None) -> ZookeeperStore:
        return opened_store(self._cluster, session, stopping=self._stopping)
