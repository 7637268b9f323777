"""The topics to export: given by name or by pattern."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafkad.cli.errors import WrongConfiguration
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad_lakehouse.cli.options import SHARED_OPTIONS, TOPIC, matcher, of_topic, topics_of
from kafkad_lakehouse.cli.request import NO_BROKER, request_of
from kafkad_lakehouse.cli.rounds import with_retries
from kafkad_lakehouse.export.problems import BrokerUnavailable, ExportFailed, export_failure
from kafkad_lakehouse.export.request import ExportRequest


def available_requests(tables: Sequence[Mapping[str, Any]], *, waits: bool) -> list[ExportRequest]:
    """The requests; with `waits` none if no broker responds, which may respond in the first run."""
    try:
        return export_requests(tables)
    except BrokerUnavailable:
        if not waits:
            raise
        return []


def export_requests(tables: Sequence[Mapping[str, Any]]) -> list[ExportRequest]:
    """The request for the table of each topic. Raises `ExportFailed`, `WrongConfiguration`."""
    return [
        request_of(**{name: each for name, each in options.items() if name not in SHARED_OPTIONS})
        for options in of_topics(tables)
    ]


def of_topics(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The options for the table of each topic. Raises `WrongConfiguration`, `ExportFailed`."""
    return [of_topic(options, topic) for options in tables for topic in _topics(options)]


def _topics(options: Mapping[str, Any]) -> Sequence[str]:
    names = topics_of(options)
    if names is not None and len(names) == 1:
        return names
    if TOPIC not in options["out"] or (options["table"] and TOPIC not in options["table"]):
        raise WrongConfiguration([f"several topics need several tables: use {TOPIC} in --out (and --table)"])
    return names or _matching(options)


def _matching(options: Mapping[str, Any]) -> list[str]:
    """The topics that match the pattern."""
    # Only patterns need them.
    from kafkad.core.controller.topics.names import is_internal  # noqa: PLC0415
    from kafkad_lakehouse.export.reading.log_directories import check_folders, topics_in  # noqa: PLC0415

    matches = matcher(options["topic_pattern"])
    if options["bootstrap"] == NO_BROKER:
        folders = [each for each in options["log_dirs"].split(",") if each]
        check_folders(folders)
        names = [each for each in topics_in(folders) if not is_internal(each)]
    else:
        names = with_retries(partial(_topics_of_broker, options), options["timeout_s"])
    found = sorted(filter(matches, names))
    if not found:
        raise ExportFailed(f"no topic matches {options['topic_pattern']!r}")
    return found


def _topics_of_broker(options: Mapping[str, Any]) -> list[str]:
    try:
        with BrokerClient(options["bootstrap"], options["timeout_s"]) as client:
            return [each.name for each in client.topics() if not each.is_internal]
    except BrokerCallFailed as failed:
        raise export_failure(failed) from failed
