"""A broker whose metrics page a test reads, and what the page says."""

from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S

Series = tuple[str, tuple[tuple[str, str], ...]]

RUNNING = 3


class MetricsPage:
    """The page as it was when this was made."""

    def __init__(self, port: int) -> None:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WITHIN_S) as answer:
            text = answer.read().decode()
        self._values: Mapping[Series, float] = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """One series; 0 when there is none, as for one that has counted nothing yet."""
        return self._values.get((name, tuple(sorted(labels.items()))), 0)

    def total(self, name: str) -> float:
        """All series of a name together."""
        return sum(value for (known, _), value in self._values.items() if known == name)


class MeasuredBroker(Kafkad):
    """A broker whose metrics page is on a port of its own."""

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        self.metrics_port = free_port()
        listener = f"127.0.0.1:{self.metrics_port}"
        super().__init__(folder, {"kafkad.metrics.listener": listener, **(overrides or {})})

    @property
    def page(self) -> MetricsPage:
        return MetricsPage(self.metrics_port)

    def _ready_or_dead(self) -> bool:
        return super()._ready_or_dead() and self._has_page()

    def _has_page(self) -> bool:
        try:
            return self.page.value("kafka_server_kafkaserver_brokerstate") == RUNNING
        except OSError:
            return False
