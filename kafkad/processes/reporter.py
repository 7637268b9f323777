"""The process that shows metrics: it runs the reporters that are switched on, and the HTTP pages.

It reads the counters and the partition table on request, and topic names from the controller's metadata. Nothing
here is on a data path; a reporter that fails ends this process, and no client notices.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import PurePath

from kafkad import __version__
from kafkad.adapters.links.messaging import PeerGone
from kafkad.adapters.links.port_holder import describe_holder
from kafkad.adapters.links.prometheus_http import HttpPages, health_page
from kafkad.adapters.links.supervision_channel import (
    BrokerStateChanged,
    Fatal,
    ProcessesChanged,
    Ready,
    Reload,
    Stop,
    Stopped,
)
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import CONTROLLER, ProcessKey
from kafkad.config import BrokerConfig
from kafkad.config.dynamic import with_static
from kafkad.core.controller.deltas import MetadataGap, apply, decode
from kafkad.core.metrics.metric import MetricsReporter, MetricsSnapshot, Page
from kafkad.core.metrics.snapshot import GroupLag
from kafkad.core.settings.values import integer
from kafkad.core.supervision.broker_state import BrokerState
from kafkad.core.supervision.exit_codes import REFUSED
from kafkad.hookspecs import BrokerInfo
from kafkad.plugin_loading import chosen
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.compaction_page import CompactionPage
from kafkad.processes.runtime.event_loop import IDLE, EventLoop
from kafkad.processes.runtime.metrics_view import MetricsView
from kafkad.processes.runtime.peers import Peers
from kafkad.wire.processes.cleaning_messages import Compactions
from kafkad.wire.processes.controller_messages import DELTA, SnapshotRequest, pack_message
from kafkad.wire.processes.coordinator_messages import (
    COORDINATION,
    GroupLags,
    LagsRequest,
    pack_coordination,
    unpack_coordination,
)
from kafkad.wire.processes.descriptors import CONTROL, unpack_control

log = logging.getLogger(__name__)

POLLING_INTERVAL = "kafka.metrics.polling.interval.secs"


class ReporterProcess:
    """One incarnation of the reporter. Without polled reporters and requests it sleeps."""

    def __init__(self, context: ChildContext) -> None:
        self._context = context
        self._loop = EventLoop(block=context.block)
        self._view = MetricsView(
            context.shared, context.config.log_dirs.log_dirs, per_partition=context.config.metrics.per_partition
        )
        self._pages: HttpPages | None = None
        self._reporters: list[MetricsReporter] = []
        self._peers = Peers(self._loop, context.registry, context.runtime_dir, context.key, on_frames=self._on_frames)
        self._compactions = CompactionPage(context.registry.role("cleaner"), self._peers.send)
        self._has_told_started = False
        self._has_told_stopping = False
        self._is_done = False
        self._config = context.config
        self._polling_ms = _polling_ms(self._config)
        self._poll_at_ms = monotonic_ms() + self._polling_ms

    def run(self) -> None:
        """Runs until the supervisor stops it."""
        context = self._context
        self._listen()
        self._start_reporters()
        self._loop.watch(context.channel.fd, self._on_channel)
        self._follow()
        context.channel.send(Ready())
        self._look_at_broker()
        while not self._is_done:
            self._loop.run_once(self._timeout_ms())
            self._act_on_time()
        for reporter in self._reporters:
            reporter.stop()
        if self._pages is not None:
            self._pages.close()
        self._peers.close()
        context.channel.send(Stopped())

    def snapshot(self) -> MetricsSnapshot:
        """Group lags are those of the previous request: the workers are asked now, but no one waits for their
        answers.
        """
        for worker in self._context.registry.role("worker"):
            self._peers.send(worker, pack_coordination(LagsRequest()))
        return self._view.snapshot()

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        """Without a metrics listener there are no pages; a reporter that adds one gets no error."""
        if self._pages is not None:
            self._pages.add_page(path, render)

    def _listen(self) -> None:
        place = self._context.config.metrics
        if place.listener is None:
            return
        try:
            self._pages = HttpPages(place.listener.host, place.listener.port)
        except OSError as error:
            holder = describe_holder(place.listener.port)
            reason = f"the port is taken by {holder}" if holder else str(error.strerror)
            message = f"no metrics on kafkad.metrics.listener={place.listener}: {reason}"
            if place.listener_is_default:
                # The default listener, which another broker on this machine has already: no reason for a warning.
                log.debug("%s", message)
            elif self._context.incarnation > 1:
                log.warning("%s", message)
            else:
                self._context.channel.send(Fatal(text=message, exit_code=REFUSED))
            return
        self._pages.add_page("/health", self._health)
        self._pages.add_page("/cleaner", lambda: self._compactions.render(self._view.image))
        self._loop.watch(self._pages.fileno(), self._serve_pages)

    def _health(self) -> Page:
        return health_page(self._context.registry.broker_state)

    def _serve_pages(self, _events: int) -> None:
        assert self._pages is not None, "watched as long as it is there"
        self._pages.serve_ready(monotonic_ms())

    def _start_reporters(self) -> None:
        plugins, config = self._context.plugins, self._context.config
        if plugins is None:
            return
        for name in config.plugins.metrics_reporters:
            reporter = chosen(plugins.metrics_reporters, name, "kafkad.metrics.reporters")
            reporter.start(config.texts.static, self)
            self._reporters.append(reporter)

    def _polled(self) -> list[MetricsReporter]:
        return [reporter for reporter in self._reporters if reporter.is_polled]

    def _timeout_ms(self) -> float:
        deadlines = [self._pages.next_deadline_ms()] if self._pages is not None else []
        if self._polled():
            deadlines.append(self._poll_at_ms)
        known = [deadline for deadline in deadlines if deadline is not None]
        return max(0, min(known) - monotonic_ms()) if known else IDLE

    def _act_on_time(self) -> None:
        now_ms = monotonic_ms()
        if self._pages is not None:
            due_ms = self._pages.next_deadline_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._pages.serve_ready(now_ms)
        if now_ms >= self._poll_at_ms:
            self._poll_at_ms = now_ms + self._polling_ms
            polled = self._polled()
            snapshot = self.snapshot() if polled else None
            for reporter in polled:
                assert snapshot is not None, "made because somebody wants it"
                reporter.report(snapshot)

    def _on_channel(self, _events: int) -> None:
        for message in self._context.channel.receive():
            match message:
                case ProcessesChanged():
                    self._follow()
                case BrokerStateChanged():
                    self._look_at_broker()
                case Reload(static=static):
                    self._reread(static)
                case Stop():
                    self._is_done = True
                case _:
                    continue

    def _reread(self, static: Mapping[str, str]) -> None:
        """Reporters get their settings at the start; only the polling interval can change."""
        self._config = with_static(self._config, static)
        self._polling_ms = _polling_ms(self._config)
        self._poll_at_ms = min(self._poll_at_ms, monotonic_ms() + self._polling_ms)

    def _follow(self) -> None:
        changes = self._peers.follow()
        for change in changes:
            if change.peer == CONTROLLER and not isinstance(change, PeerGone):
                self._ask_snapshot()
            elif change.peer.role == "cleaner":
                self._compactions.forget(change.peer)
            elif change.peer.role == "worker":
                self._view.group_lags.pop(change.peer, None)
                self._peers.send(change.peer, pack_coordination(LagsRequest()))
        self._peers.settle(changes)

    def _ask_snapshot(self) -> None:
        self._peers.send(CONTROLLER, pack_message(SnapshotRequest(self._view.image.version)))

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        for frame in frames:
            if frame[0] == COORDINATION:
                message = unpack_coordination(frame)
                assert isinstance(message, GroupLags), f"{type(message).__name__} is not for the reporter"
                self._view.group_lags[peer] = [GroupLag(*row) for row in message.rows]
            elif frame[0] == CONTROL:
                answer = unpack_control(frame)
                assert isinstance(answer, Compactions), f"{type(answer).__name__} is not for the reporter"
                self._compactions.heard(peer, answer)
            elif frame[0] == DELTA:
                try:
                    self._view.image = apply(self._view.image, decode(memoryview(frame)[1:]))
                except MetadataGap:
                    self._ask_snapshot()
                self._look_at_broker()

    def _look_at_broker(self) -> None:
        """Tell the plugins that observe; a broker has started once it serves and is known by its cluster id."""
        plugins, state = self._context.plugins, self._context.registry.broker_state
        if plugins is None:
            return
        if state in (BrokerState.RUNNING_AS_BROKER, BrokerState.RUNNING_AS_CONTROLLER):
            if self._view.image.cluster_id and not self._has_told_started:
                self._has_told_started = True
                plugins.broker_started(self._info())
        elif state >= BrokerState.PENDING_CONTROLLED_SHUTDOWN and not self._has_told_stopping:
            self._has_told_stopping = True
            plugins.broker_stopping(self._info())

    def _info(self) -> BrokerInfo:
        context = self._context
        return BrokerInfo(
            version=__version__,
            broker_id=context.config.node_id,
            cluster_id=self._view.image.cluster_id,
            listeners=tuple(
                f"{listener.name}://{endpoint}"
                for (listener, _), endpoint in zip(context.listeners, context.endpoints, strict=True)
            ),
            log_dirs=tuple(str(PurePath(path)) for path in context.config.log_dirs.log_dirs),
        )


def main(context: ChildContext) -> None:
    """One incarnation of the reporter."""
    ReporterProcess(context).run()


def _polling_ms(config: BrokerConfig) -> int:
    return integer(config.values, POLLING_INTERVAL) * 1000
