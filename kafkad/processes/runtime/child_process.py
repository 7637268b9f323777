"""The loop of a child process, and the state of all kinds: channel, peers, metadata and configuration.

One pass waits for events, handles received frames, and then ticks the parts of the process. Each process is a subclass,
which has the parts and overrides the empty methods below.
"""

import logging
from collections.abc import Mapping

from kafkad.adapters.links.messaging import PeerChange, PeerGone
from kafkad.adapters.links.supervision_channel import (
    BrokerStateChanged,
    ChannelClosed,
    ProcessesChanged,
    Ready,
    Reload,
    Stop,
    Stopped,
)
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.config import BrokerConfig
from kafkad.config.dynamic import apply_dynamic, with_static
from kafkad.core.controller.deltas import BrokerConfigChanged, MetadataDelta, MetadataGap, Snapshot, apply, decode
from kafkad.core.controller.image import DEFAULT_BROKER, MetadataImage
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import IDLE, EventLoop
from kafkad.processes.runtime.peers import Peers
from kafkad.processes.runtime.rings import Rings
from kafkad.wire.processes.controller_messages import DELTA, ControllerMessage, SnapshotRequest, pack_message

log = logging.getLogger(__name__)


class ChildProcess:
    """One incarnation of a child process."""

    peers: Peers

    def __init__(self, context: ChildContext, loop: EventLoop | None = None) -> None:
        """`loop` is set if the process creates its own."""
        self.context = context
        self.registry = context.registry
        self.config = context.config
        """The configuration, with the dynamic changes from the metadata."""
        self.image = MetadataImage()
        self.is_done = False
        self.loop = EventLoop(block=context.block) if loop is None else loop
        self.loop.watch(context.channel.fd, self._receive_from_supervisor)

    def open_links(self, *, with_rings: bool = False) -> None:
        """Called once, before `run`. `with_rings`: also open the rings between workers and other processes."""
        context, rings = self.context, None
        if with_rings:
            rings = Rings(context.key, context.shared.rings, context.shared.doorbells, self._receive)
        self.peers = Peers(self.loop, context.registry, context.runtime_dir, context.key, self._receive, rings)

    def run(self) -> None:
        """Run passes until the broker stops."""
        self.begin()
        while not self.is_done:
            self.run_pass(self.timeout_ms())
        is_clean = self.finish()
        self.peers.close()
        try:
            self.context.channel.send(Stopped(is_clean=is_clean))
        except ChannelClosed:
            log.warning("exiting: the supervisor process died")

    def run_pass(self, timeout_ms: float) -> None:
        """Wait at most `timeout_ms`, handle the events, tick the parts."""
        self.loop.run_once(timeout_ms)
        self.tick(monotonic_ms())

    def timeout_ms(self) -> float:
        """The time until the next deadline; `IDLE` without one."""
        deadline_ms = self.next_deadline_ms()
        return IDLE if deadline_ms is None else max(0, deadline_ms - monotonic_ms())

    # Overridden by each process.

    def begin(self) -> None:
        """Before the first pass."""
        self.follow_registry()
        self.context.channel.send(Ready())

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        """A frame from `peer` that is no metadata delta."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """The work of each pass, after its frames are handled."""
        raise NotImplementedError

    def next_deadline_ms(self) -> float | None:
        """The time of the next pass if no event comes earlier (monotonic clock); a past time: at once."""
        raise NotImplementedError

    def finish(self) -> bool:
        """After the last pass. Returns whether the stop is clean."""
        return True

    def peer_changed(self, change: PeerChange) -> None:
        """An incarnation of another process began or ended."""

    def metadata_changed(self, before: MetadataImage, delta: MetadataDelta) -> None:
        """`delta` has changed the metadata from `before` to `self.image`."""

    def metadata_applied(self) -> None:
        """This process has applied `self.image`; responses may wait for that."""
        self.registry.set_applied_version(self.context.key, self.image.version)

    def configure(self, config: BrokerConfig) -> None:
        """The options of the broker have changed."""
        self.config = config

    def reload(self, static: Mapping[str, str]) -> None:
        """The configuration file was read again (SIGHUP)."""
        self.configure(with_static(self.config, static))

    def broker_state_changed(self, state: int) -> None:
        """The supervisor has put `state` into the process registry."""

    def stop(self, deadline_ms: int) -> None:
        """The broker stops; after `deadline_ms` (monotonic clock) this process is killed."""
        self.is_done = True

    # The supervisor, the other processes, the controller's metadata.

    def _receive_from_supervisor(self, _events: int) -> None:
        try:
            messages = self.context.channel.receive()
        except ChannelClosed:
            self.is_done = True
            return
        for message in messages:
            match message:
                case ProcessesChanged():
                    self.follow_registry()
                case Stop(deadline_ms):
                    self.stop(deadline_ms)
                case Reload(static):
                    self.reload(static)
                case BrokerStateChanged(state):
                    self.broker_state_changed(state)
                case _:
                    continue

    def follow_registry(self) -> None:
        """Open and close links by the process registry; request a metadata snapshot from a new controller."""
        changes = self.peers.follow()
        for change in changes:
            if change.peer == CONTROLLER and not isinstance(change, PeerGone):
                self.request_snapshot()
            self.peer_changed(change)
        self.peers.mark_seen(changes)

    def request_snapshot(self) -> None:
        self.notify_controller(SnapshotRequest(self.image.version))

    def notify_controller(self, message: ControllerMessage) -> None:
        """Send `message`; without a controller it is dropped, as each new controller requests the state it requires."""
        self.peers.send(CONTROLLER, pack_message(message))

    def _receive(self, peer: ProcessKey, frames: list[bytes]) -> None:
        is_controller = peer == CONTROLLER
        for frame in frames:
            if is_controller and frame[0] == DELTA:
                self._apply(decode(memoryview(frame)[1:]))
            else:
                self.handle(peer, frame)

    def _apply(self, delta: MetadataDelta) -> None:
        try:
            image = apply(self.image, delta)
        except MetadataGap:
            self.request_snapshot()
            return
        if image is not self.image:
            before, self.image = self.image, image
            if any(isinstance(change, BrokerConfigChanged | Snapshot) for change in delta.changes):
                self._apply_broker_configs()
            self.metadata_changed(before, delta)
        self.metadata_applied()

    def _apply_broker_configs(self) -> None:
        configs = self.image.broker_configs
        own = configs.get(str(self.config.node_id), {})
        config = apply_dynamic(self.config, configs.get(DEFAULT_BROKER, {}), own)
        if config != self.config:
            self.configure(config)
