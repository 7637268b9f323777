"""The controller process's loop: receives requests and reports, sends metadata and replies, writes checkpoints."""

import logging
from collections.abc import Callable, Mapping

from kafkad.adapters.files.log_directory import LogDirectoryUnusable
from kafkad.adapters.links.messaging import PeerGone, PeerReplaced
from kafkad.adapters.links.supervision_channel import (
    BrokerStateChanged,
    ChannelClosed,
    Fatal,
    LeadershipMoved,
    ProcessesChanged,
    Ready,
    Reload,
    Status,
    Stop,
    Stopped,
)
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION, ProcessKey
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.supervision.broker_state import BrokerState
from kafkad.core.supervision.exit_codes import FAILED, REFUSED
from kafkad.processes.controller.cluster.assembly import ClusterOpening
from kafkad.processes.controller.cluster.events import HostEvents
from kafkad.processes.controller.events import ControllerEvents, EveryDirectoryFailed, Send
from kafkad.processes.controller.startup import Opened, open_controller
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import IDLE, EventLoop
from kafkad.processes.runtime.peers import Peers
from kafkad.wire.processes.controller_messages import unpack_message

log = logging.getLogger(__name__)

Events = ControllerEvents | HostEvents
"""A single broker decides by itself; one in a cluster is told."""
MakeEvents = Callable[[Send], Events]
CHECK_INTERVAL_MS = 2
"""How often a new incarnation checks whether the workers have switched to it; it does nothing else until then."""
SPACE_CHECK_MS = 1_000
"""How often an incarnation retries its start while the disk is full."""


def main(context: ChildContext) -> None:
    """One incarnation of the controller. An error that the next incarnation would meet again is sent as `Fatal`."""
    try:
        ControllerProcess(context).run()
    except (LogDirectoryUnusable, UnusableMetadata) as refusal:
        _abandon(context, Fatal(str(refusal), REFUSED))
    except EveryDirectoryFailed as offline:
        _abandon(context, Fatal(str(offline), FAILED))
    except NoSpaceLeft:
        # The change was interrupted: the next incarnation completes it when there is room.
        raise
    except StorageFailed as failure:
        _abandon(context, Fatal(f"the coordination store can't be used: {failure}", FAILED))


def _abandon(context: ChildContext, fatal: Fatal) -> None:
    """The supervisor logs the reason in its one line about the end of the broker."""
    try:
        context.channel.send(fatal)
    except ChannelClosed:
        log.critical("the supervisor is gone: %s", fatal.text)


class ControllerProcess:
    """`run` returns when the broker stops."""

    def __init__(self, context: ChildContext) -> None:
        self._context = context
        self._registry = context.registry
        self._is_stopping = False
        self.loop = EventLoop(block=context.block)
        self.loop.watch(context.channel.fd, self._on_channel)
        self._events: Events | None = None
        self._peers: Peers | None = None
        self._reread: Mapping[str, str] | None = None
        """The reread configuration, if it came before the controller was started."""
        self._has_begun_shutdown = False

    def run(self) -> None:
        self._wait_for_workers()
        if self._is_stopping:
            return
        context = self._context
        handover = ControllerHandover(context.table)
        make = self._open_single(handover) if context.config.cluster is None else self._open_in_cluster(handover)
        if make is None:
            return
        self._peers = Peers(self.loop, self._registry, context.runtime_dir, context.key, self._on_frames)
        events = self._events = make(self._peers.send)
        self._apply_reread()
        self._follow_registry()
        events.begin()
        context.channel.send(Ready())
        if self._registry.broker_state == BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            # SIGTERM came while this incarnation started: its message found nobody who could act on it.
            self._begin_controlled_shutdown()
        while not self._is_stopping:
            self.loop.run_once(self._timeout_ms())
            events.finish_pass(monotonic_ms())
        self._leave(events, self._peers)

    def _wait_for_workers(self) -> None:
        """Wait until no worker can act on messages of the previous incarnation: then the slots are complete."""
        if self._context.incarnation == FIRST_INCARNATION:
            return
        while not self._is_stopping and not self._registry.is_seen_by_all(self._context.key, "worker"):
            self.loop.run_once(CHECK_INTERVAL_MS)

    def _open_single(self, handover: ControllerHandover) -> MakeEvents | None:
        opened = self._open(handover)
        if opened is None:
            return None
        return lambda send: ControllerEvents(self._context, handover, opened, send, monotonic_ms())

    def _open_in_cluster(self, handover: ControllerHandover) -> MakeEvents | None:
        """None if the broker stops while it waits for ZooKeeper."""
        opening = ClusterOpening(self._context, self.loop, handover)
        while not self._is_stopping and not opening.is_done:
            self.loop.run_once()
        if self._is_stopping:
            opening.abandon()
            return None
        return opening.events

    def _open(self, handover: ControllerHandover) -> Opened | None:
        """None if the broker stops. A full disk refuses the broker's start; later, all other processes go on."""
        has_said_so = False
        while not self._is_stopping:
            try:
                return open_controller(self._context, handover)
            except NoSpaceLeft as error:
                if self._context.incarnation == FIRST_INCARNATION:
                    raise StorageFailed(str(error)) from error
                if not has_said_so:
                    log.error("no topics can be changed before there is room again: %s", error)
                has_said_so = True
            self.loop.run_once(SPACE_CHECK_MS)
        return None

    def _on_channel(self, _events: int) -> None:
        try:
            messages = self._context.channel.receive()
        except ChannelClosed:
            self._is_stopping = True
            return
        for message in messages:
            match message:
                case ProcessesChanged():
                    self._follow_registry()
                case Stop():
                    self._is_stopping = True
                case BrokerStateChanged(BrokerState.PENDING_CONTROLLED_SHUTDOWN):
                    self._begin_controlled_shutdown()
                case Reload(static):
                    self._reread = static
                    self._apply_reread()
                case _:
                    continue

    def _begin_controlled_shutdown(self) -> None:
        is_requested = (
            self._context.config.values["controlled.shutdown.enable"] is True and not self._has_begun_shutdown
        )
        if isinstance(self._events, HostEvents) and is_requested:
            self._has_begun_shutdown = True
            self._events.begin_controlled_shutdown(lambda: self._context.channel.send(LeadershipMoved()))

    def _apply_reread(self) -> None:
        if self._events is not None and self._reread is not None:
            self._events.reread(self._reread)
            self._reread = None

    def _follow_registry(self) -> None:
        if self._peers is None or self._events is None:
            return
        changes = self._peers.follow()
        for change in changes:
            if isinstance(change, PeerGone | PeerReplaced):
                self._events.peer_ended(change.peer)
            if not isinstance(change, PeerGone):
                self._events.peer_linked(change.peer)
        self._peers.settle(changes)

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        assert self._events is not None, "links are opened after the store"
        now_ms = monotonic_ms()
        for frame in frames:
            # Each may wait for a sync of the store; a hundred of them on a slow disk are no hang.
            self.loop.beat()
            self._events.heard(peer, unpack_message(frame), now_ms)

    def _timeout_ms(self) -> float:
        assert self._events is not None
        deadline_ms = self._events.next_deadline_ms
        return IDLE if deadline_ms is None else max(0, deadline_ms - monotonic_ms())

    def _leave(self, events: Events, peers: Peers) -> None:
        """The workers have stopped, so their slots are final."""
        self._context.channel.send(Status("writing checkpoints"))
        is_clean = events.finish()
        peers.close()
        try:
            self._context.channel.send(Stopped(is_clean=is_clean))
        except ChannelClosed:
            log.warning("ends: the supervisor has died")
