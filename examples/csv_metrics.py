"""A metrics reporter that appends to one CSV file per metric, like Kafka's old KafkaCSVMetricsReporter.

`kafkad.metrics.reporters=prometheus,csv`, then Kafka's own options: `kafka.csv.metrics.dir` (made when missing),
`kafka.csv.metrics.reporter.enabled`, `kafka.metrics.polling.interval.secs`. Columns: `time_ms`, `labels`, `value`.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafkad.api import MetricFamily, MetricsReporter, MetricsSnapshot, ReporterHost, hookimpl

kafkad_requires = 1
DIRECTORY = "kafka.csv.metrics.dir"
ENABLED = "kafka.csv.metrics.reporter.enabled"


class CsvReporter:
    name = "csv"
    is_polled = True

    def __init__(self) -> None:
        self._directory: Path | None = None

    def start(self, settings: Mapping[str, str], host: ReporterHost) -> None:
        if settings.get(ENABLED, "true").lower() != "true":
            return
        if DIRECTORY not in settings:
            raise ValueError(f"{DIRECTORY} must say where the files go")
        self._directory = Path(settings[DIRECTORY])
        self._directory.mkdir(parents=True, exist_ok=True)

    def report(self, snapshot: MetricsSnapshot) -> None:
        if self._directory is None:
            return
        for family in snapshot.families:
            if family.samples:
                _append(self._directory / f"{family.name}.csv", family, snapshot.taken_ms)

    def stop(self) -> None:
        pass


def _append(path: Path, family: MetricFamily, taken_ms: int) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(["time_ms", "labels", "value"])
        for sample in family.samples:
            labels = ";".join(f"{label}={value}" for label, value in sample.labels)
            writer.writerow([taken_ms, labels, sample.value])


@hookimpl
def kafkad_register_metrics_reporters() -> Sequence[MetricsReporter]:
    return [CsvReporter()]
