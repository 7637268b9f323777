"""The process that exports metrics: it runs the configured reporters and serves the HTTP pages.

On request it reads the counters, the partition table and the topic names in the metadata. It is on no data path: a
reporter that fails ends only this process.
"""

import logging
from collections.abc import Callable
from pathlib import PurePath

from kafkad import __version__
from kafkad.adapters.links.messaging import PeerChange
from kafkad.adapters.links.port_holder import describe_holder
from kafkad.adapters.links.prometheus_http import HttpPages, health_page
from kafkad.adapters.links.supervision_channel import Fatal
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.controller.deltas import MetadataDelta
from kafkad.core.controller.image import MetadataImage
from kafkad.core.metrics.metric import MetricsReporter, MetricsSnapshot, Page
from kafkad.core.metrics.snapshot import GroupLag
from kafkad.core.settings.values import integer
from kafkad.core.supervision.broker_state import BrokerState
from kafkad.core.supervision.exit_codes import REFUSED
from kafkad.hookspecs import BrokerInfo
from kafkad.plugin_loading import chosen
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.child_process import ChildProcess
from kafkad.processes.runtime.compaction_page import CompactionPage
from kafkad.processes.runtime.metrics_view import MetricsView
from kafkad.wire.processes.cleaning_messages import Compactions
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


class ReporterProcess(ChildProcess):
    """One incarnation of the reporter. Without polled reporters and requests it sleeps."""

    def __init__(self, context: ChildContext) -> None:
        super().__init__(context)
        self._view = MetricsView(
            context.shared, context.config.log_dirs.log_dirs, per_partition=context.config.metrics.per_partition
        )
        self._pages: HttpPages | None = None
        self._reporters: list[MetricsReporter] = []
        self._polled: list[MetricsReporter] = []
        self.open_links()
        self._compactions = CompactionPage(context.registry.role("cleaner"), self.peers)
        self._has_reported_start = False
        self._has_reported_stop = False
        self._polling_ms = _polling_ms(self.config)
        self._poll_at_ms = monotonic_ms() + self._polling_ms

    def begin(self) -> None:
        self._listen()
        self._start_reporters()
        super().begin()
        self._notify_plugins()

    def finish(self) -> bool:
        for reporter in self._reporters:
            reporter.stop()
        if self._pages is not None:
            self._pages.close()
        return True

    def snapshot(self) -> MetricsSnapshot:
        """The present metrics; group lags are from the previous snapshot, as the workers send new ones later."""
        for worker in self.registry.role("worker"):
            self.peers.send(worker, pack_coordination(LagsRequest()))
        return self._view.snapshot()

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        """Add a page; without a metrics listener this does nothing."""
        if self._pages is not None:
            self._pages.add_page(path, render)

    def _listen(self) -> None:
        metrics = self.context.config.metrics
        if metrics.listener is None:
            return
        try:
            self._pages = HttpPages(metrics.listener.host, metrics.listener.port)
        except OSError as error:
            holder = describe_holder(metrics.listener.port)
            reason = f"the port is taken by {holder}" if holder else str(error.strerror)
            message = f"no metrics on kafkad.metrics.listener={metrics.listener}: {reason}"
            if metrics.listener_is_default:
                # No warning: another broker on this machine has the default listener.
                log.debug("%s", message)
            elif self.context.incarnation > 1:
                log.warning("%s", message)
            else:
                self.context.channel.send(Fatal(text=message, exit_code=REFUSED))
            return
        self._pages.add_page("/health", self._health)
        self._pages.add_page("/cleaner", lambda: self._compactions.render(self._view.image))
        self.loop.watch(self._pages.fileno(), self._serve_pages)

    def _health(self) -> Page:
        return health_page(self.context.registry.broker_state)

    def _serve_pages(self, _events: int) -> None:
        assert self._pages is not None, "only open pages are watched"
        self._pages.serve_ready(monotonic_ms())

    def _start_reporters(self) -> None:
        plugins, config = self.context.plugins, self.context.config
        if plugins is None:
            return
        for name in config.plugins.metrics_reporters:
            reporter = chosen(plugins.metrics_reporters, name, "kafkad.metrics.reporters")
            reporter.start(config.texts.static, self)
            self._reporters.append(reporter)
        self._polled = [reporter for reporter in self._reporters if reporter.is_polled]

    # The work of each pass.

    def next_deadline_ms(self) -> int | None:
        deadlines = [self._pages.next_deadline_ms()] if self._pages is not None else []
        if self._polled:
            deadlines.append(self._poll_at_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now_ms: int) -> None:
        if self._pages is not None:
            due_ms = self._pages.next_deadline_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._pages.serve_ready(now_ms)
        if now_ms >= self._poll_at_ms:
            self._poll_at_ms = now_ms + self._polling_ms
            snapshot = self.snapshot() if self._polled else None
            for reporter in self._polled:
                assert snapshot is not None, "there is one if any reporter is polled"
                reporter.report(snapshot)

    # Events.

    def configure(self, config: BrokerConfig) -> None:
        """Only the polling interval can change; reporters get their settings at the start."""
        super().configure(config)
        self._polling_ms = _polling_ms(config)
        self._poll_at_ms = min(self._poll_at_ms, monotonic_ms() + self._polling_ms)

    def broker_state_changed(self, state: int) -> None:
        self._notify_plugins()

    def peer_changed(self, change: PeerChange) -> None:
        if change.peer.role == "cleaner":
            self._compactions.forget(change.peer)
        elif change.peer.role == "worker":
            self._view.group_lags.pop(change.peer, None)
            self.peers.send(change.peer, pack_coordination(LagsRequest()))

    def metadata_changed(self, before: MetadataImage, delta: MetadataDelta) -> None:
        self._view.image = self.image
        self._notify_plugins()

    def handle(self, peer: ProcessKey, frame: bytes) -> None:
        if frame[0] == COORDINATION:
            lags = unpack_coordination(frame)
            assert isinstance(lags, GroupLags), f"{type(lags).__name__} is not for the reporter"
            self._view.group_lags[peer] = [GroupLag(*row) for row in lags.rows]
        elif frame[0] == CONTROL:
            compactions = unpack_control(frame)
            assert isinstance(compactions, Compactions), f"{type(compactions).__name__} is not for the reporter"
            self._compactions.update(peer, compactions)

    def _notify_plugins(self) -> None:
        """A broker has started when it serves and the metadata has its cluster id."""
        plugins, state = self.context.plugins, self.registry.broker_state
        if plugins is None:
            return
        if state in (BrokerState.RUNNING_AS_BROKER, BrokerState.RUNNING_AS_CONTROLLER):
            if self.image.cluster_id and not self._has_reported_start:
                self._has_reported_start = True
                plugins.broker_started(self._info())
        elif state >= BrokerState.PENDING_CONTROLLED_SHUTDOWN and not self._has_reported_stop:
            self._has_reported_stop = True
            plugins.broker_stopping(self._info())

    def _info(self) -> BrokerInfo:
        context = self.context
        return BrokerInfo(
            version=__version__,
            broker_id=context.config.node_id,
            cluster_id=self.image.cluster_id,
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
