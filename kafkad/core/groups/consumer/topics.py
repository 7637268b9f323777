"""The topics of a KIP-848 group, subscribed by name or by pattern, and whether they have changed.

Patterns are matched by RE2, as in Apache Kafka: in time proportional to the text, for any pattern of a client.
"""

from collections.abc import Callable
from functools import lru_cache
from uuid import UUID
from zlib import crc32

from crc32c import crc32c

from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import AssigningMember
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.ports import CompilePattern
from kafkad.core.quoting import quoted

_CACHED_RESULTS = 4


class Subscriptions:
    """`compile_pattern` is RE2, outside of the core; `version` counts the changes of `topics`."""

    def __init__(self, topics: Topics, version: Callable[[], int], compile_pattern: CompilePattern) -> None:
        self.topics = topics
        self.version = version
        self._compile = lru_cache(maxsize=256)(compile_pattern)
        # Each heartbeat of a joining member needs the same results for thousands of names.
        self._matching = lru_cache(maxsize=_CACHED_RESULTS)(self._matching_in_version)
        self._ids = lru_cache(maxsize=_CACHED_RESULTS)(self._ids_in_version)
        self._hash = lru_cache(maxsize=_CACHED_RESULTS)(self._hash_in_version)

    def matching(self, pattern: str) -> tuple[str, ...]:
        """All topics that match the pattern completely, sorted. Raises INVALID_REGULAR_EXPRESSION."""
        try:
            return self._matching(pattern, self.version())
        except ValueError as error:
            text = f"SubscribedTopicRegex `{quoted(pattern)}` is not a valid regular expression: {quoted(str(error))}."
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error

    def _matching_in_version(self, pattern: str, _version: int) -> tuple[str, ...]:
        compiled = self._compile(pattern)
        return tuple(sorted(name for name in self.topics.names() if compiled.fullmatch(name) is not None))

    def ids_of(self, names: frozenset[str]) -> frozenset[UUID]:
        """The ids of existing topics."""
        return self._ids(names, self.version())

    def _ids_in_version(self, names: frozenset[str], _version: int) -> frozenset[UUID]:
        ids = map(self.topics.id_of, names)
        return frozenset(topic_id for topic_id in ids if topic_id is not None)

    def hash_of(self, names: frozenset[str]) -> int:
        """A hash that changes when a topic is created, deleted, recreated or extended; 0: none exists."""
        return self._hash(names, self.version())

    def _hash_in_version(self, names: frozenset[str], _version: int) -> int:
        found = [(name, self.topics.id_of(name), self.topics.partitions_of(name)) for name in sorted(names)]
        existing = [row for row in found if row[1] is not None]
        if not existing:
            return 0
        encoded = repr(existing).encode()
        return crc32c(encoded) << 31 ^ crc32(encoded) or 1

    def assignor_input(self, group: ConsumerGroup) -> tuple[dict[str, AssigningMember], dict[UUID, int]]:
        """The members for an assignor, and the partition counts of their existing topics."""
        ids: dict[str, UUID] = {}
        partitions: dict[UUID, int] = {}
        for name in group.subscribed_names():
            topic_id, count = self.topics.id_of(name), self.topics.partitions_of(name)
            if topic_id is not None and count is not None:
                ids[name] = topic_id
                partitions[topic_id] = count
        # Members with the same subscription share one set, as they share the list of names.
        sets: dict[tuple[int, str | None], frozenset[UUID]] = {}
        members: dict[str, AssigningMember] = {}
        for member in group.members.values():
            subscription = id(member.topics), member.regex
            topics = sets.get(subscription)
            if topics is None:
                topics = frozenset(ids[name] for name in group.topics_of(member) if name in ids)
                sets[subscription] = topics
            members[member.member_id] = AssigningMember(
                member_id=member.member_id,
                topics=topics,
                assigned=group.target.get(member.member_id, {}),
                instance_id=member.instance_id,
                rack_id=member.rack_id,
            )
        return members, partitions
