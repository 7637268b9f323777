"""Of which topics is a table wanted? Those that are named, or that a pattern finds."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafkad.cli.exporting.options import OF_ALL_TABLES, TOPIC, matcher, of_topic, topics_of
from kafkad.cli.exporting.request import NO_BROKER, request_of
from kafkad.cli.exporting.rounds import answered
from kafkad.cli.failing import WrongConfiguration
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.export.problems import BrokerAway, ExportFailed, not_answered
from kafkad.export.request import ExportRequest


def available_requests(tables: Sequence[Mapping[str, Any]], *, waits: bool) -> list[ExportRequest]:
    """`waits`: a broker that is away may be there in the first round."""
    try:
        return export_requests(tables)
    except BrokerAway:
        if not waits:
            raise
        return []


def export_requests(tables: Sequence[Mapping[str, Any]]) -> list[ExportRequest]:
    """What is asked of the table of each topic. Raises `ExportFailed`, `WrongConfiguration`."""
    return [
        request_of(**{name: each for name, each in asked.items() if name not in OF_ALL_TABLES})
        for asked in of_topics(tables)
    ]


def of_topics(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is asked of the table of each topic. Raises `WrongConfiguration`, `ExportFailed`."""
    return [of_topic(asked, topic) for asked in tables for topic in _topics(asked)]


def _topics(asked: Mapping[str, Any]) -> Sequence[str]:
    names = topics_of(asked)
    if names is not None and len(names) == 1:
        return names
    if TOPIC not in asked["out"] or (asked["table"] and TOPIC not in asked["table"]):
        raise WrongConfiguration([f"several topics need several tables: put {TOPIC} into --out (and --table)"])
    return names or _matching(asked)


def _matching(asked: Mapping[str, Any]) -> list[str]:
    """The topics that match the pattern."""
    # Who names topics needs none of these.
    from kafkad.core.controller.topics.names import is_internal  # noqa: PLC0415
    from kafkad.export.reading.log_directories import check_folders, topics_in  # noqa: PLC0415

    matches = matcher(asked["topic_pattern"])
    if asked["bootstrap"] == NO_BROKER:
        folders = [each for each in asked["log_dirs"].split(",") if each]
        check_folders(folders)
        names = [each for each in topics_in(folders) if not is_internal(each)]
    else:
        names = answered(partial(_topics_of_broker, asked), asked["timeout_s"])
    found = sorted(filter(matches, names))
    if not found:
        raise ExportFailed(f"no topic matches {asked['topic_pattern']!r}")
    return found


def _topics_of_broker(asked: Mapping[str, Any]) -> list[str]:
    try:
        with BrokerClient(asked["bootstrap"], asked["timeout_s"]) as client:
            return [each.name for each in client.topics() if not each.is_internal]
    except BrokerCallFailed as failed:
        raise not_answered(failed) from failed
