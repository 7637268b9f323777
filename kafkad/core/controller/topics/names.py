"""Legal topic names, and names that collide: Kafka's rules and messages.

Metrics write '.' as '_', so two topics that differ only there would share their metrics.
"""

import re
from collections.abc import Iterable

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION with the reason for an illegal name."""
    reason = _name_error(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_legal(name: str) -> bool:
    return _name_error(name) is None


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def _name_error(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{quoted(name)}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


class CollisionIndex:
    """The topics whose names contain '.' or '_', by their name in metrics."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: dict[str, set[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        if _may_collide(name):
            self._names.setdefault(name_in_metrics(name), set()).add(name)

    def remove(self, name: str) -> None:
        names = self._names.get(name_in_metrics(name))
        if names is not None:
            names.discard(name)
            if not names:
                del self._names[name_in_metrics(name)]

    def check(self, name: str) -> None:
        """Raises INVALID_TOPIC_EXCEPTION if another topic would share the metrics of this name."""
        others = self._names.get(name_in_metrics(name)) if _may_collide(name) else None
        if others:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {min(others)}",
            )


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def name_in_metrics(name: str) -> str:
    """The name in metrics; topics with the same one collide."""
    return name.replace(".", "_")
