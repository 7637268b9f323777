"""Metrics for Prometheus, at /metrics of `kafkad.metrics.listener`.

Snapshots are taken for requests only, so that an idle broker uses no CPU. While the broker is ready,
`kafkad_broker_info` has its version and ids.
"""

from collections.abc import Mapping, Sequence

from kafkad.api import BrokerInfo, MetricsReporter, MetricsSnapshot, Page, ReporterHost, hookimpl

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Prometheus:
    name = "prometheus"
    is_polled = False

    def __init__(self) -> None:
        self._host: ReporterHost | None = None
        self.info: BrokerInfo | None = None

    def start(self, settings: Mapping[str, str], host: ReporterHost) -> None:
        self._host = host
        host.add_page("/metrics", self._page)

    def report(self, snapshot: MetricsSnapshot) -> None:
        """Never called, because `is_polled` is False."""

    def stop(self) -> None:
        self._host = None

    def _page(self) -> Page:
        # This import takes 50 ms and 4 MB, so it is done in the reporter process, for the first request.
        from kafkad.plugins.prometheus_text import exposition  # noqa: PLC0415

        assert self._host is not None, "pages are requested between start and stop only"
        return Page(content_type=CONTENT_TYPE, body=exposition(self._host.snapshot(), self.info))


# The hooks of this module and its registered object share this: they run in the same process.
_REPORTER = Prometheus()


@hookimpl(trylast=True)
def kafkad_register_metrics_reporters() -> Sequence[MetricsReporter]:
    return [_REPORTER]


@hookimpl
def kafkad_broker_started(info: BrokerInfo) -> None:
    _REPORTER.info = info


@hookimpl
def kafkad_broker_stopping(info: BrokerInfo) -> None:
    _REPORTER.info = None
