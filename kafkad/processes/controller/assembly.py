"""Builds the parts of the controller process when the session with the coordination store is open."""

from concurrent.futures import Future

from kafkad.adapters.links.supervision_channel import Status
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION
from kafkad.adapters.stores.session_file import SessionFile
from kafkad.processes.controller.controller_role import ControllerRole
from kafkad.processes.controller.electable_controller import ElectableController
from kafkad.processes.controller.events import HostEvents
from kafkad.processes.controller.membership import Membership
from kafkad.processes.controller.opening import OpenedHost, open_host
from kafkad.processes.controller.ports import Send
from kafkad.processes.controller.requests.own_configs import OwnConfigs
from kafkad.processes.controller.startup import registered_listeners
from kafkad.processes.controller.store.embedded_session import EmbeddedSession
from kafkad.processes.controller.store.sessions import Sessions
from kafkad.processes.controller.store.zookeeper_sessions import ZookeeperSessions
from kafkad.processes.controller.store_thread import StoreThread
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import EventLoop


class Opening:
    """Opens the session and reads the tree in a thread. Run the loop until `is_done`."""

    def __init__(self, context: ChildContext, loop: EventLoop, handover: ControllerHandover) -> None:
        self.is_done = False
        self._context = context
        self._loop = loop
        self._handover = handover
        self._sessions = _sessions(context)
        self._store_thread = StoreThread(loop)
        self._future: Future[OpenedHost] | None = None
        self._store_thread.submit(lambda: open_host(context, handover, self._sessions), self._opened)

    def _opened(self, future: "Future[OpenedHost]") -> None:
        self._future = future
        self.is_done = True

    def abandon(self) -> None:
        """The broker stops."""
        self._sessions.stop()
        self._store_thread.close()

    def events(self, send: Send) -> HostEvents:
        """Raises the exception of the opening."""
        assert self._future is not None, "the opening is done"
        opened = self._future.result()
        context = self._context
        listeners = tuple(registered_listeners(context).values())
        membership = Membership(
            context,
            self._loop,
            self._store_thread,
            self._sessions,
            opened,
            listeners,
            lambda text: context.channel.send(Status(text)),
        )
        events = HostEvents(context, self._handover, opened, send, membership, monotonic_ms())
        membership.member = events
        own_configs = OwnConfigs(context, events, membership, send)
        controller = ElectableController(context, opened.hosting if context.config.cluster is None else None)
        elected = ControllerRole(events, membership, controller, own_configs, context.config, self._loop, send)
        events.attach(elected)
        return events


def _sessions(context: ChildContext) -> Sessions:
    cluster, first = context.config.cluster, context.log_directories[0]
    if cluster is None:
        return EmbeddedSession(context)
    return ZookeeperSessions(
        cluster,
        SessionFile(first.path, cluster.zookeeper_connect) if first.is_online else None,
        resumes=context.incarnation > FIRST_INCARNATION,
    )
