"""This broker's membership of the cluster: its session, its registration, and change notifications.

*Suspended*: the broker waits, leaders continue. *Lost*: the broker loses all roles, and opens a new session and
registers again. The broker is registered when its session owns the node.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.elected.registrations import is_registered
from kafkad.core.controller.image import Broker, Listener
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import (
    CoordinationError,
    CoordinationStore,
    Event,
    SessionChanged,
    SessionState,
    WatchFired,
)
from kafkad.processes.controller.opening import OpenedHost, register
from kafkad.processes.controller.store.sessions import Sessions, Stopped
from kafkad.processes.controller.store_thread import StoreThread
from kafkad.processes.controller.tree_reader import Configs, finalized_features
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.request_mark import LOOP, STORE_THREAD, RequestMark

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Member(Protocol):
    """The receiver of membership events."""

    def registered(self) -> None: ...
    def session_lost(self) -> None: ...
    def configs_changed(self, topics: Configs, brokers: Configs, groups: Configs) -> None: ...
    def features_changed(self, levels: Mapping[str, int], epoch: int) -> None: ...
    def store_event(self, event: Event) -> None: ...


class Membership:
    def __init__(
        self,
        context: ChildContext,
        loop: EventLoop,
        thread: StoreThread,
        sessions: Sessions,
        opened: OpenedHost,
        listeners: tuple[Listener, ...],
        report_status: Callable[[str], None],
    ) -> None:
        self.broker: Broker | None = None
        self.fatal_error: UnusableMetadata | None = None
        """The error that must stop the broker."""
        self.member: Member | None = None
        self._context = context
        self._loop = loop
        self._store_thread = thread
        self._sessions = sessions
        self._store = opened.store
        self._changes = opened.changes
        self._listeners = listeners
        self._report_status = report_status
        self.mark = RequestMark(context.registry, LOOP)
        self._mark_in_thread = RequestMark(context.registry, STORE_THREAD)
        self._is_registering = False
        self._is_ending = False
        loop.watch(self._store.fileno(), self._on_events)

    @property
    def store(self) -> CoordinationStore:
        return self._store

    @property
    def is_connected(self) -> bool:
        return self._store.state is SessionState.CONNECTED

    def begin_to_register(self) -> None:
        """Register the broker, unless it is registered or registering."""
        if self._is_registering or self.broker is not None or self._is_ending:
            return
        self._is_registering = True
        store = self._store
        self._store_thread.submit(
            lambda: register(self._context, store, self._sessions, self._listeners, self._report_status),
            self._registered,
        )

    def read(self, work: Callable[[CoordinationStore], Result], done: Callable[["Future[Result]"], None]) -> None:
        """Do `work` with the present session, in the store's thread."""
        store = self._store
        self._store_thread.submit(lambda: work(store), done)

    def handle(
        self,
        sender: ProcessKey,
        token: int,
        work: Callable[[CoordinationStore], Result],
        done: Callable[["Future[Result]"], None],
    ) -> None:
        """`read` for a request of another process, which is marked as handled meanwhile."""

        def marked(store: CoordinationStore) -> Result:
            with self._mark_in_thread.handling(sender, token):
                return work(store)

        def marked_done(future: "Future[Result]") -> None:
            with self.mark.handling(sender, token):
                done(future)

        self.read(marked, marked_done)

    def read_changes(self, then: Callable[[], object] | None = None) -> None:
        """Read changed configurations; `then` is called afterwards, even if they could not be read."""
        self.read(self._changes.read, partial(self._changed, then))

    def read_features(self, then: Callable[[], object] | None = None) -> None:
        """Follow the finalized features of the store; `then` is called afterwards, even if they could not be read."""
        self.read(finalized_features, partial(self._features_read, then))

    def _features_read(self, then: Callable[[], object] | None, future: "Future[tuple[dict[str, int], int]]") -> None:
        error = future.exception()
        if error is None and self.member is not None:
            self.member.features_changed(*future.result())
        elif error is not None and not isinstance(error, CoordinationError):
            raise error
        if then is not None:
            then()

    def end(self) -> None:
        """End the session, which notifies the controller."""
        self._is_ending = True
        self._sessions.stop()
        self._store_thread.close()
        self._loop.unwatch(self._store.fileno())
        self._sessions.end(self._store)

    def _registered(self, future: "Future[Broker]") -> None:
        self._is_registering = False
        error = future.exception()
        if error is None:
            self.broker = future.result()
            log.info("broker %d is registered, its epoch is %d", self.broker.id, self.broker.epoch)
            if self.member is not None:
                self.member.registered()
            self.read_features()
            self._check_registration()
        elif isinstance(error, UnusableMetadata):
            self.fatal_error = error
        elif not isinstance(error, CoordinationError | Stopped):
            raise error

    def _check_registration(self) -> None:
        """Watch the registration. Somebody may remove or overwrite it although the session lives."""
        if self.broker is not None:
            self.read(partial(is_registered, broker=self.broker), partial(self._registration_read, self.broker))

    def _registration_read(self, broker: Broker, future: "Future[bool]") -> None:
        error = future.exception()
        if error is not None and not isinstance(error, CoordinationError):
            raise error
        if error is None and not future.result() and self.broker is broker and not self._is_ending:
            log.warning("the registration of broker %d was removed or overwritten: it registers again", broker.id)
            self.broker = None
            self.begin_to_register()

    def _on_events(self, _events: int) -> None:
        for event in self._store.events():
            match event:
                case SessionChanged(SessionState.LOST):
                    self._session_lost()
                case SessionChanged(SessionState.CONNECTED) | WatchFired(path=nodes.CONFIG_CHANGES):
                    # A reconnect loses all watches: read the notifications since then.
                    self.read_changes()
                    self.read_features()
                    self._check_registration()
                case WatchFired(path=path) if path == f"{nodes.BROKER_IDS}/{self._context.config.node_id}":
                    self._check_registration()
                case WatchFired(path=nodes.FEATURES):
                    self.read_features()
                case _:
                    pass
            if self.member is not None:
                self.member.store_event(event)

    def _changed(self, then: Callable[[], object] | None, future: "Future[tuple[Configs, Configs, Configs]]") -> None:
        error = future.exception()
        if error is None and self.member is not None:
            self.member.configs_changed(*future.result())
        elif error is not None and not isinstance(error, CoordinationError):
            raise error
        if then is not None:
            then()

    def _session_lost(self) -> None:
        if self._is_ending:
            return
        log.error("ZooKeeper session lost: this broker leads no partitions until it has registered again")
        self.broker = None
        self._is_registering = True
        self._loop.unwatch(self._store.fileno())
        lost_store = self._store
        self._changes.session_lost()

        def reopen() -> CoordinationStore:
            lost_store.close()
            return self._sessions.begin(lambda store: store)

        self._store_thread.submit(reopen, self._reopened)
        if self.member is not None:
            self.member.session_lost()

    def _reopened(self, future: "Future[CoordinationStore]") -> None:
        error = future.exception()
        if isinstance(error, Stopped):
            return
        if error is not None:
            raise error
        self._store = future.result()
        self._loop.watch(self._store.fileno(), self._on_events)
        self.read_changes()
        self._is_registering = False
        self.begin_to_register()
