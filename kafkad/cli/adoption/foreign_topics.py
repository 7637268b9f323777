"""The topics of another cluster: id, number of partitions, configs. Each source returns the same values.

This module reads files: JSON or output of kafka-topics.sh. Other modules read the KRaft metadata log and ZooKeeper.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from kafkad.core.controller.store.nodes import decode_id

_PRINTED = re.compile(
    r"Topic:\s*(?P<name>\S+)\s+(?:TopicId:\s*(?P<id>\S+)\s+)?PartitionCount:\s*(?P<partitions>\d+)\s+"
    r"ReplicationFactor:\s*\d+\s+Configs:\s*(?P<configs>\S*)\s*"
)
# A value may have commas; a name has none.
_PAIR = re.compile(r"([a-z][a-z.]*)=(.*?)(?=,[a-z][a-z.]*=|$)")


class UnreadableSource(Exception):
    """A source of topic configs can't be read; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTopic:
    """`topic_id` and `partitions` are None if unknown. `configs` are the configs of the topic, without defaults."""

    topic_id: UUID | None = None
    partitions: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCluster:
    """`broker_configs`: cluster-wide dynamic configs, which are in no server.properties."""

    source: str
    topics: Mapping[str, ForeignTopic]
    broker_configs: Mapping[str, str] = field(default_factory=dict)


def read_configs_file(path: Path) -> ForeignCluster:
    """`{"orders": {"retention.ms": "-1"}}`, or the lines of `kafka-topics.sh --describe`. Raises UnreadableSource."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSource(f"{path} can't be read: {error}") from error
    topics = _from_json(path, text) if text.lstrip().startswith("{") else _from_printed(path, text)
    return ForeignCluster(source=str(path), topics=topics)


def _from_json(path: Path, text: str) -> dict[str, ForeignTopic]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UnreadableSource(f"{path} is not JSON: {error}") from error
    topics = {}
    for name, configs in content.items():
        if not isinstance(configs, dict) or not all(isinstance(value, str | int) for value in configs.values()):
            raise UnreadableSource(f"{path}: expected an object of configs for topic {name!r}, found {configs!r}")
        topics[name] = ForeignTopic(configs={key: _text(value) for key, value in configs.items()})
    return topics


def _text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_printed(path: Path, text: str) -> dict[str, ForeignTopic]:
    topics = {}
    for line in text.splitlines():
        found = _PRINTED.fullmatch(line)
        if found is not None:
            topics[found["name"]] = ForeignTopic(
                topic_id=_id(path, found["id"]) if found["id"] else None,
                partitions=int(found["partitions"]),
                configs=dict(_PAIR.findall(found["configs"])),
            )
    if not topics:
        raise UnreadableSource(f"{path} has neither a JSON object nor lines of kafka-topics.sh --describe")
    return topics


def _id(path: Path, text: str) -> UUID:
    try:
        return decode_id(text)
    except ValueError as error:
        raise UnreadableSource(f"{path}: {text!r} is not a topic id") from error
