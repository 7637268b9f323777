"""The controller process: handles requests and reports, sends metadata and replies, writes checkpoints."""

import logging
from collections.abc import Mapping

from kafkad.adapters.files.log_directory import LogDirectoryUnusable
from kafkad.adapters.links.messaging import PeerChange, PeerGone, PeerReplaced
from kafkad.adapters.links.supervision_channel import ChannelClosed, Fatal, LeadershipMoved, Ready, Status
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION, ProcessKey
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.ports import NoSpaceLeft, StorageFailed
from kafkad.core.supervision.broker_state import BrokerState
from kafkad.core.supervision.exit_codes import FAILED, REFUSED
from kafkad.processes.controller.assembly import Opening
from kafkad.processes.controller.events import EveryDirectoryFailed, HostEvents
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.child_process import ChildProcess
from kafkad.wire.processes.controller_messages import unpack_message

log = logging.getLogger(__name__)

CHECK_INTERVAL_MS = 2
"""How often a new incarnation checks whether the workers have switched to it, before it opens the store."""


def main(context: ChildContext) -> None:
    """One incarnation of the controller. An error that would repeat in the next incarnation is sent as `Fatal`."""
    try:
        ControllerProcess(context).run()
    except (LogDirectoryUnusable, UnusableMetadata) as unusable:
        _abandon(context, Fatal(str(unusable), REFUSED))
    except EveryDirectoryFailed as offline:
        _abandon(context, Fatal(str(offline), FAILED))
    except NoSpaceLeft:
        # The change was interrupted: the next incarnation completes it when there is free space.
        raise
    except StorageFailed as failure:
        _abandon(context, Fatal(f"the coordination store can't be used: {failure}", FAILED))


def _abandon(context: ChildContext, fatal: Fatal) -> None:
    """Send the reason to the supervisor, which logs it and stops the broker."""
    try:
        context.channel.send(fatal)
    except ChannelClosed:
        log.critical("%s (the supervisor process died)", fatal.text)


class ControllerProcess(ChildProcess):
    """`run` returns when the broker stops."""

    def __init__(self, context: ChildContext) -> None:
        super().__init__(context)
        self._events: HostEvents | None = None
        self._static: Mapping[str, str] | None = None
        """The configuration file, if it was read again before the store was open."""
        self._has_begun_shutdown = False

    def run(self) -> None:
        self._wait_for_workers()
        if self.is_done:
            return
        opening = self._open()
        if opening is not None:
            self.open_links()
            self._events = opening.events(self.peers.send)
            super().run()

    def begin(self) -> None:
        self._reload_events()
        self.follow_registry()
        self.events.begin()
        self.context.channel.send(Ready())
        # The message about a SIGTERM during the start of this incarnation was not handled.
        self.broker_state_changed(self.registry.broker_state)

    @property
    def events(self) -> HostEvents:
        assert self._events is not None, "links are opened after the store"
        return self._events

    # Opening the store.

    def _wait_for_workers(self) -> None:
        """Wait until no worker handles messages of the previous incarnation: then the slots are complete."""
        if self.context.incarnation == FIRST_INCARNATION:
            return
        while not self.is_done and not self.registry.is_seen_by_all(self.context.key, "worker"):
            self.loop.run_once(CHECK_INTERVAL_MS)

    def _open(self) -> Opening | None:
        """None if the broker stops meanwhile: ZooKeeper may not respond, or a disk may be full."""
        opening = Opening(self.context, self.loop, ControllerHandover(self.context.table))
        while not self.is_done and not opening.is_done:
            self.loop.run_once()
        if not self.is_done:
            return opening
        opening.abandon()
        return None

    # Events.

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        # A heartbeat, as each message may wait for a sync of the store on a slow disk.
        self.loop.beat()
        self.events.handle(peer, unpack_message(frame), monotonic_ms())

    def follow_registry(self) -> None:
        if self._events is not None:
            super().follow_registry()

    def peer_changed(self, change: PeerChange) -> None:
        if isinstance(change, PeerGone | PeerReplaced):
            self.events.peer_ended(change.peer)
        if not isinstance(change, PeerGone):
            self.events.peer_linked(change.peer)

    def reload(self, static: Mapping[str, str]) -> None:
        self._static = static
        self._reload_events()

    def _reload_events(self) -> None:
        if self._events is not None and self._static is not None:
            self._events.reload(self._static)
            self._static = None

    def broker_state_changed(self, state: int) -> None:
        config = self.context.config
        is_enabled = config.cluster is not None and config.values["controlled.shutdown.enable"] is True
        is_due = state == BrokerState.PENDING_CONTROLLED_SHUTDOWN and not self._has_begun_shutdown
        if self._events is not None and is_enabled and is_due:
            self._has_begun_shutdown = True
            self._events.begin_controlled_shutdown(lambda: self.context.channel.send(LeadershipMoved()))

    # The work of each pass.

    def tick(self, now_ms: int) -> None:
        self.events.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self.events.next_deadline_ms

    def finish(self) -> bool:
        """The workers have stopped, so their slots are final."""
        self.context.channel.send(Status("writing checkpoints"))
        return self.events.finish()
