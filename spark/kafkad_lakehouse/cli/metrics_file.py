"""Metrics of a run for Prometheus, through the textfile collector of the node exporter."""

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from kafkad.cli.errors import WrongConfiguration
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import Summary
from kafkad_lakehouse.export.sinks.complete_hours import hour_of


def check_metrics_file(path: Path) -> None:
    """Check before a run that the folder of the file is writable. Raises `WrongConfiguration`."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise WrongConfiguration([f"--metrics-file: {path} can't be written: {error.strerror}"]) from error


def write_metrics(path: Path, summaries: Sequence[tuple[ExportRequest, Summary]]) -> None:
    """Replace the file atomically. Raises `ExportFailed`."""
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for request, summary in summaries:
        for name, text, value in _rows(summary):
            if name not in gauges:
                gauges[name] = Gauge(f"kafkad_export_{name}", text, ["name", "topic"], registry=registry)
            gauges[name].labels(request.name, request.topic).set(value)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise ExportFailed(f"{path} can't be written: {error.strerror}") from error


def _rows(summary: Summary) -> list[tuple[str, str, float]]:
    until = summary.complete_until
    rows: list[tuple[str, str, float]] = [
        ("records", "Records of the last run.", summary.records),
        ("bytes", "Bytes of the files that the last run wrote.", summary.bytes),
        ("seconds", "Duration of the last run.", summary.seconds),
        ("unparsed_values", "Records and damaged batches that could not be read.", summary.unparsed),
        ("skipped_batches", "Damaged batches that the last run skipped.", len(summary.skipped)),
        (
            "lost_offsets",
            "Records that were deleted before they were exported.",
            sum(e.end - e.start for e in summary.lost),
        ),
    ]
    if until is not None:
        # Without a complete hour any value would be misleading.
        text = "End of the last complete hour of the table, in seconds since 1970."
        rows.append(("complete_until_timestamp_seconds", text, hour_of(until).timestamp()))
    return rows
